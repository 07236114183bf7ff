/* Requests on their way in: from callers' threads through the inbox, from clients' connections
 * directly; then to the leader's log, to the leader's node (node_forward.c), or to the list of those that
 * wait for a leader. Whoever takes a request here owes its one final message. */
#include "lib/node.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/peer.h"

#include <stdio.h>

enum { PARK_RETRY_MS = 50 };

/* ------------------------------------------------------------------ inbox, any thread */

int node_submit(struct lkv *handle, struct request *request) {
    struct node *node = (struct node *)handle;
    size_t before = atomic_fetch_add(&node->held_bytes, request->cost);
    bool counts = request->cost > 0; /* one that only waits, as a watch's does, ends nothing */
    if (counts && before > 0 && before + request->cost > node->options.inflight_bytes_max) {
        atomic_fetch_sub(&node->held_bytes, request->cost);
        return LKV_EBUSY;
    }
    request->held = &node->held_bytes;
    switch (inbox_push(&node->inbox, request)) {
    case INBOX_CLOSED: return LKV_ECLOSED; /* freeing the request uncounts it */
    case INBOX_PUSHED_FIRST: loop_wake(node->world.loop); break;
    case INBOX_PUSHED: break; /* a wake-up is already on its way */
    }
    return 0;
}

static void route_all(struct node *node, struct request *oldest) {
    while (oldest != NULL) {
        struct request *next = oldest->inbox_next;
        node_route(node, oldest);
        oldest = next;
    }
}

void node_drain_inbox(struct node *node) {
    route_all(node, inbox_take(&node->inbox));
}

int node_submit_loop(void *arg, struct request *request) {
    struct node *node = arg;
    if (node->closing) {
        return LKV_ECLOSED;
    }
    node_route(node, request);
    return 0;
}

/* ------------------------------------------------------------------ waiting for a leader */

/* Appends in the order in which they were submitted, whatever the order in which they come back. */
static void park_in_order(struct node *node, struct request *request) {
    struct list_link *before = node->parked.prev;
    for (uint64_t order; request->order != 0 && before != &node->parked; before = before->prev) {
        order = LIST_ITEM(before, struct request, link)->order;
        if (order != 0 && order < request->order) { /* 0: a read, which has no place among them */
            break;
        }
    }
    list_push_back(before->next, &request->link);
}

static void park(struct node *node, struct request *request) {
    if (node->parked_bytes > 0 &&
        node->parked_bytes + request->cost > node->options.inflight_bytes_max) {
        request_fail(request, LKV_EBUSY, "%zu bytes wait for a leader, limit %llu",
                     node->parked_bytes, (unsigned long long)node->options.inflight_bytes_max);
        return;
    }
    node->parked_bytes += request->cost;
    request_unplace(request);
    park_in_order(node, request);
    if (request->deadline_ns < node->next_expiry_ns) {
        node->next_expiry_ns = request->deadline_ns;
    }
    if (node->park_retry_ns == UINT64_MAX) {
        node->park_retry_ns = node_now(node) + PARK_RETRY_MS * MS_NS;
    }
}

static void refuse_no_leader(struct node *node, struct request *request) {
    if (!node->running) {
        char text[2 * REASON_SIZE];
        node_founding_text(node, text, sizeof(text));
        request_fail(request, LKV_ENOLEADER, "%s", text);
        return;
    }
    if (node->leader != RAFT_NOBODY) { /* it waits for something else */
        bool late = request->deadline_ns <= node_now(node);
        request_fail(request, late ? LKV_ETIMEOUT : LKV_ENOLEADER,
                     "the leader of term %llu could not be given it yet: %s",
                     (unsigned long long)node->term,
                     request->op == REQUEST_APPEND
                         ? "appends before it are with an earlier one, or it is out of reach"
                         : "it is out of reach");
        return;
    }
    bool refused = node->refusal.text[0] != '\0';
    request_fail(request, LKV_ENOLEADER, "no leader is known in term %llu%s%s",
                 (unsigned long long)node->term, refused ? "; refused by " : "",
                 node->refusal.text);
}

