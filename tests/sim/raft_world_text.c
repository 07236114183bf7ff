/* A message in one line, for traces that people read. */
#include "tests/sim/raft_world_parts.h"

#include <stdio.h>

typedef unsigned long long ull;

static const char *answer_name(enum raft_vote_answer answer) {
    static const char *const names[] = {[RAFT_VOTE_ACCEPT] = "yes",
                                        [RAFT_VOTE_TERM_SMALL] = "no, term is small",
                                        [RAFT_VOTE_ALREADY_VOTED] = "no, already voted",
                                        [RAFT_VOTE_LOG_BEHIND] = "no, log is behind",
                                        [RAFT_VOTE_HAS_LEADER] = "no, hears a leader",
                                        [RAFT_VOTE_NOT_READY] = "no, not ready",
                                        [RAFT_VOTE_NOT_MEMBER] = "no, not a member"};
    return names[answer];
}

static void append_text(const struct raft_message *m, char *text, size_t size) {
    (void)snprintf(text, size, "append %u behind %llu/%llu, commit %llu", m->append.count,
                   (ull)m->append.prev_index, (ull)m->append.prev_term, (ull)m->append.commit);
}

static void append_reply_text(const struct raft_message *m, char *text, size_t size) {
    switch (m->append_reply.result) {
    case RAFT_APPEND_OK:
        (void)snprintf(text, size, "ok, durable %llu, received %llu%s",
                       (ull)m->append_reply.durable, (ull)m->append_reply.received,
                       m->append_reply.room == RAFT_ROOM_FREE ? "" : ", no space");
        break;
    case RAFT_APPEND_CONFLICT:
        (void)snprintf(text, size, "conflict, term %llu from %llu",
                       (ull)m->append_reply.conflict_term, (ull)m->append_reply.conflict_first);
        break;
    case RAFT_APPEND_GAP:
        (void)snprintf(text, size, "gap, wants %llu..%llu", (ull)m->append_reply.want_first,
                       (ull)m->append_reply.want_last);
        break;
    }
}

static void vote_text(const struct raft_message *m, char *text, size_t size) {
    if (m->kind == RAFT_VOTE_REQUEST) {
        (void)snprintf(text, size, "asks for a %s, log ends %llu/%llu%s",
                       m->vote_request.pre ? "pre-vote" : "vote", (ull)m->vote_request.last_index,
                       (ull)m->vote_request.last_term,
                       m->vote_request.by_transfer ? ", with a token" : "");
    } else {
        (void)snprintf(text, size, "%s: %s", m->vote_reply.pre ? "pre-vote" : "vote",
                       answer_name(m->vote_reply.answer));
    }
}

static void repair_text(const struct raft_message *m, char *text, size_t size) {
    static const char *const wants[] = {[RAFT_REPAIR_STATUS] = "asks about",
                                        [RAFT_REPAIR_ENTRIES] = "asks for",
                                        [RAFT_REPAIR_IMAGE] = "asks for an image over"};
    static const char *const answers[] = {
        [RAFT_REPAIR_READABLE] = "readable",       [RAFT_REPAIR_UNREADABLE] = "unreadable",
        [RAFT_REPAIR_ABSENT] = "absent",           [RAFT_REPAIR_UNSURE] = "unsure",
        [RAFT_REPAIR_END_UNKNOWN] = "end unknown", [RAFT_REPAIR_COMPACTED] = "compacted"};
    if (m->kind == RAFT_REPAIR_REQUEST) {
        (void)snprintf(text, size, "%s %llu..%llu/%llu", wants[m->repair_request.want],
                       (ull)m->repair_request.first, (ull)m->repair_request.last,
                       (ull)m->repair_request.last_term);
    } else {
        (void)snprintf(text, size, "%s at %llu/%llu, %u entries from %llu",
                       answers[m->repair_reply.answer], (ull)m->repair_reply.shared_index,
                       (ull)m->repair_reply.shared_term, m->repair_reply.count,
                       (ull)m->repair_reply.first);
    }
}

void w_message_text(const struct raft_message *m, char *text, size_t size) {
    switch (m->kind) {
    case RAFT_VOTE_REQUEST:
    case RAFT_VOTE_REPLY: vote_text(m, text, size); break;
    case RAFT_APPEND: append_text(m, text, size); break;
    case RAFT_APPEND_REPLY: append_reply_text(m, text, size); break;
    case RAFT_HEARTBEAT:
        (void)snprintf(text, size, "heartbeat %llu, commit %llu", (ull)m->heartbeat.round,
                       (ull)m->heartbeat.commit);
        break;
    case RAFT_HEARTBEAT_REPLY:
        (void)snprintf(text, size, "heartbeat %llu back, durable %llu, received %llu",
                       (ull)m->heartbeat_reply.round, (ull)m->heartbeat_reply.durable,
                       (ull)m->heartbeat_reply.received);
        break;
    case RAFT_READ_REQUEST:
        (void)snprintf(text, size, "asks for a read index%s",
                       m->read_request.leased ? ", a lease will do" : "");
        break;
    case RAFT_READ_REPLY:
        (void)snprintf(text, size, "read index %llu, %s", (ull)m->read_reply.index,
                       error_name(m->read_reply.rc));
        break;
    case RAFT_TRANSFER_NOW:
        (void)snprintf(text, size, "campaign now, if you have %llu",
                       (ull)m->transfer_now.last_index);
        break;
    case RAFT_REPAIR_REQUEST:
    case RAFT_REPAIR_REPLY: repair_text(m, text, size); break;
    case RAFT_CATCHUP_REQUEST: (void)snprintf(text, size, "asks how far to catch up"); break;
    case RAFT_CATCHUP_REPLY:
        (void)snprintf(text, size, "catch up to %llu", (ull)m->catchup_reply.index);
        break;
    }
}
