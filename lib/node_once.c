/* Appends in sessions, before they get an index (rule 26). Records cannot be taken back once they are in
 * the log, so the leader judges a number before it appends, not when the entry is applied:
 *
 *   ledger.sessions   what the applied entries say
 *   proposed          the same, and what this leader has appended since: a copy that goes ahead
 *
 *   new number ───────────────> appended, and noted in `proposed` with the index that it gets
 *   known, and applied ───────> answered with the first answer
 *   known, on its way ────────> once_waits, until it is applied; then looked at again
 *
 * A leader begins with that when all of earlier terms is applied; until then what is in a session waits,
 * and behind it whatever was submitted later. The verdict depends on nothing but the entries before, so
 * each replica comes to the same one when it applies them, and finds nothing to refuse. */
#include "lib/node.h"

#include "base/assert.h"

#include <string.h>

static bool is_once(const struct request *request) {
    return request->op == REQUEST_APPEND && request->session != 0;
}

/* Opens, renews or ends a session. */
static bool is_command(const struct request *request) {
    return request->op == REQUEST_WRITE;
}

static size_t entries_of(const struct request *request) {
    return request->op == REQUEST_APPEND ? request->record_count : 1;
}

static bool is_leader(const struct node *node) {
    return model_has_records(node->identity.model) && node->role == RAFT_LEADER;
}

static bool wants_sessions(const struct node *node) {
    for (const struct list_link *at = node->submits.next; at != &node->submits; at = at->next) {
        const struct request *request = LIST_ITEM(at, struct request, link);
        if (is_once(request) || is_command(request)) {
            return true;
        }
    }
    return false;
}

bool node_once_judges(const struct node *node) {
    return is_leader(node) && node->proposed_term == node->term;
}

static void forget(struct node *node) {
    sessions_fini(&node->proposed);
    node->proposed_term = 0;
}

/* Nothing of this term is in a session yet: the first that is comes this way. */
static bool begin(struct node *node) {
    if (!node_once_judges(node)) {
        forget(node);
        if (sessions_freeze(&node->ledger.sessions, &node->proposed) != 0) {
            return false;
        }
        node->proposed_term = node->term;
    }
    return true;
}

bool node_once_hold(struct node *node) {
    node->submits_held = false;
    if (!is_leader(node) || node_once_judges(node) || !wants_sessions(node)) {
        return false;
    }
    node->submits_held = !node_leads_ready(node) || !begin(node);
    if (node->submits_held) {
        for (struct list_link *at = node->submits.next; at != &node->submits; at = at->next) {
            const struct request *request = LIST_ITEM(at, struct request, link);
            node->next_expiry_ns = request->deadline_ns < node->next_expiry_ns
                                       ? request->deadline_ns
                                       : node->next_expiry_ns;
        }
    }
    return node->submits_held;
}

/* ------------------------------------------------------------------ judging */

static struct session_call call_of(const struct request *request) {
    return (struct session_call){
        .id = request->session, .seq = request->seq, .acked_below = request->acked_below};
}

static void unsubmit(struct node *node, struct request *request) {
    list_remove(&request->link);
    node->submit_count--;
    node->submit_entries -= entries_of(request);
}

static void refuse(struct request *request, int rc) {
    request_fail(request, rc, "number %llu of session %llu: %s", (unsigned long long)request->seq,
                 (unsigned long long)request->session, error_text(rc));
}

static void answer_first(struct request *request, const struct session_reply *first) {
    msg_set_u64(request->reply, "index", first->index);
    msg_set_u64(request->reply, "term", first->term);
    msg_set_u64(request->reply, "count", first->count);
    request_finish(request);
}

/* Until entry `last` is applied. */
static void wait_for(struct node *node, struct request *request, uint64_t last) {
    request->index = last;
    list_push_back(&node->once_waits, &request->link);
    if (request->deadline_ns < node->next_expiry_ns) {
        node->next_expiry_ns = request->deadline_ns;
    }
}

static void repeat(struct node *node, struct request *request, const struct session_reply *first) {
    uint64_t last = first->index + first->count - 1;
    if (first->revision != request->records_crc) {
        request_fail(request, LKV_EINVAL,
                     "number %llu of session %llu was used for other records, at index %llu",
                     (unsigned long long)request->seq, (unsigned long long)request->session,
                     (unsigned long long)first->index);
    } else if (last <= node->applied) {
        answer_first(request, first);
    } else {
        request->maybe_done = true; /* the attempt that it waits for */
        wait_for(node, request, last);
    }
}

/* The end of its session is on its way, and may yet be lost with this leader. */
static bool is_ending(const struct node *node, const struct request *request) {
    const struct sessions *applied = &node->ledger.sessions;
    return sessions_find(applied, request->session) < applied->count;
}

/* True: it is to be appended. Otherwise it is elsewhere. */
static bool judge(struct node *node, struct request *request) {
    const struct session_call call = call_of(request);
    struct session_reply first;
    int rc = sessions_judge(&node->proposed, &call, &first);
    if (rc == SESSION_EXECUTE) {
        return true;
    }
    unsubmit(node, request);
    if (rc == SESSION_REPEATED) {
        repeat(node, request, &first);
    } else if (rc == LKV_ESESSION && is_ending(node, request)) {
        wait_for(node, request, log_window_next(&node->window) - 1);
    } else {
        refuse(request, rc);
    }
    return false;
}

