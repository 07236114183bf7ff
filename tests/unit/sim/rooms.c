/* Rule 15: disks that fill up while everything goes on. */
#include "lib/node.h"
#include "tests/unit/sim/play.h"

enum { REFUSED = 1 + LKV_NOT_DONE, DONE = 1 + LKV_DONE };

static struct sim_plan plan_of(uint64_t seed, size_t nodes) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.nodes = nodes;
    plan.segment_bytes = 1024 * 1024;
    plan.image_log_bytes = 64 * 1024 * 1024;
    plan.value_bytes_max = 4000;
    plan.keys = 50;
    plan.peer_inflight_bytes = 64 * 1024;
    return plan;
}

/* What became of one operation at the present leader, within two seconds. */
static int try_once(struct play *play, enum sim_call_kind kind) {
    int done = 0;
    struct sim_node *leader = play_leader(play, 3000);
    sim_submit(leader, kind, 7, 1900, &done);
    for (int i = 0; i < 200 && done == 0; i++) {
        sim_world_run_ms(play->world, 10);
    }
    cr_assert(not(sim_world_failed(play->world)), "%s", play->world->failure);
    return done;
}

/* Writes until no put is taken, not even a small one; false: that does not come. */
static bool put_until_refused(struct play *play) {
    int in_a_row = 0;
    for (int i = 0; i < 4000 && in_a_row < 30; i++) {
        in_a_row = try_once(play, SIM_PUT) == REFUSED ? in_a_row + 1 : 0;
    }
    return in_a_row == 30;
}

static void empty(struct sim_node *node) {
    sim_disk_set_capacity(node->disk, UINT64_MAX);
}

/* Puts are refused, reads and deletes go on; with room again, puts go on without a restart. */
static void expect_read_only_and_back(struct play *play) {
    cr_expect(put_until_refused(play));
    for (int i = 0; i < 20; i++) {
        cr_expect_eq(try_once(play, SIM_PUT), REFUSED);
        int deleted = try_once(play, SIM_DELETE);
        cr_expect(deleted != REFUSED && deleted != 0 && deleted != 1 + LKV_UNKNOWN, "%d", deleted);
        cr_expect_neq(try_once(play, SIM_GET), REFUSED);
    }
    for (size_t i = 0; i < play->world->plan.nodes; i++) {
        empty(&play->world->nodes[i]);
    }
    sim_world_run_ms(play->world, 3000);
    cr_expect_eq(try_once(play, SIM_PUT), DONE);
}

Test(sim_rooms, x_c1_one_node_on_a_full_disk_takes_deletes_and_goes_on_by_itself) {
    struct sim_plan plan = plan_of(70, 1);
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    sim_world_run_ms(play.world, 500);
    sim_disk_fill(&play.world->nodes[0], 0);
    expect_read_only_and_back(&play);
    play_agree(&play);
    play_end(&play);
}

Test(sim_rooms, s27_without_room_on_any_disk_the_cluster_is_read_only) {
    struct sim_plan plan = plan_of(71, 3);
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    sim_world_run_ms(play.world, 500);
    for (size_t i = 0; i < plan.nodes; i++) {
        sim_disk_fill(&play.world->nodes[i], 0);
    }
    expect_read_only_and_back(&play);
    play_agree(&play);
    play_end(&play);
}

Test(sim_rooms, s27_a_quorum_of_followers_without_room_is_enough_for_that) {
    struct sim_plan plan = plan_of(72, 3);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    sim_world_run_ms(play.world, 500);
    for (size_t i = 0; i < plan.nodes; i++) {
        if (&play.world->nodes[i] != leader) {
            sim_disk_fill(&play.world->nodes[i], 0);
        }
    }
    expect_read_only_and_back(&play);
    play_agree(&play);
    play_end(&play);
}

/* No put is refused: the leader hands over before what is left of its log is used up. */
Test(sim_rooms, x_c2_a_leader_short_of_room_hands_over_before_it_is_full) {
    struct sim_plan plan = plan_of(73, 3);
    struct play play = play_begin(&plan);
    struct sim_node *full = play_leader(&play, 3000);
    sim_world_run_ms(play.world, 500);
    sim_disk_fill(full, 0);
    for (int i = 0; sim_world_leader(play.world) == full; i++) {
        cr_assert_lt(i, 4000, "it still leads");
        cr_expect_neq(try_once(&play, SIM_PUT), 0);
        cr_expect_neq(full->node->room, RAFT_ROOM_NONE);
    }
    for (int i = 0; i < 300; i++) {
        cr_expect_eq(try_once(&play, SIM_PUT), DONE);
        cr_expect(sim_world_leader(play.world) != full);
    }
    cr_expect_neq(full->node->room, RAFT_ROOM_FREE);
    empty(full);
    sim_world_run_ms(play.world, 3000);
    cr_expect_eq(full->node->room, RAFT_ROOM_FREE);
    play_agree(&play);
    play_end(&play);
}

/* ------------------------------------------------------------------ compaction */

static void on_compacted(struct request *request) {
    *(int *)request->owner = request->reply->rc;
}

