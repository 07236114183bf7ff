/* Leases on whole nodes, in virtual time. The world checks that none ends early, that no checkpoint says too
 * little, that keys vanish with their lease, and that no lease that was revoked is kept alive (C12, C13). Ids as in
 * the catalogue of faults. */
#include "lib/api.h"
#include "tests/unit/sim/play.h"

#include "base/assert.h"

enum { ID = 7, OTHER = 8 };

static struct sim_plan plan_of(uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.op_pause_ns = 10 * MS_NS;
    plan.timeout_ms = 400;
    return plan;
}

/* ------------------------------------------------------------------ single calls */

struct ask {
    int rc; /* 1: not answered yet */
    uint64_t ttl_ms, remaining_ms, count;
    uint64_t answered_ns;
    struct sim_world *world;
};

static void on_answer(struct request *request) {
    struct ask *ask = request->owner;
    ask->rc = request->reply->rc;
    ask->answered_ns = ask->world->time.now_ns;
    (void)lkv_msg_u64(request->reply, "ttl_ms", &ask->ttl_ms);
    (void)lkv_msg_u64(request->reply, "remaining_ms", &ask->remaining_ms);
    ask->count = request->reply->lease_count + request->reply->range.count;
}

static void send(struct play *play, struct sim_node *node, struct request *request,
                 struct ask *ask) {
    *ask = (struct ask){.rc = 1, .world = play->world};
    request->owner = ask;
    request->on_finish = on_answer;
    request->cost = 64;
    cr_assert_eq(node_submit(&node->node->handle, request), 0);
}

/* Through the node that is named; within five seconds. */
static struct ask call(struct play *play, struct sim_node *node, struct request *request) {
    struct ask ask;
    send(play, node, request, &ask);
    for (int i = 0; i < 6000 && ask.rc == 1; i++) {
        sim_world_run_ms(play->world, 1);
    }
    cr_assert_neq(ask.rc, 1, "no answer: %s", play->world->failure);
    return ask;
}

static int grant(struct play *play, struct sim_node *node, int64_t id, int64_t ttl_ms) {
    struct request *request;
    int rc = api_lease_grant(&node->node->handle, &id, ttl_ms, 5000, &request);
    cr_assert_eq(rc, 0);
    return call(play, node, request).rc;
}

static struct request *keep_request(struct sim_node *node, int64_t id, int64_t timeout_ms) {
    struct request *request;
    int rc = api_lease_keep(&node->node->handle, id, timeout_ms, &request);
    cr_assert_eq(rc, 0);
    return request;
}

static struct ask keep(struct play *play, struct sim_node *node, int64_t id) {
    return call(play, node, keep_request(node, id, 3000));
}

static struct ask ttl(struct play *play, struct sim_node *node, int64_t id) {
    struct request *request;
    int rc = api_lease_ttl(&node->node->handle, id, (struct lkv_bytes){0}, 10, 3000, &request);
    cr_assert_eq(rc, 0);
    return call(play, node, request);
}

static int revoke(struct play *play, struct sim_node *node, int64_t id) {
    struct request *request;
    int rc = api_lease_revoke(&node->node->handle, id, 3000, &request);
    cr_assert_eq(rc, 0);
    return call(play, node, request).rc;
}

static int put(struct play *play, struct sim_node *node, uint32_t key, int64_t lease) {
    char text[SIM_KEY_SIZE];
    uint8_t value[8];
    struct request *request;
    sim_key_text(key, text);
    sim_value_fill(++play->world->next_value, value, sizeof(value));
    int rc = api_put_leased(&node->node->handle, (struct lkv_bytes){text, strlen(text)},
                            (struct lkv_bytes){value, sizeof(value)}, lease, 3000, &request);
    cr_assert_eq(rc, 0);
    return call(play, node, request).rc;
}

/* As the newest leader's state has it. */
static bool is_open(struct play *play, int64_t id) {
    struct kv_lease lease;
    const struct sim_node *leader = sim_world_leader(play->world);
    return leader != NULL && kv_lease_find(leader->node->kv, id, &lease);
}

/* How long it lives from now on. */
static uint64_t lives_ms(struct play *play, int64_t id, uint64_t limit_ms) {
    uint64_t begun_ms = sim_world_now_ms(play->world);
    while (sim_world_now_ms(play->world) - begun_ms < limit_ms) {
        sim_world_run_ms(play->world, 10);
        if (sim_world_leader(play->world) != NULL && !is_open(play, id)) {
            break;
        }
    }
    return sim_world_now_ms(play->world) - begun_ms;
}

