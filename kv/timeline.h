/* All changes that are kept, in the order in which they were made: what a watch reads.
 *
 *      blocks  [ 17 17 17 18 ... ] [ 90 91 91 ... ] [ ... ]     revisions, and the versions of them
 *
 * A version made at `kept_from` or later is linked for as long as anybody may ask for its change, so the
 * timeline has no references of its own; what is no longer needed leaves it before its memory may go
 * (kv/history.h). A revision is found by two binary searches, and a change within its revision by its
 * number, which is its place.
 *
 * Belongs to the store's gate, like the history that it is a part of. */
#ifndef KV_TIMELINE_H
#define KV_TIMELINE_H

#include "base/error.h"
#include "kv/version.h"

enum { TIMELINE_ITEMS = 404 };

struct timeline_block {
    uint64_t first;                 /* revision of the first item that it ever had */
    uint32_t first_sub;             /* and its number within that */
    size_t start, count;            /* items[start .. count - 1] */
    uint16_t later[TIMELINE_ITEMS]; /* revision - first */
    struct kv_version *items[TIMELINE_ITEMS];
};

/* Zero-initialised but for the pool is empty. */
struct timeline {
    struct pool *pool;              /* borrowed; of the blocks */
    struct timeline_block **blocks; /* owned array of owned blocks: blocks[start .. end - 1] */
    size_t start, end, capacity;
};

/* The first change that is still to come, seen from some reader. */
struct kv_place {
    uint64_t revision;
    uint32_t sub; /* number of the change within its revision, from 0 */
};

static inline bool place_is_before(struct kv_place a, struct kv_place b) {
    return a.revision != b.revision ? a.revision < b.revision : a.sub < b.sub;
}

void timeline_fini(struct timeline *timeline);
size_t timeline_memory(const struct timeline *timeline);

/* Room for one more change, of that revision. LKV_ENOMEM. */
MUST_USE int timeline_reserve(struct timeline *timeline, uint64_t revision);
void timeline_add(struct timeline *timeline, struct kv_version *version); /* room is reserved */

/* Forgets at most `max` blocks that are wholly of revisions below `from`, and what of the next one is. Returns how
 * many blocks: fewer than `max` when nothing below `from` is left. */
size_t timeline_trim(struct timeline *timeline, size_t max, uint64_t from);

/* At most `max` changes from the place on, up to a revision. Returns how many. */
size_t timeline_read(const struct timeline *timeline, struct kv_place place, uint64_t upto,
                     struct kv_version **versions, size_t max);

#endif
