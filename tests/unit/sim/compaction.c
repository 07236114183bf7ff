/* What the leader gives up of history by itself; and that nothing of a later feature level is proposed to
 * a cluster that has not reached it (rules 15, 22). */
#include "lib/request.h"
#include "tests/unit/sim/play.h"

static void on_end(struct request *request) {
    int *end = request->owner;
    *end = request->reply->rc != 0 ? request->reply->rc : 1;
    if (request->tag != NULL) {
        (void)snprintf(request->tag, REASON_SIZE, "%s", lkv_msg_text(request->reply));
    }
}

/* Asks the node for it; *end is 0 until it is answered, and 1 or the error then. */
static void propose(struct sim_node *node, const struct kv_command *command, uint64_t timeout_ms,
                    int *end, char *text) {
    struct request *request = request_new(REQUEST_WRITE);
    request->command = kv_command_encode(command);
    request->level = (uint8_t)kv_command_level(command);
    request->on_finish = on_end;
    request->owner = end;
    request->tag = text;
    request->deadline_ns = node_now(node->node) + timeout_ms * MS_NS;
    *end = 0;
    cr_assert_eq(node_submit(&node->node->handle, request), 0);
}

static struct kv_stats stats_of(const struct sim_node *node) {
    struct kv_stats stats;
    kv_stats(node->node->kv, &stats);
    return stats;
}

static struct play begin(uint64_t seed, uint64_t revisions, uint64_t ms, uint64_t bytes) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.history_revisions = revisions;
    plan.history_ms = ms;
    plan.history_bytes = bytes;
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    sim_world_run_ms(play.world, 500);
    return play;
}

/* All of them give up the same. */
static void expect_kept(struct play *play, uint64_t from, uint64_t to) {
    for (size_t i = 0; i < 3; i++) {
        struct kv_stats stats = stats_of(&play->world->nodes[i]);
        cr_expect(stats.kept_from >= from && stats.kept_from <= to, "n%d keeps from %d of %d",
                  (int)i + 1, (int)stats.kept_from, (int)stats.revision);
    }
}

Test(sim_compaction, by_count_the_newest_revisions_stay) {
    struct play play = begin(700, 20, 0, 0);
    for (uint32_t i = 0; i < 100; i++) {
        play_put(&play, i % 4);
    }
    sim_world_run_ms(play.world, 1000);
    expect_kept(&play, 101 - 22, 101 - 20);
    uint64_t applied = play_leader(&play, 0)->node->applied;
    sim_world_run_ms(play.world, 5000);
    cr_expect_eq(play_leader(&play, 0)->node->applied, applied, "it compacts without a change");
    play_agree(&play);
    play_end(&play);
}

Test(sim_compaction, by_age_a_new_leader_counts_anew) {
    struct play play = begin(701, 0, 3000, 0);
    for (uint32_t i = 0; i < 10; i++) {
        play_put(&play, i % 4);
    }
    sim_world_run_ms(play.world, 1500);
    expect_kept(&play, 1, 1);
    struct sim_node *leader = play_leader(&play, 0);
    sim_node_crash(leader, false);
    sim_node_start(leader);
    (void)play_leader(&play, 3000);
    sim_world_run_ms(play.world, 2000); /* 3.5 s after the changes; the new one has seen 2 */
    expect_kept(&play, 1, 1);
    sim_world_run_ms(play.world, 3000);
    expect_kept(&play, 11, 11);
    play_agree(&play);
    play_end(&play);
}

Test(sim_compaction, by_memory_half_of_it_goes) {
    struct play play = begin(702, 0, 0, 4096);
    for (uint32_t i = 0; i < 200; i++) {
        play_put(&play, i % 4);
    }
    sim_world_run_ms(play.world, 3000);
    for (size_t i = 0; i < 3; i++) {
        cr_expect_leq(stats_of(&play.world->nodes[i]).history_memory, 4096);
        cr_expect_gt(stats_of(&play.world->nodes[i]).history_memory, 512, "too much went");
    }
    play_agree(&play);
    play_end(&play);
}

/* What an image that is being written holds comes back by no compaction: another one would only take from readers. */
Test(sim_compaction, by_memory_nothing_more_goes_while_an_image_holds_it) {
    struct play play = begin(707, 0, 0, 4096);
    for (uint32_t i = 0; i < 10; i++) {
        play_put(&play, i % 4);
    }
    struct sim_node *leader = play_leader(&play, 0);
    struct kv_view *view;
    cr_assert_eq(kv_view_open(leader->node->kv, &view), 0);
    for (uint32_t i = 0; i < 200; i++) {
        play_put(&play, i % 4);
    }
    sim_world_run_ms(play.world, 3000);
    struct kv_stats held = stats_of(leader);
    cr_expect(held.history_held && held.history_memory > 4096);
    cr_expect_gt(held.kept_from, 1, "nothing went at all");
    cr_expect_lt(held.kept_from, held.revision / 2, "it keeps from %d of %d", (int)held.kept_from,
                 (int)held.revision);
    kv_view_close(view);
    play_put(&play, 1);
    sim_world_run_ms(play.world, 3000);
    cr_expect_leq(stats_of(leader).history_memory, 4096);
    play_agree(&play);
    play_end(&play);
}

