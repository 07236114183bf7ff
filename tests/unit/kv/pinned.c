/* A revision that is pinned stays as it was, and its memory comes back when it is not needed any more. */
#include "base/prng.h"
#include "feed.h"

#include <criterion/criterion.h>

static void compact(struct feed *feed, uint64_t revision) {
    const struct kv_command command = {.op = KV_COMPACT, .revision = revision};
    cr_assert_eq(feed_command(feed, &command), 0);
    cr_assert_eq(feed->result.rc, 0);
    while (kv_tidy(feed->kv)) {
    }
}

static uint64_t versions(const struct feed *feed) {
    struct kv_stats stats;
    while (kv_tidy(feed->kv)) {
    }
    kv_stats(feed->kv, &stats);
    return stats.versions;
}

static struct kv_pin *pin_at(const struct feed *feed, uint64_t revision) {
    struct kv_pin *pin;
    struct kv_stamp stamp;
    cr_assert_eq(kv_pin_open(feed->kv, revision, &pin, &stamp), 0);
    return pin;
}

/* "a=1 b=2", in the order of the range. */
static void expect(struct kv_pin *pin, struct kv_query query, const char *items) {
    char found[256] = "";
    size_t size = 0;
    struct kv_range range;
    cr_assert_eq(kv_pin_range(pin, &query, &range), 0);
    for (size_t i = 0; i < range.count; i++) {
        const struct kv_item *item = &range.items[i];
        size +=
            (size_t)snprintf(found + size, sizeof(found) - size, "%s%.*s=%.*s", i > 0 ? " " : "",
                             (int)item->key.size, (const char *)item->key.data,
                             (int)item->value.size, (const char *)item->value.data);
    }
    cr_assert_str_eq(found, items);
    kv_range_fini(&range);
}

/* Its value, "" when it is not there. */
static void expect_at(struct kv_pin *pin, const char *key, const char *value) {
    struct kv_item item;
    struct kv_stamp stamp;
    int rc = kv_pin_get(pin, slice_text(key), &item, &stamp);
    cr_assert_eq(rc, value[0] != '\0' ? 0 : LKV_ENOTFOUND, "%s", key);
    cr_assert(slice_equal(item.value, slice_text(value)), "%s", key);
    kv_item_release(&item);
}

Test(kv_pinned, c16_a_pin_shows_its_revision_whatever_is_written_and_compacted) {
    struct feed feed = feed_open_history(1);
    must_put(&feed, "a", "1");
    must_put(&feed, "b", "2"); /* revision 3 */
    must_put(&feed, "c", "3");
    struct kv_pin *old = pin_at(&feed, 3), *now = pin_at(&feed, 0);
    cr_assert_eq(kv_pin_revision(old), 3);
    cr_assert_eq(kv_pin_revision(now), 4);
    must_delete(&feed, "a");
    must_put(&feed, "b", "4");
    must_put(&feed, "aa", "5");
    compact(&feed, 7);
    expect(old, (struct kv_query){0}, "a=1 b=2");
    expect(now, (struct kv_query){0}, "a=1 b=2 c=3");
    expect(now, (struct kv_query){.descending = true, .limit = 2}, "c=3 b=2");
    expect(now, (struct kv_query){.order = KV_BY_VALUE, .descending = true}, "c=3 b=2 a=1");
    expect(now, (struct kv_query){.from = slice_text("b"), .to = slice_text("c")}, "b=2");
    expect(now, (struct kv_query){.mod_rev_min = 4, .revision = 7}, "c=3");
    expect_at(old, "a", "1");
    expect_at(old, "aa", "");
    expect_at(old, "b", "2");
    expect_at(old, "c", "");
    expect_at(now, "c", "3");
    expect_at(now, "d", "");
    kv_pin_close(old);
    kv_pin_close(now);
    kv_pin_close(NULL);
    feed_close(&feed);
}

Test(kv_pinned, memory_comes_back_when_the_pin_goes) {
    struct feed feed = feed_open_history(2);
    for (int i = 0; i < 3000; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%04d", i);
        must_put(&feed, key, "before");
    }
    struct kv_pin *pin = pin_at(&feed, 0);
    cr_assert_eq(feed_delete(&feed, slice_text("k"), slice_text("l")), 0);
    compact(&feed, feed.result.revision);
    cr_assert_geq(versions(&feed), 3000, "the pin needs them");
    struct kv_range range;
    cr_assert_eq(kv_pin_range(pin, &(struct kv_query){.count_only = true}, &range), 0);
    cr_assert_eq(range.total, 3000);
    must_put(&feed, "z", "after");
    compact(&feed, feed.result.revision);
    kv_pin_close(pin);
    cr_assert_eq(versions(&feed), 1);
    feed_close(&feed);
}

