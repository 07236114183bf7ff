/* The order: a B+tree over the newest versions of all keys, for ranges.
 *
 *      inner   [ s1 | s2 | ... ]            separators: short copies, child i holds keys in
 *             /     |     \                 [s(i), s(i+1))
 *      leaf <-> leaf <-> leaf               pointers to versions, doubly linked
 *
 * A node keeps, beside each key, the four bytes that follow the prefix which all of its keys share:
 * a search stays in the node's own memory until a handful of candidates is left. (Heads behind a
 * common prefix: Graefe, "Modern B-Tree Techniques", 2011, section 3.5.)
 *
 * A version knows its leaf, so replacing the newest version of a key needs no search. One split or
 * merge per level is the most that an operation does. Not thread-safe: the store's lock.
 */
#ifndef KV_INDEX_H
#define KV_INDEX_H

#include "base/error.h"
#include "base/pool.h"
#include "kv/version.h"

enum { INDEX_FANOUT = 64 };

/* What leaves and inner nodes share: a sorted array of keys. */
struct index_node {
    bool is_leaf;
    uint16_t count;               /* keys */
    uint16_t skip;                /* leading bytes that all keys of the node share, at least */
    uint32_t heads[INDEX_FANOUT]; /* of each key: the bytes after `skip`, big-endian, 0-padded */
    void *keys[INDEX_FANOUT];     /* leaf: struct kv_version; inner: struct separator */
};

struct index_leaf {
    struct index_node node;
    struct index_leaf *previous, *next;
};

struct index {
    struct pool *pool;       /* owned; of nodes and separators, apart from versions */
    struct index_node *root; /* a leaf while there are few keys, never NULL */
    struct index_leaf *first, *last;
    size_t leaves, inners;
};

MUST_USE int index_init(struct index *index);
void index_fini(struct index *index); /* the versions are not its own */

/* The key must not be there. LKV_ENOMEM: nothing has changed. */
MUST_USE int index_insert(struct index *index, struct kv_version *version);

/* `newest` takes the place of `old`, which is in the index and has the same key. */
void index_replace(struct kv_version *old, struct kv_version *newest);

/* `version` is in the index. */
void index_remove(struct index *index, struct kv_version *version);

/* A place in the order; valid until the next insert or remove. `leaf` NULL: beyond either end. */
struct index_cursor {
    struct index_leaf *leaf;
    unsigned at;
};

/* The first key >= `key`; for an empty key, the first of all. */
struct index_cursor index_lower(const struct index *index, struct slice key);
struct index_cursor index_last(const struct index *index);
void index_next(struct index_cursor *cursor);
void index_previous(struct index_cursor *cursor);

static inline struct kv_version *index_at(const struct index_cursor *cursor) {
    return cursor->leaf != NULL ? cursor->leaf->node.keys[cursor->at] : NULL;
}

/* Hint: `version` will be replaced soon. */
void index_prefetch_replace(const struct kv_version *version);

/* Hint: `key` will be inserted soon. Returns what index_prefetch_leaf takes a little later, before
 * anything is removed. */
const struct index_node *index_prefetch_insert(const struct index *index, struct slice key);
void index_prefetch_leaf(const struct index_node *leaf);

size_t index_memory(const struct index *index);

#endif
