/* Watches, one rule at a time. */
#include "kv/watch.h"

#include "base/mem.h"
#include "feed.h"
#include "kv/txn.h"

#include <criterion/criterion.h>

struct rig {
    struct feed feed;
    struct kv_watches *watches;
    struct list_link done;
};

static struct rig rig_open(void) {
    struct rig rig = {.feed = feed_open_history(1)};
    cr_assert_eq(kv_watches_open(&rig.watches, rig.feed.kv), 0);
    return rig;
}

static void rig_close(struct rig *rig) {
    kv_watches_close(rig->watches);
    feed_close(&rig->feed);
}

static int compact(struct rig *rig, uint64_t revision) {
    const struct kv_command command = {.op = KV_COMPACT, .revision = revision};
    cr_assert_eq(feed_command(&rig->feed, &command), 0);
    return rig->feed.result.rc;
}

static void tidy(struct rig *rig) {
    while (kv_tidy(rig->feed.kv)) {
    }
}

/* Runs until nothing is left; returns how many are done. */
static size_t run(struct rig *rig) {
    size_t count = 0;
    list_init(&rig->done);
    while (kv_watches_run(rig->watches, &rig->done)) {
    }
    for (struct list_link *at = rig->done.next; at != &rig->done; at = at->next) {
        count++;
    }
    return count;
}

static struct kv_watch watch_of(const char *from, const char *to, uint64_t revision) {
    return (struct kv_watch){
        .from = slice_text(from), .to = slice_text(to), .next = {.revision = revision}};
}

static void join(struct rig *rig, struct kv_watch *watch) {
    cr_assert(!kv_watch_join(rig->watches, watch), "%d", watch->rc);
}

/* Joins and gets what is there. */
static void take(struct rig *rig, struct kv_watch *watch) {
    join(rig, watch);
    cr_assert_eq(run(rig), 1);
    list_remove(&watch->link);
}

static void drop(struct kv_watch *watch) {
    kv_watch_leave(watch);
    list_remove(&watch->link);
    kv_watch_fini(watch);
}

/* "a=1@2 -a@3": keys, values and revisions in order. */
static void expect(const struct kv_watch *watch, const char *expected) {
    char text[512] = "";
    size_t size = 0;
    for (size_t i = 0; i < watch->count; i++) {
        const struct kv_item *item = &watch->events[i].item;
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%s%.*s%s%.*s@%u",
                                 i > 0 ? " " : "", item->version == 0 ? "-" : "",
                                 (int)item->key.size, (const char *)item->key.data,
                                 item->version == 0 ? "" : "=", (int)item->value.size,
                                 (const char *)item->value.data, (unsigned)item->mod_rev);
    }
    cr_assert_eq(watch->rc, 0);
    cr_assert_str_eq(text, expected);
}

/* The value that was there before the i-th event; "": none is told. */
static void expect_previous(const struct kv_watch *watch, size_t i, const char *value) {
    const struct kv_item *item = &watch->events[i].previous;
    cr_assert(slice_equal(item->value, slice_text(value)), "%zu: %.*s", i, (int)item->value.size,
              (const char *)item->value.data);
    cr_assert_eq(item->version == 0, value[0] == 0);
}

Test(kv_watch, tells_what_was_changed_and_what_will_be) {
    struct rig rig = rig_open();
    must_put(&rig.feed, "a", "1");                                             /* 2 */
    must_put(&rig.feed, "b", "2");                                             /* 3 */
    must_put(&rig.feed, "c", "3");                                             /* 4 */
    must_delete(&rig.feed, "b");                                               /* 5 */
    cr_assert_eq(feed_delete(&rig.feed, slice_text("a"), slice_text("d")), 0); /* 6 */
    struct kv_watch all = watch_of("", "", 1), one = watch_of("b", "b\1", 2);
    struct kv_watch live = watch_of("b", "", 0), future = watch_of("", "", 8);
    join(&rig, &live);
    join(&rig, &future);
    take(&rig, &all);
    expect(&all, "a=1@2 b=2@3 c=3@4 -b@5 -a@6 -c@6");
    cr_assert(all.next.revision == 7 && all.next.sub == 0 && !all.partial);
    take(&rig, &one);
    expect(&one, "b=2@3 -b@5");
    cr_assert_eq(one.next.revision, 7);
    must_put(&rig.feed, "b", "7");
    cr_assert_eq(run(&rig), 1);
    expect(&live, "b=7@7");
    cr_assert_eq(live.next.revision, 8);
    cr_assert_eq(run(&rig), 0);
    must_put(&rig.feed, "x", "8");
    cr_assert_eq(run(&rig), 1);
    expect(&future, "x=8@8");
    drop(&all);
    drop(&one);
    drop(&live);
    drop(&future);
    rig_close(&rig);
}

