/* An ordered map of bytes on disk, as a module provides it: what the state machine needs of an engine that
 * keeps versions in files (kv/durable.h). A module is a shared library of its own, loaded when it is asked
 * for, so that nobody pays for a library that is not used. It knows nothing of keys, revisions and
 * sessions, and needs nothing of this program but this table.
 *
 * Keys are ordered by their bytes. The map has no log of its own: the replicated log is the one, and
 * what a crash takes away is everything since the last flush, as a whole.
 *
 * Threads: the batch (put, remove, commit, ORDERED_PENDING) belongs to one thread. All else may be called
 * from any thread; an iterator by one at a time.
 *
 * Codes are those of base/error.h: LKV_EIO, LKV_ENOSPACE, LKV_EDAMAGED, LKV_EVERSION, LKV_ENOMEM. */
#ifndef KV_ORDERED_H
#define KV_ORDERED_H

#include "base/error.h"
#include "base/slice.h"

struct ordered;
struct ordered_iter;

enum { ORDERED_ABI = 1 };

struct ordered_options {
    uint64_t write_buffer_bytes; /* unflushed bytes at which a flush begins */
    uint64_t cache_bytes;        /* of blocks read */
};

/* What an iterator sees. */
enum ordered_scope {
    ORDERED_COMMITTED, /* the map as it is now, or at the snapshot */
    ORDERED_PENDING    /* and the batch above it, until the batch changes */
};

struct ordered_ops {
    uint32_t abi;     /* ORDERED_ABI */
    const char *name; /* "RocksDB 7.8.3" */

    /* Opens what is there, or makes an empty map. */
    int (*open)(struct ordered **out, const char *path, const struct ordered_options *options,
                struct reason *why);
    void (*close)(struct ordered *map); /* what is not flushed is lost; no iterator is open */
    /* Removes all files of a map that is not open. */
    int (*destroy)(const char *path, struct reason *why);

    /* The batch: all of it or nothing. */
    void (*put)(struct ordered *map, struct slice key, struct slice value);
    void (*remove)(struct ordered *map, struct slice key);
    size_t (*pending)(struct ordered *map);                 /* bytes in it */
    int (*commit)(struct ordered *map, struct reason *why); /* an error: it stays as it was */

    /* The key must be there, and on the disk: LKV_ENOENT. `*size` is its full size. */
    int (*persisted)(struct ordered *map, struct slice key, void *into, size_t capacity,
                     size_t *size, struct reason *why);
    /* Everything committed so far is on the disk when it returns. */
    int (*flush)(struct ordered *map, struct reason *why);
    /* An error of a flush or a compaction in the background, or 0. */
    int (*health)(struct ordered *map, struct reason *why);
    /* A commit would have to wait for the disk. */
    bool (*busy)(struct ordered *map);
    uint64_t (*memory)(struct ordered *map);

    const void *(*pin)(struct ordered *map); /* a snapshot */
    void (*unpin)(struct ordered *map, const void *snapshot);

    /* `one_key`: only seeks to keys of which all but the last eight bytes are the same are answered, and
     * faster. NULL when out of memory. */
    struct ordered_iter *(*iterate)(struct ordered *map, enum ordered_scope scope,
                                    const void *snapshot, bool one_key);
    void (*end)(struct ordered_iter *iter);                         /* NULL is fine */
    void (*seek)(struct ordered_iter *iter, struct slice key);      /* the first >= key */
    void (*seek_back)(struct ordered_iter *iter, struct slice key); /* the last <= key */
    void (*next)(struct ordered_iter *iter);
    bool (*at)(struct ordered_iter *iter, struct slice *key,
               struct slice *value); /* until it moves; false: nowhere */
    int (*error)(struct ordered_iter *iter, struct reason *why); /* why it is nowhere, or 0 */
};

/* What a module exports, under the name ORDERED_SYMBOL. */
typedef const struct ordered_ops *ordered_module_fn(void);
#define ORDERED_SYMBOL "ledgerkv_ordered"

/* The module of the engine with that name, loaded once and for ever. LKV_EUNSUPPORTED: it is not installed,
 * and what to install. */
MUST_USE int ordered_load(const char *engine, const struct ordered_ops **out, struct reason *why);

#endif
