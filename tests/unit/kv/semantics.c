#include "base/mem.h"
#include "feed.h"

#include <criterion/criterion.h>

static struct kv_item get(const struct feed *feed, const char *key) {
    struct kv_item item;
    cr_assert_eq(kv_get(feed->kv, slice_text(key), &item, NULL), 0, "%s", key);
    return item;
}

static bool has(const struct feed *feed, const char *key) {
    size_t size;
    return kv_get_copy(feed->kv, slice_text(key), NULL, 0, &size) == 0;
}

static void expect_revisions(const struct feed *feed, const char *key, uint64_t create_rev,
                             uint64_t mod_rev, uint64_t version) {
    struct kv_item item = get(feed, key);
    cr_assert_eq(item.create_rev, create_rev);
    cr_assert_eq(item.mod_rev, mod_rev);
    cr_assert_eq(item.version, version);
    kv_item_release(&item);
}

Test(kv_semantics, an_empty_store_has_revision_1) {
    struct feed feed = feed_open(1);
    struct kv_stamp stamp;
    kv_stamp(feed.kv, &stamp);
    cr_assert_eq(stamp.index, 0);
    cr_assert_eq(stamp.term, 0);
    cr_assert_eq(stamp.revision, 1);
    struct kv_range range;
    const struct kv_query all = {.with_total = true};
    cr_assert_eq(kv_range(feed.kv, &all, &range), 0);
    cr_assert_eq(range.total, 0);
    cr_assert_not(range.more);
    kv_range_fini(&range);
    struct kv_item item;
    cr_assert_eq(kv_get(feed.kv, slice_text("a"), &item, &stamp), LKV_ENOTFOUND);
    cr_assert_eq(stamp.revision, 1);
    kv_item_release(&item);
    feed_close(&feed);
}

Test(kv_semantics, the_revision_rises_only_if_a_key_changed) {
    struct feed feed = feed_open(1);
    must_put(&feed, "a", "1");
    cr_assert_eq(feed.result.revision, 2);
    must_delete(&feed, "absent");
    cr_assert_eq(feed.result.revision, 2);
    cr_assert_eq(feed.result.count, 0);
    cr_assert_eq(feed_delete(&feed, slice_text("x"), slice_text("\x7f")), 0);
    cr_assert_eq(feed.result.revision, 2);
    cr_assert_eq(feed_entry(&feed, ENTRY_NOOP, NULL), 0);
    cr_assert_eq(feed_entry(&feed, ENTRY_CONFIG, NULL), 0);
    cr_assert_eq(feed.result.revision, 2);
    must_put(&feed, "a", "1"); /* the same value again is a change */
    cr_assert_eq(feed.result.revision, 3);
    must_delete(&feed, "a");
    cr_assert_eq(feed.result.revision, 4);
    cr_assert_eq(feed.result.count, 1);
    must_delete(&feed, "a");
    cr_assert_eq(feed.result.revision, 4);
    struct kv_stamp stamp;
    kv_stamp(feed.kv, &stamp);
    cr_assert_eq(stamp.index, 8);
    feed_close(&feed);
}

Test(kv_semantics, a_tombstone_resets_version_and_create_rev) {
    struct feed feed = feed_open(1);
    must_put(&feed, "a", "1");
    must_put(&feed, "a", "2");
    expect_revisions(&feed, "a", 2, 3, 2);
    must_delete(&feed, "a");
    cr_assert_not(has(&feed, "a"));
    must_put(&feed, "a", "3");
    expect_revisions(&feed, "a", 5, 5, 1);
    /* The same while a view keeps the tombstone alive. */
    struct kv_view *view;
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    must_delete(&feed, "a");
    must_put(&feed, "a", "4");
    expect_revisions(&feed, "a", 7, 7, 1);
    kv_view_close(view);
    expect_revisions(&feed, "a", 7, 7, 1);
    feed_close(&feed);
}

Test(kv_semantics, the_lease_belongs_to_the_version) {
    struct feed feed = feed_open_history(1);
    must_grant(&feed, 5, 1000);
    const struct kv_command leased = {.op = KV_PUT, .key = slice_text("a"), .lease = 5};
    cr_assert_eq(feed_command(&feed, &leased), 0);
    struct kv_item item = get(&feed, "a");
    cr_assert_eq(item.lease, 5);
    kv_item_release(&item);
    must_put(&feed, "a", "without");
    item = get(&feed, "a");
    cr_assert_eq(item.lease, 0);
    kv_item_release(&item);
    feed_close(&feed);
}

