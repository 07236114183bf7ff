/* The hunt: LOG_MEND_SEEDS (default 50000), LOG_MEND_FIRST; LOG_MEND_VERBOSE=1 with LOG_MEND_SEEDS=1
 * tells one seed's story. */
#include "tests/unit/log/mend_run.h"

#include <criterion/criterion.h>

Test(log_mend_long, finds_nothing) {
    uint64_t first = run_number_from("LOG_MEND_FIRST", 0);
    uint64_t count = run_number_from("LOG_MEND_SEEDS", 50000);
    bool verbose = run_number_from("LOG_MEND_VERBOSE", 0) != 0;
    struct mend_counts counts = {0};
    uint64_t failed = 0;
    for (uint64_t seed = first; seed < first + count && failed < 5; seed++) {
        char text[512] = "";
        if (!mend_run(seed, verbose, &counts, text, sizeof(text))) {
            (void)printf("seed %llu: %s\n", (ull)seed, text);
            (void)fflush(stdout);
            failed++;
        }
    }
    (void)printf("%llu seeds: %llu damages, %llu opens, %llu crashes, %llu gaps, %llu fills (%llu "
                 "entries), %llu no space, %llu unknown ends (%llu conflicts), %llu appended, %llu "
                 "cuts, %llu blind, %llu without an image, %llu whole\n",
                 (ull)count, (ull)counts.damages, (ull)counts.opens, (ull)counts.crashes,
                 (ull)counts.gaps, (ull)counts.fills, (ull)counts.filled, (ull)counts.no_space,
                 (ull)counts.unknown_ends, (ull)counts.conflicts, (ull)counts.appends,
                 (ull)counts.cuts, (ull)counts.blind, (ull)counts.other_image, (ull)counts.whole);
    cr_assert_eq(failed, 0);
}
