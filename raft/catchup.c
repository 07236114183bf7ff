/* An end that is not known (rule 11): this node may have acknowledged more than it has. It neither votes
 * nor acknowledges until it has all that can have been counted on it:
 *
 *   question -> the leader begins a heartbeat round; a quorum *without the asker*, and without others
 *               that do not know their end, confirms it
 *            <- the leader's last index when the question came
 *   durable up to there, without gaps: the end is known again, and that is made durable
 *
 * Whatever was committed with this node's help is in the log of a leader that a quorum of others
 * still follows; and that leader counts nothing any more that this node said before its restart. */
#include "raft/core.h"

enum { ASK_BEATS = 6 };

/* ------------------------------------------------------------------ the asker */

void catchup_ask(struct raft *raft) {
    struct catchup *catchup = &raft->catchup;
    bool waits = catchup->asked_ns != 0 &&
                 raft->now_ns - catchup->asked_ns < ASK_BEATS * ms(raft->options.heartbeat_ms);
    if (raft->role != RAFT_FOLLOWER || raft->leader == RAFT_NOBODY || catchup->target != 0 ||
        catchup->settling || waits) {
        return;
    }
    catchup->context++;
    catchup->asked_ns = raft->now_ns;
    struct raft_message *request = update_message(raft, RAFT_CATCHUP_REQUEST, raft->leader);
    request->catchup_request.context = catchup->context;
    request->catchup_request.boot_nonce = raft->boot_nonce;
}

/* Another leader, or none: what the last one said does not hold for the next one's log. */
void catchup_lost_leader(struct raft *raft) {
    raft->catchup.asked_ns = raft->catchup.target = 0;
}

void catchup_check(struct raft *raft) {
    struct catchup *catchup = &raft->catchup;
    uint64_t target = catchup->target;
    if (!raft->end_unknown || target == 0 || catchup->settling || raft->role != RAFT_FOLLOWER ||
        raft->stream.verified < target || log_sound(raft) < target || log_blocked(raft) != NULL) {
        return;
    }
    catchup->settling = true;
    raft->update->settle_end = true;
}

void catchup_reply(struct raft *raft, const struct raft_message *message) {
    struct catchup *catchup = &raft->catchup;
    if (!raft->end_unknown || raft->role != RAFT_FOLLOWER || message->from != raft->leader ||
        message->term != raft->term || message->catchup_reply.boot_nonce != raft->boot_nonce ||
        message->catchup_reply.context != catchup->context || catchup->asked_ns == 0) {
        return;
    }
    catchup->target = message->catchup_reply.index;
    catchup_check(raft);
}

void catchup_settled(struct raft *raft) {
    struct catchup *catchup = &raft->catchup;
    bool counts = catchup->settling && !catchup->doubted;
    catchup->settling = catchup->doubted = false;
    if (raft->end_unknown && counts) {
        raft->end_unknown = false;
        repair_changed(raft);
    }
}

/* Rule 17: a hello that ends below what this incarnation acknowledged. */
void catchup_doubted(struct raft *raft) {
    struct catchup *catchup = &raft->catchup;
    raft->end_unknown = true;
    catchup->doubted = catchup->settling;
    catchup->asked_ns = catchup->target = 0;
    raft->debt.candidate = RAFT_NOBODY;
    if (raft->role != RAFT_FOLLOWER) {
        core_become_follower(raft, RAFT_NOBODY);
    }
    repair_changed(raft);
}

/* ------------------------------------------------------------------ the leader */

void catchup_request(struct raft *raft, size_t slot, const struct raft_message *message) {
    if (raft->role != RAFT_LEADER || message->term > raft->term) {
        return; /* it will hear of another leader, or we of its term */
    }
    struct progress *peer = &raft->peers[slot];
    peer->absent = true;
    peer->catchup = (struct catchup_owed){.context = message->catchup_request.context,
                                          .boot_nonce = message->catchup_request.boot_nonce,
                                          .index = raft->last,
                                          .round = raft->round + 1};
    leader_beat(raft); /* begun after the question came */
    catchup_confirm(raft);
}

static bool confirmed_without(const struct raft *raft, size_t asker, uint64_t round) {
    uint32_t mask = 0;
    for (size_t i = 0; i < raft->config.count; i++) {
        const struct progress *peer = &raft->peers[i];
        bool counts = i == raft->self_slot || (peer->echo >= round && !peer->absent);
        mask |= i != asker && counts ? 1u << i : 0;
    }
    return config_quorum(&raft->config, mask);
}

void catchup_confirm(struct raft *raft) {
    for (size_t i = 0; i < raft->config.count; i++) {
        struct catchup_owed *owed = &raft->peers[i].catchup;
        if (owed->round == 0 || !confirmed_without(raft, i, owed->round)) {
            continue;
        }
        struct raft_message *reply =
            update_message(raft, RAFT_CATCHUP_REPLY, raft->config.members[i].id);
        reply->catchup_reply.context = owed->context;
        reply->catchup_reply.boot_nonce = owed->boot_nonce;
        reply->catchup_reply.index = owed->index;
        owed->round = 0;
    }
}
