/* lkv_log_tail: a reader that goes on by itself, on a node or on a client alike.
 *
 *   tail_open ──> asks (a read that waits for records) ──> answer: LKV_RECORDS to the queue ──┐
 *                   ^                                                                         │
 *                   └──── while unfreed messages hold less than the credit <──────────────────┘
 *
 * One question at a time. Nobody but the tail knows of it: to a node it is one more read. */
#ifndef LIB_TAIL_H
#define LIB_TAIL_H

#include "lib/records.h"

#include <pthread.h>

struct tail;

/* The tails of one handle. */
struct tails {
    pthread_mutex_t mutex;
    struct tail *newest; /* owned references, also of those that have ended lately */
};

void tails_init(struct tails *tails);

/* Ends all with LKV_ECLOSED; no tail touches the handle afterwards. */
void tails_close(struct tails *tails);

struct tail_options {
    uint64_t from;
    size_t credit_bytes;
    bool gates_ready;
    struct lkv_queue *queue;
    void *tag;
};
MUST_USE int tail_open(struct lkv *db, const struct tail_options *options);

/* LKV_ENOENT when no tail has this tag. */
int tails_cancel(struct tails *tails, void *tag);

/* Whether every tail that gates readiness has had all messages freed that reach up to `index`. */
bool tails_consumed(struct tails *tails, uint64_t index);

#endif
