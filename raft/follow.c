/* A follower takes its leader's entries, strictly in index order.
 *
 *      1 ............ commit ......... verified ............... last
 *      |-- never cut (R16) --|-- equals this leader's --|-- perhaps another leader's leftovers --|
 *
 * An append whose previous entry is in our log extends `verified`; an entry that contradicts one
 * beyond it cuts there. What arrives before its predecessors is kept (early.h) and the missing range
 * is asked for. Acknowledged is what is verified *and* durable, in a durable term (rule 2).
 *
 * Entries of ours that cannot be read are no conflict (rule 11): while their terms are not known they are
 * neither cut nor overwritten, but asked for (repair.c). What the leader has further on may prove that
 * they are its entries, or from where on they are not. */
#include "raft/core.h"

enum outcome { TAKEN, MISMATCH, REFUSED };

/* One append request, just arrived or kept. */
struct request {
    uint64_t token;
    uint64_t prev_index, prev_term;
    uint64_t request_no;
    const struct raft_entry_meta *entries;
    uint32_t count;
};

/* ------------------------------------------------------------------ the leader */

void follow_drop_early(struct raft *raft) {
    struct early_request request;
    while (early_take(&raft->early, UINT64_MAX, &request)) {
        if (request.token != 0) {
            update_drop(raft, request.token);
        }
        early_request_fini(&request);
    }
}

/* L12: what was queued for another leader or term is dropped. Committed entries are in every later
 * leader's log, so they count as verified from the start. */
void follow_reset(struct raft *raft) {
    follow_drop_early(raft);
    raft->stream = (struct stream){.verified = raft->commit};
    catchup_lost_leader(raft);
}

/* False: the message is an old leader's, or from a second leader of one term, and is not obeyed. */
static bool follow(struct raft *raft, const struct raft_message *message) {
    if (message->term < raft->term) {
        return false;
    }
    if (message->term > raft->term) {
        core_adopt_term(raft, message->term);
    }
    bool other = raft->leader != RAFT_NOBODY && raft->leader != message->from;
    if (raft->role == RAFT_LEADER || other) {
        return false; /* cannot be: one leader a term. Whoever claims it is not listened to */
    }
    if (raft->leader == RAFT_NOBODY) {
        core_become_follower(raft, message->from);
    }
    raft->heard_ns = raft->now_ns;
    election_arm(raft);
    return true;
}

/* ------------------------------------------------------------------ replies */

static struct raft_message *reply(struct raft *raft, enum raft_append_result result,
                                  uint64_t request_no) {
    struct raft_message *message = update_message(raft, RAFT_APPEND_REPLY, raft->leader);
    message->append_reply.result = result;
    message->append_reply.request_no = request_no;
    message->append_reply.received = log_received_to_state(raft);
    message->append_reply.durable = log_durable_to_state(raft, raft->stream.verified);
    message->append_reply.room = raft->room;
    return message;
}

static void acknowledge(struct raft *raft) {
    struct raft_message *message = reply(raft, RAFT_APPEND_OK, raft->stream.request_no);
    raft->stream.acked = message->append_reply.durable;
    raft->stream.ack_owed =
        raft->durable_term != raft->term || raft->durable < raft->stream.verified;
}

/* An old leader learns the newer term from the reply, and steps down (rule 3). */
static void reply_newer_term(struct raft *raft, const struct raft_message *message) {
    if (message->term >= raft->term) {
        return;
    }
    enum raft_message_kind kind =
        message->kind == RAFT_APPEND ? RAFT_APPEND_REPLY : RAFT_HEARTBEAT_REPLY;
    struct raft_message *answer = update_message(raft, kind, message->from);
    if (kind == RAFT_APPEND_REPLY) {
        answer->append_reply.result = RAFT_APPEND_CONFLICT;
        answer->append_reply.request_no = message->append.request_no;
        answer->append_reply.room = raft->room;
    } else {
        answer->heartbeat_reply.room = raft->room;
    }
}

