/* Some hours of virtual time. */
#include "tests/unit/sim/play.h"

#include <inttypes.h>

enum { SEEDS = 2000, SEEDS_OF_A_KIND = 500 };

static void play_range(sim_plan_maker *maker, uint64_t first, uint64_t count) {
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct sim_plan plan = maker(seed);
        struct sim_summary summary;
        sim_play_plan(&plan, NULL, &summary);
        cr_assert(summary.failure[0] == '\0', "simulate --world %s --seed %" PRIu64 ": %s",
                  sim_world_name(maker), seed, summary.failure);
    }
}

Test(sim_swarm_long, thousands_of_seeds_find_nothing) {
    play_range(sim_plan_mixed, 10000, SEEDS);
}

Test(sim_swarm_long, nor_on_disks_that_keep_what_they_have) {
    play_range(sim_plan_swarm, 10000, SEEDS_OF_A_KIND);
}

Test(sim_swarm_long, nor_on_disks_that_rot) {
    play_range(sim_plan_rot, 10000, SEEDS_OF_A_KIND);
}

Test(sim_swarm_long, nor_in_log_mode) {
    play_range(sim_plan_log, 10000, SEEDS_OF_A_KIND);
}

Test(sim_swarm_long, nor_in_log_mode_on_disks_that_rot) {
    play_range(sim_plan_log_rot, 10000, SEEDS_OF_A_KIND);
}
