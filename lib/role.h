/* Role passthrough: what this node is, told to the embedding program in the order in which entries are
 * applied (rule 31).
 *
 *   - leader_ready comes after this leader's first entry is applied;
 *   - stepping_down comes before anything of a later term is applied, and while a program has not
 *     freed that message, the node neither applies a later term nor campaigns (the gate);
 *   - these two are never merged or dropped; follower and candidate collapse to the newest.
 *
 * Loop thread; on_freed comes from whatever thread frees a message. */
#ifndef LIB_ROLE_H
#define LIB_ROLE_H

#include "lib/handle.h"

enum role_kind { ROLE_FOLLOWER, ROLE_CANDIDATE, ROLE_READY, ROLE_STEPPING_DOWN, ROLE_STOPPED };

struct role_watcher; /* a queue that is told */

/* Handed from a caller's thread to the loop. */
struct role_watch_request {
    struct role_watch_request *next;
    struct lkv_queue *queue;
    void *tag;
};

struct role {
    struct role_watcher *watchers; /* owned */
    void (*on_freed)(void *arg);   /* any thread: call role_pump soon */
    void *arg;
    enum role_kind kind;
    uint64_t term, index;
    int stop_rc; /* of ROLE_STOPPED, else 0 */
    struct reason stop_why;
};

void role_init(struct role *role, void (*on_freed)(void *arg), void *arg);
void role_fini(struct role *role); /* on_freed is not called any more; messages may live on */

MUST_USE int role_add_watcher(struct role *role, struct lkv_queue *queue, void *tag);

/* Tells the watchers; does nothing when nothing changed. LKV_ENOMEM: a watcher that is owed
 * leader_ready or stepping_down could not be told, the node must stop. */
MUST_USE int role_set(struct role *role, enum role_kind kind, uint64_t term, uint64_t index);

/* The same for ROLE_STOPPED, whose message carries rc and why. */
MUST_USE int role_stop(struct role *role, uint64_t term, int rc, const char *why);

/* After a message was freed: tells what was held back meanwhile. */
MUST_USE int role_pump(struct role *role);

/* True while a stepping_down message has not been freed. */
bool role_gate_closed(const struct role *role);

#endif