static void reply_conflict(struct raft *raft, const struct request *request) {
    struct raft_message *message = reply(raft, RAFT_APPEND_CONFLICT, request->request_no);
    uint64_t term = raft_term_at(raft, request->prev_index);
    const struct gap *gap = damage_unknown_at(&raft->gaps, request->prev_index);
    message->append_reply.conflict_term = term;
    if (gap != NULL) {
        message->append_reply.conflict_first = gap->unknown_from; /* before it our logs may meet */
    } else {
        message->append_reply.conflict_first =
            term != 0 ? terms_run_first(&raft->terms, request->prev_index) : raft->last + 1;
    }
}

/* What is missing before entry `last + 1`, or before the first early request if that is lower. At
 * most one reply for the same range in a heartbeat's time, however many requests lie behind it. */
static void reply_gap(struct raft *raft, uint64_t request_no, uint64_t last) {
    struct stream *stream = &raft->stream;
    uint64_t first = stream->verified + 1;
    if (raft->early.count > 0 && early_lowest(&raft->early) < last) {
        last = early_lowest(&raft->early);
    }
    bool same = stream->gap_first == first && stream->gap_last == last &&
                raft->now_ns - stream->gap_ns < ms(raft->options.heartbeat_ms);
    if (same || last < first) {
        return;
    }
    stream->gap_first = first;
    stream->gap_last = last;
    stream->gap_ns = raft->now_ns;
    struct raft_message *message = reply(raft, RAFT_APPEND_GAP, request_no);
    message->append_reply.want_first = first;
    message->append_reply.want_last = last;
}

/* ------------------------------------------------------------------ taking entries */

static uint64_t request_term(const struct request *request, uint64_t index) {
    return index == request->prev_index ? request->prev_term
                                        : request->entries[index - request->prev_index - 1].term;
}

/* Terms of our entries in the gap are not known from `index` on, but lie between those of its ends. The
 * leader's first entry of the last one's term is ours too, as all before it: one leader made them all.
 * A higher term, or the gap's end without that term, is another entry than ours. Gives the index where
 * that is decided; 0: not by this request. */
static uint64_t decided_at(const struct request *request, const struct gap *gap, uint64_t index) {
    uint64_t end = request->prev_index + request->count;
    for (; index <= end && index <= gap->last; index++) {
        if (request_term(request, index) >= gap->last_term || index == gap->last) {
            return index;
        }
    }
    return 0;
}

/* Asked to cut what is committed, or what this very leader confirmed: never done. */
static bool contradicts(struct raft *raft, uint64_t index) {
    if (log_is_committed(raft, index)) { /* rule 13, R16: the node stops, its data is untouched */
        core_stop(raft, LKV_EDAMAGED,
                  "leader %llu of term %llu sent another entry %llu than the committed one",
                  (unsigned long long)raft->leader, (unsigned long long)raft->term,
                  (unsigned long long)index);
        return true;
    }
    return index <= raft->stream.verified;
}

/* False: nothing more of the request can be judged. */
static bool cross_gap(struct raft *raft, const struct request *request, const struct gap *gap,
                      uint64_t index) {
    uint64_t at = decided_at(request, gap, index);
    if (at == 0) {
        return false;
    }
    uint64_t same = at;
    if (request_term(request, at) != gap->last_term) {
        if (contradicts(raft, at)) {
            return false;
        }
        same = at - 1;
        /* The leader's entries before it are ours from now on, though we cannot read them. */
        log_cut(raft, at, request_term(request, at - 1));
    }
    if (same > raft->stream.verified) {
        raft->stream.verified = same;
    }
    return true;
}

/* Entries that we hold already: verified, or about to be. Gives how many; stops the node when they
 * contradict what is committed (rule 13). Entries in a gap that it cannot judge count as held. */
