/* The points: a hash table from a key to the newest version of it, by linear hashing (Litwin, 1980).
 *
 * It grows by one bucket at a time and shrinks likewise, so no single operation ever moves more than
 * a bucket's worth of entries: there is no rehash. A bucket is one cache line:
 *
 *      | 6 pointers to versions | 6 tags of 16 bits | index of an overflow bucket |
 *
 * A lookup reads that line, and then only what a tag matches. Buckets live in segments of 16 KiB.
 * Nothing about the order of buckets is visible outside. Not thread-safe: the store's lock.
 */
#ifndef KV_TABLE_H
#define KV_TABLE_H

#include "base/error.h"
#include "kv/version.h"

struct bucket;

/* Buckets by number, in segments that never move. */
struct bucket_array {
    void **segments; /* owned, as allocated; the buckets start at the next cache line */
    size_t capacity; /* of `segments` */
    uint32_t segment_count;
    uint32_t used; /* buckets handed out */
};

struct table {
    struct bucket_array primary;
    struct bucket_array overflow; /* number 0 is never used */
    uint32_t free_overflow;       /* head of the list of free overflow buckets, 0: none */
    uint32_t level;               /* 2^level buckets were there when this round of splits began */
    uint64_t seed;
    size_t count;
};

MUST_USE int table_init(struct table *table, uint64_t seed);
void table_fini(struct table *table); /* the versions are not its own */

uint64_t table_hash(const struct table *table, struct slice key);

/* The slot that points to the key's newest version, to read or to replace by another of the same
 * key; NULL: not there. Valid until the next insert or remove. */
struct kv_version **table_find(const struct table *table, uint64_t hash, struct slice key);

/* The key must not be there. LKV_ENOMEM: nothing has changed. */
MUST_USE int table_insert(struct table *table, uint64_t hash, struct kv_version *version);

/* The key must be there. */
void table_remove(struct table *table, uint64_t hash, struct slice key);

/* Hints for a batch of lookups: first the bucket's line, then what it probably points to. */
void table_prefetch(const struct table *table, uint64_t hash);
const struct kv_version *table_guess(const struct table *table, uint64_t hash);

/* All entries, bucket by bucket: calls for each slot of that number's bucket, of table_buckets. What is added or
 * removed in between may move an entry to a bucket that was passed, or is still to come. */
uint32_t table_buckets(const struct table *table);
void table_each(const struct table *table, uint32_t number,
                void (*visit)(void *arg, struct kv_version **slot), void *arg);

size_t table_memory(const struct table *table);

#endif
