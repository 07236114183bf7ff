#include "lib/deadlines.h"
#include "base/prng.h"

#include <criterion/criterion.h>

#define MS UINT64_C(1000000)

static struct deadlines deadlines;
static struct list_link due;
static uint64_t now_ns;

static void open_deadlines(void) {
    now_ns = 12345 * MS;
    deadlines_init(&deadlines, now_ns);
    list_init(&due);
}

TestSuite(lib_deadlines, .init = open_deadlines);

static struct request *add(uint64_t at_ns) {
    struct request *request = request_new(REQUEST_GET);
    request->deadline_ns = at_ns;
    deadlines_add(&deadlines, request);
    return request;
}

static void drop(struct request *request) {
    deadlines_remove(&deadlines, request);
    request_free(request);
}

/* How many were due; none of them early. */
static size_t expire(uint64_t at_ns) {
    now_ns = at_ns;
    deadlines_expire(&deadlines, now_ns, &due);
    size_t count = 0;
    while (!list_empty(&due)) {
        struct request *request = LIST_ITEM(due.next, struct request, expiry);
        cr_assert_leq(request->deadline_ns, now_ns);
        drop(request);
        count++;
    }
    return count;
}

Test(lib_deadlines, pass_at_most_one_tick_late_and_never_early) {
    uint64_t at_ns = now_ns + 100 * MS;
    (void)add(at_ns);
    cr_assert_eq(expire(at_ns - 1), 0);
    uint64_t next_ns = deadlines_next(&deadlines);
    cr_assert(next_ns >= at_ns && next_ns <= at_ns + 5 * MS);
    cr_assert_eq(expire(next_ns), 1);
    cr_assert_eq(deadlines_next(&deadlines), UINT64_MAX);
}

Test(lib_deadlines, forget_what_was_removed) {
    struct request *request = add(now_ns + 10 * MS);
    drop(request);
    cr_assert_eq(deadlines_next(&deadlines), UINT64_MAX);
    cr_assert_eq(expire(now_ns + 1000 * MS), 0);
}

Test(lib_deadlines, ignore_what_has_none) {
    struct request *request = add(UINT64_MAX);
    cr_assert_eq(deadlines_next(&deadlines), UINT64_MAX);
    drop(request);
}

Test(lib_deadlines, pass_soon_when_they_were_over_before_they_came) {
    (void)add(now_ns - 50 * MS);
    (void)add(0);
    uint64_t next_ns = deadlines_next(&deadlines);
    cr_assert_leq(next_ns, now_ns + 5 * MS);
    cr_assert_eq(expire(next_ns), 2);
}

Test(lib_deadlines, may_lie_many_turns_of_the_wheel_ahead) {
    uint64_t far_ns = now_ns + UINT64_C(3600) * 1000 * MS;
    (void)add(far_ns);
    (void)add(UINT64_MAX - 1);
    uint64_t wakes = 0;
    while (now_ns < far_ns && expire(deadlines_next(&deadlines)) == 0) {
        wakes++;
    }
    cr_assert_geq(now_ns, far_ns);
    cr_assert_leq(now_ns, far_ns + 5 * MS);
    cr_assert_leq(wakes, 2 * 3600, "looks once in two seconds for each");
    deadlines_expire(&deadlines, UINT64_MAX, &due);
    cr_assert(!list_empty(&due));
    drop(LIST_ITEM(due.next, struct request, expiry));
}

Test(lib_deadlines, pass_after_a_long_sleep) {
    (void)add(now_ns + 10 * MS);
    (void)add(now_ns + 3000 * MS);
    (void)add(now_ns + 60000 * MS);
    cr_assert_eq(expire(now_ns + 50000 * MS), 2);
    cr_assert_eq(expire(now_ns + 50000 * MS), 1);
}

Test(lib_deadlines, agree_with_a_plain_list) {
    enum { COUNT = 3000 };
    static struct request *requests[COUNT];
    struct prng prng = prng_of(7);
    size_t left = COUNT;
    for (size_t i = 0; i < COUNT; i++) {
        requests[i] = add(now_ns + prng_below(&prng, 8000) * MS);
    }
    for (size_t i = 0; i < COUNT; i += 3) {
        drop(requests[i]);
        requests[i] = NULL;
        left--;
    }
    while (left > 0) {
        uint64_t earliest = UINT64_MAX;
        for (size_t i = 0; i < COUNT; i++) {
            if (requests[i] != NULL && requests[i]->deadline_ns < earliest) {
                earliest = requests[i]->deadline_ns;
            }
        }
        uint64_t at_ns = deadlines_next(&deadlines);
        cr_assert_leq(at_ns, earliest + 5 * MS);
        for (size_t i = 0; i < COUNT; i++) {
            if (requests[i] != NULL && requests[i]->deadline_ns <= at_ns) {
                requests[i] = NULL;
                left--;
            }
        }
        (void)expire(at_ns);
        cr_assert_eq(deadlines.count, left);
    }
}
