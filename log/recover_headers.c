/* First half of recovery: names, the vote file, the segments' headers. */
#include "log/recover_parts.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

int recovery_damaged(struct recovery *recovery, const struct recovery_source *source,
                     const struct recovery_finding *finding, const char *format, ...) {
    if (!recovery->damage.found) {
        struct reason text = {{0}};
        va_list args;
        va_start(args, format);
        (void)vsnprintf(text.text, sizeof(text.text), format, args);
        va_end(args);
        (void)reason_set(&recovery->damage.first, LKV_EDAMAGED, "%s/%s:%llu: %.300s", source->dir,
                         finding->file, (unsigned long long)finding->offset, text.text);
    }
    recovery->damage.found = true;
    const struct recovery_observer *observer = source->observer;
    return observer != NULL ? observer->on_damage(observer->arg, finding) : 0;
}

static int open_vote(struct recovery *recovery, const struct recovery_source *source,
                     struct reason *why) {
    recovery->blank = !recovery->names.vote && recovery->names.segment_count == 0;
    if (recovery->blank) {
        return 0;
    }
    struct reason detail = {{0}};
    int rc = recovery->names.vote
                 ? vote_open(&recovery->vote, source->disk, source->dir, source->open_flags,
                             source->identity, &recovery->vote_slots_valid, &detail)
                 : reason_set(&detail, LKV_EDAMAGED, "expected the file beside the segments");
    if (rc == LKV_EDAMAGED) {
        /* Rule 11: without a vote this node must not vote, whatever its log says. */
        recovery->damage.no_vote = true;
        struct recovery_finding finding = {.file = LOG_VOTE_NAME, .text = "no readable vote"};
        return recovery_damaged(
            recovery, source, &finding,
            "%s. Its entries can be read, with `kvctl log dump`, but it must not "
            "vote again",
            detail.text);
    }
    if (rc != 0) {
        return reason_set(why, rc, "%s", detail.text);
    }
    return 0;
}

static bool same_identity(const struct log_identity *a, const struct log_identity *b) {
    return a->cluster_id == b->cluster_id && a->group_id == b->group_id;
}

/* What must hold for a header beyond its own checksum. */
static int judge_header(const struct recovery_source *source, const struct segment_header *header,
                        uint64_t number, struct reason *why) {
    if (source->identity != NULL && !same_identity(source->identity, &header->identity)) {
        return reason_set(why, LKV_EIDENTITY,
                          "belongs to cluster %016llx group %llu, expected %016llx group %llu",
                          (unsigned long long)header->identity.cluster_id,
                          (unsigned long long)header->identity.group_id,
                          (unsigned long long)source->identity->cluster_id,
                          (unsigned long long)source->identity->group_id);
    }
    if (header->number != number) {
        return reason_set(why, LKV_EDAMAGED, "expected segment %llu, found the header of %llu",
                          (unsigned long long)number, (unsigned long long)header->number);
    }
    return 0;
}

static int read_header(struct disk_file *file, struct segment_header *header, struct reason *why) {
    uint8_t block[LOG_HEADER_SIZE];
    size_t got;
    int rc = disk_read(file, 0, block, sizeof(block), &got);
    if (rc == LKV_EIO) { /* an error that passes is no damage (records: see scan.c) */
        rc = disk_read(file, 0, block, sizeof(block), &got);
    }
    if (rc != 0) {
        return reason_set(why, rc, "cannot read: %s", error_text(rc));
    }
    return segment_header_decode(slice_of(block, got), header, why);
}

/* Takes the file, if there is one. Of a damaged header nothing is known but the number (`headless`). */
static int take_segment(struct recovery *recovery, struct disk_file *file,
                        const struct segment_header *header, uint64_t size, bool headless,
                        bool unread) {
    /* No record fits into less than a block: nothing is looked for there. */
    struct segment *segment = segment_new(header, file, size < LOG_BLOCK ? 0 : size);
    if (segment == NULL) {
        disk_close(file);
        return LKV_ENOMEM;
    }
    segment->headless = headless;
    segment->unread = unread;
    if (!headless && !recovery->vote.file && recovery->vote.record.identity.cluster_id == 0) {
        recovery->vote.record.identity = header->identity;
    }
    recovery->segments[recovery->segment_count++] = segment;
    return 0;
}

