/* The engine on disk, on one thread, beside a plain loop that does the same reads and records with the same map: what the
 * state machine costs above it. One JSON line per figure, as bench_engine.
 *
 *      bench_disk DIR [KEYS [VALUE_SIZE]]     default 200000 keys of 16 bytes, values of 256; DIR is there, empty
 *
 * Both take turns, so that whatever else the machine does meets both. */
#include "base/feature.h"
#define BENCH_NAME "disk"
#include "bench/support/figures.h"
#include "kv/durable.h"
#include "lib/uv/disk_posix.h"

enum { BATCH = 64, ROUNDS = 20, BUFFER_BYTES = 4 * 1024 * 1024, CACHE_BYTES = 64 * 1024 * 1024 };

struct bench {
    const struct ordered_ops *engine;
    struct kv_home home;
    struct kv *kv;
    struct ordered *plain;
    size_t keys, value_size;
    uint8_t *value;           /* owned */
    uint64_t index, revision; /* of the state machine; of the plain loop */
};

static void add_time(struct timer *total, struct timer taken) {
    total->wall_ns += taken.wall_ns;
    total->cpu_ns += taken.cpu_ns;
}

static void key_text(char into[17], size_t number) {
    (void)snprintf(into, 17, "%016zx", number * 0x9e3779b97f4a7c15u);
}

/* ---------------------------------------------------------------------------- the state machine */

static void open_kv(struct bench *bench) {
    struct reason why = {{0}};
    const struct kv_options options = {
        .feature_level = KV_LEVEL_HISTORY, .home = &bench->home, .why = &why};
    require(kv_open(&bench->kv, &options) == 0, why.text);
}

static void apply(struct bench *bench, const struct entry *entries, size_t count) {
    struct kv_result results[BATCH];
    for (size_t done = 0; done < count;) {
        size_t applied;
        require(kv_apply(bench->kv, entries + done, count - done, results, &applied, NULL) == 0,
                "apply");
        done += applied;
    }
}

static void raise_level(struct bench *bench) {
    const struct entry entry = {.index = ++bench->index,
                                .term = 1,
                                .type = ENTRY_FEATURE,
                                .payload = feature_encode(KV_LEVEL_HISTORY)};
    apply(bench, &entry, 1);
    blob_unref(entry.payload);
}

/* Puts keys [from, to). */
static struct timer put_kv(struct bench *bench, size_t from, size_t to) {
    struct timer total = {0};
    for (size_t at = from; at < to; at += BATCH) {
        struct entry entries[BATCH];
        size_t count = to - at < BATCH ? to - at : BATCH;
        for (size_t i = 0; i < count; i++) {
            char key[17];
            key_text(key, at + i);
            const struct kv_command command = {.op = KV_PUT,
                                               .key = slice_of(key, 16),
                                               .value = slice_of(bench->value, bench->value_size)};
            entries[i] = (struct entry){.index = ++bench->index,
                                        .term = 1,
                                        .type = ENTRY_COMMAND,
                                        .payload = kv_command_encode(&command)};
        }
        struct timer start = timer_start();
        apply(bench, entries, count);
        add_time(&total, timer_since(start));
        for (size_t i = 0; i < count; i++) {
            blob_unref(entries[i].payload);
        }
    }
    return total;
}

static struct timer get_kv(struct bench *bench, size_t from, size_t to) {
    struct timer start = timer_start();
    for (size_t i = from; i < to; i++) {
        char key[17];
        struct kv_item item;
        key_text(key, i);
        require(kv_get(bench->kv, slice_of(key, 16), &item, NULL) == 0, "get");
        kv_item_release(&item);
    }
    return timer_since(start);
}

/* ---------------------------------------------------------------------------- the plain loop */

static void plain_batch(struct bench *bench, size_t from, size_t count) {
    const struct ordered_ops *ops = bench->engine;
    struct ordered_iter *iter = ops->iterate(bench->plain, ORDERED_PENDING, NULL, true);
    uint8_t record[32 + 4096], key[32], change[16], told[32] = {0}, stamp[80] = {0};
    memset(record, 0, 32);
    memcpy(record + 17, bench->value, bench->value_size);
    for (size_t i = 0; i < count; i++) {
        char text[17];
        struct slice at, value;
        uint64_t revision = ~++bench->revision, number = __builtin_bswap64(revision);
        key_text(text, from + i);
        key[0] = 'k';
        memcpy(key + 1, text, 16);
        memcpy(key + 17, "\0\1", 2);
        memset(key + 19, 0, 8);
        ops->seek(iter, slice_of(key, 27));
        bool there = ops->at(iter, &at, &value);
        told[0] = there;
        memcpy(key + 19, &number, 8);
        ops->put(bench->plain, slice_of(key, 27), slice_of(record, 17 + bench->value_size));
        change[0] = 'c';
        number = ~number;
        memcpy(change + 1, &number, 8);
        memset(change + 9, 0, 4);
        ops->put(bench->plain, slice_of(change, 13), slice_of(told, 25));
    }
    ops->put(bench->plain, slice_text("ms"), slice_of(stamp, sizeof(stamp)));
    ops->end(iter);
    require(ops->commit(bench->plain, NULL) == 0, "commit");
}