Test(kv_semantics, a_range_delete_is_one_revision) {
    struct feed feed = feed_open(1);
    must_put(&feed, "a", "");
    must_put(&feed, "b", "");
    must_put(&feed, "c", "");
    must_put(&feed, "d", "");
    cr_assert_eq(feed_delete(&feed, slice_text("b"), slice_text("d")), 0);
    cr_assert_eq(feed.result.count, 2);
    cr_assert_eq(feed.result.revision, 6);
    cr_assert(has(&feed, "a") && !has(&feed, "b") && !has(&feed, "c") && has(&feed, "d"));
    cr_assert_eq(feed_delete(&feed, slice_text("d"), slice_text("a")), 0); /* end before key */
    cr_assert_eq(feed.result.count, 0);
    cr_assert_eq(feed_delete(&feed, slice_text("b"), slice_of("\0", 1)), 0); /* to the last key */
    cr_assert_eq(feed.result.count, 1);
    cr_assert(has(&feed, "a") && !has(&feed, "d"));
    feed_close(&feed);
}

static void put_numbers(struct feed *feed, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        int size = snprintf(key, sizeof(key), "%06u", i);
        cr_assert_eq(feed_put(feed, slice_of(key, (size_t)size), slice_text("v")), 0);
    }
}

static struct kv_stats stats_of(const struct feed *feed) {
    struct kv_stats stats;
    kv_stats(feed->kv, &stats);
    return stats;
}

Test(kv_semantics, deletes_more_keys_than_a_turn_takes) {
    struct feed feed = feed_open(1);
    enum { COUNT = 1000 };
    put_numbers(&feed, COUNT);
    cr_assert_eq(feed_delete(&feed, slice_text("000001"), slice_text("000999")), 0);
    cr_assert_eq(feed.result.count, COUNT - 2);
    struct kv_stats stats = stats_of(&feed);
    cr_assert_eq(stats.keys, 2);
    cr_assert_eq(stats.versions, 2);
    cr_assert_eq(stats.bytes, 14);
    cr_assert(has(&feed, "000000") && has(&feed, "000999"));
    feed_close(&feed);
}

static uint64_t digest_now(const struct feed *feed) {
    struct kv_view *view;
    uint64_t digest = 0;
    cr_assert_eq(kv_view_open(feed->kv, &view), 0);
    cr_assert_eq(kv_view_digest(view, NULL, &digest), 0);
    kv_view_close(view);
    return digest;
}

Test(kv_semantics, c16_a_delete_that_takes_several_calls_is_seen_as_one) {
    struct feed feed = feed_open(1);
    enum { COUNT = 10000 };
    put_numbers(&feed, COUNT);
    uint64_t before = digest_now(&feed);
    const struct kv_command put = {.op = KV_PUT, .key = slice_text("x"), .value = slice_text("1")};
    const struct kv_command all = {.op = KV_DELETE, .key = slice_text("0"), .end = slice_text("1")};
    const struct kv_command again = {.op = KV_PUT, .key = slice_text("000007")};
    const struct kv_command *const commands[] = {&put, &all, &again};
    struct entry entries[3];
    struct kv_result results[3];
    for (unsigned i = 0; i < 3; i++) {
        entries[i] = (struct entry){.index = feed.index + i + 1,
                                    .term = 1,
                                    .type = ENTRY_COMMAND,
                                    .payload = kv_command_encode(commands[i])};
    }
    size_t done = 0;
    unsigned calls = 0;
    struct kv_view *views[20] = {NULL}; /* one for each state between two calls */
    while (done < 3) {
        size_t applied;
        cr_assert_eq(kv_apply(feed.kv, &entries[done], 3 - done, &results[done], &applied, NULL),
                     0);
        done += applied;
        cr_assert_lt(calls, 20);
        cr_assert_eq(kv_view_open(feed.kv, &views[calls++]), 0);
        struct kv_range range;
        const struct kv_query count = {.to = slice_text("1"), .count_only = true};
        cr_assert_eq(kv_range(feed.kv, &count, &range), 0);
        cr_assert_eq(range.total, done < 2 ? COUNT : 1);
        cr_assert_eq(stats_of(&feed).keys, done < 2 ? COUNT + 1 : 2);
        kv_range_fini(&range);
        cr_assert_eq(has(&feed, "x"), done >= 1);
    }
    cr_assert_gt(calls, 3);
    cr_assert_eq(results[1].count, COUNT);
    cr_assert_eq(results[1].revision, COUNT + 3);
    expect_revisions(&feed, "000007", COUNT + 4, COUNT + 4, 1);
    for (unsigned i = 0; i < calls; i++) { /* all but the last saw every key, and "x" */
        uint64_t digest;
        cr_assert_eq(kv_view_digest(views[i], NULL, &digest), 0);
        cr_assert_neq(digest, before);
        struct kv_stamp stamp;
        kv_view_stamp(views[i], &stamp);
        cr_assert_eq(stamp.revision, i + 1 < calls ? COUNT + 2 : COUNT + 4);
        uint64_t first;
        cr_assert_eq(kv_view_digest(views[0], NULL, &first), 0);
        cr_assert_eq(digest == first, i + 1 < calls);
        if (i > 0) {
            kv_view_close(views[i]);
        }
    }
    kv_view_close(views[0]);
    while (kv_tidy(feed.kv)) {
    }
    cr_assert_eq(stats_of(&feed).versions, 2);
    for (unsigned i = 0; i < 3; i++) {
        blob_unref(entries[i].payload);
    }
    feed_close(&feed);
}

