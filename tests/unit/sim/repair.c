/* Disks that rot, on whole nodes (rule 11). What must hold (nothing acknowledged is lost or invented) is
 * checked by the world after each callback; here it is also that all comes back. */
#include "tests/unit/sim/play.h"

enum { SCRUB_MS = 2400 };

static struct sim_plan plan_of(uint64_t seed, size_t nodes) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.nodes = nodes;
    plan.segment_bytes = 4 * 1024;
    plan.image_log_bytes = 1024 * 1024; /* none by itself */
    return plan;
}

static void put_some(struct play *play, uint32_t count) {
    for (uint32_t key = 0; key < count; key++) {
        play_put(play, key % 8);
    }
    sim_world_run_ms(play->world, 200); /* idle: all is marked */
    for (size_t i = 0; i < play->world->plan.nodes; i++) {
        cr_assert(sim_rot_possible(&play->world->nodes[i]), "%s", play->world->failure);
    }
}

static void restart(struct play *play, struct sim_node *node) {
    sim_node_crash(node, true);
    sim_node_restart_in(node, 0);
    sim_world_run_ms(play->world, 200);
}

/* ------------------------------------------------------------------ alone: nobody helps */

Test(sim_repair, the_scrub_of_a_lone_node_covers_a_rotten_entry_with_an_image) {
    struct sim_plan plan = plan_of(1, 1);
    plan.scrub_ms = SCRUB_MS;
    struct play play = play_begin(&plan);
    struct sim_node *node = play_leader(&play, 3000);
    put_some(&play, 60);
    cr_assert(node->node->image_index == 0);
    cr_assert(sim_rot_entry(node, 20, SIM_ROT_BIT));
    sim_world_run_ms(play.world, 2 * SCRUB_MS);
    cr_expect(node->node->image_index >= 60);
    restart(&play, node); /* without that image it would be refused */
    play_agree(&play);
    play_end(&play);
}

Test(sim_repair, the_scrub_writes_a_rotten_image_anew) {
    for (enum sim_rot_kind kind = SIM_ROT_BIT; kind <= SIM_ROT_LOST; kind++) {
        struct sim_plan plan = plan_of(2, 1);
        plan.scrub_ms = SCRUB_MS;
        plan.image_log_bytes = 2 * 1024;
        plan.keep_entries = 0;
        struct play play = play_begin(&plan);
        struct sim_node *node = play_leader(&play, 3000);
        put_some(&play, 80);
        cr_assert(node->node->image_index > 0);
        cr_assert(sim_rot_image(node, kind));
        sim_world_run_ms(play.world, 2 * SCRUB_MS);
        restart(&play, node);
        cr_expect(sim_node_runs(node), "after rot %d", (int)kind);
        play_agree(&play);
        play_end(&play);
    }
}
