/* Stepping the core, and carrying out what its update asks for, in the order of the update's fields.
 *
 * Nothing here steps the core again: what follows from an update (applied entries, finished jobs)
 * comes as an event of its own, so an update is always carried out whole. */
#include "lib/node_repair.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/peer.h"

const struct entry *node_entry(const struct node *node, uint64_t index) {
    return log_window_at(&node->window, index);
}

static struct staged *staged_find(struct node *node, uint64_t token) {
    for (struct list_link *at = node->staged.next; at != &node->staged; at = at->next) {
        struct staged *staged = LIST_ITEM(at, struct staged, link);
        if (staged->token == token) {
            return staged;
        }
    }
    return NULL;
}

static void staged_free(struct staged *staged) {
    list_remove(&staged->link);
    raft_packet_fini(&staged->packet);
    mem_free(staged);
}

/* Moves the payload of an accepted range into the window. */
static int take_entries(struct node *node, const struct raft_take *take) {
    struct staged *staged = staged_find(node, take->token);
    ASSERT(staged != NULL);
    for (uint64_t index = take->first; index <= take->last; index++) {
        struct entry *entry = &staged->packet.entries[index - staged->packet.first];
        int rc = log_window_push(&node->window, entry);
        if (rc != 0) {
            return rc;
        }
        entry->payload = NULL; /* the window's now */
    }
    return 0;
}

/* Hands what closes a gap to the write that follows. */
static int fill_entries(struct node *node, const struct raft_fill *fill) {
    struct staged *staged = staged_find(node, fill->token);
    ASSERT(staged != NULL && fill->first >= staged->packet.first &&
           fill->last - staged->packet.first < staged->packet.count);
    return node_write_fill(node, &staged->packet.entries[fill->first - staged->packet.first],
                           (size_t)(fill->last - fill->first + 1), staged->own);
}

/* The one entry that the core makes by itself: a new leader's no-op. */
static int push_noop(struct node *node, const struct raft_update *update, uint64_t index) {
    uint64_t term = update->role_changed ? update->term : node->term;
    struct entry noop = {.index = index, .term = term, .type = ENTRY_NOOP};
    return log_window_push(&node->window, &noop);
}

static int carry_out_log(struct node *node, const struct raft_update *update) {
    if (update->write.cut_from != 0) {
        log_window_cut(&node->window, update->write.cut_from);
    }
    for (size_t i = 0; i < update->take_count; i++) {
        int rc = take_entries(node, &update->takes[i]);
        if (rc != 0) {
            return rc;
        }
    }
    for (size_t i = 0; i < update->fill_count; i++) {
        int rc = fill_entries(node, &update->fills[i]);
        if (rc != 0) {
            return rc;
        }
    }
    while (update->write.no != 0 && update->write.last >= log_window_next(&node->window)) {
        int rc = push_noop(node, update, log_window_next(&node->window));
        if (rc != 0) {
            return rc;
        }
    }
    for (size_t i = 0; i < update->drop_count; i++) {
        struct staged *staged = staged_find(node, update->drops[i]);
        if (staged != NULL) {
            staged_free(staged);
        }
    }
    if (update->write.no != 0) {
        node_write_add(node, &update->write);
    }
    return 0;
}

/* The entries that a message carries; 0: none. */
static size_t carried(const struct raft_message *message, uint64_t *first) {
    if (message->kind == RAFT_APPEND) {
        *first = message->append.prev_index + 1;
        return message->append.count;
    }
    if (message->kind == RAFT_REPAIR_REPLY) {
        *first = message->repair_reply.first;
        return message->repair_reply.count;
    }
    return 0;
}

/* These entries, side by side for the encoder: from the window, or from what was just
 * fetched for this peer. Borrowed. NULL: neither in memory nor fetched. */
static const struct entry *gather(struct node *node, uint64_t to, uint64_t first, size_t count) {
    const struct entry *fetched = node_fetched(node, to, first, count);
    if (fetched != NULL) {
        return fetched;
    }
    struct entry *grown = mem_array_grow(node->frame_entries, &node->frame_capacity, count,
                                         sizeof(*node->frame_entries));
    if (grown == NULL) {
        return NULL;
    }
    node->frame_entries = grown;
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = node_entry(node, first + i);
        if (entry == NULL) {
            return NULL;
        }
        grown[i] = *entry;
    }
    return grown;
}

static void send_message(struct node *node, const struct raft_message *message) {
    struct peer *peer = peer_by_id(node, message->to);
    if (peer == NULL || !peer->up) {
        return;
    }
    uint64_t first = 0;
    size_t count = carried(message, &first);
    if (count == 0) {
        peer_send_raft(peer, message, NULL);
        return;
    }
    const struct entry *entries = gather(node, message->to, first, count);
    if (entries != NULL) { /* else a lost message, which the core repairs */
        peer_send_raft(peer, message, entries);
    }
}

