/* The end of a node: hand over, answer what is owed, let the jobs come home.
 *
 *   begin --(handover_ms > 0)--> handing over --(followed, nothing owed, or late)--> closing
 *   closing: every request answered, connections closed --(no job is out)--> finished */
#include "lib/node.h"
#include "lib/peer.h"

static void begin_closing(struct node *node) {
    node->handover_deadline_ns = UINT64_MAX;
    node->closing = true;
    node_requests_fail_all(node);
    atomic_store(&node->image_cancel, true);
    node_image_send_cancel(node);
    node_image_receive_cancel(node);
    node_accept_close(node);
    server_close(node->server);
    node->server = NULL;
    links_close_incoming(node);
    for (size_t i = 0; i < node->peer_count; i++) {
        peer_close(node->peers[i]);
    }
    node->peer_count = 0;
    node_write_drop_full(node);
    node->turn_wanted = true;
}

void node_close_begin(struct node *node, int64_t handover_ms) {
    node->close_begun = true;
    if (handover_ms <= 0) {
        begin_closing(node);
        return;
    }
    node->handover_deadline_ns = node_now(node) + (uint64_t)handover_ms * MS_NS;
    node->turn_wanted = true; /* whose end goes on */
}

/* Again and again: it is refused while no voter is close behind, and given up when the chosen one does
 * not come to lead in time. */
static void hand_over(struct node *node) {
    uint64_t now_ns = node_now(node);
    if (node->role == RAFT_LEADER && node->peer_count > 0 && now_ns >= node->handover_next_ns) {
        node->handover_next_ns = now_ns + node->options.heartbeat_ms * MS_NS;
        struct raft_event event = {.kind = RAFT_TRANSFER, .transfer = {.target = RAFT_NOBODY}};
        node_step(node, &event);
    }
}

static bool is_cut_off(const struct node *node) {
    for (size_t i = 0; i < node->peer_count; i++) {
        if (node->peers[i]->up) {
            return false;
        }
    }
    return node->peer_count > 0;
}

/* Whether time would still make something better. */
static bool is_worth_waiting(const struct node *node) {
    if (!node->running || node->stop_rc != 0 || is_cut_off(node) ||
        node_now(node) >= node->handover_deadline_ns) {
        return false;
    }
    bool writes_owed =
        node->pending.waiting > 0 || node->submit_count > 0 || node_forward_owes(node);
    if (node->role == RAFT_LEADER) {
        return node->peer_count > 0 || writes_owed;
    }
    bool followed = node->leader != RAFT_NOBODY || node->handover_next_ns == 0; /* never led */
    return !followed || writes_owed;
}

void node_close_turn(struct node *node) {
    if (node->close_begun && !node->closing) {
        if (is_worth_waiting(node)) {
            hand_over(node);
        } else {
            begin_closing(node);
        }
    }
    if (!node->closing || node->jobs_outstanding > 0 || node->finished_loop) {
        return;
    }
    node->finished_loop = true;
    (void)pthread_mutex_lock(&node->mutex);
    node->finished = true;
    (void)pthread_cond_broadcast(&node->changed_cond);
    (void)pthread_mutex_unlock(&node->mutex);
}
