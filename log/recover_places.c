/* Second part of recovery, between headers and records: where segments stand whose header is lost,
 * and which segments are lost altogether (rule 11).
 *
 * A segment's first index decides what it cut from those before it. Guessed wrongly, entries that
 * were cut off would count again; so it is taken from a copy (the successor's header, the vote) or
 * from the record right behind the header. Without any of these the segment is said to begin behind
 * the image: then everything up to its first record is missing, and what older ones hold of it is not
 * trusted. */
#include "log/recover_parts.h"

#include "base/mem.h"

uint64_t recovery_bound(const struct recovery *recovery, size_t i) {
    uint64_t bound = UINT64_MAX - 1;
    for (size_t later = i + 1; later < recovery->segment_count; later++) {
        uint64_t first = recovery->segments[later]->first;
        bound = first - 1 < bound ? first - 1 : bound;
    }
    return bound;
}

int recovery_scan_init(const struct recovery *recovery, const struct recovery_source *source,
                       const struct segment *segment, struct log_scan *scan) {
    int rc = log_scan_init(scan, segment->file, &recovery->vote.record.identity, segment->number,
                           LOG_BLOCK, segment->capacity, LOG_SCAN_WINDOW);
    scan->passes_unreadable = source->mend;
    return rc;
}

static void place(struct segment *segment, const struct segment_place *at,
                  const struct segment_place *before) {
    segment->first = at->first;
    segment->prev_term = at->prev_term;
    segment->last = at->first - 1;
    segment->before[0] = before != NULL ? *before : (struct segment_place){0};
    segment->before[1] = (struct segment_place){0};
}

/* 1: `item` is the first thing in the file that can be read; 0: there is none. */
static int first_item(struct recovery *recovery, const struct recovery_source *source,
                      const struct segment *segment, struct log_scan_item *item) {
    if (segment->file == NULL) {
        return 0;
    }
    struct log_scan scan;
    int rc = recovery_scan_init(recovery, source, segment, &scan);
    if (rc == 0) {
        rc = log_scan_next(&scan, item);
    }
    log_scan_fini(&scan);
    return rc;
}

/* Does somebody else say where it stands? */
static bool place_by_others(const struct recovery *recovery, struct segment *segment,
                            const struct segment *next) {
    const struct vote_record *vote = &recovery->vote.record;
    if (next != NULL && next->before[0].number == segment->number) {
        place(segment, &next->before[0], &next->before[1]);
        return true;
    }
    if (next != NULL && next->before[0].number != 0) {
        /* Not in the chain: it was dead when its successor began. */
        struct segment_place dead = {.first = next->first};
        place(segment, &dead, NULL);
        return true;
    }
    if (vote->newest.number == segment->number) {
        place(segment, &vote->newest, &vote->before_newest);
        return true;
    }
    return false;
}

static int place_one(struct recovery *recovery, const struct recovery_source *source, size_t i) {
    struct segment *segment = recovery->segments[i];
    bool highest = i + 1 == recovery->segment_count;
    struct log_scan_item item;
    int rc = first_item(recovery, source, segment, &item);
    if (rc < 0) {
        return rc;
    }
    bool readable = rc == 1;
    /* Without its header and without a record, its marks are gone as well. */
    recovery->damage.end_unknown |= highest && !readable;
    if (place_by_others(recovery, segment, highest ? NULL : recovery->segments[i + 1])) {
        return 0;
    }
    if (!readable && segment->file != NULL) {
        recovery->lost_newest |= highest;
        recovery->dead[recovery->dead_count++] = segment;
        recovery->segment_count--;
        memmove(recovery->segments + i, recovery->segments + i + 1,
                (recovery->segment_count - i) * sizeof(struct segment *));
        return 0;
    }
    struct segment_place at = {.first = source->image_index + 1, .prev_term = source->image_term};
    if (readable && item.offset == LOG_BLOCK && item.header.type != LOG_TYPE_MARK) {
        at.first = item.header.index;
        at.prev_term = item.header.prev_term;
    }
    place(segment, &at, NULL);
    return 0;
}

static int insert_missing(struct recovery *recovery, const struct recovery_source *source,
                          size_t i) {
    const struct segment *after = recovery->segments[i];
    const struct segment_place *at = &after->before[0];
    char name[LOG_NAME_SIZE];
    segment_name(name, at->number);
    struct recovery_finding finding = {.file = name, .index = at->first, .text = "segment missing"};
    int rc = recovery_damaged(recovery, source, &finding,
                              "expected entries %llu to %llu, found no such file",
                              (unsigned long long)at->first, (unsigned long long)after->first - 1);
    struct segment_header header = {.number = at->number, .first = 1};
    struct segment *segment = rc == 0 ? segment_new(&header, NULL, 0) : NULL;
    if (segment == NULL) {
        return rc != 0 ? rc : LKV_ENOMEM;
    }
    place(segment, at, &after->before[1]);
    memmove(recovery->segments + i + 1, recovery->segments + i,
            (recovery->segment_count - i) * sizeof(struct segment *));
    recovery->segments[i] = segment;
    recovery->segment_count++;
    return 0;
}

/* Is the file that holds the entry before segment `i` missing, although it counts? */
static bool misses_predecessor(const struct recovery *recovery,
                               const struct recovery_source *source, size_t i) {
    const struct segment *segment = recovery->segments[i];
    const struct segment_place *before = &segment->before[0];
    bool live = segment->first <= recovery_bound(recovery, i);
    if (!live || before->number == 0 || before->number >= segment->number ||
        before->first >= segment->first || segment->first <= source->image_index + 1) {
        return false;
    }
    for (size_t earlier = 0; earlier < i; earlier++) {
        if (recovery->segments[earlier]->number == before->number) {
            return false;
        }
    }
    return true;
}

int recovery_place_segments(struct recovery *recovery, const struct recovery_source *source,
                            struct reason *why) {
    int rc = 0;
    for (size_t i = recovery->segment_count; i-- > 0 && rc == 0;) {
        if (recovery->segments[i]->headless) {
            rc = place_one(recovery, source, i);
        }
    }
    for (size_t i = recovery->segment_count; i-- > 0 && rc == 0;) {
        /* A missing one may miss its own predecessor: `i` is looked at again then. */
        if (misses_predecessor(recovery, source, i) &&
            recovery->segment_count < recovery->segment_capacity) {
            rc = insert_missing(recovery, source, i);
            i++;
        }
    }
    for (size_t i = 0; i < recovery->segment_count && rc == 0; i++) {
        const struct segment *segment = recovery->segments[i];
        /* A header is itself a mark: through its first index - 1, made in this segment. */
        struct log_mark_value mark = {
            .segment = segment->number, .index = segment->first - 1, .term = segment->prev_term};
        recovery->mark = log_mark_newer(recovery->mark, mark);
    }
    if (rc < 0) {
        (void)reason_set(why, rc, "%s: cannot read the segments: %s", source->dir, error_text(rc));
    }
    return rc;
}
