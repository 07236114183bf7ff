/* Numbers of a plan by name, and the way from a failing plan to a simple one. */
#include "tests/sim/shrink.h"
#include "tests/sim/plan_text.h"

#include <criterion/criterion.h>

Test(shrink, every_number_has_a_name_of_its_own_and_can_be_set) {
    struct sim_plan plan = sim_plan_mixed(7);
    for (size_t i = 0; i < sim_plan_numbers(); i++) {
        for (size_t other = 0; other < i; other++) {
            cr_assert_str_neq(sim_plan_name(i), sim_plan_name(other));
        }
        char text[100];
        int64_t value = strcmp(sim_plan_name(i), "faults_at_founding") == 0 ||
                                strcmp(sim_plan_name(i), "log_mode") == 0 ||
                                strcmp(sim_plan_name(i), "own_mode") == 0 ||
                                strcmp(sim_plan_name(i), "rot_writes") == 0 ||
                                strcmp(sim_plan_name(i), "net.retransmit_backoff") == 0
                            ? !sim_plan_number(&plan, i)
                            : sim_plan_number(&plan, i) + 3;
        (void)snprintf(text, sizeof(text), "%s=%lld", sim_plan_name(i), (long long)value);
        cr_assert(sim_plan_set(&plan, text), "%s", text);
        cr_assert_eq(sim_plan_number(&plan, i), value, "%s", text);
    }
    cr_expect(!sim_plan_set(&plan, "nodes"));
    cr_expect(!sim_plan_set(&plan, "nodes=three"));
    cr_expect(!sim_plan_set(&plan, "nodes=3x"));
    cr_expect(!sim_plan_set(&plan, "node=3"));
}

/* Heartbeats rarer than elections: nobody ever leads for long, and nothing else is to blame. */
Test(shrink, what_does_not_matter_goes_and_what_matters_stays) {
    struct sim_plan plan = sim_plan_swarm(11);
    plan.election_ms = 150;
    plan.heartbeat_ms = 100000;
    plan.nodes = 3;
    plan.chaos_ms = 3000;
    struct sim_summary summary;
    sim_play_apart(&plan, &summary);
    cr_assert(summary.failure[0] != '\0');
    FILE *quiet = fopen("/dev/null", "w");
    cr_assert(sim_shrink(&plan, summary.failure, 300, quiet) > 0);
    (void)fclose(quiet);
    for (size_t i = 0; i < SIM_FAULTS; i++) {
        cr_expect_eq(plan.weights[i], 0, "%s", sim_fault_name((enum sim_fault_kind)i));
    }
    cr_expect_eq(plan.clients, 0);
    cr_expect_neq(plan.heartbeat_ms, sim_plan_calm(11).heartbeat_ms);
    struct sim_summary again;
    sim_play_apart(&plan, &again);
    cr_expect(again.failure[0] != '\0');
}
