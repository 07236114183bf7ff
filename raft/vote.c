/* A voter answers. The order of the checks is rule 3's: a live leader, then the term, then the log. */
#include "raft/core.h"

/* Rule 3: a voter that hears a live leader refuses, and does not adopt the term. */
bool vote_hears_leader(const struct raft *raft) {
    if (raft->role == RAFT_LEADER) {
        return true; /* check-quorum takes the role from one that is heard by nobody */
    }
    return raft->leader != RAFT_NOBODY &&
           raft->now_ns - raft->heard_ns < ms(raft->options.election_min_ms);
}

static bool token_right(const struct raft *raft, const struct raft_message *message) {
    return message->vote_request.by_transfer && raft->leader != RAFT_NOBODY &&
           message->vote_request.token_leader == raft->leader &&
           message->vote_request.token_term == raft->term;
}

static bool ends_before(const struct raft_message *request, uint64_t term, uint64_t index) {
    if (request->vote_request.last_term != term) {
        return request->vote_request.last_term < term;
    }
    return request->vote_request.last_index < index;
}

/* The own end is of log or image, whichever is later (L5); a voter that was grown in and has little yet
 * votes as if it held what the cluster grew from (rule 19). */
static bool log_behind(const struct raft *raft, const struct raft_message *request) {
    return ends_before(request, log_last_term(raft), raft->last) ||
           ends_before(request, raft->floor_term, raft->floor_index);
}

static void answer(struct raft *raft, const struct raft_message *request,
                   enum raft_vote_answer text) {
    struct raft_message *reply = update_message(raft, RAFT_VOTE_REPLY, request->from);
    reply->vote_reply.pre = request->vote_request.pre;
    reply->vote_reply.round = request->vote_request.round;
    reply->vote_reply.answer = text;
}

/* Would it get the vote in term + 1? Nothing changes here by answering. */
static enum raft_vote_answer judge_prevote(const struct raft *raft,
                                           const struct raft_message *request) {
    if (!disk_can_vote(raft) || raft->end_unknown) {
        return RAFT_VOTE_NOT_READY; /* rule 4: a yes now would not be followed by a vote */
    }
    if (request->term < raft->term) {
        return RAFT_VOTE_TERM_SMALL;
    }
    return log_behind(raft, request) ? RAFT_VOTE_LOG_BEHIND : RAFT_VOTE_ACCEPT;
}

static enum raft_vote_answer judge_vote(struct raft *raft, const struct raft_message *request) {
    if (raft->end_unknown) { /* rule 11: our log may be shorter than what we acknowledged */
        return RAFT_VOTE_NOT_READY;
    }
    if (request->term < raft->term) {
        return RAFT_VOTE_TERM_SMALL;
    }
    if (request->term > raft->term) {
        core_adopt_term(raft, request->term); /* before the log is compared (L9) */
    }
    bool open = raft->voted_for == RAFT_NOBODY || raft->voted_for == request->from;
    if (!open || raft->leader != RAFT_NOBODY) {
        return RAFT_VOTE_ALREADY_VOTED; /* a term that has a leader has no vote left to give */
    }
    return log_behind(raft, request) ? RAFT_VOTE_LOG_BEHIND : RAFT_VOTE_ACCEPT;
}

static bool vote_of_is_durable(const struct raft *raft, uint64_t candidate) {
    return raft->durable_term == raft->term && raft->durable_vote == candidate;
}

static void grant(struct raft *raft, const struct raft_message *request) {
    if (raft->role != RAFT_FOLLOWER) {
        core_become_follower(raft, RAFT_NOBODY); /* stops asking for itself */
    }
    if (vote_of_is_durable(raft, request->from)) {
        election_arm(raft);
        answer(raft, request, RAFT_VOTE_ACCEPT);
        return;
    }
    if (raft->voted_for != request->from) {
        raft->voted_for = request->from;
        log_save_vote(raft);
    }
    raft->retry_soon = false;
    raft->debt =
        (struct vote_debt){.candidate = request->from, .round = request->vote_request.round};
}

/* Rule 2: the reply leaves only now. */
void vote_durable(struct raft *raft) {
    uint64_t candidate = raft->debt.candidate;
    if (candidate == RAFT_NOBODY || !vote_of_is_durable(raft, candidate)) {
        return;
    }
    raft->debt.candidate = RAFT_NOBODY;
    struct raft_message *reply = update_message(raft, RAFT_VOTE_REPLY, candidate);
    reply->vote_reply.round = raft->debt.round;
    reply->vote_reply.answer = RAFT_VOTE_ACCEPT;
}

void vote_request(struct raft *raft, const struct raft_message *request) {
    bool token = token_right(raft, request);
    if (vote_hears_leader(raft) && !token) {
        answer(raft, request, RAFT_VOTE_HAS_LEADER);
        return;
    }
    if (lease_is_promised(raft) && !token) { /* rule 30: the leader's own word ends its lease */
        answer(raft, request, RAFT_VOTE_NOT_READY);
        return;
    }
    if (request->vote_request.pre) {
        answer(raft, request, judge_prevote(raft, request));
        return;
    }
    enum raft_vote_answer verdict = judge_vote(raft, request);
    if (verdict == RAFT_VOTE_ACCEPT) {
        grant(raft, request);
    } else {
        answer(raft, request, verdict);
    }
}
