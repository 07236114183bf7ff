#include "raft/config.h"

bool config_valid(const struct raft_config *config) {
    if (config->count > RAFT_MEMBERS_MAX) {
        return false;
    }
    uint64_t before = RAFT_NOBODY;
    for (size_t i = 0; i < config->count; i++) {
        if (config->members[i].id <= before) {
            return false;
        }
        before = config->members[i].id;
    }
    return true;
}

size_t config_find(const struct raft_config *config, uint64_t id) {
    for (size_t i = 0; i < config->count; i++) {
        if (config->members[i].id == id) {
            return i;
        }
    }
    return config->count;
}

/* A demoted voter goes on voting until the joint configuration ends (rule 21). */
bool config_votes(const struct raft_config *config, size_t slot) {
    return slot < config->count && (config->members[slot].voter || config->members[slot].voter_old);
}

static bool in_set(const struct raft_member *member, bool old) {
    return old ? member->voter_old : member->voter;
}

static size_t set_size(const struct raft_config *config, bool old) {
    size_t size = 0;
    for (size_t i = 0; i < config->count; i++) {
        size += in_set(&config->members[i], old) ? 1 : 0;
    }
    return size;
}

static bool majority(const struct raft_config *config, uint32_t mask, bool old) {
    size_t have = 0;
    for (size_t i = 0; i < config->count; i++) {
        have += in_set(&config->members[i], old) && (mask >> i & 1u) != 0 ? 1 : 0;
    }
    return have > set_size(config, old) / 2;
}

bool config_quorum(const struct raft_config *config, uint32_t mask) {
    bool joint = set_size(config, true) > 0;
    return majority(config, mask, false) && (!joint || majority(config, mask, true));
}

bool config_majority_of_any(const struct raft_config *config, uint32_t mask) {
    bool joint = set_size(config, true) > 0;
    return majority(config, mask, false) || (joint && majority(config, mask, true));
}

/* The smallest value of the majority with the highest values. */
static uint64_t majority_value(const struct raft_config *config,
                               const uint64_t values[RAFT_MEMBERS_MAX], bool old) {
    uint64_t sorted[RAFT_MEMBERS_MAX]; /* descending */
    size_t count = 0;
    for (size_t i = 0; i < config->count; i++) {
        if (!in_set(&config->members[i], old)) {
            continue;
        }
        size_t at = count++;
        for (; at > 0 && sorted[at - 1] < values[i]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = values[i];
    }
    return count > 0 ? sorted[count / 2] : 0;
}

uint64_t config_quorum_value(const struct raft_config *config,
                             const uint64_t values[RAFT_MEMBERS_MAX]) {
    uint64_t incoming = majority_value(config, values, false);
    if (set_size(config, true) == 0) {
        return incoming;
    }
    uint64_t outgoing = majority_value(config, values, true);
    return incoming < outgoing ? incoming : outgoing;
}
