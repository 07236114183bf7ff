/* The keys of an image, record by record: checked against all that a state machine could have written, and
 * linked into a store. */
#ifndef KV_IMAGE_KEYS_H
#define KV_IMAGE_KEYS_H

#include "kv/image.h"
#include "kv/store.h"

/* Versions in no order yet. */
struct image_heap {
    struct kv_version **items; /* owned array */
    size_t count, capacity;
};

struct image_keys {
    const struct image_header *header;
    struct store *store;   /* gets the contents; NULL: only check */
    struct leases *leases; /* get the keys that name one, or only that it is named */
    /* The last version that came. */
    struct buffer key;                             /* its key; records ascend */
    struct digest_item last;                       /* the rest of it, no value */
    struct kv_version *oldest;                     /* linked; NULL without a store */
    bool owes;                                     /* an older one has to follow */
    struct kv_version *waiting[VERSION_LEVEL_MAX]; /* for the one that they jump to; levels fall */
    unsigned waiting_count;
    /* What waits for a compaction (kv/history.h). */
    struct image_heap superseded, tombstones;
    struct image_heap changes; /* for the timeline */
    /* So far. */
    uint64_t keys, versions, bytes, digest;
};

void image_keys_fini(
    struct image_keys *keys); /* zero-initialised, but for the first three, is empty */

/* One chunk of records. LKV_EDAMAGED and what is wrong with it; LKV_ENOMEM. */
MUST_USE int image_keys_take(struct image_keys *keys, struct slice chunk, const char **what);

/* All have come. Once. LKV_EDAMAGED, LKV_ENOMEM. */
MUST_USE int image_keys_end(struct image_keys *keys, const char **what);

#endif