Test(kv_watch, goes_on_where_it_was) {
    struct rig rig = rig_open();
    struct kv_watch watch = watch_of("a", "b", 0);
    for (int i = 0; i < 5; i++) {
        char value[8];
        (void)snprintf(value, sizeof(value), "%d", i);
        join(&rig, &watch);
        must_put(&rig.feed, "b", "not this");
        must_put(&rig.feed, "a", value);
        cr_assert_eq(run(&rig), 1);
        char expected[32];
        (void)snprintf(expected, sizeof(expected), "a=%d@%d", i, 3 + 2 * i);
        expect(&watch, expected);
        list_remove(&watch.link);
        kv_watch_fini(&watch);
        watch.count = 0;
    }
    rig_close(&rig);
}

Test(kv_watch, filters_and_tells_what_was_there_before) {
    struct rig rig = rig_open();
    must_put(&rig.feed, "a", "1");
    must_put(&rig.feed, "a", "2");
    must_delete(&rig.feed, "a");
    must_put(&rig.feed, "a", "3");
    struct kv_watch puts = watch_of("", "", 1), deletes = watch_of("", "", 1);
    puts.no_deletes = deletes.no_puts = true;
    puts.previous = deletes.previous = true;
    take(&rig, &puts);
    expect(&puts, "a=1@2 a=2@3 a=3@5");
    expect_previous(&puts, 0, "");
    expect_previous(&puts, 1, "1");
    expect_previous(&puts, 2, "");
    take(&rig, &deletes);
    expect(&deletes, "-a@4");
    expect_previous(&deletes, 0, "2");
    cr_assert_eq(deletes.events[0].previous.mod_rev, 3);
    drop(&puts);
    drop(&deletes);
    rig_close(&rig);
}

Test(kv_watch, c7_from_a_compacted_revision_is_an_error) {
    struct rig rig = rig_open();
    for (int i = 2; i <= 9; i++) {
        must_put(&rig.feed, "a", "1");
    }
    cr_assert_eq(compact(&rig, 5), 0);
    tidy(&rig);
    struct kv_watch watch = watch_of("", "", 4);
    cr_assert(kv_watch_join(rig.watches, &watch));
    cr_assert_eq(watch.rc, LKV_ECOMPACTED);
    watch.next.revision = 5;
    watch.previous = true;
    take(&rig, &watch);
    expect(&watch, "a=1@5 a=1@6 a=1@7 a=1@8 a=1@9");
    expect_previous(&watch, 0, "");
    cr_assert_eq(watch.events[0].item.version, 4, "so there was something, and it is compacted");
    expect_previous(&watch, 1, "1");
    drop(&watch);
    rig_close(&rig);
}

Test(kv_watch, c9_tells_a_delete_at_exactly_the_compaction_revision) {
    struct rig rig = rig_open();
    must_put(&rig.feed, "a", "1");                                             /* 2 */
    must_put(&rig.feed, "b", "1");                                             /* 3 */
    cr_assert_eq(feed_delete(&rig.feed, slice_text("a"), slice_text("z")), 0); /* 4 */
    must_put(&rig.feed, "c", "1");                                             /* 5 */
    cr_assert_eq(compact(&rig, 4), 0);
    tidy(&rig);
    struct kv_watch watch = watch_of("", "", 4);
    take(&rig, &watch);
    expect(&watch, "-a@4 -b@4 c=1@5");
    drop(&watch);
    cr_assert_eq(compact(&rig, 5), 0);
    tidy(&rig);
    struct kv_watch late = watch_of("", "", 4);
    cr_assert(kv_watch_join(rig.watches, &late));
    cr_assert_eq(late.rc, LKV_ECOMPACTED);
    rig_close(&rig);
}

