/* Scenarios of the consensus core, as text that says what is done and what is seen.
 *
 *   # comment                            > command [words]
 *                                        what it prints: compared line by line
 *
 * A command prints its answer and what the cluster did while it ran: roles, stops, finished reads,
 * and messages after `messages on`. LKV_SCENARIO_WRITE=1 writes what was printed into the file. */
#ifndef TESTS_SCENARIOS_SCENARIO_H
#define TESTS_SCENARIOS_SCENARIO_H

#include "tests/sim/raft_world.h"

enum { WORDS_MAX = 16, OUTPUT_MAX = 1 << 16 };

struct scenario {
    struct world *world;
    size_t nodes;
    bool quiet;              /* no trace */
    char output[OUTPUT_MAX]; /* of the command that runs */
    size_t size;
    uint64_t mark_ms; /* `mark` */
    struct world_counts marked;
};

void scenario_print(struct scenario *scenario, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs one command; what is wrong with it is printed like everything else. */
void scenario_command(struct scenario *scenario, char **words, size_t count);

/* The number behind `name=` among the words, or `usual`. */
uint64_t scenario_option(char **words, size_t count, const char *name, uint64_t usual);

/* "n3" is 3; anything else 0. */
uint64_t scenario_node(const char *word);

void scenario_inject(struct scenario *scenario, char **words, size_t count);

/* `check A OP B`: prints nothing when it holds, and what A and B are when not. */
void scenario_check(struct scenario *scenario, char **words, size_t count);
void scenario_show(struct scenario *scenario);

#endif
