#include "lib/frame.h"

#include "base/crc.h"
#include "base/mem.h"
#include "base/prng.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { BODY_MAX = 64, SEED = 0x01020304 };

static const uint8_t golden_unseeded[] = {
    'L',  'K',  0x01, 0x00,                         /* magic, hello, reserved */
    0x02, 0x00, 0x00, 0x00,                         /* two bytes of body */
    0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* group 7 */
    0x04, 0x10, 0x9e, 0xd4,                         /* CRC32C of the rest */
    'h',  'i',
};
static const uint8_t golden_seeded[] = {
    'L',  'K',  0x05, 0x00,                         /* magic, refused, reserved */
    0x00, 0x00, 0x00, 0x00,                         /* no body */
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* the largest group */
    0x08, 0x97, 0xdc, 0x6b,                         /* CRC32C, begun with SEED */
};

static int decode(struct slice bytes, uint32_t seed, struct frame *out) {
    struct reason why = {{0}};
    int rc = frame_decode(bytes, seed, BODY_MAX, out, &why);
    cr_assert_eq(rc < 0, why.text[0] != '\0', "rc %d, why '%s'", rc, why.text);
    return rc;
}

static void encode(enum frame_kind kind, uint64_t group, uint32_t seed, struct slice body,
                   struct buffer *out) {
    buffer_init(out);
    frame_encode(kind, group, seed, body, out);
    cr_assert_not(out->failed);
}

Test(lib_frame, encodes_the_golden_bytes) {
    struct buffer out;
    encode(FRAME_HELLO, 7, 0, slice_text("hi"), &out);
    cr_assert_eq(out.size, sizeof(golden_unseeded));
    cr_assert_arr_eq(out.data, golden_unseeded, sizeof(golden_unseeded));
    buffer_fini(&out);
    encode(FRAME_REFUSED, UINT64_MAX, SEED, (struct slice){0}, &out);
    cr_assert_eq(out.size, sizeof(golden_seeded));
    cr_assert_arr_eq(out.data, golden_seeded, sizeof(golden_seeded));
    buffer_fini(&out);
}

Test(lib_frame, decodes_the_golden_bytes) {
    struct frame frame;
    cr_assert_eq(decode(slice_of(golden_unseeded, sizeof(golden_unseeded)), 0, &frame), 1);
    cr_assert_eq(frame.kind, FRAME_HELLO);
    cr_assert_eq(frame.group_id, 7);
    cr_assert(slice_equal(frame.body, slice_text("hi")));
    cr_assert_eq(frame.body.data, golden_unseeded + FRAME_HEADER_SIZE);
    cr_assert_eq(frame.size, sizeof(golden_unseeded));
    cr_assert_eq(decode(slice_of(golden_seeded, sizeof(golden_seeded)), SEED, &frame), 1);
    cr_assert_eq(frame.kind, FRAME_REFUSED);
    cr_assert_eq(frame.group_id, UINT64_MAX);
    cr_assert_eq(frame.body.size, 0);
}

Test(lib_frame, waits_for_more_at_every_truncation) {
    for (size_t size = 0; size < sizeof(golden_unseeded); size++) {
        struct frame frame;
        cr_assert_eq(decode(slice_of(golden_unseeded, size), 0, &frame), 0, "%zu bytes", size);
    }
}

Test(lib_frame, leaves_what_follows_the_frame) {
    struct buffer two;
    encode(FRAME_RAFT, 0, SEED, slice_text("one"), &two);
    size_t first = two.size;
    frame_encode(FRAME_RAFT, 0, SEED, slice_text("second"), &two);
    struct frame frame;
    cr_assert_eq(decode(buffer_slice(&two), SEED, &frame), 1);
    cr_assert_eq(frame.size, first);
    struct slice rest = slice_of(two.data + first, two.size - first);
    cr_assert_eq(decode(rest, SEED, &frame), 1);
    cr_assert(slice_equal(frame.body, slice_text("second")));
    buffer_fini(&two);
}

/* N10: nothing but the magic makes a frame, and it is refused as soon as two bytes are there. */
Test(lib_frame, refuses_a_wrong_magic_at_once) {
    struct frame frame;
    cr_assert_eq(decode(slice_text("L"), 0, &frame), 0);
    cr_assert_eq(decode(slice_text("LX"), 0, &frame), LKV_EPROTOCOL);
    cr_assert_eq(decode(slice_text("XK"), 0, &frame), LKV_EPROTOCOL);
    cr_assert_eq(decode(slice_text("GET / HTTP/1.1\r\n"), 0, &frame), LKV_EPROTOCOL);
}

