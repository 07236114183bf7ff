/* log_walk: recovery with somebody listening, read-only; what `kvctl log verify` and `dump` print. */
#include "base/mem.h"
#include "log/log.h"
#include "log/recover.h"

struct walk {
    int (*visit)(void *arg, const struct log_visit *what);
    void *arg;
    uint8_t *payload; /* owned */
    size_t payload_capacity;
};

static int read_payload(struct walk *walk, struct log_scan *scan, const struct log_scan_item *item,
                        struct slice *payload) {
    bool intact;
    uint8_t *grown =
        mem_array_grow(walk->payload, &walk->payload_capacity, (size_t)item->header.length + 1, 1);
    if (grown == NULL) {
        return LKV_ENOMEM;
    }
    walk->payload = grown;
    *payload = slice_of(grown, item->header.length);
    return log_scan_payload(scan, item, grown, &intact);
}

static int on_item(void *arg, enum log_finding kind, const struct segment *segment,
                   const struct log_scan_item *item, struct log_scan *scan, const char *text) {
    struct walk *walk = arg;
    char name[LOG_NAME_SIZE];
    segment_name(name, segment->number);
    struct log_visit visit = {.kind = kind,
                              .file = name,
                              .offset = item->offset,
                              .index = item->header.index,
                              .term = item->header.term,
                              .text = text};
    if (item->header.type != LOG_TYPE_MARK) {
        visit.type = (enum entry_type)item->header.type;
        int rc = read_payload(walk, scan, item, &visit.payload);
        if (rc != 0) {
            return rc;
        }
    }
    return walk->visit(walk->arg, &visit);
}

static int on_damage(void *arg, const struct recovery_finding *finding) {
    struct walk *walk = arg;
    struct log_visit visit = {.kind = LOG_DAMAGED,
                              .file = finding->file,
                              .offset = finding->offset,
                              .index = finding->index,
                              .term = finding->term,
                              .text = finding->text};
    return walk->visit(walk->arg, &visit);
}

/* Rule 2: every save writes both slots, so the good one has all. A power cut while one is written leaves
 * the same as rot. */
static int tell_vote_slot(struct walk *walk, const struct recovery *found) {
    if (!found->names.vote || found->vote_slots_valid != 1) {
        return 0;
    }
    struct log_visit visit = {
        .kind = LOG_WARNING,
        .file = LOG_VOTE_NAME,
        .offset = (uint64_t)found->vote.doubtful * LOG_BLOCK,
        .text = "one of the two slots cannot be read, the other one has the vote: nothing is "
                "lost, and the next start writes both"};
    return walk->visit(walk->arg, &visit);
}

int log_walk(struct disk *disk, const char *dir, uint64_t image_index,
             int (*visit)(void *arg, const struct log_visit *what), void *arg, struct reason *why) {
    int rc = log_dir_check(dir, why);
    if (rc != 0) {
        return rc;
    }
    struct walk walk = {.visit = visit, .arg = arg};
    struct recovery_observer observer = {.on_item = on_item, .on_damage = on_damage, .arg = &walk};
    struct recovery_source source = {.disk = disk,
                                     .dir = dir,
                                     .open_flags = DISK_READ,
                                     .mend = true, /* what cannot be read is a finding, too */
                                     .image_index = image_index,
                                     .observer = &observer};
    struct recovery found;
    rc = recovery_run(&found, &source, why);
    rc = rc == 0 ? tell_vote_slot(&walk, &found) : rc;
    recovery_fini(&found);
    mem_free(walk.payload);
    return rc;
}