Test(sim_compaction, its_memory_comes_back_while_nothing_is_applied) {
    struct play play = begin(703, 0, 0, 0);
    for (uint32_t i = 0; i < 100; i++) {
        play_put(&play, i % 4);
    }
    struct sim_node *leader = play_leader(&play, 0);
    cr_assert_geq(stats_of(leader).versions, 100);
    const struct kv_command compact = {.op = KV_COMPACT, .revision = stats_of(leader).revision};
    int end;
    propose(leader, &compact, 1000, &end, NULL);
    sim_world_run_ms(play.world, 1000);
    cr_assert_eq(end, 1);
    for (size_t i = 0; i < 3; i++) {
        cr_expect_eq(stats_of(&play.world->nodes[i]).versions, 4);
    }
    propose(leader, &compact, 1000, &end, NULL);
    sim_world_run_ms(play.world, 100);
    cr_expect_eq(end, LKV_ECOMPACTED);
    play_agree(&play);
    play_end(&play);
}

/* ------------------------------------------------------------------ the level */

static const struct kv_command compact_first = {.op = KV_COMPACT, .revision = 1};

static struct play begin_with(uint64_t seed, uint32_t third) {
    struct sim_plan plan = sim_plan_calm(seed);
    struct play play = {.story = sim_story_new(STORY_LINES, stderr)};
    play.world = sim_world_new(&plan, sim_story_tell, play.story);
    for (size_t i = 0; i < 3; i++) {
        play.world->nodes[i].feature_level = i == 2 ? third : 2;
        sim_node_start(&play.world->nodes[i]);
    }
    return play;
}

Test(sim_compaction, rule_22_refuses_at_once_what_a_member_does_not_know) {
    struct play play = begin_with(704, 1);
    (void)play_leader(&play, 3000);
    sim_world_run_ms(play.world, 1000);
    int end;
    char text[REASON_SIZE] = "";
    propose(play_leader(&play, 0), &compact_first, 5000, &end, text);
    sim_world_run_ms(play.world, 10);
    cr_expect_eq(end, LKV_EUNSUPPORTED);
    cr_expect_not_null(strstr(text, "feature level 2, the cluster has 1"), "%s", text);
    cr_expect_not_null(strstr(text, "n3"), "%s", text);
    play_put(&play, 1); /* what it knows goes on */
    play_agree(&play);
    play_end(&play);
}

Test(sim_compaction, rule_22_waits_for_a_member_that_has_not_said_what_it_knows) {
    struct play play = begin_with(705, 1);
    (void)play_leader(&play, 3000);
    struct sim_node *third = &play.world->nodes[2];
    sim_node_crash(third, false);
    sim_world_run_ms(play.world, 5000);
    int late, end;
    char text[REASON_SIZE] = "";
    propose(play_leader(&play, 3000), &compact_first, 500, &late, text);
    propose(play_leader(&play, 3000), &compact_first, 20000, &end, NULL);
    sim_world_run_ms(play.world, 1000);
    cr_expect_eq(late, LKV_EUNSUPPORTED, "%d", late);
    cr_expect_not_null(strstr(text, "n3 has not said"), "%s", text);
    cr_expect_eq(end, 0, "%d", end);
    third->feature_level = 2;
    sim_node_start(third);
    sim_world_run_ms(play.world, 3000);
    cr_expect_eq(end, LKV_ECOMPACTED, "it was carried out: %d", end); /* 1 is what there is */
    play_agree(&play);
    play_end(&play);
}

/* A leader that has not applied its log yet does not know what level the cluster has. */
Test(sim_compaction, rule_22_a_restarted_node_does_not_forget_the_level) {
    struct sim_plan plan = sim_plan_calm(706);
    plan.nodes = 1;
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    for (uint32_t i = 0; i < 20; i++) {
        play_put(&play, i % 4);
    }
    struct sim_node *node = &play.world->nodes[0];
    sim_node_crash(node, false);
    sim_node_start(node);
    const struct kv_command compact = {.op = KV_COMPACT, .revision = 5};
    int end;
    propose(node, &compact, 5000, &end, NULL);
    sim_world_run_ms(play.world, 3000);
    cr_expect_eq(end, 1, "%d", end);
    play_agree(&play);
    play_end(&play);
}