Test(kv_semantics, s28_a_delete_that_fails_in_its_second_call_was_never_there) {
    struct feed feed = feed_open(1);
    enum { COUNT = 5000 };
    put_numbers(&feed, COUNT);
    uint64_t before = digest_now(&feed);
    const struct kv_command all = {.op = KV_DELETE, .key = slice_text("0"), .end = slice_text("1")};
    const struct entry entry = {.index = feed.index + 1,
                                .term = 1,
                                .type = ENTRY_COMMAND,
                                .payload = kv_command_encode(&all)};
    struct kv_result result;
    size_t applied;
    cr_assert_eq(kv_apply(feed.kv, &entry, 1, &result, &applied, NULL), 0);
    cr_assert_eq(applied, 0);
    struct kv_view *view;
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    mem_fail_after(100);
    cr_assert_eq(kv_apply(feed.kv, &entry, 1, &result, &applied, NULL), LKV_ENOMEM);
    mem_fail_never();
    cr_assert_eq(applied, 0);
    cr_assert_eq(digest_now(&feed), before);
    cr_assert_eq(stats_of(&feed).keys, COUNT);
    kv_view_close(view);
    cr_assert_eq(digest_now(&feed), before);
    blob_unref(entry.payload);
    feed_close(&feed);
}

Test(kv_semantics, a_command_fenced_by_another_term_has_no_effect) {
    struct feed feed = feed_open(1);
    feed.term = 4;
    struct kv_command fenced = {
        .op = KV_PUT, .in_term = 3, .key = slice_text("a"), .value = slice_text("1")};
    cr_assert_eq(feed_command(&feed, &fenced), 0);
    cr_assert_eq(feed.result.rc, LKV_ETERM);
    cr_assert_eq(feed.result.revision, 1);
    cr_assert_not(has(&feed, "a"));
    fenced.in_term = 4;
    cr_assert_eq(feed_command(&feed, &fenced), 0);
    cr_assert_eq(feed.result.rc, 0);
    cr_assert(has(&feed, "a"));
    feed_close(&feed);
}

Test(kv_semantics, c3_a_command_of_an_unknown_session_is_not_executed) {
    struct feed feed = feed_open(1);
    const struct kv_command command = {
        .op = KV_PUT, .session = 9, .seq = 1, .key = slice_text("a"), .value = slice_text("1")};
    cr_assert_eq(feed_command(&feed, &command), 0);
    cr_assert_eq(feed.result.rc, LKV_ESESSION);
    cr_assert_eq(feed.index, 1, "the entry counts as applied");
    cr_assert_not(has(&feed, "a"));
    feed_close(&feed);
}

