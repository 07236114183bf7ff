#include "lib/inbox.h"

static struct request *closed_mark(struct inbox *inbox) {
    return (struct request *)(void *)inbox;
}

void inbox_init(struct inbox *inbox) {
    atomic_init(&inbox->newest, NULL);
}

enum inbox_pushed inbox_push(struct inbox *inbox, struct request *request) {
    struct request *newest = atomic_load_explicit(&inbox->newest, memory_order_relaxed);
    do {
        if (newest == closed_mark(inbox)) {
            return INBOX_CLOSED;
        }
        request->inbox_next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&inbox->newest, &newest, request,
                                                    memory_order_release, memory_order_relaxed));
    return newest == NULL ? INBOX_PUSHED_FIRST : INBOX_PUSHED;
}

static struct request *reverse(struct request *newest) {
    struct request *oldest = NULL;
    while (newest != NULL) {
        struct request *next = newest->inbox_next;
        newest->inbox_next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

struct request *inbox_take(struct inbox *inbox) {
    struct request *newest = atomic_load_explicit(&inbox->newest, memory_order_relaxed);
    if (newest == NULL || newest == closed_mark(inbox)) {
        return NULL;
    }
    return reverse(atomic_exchange_explicit(&inbox->newest, NULL, memory_order_acquire));
}

struct request *inbox_close(struct inbox *inbox) {
    struct request *newest =
        atomic_exchange_explicit(&inbox->newest, closed_mark(inbox), memory_order_acq_rel);
    return newest == closed_mark(inbox) ? NULL : reverse(newest);
}
