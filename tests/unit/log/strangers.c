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

/* ------------------------------------------------------------------ records that contradict */

/* Behind three entries of term 1 stands a record, valid in itself, that was never written there. */
static void add_record(struct fixture *f, struct record_header record) {
    const struct log_identity identity = {.cluster_id = f->options.cluster_id,
                                          .group_id = f->options.group_id};
    uint8_t bytes[LOG_RECORD_HEADER];
    uint64_t offset = LOG_BLOCK + 3 * record_size(100);
    struct disk *disk = sim_disk_seam(f->sim);
    struct disk_file *file;
    char path[64];
    record.segment = 1;
    record_header_encode(&record, &identity, offset, bytes);
    path_of(path, 1);
    struct slice part = slice_of(bytes, sizeof(bytes));
    cr_assert_eq(disk_open(disk, path, DISK_WRITE, &file), 0);
    cr_assert_eq(disk_write(file, offset, &part, 1), 0);
    cr_assert_eq(disk_sync(file), 0);
    disk_close(file);
}

static void open_with(struct record_header record, int rc, const char *text) {
    struct fixture f;
    fixture_init(&f, 1);
    fixture_must_open(&f);
    append(&f, 1, 3, 1, 100);
    fixture_kill(&f); /* no mark on closing: the tail is zeros */
    add_record(&f, record);
    cr_assert_eq(fixture_open(&f), rc, "%s", f.why.text);
    cr_assert(rc == 0 || strstr(f.why.text, text) != NULL, "%s", f.why.text);
    if (rc == 0) {
        cr_assert_eq(f.state.last, 3);
        cr_assert_eq(f.state.last_term, 1);
    }
    fixture_fini(&f);
}

Test(log_strangers, a_mark_of_another_term_than_the_entry_is_damage) {
    open_with((struct record_header){.index = 4,
                                     .term = 9,
                                     .prev_term = 1,
                                     .type = ENTRY_NOOP,
                                     .mark_index = 3,
                                     .mark_term = 9},
              LKV_EDAMAGED, "expected entry 3 of term 9, found term 1");
}

Test(log_strangers, a_mark_beyond_the_end_is_damage) {
    open_with((struct record_header){.index = 8,
                                     .term = 1,
                                     .prev_term = 1,
                                     .type = ENTRY_NOOP,
                                     .mark_index = 7,
                                     .mark_term = 1},
              LKV_EDAMAGED, "(acknowledged");
}

/* Rule 6: index and previous term must continue; what does not is torn, above the mark. */
Test(log_strangers, a_record_that_does_not_continue_is_torn) {
    const struct record_header good = {
        .index = 4, .term = 2, .prev_term = 1, .type = ENTRY_NOOP, .mark_index = 2, .mark_term = 1};
    struct record_header other_term = good, gap = good, again = good;
    other_term.prev_term = 2;
    gap.index = 5;
    again.index = 3;
    again.prev_term = 1;
    open_with(other_term, 0, "");
    open_with(gap, 0, "");
    open_with(again, 0, "");
}
