/* Who leads, on whole nodes: isolation, sick disks, half-open connections. Ids as in the catalogue of
 * faults. */
#include "tests/unit/sim/play.h"

static bool nobody_leads(struct sim_world *world) {
    return sim_world_leader(world) == NULL;
}

Test(sim_leaders, r21_a_follower_that_returns_after_a_hundred_timeouts_disturbs_nobody) {
    struct sim_plan plan = sim_plan_calm(21);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    uint64_t term = leader->node->term;
    struct sim_node *away = play_follower(&play, leader);
    sim_isolate(play.world, away->number, UINT64_MAX);
    sim_world_run_ms(play.world, 60000);
    play_put(&play, 1);
    sim_rejoin(play.world, away->number);
    play_agree(&play);
    cr_expect(leader->node->term == term && sim_node_leads(leader));
    play_end(&play);
}

static uint64_t longest_gap_ms(struct play *play, uint64_t for_ms) {
    struct sim_world *world = play->world;
    uint64_t end_ms = sim_world_now_ms(world) + for_ms, longest_ms = 0;
    while (sim_world_now_ms(world) < end_ms) {
        uint64_t before_ms = sim_world_now_ms(world);
        play_put(play, 3);
        uint64_t gap_ms = sim_world_now_ms(world) - before_ms;
        longest_ms = gap_ms > longest_ms ? gap_ms : longest_ms;
        sim_world_run_ms(world, 5);
    }
    return longest_ms;
}

Test(sim_leaders, x_b1_a_follower_cut_off_for_a_minute_costs_no_put_two_heartbeats) {
    struct sim_plan plan = sim_plan_calm(22);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    uint64_t term = leader->node->term;
    struct sim_node *away = play_follower(&play, leader);
    sim_isolate(play.world, away->number, play.world->time.now_ns + 60000 * MS_NS);
    uint64_t gap_ms = longest_gap_ms(&play, 65000);
    cr_expect(gap_ms < 2 * plan.heartbeat_ms, "a put took %d ms", (int)gap_ms);
    play_agree(&play);
    cr_expect(leader->node->term == term);
    play_end(&play);
}

Test(sim_leaders, x_b2_one_link_cut_for_a_minute_raises_the_term_once_at_most) {
    struct sim_plan plan = sim_plan_calm(23);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    uint64_t term = leader->node->term;
    struct sim_node *other = play_follower(&play, leader);
    sim_net_cut(&play.world->net, leader->number, other->number, UINT64_MAX);
    sim_net_cut(&play.world->net, other->number, leader->number, UINT64_MAX);
    (void)longest_gap_ms(&play, 60000);
    sim_net_mend_all(&play.world->net);
    play_agree(&play);
    cr_expect(sim_world_leader(play.world)->node->term <= term + 1);
    play_end(&play);
}

Test(sim_leaders, r23_a_leader_that_hears_nobody_steps_down) {
    struct sim_plan plan = sim_plan_calm(24);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    for (unsigned i = 0; i < plan.nodes; i++) {
        sim_net_cut(&play.world->net, i, leader->number, UINT64_MAX);
    }
    sim_world_run_ms(play.world, 2 * ELECTION_MS);
    cr_expect(not(sim_node_leads(leader)));
    play_agree(&play);
    play_end(&play);
}

Test(sim_leaders, r28_four_nodes_in_two_halves_commit_nothing) {
    struct sim_plan plan = sim_plan_calm(25);
    plan.nodes = 4;
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    for (unsigned a = 0; a < 2; a++) {
        for (unsigned b = 2; b < 4; b++) {
            sim_net_cut(&play.world->net, a, b, UINT64_MAX);
            sim_net_cut(&play.world->net, b, a, UINT64_MAX);
        }
    }
    sim_world_run_ms(play.world, 3 * ELECTION_MS);
    uint64_t commit = play.world->model.commit;
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 5000);
    cr_expect(play.world->model.commit == commit);
    cr_expect(nobody_leads(play.world));
    play_agree(&play);
    play_end(&play);
}

static void hang(struct sim_node *node, uint64_t ms) {
    struct sim_disk_latency latency = node->world->plan.disk;
    latency.sync_hang_ns = ms * MS_NS;
    sim_disk_set_latency(node->disk, &latency);
}

