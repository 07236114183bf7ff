/* S28: out of memory at the n-th allocation, for every n. */
#include "base/mem.h"
#include "naive.h"

#include <criterion/criterion.h>

Test(kv_nomem, opening_fails_cleanly) {
    int rc = -1;
    for (uint64_t n = 0; rc != 0; n++) {
        struct kv *kv;
        const struct kv_options options = {.hash_seed = 1};
        mem_fail_after(n);
        rc = kv_open(&kv, &options);
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        cr_assert_eq(kv == NULL, rc != 0);
        kv_close(kv);
    }
}

enum { SCRIPT = 400 };

/* Every kind of command, some overwriting, some deleting many. */
static struct kv_command command_of(unsigned number, char *key, char *end) {
    int key_size = snprintf(key, 16, "k%u", number * 7 % 100);
    struct kv_command command = {
        .op = KV_PUT, .key = slice_of(key, (size_t)key_size), .value = slice_text("value")};
    static uint8_t large[2000];
    if (number % 13 == 0) {
        command.value = slice_of(large, sizeof(large));
    }
    if (number % 11 == 0) {
        int end_size = snprintf(end, 16, "k%u", number * 7 % 100 + 9);
        command.op = KV_DELETE;
        command.value = (struct slice){0};
        command.end = number % 3 ? slice_of(end, (size_t)end_size) : (struct slice){0};
    }
    return command;
}

static struct entry entry_of(unsigned number) {
    char key[16];
    char end[16];
    const struct kv_command command = command_of(number, key, end);
    return (struct entry){
        .index = number, .term = 1, .type = ENTRY_COMMAND, .payload = kv_command_encode(&command)};
}

static void naive_apply(struct naive *naive, unsigned number) {
    char key[16];
    char end[16];
    const struct kv_command command = command_of(number, key, end);
    if (command.op == KV_PUT) {
        naive_put(naive, command.key, command.value);
    } else {
        (void)naive_delete(naive, command.key, command.end);
    }
}

static void expect_same(struct kv *kv, const struct naive *naive) {
    const struct kv_query all = {0};
    struct kv_range range;
    cr_assert_eq(kv_range(kv, &all, &range), 0);
    cr_assert_eq(range.stamp.revision, naive->revision);
    cr_assert_eq(range.count, naive->count);
    for (size_t i = 0; i < range.count; i++) {
        cr_assert(naive_equal(&naive->keys[i], &range.items[i], false));
        struct kv_item item;
        cr_assert_eq(kv_get(kv, range.items[i].key, &item, NULL), 0);
        cr_assert(naive_equal(&naive->keys[i], &item, false));
        kv_item_release(&item);
    }
    kv_range_fini(&range);
    struct kv_stats stats;
    kv_stats(kv, &stats);
    cr_assert_eq(stats.keys, naive->count);
}

/* Runs the script in batches until the n-th allocation fails: what was applied is there, the entry
 * that failed has left nothing to be seen, and it stays stopped. (What only gives memory back may fail
 * unnoticed.) False: there are not so many allocations. */
static bool run_out_at(uint64_t n, size_t batch, bool with_views, bool with_history) {
    static struct entry entries[SCRIPT];
    struct feed feed = with_history ? feed_open_history(1) : feed_open(1);
    for (unsigned i = 0; i < SCRIPT; i++) {
        entries[i] = entry_of(i + 1);
        entries[i].index = feed.index + i + 1;
    }
    struct naive naive = naive_new();
    struct kv_view *views[SCRIPT] = {NULL};
    static struct kv_result results[SCRIPT];
    size_t done = 0;
    int rc = 0;
    uint64_t calls = 0;
    while (rc == 0 && done < SCRIPT) {
        if (with_views) {
            cr_assert_eq(kv_view_open(feed.kv, &views[done]), 0);
        }
        size_t count = SCRIPT - done < batch ? SCRIPT - done : batch;
        size_t applied;
        mem_fail_after(calls <= n ? n - calls : UINT64_MAX);
        rc = kv_apply(feed.kv, &entries[done], count, results, &applied, NULL);
        calls += mem_fail_count();
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        for (size_t i = 0; i < applied; i++) {
            naive_apply(&naive, (unsigned)(done + i + 1));
        }
        done += applied;
        cr_assert_eq(rc == 0, applied == count);
    }
    expect_same(feed.kv, &naive);
    for (unsigned i = 0; i < SCRIPT; i++) {
        kv_view_close(views[i]);
        blob_unref(entries[i].payload);
    }
    expect_same(feed.kv, &naive);
    naive_free(&naive);
    feed_close(&feed);
    return calls > n;
}

Test(kv_nomem, apply_stops_with_whole_entries_only) {
    static const size_t batches[] = {1, 50, SCRIPT};
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        uint64_t n = 0;
        while (run_out_at(n, batches[i], false, false)) {
            n++;
        }
        cr_assert_gt(n, SCRIPT);
    }
}

Test(kv_nomem, apply_stops_with_whole_entries_only_beside_views) {
    for (uint64_t n = 0; run_out_at(n, 20, true, false); n++) {
    }
}

Test(kv_nomem, apply_stops_with_whole_entries_only_with_history) {
    for (uint64_t n = 0; run_out_at(n, 20, true, true); n++) {
    }
    for (uint64_t n = 0; run_out_at(n, 1, false, true); n++) {
    }
}

Test(kv_nomem, views_and_pages_fail_cleanly) {
    struct feed feed = feed_open(1);
    struct naive naive = naive_new();
    for (unsigned i = 1; i <= 1000; i++) {
        char key[16];
        int size = snprintf(key, sizeof(key), "%u", i);
        cr_assert_eq(feed_put(&feed, slice_of(key, (size_t)size), slice_text("v")), 0);
        naive_put(&naive, slice_of(key, (size_t)size), slice_text("v"));
    }
    int rc = -1;
    for (uint64_t n = 0; rc != 0; n++) {
        const struct kv_query all = {.with_total = true, .order = n % 2 ? KV_BY_KEY : KV_BY_VALUE};
        struct kv_range range;
        mem_fail_after(n);
        rc = kv_range(feed.kv, &all, &range);
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        cr_assert(rc == 0 || (range.count == 0 && range.items == NULL));
        kv_range_fini(&range);
    }
    rc = -1;
    for (uint64_t n = 0; rc != 0; n++) {
        struct kv_view *view;
        mem_fail_after(n);
        rc = kv_view_open(feed.kv, &view);
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        kv_view_close(view);
    }
    expect_same(feed.kv, &naive);
    naive_free(&naive);
    feed_close(&feed);
}

Test(kv_nomem, encoding_gives_nothing) {
    const struct kv_command command = {.op = KV_PUT, .key = slice_text("k")};
    mem_fail_after(0);
    struct blob *blob = kv_command_encode(&command);
    mem_fail_never();
    cr_assert_null(blob);
}
