/* Images with leases: golden bytes, and what a reader refuses although the checksums are right. */
#include "feed.h"
#include "kv/image.h"
#include "kv/lease.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

static const char path[] = "d/i";
static struct sim_disk *sim;
static struct disk *disk;

static void setup(void) {
    sim = sim_disk_new(1);
    disk = sim_disk_seam(sim);
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
}

static void teardown(void) {
    cr_assert_eq(sim_disk_open_files(sim), 0);
    sim_disk_free(sim);
}

TestSuite(kv_image_lease, .init = setup, .fini = teardown);

static int load(struct kv **kv, struct reason *why) {
    const struct kv_options options = {.hash_seed = 2, .feature_level = KV_LEVEL_HISTORY};
    return kv_image_load(kv, &options, disk, path, NULL, NULL, NULL, why);
}

Test(kv_image_lease, has_the_golden_bytes) {
    static const uint8_t golden[] = {
#include "image_golden_lease.h"
    };
    struct feed feed = feed_open_history(5);
    struct kv_view *view;
    must_grant(&feed, 7, 5000);
    must_grant(&feed, 9, 60000);
    const struct kv_command put = {.op = KV_PUT, .key = slice_text("k"), .lease = 7};
    cr_assert_eq(feed_command(&feed, &put), 0);
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    cr_assert_eq(kv_image_save(view, disk, "d", path,
                               (struct kv_owner){.cluster_id = 9, .group_id = 1}, (struct slice){0},
                               NULL, NULL, NULL),
                 0);
    kv_view_close(view);
    feed_close(&feed);
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    if (!slice_equal(bytes, slice_of(golden, sizeof(golden)))) {
        for (size_t i = 0; i < bytes.size; i++) {
            (void)fprintf(stderr, "0x%02x,%s", bytes.data[i], i % 16 == 15 ? "\n" : " ");
        }
        cr_assert_fail("the format has changed");
    }
    struct kv *kv;
    struct kv_lease lease;
    struct kv_range range;
    cr_assert_eq(load(&kv, NULL), 0);
    cr_assert(kv_lease_at(kv, 1, &lease) && lease.id == 9 && lease.remaining_ms == 60000);
    cr_assert_eq(kv_lease_keys(kv, 7, (struct slice){0}, 3, &range), 0);
    cr_assert(range.count == 1 && slice_equal(range.items[0].key, slice_text("k")));
    kv_range_fini(&range);
    kv_close(kv);
}

/* One of those: a key with a lease, or a lease. */
struct part {
    const char *key; /* NULL: a lease */
    int64_t lease;
    uint64_t granted;
};

struct forge {
    struct buffer file;
    struct image_header header;
    struct image_end end;
};

static void put_chunk(struct forge *forge, uint32_t section, struct slice payload) {
    uint8_t head[IMAGE_CHUNK_HEADER_SIZE];
    struct image_chunk chunk = {.section = section, .number = (uint32_t)forge->end.chunks};
    image_put_chunk(head, &chunk, &forge->header, payload);
    buffer_append(&forge->file, head, sizeof(head));
    buffer_append(&forge->file, payload.data, payload.size);
    cr_assert_not(forge->file.failed);
    forge->end.chunks++;
}

static void add_part(struct forge *forge, const struct part *part) {
    struct buffer payload;
    buffer_init(&payload);
    if (part->key == NULL) {
        const struct kv_lease lease = {
            .id = part->lease, .granted = part->granted, .ttl_ms = 50, .remaining_ms = 50};
        lease_put(&payload, &lease);
        forge->end.digest += lease_digest(&lease);
        put_chunk(forge, IMAGE_LEASES, buffer_slice(&payload));
    } else {
        struct image_record_open record;
        const struct image_version version = {.item = {.key = slice_text(part->key),
                                                       .create_rev = 2,
                                                       .mod_rev = 2,
                                                       .version = 1,
                                                       .lease = part->lease},
                                              .kind = IMAGE_VALUE};
        image_put_record(&payload, &record, slice_text(part->key));
        image_put_version(&payload, &record, &version);
        forge->end.keys++;
        forge->end.versions++;
        forge->end.bytes += strlen(part->key);
        forge->end.digest += digest_of(&version.item);
        put_chunk(forge, IMAGE_KEYS, buffer_slice(&payload));
    }
    buffer_fini(&payload);
}