Test(kv_semantics, n6_keys_and_values_of_every_size_come_back_whole) {
    struct feed feed = feed_open(1);
    static const size_t key_sizes[] = {1, 2, 255, 256, KV_KEY_SIZE_MAX};
    static const size_t value_sizes[] = {0, 1, 1023, 1024, 4096, 1024 * 1024, 4 * 1024 * 1024};
    static uint8_t key[KV_KEY_SIZE_MAX];
    memset(key, 0xff, sizeof(key));
    for (size_t k = 0; k < sizeof(key_sizes) / sizeof(key_sizes[0]); k++) {
        for (size_t v = 0; v < sizeof(value_sizes) / sizeof(value_sizes[0]); v++) {
            struct blob *value = blob_new(value_sizes[v]);
            memset(value->data, (int)(k + v), value->size);
            struct slice slice = slice_of(key, key_sizes[k]);
            cr_assert_eq(feed_put(&feed, slice, blob_slice(value)), 0);
            struct kv_item item;
            cr_assert_eq(kv_get(feed.kv, slice, &item, NULL), 0);
            cr_assert(slice_equal(item.key, slice));
            cr_assert(slice_equal(item.value, blob_slice(value)));
            kv_item_release(&item);
            blob_unref(value);
        }
    }
    struct kv_range range;
    const struct kv_query all = {0};
    cr_assert_eq(kv_range(feed.kv, &all, &range), 0);
    cr_assert_eq(range.count, sizeof(key_sizes) / sizeof(key_sizes[0]));
    kv_range_fini(&range);
    feed_close(&feed);
}

Test(kv_semantics, a_pinned_item_outlives_everything_but_its_release) {
    struct feed feed = feed_open(1);
    static uint8_t large[5000];
    memset(large, 'L', sizeof(large));
    must_put(&feed, "small", "1");
    cr_assert_eq(feed_put(&feed, slice_text("large"), slice_of(large, sizeof(large))), 0);
    struct kv_item small_item = get(&feed, "small");
    struct kv_item large_item = get(&feed, "large");
    must_put(&feed, "small", "2");
    must_delete(&feed, "large");
    feed_close(&feed);
    cr_assert(slice_equal(small_item.value, slice_text("1")));
    cr_assert(slice_equal(large_item.value, slice_of(large, sizeof(large))));
    cr_assert(slice_equal(large_item.key, slice_text("large")));
    kv_item_release(&small_item);
    kv_item_release(&large_item);
}

/* ---------------------------------------------------------------------------- batches */

static struct entry put_entry(uint64_t index, const char *key, const char *value) {
    const struct kv_command command = {
        .op = KV_PUT, .key = slice_text(key), .value = slice_text(value)};
    return (struct entry){
        .index = index, .term = 1, .type = ENTRY_COMMAND, .payload = kv_command_encode(&command)};
}

Test(kv_semantics, a_batch_with_one_key_many_times_counts_each) {
    struct feed feed = feed_open(1);
    enum { COUNT = 1000 };
    static struct entry entries[COUNT];
    static struct kv_result results[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        entries[i] = put_entry(i + 1, "hot", i % 2 ? "odd" : "even");
    }
    size_t applied;
    cr_assert_eq(kv_apply(feed.kv, entries, COUNT, results, &applied, NULL), 0);
    cr_assert_eq(applied, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        cr_assert_eq(results[i].revision, i + 2);
        blob_unref(entries[i].payload);
    }
    expect_revisions(&feed, "hot", 2, COUNT + 1, COUNT);
    struct kv_stats stats;
    kv_stats(feed.kv, &stats);
    cr_assert_eq(stats.versions, 1);
    feed_close(&feed);
}

Test(kv_semantics, an_empty_batch_is_nothing) {
    struct feed feed = feed_open(1);
    size_t applied = 7;
    cr_assert_eq(kv_apply(feed.kv, NULL, 0, NULL, &applied, NULL), 0);
    cr_assert_eq(applied, 0);
    feed_close(&feed);
}

Test(kv_semantics, what_cannot_be_understood_stops_it_after_what_came_before) {
    static const struct {
        const char *bytes;
        size_t size;
        int type;
        int rc;
    } bad[] = {{"\x94\x02\x01\xc0\xc0", 5, ENTRY_COMMAND, LKV_EVERSION},
               {"nonsense", 8, ENTRY_COMMAND, LKV_EPROTOCOL},
               {"", 0, ENTRY_COMMAND, LKV_EPROTOCOL},
               {"", 0, 99, LKV_EVERSION}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct feed feed = feed_open(1);
        struct entry entries[] = {
            put_entry(1, "before", "1"),
            {.index = 2,
             .term = 1,
             .type = (enum entry_type)bad[i].type,
             .payload = bad[i].size > 0 ? blob_copy(slice_of(bad[i].bytes, bad[i].size)) : NULL},
            put_entry(3, "after", "1")};
        struct kv_result results[3];
        size_t applied;
        struct reason why = {{0}};
        cr_assert_eq(kv_apply(feed.kv, entries, 3, results, &applied, &why), bad[i].rc);
        cr_assert_eq(applied, 1);
        cr_assert_not_null(strstr(why.text, "entry 2"), "%s", why.text);
        cr_assert(has(&feed, "before") && !has(&feed, "after"));
        struct kv_stamp stamp;
        kv_stamp(feed.kv, &stamp);
        cr_assert_eq(stamp.index, 1);
        /* Rule 22: it stays stopped, even for an entry that would be fine. */
        cr_assert_eq(kv_apply(feed.kv, &entries[2], 1, results, &applied, NULL), bad[i].rc);
        cr_assert_eq(applied, 0);
        for (unsigned e = 0; e < 3; e++) {
            blob_unref(entries[e].payload);
        }
        feed_close(&feed);
    }
}

