/* Second part of recovery, between headers and records: where segments stand whose header is lost,
 * and which segments are lost altogether (rule 11).
 *
 * A segment's first index decides what it cut from those before it. Guessed wrongly, entries that
 * were cut off would count again; so it is taken from a copy (the successor's header, the vote) or
 * from the record right behind the header. Without any of these the segment is said to begin behind
 * the image: then everything up to its first record is missing, and what older ones hold of it is not
 * trusted. */
#include "log/recover_parts.h"

#include "base/assert.h"
#include "base/mem.h"

void recovery_bounds(struct recovery *recovery) {
    uint64_t bound = UINT64_MAX - 1;
    for (size_t i = recovery->segment_count; i-- > 0;) {
        struct segment *segment = recovery->segments[i];
        segment->bound = bound;
        bound = segment->first - 1 < bound ? segment->first - 1 : bound;
    }
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
                      struct segment *segment, struct log_scan_item *item) {
    if (segment->file == NULL) {
        return 0;
    }
    struct log_scan scan;
    int rc = recovery_scan_init(recovery, source, segment, &scan);
    if (rc == 0) {
        rc = log_scan_next(&scan, item);
    }
    segment->unread = segment->unread || scan.unreadable;
    log_scan_fini(&scan);
    return rc;
}

/* What a later segment says of the two before it. True: that decides where this one stands. */
static bool place_by_later(struct segment *segment, const struct segment_place before[2],
                           uint64_t later_first) {
    if (before[0].number == segment->number) {
        place(segment, &before[0], &before[1]);
    } else if (before[1].number == segment->number) {
        place(segment, &before[1], NULL);
    } else if (before[0].number != 0 && before[0].number < segment->number) {
        struct segment_place dead = {.first = later_first}; /* already when the later one began */
        place(segment, &dead, NULL);
    } else if (before[1].number != 0 && before[1].number < segment->number) {
        struct segment_place dead = {.first = before[0].first}; /* when that one began */
        place(segment, &dead, NULL);
    } else {
        return false;
    }
    return true;
}

/* Does somebody else say where segment `i` stands? */
static bool place_by_others(const struct recovery *recovery, size_t i) {
    const struct vote_record *vote = &recovery->vote.record;
    struct segment *segment = recovery->segments[i];
    for (size_t later = i + 1; later < recovery->segment_count; later++) {
        const struct segment *other = recovery->segments[later];
        if (place_by_later(segment, other->before, other->first)) {
            return true;
        }
    }
    if (vote->newest.number == segment->number) {
        place(segment, &vote->newest, &vote->before_newest);
        return true;
    }
    struct segment_place before[SEGMENT_BEFORE] = {vote->before_newest};
    return vote->newest.number > segment->number &&
           place_by_later(segment, before, vote->newest.first);
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
    recovery->damage.end_unread |= highest && !readable && segment->unread;
    if (place_by_others(recovery, i)) {
        return 0;
    }
    bool starts = readable && item.offset == LOG_BLOCK && item.header.type != LOG_TYPE_MARK;
    if (!starts && segment->file != NULL && (!readable || !highest)) {
        /* If it counted, its entries are missing between the others, and that will be seen. */
        recovery->lost_newest |= highest;
        recovery->dead[recovery->dead_count++] = segment;
        recovery->segment_count--;
        memmove(recovery->segments + i, recovery->segments + i + 1,
                (recovery->segment_count - i) * sizeof(struct segment *));
        return 0;
    }
    struct segment_place at = {.first = source->image_index + 1, .prev_term = source->image_term};
    if (readable) {
        bool is_mark = item.header.type == LOG_TYPE_MARK;
        uint64_t first = is_mark ? item.header.index + 1 : item.header.index;
        /* Below the image it does not matter (rule 14). */
        if (first < at.first || starts) {
            at.first = first;
            at.prev_term = is_mark ? item.header.term : item.header.prev_term;
        }
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
    while (i > 0 && recovery->segments[i - 1]->number > segment->number) {
        i--; /* behind it come dead ones as well */
    }
    memmove(recovery->segments + i + 1, recovery->segments + i,
            (recovery->segment_count - i) * sizeof(struct segment *));
    recovery->segments[i] = segment;
    recovery->segment_count++;
    return 0;
}

/* Among the first `count`, mostly the last of them. One that place_one took for dead is none that somebody names. */
static bool is_listed(const struct recovery *recovery, uint64_t number, size_t count) {
    while (count-- > 0) {
        if (recovery->segments[count]->number == number) {
            return true;
        }
    }
    return false;
}

/* Is the file that holds the entry before segment `i` missing, although it counts? */
static bool misses_predecessor(const struct recovery *recovery,
                               const struct recovery_source *source, size_t i) {
    const struct segment *segment = recovery->segments[i];
    const struct segment_place *before = &segment->before[0];
    bool live = segment->first <= segment->bound;
    if (!live || before->number == 0 || before->number >= segment->number ||
        before->first >= segment->first || segment->first <= source->image_index + 1) {
        return false;
    }
    return !is_listed(recovery, before->number, i);
}

/* The newest segment is lost without a trace. Then the one that the vote names is as good as the
 * newest, even if the lost one had cut it off and it is gone: the end is unknown in any case, and the
 * vote's mark speaks of its entries. */
static int insert_marked(struct recovery *recovery) {
    const struct vote_record *vote = &recovery->vote.record;
    size_t count = recovery->segment_count;
    uint64_t highest = count > 0 ? recovery->segments[count - 1]->number : 0;
    if (!recovery->lost_newest || vote->newest.number <= highest) {
        return 0;
    }
    struct segment_header header = {.number = vote->newest.number, .first = 1};
    struct segment *segment = segment_new(&header, NULL, 0);
    if (segment == NULL) {
        return LKV_ENOMEM;
    }
    place(segment, &vote->newest, &vote->before_newest);
    recovery->segments[recovery->segment_count++] = segment;
    return 0;
}

int recovery_place_segments(struct recovery *recovery, const struct recovery_source *source,
                            struct reason *why) {
    int rc = 0;
    for (size_t i = recovery->segment_count; i-- > 0 && rc == 0;) {
        if (recovery->segments[i]->headless) {
            rc = place_one(recovery, source, i);
        }
    }
    if (rc == 0) {
        rc = insert_marked(recovery);
    }
    recovery_bounds(recovery);
    for (size_t i = recovery->segment_count; i-- > 0 && rc == 0;) {
        /* A missing one may miss its own predecessor: `i` is looked at again then. */
        if (misses_predecessor(recovery, source, i)) {
            ASSERT(recovery->segment_count <
                   recovery->segment_capacity); /* each names two at most */
            rc = insert_missing(recovery, source, i);
            i = recovery->segment_count; /* all over again: it is somewhere before */
            recovery_bounds(recovery);
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
