/* The feature level of the cluster (rule 22): raised by an entry, and only when every member, in the hello
 * of the connection that stands now, has said that its program knows it. A member that is away, or whose
 * program is older, holds it down; one that comes with an older program afterwards stops at the entry. */
#include "lib/node.h"
#include "lib/peer.h"

/* What all members know; 0 when one of them has not said it. */
static uint32_t known_by_all(const struct node *node) {
    uint32_t level = node_knows_level(node);
    for (size_t i = 0; i < node->peer_count; i++) {
        const struct peer *peer = node->peers[i];
        if (!peer->up || peer->hello.member_id != peer->id) {
            return 0;
        }
        level = peer->hello.feature_level < level ? peer->hello.feature_level : level;
    }
    return level;
}

static bool may_propose(const struct node *node) {
    if (node->role != RAFT_LEADER || node->closing || node->stop_rc != 0 ||
        node->submit_count > 0) {
        return false;
    }
    struct raft_status status;
    raft_status(node->raft, &status);
    return status.noop_index != 0 && node->applied >= status.noop_index;
}

bool node_feature_lacks(const struct node *node, const struct request *request) {
    return node->role == RAFT_LEADER && request->level > node->state->feature_level(node);
}

/* A member that is connected and says that its program does not know the level; or, with `away`, one that
 * is not connected. NULL: there is none. */
static const struct peer *holds_down(const struct node *node, uint32_t level, bool away) {
    for (size_t i = 0; i < node->peer_count; i++) {
        const struct peer *peer = node->peers[i];
        bool known = peer->up && peer->hello.member_id == peer->id;
        if (known ? peer->hello.feature_level < level : away) {
            return peer;
        }
    }
    return NULL;
}

void node_feature_refuse(struct node *node, struct request *request) {
    uint32_t level = request->level;
    const struct peer *older = holds_down(node, level, false);
    const struct peer *away = holds_down(node, level, true);
    bool self = node_knows_level(node) < level;
    const char *name = self ? node->options.id : older != NULL ? older->name : NULL;
    if (name != NULL) {
        request_fail(
            request, LKV_EUNSUPPORTED,
            "it begins at feature level %u, the cluster has %u: the program of %s is older", level,
            node->state->feature_level(node), name);
    } else {
        request_fail(request, LKV_EUNSUPPORTED,
                     "it begins at feature level %u, the cluster has %u: %s%s", level,
                     node->state->feature_level(node), away != NULL ? away->name : "the entry",
                     away != NULL ? " has not said what its program knows" : " is on its way");
    }
}

/* Rule 22: what a member does not understand would stop it. What a leader has not applied yet may have
 * raised the level, and a member that has just been started may be about to say that it knows the next
 * one: that is waited for as a leader is. */
bool node_feature_allows(struct node *node, struct request *request) {
    if (!node_feature_lacks(node, request)) {
        return true;
    }
    bool known = node_leads_ready(node) && (node_knows_level(node) < request->level ||
                                            holds_down(node, request->level, false) != NULL);
    if (known) {
        node_feature_refuse(node, request);
    } else {
        node_request_again(node, request);
    }
    return false;
}

bool node_propose_own(struct node *node, enum entry_type type, struct blob *payload) {
    uint32_t size = (uint32_t)blob_slice(payload).size;
    node->own_type = type;
    node->own_payload = payload;
    struct raft_event event = {.kind = RAFT_SUBMIT,
                               .submit = {.sizes = &size, .count = 1, .reserved = true}};
    node_step(node, &event);
    bool refused = node->own_type != 0;
    if (refused) {
        blob_unref(node->own_payload);
        node->own_payload = NULL;
        node->own_type = 0;
    }
    return !refused;
}

void node_feature_turn(struct node *node) {
    /* Nearly always there is nothing above the present level, and this is all that is looked at. */
    uint32_t present = node->state->feature_level(node);
    if (node_knows_level(node) <= present || !may_propose(node)) {
        return;
    }
    uint32_t level = known_by_all(node);
    /* Once in a term: what was submitted is committed, or this leader is not one for long. */
    bool proposed = node->feature_term == node->term && level <= node->feature_proposed;
    if (level <= present || proposed) {
        return;
    }
    struct blob *payload = feature_encode(level);
    if (payload == NULL || !node_propose_own(node, ENTRY_FEATURE, payload)) {
        return; /* a later turn tries again */
    }
    node->feature_term = node->term;
    node->feature_proposed = level;
    trace_line(&node->trace, TRACE_INFO, "feature-level",
               "every member knows level %u, the cluster has %u: proposed", level, present);
}
