/* The first frame on each connection between nodes, both ways: who speaks, for which cluster, in
 * which life, and what it has seen while the cluster is being founded (rules 17, 18, 20). */
#ifndef LIB_HELLO_WIRE_H
#define LIB_HELLO_WIRE_H

#include "base/buffer.h"
#include "lib/identity.h"

enum { PROTOCOL_MIN = 1, PROTOCOL_MAX = 1 };

struct hello {
    uint32_t protocol_min, protocol_max; /* the sender can speak all between */
    uint32_t feature_level;
    uint64_t group_id;
    uint64_t cluster_id; /* 0: blank */
    uint64_t member_id;  /* the incarnation */
    uint64_t start_counter;
    uint64_t boot_nonce; /* random, of this process's life */
    uint64_t conn_nonce; /* random, seeds the checksums of frames sent to this end */
    uint64_t sequence;   /* rises with each hello of this boot: the newest counts */
    char name[NAME_SIZE];
    char address[ADDRESS_SIZE];     /* where others reach the sender */
    uint64_t last_index, last_term; /* the sender's log, 0 while blank */
    /* Blank: the (name, incarnation)s it has seen, itself included. Founded: the members. */
    struct identity_member members[OPTION_PEERS_MAX];
    size_t member_count;
    enum model model;                 /* never MODEL_ANY */
    uint64_t grown_index, grown_term; /* as in the identity; 0: the cluster was founded at once */
    bool
        end_unknown; /* last_index may be less than the sender has acknowledged, and it knows (rule 11) */
};

void hello_encode(const struct hello *hello, struct buffer *out);

/* LKV_EPROTOCOL, LKV_EVERSION (no common protocol) with what was expected and what came; LKV_ENOMEM. */
MUST_USE int hello_decode(struct slice body, struct hello *out, struct reason *why);

#endif