void node_wait_for_leader(struct node *node, struct request *request) {
    if (request->forwarded || request->no_park) {
        refuse_no_leader(node, request);
    } else {
        park(node, request);
    }
}

void node_route_parked(struct node *node) {
    struct list_link waiting;
    list_init(&waiting);
    struct list_link *link;
    while ((link = list_pop_front(&node->parked)) != NULL) {
        list_push_back(&waiting, link);
    }
    node->parked_bytes = 0;
    node->park_retry_ns = UINT64_MAX;
    while ((link = list_pop_front(&waiting)) != NULL) {
        node_route(node, LIST_ITEM(link, struct request, link));
    }
}

/* ------------------------------------------------------------------ the leader's own log */

static size_t entries_of(const struct request *request) {
    return request->op == REQUEST_APPEND ? request->record_count : 1;
}

static void queue_write(struct node *node, struct request *request) {
    if (request->session != 0) {
        node_session_touch(node, request->session); /* heard, whatever becomes of it */
    }
    request_place(request, node_place(node));
    list_push_back(&node->submits, &request->link);
    node->submit_count++;
    node->submit_entries += entries_of(request);
    node->turn_wanted = true;
}

static void refuse_stopped(struct node *node, struct request *request) {
    request_fail(request, LKV_ESTOPPED, "%s has stopped: %s", node->options.id,
                 node->stop_why.text);
}

/* Rule 25: what it would answer is wrong, and another member's answer is not. */
static void refuse_diverged(struct node *node, struct request *request) {
    char text[REASON_SIZE];
    (void)node_agree_text(node, text, sizeof(text));
    request_fail(request, LKV_ESTOPPED, "%s: %s", node->options.id, text);
}

/* Rule 25: nobody knows what a write would be added to. */
static void refuse_split(struct node *node, struct request *request) {
    char text[REASON_SIZE];
    (void)node_agree_text(node, text, sizeof(text));
    request_fail(request, LKV_EREADONLY, "%s", text);
}

/* A term that has passed never comes back. What is in a session may have been appended in it: that is for
 * the leader to say. */
static bool is_fenced_off(const struct node *node, const struct request *request) {
    return request->in_term != 0 && request->session == 0 && node->running &&
           request->in_term < node->term;
}

static void refuse_term(struct node *node, struct request *request) {
    request_fail(request, LKV_ETERM, "to be appended in term %llu, it is term %llu: not done",
                 (unsigned long long)request->in_term, (unsigned long long)node->term);
}

static void route_write(struct node *node, struct request *request) {
    if (request->op == REQUEST_APPEND && request->order == 0) {
        request->order = ++node->next_order;
    }
    if (is_fenced_off(node, request)) {
        refuse_term(node, request);
    } else if (node_must_wait(node, request)) {
        node_wait_for_leader(node, request);
    } else if (node->running && node->role == RAFT_LEADER && node->agree.state == AGREE_SPLIT) {
        refuse_split(node, request);
    } else if (node->running && node->role == RAFT_LEADER) {
        if (node_feature_allows(node, request)) { /* it never falls: nor until it has an index */
            queue_write(node, request);
        }
    } else if (node->running && node->leader != RAFT_NOBODY) {
        node_forward(node, request);
    } else {
        node_wait_for_leader(node, request);
    }
}

static bool is_session_command(const struct request *request) {
    struct kv_command command;
    return kv_command_decode(blob_slice(request->command), &command, NULL) == 0 &&
           !kv_command_has_keys(&command);
}

