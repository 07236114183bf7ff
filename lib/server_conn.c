/* One connection, from bytes to bytes:
 *
 *   on_data -> wire_input -> take_frame -> decode -> host->submit -> ... -> on_finish -> reply
 *                  ^             |                                              |
 *                  |          too much in work: pause              output full: held
 *                  '--- resume (server_expire) <---- on_drain, or work is done -'
 *
 * A request outlives its connection: it counts as `pending` until it has finished, and the connection
 * is freed by whoever lets go last.
 */
#include "lib/server_inside.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/remote.h"
#include "lib/server_call.h"

#include <inttypes.h>

enum {
    WORK_PAGES_MAX = 4, /* ranges being read: finished, each may have to wait for a slow reader */
    WORK_BYTES_MAX = 16 * 1024 * 1024,   /* cost of a connection's requests; then it pauses */
    INPUT_BYTES_MAX = 256 * 1024 * 1024, /* beginnings of frames, of all connections together */
    WATCHES_MAX =
        16384, /* of a connection; all together are answered with at most about so much: */
    WATCHES_BYTES_MAX = 16 * 1024 * 1024,
    SLOW_S = 10,                 /* a frame's first bytes, or a client that takes nothing */
    SLOW_BYTES_PER_S = 64 * 1024 /* of the rest of a frame */
};

/* ------------------------------------------------------------------ life of a connection */

/* Frees what nobody uses any more. */
static void conn_release(struct server_conn *conn) {
    if (conn->net != NULL || conn->pending > 0 || conn->feeding) {
        return;
    }
    struct server *server = conn->server;
    server->input_bytes -= conn->input_bytes;
    wire_input_fini(&conn->input);
    mem_free(conn);
    server->conns_alive--;
    server_release(server);
}

/* After it the connection must not be touched, unless `feeding` or `pending` keeps it. */
static void conn_detach(struct server_conn *conn) {
    list_remove(&conn->link);
    list_remove(&conn->resume);
    server_reply_drop(conn);
    conn->net = NULL;
    server_reply_count(conn);
    conn->server->conn_count--;
    conn_release(conn);
}

void server_conn_close(struct server_conn *conn) {
    if (conn->net != NULL) {
        net_close(conn->net);
        conn_detach(conn);
    }
}

/* The reason is the last that the client hears. */
void server_conn_refuse(struct server_conn *conn, int rc, const struct reason *why) {
    if (conn->net == NULL) {
        return;
    }
    trace_line(conn->server->options.trace, TRACE_INFO, "client_refused", "%s: %s",
               net_peer_name(conn->net), why->text);
    struct buffer *scratch = &conn->server->scratch;
    buffer_clear(scratch);
    wire_encode_refusal(scratch, rc, why->text, !conn->started);
    if (scratch->failed || net_write(conn->net, buffer_slice(scratch)) != 0) {
        server_conn_close(conn);
        return;
    }
    net_close_after_flush(conn->net);
    conn_detach(conn);
}

void server_conn_pause(struct server_conn *conn, bool paused) {
    if (paused) {
        conn->frame_since_ns = 0; /* it is not the client who makes its frame wait */
    }
    if (conn->paused != paused) {
        conn->paused = paused;
        net_pause(conn->net, paused);
    }
}

/* ------------------------------------------------------------------ requests */

static bool must_pause(const struct server_conn *conn) {
    return conn->work_bytes > WORK_BYTES_MAX || conn->work_pages >= WORK_PAGES_MAX ||
           !list_empty(&conn->held) || conn->clogged;
}

/* Going on means submitting, which must not happen inside of the host's own calls: see
 * server_expire. */
static void resume_later(struct server_conn *conn) {
    if (conn->net != NULL && conn->paused && !must_pause(conn) && list_empty(&conn->resume)) {
        list_push_back(&conn->server->resumable, &conn->resume);
    }
}

/* Counts the appends that may come again: refused ones of which another node may think otherwise, and in a
 * session (rule 26) all that may yet be done, since their sender repeats them when this answer is lost. */
static void count_refused(struct server_conn *conn, bool in_session, int rc) {
    if (!remote_is_refusal(rc) && !(in_session && error_retryable(rc))) {
        return;
    }
    /* What the node lacks it lacks for those behind it too: they end alike, at once. */
    bool lacks = !remote_is_refusal(rc) && rc != LKV_EUNKNOWN && rc != LKV_ETIMEOUT;
    conn->refused_appends++;
    conn->refused_rc = lacks ? rc : LKV_ENOLEADER;
}

/* The sender of many appends at once is told how many of them were refused so far: what a leader that they
 * were passed on to has counted is of another connection. */
static void tell_refused(struct server_conn *conn, const struct request *request,
                         struct lkv_msg *reply) {
    count_refused(conn, request->session != 0, reply->rc);
    if (reply->rc != 0) {
        msg_set_u64(reply, "refusals", conn->refused_appends);
    }
}

