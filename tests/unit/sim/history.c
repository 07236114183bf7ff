/* What clients of a world asked and were answered is judged at the end, without believing any index. */
#include "tests/unit/sim/play.h"

static struct play play_load(uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.clients = 6;
    plan.depth = 2;
    plan.keys = 5;
    plan.value_bytes_max = 64;
    plan.op_pause_ns = 20 * MS_NS;
    plan.timeout_ms = 500;
    plan.session_permille = 300;
    plan.session_ttl_ms = 5000;
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 1000);
    sim_node_crash(sim_world_leader(play.world), true);
    sim_world_run_ms(play.world, 3000);
    return play;
}

Test(sim_history, is_linearizable_across_a_crash_of_the_leader) {
    struct play play = play_load(5);
    play_agree(&play);
    const struct sim_history *history = &play.world->history;
    size_t answered = 0, unknown = 0;
    for (size_t i = 0; i < history->count; i++) {
        answered += history->ops[i].outcome == LIN_OK;
        unknown += history->ops[i].outcome == LIN_INFO;
    }
    cr_assert_gt(answered, 500);
    cr_assert_gt(unknown, 0);
    cr_assert_eq(play.world->counts.undecided, 0);
    play_end(&play);
}

/* The last answered read shows the very first value of its key, which was overwritten long ago. */
Test(sim_history, a_stale_answer_fails_the_world) {
    struct play play = play_load(6);
    struct sim_world *world = play.world;
    play_agree(&play);
    struct lin_op *ops = world->history.ops, *read = NULL, *first = NULL;
    for (size_t i = 0; i < world->history.count; i++) {
        bool is_read = ops[i].kind == LIN_GET && ops[i].outcome == LIN_OK;
        read = is_read ? &ops[i] : read;
    }
    cr_assert_not_null(read);
    for (size_t i = 0; i < world->history.count && first == NULL; i++) {
        bool is_put = ops[i].kind == LIN_PUT && ops[i].outcome == LIN_OK;
        first = is_put && ops[i].key == read->key ? &ops[i] : NULL;
    }
    cr_assert_not_null(first);
    read->value = first->value;
    sim_history_check(world);
    cr_assert_not_null(strstr(world->failure, "not linearizable: key k00"), "%s", world->failure);
    cr_assert_not_null(strstr(world->failure, "operations have no order"), "%s", world->failure);
    sim_world_free(world);
    sim_story_free(play.story);
}
