/* This node's own disk: slow, hanging, full or dead (rule 5). */
#include "raft/core.h"

/* The oldest write that was asked for is not durable since the limit. */
bool disk_stuck(const struct raft *raft, uint32_t limit_ms) {
    const struct pending_write *oldest = writes_oldest(&raft->writes);
    return oldest != NULL && raft->now_ns - oldest->issued_ns >= ms(limit_ms);
}

/* Rule 4: whoever could not make a real vote durable in time neither asks nor says yes. */
bool disk_can_vote(const struct raft *raft) {
    return raft->room != RAFT_ROOM_NONE && log_vote_is_durable(raft) &&
           !disk_stuck(raft, raft->options.election_min_ms);
}

bool disk_quorum_has_room(const struct raft *raft, enum raft_room needed) {
    uint32_t mask = 0;
    for (size_t i = 0; i < raft->config.count; i++) {
        enum raft_room room = i == raft->self_slot ? raft->room : raft->peers[i].room;
        mask |= room >= needed ? 1u << i : 0;
    }
    return config_quorum(&raft->config, mask);
}

/* Rule 11: it cannot apply that, so it serves nobody. */
static bool is_blocked(const struct raft *raft) {
    const struct gap *gap = log_blocked(raft);
    return gap != NULL && gap->last > raft->applied;
}

/* Leading without being able to write helps nobody, unless nobody else could do better. A leader behind a gap
 * that nobody fills cannot know that: its followers may lack what it cannot read, and whoever has it may be
 * out of its reach, but not out of theirs. */
void disk_watch(struct raft *raft) {
    bool blocked = is_blocked(raft);
    bool sick =
        blocked || raft->room != RAFT_ROOM_FREE || disk_stuck(raft, raft->options.disk_hang_ms);
    if (!blocked) {
        raft->blocked_ns = 0;
    } else if (raft->blocked_ns == 0) {
        raft->blocked_ns = raft->now_ns;
    } else if (raft->now_ns - raft->blocked_ns >= ms(raft->options.disk_hang_ms)) {
        core_become_follower(raft, RAFT_NOBODY);
        return;
    }
    if (!sick || transfer_pending(raft)) {
        return;
    }
    uint64_t target = transfer_best(raft, true);
    if (target != RAFT_NOBODY) {
        (void)transfer_begin(raft,
                             target); /* when it cannot be now, the next heartbeat asks again */
    } else {
        transfer_try(raft);
    }
}

/* Nothing is retried on a log whose write failed (rule 10), and no heartbeat keeps others from
 * electing; the best voter is told to campaign at once. */
void disk_failed(struct raft *raft) {
    if (raft->role == RAFT_LEADER) {
        uint64_t target = transfer_best(raft, true);
        if (target != RAFT_NOBODY) {
            struct raft_message *message = update_message(raft, RAFT_TRANSFER_NOW, target);
            message->transfer_now.last_index = raft->commit;
        }
    }
    core_stop(raft, LKV_EIO, "a write to the log or the vote record failed");
}
