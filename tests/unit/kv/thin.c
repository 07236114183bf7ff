/* What is left after most keys have gone is moved together, so that memory returns; and nobody sees a difference. */
#include "kv/thin.h"

#include "base/pool.h"
#include "feed.h"

#include <criterion/criterion.h>

enum { KEYS = 40000, KEPT_EACH = 10, VALUE_SIZE = 300 };

static struct slice key_at(size_t i) {
    static char text[32];
    (void)snprintf(text, sizeof(text), "key/%07zu", i * 7919 % KEYS);
    return slice_text(text);
}

static struct slice value_at(size_t i) {
    static char bytes[VALUE_SIZE];
    memset(bytes, (int)(i % 251), sizeof(bytes));
    return slice_of(bytes, sizeof(bytes));
}

static bool is_kept(size_t i) {
    return i % KEPT_EACH == 0;
}

static void compact(struct feed *feed) {
    struct kv_stamp stamp;
    kv_stamp(feed->kv, &stamp);
    const struct kv_command command = {.op = KV_COMPACT, .revision = stamp.revision};
    cr_assert_eq(feed_command(feed, &command), 0);
    cr_assert_eq(feed->result.rc, 0);
}

static void put_all(struct feed *feed) {
    for (size_t i = 0; i < KEYS; i++) {
        cr_assert_eq(feed_put(feed, key_at(i), value_at(i)), 0);
    }
}

static void delete_most(struct feed *feed) {
    for (size_t i = 0; i < KEYS; i++) {
        if (!is_kept(i)) {
            cr_assert_eq(feed_delete(feed, key_at(i), (struct slice){0}), 0);
        }
    }
}

/* By point, and in order. */
static void check_kept(struct feed *feed) {
    for (size_t i = 0; i < KEYS; i++) {
        struct kv_item item;
        int rc = kv_get(feed->kv, key_at(i), &item, NULL);
        cr_assert_eq(rc, is_kept(i) ? 0 : LKV_ENOTFOUND, "key %zu", i);
        if (rc == 0) {
            cr_assert(slice_equal(item.value, value_at(i)));
            cr_assert_eq(item.version, 1);
            kv_item_release(&item);
        }
    }
    struct kv_range range;
    const struct kv_query query = {.limit = KEYS};
    cr_assert_eq(kv_range(feed->kv, &query, &range), 0);
    cr_assert_eq(range.count, KEYS / KEPT_EACH);
    for (size_t i = 1; i < range.count; i++) {
        cr_assert(slice_compare(range.items[i - 1].key, range.items[i].key) < 0);
    }
    kv_range_fini(&range);
}

/* Each kept key is written, and half of them deleted: what was moved is found by table, index and chain. */
static void go_on(struct feed *feed) {
    for (size_t i = 0; i < KEYS; i += KEPT_EACH) {
        cr_assert_eq(feed_put(feed, key_at(i), slice_text("new")), 0);
        if (i % (2 * KEPT_EACH) == 0) {
            cr_assert_eq(feed_delete(feed, key_at(i), (struct slice){0}), 0);
            cr_assert_eq(feed->result.count, 1);
        }
    }
    compact(feed);
    while (kv_tidy(feed->kv)) {
    }
    struct kv_stats stats;
    kv_stats(feed->kv, &stats);
    cr_assert_eq(stats.keys, KEYS / KEPT_EACH / 2);
    cr_assert_leq(stats.versions, stats.keys + 1,
                  "a delete at the last revision is still an event");
}

Test(kv_thin, memory_returns_when_nine_of_ten_keys_have_gone) {
    struct feed feed = feed_open_history(11);
    struct pool *pool = feed.kv->store->pool;
    put_all(&feed);
    uint64_t full = pool_held(pool);
    struct kv_item held; /* its reader does not care */
    cr_assert_eq(kv_get(feed.kv, key_at(KEPT_EACH), &held, NULL), 0);
    delete_most(&feed);
    compact(&feed);
    while (kv_tidy(feed.kv)) {
    }
    if (pool_used(pool) > 0 && feed.home == NULL) { /* not with a sanitizer */
        cr_assert_lt(pool_held(pool), full / 4, "%llu of %llu", (unsigned long long)pool_held(pool),
                     (unsigned long long)full);
    }
    check_kept(&feed);
    cr_assert(slice_equal(held.value, value_at(KEPT_EACH)));
    kv_item_release(&held);
    go_on(&feed);
    feed_close(&feed);
}

static void move(void *arg, struct kv_version **slot) {
    struct kv_version *dead = NULL;
    if (version_is_tombstone(*slot)) { /* the last delete is an event */
        return;
    }
    cr_assert_eq(store_move(arg, slot, &dead), 0);
    dead_free(dead);
}

/* The same, of every key and whatever lies beside it, with a sanitizer too. */
Test(kv_thin, a_version_that_moves_is_the_same_for_everybody) {
    struct feed feed = feed_open_history(12);
    struct store *store = feed.kv->store;
    if (store->durable != NULL) {
        return; /* nothing of it lies in memory */
    }
    put_all(&feed);
    delete_most(&feed);
    compact(&feed);
    while (kv_tidy(feed.kv)) {
    }
    struct kv_stats before, after;
    kv_stats(feed.kv, &before);
    for (uint32_t i = 0; i < table_buckets(&store->table); i++) {
        table_each(&store->table, i, move, store);
    }
    kv_stats(feed.kv, &after);
    cr_assert_eq(after.keys, before.keys);
    cr_assert_eq(after.versions, before.versions);
    check_kept(&feed);
    go_on(&feed);
    feed_close(&feed);
}
