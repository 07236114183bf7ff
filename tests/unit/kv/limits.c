/* Limits of the state machine that take many entries to reach. */
#include "kv/watch.h"

#include "feed.h"

#include <criterion/criterion.h>

static int compact(struct feed *feed, uint64_t revision) {
    const struct kv_command command = {.op = KV_COMPACT, .revision = revision};
    FEED_REQUIRE(feed_command(feed, &command) == 0);
    return feed->result.rc;
}

static int grant(struct feed *feed, int64_t id) {
    const struct kv_command command = {
        .op = KV_LEASE_GRANT, .lease = id, .ttl_ms = 1000, .limit = KV_LEASES_MAX};
    FEED_REQUIRE(feed_command(feed, &command) == 0);
    return feed->result.rc;
}

Test(kv_limits, there_are_65536_leases_and_no_more) {
    struct feed feed = feed_open_history(1);
    for (int64_t id = 1; id <= 65536; id++) {
        cr_assert_eq(grant(&feed, id), 0, "lease %d", (int)id);
    }
    cr_assert_eq(grant(&feed, 65537), LKV_EBUSY);
    struct kv_stats stats;
    kv_stats(feed.kv, &stats);
    cr_assert_eq(stats.leases, 65536);
    const struct kv_command revoke = {.op = KV_LEASE_REVOKE, .lease = 9};
    cr_assert_eq(feed_command(&feed, &revoke), 0);
    cr_assert_eq(grant(&feed, 65537), 0, "one has ended");
    feed_close(&feed);
}

static void put_many(struct feed *feed, const char *key, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        FEED_REQUIRE(feed_put(feed, slice_text(key), slice_text("v")) == 0);
    }
}

/* A live watch looks at a slice of the changes in each run. What it has not looked at it holds back from compactions,
 * at most so many revisions behind the newest one: whoever falls further behind costs no memory without bound, and hears of it. */
static void compact_behind(uint64_t behind, bool overtaken) {
    struct feed feed = feed_open_history(1);
    struct kv_watches *watches;
    struct list_link done;
    struct kv_watch watch = {.from = slice_text("x")};
    list_init(&done);
    cr_assert_eq(kv_watches_open(&watches, feed.kv), 0);
    cr_assert_not(kv_watch_join(watches, &watch));
    put_many(&feed, "k", KV_WATCH_SLICE + behind);
    cr_assert(kv_watches_run(watches, &done), "one slice, and there is more");
    cr_assert_eq(compact(&feed, 1 + KV_WATCH_SLICE + behind), 0);
    while (kv_tidy(feed.kv)) {
    }
    struct kv_stats stats;
    kv_stats(feed.kv, &stats);
    cr_expect_geq(stats.versions, KV_WATCH_HELD_MAX - 1, "those are held back");
    cr_expect_leq(stats.versions, KV_WATCH_HELD_MAX + 2, "and no more: %zu", stats.versions);
    while (kv_watches_run(watches, &done)) {
    }
    cr_assert_eq(watch.rc, overtaken ? LKV_ECOMPACTED : 0, "%d behind: %d", (int)behind, watch.rc);
    if (!overtaken) {
        put_many(&feed, "x", 1);
        while (kv_watches_run(watches, &done)) {
        }
        cr_assert_eq(watch.count, 1, "it goes on");
    }
    cr_assert_eq(done.next, &watch.link);
    list_remove(&watch.link);
    kv_watch_fini(&watch);
    kv_watches_close(watches);
    feed_close(&feed);
}

Test(kv_limits, a_live_watch_holds_8192_revisions_back_from_a_compaction) {
    compact_behind(KV_WATCH_HELD_MAX + 1, false);
}

Test(kv_limits, a_live_watch_that_is_further_behind_is_told_that_it_was_overtaken) {
    compact_behind(KV_WATCH_HELD_MAX + 2, true);
}
