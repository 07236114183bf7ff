/* The end of a node: hand over, answer what is owed, let the jobs come home.
 *
 *   begin --(leader, handover_ms > 0)--> handing over --(followed, or time is up)--> closing
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
    if (node->running && node->stop_rc == 0 && node->role == RAFT_LEADER && handover_ms > 0 &&
        node->peer_count > 0) {
        node->handover_deadline_ns = node_now(node) + (uint64_t)handover_ms * MS_NS;
        struct raft_event event = {.kind = RAFT_TRANSFER, .transfer = {.target = RAFT_NOBODY}};
        node_step(node, &event);
        return;
    }
    begin_closing(node);
}

static bool handed_over(const struct node *node) {
    return node->role != RAFT_LEADER && node->leader != RAFT_NOBODY;
}

void node_close_turn(struct node *node) {
    if (node->close_begun && !node->closing &&
        (handed_over(node) || node_now(node) >= node->handover_deadline_ns || node->stop_rc != 0)) {
        begin_closing(node);
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
