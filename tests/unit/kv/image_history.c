/* Images with history: golden bytes, and what a reader refuses although the checksums are right. */
#include "base/mem.h"
#include "feed.h"
#include "kv/image_keys.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

static const char path[] = "d/i";

static void save(struct kv *kv, struct sim_disk *sim) {
    struct kv_view *view;
    cr_assert_eq(kv_view_open(kv, &view), 0);
    cr_assert_eq(kv_image_save(view, sim_disk_seam(sim), "d", path,
                               (struct kv_owner){.cluster_id = 9, .group_id = 1}, (struct slice){0},
                               NULL, NULL, NULL),
                 0);
    kv_view_close(view);
}

static int load(struct sim_disk *sim, struct kv **kv) {
    const struct kv_options options = {.hash_seed = 2, .feature_level = KV_LEVEL_HISTORY};
    return kv_image_load(kv, &options, sim_disk_seam(sim), path, NULL, NULL, NULL, NULL);
}

static struct sim_disk *disk_with_history(void) {
    struct sim_disk *sim = sim_disk_new(1);
    cr_assert_eq(disk_make_dir(sim_disk_seam(sim), "d"), 0);
    struct feed feed = feed_open_history(5);
    must_put(&feed, "b", "old");                                           /* 2: forgotten */
    must_put(&feed, "a", "1");                                             /* 3 */
    must_put(&feed, "a", "2");                                             /* 4 */
    must_put(&feed, "b", "1");                                             /* 5 */
    cr_assert_eq(feed_delete(&feed, slice_text("a"), slice_text("c")), 0); /* 6 */
    must_put(&feed, "b", "2");                                             /* 7 */
    const struct kv_command compact = {.op = KV_COMPACT, .revision = 5};
    cr_assert_eq(feed_command(&feed, &compact), 0);
    save(feed.kv, sim);
    feed_close(&feed);
    return sim;
}

Test(kv_image_history, has_the_golden_bytes) {
    static const uint8_t golden[] = {
#include "image_golden_history.h"
    };
    struct sim_disk *sim = disk_with_history();
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    if (!slice_equal(bytes, slice_of(golden, sizeof(golden)))) {
        for (size_t i = 0; i < bytes.size; i++) {
            (void)fprintf(stderr, "0x%02x,%s", bytes.data[i], i % 16 == 15 ? "\n" : " ");
        }
        cr_assert_fail("the format has changed");
    }
    sim_disk_free(sim);
}

Test(kv_image_history, p3_notices_every_flipped_bit) {
    struct sim_disk *sim = disk_with_history();
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    for (size_t bit = 0; bit < bytes.size * 8; bit++) {
        uint8_t byte = bytes.data[bit / 8];
        uint8_t flipped = (uint8_t)(byte ^ 1u << bit % 8);
        struct kv *kv;
        cr_assert(sim_disk_poke(sim, path, bit / 8, slice_of(&flipped, 1)));
        int rc = load(sim, &kv);
        cr_assert(rc == LKV_EDAMAGED || rc == LKV_EVERSION, "bit %zu: %d", bit, rc);
        cr_assert(sim_disk_poke(sim, path, bit / 8, slice_of(&byte, 1)));
    }
    struct kv *kv;
    cr_assert_eq(load(sim, &kv), 0);
    kv_close(kv);
    sim_disk_free(sim);
}

/* A key with more versions than a chunk holds comes back whole. */
Test(kv_image_history, a_key_goes_on_in_the_next_chunk) {
    struct sim_disk *sim = sim_disk_new(1);
    cr_assert_eq(disk_make_dir(sim_disk_seam(sim), "d"), 0);
    struct feed feed = feed_open_history(5);
    static uint8_t value[1000];
    for (int i = 0; i < 900; i++) {
        value[0] = (uint8_t)i;
        cr_assert_eq(feed_put(&feed, slice_text("k"), slice_of(value, sizeof(value))), 0);
    }
    must_put(&feed, "l", "");
    save(feed.kv, sim);
    struct kv *kv;
    cr_assert_eq(load(sim, &kv), 0);
    for (uint64_t revision = 2; revision <= 901; revision++) {
        struct kv_item item;
        cr_assert_eq(kv_get_at(kv, slice_text("k"), revision, &item, NULL), 0);
        cr_assert(item.mod_rev == revision && item.value.data[0] == (uint8_t)(revision - 2));
        kv_item_release(&item);
    }
    kv_close(kv);
    feed_close(&feed);
    sim_disk_free(sim);
}

/* Superseded versions and tombstones, which wait for a compaction. */
static struct sim_disk *disk_with_much_to_compact(size_t keys) {
    struct sim_disk *sim = sim_disk_new(1);
    cr_assert_eq(disk_make_dir(sim_disk_seam(sim), "d"), 0);
    struct feed feed = feed_open_history(5);
    for (size_t i = 0; i < keys; i++) {
        char key[24];
        (void)snprintf(key, sizeof(key), "k%02zu", i);
        must_put(&feed, key, "1");
        must_put(&feed, key, "2");
        cr_assert_eq(feed_delete(&feed, slice_text(key), (struct slice){0}), 0);
    }
    save(feed.kv, sim);
    feed_close(&feed);
    return sim;
}