/* A watch that is not late is not punished for a compaction that comes with what it waits for. */
Test(kv_watch, what_is_compacted_in_the_same_breath_is_told) {
    struct rig rig = rig_open();
    must_put(&rig.feed, "a", "1"); /* 2 */
    struct kv_watch watch = watch_of("", "", 0);
    watch.previous = true;
    join(&rig, &watch);
    must_put(&rig.feed, "a", "2");                                             /* 3 */
    cr_assert_eq(feed_delete(&rig.feed, slice_text("a"), slice_text("z")), 0); /* 4 */
    must_put(&rig.feed, "b", "3");                                             /* 5 */
    cr_assert_eq(compact(&rig, 5), 0);
    tidy(&rig);
    cr_assert_eq(run(&rig), 1);
    expect(&watch, "a=2@3 -a@4 b=3@5");
    expect_previous(&watch, 0, "1");
    expect_previous(&watch, 1, "2");
    drop(&watch);
    tidy(&rig);
    struct kv_stats stats;
    kv_stats(rig.feed.kv, &stats);
    cr_assert_eq(stats.versions, 1, "and then it is gone");
    rig_close(&rig);
}

Test(kv_watch, who_is_overtaken_by_a_compaction_is_told) {
    struct rig rig = rig_open();
    for (int i = 2; i <= 9; i++) {
        must_put(&rig.feed, "a", "1");
    }
    struct kv_watch early = watch_of("", "", 3), late = watch_of("", "", 6);
    join(&rig, &early);
    join(&rig, &late);
    cr_assert_eq(compact(&rig, 6), 0);
    cr_assert_eq(run(&rig), 2);
    cr_assert_eq(early.rc, LKV_ECOMPACTED);
    cr_assert_eq(early.count, 0);
    expect(&late, "a=1@6 a=1@7 a=1@8 a=1@9");
    drop(&early);
    drop(&late);
    rig_close(&rig);
}

/* One revision: puts of "b" and "a", a delete of "c". */
static void transact(struct rig *rig) {
    struct kv_txn txn;
    struct buffer program;
    kv_txn_init(&txn);
    buffer_init(&program);
    const struct kv_step steps[] = {
        {.op = KV_PUT, .key = slice_text("b"), .value = slice_text("1")},
        {.op = KV_PUT, .key = slice_text("a"), .value = slice_text("2")},
        {.op = KV_DELETE, .key = slice_text("c")}};
    for (size_t i = 0; i < 3; i++) {
        kv_txn_step(&txn, true, &steps[i]);
    }
    kv_txn_write(&txn, &program);
    const struct kv_command command = {.op = KV_TXN, .txn = buffer_slice(&program)};
    cr_assert_eq(feed_command(&rig->feed, &command), 0);
    cr_assert_eq(rig->feed.result.rc, 0);
    kv_result_fini(&rig->feed.result);
    buffer_fini(&program);
    kv_txn_fini(&txn);
}

Test(kv_watch, a_transaction_is_whole_and_in_the_order_of_its_operations) {
    struct rig rig = rig_open();
    must_put(&rig.feed, "c", "0"); /* 2 */
    struct kv_watch live = watch_of("", "", 0);
    join(&rig, &live);
    transact(&rig);
    cr_assert_eq(run(&rig), 1);
    expect(&live, "b=1@3 a=2@3 -c@3");
    drop(&live);
    rig_close(&rig);
}

/* A revision that is too large for one message comes in parts that say so; smaller ones are never
 * torn. */
