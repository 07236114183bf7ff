/* S28: no memory at the n-th allocation, for every n. */
#include "base/mem.h"
#include "tests/unit/log/fixture.h"

/* The fixture's own allocations are made beforehand. */
static int write_entries(struct fixture *f, struct entry *entries, size_t count, uint64_t term) {
    struct log_write write = {.save_vote = true,
                              .vote.term = term,
                              .cut_from = entries[0].index,
                              .entries = entries,
                              .count = count};
    return log_write(f->log, &write, &f->why);
}

Test(log_memory, open_fails_cleanly_without_memory) {
    int rc = LKV_ENOMEM;
    for (uint64_t n = 0; rc != 0; n++) {
        struct fixture f;
        fixture_init(&f, n);
        fixture_must_open(&f);
        append(&f, 1, 60, 1, 500);
        append(&f, 50, 3, 2, 500);
        fixture_power_cut(&f);
        mem_fail_after(n);
        rc = fixture_open(&f);
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM || rc == LKV_EIO, "%s", error_name(rc));
        cr_assert(rc == 0 || f.log == NULL);
        if (rc != 0) {
            fixture_must_open(&f);
        }
        check_state(&f, 1, 52, 2);
        check_entries(&f, 1, 49, 1, 500);
        fixture_fini(&f);
    }
}

Test(log_memory, write_is_refused_or_final_without_memory) {
    bool failed = true;
    for (uint64_t n = 0; failed; n++) {
        struct fixture f;
        fixture_init(&f, n);
        fixture_must_open(&f);
        append(&f, 1, 30, 1, 500);
        struct entry entries[40];
        for (unsigned i = 0; i < 40; i++) {
            entries[i] = entry_of(20 + i, 2, 500);
        }
        mem_fail_after(n);
        int rc = write_entries(&f, entries, 40, 2);
        mem_fail_never();
        failed = rc != 0;
        if (rc == LKV_ENOMEM) { /* refused: nothing has changed */
            check_entries(&f, 1, 30, 1, 500);
            cr_assert_eq(write_entries(&f, entries, 40, 2), 0, "%s", f.why.text);
            rc = 0;
        }
        free_entries(entries, 40);
        fixture_power_cut(&f);
        fixture_must_open(&f);
        if (rc == 0) {
            check_state(&f, 1, 59, 2);
            check_entries(&f, 20, 59, 2, 500);
        }
        check_entries(&f, 1, 19, 1, 500);
        fixture_fini(&f);
    }
}

Test(log_memory, reading_and_dropping_fail_cleanly_without_memory) {
    bool failed = true;
    for (uint64_t n = 0; failed; n++) {
        struct fixture f;
        fixture_init(&f, n);
        fixture_must_open(&f);
        append(&f, 1, 60, 1, 500);
        struct entry got[10];
        size_t count;
        mem_fail_after(n);
        int read = log_read(f.log, 20, 60, 4096, got, 10, &count, &f.why);
        int dropped = log_drop_prefix(f.log, 40, &f.why);
        int prepared = log_prepare_spare(f.log, &f.why);
        int marked = log_mark(f.log, &f.why);
        mem_fail_never();
        free_entries(got, count);
        failed = read != 0 || dropped != 0 || prepared != 0 || marked != 0;
        append(&f, 61, 3, 1, 500); /* none of it was a failed write */
        check_entries(&f, 45, 63, 1, 500);
        fixture_fini(&f);
    }
}
