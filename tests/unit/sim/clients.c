/* Clients over the client protocol, with the network, the nodes and themselves failing. */
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

#include <inttypes.h>

enum {
    FEWER = LKV_STRIDE * LKV_STRIDE
}; /* a sanitizer plays few seeds: less is done, at least so much */

static struct sim_plan plan_of(uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.clients = 4;
    plan.depth = 8;
    plan.keys = 12;
    plan.op_pause_ns = 5 * MS_NS;
    plan.timeout_ms = 500;
    plan.session_ttl_ms = 3000;
    plan.remotes = 1;
    return plan;
}

/* The only node that the client reaches is a follower, which passes its requests on. What the leader
 * refused was kept there, and overtaken by the appends that came behind it. */
Test(sim_clients, appends_that_a_follower_passes_on_keep_their_order) {
    uint64_t done = 0;
    for (uint64_t seed = 1; seed <= 12; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_of(seed);
        plan.log_mode = true;
        plan.session_permille = 300;
        struct play play = play_begin(&plan);
        struct sim_world *world = play.world;
        (void)play_leader(&play, 3000);
        sim_load_start(world);
        for (unsigned round = 0; round < 6 && !sim_world_failed(world); round++) {
            struct sim_node *leader = play_leader(&play, 3000);
            unsigned host = world->remotes[0].host, door = play_follower(&play, leader)->number;
            sim_net_mend_all(&world->net);
            sim_isolate(world, host, UINT64_MAX);
            sim_net_mend(&world->net, host, door);
            sim_net_mend(&world->net, door, host);
            sim_world_run_ms(world, 4000);
            for (unsigned i = 0; i < 10 && !sim_world_failed(world); i++) {
                (void)sim_net_reset(&world->net, leader->number);
                sim_world_run_ms(world, 100);
            }
            sim_node_close(leader, 200);
            sim_world_run_ms(world, 1000);
        }
        done += world->counts.remote_done; /* none where the only endpoint is cut off */
        play_agree(&play);
        play_end(&play);
    }
    cr_expect_gt(done, 5000 / FEWER, "%" PRIu64 " done", done);
}

/* The same door, and leaders that vanish without a word with what it has passed on to them: each new leader, which
 * the door may be itself, takes nothing while an earlier one may refuse what was sent before. */
Test(sim_clients, appends_wait_for_what_was_passed_on_to_a_leader_that_vanished) {
    uint64_t done = 0;
    for (uint64_t seed = 1; seed <= 6; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_of(1000 + seed);
        plan.log_mode = true;
        plan.session_permille = 500;
        plan.timeout_ms = 8000;
        plan.session_ttl_ms = 20000;
        plan.op_pause_ns = 400 * MS_NS; /* now and then, nothing comes while nobody leads */
        struct play play = play_begin(&plan);
        struct sim_world *world = play.world;
        (void)play_leader(&play, 3000);
        sim_load_start(world);
        for (unsigned round = 0; round < 4 && !sim_world_failed(world); round++) {
            struct sim_node *leader = play_leader(&play, 3000);
            unsigned host = world->remotes[0].host, door = play_follower(&play, leader)->number;
            sim_isolate(world, host, UINT64_MAX);
            sim_net_mend(&world->net, host, door);
            sim_net_mend(&world->net, door, host);
            sim_world_run_ms(world, 6000);
            sim_isolate(world, leader->number, UINT64_MAX);
            sim_world_run_ms(world, 1500);
            sim_net_mend_all(&world->net);
            sim_world_run_ms(world, 2000);
        }
        done += world->counts.remote_done;
        play_agree(&play);
        play_end(&play);
    }
    cr_expect_gt(done, 500 / FEWER, "%" PRIu64 " done", done);
}

/* A leader that has no room for all that comes says so, and loses its power: its words are lost, and what it refused
 * comes again. What was sent behind that has not been done meanwhile. */
Test(sim_clients, appends_keep_their_order_when_a_refusal_is_lost) {
    uint64_t done = 0, repeated = 0;
    for (uint64_t seed = 1; seed <= 4; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_of(2000 + seed);
        plan.log_mode = true;
        plan.session_permille = 700;
        plan.timeout_ms = 3000;
        plan.depth = 16;
        plan.op_pause_ns = MS_NS;
        plan.inflight_bytes = 2048;
        plan.disk.sync_ns = 10 * MS_NS;
        struct play play = play_begin(&plan);
        struct sim_world *world = play.world;
        sim_load_start(world);
        for (unsigned round = 0; round < 20 && !sim_world_failed(world); round++) {
            struct sim_node *leader = play_leader(&play, 3000);
            sim_world_run_ms(world, 300);
            sim_net_cut(&world->net, leader->number, world->remotes[0].host,
                        world->time.now_ns + 20 * MS_NS); /* its words, not what it hears */
            sim_world_run_ms(world, 10);
            sim_node_crash(leader, true);
            sim_world_run_ms(world, 500);
            sim_node_start(leader);
        }
        done += world->counts.remote_done;
        repeated += world->counts.repeated;
        play_agree(&play);
        play_end(&play);
    }
    cr_expect_gt(done, 2000 / FEWER, "%" PRIu64 " done", done);
    cr_expect_gt(repeated, 200 / FEWER, "%" PRIu64 " repeated", repeated);
}

static struct {
    size_t finished;
    int rc;
    char text[512];
} told;

static void on_told(struct request *request) {
    told.finished++;
    told.rc = request->reply->rc;
    (void)snprintf(told.text, sizeof(told.text), "%s", lkv_msg_text(request->reply));
}

static void append_at(struct sim_node *node, uint64_t timeout_ms) {
    const struct slice record = slice_text("r");
    struct request *request = request_new(REQUEST_APPEND);
    cr_assert_eq(request_set_records(request, &record, 1), 0);
    request->cost = 64;
    request->deadline_ns = node->node->handle.ops->now_ns(&node->node->handle) + timeout_ms * MS_NS;
    request->on_finish = on_told;
    cr_assert_eq(node_submit(&node->node->handle, request), 0);
}

/* Not that no leader is known: one is, and does not get it yet. */
Test(sim_clients, an_append_that_waited_for_earlier_ones_says_so) {
    struct sim_plan plan = plan_of(3000);
    plan.log_mode = true;
    plan.remotes = 0;
    struct play play = play_begin(&plan);
    struct sim_world *world = play.world;
    struct sim_node *leader = play_leader(&play, 3000);
    struct sim_node *door = play_follower(&play, leader);
    sim_world_run_ms(world, 1000);
    memset(&told, 0, sizeof(told));
    append_at(door, 5000);
    sim_world_run_ms(world, 100);
    cr_assert(told.finished == 1 && told.rc == 0, "%s", told.text);
    sim_isolate(world, leader->number, UINT64_MAX);
    append_at(door, 5000);
    sim_world_run_ms(world, 1500);
    cr_assert_eq(told.finished, 1);
    append_at(door, 500);
    sim_world_run_ms(world, 600);
    cr_assert_eq(told.finished, 2);
    cr_expect_eq(told.rc, LKV_ETIMEOUT, "%s", error_name(told.rc));
    cr_expect(strstr(told.text, "appends before it") != NULL, "%s", told.text);
    play_agree(&play);
    play_end(&play);
}