Test(kv_watch, revisions_are_whole_or_said_to_be_in_parts) {
    struct rig rig = rig_open();
    must_put(&rig.feed, "c", "0"); /* 2 */
    transact(&rig);                /* 3: "b" "a" "c" */
    must_put(&rig.feed, "d", "4"); /* 4 */
    static const struct {
        size_t events_max, bytes_max;
        struct {
            const char *events;
            bool partial;
        } parts[7];
    } cases[] = {
        {2, 9, {{"c=0@2", false}, {"b=1@3 a=2@3", true}, {"-c@3 d=4@4", false}}},
        {3, 9, {{"c=0@2", false}, {"b=1@3 a=2@3 -c@3", false}, {"d=4@4", false}}},
        {4, 7, {{"c=0@2 b=1@3 a=2@3 -c@3", false}, {"d=4@4", false}}},
        {4, 6, {{"c=0@2", false}, {"b=1@3 a=2@3 -c@3", false}, {"d=4@4", false}}},
        {5, 9, {{"c=0@2 b=1@3 a=2@3 -c@3 d=4@4", false}}},
        {0,
         1,
         {{"c=0@2", false}, {"b=1@3", true}, {"a=2@3", true}, {"-c@3", false}, {"d=4@4", false}}}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kv_watch watch = watch_of("", "", 2);
        watch.bytes_max = cases[i].bytes_max + cases[i].events_max * KV_WATCH_EVENT_BYTES;
        for (size_t part = 0; cases[i].parts[part].events != NULL; part++) {
            take(&rig, &watch);
            expect(&watch, cases[i].parts[part].events);
            cr_assert_eq(watch.partial, cases[i].parts[part].partial);
            kv_watch_fini(&watch);
        }
        cr_assert(watch.next.revision == 5 && watch.next.sub == 0);
    }
    rig_close(&rig);
}

Test(kv_watch, a_large_delete_comes_in_slices_and_parts) {
    enum { KEYS = 3 * KV_WATCH_SLICE };
    struct rig rig = rig_open();
    for (unsigned i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%06u", i);
        must_put(&rig.feed, key, "");
    }
    struct kv_watch live = watch_of("", "", 0), other = watch_of("5", "6", 0);
    struct kv_watch some = watch_of("011000", "011900", 0);
    join(&rig, &live);
    join(&rig, &other);
    join(&rig, &some);
    cr_assert_eq(feed_delete(&rig.feed, slice_text("0"), slice_text("9")), 0);
    uint64_t revision = rig.feed.result.revision;
    cr_assert_eq(compact(&rig, revision), 0);
    size_t seen = 0, slices = 0;
    for (bool more = true; more || seen < KEYS; slices++) {
        list_init(&rig.done);
        more = kv_watches_run(rig.watches, &rig.done);
        if (live.group == NULL) {
            for (size_t i = 0; i < live.count; i++) {
                char key[16];
                (void)snprintf(key, sizeof(key), "%06zu", seen++);
                cr_assert(slice_equal(live.events[i].item.key, slice_text(key)));
            }
            cr_assert_eq(live.partial, seen < KEYS);
            list_remove(&live.link);
            kv_watch_fini(&live);
            join(&rig, &live);
        }
    }
    cr_assert_geq(slices, 3);
    cr_assert_eq(some.count, 900, "whole, not before the last slice");
    cr_assert(!some.partial && some.next.revision == revision + 1);
    drop(&live);
    drop(&other);
    drop(&some);
    rig_close(&rig);
}

/* Who leaves in the middle of a revision comes again for all of it. */
Test(kv_watch, leaving_in_the_middle_of_a_revision_tears_nothing) {
    enum { KEYS = KV_WATCH_SLICE + 10 };
    struct rig rig = rig_open();
    for (unsigned i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%06u", i);
        must_put(&rig.feed, key, "");
    }
    struct kv_watch watch = watch_of("000003", "000005", 0),
                    older = watch_of("000003", "000005", 0);
    join(&rig, &watch);
    cr_assert_eq(feed_delete(&rig.feed, slice_text("0"), slice_text("9")), 0);
    older.next.revision = 4; /* the second key's put */
    join(&rig, &older);
    list_init(&rig.done);
    while (kv_watches_run(rig.watches, &rig.done) && watch.count == 0) {
    }
    cr_assert(watch.group != NULL && watch.count == 2, "%zu", watch.count);
    kv_watch_leave(&watch);
    cr_assert(watch.count == 0 && watch.next.revision == KEYS + 2, "%zu", watch.next.revision);
    take(&rig, &watch);
    expect(&watch, "-000003@4108 -000004@4108");
    drop(&watch);
    kv_watch_leave(&older);
    expect(&older, "000003=@5 000004=@6");
    drop(&older);
    rig_close(&rig);
}

