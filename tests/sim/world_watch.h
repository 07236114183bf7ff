/* A simulated client's watch. */
#ifndef TESTS_SIM_WORLD_WATCH_H
#define TESTS_SIM_WORLD_WATCH_H

#include "tests/sim/world.h"

/* It has a turn: takes what has come, ends its watch, or opens one, at the remote or, if it is NULL, at its node. */
void sim_watch_follow(struct sim_client *client, struct sim_remote *remote);
/* All is well, and nothing is written: each open watch comes to the end of what there is. */
void sim_watch_settle(struct sim_world *world);
void sim_watch_fini(struct sim_client *client);

#endif
