/* What a later version may have written (docs/FORMATS.md): what is optional is passed over, what has to be
 * understood is LKV_EVERSION, and neither is taken for damage. Golden bytes of both. */
#include "base/crc.h"
#include "base/feature.h"
#include "base/mem.h"
#include "feed.h"
#include "kv/image.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

static const char path[] = "d/i";
static const struct kv_options options = {.hash_seed = 4};
static const struct kv_owner owner = {.cluster_id = 9, .group_id = 1};

/* ---------------------------------------------------------------------------- images */

static struct sim_disk *disk_with_image(struct feed *feed, uint32_t known) {
    struct sim_disk *sim = sim_disk_new(1);
    struct disk *disk = sim_disk_seam(sim);
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
    const struct kv_options of_later = {.feature_level = known};
    feed->term = 1;
    cr_assert_eq(kv_open(&feed->kv, &of_later), 0);
    must_put(feed, "a", "1");
    must_put(feed, "b", "2");
    struct kv_view *view;
    cr_assert_eq(kv_view_open(feed->kv, &view), 0);
    cr_assert_eq(kv_image_save(view, disk, "d", path, owner, (struct slice){0}, NULL, NULL, NULL),
                 0);
    kv_view_close(view);
    return sim;
}

/* Puts a chunk of another section where it belongs in the order, before the end. */
static void add_chunk(struct sim_disk *sim, uint32_t section, struct slice payload) {
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    struct image_header header;
    cr_assert_eq(image_get_header(bytes, FEATURE_LEVEL, &header, NULL), 0);
    size_t at = bytes.size - IMAGE_CHUNK_HEADER_SIZE - IMAGE_END_SIZE;
    struct image_end end;
    image_get_end(bytes.data + at + IMAGE_CHUNK_HEADER_SIZE, &end);
    uint8_t head[IMAGE_CHUNK_HEADER_SIZE];
    struct image_chunk chunk = {.section = section, .number = (uint32_t)end.chunks};
    image_put_chunk(head, &chunk, &header, payload);
    cr_assert(sim_disk_poke(sim, path, at, slice_of(head, sizeof(head))));
    cr_assert(sim_disk_poke(sim, path, at + sizeof(head), payload));
    at += sizeof(head) + payload.size;
    end.chunks++;
    end.file_size += sizeof(head) + payload.size;
    uint8_t tail[IMAGE_END_SIZE];
    image_put_end(tail, &end);
    struct image_chunk last = {.section = IMAGE_END, .number = (uint32_t)end.chunks};
    image_put_chunk(head, &last, &header, slice_of(tail, sizeof(tail)));
    cr_assert(sim_disk_poke(sim, path, at, slice_of(head, sizeof(head))));
    cr_assert(sim_disk_poke(sim, path, at + sizeof(head), slice_of(tail, sizeof(tail))));
}

static int load_with(struct sim_disk *sim, struct kv **kv, struct reason *why) {
    return kv_image_load(kv, &options, sim_disk_seam(sim), path, NULL, NULL, NULL, why);
}

Test(kv_later, an_optional_section_is_passed_over) {
    struct feed feed = {0};
    struct sim_disk *sim = disk_with_image(&feed, 0);
    add_chunk(sim, 0x40000007, slice_text("of a later version"));
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, path, &bytes));
    /* section, number, size, checksum, payload */
    static const uint8_t golden[] = {0x07, 0x00, 0x00, 0x40, 0x01, 0x00, 0x00, 0x00, 0x12, 0x00,
                                     0x00, 0x00, 0x59, 0xbe, 0xaa, 0xe6, 'o',  'f',  ' ',  'a'};
    size_t at = bytes.size - 2 * IMAGE_CHUNK_HEADER_SIZE - IMAGE_END_SIZE - 18;
    cr_assert_arr_eq(bytes.data + at, golden, sizeof(golden), "%02x %02x %02x %02x",
                     bytes.data[at + 12], bytes.data[at + 13], bytes.data[at + 14],
                     bytes.data[at + 15]);
    struct kv *kv;
    struct reason why = {{0}};
    cr_assert_eq(load_with(sim, &kv, &why), 0, "%s", why.text);
    struct kv_stats stats;
    kv_stats(kv, &stats);
    cr_expect_eq(stats.keys, 2);
    kv_close(kv);
    /* It is under its checksum like all else. */
    cr_assert(sim_disk_flip_bit(sim, path, at + 17, 0, SIM_ROT_BOTH));
    cr_assert_eq(load_with(sim, &kv, &why), LKV_EDAMAGED);
    feed_close(&feed);
    sim_disk_free(sim);
}