/* A leader under load whose disk hangs for so long; how long until another leads, or 0 if none did. */
static uint64_t replaced_after_ms(struct play *play, uint64_t hang_ms) {
    struct sim_world *world = play->world;
    const struct sim_node *before = play_leader(play, 3000);
    play_put(play, 1);
    sim_load_start(world);
    sim_world_run_ms(world, 1000);
    uint64_t begun_ms = sim_world_now_ms(world);
    hang(&world->nodes[before->number], hang_ms);
    sim_world_run_ms(world, hang_ms < 500 ? hang_ms : 500); /* one sync at least began */
    hang(&world->nodes[before->number], 0);
    while (sim_world_now_ms(world) < begun_ms + 10000 && !sim_world_failed(world)) {
        const struct sim_node *leader = sim_world_leader(world);
        if (leader != NULL && leader != before) {
            return sim_world_now_ms(world) - begun_ms;
        }
        sim_world_run_ms(world, 1);
    }
    return 0;
}

static struct sim_plan plan_with_load(uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.clients = 4;
    plan.op_pause_ns = 10 * MS_NS;
    plan.fault_ms_max = 40000;
    return plan;
}

Test(sim_leaders, r24_a_leader_whose_disk_hangs_is_replaced) {
    struct sim_plan plan = plan_with_load(26);
    struct play play = play_begin(&plan);
    uint64_t ms = replaced_after_ms(&play, 30000);
    cr_expect(ms > 0 && ms < plan.disk_hang_ms + 2 * ELECTION_MS, "replaced after %d ms", (int)ms);
    sim_world_run_ms(play.world, 30000);
    play_agree(&play);
    play_end(&play);
}

Test(sim_leaders, r24_a_stall_of_a_second_changes_nothing) {
    struct sim_plan plan = plan_with_load(27);
    struct play play = play_begin(&plan);
    uint64_t ms = replaced_after_ms(&play, 1000);
    cr_expect(ms == 0, "replaced after %d ms", (int)ms);
    play_agree(&play);
    play_end(&play);
}

Test(sim_leaders, r25_a_follower_whose_disk_hangs_holds_nobody_up) {
    struct sim_plan plan = plan_with_load(28);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    struct sim_node *sick = play_follower(&play, leader);
    sim_load_start(play.world);
    hang(sick, 30000);
    sim_world_run_ms(play.world, 1000);
    uint64_t gap_ms = longest_gap_ms(&play, 10000);
    cr_expect(gap_ms < 2 * plan.heartbeat_ms, "a put took %d ms", (int)gap_ms);
    cr_expect(sim_node_leads(leader));
    cr_expect(sick->node->window.bytes < plan.peer_inflight_bytes + plan.window_bytes);
    hang(sick, 0);
    sim_world_run_ms(play.world, 40000);
    play_agree(&play);
    play_end(&play);
}

Test(sim_leaders, r8_an_isolated_leader_answers_no_read_that_is_old) {
    struct sim_plan plan = sim_plan_calm(29);
    struct play play = play_begin(&plan);
    struct sim_node *old = play_leader(&play, 3000);
    play_put(&play, 1);
    sim_isolate(play.world, old->number, UINT64_MAX);
    int answers[20] = {0};
    for (size_t i = 0; i < 20; i++) { /* the majority elects another, and writes, meanwhile */
        sim_submit(old, SIM_GET, 1, 3000, &answers[i]);
        sim_world_run_ms(play.world, 100);
    }
    play_put(&play, 1);
    sim_world_run_ms(play.world, 4000);
    for (size_t i = 0; i < 20; i++) {
        cr_expect(answers[i] == 1 + (int)LKV_NOT_DONE, "read %d: %d", (int)i, answers[i]);
    }
    play_agree(&play);
    play_end(&play);
}

/* A follower forwards while the path to the leader is cut; the deadlines pass; the path heals. What was
 * reported as not done must not be done then: the world checks it. */
Test(sim_leaders, what_timed_out_before_the_leader_was_reached_is_never_done) {
    for (uint64_t seed = 500; seed < 520; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        struct play play = play_begin(&plan);
        const struct sim_node *leader = play_leader(&play, 3000);
        struct sim_node *follower = play_follower(&play, leader);
        sim_world_run_ms(play.world, 500);
        sim_net_cut(&play.world->net, follower->number, leader->number, UINT64_MAX);
        int ends[10] = {0};
        for (size_t i = 0; i < 10; i++) {
            sim_submit(follower, SIM_PUT, (uint32_t)i, 20 + 10 * i, &ends[i]);
        }
        sim_world_run_ms(play.world, 60 + seed % 60);
        sim_net_mend_all(&play.world->net);
        sim_world_run_ms(play.world, 3000);
        cr_expect(ends[0] == 1 + (int)LKV_NOT_DONE);
        play_agree(&play);
        play_end(&play);
    }
}

