/* Playing a seed, and the story of it. */
#ifndef TESTS_SIM_WORLD_STORY_H
#define TESTS_SIM_WORLD_STORY_H

#include "tests/sim/world.h"

#include <stdio.h>

struct sim_story; /* the last lines of what happened */

/* With SIZE_MAX lines they are printed as they come, and none is kept. */
struct sim_story *sim_story_new(size_t lines, FILE *out);
void sim_story_free(struct sim_story *story);
void sim_story_print(const struct sim_story *story);
/* For sim_world_new. */
void sim_story_tell(void *story, uint64_t now_ns, const char *line);

struct sim_summary {
    uint64_t seed, hash, virtual_ns, events;
    struct sim_counts counts;
    struct sim_net_counts net;
    struct sim_disk_counts disk; /* of all */
    char failure[1024];          /* empty: it went well */
};

/* Adds the counts of one to those of all. */
void sim_summary_add(struct sim_summary *total, const struct sim_summary *one);

/* Every kind of fault, and how often it did something (not: how often it was tried). */
size_t sim_fired_kinds(void);
const char *sim_fired_name(size_t kind);
uint64_t sim_fired(const struct sim_summary *summary, size_t kind);

/* `story` may be NULL: quicker, and the same hash. */
void sim_play(uint64_t seed, struct sim_story *story, struct sim_summary *out);
void sim_play_plan(const struct sim_plan *plan, struct sim_story *story, struct sim_summary *out);

#endif
