/* What the tests of whole clusters share: a world that tells its story when something is wrong. */
#ifndef TESTS_UNIT_SIM_PLAY_H
#define TESTS_UNIT_SIM_PLAY_H

#include "tests/sim/world_story.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

enum { STORY_LINES = 80, ELECTION_MS = 600 };

struct play {
    struct sim_world *world;
    struct sim_story *story;
};

static inline struct play play_begin(const struct sim_plan *plan) {
    struct play play = {.story = sim_story_new(STORY_LINES, stderr)};
    play.world = sim_world_new(plan, sim_story_tell, play.story);
    for (size_t i = 0; i < plan->nodes; i++) {
        sim_node_start(&play.world->nodes[i]);
    }
    return play;
}

static inline bool play_has_leader(struct sim_world *world) {
    return sim_world_leader(world) != NULL;
}

static inline struct sim_node *play_leader(struct play *play, uint64_t limit_ms) {
    bool found = sim_world_until(play->world, play_has_leader, limit_ms);
    if (!found) {
        sim_story_print(play->story);
    }
    cr_assert(found, "no leader within %d ms: %s", (int)limit_ms, play->world->failure);
    return sim_world_leader(play->world);
}

/* Another node than the leader. */
static inline struct sim_node *play_follower(struct play *play, const struct sim_node *leader) {
    return &play->world->nodes[leader == &play->world->nodes[0] ? 1 : 0];
}

static inline void play_put(struct play *play, uint32_t key) {
    bool done = sim_put_ok(play->world, key);
    if (!done) {
        sim_story_print(play->story);
    }
    cr_assert(done, "no put within 5 s: %s", play->world->failure);
}

/* Heals, and demands that all agree. */
static inline void play_agree(struct play *play) {
    struct sim_world *world = play->world;
    sim_load_stop(world);
    sim_world_heal(world);
    bool agreed = sim_world_until(world, sim_world_converged, (uint64_t)40 * ELECTION_MS);
    sim_check_end(world);
    if (!agreed || sim_world_failed(world)) {
        sim_story_print(play->story);
    }
    cr_assert(not(sim_world_failed(world)), "%s", world->failure);
    cr_assert(agreed, "no agreement");
}

static inline void play_end(struct play *play) {
    bool failed = sim_world_failed(play->world);
    char failure[1024];
    memcpy(failure, play->world->failure, sizeof(failure));
    if (failed) {
        sim_story_print(play->story);
    }
    sim_world_free(play->world);
    sim_story_free(play->story);
    cr_assert(not(failed), "%s", failure);
}

#endif