static uint32_t skip_known(struct raft *raft, const struct request *request) {
    uint32_t i = 0;
    for (; i < request->count; i++) {
        uint64_t index = request->prev_index + 1 + i;
        const struct gap *gap = damage_unknown_at(&raft->gaps, index);
        if (gap != NULL && index > raft->stream.verified) {
            if (!cross_gap(raft, request, gap, index)) {
                return request->count;
            }
            i = (uint32_t)(raft->stream.verified - request->prev_index) - 1;
            continue;
        }
        uint64_t term = index < raft->first ? 0 : raft_term_at(raft, index);
        /* Covered by our image (P5), or in a gap and known to be the leader's. */
        bool below_log = index < raft->first || gap != NULL;
        if (index > raft->last || (!below_log && term != request->entries[i].term)) {
            break;
        }
        if (index > raft->stream.verified) {
            raft->stream.verified = index;
        }
    }
    return i;
}

static bool no_room(const struct raft *raft, const struct request *request, uint32_t from) {
    uint64_t bytes = 0, payload = 0;
    for (uint32_t i = from; i < request->count; i++) {
        bool command = request->entries[i].type == ENTRY_COMMAND;
        payload += command ? request->entries[i].size : 0;
        bytes += (uint64_t)request->entries[i].size + SIZES_ENTRY_OVERHEAD;
    }
    if (raft->room == RAFT_ROOM_NONE && payload > 0) {
        return true; /* what did not fit is tried again first (rule 15) */
    }
    /* R25: with a disk that hangs, memory does not fill up: one window's worth, and a spare one for
     * what an earlier leader sent. A single entry is always let in. */
    uint64_t waiting = sizes_between(&raft->sizes, raft->durable + 1, raft->last);
    return waiting > 0 && waiting + bytes > 2 * (uint64_t)raft->options.inflight_bytes_max;
}

static void append_rest(struct raft *raft, const struct request *request, uint32_t from) {
    uint64_t first = request->prev_index + 1 + from;
    if (!log_reserve(raft, request->count - from)) {
        return;
    }
    if (first <= raft->last) {
        log_cut(raft, first, request_term(request, first - 1));
    }
    for (uint32_t i = from; i < request->count; i++) {
        log_append(raft, request->entries[i].term, request->entries[i].size);
    }
    raft->stream.verified = raft->last;
    update_take(raft, request->token, first, raft->last);
}

/* In a gap, the last one's term is known to be ours as far as the leader has it (see decided_at). */
static bool meets(const struct raft *raft, const struct request *request) {
    const struct gap *gap = damage_unknown_at(&raft->gaps, request->prev_index);
    uint64_t term = gap != NULL ? gap->last_term : raft_term_at(raft, request->prev_index);
    return term == request->prev_term;
}

/* Batches are only framing: every entry stands for itself (L11), and what we have is never cut for
 * being sent again (R12). */
static enum outcome take(struct raft *raft, const struct request *request) {
    if (request->prev_index > raft->stream.verified) {
        if (!meets(raft, request)) {
            return MISMATCH;
        }
        raft->stream.verified = request->prev_index;
    }
    raft->stream.established = true;
    uint32_t known = skip_known(raft, request);
    if (known == request->count) {
        return TAKEN;
    }
    if (request->entries[known].term < raft_term_at(raft, request->prev_index + known)) {
        return REFUSED; /* terms never fall in a log: no leader has sent this */
    }
    if (contradicts(raft, request->prev_index + 1 + known) || no_room(raft, request, known)) {
        return REFUSED;
    }
    append_rest(raft, request, known);
    return TAKEN;
}

static void take_early(struct raft *raft) {
    struct early_request early;
    while (raft->role != RAFT_STOPPED && early_take(&raft->early, raft->stream.verified, &early)) {
        struct request request = {.token = early.token,
                                  .prev_index = early.prev_index,
                                  .prev_term = early.prev_term,
                                  .request_no = early.request_no,
                                  .entries = early.entries,
                                  .count = early.count};
        (void)take(raft, &request);
        if (early.request_no > raft->stream.request_no) {
            raft->stream.request_no = early.request_no;
        }
        if (early.token != 0) {
            update_drop(raft, early.token);
        }
        early_request_fini(&early);
    }
}

