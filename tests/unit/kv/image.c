#include "kv/image.h"
#include "base/crc.h"
#include "base/feature.h"
#include "base/mem.h"
#include "base/prng.h"
#include "feed.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

static const char dir[] = "data";
static const char path[] = "data/image";
static const char temporary[] = "data/image.tmp";
static const struct kv_options options = {.hash_seed = 99};
static const struct kv_owner owner = {.cluster_id = 0xc1d, .group_id = 0x67};

static struct sim_disk *new_disk(void) {
    struct sim_disk *sim = sim_disk_new(1);
    cr_assert_eq(disk_make_dir(sim_disk_seam(sim), dir), 0);
    cr_assert_eq(disk_sync_dir(sim_disk_seam(sim), ""), 0);
    return sim;
}

/* A session, and a put of "b" in it. */
static void put_in_session(struct feed *feed) {
    const struct kv_command open = {.op = KV_SESSION_OPEN, .ttl_ms = 5000, .limit = 1};
    cr_assert_eq(feed_command(feed, &open), 0);
    const struct kv_command put = {.op = KV_PUT,
                                   .session = feed->index,
                                   .seq = 3,
                                   .acked_below = 2,
                                   .key = slice_text("b"),
                                   .value = slice_text("2")};
    cr_assert_eq(feed_command(feed, &put), 0);
    cr_assert_eq(feed->result.rc, 0);
}

/* A few keys of every kind that fits a small file, and a session. */
static struct feed small_state(uint64_t seed) {
    struct feed feed = feed_open(seed);
    must_put(&feed, "b", "1");
    must_put(&feed, "a", "");
    must_put(&feed, "b", "2");
    cr_assert_eq(feed_put(&feed, slice_of("\0\xff", 2), slice_of("\0", 1)), 0);
    must_put(&feed, "gone", "x");
    must_delete(&feed, "gone");
    must_put(&feed, "c", "3");
    put_in_session(&feed);
    return feed;
}

static int save_with(struct kv *kv, struct sim_disk *sim, struct slice tail,
                     const atomic_bool *cancel, struct kv_image_info *info) {
    struct kv_view *view;
    int rc = kv_view_open(kv, &view);
    if (rc == 0) {
        rc = kv_image_save(view, sim_disk_seam(sim), dir, path, owner, tail, cancel, info, NULL);
        kv_view_close(view);
    }
    return rc;
}

static int save(struct kv *kv, struct sim_disk *sim) {
    return save_with(kv, sim, slice_text("members"), NULL, NULL);
}

static uint64_t digest_of_kv(struct kv *kv) {
    struct kv_view *view;
    uint64_t digest = 0;
    cr_assert_eq(kv_view_open(kv, &view), 0);
    cr_assert_eq(kv_view_digest(view, NULL, &digest), 0);
    kv_view_close(view);
    return digest;
}

static void expect_same_items(struct kv *one, struct kv *other) {
    const struct kv_query all = {0};
    struct kv_range a;
    struct kv_range b;
    cr_assert_eq(kv_range(one, &all, &a), 0);
    cr_assert_eq(kv_range(other, &all, &b), 0);
    cr_assert_eq(a.count, b.count);
    cr_assert_eq(a.stamp.index, b.stamp.index);
    cr_assert_eq(a.stamp.term, b.stamp.term);
    cr_assert_eq(a.stamp.revision, b.stamp.revision);
    for (size_t i = 0; i < a.count; i++) {
        cr_assert(slice_equal(a.items[i].key, b.items[i].key));
        cr_assert(slice_equal(a.items[i].value, b.items[i].value));
        cr_assert_eq(a.items[i].create_rev, b.items[i].create_rev);
        cr_assert_eq(a.items[i].mod_rev, b.items[i].mod_rev);
        cr_assert_eq(a.items[i].version, b.items[i].version);
        cr_assert_eq(a.items[i].lease, b.items[i].lease);
    }
    kv_range_fini(&a);
    kv_range_fini(&b);
}