static void forge_file(uint32_t level, const struct part *parts, size_t count) {
    struct forge forge = {
        .header = {
            .feature_level = level,
            .cluster_id = 1,
            .stamp = {.index = 30, .term = 1, .revision = 20, .kept_from = level > 1 ? 1 : 20}}};
    for (size_t i = 0; i < count; i++) {
        forge.header.keys += parts[i].key != NULL;
        forge.header.bytes += parts[i].key != NULL ? strlen(parts[i].key) : 0;
    }
    uint8_t head[IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE], tail[IMAGE_END_SIZE];
    image_put_header(head, &forge.header);
    buffer_init(&forge.file);
    buffer_append(&forge.file, head, sizeof(head));
    for (size_t i = 0; i < count; i++) {
        add_part(&forge, &parts[i]);
    }
    struct image_end end = forge.end;
    end.file_size = forge.file.size + IMAGE_CHUNK_HEADER_SIZE + IMAGE_END_SIZE;
    image_put_end(tail, &end);
    put_chunk(&forge, IMAGE_END, slice_of(tail, sizeof(tail)));
    struct disk_file *file;
    const struct slice bytes = buffer_slice(&forge.file);
    cr_assert_eq(disk_open(disk, path, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, &file), 0);
    cr_assert_eq(disk_write(file, 0, &bytes, 1), 0);
    disk_close(file);
    buffer_fini(&forge.file);
}

/* What loading says, and checking the same. */
static int take_level(uint32_t level, const struct part *parts, size_t count) {
    struct kv *kv;
    struct reason why = {{0}};
    forge_file(level, parts, count);
    int rc = load(&kv, &why);
    kv_close(kv);
    int checked = kv_image_check(disk, path, NULL, NULL, &why);
    cr_assert(checked == rc || checked == LKV_EVERSION, "%d and %d", rc, checked);
    cr_assert(rc == 0 || strstr(why.text, path) != NULL);
    return rc;
}

#define TAKE(...)                                                    \
    take_level(KV_LEVEL_HISTORY, (const struct part[]){__VA_ARGS__}, \
               sizeof((struct part[]){__VA_ARGS__}) / sizeof(struct part))

Test(kv_image_lease, takes_what_can_be) {
    cr_expect_eq(TAKE({NULL, 1, 30}), 0);
    cr_expect_eq(TAKE({"a", 1, 0}, {"b", 2, 0}, {"c", 1, 0}, {NULL, 1, 5}, {NULL, 2, 4}), 0);
}

Test(kv_image_lease, p3_refuses_what_cannot_be) {
    const struct part leased = {"a", 1, 0};
    cr_expect_eq(TAKE({"a", 1, 0}), LKV_EDAMAGED, "no such lease");
    cr_expect_eq(TAKE({"a", 1, 0}, {NULL, 2, 5}), LKV_EDAMAGED, "the same");
    cr_expect_eq(TAKE({NULL, 1, 5}, {NULL, 1, 5}), LKV_EDAMAGED, "twice");
    cr_expect_eq(TAKE({NULL, 2, 5}, {NULL, 1, 5}), LKV_EDAMAGED, "not in order");
    cr_expect_eq(TAKE({NULL, 1, 31}), LKV_EDAMAGED, "granted later than the image");
    cr_expect_eq(TAKE({NULL, 1, 0}), LKV_EDAMAGED, "never granted");
    cr_expect_eq(take_level(FEATURE_LEVEL_FIRST, &leased, 1), LKV_EDAMAGED, "below the level");
    const struct part lease = {NULL, 1, 5};
    cr_expect_eq(take_level(FEATURE_LEVEL_FIRST, &lease, 1), LKV_EDAMAGED, "the same");
}
