/* The index of ranges, against looking at each of them. */
#include "kv/intervals.h"

#include "base/list.h"
#include "base/prng.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { RANGES = 300, TEXT = 24 };

struct range {
    struct interval interval;
    char from[TEXT], to[TEXT];
    bool in, found;
};

static void on_found(void *arg, struct interval *interval) {
    struct range *range = LIST_ITEM(interval, struct range, interval);
    cr_assert(range->in && !range->found, "each once");
    range->found = true;
    ++*(size_t *)arg;
}

static bool contains(const struct range *range, struct slice key) {
    return slice_compare(key, slice_text(range->from)) >= 0 &&
           (range->to[0] == 0 || slice_compare(key, slice_text(range->to)) < 0);
}

static void random_text(struct prng *prng, char into[TEXT]) {
    static const char *const prefixes[] = {"", "k", "/a/long/common/prefix/", "kk\xff"};
    (void)snprintf(into, TEXT, "%.22s%c", prefixes[prng_below(prng, 4)],
                   (char)('a' + prng_below(prng, 20)));
}

static void expect_found(const struct intervals *intervals, struct range *ranges,
                         struct slice key) {
    size_t found = 0;
    intervals_find(intervals, key, on_found, &found);
    for (size_t i = 0; i < RANGES; i++) {
        bool expected = ranges[i].in && contains(&ranges[i], key);
        cr_assert_eq(ranges[i].found, expected, "range %zu: [%s, %s) of %.*s", i, ranges[i].from,
                     ranges[i].to, (int)key.size, (const char *)key.data);
        found -= expected;
        ranges[i].found = false;
    }
    cr_assert_eq(found, 0);
}

static void expect_order(const struct intervals *intervals) {
    size_t count = 0;
    const struct interval *before = NULL;
    for (struct interval *at = intervals_first(intervals); at != NULL; at = intervals_next(at)) {
        cr_assert(before == NULL || slice_compare(before->from.key, at->from.key) <= 0);
        before = at;
        count++;
    }
    cr_assert_eq(count, intervals->count);
}

static void change(struct intervals *intervals, struct range *range, struct prng *prng) {
    if (range->in) {
        intervals_remove(intervals, &range->interval);
    } else {
        random_text(prng, range->from);
        random_text(prng, range->to);
        if (prng_below(prng, 10) == 0) {
            range->from[0] = 0;
        }
        if (prng_below(prng, 10) == 0) {
            range->to[0] = 0;
        }
        intervals_add(intervals, &range->interval, slice_text(range->from), slice_text(range->to));
    }
    range->in = !range->in;
}

Test(kv_intervals, find_what_looking_at_each_finds) {
    static struct range ranges[RANGES];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct prng prng = prng_of(seed);
        struct intervals intervals = {0};
        memset(ranges, 0, sizeof(ranges));
        for (int step = 0; step < 1500; step++) {
            change(&intervals, &ranges[prng_below(&prng, RANGES)], &prng);
            char key[TEXT];
            random_text(&prng, key);
            expect_found(&intervals, ranges, slice_text(key));
            expect_found(&intervals, ranges, slice_of(key, prng_below(&prng, strlen(key) + 1)));
        }
        expect_order(&intervals);
    }
}

static size_t depth_of(const struct interval *node) {
    if (node == NULL) {
        return 0;
    }
    size_t left = depth_of(node->left), right = depth_of(node->right);
    return 1 + (left > right ? left : right);
}

Test(kv_intervals, stay_flat_when_they_come_in_order) {
    enum { MANY = 10000 };
    static struct interval many[MANY];
    static char keys[MANY][TEXT];
    struct intervals intervals = {0};
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(keys[i], TEXT, "/watched/%06d/", i);
    }
    for (int i = 0; i < MANY; i++) {
        struct slice to = i + 1 < MANY ? slice_text(keys[i + 1]) : (struct slice){0};
        intervals_add(&intervals, &many[i], slice_text(keys[i]), to);
    }
    cr_assert_lt(depth_of(intervals.root), 50, "%zu", depth_of(intervals.root));
    for (int i = 0; i < MANY; i++) {
        intervals_remove(&intervals, &many[i]);
    }
    cr_assert(intervals.root == NULL && intervals.count == 0);
}

Test(kv_intervals, a_range_without_a_key_in_it_is_never_found) {
    struct range range = {.from = "b", .to = "b", .in = true};
    struct intervals intervals = {0};
    intervals_add(&intervals, &range.interval, slice_text("b"), slice_text("b"));
    size_t found = 0;
    intervals_find(&intervals, slice_text("b"), on_found, &found);
    intervals_find(&intervals, slice_text("a"), on_found, &found);
    intervals_remove(&intervals, &range.interval);
    intervals_add(&intervals, &range.interval, slice_text("c"), slice_text("a"));
    intervals_find(&intervals, slice_text("b"), on_found, &found);
    cr_assert_eq(found, 0);
}
