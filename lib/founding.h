/* How a cluster comes to be: no coordinator, no leader, one outcome (rules 18 and 19).
 *
 *        blank ----- every peer's newest blank hello lists the same full set -----> founded
 *          \                                                                          ^
 *           `---- a founded peer's list has this very incarnation under our name ----'
 *
 *        alone ----- the same, of all the others; the cluster id stays ------------> grown
 *
 * The cluster id is a hash over the set, so nodes that found at different moments found the same
 * cluster. Pure: hellos in, a decision out. */
#ifndef LIB_FOUNDING_H
#define LIB_FOUNDING_H

#include "lib/hello_wire.h"

struct founding_peer {
    char name[NAME_SIZE];
    char address[ADDRESS_SIZE];
    bool heard;
    struct hello hello; /* the newest */
};

struct founding {
    char self_name[NAME_SIZE];
    char self_address[ADDRESS_SIZE];
    uint64_t self_id;
    uint64_t own_cluster;                         /* of a lone node that grows; 0: blank */
    struct founding_peer peers[OPTION_PEERS_MAX]; /* without this node */
    size_t peer_count;
};

enum founding_decision {
    FOUNDING_WAIT,    /* not all were heard, or they do not agree yet */
    FOUNDING_FOUND,   /* found with the full set */
    FOUNDING_GROW,    /* the same, in the cluster that this node is alone in */
    FOUNDING_ADOPT,   /* join what a peer has founded with us in it */
    FOUNDING_STRANGER /* a founded peer knows our name with another incarnation, or not at all */
};

struct founding_result {
    enum founding_decision decision;
    uint64_t cluster_id;
    uint64_t grown_index, grown_term; /* of ADOPT, as in the identity */
    struct identity_member members[OPTION_PEERS_MAX];
    size_t member_count;
    struct reason why; /* of WAIT and STRANGER: for people */
};

/* `peers` are the option's, this node among them. */
void founding_init(struct founding *founding, const struct identity *self,
                   const struct option_peer *peers, size_t count);

/* Remembers a peer's hello unless a newer one of it is known. True when that changed what
 * founding_list gives, and a new hello should go out. */
bool founding_hear(struct founding *founding, const struct hello *hello);

/* The (name, incarnation)s seen, this node first; for our own hellos. */
size_t founding_list(const struct founding *founding, struct identity_member out[OPTION_PEERS_MAX]);

void founding_decide(const struct founding *founding, struct founding_result *out);

#endif
