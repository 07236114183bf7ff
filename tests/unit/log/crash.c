/* Some thousands of life stories; crash_long.c tells more. */
#include "tests/unit/log/crash_run.h"

#include <criterion/criterion.h>

static struct crash_counts run_seeds(uint64_t first, uint64_t count, bool rot) {
    struct crash_counts counts = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        char text[512] = "";
        struct crash_options options = {.steps = 10 + (unsigned)(seed % 7) * 8, .rot = rot};
        bool ok = crash_run(seed, &options, &counts, text, sizeof(text));
        cr_assert(ok, "seed %llu (steps %u, rot %d): %s", (ull)seed, options.steps, (int)rot, text);
    }
    return counts;
}

/* S24: the acknowledged is there; R1 to R3, S5, S8, S9, S10, S14; rules 2, 6 to 10, 14, 16. */
Test(log_crash, keeps_what_was_acknowledged_and_invents_nothing) {
    struct crash_counts counts = run_seeds(1, 3000, false);
    /* The stories really contain what they are about. */
    cr_assert_gt(counts.crashes, 1000);
    cr_assert_gt(counts.power_cuts, 1000);
    cr_assert_gt(counts.failed_opens, 1000);
    cr_assert_gt(counts.cuts, 1000);
    cr_assert_gt(counts.torn, 100);
    cr_assert_gt(counts.restarts, 100);
    cr_assert_gt(counts.superseded, 50);
    cr_assert_gt(counts.no_space, 10);
}

/* S2, S3: rot under a durable mark is damage; above it (the blind window) at most that entry and
 * what follows is cut off; one vote slot may rot; a header may not. */
Test(log_crash, reports_rot_of_what_was_acknowledged) {
    struct crash_counts counts = run_seeds(1000000, 2500, true);
    cr_assert_gt(counts.rot_covered, 500);
    cr_assert_gt(counts.rot_blind, 20);
    cr_assert_gt(counts.rot_header, 100);
    cr_assert_gt(counts.rot_slot, 100);
}
