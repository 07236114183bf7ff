/* How far the log is committed, and whether a quorum still hears this leader. */
#include "raft/core.h"

void commit_up_to(struct raft *raft, uint64_t index) {
    /* R15: only as far as *this leader's* log and ours are known to be the same. */
    if (index > raft->stream.verified) {
        index = raft->stream.verified;
    }
    if (index > raft->commit) {
        raft->commit = index;
    }
}

void commit_by_counting(struct raft *raft) {
    uint64_t durable[RAFT_MEMBERS_MAX] = {0};
    for (size_t i = 0; i < raft->config.count; i++) {
        /* The leader's own copy counts like any other: when it is durable, and can be read. */
        durable[i] = i == raft->self_slot ? log_sound(raft) : raft->peers[i].match;
    }
    uint64_t index = config_quorum_value(&raft->config, durable);
    /* Only entries of its own term commit by counting, the older ones with them (figure 8, R10). */
    if (index >= raft->noop_index && index > raft->commit) {
        raft->commit = index;
    }
}

bool commit_quorum_heard(const struct raft *raft) {
    uint64_t heard[RAFT_MEMBERS_MAX] = {0};
    for (size_t i = 0; i < raft->config.count; i++) {
        uint64_t since = raft->peers[i].heard_ns;
        since = since > raft->leader_since_ns ? since : raft->leader_since_ns;
        heard[i] = i == raft->self_slot ? raft->now_ns : since;
    }
    uint64_t quorum_ns = config_quorum_value(&raft->config, heard);
    return raft->now_ns - quorum_ns < ms(raft->options.election_min_ms);
}
