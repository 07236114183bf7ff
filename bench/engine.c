/* The memory engine alone, on one thread (and readers on two): one JSON line per figure. A rate is by
 * the clock; "cpu_ns_per_op" is what the thread itself used, which another load on the machine hardly
 * changes.
 *
 *      bench_engine [KEYS [VALUE_SIZE [DIR]]]     default 1000000 keys of 16 bytes, values of 256
 *
 * With DIR, an existing folder on the disk to be measured, an image is saved there and loaded again.
 *
 * "puts" are whole commands, decoded from the bytes that a log entry has; entries are made before the
 * clock starts, in groups of 64, so that a group is one batch of the applier. */
#include "base/mem.h"
#include "base/prng.h"
#define BENCH_NAME "engine"
#include "bench/support/figures.h"
#include "kv/command.h"
#include "kv/kv.h"
#include "lib/uv/disk_posix.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

enum { BATCH = 64, READERS = 2, PAUSE_NS = 2000000 };

struct bench {
    struct kv *kv;
    size_t keys, value_size;
    uint64_t index;
    char (*order)[KEY_SIZE]; /* owned; all keys, shuffled */
    uint64_t worst_ns;       /* the longest call, by what it used of the processor */
    uint64_t slow;           /* calls that took more than PAUSE_NS by the clock */
};

/* ---------------------------------------------------------------------------- writing */

static void make_batch(struct bench *bench, struct entry *entries, size_t first, size_t count,
                       uint8_t *value) {
    for (size_t i = 0; i < count; i++) {
        value[0] = (uint8_t)i;
        const struct kv_command command = {.op = KV_PUT,
                                           .key = slice_of(bench->order[first + i], KEY_SIZE),
                                           .value = slice_of(value, bench->value_size)};
        entries[i] = (struct entry){.index = bench->index + i + 1,
                                    .term = 1,
                                    .type = ENTRY_COMMAND,
                                    .payload = kv_command_encode(&command)};
        require(entries[i].payload != NULL, "out of memory");
    }
}

/* Returns how many keys. */
static size_t put_batch(struct bench *bench, size_t first, uint8_t *value, struct timer *total) {
    size_t count = bench->keys - first < BATCH ? bench->keys - first : BATCH;
    struct entry entries[BATCH];
    struct kv_result results[BATCH];
    size_t applied;
    make_batch(bench, entries, first, count, value);
    struct timer start = timer_start();
    require(kv_apply(bench->kv, entries, count, results, &applied, NULL) == 0, "apply");
    struct timer taken = timer_since(start);
    total->wall_ns += taken.wall_ns;
    total->cpu_ns += taken.cpu_ns;
    bench->worst_ns = taken.cpu_ns > bench->worst_ns ? taken.cpu_ns : bench->worst_ns;
    bench->slow += taken.wall_ns > PAUSE_NS;
    bench->index += count;
    for (size_t i = 0; i < count; i++) {
        blob_unref(entries[i].payload);
    }
    return count;
}

/* Puts all keys once; the time is that of kv_apply alone. */
static void put_all(struct bench *bench, const char *name) {
    uint8_t *value = calloc(1, bench->value_size + 1);
    require(value != NULL, "out of memory");
    struct timer total = {0, 0};
    bench->worst_ns = bench->slow = 0;
    for (size_t at = 0; at < bench->keys;) {
        at += put_batch(bench, at, value, &total);
    }
    free(value);
    report_rate(name, bench->keys, total);
}

static void report_pause(const struct bench *bench, const char *name) {
    report(name, (double)bench->worst_ns / 1e3, "us");
}

/* ---------------------------------------------------------------------------- reading */

static void get_all(const struct bench *bench, bool pinned) {
    char into[4096];
    for (size_t i = 0; i < bench->keys; i++) {
        struct slice slice = slice_of(bench->order[i], KEY_SIZE);
        if (pinned) {
            struct kv_item item;
            require(kv_get(bench->kv, slice, &item, NULL) == 0, "get");
            kv_item_release(&item);
        } else {
            size_t size;
            require(kv_get_copy(bench->kv, slice, into, sizeof(into), &size) == 0, "get_copy");
        }
    }
}

static void bench_gets(const struct bench *bench) {
    struct timer start = timer_start();
    get_all(bench, true);
    report_rate("gets_pinned", bench->keys, timer_since(start));
    start = timer_start();
    get_all(bench, false);
    report_rate("gets_copied", bench->keys, timer_since(start));
}

struct reader {
    const struct bench *bench;
    pthread_t thread;
    uint64_t cpu_ns;
};

static void *reader_main(void *arg) {
    struct reader *reader = arg;
    struct timer start = timer_start();
    get_all(reader->bench, false);
    get_all(reader->bench, false);
    reader->cpu_ns = timer_since(start).cpu_ns;
    return NULL;
}

