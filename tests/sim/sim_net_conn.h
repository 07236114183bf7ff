/* One end of a simulated connection, for sim_net.c (who opens and ends it) and sim_net_conn.c (its
 * bytes). */
#ifndef TESTS_SIM_SIM_NET_CONN_H
#define TESTS_SIM_SIM_NET_CONN_H

#include "tests/sim/sim_net.h"

enum sim_conn_state { SIM_CONN_DIALING, SIM_CONN_OPENING, SIM_CONN_OPEN };

/* Bytes on their way, owned by the end that will receive them. */
struct sim_chunk {
    struct list_link link;
    uint64_t at_ns;
    size_t size;
    uint8_t bytes[];
};

struct sim_listener {
    struct net_listener base;
    struct list_link link; /* of the host */
    char address[SIM_ADDRESS_SIZE];
    void (*on_accept)(void *arg, struct net_conn *conn);
    void *arg;
};

struct sim_conn {
    struct net_conn base;
    struct list_link link, dirty; /* of the host */
    struct sim_host *host;
    struct sim_conn *peer; /* the other end; NULL: it does not know (any more) of this connection */
    unsigned peer_host;
    bool ghost; /* the other end is no host of ours: nothing that it is sent comes back */
    enum sim_conn_state state;
    bool dialed;   /* by this end */
    bool accepted; /* by the listener of this end, which has not heard of it yet */
    bool attached, paused, let_go, closed;
    unsigned busy; /* callbacks on the stack: not freed before they return */
    struct net_conn_events events;
    void *arg;
    char address[SIM_ADDRESS_SIZE]; /* dialed, or the peer's */
    uint8_t *out;                   /* owned: written, not in flight yet */
    size_t out_size, out_capacity, limit;
    bool drain_due;
    struct list_link chunks; /* in flight to this end */
    size_t chunk_bytes;
    uint64_t last_ns; /* when the newest of them arrives */
    bool ends;        /* after the chunks: with end_rc, at end_ns */
    int end_rc;
    uint64_t end_ns;
    unsigned attempts; /* lost ones in a row */
    struct sim_event event, drain;
    struct sim_recording *recording; /* what this end sends, at first */
    size_t shaped;                   /* bytes of `out` whose fate is decided */
    bool stretch;                    /* the next frame gets a false length */
    bool unshaped;                   /* it does not send frames */
};

struct sim_conn *sim_conn_new(struct sim_host *host);
/* What the other end is told, if anything: FIN after the data, a reset, or nothing. */
enum sim_conn_end { SIM_END_FIN, SIM_END_RESET, SIM_END_SILENT };
void sim_conn_close(struct sim_conn *conn, enum sim_conn_end how);
/* This end will hear that the connection is over. */
void sim_conn_ends(struct sim_conn *conn, int rc, bool drop_chunks);
void sim_conn_push(struct sim_conn *to, const uint8_t *bytes, size_t size);
void sim_conn_flush(struct sim_conn *conn);
void sim_conn_mark_dirty(struct sim_conn *conn);
void sim_conn_plan(struct sim_conn *conn);
void sim_conn_fire(struct sim_event *event);
void sim_conn_fire_drain(struct sim_event *event);

/* Decides what becomes of the frames that are written and not in flight yet (sim_net_frames.c). */
void sim_conn_shape(struct sim_conn *conn);

bool sim_net_blocked(const struct sim_net *net, unsigned from, unsigned to);
uint64_t sim_net_latency(struct sim_net *net);
/* Carries the dialing one step further (sim_net.c). */
void sim_conn_dial(struct sim_conn *conn);

static inline struct sim_conn *sim_conn_of(struct net_conn *base) {
    return (struct sim_conn *)(void *)base;
}
static inline struct sim_host *sim_host_of(struct net *base) {
    return (struct sim_host *)(void *)base;
}

#endif
