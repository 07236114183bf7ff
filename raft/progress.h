/* What a leader knows about one peer, and every way in which that changes.
 *
 *                 verified: replicate                   too far behind: install
 *      +-------+ ---------------------> +-----------+          +---------+
 *  --> | PROBE |                        | REPLICATE | -------> | INSTALL |
 *      +-------+ <--------------------- +-----------+          +---------+
 *          ^      lost, conflict, restart    (also from PROBE)      |
 *          +----------------- image sent or failed -----------------+
 *
 * PROBE      looks for the last entry that both logs share: one request at a time.
 * REPLICATE  everything up to `received` matches; requests follow each other without waiting.
 * INSTALL    needs entries that the log no longer has; nothing is sent until the image's end.
 *
 *      first kept     match        received             next          last
 *   log  |--- durable --|-- in its memory --|-- on the way --|-- to be sent --|
 *                       '------------ `requests` ------------'
 *
 * A slow link must not hold up heartbeats for as long as elections take: a peer's window begins at 64 KiB
 * and doubles with every heartbeat that is back quickly, halves with every slow one.
 *
 * Two kinds of limit and none other: requests and bytes sent but not durable at the peer (a peer
 * whose disk hangs holds no more than that in memory, R25); only what a peer did not *receive* is
 * sent again, so a slow disk causes no resends. */
#ifndef RAFT_PROGRESS_H
#define RAFT_PROGRESS_H

#include "raft/raft.h"

struct progress_request {
    uint64_t first, last;
    uint64_t bytes;
    uint64_t sent_ns;
};

/* Entries that are being read from disk for a peer's repair (donate.c). */
struct donation {
    bool fetching; /* a FETCHED is owed to us */
    uint64_t boot_nonce, round;
    uint64_t first, shared_index, shared_term;
    uint64_t cuts; /* of our log, when it was asked for */
};

/* An answer that a heartbeat round must confirm first (catchup.c). */
struct catchup_owed {
    uint64_t round; /* 0: none */
    uint64_t context, boot_nonce, index;
};

struct progress {
    /* of the peer, whoever leads */
    bool up;
    uint64_t boot_nonce; /* 0: no hello yet */
    bool promises;       /* may be asked for promises (rule 30) */
    bool fetching;       /* a FETCHED is owed to us ... */
    uint64_t fetch_from, fetch_term;
    bool installing; /* ... an IMAGE_SENT is */
    struct donation donation;

    /* of this leader's term */
    enum raft_progress_state state;
    bool absent;          /* does not know its end: what it has counts for nothing (rule 11) */
    uint64_t match;       /* verified and durable there; never falls but by a restart */
    uint64_t received;    /* verified and in its memory, >= match */
    uint64_t received_ns; /* when it last told more */
    uint64_t next;        /* the next to send, > received */
    uint64_t request_no;
    uint64_t stream_no; /* the request that began this state: earlier ones' refusals are stale */
    bool probe_sent;
    uint64_t probe_prev, probe_ns; /* the entry it asks about */
    bool paused;                   /* a fetch or an install failed: again at the next heartbeat */

    struct progress_request *requests; /* owned ring, ascending, touching each other */
    size_t request_capacity, request_head, request_count;
    uint64_t inflight_bytes;
    uint64_t
        window_bytes; /* most of them at once, besides the options' limit: what the link bears */

    uint64_t heard_ns; /* 0: never */
    uint64_t echo;     /* highest heartbeat round that came back */
    uint64_t lease_ns; /* on our clock, until then it votes for nobody; 0: it may */
    struct catchup_owed catchup;
    uint64_t stuck_ns; /* since when received > durable without any advance; 0: is not so */
    enum raft_room room;
    uint64_t gap_first, gap_ns; /* the last small retransmission */

    uint64_t rtt_ns, rtt_deviation_ns; /* smoothed; 0: not measured */
    uint32_t losses;                   /* in a row: the timeout doubles */
};

void progress_fini(struct progress *peer);

/* A new leader, or a restarted peer: nothing is known (rule 11), `next` is a guess.
 * False: out of memory. */
MUST_USE bool progress_reset(struct progress *peer, const struct raft_options *options,
                             uint64_t next);

/* ------------------------------------------------------------------ transitions */

/* Look for the common entry again, from `next` at most; what was verified stays verified. */
void progress_to_probe(struct progress *peer, uint64_t next);
void progress_to_replicate(struct progress *peer);
void progress_to_install(struct progress *peer);

/* The image's sending ended; `index` is durable at the peer when ok. */
void progress_image_sent(struct progress *peer, uint64_t index, bool ok);

/* ------------------------------------------------------------------ what happened */

/* A request for [first, last] left; last < first for an empty probe. Gives its number. */
uint64_t progress_sent(struct progress *peer, uint64_t first, uint64_t last, uint64_t bytes,
                       uint64_t now_ns);

/* A request repeats entries that are on the way already. Gives its number. */
uint64_t progress_resent(struct progress *peer);

/* The peer states what it has: at the latest now a PROBE ends when its entry is among that.
 * True: `match` grew. */
bool progress_acked(struct progress *peer, uint64_t durable, uint64_t received, uint64_t now_ns);

/* A request was refused; `next` is where the logs may still agree. True: probe again at once. */
bool progress_conflict(struct progress *peer, uint64_t request_no, uint64_t next);

/* The peer misses entries from `first` on, as it answers to this request. True: they are to be sent
 * again at once. */
bool progress_gap(struct progress *peer, const struct raft_options *options, uint64_t request_no,
                  uint64_t first, uint64_t now_ns);

/* A heartbeat sent at `sent_ns` came back and told what was `received` then. What was sent well
 * before it, and is not in there, is lost. What was told earlier, and is not in there, is not to be
 * relied on: a late reply of the peer's earlier life told it, or the peer lost sight of us and begins
 * anew. True: there is something to send again. */
bool progress_beat(struct progress *peer, const struct raft_options *options, uint64_t received,
                   uint64_t sent_ns, uint64_t now_ns);

/* ------------------------------------------------------------------ questions */

bool progress_may_send(const struct progress *peer, const struct raft_options *options);

/* Bytes that may be on the way at once, and in one request. */
uint64_t progress_window(const struct progress *peer, const struct raft_options *options);
uint64_t progress_request_bytes(const struct progress *peer, const struct raft_options *options);

/* Its disk takes what is sent to it: entries do not wait there longer than `limit_ns`. */
bool progress_disk_ok(const struct progress *peer, uint64_t limit_ns, uint64_t now_ns);

#endif
