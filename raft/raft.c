/* The step: which event goes where, who is told what, and when the next one is due. */
#include "raft/core.h"

#include <stdarg.h>
#include <stdio.h>

struct raft_options raft_options_default(void) {
    return (struct raft_options){.heartbeat_ms = 50,
                                 .election_min_ms = 300,
                                 .election_max_ms = 600,
                                 .disk_hang_ms = 2000,
                                 .inflight_bytes_max = 8u << 20,
                                 .inflight_requests_max = 512,
                                 .append_bytes_max = 1u << 20,
                                 .uncommitted_bytes_max = (uint64_t)64 << 20};
}

/* ------------------------------------------------------------------ changes of role */

void core_stop(struct raft *raft, int rc, const char *format, ...) {
    if (raft->role == RAFT_STOPPED) {
        return;
    }
    core_become_follower(raft, RAFT_NOBODY);
    raft->role = RAFT_STOPPED;
    raft->debt.candidate = RAFT_NOBODY;
    raft->stop_rc = rc;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(raft->stop_why.text, sizeof raft->stop_why.text, format, args);
    va_end(args);
    raft->update->stop_rc = rc;
    raft->update->stop_why = raft->stop_why;
}

void core_become_follower(struct raft *raft, uint64_t leader) {
    read_fail_all(raft); /* what waited for another leader, or for us as one, is not answered */
    if (raft->role == RAFT_LEADER) {
        leader_end(raft);
    }
    raft->role = RAFT_FOLLOWER;
    raft->phase = RAFT_PHASE_NONE;
    raft->ballot = (struct ballot){.round = raft->ballot.round};
    raft->leader = leader;
    follow_reset(raft);
    election_arm(raft);
}

/* Rule 2: the term goes to the disk in this step's write; nothing is acknowledged in it before. */
void core_adopt_term(struct raft *raft, uint64_t term) {
    ASSERT(term > raft->term);
    raft->term = term;
    raft->voted_for = RAFT_NOBODY;
    raft->debt.candidate = RAFT_NOBODY;
    raft->retry_soon = false;
    log_save_vote(raft);
    core_become_follower(raft, RAFT_NOBODY);
}

/* ------------------------------------------------------------------ messages */

static bool entries_sane(const struct raft_message *message) {
    uint64_t term = message->append.prev_term;
    uint32_t count = message->append.count;
    if (message->append.prev_index > INDEX_MAX || count > RAFT_APPEND_ENTRIES_MAX ||
        (count > 0 && message->append.entries == NULL) ||
        (message->append.prev_index == 0) != (term == 0) || term > message->term) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t next = message->append.entries[i].term;
        if (next < term || next == 0 || next > message->term) {
            return false; /* terms never fall along a log, and none is from the future */
        }
        term = next;
    }
    return true;
}

/* Of the entries of a repair reply the gap itself is the measure (repair.c). */
static bool donated_sane(const struct raft_message *message) {
    uint32_t count = message->repair_reply.count;
    return message->repair_reply.first <= INDEX_MAX && count <= RAFT_APPEND_ENTRIES_MAX &&
           (count == 0 || message->repair_reply.entries != NULL);
}

static bool message_sane(const struct raft *raft, const struct raft_message *message) {
    return message->to == raft->self && message->from != raft->self &&
           message->from != RAFT_NOBODY && message->term <= TERM_MAX &&
           (message->kind != RAFT_APPEND || entries_sane(message)) &&
           (message->kind != RAFT_REPAIR_REPLY || donated_sane(message));
}

/* With a disk that hangs, what would only queue up more writes is not listened to. */
static bool would_overfill(const struct raft *raft, const struct raft_message *message) {
    return raft->writes.count >= WRITES_MAX &&
           (message->kind == RAFT_APPEND || message->kind == RAFT_VOTE_REQUEST ||
            message->kind == RAFT_REPAIR_REPLY || message->term > raft->term);
}

/* Replies to a leader. L4: term and sender are checked before anything else. */
static void reply_to_leader(struct raft *raft, const struct raft_message *message) {
    size_t slot = config_find(&raft->config, message->from);
    if (raft->role != RAFT_LEADER || slot == raft->config.count) {
        return;
    }
    if (message->term > raft->term) {
        core_adopt_term(raft, message->term); /* rule 3, last part: learners' replies depose too */
        return;
    }
    if (message->term < raft->term) {
        return;
    }
    if (message->kind == RAFT_APPEND_REPLY) {
        leader_append_reply(raft, slot, message);
    } else {
        leader_heartbeat_reply(raft, slot, message);
    }
}

static void reply_to_asker(struct raft *raft, const struct raft_message *message) {
    size_t slot = config_find(&raft->config, message->from);
    if (slot < raft->config.count) {
        catchup_request(raft, slot, message);
    }
}

