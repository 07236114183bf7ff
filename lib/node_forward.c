/* Requests on their way to another node that leads, and what keeps appends in order when leaders change:
 *
 *   parked                 no leader is known, or what was submitted before is with an earlier one
 *   pending                in this node's own log, of this term or an earlier one
 *   forward                on the connection to the leader
 *   old_forwards           on one to an earlier leader
 *
 * An append that comes back from one of them goes behind nothing that was submitted after it: so those wait.
 * A client that wants to hear at once is not kept waiting; it is refused, and sends all again in order. */
#include "lib/node.h"

#include "base/mem.h"
#include "lib/peer.h"

#include <stdio.h>

/* ------------------------------------------------------------------ connections */

/* The connection to one leader. */
struct forward {
    struct list_link link; /* of node->old_forwards, once another leads */
    struct node *node;
    struct remote *remote;
    uint64_t number; /* of this node's forwards, from 1 */
    char address[ADDRESS_SIZE];
    bool broken; /* closed at the turn's end, not inside its own callback */
};

/* The leader did not take it; another one may. Who wants to hear that at once (a client) asks again
 * itself, and keeps its appends in order by what it has heard of: one that was kept back here would be
 * overtaken by those that come behind it. */
static void ask_again(struct node *node, struct request *request, const char *why) {
    if (request->no_park) {
        request_fail(request, LKV_ENOLEADER,
                     "it was passed on to the leader, which did not take it: %s", why);
    } else {
        node_request_again(node, request);
    }
}

static void on_forward_lost(void *arg, struct request *request, bool sent, int rc) {
    struct node *node = ((struct forward *)arg)->node;
    bool again = !sent || request_may_repeat(request);
    request->maybe_done = request->maybe_done || sent;
    if (!again) {
        request_fail(request, LKV_EUNKNOWN, "the leader's answer did not come (%s)",
                     error_text(rc));
    } else if (node->closing) {
        request_fail(request, LKV_ECLOSED, "closed before it was sent");
    } else if (rc == LKV_ETIMEOUT) {
        request_fail(request, LKV_ETIMEOUT, "timed out before it reached the leader");
    } else {
        ask_again(node, request, error_text(rc));
    }
}

static void on_forward_refused(void *arg, struct request *request) {
    struct node *node = ((struct forward *)arg)->node;
    char why[REASON_SIZE];
    (void)snprintf(why, sizeof(why), "%s", lkv_msg_text(request->reply));
    msg_clear(request->reply);
    ask_again(node, request, why);
}

static void on_forward_up(void *arg) {
    struct forward *forward = arg;
    forward->node->turn_wanted = true;
}

static void on_forward_down(void *arg, int rc) {
    struct forward *forward = arg;
    (void)rc;
    forward->broken = true;
    forward->node->turn_wanted = true;
}

static void close_forward(struct forward *forward) {
    list_remove(&forward->link);
    if (forward->node->forward == forward) {
        forward->node->forward = NULL;
    }
    remote_close(forward->remote);
    mem_free(forward);
}

/* The leader is at another address now, or here. What was sent to the old one may yet be answered: it
 * need not be unknown. */
static void leave_forward(struct node *node) {
    struct forward *forward = node->forward;
    if (remote_up(forward->remote) && remote_in_flight(forward->remote) > 0) {
        list_push_back(&node->old_forwards, &forward->link);
        node->forward = NULL;
    } else {
        close_forward(forward);
    }
}

static bool open_forward(struct node *node, const struct peer *leader) {
    if (node->forward != NULL && strcmp(node->forward->address, leader->address) != 0) {
        leave_forward(node);
    }
    if (node->forward != NULL) {
        return !node->forward->broken;
    }
    struct forward *forward = mem_calloc(1, sizeof(*forward));
    if (forward == NULL) {
        return false;
    }
    list_init(&forward->link);
    forward->node = node;
    forward->number = ++node->forwards_opened;
    (void)snprintf(forward->address, sizeof(forward->address), "%s", leader->address);
    struct remote_events events = {.on_up = on_forward_up,
                                   .on_down = on_forward_down,
                                   .on_lost = on_forward_lost,
                                   .on_refused = on_forward_refused,
                                   .arg = forward};
    if (remote_open(&forward->remote, node->world.loop, node->world.net, leader->address,
                    &events) != 0) {
        mem_free(forward);
        return false;
    }
    node->forward = forward;
    return true;
}

/* ------------------------------------------------------------------ requests and their order */

static void refuse_not_leader(struct node *node, struct request *request) {
    struct peer *leader = peer_by_id(node, node->leader);
    if (leader != NULL) {
        msg_set_str(request->reply, "leader", leader->name);
        msg_set_str(request->reply, "leader_address", leader->address);
    }
    request_fail(request, LKV_ENOTLEADER, "%s is not the leader; it is %s at %s", node->options.id,
                 leader != NULL ? leader->name : "?", leader != NULL ? leader->address : "?");
}