/* Deleted keys that history still keeps are passed one by one: whoever has no time for that says so. */
Test(kv_pinned, a_page_gives_up_after_so_many_keys) {
    struct feed feed = feed_open_history(7);
    for (int i = 0; i < 3000; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%04d", i);
        must_put(&feed, key, "");
    }
    cr_assert_eq(feed_delete(&feed, slice_text("k"), slice_text("k2900")), 0);
    struct kv_range range;
    struct kv_query query = {.limit = 1, .keys_max = 1000};
    cr_assert_eq(kv_range(feed.kv, &query, &range), LKV_EBUSY);
    cr_assert(range.items == NULL && range.count == 0);
    query.keys_max = 3000;
    cr_assert_eq(kv_range(feed.kv, &query, &range), 0);
    cr_assert_eq(range.count, 1);
    kv_range_fini(&range);
    query.keys_max = 1000;
    query.descending = true;
    cr_assert_eq(kv_range(feed.kv, &query, &range), 0, "they lie the other way");
    kv_range_fini(&range);
    feed_close(&feed);
}

Test(kv_pinned, without_history_the_newest_revision_can_be_pinned) {
    struct feed feed = feed_open(3);
    struct kv_pin *none;
    struct kv_stamp stamp;
    must_put(&feed, "a", "1");
    must_put(&feed, "a", "2");
    cr_assert_eq(kv_pin_open(feed.kv, 2, &none, &stamp), LKV_ECOMPACTED);
    cr_assert(none == NULL && stamp.revision == 3 && stamp.kept_from == 4);
    cr_assert_eq(kv_pin_open(feed.kv, 4, &none, &stamp), LKV_EFUTURE);
    cr_assert_null(none);
    struct kv_pin *pin = pin_at(&feed, 3);
    must_put(&feed, "a", "3");
    expect(pin, (struct kv_query){0}, "a=2");
    kv_pin_close(pin);
    cr_assert_eq(versions(&feed), 1);
    feed_close(&feed);
}

Test(kv_pinned, a_restore_leaves_what_is_pinned) {
    struct feed feed = feed_open_history(4), other = feed_open_history(5);
    must_put(&feed, "a", "1");
    must_put(&other, "b", "2");
    struct kv_pin *pin = pin_at(&feed, 0);
    kv_restore(feed.kv, other.kv);
    expect(pin, (struct kv_query){0}, "a=1");
    kv_pin_close(pin);
    feed_close(&feed);
}

/* Beside pins of all ages, closed in any order, each shows what it showed at first. */
Test(kv_pinned, many_pins_come_and_go_in_any_order) {
    enum { PINS = 12, STEPS = 4000, KEYS = 6 };
    struct feed feed = feed_open_history(6);
    struct prng prng = prng_of(77);
    struct kv_pin *pins[PINS] = {0};
    char shown[PINS][KEYS + 1];
    char value[KEYS + 1] = "------";
    for (int step = 0; step < STEPS; step++) {
        size_t k = (size_t)prng_below(&prng, KEYS), p = (size_t)prng_below(&prng, PINS);
        char key[2] = {(char)('a' + k), 0}, text[2] = {(char)('A' + step % 26), 0};
        if (prng_below(&prng, 4) == 0 && value[k] != '-') {
            must_delete(&feed, key);
            value[k] = '-';
        } else {
            must_put(&feed, key, text);
            value[k] = text[0];
        }
        if (pins[p] == NULL) {
            pins[p] = pin_at(&feed, 0);
            memcpy(shown[p], value, sizeof(value));
        } else if (prng_below(&prng, 2) == 0) {
            kv_pin_close(pins[p]);
            pins[p] = NULL;
        }
        if (step % 7 == 0) {
            compact(&feed, feed.result.revision);
        }
        for (p = 0; p < PINS; p++) {
            char items[256] = "";
            for (k = 0; pins[p] != NULL && k < KEYS; k++) {
                if (shown[p][k] != '-') {
                    size_t size = strlen(items);
                    (void)snprintf(items + size, sizeof(items) - size, "%s%c=%c",
                                   size > 0 ? " " : "", (char)('a' + k), shown[p][k]);
                }
            }
            if (pins[p] != NULL) {
                expect(pins[p], (struct kv_query){0}, items);
            }
        }
    }
    for (size_t p = 0; p < PINS; p++) {
        kv_pin_close(pins[p]);
    }
    compact(&feed, feed.result.revision);
    cr_assert_leq(versions(&feed), KEYS + 1);
    feed_close(&feed);
}
