#include "lib/image_wire.h"

#include "base/mem.h"
#include "base/prng.h"

#include <criterion/criterion.h>

static const struct image_chunk chunk = {.leader_term = 3,
                                         .image_index = 0x0102030405060708,
                                         .image_term = 2,
                                         .size = 100,
                                         .file_id = 0x1112131415161718,
                                         .offset = 97,
                                         .bytes = {(const uint8_t *)"end", 3}};
static const uint8_t golden_chunk[] = {
    3,    0,    0,    0,    0,    0,    0,    0,    /* leader's term */
    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* index */
    2,    0,    0,    0,    0,    0,    0,    0,    /* term of that entry */
    100,  0,    0,    0,    0,    0,    0,    0,    /* size of the file */
    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* id of the file */
    97,   0,    0,    0,    0,    0,    0,    0,    /* offset */
    'e',  'n',  'd',
};
enum { CHUNK_HEADER = sizeof(golden_chunk) - 3 };

static const uint8_t golden_ack[] = {
    9, 0, 0, 0, 0, 0, 0, 0, /* index */
    4, 3, 2, 1, 0, 0, 0, 0, /* id of the file */
    0, 1, 0, 0, 0, 0, 0, 0, /* go on at 256 */
    1,                      /* more */
};

Test(lib_image_wire, encodes_a_chunk_as_the_golden_bytes) {
    struct buffer out;
    buffer_init(&out);
    image_chunk_encode(&chunk, &out);
    cr_assert_eq(out.size, sizeof(golden_chunk));
    cr_assert_arr_eq(out.data, golden_chunk, sizeof(golden_chunk));
    buffer_fini(&out);
}

Test(lib_image_wire, decodes_the_golden_chunk) {
    struct image_chunk out;
    cr_assert_eq(image_chunk_decode(slice_of(golden_chunk, sizeof(golden_chunk)), &out), 0);
    cr_assert_eq(out.leader_term, 3);
    cr_assert_eq(out.image_index, 0x0102030405060708);
    cr_assert_eq(out.image_term, 2);
    cr_assert_eq(out.size, 100);
    cr_assert_eq(out.file_id, 0x1112131415161718);
    cr_assert_eq(out.offset, 97);
    cr_assert(slice_equal(out.bytes, slice_text("end")));
}

Test(lib_image_wire, refuses_a_chunk_cut_in_its_header) {
    for (size_t size = 0; size < CHUNK_HEADER; size++) {
        struct image_chunk out;
        cr_assert_eq(image_chunk_decode(slice_of(golden_chunk, size), &out), LKV_EPROTOCOL);
    }
}

static int decode_changed(struct image_chunk changed) {
    struct buffer bytes;
    buffer_init(&bytes);
    image_chunk_encode(&changed, &bytes);
    struct image_chunk out;
    int rc = image_chunk_decode(buffer_slice(&bytes), &out);
    buffer_fini(&bytes);
    return rc;
}

Test(lib_image_wire, refuses_bytes_outside_of_the_file) {
    struct image_chunk changed = chunk;
    changed.offset = 98; /* one byte beyond the end */
    cr_assert_eq(decode_changed(changed), LKV_EPROTOCOL);
    changed.offset = 101;
    changed.bytes.size = 0;
    cr_assert_eq(decode_changed(changed), LKV_EPROTOCOL);
    changed.offset = UINT64_MAX; /* offset + size would wrap */
    cr_assert_eq(decode_changed(changed), LKV_EPROTOCOL);
    changed.size = UINT64_MAX;
    changed.offset = UINT64_MAX - 1;
    changed.bytes = slice_text("xy");
    cr_assert_eq(decode_changed(changed), LKV_EPROTOCOL);
}

Test(lib_image_wire, refuses_an_image_of_no_entry) {
    struct image_chunk changed = chunk;
    changed.image_index = 0;
    cr_assert_eq(decode_changed(changed), LKV_EPROTOCOL);
}

Test(lib_image_wire, takes_an_empty_chunk_at_the_end) {
    struct image_chunk changed = chunk;
    changed.offset = changed.size;
    changed.bytes.size = 0;
    cr_assert_eq(decode_changed(changed), 0);
}

Test(lib_image_wire, encodes_an_ack_as_the_golden_bytes) {
    const struct image_ack ack = {
        .image_index = 9, .file_id = 0x01020304, .next_offset = 256, .state = IMAGE_ACK_MORE};
    struct buffer out;
    buffer_init(&out);
    image_ack_encode(&ack, &out);
    cr_assert_eq(out.size, sizeof(golden_ack));
    cr_assert_arr_eq(out.data, golden_ack, sizeof(golden_ack));
    buffer_fini(&out);
}

Test(lib_image_wire, decodes_every_state_of_an_ack_and_no_other) {
    for (unsigned state = 0; state < 256; state++) {
        uint8_t bytes[sizeof(golden_ack)];
        memcpy(bytes, golden_ack, sizeof(bytes));
        bytes[24] = (uint8_t)state;
        struct image_ack out;
        int expected = state >= IMAGE_ACK_MORE && state <= IMAGE_ACK_FAILED ? 0 : LKV_EPROTOCOL;
        cr_assert_eq(image_ack_decode(slice_of(bytes, sizeof(bytes)), &out), expected);
        if (expected == 0) {
            cr_assert_eq(out.image_index, 9);
            cr_assert_eq(out.file_id, 0x01020304);
            cr_assert_eq(out.next_offset, 256);
            cr_assert_eq((unsigned)out.state, state);
        }
    }
}

Test(lib_image_wire, refuses_an_ack_of_any_other_size) {
    uint8_t bytes[sizeof(golden_ack) + 1] = {0};
    memcpy(bytes, golden_ack, sizeof(golden_ack));
    for (size_t size = 0; size <= sizeof(bytes); size++) {
        struct image_ack out;
        int expected = size == sizeof(golden_ack) ? 0 : LKV_EPROTOCOL;
        cr_assert_eq(image_ack_decode(slice_of(bytes, size), &out), expected, "%zu bytes", size);
    }
}

Test(lib_image_wire, keeps_random_chunks_within_their_file) {
    struct prng prng = prng_of(2);
    for (int round = 0; round < 100000; round++) {
        uint8_t bytes[64];
        size_t size = prng_below(&prng, sizeof(bytes) + 1);
        for (size_t i = 0; i < size; i++) {
            bytes[i] = prng_below(&prng, 3) == 0 ? (uint8_t)prng_next(&prng) : 0;
        }
        struct image_chunk out;
        if (image_chunk_decode(slice_of(bytes, size), &out) == 0) {
            cr_assert_leq(out.offset, out.size);
            cr_assert_leq(out.bytes.size, out.size - out.offset);
            cr_assert_eq(out.bytes.size, size - CHUNK_HEADER);
        }
        struct image_ack ack;
        int rc = image_ack_decode(slice_of(bytes, size), &ack);
        cr_assert(rc == 0 || rc == LKV_EPROTOCOL);
    }
}
