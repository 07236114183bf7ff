/* Rule 25: members compare their states; one that is changed where no checksum looks, in memory, is found. */
#include "tests/unit/sim/play.h"

enum { PERIOD_MS = 2000, FOUND_MS = 5 * PERIOD_MS, KEY = 3 };

static struct play begin(uint64_t seed, size_t nodes, bool log_mode) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.nodes = nodes;
    plan.log_mode = log_mode;
    plan.clients = 4;
    plan.digest_ms = PERIOD_MS;
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 3000);
    sim_load_stop(play.world);
    sim_world_run_ms(play.world, 3000);
    cr_assert(not(sim_world_failed(play.world)), "%s", play.world->failure);
    return play;
}

/* One bit of a value, or of the chain of hashes. */
static void tamper(struct sim_node *node) {
    node->tampered = node->world->tampered = true;
    if (node->node->kv == NULL) {
        node->node->ledger.chain ^= 1;
        return;
    }
    struct kv_query all = {.limit = 1};
    struct kv_range range;
    cr_assert_eq(kv_range(node->node->kv, &all, &range), 0);
    cr_assert_eq(range.count, 1);
    uint8_t *byte = (uint8_t *)range.items[0].value.data;
    *byte ^= 1;
    kv_range_fini(&range);
}

static void expect_states(struct play *play, const struct sim_node *odd, enum agree_state state) {
    for (size_t i = 0; i < play->world->plan.nodes; i++) {
        const struct sim_node *node = &play->world->nodes[i];
        enum agree_state expected = node == odd ? state : AGREE_SAME;
        cr_expect_eq(node->node->agree.state, expected, "%s: %d, not %d", node->name,
                     (int)node->node->agree.state, (int)expected);
        cr_expect_gt(node->node->agree.judged_index, 0);
    }
}

static int outcome(struct sim_node *node, enum sim_call_kind kind) {
    int done = 0;
    sim_submit(node, kind, KEY, 2000, &done);
    sim_world_run_ms(node->world, 3000);
    return done - 1;
}

static void all_agree(bool log_mode) {
    struct play play = begin(301, 3, log_mode);
    expect_states(&play, NULL, AGREE_SAME);
    uint64_t compared = play.world->nodes[0].node->agree.judged_index;
    sim_world_run_ms(play.world, 3 * PERIOD_MS);
    cr_expect_gt(play.world->nodes[0].node->agree.judged_index, compared, "again and again");
    play_agree(&play);
    play_end(&play);
}

Test(sim_agreement, rule_25_equal_states_agree_again_and_again) {
    all_agree(false);
}

Test(sim_agreement, rule_25_equal_states_agree_in_log_mode) {
    all_agree(true);
}

/* Alone it asks nobody for a vote, and of two it is the other that leads. */
static void never_campaigns(struct play *play, struct sim_node *odd) {
    struct sim_world *world = play->world;
    for (size_t i = 0; i < world->plan.nodes; i++) {
        if (&world->nodes[i] != odd) {
            sim_node_crash(&world->nodes[i], false);
        }
    }
    for (int i = 0; i < 30; i++) {
        sim_world_run_ms(world, 100);
        cr_assert_eq(odd->node->role, RAFT_FOLLOWER);
    }
    struct sim_node *first = odd == &world->nodes[0] ? &world->nodes[1] : &world->nodes[0];
    sim_node_start(first);
    cr_expect_eq(play_leader(play, 5000), first);
    for (size_t i = 0; i < world->plan.nodes; i++) {
        if (&world->nodes[i] != odd && &world->nodes[i] != first) {
            sim_node_start(&world->nodes[i]);
        }
    }
}

