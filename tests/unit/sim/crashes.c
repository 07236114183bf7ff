/* Crashes at every disk operation of what must be durable, on whole nodes. What must hold (one leader a
 * term, nothing acknowledged is lost, no second payload under an index and term) is checked by the world
 * after each callback. Ids as in the catalogue of faults. */
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

enum { OPERATIONS = 40, PUTS = 100 };

/* The leader dies; a voter of the election that follows dies within its k-th operation. */
static void crash_voter(uint64_t seed, uint64_t k, bool power) {
    struct sim_plan plan = sim_plan_calm(seed);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    struct sim_node *voter = play_follower(&play, leader);
    play_put(&play, 1);
    sim_world_run_ms(play.world, 200);
    sim_node_crash(leader, power);
    sim_disk_crash_at(voter->disk, sim_disk_op_count(voter->disk) + k);
    sim_world_run_ms(play.world, 2000);
    sim_node_restart_in(leader, 0);
    (void)play_leader(&play, 10000);
    play_put(&play, 2);
    play_agree(&play);
    play_end(&play);
}

Test(sim_crashes, r1_r2_r6_a_voter_dies_at_each_operation_of_its_vote) {
    for (uint64_t k = 0; k < OPERATIONS; k += LKV_STRIDE) {
        crash_voter(100 + k, k, k % 2 == 0);
    }
}

Test(sim_crashes, r3_a_voter_whose_disk_fails_grants_nothing) {
    struct sim_plan plan = sim_plan_calm(30);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    struct sim_node *voter = play_follower(&play, leader);
    sim_world_run_ms(play.world, 500);
    voter->disk_failed = true;
    sim_disk_fail(voter->disk, SIM_WRITE | SIM_SYNC, 0, LKV_EIO, true);
    sim_node_crash(leader, true);
    /* It stops; until its supervisor has started it again, on a disk that is well, nobody leads. */
    unsigned lives = voter->lives;
    uint64_t begun_ms = sim_world_now_ms(play.world);
    while (voter->lives == lives && sim_world_now_ms(play.world) < begun_ms + 5000) {
        cr_assert(sim_world_leader(play.world) == NULL);
        sim_world_run_ms(play.world, 10);
    }
    cr_expect(voter->lives > lives, "it did not stop");
    play_agree(&play);
    play_end(&play);
}

/* R5: a leader dies within its k-th operation under load, so that it has shipped what its own disk may
 * not hold, and comes back to the same peers. */
static void crash_leader(uint64_t seed, uint64_t k) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.clients = 4;
    plan.op_pause_ns = 5 * MS_NS;
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 300);
    sim_disk_crash_at(leader->disk, sim_disk_op_count(leader->disk) + k);
    sim_world_run_ms(play.world, 3000);
    play_agree(&play);
    play_end(&play);
}

Test(sim_crashes, r5_a_leader_dies_at_each_operation_of_its_writes) {
    for (uint64_t k = 0; k < OPERATIONS; k += LKV_STRIDE) {
        crash_leader(200 + k, k);
    }
}

Test(sim_crashes, s24_all_lose_their_power_under_load) {
    for (uint64_t seed = 300; seed < 320; seed += LKV_STRIDE) {
        struct sim_plan plan = sim_plan_calm(seed);
        plan.clients = 8;
        plan.op_pause_ns = 5 * MS_NS;
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        sim_load_start(play.world);
        sim_world_run_ms(play.world, 500 + seed);
        for (size_t i = 0; i < plan.nodes; i++) {
            sim_node_crash(&play.world->nodes[i], true);
        }
        play_agree(&play);
        play_end(&play);
    }
}

Test(sim_crashes, a_new_directory_survives_a_power_cut_of_its_node) {
    struct sim_plan plan = sim_plan_calm(31);
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    for (size_t i = 0; i < plan.nodes; i++) { /* it would come back as a stranger */
        sim_node_crash(&play.world->nodes[i], true);
        sim_node_restart_in(&play.world->nodes[i], 0);
        sim_world_run_ms(play.world, 1000);
        cr_assert(play.world->nodes[i].node->running);
    }
    play_agree(&play);
    play_end(&play);
}

Test(sim_crashes, x_a6_a_restarted_node_leads_before_one_that_was_away) {
    struct sim_plan plan = sim_plan_calm(32);
    struct play play = play_begin(&plan);
    struct sim_node *a = play_leader(&play, 3000);
    struct sim_node *b = play_follower(&play, a);
    struct sim_node *c = &play.world->nodes[3 - a->number - b->number];
    sim_isolate(play.world, c->number, UINT64_MAX);
    for (uint32_t key = 0; key < PUTS; key++) {
        play_put(&play, key);
    }
    sim_world_run_ms(play.world, 30000);
    sim_node_crash(b, true);
    sim_node_start(b);
    sim_world_run_ms(play.world, 1000);
    sim_rejoin(play.world, c->number);
    sim_node_crash(a, true);
    cr_expect(play_leader(&play, 10 * ELECTION_MS) == b);
    play_agree(&play);
    play_end(&play);
}

Test(sim_crashes, x_a12_each_of_a_hundred_puts_of_an_isolated_leader_ends_once) {
    struct sim_plan plan = sim_plan_calm(33);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    static int ends[PUTS];
    memset(ends, 0, sizeof(ends));
    sim_isolate(play.world, leader->number, UINT64_MAX);
    for (size_t i = 0; i < PUTS; i++) {
        sim_submit(leader, SIM_PUT, (uint32_t)i, 2000, &ends[i]);
        sim_world_run_ms(play.world, 15); /* some before it steps down, some after */
    }
    sim_world_run_ms(play.world, 2500);
    for (size_t i = 0; i < PUTS; i++) {
        cr_expect(ends[i] == 1 + (int)LKV_UNKNOWN || ends[i] == 1 + (int)LKV_NOT_DONE);
    }
    cr_expect(ends[0] == 1 + (int)LKV_UNKNOWN);
    cr_expect(ends[PUTS - 1] == 1 + (int)LKV_NOT_DONE);
    play_agree(&play);
    play_end(&play);
}

/* What the log missed at its opening, whether it was mended since or not. */
static bool mended_any(const struct play *play) {
    bool mended = false;
    for (size_t i = 0; i < play->world->plan.nodes; i++) {
        const struct node *node = play->world->nodes[i].node;
        mended |= node != NULL && node->repair.log_why.text[0] != '\0';
    }
    return mended;
}

Test(sim_crashes, a_disk_that_lies_about_its_syncs_is_noticed) {
    size_t noticed = 0;
    for (uint64_t seed = 400; seed < 410; seed++) { /* the net itself: it must not be blind */
        struct sim_plan plan = sim_plan_calm(seed);
        plan.clients = 4;
        plan.op_pause_ns = 5 * MS_NS;
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        sim_load_start(play.world);
        sim_world_run_ms(play.world, 1000);
        for (size_t i = 0; i < plan.nodes; i++) {
            sim_disk_ignore_sync(play.world->nodes[i].disk, true);
        }
        sim_world_run_ms(play.world, 1000);
        for (size_t i = 0; i < plan.nodes; i++) {
            sim_node_crash(&play.world->nodes[i], true);
            play.world->nodes[i].damaged = true; /* refusing to start would be right, too */
            sim_node_restart_in(&play.world->nodes[i], 0);
        }
        sim_world_run_ms(play.world, 5000);
        noticed +=
            sim_world_failed(play.world) || play.world->counts.refused > 0 || mended_any(&play);
        sim_world_free(play.world);
        sim_story_free(play.story);
    }
    cr_expect(noticed > 5, "%d of 10", (int)noticed);
}
