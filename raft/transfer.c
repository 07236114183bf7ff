/* Handing leadership over: to a live voter that has caught up or is about to, within one election
 * timeout; submissions wait outside meanwhile (LKV_EBUSY), so that it can catch up. */
#include "raft/core.h"

bool transfer_pending(const struct raft *raft) {
    return raft->transfer.target != RAFT_NOBODY;
}

static bool live_voter(const struct raft *raft, size_t slot) {
    const struct progress *peer = &raft->peers[slot];
    return slot != raft->self_slot && config_votes(&raft->config, slot) &&
           raft->config.members[slot].voter && peer->up && peer->heard_ns != 0 &&
           raft->now_ns - peer->heard_ns < ms(raft->options.election_min_ms);
}

/* What it lacks is on the way or soon will be (L10: never to one that is far behind). */
static bool close_behind(const struct raft *raft, const struct progress *peer) {
    return peer->state == RAFT_REPLICATE && peer->match + 1 >= raft->sizes.first &&
           sizes_between(&raft->sizes, peer->match + 1, raft->last) <=
               raft->options.inflight_bytes_max;
}

static bool healthy(const struct raft *raft, size_t slot) {
    return live_voter(raft, slot) &&
           progress_disk_ok(&raft->peers[slot], ms(raft->options.election_min_ms), raft->now_ns);
}

/* Rule 5: handing over helps only if the healthy voters, without this node, are a quorum. One that only lacks
 * room for puts can still vote for another leader, who may reach voters that this node does not. */
static bool another_can_lead(const struct raft *raft) {
    bool votes = raft->room == RAFT_ROOM_RESERVED && disk_can_vote(raft) &&
                 config_votes(&raft->config, raft->self_slot);
    uint32_t mask = votes ? 1u << raft->self_slot : 0;
    for (size_t i = 0; i < raft->config.count; i++) {
        mask |= healthy(raft, i) ? 1u << i : 0;
    }
    return config_quorum(&raft->config, mask);
}

static uint64_t best_voter(const struct raft *raft, bool healthy_only) {
    uint64_t best = RAFT_NOBODY, most = 0;
    for (size_t i = 0; i < raft->config.count; i++) {
        bool fit = healthy_only ? healthy(raft, i) : live_voter(raft, i);
        if (fit && close_behind(raft, &raft->peers[i]) &&
            (best == RAFT_NOBODY || raft->peers[i].match > most)) {
            best = raft->config.members[i].id;
            most = raft->peers[i].match;
        }
    }
    return best;
}

/* The live voter that has most, RAFT_NOBODY if there is none; `healthy_only` as rule 5 asks. */
uint64_t transfer_best(const struct raft *raft, bool healthy_only) {
    return healthy_only && !another_can_lead(raft) ? RAFT_NOBODY : best_voter(raft, healthy_only);
}

/* Rule 30: from now on somebody may be voted for whom no promise keeps from it, however late it asks. So the
 * lease does not come back when the transfer is given up, but with the next term. */
static void send_now(struct raft *raft, uint64_t target) {
    raft->lease_over = true;
    struct raft_message *message = update_message(raft, RAFT_TRANSFER_NOW, target);
    message->transfer_now.last_index = raft->last;
}

/* This node sees no quorum of healthy voters; one of them may, where this node does not reach. When it sees none
 * either nothing has changed: submissions are not held up meanwhile, and reads go on here. */
void transfer_try(struct raft *raft) {
    uint64_t target = best_voter(raft, true);
    size_t slot = config_find(&raft->config, target);
    if (slot == raft->config.count || raft->peers[slot].match != raft->last ||
        raft->now_ns < raft->transfer.try_ns) {
        return;
    }
    raft->transfer.try_ns = raft->now_ns + ms(raft->options.election_min_ms);
    send_now(raft, target);
}

int transfer_begin(struct raft *raft, uint64_t target) {
    if (raft->role != RAFT_LEADER) {
        return LKV_ENOTLEADER;
    }
    if (transfer_pending(raft)) {
        return LKV_EBUSY;
    }
    if (target == RAFT_NOBODY) {
        target = transfer_best(raft, false);
    }
    size_t slot = config_find(&raft->config, target);
    if (slot == raft->config.count || !live_voter(raft, slot) ||
        !close_behind(raft, &raft->peers[slot])) {
        return LKV_EBUSY;
    }
    raft->transfer = (struct transfer){
        .target = target, .deadline_ns = raft->now_ns + ms(raft->options.election_min_ms)};
    transfer_progress(raft);
    return 0;
}

/* Sent again on later progress and heartbeats: it may have been lost, and twice does no harm. */
void transfer_progress(struct raft *raft) {
    if (!transfer_pending(raft)) {
        return;
    }
    size_t slot = config_find(&raft->config, raft->transfer.target);
    if (slot < raft->config.count && raft->peers[slot].match == raft->last) {
        send_now(raft, raft->transfer.target);
    }
}

void transfer_tick(struct raft *raft) {
    if (transfer_pending(raft) && raft->now_ns >= raft->transfer.deadline_ns) {
        raft->transfer.target = RAFT_NOBODY; /* R26: aborted, writes resume */
    }
}

/* The target: asks at once, with the leader's token, if it is what the leader took it for. */
void transfer_now(struct raft *raft, const struct raft_message *message) {
    if (raft->role != RAFT_FOLLOWER || message->term != raft->term ||
        message->from != raft->leader || raft->last < message->transfer_now.last_index) {
        return;
    }
    if (!config_votes(&raft->config, raft->self_slot) || !raft->may_campaign ||
        !repair_may_lead(raft) || !log_holds_floor(raft) || !disk_can_vote(raft) ||
        raft->term >= TERM_MAX) {
        return;
    }
    election_sound(raft);
}