static void on_finish(struct request *request) {
    struct server_conn *conn = request->owner;
    ASSERT(conn->pending > 0 && conn->work_bytes >= request->cost);
    conn->pending--;
    conn->work_bytes -= request->cost;
    conn->work_pages -= request->op == REQUEST_RANGE;
    conn->watches -= request->op == REQUEST_WATCH;
    if (conn->net == NULL) {
        conn_release(conn);
        return;
    }
    struct lkv_msg *reply = request->reply;
    request->reply = NULL;
    if (request->op == REQUEST_APPEND) {
        tell_refused(conn, request, reply);
    }
    conn->pending++; /* closing may not free it yet */
    server_reply(conn, (uint64_t)(uintptr_t)request->tag, reply);
    conn->pending--;
    resume_later(conn);
    conn_release(conn);
}

static uint64_t deadline_of(const struct server *server, const struct wire_call *call) {
    uint64_t max_ms = server->options.timeout_ms_max;
    uint64_t timeout_ms =
        call->has_timeout && call->timeout_ms < max_ms ? call->timeout_ms : max_ms;
    return loop_now_ns(server->loop) + timeout_ms * (NS_PER_S / 1000);
}

/* An append behind a refused one, sent before its sender heard of that: were it accepted, it would
 * overtake the refused one, which comes again. */
static bool overtakes(const struct server_conn *conn, const struct wire_call *call) {
    return call->method == WIRE_APPEND && call->has_refusals &&
           call->refusals != conn->refused_appends;
}

/* Many watches that wait are no work, but all may be answered at once: each gets its share of what such answers may
 * pin while the client does not read. */
static bool admit_watch(struct server_conn *conn, struct request *request) {
    size_t share = WATCHES_BYTES_MAX / (conn->watches + 1);
    if (conn->watches >= WATCHES_MAX) {
        return false;
    }
    if (request->bytes_max == 0 || request->bytes_max > share) {
        request->bytes_max = share;
    }
    request->cost = 0;
    return true;
}

static int submit(struct server_conn *conn, const struct wire_call *call, struct reason *why) {
    struct server *server = conn->server;
    struct request *request;
    if (overtakes(conn, call)) {
        return reason_set(why, conn->refused_rc,
                          "an earlier append of this connection was refused (%s)",
                          error_text(conn->refused_rc));
    }
    int rc = server_call_request(call, &server->limits, &request, why);
    if (rc != 0) {
        return rc;
    }
    request->deadline_ns = deadline_of(server, call);
    request->on_finish = on_finish;
    request->owner = conn;
    request->place = request->op == REQUEST_APPEND ? &conn->appends : NULL;
    request->tag = (void *)(uintptr_t)call->number;
    request->connection = conn->number;
    if (request->op == REQUEST_WATCH && !admit_watch(conn, request)) {
        request_free(request);
        return reason_set(why, LKV_EBUSY, "this connection has %d watches already", WATCHES_MAX);
    }
    size_t cost = request->cost;
    bool page = request->op == REQUEST_RANGE, watch = request->op == REQUEST_WATCH;
    conn->pending++;
    conn->work_bytes += cost;
    conn->work_pages += page;
    conn->watches += watch;
    rc = server->host.submit(server->host.arg, request);
    if (rc != 0) {
        conn->pending--;
        conn->work_bytes -= cost;
        conn->work_pages -= page;
        conn->watches -= watch;
        request_free(request);
    }
    return rc;
}

static int take_frame(void *arg, struct slice frame) {
    struct server_conn *conn = arg;
    struct wire_call call;
    struct reason why = {{0}};
    bool numbered;
    int rc = wire_decode_call(conn->server->decoder, frame, &call, &numbered, &why);
    if (!numbered) {
        server_conn_refuse(conn, rc, &why);
        return LKV_EPROTOCOL;
    }
    if (rc == 0 && call.method != WIRE_PING) {
        rc = submit(conn, &call, &why);
    }
    if (rc != 0 || call.method == WIRE_PING) {
        if (conn->net != NULL) {
            if (call.method == WIRE_APPEND) {
                count_refused(conn, call.session != 0, rc);
            }
            server_reply_error(conn, call.number, rc, &why);
        }
    }
    if (conn->net == NULL) {
        return LKV_ECLOSED;
    }
    return must_pause(conn) ? WIRE_PAUSE : WIRE_MORE;
}

/* ------------------------------------------------------------------ input */

/* Keeps count of what half frames occupy; false: too much, and the connection is gone. */
static bool count_input(struct server_conn *conn) {
    struct server *server = conn->server;
    server->input_bytes -= conn->input_bytes;
    conn->input_bytes = conn->input.kept.size;
    server->input_bytes += conn->input_bytes;
    if (server->input_bytes > INPUT_BYTES_MAX && conn->input_bytes > 0) {
        struct reason why;
        (void)reason_set(&why, LKV_EBUSY, "half frames of all clients occupy %d bytes",
                         INPUT_BYTES_MAX);
        server_conn_refuse(conn, LKV_EBUSY, &why);
        return false;
    }
    return true;
}

