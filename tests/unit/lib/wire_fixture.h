/* What the tests of the clients' protocol share: a decoder, and a buffer to encode into. */
#ifndef TESTS_UNIT_LIB_WIRE_FIXTURE_H
#define TESTS_UNIT_LIB_WIRE_FIXTURE_H

#include "lib/client_wire.h"

#include <criterion/criterion.h>

static struct wire_decoder *decoder;
static struct buffer out;

static inline void open_wire(void) {
    decoder = wire_decoder_new();
    cr_assert_not_null(decoder);
    buffer_init(&out);
}

static inline void close_wire(void) {
    wire_decoder_free(decoder);
    buffer_fini(&out);
}

static inline void expect_bytes(const char *expected, size_t size) {
    cr_assert_eq(out.size, size, "%zu bytes, not %zu", out.size, size);
    cr_assert(memcmp(out.data, expected, size) == 0);
}
#define EXPECT_BYTES(text) expect_bytes(text, sizeof(text) - 1)

#endif