/* Whether the operation means anything to this node's model. */
static bool fits_model(const struct node *node, const struct request *request) {
    switch (request->op) {
    case REQUEST_STATUS:
    case REQUEST_DIGEST:
    case REQUEST_SESSION_KEEP: return true;
    case REQUEST_WRITE:
        return !model_has_records(node->identity.model) || is_session_command(request);
    case REQUEST_GET:
    case REQUEST_RANGE:
    case REQUEST_LEASE_KEEP:
    case REQUEST_LEASE_TTL:
    case REQUEST_LEASE_LIST:
    case REQUEST_VIEW_OPEN:
    case REQUEST_VIEW_CLOSE:
    case REQUEST_WATCH: return !model_has_records(node->identity.model);
    case REQUEST_APPEND:
    case REQUEST_LOG_READ:
    case REQUEST_LOG_SPAN:
    case REQUEST_LOG_HOLD: return model_has_records(node->identity.model);
    case REQUEST_IMAGE: return node->identity.model == MODEL_OWN;
    }
    return false;
}

static void refuse_model(struct node *node, struct request *request) {
    request_fail(
        request, LKV_EUNSUPPORTED, "%s is of model %s: it has %s", node->options.id,
        model_name(node->identity.model),
        model_has_records(node->identity.model)
            ? "records by index, no keys (kvctl append, read, log span)"
            : "keys and values, no records by index; a log has a directory of its own, with "
              "model=log");
}

static bool is_write(const struct request *request) {
    return request->op == REQUEST_WRITE || request->op == REQUEST_APPEND;
}

void node_route(struct node *node, struct request *request) {
    if (node->closing) {
        request_fail(request, LKV_ECLOSED, "%s is closing", node->options.id);
    } else if (request->op == REQUEST_STATUS) {
        node_answer_status(node, request);
    } else if (!fits_model(node, request)) {
        refuse_model(node, request);
    } else if (request->op == REQUEST_VIEW_CLOSE) {
        node_view_close(node, request);
    } else if (request->op == REQUEST_DIGEST) {
        node_answer_digest(node, request);
    } else if (node->agree.state == AGREE_DIVERGED) {
        refuse_diverged(node, request);
    } else if (request_is_read(request) && request->how == LKV_LOCAL) {
        node_answer_read(node, request); /* also of a node that has stopped: it has what it has */
    } else if (request->op == REQUEST_LOG_READ &&
               (node->stop_rc == 0 || request->from <= node->applied)) {
        node_log_read(node, request); /* the same */
    } else if (node->stop_rc != 0) {
        refuse_stopped(node, request);
    } else if (request->op == REQUEST_WATCH) {
        node_watch(node, request);
    } else if (request->op == REQUEST_LOG_HOLD) {
        node_hold(node, request);
    } else if (request->op == REQUEST_IMAGE) {
        node_own_image(node, request);
    } else if (node->offline && is_write(request)) {
        request_fail(request, LKV_EIDENTITY,
                     "%s belongs to %s of cluster %016llx: write through the cluster's endpoints",
                     node->dir, node->options.id, (unsigned long long)node->identity.cluster_id);
    } else if (is_write(request)) {
        route_write(node, request);
    } else if (request->op == REQUEST_SESSION_KEEP) {
        node_session_keep(node, request);
    } else if (request_is_of_lease(request)) {
        node_lease_ask(node, request);
    } else if (node->offline) {
        node_answer_read(node, request);
    } else if (!node->running) {
        node_wait_for_leader(node, request);
    } else if (node_reads_past(node, request) ||
               (request->how == LKV_BOUNDED && node_is_fresh(node))) {
        node_answer_read(node, request);
    } else {
        node_read_add(node, request);
    }
}

static void refuse_read_only(struct node *node, struct request *request) {
    if (node->room == RAFT_ROOM_NONE) {
        request_fail(request, LKV_ENOSPACE, "no space left on the disk of the leader %s",
                     node->options.id);
    } else if (node->room == RAFT_ROOM_RESERVED) {
        request_fail(request, LKV_ENOSPACE,
                     "no space left on the disk of the leader %s (deletes and reads go on)",
                     node->options.id);
    } else {
        request_fail(request, LKV_ENOSPACE,
                     "no space left on the disks of so many followers that no quorum can write");
    }
}

