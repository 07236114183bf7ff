#include "base/error.h"

#include <criterion/criterion.h>
#include <string.h>

static const int numbers[] = {
#define NUMBER(name, number, outcome, retryable, text) number,
    LKV_ERROR_TABLE(NUMBER)
#undef NUMBER
};

static const size_t count = sizeof(numbers) / sizeof(numbers[0]);

Test(base_error, numbers_are_negative_and_unique) {
    for (size_t i = 0; i < count; i++) {
        cr_assert_lt(numbers[i], 0);
        for (size_t j = 0; j < i; j++) {
            cr_assert_neq(numbers[i], numbers[j]);
        }
    }
}

/* They are on the wire: a number never changes its meaning. */
Test(base_error, some_numbers_are_pinned) {
    cr_assert_eq(LKV_EINVAL, -1);
    cr_assert_eq(LKV_ENOTFOUND, -6);
    cr_assert_eq(LKV_EUNKNOWN, -10);
    cr_assert_eq(LKV_ENOQUORUM, -34);
}

Test(base_error, every_code_has_a_name_and_a_sentence_without_a_full_stop) {
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(strncmp(error_name(numbers[i]), "LKV_E", 5), 0);
        cr_assert_str_neq(error_name(numbers[i]), "LKV_E?");
        const char *text = error_text(numbers[i]);
        cr_assert_gt(strlen(text), 0);
        cr_assert_neq(text[strlen(text) - 1], '.');
    }
    cr_assert_str_eq(error_name(LKV_EBUSY), "LKV_EBUSY");
}

Test(base_error, success_is_done) {
    cr_assert_str_eq(error_name(0), "LKV_OK");
    cr_assert_str_eq(error_text(0), "success");
    cr_assert_eq(error_outcome(0), LKV_DONE);
    cr_assert_eq(error_outcome(5), LKV_DONE);
    cr_assert_not(error_retryable(0));
}

Test(base_error, number_outside_the_table_claims_nothing) {
    cr_assert_str_eq(error_name(-9999), "LKV_E?");
    cr_assert_str_eq(error_text(-9999), "unknown error code");
    cr_assert_eq(error_outcome(-9999), LKV_UNKNOWN);
    cr_assert_not(error_retryable(-9999));
    cr_assert_str_eq(error_name(5), "LKV_E?", "a positive number is no success of ours");
    cr_assert_str_eq(error_text(5), "unknown error code");
}

Test(base_error, outcomes_are_those_of_the_table) {
    cr_assert_eq(error_outcome(LKV_ENOTFOUND), LKV_NEGATIVE);
    cr_assert_eq(error_outcome(LKV_ECOMPARE), LKV_NEGATIVE);
    cr_assert_eq(error_outcome(LKV_EUNKNOWN), LKV_UNKNOWN);
    cr_assert_eq(error_outcome(LKV_EBUSY), LKV_NOT_DONE);
    cr_assert(error_retryable(LKV_EBUSY));
    cr_assert_not(error_retryable(LKV_EDAMAGED));
    for (size_t i = 0; i < count; i++) {
        cr_assert_neq(error_outcome(numbers[i]), LKV_DONE);
    }
}

Test(base_error, reason_is_formatted_and_the_code_returned) {
    struct reason why = {{0}};
    cr_assert_eq(reason_set(&why, LKV_EIO, "%s: %d", "file", 7), LKV_EIO);
    cr_assert_str_eq(why.text, "file: 7");
    cr_assert_eq(reason_set(NULL, LKV_EIO, "nobody asks"), LKV_EIO);
}

Test(base_error, long_reason_is_cut_and_terminated) {
    struct reason why;
    memset(&why, 'x', sizeof(why));
    cr_assert_eq(reason_set(&why, LKV_EIO, "%0*d", 2 * REASON_SIZE, 1), LKV_EIO);
    cr_assert_eq(strlen(why.text), REASON_SIZE - 1);
}
