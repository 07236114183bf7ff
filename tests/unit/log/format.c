/* Golden bytes of version 1 (docs/FORMATS.md), and what a newer or broken version is (S18). */
#include "base/crc.h"
#include "tests/unit/log/fixture.h"

static void check_bytes(const uint8_t *got, const char *hex) {
    for (size_t i = 0; hex[i * 2] != '\0'; i++) {
        unsigned want;
        cr_assert_eq(sscanf(hex + i * 2, "%2x", &want), 1);
        cr_assert_eq(got[i], want, "byte %zu is %02x, expected %02x", i, got[i], want);
    }
}

static void check_zeros(const uint8_t *got, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        cr_assert_eq(got[i], 0, "byte %zu", i);
    }
}

static const struct segment_header header = {
    .identity = {.cluster_id = 0x1122334455667788, .group_id = 9},
    .number = 7,
    .first = 101,
    .prev_term = 4,
    .mark_index = 100,
    .mark_term = 4,
    .capacity = 0x4000000,
    .zeroed = true,
    .before = {{.number = 5, .first = 60, .prev_term = 3},
               {.number = 4, .first = 50, .prev_term = 2}}};

Test(log_format, segment_header_version_1_is_these_bytes) {
    uint8_t block[LOG_BLOCK];
    segment_header_encode(&header, block);
    check_bytes(block, "6c6b762d7365670a" /* "lkv-seg\n" */
                       "01000000"         /* version */
                       "00100000"         /* block size */
                       "8877665544332211" /* cluster */
                       "0900000000000000" /* group */
                       "0700000000000000" /* number */
                       "6500000000000000" /* first */
                       "0400000000000000" /* previous term */
                       "6400000000000000" /* mark index */
                       "0400000000000000" /* mark term */
                       "0000000400000000" /* capacity */
                       "0100000000000000" /* zeroed, reserved */
                       "0500000000000000" /* the segment before: number, */
                       "3c00000000000000" /* first, */
                       "0300000000000000" /* previous term */
                       "0400000000000000" /* the one before that */
                       "3200000000000000"
                       "0200000000000000");
    check_zeros(block, 136, 508);
    check_bytes(block + 508, "008bce8d");
    check_zeros(block, 512, LOG_BLOCK);
    struct segment_header got;
    cr_assert_eq(segment_header_decode(slice_of(block, LOG_HEADER_SIZE), &got, NULL), 0);
    cr_assert_eq(got.number, 7);
    cr_assert_eq(got.first, 101);
    cr_assert_eq(got.capacity, 0x4000000);
    cr_assert(got.zeroed);
    cr_assert_eq(got.before[0].number, 5);
    cr_assert_eq(got.before[0].first, 60);
    cr_assert_eq(got.before[0].prev_term, 3);
    cr_assert_eq(got.before[1].number, 4);
}

Test(log_format, record_header_version_1_is_these_bytes) {
    uint8_t bytes[LOG_RECORD_HEADER];
    struct record_header record = {.payload_crc = 0xa1b2c3d4,
                                   .length = 5,
                                   .index = 102,
                                   .term = 6,
                                   .prev_term = 4,
                                   .segment = 7,
                                   .mark_index = 100,
                                   .mark_term = 4,
                                   .type = ENTRY_COMMAND};
    record_header_encode(&record, &header.identity, 8192, bytes);
    check_bytes(bytes, "6c526563"         /* "lRec" */
                       "70fa6c5f"         /* crc of the header and its place */
                       "d4c3b2a1"         /* crc of the payload */
                       "05000000"         /* length */
                       "6600000000000000" /* index */
                       "0600000000000000" /* term */
                       "0400000000000000" /* previous term */
                       "0700000000000000" /* segment */
                       "6400000000000000" /* mark index */
                       "0400000000000000" /* mark term */
                       "0300000000000000" /* type, reserved */);
    struct record_header got;
    cr_assert(record_header_decode(bytes, &header.identity, 7, 8192, &got));
    cr_assert_eq(got.index, 102);
    cr_assert_eq(got.type, ENTRY_COMMAND);
    cr_assert_eq(record_size(5), 80);
    cr_assert_eq(record_size(0), 72);
    cr_assert_eq(record_size(8), 80);
}