static struct timer put_plain(struct bench *bench, size_t from, size_t to) {
    struct timer start = timer_start();
    for (size_t at = from; at < to; at += BATCH) {
        plain_batch(bench, at, to - at < BATCH ? to - at : BATCH);
    }
    return timer_since(start);
}

static struct timer get_plain(struct bench *bench, size_t from, size_t to) {
    const struct ordered_ops *ops = bench->engine;
    struct timer start = timer_start();
    for (size_t i = from; i < to; i++) {
        char text[17];
        uint8_t key[32] = {'k'};
        struct slice at, value;
        key_text(text, i);
        memcpy(key + 1, text, 16);
        memcpy(key + 17, "\0\1", 2);
        struct ordered_iter *iter = ops->iterate(bench->plain, ORDERED_COMMITTED, NULL, true);
        ops->seek(iter, slice_of(key, 27));
        require(ops->at(iter, &at, &value), "plain get");
        uint8_t *copy = malloc(value.size);
        require(copy != NULL, "memory");
        memcpy(copy, value.data, value.size);
        free(copy);
        ops->end(iter);
    }
    return timer_since(start);
}

/* ---------------------------------------------------------------------------- rounds */

typedef struct timer step_fn(struct bench *bench, size_t from, size_t to);

static void compare(struct bench *bench, const char *name, step_fn *engine, step_fn *plain) {
    struct timer ours = {0}, theirs = {0};
    size_t part = bench->keys / ROUNDS;
    for (size_t round = 0; round < ROUNDS; round++) {
        add_time(&ours, engine(bench, round * part, (round + 1) * part));
        add_time(&theirs, plain(bench, round * part, (round + 1) * part));
    }
    char figure[64];
    (void)snprintf(figure, sizeof(figure), "%s", name);
    report_rate(figure, ROUNDS * part, ours);
    (void)snprintf(figure, sizeof(figure), "%s_of_a_plain_loop", name);
    report_rate(figure, ROUNDS * part, theirs);
    (void)snprintf(figure, sizeof(figure), "%s_by_the_cpu_of_the_loop", name);
    report(figure, 100.0 * (double)theirs.cpu_ns / (double)ours.cpu_ns, "percent");
}

int main(int argc, char **argv) {
    struct bench bench = {.keys = 200000, .value_size = 256};
    struct disk *disk;
    struct reason why = {{0}};
    char plain[1024];
    require(argc > 1, "bench_disk DIR [KEYS [VALUE_SIZE]]");
    bench.keys = argc > 2 ? strtoul(argv[2], NULL, 10) : bench.keys;
    bench.value_size = argc > 3 ? strtoul(argv[3], NULL, 10) : bench.value_size;
    require(bench.keys >= ROUNDS && bench.value_size <= 4096,
            "at least 20 keys, values up to 4096");
    require(disk_posix_open(&disk) == 0, "disk");
    int rc = ordered_load("rocksdb", &bench.engine, &why);
    require(rc == 0, why.text);
    bench.value = calloc(1, bench.value_size + 1);
    for (size_t i = 0; i < bench.value_size; i++) {
        bench.value[i] = (uint8_t)(i * 37 + i / 7);
    }
    bench.home = (struct kv_home){.engine = bench.engine,
                                  .disk = disk,
                                  .dir = argv[1],
                                  .member_id = 1,
                                  .unflushed_bytes = BUFFER_BYTES,
                                  .cache_bytes = CACHE_BYTES};
    const struct ordered_options options = {.write_buffer_bytes = BUFFER_BYTES,
                                            .cache_bytes = CACHE_BYTES};
    (void)snprintf(plain, sizeof(plain), "%s/plain", argv[1]);
    open_kv(&bench);
    raise_level(&bench);
    require(bench.engine->open(&bench.plain, plain, &options, &why) == 0, why.text);
    compare(&bench, "inserts", put_kv, put_plain);
    compare(&bench, "overwrites", put_kv, put_plain);
    compare(&bench, "gets", get_kv, get_plain);
    kv_close(bench.kv);
    struct timer start = timer_start();
    open_kv(&bench);
    report("open_after_close", (double)timer_since(start).wall_ns / 1e6, "ms");
    kv_close(bench.kv);
    bench.engine->close(bench.plain);
    free(bench.value);
    disk_posix_close(disk);
    return 0;
}
