/* Loops that stand still, and clocks that run apart. Ids as in the catalogue of faults. */
#include "tests/unit/sim/play.h"

enum { PAUSE_MS = 2000, READS = 20 };

/* T4: it was leader when its loop stopped, and reads wait at it when it goes on. The world checks that no
 * read shows what is older than what was acknowledged before it began. */
static void block_leader(uint64_t seed, bool reads_before) {
    struct sim_plan plan = sim_plan_calm(seed);
    struct play play = play_begin(&plan);
    struct sim_node *old = play_leader(&play, 3000);
    uint64_t term = old->node->term;
    play_put(&play, 1);
    sim_loop_pause(&old->loop, PAUSE_MS * MS_NS);
    int ends[READS] = {0};
    for (size_t i = 0; reads_before && i < READS; i++) {
        sim_submit(old, SIM_GET, 1, 5000, &ends[i]);
    }
    while (sim_world_leader(play.world) == old) {
        sim_world_run_ms(play.world, 10); /* the others elect one of them */
    }
    cr_assert(sim_world_now_ms(play.world) < 3000 + PAUSE_MS, "nobody else leads");
    play_put(&play, 1);
    for (size_t i = 0; !reads_before && i < READS; i++) {
        sim_submit(old, SIM_GET, 1, 5000, &ends[i]); /* at once when it goes on */
    }
    sim_world_run_ms(play.world, 2 * PAUSE_MS);
    bool still = sim_node_leads(old) && old->node->term == term;
    cr_expect(still == false, "it still leads in its old term");
    for (size_t i = 0; i < READS; i++) {
        bool known = ends[i] == 1 + (int)LKV_DONE || ends[i] == 1 + (int)LKV_NOT_DONE;
        cr_expect(known, "read %d: %d", (int)i, ends[i]);
    }
    play_agree(&play);
    play_end(&play);
}

Test(sim_clocks, t4_a_leader_whose_loop_stood_still_shows_nothing_old) {
    for (uint64_t seed = 5000; seed < 5020; seed++) {
        block_leader(seed, seed % 2 == 0);
    }
}

/* T3, without leases yet: clocks one percent apart elect nobody, and end no session early (the world
 * checks the latter). */
Test(sim_clocks, t3_clocks_that_drift_apart_elect_nobody) {
    for (uint64_t seed = 5100; seed < 5110; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        plan.drift_ppm = 10000;
        plan.clients = 4;
        plan.session_permille = 500;
        plan.session_ttl_ms = 1000;
        struct play play = play_begin(&plan);
        struct sim_node *leader = play_leader(&play, 3000);
        uint64_t term = leader->node->term;
        sim_load_start(play.world);
        sim_world_run_ms(play.world, 60000);
        bool same = sim_node_leads(leader) && leader->node->term == term;
        cr_expect(same, "another term");
        cr_expect(play.world->counts.sessions > 0);
        play_agree(&play);
        play_end(&play);
    }
}
