/* One writer, and readers of every kind beside it: points, pages, long ranges, views, statistics. The
 * writer sets a group of keys to one number in each batch, so a reader that ever sees two numbers has
 * seen half a batch. Now and then everything is replaced at once. */
#include "base/prng.h"
#include "kv/command.h"
#include "kv/kv.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    GROUP = 8,          /* keys that always have the same value */
    CROWD = 2000,       /* keys that come and go */
    BATCHES = 1500,     /* until the writer stops */
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
};

/* ---------------------------------------------------------------------------- the writer */

struct writer {
    struct kv *kv;
    uint64_t index;
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
    }
    writer->index += count;
    for (size_t i = 0; i < count; i++) {
        blob_unref(entries[i].payload);
    }
}

/* Another state machine with the group at `number` takes over. */
static void restore(struct writer *writer, uint64_t number) {
    const struct kv_options options = {.hash_seed = number};
    struct writer fresh = {.prng = prng_of(number)};
    REQUIRE(kv_open(&fresh.kv, &options) == 0);
    apply_batch(&fresh, number);
    kv_restore(writer->kv, fresh.kv);
    writer->index = fresh.index;
}

static void write_all(struct shared *shared) {
    struct writer writer = {.kv = shared->kv, .prng = prng_of(1)};
    for (uint64_t number = 1; number <= BATCHES; number++) {
        if (number % RESTORE_EVERY == 0) {
            restore(&writer, number);
        } else {
            apply_batch(&writer, number);
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

int main(void) {
    struct shared shared = {.stop = false};
    const struct kv_options options = {.hash_seed = 1};
    REQUIRE(kv_open(&shared.kv, &options) == 0);
    void *(*const readers[])(void *) = {read_points, read_points, read_pages, read_pages,
                                        read_views};
    enum { READERS = sizeof(readers) / sizeof(readers[0]) };
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, readers[i], &shared) == 0);
    }
    write_all(&shared);
    for (int i = 0; i < READERS; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    while (kv_tidy(shared.kv)) {
    }
    struct kv_stats stats;
    kv_stats(shared.kv, &stats);
    REQUIRE(stats.versions == stats.keys); /* nothing old is kept for nobody */
    kv_close(shared.kv);
    (void)printf("1 passed, 0 failed\n");
    return 0;
}