/* Rules 7 and 8: a real name is only ever given to a file with a durable header, of full size. */
static int judge_segment(struct recovery *recovery, const struct recovery_source *source,
                         const char *name, const struct segment_header *header, uint64_t size,
                         int rc, const struct reason *detail) {
    struct recovery_finding finding = {.file = name, .text = "bad segment header"};
    if (rc != 0) {
        return recovery_damaged(recovery, source, &finding, "bad header: %s", detail->text);
    }
    if (header->capacity == size) {
        return 0;
    }
    bool newest = header->number == recovery->names.segments[recovery->names.segment_count - 1];
    recovery->damage.end_unknown |= newest && size < header->capacity;
    return recovery_damaged(recovery, source, &finding,
                            "bad header: expected a file of %llu bytes, found %llu",
                            (unsigned long long)header->capacity, (unsigned long long)size);
}

static int load_segment(struct recovery *recovery, const struct recovery_source *source,
                        const char *name, struct disk_file *file, uint64_t number,
                        struct reason *why) {
    struct segment_header header = {0};
    uint64_t size = 0;
    int rc = disk_size(file, &size);
    if (rc == 0) {
        rc = read_header(file, &header, why);
    }
    if (rc == 0) {
        rc = judge_header(source, &header, number, why);
    }
    bool unread = rc == LKV_EIO && source->mend;
    bool headless = rc == LKV_EDAMAGED || unread;
    if (rc != 0 && !headless) {
        disk_close(file);
        return rc;
    }
    rc = judge_segment(recovery, source, name, &header, size, rc, why);
    if (headless) {
        header = (struct segment_header){.number = number, .first = 1};
    }
    header.zeroed = header.zeroed && header.capacity == size;
    int taken = take_segment(recovery, file, &header, size, headless, unread);
    return taken != 0 ? taken : rc;
}

static int open_segment(struct recovery *recovery, const struct recovery_source *source,
                        uint64_t number, struct reason *why) {
    char name[LOG_NAME_SIZE], path[LOG_PATH_SIZE];
    segment_name(name, number);
    log_path(path, source->dir, name);
    struct disk_file *file;
    int rc = disk_open(source->disk, path, source->open_flags, &file);
    if (rc != 0) {
        return reason_set(why, rc, "%s: cannot open: %s", path, error_text(rc));
    }
    struct reason detail = {{0}};
    rc = load_segment(recovery, source, name, file, number, &detail);
    return rc == 0 ? 0
                   : reason_set(why, rc, "%s: %s", path,
                                detail.text[0] != '\0' ? detail.text : error_text(rc));
}

/* Rule 8: the vote's mark was made in a segment whose name was durable. */
static int miss_newest(struct recovery *recovery, const struct recovery_source *source) {
    const struct vote_record *vote = &recovery->vote.record;
    if (vote->mark.segment <= recovery->highest_number) {
        return 0;
    }
    recovery->damage.end_unknown = true;
    struct recovery_finding finding = {.file = LOG_VOTE_NAME, .text = "segment missing"};
    int rc = recovery_damaged(
        recovery, source, &finding, "its mark names segment %llu, found none above %llu",
        (unsigned long long)vote->mark.segment, (unsigned long long)recovery->highest_number);
    struct segment_header header = {.number = vote->mark.segment, .first = 1};
    recovery->highest_number = vote->mark.segment;
    return rc != 0 ? rc : take_segment(recovery, NULL, &header, 0, true, false);
}

int recovery_open_files(struct recovery *recovery, const struct recovery_source *source,
                        struct reason *why) {
    int rc = name_list_load(&recovery->names, source->disk, source->dir, why);
    if (rc == 0) {
        rc = open_vote(recovery, source, why);
    }
    if (rc != 0) {
        return rc;
    }
    size_t count = recovery->names.segment_count;
    recovery->segment_capacity = 3 * count + 3; /* two before each may be missing */
    recovery->segments = mem_calloc(recovery->segment_capacity, sizeof(struct segment *));
    recovery->dead = mem_calloc(recovery->segment_capacity, sizeof(struct segment *));
    if (recovery->segments == NULL || recovery->dead == NULL) {
        return reason_set(why, LKV_ENOMEM, "%s: %s", source->dir, error_text(LKV_ENOMEM));
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t number = recovery->names.segments[i];
        recovery->highest_number = number;
        rc = open_segment(recovery, source, number, why);
        if (rc != 0) {
            return rc;
        }
    }
    return miss_newest(recovery, source);
}

void recovery_fini(struct recovery *recovery) {
    for (size_t i = 0; i < recovery->segment_count; i++) {
        segment_free(recovery->segments[i]);
    }
    for (size_t i = 0; i < recovery->dead_count; i++) {
        segment_free(recovery->dead[i]);
    }
    mem_free(recovery->segments);
    mem_free(recovery->dead);
    mem_free(recovery->damage.gaps);
    log_terms_fini(&recovery->terms);
    vote_close(&recovery->vote);
    name_list_fini(&recovery->names);
    *recovery = (struct recovery){0};
}