static void bench_two_readers(const struct bench *bench) {
    struct reader readers[READERS];
    struct timer taken = timer_start();
    for (int i = 0; i < READERS; i++) {
        readers[i].bench = bench;
        require(pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]) == 0, "thread");
    }
    uint64_t cpu_ns = 0;
    for (int i = 0; i < READERS; i++) {
        (void)pthread_join(readers[i].thread, NULL);
        cpu_ns += readers[i].cpu_ns;
    }
    taken = timer_since(taken);
    taken.cpu_ns = cpu_ns;
    report_rate("gets_copied_two_threads", 2 * READERS * bench->keys, taken);
}

static void bench_ranges(const struct bench *bench, bool keys_only, const char *name) {
    struct timer start = timer_start();
    size_t seen = 0;
    char from[KEY_SIZE + 1];
    struct kv_query query = {.limit = 1000, .keys_only = keys_only};
    for (bool more = true; more;) {
        struct kv_range range;
        require(kv_range(bench->kv, &query, &range) == 0 && range.count > 0, "range");
        seen += range.count;
        more = range.more;
        struct slice last = range.items[range.count - 1].key;
        memcpy(from, last.data, KEY_SIZE);
        from[KEY_SIZE] = 0; /* the next possible key */
        query.from = slice_of(from, sizeof(from));
        kv_range_fini(&range);
    }
    require(seen == bench->keys, "range: keys are missing");
    report_rate(name, seen, timer_since(start));
}

static void bench_count(const struct bench *bench) {
    struct timer start = timer_start();
    const struct kv_query query = {.count_only = true};
    struct kv_range range;
    require(kv_range(bench->kv, &query, &range) == 0 && range.total == bench->keys, "count");
    kv_range_fini(&range);
    report_rate("keys_counted", bench->keys, timer_since(start));
}

static void bench_digest(const struct bench *bench) {
    struct kv_view *view;
    uint64_t digest;
    struct timer start = timer_start();
    require(kv_view_open(bench->kv, &view) == 0, "view");
    require(kv_view_digest(view, NULL, &digest) == 0, "digest");
    kv_view_close(view);
    report_rate("keys_digested", bench->keys, timer_since(start));
}

static void bench_image(const struct bench *bench, const char *dir) {
    char path[4096];
    require((size_t)snprintf(path, sizeof(path), "%s/engine.image", dir) < sizeof(path), "path");
    struct disk *disk;
    require(disk_posix_open(&disk) == 0, "disk");
    struct kv_view *view;
    struct kv_image_info info;
    struct timer start = timer_start();
    require(kv_view_open(bench->kv, &view) == 0, "view");
    require(kv_image_save(view, disk, dir, path, (struct kv_owner){1, 0}, (struct slice){0}, NULL,
                          &info, NULL) == 0,
            "save");
    kv_view_close(view);
    struct timer taken = timer_since(start);
    report("image_save", (double)taken.wall_ns / 1e6, "ms");
    report("image_save_cpu", (double)taken.cpu_ns / 1e6, "ms");
    report("image_size", (double)info.bytes / 1e6, "MB");
    start = timer_start();
    struct kv *loaded;
    const struct kv_options options = {.hash_seed = 1};
    require(kv_image_load(&loaded, &options, disk, path, NULL, &info, NULL, NULL) == 0, "load");
    taken = timer_since(start);
    report("image_load", (double)taken.wall_ns / 1e6, "ms");
    report("image_load_cpu", (double)taken.cpu_ns / 1e6, "ms");
    start = timer_start();
    kv_close(loaded);
    report("close_cpu", (double)timer_since(start).cpu_ns / 1e6, "ms");
    require(disk_remove(disk, path) == 0, "remove");
    disk_posix_close(disk);
}

struct saver {
    struct bench *bench;
    struct disk *disk;
    const char *dir, *path;
    pthread_t thread;
    atomic_bool ended;
};

static void *saver_main(void *arg) {
    struct saver *saver = arg;
    struct kv_view *view;
    struct kv_image_info info;
    require(kv_view_open(saver->bench->kv, &view) == 0, "view");
    require(kv_image_save(view, saver->disk, saver->dir, saver->path, (struct kv_owner){1, 0},
                          (struct slice){0}, NULL, &info, NULL) == 0,
            "save");
    kv_view_close(view);
    atomic_store(&saver->ended, true);
    return NULL;
}

/* What the slices of an image cost the writes beside them, and these the image. By the clock a call may also wait for
 * its processor. */
static void bench_beside_image(struct bench *bench, const char *dir) {
    char path[4096];
    require((size_t)snprintf(path, sizeof(path), "%s/beside.image", dir) < sizeof(path), "path");
    struct saver saver = {.bench = bench, .dir = dir, .path = path};
    uint8_t *value = calloc(1, bench->value_size + 1);
    require(value != NULL && disk_posix_open(&saver.disk) == 0, "disk");
    struct timer total = {0, 0}, start = timer_start();
    bench->worst_ns = bench->slow = 0;
    require(pthread_create(&saver.thread, NULL, saver_main, &saver) == 0, "thread");
    size_t puts = 0;
    while (!atomic_load(&saver.ended)) {
        puts += put_batch(bench, puts % bench->keys, value, &total);
    }
    (void)pthread_join(saver.thread, NULL);
    report("image_save_beside_writes", (double)timer_since(start).wall_ns / 1e6, "ms");
    report_rate("overwrites_beside_an_image", puts, total);
    report_pause(bench, "worst_batch_of_64_beside_an_image_cpu");
    report("batches_of_64_beside_an_image", (double)(puts / BATCH), "calls");
    report("of_them_above_2_ms_by_the_clock", (double)bench->slow, "calls");
    require(disk_remove(saver.disk, path) == 0, "remove");
    disk_posix_close(saver.disk);
    free(value);
}

