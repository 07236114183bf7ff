/* Replay: committed entries, in order, into the state machine. The same path serves a live node and one
 * that has just started and reads its log back from disk.
 *
 * Runs on the loop's thread, in bounded slices, since the memory engine never blocks; a slice is small
 * enough that no vote or acknowledgement waits noticeably behind it (L13). */
#include "lib/node_repair.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/tail.h"

enum { BUSY_MS = 2 /* until the state's disk is asked again */ };
enum { SLICE_ENTRIES = 256, SLICES_A_TURN = 8, READ_BYTES = 4 * 1024 * 1024, READ_ENTRIES = 4096 };

/* Entries below the window, on their way from disk. */
struct apply_read {
    struct loop_job job;
    struct node *node;
    uint64_t from, to;
    struct entry *entries; /* owned */
    size_t count;
    int rc;
    bool noted; /* damage that was not known before */
    struct log_gap gap;
    struct reason why;
};

/* What a write answers beside where it is in the log. */
static void fill_answer(struct request *request, struct kv_result *result) {
    struct lkv_msg *reply = request->reply;
    if (request->write_op == KV_ADD) {
        msg_set_u64(reply, "number", result->count);
    } else if (request->write_op == KV_TXN) {
        msg_set_u64(reply, "held", result->count);
    } else {
        msg_set_u64(reply, "count", result->count);
    }
    if (result->answer != NULL) {
        msg_set_answer(reply, result->answer);
        result->answer = NULL;
    }
}

static void finish_waiter(struct node *node, const struct entry *entry, struct kv_result *result) {
    struct request *request = pending_take(&node->pending, entry->index, entry->term);
    if (request == NULL) {
        return;
    }
    if (request->op == REQUEST_APPEND) {
        msg_set_u64(request->reply, "index", entry->index + 1 - request->record_count);
        msg_set_u64(request->reply, "term", entry->term);
        msg_set_u64(request->reply, "count", request->record_count);
        request_finish(request);
        return;
    }
    msg_set_u64(request->reply, "rev", result->revision);
    msg_set_u64(request->reply, "index", result->index);
    msg_set_u64(request->reply, "term", result->term);
    fill_answer(request, result);
    if (result->session != request->session) { /* it was opened by this entry */
        msg_set_u64(request->reply, "session", result->session);
    }
    if (result->rc == 0) {
        request_finish(request);
    } else {
        request_fail(request, result->rc, "%s", error_text(result->rc));
    }
}

static void tell_role(struct node *node, enum role_kind kind, uint64_t term, uint64_t index) {
    if (role_set(&node->role_events, kind, term, index) != 0) {
        node_stop(node, LKV_ENOMEM, "no memory for a role message");
    }
}

/* Applies a run of entries that are side by side in memory. False when the node has stopped. */
static bool apply_run(struct node *node, const struct entry *entries, size_t count) {
    struct kv_result results[SLICE_ENTRIES];
    struct reason why = {{0}};
    size_t applied = 0;
    ASSERT(count <= SLICE_ENTRIES);
    int rc = node->state->apply(node, entries, count, results, &applied, &why);
    for (size_t i = 0; i < applied; i++) {
        if (results[i].session != 0 && !results[i].ended) {
            node_session_touch(node, results[i].session);
        }
        finish_waiter(node, &entries[i], &results[i]);
        kv_result_fini(&results[i]);
        node->bytes_since_image += blob_slice(entries[i].payload).size;
    }
    if (applied > 0) {
        node->applied = entries[applied - 1].index;
        node->tidy_wanted = node->state->tidy != NULL;
    }
    if (rc != 0) {
        node_stop(node, rc, "%s", why.text);
        return false;
    }
    if (applied == count && entries[count - 1].type == ENTRY_DIGEST) {
        node_agree_applied(node, &entries[count - 1]);
    }
    if (applied == 0 && node->state->busy != NULL && node->state->busy(node)) {
        node->apply_retry_ns = node_now(node) + BUSY_MS * MS_NS;
        return false;
    }
    return true;
}

/* The term that the program still acts in; an entry of a later one waits behind the gate. */
static bool gate_holds(const struct node *node, const struct entry *entry) {
    return role_gate_closed(&node->role_events) && entry->term > node->role_events.term;
}

