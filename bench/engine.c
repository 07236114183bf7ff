/* The memory engine alone, on one thread (and readers on two): one JSON line per figure.
 *
 *      bench_engine [KEYS [VALUE_SIZE]]      default 1000000 keys of 16 bytes, values of 256
 *
 * "puts" are whole commands, decoded from the bytes that a log entry has; entries are made before the
 * clock starts, in groups of 64, so that a group is one batch of the applier. */
#include "base/mem.h"
#include "base/prng.h"
#include "kv/command.h"
#include "kv/kv.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { KEY_SIZE = 16, BATCH = 64, READERS = 2 };

struct bench {
    struct kv *kv;
    size_t keys, value_size;
    uint64_t index;
    uint32_t *order; /* a permutation of the keys */
    uint64_t worst_ns;
};

static void die(const char *what) {
    (void)fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static void require(bool condition, const char *what) {
    if (!condition) {
        die(what);
    }
}

static uint64_t now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t cpu_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void report(const char *name, double value, const char *unit) {
    (void)printf("{\"bench\":\"engine\",\"figure\":\"%s\",\"value\":%.1f,\"unit\":\"%s\"}\n", name,
                 value, unit);
    (void)fflush(stdout);
}

static void report_rate(const char *name, size_t count, uint64_t ns) {
    report(name, (double)count * 1e9 / (double)ns, "per_s");
}

static double resident_bytes(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    require(file != NULL && fscanf(file, "%*d %ld", &pages) == 1, "statm");
    (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Sixteen characters in which neighbours in number are not neighbours in order. */
static void key_of(uint32_t number, char *into) {
    static const char digits[] = "0123456789abcdef";
    struct prng prng = prng_of(number);
    uint64_t bits = prng_next(&prng);
    for (int i = 0; i < KEY_SIZE; i++) {
        into[i] = digits[bits >> (4 * i) & 15];
    }
}

/* ---------------------------------------------------------------------------- writing */

static void make_batch(struct bench *bench, struct entry *entries, size_t first, size_t count,
                       uint8_t *value) {
    for (size_t i = 0; i < count; i++) {
        char key[KEY_SIZE];
        key_of(bench->order[(first + i) % bench->keys], key);
        value[0] = (uint8_t)i;
        const struct kv_command command = {.op = KV_PUT,
                                           .key = slice_of(key, sizeof(key)),
                                           .value = slice_of(value, bench->value_size)};
        entries[i] = (struct entry){.index = bench->index + i + 1,
                                    .term = 1,
                                    .type = ENTRY_COMMAND,
                                    .payload = kv_command_encode(&command)};
        require(entries[i].payload != NULL, "out of memory");
    }
}

/* Puts all keys once; the time is that of kv_apply alone. */
static void put_all(struct bench *bench, const char *name) {
    uint8_t *value = calloc(1, bench->value_size + 1);
    require(value != NULL, "out of memory");
    uint64_t ns = 0;
    bench->worst_ns = 0;
    for (size_t first = 0; first < bench->keys; first += BATCH) {
        size_t count = bench->keys - first < BATCH ? bench->keys - first : BATCH;
        struct entry entries[BATCH];
        struct kv_result results[BATCH];
        size_t applied;
        make_batch(bench, entries, first, count, value);
        uint64_t start = now_ns();
        uint64_t start_cpu = cpu_ns();
        require(kv_apply(bench->kv, entries, count, results, &applied, NULL) == 0, "apply");
        uint64_t taken_cpu = cpu_ns() - start_cpu;
        ns += now_ns() - start;
        bench->worst_ns = taken_cpu > bench->worst_ns ? taken_cpu : bench->worst_ns;
        bench->index += count;
        for (size_t i = 0; i < count; i++) {
            blob_unref(entries[i].payload);
        }
    }
    free(value);
    report_rate(name, bench->keys, ns);
}

static void report_pause(const struct bench *bench, const char *name) {
    report(name, (double)bench->worst_ns / 1e3, "us");
}

/* ---------------------------------------------------------------------------- reading */

static void get_all(const struct bench *bench, bool pinned) {
    char into[4096];
    for (size_t i = 0; i < bench->keys; i++) {
        char key[KEY_SIZE];
        key_of(bench->order[i], key);
        struct slice slice = slice_of(key, sizeof(key));
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
    uint64_t start = now_ns();
    get_all(bench, true);
    report_rate("gets_pinned", bench->keys, now_ns() - start);
    start = now_ns();
    get_all(bench, false);
    report_rate("gets_copied", bench->keys, now_ns() - start);
}

static void *reader_main(void *arg) {
    const struct bench *bench = arg;
    get_all(bench, false);
    get_all(bench, false);
    return NULL;
}

static void bench_two_readers(struct bench *bench) {
    pthread_t threads[READERS];
    uint64_t start = now_ns();
    for (int i = 0; i < READERS; i++) {
        require(pthread_create(&threads[i], NULL, reader_main, bench) == 0, "thread");
    }
    for (int i = 0; i < READERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    report_rate("gets_copied_two_threads", 2 * READERS * bench->keys, now_ns() - start);
}

static void bench_ranges(const struct bench *bench, bool keys_only, const char *name) {
    uint64_t start = now_ns();
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
    report_rate(name, seen, now_ns() - start);
}

static void bench_count(const struct bench *bench) {
    uint64_t start = now_ns();
    const struct kv_query query = {.count_only = true};
    struct kv_range range;
    require(kv_range(bench->kv, &query, &range) == 0 && range.total == bench->keys, "count");
    kv_range_fini(&range);
    report_rate("keys_counted", bench->keys, now_ns() - start);
}

static void bench_digest(const struct bench *bench) {
    struct kv_view *view;
    uint64_t digest;
    uint64_t start = now_ns();
    require(kv_view_open(bench->kv, &view) == 0, "view");
    require(kv_view_digest(view, &digest) == 0, "digest");
    kv_view_close(view);
    report("digest_ms", (double)(now_ns() - start) / 1e6, "ms");
}

static void bench_delete_all(struct bench *bench) {
    const struct kv_command command = {
        .op = KV_DELETE, .key = slice_of("\0", 1), .end = slice_of("\0", 1)};
    struct entry entry = {.index = bench->index + 1,
                          .term = 1,
                          .type = ENTRY_COMMAND,
                          .payload = kv_command_encode(&command)};
    struct kv_result result;
    size_t applied;
    uint64_t start = now_ns();
    require(kv_apply(bench->kv, &entry, 1, &result, &applied, NULL) == 0, "delete");
    report_rate("keys_deleted_by_one_range", result.count, now_ns() - start);
    blob_unref(entry.payload);
}

/* ---------------------------------------------------------------------------- all of it */

static void shuffle(struct bench *bench) {
    struct prng prng = prng_of(1);
    bench->order = malloc(bench->keys * sizeof(bench->order[0]));
    require(bench->order != NULL, "out of memory");
    for (size_t i = 0; i < bench->keys; i++) {
        size_t at = prng_below(&prng, i + 1);
        bench->order[i] = bench->order[at];
        bench->order[at] = (uint32_t)i;
    }
}

int main(int count, char **arguments) {
    struct bench bench = {.keys = count > 1 ? strtoul(arguments[1], NULL, 10) : 1000000,
                          .value_size = count > 2 ? strtoul(arguments[2], NULL, 10) : 256};
    const struct kv_options options = {.hash_seed = 0x5eed};
    require(kv_open(&bench.kv, &options) == 0, "open");
    shuffle(&bench);
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
    bench_delete_all(&bench);
    report("resident_after_delete", (resident_bytes() - before) / 1e6, "MB");
    (void)malloc_trim(0);
    report("resident_after_delete_and_trim", (resident_bytes() - before) / 1e6, "MB");
    kv_close(bench.kv);
    free(bench.order);
    return 0;
}
