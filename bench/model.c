/* The state machine with history, on one thread: writes that keep what they replace, reads as of old
 * revisions, compaction, counters and transactions; one JSON line per figure, as bench_engine.
 *
 *      bench_model [KEYS [VALUE_SIZE]]     default 1000000 keys of 16 bytes, values of 256 */
#include "base/feature.h"
#include "base/mem.h"
#define BENCH_NAME "model"
#include "bench/support/figures.h"
#include "kv/kv.h"
#include "kv/txn.h"
#include "kv/watch.h"

#include <malloc.h>

enum { BATCH = 64, HOT = 1000000, WATCHES = 10000 };

struct bench {
    struct kv *kv;
    size_t keys, value_size;
    uint64_t index, revision;
    uint64_t worst_ns;
    double before;              /* resident bytes without keys */
    uint8_t *value;             /* owned */
    struct kv_watches *watches; /* NULL: nobody watches */
};

/* What was shown is told, and whoever was told waits for more. */
static void tell(struct bench *bench) {
    struct list_link done;
    list_init(&done);
    while (kv_watches_run(bench->watches, &done)) {
    }
    for (struct list_link *link; (link = list_pop_front(&done)) != NULL;) {
        struct kv_watch *watch = LIST_ITEM(link, struct kv_watch, link);
        require(watch->rc == 0 && watch->count > 0, "an event");
        kv_watch_fini(watch);
        require(!kv_watch_join(bench->watches, watch), "join");
    }
}

static void apply(struct bench *bench, struct entry *entries, size_t count, struct timer *total) {
    struct kv_result results[BATCH];
    for (size_t done = 0; done < count;) {
        size_t applied;
        struct timer start = timer_start();
        require(kv_apply(bench->kv, entries + done, count - done, results, &applied, NULL) == 0,
                "apply");
        if (bench->watches != NULL) {
            tell(bench);
        }
        struct timer taken = timer_since(start);
        total->wall_ns += taken.wall_ns;
        total->cpu_ns += taken.cpu_ns;
        bench->worst_ns = taken.cpu_ns > bench->worst_ns ? taken.cpu_ns : bench->worst_ns;
        for (size_t i = 0; i < applied; i++) {
            require(results[i].rc == 0, "an outcome");
            bench->revision = results[i].revision;
            kv_result_fini(&results[i]);
        }
        done += applied;
    }
    bench->index += count;
    for (size_t i = 0; i < count; i++) {
        blob_unref(entries[i].payload);
    }
}

static struct entry entry_of(const struct bench *bench, size_t i,
                             const struct kv_command *command) {
    struct blob *payload = kv_command_encode(command);
    require(payload != NULL, "out of memory");
    return (struct entry){
        .index = bench->index + i + 1, .term = 1, .type = ENTRY_COMMAND, .payload = payload};
}

static void apply_one(struct bench *bench, const struct kv_command *command, struct timer *total) {
    struct entry entry = entry_of(bench, 0, command);
    apply(bench, &entry, 1, total);
}

static void begin(struct bench *bench) {
    const struct kv_options options = {.hash_seed = 0x5eed, .feature_level = KV_LEVEL_HISTORY};
    require(kv_open(&bench->kv, &options) == 0, "open");
    struct timer total = {0, 0};
    struct entry entry = {
        .index = 1, .term = 1, .type = ENTRY_FEATURE, .payload = feature_encode(KV_LEVEL_HISTORY)};
    bench->index = 0;
    apply(bench, &entry, 1, &total);
}

/* Makes the i-th command; its slices live until the next one is made. */
typedef void make_fn(const struct bench *bench, size_t i, struct kv_command *command);

static void run(struct bench *bench, const char *name, size_t count, make_fn *make) {
    struct timer total = {0, 0};
    bench->worst_ns = 0;
    for (size_t first = 0; first < count; first += BATCH) {
        size_t size = count - first < BATCH ? count - first : BATCH;
        struct entry entries[BATCH];
        for (size_t i = 0; i < size; i++) {
            struct kv_command command = {.op = KV_PUT};
            make(bench, first + i, &command);
            entries[i] = entry_of(bench, i, &command);
        }
        apply(bench, entries, size, &total);
    }
    report_rate(name, count, total);
    char text[100];
    (void)snprintf(text, sizeof(text), "worst_batch_of_64_%s_cpu", name);
    report(text, (double)bench->worst_ns / 1e3, "us");
}

/* ---------------------------------------------------------------------------- commands */

static struct slice key_at(size_t i) {
    static char keys[4][KEY_SIZE];
    static size_t next;
    char *key = keys[next++ % 4];
    key_of((uint32_t)i, key);
    return slice_of(key, KEY_SIZE);
}

