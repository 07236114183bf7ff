/* Conditions, counters and transactions in whole clusters: each answer is that of its entry, whoever leads,
 * dies or installs an image meanwhile. Ids as in the catalogue of faults. */
#include "tests/unit/sim/play.h"

static struct play begin(uint64_t seed, uint32_t session_permille) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.clients = 6;
    plan.depth = 4;
    plan.remotes = 2;
    plan.remote_permille = 500;
    plan.op_pause_ns = 4 * MS_NS;
    plan.write_permille = 900;
    plan.session_permille = session_permille;
    plan.timeout_ms = 300; /* much is in doubt */
    plan.session_ttl_ms = 60000;
    plan.image_log_bytes = 4096;
    plan.keep_entries = 10;
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    return play;
}

static void run_through_deaths(struct play *play) {
    sim_load_start(play->world);
    for (size_t i = 0; i < 6; i++) {
        sim_world_run_ms(play->world, 700);
        struct sim_node *node =
            i % 2 == 0 ? play_leader(play, 5000) : &play->world->nodes[i % play->world->plan.nodes];
        sim_node_crash(node, i % 3 == 0);
        sim_world_run_ms(play->world, 1200);
        sim_node_start(node);
    }
    sim_world_run_ms(play->world, 1000);
}

Test(sim_writes, c2_c15_each_is_carried_out_as_one_or_not_at_all) {
    struct play play = begin(420, 0);
    run_through_deaths(&play);
    for (size_t shape = 0; shape < 9; shape++) {
        cr_expect_gt(play.world->counts.writes[shape], 5, "shape %zu", shape);
    }
    cr_expect_gt(play.world->counts.writes_refused, 200);
    cr_expect_gt(play.world->counts.images, 0);
    play_agree(&play);
    play_end(&play);
}

/* C5, S19: the model adds each step once, and what is repeated finds the first answer. */
Test(sim_writes, c5_s19_counters_are_exact_however_often_they_are_sent) {
    struct play play = begin(421, 900);
    run_through_deaths(&play);
    cr_expect_gt(play.world->counts.writes[5], 100, "adds");
    cr_expect_gt(play.world->counts.repeated, 3);
    play_agree(&play);
    play_end(&play);
}
