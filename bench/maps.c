/* What our engines are compared with, by the same keys in the same order: GLib's hash map, and RocksDB through its own C
 * interface; on one thread. One JSON line per figure, as bench_engine.
 *
 *      bench_maps DIR [KEYS [VALUE_SIZE]]     default 1000000 keys of 16 bytes, values of 256; DIR is there, empty
 *
 * Neither keeps older versions, sessions or leases, and the hash map keeps no order and knows one thread. */
#define BENCH_NAME "maps"
#include "bench/support/figures.h"

#include <glib.h>
#include <rocksdb/c.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { BATCH = 64, BUFFER_BYTES = 4 * 1024 * 1024, CACHE_BYTES = 64 * 1024 * 1024 };

struct bench {
    size_t keys, value_size;
    char (*order)[KEY_SIZE]; /* owned; all keys, shuffled */
    uint8_t *value;          /* owned */
    GHashTable *table;
    rocksdb_t *db;
    rocksdb_writeoptions_t *write;
    rocksdb_readoptions_t *read;
};

typedef void step_fn(struct bench *bench, const char *key);

/* All keys once, timed in groups of 64 as the engines' are. */
static void run(struct bench *bench, const char *name, step_fn *step) {
    struct timer total = {0, 0};
    uint64_t worst_ns = 0;
    for (size_t first = 0; first < bench->keys; first += BATCH) {
        size_t end = first + BATCH < bench->keys ? first + BATCH : bench->keys;
        struct timer start = timer_start();
        for (size_t i = first; i < end; i++) {
            step(bench, bench->order[i]);
        }
        struct timer taken = timer_since(start);
        total.wall_ns += taken.wall_ns;
        total.cpu_ns += taken.cpu_ns;
        worst_ns = taken.cpu_ns > worst_ns ? taken.cpu_ns : worst_ns;
    }
    report_rate(name, bench->keys, total);
    char text[100];
    (void)snprintf(text, sizeof(text), "%s_worst_64_cpu", name);
    report(text, (double)worst_ns / 1e3, "us");
}

/* ---------------------------------------------------------------------------- the hash map */

static guint hash_key(gconstpointer key) {
    return (guint)XXH3_64bits(key, KEY_SIZE);
}

static gboolean same_key(gconstpointer a, gconstpointer b) {
    return memcmp(a, b, KEY_SIZE) == 0;
}

static void put_in_table(struct bench *bench, const char *key) {
    char *item = malloc(KEY_SIZE + bench->value_size);
    require(item != NULL, "memory");
    memcpy(item, key, KEY_SIZE);
    memcpy(item + KEY_SIZE, bench->value, bench->value_size);
    (void)g_hash_table_replace(bench->table, item, item);
}

static void get_from_table(struct bench *bench, const char *key) {
    static char into[4096];
    const char *item = g_hash_table_lookup(bench->table, key);
    require(item != NULL, "get");
    memcpy(into, item + KEY_SIZE, bench->value_size);
}

static void bench_table(struct bench *bench) {
    double before = resident_bytes();
    bench->table = g_hash_table_new_full(hash_key, same_key, NULL, free);
    run(bench, "hash_map_inserts", put_in_table);
    report("hash_map_overhead_per_key",
           (resident_bytes() - before) / (double)bench->keys -
               (double)(KEY_SIZE + bench->value_size),
           "bytes");
    run(bench, "hash_map_overwrites", put_in_table);
    run(bench, "hash_map_gets", get_from_table);
    g_hash_table_destroy(bench->table);
}

/* ---------------------------------------------------------------------------- RocksDB */

static void good(char *error) {
    require(error == NULL, error);
}

static void put_in_db(struct bench *bench, const char *key) {
    char *error = NULL;
    rocksdb_put(bench->db, bench->write, key, KEY_SIZE, (const char *)bench->value,
                bench->value_size, &error);
    good(error);
}

static void get_from_db(struct bench *bench, const char *key) {
    char *error = NULL;
    size_t size;
    char *value = rocksdb_get(bench->db, bench->read, key, KEY_SIZE, &size, &error);
    good(error);
    require(value != NULL && size == bench->value_size, "get");
    rocksdb_free(value);
}

static void range_of_db(struct bench *bench) {
    struct timer start = timer_start();
    rocksdb_iterator_t *iter = rocksdb_create_iterator(bench->db, bench->read);
    size_t seen = 0, size;
    for (rocksdb_iter_seek_to_first(iter); rocksdb_iter_valid(iter); rocksdb_iter_next(iter)) {
        (void)rocksdb_iter_value(iter, &size);
        seen += size == bench->value_size;
    }
    rocksdb_iter_destroy(iter);
    require(seen == bench->keys, "range: keys are missing");
    report_rate("rocksdb_range_keys", seen, timer_since(start));
}

/* The options that matter are those of our engine (kv/rocksdb): no log of its own, the same buffers, cache and filter. */
static void bench_db(struct bench *bench, const char *dir) {
    char *error = NULL;
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_cache_t *cache = rocksdb_cache_create_lru(CACHE_BYTES);
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_write_buffer_size(options, BUFFER_BYTES);
    rocksdb_options_set_max_write_buffer_number(options, 4);
    rocksdb_options_set_level0_file_num_compaction_trigger(options, 8);
    rocksdb_options_set_level0_slowdown_writes_trigger(options, 40);
    rocksdb_options_set_level0_stop_writes_trigger(options, 80);
    rocksdb_options_set_max_background_jobs(options, 2);
    rocksdb_block_based_options_set_filter_policy(table,
                                                  rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_options_set_block_based_table_factory(options, table);
    bench->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(bench->write, 1);
    bench->read = rocksdb_readoptions_create();
    bench->db = rocksdb_open(options, dir, &error);
    good(error);
    run(bench, "rocksdb_inserts", put_in_db);
    run(bench, "rocksdb_overwrites", put_in_db);
    run(bench, "rocksdb_gets", get_from_db);
    range_of_db(bench);
    rocksdb_close(bench->db);
    rocksdb_readoptions_destroy(bench->read);
    rocksdb_writeoptions_destroy(bench->write);
    rocksdb_cache_destroy(cache);
    rocksdb_block_based_options_destroy(table);
    rocksdb_options_destroy(options);
}

int main(int count, char **arguments) {
    require(count > 1, "bench_maps DIR [KEYS [VALUE_SIZE]]");
    struct bench bench = {.keys = count > 2 ? strtoul(arguments[2], NULL, 10) : 1000000,
                          .value_size = count > 3 ? strtoul(arguments[3], NULL, 10) : 256};
    require(bench.value_size <= 4096, "values up to 4096");
    bench.value = calloc(1, bench.value_size + 1);
    bench.order = keys_shuffled(bench.keys);
    require(bench.value != NULL, "memory");
    for (size_t i = 0; i < bench.value_size; i++) {
        bench.value[i] = (uint8_t)(i * 37 + i / 7);
    }
    bench_table(&bench);
    bench_db(&bench, arguments[1]);
    free(bench.order);
    free(bench.value);
    return 0;
}
