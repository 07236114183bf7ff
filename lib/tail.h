/* lkv_log_tail: a reader of records (lib/subscription.h). To a node its question is one more read that waits. */
#ifndef LIB_TAIL_H
#define LIB_TAIL_H

#include "lib/subscription.h"

struct tail_options {
    uint64_t from;
    size_t credit_bytes;
    bool gates_ready;
    struct lkv_queue *queue;
    void *tag;
};
/* LKV_ENOMEM. */
MUST_USE int tail_open(struct lkv *db, const struct tail_options *options);

/* Whether every tail that gates readiness has had all messages freed that reach up to `index`. */
bool tails_consumed(struct subscriptions *subscriptions, uint64_t index);

#endif
