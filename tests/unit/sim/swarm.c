/* Seeds that are played for ever: a fixed range, and those of tests/sim/seeds.txt, which failed once. */
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

#include <inttypes.h>

enum { FIXED_SEEDS = 60 };

static void play_seed(sim_plan_maker *maker, uint64_t seed) {
    struct sim_plan plan = maker(seed);
    struct sim_summary summary;
    sim_play_plan(&plan, NULL, &summary);
    cr_expect(summary.failure[0] == '\0', "simulate --world %s --seed %" PRIu64 ": %s",
              sim_world_name(maker), seed, summary.failure);
    if (LKV_STRIDE == 1) { /* a sanitizer would learn nothing from it */
        struct sim_summary again;
        sim_play_plan(&plan, NULL, &again);
        cr_expect(again.hash == summary.hash, "simulate --world %s --seed %" PRIu64 ": two traces",
                  sim_world_name(maker), seed);
    }
}

Test(sim_swarm, fixed_seeds_find_nothing) {
    for (uint64_t seed = 1; seed <= FIXED_SEEDS; seed += LKV_STRIDE) {
        play_seed(sim_plan_swarm, seed);
        play_seed(sim_plan_mixed, seed);
    }
}

Test(sim_swarm, seeds_that_failed_once_find_nothing) {
    FILE *file = fopen(LKV_TESTS_DIR "/sim/seeds.txt", "r");
    cr_assert(file != NULL);
    char line[256];
    unsigned step = LKV_STRIDE > 1 ? 3 : 1, left = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        uint64_t seed;
        char name[32] = "plain";
        sim_plan_maker *maker;
        if (line[0] != '#' && (sscanf(line, "%" SCNu64, &seed) == 1 ||
                               sscanf(line, "%31[a-z-] %" SCNu64, name, &seed) == 2)) {
            cr_assert(sim_world_named(name, &maker), "no such world: %s", name);
            if (left == 0) {
                play_seed(maker, seed);
            }
            left = (left + 1) % step;
        }
    }
    (void)fclose(file);
}

Test(sim_swarm, the_same_seed_has_the_same_hash_with_and_without_its_story) {
    FILE *nowhere = fopen("/dev/null", "w");
    for (uint64_t seed = 100; seed < 110; seed++) {
        struct sim_summary first, second, third;
        struct sim_story *story = sim_story_new(SIZE_MAX, nowhere);
        sim_play(seed, NULL, &first);
        sim_play(seed, story, &second);
        sim_play(seed + 1000, NULL, &third);
        sim_story_free(story);
        cr_expect(first.hash == second.hash && first.events == second.events);
        cr_expect(first.hash != third.hash);
    }
    (void)fclose(nowhere);
}
