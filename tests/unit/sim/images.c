/* Images between nodes while everything goes on, and bytes of earlier connections. */
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

static struct sim_plan plan_with_images(uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.clients = 8;
    plan.keys = 100;
    plan.value_bytes_max = 4000;
    plan.op_pause_ns = 20 * MS_NS;
    plan.segment_bytes = 16 * 1024;
    plan.image_log_bytes = 32 * 1024;
    plan.keep_entries = 5;
    return plan;
}

static struct play begin_with_laggard(const struct sim_plan *plan, struct sim_node **laggard) {
    struct play play = play_begin(plan);
    struct sim_node *leader = play_leader(&play, 3000);
    *laggard = play_follower(&play, leader);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 500);
    sim_node_crash(*laggard, true);
    sim_world_run_ms(play.world, 4000);
    return play;
}

Test(sim_images, p1_a_laggard_takes_an_image_while_writes_go_on) {
    struct sim_plan plan = plan_with_images(40);
    struct sim_node *laggard;
    struct play play = begin_with_laggard(&plan, &laggard);
    sim_node_start(laggard);
    sim_world_run_ms(play.world, 4000);
    cr_expect(play.world->counts.images > 0);
    play_agree(&play);
    play_end(&play);
}

static bool installs(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes; i++) {
        if (world->nodes[i].node != NULL && world->nodes[i].node->installing) {
            return true;
        }
    }
    return false;
}

/* Its log ends nowhere yet, and it drops what it is sent. */
Test(sim_images, a_node_that_waits_to_install_an_image_does_not_campaign) {
    struct sim_plan plan = plan_with_images(39);
    struct sim_node *laggard;
    struct play play = begin_with_laggard(&plan, &laggard);
    plan.disk.sync_hang_ns = 200 * MS_NS;
    sim_disk_set_latency(laggard->disk, &plan.disk);
    sim_node_start(laggard);
    cr_assert(sim_world_until(play.world, installs, 60000), "%s", play.world->failure);
    cr_expect(laggard->node->installing && laggard->node->gate_closed);
    sim_disk_set_latency(laggard->disk, &play.world->plan.disk);
    play_agree(&play);
    cr_expect(not(laggard->node->gate_closed));
    play_end(&play);
}

Test(sim_images, p3_a_transfer_survives_resets_splits_and_crashes) {
    for (uint64_t seed = 41; seed < 51; seed++) {
        struct sim_plan plan = plan_with_images(seed);
        plan.net.split_permille = 500;
        plan.net.window_bytes = 8 * 1024;
        struct sim_node *laggard;
        struct play play = begin_with_laggard(&plan, &laggard);
        sim_node_start(laggard);
        for (size_t i = 0; i < 40; i++) {
            sim_world_run_ms(play.world, 50);
            (void)sim_net_reset(&play.world->net, laggard->number);
            if (i % 10 == 9) {
                sim_node_crash(laggard, i % 20 == 9);
                sim_node_start(laggard);
            }
        }
        play_agree(&play);
        cr_expect(play.world->counts.images > 0);
        play_end(&play);
    }
}

/* P4: the laggard dies within each operation of installing. */
Test(sim_images, p4_a_laggard_dies_at_each_operation_of_installing) {
    for (uint64_t k = 0; k < 60; k += 2 * LKV_STRIDE) {
        struct sim_plan plan = plan_with_images(60 + k);
        struct sim_node *laggard;
        struct play play = begin_with_laggard(&plan, &laggard);
        sim_node_start(laggard);
        sim_world_run_ms(play.world, 20);
        sim_disk_crash_at(laggard->disk, sim_disk_op_count(laggard->disk) + k);
        sim_world_run_ms(play.world, 2000);
        play_agree(&play);
        play_end(&play);
    }
}

Test(sim_images, n11_bytes_of_earlier_connections_change_nothing) {
    struct sim_plan plan = sim_plan_calm(50);
    plan.clients = 4;
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 2000);
    for (size_t i = 0; i < plan.nodes; i++) { /* some of the recordings are of earlier lives */
        if (&play.world->nodes[i] != leader) {
            sim_node_crash(&play.world->nodes[i], false);
            sim_node_start(&play.world->nodes[i]);
            sim_world_run_ms(play.world, 1500);
        }
    }
    uint64_t term = sim_world_leader(play.world)->node->term;
    for (size_t i = 0; i < 50; i++) {
        (void)sim_net_replay(&play.world->net);
        sim_world_run_ms(play.world, 100);
    }
    cr_expect(play.world->net.counts.replays > 10);
    cr_expect(play_leader(&play, 0)->node->term == term);
    play_agree(&play);
    play_end(&play);
}

/* The laggard is closed at each moment of taking an image, or the leader while it sends one. */
static void close_meanwhile(uint64_t seed, uint64_t ms, bool leader_too) {
    struct sim_plan plan = plan_with_images(seed);
    struct sim_node *laggard;
    struct play play = begin_with_laggard(&plan, &laggard);
    struct sim_node *leader = play_leader(&play, 3000);
    sim_node_start(laggard);
    sim_world_run_ms(play.world, ms);
    sim_node_close(leader_too ? leader : laggard, 0);
    sim_world_run_ms(play.world, 3000);
    play_agree(&play);
    play_end(&play);
}

Test(sim_images, either_end_of_a_transfer_may_be_closed_at_any_moment) {
    for (uint64_t ms = 10; ms < 90; ms += 2 * LKV_STRIDE) {
        close_meanwhile(200 + ms, ms, ms % 4 == 0);
    }
}

/* The laggard's disk has room for the image, or some of it, and is full then; later there is room. */
static void full_meanwhile(uint64_t seed, uint64_t room) {
    struct sim_plan plan = plan_with_images(seed);
    struct sim_node *laggard;
    struct play play = begin_with_laggard(&plan, &laggard);
    sim_node_start(laggard);
    sim_disk_fill(laggard, room);
    sim_world_run_ms(play.world, 3000);
    cr_expect(laggard->node == NULL || laggard->node->stop_rc == 0);
    play_agree(&play);
    cr_expect(play.world->counts.images > 0);
    play_end(&play);
}

Test(sim_images, p8_a_full_disk_holds_an_image_up_and_stops_nobody) {
    for (uint64_t k = 0; k < 30; k += LKV_STRIDE) {
        full_meanwhile(300 + k, k * 12 * 1024);
    }
}
