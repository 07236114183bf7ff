/* A node asks to lead.
 *
 *   timer                quorum would vote          record durable            quorum voted
 *   -----> WAIT_TO_REVOTE ---------------> WAIT_TO_VOTE_NEXT ---> (requests) ------------> PASSED
 *            |       ^                         |
 *            |       '---- refused, timed out -'   <-- a new pre-vote; each campaign a new term
 *            '--> REVOTE_IMMEDIATELY: the refusals said only "not ready"
 *
 * Asking (the pre-vote) binds nobody and changes no term anywhere, so a node that is cut off or
 * behind can ask for ever without disturbing anyone. The term rises only in WAIT_TO_VOTE_NEXT, and a
 * campaign never happens twice in one term (rule 1). */
#include "raft/core.h"

/* ------------------------------------------------------------------ timers */

static uint64_t random_ms(struct raft *raft, uint32_t least, uint32_t most) {
    uint64_t range = ms(most) - ms(least);
    return ms(least) + prng_below(&raft->prng, range + 1);
}

void election_arm(struct raft *raft) {
    raft->election_ns = raft->now_ns + random_ms(raft, raft->options.election_min_ms,
                                                 raft->options.election_max_ms);
}

/* Split votes and lost rounds: again at random within half an election timeout (rule 4), but not
 * before an answer could be here. */
void election_arm_retry(struct raft *raft) {
    uint32_t least = raft->options.heartbeat_ms;
    raft->election_ns =
        raft->now_ns + random_ms(raft, least, least + raft->options.election_min_ms / 2);
}

/* ------------------------------------------------------------------ a round */

static void ballot_begin(struct raft *raft) {
    raft->ballot = (struct ballot){.round = raft->ballot.round + 1,
                                   .all_not_ready = true,
                                   .immediate = raft->ballot.immediate};
    if (raft->self_slot < raft->config.count) {
        raft->ballot.granted = 1u << raft->self_slot;
    }
}

static void send_requests(struct raft *raft, bool pre) {
    for (size_t i = 0; i < raft->config.count; i++) {
        if (i == raft->self_slot || !config_votes(&raft->config, i)) {
            continue;
        }
        struct raft_message *request =
            update_message(raft, RAFT_VOTE_REQUEST, raft->config.members[i].id);
        request->vote_request.pre = pre;
        request->vote_request.last_index = raft->last;
        request->vote_request.last_term = log_last_term(raft);
        request->vote_request.round = raft->ballot.round;
        if (raft->token_leader != RAFT_NOBODY) {
            request->vote_request.by_transfer = true;
            request->vote_request.token_leader = raft->token_leader;
            request->vote_request.token_term = raft->token_term;
        }
    }
}

static void forget_leader(struct raft *raft) {
    if (raft->role != RAFT_CANDIDATE || raft->leader != RAFT_NOBODY) {
        core_become_follower(raft, RAFT_NOBODY);
    }
}

static void prevote(struct raft *raft, enum raft_vote_phase phase) {
    forget_leader(raft);
    raft->role = RAFT_CANDIDATE;
    raft->phase = phase;
    raft->token_leader = RAFT_NOBODY;
    raft->prevotes++;
    ballot_begin(raft);
    if (config_quorum(&raft->config, raft->ballot.granted)) {
        election_campaign(raft, RAFT_NOBODY); /* the only voter */
        return;
    }
    send_requests(raft, true);
    election_arm_retry(raft);
}

void election_campaign(struct raft *raft, uint64_t token_leader) {
    ASSERT(token_leader != RAFT_NOBODY || !lease_is_promised(raft)); /* rule 30 */
    forget_leader(raft);
    raft->role = RAFT_CANDIDATE;
    raft->phase = RAFT_WAIT_TO_VOTE_NEXT;
    raft->token_leader = token_leader;
    raft->token_term = raft->term;
    raft->term++; /* rule 1: never a second campaign in a term, even after a restart */
    raft->voted_for = raft->self;
    raft->debt.candidate = RAFT_NOBODY;
    log_save_vote(raft);
    raft->campaigns++;
    raft->campaign_ns = raft->now_ns;
    raft->ballot.immediate = 0;
    raft->election_ns =
        UINT64_MAX; /* rule 4: the round's clock starts when the record is durable */
}

/* A follower whose leader wants it to take over asks whether it would be elected. It goes on following, and only a
 * quorum's yes makes it a candidate. */
void election_sound(struct raft *raft) {
    if (!raft->ballot.sounding) { /* else asked again: requests or replies may have been lost */
        raft->token_leader = raft->leader;
        raft->token_term = raft->term;
        ballot_begin(raft);
        raft->ballot.sounding = true;
    }
    send_requests(raft, true);
}

/* ------------------------------------------------------------------ events */

static bool may_ask(const struct raft *raft) {
    return config_votes(&raft->config, raft->self_slot) && raft->may_campaign &&
           repair_may_lead(raft) && log_holds_floor(raft) && raft->term < TERM_MAX &&
           disk_can_vote(raft);
}