/* The clock of a frame starts when it begins, and again with the next. */
static void time_frame(struct server_conn *conn, size_t kept_before) {
    if (conn->paused || conn->input_bytes == 0) {
        conn->frame_since_ns = 0;
    } else if (conn->frame_since_ns == 0 || conn->input_bytes < kept_before) {
        conn->frame_since_ns = loop_now_ns(conn->server->loop);
        server_look_soon(conn->server);
    }
}

/* The connection may be gone afterwards. */
static void feed(struct server_conn *conn, struct slice bytes) {
    struct reason why = {{0}};
    size_t kept_before = conn->input_bytes;
    conn->feeding = true;
    int rc = wire_input_feed(&conn->input, bytes, &wire_call_limits, take_frame, conn, &why);
    if (conn->net != NULL && rc < 0) {
        server_conn_refuse(conn, rc, &why);
    }
    if (conn->net != NULL && count_input(conn)) {
        server_conn_pause(conn, rc == WIRE_PAUSE || must_pause(conn));
        time_frame(conn, kept_before);
    }
    conn->feeding = false;
    resume_later(conn);
    conn_release(conn);
}

static void on_data(void *arg, struct slice bytes) {
    feed(arg, bytes);
}

/* False: the connection is gone. */
static bool send_held(struct server_conn *conn) {
    conn->pending++; /* closing may not free it yet */
    server_reply_flush(conn);
    conn->pending--;
    bool open = conn->net != NULL;
    resume_later(conn);
    conn_release(conn);
    return open;
}

static void on_drain(void *arg) {
    struct server_conn *conn = arg;
    conn->clogged = false;
    (void)send_held(conn);
}

static void on_close(void *arg, int rc) {
    (void)rc;
    conn_detach(arg);
}

static const struct net_conn_events conn_events = {
    .on_data = on_data, .on_drain = on_drain, .on_close = on_close};

struct server_conn *server_conn_new(struct server *server, struct net_conn *net) {
    struct server_conn *conn = mem_calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return NULL;
    }
    conn->server = server;
    conn->net = net;
    conn->number = ++server->conns_seen;
    conn->taken_bytes = UINT64_MAX;
    conn->refused_rc = LKV_ENOLEADER;
    wire_input_init(&conn->input);
    list_init(&conn->held);
    list_init(&conn->resume);
    list_push_back(&server->conns, &conn->link);
    server->conn_count++;
    server->conns_alive++;
    return conn;
}

void server_conn_start(struct server_conn *conn, struct slice first_bytes) {
    net_attach(conn->net, &conn_events, conn);
    conn->started = true;
    feed(conn, first_bytes);
}

void server_conn_resume(struct server_conn *conn) {
    feed(conn, (struct slice){0});
}

/* ------------------------------------------------------------------ slow connections */

static bool frame_is_late(const struct server_conn *conn, uint64_t now_ns) {
    uint64_t allowed_ns = (SLOW_S + conn->input_bytes / SLOW_BYTES_PER_S) * NS_PER_S;
    return conn->frame_since_ns != 0 && now_ns - conn->frame_since_ns >= allowed_ns;
}

/* Whether replies lie there and none of them has gone for too long. */
static bool output_is_stuck(struct server_conn *conn, uint64_t now_ns) {
    size_t queued = net_queued(conn->net);
    uint64_t taken = conn->sent_bytes - queued;
    if (queued == 0 || taken != conn->taken_bytes) {
        conn->taken_bytes = queued == 0 ? UINT64_MAX : taken;
        conn->taken_since_ns = now_ns;
        return false;
    }
    return now_ns - conn->taken_since_ns >= SLOW_S * NS_PER_S;
}

static bool close_if_stuck(struct server_conn *conn, uint64_t now_ns) {
    if (!output_is_stuck(conn, now_ns)) {
        return false;
    }
    trace_line(conn->server->options.trace, TRACE_WARN, "client_stuck",
               "%s takes no replies, %zu bytes wait", net_peer_name(conn->net),
               net_queued(conn->net));
    conn->server->trim_due = true;
    server_conn_close(conn);
    return true;
}

static bool refuse_if_late(struct server_conn *conn, uint64_t now_ns) {
    if (!frame_is_late(conn, now_ns)) {
        return false;
    }
    struct reason why;
    (void)reason_set(&why, LKV_EPROTOCOL, "%zu bytes of a frame in %" PRIu64 " s",
                     conn->input_bytes, (now_ns - conn->frame_since_ns) / NS_PER_S);
    server_conn_refuse(conn, LKV_EPROTOCOL, &why);
    return true;
}

bool server_conn_look(struct server_conn *conn, uint64_t now_ns) {
    if (!send_held(conn) || close_if_stuck(conn, now_ns) || refuse_if_late(conn, now_ns)) {
        return false;
    }
    return conn->frame_since_ns != 0 || net_queued(conn->net) > 0 || !list_empty(&conn->held);
}
