#include "base/buffer.h"
#include "base/mem.h"

#include <criterion/criterion.h>

static struct buffer buffer;

static void init(void) {
    buffer_init(&buffer);
}

static void fini(void) {
    buffer_fini(&buffer);
}

TestSuite(base_buffer, .init = init, .fini = fini);

static void assert_holds(const char *text) {
    cr_assert_not(buffer.failed);
    cr_assert(slice_equal(buffer_slice(&buffer), slice_text(text)), "holds %.*s", (int)buffer.size,
              (const char *)buffer.data);
}

Test(base_buffer, appends_in_order) {
    assert_holds("");
    buffer_append(&buffer, "ab", 2);
    buffer_append(&buffer, NULL, 0);
    buffer_append(&buffer, "c", 1);
    assert_holds("abc");
}

Test(base_buffer, grows_as_needed) {
    for (int i = 0; i < 10000; i++) {
        uint8_t byte = (uint8_t)i;
        buffer_append(&buffer, &byte, 1);
    }
    cr_assert_eq(buffer.size, 10000);
    for (int i = 0; i < 10000; i++) {
        cr_assert_eq(buffer.data[i], (uint8_t)i);
    }
}

Test(base_buffer, reserved_bytes_count_only_once_committed) {
    buffer_append(&buffer, "a", 1);
    uint8_t *end = buffer_reserve(&buffer, 100);
    memcpy(end, "bcd", 3);
    assert_holds("a");
    buffer_commit(&buffer, 2);
    assert_holds("abc");
}

Test(base_buffer, consumes_from_the_front) {
    buffer_append(&buffer, "abcdef", 6);
    buffer_consume(&buffer, 0);
    assert_holds("abcdef");
    buffer_consume(&buffer, 2);
    assert_holds("cdef");
    buffer_append(&buffer, "g", 1);
    assert_holds("cdefg");
    buffer_consume(&buffer, 5);
    assert_holds("");
}

Test(base_buffer, prints_without_a_final_nul) {
    buffer_printf(&buffer, "%s", "");
    buffer_printf(&buffer, "%s=%d;", "a", 1);
    buffer_printf(&buffer, "%0100d", 7);
    cr_assert_eq(buffer.size, 4 + 100);
    buffer_consume(&buffer, 4 + 99);
    assert_holds("7");
}

Test(base_buffer, clear_keeps_the_memory) {
    buffer_append(&buffer, "abc", 3);
    const uint8_t *data = buffer.data;
    buffer_clear(&buffer);
    assert_holds("");
    buffer_append(&buffer, "d", 1);
    cr_assert_eq(buffer.data, data);
}

Test(base_buffer, failure_sticks_until_it_is_cleared) {
    buffer_append(&buffer, "abc", 3);
    mem_fail_after(0);
    static char big[1000];
    buffer_append(&buffer, big, sizeof(big));
    mem_fail_never();
    cr_assert(buffer.failed);
    buffer_append(&buffer, "d", 1);
    buffer_printf(&buffer, "e");
    cr_assert_null(buffer_reserve(&buffer, 1));
    cr_assert_eq(buffer.size, 3, "what was there before is still there");
    buffer_clear(&buffer);
    buffer_append(&buffer, "f", 1);
    assert_holds("f");
}

Test(base_buffer, size_that_overflows_fails) {
    buffer_append(&buffer, "abc", 3);
    cr_assert_null(buffer_reserve(&buffer, SIZE_MAX - 2));
    cr_assert(buffer.failed);
}
