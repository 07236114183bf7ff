#include "cli/histogram.c"

#include <criterion/criterion.h>
#include <stdlib.h>

Test(cli_histogram, is_exact_below_256_and_within_1_in_128_above) {
    for (uint64_t value = 0; value < UINT64_MAX / 3; value = value * 3 / 2 + 1) {
        struct histogram *histogram = calloc(1, sizeof(*histogram));
        histogram_add(histogram, value);
        histogram_add(histogram, UINT64_MAX); /* so that max does not help */
        uint64_t found = histogram_at(histogram, 0.5);
        cr_assert_geq(found, value);
        cr_assert_leq(found - value, value / 128);
        free(histogram);
    }
}

Test(cli_histogram, finds_the_value_below_which_a_part_lies) {
    struct histogram *histogram = calloc(1, sizeof(*histogram));
    cr_assert_eq(histogram_at(histogram, 0.5), 0);
    for (uint64_t value = 1; value <= 200; value++) {
        histogram_add(histogram, value);
    }
    cr_assert_eq(histogram_at(histogram, 0.0), 1);
    cr_assert_eq(histogram_at(histogram, 0.5), 100);
    cr_assert_eq(histogram_at(histogram, 0.99), 198);
    cr_assert_eq(histogram_at(histogram, 1.0), 200);
    cr_assert_eq(histogram->max, 200);
    free(histogram);
}
