/* The hunt: as many seeds as asked for. LOG_CRASH_SEEDS (default 200000), LOG_CRASH_FIRST,
 * LOG_CRASH_VERBOSE=1 with LOG_CRASH_SEEDS=1 tells one seed's story. */
#include "tests/unit/log/crash_run.h"

#include <criterion/criterion.h>

Test(log_crash_long, finds_nothing) {
    uint64_t first = run_number_from("LOG_CRASH_FIRST", 0);
    uint64_t count = run_number_from("LOG_CRASH_SEEDS", 200000);
    struct crash_counts counts = {0};
    struct crash_options options = {.verbose = run_number_from("LOG_CRASH_VERBOSE", 0) != 0};
    uint64_t failed = 0;
    for (uint64_t seed = first; seed < first + count && failed < 5; seed++) {
        char text[512] = "";
        options.steps = 10 + (unsigned)(seed % 7) * 10;
        options.rot = seed % 3 == 0;
        if (!crash_run(seed, &options, &counts, text, sizeof(text))) {
            (void)printf("seed %llu: %s\n", (ull)seed, text);
            (void)fflush(stdout);
            failed++;
        }
    }
    (void)printf("%llu seeds: %llu opens (%llu failed), %llu crashes, %llu power cuts, %llu faults "
                 "(%llu no space), %llu cuts, %llu torn, %llu restarts (%llu superseded), %llu "
                 "reads; rot: %llu covered, %llu blind, %llu headers, %llu slots\n",
                 (ull)count, (ull)counts.opens, (ull)counts.failed_opens, (ull)counts.crashes,
                 (ull)counts.power_cuts, (ull)counts.faults, (ull)counts.no_space, (ull)counts.cuts,
                 (ull)counts.torn, (ull)counts.restarts, (ull)counts.superseded, (ull)counts.reads,
                 (ull)counts.rot_covered, (ull)counts.rot_blind, (ull)counts.rot_header,
                 (ull)counts.rot_slot);
    cr_assert_eq(failed, 0);
}