/* Nine of ten keys, each by a command of its own: what is left lies here and there. */
static void bench_delete_most(struct bench *bench, double before) {
    struct timer total = {0, 0};
    bench->worst_ns = 0;
    bool more = true;
    for (size_t i = 0; i < bench->keys || more; i++) {
        struct timer start = timer_start();
        if (i >= bench->keys) {
            more = kv_tidy(bench->kv);
        } else if (i % 10 != 0) {
            struct kv_result result;
            size_t applied;
            const struct kv_command command = {.op = KV_DELETE,
                                               .key = slice_of(bench->order[i], KEY_SIZE)};
            struct entry entry = {.index = ++bench->index,
                                  .term = 1,
                                  .type = ENTRY_COMMAND,
                                  .payload = kv_command_encode(&command)};
            start = timer_start();
            require(kv_apply(bench->kv, &entry, 1, &result, &applied, NULL) == 0, "delete");
            blob_unref(entry.payload);
        }
        struct timer taken = timer_since(start);
        total.wall_ns += taken.wall_ns;
        total.cpu_ns += taken.cpu_ns;
        bench->worst_ns = taken.cpu_ns > bench->worst_ns ? taken.cpu_ns : bench->worst_ns;
    }
    size_t left = (bench->keys + 9) / 10;
    report_rate("keys_deleted_one_by_one", bench->keys - left, total);
    report_pause(bench, "worst_delete_or_tidying_cpu");
    report("resident_per_key_that_is_left", (resident_bytes() - before) / (double)left, "bytes");
}

static void bench_delete_all(struct bench *bench) {
    const struct kv_command command = {
        .op = KV_DELETE, .key = slice_of("\0", 1), .end = slice_of("\0", 1)};
    struct entry entry = {.index = bench->index + 1,
                          .term = 1,
                          .type = ENTRY_COMMAND,
                          .payload = kv_command_encode(&command)};
    struct kv_result result;
    size_t applied = 0;
    bench->worst_ns = 0;
    struct timer start = timer_start();
    while (applied == 0 || kv_tidy(bench->kv)) {
        struct timer call = timer_start();
        if (applied == 0) {
            require(kv_apply(bench->kv, &entry, 1, &result, &applied, NULL) == 0, "delete");
        }
        uint64_t cpu_ns = timer_since(call).cpu_ns;
        bench->worst_ns = cpu_ns > bench->worst_ns ? cpu_ns : bench->worst_ns;
    }
    report_rate("keys_deleted_by_one_range", result.count, timer_since(start));
    report_pause(bench, "worst_call_of_the_delete_cpu");
    blob_unref(entry.payload);
}

/* ---------------------------------------------------------------------------- all of it */

int main(int count, char **arguments) {
    struct bench bench = {.keys = count > 1 ? strtoul(arguments[1], NULL, 10) : 1000000,
                          .value_size = count > 2 ? strtoul(arguments[2], NULL, 10) : 256};
    const struct kv_options options = {.hash_seed = 0x5eed};
    require(kv_open(&bench.kv, &options) == 0, "open");
    bench.order = keys_shuffled(bench.keys);
    double before = resident_bytes();
    put_all(&bench, "inserts");
    report_pause(&bench, "worst_batch_of_64_inserts_cpu");
    double per_key = (resident_bytes() - before) / (double)bench.keys;
    report("resident_per_key", per_key, "bytes");
    report("overhead_per_key", per_key - (double)(KEY_SIZE + bench.value_size), "bytes");
    struct kv_stats stats;
    kv_stats(bench.kv, &stats);
    report("estimate_per_key", (double)stats.memory / (double)bench.keys, "bytes");
    put_all(&bench, "overwrites");
    report_pause(&bench, "worst_batch_of_64_overwrites_cpu");
    put_all(&bench, "overwrites_again");
    bench_gets(&bench);
    bench_two_readers(&bench);
    bench_ranges(&bench, false, "range_keys");
    bench_ranges(&bench, true, "range_keys_only");
    bench_count(&bench);
    bench_digest(&bench);
    if (count > 3) {
        bench_image(&bench, arguments[3]);
        bench_beside_image(&bench, arguments[3]);
    }
    bench_delete_most(&bench, before);
    put_all(&bench, "inserts_of_what_was_deleted");
    bench_delete_all(&bench);
    report("resident_after_delete", (resident_bytes() - before) / 1e6, "MB");
    (void)malloc_trim(0);
    report("resident_after_delete_and_trim", (resident_bytes() - before) / 1e6, "MB");
    kv_close(bench.kv);
    free(bench.order);
    return 0;
}
