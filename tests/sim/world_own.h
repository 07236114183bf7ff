/* Model own in the simulator: each node's program has a state machine, driven step by step. */
#ifndef TESTS_SIM_WORLD_OWN_H
#define TESTS_SIM_WORLD_OWN_H

#include "tests/sim/world_time.h"

#include "lib/ledgerkv.h"

struct sim_node;

/* What a program makes of the log: a hash over all records so far. */
struct sim_own {
    struct sim_event turn;
    struct lkv_machine *machine; /* owned; NULL: none */
    uint64_t index, hash;
    uint8_t loading[16]; /* the beginning of an image */
    uint64_t loaded;     /* bytes of it */
};

/* The state after each entry, as the first program that got there had it. */
struct sim_own_model {
    uint64_t *hashes; /* owned; by index, 0: nobody was there */
    uint64_t capacity;
};

void sim_own_init(struct sim_node *node);
void sim_own_begin(struct sim_node *node);
void sim_own_end(struct sim_node *node); /* its node is still there, its tails are closed */
bool sim_own_has_all(const struct sim_node *node); /* that was committed */

#endif