Test(kv_image_history, s28_loading_without_memory_keeps_nothing) {
    enum { KEYS = 40 };
    struct sim_disk *sim = disk_with_much_to_compact(KEYS);
    struct kv *kv = NULL;
    uint64_t n = 0;
    for (int rc = LKV_ENOMEM; rc != 0; n++) {
        mem_fail_after(n);
        rc = load(sim, &kv);
        mem_fail_never();
        cr_assert(rc == 0 || (rc == LKV_ENOMEM && kv == NULL), "%d after %zu", rc, (size_t)n);
    }
    cr_assert_gt(n, 3 * KEYS, "each version has memory of its own");
    struct kv_stats stats;
    kv_stats(kv, &stats);
    cr_assert(stats.keys == 0 && stats.versions == 3 * KEYS);
    kv_close(kv);
    cr_assert_eq(sim_disk_open_files(sim), 0);
    sim_disk_free(sim);
}

/* ---------------------------------------------------------------------------- impossible histories */

struct one {
    const char *key;
    uint64_t main, create, version; /* version 0: a tombstone */
};

/* In a state at revision 20 that has history from 10 on. */
static int take(const struct one *all, size_t count, bool with_store) {
    const struct image_header header = {.feature_level = KV_LEVEL_HISTORY,
                                        .stamp = {.revision = 20, .kept_from = 10}};
    struct buffer bytes;
    buffer_init(&bytes);
    for (size_t i = 0; i < count; i++) {
        struct image_record_open record;
        const struct image_version version = {.item = {.create_rev = all[i].create,
                                                       .mod_rev = all[i].main,
                                                       .version = all[i].version},
                                              .kind = all[i].version == 0 ? IMAGE_TOMBSTONE
                                                                          : IMAGE_VALUE};
        image_put_record(&bytes, &record, slice_text(all[i].key));
        image_put_version(&bytes, &record, &version);
    }
    struct kv *kv;
    const struct kv_options options = {.hash_seed = 2};
    cr_assert_eq(kv_open(&kv, &options), 0);
    struct image_keys keys = {.header = &header, .store = with_store ? kv->store : NULL};
    const char *what = NULL;
    int rc = image_keys_take(&keys, buffer_slice(&bytes), &what);
    rc = rc == 0 ? image_keys_end(&keys, &what) : rc;
    cr_assert(rc == 0 || what != NULL);
    image_keys_fini(&keys);
    buffer_fini(&bytes);
    kv_close(kv);
    return rc;
}

static int take_both(const struct one *all, size_t count) {
    int rc = take(all, count, false);
    cr_assert_eq(take(all, count, true), rc);
    return rc;
}

#define TAKE(...)                                \
    take_both((const struct one[]){__VA_ARGS__}, \
              sizeof((struct one[]){__VA_ARGS__}) / sizeof(struct one))

Test(kv_image_history, takes_what_can_be) {
    cr_expect_eq(TAKE({"a", 10, 3, 4}), 0);
    cr_expect_eq(TAKE({"a", 11, 3, 5}, {"a", 10, 3, 4}), 0);
    cr_expect_eq(TAKE({"a", 12, 12, 1}), 0, "it was not there before");
    cr_expect_eq(TAKE({"a", 12, 12, 1}, {"a", 10, 0, 0}), 0);
    cr_expect_eq(TAKE({"a", 20, 0, 0}, {"a", 5, 5, 1}, {"b", 10, 0, 0}), 0);
}

Test(kv_image_history, p3_refuses_what_cannot_be) {
    cr_expect_eq(TAKE({"a", 21, 3, 4}), LKV_EDAMAGED, "newer than the image");
    cr_expect_eq(TAKE({"a", 9, 0, 0}), LKV_EDAMAGED, "older than the history");
    cr_expect_eq(TAKE({"a", 12, 12, 1}, {"a", 9, 0, 0}), LKV_EDAMAGED, "the same");
    cr_expect_eq(TAKE({"a", 10, 3, 4}, {"a", 9, 3, 3}), LKV_EDAMAGED, "more than is kept");
    cr_expect_eq(TAKE({"a", 11, 3, 5}), LKV_EDAMAGED, "less than is kept");
    cr_expect_eq(TAKE({"a", 11, 3, 5}, {"b", 10, 3, 4}), LKV_EDAMAGED, "the same");
    cr_expect_eq(TAKE({"a", 11, 0, 0}), LKV_EDAMAGED, "the same");
    cr_expect_eq(TAKE({"a", 11, 3, 5}, {"a", 11, 3, 4}), LKV_EDAMAGED, "not descending");
    cr_expect_eq(TAKE({"a", 11, 3, 5}, {"a", 10, 4, 4}), LKV_EDAMAGED, "another life");
    cr_expect_eq(TAKE({"a", 11, 3, 5}, {"a", 10, 3, 3}), LKV_EDAMAGED, "one is missing");
    cr_expect_eq(TAKE({"a", 12, 12, 1}, {"a", 10, 3, 3}), LKV_EDAMAGED, "no delete between");
    cr_expect_eq(TAKE({"a", 12, 0, 0}, {"a", 11, 0, 0}), LKV_EDAMAGED, "deleted twice");
    cr_expect_eq(TAKE({"a", 12, 12, 2}), LKV_EDAMAGED, "no first version");
    cr_expect_eq(TAKE({"b", 10, 3, 4}, {"a", 10, 3, 4}), LKV_EDAMAGED, "not in order");
}
