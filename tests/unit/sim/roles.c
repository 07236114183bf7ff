/* What the embedding program is told of roles, and that the node keeps still while it acts (rule 31). The
 * order of the messages is checked after every callback by world_roles.c. */
#include "tests/unit/sim/play.h"

static uint64_t told(const struct sim_world *world, bool ready) {
    uint64_t sum = 0;
    for (size_t i = 0; i < world->plan.nodes; i++) {
        const struct sim_program *program = &world->nodes[i].program;
        sum += ready ? program->ready : program->stepped_down;
    }
    return sum;
}

/* X-H4, L20: the old leader's program frees stepping_down late; meanwhile the cluster has gone so far
 * that only an image helps. It must not be put in before. */
Test(sim_roles, an_image_of_a_later_term_waits_for_the_program) {
    struct sim_plan plan = sim_plan_calm(5);
    plan.clients = 3;
    plan.op_pause_ns = 10 * MS_NS;
    plan.keep_entries = 0;
    plan.image_log_bytes = 1024;
    plan.segment_bytes = 4096;
    plan.late_permille = 1000;
    plan.fault_ms_max = 8000;
    uint64_t waited = 0, images = 0;
    for (plan.seed = 1; plan.seed <= 40; plan.seed++) {
        struct play play = play_begin(&plan);
        struct sim_node *old = play_leader(&play, 3000);
        sim_load_start(play.world);
        sim_world_run_ms(play.world, 500);
        sim_isolate(play.world, old->number, UINT64_MAX);
        sim_world_run_ms(play.world, 2500);
        sim_rejoin(play.world, old->number);
        for (int i = 0; i < 120; i++) {
            sim_world_run_ms(play.world, 100);
            waited += old->program.held != NULL && old->node->installing;
        }
        cr_expect(old->program.held == NULL);
        cr_expect(told(play.world, true) >= 2);
        cr_expect(told(play.world, false) >= 1);
        images += play.world->counts.images;
        play_end(&play);
    }
    cr_expect(images > 0);
    cr_expect(waited > 0, "no program was late enough for the test to show anything");
}
