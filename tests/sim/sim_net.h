/* A network in memory behind the seam of base/net.h: hosts, listeners, and streams that are as TCP is.
 *
 * Within a connection no byte is lost, doubled or reordered; what fails is the connection. A path that
 * is cut delivers nothing: streams stand still, half-open, and go on after it has healed, at the
 * sender's next retransmission, whose pauses double as the kernel's do; connections being opened wait
 * likewise. A process that dies has its connections ended by its kernel; a host that loses its power
 * says nothing, and answers later bytes of a connection it has forgotten with a reset.
 *
 *   write -> out --(turn's end, window)--> chunks in flight --(latency)--> on_data, in pieces */
#ifndef TESTS_SIM_SIM_NET_H
#define TESTS_SIM_SIM_NET_H

#include "base/net.h"
#include "tests/sim/sim_loop.h"

enum { SIM_HOSTS_MAX = 16, SIM_ADDRESS_SIZE = 64, SIM_RECORDINGS = 8, SIM_RECORDING_BYTES = 4096 };

enum sim_host_state {
    SIM_HOST_OFF,  /* no power: silence */
    SIM_HOST_IDLE, /* no process: refuses connections */
    SIM_HOST_LIVE
};

struct sim_net;

struct sim_host {
    struct net base;
    struct sim_net *network;
    unsigned number;
    enum sim_host_state state;
    struct sim_loop *loop;      /* borrowed; while LIVE, and while its process is taken apart */
    struct list_link conns;     /* of struct sim_conn */
    struct list_link dirty;     /* of those with output of this turn */
    struct list_link listeners; /* of struct sim_listener */
};

struct sim_net_options {
    uint64_t latency_min_ns, latency_max_ns;
    uint32_t spike_permille; /* of chunks that take spike_ns more */
    uint64_t spike_ns;
    size_t window_bytes;     /* in flight on a stream at most */
    uint32_t split_permille; /* of chunks that arrive in pieces */
    bool retransmit_backoff; /* false: a healed path is noticed at once */
    uint32_t loss_permille;  /* of chunks that are lost once, and sent again later */
    /* Of frames between nodes, worse than any TCP: the core is to bear it (N16). */
    uint32_t frame_drop_permille, frame_double_permille, frame_swap_permille;
    uint32_t frame_change_permille; /* one bit is flipped: the checksum has to notice */
};

/* The first bytes that a host once sent to another on a connection that it had dialed (N11). */
struct sim_recording {
    unsigned to;
    size_t size;
    uint8_t bytes[SIM_RECORDING_BYTES];
};

struct sim_net_counts {
    uint64_t bytes, connections, resets, refused, replays;
    uint64_t spikes, losses, splits; /* of chunks */
    uint64_t blocked;                /* deliveries that met a cut path */
    uint64_t frames_dropped, frames_doubled, frames_swapped, frames_changed;
};

struct sim_net {
    struct sim_time *time;
    struct prng prng;
    struct sim_net_options options;
    struct sim_host hosts[SIM_HOSTS_MAX];
    size_t host_count;
    uint64_t cut_until_ns[SIM_HOSTS_MAX][SIM_HOSTS_MAX]; /* [from][to] */
    struct sim_recording recordings[SIM_RECORDINGS];
    size_t recorded; /* in all */
    struct sim_net_counts counts;
};

void sim_net_init(struct sim_net *net, struct sim_time *time, uint64_t seed, size_t hosts,
                  const struct sim_net_options *options);
void sim_net_fini(struct sim_net *net); /* every host must be down */

/* "10.0.0.N:7001" of host N - 1. */
void sim_net_address(unsigned host, char out[static SIM_ADDRESS_SIZE]);

void sim_host_up(struct sim_host *host, struct sim_loop *loop);
/* The process is gone, with its power or alone: from now on its connections end as they then do,
 * whatever the node does while it is taken apart. sim_host_forget closes what is left. */
void sim_host_down(struct sim_host *host, bool power);
void sim_host_forget(struct sim_host *host);
/* What the turn has written leaves. */
void sim_host_flush(struct sim_host *host);

/* --- faults --- */

/* Until then nothing gets from one to the other; UINT64_MAX: until it is mended. */
void sim_net_cut(struct sim_net *net, unsigned from, unsigned to, uint64_t until_ns);
void sim_net_mend(struct sim_net *net, unsigned from, unsigned to);
void sim_net_mend_all(struct sim_net *net);
/* Resets a random connection of the host; false when it has none. */
bool sim_net_reset(struct sim_net *net, unsigned host);
/* Sends the bytes of an earlier connection again, on a new one. */
bool sim_net_replay(struct sim_net *net);
/* The same of a recording of a client's calls, as far as they may be done twice: `repeatable` says how
 * many of the bytes from the first on are such. */
bool sim_net_replay_client(struct sim_net *net, size_t (*repeatable)(struct slice bytes));

/* The next frame that one sends to the other, on the connection that it dialed, says that it is a mebibyte
 * longer than it is. */
bool sim_net_stretch(struct sim_net *net, unsigned from, unsigned to);

#endif
