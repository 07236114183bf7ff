#include "lib/founding.h"

#include <inttypes.h>
#include <stdio.h>

void founding_init(struct founding *founding, const struct identity *self,
                   const struct option_peer *peers, size_t count) {
    *founding = (struct founding){.self_id = self->member_id, .own_cluster = self->cluster_id};
    (void)snprintf(founding->self_name, sizeof(founding->self_name), "%s", self->name);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(peers[i].name, self->name) == 0) {
            (void)snprintf(founding->self_address, sizeof(founding->self_address), "%s",
                           peers[i].address);
            continue;
        }
        struct founding_peer *peer = &founding->peers[founding->peer_count++];
        (void)snprintf(peer->name, sizeof(peer->name), "%s", peers[i].name);
        (void)snprintf(peer->address, sizeof(peer->address), "%s", peers[i].address);
    }
}

static struct founding_peer *find(struct founding *founding, const char *name) {
    for (size_t i = 0; i < founding->peer_count; i++) {
        if (strcmp(founding->peers[i].name, name) == 0) {
            return &founding->peers[i];
        }
    }
    return NULL;
}

/* Hellos of one life are ordered by their sequence, lives of one incarnation by the start counter.
 * Another incarnation is another directory, and nothing tells which of two is the later: what is heard
 * now counts. A wiped incarnation's late hello may so make one node found a cluster that nobody
 * shares; two that both acknowledge writes need two nodes that agree, and those have heard each other.
 * To refuse what was once replaced would be worse: the living one may be the one refused. */
static bool is_newer(const struct hello *candidate, const struct hello *known) {
    if (candidate->member_id != known->member_id) {
        return true;
    }
    if (candidate->start_counter != known->start_counter) {
        return candidate->start_counter > known->start_counter;
    }
    return candidate->sequence > known->sequence;
}

bool founding_hear(struct founding *founding, const struct hello *hello) {
    struct founding_peer *peer = find(founding, hello->name);
    if (peer == NULL || (peer->heard && !is_newer(hello, &peer->hello))) {
        return false;
    }
    bool changed = !peer->heard || peer->hello.member_id != hello->member_id;
    peer->heard = true;
    peer->hello = *hello;
    return changed;
}

static void add(struct identity_member *out, const char *name, const char *address, uint64_t id) {
    *out = (struct identity_member){.id = id};
    (void)snprintf(out->name, sizeof(out->name), "%s", name);
    (void)snprintf(out->address, sizeof(out->address), "%s", address);
}

size_t founding_list(const struct founding *founding,
                     struct identity_member out[OPTION_PEERS_MAX]) {
    size_t count = 0;
    add(&out[count++], founding->self_name, founding->self_address, founding->self_id);
    for (size_t i = 0; i < founding->peer_count; i++) {
        const struct founding_peer *peer = &founding->peers[i];
        if (peer->heard) {
            add(&out[count++], peer->name, peer->address, peer->hello.member_id);
        }
    }
    return count;
}

static const struct identity_member *lookup(const struct identity_member *members, size_t count,
                                            const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].name, name) == 0) {
            return &members[i];
        }
    }
    return NULL;
}

/* Every node keeps the addresses in its identity, and compares them with its option at each start. */
static const char *what(const struct founding *founding) {
    return founding->own_cluster != 0 ? "growing" : "founding";
}

static bool same_addresses(const struct founding *founding, const struct founding_peer *peer,
                           struct reason *why) {
    struct identity_member mine[OPTION_PEERS_MAX];
    size_t count = founding_list(founding, mine);
    const struct hello *hello = &peer->hello;
    for (size_t i = 0; i < count; i++) {
        const struct identity_member *theirs =
            lookup(hello->members, hello->member_count, mine[i].name);
        if (theirs != NULL && strcmp(theirs->address, mine[i].address) != 0) {
            (void)reason_set(why, LKV_EIDENTITY,
                             "%s: %s has %s at \"%s\", %s has it at \"%s\": the option peers "
                             "must be the same on all",
                             what(founding), founding->self_name, mine[i].name, mine[i].address,
                             peer->name, theirs->address);
            return false;
        }
    }
    return true;
}

