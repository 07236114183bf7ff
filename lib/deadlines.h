/* The deadlines of the requests that somebody holds: a hashed timing wheel (Varghese and Lauck,
 * SOSP 1987), so that adding, removing and looking for the next one cost the same for ten requests
 * and for a hundred thousand. A deadline is noticed at most one tick (4 ms) late, never early.
 *
 * Uses request->expiry. One thread. */
#ifndef LIB_DEADLINES_H
#define LIB_DEADLINES_H

#include "lib/request.h"

enum {
    DEADLINES_TICK_SHIFT = 22, /* a tick is 2^22 ns */
    DEADLINES_BUCKETS = 512    /* 2.1 s; what is farther away shares a bucket with what is near */
};

struct deadlines {
    struct list_link buckets[DEADLINES_BUCKETS];
    uint64_t used[DEADLINES_BUCKETS / 64]; /* a bit for each bucket that may hold something */
    uint64_t tick;                         /* all earlier ticks have been dealt with */
    size_t count;
};

void deadlines_init(struct deadlines *deadlines, uint64_t now_ns);

/* A deadline of UINT64_MAX is none. The request must be removed before it leaves its holder. */
void deadlines_add(struct deadlines *deadlines, struct request *request);
void deadlines_remove(struct deadlines *deadlines, struct request *request);

/* Moves what is past its deadline to the end of `due`, by the same link; each is still to be removed,
 * which takes it off that list. */
void deadlines_expire(struct deadlines *deadlines, uint64_t now_ns, struct list_link *due);

/* When to look again: no later than a tick after the earliest deadline; UINT64_MAX: never. */
uint64_t deadlines_next(struct deadlines *deadlines);

#endif
