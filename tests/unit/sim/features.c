/* Rule 22: clusters of programs of different versions, in both models. */
#include "tests/unit/sim/play.h"

static struct play begin_plan(const struct sim_plan *plan, enum model model,
                              const uint32_t levels[3]) {
    struct play play = {.story = sim_story_new(STORY_LINES, stderr)};
    play.world = sim_world_new(plan, sim_story_tell, play.story);
    for (size_t i = 0; i < plan->nodes; i++) {
        play.world->nodes[i].feature_level = levels[i];
        play.world->nodes[i].options.model = model;
        sim_node_start(&play.world->nodes[i]);
    }
    (void)play_leader(&play, 3000);
    sim_world_run_ms(play.world, 1000);
    return play;
}

static struct play begin(uint64_t seed, enum model model, const uint32_t levels[3]) {
    struct sim_plan plan = sim_plan_calm(seed);
    return begin_plan(&plan, model, levels);
}

static uint32_t level_of(const struct sim_node *node) {
    return node->node->state->feature_level(node->node);
}

static void expect_level(struct play *play, uint32_t level) {
    for (size_t i = 0; i < play->world->plan.nodes; i++) {
        struct sim_node *node = &play->world->nodes[i];
        if (node->state == SIM_UP) {
            cr_expect_eq(level_of(node), level, "%s has %u, not %u", node->name, level_of(node),
                         level);
        }
    }
    cr_assert(not(sim_world_failed(play->world)), "%s", play->world->failure);
}

static void restart_with(struct play *play, size_t i, uint32_t level) {
    sim_node_crash(&play->world->nodes[i], false);
    play->world->nodes[i].feature_level = level;
    sim_node_start(&play->world->nodes[i]);
    sim_world_run_ms(play->world, 3000);
}

static void rises_with_the_last(enum model model) {
    struct play play = begin(90, model, (const uint32_t[]){3, 3, 1});
    expect_level(&play, 1);
    restart_with(&play, 2, 2);
    expect_level(&play, 2);
    restart_with(&play, 2, 4); /* newer than the others */
    expect_level(&play, 3);
    for (size_t i = 0; i < 3; i++) { /* by replay, or by what the log has recovered */
        sim_node_crash(&play.world->nodes[i], true);
    }
    for (size_t i = 0; i < 3; i++) {
        sim_node_start(&play.world->nodes[i]);
    }
    (void)play_leader(&play, 3000);
    sim_world_run_ms(play.world, 2000);
    expect_level(&play, 3);
    uint64_t last = play_leader(&play, 0)->node->applied;
    restart_with(&play, 0, 3); /* nothing is proposed that is there already */
    restart_with(&play, 1, 3);
    (void)play_leader(&play, 3000);
    cr_expect_leq(play_leader(&play, 0)->node->applied, last + 4, "no-ops only");
    if (model == MODEL_KV) {
        play_agree(&play);
    }
    play_end(&play);
}

Test(sim_features, rule_22_the_level_rises_with_the_last_member) {
    rises_with_the_last(MODEL_KV);
}

Test(sim_features, rule_22_the_level_rises_with_the_last_member_in_log_mode) {
    rises_with_the_last(MODEL_LOG);
}

Test(sim_features, rule_22_a_member_that_is_away_holds_the_level_down) {
    struct play play = begin(91, MODEL_KV, (const uint32_t[]){1, 1, 1});
    sim_node_crash(&play.world->nodes[2], false);
    restart_with(&play, 0, 2);
    restart_with(&play, 1, 2);
    (void)play_leader(&play, 3000);
    sim_world_run_ms(play.world, 3000);
    expect_level(&play, 1);
    play.world->nodes[2].feature_level = 2;
    sim_node_start(&play.world->nodes[2]);
    sim_world_run_ms(play.world, 3000);
    expect_level(&play, 2);
    play_agree(&play);
    play_end(&play);
}

/* It was told: with an older program it stops, and says which one is needed; the others go on. */
static void comes_back_older(enum model model, bool before_the_entry) {
    struct play play = begin(92, model, (const uint32_t[]){2, 2, before_the_entry ? 2 : 1});
    struct sim_node *old = &play.world->nodes[2];
    if (!before_the_entry) {
        restart_with(&play, 2, 2);
    }
    expect_level(&play, 2);
    sim_node_crash(old, false);
    old->feature_level = 1;
    old->damaged = true;
    sim_node_start(old);
    for (int i = 0; i < 300 && old->node != NULL && old->node->stop_rc == 0; i++) {
        sim_world_run_ms(play.world, 10);
    }
    cr_assert_not_null(old->node);
    cr_expect_eq(old->node->stop_rc, LKV_EVERSION);
    cr_expect_not_null(strstr(old->node->stop_why.text, "feature level 2"), "%s",
                       old->node->stop_why.text);
    if (model == MODEL_KV) {
        play_put(&play, 1);
    }
    old->feature_level = 2;
    sim_world_run_ms(play.world, 5000); /* its supervisor starts it again */
    old->damaged = false;
    expect_level(&play, 2);
    if (model == MODEL_KV) {
        play_agree(&play);
    }
    play_end(&play);
}

Test(sim_features, rule_22_a_member_that_comes_back_with_an_older_program_stops) {
    comes_back_older(MODEL_KV, true);
    comes_back_older(MODEL_KV, false);
    comes_back_older(MODEL_LOG, true);
    comes_back_older(MODEL_LOG, false);
}

/* It said that it knows the level and came back with an older program before the entry reached it; the log
 * is gone behind an image by then. */
Test(sim_features, rule_22_a_member_that_does_not_understand_the_image_stops) {
    struct sim_plan plan = sim_plan_calm(93);
    plan.segment_bytes = plan.image_log_bytes = 4 * 1024;
    plan.keep_entries = 2;
    struct play play = begin_plan(&plan, MODEL_KV, (const uint32_t[]){2, 2, 1});
    struct sim_world *world = play.world;
    struct sim_node *old = &world->nodes[2];
    world->net.options.latency_min_ns = 8 * MS_NS;
    world->net.options.latency_max_ns = 12 * MS_NS;
    sim_node_crash(old, false);
    old->feature_level = 2;
    sim_node_start(old);
    for (int i = 0; i < 3000 && play_leader(&play, 3000)->node->feature_proposed < 2; i++) {
        sim_world_run_ms(world, 1);
    }
    sim_isolate(world, old->number, UINT64_MAX);
    sim_world_run_ms(world, 5000); /* its connections are given up, and nothing is held for it */
    cr_assert_eq(level_of(old), 1, "the entry came through");
    cr_assert_eq(level_of(&world->nodes[0]), 2);
    for (uint32_t i = 0; i < 300; i++) {
        play_put(&play, i % 16);
    }
    sim_node_crash(old, false);
    old->feature_level = 1;
    old->damaged = true;
    sim_node_start(old);
    sim_rejoin(world, old->number);
    for (int i = 0; i < 1000 && old->node != NULL && old->node->stop_rc == 0; i++) {
        sim_world_run_ms(world, 10);
    }
    cr_assert_not_null(old->node);
    cr_expect_eq(old->node->stop_rc, LKV_EVERSION);
    cr_expect_not_null(strstr(old->node->stop_why.text, "image of feature level 2"), "%s",
                       old->node->stop_why.text);
    old->feature_level = 2;
    sim_world_run_ms(world, 5000);
    old->damaged = false;
    expect_level(&play, 2);
    play_agree(&play);
    play_end(&play);
}
