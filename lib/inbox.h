/* Requests from any thread on their way to the loop: a stack without locks, taken as one batch.
 *
 * Only the push that finds it empty has to wake the loop: whoever takes the batch takes everything
 * that was pushed until then. */
#ifndef LIB_INBOX_H
#define LIB_INBOX_H

#include "lib/request.h"

#include <stdatomic.h>

struct inbox {
    _Atomic(struct request *) newest; /* linked by inbox_next; the inbox's own address: closed */
};

enum inbox_pushed { INBOX_CLOSED, INBOX_PUSHED, INBOX_PUSHED_FIRST };

void inbox_init(struct inbox *inbox);

/* Takes the request unless the inbox is closed. Any thread. INBOX_PUSHED_FIRST: wake the loop. */
enum inbox_pushed inbox_push(struct inbox *inbox, struct request *request);

/* Everything in it, oldest first, linked by inbox_next; NULL when empty. One thread. */
struct request *inbox_take(struct inbox *inbox);

/* The same, and no push succeeds from now on. */
struct request *inbox_close(struct inbox *inbox);

#endif
