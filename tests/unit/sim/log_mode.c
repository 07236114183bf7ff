/* Log mode on whole nodes: what the world checks of it, played from seeds, and disks that are full when
 * retention has to make room on them. */
#include "lib/node_repair.h"
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

#include <inttypes.h>

enum { FIXED_SEEDS = 40 };

static void play_seed(uint64_t seed) {
    struct sim_plan plan = sim_plan_log(seed);
    struct sim_summary summary;
    sim_play_plan(&plan, NULL, &summary);
    cr_expect(summary.failure[0] == '\0', "simulate --world log --seed %" PRIu64 ": %s", seed,
              summary.failure);
}

Test(sim_log_mode, fixed_seeds_find_nothing) {
    for (uint64_t seed = 1; seed <= FIXED_SEEDS; seed += LKV_STRIDE) {
        play_seed(seed);
    }
}

/* 28: what came back from an old leader stood behind a read, and was overtaken. 43: an image ended in the
 * middle of an append, of which too much was seen. 40: a session was refused because of an end that was
 * not committed yet. 68: a read met a disk error on a node that was closing. 70: a hold waited for a disk
 * that hangs. 5028, 5276: where an append ends was in what a disk
 * error had made doubtful. 5379: reads waited for a disk that hangs. 10019: an append overtook those
 * that were with the leader before, in the turn in which its own node became the leader. 119: a leader
 * that was closing read for a laggard without end. */
Test(sim_log_mode, seeds_that_failed_once_find_nothing) {
    static const uint64_t seeds[] = {28, 40, 43, 68, 70, 5028, 5276, 5379, 10019, 119};
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        play_seed(seeds[i]);
    }
}

static bool is_down(struct sim_world *world) {
    return world->nodes[0].state == SIM_DOWN;
}

/* Crashes in the middle of what goes to the disk: what is there of an append that was cut is never seen, and
 * its number can be used again (rule 26). The world checks both. */
Test(sim_log_mode, c1_an_append_that_a_crash_has_cut_is_void) {
    struct sim_plan plan = sim_plan_calm(4000);
    plan.log_mode = true;
    plan.nodes = 1;
    plan.value_bytes_max = 300;
    plan.disk.sync_ns = 5 * MS_NS; /* so that many wait for one sync */
    plan.clients = 8;
    plan.depth = 8;
    plan.op_pause_ns = MS_NS;
    plan.timeout_ms = 500;
    plan.session_permille = 1000;
    plan.session_ttl_ms = 60000;
    struct play play = play_begin(&plan);
    struct sim_node *node = play_leader(&play, 3000);
    sim_load_start(play.world);
    for (uint64_t round = 0; round < 100; round += LKV_STRIDE) {
        (void)play_leader(&play, 3000);
        sim_world_run_ms(play.world, 100 + round % 7);
        sim_disk_crash_at(node->disk, sim_disk_op_count(node->disk) + round % 4);
        cr_assert(sim_world_until(play.world, is_down, 2000), "%s", play.world->failure);
        sim_node_start(node);
    }
    play_agree(&play);
    cr_expect(play.world->counts.voids > 3 / LKV_STRIDE, "%d were cut",
              (int)play.world->counts.voids);
    cr_expect(play.world->counts.repeated > 100 / LKV_STRIDE, "%d",
              (int)play.world->counts.repeated);
    play_end(&play);
}

/* ------------------------------------------------------------------ full disks */

static struct sim_plan plan_of(uint64_t seed, size_t nodes) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.log_mode = true;
    plan.nodes = nodes;
    plan.keep_entries = 0;
    plan.segment_bytes = 1024 * 1024;
    plan.retention_bytes = 2 * 1024 * 1024;
    plan.image_log_bytes = 64 * 1024 * 1024;
    plan.value_bytes_max = 4000;
    return plan;
}

static uint64_t bytes_of(const struct sim_node *node) {
    return log_bytes(node->node->log);
}

static void append_until(struct play *play, const struct sim_node *node, uint64_t bytes) {
    for (int i = 0; bytes_of(node) < bytes; i++) {
        cr_assert_lt(i, 5000);
        play_put(play, 0);
    }
    sim_world_run_ms(play->world, 3000); /* the file of the next image is there */
}

