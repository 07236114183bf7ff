/* Whether every kind of fault that the swarm knows happens at all: one that never does is a hole in the net
 * that nobody sees. */
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

#include <inttypes.h>

enum { SEEDS = 200 };

/* As the seed says, but shorter; so that there are images all the same, they come sooner. */
static struct sim_plan plan_of(uint64_t seed) {
    struct sim_plan plan = sim_plan_mixed(seed);
    plan.chaos_ms = plan.chaos_ms < 10000 ? plan.chaos_ms : 10000;
    plan.clients = plan.clients < 8 ? plan.clients : 8;
    plan.depth = plan.depth < 4 ? plan.depth : 4;
    plan.image_log_bytes = plan.image_log_bytes < 1024 ? plan.image_log_bytes : 1024;
    return plan;
}

Test(sim_fault_kinds, over_some_hundred_seeds_each_one_happens) {
    struct sim_summary total = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_of(seed);
        struct sim_summary summary;
        sim_play_plan(&plan, NULL, &summary);
        cr_expect(summary.failure[0] == '\0', "seed %" PRIu64 ": %s", seed, summary.failure);
        sim_summary_add(&total, &summary);
    }
    if (LKV_STRIDE > 1) { /* too few of them to tell */
        return;
    }
    for (size_t i = 0; i < sim_fired_kinds(); i++) {
        cr_expect(sim_fired(&total, i) > 0, "%s never happened", sim_fired_name(i));
    }
    cr_expect(total.counts.majorities > 0 && total.counts.reports > 0);
    cr_expect(total.counts.excused < total.counts.majorities / 20, "%d of %d majorities",
              (int)total.counts.excused, (int)total.counts.majorities);
}
