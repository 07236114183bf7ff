/* Bytes of a connection: queued, in flight, delivered. */
#include "tests/sim/sim_net_conn.h"

#include "base/assert.h"

#include <stdlib.h>

enum { CHUNK_MAX = 64 * 1024, PIECES_MAX = 6 };

#define MS_NS      UINT64_C(1000000)
#define RTO_MIN_NS (200 * MS_NS)
#define RTO_MAX_NS (UINT64_C(120000) * MS_NS)

static void *must(void *pointer) {
    ASSERT(pointer != NULL);
    return pointer;
}

/* ------------------------------------------------------------------ life */

struct sim_conn *sim_conn_new(struct sim_host *host) {
    struct sim_conn *conn = must(calloc(1, sizeof(*conn)));
    conn->base.net = &host->base;
    conn->host = host;
    conn->limit = (size_t)64 * 1024 * 1024;
    conn->event.fire = sim_conn_fire;
    conn->drain.fire = sim_conn_fire_drain;
    list_init(&conn->chunks);
    list_init(&conn->dirty);
    list_push_back(&host->conns, &conn->link);
    host->network->counts.connections++;
    return conn;
}

static void drop_chunks(struct sim_conn *conn) {
    struct list_link *link;
    while ((link = list_pop_front(&conn->chunks)) != NULL) {
        free(LIST_ITEM(link, struct sim_chunk, link));
    }
    conn->chunk_bytes = 0;
}

static void release(struct sim_conn *conn) {
    if (conn->closed && conn->busy == 0) {
        free(conn->out);
        free(conn);
    }
}

/* Without power nothing is sent again: what had not arrived never will. */
static void forget_in_flight(struct sim_conn *to) {
    struct sim_net *net = to->host->network;
    bool blocked = sim_net_blocked(net, to->peer_host, to->host->number);
    struct list_link *next;
    for (struct list_link *at = to->chunks.next; at != &to->chunks; at = next) {
        next = at->next;
        struct sim_chunk *chunk = LIST_ITEM(at, struct sim_chunk, link);
        if (blocked || chunk->at_ns > net->time->now_ns) {
            to->chunk_bytes -= chunk->size;
            list_remove(at);
            free(chunk);
        }
    }
}

void sim_conn_close(struct sim_conn *conn, enum sim_conn_end how) {
    if (conn->closed) {
        return;
    }
    struct sim_conn *peer = conn->peer;
    conn->closed = true;
    sim_event_cancel(conn->host->network->time, &conn->event);
    sim_event_cancel(conn->host->network->time, &conn->drain);
    drop_chunks(conn);
    list_remove(&conn->link);
    list_remove(&conn->dirty);
    if (peer != NULL) {
        peer->peer = NULL;
        if (how == SIM_END_SILENT) {
            forget_in_flight(peer);
        } else {
            sim_conn_ends(peer, how == SIM_END_FIN ? 0 : LKV_EIO, how == SIM_END_RESET);
        }
    }
    release(conn);
}

void sim_conn_ends(struct sim_conn *conn, int rc, bool drop) {
    if (conn->ends) {
        return;
    }
    struct sim_net *net = conn->host->network;
    if (drop) {
        drop_chunks(conn);
    }
    uint64_t at_ns = net->time->now_ns + sim_net_latency(net);
    conn->ends = true;
    conn->end_rc = rc;
    conn->end_ns = at_ns > conn->last_ns ? at_ns : conn->last_ns;
    sim_conn_plan(conn);
}

/* ------------------------------------------------------------------ sending */

void sim_conn_mark_dirty(struct sim_conn *conn) {
    if (list_empty(&conn->dirty)) {
        list_push_back(&conn->host->dirty, &conn->dirty);
    }
}

void sim_conn_push(struct sim_conn *to, const uint8_t *bytes, size_t size) {
    struct sim_net *net = to->host->network;
    struct sim_chunk *chunk = must(malloc(sizeof(*chunk) + size));
    uint64_t at_ns = net->time->now_ns + sim_net_latency(net);
    while (net->options.loss_permille > 0 &&
           prng_below(&net->prng, 1000) < net->options.loss_permille) {
        at_ns += RTO_MIN_NS; /* what is behind it waits as well */
        net->counts.losses++;
    }
    to->last_ns = at_ns > to->last_ns ? at_ns : to->last_ns;
    chunk->at_ns = to->last_ns;
    chunk->size = size;
    memcpy(chunk->bytes, bytes, size);
    list_push_back(&to->chunks, &chunk->link);
    to->chunk_bytes += size;
    net->counts.bytes += size;
    sim_conn_plan(to);
}