static int check(struct sim_disk *sim) {
    struct reason why = {{0}};
    int rc = kv_image_check(sim_disk_seam(sim), path, NULL, NULL, &why);
    cr_assert(rc == 0 || strstr(why.text, path) != NULL, "names the file: %s", why.text);
    return rc;
}

Test(kv_image, the_header_alone_says_whose_it_is_and_where_it_stands) {
    struct sim_disk *sim = new_disk();
    struct disk *disk = sim_disk_seam(sim);
    struct feed feed = small_state(1);
    struct kv_image_info whole, header;
    struct reason why = {{0}};
    cr_assert_eq(kv_image_header(disk, path, FEATURE_LEVEL, &header, &why), LKV_ENOENT);
    cr_assert(strstr(why.text, path) != NULL, "%s", why.text);
    cr_assert_eq(save(feed.kv, sim), 0);
    cr_assert_eq(kv_image_check(disk, path, &whole, NULL, NULL), 0);
    int rc = -1;
    for (uint64_t n = 0; rc != 0; n++) {
        sim_disk_fail(sim, SIM_ANY, n, LKV_EIO, false);
        rc = kv_image_header(disk, path, FEATURE_LEVEL, &header, &why);
        cr_assert(rc == 0 || rc == LKV_EIO, "call %zu: %d", (size_t)n, rc);
        sim_disk_heal(sim);
        cr_assert_eq(sim_disk_open_files(sim), 0);
    }
    cr_assert_eq(memcmp(&header.stamp, &whole.stamp, sizeof(header.stamp)), 0);
    cr_assert(sim_disk_cut_file(sim, path, 9));
    cr_assert_eq(kv_image_header(disk, path, FEATURE_LEVEL, &header, &why), LKV_EDAMAGED);
    feed_close(&feed);
    sim_disk_free(sim);
}

static bool exists(const struct sim_disk *sim, const char *name) {
    struct slice bytes;
    return sim_disk_peek(sim, name, &bytes);
}

Test(kv_image, comes_back_as_it_was_saved) {
    struct sim_disk *sim = new_disk();
    struct feed feed = small_state(1);
    struct kv_image_info saved;
    cr_assert_eq(save_with(feed.kv, sim, slice_text("members"), NULL, &saved), 0);
    cr_assert(!exists(sim, temporary));
    cr_assert_eq(saved.keys, 4);
    cr_assert_eq(saved.cluster_id, 0xc1d);
    cr_assert_eq(saved.stamp.index, feed.index);
    cr_assert_eq(saved.digest, digest_of_kv(feed.kv));

    struct kv *loaded;
    struct kv_image_info info;
    struct blob *tail;
    struct disk *disk = sim_disk_seam(sim);
    cr_assert_eq(kv_image_load(&loaded, &options, disk, path, NULL, &info, &tail, NULL), 0);
    cr_assert_eq(memcmp(&info.stamp, &saved.stamp, sizeof(info.stamp)), 0);
    cr_assert(info.keys == saved.keys && info.bytes == saved.bytes && info.digest == saved.digest);
    cr_assert(info.cluster_id == owner.cluster_id && info.group_id == owner.group_id);
    cr_assert(info.feature_level == FEATURE_LEVEL_FIRST &&
              saved.feature_level == info.feature_level);
    cr_assert(slice_equal(blob_slice(tail), slice_text("members")));
    expect_same_items(feed.kv, loaded);
    cr_assert_eq(digest_of_kv(loaded), saved.digest);

    /* Applying goes on where the image ends. */
    struct feed after = {.kv = loaded, .index = info.stamp.index, .term = info.stamp.term};
    must_put(&after, "b", "3");
    must_put(&feed, "b", "3");
    expect_same_items(feed.kv, loaded);
    blob_unref(tail);
    feed_close(&after);
    feed_close(&feed);
    sim_disk_free(sim);
}

Test(kv_image, of_an_empty_state_is_fine) {
    struct sim_disk *sim = new_disk();
    struct feed feed = feed_open(1);
    cr_assert_eq(save_with(feed.kv, sim, (struct slice){0}, NULL, NULL), 0);
    struct kv *loaded;
    struct blob *tail;
    cr_assert_eq(
        kv_image_load(&loaded, &options, sim_disk_seam(sim), path, NULL, NULL, &tail, NULL), 0);
    cr_assert_eq(tail->size, 0);
    expect_same_items(feed.kv, loaded);
    blob_unref(tail);
    kv_close(loaded);
    feed_close(&feed);
    sim_disk_free(sim);
}

