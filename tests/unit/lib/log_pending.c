/* Rule 28 for batches: all of it, nothing of it, or the first records of it without the rest. */
#include "lib/pending.h"

#include <criterion/criterion.h>
#include <stdio.h>

struct fate {
    int finishes, rc;
};

static struct pending pending;

static void setup(void) {
    pending_init(&pending);
}

static void teardown(void) {
    pending_fini(&pending);
}

TestSuite(lib_log_pending, .init = setup, .fini = teardown);

static void on_finish(struct request *request) {
    struct fate *fate = request->owner;
    fate->finishes++;
    fate->rc = lkv_msg_rc(request->reply);
}

/* A batch in [first, first + count). */
static void add(struct fate *fate, uint64_t first, size_t count, uint64_t term) {
    struct request *request = request_new(REQUEST_APPEND);
    *fate = (struct fate){.rc = 1};
    request->owner = fate;
    request->on_finish = on_finish;
    request->record_count = count;
    cr_assert_eq(pending_reserve(&pending, count), 0);
    pending_add(&pending, request, first + count - 1, term);
}

static void apply(uint64_t from, uint64_t to, uint64_t term) {
    for (uint64_t index = from; index <= to; index++) {
        struct request *request = pending_take(&pending, index, term);
        if (request != NULL) {
            request_finish(request);
        }
    }
}

static void expect(const struct fate *fate, int rc) {
    cr_assert_eq(fate->finishes, 1);
    cr_assert_eq(fate->rc, rc, "%s", lkv_error_name(fate->rc));
}

Test(lib_log_pending, a_batch_is_done_with_its_last_record) {
    struct fate a, b;
    add(&a, 1, 5, 1);
    add(&b, 6, 3, 1);
    apply(1, 4, 1);
    cr_assert_eq(a.finishes, 0);
    apply(5, 5, 1);
    expect(&a, 0);
    apply(6, 7, 1);
    cr_assert_eq(b.finishes, 0);
    apply(8, 8, 1);
    expect(&b, 0);
}

Test(lib_log_pending, a_batch_survives_the_end_of_leadership) {
    struct fate a, b;
    add(&a, 1, 5, 1);
    add(&b, 6, 3, 1);
    pending_orphan(&pending);
    apply(1, 8, 1);
    expect(&a, 0);
    expect(&b, 0);
}

Test(lib_log_pending, a_batch_whose_first_index_was_taken_is_not_done) {
    struct fate a, b, c;
    add(&a, 1, 5, 1);
    add(&b, 6, 3, 1);
    add(&c, 9, 2, 1);
    apply(1, 2, 1);
    pending_orphan(&pending);
    apply(3, 5, 1);
    expect(&a, 0);
    apply(6, 6, 2);
    expect(&b, LKV_ENOTLEADER);
    cr_assert_eq(lkv_outcome(LKV_ENOTLEADER), LKV_NOT_DONE);
    apply(7, 9, 2);
    expect(&c, LKV_ENOTLEADER);
}

Test(lib_log_pending, a_batch_of_which_a_part_is_there_is_unknown) {
    struct fate a;
    add(&a, 1, 5, 1);
    pending_orphan(&pending);
    apply(1, 2, 1);
    cr_assert_eq(a.finishes, 0);
    apply(3, 3, 2);
    expect(&a, LKV_EUNKNOWN);
}

/* A follower that has the first records of a batch makes them committed: they may be applied here while this
 * node still leads, and the rest be replaced when it does not. */
Test(lib_log_pending, a_batch_of_which_a_part_was_applied_while_leading_is_unknown) {
    struct fate a, b, c;
    add(&a, 1, 5, 1);
    add(&b, 6, 3, 1);
    add(&c, 9, 2, 1);
    apply(1, 6, 1);
    expect(&a, 0);
    pending_orphan(&pending);
    cr_assert_eq(b.finishes, 0);
    apply(7, 7, 2); /* the very next entry: none of this batch was applied as an orphan's */
    expect(&b, LKV_EUNKNOWN);
    cr_assert_eq(lkv_outcome(LKV_EUNKNOWN), LKV_UNKNOWN);
    apply(8, 9, 2);
    expect(&c, LKV_ENOTLEADER);
}

Test(lib_log_pending, a_batch_that_an_image_covers_in_part_is_unknown) {
    struct fate a, b, c;
    add(&a, 1, 5, 1);
    add(&b, 6, 5, 1);
    add(&c, 11, 5, 1);
    pending_skip(&pending, 7);
    expect(&a, LKV_EUNKNOWN);
    cr_assert_eq(b.finishes + c.finishes, 0);
    apply(8, 8, 2);
    expect(&b, LKV_EUNKNOWN);
    apply(9, 11, 2);
    expect(&c, LKV_ENOTLEADER);
}