static uint64_t last_index(struct play *play) {
    struct raft_status status;
    raft_status(play_leader(play, 3000)->node->raft, &status);
    return status.last;
}

/* ------------------------------------------------------------------ one leader */

Test(sim_leases, c12_a_lease_ends_after_its_ttl_and_takes_its_keys_along) {
    struct sim_plan plan = plan_of(4000);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    struct sim_node *follower = play_follower(&play, leader);
    cr_assert_eq(grant(&play, follower, ID, 4000), 0);
    cr_assert_eq(put(&play, follower, SIM_LEASED_FROM, ID), 0);
    cr_assert_eq(put(&play, leader, SIM_LEASED_FROM + 1, ID), 0);
    cr_assert_eq(put(&play, leader, SIM_LEASED_FROM + 1, OTHER), LKV_ELEASE);
    struct ask left = ttl(&play, follower, ID);
    cr_assert(left.rc == 0 && left.ttl_ms == 4000 && left.count == 2);
    cr_assert(left.remaining_ms > 3500 && left.remaining_ms <= 4000);
    uint64_t lived_ms = lives_ms(&play, ID, 6000);
    cr_assert(lived_ms > 3500 && lived_ms < 4600, "%d", (int)lived_ms);
    cr_assert_eq(keep(&play, follower, ID).rc, LKV_ELEASE);
    cr_assert_eq(ttl(&play, follower, ID).rc, LKV_ELEASE);
    cr_assert_eq(put(&play, leader, SIM_LEASED_FROM, ID), LKV_ELEASE);
    play_agree(&play);
    play_end(&play);
}

Test(sim_leases, c12_kept_alive_each_second_it_lives_and_costs_no_entry) {
    struct sim_plan plan = plan_of(4001);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    cr_assert_eq(grant(&play, leader, ID, 4000), 0);
    sim_world_run_ms(play.world, 100);
    uint64_t before = last_index(&play);
    for (int i = 0; i < 30; i++) {
        struct ask kept = keep(&play, &play.world->nodes[i % 3], ID);
        cr_assert(kept.rc == 0 && kept.ttl_ms == 4000);
        sim_world_run_ms(play.world, 1000);
    }
    cr_assert_eq(last_index(&play), before, "keep-alives are no entries");
    play_agree(&play);
    play_end(&play);
}

/* Seldom kept alive, so checkpoints come between; the world checks that none says too little. */
Test(sim_leases, c12_checkpoints_come_every_five_seconds_and_a_keep_alive_takes_them_back) {
    struct sim_plan plan = plan_of(4002);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    cr_assert_eq(grant(&play, leader, ID, 60000), 0);
    for (int i = 0; i < 4; i++) {
        sim_world_run_ms(play.world, 20000);
        struct kv_lease lease;
        cr_assert(kv_lease_find(leader->node->kv, ID, &lease));
        cr_assert(lease.remaining_ms >= 40000 && lease.remaining_ms <= 45000, "%d",
                  (int)lease.remaining_ms);
        cr_assert_eq(keep(&play, leader, ID).rc, 0);
        cr_assert(kv_lease_find(leader->node->kv, ID, &lease));
        cr_assert_eq(lease.remaining_ms, 60000, "said before it is answered");
    }
    play_agree(&play);
    play_end(&play);
}

Test(sim_leases, c13_after_a_revoke_nobody_keeps_it_alive) {
    for (uint64_t seed = 4010; seed < 4020; seed++) {
        struct sim_plan plan = plan_of(seed);
        struct play play = play_begin(&plan);
        struct sim_node *leader = play_leader(&play, 3000);
        struct sim_node *follower = play_follower(&play, leader);
        cr_assert_eq(grant(&play, leader, ID, 9000), 0);
        struct request *request;
        cr_assert_eq(api_lease_revoke(&leader->node->handle, ID, 3000, &request), 0);
        struct ask revoked, kept[20];
        send(&play, leader, request, &revoked);
        for (size_t i = 0; i < 20; i++) {
            struct sim_node *at = i % 2 ? leader : follower;
            send(&play, at, keep_request(at, ID, 3000), &kept[i]);
            sim_world_run_ms(play.world, i % 3);
        }
        sim_world_run_ms(play.world, 200);
        cr_assert_eq(revoked.rc, 0);
        for (size_t i = 0; i < 20; i++) {
            cr_assert(kept[i].rc == LKV_ELEASE ||
                          (kept[i].rc == 0 && kept[i].answered_ns <= revoked.answered_ns),
                      "%zu: %s", i, error_name(kept[i].rc));
        }
        cr_assert_eq(kept[0].rc, LKV_ELEASE, "it came behind, and waited");
        cr_assert_eq(revoke(&play, leader, ID), LKV_ELEASE);
        play_agree(&play);
        play_end(&play);
    }
}