/* Rule 31: the gate holds back what is applied, and nothing else grows meanwhile or is read again and
 * again. */
Test(sim_leaders, a_program_that_keeps_stepping_down_costs_little_memory) {
    struct sim_plan plan = plan_with_load(35);
    plan.op_pause_ns = MS_NS;
    plan.depth = 8;
    plan.window_bytes = 64 * 1024;
    plan.value_bytes_max = 4000;
    struct play play = play_begin(&plan);
    struct sim_node *old = play_leader(&play, 3000);
    play_put(&play, 1);
    struct lkv_queue *queue;
    cr_assert(lkv_queue_new(&queue) == 0);
    cr_assert(role_add_watcher(&old->node->role_events, queue, NULL) == 0);
    sim_isolate(play.world, old->number, UINT64_MAX);
    sim_world_run_ms(play.world, 3 * ELECTION_MS);
    sim_rejoin(play.world, old->number);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 10000);
    cr_assert(role_gate_closed(&old->node->role_events));
    cr_expect(play.world->model.commit > old->node->applied + 1000); /* more than a megabyte */
    cr_expect(old->node->window.bytes <= 512 * 1024, "%d bytes in memory",
              (int)old->node->window.bytes);
    cr_expect(old->node->fetched_for_apply != NULL, "what comes next is read back, once");
    struct lkv_msg *msg;
    while ((msg = lkv_queue_next(queue, 0)) != NULL) {
        lkv_msg_free(msg);
    }
    play_agree(&play);
    play_end(&play);
    lkv_queue_free(queue);
}

static bool one_has_stopped(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes; i++) {
        if (world->nodes[i].node != NULL && world->nodes[i].node->stop_rc != 0) {
            return true;
        }
    }
    return false;
}

Test(sim_leaders, a_node_that_has_stopped_still_answers_local_reads) {
    struct sim_plan plan = sim_plan_calm(36);
    struct play play = play_begin(&plan);
    struct sim_node *sick = play_follower(&play, play_leader(&play, 3000));
    play_put(&play, 1);
    sim_world_run_ms(play.world, 200);
    sick->disk_failed = true;
    sim_disk_fail(sick->disk, SIM_SYNC, 0, LKV_EIO, true);
    play_put(&play, 2);
    cr_assert(sim_world_until(play.world, one_has_stopped, 1000));
    int local = 0, get = 0, put = 0;
    sim_submit(sick, SIM_GET_LOCAL, 1, 1000, &local);
    sim_submit(sick, SIM_GET, 1, 1000, &get);
    sim_submit(sick, SIM_PUT, 1, 1000, &put);
    sim_world_run_ms(play.world, 1);
    cr_expect(local == 1 + (int)LKV_DONE);
    cr_expect(get == 1 + (int)LKV_NOT_DONE && put == 1 + (int)LKV_NOT_DONE);
    play_agree(&play);
    play_end(&play);
}

/* The follower that leadership is offered first does not hear it; then the other one gets it. */
Test(sim_leaders, a_leader_that_closes_offers_leadership_again) {
    for (unsigned i = 0; i < 8; i++) {
        struct sim_plan plan = sim_plan_calm(600 + i / 2);
        struct play play = play_begin(&plan);
        struct sim_node *leader = play_leader(&play, 3000);
        play_put(&play, 1);
        sim_world_run_ms(play.world, 500);
        unsigned deaf = (leader->number + 1 + i % 2) % 3;
        unsigned well = (leader->number + 2 - i % 2) % 3;
        sim_isolate(play.world, deaf, UINT64_MAX);
        unsigned life = leader->lives;
        sim_node_close(leader, 10000);
        sim_world_run_ms(play.world, 1200);
        cr_expect(leader->lives > life || leader->state == SIM_DOWN, "%d: not closed", (int)i);
        cr_expect(play.world->nodes[well].led_term > 0);
        play_agree(&play);
        play_end(&play);
    }
}

