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

/* T4 with leases: the same, asked in the way that no quorum confirms. On the caller's thread, too. */
static void block_leader_with_a_lease(uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.lease_reads = SIM_LEASE_READS_ON;
    struct play play = play_begin(&plan);
    struct sim_node *old = play_leader(&play, 3000);
    play_put(&play, 1);
    sim_world_run_ms(play.world, 200);
    struct sim_counts *counts = &play.world->counts;
    int done = 0;
    sim_submit_read(old, 1, LKV_LEASED, 5000, &done);
    cr_expect(done == 1 + (int)LKV_DONE && counts->leased_here == 1, "there is no lease");
    sim_loop_pause(&old->loop, PAUSE_MS * MS_NS);
    while (sim_world_leader(play.world) == old) {
        sim_world_run_ms(play.world, 10);
    }
    play_put(&play, 1);
    int ends[READS] = {0};
    for (size_t i = 0; i < READS; i++) { /* at once when it goes on */
        sim_submit_read(old, 1, LKV_LEASED, 5000, &ends[i]);
    }
    cr_expect(counts->leased_here == 1, "its lease is over");
    sim_world_run_ms(play.world, 2 * PAUSE_MS);
    for (size_t i = 0; i < READS; i++) {
        bool known = ends[i] == 1 + (int)LKV_DONE || ends[i] == 1 + (int)LKV_NOT_DONE;
        cr_expect(known, "read %d: %d", (int)i, ends[i]);
    }
    play_agree(&play);
    play_end(&play);
}

Test(sim_clocks, t4_a_leader_whose_loop_stood_still_has_no_lease) {
    for (uint64_t seed = 5200; seed < 5220; seed++) {
        block_leader_with_a_lease(seed);
    }
}

/* T3 with leases: clocks one percent apart, the option says two, and leaders that are cut off, restarted, paused,
 * or hand over. The world judges leased reads as linearizable ones. */
Test(sim_clocks, t3_clocks_that_drift_apart_make_no_lease_too_long) {
    uint64_t leased = 0, here = 0;
    for (uint64_t seed = 5300; seed < 5310; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        plan.drift_ppm = 10000;
        plan.clients = 8;
        plan.op_pause_ns = 5 * MS_NS;
        plan.lease_reads = SIM_LEASE_READS_ON;
        plan.leased_permille = 900;
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        sim_load_start(play.world);
        for (size_t i = 0; i < 12; i++) {
            sim_world_run_ms(play.world, 700);
            struct sim_node *leader = sim_world_leader(play.world);
            if (leader == NULL) {
                continue;
            }
            if (i % 3 == 0) {
                sim_isolate(play.world, leader->number, play.world->time.now_ns + 900 * MS_NS);
            } else if (i % 3 == 1) {
                sim_loop_pause(&leader->loop, 600 * MS_NS);
            } else {
                struct sim_node *voter = play_follower(&play, leader);
                if (voter->state == SIM_UP) {
                    sim_node_crash(voter, false);
                    sim_node_restart_in(voter, 20);
                }
            }
        }
        leased += play.world->counts.leased;
        here += play.world->counts.leased_here;
        play_agree(&play);
        play_end(&play);
    }
    cr_expect_gt(leased, 1000);
    cr_expect_gt(here, 300);
}

/* T3: clocks one percent apart elect nobody, and end no session early (the world checks the latter). */
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