static void make_put(const struct bench *bench, size_t i, struct kv_command *command) {
    command->key = key_at(i);
    command->value = slice_of(bench->value, bench->value_size);
}

static void make_hot(const struct bench *bench, size_t i, struct kv_command *command) {
    (void)i;
    command->key = slice_text("hot");
    command->value = slice_of(bench->value, 8);
}

static void make_add(const struct bench *bench, size_t i, struct kv_command *command) {
    (void)bench;
    static char key[24];
    (void)snprintf(key, sizeof(key), "counter%04zu", i % 10000);
    command->op = KV_ADD;
    command->key = slice_text(key);
    command->delta = 1;
}

static void make_previous(const struct bench *bench, size_t i, struct kv_command *command) {
    make_put(bench, i, command);
    command->flags = KV_PREVIOUS;
}

/* One compare, a put to each of two keys, and a read. */
static void make_txn(const struct bench *bench, size_t i, struct kv_command *command) {
    static struct buffer program;
    struct kv_txn txn;
    buffer_clear(&program);
    kv_txn_init(&txn);
    const struct kv_compare compare = {
        .field = KV_FIELD_VERSION, .relation = KV_GREATER, .key = key_at(i), .number = 0};
    kv_txn_compare(&txn, &compare);
    for (size_t k = 0; k < 2; k++) {
        const struct kv_step put = {.op = KV_PUT,
                                    .key = key_at((i + k * 7919) % bench->keys),
                                    .value = slice_of(bench->value, bench->value_size)};
        kv_txn_step(&txn, true, &put);
    }
    const struct kv_step get = {.op = KV_RANGE, .key = key_at((i + 13) % bench->keys)};
    kv_txn_step(&txn, true, &get);
    kv_txn_write(&txn, &program);
    kv_txn_fini(&txn);
    command->op = KV_TXN;
    command->txn = buffer_slice(&program);
}

/* ---------------------------------------------------------------------------- reading */

static void bench_gets(const struct bench *bench, uint64_t revision, const char *name) {
    struct prng prng = prng_of(3);
    struct timer start = timer_start();
    for (size_t i = 0; i < bench->keys; i++) {
        struct kv_item item;
        size_t at = prng_below(&prng, bench->keys);
        require(kv_get_at(bench->kv, key_at(at), revision, &item, NULL) == 0, "get");
        kv_item_release(&item);
    }
    report_rate(name, bench->keys, timer_since(start));
}

static void bench_ranges(const struct bench *bench, uint64_t revision, const char *name) {
    struct timer start = timer_start();
    size_t seen = 0;
    char from[KEY_SIZE + 1];
    struct kv_query query = {.limit = 1000, .revision = revision};
    for (bool more = true; more;) {
        struct kv_range range;
        require(kv_range(bench->kv, &query, &range) == 0 && range.count > 0, "range");
        seen += range.count;
        more = range.more;
        memcpy(from, range.items[range.count - 1].key.data, KEY_SIZE);
        from[KEY_SIZE] = 0; /* the next possible key */
        query.from = slice_of(from, sizeof(from));
        kv_range_fini(&range);
    }
    require(seen == bench->keys, "range: keys are missing");
    report_rate(name, seen, timer_since(start));
}

/* ---------------------------------------------------------------------------- compaction */

static void bench_compaction(struct bench *bench, const char *name) {
    struct kv_stats before, after;
    kv_stats(bench->kv, &before);
    const struct kv_command command = {.op = KV_COMPACT, .revision = bench->revision};
    struct timer total = {0, 0};
    uint64_t worst_ns = 0;
    bench->worst_ns = 0;
    apply_one(bench, &command, &total);
    for (bool more = true; more;) {
        struct timer start = timer_start();
        more = kv_tidy(bench->kv);
        struct timer taken = timer_since(start);
        total.wall_ns += taken.wall_ns;
        total.cpu_ns += taken.cpu_ns;
        worst_ns = taken.cpu_ns > worst_ns ? taken.cpu_ns : worst_ns;
    }
    kv_stats(bench->kv, &after);
    report_rate(name, before.versions - after.versions, total);
    report("worst_call_of_the_compaction_cpu",
           (double)(worst_ns > bench->worst_ns ? worst_ns : bench->worst_ns) / 1e3, "us");
}

static void bench_hot_key(struct bench *bench) {
    run(bench, "puts_of_one_key", HOT, make_hot);
    struct timer start = timer_start();
    struct kv_item item;
    uint64_t oldest = bench->revision - HOT + 1;
    require(kv_get_at(bench->kv, slice_text("hot"), oldest, &item, NULL) == 0, "get");
    kv_item_release(&item);
    report("get_of_the_oldest_of_a_million_versions_cpu", (double)timer_since(start).cpu_ns / 1e3,
           "us");
    bench_compaction(bench, "versions_of_one_key_compacted");
}

