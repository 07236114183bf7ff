/* One version of one key: an immutable, reference-counted record of what a command wrote.
 *
 * A key's versions form a chain from the newest to the oldest that somebody may still ask for:
 *
 *      table slot, leaf slot -> [newest] <-> [older] <-> [oldest]
 *
 * Of long chains, some versions know another one further back, so that an old revision is found in a
 * few hundred steps among millions (a skip list with one pointer; its levels follow from the revisions).
 *
 * Everything but the links is written before the record is shared and never again; the links belong
 * to the store's lock. A reader takes a reference under the lock and may then use the record without
 * it for as long as it likes. The last reference frees, on any thread.
 *
 * Key and value lie behind the header in one allocation, so that a read costs one cache miss less;
 * a large value stays in the payload of the log entry that brought it, and is referenced.
 */
#ifndef KV_VERSION_H
#define KV_VERSION_H

#include "base/blob.h"
#include "base/pool.h"

struct index_node;

struct kv_version {
    union {
        struct index_node *leaf;  /* of the newest: the leaf that points to it */
        struct kv_version *newer; /* of all others */
    };
    struct kv_version *older; /* NULL at the end of the chain */
    /* Immutable after the version was linked. */
    uint64_t main;       /* the revision that wrote it */
    uint64_t create_rev; /* 0 in a tombstone */
    uint64_t version;    /* 0: a tombstone */
    atomic_uint refs;
    uint32_t value_size : 28;
    uint32_t shares_blob : 1; /* the value is in a blob */
    uint32_t has_extra : 1;   /* lease or sub is not 0 */
    uint32_t has_jump : 1;    /* it may know a version further back */
    uint32_t in_pool : 1;     /* where its memory came from */
    uint16_t key_size;
    uint8_t at;     /* with the links: about where in the leaf the newest version is */
    uint8_t data[]; /* key; struct version_jump if any; struct version_extra if any; then the value,
                       or version_share */
};

/* The fields that are 0 in most versions. */
struct version_extra {
    int64_t lease;
    uint32_t sub; /* order within the revision */
    uint32_t reserved;
};

/* The newest one before a version whose level is not lower. It may have been freed: only if its revision
 * is one that the state keeps is it sure to be there. */
struct version_jump {
    struct kv_version *to; /* NULL: none */
    uint64_t main;         /* its revision */
};

struct version_new {
    struct slice key;
    struct slice value;
    int64_t lease;
    uint32_t sub;
    struct blob *payload; /* that `value` lies in; NULL: copy the value in any case */
    bool has_jump;        /* room for one, none yet */
    struct pool *pool;    /* where the memory comes from, of those that stay; NULL: mem_alloc */
};

/* Copies the key; copies the value or takes a reference of its own to the payload. The revisions are
 * the caller's to set before sharing it. Returns owned (one reference), or NULL when out of memory.
 * A tombstone has an empty value and version 0. */
struct kv_version *version_new(const struct version_new *from);

static inline struct kv_version *version_ref(struct kv_version *version) {
    (void)atomic_fetch_add_explicit(&version->refs, 1, memory_order_relaxed);
    return version;
}

void version_unref(struct kv_version *version);

static inline struct slice version_key(const struct kv_version *version) {
    return slice_of(version->data, version->key_size);
}

static inline bool version_is_tombstone(const struct kv_version *version) {
    return version->version == 0;
}

/* The two cache lines that hold the header and a short key. NULL is fine. */
static inline void version_prefetch(const struct kv_version *version) {
    enum { CACHE_LINE = 64 };
    uintptr_t start = (uintptr_t)version;
    __builtin_prefetch((const void *)start);
    __builtin_prefetch((const void *)(start + CACHE_LINE));
}

/* 0 for fifteen of sixteen revisions, 1 for most others, and so on. */
unsigned version_level(uint64_t main);
enum { VERSION_LEVEL_MAX = 16 };

struct version_jump version_jump(const struct kv_version *version);
void version_set_jump(struct kv_version *version,
                      struct kv_version *to); /* has_jump; not shared yet */
/* The same with room for a jump, or without, in that pool and not linked. Returns owned, or NULL when out of memory. */
struct kv_version *version_copy(const struct kv_version *version, struct pool *pool, bool has_jump);

struct slice version_value(const struct kv_version *version);
struct blob *version_blob(const struct kv_version *version); /* that the value is in, or NULL */
int64_t version_lease(const struct kv_version *version);
uint32_t version_sub(const struct kv_version *version);

/* Whether moving it elsewhere may give memory back (base/pool.h). */
bool version_is_sparse(const struct kv_version *version);

/* Bytes taken from the system for it, with the allocator's own; estimate. */
size_t version_memory(const struct kv_version *version);

#endif