/* ------------------------------------------------------------------ changes of leader */

/* X-I5: the old leader hangs for ten seconds, the lease is kept alive at whoever lives. */
Test(sim_leases, x_i5_a_lease_lives_while_the_old_leader_hangs) {
    for (uint64_t seed = 4020; seed < 4026; seed++) {
        struct sim_plan plan = plan_of(seed);
        struct play play = play_begin(&plan);
        struct sim_node *old = play_leader(&play, 3000);
        cr_assert_eq(grant(&play, old, ID, 4000), 0);
        sim_loop_pause(&old->loop, 10000 * MS_NS);
        for (int i = 0; i < 14; i++) {
            struct sim_node *at = play_follower(&play, old);
            struct ask kept = keep(&play, at, ID);
            cr_assert(kept.rc == 0, "after %d s: %s", i, error_name(kept.rc));
            sim_world_run_ms(play.world, 1000);
        }
        cr_assert(is_open(&play, ID));
        uint64_t lived_ms = lives_ms(&play, ID, 10000);
        cr_assert(lived_ms + 1000 >= 4000 && lived_ms <= 4000 + plan.election_ms + 1000, "%d",
                  (int)lived_ms);
        play_agree(&play);
        play_end(&play);
    }
}

/* X-I6: an election every ten seconds adds at most 5 s and the time in which nobody led. */
Test(sim_leases, x_i6_elections_delay_the_end_by_a_bounded_time) {
    for (uint64_t seed = 4030; seed < 4034; seed++) {
        struct sim_plan plan = plan_of(seed);
        struct play play = play_begin(&plan);
        cr_assert_eq(grant(&play, play_leader(&play, 3000), ID, 60000), 0);
        uint64_t begun_ms = sim_world_now_ms(play.world), lived_ms = 0;
        unsigned elections = 0;
        while (lived_ms < 200000) {
            (void)lives_ms(&play, ID, 10000);
            lived_ms = sim_world_now_ms(play.world) - begun_ms;
            struct sim_node *leader = play_leader(&play, 5000);
            if (!is_open(&play, ID)) {
                break;
            }
            sim_node_crash(leader, elections % 2 == 0);
            sim_node_restart_in(leader, 1000);
            elections++;
            (void)play_leader(&play, 5000);
        }
        uint64_t bound_ms = 60000 + elections * (5000 + 2 * plan.election_ms) + 1000;
        cr_assert(elections > 4, "%u", elections);
        cr_assert(lived_ms >= 60000 && lived_ms <= bound_ms, "%d ms with %u elections",
                  (int)lived_ms, elections);
        play_agree(&play);
        play_end(&play);
    }
}

/* C12: it runs out just when nobody leads, and its keys go all at once. */
Test(sim_leases, c12_a_lease_that_runs_out_during_an_election) {
    for (uint64_t seed = 4040; seed < 4050; seed++) {
        struct sim_plan plan = plan_of(seed);
        struct play play = play_begin(&plan);
        struct sim_node *old = play_leader(&play, 3000);
        cr_assert_eq(grant(&play, old, ID, 2000), 0);
        for (uint32_t i = 0; i < 5; i++) {
            cr_assert_eq(put(&play, old, SIM_LEASED_FROM + i, ID), 0);
        }
        sim_world_run_ms(play.world, 1500 + 80 * (seed - 4040));
        sim_isolate(play.world, old->number, UINT64_MAX);
        sim_world_run_ms(play.world, 9000);
        cr_assert_eq(play.world->counts.lapsed, 1);
        sim_rejoin(play.world, old->number);
        play_agree(&play);
        play_end(&play);
    }
}

/* A leader that was deposed without knowing it answers no keep-alive (rule 27). */
Test(sim_leases, c12_a_deposed_leader_keeps_nothing_alive) {
    struct sim_plan plan = plan_of(4060);
    struct play play = play_begin(&plan);
    struct sim_node *old = play_leader(&play, 3000);
    cr_assert_eq(grant(&play, old, ID, 3000), 0);
    sim_isolate(play.world, old->number, UINT64_MAX);
    struct ask kept;
    send(&play, old, keep_request(old, ID, 8000), &kept);
    sim_world_run_ms(play.world, 7000);
    cr_assert_eq(kept.rc, 1, "still waits");
    sim_rejoin(play.world, old->number);
    sim_world_run_ms(play.world, 2000);
    cr_assert_eq(kept.rc, LKV_ELEASE, "%s", error_name(kept.rc));
    play_agree(&play);
    play_end(&play);
}

