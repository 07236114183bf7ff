/* Some hours of virtual time. */
#include "tests/unit/sim/play.h"

#include <inttypes.h>

enum { SEEDS = 3000 };

Test(sim_swarm_long, thousands_of_seeds_find_nothing) {
    for (uint64_t seed = 10000; seed < 10000 + SEEDS; seed++) {
        struct sim_summary summary;
        sim_play(seed, NULL, &summary);
        cr_assert(summary.failure[0] == '\0', "seed %" PRIu64 ": %s", seed, summary.failure);
    }
}
