/* A walk over the keys of one revision in key order, in short visits beside the applier: what the
 * visit finds is referenced, and used after it has let the applier in again. Any one thread. */
#ifndef KV_WALK_H
#define KV_WALK_H

#include "base/buffer.h"
#include "kv/store.h"

enum { WALK_KEYS = 256 }; /* looked at in one visit */

/* Of a store that lies in a map (kv/durable.h). */
struct walk_scan {
    struct ordered_iter *iter; /* owned */
    const void *snapshot;      /* of the pin; NULL: what is there when the walk begins */
    struct buffer place;       /* the last key */
    struct buffer bound;
    bool started, positioned;
    bool holds; /* a reference to the store */
};

struct walk {
    struct kv *kv;
    struct store *store; /* NULL until the first visit: then what the state machine has */
    struct kv_stamp stamp;
    uint64_t revision; /* that is read; 0 until the first visit: the stamp's */
    int rc; /* LKV_ECOMPACTED, LKV_EFUTURE: that revision cannot be read, and it has ended; of a store that
               lies in a map also LKV_EIO, LKV_EDAMAGED, LKV_ENOMEM */
    struct slice from, to; /* as in struct kv_query; borrowed */
    bool descending;
    bool ended;              /* nothing is left */
    bool pins_itself;        /* the caller has not pinned the store */
    bool pinned;             /* by `pin`, so that the revision outlives the visit */
    bool inside;             /* older versions of `last` follow */
    struct kv_version *last; /* owned reference: the place to go on from; NULL before the first */
    struct pin pin;
    struct walk_scan scan;
};

/* Over what readers see at the moment of the first visit, as of a revision; 0: the newest. */
void walk_init(struct walk *walk, struct kv *kv, struct slice from, struct slice to,
               bool descending, uint64_t revision);
/* Over all keys of a store that the caller has pinned at the stamp, with its history if walk_next_kept is
 * to be used. Whoever has the pin sets scan.snapshot to its snapshot. */
void walk_init_pinned(struct walk *walk, struct kv *kv, struct store *store,
                      const struct kv_stamp *stamp);
/* Over a store in the applier's turns, which must not be used beside walk_next: walk_take visits it. */
void walk_init_alone(struct walk *walk, struct store *store, struct slice from, struct slice to,
                     bool descending, uint64_t revision);
void walk_fini(struct walk *walk);

/* As walk_next, in a turn. */
size_t walk_take(struct walk *walk, struct kv_version **versions, size_t max);

/* At most `max` (1 .. WALK_KEYS) next versions, each with a reference for the caller. May be 0 before
 * the end. `final`: no further visit follows if this one finds `max`. */
size_t walk_next(struct walk *walk, struct kv_version **versions, size_t max, bool final);

/* The same for all versions that the stamp says are kept: each key's newest first, tombstones too. */
size_t walk_next_kept(struct walk *walk, struct kv_version **versions, size_t max);

/* The number of keys that one visit passes. */
size_t walk_count(struct walk *walk);

#endif