Test(log_format, vote_record_version_1_is_these_bytes) {
    uint8_t block[LOG_BLOCK];
    struct vote_record vote = {.identity = header.identity,
                               .sequence = 33,
                               .copy = 1,
                               .term = 12,
                               .voted_for = 0x7000000000000001,
                               .mark = {.segment = 7, .index = 100, .term = 4},
                               .segments_reserved = 71,
                               .end_unknown = true,
                               .newest = {.number = 7, .first = 61, .prev_term = 3},
                               .before_newest = {.number = 5, .first = 60, .prev_term = 2},
                               .promised_ms = 300};
    vote_record_encode(&vote, block);
    check_bytes(block, "6c6b762d766f740a" /* "lkv-vot\n" */
                       "01000000"         /* version */
                       "00100000"         /* block size */
                       "8877665544332211" /* cluster */
                       "0900000000000000" /* group */
                       "2100000000000000" /* sequence */
                       "0c00000000000000" /* term */
                       "0100000000000070" /* voted for */
                       "0700000000000000" /* mark segment */
                       "6400000000000000" /* mark index */
                       "0400000000000000" /* mark term */
                       "4700000000000000" /* segment numbers reserved */
                       "01000000"         /* copy */
                       "01000000"         /* flags */
                       "0700000000000000" /* newest segment: number, */
                       "3d00000000000000" /* first, */
                       "0300000000000000" /* previous term */
                       "0500000000000000" /* the one before that */
                       "3c00000000000000"
                       "0200000000000000");
    check_zeros(block, 144, 152);         /* life */
    check_bytes(block + 152, "2c010000"); /* promised, ms */
    check_zeros(block, 156, 508);
    check_bytes(block + 508, "434bc066");
    struct vote_record got;
    cr_assert_eq(vote_record_decode(slice_of(block, LOG_HEADER_SIZE), &got, NULL), 0);
    cr_assert_eq(got.sequence, 33);
    cr_assert_eq(got.copy, 1);
    cr_assert_eq(got.voted_for, 0x7000000000000001);
    cr_assert_eq(got.segments_reserved, 71);
    cr_assert_eq(got.promised_ms, 300);
    cr_assert(got.end_unknown);
    cr_assert_eq(got.newest.first, 61);
    cr_assert_eq(got.newest.prev_term, 3);
    cr_assert_eq(got.before_newest.number, 5);
}

Test(log_format, names_are_these) {
    char name[LOG_NAME_SIZE];
    segment_name(name, 7);
    cr_assert_str_eq(name, "00000000000000000007.seg");
    segment_name(name, UINT64_MAX);
    cr_assert_str_eq(name, "18446744073709551615.seg");
    spare_name(name, 3);
    cr_assert_str_eq(name, "spare-3.tmp");
}

Test(log_format, the_newer_mark_is_of_the_highest_segment_then_index) {
    struct log_mark_value old_segment = {.segment = 5, .index = 90, .term = 2};
    struct log_mark_value after_a_cut = {.segment = 6, .index = 40, .term = 3};
    struct log_mark_value later = {.segment = 6, .index = 41, .term = 3};
    cr_assert_eq(log_mark_newer(old_segment, after_a_cut).index, 40);
    cr_assert_eq(log_mark_newer(later, after_a_cut).index, 41);
    cr_assert_eq(log_mark_newer(after_a_cut, later).index, 41);
}

/* Writes version 2 with a right checksum into a file's block. */
static void make_newer(struct fixture *f, const char *path, uint64_t offset) {
    struct slice bytes;
    cr_assert(sim_disk_peek(f->sim, path, &bytes));
    uint8_t block[LOG_HEADER_SIZE];
    memcpy(block, bytes.data + offset, sizeof(block));
    block[8] = 2;
    uint32_t crc = crc32c(0, slice_of(block, 508));
    for (unsigned i = 0; i < 4; i++) {
        block[508 + i] = (uint8_t)(crc >> (8 * i));
    }
    cr_assert(sim_disk_poke(f->sim, path, offset, slice_of(block, sizeof(block))));
}

/* S18 */
Test(log_format, a_newer_version_is_refused_with_its_bytes_unchanged) {
    for (unsigned which = 0; which < 3; which++) {
        struct fixture f;
        fixture_init(&f, which);
        fixture_must_open(&f);
        append(&f, 1, 60, 1, 500);
        fixture_close(&f);
        if (which < 2) {
            make_newer(&f, which == 0 ? segment_path(&f, 0) : newest_path(&f), 0);
        } else {
            make_newer(&f, DIR_NAME "/vote", LOG_BLOCK);
        }
        uint64_t before = sim_disk_fingerprint(f.sim);
        cr_assert_eq(fixture_open(&f), LKV_EVERSION);
        cr_assert(strstr(f.why.text, "format version 2") != NULL, "%s", f.why.text);
        cr_assert_eq(sim_disk_fingerprint(f.sim), before);
        fixture_fini(&f);
    }
}

/* A flipped bit in the version is damage, not a newer version. */
Test(log_format, a_rotten_version_number_is_damage) {
    struct fixture f;
    fixture_init(&f, 9);
    fixture_must_open(&f);
    fixture_close(&f);
    cr_assert(sim_disk_flip_bit(f.sim, newest_path(&f), 8, 1, SIM_ROT_BOTH));
    cr_assert_eq(fixture_open(&f), LKV_EDAMAGED);
    fixture_fini(&f);
}

Test(log_format, any_bytes_are_read_without_harm) {
    struct prng prng = prng_of(77);
    uint8_t block[LOG_BLOCK];
    for (unsigned round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof(block); i++) {
            block[i] = (uint8_t)prng_next(&prng);
        }
        struct segment_header segment;
        struct vote_record vote;
        struct record_header record;
        cr_assert_neq(segment_header_decode(slice_of(block, round % 600), &segment, NULL), 0);
        cr_assert_neq(vote_record_decode(slice_of(block, round % 600), &vote, NULL), 0);
        cr_assert(!record_header_decode(block, &header.identity, 7, 8192, &record));
    }
}