static void refuse_busy(struct node *node, struct request *request) {
    struct raft_status status;
    raft_status(node->raft, &status);
    request_fail(request, LKV_EBUSY,
                 "%s takes no more for now: %llu entries wait for a quorum's disks (limit %llu "
                 "bytes), or leadership is being handed over",
                 node->options.id, (unsigned long long)(status.last - status.commit),
                 (unsigned long long)node->options.inflight_bytes_max);
}

static void refuse_batch(struct node *node, int rc) {
    struct list_link *link;
    node->submit_count = node->submit_entries = 0;
    struct list_link refused;
    list_init(&refused);
    while ((link = list_pop_front(&node->submits)) != NULL) {
        list_push_back(&refused, link);
    }
    while ((link = list_pop_front(&refused)) != NULL) {
        struct request *request = LIST_ITEM(link, struct request, link);
        if (rc == LKV_ENOTLEADER) {
            node_wait_for_leader(node, request);
        } else if (rc == LKV_ESTOPPED) {
            refuse_stopped(node, request);
        } else if (rc == LKV_EREADONLY) {
            refuse_read_only(node, request);
        } else if (rc == LKV_EBUSY) {
            refuse_busy(node, request);
        } else {
            request_fail(request, rc, "%s", error_text(rc));
        }
    }
}

/* What the log will write for it. */
static uint64_t record_bytes(const struct request *request) {
    if (request->op != REQUEST_APPEND) {
        return blob_slice(request->command).size + NODE_RECORD_OVERHEAD;
    }
    uint64_t bytes = request->record_count * NODE_RECORD_OVERHEAD;
    for (size_t i = 0; i < request->record_count; i++) {
        bytes += blob_slice(request->records[i]).size;
    }
    return bytes;
}

static enum entry_type type_of(const struct node *node, const struct request *request) {
    if (request->op == REQUEST_APPEND) {
        return request->session != 0 ? ENTRY_ONCE : ENTRY_COMMAND;
    }
    return model_has_records(node->identity.model) ? ENTRY_SESSION : ENTRY_COMMAND;
}

/* Moves one payload to the window; with `again` it stays here too. */
static int push_entry(struct node *node, const struct entry *entry, bool again,
                      struct blob **payload) {
    struct blob *kept = again ? blob_ref(*payload) : NULL;
    struct entry pushed = *entry;
    pushed.payload = *payload;
    int rc = log_window_push(&node->window, &pushed);
    if (rc == 0) {
        *payload = kept; /* the other is the window's now */
    } else {
        blob_unref(kept);
    }
    return rc;
}

static int push_entries(struct node *node, struct request *request, uint64_t first, uint64_t term) {
    /* What may be sent again is kept. Who asked another node to answer itself asks again itself. */
    bool again = request->repeatable && !request->forwarded && !request->no_park;
    struct entry entry = {.index = first, .term = term, .type = type_of(node, request)};
    if (request->op != REQUEST_APPEND) {
        return push_entry(node, &entry, again, &request->command);
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < request->record_count; i++, entry.index++) {
        rc = push_entry(node, &entry, again, &request->records[i]);
    }
    return rc;
}

/* The core has given the batch its indices: payload to the window, waiters to the pending map. Called
 * while the update is being carried out, before anything of it is sent. */