Test(kv_image, is_the_same_file_from_equal_states) {
    struct sim_disk *sim = new_disk();
    struct feed one = small_state(1);
    struct feed other = small_state(0xfeedface); /* another hash seed, so another table */
    cr_assert_eq(save(one.kv, sim), 0);
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    struct blob *first = blob_copy(bytes);
    cr_assert_eq(save(other.kv, sim), 0);
    cr_assert(sim_disk_peek(sim, path, &bytes));
    cr_assert(slice_equal(bytes, blob_slice(first)));
    blob_unref(first);
    feed_close(&one);
    feed_close(&other);
    sim_disk_free(sim);
}

static void expect_file(struct kv *kv, struct sim_disk *sim, const void *golden, size_t size) {
    cr_assert_eq(save_with(kv, sim, slice_text("tail"), NULL, NULL), 0);
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    if (!slice_equal(bytes, slice_of(golden, size))) {
        for (size_t i = 0; i < bytes.size; i++) {
            (void)fprintf(stderr, "0x%02x,%s", bytes.data[i], i % 16 == 15 ? "\n" : " ");
        }
        cr_assert_fail("the format has changed");
    }
}

Test(kv_image, has_the_golden_bytes) {
    static const uint8_t golden[] = {
#include "image_golden.h"
    };
    static const uint8_t golden_with_session[] = {
#include "image_golden_session.h"
    };
    struct sim_disk *sim = new_disk();
    struct feed feed = feed_open(5);
    feed.term = 3;
    must_put(&feed, "k", "v1");
    must_put(&feed, "k", "v2");
    expect_file(feed.kv, sim, golden, sizeof(golden));
    put_in_session(&feed);
    expect_file(feed.kv, sim, golden_with_session, sizeof(golden_with_session));
    feed_close(&feed);
    sim_disk_free(sim);
}

Test(kv_image, p3_notices_every_flipped_bit) {
    struct sim_disk *sim = new_disk();
    struct feed feed = small_state(1);
    cr_assert_eq(save(feed.kv, sim), 0);
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    size_t size = bytes.size;
    for (size_t at = 0; at < size; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            cr_assert(sim_disk_flip_bit(sim, path, at, bit, SIM_ROT_BOTH));
            cr_assert_eq(check(sim), LKV_EDAMAGED, "byte %zu bit %u", at, bit);
            cr_assert(sim_disk_flip_bit(sim, path, at, bit, SIM_ROT_BOTH));
        }
    }
    cr_assert_eq(check(sim), 0);
    feed_close(&feed);
    sim_disk_free(sim);
}

Test(kv_image, p3_notices_a_cut_at_every_length_and_bytes_behind_the_end) {
    struct sim_disk *sim = new_disk();
    struct feed feed = small_state(1);
    cr_assert_eq(save(feed.kv, sim), 0);
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    struct blob *whole = blob_copy(bytes);
    cr_assert(sim_disk_poke(sim, path, whole->size, slice_of("\0", 1)));
    cr_assert_eq(check(sim), LKV_EDAMAGED);
    for (size_t size = whole->size; size-- > 0;) {
        cr_assert(sim_disk_cut_file(sim, path, size));
        cr_assert_eq(check(sim), LKV_EDAMAGED, "%zu bytes", size);
    }
    blob_unref(whole);
    feed_close(&feed);
    sim_disk_free(sim);
}

