/* A futex, since a mutex and a condition would wake the thread twice and cost two more system calls
 * on the way of every blocking put. */
#include "lib/waiter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum waiter_state { WAITER_EMPTY, WAITER_ASLEEP, WAITER_FULL };

static void futex(atomic_uint *word, int operation, unsigned value) {
    (void)syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

void waiter_init(struct waiter *waiter) {
    atomic_init(&waiter->state, WAITER_EMPTY);
    waiter->msg = NULL;
}

void waiter_complete(struct waiter *waiter, struct lkv_msg *msg) {
    waiter->msg = msg;
    unsigned before = atomic_exchange_explicit(&waiter->state, WAITER_FULL, memory_order_acq_rel);
    if (before == WAITER_ASLEEP) {
        /* The waiter may have seen FULL already and left. Only its address is used from here on; a
         * thread that sleeps on that address for another reason takes a wake-up more, as futex
         * users must. */
        futex(&waiter->state, FUTEX_WAKE, 1);
    }
}

struct lkv_msg *waiter_wait(struct waiter *waiter) {
    unsigned expected = WAITER_EMPTY;
    (void)atomic_compare_exchange_strong_explicit(&waiter->state, &expected, WAITER_ASLEEP,
                                                  memory_order_acq_rel, memory_order_acquire);
    while (atomic_load_explicit(&waiter->state, memory_order_acquire) != WAITER_FULL) {
        futex(&waiter->state, FUTEX_WAIT, WAITER_ASLEEP);
    }
    return waiter->msg;
}