Test(kv_watch, waits_for_a_cluster_that_has_history) {
    struct rig rig = {.feed = {.term = 1}};
    const struct kv_options options = {.feature_level = KV_LEVEL_HISTORY};
    cr_assert_eq(kv_open(&rig.feed.kv, &options), 0);
    cr_assert_eq(kv_watches_open(&rig.watches, rig.feed.kv), 0);
    must_put(&rig.feed, "a", "1");
    struct kv_watch watch = watch_of("", "", 0);
    cr_assert(kv_watch_join(rig.watches, &watch));
    cr_assert_eq(watch.rc, LKV_EUNSUPPORTED);
    struct blob *level = feature_encode(KV_LEVEL_HISTORY);
    cr_assert_eq(feed_entry(&rig.feed, ENTRY_FEATURE, level), 0);
    blob_unref(level);
    watch.next.revision = 2;
    cr_assert(kv_watch_join(rig.watches, &watch));
    cr_assert_eq(watch.rc, LKV_ECOMPACTED, "that change was not kept");
    watch.next.revision = 3;
    watch.previous = true;
    join(&rig, &watch);
    must_put(&rig.feed, "a", "2");
    cr_assert_eq(run(&rig), 1);
    expect(&watch, "a=2@3");
    expect_previous(&watch, 0, "1");
    drop(&watch);
    rig_close(&rig);
}

Test(kv_watch, those_behind_share_one_pass) {
    enum { WATCHES = 1000, CHANGES = 20000 };
    static struct kv_watch watches[WATCHES];
    static char keys[WATCHES][16];
    struct rig rig = rig_open();
    for (int i = 0; i < CHANGES; i++) {
        must_put(&rig.feed, "z", "1");
    }
    for (int i = 0; i < WATCHES; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "k%04d", i);
        watches[i] = watch_of(keys[i], "l", 2);
        join(&rig, &watches[i]);
    }
    cr_assert_eq(run(&rig), 0);
    struct kv_watches_stats stats;
    kv_watches_stats(rig.watches, &stats);
    cr_assert_eq(stats.looked_at, CHANGES);
    cr_assert(stats.live == WATCHES && stats.behind == 0);
    for (int i = 0; i < WATCHES; i++) {
        cr_assert_eq(watches[i].count, 0);
        drop(&watches[i]);
        cr_assert_eq(watches[i].next.revision, CHANGES + 2, "what it has seen is not lost");
    }
    rig_close(&rig);
}

Test(kv_watch, fails_cleanly_without_memory) {
    bool failed = false;
    for (uint64_t n = 0; n == 0 || failed; n++) {
        struct rig rig = rig_open();
        for (int i = 0; i < 20; i++) {
            must_put(&rig.feed, "a", "1");
        }
        struct kv_watch behind = watch_of("", "", 2), live = watch_of("", "", 0);
        join(&rig, &behind);
        join(&rig, &live);
        must_put(&rig.feed, "a", "1");
        mem_fail_after(n);
        size_t done = run(&rig);
        mem_fail_never();
        cr_assert_eq(done, 2);
        failed = behind.rc != 0 || live.rc != 0;
        cr_assert(behind.rc == 0 ? behind.count == 21 : behind.count == 0);
        cr_assert(live.rc == 0 ? live.count == 1 : live.count == 0);
        drop(&behind);
        drop(&live);
        rig_close(&rig);
    }
    mem_fail_after(0);
    struct kv_watches *none;
    cr_assert_eq(kv_watches_open(&none, NULL), LKV_ENOMEM);
    mem_fail_never();
    cr_assert_null(none);
    kv_watches_close(none);
}
