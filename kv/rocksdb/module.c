/* The ordered map on RocksDB, through its C interface: the only file that knows it.
 *
 * One column family, no write-ahead log: a flush writes one memory table as a whole, so that what is on
 * the disk is always the map as it was after some commit. */
#include "kv/ordered.h"

#include <rocksdb/c.h>

#include <stdio.h>
#include <stdlib.h>

enum {
    BUFFERS_MAX = 4, /* memory tables that wait to be flushed, with the one being written */
    KEY_TAIL = 8,    /* of a key: what follows its prefix */
    /* The level-0 files from which on they are merged: memory tables are small. */
    MERGED_FILES = 8,
    /* At which RocksDB slows down, then stops, writers: far away, since these wait on the thread that must
     * not. */
    SLOW_FILES = 40,
    STOP_FILES = 80,
    OPEN_FILES_MAX = 512,
    BLOOM_BITS = 10,
    INFO_LOG_BYTES = 1 << 20
};

struct ordered {
    rocksdb_t *db;
    rocksdb_writebatch_wi_t *batch;
    rocksdb_options_t *options;
    rocksdb_block_based_table_options_t *table;
    rocksdb_cache_t *cache;
    rocksdb_writeoptions_t *write;
    rocksdb_writeoptions_t *probe; /* fails instead of waiting */
    rocksdb_flushoptions_t *flush;
    rocksdb_readoptions_t *persisted;
    size_t pending;
};

struct ordered_iter {
    rocksdb_iterator_t *iter;
    rocksdb_readoptions_t *read;
};

/* ---------------------------------------------------------------------------- errors */

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static int code_of(const char *text) {
    if (begins(text, "Corruption") || strstr(text, "No such file or directory") != NULL) {
        return LKV_EDAMAGED; /* a file of the map's that is not there is as good as a bad one */
    }
    if (strstr(text, "No space left") != NULL) {
        return LKV_ENOSPACE;
    }
    return LKV_EIO;
}

/* Takes the text that RocksDB has allocated. */
static int failed(char *error, struct reason *why) {
    if (error == NULL) {
        return 0;
    }
    int rc = code_of(error);
    if (why != NULL) {
        (void)snprintf(why->text, sizeof(why->text), "%s", error);
    }
    rocksdb_free(error);
    return rc;
}

/* ---------------------------------------------------------------------------- life */

/* All versions of one key share everything but their last eight bytes. */
static char *prefix_of(void *state, const char *key, size_t size, size_t *prefix_size) {
    (void)state;
    *prefix_size = size - KEY_TAIL;
    return (char *)(uintptr_t)key;
}

static unsigned char in_domain(void *state, const char *key, size_t size) {
    (void)state;
    (void)key;
    return size > KEY_TAIL;
}

static unsigned char in_range(void *state, const char *key, size_t size) {
    (void)state;
    (void)key;
    (void)size;
    return 0;
}

static const char *prefix_name(void *state) {
    (void)state;
    return "ledgerkv.all-but-8";
}

static void nothing(void *state) {
    (void)state;
}

static void set_options(struct ordered *map, const struct ordered_options *from) {
    rocksdb_options_t *options = map->options;
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_write_buffer_size(options, (size_t)from->write_buffer_bytes);
    rocksdb_options_set_max_write_buffer_number(options, BUFFERS_MAX);
    rocksdb_options_set_level0_slowdown_writes_trigger(options, SLOW_FILES);
    rocksdb_options_set_level0_stop_writes_trigger(options, STOP_FILES);
    rocksdb_options_set_level0_file_num_compaction_trigger(options, MERGED_FILES);
    rocksdb_options_set_max_background_jobs(options, 2);
    rocksdb_options_set_max_open_files(options, OPEN_FILES_MAX);
    rocksdb_options_set_skip_stats_update_on_db_open(options, 1); /* reads from each file */
    rocksdb_options_set_info_log_level(options, 2);               /* warnings */
    rocksdb_options_set_keep_log_file_num(options, 2);
    rocksdb_options_set_max_log_file_size(options, INFO_LOG_BYTES);
    rocksdb_options_set_prefix_extractor(
        options,
        rocksdb_slicetransform_create(NULL, nothing, prefix_of, in_domain, in_range, prefix_name));
    rocksdb_block_based_options_set_filter_policy(
        map->table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS));
    rocksdb_block_based_options_set_whole_key_filtering(map->table, 0);
    rocksdb_block_based_options_set_block_cache(map->table, map->cache);
    rocksdb_options_set_block_based_table_factory(options, map->table);
    rocksdb_writeoptions_disable_WAL(map->write, 1);
    rocksdb_writeoptions_disable_WAL(map->probe, 1);
    rocksdb_writeoptions_set_no_slowdown(map->probe, 1);
    rocksdb_flushoptions_set_wait(map->flush, 1);
    rocksdb_readoptions_set_read_tier(map->persisted, 2); /* kPersistedTier: no memory table */
}

