/* An image is written in slices: writes go on between any two of them, and it stays the one of its moment. */
#include "base/feature.h"
#include "feed.h"
#include "kv/image.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

enum { KEYS = 20000, VALUE_SIZE = 256, PUTS_BETWEEN = 64 };

static const char path[] = "d/i";
static const struct kv_owner owner = {.cluster_id = 9, .group_id = 1};

static struct feed feed;
static int (*write_it)(struct disk_file *file, uint64_t offset, const struct slice *parts,
                       size_t count);
static size_t slices, written;
static uint64_t most_memory;

static void put(size_t i, int with) {
    char key[16];
    static char value[VALUE_SIZE];
    (void)snprintf(key, sizeof(key), "key/%06zu", i);
    memset(value, with, sizeof(value));
    cr_assert_eq(feed_put(&feed, slice_text(key), slice_of(value, sizeof(value))), 0);
}

static uint64_t memory(void) {
    struct kv_stats stats;
    kv_stats(feed.kv, &stats);
    return stats.memory;
}

/* The disk is at work: were the state held meanwhile, these would wait for themselves. */
static int write_between(struct disk_file *file, uint64_t offset, const struct slice *parts,
                         size_t count) {
    slices++;
    for (size_t i = 0; i < PUTS_BETWEEN; i++) {
        put(written++ * 7919 % KEYS, 'n');
    }
    (void)kv_tidy(feed.kv);
    uint64_t now = memory();
    most_memory = now > most_memory ? now : most_memory;
    return write_it(file, offset, parts, count);
}

static uint64_t digest_in(struct kv_view *view) {
    uint64_t digest = 0;
    cr_assert_eq(kv_view_digest(view, NULL, &digest), 0);
    return digest;
}

static uint64_t digest_of_loaded(struct disk *disk, struct kv_stamp *stamp) {
    const struct kv_options options = {.hash_seed = 2, .feature_level = KV_LEVEL_HISTORY};
    struct kv *loaded;
    struct kv_image_info info;
    cr_assert_eq(kv_image_load(&loaded, &options, disk, path, NULL, &info, NULL, NULL), 0);
    struct kv_view *view;
    cr_assert_eq(kv_view_open(loaded, &view), 0);
    uint64_t digest = digest_in(view);
    kv_view_stamp(view, stamp);
    kv_view_close(view);
    kv_close(loaded);
    return digest;
}

/* X-D3, but for the clock: what a put waits for beside an image is measured (bench/engine.c). */
Test(kv_beside, x_d3_writes_go_on_between_the_slices_of_an_image) {
    struct sim_disk *sim = sim_disk_new(1);
    struct disk *disk = sim_disk_seam(sim);
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
    feed = feed_open_history(1);
    for (size_t i = 0; i < KEYS; i++) {
        put(i, 'o');
    }
    struct kv_view *view;
    struct kv_stamp before, of_image, now;
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    kv_view_stamp(view, &before);
    uint64_t digest = digest_in(view), memory_before = memory();

    const struct disk_ops *ops = disk->ops;
    struct disk_ops between = *ops;
    write_it = ops->write;
    between.write = write_between;
    disk->ops = &between;
    cr_assert_eq(kv_image_save(view, disk, "d", path, owner, (struct slice){0}, NULL, NULL, NULL),
                 0);
    disk->ops = ops;
    kv_view_close(view);

    cr_assert_gt(slices, 10, "%zu", slices);
    kv_stamp(feed.kv, &now);
    cr_assert_eq(now.index, before.index + slices * PUTS_BETWEEN);
    cr_assert_eq(digest_of_loaded(disk, &of_image), digest);
    cr_assert_eq(of_image.index, before.index);
    cr_assert_eq(of_image.revision, before.revision);
    if (feed.home == NULL) {
        cr_assert_leq(most_memory, memory_before / 5 * 6, "%llu of %llu: 1.2 times at most",
                      (unsigned long long)most_memory, (unsigned long long)memory_before);
    }
    feed_close(&feed);
    sim_disk_free(sim);
}