Test(kv_image, p3_notices_chunks_that_are_swapped_doubled_or_foreign) {
    struct sim_disk *sim = new_disk();
    struct feed feed = feed_open(1);
    static uint8_t value[200 * 1024];
    for (unsigned i = 0; i < 6; i++) { /* two to a chunk, so three chunks of equal size */
        uint8_t key = (uint8_t)('a' + i);
        cr_assert_eq(feed_put(&feed, slice_of(&key, 1), slice_of(value, sizeof(value))), 0);
    }
    cr_assert_eq(save_with(feed.kv, sim, (struct slice){0}, NULL, NULL), 0);
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    struct blob *whole = blob_copy(bytes);
    size_t first = IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE;
    struct image_chunk chunk;
    image_get_chunk(whole->data + first, &chunk);
    size_t size = IMAGE_CHUNK_HEADER_SIZE + chunk.size;
    struct slice one = slice_of(whole->data + first, size);
    struct slice two = slice_of(whole->data + first + size, size);
    cr_assert_eq(check(sim), 0);

    cr_assert(sim_disk_poke(sim, path, first, two));
    cr_assert_eq(check(sim), LKV_EDAMAGED, "doubled");
    cr_assert(sim_disk_poke(sim, path, first + size, one));
    cr_assert_eq(check(sim), LKV_EDAMAGED, "swapped");

    must_put(&feed, "z", "later");
    cr_assert_eq(save_with(feed.kv, sim, (struct slice){0}, NULL, NULL), 0);
    cr_assert(sim_disk_poke(sim, path, first, one));
    cr_assert_eq(check(sim), LKV_EDAMAGED, "a chunk of an older image");
    blob_unref(whole);
    feed_close(&feed);
    sim_disk_free(sim);
}

/* Writes the chunk at `offset` again with other payload and the checksum that fits it. */
static void forge_chunk(struct sim_disk *sim, size_t offset, const struct image_header *header,
                        struct slice payload) {
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    struct image_chunk chunk;
    image_get_chunk(bytes.data + offset, &chunk);
    uint8_t head[IMAGE_CHUNK_HEADER_SIZE];
    image_put_chunk(head, &chunk, header, payload);
    cr_assert(sim_disk_poke(sim, path, offset, slice_of(head, sizeof(head))));
    cr_assert(sim_disk_poke(sim, path, offset + sizeof(head), payload));
}

Test(kv_image, p3_believes_no_record_because_its_checksum_fits) {
    struct sim_disk *sim = new_disk();
    struct feed feed = small_state(1);
    cr_assert_eq(save_with(feed.kv, sim, (struct slice){0}, NULL, NULL), 0);
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    struct blob *whole = blob_copy(bytes);
    struct image_header header;
    cr_assert_eq(image_get_header(blob_slice(whole), FEATURE_LEVEL, &header, NULL), 0);
    size_t offset = IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE;
    struct image_chunk chunk;
    image_get_chunk(whole->data + offset, &chunk);
    struct blob *payload =
        blob_copy(slice_of(whole->data + offset + IMAGE_CHUNK_HEADER_SIZE, chunk.size));
    size_t accepted = 0;
    for (size_t at = 0; at < payload->size; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            payload->data[at] ^= (uint8_t)(1u << bit);
            forge_chunk(sim, offset, &header, blob_slice(payload));
            int rc = check(sim);
            cr_assert(rc == 0 || rc == LKV_EDAMAGED);
            accepted += rc == 0;
            payload->data[at] ^= (uint8_t)(1u << bit);
        }
    }
    /* Only the order within a revision is in no total and no digest. */
    cr_assert_eq(accepted, 4 * 32);
    blob_unref(payload);
    blob_unref(whole);
    feed_close(&feed);
    sim_disk_free(sim);
}

Test(kv_image, s18_refuses_a_newer_version_and_leaves_it_alone) {
    struct sim_disk *sim = new_disk();
    struct feed feed = small_state(1);
    cr_assert_eq(save(feed.kv, sim), 0);
    /* As a newer program would write it: the prefix with its own checksum, then anything. */
    uint8_t prefix[IMAGE_PREFIX_SIZE] = {'L', 'K', 'V', 'I', 'M', 'A', 'G', 'E', 2};
    uint32_t crc = crc32c(0, slice_of(prefix, 12));
    for (int i = 0; i < 4; i++) {
        prefix[12 + i] = (uint8_t)(crc >> (8 * i));
    }
    cr_assert(sim_disk_poke(sim, path, 0, slice_of(prefix, sizeof(prefix))));
    uint64_t before = sim_disk_fingerprint(sim);
    struct kv *loaded;
    struct reason why = {{0}};
    cr_assert_eq(kv_image_load(&loaded, &options, sim_disk_seam(sim), path, NULL, NULL, NULL, &why),
                 LKV_EVERSION);
    cr_assert_null(loaded);
    cr_assert_not_null(strstr(why.text, "version 2"));
    cr_assert_eq(sim_disk_fingerprint(sim), before);
    feed_close(&feed);
    sim_disk_free(sim);
}