/* Two numbers that are the same may be in one run: the second is found by what the first has left. */
static bool note(struct node *node, struct request *request, uint64_t index) {
    const struct session_call call = call_of(request);
    if (sessions_reserve(&node->proposed, &call) != 0) {
        unsubmit(node, request);
        refuse(request, LKV_ENOMEM);
        return false;
    }
    const struct session_reply reply = {.seq = request->seq,
                                        .index = index,
                                        .term = node->term,
                                        .revision = request->records_crc,
                                        .count = request->record_count};
    sessions_record(&node->proposed, &call, &reply);
    return true;
}

/* ------------------------------------------------------------------ runs */

static void submit(struct node *node, struct request *request) {
    list_push_back(&node->submits, &request->link);
    node->submit_count++;
    node->submit_entries += entries_of(request);
}

/* A command of a session is a run of its own: what comes behind it is judged when it has an index. */
void node_once_take(struct node *node, struct list_link *from) {
    while (!list_empty(from)) {
        struct request *request = LIST_ITEM(from->next, struct request, link);
        if (is_command(request) && node->submit_count > 0) {
            return;
        }
        list_remove(&request->link);
        submit(node, request);
        if (is_command(request)) {
            return;
        }
        if (is_once(request) && node_once_judges(node)) {
            bool goes = judge(node, request);
            (void)goes;
        }
    }
}

bool node_once_judge(struct node *node) {
    struct raft_status status;
    if (!node_once_judges(node)) {
        return node->submit_count > 0;
    }
    raft_status(node->raft, &status);
    uint64_t index = status.last + 1;
    struct list_link *next;
    for (struct list_link *at = node->submits.next; at != &node->submits; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        size_t entries = entries_of(request);
        if (!is_once(request) || (judge(node, request) && note(node, request, index))) {
            index += entries;
        }
    }
    return node->submit_count > 0;
}

void node_once_accepted(struct node *node, const struct request *request, uint64_t index,
                        uint64_t term) {
    if (!node_once_judges(node) || (!is_once(request) && !is_command(request))) {
        return;
    }
    if (is_once(request)) {
        const struct session_call call = call_of(request);
        struct session_reply reply = {0};
        int rc = sessions_judge(&node->proposed, &call, &reply);
        /* Answered: a later number of this run says so, truly or not. */
        ASSERT(rc == LKV_EANSWERED ||
               (rc == SESSION_REPEATED && reply.index == index && reply.term == term));
        return;
    }
    struct kv_command command;
    struct kv_result result = {.index = index, .term = term};
    int rc = kv_command_decode(blob_slice(request->command), &command, NULL);
    rc = rc == 0 ? sessions_command(&node->proposed, &command, &result) : rc;
    if (rc != 0) { /* it no longer says what the log does: this leader must judge nothing by it */
        node_stop(node, rc, "the session of entry %llu: %s", (unsigned long long)index,
                  error_text(rc));
    }
}

void node_once_refused(struct node *node) {
    for (struct list_link *at = node->submits.next; at != &node->submits; at = at->next) {
        const struct request *request = LIST_ITEM(at, struct request, link);
        if (is_once(request) && node_once_judges(node)) {
            const struct session_call call = call_of(request);
            sessions_unrecord(&node->proposed, &call);
        }
    }
}

/* ------------------------------------------------------------------ those that wait */

void node_once_turn(struct node *node) {
    bool valid = node_once_judges(node);
    if (!valid && node->proposed_term != 0) {
        forget(node);
    }
    struct list_link ready;
    list_init(&ready);
    struct list_link *next;
    for (struct list_link *at = node->once_waits.next; at != &node->once_waits; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (!valid || request->index <= node->applied) {
            list_remove(at);
            list_push_back(&ready, at);
        }
    }
    for (struct list_link *link; (link = list_pop_front(&ready)) != NULL;) {
        node_route(node, LIST_ITEM(link, struct request, link));
    }
}

uint64_t node_once_expire(struct node *node, uint64_t now_ns) {
    uint64_t earliest = UINT64_MAX;
    struct list_link *next;
    for (struct list_link *at = node->once_waits.next; at != &node->once_waits; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->deadline_ns <= now_ns) {
            list_remove(at);
            request_fail(request, LKV_ETIMEOUT,
                         "no quorum acknowledged entry %llu, which decides it, in time",
                         (unsigned long long)request->index);
        } else if (request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    for (struct list_link *at = node->submits.next; node->submits_held && at != &node->submits;
         at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->deadline_ns <= now_ns) {
            unsubmit(node, request);
            request_fail(request, LKV_ETIMEOUT, "%s has not become ready as the leader in time",
                         node->options.id);
        } else if (request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    return earliest;
}

void node_once_close(struct node *node) {
    for (struct list_link *link; (link = list_pop_front(&node->once_waits)) != NULL;) {
        request_fail(LIST_ITEM(link, struct request, link), LKV_ECLOSED, "the node was closed");
    }
    forget(node);
}
