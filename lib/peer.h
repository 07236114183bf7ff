/* Links between nodes. Each node dials each peer; what it has to say goes out on the connection that
 * it dialed, what it hears comes in on those it accepted, so a cut one way is only that.
 *
 *        dialing --connected--> hello sent --hello came, accepted--> up --closed--> wait, dial again
 *
 * Only hellos flow both ways on one connection. Loop thread.
 */
#ifndef LIB_PEER_H
#define LIB_PEER_H

#include "lib/frame.h"
#include "lib/node.h"

/* One connection, in either direction. */
struct link {
    struct list_link link; /* of node->incoming, while incoming */
    struct node *node;
    struct peer *peer;     /* whose it is; of an incoming one NULL until its hello */
    struct net_conn *conn; /* owned */
    bool outgoing, hello_came;
    bool waits;   /* its hello is the first in `input`, until that life is durable here (rule 17) */
    bool resumes; /* that has ended */
    uint32_t receive_seed; /* of the nonce that we chose */
    uint32_t send_seed;    /* of the nonce that the other end chose */
    uint64_t conn_nonce;   /* ours */
    uint64_t begun_ns, opened_ns;
    struct buffer input;
};

/* What is sent again first when the peer is back. */
struct image_resume {
    uint64_t index, term; /* 0: nothing */
    uint64_t until_ns;    /* then it is forgotten */
};

struct peer {
    struct node *node;
    char name[NAME_SIZE];
    char address[ADDRESS_SIZE];
    uint64_t id;        /* member id; 0 until founded or its hello came */
    struct hello hello; /* newest accepted; member_id 0: none in this life */
    struct link *out;   /* dialed; NULL while waiting to dial */
    struct link *in;    /* newest accepted one */
    bool up;            /* out has exchanged hellos, and the core knows */
    uint64_t dial_ns;   /* when to dial next, while out is NULL */
    uint32_t dial_failures;
    uint64_t unanswered_ns; /* when the first question was sent since it was heard; 0: none */
    uint32_t silences;      /* connections given up for that since */
    struct buffer scratch;
    struct image_send *send;    /* an image on its way there */
    struct image_resume resume; /* one that the connection's end stopped */
    uint64_t
        compared_boot;    /* node_agree.c: the life that this leader has compared, or is about to */
    bool install_refused; /* one that could not begin; the core is told at the turn's end */
};

MUST_USE int peer_open(struct node *node, const char *name, const char *address, struct peer **out);
void peer_close(struct peer *peer);
struct peer *peer_by_id(struct node *node, uint64_t id);

/* Dials when it is time; returns when to be called next. */
uint64_t peers_timer(struct node *node, uint64_t now_ns);
void peers_send_hello(struct node *node); /* to all, after something in it changed */

void peers_parse_waiting(struct node *node); /* those whose hello had to wait */

void peers_founded(struct node *node); /* the core exists now: tell it who is connected */

/* Sends a frame if the peer is up and its output has room; else it is dropped and counted. */
bool peer_send(struct peer *peer, enum frame_kind kind, struct slice body);
void peer_send_raft(struct peer *peer, const struct raft_message *message,
                    const struct entry *entries);

/* An accepted connection whose first bytes are no client's. */
void link_adopt(struct node *node, struct net_conn *conn, struct slice first_bytes);
void links_close_incoming(struct node *node);

/* lib/node_seen.c: the lives that this node has met are durable before it deals with them (rule 17).
 * True: this one is; else it is on its way to the disk, and peers_parse_waiting is called then. */
MUST_USE bool node_seen_is_durable(struct node *node, const struct hello *hello);
void node_seen_acknowledged(struct node *node);
void node_seen_peer_down(struct node *node);
uint64_t node_seen_timer(struct node *node, uint64_t now_ns); /* when next */

#endif
