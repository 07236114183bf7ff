/* One thread that waits for one message: what a blocking call sleeps on, without a queue. */
#ifndef LIB_WAITER_H
#define LIB_WAITER_H

#include "lib/msg.h"

#include <stdatomic.h>

struct waiter {
    atomic_uint state; /* enum waiter_state of waiter.c */
    struct lkv_msg *msg;
};

void waiter_init(struct waiter *waiter);

/* Once, from any thread; takes the message. The waiter may be gone when it returns. */
void waiter_complete(struct waiter *waiter, struct lkv_msg *msg);

/* Returns owned. There is no timeout: whoever owes the message keeps the deadline. */
struct lkv_msg *waiter_wait(struct waiter *waiter);

#endif
