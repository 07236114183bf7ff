/* Many seeds, each in a process of its own, several at once. */
#ifndef TESTS_SIM_HUNT_H
#define TESTS_SIM_HUNT_H

#include "tests/sim/world_story.h"

#include <sys/types.h>

enum { SIM_JOBS_MAX = 64 };

struct sim_hunt_child {
    pid_t pid; /* 0: free */
    uint64_t seed;
    int result_fd;
};

struct sim_hunt {
    uint64_t next, last; /* seeds */
    double until;        /* on sim_clock_s(); 0: no limit */
    size_t jobs;         /* processes at once */
    bool twice;          /* each one again: it must tell the same story */
    struct sim_plan (*plan_of)(uint64_t seed);
    bool (*wanted)(const struct sim_plan *plan); /* NULL: all; others are passed over */

    struct sim_summary total;
    uint64_t seeds, failures, log_seeds, rot_seeds, any_seeds;
    uint64_t failed[32];
    struct sim_hunt_child children[SIM_JOBS_MAX];
};

double sim_clock_s(void); /* monotonic, real */

/* Plays them until eight have failed, the time is over, or SIGINT or SIGTERM comes; prints each failure,
 * and what was played in all. Whether one failed. */
int sim_hunt_run(struct sim_hunt *hunt);

#endif
