/* Headers whose checksums are right and that do not belong where they are (S7, S17), or make no sense. */
#include "base/crc.h"
#include "tests/unit/log/fixture.h"

static const struct segment_header header = {.identity = {.cluster_id = 0xc1, .group_id = 7},
                                             .number = 7,
                                             .first = 101,
                                             .prev_term = 4,
                                             .mark_index = 100,
                                             .mark_term = 4,
                                             .capacity = SEGMENT_BYTES};

/* The checksum anew, as if the writer had meant it. */
static void seal(uint8_t *block) {
    uint32_t crc = crc32c(0, slice_of(block, LOG_HEADER_SIZE - sizeof(crc)));
    memcpy(block + LOG_HEADER_SIZE - sizeof(crc), &crc, sizeof(crc));
}

static int decode(struct segment_header changed, struct reason *why) {
    uint8_t block[LOG_BLOCK];
    struct segment_header got;
    segment_header_encode(&changed, block);
    return segment_header_decode(slice_of(block, LOG_HEADER_SIZE), &got, why);
}

Test(log_strangers, a_header_that_makes_no_sense_is_damage) {
    struct reason why = {{0}};
    struct segment_header changed = header;
    cr_assert_eq(decode(changed, &why), 0);
    changed.first = changed.mark_index = 0;
    changed.mark_index--;
    cr_assert_eq(decode(changed, &why), LKV_EDAMAGED, "no entry has the index 0");
    changed = header;
    changed.mark_index = 99;
    cr_assert_eq(decode(changed, &why), LKV_EDAMAGED);
    cr_assert_str_eq(why.text, "first index 101 with a mark at 99");
    changed = header;
    changed.mark_term = 3;
    cr_assert_eq(decode(changed, &why), LKV_EDAMAGED);
}

Test(log_strangers, another_block_size_is_damage) {
    uint8_t block[LOG_BLOCK];
    struct segment_header got;
    struct reason why = {{0}};
    segment_header_encode(&header, block);
    block[13] = 0x20; /* 8192 */
    seal(block);
    cr_assert_eq(segment_header_decode(slice_of(block, LOG_HEADER_SIZE), &got, &why), LKV_EDAMAGED);
    cr_assert_str_eq(why.text, "expected block size 4096, found 8192");
}

Test(log_strangers, any_byte_may_be_wrong_under_a_right_checksum) {
    uint8_t block[LOG_BLOCK];
    size_t refused = 0;
    for (size_t at = 0; at < LOG_HEADER_SIZE; at++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            struct segment_header segment;
            struct reason why = {{0}};
            segment_header_encode(&header, block);
            block[at] = (uint8_t)byte;
            seal(block);
            int rc = segment_header_decode(slice_of(block, LOG_HEADER_SIZE), &segment, &why);
            cr_assert(rc == 0 || rc == LKV_EDAMAGED || rc == LKV_EVERSION);
            cr_assert(rc == 0 || why.text[0] != '\0');
            cr_assert(rc != 0 || segment.mark_index + 1 == segment.first);
            refused += rc != 0;
        }
    }
    cr_assert_gt(refused, 8 * 255); /* the magic, at least */
}

/* ------------------------------------------------------------------ in a directory */

static void path_of(char path[64], uint64_t number) {
    char name[LOG_NAME_SIZE];
    segment_name(name, number);
    (void)snprintf(path, 64, DIR_NAME "/%s", name);
}

/* The first segment's header becomes what `change` makes of it. */
static void rewrite_first(struct fixture *f, void (*change)(struct segment_header *header)) {
    struct disk *disk = sim_disk_seam(f->sim);
    struct disk_file *file;
    struct segment_header found;
    uint8_t block[LOG_BLOCK];
    char path[64];
    size_t got;
    path_of(path, 1);
    cr_assert_eq(disk_open(disk, path, DISK_WRITE, &file), 0);
    cr_assert_eq(disk_read(file, 0, block, sizeof(block), &got), 0);
    cr_assert_eq(segment_header_decode(slice_of(block, LOG_HEADER_SIZE), &found, NULL), 0);
    change(&found);
    segment_header_encode(&found, block);
    struct slice part = slice_of(block, sizeof(block));
    cr_assert_eq(disk_write(file, 0, &part, 1), 0);
    cr_assert_eq(disk_sync(file), 0);
    disk_close(file);
}

static void of_another_cluster(struct segment_header *found) {
    found->identity.cluster_id = 0xc2;
}

static void of_another_group(struct segment_header *found) {
    found->identity.group_id = 8;
}

static void of_another_number(struct segment_header *found) {
    found->number = 2;
}

static void of_another_size(struct segment_header *found) {
    found->capacity += LOG_BLOCK;
}

static void refuse(void (*change)(struct segment_header *header), int rc, const char *text) {
    struct fixture f;
    fixture_init(&f, 1);
    fixture_must_open(&f);
    append(&f, 1, 3, 1, 100);
    fixture_close(&f);
    rewrite_first(&f, change);
    uint64_t before = sim_disk_fingerprint(f.sim);
    cr_assert_eq(fixture_open(&f), rc, "%s", f.why.text);
    cr_assert_not_null(strstr(f.why.text, text), "%s", f.why.text);
    cr_assert_not_null(strstr(f.why.text, "00001.seg"), "%s", f.why.text);
    cr_assert_eq(sim_disk_fingerprint(f.sim), before, "nothing was changed");
    fixture_fini(&f);
}

Test(log_strangers, s17_a_segment_of_another_cluster_is_refused) {
    refuse(of_another_cluster, LKV_EIDENTITY,
           "belongs to cluster 00000000000000c2 group 7, expected 00000000000000c1 group 7");
    refuse(of_another_group, LKV_EIDENTITY,
           "belongs to cluster 00000000000000c1 group 8, expected 00000000000000c1 group 7");
}

Test(log_strangers, s7_a_segment_in_anothers_place_is_damage) {
    refuse(of_another_number, LKV_EDAMAGED, "expected segment 1, found the header of 2");
    refuse(of_another_size, LKV_EDAMAGED, "expected a file of 20480 bytes, found 16384");
}