Test(kv_image, x_f5_leaves_nothing_behind_when_canceled) {
    struct sim_disk *sim = new_disk();
    struct feed feed = small_state(1);
    atomic_bool cancel = true;
    cr_assert_eq(save_with(feed.kv, sim, (struct slice){0}, &cancel, NULL), LKV_ECANCELED);
    cr_assert(!exists(sim, path));
    cr_assert(!exists(sim, temporary));
    feed_close(&feed);
    sim_disk_free(sim);
}

/* Close waits for none of it. */
Test(kv_image, loading_counting_and_a_digest_end_early_when_canceled) {
    struct sim_disk *sim = new_disk();
    struct feed feed = small_state(1);
    cr_assert_eq(save(feed.kv, sim), 0);
    atomic_bool cancel = true;
    struct kv *loaded;
    struct blob *tail;
    struct disk *disk = sim_disk_seam(sim);
    struct reason why = {{0}};
    cr_assert_eq(kv_image_load(&loaded, &options, disk, path, &cancel, NULL, &tail, &why),
                 LKV_ECANCELED);
    cr_assert(loaded == NULL && tail == NULL);
    uint64_t good;
    cr_assert_eq(kv_image_prefix(disk, path, &cancel, &good, &why), LKV_ECANCELED);
    struct kv_view *view;
    uint64_t digest;
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    cr_assert_eq(kv_view_digest(view, &cancel, &digest), LKV_ECANCELED);
    kv_view_close(view);
    const struct kv_query count = {.count_only = true, .cancel = &cancel};
    struct kv_range range;
    cr_assert_eq(kv_range(feed.kv, &count, &range), LKV_ECANCELED);
    cancel = false;
    cr_assert_eq(kv_range(feed.kv, &count, &range), 0);
    cr_assert_eq(range.total, 4);
    feed_close(&feed);
    sim_disk_free(sim);
}

/* The digest of the image under the final name; 0: there is no good one. */
static uint64_t found_digest(struct sim_disk *sim) {
    struct kv_image_info found;
    int rc = kv_image_check(sim_disk_seam(sim), path, &found, NULL, NULL);
    return rc == 0 ? found.digest : 0;
}

/* A disk with an image, durable, and a state that has gone on. */
static struct sim_disk *disk_with_old_image(struct feed *feed, uint64_t *old, uint64_t *new) {
    struct sim_disk *base = new_disk();
    struct kv_image_info info;
    cr_assert_eq(save_with(feed->kv, base, (struct slice){0}, NULL, &info), 0);
    *old = info.digest;
    must_put(feed, "new", "state");
    static uint8_t value[300 * 1024]; /* more than one chunk */
    cr_assert_eq(feed_put(feed, slice_text("large"), slice_of(value, sizeof(value))), 0);
    *new = digest_of_kv(feed->kv);
    return base;
}

Test(kv_image, x_f1_survives_a_crash_at_every_disk_operation) {
    struct feed feed = small_state(1);
    uint64_t old;
    uint64_t new;
    struct sim_disk *base = disk_with_old_image(&feed, &old, &new);
    bool crashed = true;
    for (uint64_t op = 0; crashed; op++) {
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct sim_disk *sim = sim_disk_clone(base, seed);
            sim_disk_crash_at(sim, op);
            int rc = save_with(feed.kv, sim, (struct slice){0}, NULL, NULL);
            crashed = sim_disk_crashed(sim);
            cr_assert_eq(rc == 0, !crashed);
            cr_assert_eq(sim_disk_open_files(sim), 0);
            sim_disk_power_cut(sim);
            uint64_t found = found_digest(sim);
            cr_assert(found == new || (crashed && found == old), "operation %zu", (size_t)op);
            /* What is left of the attempt is not in the way of the next. */
            cr_assert_eq(save_with(feed.kv, sim, (struct slice){0}, NULL, NULL), 0);
            cr_assert_eq(found_digest(sim), new);
            cr_assert(!exists(sim, temporary));
            sim_disk_free(sim);
        }
    }
    feed_close(&feed);
    sim_disk_free(base);
}