Test(kv_later, s18_a_section_that_has_to_be_understood_is_a_newer_version) {
    static const uint32_t sections[] = {5, 6, 7, IMAGE_OPTIONAL - 1};
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        struct feed feed = {0};
        struct sim_disk *sim = disk_with_image(&feed, 0);
        add_chunk(sim, sections[i], slice_text("x"));
        uint64_t before = sim_disk_fingerprint(sim);
        struct kv *kv;
        struct reason why = {{0}};
        cr_assert_eq(load_with(sim, &kv, &why), LKV_EVERSION, "section %u", sections[i]);
        cr_expect_null(kv);
        cr_expect_not_null(strstr(why.text, "section"), "%s", why.text);
        cr_expect_eq(sim_disk_fingerprint(sim), before);
        feed_close(&feed);
        sim_disk_free(sim);
    }
}

/* ---------------------------------------------------------------------------- feature level */

static int raise(struct feed *feed, uint32_t level) {
    struct blob *payload = feature_encode(level);
    cr_assert_not_null(payload);
    int rc = feed_entry(feed, ENTRY_FEATURE, payload);
    blob_unref(payload);
    return rc;
}

Test(kv_later, the_feature_level_rises_never_falls_and_is_in_images) {
    struct feed feed = {0};
    struct sim_disk *sim = disk_with_image(&feed, 3);
    cr_expect_eq(kv_feature_level(feed.kv), 1);
    cr_expect_eq(raise(&feed, 3), 0);
    cr_expect_eq(kv_feature_level(feed.kv), 3);
    cr_expect_eq(raise(&feed, 2), 0);
    cr_expect_eq(kv_feature_level(feed.kv), 3);
    struct kv_view *view;
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    struct kv_image_info info;
    struct disk *disk = sim_disk_seam(sim);
    cr_assert_eq(kv_image_save(view, disk, "d", path, owner, (struct slice){0}, NULL, &info, NULL),
                 0);
    kv_view_close(view);
    cr_expect_eq(info.feature_level, 3);
    struct kv *kv;
    const struct kv_options later = {.feature_level = 3};
    cr_assert_eq(kv_image_load(&kv, &later, disk, path, NULL, NULL, NULL, NULL), 0);
    cr_expect_eq(kv_feature_level(kv), 3);
    kv_close(kv);
    struct reason why = {{0}};
    cr_assert_eq(load_with(sim, &kv, &why), LKV_EVERSION);
    cr_expect_not_null(strstr(why.text, "feature level 3"), "%s", why.text);
    feed_close(&feed);
    sim_disk_free(sim);
}

/* Never skipped: it stops, says why, and nothing after it is applied. */
static void expect_stop(enum entry_type type, struct blob *payload, int rc, const char *text) {
    struct feed feed = feed_open(1);
    must_put(&feed, "k", "v");
    const struct entry entry = {.index = 2, .term = 1, .type = type, .payload = payload};
    struct kv_result result;
    size_t applied;
    struct reason why = {{0}};
    cr_expect_eq(kv_apply(feed.kv, &entry, 1, &result, &applied, &why), rc);
    cr_expect_eq(applied, 0);
    cr_expect_not_null(strstr(why.text, text), "%s", why.text);
    cr_expect_not_null(strstr(why.text, "entry 2"), "%s", why.text);
    cr_expect_eq(feed_put(&feed, slice_text("k"), slice_text("later")), rc);
    blob_unref(payload);
    feed_close(&feed);
}

