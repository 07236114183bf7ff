#include "raft/progress.h"

#include "base/assert.h"
#include "base/mem.h"

/* A link of 2 Mbit/s carries this in a quarter of a second. */
enum { WINDOW_LEAST = 64 << 10 };

void progress_fini(struct progress *peer) {
    mem_free(peer->requests);
    *peer = (struct progress){0};
}

/* ------------------------------------------------------------------ the requests on the way */

static struct progress_request *request_at(const struct progress *peer, size_t position) {
    ASSERT(position < peer->request_count);
    return &peer->requests[(peer->request_head + position) % peer->request_capacity];
}

/* How many requests, from the oldest, are completely in the peer's memory. */
static size_t requests_received(const struct progress *peer) {
    size_t low = 0, high = peer->request_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (request_at(peer, middle)->last <= peer->received) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void requests_clear(struct progress *peer) {
    peer->request_head = peer->request_count = 0;
    peer->inflight_bytes = 0;
}

/* Durable requests leave the window of what may be on the way. */
static void requests_release(struct progress *peer) {
    /* An absent peer states nothing as durable; what it states as received is durable there. */
    uint64_t done = peer->absent ? peer->received : peer->match;
    while (peer->request_count > 0 && request_at(peer, 0)->last <= done) {
        peer->inflight_bytes -= request_at(peer, 0)->bytes;
        peer->request_head = (peer->request_head + 1) % peer->request_capacity;
        peer->request_count--;
    }
}

/* Requests that did not arrive are forgotten: they will be sent again as new ones. What is in the
 * peer's memory goes on counting until it is durable there (R25). */
static void requests_drop_unreceived(struct progress *peer) {
    while (peer->request_count > 0) {
        struct progress_request *newest = request_at(peer, peer->request_count - 1);
        if (newest->last <= peer->received) {
            return;
        }
        if (newest->first <= peer->received) { /* a part arrived: its bytes stay counted */
            newest->last = peer->received;
            return;
        }
        peer->inflight_bytes -= newest->bytes;
        peer->request_count--;
    }
}

/* ------------------------------------------------------------------ transitions */

bool progress_reset(struct progress *peer, const struct raft_options *options, uint64_t next) {
    if (peer->requests == NULL) {
        size_t count = options->inflight_requests_max;
        peer->requests = mem_calloc(count, sizeof *peer->requests);
        if (peer->requests == NULL) {
            return false;
        }
        peer->request_capacity = count;
    }
    requests_clear(peer);
    peer->state = RAFT_PROBE;
    peer->match = peer->received = 0;
    peer->next = next;
    /* request_no goes on: replies to an earlier life's requests stay recognizable */
    peer->stream_no = peer->request_no + 1;
    peer->probe_sent = peer->paused = peer->absent = false;
    peer->stuck_ns = 0;
    peer->room = RAFT_ROOM_FREE;
    peer->gap_first = peer->gap_ns = 0;
    peer->losses = 0;
    peer->window_bytes = WINDOW_LEAST;
    peer->catchup.round = 0; /* it was another life's question */
    return true;
}

void progress_to_probe(struct progress *peer, uint64_t next) {
    peer->state = RAFT_PROBE;
    peer->next = next > peer->received ? next : peer->received + 1;
    peer->stream_no = peer->request_no + 1;
    peer->probe_sent = false;
    requests_drop_unreceived(peer);
}

void progress_to_replicate(struct progress *peer) {
    requests_drop_unreceived(peer);
    peer->state = RAFT_REPLICATE;
    peer->next = peer->received + 1;
    peer->stream_no = peer->request_no + 1;
    peer->probe_sent = false;
}

void progress_to_install(struct progress *peer) {
    peer->state = RAFT_INSTALL;
    peer->installing = true;
    peer->probe_sent = false;
}

void progress_image_sent(struct progress *peer, uint64_t index, bool ok) {
    peer->installing = false;
    if (peer->state != RAFT_INSTALL) {
        return;
    }
    /* The peer's own reply to the probe says what is durable there, not the sender's report. */
    progress_to_probe(peer, ok ? index + 1 : peer->next);
    peer->paused = !ok;
}

/* ------------------------------------------------------------------ what happened */

uint64_t progress_sent(struct progress *peer, uint64_t first, uint64_t last, uint64_t bytes,
                       uint64_t now_ns) {
    peer->request_no++;
    if (peer->state == RAFT_PROBE) {
        peer->probe_sent = true;
        peer->probe_prev = first - 1;
        peer->probe_ns = now_ns;
    }
    if (last < first) {
        return peer->request_no;
    }
    ASSERT(first == peer->next && peer->request_count < peer->request_capacity);
    size_t tail = (peer->request_head + peer->request_count) % peer->request_capacity;
    peer->requests[tail] =
        (struct progress_request){.first = first, .last = last, .bytes = bytes, .sent_ns = now_ns};
    peer->request_count++;
    peer->inflight_bytes += bytes;
    peer->next = last + 1;
    return peer->request_no;
}

uint64_t progress_resent(struct progress *peer) {
    return ++peer->request_no;
}

bool progress_acked(struct progress *peer, uint64_t durable, uint64_t received, uint64_t now_ns) {
    bool advanced = durable > peer->match;
    peer->absent = peer->absent && durable == 0;
    if (advanced) {
        peer->match = durable;
    }
    if (received > peer->received) {
        peer->received = received;
        peer->received_ns = now_ns;
        peer->losses = 0;
    }
    if (peer->next <= peer->received) {
        peer->next = peer->received + 1;
    }
    if (peer->state == RAFT_PROBE && peer->probe_sent && peer->received >= peer->probe_prev) {
        progress_to_replicate(peer);
    }
    requests_release(peer);
    if (peer->received == peer->match) {
        peer->stuck_ns = 0;
    } else if (advanced || peer->stuck_ns == 0) {
        peer->stuck_ns = now_ns;
    }
    return advanced;
}

/* It restarted: of what it had in memory only this is still there, and what was durable. */
static void received_at_most(struct progress *peer, uint64_t index) {
    if (index < peer->received) {
        peer->received = index > peer->match ? index : peer->match;
    }
}

bool progress_conflict(struct progress *peer, uint64_t request_no, uint64_t next) {
    if (request_no < peer->stream_no || peer->state == RAFT_INSTALL) {
        return false; /* an answer to an earlier try, late or twice (L12) */
    }
    bool first = peer->state == RAFT_REPLICATE;
    uint64_t before = first ? peer->next : peer->probe_prev + 1;
    if (next >= before) {
        next = before > 1 ? before - 1 : 1;
    }
    received_at_most(peer, next - 1);
    progress_to_probe(peer, next);
    return first || peer->next < before; /* without an advance there is no hurry to ask again */
}

static uint64_t resend_after_ns(const struct progress *peer, const struct raft_options *options) {
    uint64_t least = (uint64_t)options->heartbeat_ms * 1000000u;
    uint64_t measured = peer->rtt_ns + 4 * peer->rtt_deviation_ns;
    uint64_t timeout = measured > least ? measured : least;
    return timeout << (peer->losses < 4 ? peer->losses : 4);
}

bool progress_gap(struct progress *peer, const struct raft_options *options, uint64_t request_no,
                  uint64_t first, uint64_t now_ns) {
    if (peer->state == RAFT_PROBE && request_no >= peer->stream_no) {
        received_at_most(peer, first - 1);
        progress_to_replicate(peer); /* it told what it has: no need to look for it */
        return false;
    }
    if (peer->state != RAFT_REPLICATE || first != peer->received + 1) {
        return false; /* of the past */
    }
    if (peer->gap_first == first && now_ns - peer->gap_ns < resend_after_ns(peer, options)) {
        return false; /* one retransmission of it is on the way already */
    }
    peer->gap_first = first;
    peer->gap_ns = now_ns;
    size_t received = requests_received(peer);
    if (received < peer->request_count) {
        request_at(peer, received)->sent_ns = now_ns;
    }
    return true;
}

static void measure(struct progress *peer, uint64_t rtt_ns) {
    if (peer->rtt_ns == 0) { /* RFC 6298, its gains */
        peer->rtt_ns = rtt_ns;
        peer->rtt_deviation_ns = rtt_ns / 2;
        return;
    }
    uint64_t off = rtt_ns > peer->rtt_ns ? rtt_ns - peer->rtt_ns : peer->rtt_ns - rtt_ns;
    peer->rtt_deviation_ns = (3 * peer->rtt_deviation_ns + off) / 4;
    peer->rtt_ns = (7 * peer->rtt_ns + rtt_ns) / 8;
}

/* Heartbeats queue behind what was sent before them, and nothing else makes them late but the link. */
static void fit_window(struct progress *peer, const struct raft_options *options, uint64_t rtt_ns) {
    uint64_t election_ns = (uint64_t)options->election_min_ms * 1000000u;
    if (rtt_ns <= election_ns / 3 && peer->window_bytes < options->inflight_bytes_max) {
        peer->window_bytes *= 2;
    } else if (rtt_ns > election_ns * 2 / 3 && peer->window_bytes > WINDOW_LEAST) {
        peer->window_bytes /= 2;
    }
}

/* When the oldest of what is not received was sent; false: nothing is on the way. */
static bool oldest_unreceived(const struct progress *peer, uint64_t *sent_ns) {
    if (peer->state == RAFT_PROBE) {
        *sent_ns = peer->probe_ns;
        return peer->probe_sent;
    }
    size_t received = requests_received(peer);
    if (peer->state != RAFT_REPLICATE || received == peer->request_count) {
        return false;
    }
    *sent_ns = request_at(peer, received)->sent_ns;
    return true;
}

bool progress_beat(struct progress *peer, const struct raft_options *options, uint64_t received,
                   uint64_t sent_ns, uint64_t now_ns) {
    measure(peer, now_ns - sent_ns);
    fit_window(peer, options, now_ns - sent_ns);
    bool less = received < peer->received && peer->received_ns < sent_ns;
    if (less && peer->state != RAFT_INSTALL) {
        received_at_most(peer, received);
        progress_to_probe(peer, peer->received + 1);
        return true;
    }
    /* Two proofs of a loss are asked for: a later message came through, and time has passed. */
    uint64_t oldest_ns;
    if (!oldest_unreceived(peer, &oldest_ns) || oldest_ns >= sent_ns ||
        now_ns - oldest_ns < resend_after_ns(peer, options)) {
        return false;
    }
    peer->losses++;
    progress_to_probe(peer, peer->state == RAFT_PROBE ? peer->probe_prev + 1 : peer->received + 1);
    return true;
}

/* ------------------------------------------------------------------ questions */

uint64_t progress_window(const struct progress *peer, const struct raft_options *options) {
    return peer->window_bytes < options->inflight_bytes_max ? peer->window_bytes
                                                            : options->inflight_bytes_max;
}

uint64_t progress_request_bytes(const struct progress *peer, const struct raft_options *options) {
    return peer->window_bytes < options->append_bytes_max ? peer->window_bytes
                                                          : options->append_bytes_max;
}

bool progress_may_send(const struct progress *peer, const struct raft_options *options) {
    if (!peer->up || peer->paused || peer->request_count == peer->request_capacity ||
        peer->inflight_bytes >= progress_window(peer, options)) {
        return false;
    }
    switch (peer->state) {
    case RAFT_PROBE: return !peer->probe_sent;
    case RAFT_REPLICATE: return true;
    case RAFT_INSTALL: return false;
    }
    return false;
}

bool progress_disk_ok(const struct progress *peer, uint64_t limit_ns, uint64_t now_ns) {
    return peer->room == RAFT_ROOM_FREE &&
           (peer->stuck_ns == 0 || now_ns - peer->stuck_ns < limit_ns);
}
