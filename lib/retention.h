/* How far the beginning of a log in log mode may go: age and bytes say what may, holds and the number
 * of entries kept for followers say what may not. Pure, but for the file that remembers holds and ages.
 *
 *   segments   | 1..100 | 101..250 | 251..400 | 401.. (being written)
 *              └──────── old, or too many ────┘
 *                         ^ hold at 180: only the first may go, unless the hold keeps too much
 *
 * Entries carry no time: a sample says that up to `index` everything existed at `wall_ms`. A wall clock
 * that jumps back keeps records longer, one that jumps forward lets them go sooner. */
#ifndef LIB_RETENTION_H
#define LIB_RETENTION_H

#include "lib/options.h"
#include "log/log.h"

enum { RETENTION_HOLDS_MAX = 64, RETENTION_SAMPLES_MAX = 64 };

struct retention_hold {
    char name[NAME_SIZE];
    uint64_t keep_from;
};

struct retention_sample {
    uint64_t wall_ms, index;
};

struct retention {
    struct retention_hold holds[RETENTION_HOLDS_MAX];
    size_t hold_count;
    struct retention_sample samples[RETENTION_SAMPLES_MAX]; /* ascending in index */
    size_t sample_count;
};

/* Moves, makes or (keep_from 0) removes a hold. LKV_EBUSY: there are RETENTION_HOLDS_MAX others. */
MUST_USE int retention_hold(struct retention *retention, const char *name, uint64_t keep_from);

/* Remembers that entries up to `index` exist, unless the last sample is younger than every_ms or says
 * the same; true when it did. The oldest sample makes room. */
bool retention_sample(struct retention *retention, uint64_t wall_ms, uint64_t index,
                      uint64_t every_ms);

struct retention_rules {
    uint64_t retention_ms, retention_bytes; /* 0: no such rule */
    uint64_t hold_bytes_max, keep_entries;
};

struct retention_verdict {
    uint64_t drop_to;                  /* last entry of the last segment that may go; 0: none may */
    const struct retention_hold *lost; /* a hold that keeps too much and lost; NULL: none */
};

/* `segments` as log_segments gives them; nothing above `applied` goes. */
void retention_decide(const struct retention *retention, const struct retention_rules *rules,
                      const struct log_segment *segments, size_t count, uint64_t applied,
                      uint64_t wall_ms, struct retention_verdict *out);

/* DIR/retention: text, with a checksum. load: empty when there is none; LKV_EDAMAGED, LKV_EVERSION. */
MUST_USE int retention_load(struct disk *disk, const char *dir, struct retention *out,
                            struct reason *why);
MUST_USE int retention_save(struct disk *disk, const char *dir, const struct retention *retention,
                            struct reason *why);

#endif
