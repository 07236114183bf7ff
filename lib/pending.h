/* Writes that were appended and wait for their entry to be applied, found by (index, term).
 *
 * What a term of leadership appended lies in a ring by index. When the leadership ends the rest
 * becomes orphans: their fate is known when some entry is applied at their index, by its term (rule
 * 28), or never (deadline, image): unknown. Those that may be repeated are tried again instead, until
 * their deadline (rule 26). One thread. */
#ifndef LIB_PENDING_H
#define LIB_PENDING_H

#include "lib/request.h"

struct pending {
    struct request **ring; /* owned; capacity is a power of two; NULL slots have no waiter */
    size_t capacity;
    uint64_t first; /* index of the oldest slot */
    size_t count;   /* slots from `first` on */
    uint64_t term;
    uint64_t taken;           /* last index that pending_take was asked for */
    struct list_link orphans; /* of struct request, ascending by index */
    size_t waiting;           /* requests held in total */

    /* Takes one that is to be tried again: it is repeatable and its command was kept. NULL: none is. */
    void (*on_again)(void *arg, struct request *request);
    void *arg;
};

void pending_init(struct pending *pending);
void pending_fini(struct pending *pending); /* must be empty */

/* True: an append of lower order has lost its leader, and will be tried again if it is not in the log. */
bool pending_owes(const struct pending *pending, uint64_t order);

/* Makes room for `more` waiters, so that pending_add cannot fail. LKV_ENOMEM. */
MUST_USE int pending_reserve(struct pending *pending, size_t more);

/* `index` is above all earlier ones of this term; index and term are stored in the request. Of a batch
 * it is the last one's: its records are side by side, and there with the last one are all of them. */
void pending_add(struct pending *pending, struct request *request, uint64_t index, uint64_t term);

/* This node no longer leads the term of its waiters. */
void pending_orphan(struct pending *pending);

/* The waiter of (index, term), removed, or NULL. Every orphan at or below `index` that this decides
 * otherwise is finished here: not done (another term), or unknown (passed over; or a batch of which
 * only the first records are there). Called for each entry that is applied, in order, also while this
 * node leads: a later end of its leadership needs to know of which batches a part is there. */
struct request *pending_take(struct pending *pending, uint64_t index, uint64_t term);

/* State up to `index` came from elsewhere (an image): what waited there is unknown. */
void pending_skip(struct pending *pending, uint64_t index);

/* Finishes as unknown what is past its deadline. Returns the earliest deadline left. */
uint64_t pending_expire(struct pending *pending, uint64_t now_ns);

/* Nothing will be applied any more: everything is unknown, `why` begins the sentence. */
void pending_fail_all(struct pending *pending, const char *why);

#endif