static void record(struct sim_conn *conn, const uint8_t *bytes, size_t size) {
    struct sim_recording *recording = conn->recording;
    if (recording == NULL) {
        return;
    }
    size_t room = sizeof(recording->bytes) - recording->size;
    size = size < room ? size : room;
    memcpy(recording->bytes + recording->size, bytes, size);
    recording->size += size;
}

/* The other end has forgotten this connection: what comes back is a reset. */
static void send_into_void(struct sim_conn *conn) {
    bool sent = conn->out_size > 0;
    conn->out_size = 0;
    if (sent && !conn->ghost) {
        sim_conn_ends(conn, LKV_EIO, false);
    }
}

static bool has_drained(const struct sim_conn *conn) {
    return conn->drain_due && conn->out_size <= conn->limit / 2 && conn->attached &&
           !conn->let_go && !conn->closed && conn->state == SIM_CONN_OPEN;
}

void sim_conn_fire_drain(struct sim_event *event) {
    struct sim_conn *conn = LIST_ITEM(event, struct sim_conn, drain);
    struct sim_loop *loop = conn->host->loop;
    if (!has_drained(conn) || !sim_loop_enter(loop, event)) {
        return;
    }
    conn->drain_due = false;
    if (conn->events.on_drain != NULL) {
        conn->busy++;
        conn->events.on_drain(conn->arg);
        conn->busy--;
        release(conn);
        sim_loop_leave(loop);
    }
}

void sim_conn_flush(struct sim_conn *conn) {
    if (conn->state != SIM_CONN_OPEN || conn->closed) {
        return;
    }
    size_t window = conn->host->network->options.window_bytes;
    size_t sent = 0;
    sim_conn_shape(conn);
    while (conn->peer != NULL && sent < conn->out_size && conn->peer->chunk_bytes < window) {
        size_t size = window - conn->peer->chunk_bytes;
        size = size < conn->out_size - sent ? size : conn->out_size - sent;
        size = size < CHUNK_MAX ? size : CHUNK_MAX;
        record(conn, conn->out + sent, size);
        sim_conn_push(conn->peer, conn->out + sent, size);
        sent += size;
    }
    if (conn->peer == NULL) {
        send_into_void(conn);
    } else if (sent > 0) {
        memmove(conn->out, conn->out + sent, conn->out_size - sent);
        conn->out_size -= sent;
    }
    conn->shaped = conn->out_size;
    if (conn->let_go && conn->out_size == 0) {
        sim_conn_close(conn, SIM_END_FIN);
    } else if (has_drained(conn) && !sim_event_planned(&conn->drain)) {
        sim_event_in(conn->host->network->time, &conn->drain, 0);
    }
}

/* ------------------------------------------------------------------ delivery */

void sim_conn_plan(struct sim_conn *conn) {
    struct sim_time *time = conn->host->network->time;
    bool held = conn->state == SIM_CONN_OPEN && !conn->let_go &&
                (conn->paused || (!conn->attached && !conn->accepted));
    if (conn->closed || held) {
        return;
    }
    uint64_t at_ns = UINT64_MAX;
    if (!list_empty(&conn->chunks)) {
        at_ns = LIST_ITEM(conn->chunks.next, struct sim_chunk, link)->at_ns;
    } else if (conn->ends) {
        at_ns = conn->end_ns;
    }
    bool sooner = !sim_event_planned(&conn->event) || at_ns < conn->event.at_ns;
    if (at_ns != UINT64_MAX && conn->attempts == 0 && conn->state == SIM_CONN_OPEN && sooner) {
        sim_event_at(time, &conn->event, at_ns);
    }
}

