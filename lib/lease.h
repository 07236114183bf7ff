/* Leases that a handle keeps alive for its program, and when they count as lost.
 *
 * The loss is told by this process's own clock (X-I9): a ttl after the last keep-alive was sent that was
 * answered. The cluster ends the lease later than that, never earlier (lib/node_lease.c), so who stops
 * acting when it is told has stopped before another one can begin.
 *
 * Threads: opening and closing on any; keep-alives on the handle's loop. */
#ifndef LIB_LEASE_H
#define LIB_LEASE_H

#include "lib/handle.h"

enum {
    LEASE_TTL_MS_MIN = 1000,
    /* As often as this, no checkpoint comes between (lib/node_lease.c), so keep-alives are no entries. */
    LEASE_KEEP_MS_MAX = 4000,
    LEASES_A_PAGE = 1000 /* leases, or keys of one, in one answer */
};

struct lease_hold {
    struct lease_hold *next; /* of the handle's list, under its mutex, as all that follows */
    unsigned refs;           /* the list, and the request */
    int64_t id;
    uint64_t ttl_ms;
    uint64_t lost_ns, keep_ns; /* when it counts as lost, and when it is kept alive next */
    uint64_t sent_ns;          /* when the keep-alive under way was */
    bool listed, keeping;
    struct lkv *db;
    struct lkv_queue *queue;
    struct lkv_msg *loss; /* owned until it is told */
};

/* NULL when out of memory. */
struct lease_hold *lease_hold_new(struct lkv *db, uint64_t ttl_ms, struct lkv_queue *queue,
                                  void *tag);
void lease_hold_drop(struct lease_hold *hold); /* it was never started */
/* It was granted by a call that was sent then. */
void lease_hold_start(struct lease_hold *hold, int64_t id, uint64_t sent_ns);
/* False: it is not kept, or was lost. */
bool lease_hold_end(struct lkv *db, int64_t id);

/* Sends the keep-alives that are due and tells losses; returns when to be called again. Loop thread of the
 * handle, at the end of a turn. Costs one load when nothing is kept. */
uint64_t lease_holds_turn(struct lkv *db, uint64_t now_ns);

/* The handle goes: nothing is kept any more, and nothing is told. */
void lease_holds_detach(struct lkv *db);

#endif