static bool is_parked_before(const struct node *node, uint64_t order) {
    for (const struct list_link *at = node->parked.next; at != &node->parked; at = at->next) {
        const struct request *request = LIST_ITEM(at, struct request, link);
        if (request->op == REQUEST_APPEND) { /* the first one of them has the lowest order */
            return request->order < order;
        }
    }
    return false;
}

/* Odd: the term in which it is appended here; even: the connection to the leader. */
uint64_t node_place(const struct node *node) {
    if (node->running && node->role == RAFT_LEADER) {
        return 2 * node->term + 1;
    }
    return node->forward != NULL ? 2 * node->forward->number : 0;
}

/* Behind those of the same caller that were submitted before it: they wait for a leader, or are with an
 * earlier one, which may refuse them yet, or were appended here by a leader that was replaced and will
 * be sent again. (A client keeps its own order; what is asked here is whether it goes where those of its
 * connection are that went before it.) */
bool node_must_wait(const struct node *node, const struct request *request) {
    bool leads = node->running && node->role == RAFT_LEADER;
    if (request->forwarded && !leads) {
        return false; /* refused at once, with the leader's address */
    }
    if (request_is_apart(request, node_place(node))) {
        return true;
    }
    if (request->op != REQUEST_APPEND || request->forwarded || request->no_park) {
        return false;
    }
    bool earlier =
        is_parked_before(node, request->order) || pending_owes(&node->pending, request->order);
    if (node->role == RAFT_LEADER && node->forward != NULL) { /* it has just become that */
        earlier = earlier || remote_appends_in_flight(node->forward->remote) > 0;
    }
    for (const struct list_link *at = node->old_forwards.next;
         !earlier && at != &node->old_forwards; at = at->next) {
        const struct forward *forward = LIST_ITEM(at, struct forward, link);
        earlier = remote_appends_in_flight(forward->remote) > 0;
    }
    return earlier;
}

void node_forward(struct node *node, struct request *request) {
    struct peer *leader = peer_by_id(node, node->leader);
    if (request->forwarded || !node->options.forward || leader == NULL) {
        refuse_not_leader(node, request);
        return;
    }
    if (!open_forward(node, leader)) {
        node_wait_for_leader(node, request);
        return;
    }
    /* Another leader than the last: what the old one did not take may just have come back. */
    if (node_must_wait(node, request) || remote_would_overtake(node->forward->remote, request)) {
        node_wait_for_leader(node, request);
        return;
    }
    request_place(request, node_place(node));
    int rc = remote_submit(node->forward->remote, request);
    if (rc != 0) {
        request_fail(request, rc, "cannot forward to the leader: %s", error_text(rc));
    }
}

static uint64_t expire_forward(struct forward *forward, uint64_t now_ns) {
    uint64_t next_ns = remote_expire(forward->remote, now_ns);
    bool old = forward->node->forward != forward;
    if (forward->broken || (old && remote_in_flight(forward->remote) == 0)) {
        close_forward(forward);
        return UINT64_MAX;
    }
    return next_ns;
}

uint64_t node_forward_expire(struct node *node, uint64_t now_ns) {
    uint64_t next_ns = node->forward != NULL ? expire_forward(node->forward, now_ns) : UINT64_MAX;
    struct list_link *next;
    for (struct list_link *at = node->old_forwards.next; at != &node->old_forwards; at = next) {
        next = at->next;
        uint64_t at_ns = expire_forward(LIST_ITEM(at, struct forward, link), now_ns);
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    return next_ns;
}

bool node_forward_owes(const struct node *node) {
    return !list_empty(&node->old_forwards) ||
           (node->forward != NULL && remote_in_flight(node->forward->remote) > 0);
}

/* ------------------------------------------------------------------ time and changes */

void node_leader_changed(struct node *node) {
    node->leader_moved = false;
    const struct peer *leader = peer_by_id(node, node->leader);
    bool moved = node->leader == node->identity.member_id ||
                 (leader != NULL && node->forward != NULL &&
                  strcmp(node->forward->address, leader->address) != 0);
    if (node->forward != NULL &&
        moved) { /* before anything is sent to the new one: it comes back */
        leave_forward(node);
    }
    node_route_parked(node);
}

void node_forward_close(struct node *node) {
    if (node->forward != NULL) {
        close_forward(node->forward);
    }
    while (!list_empty(&node->old_forwards)) {
        close_forward(LIST_ITEM(node->old_forwards.next, struct forward, link));
    }
}
