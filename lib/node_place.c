/* A directory and its place: whether it is the one that it was, at the addresses that are known, and
 * how a lone node gets its first address and its peers (rules 17 and 19).
 *
 *   alone --started with peers--> waits, serves nothing --all seen, and they agree--> sealed: one rename of
 *         <--started without ------'                                                  DIR/identity
 *
 * Before the rename the directory is a cluster of one, after it a member of several that no majority
 * without its log can lead (docs/decisions/0009-growing.md). */
#include "lib/node.h"

#include <inttypes.h>
#include <stdio.h>

/* More than a copy of the directory will ever be started. */
enum { MOVED_STEP = 1 << 20 };

/* One member of several, opened for local reads, says nothing to anybody, so nothing is written. */
bool node_only_looks(const struct node *node) {
    return node->options.offline && node->identity.member_count > 1;
}

/* That it is the one to keep does not say that it is the newest: an older copy lacks what its member
 * acknowledged later, so its end is unknown (rule 11). Durable in one rename with its new place. Where only
 * addresses have changed, nothing was brought back. */
static void take_word(struct node *node, bool same_place) {
    struct identity *identity = &node->identity;
    if (node->options.moved == MOVED_NEWEST) {
        identity->restored = false;
    } else if (identity->member_count > 1 && !(same_place && node->readdressed)) {
        identity->restored = true;
    }
}

/* What is opened offline meets nobody: a copy may be looked at too, and stays one. */
int node_check_place(struct node *node, struct reason *why) {
    struct identity *identity = &node->identity;
    int rc = identity_check_place(node->world.disk, node->dir, identity, why);
    if (node->options.moved != MOVED_OFF && (rc == 0 || rc == LKV_EIDENTITY)) {
        take_word(node, rc == 0 && identity->file.number != 0);
        return 0;
    }
    if (rc == LKV_EIDENTITY && node->options.offline) {
        identity->is_copy = true;
        return 0;
    }
    return rc;
}

/* The operator's word that this is the directory to keep makes it newer than every copy of it. */
void node_count_start(struct node *node) {
    node->identity.start_counter += node->options.moved ? MOVED_STEP : 1;
}

/* ------------------------------------------------------------------ members */

bool node_wants_to_grow(const struct node *node) {
    return node->identity.cluster_id != 0 && node->identity.member_count == 1 &&
           node->options.peer_count > 1 && !node->options.offline;
}

/* The first address is free, and the option moved=on allows another one: addresses are no identity. One
 * that comes together with peers is kept only when they are. */
static int check_address(struct node *node, struct identity_member *member,
                         const struct option_peer *peer, struct reason *why) {
    if (strcmp(member->address, peer->address) == 0 ||
        (node->growing && (member->address[0] == '\0' || node->options.moved))) {
        return 0;
    }
    if (member->address[0] != '\0' && !node->options.moved) {
        return reason_set(
            why, LKV_EIDENTITY,
            "the option peers has %s at %s, cluster %016" PRIx64
            " of %s knows it at %s. If its address has changed, start every member once "
            "with the new peers and the option moved=on (kvctl serve --moved on)",
            peer->name, peer->address, node->identity.cluster_id, node->dir, member->address);
    }
    node->readdressed = node->readdressed || member->address[0] != '\0';
    (void)snprintf(member->address, sizeof(member->address), "%s", peer->address);
    return 0;
}

/* The option names the same members as the founded configuration, at the same addresses. */
int node_check_members(struct node *node, struct reason *why) {
    struct identity *identity = &node->identity;
    for (size_t i = 0; i < node->options.peer_count; i++) {
        const struct option_peer *peer = &node->options.peers[i];
        struct identity_member *member = identity->members;
        while (member < identity->members + identity->member_count &&
               strcmp(member->name, peer->name) != 0) {
            member++;
        }
        if (member < identity->members + identity->member_count) {
            int rc = check_address(node, member, peer, why);
            if (rc != 0) {
                return rc;
            }
        } else if (!node->growing) {
            return reason_set(why, LKV_EIDENTITY,
                              "the option peers names \"%s\", cluster %016" PRIx64
                              " of %s has no such member",
                              peer->name, identity->cluster_id, node->dir);
        }
    }
    if (identity->member_count != node->options.peer_count && !node->growing) {
        return reason_set(why, LKV_EIDENTITY,
                          "the option peers names %zu members, cluster %016" PRIx64 " has %zu",
                          node->options.peer_count, identity->cluster_id, identity->member_count);
    }
    return 0;
}

/* ------------------------------------------------------------------ growing */

/* The new members and the end of the log become durable together, and this node, the only voter so far,
 * has begun nothing in this life: the old majority ends with the rename. The log is closed to all but
 * this job, so its end is the last entry that the cluster of one could have acknowledged. */
int node_seal_growth(struct node *node, struct identity *identity, const struct log_state *log,
                     struct reason *why) {
    identity->grown_index = log->last;
    identity->grown_term = log->run_count > 0 && log->last >= log->first
                               ? log->runs[log->run_count - 1].term
                               : node->image_term;
    trace_line(&node->trace, TRACE_INFO, "grown",
               "cluster %016" PRIx64 " to %zu members, from entry %" PRIu64 " of term %" PRIu64,
               identity->cluster_id, identity->member_count, identity->grown_index,
               identity->grown_term);
    return identity_save(node->world.disk, node->dir, identity, why);
}
