/* From a plan that fails to a simpler one that fails in the same way. */
#ifndef TESTS_SIM_SHRINK_H
#define TESTS_SIM_SHRINK_H

#include "tests/sim/world_story.h"

/* Plays the plan in a process of its own, so that a crash or an endless loop is a failure like any
 * other: `failure` (empty: it went well) says which. */
void sim_play_apart(const struct sim_plan *plan, struct sim_summary *out);

/* Makes `plan`, which fails with `failure`, simpler number by number, with at most `trials` runs. How
 * many of them failed alike. */
size_t sim_shrink(struct sim_plan *plan, const char *failure, size_t trials, FILE *progress);

#endif
