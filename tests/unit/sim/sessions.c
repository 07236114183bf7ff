/* Sessions on whole nodes, whose clients repeat through any node what they are in doubt about. The world
 * checks that a repeated number has the first answer, that none takes effect twice, and that no session
 * ends early. Ids as in the catalogue of faults. */
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

static struct sim_plan plan_with_sessions(uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.clients = 6;
    plan.keys = 8;
    plan.op_pause_ns = 10 * MS_NS;
    plan.timeout_ms = 400;
    plan.session_permille = 1000;
    plan.session_ttl_ms = 60000;
    return plan;
}

/* Each round something else happens to the leader. */
static void strike(struct play *play, unsigned round) {
    struct sim_world *world = play->world;
    struct sim_node *leader = play_leader(play, 10000);
    switch (round % 4) {
    case 0: sim_node_crash(leader, true); break;
    case 1: sim_isolate(world, leader->number, world->time.now_ns + 2000 * MS_NS); break;
    case 2: (void)sim_net_reset(&world->net, leader->number); break;
    default: sim_node_close(leader, 0); break;
    }
    sim_world_run_ms(world, 1500);
    if (leader->state == SIM_DOWN) {
        sim_node_start(leader);
    }
}

Test(sim_sessions, c1_c5_x_a10_a_repeated_number_is_done_once_at_whichever_node) {
    uint64_t repeated = 0;
    for (uint64_t seed = 3000; seed < 3010; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_with_sessions(seed);
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        sim_load_start(play.world);
        for (unsigned round = 0; round < 8; round++) {
            strike(&play, round);
        }
        play_agree(&play);
        repeated += play.world->counts.repeated;
        play_end(&play);
    }
    cr_expect(repeated > 20 / LKV_STRIDE, "only %d were repeated", (int)repeated);
}

/* The same with little log and many images: what a node answers with is from the image. */
Test(sim_sessions, c2_x_a10_also_across_leaders_restarts_and_images) {
    uint64_t repeated = 0, images = 0;
    for (uint64_t seed = 3100; seed < 3110; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_with_sessions(seed);
        plan.image_log_bytes = 4096;
        plan.segment_bytes = 8 * 1024;
        plan.keep_entries = 0;
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        sim_load_start(play.world);
        for (unsigned round = 0; round < 8; round++) {
            strike(&play, round);
        }
        for (size_t i = 0; i < plan.nodes; i++) {
            sim_node_crash(&play.world->nodes[i], true);
            sim_node_restart_in(&play.world->nodes[i], 10 * i);
        }
        sim_world_run_ms(play.world, 3000);
        play_agree(&play);
        repeated += play.world->counts.repeated;
        images += play.world->counts.images;
        play_end(&play);
    }
    cr_expect(repeated > 20 / LKV_STRIDE, "only %d were repeated", (int)repeated);
    cr_expect(images > 5 / LKV_STRIDE, "only %d images were installed", (int)images);
}

/* The old leader goes on counting, and proposes the end as well; it cannot decide it. */
Test(sim_sessions, c4_a_session_ends_by_an_entry_while_the_old_leader_still_runs) {
    uint64_t expired = 0;
    for (uint64_t seed = 3200; seed < 3220; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_with_sessions(seed);
        plan.session_ttl_ms = 1000;
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        sim_load_start(play.world);
        sim_world_run_ms(play.world, 1000);
        sim_load_stop(play.world); /* nobody says keep-alive from now on */
        const struct sim_node *old = play_leader(&play, 3000);
        sim_world_run_ms(play.world, 40 * (seed - 3200));
        sim_isolate(play.world, old->number, UINT64_MAX);
        sim_world_run_ms(play.world, 4000);
        expired += play.world->counts.expired;
        sim_rejoin(play.world, old->number);
        sim_load_start(
            play.world); /* C3: each learns that its session is unknown, and opens another */
        sim_world_run_ms(play.world, 3000);
        play_agree(&play);
        play_end(&play);
    }
    cr_expect(expired > 40 / LKV_STRIDE, "only %d ended", (int)expired);
}

/* Rule 26: what its clients said while the process stood still was not heard, so that time does not count. */
Test(sim_sessions, c4_no_session_ends_for_the_time_in_which_the_leader_stood_still) {
    struct sim_plan plan = plan_with_sessions(3300);
    plan.nodes = 1;
    plan.session_ttl_ms = 4000;
    struct play play = play_begin(&plan);
    struct sim_node *only = play_leader(&play, 3000);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 1000);
    cr_assert(play.world->counts.sessions > 0);
    sim_load_stop(play.world); /* nobody says keep-alive from now on */
    sim_world_run_ms(play.world, 1000);
    sim_loop_pause(&only->loop, 20000 * MS_NS);
    sim_world_run_ms(play.world, 20500);
    cr_expect(play.world->counts.expired == 0, "%d ended", (int)play.world->counts.expired);
    sim_world_run_ms(play.world, 4000);
    cr_expect(play.world->counts.expired > 0, "none ended");
    play_agree(&play);
    play_end(&play);
}

/* Rule 26: a leader's clocks start anew with each term: in between others have heard keep-alives, which are no
 * entries. The world checks that no session ends early. */
Test(sim_sessions, c4_clocks_of_an_earlier_term_end_no_session) {
    unsigned again = 0;
    for (uint64_t seed = 3400; seed<3408; seed += LKV_STRIDE> 1 ? 2 : 1) {
        struct sim_plan plan = plan_with_sessions(seed);
        plan.session_ttl_ms = 5000;
        plan.keep_permille = 1000;
        struct play play = play_begin(&plan);
        struct sim_node *first = play_leader(&play, 3000);
        sim_load_start(play.world);
        sim_world_run_ms(play.world, 1000);
        sim_load_stop(play.world);
        sim_world_run_ms(play.world, 4000);
        cr_expect(play.world->counts.expired == 0);
        sim_isolate(play.world, first->number, UINT64_MAX);
        sim_world_run_ms(play.world, 2000);
        sim_load_start(play.world);
        sim_world_run_ms(play.world, 3000);
        sim_load_stop(play.world);
        sim_rejoin(play.world, first->number);
        sim_world_run_ms(play.world, 500);
        sim_isolate(play.world, play_leader(&play, 0)->number, UINT64_MAX);
        sim_world_run_ms(play.world, 3500);
        again += sim_node_leads(first) ? 1 : 0;
        play_agree(&play);
        play_end(&play);
    }
    cr_expect(again > 0, "no node led twice");
}
