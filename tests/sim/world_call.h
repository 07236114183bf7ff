/* One operation of a simulated client, from its submit to its final message: what world_load.c and
 * world_log.c share. */
#ifndef TESTS_SIM_WORLD_CALL_H
#define TESTS_SIM_WORLD_CALL_H

#include "tests/sim/world.h"

struct sim_call {
    struct list_link link; /* of the world */
    struct sim_client *client;
    struct sim_node *node;
    unsigned life; /* of the node */
    enum sim_call_kind kind;
    uint32_t key, end;
    uint64_t value; /* of an append: of its first record, the others follow */
    uint64_t floor; /* greatest index of an operation that had finished before this one began */
    uint64_t deadline_ns, submitted_ns;
    uint64_t session, seq; /* 0: of none */
    int *done;
    size_t history; /* position of its first key in the history + 1; 0: not in it */

    /* Log mode. */
    uint32_t count;   /* records of an append */
    uint64_t in_term; /* of an append; 0: any */
    uint64_t from;    /* of a read, a hold */
    uint64_t order;   /* of an append among those of its node's life; 0: it was sent before */
};

static inline bool sim_call_is_write(const struct sim_call *op) {
    return op->kind == SIM_PUT || op->kind == SIM_DELETE || op->kind == SIM_DELETE_RANGE ||
           op->kind == SIM_APPEND;
}

/* --- world_log.c: the operations of log mode --- */
static inline bool sim_call_is_log(const struct sim_call *op) {
    return op->kind >= SIM_APPEND;
}
void sim_log_draw(struct sim_call *op); /* what a client does next */
/* Without deadline and owner. `call` is that of an append in a session, or all 0. */
struct request *sim_log_request(const struct sim_call *op, const struct session_call *call);
/* It has its final message. */
void sim_log_judge(const struct sim_call *op, const struct lkv_msg *reply);
/* Follows the log, on some node. */
void sim_log_follow(struct sim_client *client);
void sim_log_fini(struct sim_client *client);

#endif
