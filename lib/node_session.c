/* Which sessions the leader has not heard of for their ttl, and what it proposes then (rule 26).
 *
 *      sessions of the state machine ──(every 250 ms)──> clocks ──(silent for ttl)──> SESSION_EXPIRE entry
 *      appended or applied commands, keep-alives ──(touch)───^
 *
 * Nothing ends but by that entry, so all replicas agree. A session ends late rather than early: a new
 * leader starts every clock anew; a clock stands still while this process does not run, since a client
 * may have spoken meanwhile without being heard; and the entry is fenced by the term, so that it cannot
 * be carried over to another leader's.
 *
 * A keep-alive is no entry: it is heard when it comes, and answered when a quorum round that began later
 * has shown that no other leader may be counting (rule 27 has the same for leases). */
#include "lib/node.h"

#include "base/mem.h"

#include <stdlib.h>

enum { EXPIRE_A_LOOK = 64 };

static int compare_id(const void *key, const void *item) {
    uint64_t id = *(const uint64_t *)key, other = ((const struct session_clock *)item)->id;
    return (id > other) - (id < other);
}

static struct session_clock *find(struct session_clocks *clocks, uint64_t id) {
    return clocks->count > 0
               ? bsearch(&id, clocks->items, clocks->count, sizeof(clocks->items[0]), compare_id)
               : NULL;
}

void node_session_touch(struct node *node, uint64_t id) {
    struct session_clocks *clocks = &node->session_clocks;
    struct session_clock *clock = find(clocks, id);
    if (clock != NULL) {
        clock->active_ns = worked_now(&clocks->worked, node_now(node));
    }
}

/* ------------------------------------------------------------------ keep-alives */

void node_session_keep(struct node *node, struct request *request) {
    if (!node->running || node->offline || node->leader == RAFT_NOBODY) {
        node_wait_for_leader(node, request);
    } else if (node->role == RAFT_LEADER) {
        node_session_touch(node, request->session);
        node_read_add(node, request);
    } else {
        node_forward(node, request);
    }
}

static bool is_open(const struct node *node, uint64_t id) {
    struct kv_session session;
    size_t low = 0, high = SIZE_MAX / 2;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (node->state->session_at(node, middle, &session) && session.id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return node->state->session_at(node, low, &session) && session.id == id;
}

void node_session_kept(struct node *node, struct request *request) {
    struct session_clocks *clocks = &node->session_clocks;
    struct session_clock *clock = find(clocks, request->session);
    if (node->role !=
        RAFT_LEADER) { /* it was one when this was heard: the next one has to hear it */
        node_session_keep(node, request);
    } else if (!is_open(node, request->session)) {
        request_fail(request, LKV_ESESSION, "there is no session %llu",
                     (unsigned long long)request->session);
    } else if (clock != NULL && clock->expiring) {
        request_fail(request, LKV_EBUSY, "the end of session %llu is proposed already",
                     (unsigned long long)request->session);
    } else {
        request_finish(request);
    }
}

/* ------------------------------------------------------------------ ends */

bool node_leads_ready(const struct node *node) {
    if (!node->running || node->closing || node->stop_rc != 0 || node->role != RAFT_LEADER) {
        return false;
    }
    struct raft_status status;
    raft_status(node->raft, &status);
    return status.noop_index != 0 && node->applied >= status.noop_index;
}

uint64_t node_session_deadline(const struct node *node) {
    struct kv_session first;
    if (node->role != RAFT_LEADER || node->state == NULL ||
        !node->state->session_at(node, 0, &first)) {
        return UINT64_MAX;
    }
    return node->session_clocks.worked.looked_ns + NODE_LOOK_NS;
}

/* Clocks for exactly the sessions that there are; new ones start now. LKV_ENOMEM: as before. */
static int match_sessions(struct node *node) {
    struct session_clocks *clocks = &node->session_clocks;
    struct session_clock *items = NULL;
    size_t capacity = 0, count = 0, old = 0;
    struct kv_session session;
    while (node->state->session_at(node, count, &session)) {
        struct session_clock *grown = mem_array_grow(items, &capacity, count + 1, sizeof(*grown));
        if (grown == NULL) {
            mem_free(items);
            return LKV_ENOMEM;
        }
        items = grown;
        while (old < clocks->count && clocks->items[old].id < session.id) {
            old++;
        }
        bool known = old < clocks->count && clocks->items[old].id == session.id;
        items[count] =
            known ? clocks->items[old]
                  : (struct session_clock){.id = session.id, .active_ns = clocks->worked.ns};
        items[count++].ttl_ms = session.ttl_ms;
    }
    mem_free(clocks->items);
    clocks->items = items;
    clocks->count = count;
    return 0;
}

static void on_expired(struct request *request) {
    struct node *node = request->owner;
    struct session_clock *clock = find(&node->session_clocks, request->seq);
    if (clock != NULL) {
        clock->expiring = false; /* it is gone, or the next look tries again */
    }
}

static int propose_expiry(struct node *node, struct session_clock *clock) {
    const struct kv_command command = {
        .op = KV_SESSION_EXPIRE, .session = clock->id, .in_term = node->term};
    struct request *request = request_new(REQUEST_WRITE);
    if (request == NULL) {
        return LKV_ENOMEM;
    }
    request->command = kv_command_encode(&command);
    if (request->command == NULL) {
        request_free(request);
        return LKV_ENOMEM;
    }
    request->forwarded = request->no_park = true; /* this leader's, or nobody's */
    request->seq = clock->id;                     /* not `session`: nothing was heard of it */
    request->on_finish = on_expired;
    request->owner = node;
    clock->expiring = true;
    trace_line(&node->trace, TRACE_INFO, "session-expires", "session %llu was silent for %llu ms",
               (unsigned long long)clock->id, (unsigned long long)clock->ttl_ms);
    node_route(node, request);
    return 0;
}

static void expire_silent(struct node *node) {
    struct session_clocks *clocks = &node->session_clocks;
    int rc = 0;
    size_t proposed = 0;
    for (size_t i = 0; rc == 0 && i < clocks->count && proposed < EXPIRE_A_LOOK; i++) {
        struct session_clock *clock = &clocks->items[i];
        if (!clock->expiring && clocks->worked.ns - clock->active_ns > clock->ttl_ms * MS_NS) {
            rc = propose_expiry(node, clock);
            proposed++;
        }
    }
}

void node_session_look(struct node *node, uint64_t now_ns) {
    struct session_clocks *clocks = &node->session_clocks;
    if (now_ns < node_session_deadline(node)) {
        return;
    }
    worked_look(&clocks->worked, now_ns);
    if (!node_leads_ready(node)) {
        return;
    }
    if (clocks->term != node->term) { /* another leader may have heard of any of them until now */
        clocks->term = node->term;
        clocks->count = 0;
    }
    if (match_sessions(node) == 0) {
        expire_silent(node);
    }
}

void node_session_fini(struct node *node) {
    mem_free(node->session_clocks.items);
}
