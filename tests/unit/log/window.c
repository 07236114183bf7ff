/* The newest entries in memory. */
#include "log/window.h"

#include <criterion/criterion.h>

static void push(struct log_window *window, uint64_t index, size_t size) {
    struct entry entry = {.index = index,
                          .term = 1,
                          .type = ENTRY_COMMAND,
                          .payload = size > 0 ? blob_new(size) : NULL};
    cr_assert_eq(log_window_push(window, &entry), 0);
}

Test(log_window, holds_a_contiguous_range) {
    struct log_window window;
    log_window_init(&window, 5);
    cr_assert(log_window_at(&window, 5) == NULL);
    cr_assert_eq(log_window_next(&window), 5);
    for (uint64_t index = 5; index < 305; index++) {
        push(&window, index, index % 10);
    }
    cr_assert_eq(window.count, 300);
    cr_assert_eq(window.bytes, 300 / 10 * 45);
    for (uint64_t index = 5; index < 305; index++) {
        cr_assert_eq(log_window_at(&window, index)->index, index);
    }
    cr_assert(log_window_at(&window, 4) == NULL);
    cr_assert(log_window_at(&window, 305) == NULL);
    log_window_fini(&window);
}

Test(log_window, trims_and_cuts_at_both_ends) {
    struct log_window window;
    log_window_init(&window, 1);
    for (uint64_t index = 1; index <= 100; index++) {
        push(&window, index, 10);
    }
    log_window_trim(&window, 41);
    cr_assert_eq(window.first, 41);
    cr_assert_eq(window.bytes, 600);
    log_window_cut(&window, 91);
    cr_assert_eq(log_window_next(&window), 91);
    cr_assert_eq(window.bytes, 500);
    log_window_cut(&window, 200);
    log_window_trim(&window, 10);
    cr_assert_eq(window.count, 50);
    for (uint64_t index = 91; index <= 400; index++) {
        push(&window, index, 1);
        log_window_trim(&window, index - 20);
    }
    cr_assert_eq(window.count, 21);
    cr_assert_eq(log_window_at(&window, 400)->index, 400);
    log_window_fini(&window);
}

Test(log_window, continues_at_a_cut_below_what_it_holds) {
    struct log_window window;
    log_window_init(&window, 1);
    for (uint64_t index = 1; index <= 50; index++) {
        push(&window, index, 3);
    }
    log_window_trim(&window, 41);
    log_window_cut(&window, 20);
    cr_assert_eq(window.count, 0);
    cr_assert_eq(window.bytes, 0);
    cr_assert_eq(log_window_next(&window), 20);
    push(&window, 20, 3);
    log_window_restart(&window, 1000);
    cr_assert_eq(log_window_next(&window), 1000);
    cr_assert_eq(window.bytes, 0);
    push(&window, 1000, 0);
    cr_assert_eq(log_window_at(&window, 1000)->payload, NULL);
    log_window_fini(&window);
}

Test(log_window, takes_the_reference_on_success_only) {
    struct log_window window;
    log_window_init(&window, 1);
    struct blob *blob = blob_new(4);
    struct entry entry = {.index = 1, .term = 1, .type = ENTRY_COMMAND, .payload = blob_ref(blob)};
    cr_assert_eq(log_window_push(&window, &entry), 0);
    cr_assert_eq(blob->refs, 2);
    log_window_trim(&window, 2);
    cr_assert_eq(blob->refs, 1);
    blob_unref(blob);
    log_window_fini(&window);
}