/* Whether the harness above would notice a save that forgets a sync. */
static bool a_cut_loses_the_image(void (*ignore)(struct sim_disk *, bool)) {
    struct feed feed = small_state(1);
    uint64_t old;
    uint64_t new;
    struct sim_disk *base = disk_with_old_image(&feed, &old, &new);
    bool lost = false;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        struct sim_disk *sim = sim_disk_clone(base, seed);
        ignore(sim, true);
        cr_assert_eq(save_with(feed.kv, sim, (struct slice){0}, NULL, NULL), 0);
        sim_disk_power_cut(sim);
        lost = lost || found_digest(sim) != new;
        sim_disk_free(sim);
    }
    feed_close(&feed);
    sim_disk_free(base);
    return lost;
}

Test(kv_image, s13_would_be_caught_without_the_syncs) {
    cr_assert(a_cut_loses_the_image(sim_disk_ignore_sync));
    cr_assert(a_cut_loses_the_image(sim_disk_ignore_sync_dir));
}

Test(kv_image, s9_reports_a_failure_of_every_disk_operation) {
    struct sim_disk *base = new_disk();
    struct feed feed = small_state(1);
    struct kv_image_info old;
    cr_assert_eq(save_with(feed.kv, base, slice_text("old"), NULL, &old), 0);
    static const int codes[] = {LKV_EIO, LKV_ENOSPACE};
    for (size_t i = 0; i < 2; i++) {
        int rc = -1;
        for (uint64_t n = 0; rc != 0; n++) {
            struct sim_disk *sim = sim_disk_clone(base, n + 1);
            sim_disk_fail(sim, SIM_ANY, n, codes[i], false);
            rc = save_with(feed.kv, sim, slice_text("new"), NULL, NULL);
            cr_assert(rc == 0 || rc == codes[i]);
            sim_disk_heal(sim);
            cr_assert_eq(sim_disk_open_files(sim), 0);
            cr_assert(!exists(sim, temporary));
            cr_assert_eq(check(sim), 0);
            sim_disk_free(sim);
        }
        rc = -1;
        for (uint64_t n = 0; rc != 0; n++) {
            sim_disk_fail(base, SIM_ANY, n, codes[i], false);
            rc = kv_image_check(sim_disk_seam(base), path, NULL, NULL, NULL);
            cr_assert(rc == 0 || rc == codes[i]);
            sim_disk_heal(base);
        }
    }
    feed_close(&feed);
    sim_disk_free(base);
}

Test(kv_image, s28_save_and_load_refuse_when_memory_runs_out_at_any_allocation) {
    struct sim_disk *sim = new_disk();
    struct feed feed = small_state(1);
    cr_assert_eq(save(feed.kv, sim), 0);
    struct disk *disk = sim_disk_seam(sim);
    int rc = -1;
    for (uint64_t n = 0; rc != 0; n++) {
        struct kv_view *view;
        cr_assert_eq(kv_view_open(feed.kv, &view), 0);
        mem_fail_after(n);
        rc = kv_image_save(view, disk, dir, path, owner, slice_text("t"), NULL, NULL, NULL);
        mem_fail_never();
        kv_view_close(view);
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        cr_assert_eq(check(sim), 0);
    }
    rc = -1;
    for (uint64_t n = 0; rc != 0; n++) {
        struct kv *loaded;
        struct blob *tail;
        mem_fail_after(n);
        rc = kv_image_load(&loaded, &options, disk, path, NULL, NULL, &tail, NULL);
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        if (rc == 0) {
            expect_same_items(feed.kv, loaded);
            blob_unref(tail);
            kv_close(loaded);
        }
    }
    feed_close(&feed);
    sim_disk_free(sim);
}