static void publish_role(struct node *node, const struct raft_update *update) {
    bool leader_changed =
        node->leader != update->leader || node->term != update->term || node->role != update->role;
    enum raft_role before = node->role;
    node->role = update->role;
    node->term = update->term;
    node->leader = update->leader;
    if (before == RAFT_LEADER && update->role != RAFT_LEADER) {
        pending_orphan(&node->pending);
    }
    if (leader_changed) {
        trace_line(&node->trace, TRACE_INFO, "role", "%s in term %llu, leader %016llx",
                   update->role == RAFT_LEADER      ? "leader"
                   : update->role == RAFT_CANDIDATE ? "candidate"
                   : update->role == RAFT_STOPPED   ? "stopped"
                                                    : "follower",
                   (unsigned long long)update->term, (unsigned long long)update->leader);
        node->leader_moved = true;
    }
}

/* When every member was brought back as if it might be older, nobody is left to confirm (rule 11). */
#define NEWEST_HELPS                                                                         \
    "moved=on was stated on so many members that none is left to confirm what was written. " \
    "If nothing was written after the copies were made, start each once with moved=newest "  \
    "(kvctl serve --moved newest): "

static void carry_out(struct node *node, const struct raft_event *event,
                      const struct raft_update *update) {
    int rc = 0;
    /* First: a message of this update may let somebody else lead, or say what is committed. */
    node_read_lease(node, update->lease_until_ns, update->lease_index);
    if (event->kind == RAFT_SUBMIT && update->submit_rc == 0) {
        rc = node_append_accepted(node, update->submit_first, node->term);
    }
    if (rc == 0) {
        rc = carry_out_log(node, update);
    }
    if (rc != 0) {
        node_stop(node, rc, "no memory for the log's window");
        return;
    }
    for (size_t i = 0; i < update->message_count; i++) {
        send_message(node, &update->messages[i]);
    }
    for (size_t i = 0; i < update->fetch_count; i++) {
        node_fetch(node, &update->fetches[i]);
    }
    for (size_t i = 0; i < update->install_count; i++) {
        node_image_install(node, update->installs[i]);
    }
    node->commit = update->commit;
    if (update->role_changed) {
        publish_role(node, update);
    }
    for (size_t i = 0; i < update->read_count; i++) {
        node_read_done(node, &update->reads[i]);
    }
    if (update->settle_end) {
        node_settle_end(node);
    }
    if (update->discarded_from != 0) {
        struct reason note = update->note;
        node_name_members(node, &note);
        trace_line(&node->trace, TRACE_WARN, "discarded", "%s", note.text);
    }
    node->raft_deadline_ns = update->deadline_ns;
    if (update->stop_rc != 0) {
        struct reason why = update->stop_why;
        node_name_members(node, &why);
        if (update->stop_rc == LKV_EDAMAGED) {
            node_name_place(node, &why);
        }
        node_stop(node, update->stop_rc, "%s%s", node->identity.restored ? NEWEST_HELPS : "",
                  why.text);
    }
    node->turn_wanted = true;
}

void node_step(struct node *node, struct raft_event *event) {
    ASSERT(!node->stepping);
    if (!node->running || node->stop_rc != 0) {
        return;
    }
    node->stepping = true;
    event->now_ns = node_now(node);
    int rc = raft_step(node->raft, event, &node->update);
    if (rc != 0) {
        node_stop(node, rc, "no memory for a step of the consensus core");
    } else {
        carry_out(node, event, &node->update);
    }
    node->stepping = false;
}

void node_receive(struct node *node, struct raft_packet *packet) {
    bool donated = packet->message.kind == RAFT_REPAIR_REPLY && packet->count > 0;
    bool payload = packet->message.kind == RAFT_APPEND || donated;
    struct staged *staged = payload ? mem_calloc(1, sizeof(*staged)) : NULL;
    if (!node->running || node->stop_rc != 0 || (donated && !node_may_fill(node)) ||
        (payload && (staged == NULL || node->installing))) {
        mem_free(staged);
        raft_packet_fini(packet);
        return; /* a lost message */
    }
    if (!payload) {
        struct raft_event event = {.kind = RAFT_RECEIVE, .receive = {.message = &packet->message}};
        event.receive.token = UINT64_MAX;
        node_step(node, &event);
        raft_packet_fini(packet);
        return;
    }
    staged->token = ++node->next_token;
    staged->packet = *packet;
    *packet = (struct raft_packet){0};
    list_push_back(&node->staged, &staged->link);
    struct raft_event event = {
        .kind = RAFT_RECEIVE,
        .receive = {.message = &staged->packet.message, .token = staged->token}};
    node_step(node, &event);
    if (!node->update.kept || node->stop_rc != 0) {
        staged = staged_find(node, event.receive.token);
        if (staged != NULL) {
            staged_free(staged);
        }
    }
}

void node_reread(struct node *node, struct raft_packet *packet) {
    struct staged *staged = mem_calloc(1, sizeof(*staged));
    if (staged == NULL) {
        raft_packet_fini(packet);
        return; /* it is looked at again */
    }
    *staged = (struct staged){.token = ++node->next_token, .own = true, .packet = *packet};
    *packet = (struct raft_packet){0};
    list_push_back(&node->staged, &staged->link);
    struct raft_event event = {
        .kind = RAFT_REREAD,
        .reread = {.message = &staged->packet.message, .token = staged->token}};
    node_step(node, &event);
    staged_free(staged);
}

void node_staged_free_all(struct node *node) {
    while (!list_empty(&node->staged)) {
        staged_free(LIST_ITEM(node->staged.next, struct staged, link));
    }
}
