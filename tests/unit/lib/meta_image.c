/* The image of log mode: golden bytes, every flipped bit, every length. */
#include "lib/meta_image.h"

#include "base/crc.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const struct meta_image small = {
    .feature_level = 1,
    .cluster_id = 0x0102030405060708,
    .group_id = 9,
    .index = 4711,
    .term = 12,
    .visible = 4709,
    .members = {{.name = "n1", .address = "h:1", .id = 5}, {.name = "n2", .address = "", .id = 6}},
    .member_count = 2,
    .ledger = {.chain = 0x1122334455667788,
               .included = 4800,
               .included_term = 13,
               .included_visible = 4799}};

static const uint8_t golden[] = {
    'L',  'K',  'V',  'M',  'E',  'T',  'A',  '1',  0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x00, 0x00, 0x00, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0x09, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x67, 0x12, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0c,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};
enum {
    CRC_AT = 12,
    HEADER_CRC_AT = 56,
    HEADER_SIZE = 60,
    SECTION_SIZE = 8 + 4 + 16 + 5 + 16 + 2 + 4,
    LEDGER_SIZE = 8 + 5 * 8 + 4 /* without sessions */
};

static const uint8_t golden_ledger[] = {
    0x03, 0x00, 0x00, 0x00, 0x28, 0x00, 0x00, 0x00, 0x65, 0x12, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xc0, 0x12, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x0d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbf, 0x12, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

static void encode(const struct meta_image *image, struct buffer *out) {
    buffer_init(out);
    meta_image_encode(image, out);
    cr_assert_not(out->failed);
}

Test(lib_meta_image, has_these_bytes) {
    struct buffer bytes;
    encode(&small, &bytes);
    cr_assert_eq(bytes.size, HEADER_SIZE + SECTION_SIZE + LEDGER_SIZE);
    for (size_t i = 0; i < sizeof(golden); i++) {
        bool crc = (i >= CRC_AT && i < CRC_AT + 4) || i >= HEADER_CRC_AT;
        cr_assert(crc || bytes.data[i] == golden[i], "byte %zu is %02x", i, bytes.data[i]);
    }
    uint32_t crc = crc32c(0, slice_of(bytes.data, CRC_AT));
    cr_assert_arr_eq(bytes.data + CRC_AT, &crc, 4);
    crc = crc32c(0, slice_of(bytes.data, HEADER_CRC_AT));
    cr_assert_arr_eq(bytes.data + HEADER_CRC_AT, &crc, 4);
    const uint8_t *section = bytes.data + HEADER_SIZE;
    uint32_t section_crc = crc32c(crc, slice_of(section, SECTION_SIZE - 4));
    cr_assert_arr_eq(section + SECTION_SIZE - 4, &section_crc, 4, "begun with the header's");
    section += SECTION_SIZE;
    cr_assert_arr_eq(section, golden_ledger, sizeof(golden_ledger));
    section_crc = crc32c(crc, slice_of(section, LEDGER_SIZE - 4));
    cr_assert_arr_eq(section + LEDGER_SIZE - 4, &section_crc, 4);
    buffer_fini(&bytes);
}

Test(lib_meta_image, comes_back_as_it_was) {
    struct buffer bytes;
    struct meta_image back;
    struct reason why = {{0}};
    encode(&small, &bytes);
    cr_assert_eq(meta_image_decode(buffer_slice(&bytes), 1, &back, &why), 0, "%s", why.text);
    cr_assert_eq(back.cluster_id, small.cluster_id);
    cr_assert_eq(back.group_id, small.group_id);
    cr_assert_eq(back.index, small.index);
    cr_assert_eq(back.term, small.term);
    cr_assert_eq(back.visible, 4709);
    cr_assert_eq(back.member_count, 2);
    cr_assert_str_eq(back.members[0].name, "n1");
    cr_assert_str_eq(back.members[0].address, "h:1");
    cr_assert_str_eq(back.members[1].address, "");
    cr_assert_eq(back.members[1].id, 6);
    cr_assert_eq(back.ledger.chain, small.ledger.chain);
    cr_assert_eq(back.ledger.included, 4800);
    cr_assert_eq(back.ledger.included_term, 13);
    cr_assert_eq(back.ledger.included_visible, 4799);
    cr_assert_eq(back.ledger.sessions.count, 0);
    meta_image_fini(&back);
    buffer_fini(&bytes);
}

/* Rule 26: the sessions come back byte for byte, and with them the digest. */
Test(lib_meta_image, brings_the_sessions) {
    struct buffer bytes;
    struct meta_image back, image = small;
    struct reason why = {{0}};
    for (uint64_t id = 10; id < 13; id++) {
        cr_assert_eq(sessions_open(&image.ledger.sessions, id, 1000 * id, 100), 0);
        const struct session_call call = {.id = id, .seq = id, .acked_below = id - 5};
        const struct session_reply reply = {
            .seq = id, .index = 100 + id, .term = 3, .revision = 77, .count = 4};
        cr_assert_eq(sessions_reserve(&image.ledger.sessions, &call), 0);
        sessions_record(&image.ledger.sessions, &call, &reply);
    }
    encode(&image, &bytes);
    cr_assert_eq(meta_image_decode(buffer_slice(&bytes), 1, &back, &why), 0, "%s", why.text);
    cr_assert_eq(back.ledger.sessions.count, 3);
    uint64_t expected, found;
    cr_assert_eq(ledger_digest(&image.ledger, &expected), 0);
    cr_assert_eq(ledger_digest(&back.ledger, &found), 0);
    cr_assert_eq(found, expected);
    cr_assert_neq(found, small.ledger.chain);
    meta_image_fini(&back);
    meta_image_fini(&image);
    buffer_fini(&bytes);
}

Test(lib_meta_image, every_flipped_bit_and_every_other_length_is_found) {
    struct buffer bytes;
    struct meta_image back;
    struct reason why;
    encode(&small, &bytes);
    for (size_t i = 0; i < bytes.size * 8; i++) {
        bytes.data[i / 8] ^= (uint8_t)(1 << i % 8);
        cr_assert_eq(meta_image_decode(buffer_slice(&bytes), 1, &back, &why), LKV_EDAMAGED,
                     "bit %zu", i);
        bytes.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t size = 0; size < bytes.size; size++) {
        cr_assert_eq(meta_image_decode(slice_of(bytes.data, size), 1, &back, &why), LKV_EDAMAGED,
                     "%zu bytes", size);
    }
    buffer_append(&bytes, "x", 1);
    cr_assert_eq(meta_image_decode(buffer_slice(&bytes), 1, &back, &why), LKV_EDAMAGED);
    buffer_fini(&bytes);
}

/* S18: of a newer program, told from damage. */
Test(lib_meta_image, a_newer_version_or_section_is_told) {
    struct buffer bytes;
    struct meta_image back;
    struct reason why;
    encode(&small, &bytes);
    bytes.data[8] = 2;
    uint32_t crc = crc32c(0, slice_of(bytes.data, CRC_AT));
    memcpy(bytes.data + CRC_AT, &crc, 4);
    cr_assert_eq(meta_image_decode(buffer_slice(&bytes), 1, &back, &why), LKV_EVERSION);
    buffer_fini(&bytes);
    encode(&small, &bytes);
    bytes.data[HEADER_SIZE] = 4;
    memcpy(&crc, bytes.data + HEADER_CRC_AT, 4);
    crc = crc32c(crc, slice_of(bytes.data + HEADER_SIZE, SECTION_SIZE - 4));
    memcpy(bytes.data + HEADER_SIZE + SECTION_SIZE - 4, &crc, 4);
    cr_assert_eq(meta_image_decode(buffer_slice(&bytes), 1, &back, &why), LKV_EVERSION);
    buffer_fini(&bytes);
    struct meta_image other = small;
    other.feature_level = 2;
    encode(&other, &bytes);
    cr_assert_eq(meta_image_decode(buffer_slice(&bytes), 1, &back, &why), LKV_EVERSION);
    cr_assert_eq(meta_image_decode(buffer_slice(&bytes), 2, &back, &why), 0);
    cr_assert_eq(back.feature_level, 2);
    buffer_fini(&bytes);
}

/* docs/FORMATS.md: what later versions may add without being refused. */
Test(lib_meta_image, an_optional_section_is_passed_over) {
    struct buffer bytes;
    struct meta_image back;
    struct reason why = {{0}};
    encode(&small, &bytes);
    bytes.data[HEADER_CRC_AT - 4] = 3; /* sections */
    uint32_t header_crc = crc32c(0, slice_of(bytes.data, HEADER_CRC_AT));
    memcpy(bytes.data + HEADER_CRC_AT, &header_crc, 4);
    uint32_t crc = crc32c(header_crc, slice_of(bytes.data + HEADER_SIZE, SECTION_SIZE - 4));
    memcpy(bytes.data + HEADER_SIZE + SECTION_SIZE - 4, &crc, 4);
    crc = crc32c(header_crc, slice_of(bytes.data + HEADER_SIZE + SECTION_SIZE, LEDGER_SIZE - 4));
    memcpy(bytes.data + bytes.size - 4, &crc, 4);
    static const uint8_t section[] = {0x05, 0x00, 0x00, 0x40, 0x01, 0x00, 0x00, 0x00, 'x'};
    crc = crc32c(header_crc, slice_of(section, sizeof(section)));
    buffer_append(&bytes, section, sizeof(section));
    buffer_append(&bytes, &crc, sizeof(crc));
    cr_assert_eq(meta_image_decode(buffer_slice(&bytes), 1, &back, &why), 0, "%s", why.text);
    cr_assert_eq(back.member_count, 2);
    buffer_fini(&bytes);
}
