/* Some hundreds of stories of damage and repair; mend_long.c tells more. */
#include "tests/unit/log/mend_run.h"

#include <criterion/criterion.h>

/* S2, S3, S4, S6, S11, rule 11: what is damaged is named, read around, filled, and never forgotten. */
Test(log_mend, repairs_what_was_damaged_whenever_it_dies) {
    struct mend_counts counts = {0};
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        char text[512] = "";
        bool ok = mend_run(seed, false, &counts, text, sizeof(text));
        cr_assert(ok, "seed %llu: %s", (ull)seed, text);
    }
    /* The stories really contain what they are about. */
    cr_assert_gt(counts.whole, 1000);
    cr_assert_gt(counts.filled, 3000);
    cr_assert_gt(counts.crashes, 1000);
    cr_assert_gt(counts.unknown_ends, 50);
    cr_assert_gt(counts.conflicts, 20);
    cr_assert_gt(counts.cuts, 100);
    cr_assert_gt(counts.no_space, 10);
    cr_assert_gt(counts.other_image, 50);
}
