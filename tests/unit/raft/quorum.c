/* R27: what a quorum has, against the definition: the highest value that a majority of each voting
 * set reaches. */
#include "raft/config.h"

#include <criterion/criterion.h>
#include <string.h>

static bool majority_has(const struct raft_config *config, const uint64_t *values, uint64_t value,
                         bool old) {
    size_t voters = 0, have = 0;
    for (size_t i = 0; i < config->count; i++) {
        const struct raft_member *member = &config->members[i];
        bool votes = old ? member->voter_old : member->voter;
        voters += votes ? 1 : 0;
        have += votes && values[i] >= value ? 1 : 0;
    }
    return voters == 0 ? old : have * 2 > voters;
}

static uint64_t by_definition(const struct raft_config *config, const uint64_t *values,
                              uint64_t most) {
    uint64_t best = 0;
    for (uint64_t value = 1; value <= most; value++) {
        if (majority_has(config, values, value, false) &&
            majority_has(config, values, value, true)) {
            best = value;
        }
    }
    return best;
}

static struct raft_config members(size_t count) {
    struct raft_config config = {.count = count};
    for (size_t i = 0; i < count; i++) {
        config.members[i] = (struct raft_member){.id = i + 1, .voter = true};
    }
    return config;
}

/* Every combination of values 0 .. most in `count` places. */
static void try_all(const struct raft_config *config, uint64_t most) {
    uint64_t values[RAFT_MEMBERS_MAX] = {0};
    for (;;) {
        uint64_t expected = by_definition(config, values, most);
        cr_assert(config_quorum_value(config, values) == expected);
        uint32_t mask = 0;
        for (size_t i = 0; i < config->count; i++) {
            mask |= values[i] > 0 ? 1u << i : 0;
        }
        cr_assert(config_quorum(config, mask) == (expected > 0));
        size_t at = 0;
        while (at < config->count && ++values[at] > most) {
            values[at++] = 0;
        }
        if (at == config->count) {
            return;
        }
    }
}

Test(raft_quorum, equals_the_median_for_1_to_7_voters) {
    for (size_t count = 1; count <= 7; count++) {
        struct raft_config config = members(count);
        try_all(&config, count <= 5 ? count + 1 : 3);
    }
}

Test(raft_quorum, needs_both_sets_of_a_joint_configuration) {
    struct raft_config config = members(5);
    for (uint32_t sets = 0; sets < 1u << 10; sets++) {
        for (size_t i = 0; i < 5; i++) {
            config.members[i].voter = (sets >> i & 1) != 0;
            config.members[i].voter_old = (sets >> (5 + i) & 1) != 0;
        }
        try_all(&config, 2);
    }
}

Test(raft_quorum, does_not_exist_without_voters) {
    struct raft_config config = {.count = 0};
    uint64_t values[RAFT_MEMBERS_MAX] = {9, 9, 9};
    cr_expect(config_quorum_value(&config, values) == 0);
    cr_expect(!config_quorum(&config, ~0u));
    config = members(3);
    config.members[0].voter = config.members[1].voter = config.members[2].voter = false;
    cr_expect(config_quorum_value(&config, values) == 0);
    cr_expect(!config_quorum(&config, ~0u));
}

Test(raft_quorum, wants_ids_ascending_and_not_zero) {
    struct raft_config config = members(3);
    cr_expect(config_valid(&config));
    config.members[1].id = 1;
    cr_expect(!config_valid(&config));
    config = members(3);
    config.members[0].id = RAFT_NOBODY;
    cr_expect(!config_valid(&config));
}