static bool same_set(const struct identity_member *mine, size_t count, const struct hello *hello) {
    if (hello->member_count != count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const struct identity_member *theirs =
            lookup(hello->members, hello->member_count, mine[i].name);
        if (theirs == NULL || theirs->id != mine[i].id) {
            return false;
        }
    }
    return true;
}

/* A peer that is founded already decides for us: either it lists this incarnation, or we are a
 * stranger to it (a wiped directory must never found a second cluster, rule 18). */
static bool decide_by_founded(const struct founding *founding, const struct founding_peer *peer,
                              struct founding_result *out) {
    const struct hello *hello = &peer->hello;
    if (!peer->heard || hello->cluster_id == 0) {
        return false;
    }
    const struct identity_member *us =
        lookup(hello->members, hello->member_count, founding->self_name);
    if (founding->own_cluster != 0) {
        out->decision = FOUNDING_STRANGER;
        (void)reason_set(
            &out->why, LKV_EIDENTITY,
            "cluster %016" PRIx64 " has grown already, says %s: this directory of %s is "
            "an older copy; put the newer one back, this version cannot replace a member",
            hello->cluster_id, peer->name, founding->self_name);
        return true;
    }
    if (us == NULL && hello->member_count == 1) { /* alone, and it hears us: it grows (rule 19) */
        (void)reason_set(&out->why, 0,
                         "founding: %s is alone in cluster %016" PRIx64
                         " and takes its peers in when it has seen all of them",
                         peer->name, hello->cluster_id);
        return true;
    }
    if (us != NULL && us->id == founding->self_id) {
        if (!same_addresses(founding, peer, &out->why)) {
            return true;
        }
        out->decision = FOUNDING_ADOPT;
        out->cluster_id = hello->cluster_id;
        out->grown_index = hello->grown_index;
        out->grown_term = hello->grown_term;
        out->member_count = hello->member_count;
        memcpy(out->members, hello->members, sizeof(out->members));
        return true;
    }
    out->decision = FOUNDING_STRANGER;
    (void)reason_set(&out->why, LKV_EIDENTITY,
                     "%s belongs to cluster %016" PRIx64 ", which knows %s as %016" PRIx64
                     ", but this directory is %016" PRIx64
                     " (wiped or new): put back its directory, or a copy of it with moved=on; this "
                     "version cannot replace a member",
                     peer->name, hello->cluster_id, founding->self_name, us != NULL ? us->id : 0,
                     founding->self_id);
    return true;
}

void founding_decide(const struct founding *founding, struct founding_result *out) {
    *out = (struct founding_result){.decision = FOUNDING_WAIT};
    for (size_t i = 0; i < founding->peer_count; i++) {
        if (decide_by_founded(founding, &founding->peers[i], out)) {
            return;
        }
    }
    for (size_t i = 0; i < founding->peer_count; i++) {
        const struct founding_peer *peer = &founding->peers[i];
        if (peer->heard && !same_addresses(founding, peer, &out->why)) {
            return;
        }
    }
    struct identity_member mine[OPTION_PEERS_MAX];
    size_t count = founding_list(founding, mine);
    if (count != founding->peer_count + 1) {
        (void)reason_set(&out->why, 0, "%s: %zu of %zu members seen", what(founding), count,
                         founding->peer_count + 1);
        return;
    }
    for (size_t i = 0; i < founding->peer_count; i++) {
        if (!same_set(mine, count, &founding->peers[i].hello)) {
            (void)reason_set(&out->why, 0, "%s: %s has not seen the same members yet",
                             what(founding), founding->peers[i].name);
            return;
        }
    }
    bool grows = founding->own_cluster != 0;
    out->decision = grows ? FOUNDING_GROW : FOUNDING_FOUND;
    out->cluster_id = grows ? founding->own_cluster : identity_cluster_id(mine, count);
    out->member_count = count;
    memcpy(out->members, mine, sizeof(mine));
}