/* Images and restarts of all keep what is left. */
Test(sim_leases, c12_what_is_left_outlives_a_restart_of_all) {
    struct sim_plan plan = plan_of(4070);
    plan.image_log_bytes = 4096;
    plan.keep_entries = 0;
    struct play play = play_begin(&plan);
    cr_assert_eq(grant(&play, play_leader(&play, 3000), ID, 30000), 0);
    for (uint32_t i = 0; i < 150; i++) {
        play_put(&play, i % 10);
    }
    sim_world_run_ms(play.world, 12000);
    for (size_t i = 0; i < plan.nodes; i++) {
        sim_node_crash(&play.world->nodes[i], true);
        sim_node_restart_in(&play.world->nodes[i], 10);
    }
    struct sim_node *leader = play_leader(&play, 5000);
    struct ask left = ttl(&play, leader, ID);
    cr_assert(left.rc == 0 && left.ttl_ms == 30000);
    cr_assert(left.remaining_ms <= 23000 && left.remaining_ms >= 17000, "%d",
              (int)left.remaining_ms);
    play_agree(&play);
    play_end(&play);
}

/* ------------------------------------------------------------------ many */

/* X-I7 */
Test(sim_leases, x_i7_ten_thousand_grants_and_keep_alives_say_their_ttl) {
    struct sim_plan plan = plan_of(4080);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    enum { MANY = 10000, AT_ONCE = 500 };
    static struct ask asks[AT_ONCE];
    for (int64_t first = 1; first <= MANY; first += AT_ONCE) {
        for (int64_t i = 0; i < AT_ONCE; i++) {
            struct request *request;
            int64_t id = first + i;
            cr_assert_eq(api_lease_grant(&leader->node->handle, &id, 1000000 + id, 5000, &request),
                         0);
            send(&play, leader, request, &asks[i]);
        }
        sim_world_run_ms(play.world, 60);
        for (int64_t i = 0; i < AT_ONCE; i++) {
            cr_assert_eq(asks[i].rc, 0, "%s", error_name(asks[i].rc));
            send(&play, leader, keep_request(leader, first + i, 3000), &asks[i]);
        }
        sim_world_run_ms(play.world, 20);
        for (int64_t i = 0; i < AT_ONCE; i++) {
            cr_assert_eq(asks[i].rc, 0, "%s", error_name(asks[i].rc));
            cr_assert_eq(asks[i].ttl_ms, (uint64_t)(1000000 + first + i));
        }
    }
    struct request *request;
    cr_assert_eq(api_lease_list(&leader->node->handle, 0, 0, 3000, &request), 0);
    cr_assert_eq(call(&play, leader, request).count, 1000);
    play_agree(&play);
    play_end(&play);
}

/* Clients that do all of it at once, while leaders come and go. */
Test(sim_leases, c12_c13_clients_under_changes_of_leader) {
    uint64_t lapsed = 0, kept = 0;
    for (uint64_t seed = 4100; seed < 4108; seed++) {
        struct sim_plan plan = plan_of(seed);
        plan.clients = 8;
        plan.keys = 8;
        plan.op_pause_ns = 150 * MS_NS;
        plan.lease_permille = 400;
        plan.lease_ttl_ms = 1000 + 500 * (seed % 4);
        plan.remotes = 2;
        plan.remote_permille = 500;
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        sim_load_start(play.world);
        for (unsigned round = 0; round < 6; round++) {
            struct sim_node *leader = play_leader(&play, 10000);
            if (round % 2 == 0) {
                sim_node_crash(leader, true);
                sim_node_restart_in(leader, 700);
            } else {
                sim_isolate(play.world, leader->number, play.world->time.now_ns + 1500 * MS_NS);
            }
            sim_world_run_ms(play.world, 3000);
        }
        play_agree(&play);
        lapsed += play.world->counts.lapsed;
        kept += play.world->counts.lease_kept;
        play_end(&play);
    }
    cr_expect(lapsed > 10, "only %d ran out", (int)lapsed);
    cr_expect(kept > 100, "only %d keep-alives", (int)kept);
}