static void receive(struct raft *raft, const struct raft_message *message, uint64_t token) {
    ASSERT(token != 0);
    if (!message_sane(raft, message) || would_overfill(raft, message)) {
        return;
    }
    switch (message->kind) {
    case RAFT_VOTE_REQUEST: vote_request(raft, message); break;
    case RAFT_VOTE_REPLY: election_reply(raft, message); break;
    case RAFT_APPEND: follow_append(raft, message, token); break;
    case RAFT_HEARTBEAT: follow_heartbeat(raft, message); break;
    case RAFT_APPEND_REPLY:
    case RAFT_HEARTBEAT_REPLY: reply_to_leader(raft, message); break;
    case RAFT_READ_REQUEST: read_request(raft, message); break;
    case RAFT_READ_REPLY: read_reply(raft, message); break;
    case RAFT_TRANSFER_NOW: transfer_now(raft, message); break;
    case RAFT_REPAIR_REQUEST: donate_request(raft, message); break;
    case RAFT_REPAIR_REPLY: repair_reply(raft, message, token); break;
    case RAFT_CATCHUP_REQUEST: reply_to_asker(raft, message); break;
    case RAFT_CATCHUP_REPLY: catchup_reply(raft, message); break;
    }
}

/* ------------------------------------------------------------------ events */

static void persisted(struct raft *raft, uint64_t write_no) {
    bool vote_waited = !log_vote_is_durable(raft);
    log_persisted(raft, write_no);
    if (raft->role == RAFT_STOPPED) {
        return;
    }
    if (vote_waited && log_vote_is_durable(raft)) {
        vote_durable(raft);
        election_vote_durable(raft);
    }
    if (raft->role == RAFT_LEADER) {
        commit_by_counting(raft);
        transfer_progress(raft);
    } else {
        commit_up_to(raft, raft->stream.leader_commit);
        follow_persisted(raft);
        catchup_check(raft);
    }
}

/* The state machine's own durable state may be ahead of what a restart knows to be committed. */
static void applied(struct raft *raft, uint64_t index) {
    if (index > raft->applied) {
        raft->applied = index;
    }
    uint64_t proven = index < raft->last ? index : raft->last;
    if (proven > raft->commit) {
        raft->commit = proven;
    }
    if (raft->stream.verified < raft->commit) {
        raft->stream.verified = raft->commit;
    }
}

static void gate(struct raft *raft, bool may_campaign) {
    bool before = raft->may_campaign;
    raft->may_campaign = may_campaign;
    if (!may_campaign && raft->role == RAFT_CANDIDATE) {
        core_become_follower(raft, RAFT_NOBODY); /* rule 31 */
    } else if (may_campaign && !before && raft->role == RAFT_FOLLOWER &&
               raft->election_ns == UINT64_MAX) {
        election_arm(raft);
    }
}

static void space(struct raft *raft, enum raft_room room) {
    raft->room = room;
    if (raft->role == RAFT_LEADER) {
        disk_watch(raft);
    }
}

static void tick(struct raft *raft) {
    if (raft->role == RAFT_LEADER) {
        leader_tick(raft);
    } else {
        election_tick(raft);
    }
    repair_tick(raft);
}

static void transfer_event(struct raft *raft, uint64_t target) {
    raft->update->submit_rc = transfer_begin(raft, target);
}

static void fetched(struct raft *raft, const struct raft_event *event) {
    if (event->fetched.repair) {
        donate_fetched(raft, event);
    } else {
        leader_fetched(raft, event);
    }
}

static void reread(struct raft *raft, const struct raft_message *message, uint64_t token) {
    if (donated_sane(message) && raft->writes.count < WRITES_MAX) {
        repair_reread(raft, message, token);
    }
}

static void dispatch(struct raft *raft, const struct raft_event *event) {
    switch (event->kind) {
    case RAFT_TICK: tick(raft); break;
    case RAFT_RECEIVE: receive(raft, event->receive.message, event->receive.token); break;
    case RAFT_SUBMIT: leader_submit(raft, event); break;
    case RAFT_PERSISTED: persisted(raft, event->persisted.write_no); break;
    case RAFT_WRITE_FAILED: disk_failed(raft); break;
    case RAFT_SPACE: space(raft, event->space.room); break;
    case RAFT_APPLIED: applied(raft, event->applied.index); break;
    case RAFT_READ: read_ask(raft, event->read.context, event->read.leased); break;
    case RAFT_FETCHED: fetched(raft, event); break;
    case RAFT_PEER: leader_peer(raft, event); break;
    case RAFT_IMAGE_SENT: leader_image_sent(raft, event); break;
    case RAFT_IMAGE_INSTALLED: image_installed(raft, event); break;
    case RAFT_LOG_PREFIX: image_log_prefix(raft, event); break;
    case RAFT_TRANSFER: transfer_event(raft, event->transfer.target); break;
    case RAFT_GATE: gate(raft, event->gate.may_campaign); break;
    case RAFT_DAMAGED: repair_damaged(raft, event); break;
    case RAFT_REREAD: reread(raft, event->reread.message, event->reread.token); break;
    case RAFT_END_SETTLED: catchup_settled(raft); break;
    case RAFT_END_DOUBTED: catchup_doubted(raft); break;
    }
}

