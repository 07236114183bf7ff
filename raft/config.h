/* Questions to a configuration: who votes, and what a quorum of every voting set has.
 * While a configuration is joint there are two sets, and both must agree (rule 21). */
#ifndef RAFT_CONFIG_H
#define RAFT_CONFIG_H

#include "raft/raft.h"

/* Ids are non-zero and ascending, and not too many. */
bool config_valid(const struct raft_config *config);

/* Position of a member; config->count when it is not one. */
size_t config_find(const struct raft_config *config, uint64_t id);

bool config_votes(const struct raft_config *config, size_t slot);

/* Whether the members in `mask` (bits are positions) are a majority of each voting set. False
 * without any voter. */
bool config_quorum(const struct raft_config *config, uint32_t mask);

/* Whether the members in `mask` are a majority of at least one voting set: enough, perhaps, for
 * something to have been committed by them. */
bool config_majority_of_any(const struct raft_config *config, uint32_t mask);

/* The highest value that a quorum has reached: of each set's values the majority's smallest, and of
 * the two sets the smaller. 0 without any voter. */
uint64_t config_quorum_value(const struct raft_config *config,
                             const uint64_t values[RAFT_MEMBERS_MAX]);

#endif