int node_append_accepted(struct node *node, uint64_t first, uint64_t term) {
    if (node->own_type != 0) { /* node_propose_own has submitted it alone */
        const struct entry entry = {.index = first, .term = term, .type = node->own_type};
        node->own_type = 0;
        return push_entry(node, &entry, false, &node->own_payload);
    }
    struct list_link *link;
    uint64_t index = first;
    while ((link = list_pop_front(&node->submits)) != NULL) {
        struct request *request = LIST_ITEM(link, struct request, link);
        node_once_accepted(node, request, index, term);
        int rc = push_entries(node, request, index, term);
        if (rc != 0) {
            list_push_back(&node->submits, link);
            return rc;
        }
        if (request->deadline_ns < node->next_expiry_ns) {
            node->next_expiry_ns = request->deadline_ns;
        }
        index += entries_of(request);
        if (request->lease != 0) {
            node_lease_appended(node, request, index - 1);
        }
        pending_add(&node->pending, request, index - 1, term);
    }
    node->submit_count = node->submit_entries = 0;
    return 0;
}

static bool frees_space(const struct request *request) {
    struct kv_command command;
    return request->op == REQUEST_WRITE &&
           kv_command_decode(blob_slice(request->command), &command, NULL) == 0 &&
           (command.op == KV_DELETE || command.op == KV_COMPACT || command.op == KV_LEASE_REVOKE ||
            (command.session != 0 && !kv_command_has_keys(&command)));
}

static void unqueue(struct node *node, struct request *request) {
    list_remove(&request->link);
    node->submit_count--;
    node->submit_entries -= entries_of(request);
}

/* Rule 15: while no further segment can be made, the rest of the present one is not spent on writes that
 * make more of the same. They are refused before they have an index: definitely not done. */
static void refuse_without_room(struct node *node) {
    if (!node->no_spare) {
        return;
    }
    uint64_t room = log_room(node->log);
    uint64_t used = node->unwritten_bytes;
    struct list_link *next;
    for (struct list_link *at = node->submits.next; at != &node->submits; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        used += record_bytes(request);
        if (used + NODE_ROOM_RESERVED > room && !frees_space(request)) {
            unqueue(node, request);
            node->room_refused = true;
            request_fail(request, LKV_ENOSPACE,
                         "no space left on the disk of the leader %s (deletes and reads go on)",
                         node->options.id);
        }
    }
}

/* Here indices are assigned: a write of another term ends here, if it has come so far (rule 31). */
static void refuse_fenced(struct node *node) {
    struct list_link *next;
    for (struct list_link *at = node->submits.next; at != &node->submits; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        bool decided = request->session == 0 || node_once_judges(node);
        if (request->in_term != 0 && request->in_term != node->term && decided) {
            unqueue(node, request);
            refuse_term(node, request);
        }
    }
}

static uint32_t payload_size(const struct blob *payload) {
    return payload != NULL ? (uint32_t)payload->size : 0;
}

static void fill_sizes(const struct node *node, uint32_t *sizes) {
    size_t count = 0;
    for (struct list_link *at = node->submits.next; at != &node->submits; at = at->next) {
        const struct request *request = LIST_ITEM(at, struct request, link);
        if (request->op != REQUEST_APPEND) {
            sizes[count++] = payload_size(request->command);
            continue;
        }
        for (size_t i = 0; i < request->record_count; i++) {
            sizes[count++] = payload_size(request->records[i]);
        }
    }
    ASSERT(count == node->submit_entries);
}

static void submit(struct node *node, bool reserved) {
    if (node->submit_count == 0) {
        return;
    }
    fill_sizes(node, node->submit_sizes);
    struct raft_event event = {.kind = RAFT_SUBMIT,
                               .submit = {.sizes = node->submit_sizes,
                                          .count = node->submit_entries,
                                          .reserved = reserved}};
    node_step(node, &event);
}

/* Rule 15: without room for puts on a quorum's disks the cluster is read-only, but for what makes room. */
static void keep_what_frees(struct node *node) {
    struct list_link *next;
    for (struct list_link *at = node->submits.next; at != &node->submits; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (!frees_space(request)) {
            unqueue(node, request);
            refuse_read_only(node, request);
        }
    }
}