Test(kv_later, rule_22_an_entry_of_a_later_version_stops_the_replica) {
    expect_stop((enum entry_type)5, blob_copy(slice_text("auth")), LKV_EVERSION, "type 5");
    expect_stop((enum entry_type)255, NULL, LKV_EVERSION, "type 255");
    expect_stop(ENTRY_FEATURE, feature_encode(FEATURE_LEVEL + 1), LKV_EVERSION, "feature level 3");
    expect_stop(ENTRY_FEATURE, feature_encode(0), LKV_EPROTOCOL, "malformed");
    expect_stop(ENTRY_FEATURE, NULL, LKV_EPROTOCOL, "malformed");
    static const uint8_t version_2[] = {2, 0, 0, 0, 1, 0, 0, 0};
    expect_stop(ENTRY_FEATURE, blob_copy(slice_of(version_2, sizeof(version_2))), LKV_EVERSION,
                "version 2");
    static const uint8_t later[] = {0x94, 1, 16, 0x94, 0, 0, 0, 0, 0x90};
    expect_stop(ENTRY_COMMAND, blob_copy(slice_of(later, sizeof(later))), LKV_EVERSION,
                "operation 16");
}

Test(kv_later, a_feature_entry_has_the_golden_bytes) {
    static const uint8_t golden[] = {1, 0, 0, 0, 2, 1, 0, 0};
    struct blob *payload = feature_encode(0x102);
    cr_assert_eq(payload->size, sizeof(golden));
    cr_assert_arr_eq(payload->data, golden, sizeof(golden));
    cr_assert(payload->crc_known && payload->crc == crc32c(0, blob_slice(payload)));
    blob_unref(payload);
}

/* ---------------------------------------------------------------------------- commands */

#define DECODE(...) decode((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static int decode(const uint8_t *bytes, size_t size) {
    struct kv_command out;
    struct reason why = {{0}};
    int rc = kv_command_decode(slice_of(bytes, size), &out, &why);
    cr_assert(rc == 0 || why.text[0] != 0);
    return rc;
}

/* docs/formats/kv-command.md reserves what is behind the last element of each array. */
Test(kv_later, more_elements_than_this_program_knows_are_a_newer_version) {
    cr_expect_eq(DECODE(0x94, 1, 1, 0x94, 0, 0, 0, 0, 0x93, 0xc4, 1, 'k', 0xc4, 1, 'v', 0), 0);
    cr_expect_eq(DECODE(0x94, 1, 1, 0x94, 0, 0, 0, 0, 0x94, 0xc4, 1, 'k', 0xc4, 1, 'v', 0, 4), 0);
    cr_expect_eq(DECODE(0x94, 1, 1, 0x94, 0, 0, 0, 0, 0x96, 0xc4, 1, 'k', 0xc4, 1, 'v', 0, 4, 9, 1),
                 LKV_EVERSION, "behind the if_rev of a put");
    cr_expect_eq(DECODE(0x94, 1, 2, 0x94, 0, 0, 0, 0, 0x95, 0xc4, 1, 'k', 0xc4, 0, 4, 9, 1),
                 LKV_EVERSION, "behind the if_rev of a delete");
    cr_expect_eq(DECODE(0x94, 1, 1, 0x95, 0, 0, 0, 0, 7, 0x93, 0xc4, 1, 'k', 0xc4, 1, 'v', 0),
                 LKV_EVERSION, "an envelope with a user");
    cr_expect_eq(DECODE(0x95, 1, 1, 0x94, 0, 0, 0, 0, 0x93, 0xc4, 1, 'k', 0xc4, 1, 'v', 0, 0x90),
                 LKV_EVERSION, "a fifth part");
    cr_expect_eq(DECODE(0x94, 1, 1, 0x95, 0, 0xc0, 0, 0, 7, 0x93, 0xc4, 1, 'k', 0xc4, 1, 'v', 0),
                 LKV_EPROTOCOL, "what is known is malformed");
}

/* A command of a later version may have many objects: it is told from nonsense too. */
Test(kv_later, a_large_command_is_an_operation_that_is_not_known) {
    static uint8_t bytes[10 + 5 + 12000];
    static const uint8_t head[] = {0x94, 1, 16, 0x94, 0, 0, 0, 0, 0xdc, 0x2e, 0xe0};
    memcpy(bytes, head, sizeof(head));
    memset(bytes + sizeof(head), 0x90, 12000);
    cr_expect_eq(decode(bytes, sizeof(head) + 12000), LKV_EVERSION);
}