Test(lib_frame, refuses_kinds_that_it_does_not_know) {
    for (unsigned kind = 0; kind < 256; kind++) {
        struct buffer bytes;
        encode((enum frame_kind)kind, 0, 0, slice_text("x"), &bytes);
        struct frame frame;
        int expected = kind >= FRAME_HELLO && kind <= FRAME_DIGEST ? 1 : LKV_EPROTOCOL;
        cr_assert_eq(decode(buffer_slice(&bytes), 0, &frame), expected, "kind %u", kind);
        buffer_fini(&bytes);
    }
}

/* N2: the length is judged by the header alone, before a byte of the body is waited for. */
Test(lib_frame, judges_every_length_by_its_header) {
    const struct {
        uint32_t size;
        int rc;
    } cases[] = {{1, 0},
                 {BODY_MAX, 0},
                 {BODY_MAX + 1, LKV_ETOOLARGE},
                 {UINT32_C(1) << 31, LKV_ETOOLARGE},
                 {UINT32_MAX, LKV_ETOOLARGE}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t header[FRAME_HEADER_SIZE];
        memcpy(header, golden_unseeded, sizeof(header));
        for (int byte = 0; byte < 4; byte++) {
            header[4 + byte] = (uint8_t)(cases[i].size >> (8 * byte));
        }
        struct frame frame;
        cr_assert_eq(decode(slice_of(header, sizeof(header)), 0, &frame), cases[i].rc, "size %u",
                     cases[i].size);
    }
}

Test(lib_frame, takes_a_body_of_the_limit_and_none) {
    uint8_t body[BODY_MAX] = {0};
    for (size_t size = 0; size <= BODY_MAX; size += BODY_MAX) {
        struct buffer bytes;
        encode(FRAME_IMAGE_CHUNK, 1, SEED, slice_of(body, size), &bytes);
        struct frame frame;
        cr_assert_eq(decode(buffer_slice(&bytes), SEED, &frame), 1);
        cr_assert_eq(frame.body.size, size);
        buffer_fini(&bytes);
    }
}

Test(lib_frame, notices_every_flipped_bit) {
    for (size_t bit = 0; bit < 8 * sizeof(golden_unseeded); bit++) {
        uint8_t bytes[sizeof(golden_unseeded)];
        memcpy(bytes, golden_unseeded, sizeof(bytes));
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        struct frame frame;
        cr_assert_neq(decode(slice_of(bytes, sizeof(bytes)), 0, &frame), 1, "bit %zu", bit);
    }
}

/* N11: bytes recorded on another connection, whose receiver had chosen another nonce. */
Test(lib_frame, refuses_the_seed_of_another_connection) {
    struct buffer bytes;
    encode(FRAME_RAFT, 0, frame_seed(0x1111222233334444), slice_text("vote"), &bytes);
    struct frame frame;
    cr_assert_eq(decode(buffer_slice(&bytes), frame_seed(0x1111222233334444), &frame), 1);
    cr_assert_eq(decode(buffer_slice(&bytes), frame_seed(0x1111222233334445), &frame),
                 LKV_EPROTOCOL);
    cr_assert_eq(decode(buffer_slice(&bytes), 0, &frame), LKV_EPROTOCOL);
    buffer_fini(&bytes);
}

Test(lib_frame, makes_the_seed_of_both_halves_of_a_nonce) {
    cr_assert_eq(frame_seed(0), 0);
    cr_assert_eq(frame_seed(5), 5);
    cr_assert_eq(frame_seed(UINT64_C(5) << 32), 5);
    cr_assert_eq(frame_seed(0x1234567811111111), 0x03254769);
}

Test(lib_frame, survives_random_bytes) {
    struct prng prng = prng_of(1);
    for (int round = 0; round < 200000; round++) {
        uint8_t bytes[48];
        size_t size = prng_below(&prng, sizeof(bytes) + 1);
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (uint8_t)prng_next(&prng);
        }
        if (size > 8 && prng_below(&prng, 4) > 0) { /* past the first checks, more often */
            memcpy(bytes, golden_unseeded, 3 + prng_below(&prng, 6));
        }
        struct frame frame;
        cr_assert_leq(decode(slice_of(bytes, size), (uint32_t)prng_next(&prng), &frame), 0);
    }
}

Test(lib_frame, says_when_memory_ran_out) {
    struct buffer out;
    buffer_init(&out);
    mem_fail_after(0);
    frame_encode(FRAME_RAFT, 0, 0, slice_text("x"), &out);
    mem_fail_never();
    cr_assert(out.failed);
    buffer_fini(&out);
}
