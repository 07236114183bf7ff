/* The seeded test must find it when the disk, or the log, does not keep its part. */
#include "tests/unit/log/crash_run.h"

#include <criterion/criterion.h>

static bool finds_something(const struct crash_options *options, uint64_t seeds) {
    struct crash_counts counts = {0};
    for (uint64_t seed = 0; seed < seeds; seed++) {
        char text[512] = "";
        if (!crash_run(seed, options, &counts, text, sizeof(text))) {
            return true;
        }
    }
    return false;
}

/* S13: renames and creations without the directory's sync. */
Test(log_mutants, a_log_without_directory_syncs_is_found_out) {
    struct crash_options options = {.steps = 30, .ignore_sync_dir = true};
    cr_assert(finds_something(&options, 50));
}

Test(log_mutants, a_log_without_syncs_is_found_out) {
    struct crash_options options = {.steps = 30, .ignore_sync = true};
    cr_assert(finds_something(&options, 50));
}

Test(log_mutants, an_honest_disk_is_not) {
    struct crash_options options = {.steps = 30};
    cr_assert(!finds_something(&options, 50));
}