/* A stopped node still says what of its log is durable, so that what was committed is applied. */
static void dispatch_stopped(struct raft *raft, const struct raft_event *event) {
    raft->update->submit_rc = LKV_ENOTLEADER;
    if (event->kind == RAFT_PERSISTED) {
        persisted(raft, event->persisted.write_no);
    } else if (event->kind == RAFT_APPLIED) {
        applied(raft, event->applied.index);
    } else if (event->kind == RAFT_LOG_PREFIX) {
        image_log_prefix(raft, event);
    } else if (event->kind == RAFT_READ) {
        update_read(raft,
                    (struct raft_read_result){.context = event->read.context, .rc = LKV_ENOLEADER});
    }
}

/* ------------------------------------------------------------------ the step */

static uint64_t deadline_of_role(const struct raft *raft) {
    switch (raft->role) {
    case RAFT_LEADER:
        return transfer_pending(raft) && raft->transfer.deadline_ns < raft->beat_ns
                   ? raft->transfer.deadline_ns
                   : raft->beat_ns;
    case RAFT_FOLLOWER:
    case RAFT_CANDIDATE: return raft->election_ns;
    case RAFT_STOPPED: return UINT64_MAX;
    }
    return UINT64_MAX;
}

static uint64_t deadline(const struct raft *raft) {
    uint64_t at = deadline_of_role(raft);
    return raft->role != RAFT_STOPPED && raft->repair.due_ns < at ? raft->repair.due_ns : at;
}

/* Rule 12: what a crash here could still take back is not applied; nor what lies behind an entry that
 * cannot be read (rule 11). A gap among what was applied already holds up nothing. */
static uint64_t may_apply(const struct raft *raft) {
    uint64_t index = raft->commit < raft->durable ? raft->commit : raft->durable;
    uint64_t known = raft->reported > raft->image_index ? raft->reported : raft->image_index;
    const struct gap *gap = damage_from(&raft->gaps, known + 1);
    if (gap != NULL && gap->first <= index) {
        index = gap->first - 1 > known ? gap->first - 1 : known;
    }
    return index > raft->reported ? index : raft->reported;
}

static void report(struct raft *raft) {
    struct raft_update *update = raft->update;
    update->commit = raft->reported = may_apply(raft);
    update->role = raft->role;
    update->term = raft->term;
    update->leader = raft->leader;
    update->role_changed = raft->told_role != raft->role || raft->told_term != raft->term ||
                           raft->told_leader != raft->leader;
    raft->told_role = raft->role;
    raft->told_term = raft->term;
    raft->told_leader = raft->leader;
    update->deadline_ns = deadline(raft);
    update->lease_until_ns = lease_until(raft);
    update->lease_index = raft->commit;
}

int raft_step(struct raft *raft, const struct raft_event *event, struct raft_update *update) {
    update_begin(update);
    if (raft->no_memory) {
        return LKV_ENOMEM;
    }
    raft->update = update;
    if (event->now_ns > raft->now_ns) {
        raft->now_ns = event->now_ns;
    }
    if (raft->role == RAFT_STOPPED) {
        dispatch_stopped(raft, event);
    } else {
        dispatch(raft, event);
    }
    log_write_end(raft);
    report(raft);
    raft->update = NULL;
    return raft->no_memory ? LKV_ENOMEM : 0;
}

/* ------------------------------------------------------------------ looking in */

void raft_status(const struct raft *raft, struct raft_status *out) {
    *out = (struct raft_status){.role = raft->role,
                                .phase = raft->phase,
                                .term = raft->term,
                                .voted_for = raft->voted_for,
                                .leader = raft->leader,
                                .first = raft->first,
                                .last = raft->last,
                                .last_term = log_last_term(raft),
                                .durable = raft->durable,
                                .commit = raft->commit,
                                .applied = raft->applied,
                                .noop_index = raft->noop_index,
                                .lease_until_ns = lease_until(raft),
                                .promised_until_ns = raft->promise.until_ns,
                                .campaigns = raft->campaigns,
                                .prevotes = raft->prevotes,
                                .end_unknown = raft->end_unknown};
    const struct gap *gap = log_blocked(raft);
    if (gap == NULL) {
        return;
    }
    out->first_gap =
        (struct raft_gap){.first = gap->first, .last = gap->last, .last_term = gap->last_term};
    for (; gap < raft->gaps.items + raft->gaps.count; gap++) {
        out->gap_count++;
        out->damaged_entries += gap->last + 1 - gap->first;
    }
}

size_t raft_peers(const struct raft *raft, struct raft_peer_status *out, size_t capacity) {
    size_t count = 0;
    for (size_t i = 0; i < raft->config.count && count < capacity; i++) {
        const struct progress *peer = &raft->peers[i];
        if (i == raft->self_slot) {
            continue;
        }
        out[count++] = (struct raft_peer_status){.id = raft->config.members[i].id,
                                                 .voter = config_votes(&raft->config, i),
                                                 .up = peer->up,
                                                 .room = peer->room,
                                                 .state = peer->state,
                                                 .match = peer->match,
                                                 .next = peer->next,
                                                 .inflight_bytes = (uint32_t)peer->inflight_bytes,
                                                 .inflight_requests = (uint32_t)peer->request_count,
                                                 .heard_ns = peer->heard_ns};
    }
    return count;
}