/* What is in `submits`, in one step of the core. */
static void append_run(struct node *node) {
    refuse_fenced(node);
    refuse_without_room(node);
    if (!node_once_judge(node)) {
        return;
    }
    uint32_t *sizes = mem_array_grow(node->submit_sizes, &node->submit_capacity,
                                     node->submit_entries, sizeof(*sizes));
    if (sizes != NULL) {
        node->submit_sizes = sizes; /* at once: the old one is gone */
    }
    if (sizes == NULL || pending_reserve(&node->pending, node->submit_entries + 1) != 0) {
        node_once_refused(node);
        refuse_batch(node, LKV_ENOMEM);
        return;
    }
    submit(node, false);
    if (node->submit_count > 0 && node->stop_rc == 0 && node->update.submit_rc == LKV_EREADONLY) {
        node_once_refused(node);
        keep_what_frees(node);
        submit(node, true);
    }
    if (node->submit_count > 0) {
        node_once_refused(node);
        refuse_batch(node, node->stop_rc != 0 ? LKV_ESTOPPED : node->update.submit_rc);
    }
}

void node_append_batch(struct node *node) {
    if (node->submit_count == 0) {
        return;
    }
    if (node->stop_rc != 0) {
        refuse_batch(node, LKV_ESTOPPED);
        return;
    }
    if (node_once_hold(node)) {
        return;
    }
    if (!model_has_records(node->identity.model)) {
        append_run(node);
        return;
    }
    struct list_link all;
    list_init(&all);
    for (struct list_link *link; (link = list_pop_front(&node->submits)) != NULL;) {
        list_push_back(&all, link);
    }
    node->submit_count = node->submit_entries = 0;
    while (!list_empty(&all)) {
        node_once_take(node, &all);
        if (node->submit_count > 0) {
            append_run(node);
        }
    }
}

/* Nobody here will learn what became of it, and it takes effect once (rule 26); or the cluster's feature
 * level is about to rise. */
void node_request_again(void *arg, struct request *request) {
    park(arg, request);
}

/* ------------------------------------------------------------------ deadlines */

static void expire_parked(struct node *node, uint64_t now_ns, uint64_t *earliest) {
    struct list_link *next;
    for (struct list_link *at = node->parked.next; at != &node->parked; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->deadline_ns <= now_ns) {
            list_remove(at);
            node->parked_bytes -= request->cost;
            if (node_feature_lacks(node, request)) {
                node_feature_refuse(node, request);
            } else {
                refuse_no_leader(node, request);
            }
        } else if (request->deadline_ns < *earliest) {
            *earliest = request->deadline_ns;
        }
    }
}

void node_requests_expire(struct node *node, uint64_t now_ns) {
    if (now_ns >= node->next_expiry_ns) {
        uint64_t earliest = pending_expire(&node->pending, now_ns);
        expire_parked(node, now_ns, &earliest);
        uint64_t others[] = {node_read_expire(node, now_ns),  node_once_expire(node, now_ns),
                             node_hold_expire(node, now_ns),  node_digest_expire(node, now_ns),
                             node_lease_expire(node, now_ns), node_watch_expire(node, now_ns),
                             node_own_expire(node, now_ns)};
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
            earliest = others[i] < earliest ? others[i] : earliest;
        }
        node->next_expiry_ns = earliest;
    }
    if (now_ns >= node->park_retry_ns) {
        node_route_parked(node);
    }
}

/* Closing: what was not appended is definitely not done, the rest is unknown (X-A12). */
void node_requests_fail_all(struct node *node) {
    route_all(node, inbox_close(&node->inbox));
    refuse_batch(node, LKV_ECLOSED);
    struct list_link *link;
    while ((link = list_pop_front(&node->parked)) != NULL) {
        request_fail(LIST_ITEM(link, struct request, link), LKV_ECLOSED, "%s was closed",
                     node->options.id);
    }
    node->parked_bytes = 0;
    node_read_fail_all(node, LKV_ECLOSED, "the node was closed");
    node_once_close(node);
    node_forward_close(node);
    pending_fail_all(&node->pending, "the node was closed");
}
