/* One writer, and readers of every kind beside it: points, pages, long ranges, views, statistics. The
 * writer sets a group of keys to one number in each batch, so a reader that ever sees two numbers has
 * seen half a batch. Now and then everything is replaced at once. */
#include "base/feature.h"
#include "base/prng.h"
#include "kv/command.h"
#include "kv/kv.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    GROUP = 8,          /* keys that always have the same value */
    CROWD = 2000,       /* keys that come and go */
    BATCHES = 1000,     /* until the writer stops */
    RESTORE_EVERY = 300 /* batches */
};

#define REQUIRE(condition)                                                                  \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            (void)fprintf(stderr, "%s:%d: required: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

struct shared {
    struct kv *kv;
    atomic_bool stop;
    bool with_history;
    atomic_uint restores; /* begun, and completed: odd in between */
};

/* ---------------------------------------------------------------------------- the writer */

struct writer {
    struct kv *kv;
    uint64_t index, revision;
    struct prng prng;
};

static struct entry entry_of(uint64_t index, const struct kv_command *command) {
    struct blob *payload = kv_command_encode(command);
    REQUIRE(payload != NULL);
    return (struct entry){.index = index, .term = 1, .type = ENTRY_COMMAND, .payload = payload};
}

static struct entry crowd_entry(struct writer *writer, uint64_t index) {
    char key[16];
    char end[16];
    static uint8_t value[2000];
    unsigned number = (unsigned)prng_below(&writer->prng, CROWD);
    int size = snprintf(key, sizeof(key), "crowd%u", number);
    int end_size = snprintf(end, sizeof(end), "crowd%u", number + 30);
    struct kv_command command = {.op = KV_PUT,
                                 .key = slice_of(key, (size_t)size),
                                 .value = slice_of(value, prng_below(&writer->prng, 2000))};
    if (prng_below(&writer->prng, 8) == 0) {
        command.op = KV_DELETE;
        command.end = slice_of(end, (size_t)end_size);
    }
    return entry_of(index, &command);
}

static void apply_batch(struct writer *writer, uint64_t number) {
    enum { CROWD_ENTRIES = 40 };
    struct entry entries[GROUP + CROWD_ENTRIES];
    struct kv_result results[GROUP + CROWD_ENTRIES];
    size_t count = 0;
    for (; count < GROUP; count++) {
        char key[2] = {'g', (char)('0' + count)};
        const struct kv_command command = {
            .op = KV_PUT, .key = slice_of(key, 2), .value = slice_of(&number, sizeof(number))};
        entries[count] = entry_of(writer->index + count + 1, &command);
    }
    for (; count < GROUP + CROWD_ENTRIES; count++) {
        entries[count] = crowd_entry(writer, writer->index + count + 1);
    }
    for (size_t done = 0; done < count;) { /* a long delete takes several calls */
        size_t applied;
        REQUIRE(kv_apply(writer->kv, &entries[done], count - done, results, &applied, NULL) == 0);
        done += applied;
        writer->revision = applied > 0 ? results[applied - 1].revision : writer->revision;
    }
    writer->index += count;
    for (size_t i = 0; i < count; i++) {
        blob_unref(entries[i].payload);
    }
}

static void apply_one(struct writer *writer, struct entry entry) {
    struct kv_result result;
    size_t applied;
    REQUIRE(kv_apply(writer->kv, &entry, 1, &result, &applied, NULL) == 0 && applied == 1);
    REQUIRE(result.rc == 0 || result.rc == LKV_ECOMPACTED);
    writer->index++;
    blob_unref(entry.payload);
}

static void open_writer(struct writer *writer, bool with_history) {
    const struct kv_options options = {.hash_seed = 1, .feature_level = KV_LEVEL_HISTORY};
    REQUIRE(kv_open(&writer->kv, &options) == 0);
    if (with_history) {
        apply_one(writer, (struct entry){.index = 1,
                                         .term = 1,
                                         .type = ENTRY_FEATURE,
                                         .payload = feature_encode(KV_LEVEL_HISTORY)});
    }
}

/* Keeps what some hundred commands have changed. */
static void compact(struct writer *writer) {
    const struct kv_command command = {
        .op = KV_COMPACT, .revision = writer->revision > 300 ? writer->revision - 300 : 1};
    apply_one(writer, entry_of(writer->index + 1, &command));
}

/* Another state machine with the group at `number` takes over. */
static void restore(struct writer *writer, uint64_t number, bool with_history) {
    struct writer fresh = {.prng = prng_of(number)};
    open_writer(&fresh, with_history);
    apply_batch(&fresh, number);
    kv_restore(writer->kv, fresh.kv);
    writer->index = fresh.index;
    writer->revision = fresh.revision;
}

static void write_all(struct shared *shared, struct writer *writer) {
    for (uint64_t number = 1; number <= BATCHES; number++) {
        if (number % RESTORE_EVERY == 0) {
            atomic_fetch_add(&shared->restores, 1);
            restore(writer, number, shared->with_history);
            atomic_fetch_add(&shared->restores, 1);
        } else {
            apply_batch(writer, number);
        }
        if (shared->with_history && number % 5 == 0) {
            compact(writer);
        }
    }
    atomic_store(&shared->stop, true);
}

/* ---------------------------------------------------------------------------- readers */

static bool stopped(struct shared *shared) {
    return atomic_load(&shared->stop);
}

