/* Opening, appending, reading, closing; what a second open sees. */
#include "tests/unit/log/fixture.h"

Test(log_open, makes_a_blank_log_that_begins_at_one) {
    struct fixture f;
    fixture_init(&f, 1);
    fixture_must_open(&f);
    cr_assert(f.state.blank);
    check_state(&f, 1, 0, 0);
    cr_assert_eq(f.state.vote.term, 0);
    cr_assert_eq(f.state.run_count, 0);
    fixture_close(&f);
    fixture_must_open(&f);
    cr_assert(!f.state.blank || f.state.vote.term == 0);
    fixture_fini(&f);
}

Test(log_open, keeps_entries_and_runs_over_a_clean_stop) {
    struct fixture f;
    fixture_init(&f, 2);
    fixture_must_open(&f);
    append(&f, 1, 3, 1, 100);
    append(&f, 4, 5, 3, 0);
    check_entries(&f, 1, 3, 1, 100);
    fixture_close(&f);
    fixture_must_open(&f);
    check_state(&f, 1, 8, 3);
    cr_assert_eq(f.state.run_count, 2);
    cr_assert_eq(f.state.runs[1].first, 4);
    cr_assert_eq(f.state.runs[1].term, 3);
    cr_assert_eq(f.state.vote.term, 3);
    check_entries(&f, 1, 3, 1, 100);
    check_entries(&f, 4, 8, 3, 0);
    fixture_fini(&f);
}

Test(log_open, keeps_what_was_written_over_a_power_cut) {
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct fixture f;
        fixture_init(&f, seed);
        fixture_must_open(&f);
        append(&f, 1, 10, 1, 700);
        append(&f, 11, 30, 2, 1000);
        fixture_power_cut(&f);
        fixture_must_open(&f);
        check_state(&f, 1, 40, 2);
        check_entries(&f, 1, 10, 1, 700);
        check_entries(&f, 11, 40, 2, 1000);
        fixture_fini(&f);
    }
}

Test(log_open, fills_segment_after_segment) {
    struct fixture f;
    fixture_init(&f, 3);
    fixture_must_open(&f);
    for (uint64_t i = 0; i < 20; i++) {
        append(&f, 1 + i * 10, 10, 1, 500);
        if (i % 3 == 0) {
            cr_assert_eq(log_prepare_spare(f.log, &f.why), 0);
        }
    }
    cr_assert_gt(segment_count(&f), 5);
    check_entries(&f, 1, 200, 1, 500);
    fixture_close(&f);
    fixture_must_open(&f);
    check_state(&f, 1, 200, 1);
    check_entries(&f, 1, 200, 1, 500);
    fixture_fini(&f);
}

Test(log_open, gives_a_large_record_a_segment_of_its_own) {
    struct fixture f;
    fixture_init(&f, 4);
    fixture_must_open(&f);
    append(&f, 1, 1, 1, 10);
    append(&f, 2, 2, 1, 60000);
    append(&f, 4, 1, 1, 10);
    fixture_close(&f);
    fixture_must_open(&f);
    check_entries(&f, 1, 1, 1, 10);
    check_entries(&f, 2, 3, 1, 60000);
    check_entries(&f, 4, 4, 1, 10);
    fixture_fini(&f);
}

Test(log_open, refuses_what_the_caller_got_wrong_and_changes_nothing) {
    struct fixture f;
    fixture_init(&f, 5);
    fixture_must_open(&f);
    append(&f, 1, 3, 5, 10);
    cr_assert_eq(try_append(&f, 5, 1, 5, 10), LKV_EINVAL, "a gap");
    cr_assert_eq(try_append(&f, 4, 1, 4, 10), LKV_EINVAL, "a falling term");
    cr_assert_eq(try_append(&f, 4, 1, 5, 70000), LKV_ETOOLARGE);
    cr_assert_eq(try_vote(&f, 4, 9), LKV_EINVAL, "R6: the term falls");
    cr_assert_eq(try_vote(&f, 5, 9), 0);
    cr_assert_eq(try_vote(&f, 5, 8), LKV_EINVAL, "R1: a second vote in one term");
    append(&f, 4, 1, 5, 10);
    check_entries(&f, 1, 4, 5, 10);
    fixture_fini(&f);
}

Test(log_open, reads_within_its_limits) {
    struct fixture f;
    fixture_init(&f, 6);
    fixture_must_open(&f);
    append(&f, 1, 20, 1, 100);
    struct entry got[20];
    size_t count;
    cr_assert_eq(log_read(f.log, 1, 20, 250, got, 20, &count, &f.why), 0);
    cr_assert_eq(count, 2);
    free_entries(got, count);
    cr_assert_eq(log_read(f.log, 1, 20, 1, got, 20, &count, &f.why), 0);
    cr_assert_eq(count, 1, "at least one");
    free_entries(got, count);
    cr_assert_eq(log_read(f.log, 5, 20, 1 << 20, got, 3, &count, &f.why), 0);
    cr_assert_eq(count, 3);
    cr_assert_eq(got[0].index, 5);
    free_entries(got, count);
    cr_assert_eq(log_read(f.log, 19, 100, 1 << 20, got, 20, &count, &f.why), 0);
    cr_assert_eq(count, 2, "up to the end");
    free_entries(got, count);
    cr_assert_eq(log_read(f.log, 21, 30, 1 << 20, got, 20, &count, &f.why), LKV_EINVAL);
    fixture_fini(&f);
}

Test(log_open, needs_one_sync_for_a_group_and_two_for_a_vote) {
    struct fixture f;
    fixture_init(&f, 7);
    fixture_must_open(&f);
    append(&f, 1, 1, 1, 10);
    uint64_t before = sim_disk_sync_count(f.sim);
    append(&f, 2, 30, 1, 100);
    cr_assert_eq(sim_disk_sync_count(f.sim) - before, 1);
    before = sim_disk_sync_count(f.sim);
    cr_assert_eq(try_vote(&f, 2, 3), 0);
    cr_assert_eq(sim_disk_sync_count(f.sim) - before, 2);
    before = sim_disk_sync_count(f.sim);
    append(&f, 32, 3, 3, 10);
    cr_assert_eq(sim_disk_sync_count(f.sim) - before, 3);
    mark(&f);
    before = sim_disk_op_count(f.sim);
    mark(&f);
    cr_assert_eq(sim_disk_op_count(f.sim), before, "nothing has changed since the last mark");
    fixture_fini(&f);
}