Test(kv_semantics, l15_refuses_a_gap_and_a_repetition) {
    struct feed feed = feed_open(1);
    must_put(&feed, "a", "1");
    struct entry gap = put_entry(3, "b", "1");
    struct entry again = put_entry(1, "a", "2");
    struct kv_result result;
    size_t applied;
    cr_assert_eq(kv_apply(feed.kv, &gap, 1, &result, &applied, NULL), LKV_EINVAL);
    cr_assert_eq(kv_apply(feed.kv, &again, 1, &result, &applied, NULL), LKV_EINVAL);
    cr_assert_eq(applied, 0);
    expect_revisions(&feed, "a", 2, 2, 1);
    must_put(&feed, "b", "1"); /* nothing was applied, so it may go on */
    blob_unref(gap.payload);
    blob_unref(again.payload);
    feed_close(&feed);
}

/* ---------------------------------------------------------------------------- restore */

Test(kv_semantics, restore_replaces_everything_and_views_keep_what_they_pinned) {
    struct feed old = feed_open(1);
    must_put(&old, "a", "old");
    must_put(&old, "only-old", "x");
    struct kv_view *view;
    uint64_t before;
    cr_assert_eq(kv_view_open(old.kv, &view), 0);
    cr_assert_eq(kv_view_digest(view, NULL, &before), 0);
    struct kv_item pinned = get(&old, "a");
    must_put(&old, "a", "newer"); /* the view's version is not the newest any more */

    struct feed fresh = feed_open(2);
    must_put(&fresh, "a", "restored");
    kv_restore(old.kv, fresh.kv);
    struct feed after = {.kv = old.kv, .index = fresh.index, .term = 1};

    cr_assert_not(has(&after, "only-old"));
    struct kv_item item = get(&after, "a");
    cr_assert(slice_equal(item.value, slice_text("restored")));
    kv_item_release(&item);
    cr_assert(slice_equal(pinned.value, slice_text("old")));
    kv_item_release(&pinned);
    must_put(&after, "b", "1");
    uint64_t later;
    cr_assert_eq(kv_view_digest(view, NULL, &later), 0);
    cr_assert_eq(later, before);
    kv_view_close(view);
    feed_close(&after);
}

Test(kv_semantics, restore_makes_a_stopped_one_usable_again) {
    struct feed feed = feed_open(1);
    cr_assert_eq(feed_entry(&feed, ENTRY_COMMAND, NULL), LKV_EPROTOCOL);
    struct feed fresh = feed_open(2);
    must_put(&fresh, "a", "1");
    kv_restore(feed.kv, fresh.kv);
    feed.index = fresh.index;
    must_put(&feed, "b", "1");
    cr_assert(has(&feed, "a") && has(&feed, "b"));
    feed_close(&feed);
}

Test(kv_semantics, exchange_hands_the_old_contents_to_be_closed_later) {
    struct feed feed = feed_open(1);
    must_put(&feed, "a", "old");
    struct kv_view *view;
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    struct feed fresh = feed_open(2);
    must_put(&fresh, "b", "new");
    kv_exchange(feed.kv, fresh.kv);
    cr_assert(has(&feed, "b") && !has(&feed, "a"));
    kv_close(fresh.kv);
    uint64_t digest;
    cr_assert_eq(kv_view_digest(view, NULL, &digest), 0);
    kv_view_close(view);
    feed_close(&feed);
}

Test(kv_semantics, closing_nothing_is_fine) {
    kv_close(NULL);
    kv_view_close(NULL);
    const struct kv_query all = {0};
    struct feed feed = feed_open(1);
    struct kv_range range;
    cr_assert_eq(kv_range(feed.kv, &all, &range), 0);
    kv_range_fini(&range);
    kv_range_fini(&range);
    feed_close(&feed);
}