static void close_map(struct ordered *map) {
    if (map == NULL) {
        return;
    }
    rocksdb_writebatch_wi_destroy(map->batch);
    if (map->db != NULL) {
        rocksdb_close(map->db);
    }
    rocksdb_options_destroy(map->options);
    rocksdb_block_based_options_destroy(map->table);
    rocksdb_cache_destroy(map->cache);
    rocksdb_writeoptions_destroy(map->write);
    rocksdb_writeoptions_destroy(map->probe);
    rocksdb_flushoptions_destroy(map->flush);
    rocksdb_readoptions_destroy(map->persisted);
    free(map);
}

static int open_map(struct ordered **out, const char *path, const struct ordered_options *options,
                    struct reason *why) {
    *out = NULL;
    struct ordered *map = calloc(1, sizeof(*map));
    if (map == NULL) {
        return LKV_ENOMEM;
    }
    map->batch = rocksdb_writebatch_wi_create(0, 1);
    map->options = rocksdb_options_create();
    map->table = rocksdb_block_based_options_create();
    map->cache = rocksdb_cache_create_lru((size_t)options->cache_bytes);
    map->write = rocksdb_writeoptions_create();
    map->probe = rocksdb_writeoptions_create();
    map->flush = rocksdb_flushoptions_create();
    map->persisted = rocksdb_readoptions_create();
    set_options(map, options);
    char *error = NULL;
    /* Closing flushes only when it is asked to. The C interface has no function for that. */
    rocksdb_options_t *set = rocksdb_options_create();
    rocksdb_get_options_from_string(map->options, "avoid_flush_during_shutdown=true", set, &error);
    rocksdb_options_destroy(map->options);
    map->options = set;
    if (error == NULL) {
        map->db = rocksdb_open(map->options, path, &error);
    }
    int rc = failed(error, why);
    if (rc != 0) {
        close_map(map);
        return rc;
    }
    *out = map;
    return 0;
}

static int destroy(const char *path, struct reason *why) {
    rocksdb_options_t *options = rocksdb_options_create();
    char *error = NULL;
    rocksdb_destroy_db(options, path, &error);
    rocksdb_options_destroy(options);
    return failed(error, why);
}

/* ---------------------------------------------------------------------------- the batch */

static const char *text_of(struct slice bytes) {
    return bytes.size > 0 ? (const char *)bytes.data : "";
}

static void put(struct ordered *map, struct slice key, struct slice value) {
    rocksdb_writebatch_wi_put(map->batch, text_of(key), key.size, text_of(value), value.size);
    map->pending += key.size + value.size;
}

static void remove_key(struct ordered *map, struct slice key) {
    rocksdb_writebatch_wi_delete(map->batch, text_of(key), key.size);
    map->pending += key.size;
}

static size_t pending(struct ordered *map) {
    return map->pending;
}

static int commit(struct ordered *map, struct reason *why) {
    char *error = NULL;
    rocksdb_write_writebatch_wi(map->db, map->write, map->batch, &error);
    int rc = failed(error, why);
    if (rc == 0) {
        rocksdb_writebatch_wi_clear(map->batch);
        map->pending = 0;
    }
    return rc;
}

/* ---------------------------------------------------------------------------- the disk */

static int persisted(struct ordered *map, struct slice key, void *into, size_t capacity,
                     size_t *size, struct reason *why) {
    char *error = NULL;
    char *value = rocksdb_get(map->db, map->persisted, text_of(key), key.size, size, &error);
    int rc = failed(error, why);
    if (rc == 0 && value == NULL) {
        return LKV_ENOENT;
    }
    if (rc == 0 && capacity > 0) {
        memcpy(into, value, *size < capacity ? *size : capacity);
    }
    rocksdb_free(value);
    return rc;
}

static int flush(struct ordered *map, struct reason *why) {
    char *error = NULL;
    rocksdb_flush(map->db, map->flush, &error);
    return failed(error, why);
}

static uint64_t number(struct ordered *map, const char *property) {
    uint64_t value = 0;
    return rocksdb_property_int(map->db, property, &value) == 0 ? value : 0;
}

