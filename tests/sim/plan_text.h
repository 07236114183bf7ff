/* A plan's numbers by name, for the command line and for telling two plans apart. */
#ifndef TESTS_SIM_PLAN_TEXT_H
#define TESTS_SIM_PLAN_TEXT_H

#include "tests/sim/world.h"

#include <stdio.h>

/* How many numbers a plan has (the seed is none of them), and the name of each: as the member's, or a
 * fault's ("kill", "power", ...) for its weight. */
size_t sim_plan_numbers(void);
const char *sim_plan_name(size_t i);
int64_t sim_plan_number(const struct sim_plan *plan, size_t i);
void sim_plan_set_number(struct sim_plan *plan, size_t i, int64_t value);

/* "NAME=VALUE". False: there is no such name, or it is no number. */
bool sim_plan_set(struct sim_plan *plan, const char *text);

/* " --set NAME=VALUE" for each number in which `plan` differs from `other`. */
void sim_plan_print_difference(const struct sim_plan *plan, const struct sim_plan *other,
                               FILE *out);

#endif