/* One slice from the window. False when there is nothing (more) to do now. */
static bool apply_slice(struct node *node, uint64_t target) {
    struct entry run[SLICE_ENTRIES];
    size_t count = 0;
    while (count < SLICE_ENTRIES && node->applied + count < target) {
        const struct entry *entry = node_entry(node, node->applied + count + 1);
        if (entry == NULL || gate_holds(node, entry)) {
            break;
        }
        run[count++] = *entry;
        if (entry->type == ENTRY_DIGEST) {
            break; /* what is digested is the state just behind it */
        }
    }
    return count > 0 && apply_run(node, run, count);
}

static void read_run(struct loop_job *base) {
    struct apply_read *read = LIST_ITEM(base, struct apply_read, job);
    read->rc = log_read(read->node->log, read->from, read->to, READ_BYTES, read->entries,
                        READ_ENTRIES, &read->count, &read->why);
    read->noted = node_is_damage(read->rc) && node_note_damage(read->node, read->from, &read->gap);
}

static void read_free(struct apply_read *read) {
    for (size_t i = 0; i < read->count; i++) {
        blob_unref(read->entries[i].payload);
    }
    mem_free(read->entries);
    mem_free(read);
}

static void drop_fetched(struct node *node) {
    if (node->fetched_for_apply != NULL) {
        read_free(node->fetched_for_apply);
        node->fetched_for_apply = NULL;
    }
}

/* One slice of what was read from disk, which is kept until it is used up: a large delete takes many
 * turns, and a closed gate holds the rest back. False when there is nothing (more) to do now. */
static bool apply_fetched(struct node *node) {
    const struct apply_read *read = node->fetched_for_apply;
    size_t at = 0;
    while (at < read->count && read->entries[at].index <= node->applied) {
        at++; /* applied before, or an image has moved the state on */
    }
    if (at == read->count || read->entries[at].index != node->applied + 1) {
        drop_fetched(node);
        return true; /* perhaps the window has more */
    }
    size_t run = 0;
    while (run < SLICE_ENTRIES && at + run < read->count &&
           !gate_holds(node, &read->entries[at + run])) {
        run++;
        if (read->entries[at + run - 1].type == ENTRY_DIGEST) {
            break;
        }
    }
    return run > 0 && apply_run(node, &read->entries[at], run);
}

static void step_applied(struct node *node) {
    struct raft_event event = {.kind = RAFT_APPLIED, .applied = {.index = node->applied}};
    node_step(node, &event);
}

static void read_done(struct loop_job *base) {
    struct apply_read *read = LIST_ITEM(base, struct apply_read, job);
    struct node *node = read->node;
    node->jobs_outstanding--;
    node->reading_for_apply = false;
    node->turn_wanted = true;
    if (read->rc == 0) {
        node->fetched_for_apply = read;
        return;
    }
    if (node_is_damage(read->rc) && node->identity.member_count > 1) {
        if (read->noted) { /* replay goes on when it is repaired */
            node_log_damaged(node, &read->gap, &read->why);
        }
    } else if (read->rc != LKV_ETRUNCATED || node->applied < read->from) {
        node_stop(node, read->rc, "replay: %s", read->why.text);
    }
    read_free(read);
}

bool node_tidy(struct node *node) {
    /* Until it runs all of this belongs to the job that founds or recovers it. */
    if (!node->running || !node->tidy_wanted || node->installing || node->stop_rc != 0 ||
        (node->applied < node->commit && !node->reading_for_apply)) {
        return false;
    }
    node->tidy_wanted = node->state->tidy(node);
    return node->tidy_wanted;
}

void node_apply_fini(struct node *node) {
    drop_fetched(node);
}

static void read_from_disk(struct node *node, uint64_t target) {
    struct apply_read *read = mem_calloc(1, sizeof(*read));
    struct entry *entries = mem_calloc(READ_ENTRIES, sizeof(*entries));
    if (read == NULL || entries == NULL) {
        mem_free(read);
        mem_free(entries);
        node_stop(node, LKV_ENOMEM, "no memory to read the log back");
        return;
    }
    *read = (struct apply_read){.node = node,
                                .from = node->applied + 1,
                                .to = target,
                                .entries = entries,
                                .job = {.run = read_run, .done = read_done}};
    node->reading_for_apply = true;
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &read->job);
}

/* What the state knows already, and this node had on its disk when it started, is not read back. True:
 * it will not be, once it is known to be committed. A closed gate has everything since in the window. */
static bool skip_replay(struct node *node) {
    uint64_t target = node->state->includes(node);
    if (target <= node->applied || target >= node->window.first) {
        return false;
    }
    if (target > node->commit || role_gate_closed(&node->role_events)) {
        return true;
    }
    node->applied = target;
    node->state->catch_up(node);
    return false;
}