static uint64_t number_in(const struct kv_item *item) {
    uint64_t number;
    REQUIRE(item->value.size == sizeof(number));
    memcpy(&number, item->value.data, sizeof(number));
    return number;
}

/* Numbers never go back; the item read before is still whole when the next has been read. */
static void *read_points(void *arg) {
    struct shared *shared = arg;
    struct kv_item kept = {.owner = NULL};
    uint64_t last = 0;
    while (!stopped(shared)) {
        struct kv_item item;
        int rc = kv_get(shared->kv, slice_text("g3"), &item, NULL);
        REQUIRE(rc == 0 || (rc == LKV_ENOTFOUND && last == 0));
        if (rc == 0) {
            REQUIRE(number_in(&item) >= last);
            REQUIRE(kept.owner == NULL || number_in(&kept) == last);
            last = number_in(&item);
        }
        kv_item_release(&kept);
        kept = item;
        uint8_t copy[64];
        size_t size;
        (void)!kv_get_copy(shared->kv, slice_text("crowd77"), copy, sizeof(copy), &size);
    }
    kv_item_release(&kept);
    return NULL;
}

static void check_group(const struct kv_range *range) {
    REQUIRE(range->count == 0 || range->count == GROUP);
    for (size_t i = 1; i < range->count; i++) {
        REQUIRE(number_in(&range->items[i]) == number_in(&range->items[0]));
        REQUIRE(range->items[i].mod_rev <= range->stamp.revision);
    }
}

static void *read_pages(void *arg) {
    struct shared *shared = arg;
    const struct kv_query group = {.from = slice_text("g"), .to = slice_text("h")};
    const struct kv_query crowd = {
        .to = slice_text("g"), .descending = true, .with_total = true, .limit = 700};
    while (!stopped(shared)) {
        struct kv_range range;
        REQUIRE(kv_range(shared->kv, &group, &range) == 0);
        check_group(&range);
        kv_range_fini(&range);
        REQUIRE(kv_range(shared->kv, &crowd, &range) == 0);
        REQUIRE(range.total >= range.count && range.more == (range.total > range.count));
        kv_range_fini(&range);
        struct kv_stats stats;
        kv_stats(shared->kv, &stats);
        REQUIRE(stats.versions >= stats.keys);
    }
    return NULL;
}

/* As of revisions that are just about to be compacted away. */
static void *read_the_past(void *arg) {
    struct shared *shared = arg;
    uint64_t back = 0;
    while (!stopped(shared)) {
        struct kv_stamp stamp;
        unsigned restores = atomic_load(&shared->restores);
        kv_stamp(shared->kv, &stamp);
        uint64_t span =
            stamp.revision - (stamp.kept_from < stamp.revision ? stamp.kept_from : stamp.revision);
        const struct kv_query crowd = {.from = slice_text("crowd"),
                                       .revision = stamp.revision - (span > 0 ? back++ % span : 0),
                                       .with_total = true,
                                       .limit = 300};
        struct kv_range first, second;
        int rc = kv_range(shared->kv, &crowd, &first);
        /* Behind a restore the revision is another state's, and may be ahead of it. */
        REQUIRE(rc == 0 || rc == LKV_ECOMPACTED || rc == LKV_EFUTURE);
        if (rc != 0) {
            continue;
        }
        rc = kv_range(shared->kv, &crowd, &second);
        if (rc == 0 && restores % 2 == 0 && restores == atomic_load(&shared->restores)) {
            REQUIRE(second.total == first.total && second.count == first.count);
        }
        kv_range_fini(&first);
        kv_range_fini(&second);
    }
    return NULL;
}

static void *read_views(void *arg) {
    struct shared *shared = arg;
    while (!stopped(shared)) {
        struct kv_view *view;
        struct kv_view *younger;
        uint64_t first;
        uint64_t second;
        REQUIRE(kv_view_open(shared->kv, &view) == 0);
        REQUIRE(kv_view_open(shared->kv, &younger) == 0);
        REQUIRE(kv_view_digest(view, NULL, &first) == 0);
        REQUIRE(kv_view_digest(view, NULL, &second) == 0);
        REQUIRE(first == second);
        kv_view_close(view);
        REQUIRE(kv_view_digest(younger, NULL, &second) == 0);
        kv_view_close(younger);
    }
    return NULL;
}

static void run(bool with_history) {
    struct shared shared = {.stop = false, .with_history = with_history};
    struct writer writer = {.prng = prng_of(1)};
    open_writer(&writer, with_history);
    shared.kv = writer.kv;
    void *(*const readers[])(void *) = {read_points, read_points, read_pages,
                                        read_pages,  read_views,  read_the_past};
    enum { READERS = sizeof(readers) / sizeof(readers[0]) };
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, readers[i], &shared) == 0);
    }
    write_all(&shared, &writer);
    for (int i = 0; i < READERS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    if (with_history) {
        const struct kv_command command = {.op = KV_COMPACT, .revision = writer.revision};
        apply_one(&writer, entry_of(writer.index + 1, &command));
    }
    while (kv_tidy(shared.kv)) {
    }
    struct kv_stats stats;
    kv_stats(shared.kv, &stats);
    /* Nothing old is kept for nobody; a delete at the revision that was compacted to is an event. */
    REQUIRE(stats.versions >= stats.keys && stats.versions <= stats.keys + (with_history ? 31 : 0));
    kv_close(shared.kv);
}

int main(void) {
    run(false);
    run(true);
    (void)printf("2 passed, 0 failed\n");
    return 0;
}