/* Rule 15: retention makes room on a disk that has none, again and again, and appends go on. */
static void expect_room_is_made(size_t nodes) {
    struct sim_plan plan = plan_of(900 + nodes, nodes);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    append_until(&play, leader, 3 * plan.segment_bytes);
    for (size_t i = 0; i < nodes; i++) {
        cr_expect(play.world->nodes[i].node->image_index == 0, "none was needed until now");
        sim_disk_fill(&play.world->nodes[i], 0);
    }
    uint64_t image_index = 0;
    for (int i = 0; i < 6000; i++) {
        play_put(&play, 0);
        if (i % 1500 == 1499) {
            sim_world_run_ms(play.world, 2000);
            leader = play_leader(&play, 3000);
            cr_expect(leader->node->image_index > image_index, "nothing has gone since %" PRIu64,
                      image_index);
            image_index = leader->node->image_index;
        }
    }
    play_agree(&play);
    play_end(&play);
}

Test(sim_log_mode, x_c1_retention_makes_room_on_the_full_disk_of_a_lone_node) {
    expect_room_is_made(1);
}

Test(sim_log_mode, x_c2_retention_makes_room_on_the_full_disks_of_three) {
    expect_room_is_made(3);
}

/* The same wherever the room ends. */
Test(sim_log_mode, s27_however_much_room_is_left_nobody_stops) {
    for (uint64_t room = 0; room < 300 * 1024; room += 7 * 1024 * LKV_STRIDE) {
        struct sim_plan plan = plan_of(2000 + room, 1);
        plan.segment_bytes = 64 * 1024;
        plan.retention_bytes = 64 * 1024;
        struct play play = play_begin(&plan);
        struct sim_node *node = play_leader(&play, 3000);
        append_until(&play, node, 2 * plan.segment_bytes);
        sim_disk_fill(node, room);
        for (int i = 0; i < 100; i++) {
            sim_submit(node, SIM_PUT, 0, 500, NULL);
            sim_world_run_ms(play.world, 20);
        }
        cr_expect(node->node->stop_rc == 0, "%s", node->node->stop_why.text);
        sim_disk_set_capacity(node->disk, UINT64_MAX);
        sim_world_run_ms(play.world, 3000);
        play_put(&play, 0);
        play_agree(&play);
        play_end(&play);
    }
}

/* Rule 11, S11: reads fail for a while, the scrub notes what it meets, and then they do not. With nobody to ask: alone,
 * or cut off from the others. */
Test(sim_log_mode, s11_an_error_of_the_disk_that_passes_leaves_no_gap) {
    for (size_t nodes = 1; nodes <= 3; nodes += 2) {
        struct sim_plan plan = plan_of(700 + nodes, nodes);
        plan.scrub_ms = 1000;
        struct play play = play_begin(&plan);
        struct sim_node *node = play_leader(&play, 3000);
        append_until(&play, node, plan.segment_bytes / 2);
        node = nodes == 1 ? node : play_follower(&play, node);
        if (nodes > 1) {
            sim_isolate(play.world, node->number, UINT64_MAX);
        }
        sim_disk_fail(node->disk, SIM_READ, 0, LKV_EIO, true);
        sim_world_run_ms(play.world, 3000);
        cr_assert(node_damaged_entries(node->node) > 0, "the scrub has not read");
        sim_disk_heal(node->disk);
        sim_world_run_ms(play.world, 20000); /* longer than between two looks */
        cr_expect(node_damaged_entries(node->node) == 0 && node->node->stop_rc == 0, "%s",
                  node->node->repair.log_why.text);
        cr_expect(node->node->repair.filled_ever > 0);
        if (nodes > 1) {
            sim_rejoin(play.world, node->number);
        }
        play_agree(&play);
        play_end(&play);
    }
}

static void on_held(struct request *request) {
    bool *held = request->owner;
    *held = request->reply->rc == 0;
}

static bool held;

static bool is_held(struct sim_world *world) {
    (void)world;
    return held;
}

/* Rule 14: a hold that was acknowledged is on the disk. */
Test(sim_log_mode, an_acknowledged_hold_survives_a_power_cut) {
    for (uint64_t seed = 4500; seed < 4510; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        plan.log_mode = true;
        plan.nodes = 1;
        struct play play = play_begin(&plan);
        struct sim_node *node = play_leader(&play, 3000);
        held = false;
        struct request *request = request_new(REQUEST_LOG_HOLD);
        cr_assert(request != NULL);
        cr_assert(request_set_keys(request, slice_text("reader"), (struct slice){0}) == 0);
        request->from = 1;
        request->deadline_ns = UINT64_MAX;
        request->on_finish = on_held;
        request->owner = &held;
        node_hold(node->node, request);
        cr_assert(sim_world_until(play.world, is_held, 3000));
        sim_node_crash(node, true);
        sim_node_start(node);
        (void)play_leader(&play, 3000);
        cr_expect(node->node->retention.hold_count == 1, "it is forgotten");
        play_end(&play);
    }
}