Test(kv_image, keeps_large_values_and_a_large_tail) {
    struct sim_disk *sim = new_disk();
    struct feed feed = feed_open(1);
    struct blob *value = blob_new(4 * 1024 * 1024);
    struct prng prng = prng_of(3);
    for (size_t i = 0; i < value->size; i++) {
        value->data[i] = (uint8_t)prng_next(&prng);
    }
    for (unsigned i = 0; i < 3; i++) {
        uint8_t key = (uint8_t)i;
        cr_assert_eq(feed_put(&feed, slice_of(&key, 1), blob_slice(value)), 0);
    }
    cr_assert_eq(save_with(feed.kv, sim, blob_slice(value), NULL, NULL), 0);
    struct kv *loaded;
    struct blob *tail;
    cr_assert_eq(
        kv_image_load(&loaded, &options, sim_disk_seam(sim), path, NULL, NULL, &tail, NULL), 0);
    expect_same_items(feed.kv, loaded);
    cr_assert(slice_equal(blob_slice(tail), blob_slice(value)));
    blob_unref(tail);
    kv_close(loaded);

    struct blob *too_large = blob_new(IMAGE_TAIL_MAX + 1);
    memset(too_large->data, 0, too_large->size);
    cr_assert_eq(save_with(feed.kv, sim, blob_slice(too_large), NULL, NULL), LKV_ETOOLARGE);
    blob_unref(too_large);
    blob_unref(value);
    feed_close(&feed);
    sim_disk_free(sim);
}

/* Of an image that is still on its way: the whole chunks that are there, and nothing behind a bad byte. */
Test(kv_image, p3_knows_how_much_of_a_part_is_good) {
    struct sim_disk *sim = new_disk();
    struct feed feed = feed_open(1);
    static uint8_t value[200 * 1024];
    for (unsigned i = 0; i < 6; i++) { /* two to a chunk */
        uint8_t key = (uint8_t)('a' + i);
        cr_assert_eq(feed_put(&feed, slice_of(&key, 1), slice_of(value, sizeof(value))), 0);
    }
    cr_assert_eq(save_with(feed.kv, sim, (struct slice){0}, NULL, NULL), 0);
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    uint64_t head = IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE;
    uint64_t end = IMAGE_CHUNK_HEADER_SIZE + IMAGE_END_SIZE;
    uint64_t chunk = (bytes.size - head - end) / 3;
    uint64_t good = 0;
    struct disk *disk = sim_disk_seam(sim);
    cr_assert_eq(kv_image_prefix(disk, path, NULL, &good, NULL), 0);
    cr_assert_eq(good, head + 3 * chunk, "all but its end");
    for (uint64_t at = head + 3 * chunk - 1; at > head;
         at -= 10007 < at - head ? 10007 : at - head) {
        cr_assert(sim_disk_flip_bit(sim, path, at, 3, SIM_ROT_BOTH));
        cr_assert_eq(kv_image_prefix(disk, path, NULL, &good, NULL), 0);
        cr_assert_eq(good, head + (at - head) / chunk * chunk, "a flip at %zu", (size_t)at);
        cr_assert(sim_disk_flip_bit(sim, path, at, 3, SIM_ROT_BOTH));
    }
    for (uint64_t size = head + 3 * chunk; size > head; size -= 10007 < size - head ? 10007 : 1) {
        cr_assert(sim_disk_cut_file(sim, path, size));
        cr_assert_eq(kv_image_prefix(disk, path, NULL, &good, NULL), 0);
        cr_assert_eq(good, head + (size - head) / chunk * chunk, "a cut at %zu", (size_t)size);
    }
    cr_assert(sim_disk_cut_file(sim, path, head - 1));
    cr_assert_eq(kv_image_prefix(disk, path, NULL, &good, NULL), 0);
    cr_assert_eq(good, 0);
    feed_close(&feed);
    sim_disk_free(sim);
}