/* Rule 15 reckons with it: what is written is not counted any more, nor what was cut before. */
Test(sim_leaders, what_waits_for_the_disk_is_counted_right) {
    struct sim_plan plan = plan_with_load(37);
    plan.disk.sync_ns = 20 * MS_NS;
    plan.op_pause_ns = 2 * MS_NS;
    struct play play = play_begin(&plan);
    sim_load_start(play.world);
    size_t idle = 0;
    for (uint64_t ms = 0; ms < 20000; ms++) {
        if (ms % 1000 == 0 && sim_world_leader(play.world) != NULL) {
            unsigned number = sim_world_leader(play.world)->number;
            sim_isolate(play.world, number, play.world->time.now_ns + 800 * MS_NS);
        }
        sim_world_run_ms(play.world, 1);
        for (size_t i = 0; i < plan.nodes; i++) {
            const struct node *node = play.world->nodes[i].node;
            if (node->batch.no == 0 && node->jobs_in_flight == 0) {
                idle++;
                cr_assert(node->unwritten_bytes == 0, "%d bytes too many",
                          (int)node->unwritten_bytes);
            }
        }
    }
    cr_expect(idle > 0);
    play_agree(&play);
    play_end(&play);
}

/* A follower's connection to the old leader stays until it has answered. */
Test(sim_leaders, writes_under_way_are_answered_by_the_leader_that_took_them) {
    enum { PUTS = 10 };
    for (uint64_t seed = 700; seed < 710; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        struct play play = play_begin(&plan);
        struct sim_node *old = play_leader(&play, 3000);
        struct sim_node *follower = play_follower(&play, old);
        sim_world_run_ms(play.world, 500);
        int ends[PUTS] = {0};
        sim_submit(follower, SIM_PUT, 0, 3000, &ends[0]); /* the connection stands */
        sim_world_run_ms(play.world, 50);
        sim_net_cut(&play.world->net, old->number, follower->number, UINT64_MAX);
        for (size_t i = 1; i < PUTS; i++) {
            sim_submit(follower, SIM_PUT, (uint32_t)i, 3000, &ends[i]);
        }
        sim_world_run_ms(play.world, 20);
        struct raft_event event = {.kind = RAFT_TRANSFER, .transfer = {.target = RAFT_NOBODY}};
        node_step(old->node, &event);
        sim_loop_leave(&old->loop);
        sim_world_run_ms(play.world, 200);
        cr_expect(follower->node->leader != old->node->identity.member_id);
        cr_expect(ends[1] == 0);
        sim_net_mend_all(&play.world->net);
        sim_world_run_ms(play.world, 2000);
        for (size_t i = 0; i < PUTS; i++) {
            cr_expect(ends[i] == 1 + (int)LKV_DONE, "seed %d put %d: %d", (int)seed, (int)i,
                      ends[i]);
        }
        cr_expect(list_empty(&follower->node->old_forwards));
        play_agree(&play);
        play_end(&play);
    }
}

/* Nothing to do: nothing is done but heartbeats (L14). */
Test(sim_leaders, l14_an_idle_cluster_has_few_events) {
    struct sim_plan plan = sim_plan_calm(34);
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    play_put(&play, 1);
    sim_world_run_ms(play.world, 2000);
    uint64_t before = play.world->time.fired;
    sim_world_run_ms(play.world, 10000);
    uint64_t a_second = (play.world->time.fired - before) / 10;
    cr_expect(a_second < 600, "%d events a second", (int)a_second);
    play_agree(&play);
    play_end(&play);
}

/* The leader waits for a mebibyte that its follower never sends, and hears none of its answers; the follower
 * waits for nothing. The leader's patience ends both connections. */
Test(sim_leaders, a_false_length_does_not_keep_a_followers_answers_away) {
    struct sim_plan plan = sim_plan_calm(91);
    plan.net.retransmit_backoff = false;
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    struct sim_node *follower = play_follower(&play, leader);
    play_put(&play, 1);
    sim_world_run_ms(play.world, 500);
    cr_assert(sim_net_stretch(&play.world->net, follower->number, leader->number));
    for (uint32_t i = 0; i < 50; i++) {
        play_put(&play, i % 16);
        sim_world_run_ms(play.world, 100);
    }
    cr_expect(play.world->net.counts.frames_changed == 1);
    cr_expect(sim_node_leads(leader) && leader->node->term == follower->node->term);
    sim_world_run_ms(play.world, 5000);
    cr_expect(follower->node->applied == leader->node->applied, "%d of %d",
              (int)follower->node->applied, (int)leader->node->applied);
    struct raft_peer_status peers[SIM_NODES_MAX];
    size_t count = raft_peers(leader->node->raft, peers, SIM_NODES_MAX);
    for (size_t i = 0; i < count; i++) {
        cr_expect(peers[i].match == leader->node->applied, "what it has is known");
    }
    play_end(&play);
}
