/* A program's own state machine on whole nodes: from seeds, and a laggard that needs an image. */
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

#include <inttypes.h>

enum { FIXED_SEEDS = 16 };

static void play_seed(const char *world, sim_plan_maker *maker, uint64_t seed,
                      struct sim_counts *sum) {
    struct sim_plan plan = maker(seed);
    struct sim_summary summary;
    sim_play_plan(&plan, NULL, &summary);
    cr_expect(summary.failure[0] == '\0', "simulate --world %s --seed %" PRIu64 ": %s", world, seed,
              summary.failure);
    sum->own_applied += summary.counts.own_applied;
    sum->own_images += summary.counts.own_images;
    sum->own_loaded += summary.counts.own_loaded;
}

Test(sim_own, fixed_seeds_find_nothing) {
    struct sim_counts sum = {0};
    for (uint64_t seed = 1; seed <= FIXED_SEEDS; seed += LKV_STRIDE) {
        play_seed("own", sim_plan_own, seed, &sum);
        play_seed("own-rot", sim_plan_own_rot, seed + 100, &sum);
    }
    cr_expect(sum.own_applied > 100 && sum.own_images > 10 && sum.own_loaded > 10,
              "%" PRIu64 " entries, %" PRIu64 " images, %" PRIu64 " loads", sum.own_applied,
              sum.own_images, sum.own_loaded);
}

/* L16, P2: it was away until the log had gone; its program then goes on from an image. */
Test(sim_own, a_laggards_program_goes_on_from_an_image) {
    struct sim_plan plan = sim_plan_calm(5);
    plan.log_mode = plan.own_mode = true;
    plan.segment_bytes = 4 * 1024;
    plan.image_log_bytes = 4 * 1024;
    plan.keep_entries = 10;
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    struct sim_node *away = play_follower(&play, leader);
    for (int i = 0; i < 20; i++) {
        play_put(&play, 0);
    }
    sim_world_run_ms(play.world, 500);
    uint64_t reached = away->own.index;
    cr_assert_gt(reached, 0);
    sim_isolate(play.world, away->number, UINT64_MAX);
    for (int i = 0; i < 800; i++) {
        play_put(&play, 0);
    }
    sim_world_run_ms(play.world, 2000);
    cr_assert_gt(log_first(leader->node->log), reached, "the log has not gone");
    cr_assert(leader->own.index > reached && away->own.index == reached);
    uint64_t loads = play.world->counts.own_loaded;
    sim_rejoin(play.world, away->number);
    play_agree(&play);
    cr_expect_gt(play.world->counts.own_loaded, loads, "it has got the log");
    cr_expect(away->own.index == leader->own.index && away->own.hash == leader->own.hash);
    play_end(&play);
}
