#include "base/crc.h"
#include "base/prng.h"

#include <criterion/criterion.h>

/* The standard's check value, and those of RFC 3720, B.4. */
Test(base_crc, is_crc32c) {
    static uint8_t bytes[32];
    cr_assert_eq(crc32c(0, slice_text("123456789")), 0xe3069283u);
    cr_assert_eq(crc32c(0, slice_of(bytes, 32)), 0x8a9136aau);
    memset(bytes, 0xff, sizeof(bytes));
    cr_assert_eq(crc32c(0, slice_of(bytes, 32)), 0x62a8ab43u);
    for (size_t i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)i;
    }
    cr_assert_eq(crc32c(0, slice_of(bytes, 32)), 0x46dd794eu);
}

Test(base_crc, of_nothing_changes_nothing) {
    cr_assert_eq(crc32c(0, (struct slice){0}), 0);
    cr_assert_eq(crc32c(0x12345678, (struct slice){0}), 0x12345678);
}

Test(base_crc, of_parts_is_that_of_the_whole) {
    uint8_t bytes[200];
    struct prng prng = prng_of(1);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)prng_next(&prng);
    }
    uint32_t whole = crc32c(0, slice_of(bytes, sizeof(bytes)));
    for (size_t i = 0; i <= sizeof(bytes); i++) {
        uint32_t first = crc32c(0, slice_of(bytes, i));
        cr_assert_eq(crc32c(first, slice_of(bytes + i, sizeof(bytes) - i)), whole);
    }
}

/* Bit by bit, as the definition has it. */
static uint32_t slow(const uint8_t *bytes, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

Test(base_crc, agrees_with_the_definition_at_every_size_and_alignment) {
    uint8_t bytes[600];
    struct prng prng = prng_of(2);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)prng_next(&prng);
    }
    for (size_t size = 0; size < 560; size++) {
        size_t at = size % 17;
        cr_assert_eq(crc32c(0, slice_of(bytes + at, size)), slow(bytes + at, size));
    }
}

Test(base_crc, notices_every_single_flipped_bit) {
    uint8_t bytes[64] = {0};
    uint32_t before = crc32c(0, slice_of(bytes, sizeof(bytes)));
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cr_assert_neq(crc32c(0, slice_of(bytes, sizeof(bytes))), before);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}