/* The sender tries again later, each time after twice as long. */
static void lost(struct sim_conn *conn) {
    uint64_t pause_ns = RTO_MIN_NS;
    for (unsigned i = 0; i < conn->attempts && pause_ns < RTO_MAX_NS; i++) {
        pause_ns *= 2;
    }
    if (!conn->host->network->options.retransmit_backoff) {
        pause_ns = 5 * MS_NS;
    }
    conn->attempts++;
    conn->host->network->counts.blocked++;
    sim_event_in(conn->host->network->time, &conn->event,
                 pause_ns < RTO_MAX_NS ? pause_ns : RTO_MAX_NS);
}

static void give(struct sim_conn *conn, const uint8_t *bytes, size_t size) {
    if (!conn->closed && !conn->let_go) {
        conn->events.on_data(conn->arg, slice_of(bytes, size));
    }
}

/* One chunk, whole or cut into pieces wherever it happens. */
static void give_pieces(struct sim_conn *conn, const struct sim_chunk *chunk) {
    struct sim_net *net = conn->host->network;
    size_t at = 0;
    if (prng_below(&net->prng, 1000) < net->options.split_permille) {
        net->counts.splits++;
        for (int i = 0; i < PIECES_MAX && chunk->size - at > 1; i++) {
            size_t limit = prng_below(&net->prng, 2) == 0 ? 8 : chunk->size - at;
            limit = limit < chunk->size - at ? limit : chunk->size - at;
            size_t size = 1 + (size_t)prng_below(&net->prng, limit);
            give(conn, chunk->bytes + at, size);
            at += size;
        }
    }
    if (at < chunk->size) {
        give(conn, chunk->bytes + at, chunk->size - at);
    }
}

static void receive(struct sim_conn *conn) {
    uint64_t now_ns = conn->host->network->time->now_ns;
    while (!conn->closed && (!conn->paused || conn->let_go) && !list_empty(&conn->chunks)) {
        struct sim_chunk *chunk = LIST_ITEM(conn->chunks.next, struct sim_chunk, link);
        if (chunk->at_ns > now_ns) {
            break;
        }
        list_remove(&chunk->link);
        conn->chunk_bytes -= chunk->size;
        sim_time_note(conn->host->network->time, chunk->size * SIM_HOSTS_MAX + conn->host->number);
        give_pieces(conn, chunk);
        free(chunk);
    }
    if (!conn->closed && conn->peer != NULL && conn->peer->out_size > 0) {
        sim_conn_flush(conn->peer);
    }
}

static void hear_end(struct sim_conn *conn) {
    bool tell = conn->attached && !conn->let_go;
    int rc = conn->end_rc;
    sim_conn_close(conn, SIM_END_SILENT);
    if (tell) {
        conn->events.on_close(conn->arg, rc);
    }
}

static void open_stream(struct sim_conn *conn) {
    conn->state = SIM_CONN_OPEN;
    sim_conn_mark_dirty(conn);
    if (conn->events.on_open != NULL) {
        conn->events.on_open(conn->arg);
    }
}

static void step(struct sim_conn *conn) {
    uint64_t now_ns = conn->host->network->time->now_ns;
    if (conn->state == SIM_CONN_OPENING) {
        open_stream(conn);
    } else if (conn->attached || conn->let_go) {
        receive(conn);
        bool over = list_empty(&conn->chunks) && conn->ends && conn->end_ns <= now_ns;
        if (!conn->closed && over && (!conn->paused || conn->let_go)) {
            hear_end(conn);
        }
    }
    if (!conn->closed) {
        sim_conn_plan(conn);
    }
}

void sim_conn_fire(struct sim_event *event) {
    struct sim_conn *conn = LIST_ITEM(event, struct sim_conn, event);
    struct sim_loop *loop = conn->host->loop;
    if (!sim_loop_enter(loop, event)) {
        return;
    }
    conn->busy++;
    if (conn->accepted || conn->state == SIM_CONN_DIALING) {
        sim_conn_dial(conn);
    } else if (sim_net_blocked(conn->host->network, conn->peer_host, conn->host->number)) {
        lost(conn);
        conn->busy--;
        return;
    } else {
        conn->attempts = 0;
        step(conn);
    }
    conn->busy--;
    release(conn);
    sim_loop_leave(loop);
}