static int health(struct ordered *map, struct reason *why) {
    uint64_t errors = number(map, "rocksdb.background-errors");
    if (errors == 0) {
        return 0;
    }
    /* Which error it was is told to who writes; nothing is as good for that as anything. */
    rocksdb_writebatch_t *nothing_at_all = rocksdb_writebatch_create();
    char *error = NULL;
    rocksdb_write(map->db, map->probe, nothing_at_all, &error);
    rocksdb_writebatch_destroy(nothing_at_all);
    if (error != NULL && !begins(error, "Incomplete")) {
        return failed(error, why);
    }
    rocksdb_free(error);
    if (why != NULL) {
        (void)snprintf(why->text, sizeof(why->text),
                       "RocksDB could not write in the background: its file LOG tells why");
    }
    return LKV_EIO;
}

static bool busy(struct ordered *map) {
    return number(map, "rocksdb.num-immutable-mem-table") >= BUFFERS_MAX - 1 ||
           number(map, "rocksdb.is-write-stopped") != 0;
}

static uint64_t memory(struct ordered *map) {
    return number(map, "rocksdb.cur-size-all-mem-tables") +
           number(map, "rocksdb.estimate-table-readers-mem") +
           (uint64_t)rocksdb_cache_get_usage(map->cache);
}

/* ---------------------------------------------------------------------------- reading */

static const void *pin(struct ordered *map) {
    return rocksdb_create_snapshot(map->db);
}

static void unpin(struct ordered *map, const void *snapshot) {
    rocksdb_release_snapshot(map->db, snapshot);
}

static struct ordered_iter *iterate(struct ordered *map, enum ordered_scope scope,
                                    const void *snapshot, bool one_key) {
    struct ordered_iter *iter = calloc(1, sizeof(*iter));
    if (iter == NULL) {
        return NULL;
    }
    iter->read = rocksdb_readoptions_create();
    if (one_key) {
        rocksdb_readoptions_set_prefix_same_as_start(iter->read, 1);
    } else {
        rocksdb_readoptions_set_total_order_seek(iter->read, 1);
    }
    if (snapshot != NULL) {
        rocksdb_readoptions_set_snapshot(iter->read, snapshot);
    }
    iter->iter = rocksdb_create_iterator(map->db, iter->read);
    if (scope == ORDERED_PENDING) { /* takes the one below it */
        iter->iter = rocksdb_writebatch_wi_create_iterator_with_base(map->batch, iter->iter);
    }
    return iter;
}

static void end(struct ordered_iter *iter) {
    if (iter != NULL) {
        rocksdb_iter_destroy(iter->iter);
        rocksdb_readoptions_destroy(iter->read);
        free(iter);
    }
}

static void seek(struct ordered_iter *iter, struct slice key) {
    rocksdb_iter_seek(iter->iter, text_of(key), key.size);
}

static void seek_back(struct ordered_iter *iter, struct slice key) {
    rocksdb_iter_seek_for_prev(iter->iter, text_of(key), key.size);
}

static void next(struct ordered_iter *iter) {
    rocksdb_iter_next(iter->iter);
}

static bool at(struct ordered_iter *iter, struct slice *key, struct slice *value) {
    if (!rocksdb_iter_valid(iter->iter)) {
        return false;
    }
    size_t size;
    const char *bytes = rocksdb_iter_key(iter->iter, &size);
    *key = slice_of(bytes, size);
    bytes = rocksdb_iter_value(iter->iter, &size);
    *value = slice_of(bytes, size);
    return true;
}

static int iter_error(struct ordered_iter *iter, struct reason *why) {
    char *error = NULL;
    rocksdb_iter_get_error(iter->iter, &error);
    return failed(error, why);
}

/* ---------------------------------------------------------------------------- what it exports */

static const struct ordered_ops ops = {.abi = ORDERED_ABI,
                                       .name = "RocksDB",
                                       .open = open_map,
                                       .close = close_map,
                                       .destroy = destroy,
                                       .put = put,
                                       .remove = remove_key,
                                       .pending = pending,
                                       .commit = commit,
                                       .persisted = persisted,
                                       .flush = flush,
                                       .health = health,
                                       .busy = busy,
                                       .memory = memory,
                                       .pin = pin,
                                       .unpin = unpin,
                                       .iterate = iterate,
                                       .end = end,
                                       .seek = seek,
                                       .seek_back = seek_back,
                                       .next = next,
                                       .at = at,
                                       .error = iter_error};

__attribute__((visibility("default"))) const struct ordered_ops *ledgerkv_ordered(void);

const struct ordered_ops *ledgerkv_ordered(void) {
    return &ops;
}