/* X-A14: it serves nothing, is named, and never leads; restarted from what its disk has it is one of them. */
static void one_differs(bool leads, bool log_mode) {
    struct play play = begin(302 + leads, 3, log_mode);
    struct sim_node *leader = play_leader(&play, 1000);
    struct sim_node *odd = leads ? leader : play_follower(&play, leader);
    tamper(odd);
    sim_world_run_ms(play.world, FOUND_MS);
    expect_states(&play, odd, AGREE_DIVERGED);
    cr_expect_neq(play_leader(&play, 3000), odd, "another one leads");
    char text[REASON_SIZE];
    cr_expect(node_agree_text(odd->node, text, sizeof(text)));
    cr_expect_not_null(strstr(text, "serves nothing"), "%s", text);
    cr_expect_eq(outcome(odd, log_mode ? SIM_LOG_SPAN : SIM_GET_LOCAL), LKV_NOT_DONE);
    cr_expect_eq(outcome(odd, log_mode ? SIM_APPEND : SIM_PUT), LKV_NOT_DONE);
    cr_expect_eq(outcome(play_leader(&play, 0), log_mode ? SIM_APPEND : SIM_PUT), LKV_DONE);
    if (!log_mode) {
        size_t size;
        uint8_t byte;
        cr_expect_eq(node_get_copy(&odd->node->handle, slice_text("k"), &byte, sizeof(byte), &size),
                     LKV_ESTOPPED);
    }
    never_campaigns(&play, odd);
    sim_node_crash(odd, false);
    sim_node_start(odd);
    sim_world_run_ms(play.world, FOUND_MS);
    expect_states(&play, NULL, AGREE_SAME);
    play_agree(&play);
    play_end(&play);
}

Test(sim_agreement, x_a14_a_follower_that_differs_serves_nothing) {
    one_differs(false, false);
}

Test(sim_agreement, x_a14_a_leader_that_differs_hands_over_and_serves_nothing) {
    one_differs(true, false);
}

Test(sim_agreement, rule_25_in_log_mode_the_chain_is_compared) {
    one_differs(false, true);
}

/* Who is right nobody can say: reads go on, writes do not, until one of them is made anew. */
Test(sim_agreement, rule_25_without_a_majority_writes_are_refused) {
    struct play play = begin(304, 2, false);
    struct sim_node *leader = play_leader(&play, 1000);
    struct sim_node *other = play_follower(&play, leader);
    tamper(other);
    sim_world_run_ms(play.world, FOUND_MS);
    cr_expect_eq(leader->node->agree.state, AGREE_SPLIT);
    cr_expect_eq(other->node->agree.state, AGREE_SPLIT);
    cr_expect_eq(outcome(leader, SIM_PUT), LKV_NOT_DONE);
    cr_expect_eq(outcome(other, SIM_PUT), LKV_NOT_DONE, "by its leader");
    cr_expect_neq(outcome(leader, SIM_GET), LKV_NOT_DONE);
    sim_node_crash(other, false);
    sim_node_start(other);
    sim_world_run_ms(play.world, FOUND_MS);
    expect_states(&play, NULL, AGREE_SAME);
    play_put(&play, KEY);
    play_agree(&play);
    play_end(&play);
}

/* An older program knows neither the entry nor the frame. */
Test(sim_agreement, rule_22_nothing_is_compared_below_the_feature_level) {
    struct sim_plan plan = sim_plan_calm(305);
    plan.digest_ms = PERIOD_MS;
    struct play play = {.story = sim_story_new(STORY_LINES, stderr)};
    play.world = sim_world_new(&plan, sim_story_tell, play.story);
    for (size_t i = 0; i < plan.nodes; i++) {
        play.world->nodes[i].feature_level = i == 0 ? FEATURE_DIGEST - 1 : 0;
        sim_node_start(&play.world->nodes[i]);
    }
    (void)play_leader(&play, 3000);
    sim_world_run_ms(play.world, FOUND_MS);
    for (size_t i = 0; i < plan.nodes; i++) {
        cr_expect_eq(play.world->nodes[i].node->agree.state, AGREE_UNKNOWN);
    }
    play_agree(&play);
    play_end(&play);
}