static void keep_early(struct raft *raft, const struct request *request) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < request->count; i++) {
        bytes += (uint64_t)request->entries[i].size + SIZES_ENTRY_OVERHEAD;
    }
    struct early_request early = {.token = request->token,
                                  .prev_index = request->prev_index,
                                  .prev_term = request->prev_term,
                                  .request_no = request->request_no,
                                  .count = request->count,
                                  .entries = (struct raft_entry_meta *)(uintptr_t)request->entries,
                                  .bytes = bytes};
    struct early_request evicted;
    enum early_result result =
        early_insert(&raft->early, &early, raft->options.inflight_requests_max,
                     raft->options.inflight_bytes_max, &evicted);
    raft->update->kept = result == EARLY_KEPT && request->token != 0;
    raft->no_memory = raft->no_memory || result == EARLY_NO_MEMORY;
    if (evicted.token != 0) {
        update_drop(raft, evicted.token);
    }
    early_request_fini(&evicted);
}

/* ------------------------------------------------------------------ events */

static void taken(struct raft *raft, uint64_t request_no, bool was_established) {
    take_early(raft);
    if (raft->role == RAFT_STOPPED) {
        return;
    }
    struct stream *stream = &raft->stream;
    if (request_no > stream->request_no) {
        stream->request_no = request_no;
    }
    commit_up_to(raft, stream->leader_commit);
    stream->ack_owed = true;
    bool durable = raft->durable_term == raft->term && raft->durable >= stream->verified;
    /* What must still reach the disk is acknowledged from there; but a leader that is looking for
     * the common entry need not wait for that. */
    if (durable || !was_established) {
        acknowledge(raft);
    }
    if (raft->early.count > 0) {
        reply_gap(raft, request_no, early_lowest(&raft->early));
    }
}

void follow_append(struct raft *raft, const struct raft_message *message, uint64_t token) {
    if (!follow(raft, message)) {
        reply_newer_term(raft, message); /* R14, L4: nothing else of it is looked at */
        return;
    }
    struct stream *stream = &raft->stream;
    if (message->append.commit > stream->leader_commit) {
        stream->leader_commit = message->append.commit;
    }
    struct request request = {.token = token,
                              .prev_index = message->append.prev_index,
                              .prev_term = message->append.prev_term,
                              .request_no = message->append.request_no,
                              .entries = message->append.entries,
                              .count = message->append.count};
    bool was_established = stream->established;
    switch (take(raft, &request)) {
    case TAKEN: taken(raft, request.request_no, was_established); break;
    case MISMATCH:
        if (!was_established) {
            reply_conflict(raft, &request);
            break;
        }
        keep_early(raft, &request);
        reply_gap(raft, request.request_no, request.prev_index); /* also if it was not kept */
        break;
    case REFUSED:
        if (raft->role != RAFT_STOPPED && raft->room == RAFT_ROOM_NONE) {
            acknowledge(raft); /* says that there is no room */
        }
        break;
    }
}

void follow_heartbeat(struct raft *raft, const struct raft_message *message) {
    if (!follow(raft, message)) {
        reply_newer_term(raft, message);
        return;
    }
    if (message->heartbeat.commit > raft->stream.leader_commit) {
        raft->stream.leader_commit = message->heartbeat.commit;
    }
    commit_up_to(raft, raft->stream.leader_commit);
    struct raft_message *answer = update_message(raft, RAFT_HEARTBEAT_REPLY, message->from);
    answer->heartbeat_reply.round = message->heartbeat.round;
    answer->heartbeat_reply.received = log_received_to_state(raft);
    answer->heartbeat_reply.durable = log_durable_to_state(raft, raft->stream.verified);
    answer->heartbeat_reply.room = raft->room;
    answer->heartbeat_reply.promise_ms = lease_promise(raft, message->heartbeat.promise_ms);
    read_heard_leader(raft);
}

void follow_persisted(struct raft *raft) {
    struct stream *stream = &raft->stream;
    if (raft->leader == RAFT_NOBODY || !stream->established || raft->durable_term != raft->term) {
        return;
    }
    bool grew = log_durable_to_state(raft, stream->verified) > stream->acked;
    if (grew || (stream->ack_owed && raft->durable >= stream->verified)) {
        acknowledge(raft);
    }
}