/* A lease with all keys runs out: one entry, in as many calls as it takes, and then its garbage. */
static void make_leased(const struct bench *bench, size_t i, struct kv_command *command) {
    make_put(bench, i, command);
    command->lease = 1;
}

static void bench_lease(struct bench *bench) {
    struct timer total = {0, 0};
    const struct kv_command grant = {
        .op = KV_LEASE_GRANT, .lease = 1, .ttl_ms = 60000, .limit = KV_LEASES_MAX};
    const struct kv_command revoke = {.op = KV_LEASE_REVOKE, .lease = 1};
    apply_one(bench, &grant, &total);
    run(bench, "puts_with_a_lease", bench->keys, make_leased);
    bench->worst_ns = 0;
    total = (struct timer){0, 0};
    apply_one(bench, &revoke, &total);
    report_rate("keys_expired_with_their_lease", bench->keys, total);
    report("worst_call_of_the_expiry_cpu", (double)bench->worst_ns / 1e3, "us");
    total = (struct timer){0, 0};
    struct kv_command put = {.op = KV_PUT};
    make_hot(bench, 0, &put);
    apply_one(bench, &put,
              &total); /* the deletes are not of the newest revision any more: they can go */
    bench_compaction(bench, "versions_compacted_of_a_lease");
    report("resident_without_keys", (resident_bytes() - bench->before) / 1e6, "MB");
}

/* 10,000 watches on prefixes of which no two overlap: of keys that nobody writes, or of all that there are. */
static void bench_watches(struct bench *bench, const char *name, bool matching) {
    static struct kv_watch watches[WATCHES];
    static char ends[WATCHES + 1][16];
    require(kv_watches_open(&bench->watches, bench->kv) == 0, "watches");
    for (unsigned i = 0; i <= WATCHES; i++) {
        (void)snprintf(ends[i], sizeof(ends[i]), matching ? "%08x" : "/watched/%05x",
                       matching ? (unsigned)((uint64_t)i * UINT32_MAX / WATCHES) : i);
    }
    for (unsigned i = 0; i < WATCHES; i++) {
        bool last = i + 1 == WATCHES;
        watches[i] = (struct kv_watch){.from = slice_text(ends[i]),
                                       .to = last ? slice_text("g") : slice_text(ends[i + 1])};
        require(!kv_watch_join(bench->watches, &watches[i]), "join");
    }
    run(bench, name, bench->keys, make_put);
    for (unsigned i = 0; i < WATCHES; i++) {
        kv_watch_leave(&watches[i]);
        kv_watch_fini(&watches[i]);
    }
    kv_watches_close(bench->watches);
    bench->watches = NULL;
}

int main(int count, char **arguments) {
    struct bench bench = {.keys = count > 1 ? strtoul(arguments[1], NULL, 10) : 1000000,
                          .value_size = count > 2 ? strtoul(arguments[2], NULL, 10) : 256};
    bench.value = calloc(1, bench.value_size + 8);
    require(bench.value != NULL, "out of memory");
    begin(&bench);
    double before = bench.before = resident_bytes();
    run(&bench, "inserts", bench.keys, make_put);
    uint64_t inserted = bench.revision;
    double once = resident_bytes();
    run(&bench, "overwrites", bench.keys, make_put);
    double twice = resident_bytes();
    double each = (double)bench.value_size + KEY_SIZE;
    report("overhead_per_key", (once - before) / (double)bench.keys - each, "bytes");
    report("overhead_per_old_version", (twice - once) / (double)bench.keys - each, "bytes");
    bench_gets(&bench, 0, "gets");
    bench_gets(&bench, inserted, "gets_of_old_versions");
    bench_ranges(&bench, 0, "range_keys");
    bench_ranges(&bench, inserted, "range_keys_of_an_old_revision");
    bench_compaction(&bench, "versions_compacted");
    (void)malloc_trim(0);
    report("overhead_per_key_when_compacted",
           (resident_bytes() - before) / (double)bench.keys - each, "bytes");
    run(&bench, "puts_with_previous", bench.keys, make_previous);
    run(&bench, "adds", bench.keys, make_add);
    run(&bench, "transactions", bench.keys / 2, make_txn);
    run(&bench, "overwrites_unwatched", bench.keys, make_put);
    bench_watches(&bench, "overwrites_beside_watches", false);
    bench_watches(&bench, "overwrites_each_watched", true);
    bench_compaction(&bench, "versions_compacted_again");
    bench_hot_key(&bench);
    bench_lease(&bench);
    kv_close(bench.kv);
    free(bench.value);
    return 0;
}