/* A leader is ready when the tails that gate it have consumed what was there. One that never gets
 * there is of no use as a leader: another node may do better. */
static bool tails_ready(struct node *node, uint64_t noop_index) {
    if (tails_consumed(&node->handle.subscriptions, noop_index)) {
        node->ready_deadline_ns = UINT64_MAX;
        return true;
    }
    uint64_t now_ns = node_now(node);
    uint64_t patience_ns = node->options.ready_timeout_ms * MS_NS;
    if (node->ready_deadline_ns == UINT64_MAX) {
        node->ready_deadline_ns = now_ns + patience_ns;
    } else if (now_ns >= node->ready_deadline_ns) {
        node->ready_deadline_ns = now_ns + patience_ns;
        trace_line(&node->trace, TRACE_WARN, "not-ready",
                   "a tail has not consumed what was there in %llu ms: leadership goes to another "
                   "node, if there is one",
                   (unsigned long long)node->options.ready_timeout_ms);
        struct raft_event event = {.kind = RAFT_TRANSFER, .transfer = {.target = RAFT_NOBODY}};
        node_step(node, &event);
    }
    return false;
}

/* Leadership as the program sees it, in apply order (rule 31). */
static void publish_role(struct node *node) {
    struct raft_status status;
    raft_status(node->raft, &status);
    if (node->role_events.kind == ROLE_READY && status.term != node->role_events.term) {
        /* Whatever it is now: the term that the program acts in is over. */
        tell_role(node, ROLE_STEPPING_DOWN, node->role_events.term, 0);
    }
    if (status.role != RAFT_LEADER) {
        node->ready_deadline_ns = UINT64_MAX;
    }
    switch (status.role) {
    case RAFT_LEADER:
        if (status.noop_index != 0 && node->applied >= status.noop_index &&
            (node->role_events.kind == ROLE_READY || tails_ready(node, status.noop_index))) {
            tell_role(node, ROLE_READY, status.term, status.noop_index);
            node_settle(node);
        }
        break;
    case RAFT_FOLLOWER:
    case RAFT_CANDIDATE:
        if (node->role_events.kind == ROLE_READY) {
            tell_role(node, ROLE_STEPPING_DOWN, node->role_events.term, 0);
        }
        if (!role_gate_closed(&node->role_events)) {
            tell_role(node, status.role == RAFT_FOLLOWER ? ROLE_FOLLOWER : ROLE_CANDIDATE,
                      status.term, 0);
        }
        break;
    case RAFT_STOPPED: break; /* told at the turn's end, with the reason */
    }
}

static void set_gate(struct node *node) {
    bool closed = role_gate_closed(&node->role_events) || node->installing ||
                  node->agree.state == AGREE_DIVERGED;
    if (closed != node->gate_closed) {
        node->gate_closed = closed;
        struct raft_event event = {.kind = RAFT_GATE, .gate = {.may_campaign = !closed}};
        node_step(node, &event);
    }
}

void node_apply(struct node *node) {
    if (!node->running || node->stop_rc != 0) {
        return;
    }
    if (node->installing) { /* its log ends nowhere yet: it must not campaign */
        publish_role(node);
        set_gate(node);
        return;
    }
    publish_role(node);
    set_gate(node);
    node->apply_retry_ns = UINT64_MAX;
    uint64_t before = node->applied;
    size_t slices = 0;
    bool waits = skip_replay(node);
    while (
        !waits && !node->reading_for_apply && node->applied < node->commit &&
        slices < SLICES_A_TURN &&
        (node->fetched_for_apply != NULL ? apply_fetched(node) : apply_slice(node, node->commit))) {
        slices++;
    }
    if (node->stop_rc != 0) {
        return;
    }
    if (node->applied > before) {
        step_applied(node);
        publish_role(node);
    }
    if (node->applied < node->commit && !waits) {
        if (node->apply_retry_ns != UINT64_MAX) {
            /* the timer comes back to it */
        } else if (slices == SLICES_A_TURN) {
            node->turn_wanted = true;
        } else if (!node->reading_for_apply && node->fetched_for_apply == NULL && !node->closing &&
                   node->applied + 1 < node->window.first &&
                   !log_damage_at(node->log, node->applied + 1, NULL)) {
            read_from_disk(node, node->commit);
        }
    }
}