/* What a program's own compaction answers; 1: nothing within two seconds. */
static int compact(struct play *play, struct sim_node *node, uint64_t revision) {
    const struct kv_command command = {.op = KV_COMPACT, .revision = revision};
    struct request *request = request_new(REQUEST_WRITE);
    int rc = 1;
    request->command = kv_command_encode(&command);
    request->level = (uint8_t)kv_command_level(&command);
    request->on_finish = on_compacted;
    request->owner = &rc;
    request->deadline_ns = node_now(node->node) + 1500 * MS_NS;
    cr_assert_eq(node_submit(&node->node->handle, request), 0);
    sim_world_run_ms(play->world, 2000);
    return rc;
}

static struct kv_stats stats_of(const struct sim_node *node) {
    struct kv_stats stats;
    kv_stats(node->node->kv, &stats);
    return stats;
}

/* Fifty keys; then each node's disk has `left` bytes. */
static struct play begin_filled(const struct sim_plan *plan, uint64_t left) {
    struct play play = play_begin(plan);
    (void)play_leader(&play, 3000);
    for (uint32_t i = 0; i < 50; i++) {
        play_put(&play, i);
    }
    sim_world_run_ms(play.world, 500);
    for (size_t i = 0; i < plan->nodes; i++) {
        sim_disk_fill(&play.world->nodes[i], left);
    }
    return play;
}

/* The room that is kept for deletes is there for compactions too: a program's, and the leader's own. */
static void compacts_without_room(uint64_t seed, size_t nodes) {
    struct sim_plan plan = plan_of(seed, nodes);
    plan.history_revisions = 40;
    plan.history_ms = plan.history_bytes = 0;
    struct play play = begin_filled(&plan, 0);
    cr_assert(put_until_refused(&play));
    struct sim_node *leader = play_leader(&play, 1000);
    struct kv_stats before = stats_of(leader);
    cr_assert_lt(before.kept_from + 5, before.revision);
    cr_expect_eq(compact(&play, leader, before.kept_from + 5), 0);
    cr_expect_eq(stats_of(leader).kept_from, before.kept_from + 5);
    cr_expect_eq(try_once(&play, SIM_PUT), REFUSED, "there is no room still");
    for (uint32_t key = 0; key < 50; key++) { /* each delete is a revision more */
        int done = 0;
        sim_submit(leader, SIM_DELETE, key, 0, &done);
        sim_world_run_ms(play.world, 50);
    }
    sim_world_run_ms(play.world, 1000);
    struct kv_stats after = stats_of(leader);
    cr_expect_gt(after.revision, before.revision + 30);
    cr_expect_gt(after.kept_from, before.kept_from + 10, "the leader compacts by itself");
    cr_expect_neq(leader->node->room, RAFT_ROOM_FREE);
    for (size_t i = 0; i < nodes; i++) {
        empty(&play.world->nodes[i]);
    }
    sim_world_run_ms(play.world, 3000);
    cr_expect_eq(try_once(&play, SIM_PUT), DONE);
    play_agree(&play);
    play_end(&play);
}

Test(sim_rooms, rule_15_one_node_on_a_full_disk_compacts_its_history) {
    compacts_without_room(74, 1);
}

Test(sim_rooms, rule_15_a_cluster_on_full_disks_compacts_its_history) {
    compacts_without_room(75, 3);
}

/* Nothing is taken from outside: deletes and a compaction are all that makes room. */
static void deletes_make_room(uint64_t seed, size_t nodes, uint64_t image_log_bytes) {
    struct sim_plan plan = plan_of(seed, nodes);
    plan.image_log_bytes = image_log_bytes;
    struct play play = begin_filled(&plan, 32 * 1024); /* an image of all of it does not fit */
    cr_assert(put_until_refused(&play));
    sim_world_run_ms(play.world, 20000);
    cr_expect_eq(try_once(&play, SIM_PUT), REFUSED, "there is no room still");
    struct sim_node *leader = play_leader(&play, 1000);
    for (uint32_t key = 0; key < 50; key++) {
        int done = 0;
        sim_submit(leader, SIM_DELETE, key, 0, &done);
        sim_world_run_ms(play.world, 50);
    }
    cr_expect_eq(compact(&play, leader, stats_of(leader).revision), 0);
    sim_world_run_ms(play.world, 20000);
    for (int i = 0; i < 20; i++) {
        cr_expect_eq(try_once(&play, SIM_PUT), DONE);
    }
    for (size_t i = 0; i < nodes; i++) {
        cr_expect_gt(play.world->nodes[i].node->image_index, 0);
    }
    play_agree(&play);
    play_end(&play);
}

Test(sim_rooms, rule_15_deletes_make_room_on_full_disks_without_an_image_before) {
    deletes_make_room(76, 1, 64 * 1024 * 1024);
    deletes_make_room(77, 3, 64 * 1024 * 1024);
}

Test(sim_rooms, rule_15_deletes_make_room_on_full_disks_after_images_that_did_not_fit) {
    deletes_make_room(78, 1, 256 * 1024);
    deletes_make_room(79, 3, 256 * 1024);
}
