#include "base/slice.h"

#include <criterion/criterion.h>

static const struct slice none = {0};

Test(base_slice, order_is_by_bytes_and_a_prefix_comes_first) {
    static const char *const sorted[] = {"", "\x01", "A", "AA", "B", "a", "\x7f", "\x80", "\xff"};
    enum { COUNT = sizeof(sorted) / sizeof(sorted[0]) };
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < COUNT; j++) {
            int order = slice_compare(slice_text(sorted[i]), slice_text(sorted[j]));
            cr_assert_eq((order > 0) - (order < 0), (i > j) - (i < j));
        }
    }
}

Test(base_slice, nul_is_a_byte_like_any_other) {
    struct slice with = slice_of("a\0b", 3), without = slice_of("a\0", 2);
    cr_assert_gt(slice_compare(with, without), 0);
    cr_assert_lt(slice_compare(without, slice_text("aa")), 0);
    cr_assert_not(slice_equal(with, slice_of("a\0c", 3)));
    cr_assert(slice_equal(with, slice_of("a\0b", 3)));
}

Test(base_slice, null_is_empty) {
    cr_assert_eq(slice_compare(none, none), 0);
    cr_assert_eq(slice_compare(none, slice_text("")), 0);
    cr_assert_lt(slice_compare(none, slice_text("a")), 0);
    cr_assert(slice_equal(none, slice_text("")));
    cr_assert(slice_starts_with(none, none));
    cr_assert(slice_starts_with(slice_text("a"), none));
    cr_assert_not(slice_starts_with(none, slice_text("a")));
}

Test(base_slice, starts_with_compares_the_whole_prefix) {
    cr_assert(slice_starts_with(slice_text("abc"), slice_text("ab")));
    cr_assert(slice_starts_with(slice_text("abc"), slice_text("abc")));
    cr_assert_not(slice_starts_with(slice_text("abc"), slice_text("abcd")));
    cr_assert_not(slice_starts_with(slice_text("abc"), slice_text("b")));
}