void election_tick(struct raft *raft) {
    if (raft->now_ns < raft->election_ns) {
        return;
    }
    if (lease_is_promised(raft)) { /* rule 30: for itself neither */
        raft->election_ns = raft->promise.until_ns;
        return;
    }
    if (may_ask(raft)) {
        raft->ballot.immediate =
            raft->phase == RAFT_REVOTE_IMMEDIATELY ? raft->ballot.immediate : 0;
        prevote(raft, RAFT_WAIT_TO_REVOTE);
        return;
    }
    if (raft->role != RAFT_FOLLOWER || raft->leader != RAFT_NOBODY) {
        core_become_follower(raft, RAFT_NOBODY);
    }
    election_arm(raft);
    if (!config_votes(&raft->config, raft->self_slot) || !raft->may_campaign) {
        raft->election_ns = UINT64_MAX; /* nothing to wait for: an event will start it again */
    }
}

/* The vote record has reached the disk: only now do clocks start (rule 4). */
void election_vote_durable(struct raft *raft) {
    if (raft->role == RAFT_LEADER) {
        return;
    }
    bool campaigns = raft->phase == RAFT_WAIT_TO_VOTE_NEXT && raft->durable_term == raft->term &&
                     raft->durable_vote == raft->self;
    if (!campaigns) {
        if (raft->retry_soon) {
            election_arm_retry(raft);
        } else {
            election_arm(raft);
        }
        raft->retry_soon = false;
        return;
    }
    ballot_begin(raft);
    if (config_quorum(&raft->config, raft->ballot.granted)) {
        leader_begin(raft);
        return;
    }
    send_requests(raft, false);
    election_arm(raft);
    raft->election_ns += raft->now_ns - raft->campaign_ns; /* theirs may take as long as ours did */
}

static void ballot_lost(struct raft *raft) {
    bool pre = raft->phase != RAFT_WAIT_TO_VOTE_NEXT;
    if (pre && raft->ballot.all_not_ready) {
        if (raft->ballot.immediate == 0 && may_ask(raft)) {
            raft->ballot.immediate = 1;
            prevote(raft, RAFT_REVOTE_IMMEDIATELY);
            return;
        }
        /* A voter whose disk hangs is not ready for long: go on at a heartbeat's pace. */
        raft->phase = RAFT_REVOTE_IMMEDIATELY;
        raft->election_ns = raft->now_ns + ms(raft->options.heartbeat_ms);
    } else if (raft->ballot.has_leader) {
        election_arm(raft);
    } else {
        election_arm_retry(raft);
    }
}

/* Those that did not refuse are no quorum any more. */
static bool cannot_win(const struct raft *raft) {
    return !config_quorum(&raft->config, ~raft->ballot.refused);
}

static void granted(struct raft *raft, size_t slot) {
    raft->ballot.granted |= 1u << slot; /* a set, so that a doubled reply counts once (R4) */
    if (!config_quorum(&raft->config, raft->ballot.granted)) {
        return;
    }
    if (raft->phase == RAFT_WAIT_TO_VOTE_NEXT) {
        leader_begin(raft);
    } else {
        election_campaign(raft, raft->ballot.sounding ? raft->leader : RAFT_NOBODY);
    }
}

static void refused(struct raft *raft, size_t slot, enum raft_vote_answer answer) {
    uint32_t bit = 1u << slot;
    if ((raft->ballot.refused & bit) != 0) {
        return;
    }
    bool lost_before = cannot_win(raft);
    raft->ballot.refused |= bit;
    raft->ballot.all_not_ready = raft->ballot.all_not_ready && answer == RAFT_VOTE_NOT_READY;
    raft->ballot.has_leader = raft->ballot.has_leader || answer == RAFT_VOTE_HAS_LEADER;
    if (!lost_before && cannot_win(raft)) {
        ballot_lost(raft);
    }
}

void election_reply(struct raft *raft, const struct raft_message *message) {
    size_t slot = config_find(&raft->config, message->from);
    bool asks = raft->role == RAFT_CANDIDATE || raft->ballot.sounding;
    if (!asks || !config_votes(&raft->config, slot)) {
        return;
    }
    bool accepted = message->vote_reply.answer == RAFT_VOTE_ACCEPT;
    if (!accepted && message->term > raft->term) {
        core_adopt_term(raft, message->term); /* rule 3: from any refusal */
        raft->retry_soon = true;
        return;
    }
    bool pre = raft->phase != RAFT_WAIT_TO_VOTE_NEXT;
    if (message->vote_reply.pre != pre || message->vote_reply.round != raft->ballot.round) {
        return; /* an earlier round's (R4) */
    }
    if (raft->ballot.sounding && (!accepted || !may_ask(raft))) {
        return; /* the leader has us ask again, if it likes */
    }
    if (!accepted) {
        refused(raft, slot, message->vote_reply.answer);
    } else if (pre ? message->term <= raft->term : message->term == raft->term) {
        granted(raft, slot);
    }
}
