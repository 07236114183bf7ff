/* The embedding program of a simulated node, as far as roles go: it acts as leader from leader_ready
 * until it frees stepping_down, which it sometimes does late (rule 31). */
#ifndef TESTS_SIM_WORLD_ROLES_H
#define TESTS_SIM_WORLD_ROLES_H

#include "ledgerkv.h"
#include "tests/sim/world_time.h"

struct sim_node;
struct sim_world;

struct sim_program {
    struct lkv_queue *queue; /* owned; NULL: the node is down */
    uint64_t acts_in;        /* the term that it leads in; 0: it does not */
    uint64_t acted_in;       /* the last one in this life */
    struct lkv_msg *held;    /* owned: a stepping_down that it has not freed yet */
    uint64_t campaigns;      /* of the node when that came */
    struct sim_event release;
    uint64_t ready, stepped_down; /* messages, of all lives */
};

void sim_program_init(struct sim_node *node);
void sim_program_begin(struct sim_node *node);
void sim_program_end(struct sim_node *node); /* after the node is gone */
/* Takes what has come, and checks its order, and that a node whose program still acts keeps still. */
void sim_program_check(struct sim_node *node);
/* Nobody is late any more. */
void sim_programs_release(struct sim_world *world);
void sim_program_release(struct sim_node *node);

#endif
