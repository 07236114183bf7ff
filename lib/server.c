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
#include "lib/server.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/server_call.h"
#include "lib/wire_input.h"

#include <inttypes.h>

#define NS_PER_S UINT64_C(1000000000)

enum {
    WORK_BYTES_MAX = 16 * 1024 * 1024,   /* cost of a connection's requests; then it pauses */
    OUTPUT_BYTES_MAX = 4 * 1024 * 1024,  /* replies that a client has not taken; then they wait */
    INPUT_BYTES_MAX = 256 * 1024 * 1024, /* beginnings of frames, of all connections together */
    SCRATCH_BYTES_MAX = 64 * 1024,       /* kept between replies */
    SLOW_S = 10,                         /* a frame's first bytes, or a client that takes nothing */
    SLOW_BYTES_PER_S = 64 * 1024,        /* of the rest of a frame */
    LOOK_S = 1                           /* between looks at slow connections */
};

struct server {
    struct loop *loop;
    struct server_options options;
    struct server_host host;
    struct limits limits;
    struct wire_decoder *decoder; /* owned */
    struct buffer scratch;        /* the reply being encoded */
    struct list_link conns;       /* open ones */
    struct list_link resumable;   /* conns to go on reading, by their `resume` */
    size_t conn_count;            /* open ones */
    size_t conns_alive;           /* with those that only wait for their requests */
    size_t input_bytes;           /* kept in all inputs */
    uint64_t look_at_ns;          /* at slow connections; UINT64_MAX: none can be */
    bool closed;
};

struct conn {
    struct list_link link, resume;
    struct server *server;
    struct net_conn *net; /* NULL: closed */
    struct wire_input input;
    size_t input_bytes; /* counted in the server's */
    bool feeding;       /* the input is on the stack below */
    bool paused;
    size_t pending;        /* requests in work */
    size_t work_bytes;     /* their cost */
    struct list_link held; /* finished replies that wait for room, number in the tag */

    uint64_t frame_since_ns; /* a frame is half here since; 0: none is */
    uint64_t sent_bytes;     /* replies handed to the network, in total */
    uint64_t taken_bytes;    /* of them, gone when last looked; UINT64_MAX: all */
    uint64_t taken_since_ns; /* that number has not grown since */
};

/* ------------------------------------------------------------------ life of a connection */

static void release(struct server *server) {
    if (server->closed && server->conns_alive == 0) {
        wire_decoder_free(server->decoder);
        buffer_fini(&server->scratch);
        mem_free(server);
    }
}

/* Frees what nobody uses any more. */
static void conn_release(struct conn *conn) {
    if (conn->net != NULL || conn->pending > 0 || conn->feeding) {
        return;
    }
    struct server *server = conn->server;
    server->input_bytes -= conn->input_bytes;
    wire_input_fini(&conn->input);
    mem_free(conn);
    server->conns_alive--;
    release(server);
}

static void drop_held(struct conn *conn) {
    for (struct list_link *link; (link = list_pop_front(&conn->held)) != NULL;) {
        lkv_msg_free(LIST_ITEM(link, struct lkv_msg, link));
    }
}

/* After it the connection must not be touched, unless `feeding` or `pending` keeps it. */
static void conn_detach(struct conn *conn) {
    list_remove(&conn->link);
    list_remove(&conn->resume);
    drop_held(conn);
    conn->net = NULL;
    conn->server->conn_count--;
    conn_release(conn);
}

static void conn_close(struct conn *conn) {
    if (conn->net != NULL) {
        net_close(conn->net);
        conn_detach(conn);
    }
}

/* The reason is the last that the client hears. */
static void conn_refuse(struct conn *conn, int rc, const struct reason *why) {
    if (conn->net == NULL) {
        return;
    }
    trace_line(conn->server->options.trace, TRACE_WARN, "client_refused", "%s: %s",
               net_peer_name(conn->net), why->text);
    struct buffer *scratch = &conn->server->scratch;
    buffer_clear(scratch);
    wire_encode_refusal(scratch, rc, why->text);
    if (scratch->failed || net_write(conn->net, buffer_slice(scratch)) != 0) {
        conn_close(conn);
        return;
    }
    net_close_after_flush(conn->net);
    conn_detach(conn);
}

/* ------------------------------------------------------------------ replies */

static void look_soon(struct server *server) {
    if (server->look_at_ns == UINT64_MAX) {
        server->look_at_ns = loop_now_ns(server->loop) + LOOK_S * NS_PER_S;
    }
}

/* A reply larger than the limit goes alone. */
static int write_scratch(struct conn *conn) {
    struct slice frame = buffer_slice(&conn->server->scratch);
    bool alone = frame.size > OUTPUT_BYTES_MAX && net_queued(conn->net) == 0;
    if (alone) {
        net_set_limit(conn->net, frame.size);
    }
    int rc = net_write(conn->net, frame);
    if (alone) {
        net_set_limit(conn->net, OUTPUT_BYTES_MAX);
    }
    if (rc == 0) {
        conn->sent_bytes += frame.size;
        look_soon(conn->server);
    }
    return rc;
}

/* 0, LKV_EBUSY: no room now; or LKV_ENOMEM: the client will never hear, so its connection goes. */
static int try_reply(struct conn *conn, uint64_t number, const struct lkv_msg *reply) {
    struct buffer *scratch = &conn->server->scratch;
    buffer_clear(scratch);
    wire_encode_reply(scratch, number, reply);
    int rc = scratch->failed ? LKV_ENOMEM : write_scratch(conn);
    if (scratch->capacity > SCRATCH_BYTES_MAX) {
        buffer_fini(scratch);
    }
    return rc;
}

static void set_paused(struct conn *conn, bool paused) {
    if (paused) {
        conn->frame_since_ns = 0; /* it is not the client who makes its frame wait */
    }
    if (conn->paused != paused) {
        conn->paused = paused;
        net_pause(conn->net, paused);
    }
}

/* Takes the message. */
static void hold(struct conn *conn, uint64_t number, struct lkv_msg *reply) {
    reply->tag = (void *)(uintptr_t)number;
    list_push_back(&conn->held, &reply->link);
    set_paused(conn, true);
    look_soon(conn->server);
}

static void reply_or_hold(struct conn *conn, uint64_t number, struct lkv_msg *reply) {
    int rc = list_empty(&conn->held) ? try_reply(conn, number, reply) : LKV_EBUSY;
    if (rc == LKV_EBUSY) {
        hold(conn, number, reply);
        return;
    }
    lkv_msg_free(reply);
    if (rc != 0) {
        conn_close(conn);
    }
}

static void flush_held(struct conn *conn) {
    while (conn->net != NULL && !list_empty(&conn->held)) {
        struct lkv_msg *reply = LIST_ITEM(conn->held.next, struct lkv_msg, link);
        int rc = try_reply(conn, (uint64_t)(uintptr_t)reply->tag, reply);
        if (rc == LKV_EBUSY) {
            return;
        }
        list_remove(&reply->link);
        lkv_msg_free(reply);
        if (rc != 0) {
            conn_close(conn);
            return;
        }
    }
}

/* A call that never became a request. */
static void reply_error(struct conn *conn, uint64_t number, int rc, const struct reason *why) {
    struct lkv_msg *reply = msg_new(LKV_REPLY, NULL);
    if (reply == NULL) {
        conn_close(conn);
        return;
    }
    if (rc != 0) {
        msg_set_rc(reply, rc, "%s", why->text[0] != '\0' ? why->text : error_text(rc));
    }
    reply_or_hold(conn, number, reply);
}

/* ------------------------------------------------------------------ requests */

static bool must_pause(const struct conn *conn) {
    return conn->work_bytes > WORK_BYTES_MAX || !list_empty(&conn->held);
}

/* Going on means submitting, which must not happen inside of the host's own calls: see
 * server_expire. */
static void resume_later(struct conn *conn) {
    if (conn->net != NULL && conn->paused && !must_pause(conn) && list_empty(&conn->resume)) {
        list_push_back(&conn->server->resumable, &conn->resume);
    }
}

static void on_finish(struct request *request) {
    struct conn *conn = request->owner;
    ASSERT(conn->pending > 0 && conn->work_bytes >= request->cost);
    conn->pending--;
    conn->work_bytes -= request->cost;
    if (conn->net == NULL) {
        conn_release(conn);
        return;
    }
    struct lkv_msg *reply = request->reply;
    request->reply = NULL;
    conn->pending++; /* closing may not free it yet */
    reply_or_hold(conn, (uint64_t)(uintptr_t)request->tag, reply);
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

static int submit(struct conn *conn, const struct wire_call *call, struct reason *why) {
    struct server *server = conn->server;
    struct request *request;
    int rc = server_call_request(call, &server->limits, &request, why);
    if (rc != 0) {
        return rc;
    }
    request->deadline_ns = deadline_of(server, call);
    request->on_finish = on_finish;
    request->owner = conn;
    request->tag = (void *)(uintptr_t)call->number;
    size_t cost = request->cost;
    conn->pending++;
    conn->work_bytes += cost;
    rc = server->host.submit(server->host.arg, request);
    if (rc != 0) {
        conn->pending--;
        conn->work_bytes -= cost;
        request_free(request);
    }
    return rc;
}

static int take_frame(void *arg, struct slice frame) {
    struct conn *conn = arg;
    struct wire_call call;
    struct reason why = {{0}};
    bool numbered;
    int rc = wire_decode_call(conn->server->decoder, frame, &call, &numbered, &why);
    if (!numbered) {
        conn_refuse(conn, rc, &why);
        return LKV_EPROTOCOL;
    }
    if (rc == 0 && call.method != WIRE_PING) {
        rc = submit(conn, &call, &why);
    }
    if (rc != 0 || call.method == WIRE_PING) {
        if (conn->net != NULL) {
            reply_error(conn, call.number, rc, &why);
        }
    }
    if (conn->net == NULL) {
        return LKV_ECLOSED;
    }
    return must_pause(conn) ? WIRE_PAUSE : WIRE_MORE;
}

/* ------------------------------------------------------------------ input */

/* Keeps count of what half frames occupy; false: too much, and the connection is gone. */
static bool count_input(struct conn *conn) {
    struct server *server = conn->server;
    server->input_bytes -= conn->input_bytes;
    conn->input_bytes = conn->input.kept.size;
    server->input_bytes += conn->input_bytes;
    if (server->input_bytes > INPUT_BYTES_MAX && conn->input_bytes > 0) {
        struct reason why;
        (void)reason_set(&why, LKV_EBUSY, "half frames of all clients occupy %d bytes",
                         INPUT_BYTES_MAX);
        conn_refuse(conn, LKV_EBUSY, &why);
        return false;
    }
    return true;
}

/* The clock of a frame starts when it begins, and again with the next. */
static void time_frame(struct conn *conn, size_t kept_before) {
    if (conn->paused || conn->input_bytes == 0) {
        conn->frame_since_ns = 0;
    } else if (conn->frame_since_ns == 0 || conn->input_bytes < kept_before) {
        conn->frame_since_ns = loop_now_ns(conn->server->loop);
        look_soon(conn->server);
    }
}

/* The connection may be gone afterwards. */
static void feed(struct conn *conn, struct slice bytes) {
    struct reason why = {{0}};
    size_t kept_before = conn->input_bytes;
    conn->feeding = true;
    int rc = wire_input_feed(&conn->input, bytes, &wire_call_limits, take_frame, conn, &why);
    if (conn->net != NULL && rc < 0) {
        conn_refuse(conn, rc, &why);
    }
    if (conn->net != NULL && count_input(conn)) {
        set_paused(conn, rc == WIRE_PAUSE);
        time_frame(conn, kept_before);
    }
    conn->feeding = false;
    resume_later(conn);
    conn_release(conn);
}

static void on_data(void *arg, struct slice bytes) {
    feed(arg, bytes);
}

static void on_drain(void *arg) {
    struct conn *conn = arg;
    conn->pending++; /* closing may not free it yet */
    flush_held(conn);
    conn->pending--;
    resume_later(conn);
    conn_release(conn);
}

static void on_close(void *arg, int rc) {
    (void)rc;
    conn_detach(arg);
}

/* ------------------------------------------------------------------ slow connections */

static bool frame_is_late(const struct conn *conn, uint64_t now_ns) {
    uint64_t allowed_ns = (SLOW_S + conn->input_bytes / SLOW_BYTES_PER_S) * NS_PER_S;
    return conn->frame_since_ns != 0 && now_ns - conn->frame_since_ns >= allowed_ns;
}

/* Whether replies lie there and none of them has gone for too long. */
static bool output_is_stuck(struct conn *conn, uint64_t now_ns) {
    size_t queued = net_queued(conn->net);
    uint64_t taken = conn->sent_bytes - queued;
    if (queued == 0 || taken != conn->taken_bytes) {
        conn->taken_bytes = queued == 0 ? UINT64_MAX : taken;
        conn->taken_since_ns = now_ns;
        return false;
    }
    return now_ns - conn->taken_since_ns >= SLOW_S * NS_PER_S;
}

/* True while it has to be looked at again. */
static bool look_at(struct conn *conn, uint64_t now_ns) {
    struct reason why = {{0}};
    if (output_is_stuck(conn, now_ns)) {
        trace_line(conn->server->options.trace, TRACE_WARN, "client_stuck",
                   "%s takes no replies, %zu bytes wait", net_peer_name(conn->net),
                   net_queued(conn->net));
        conn_close(conn);
        return false;
    }
    if (frame_is_late(conn, now_ns)) {
        (void)reason_set(&why, LKV_EPROTOCOL, "%zu bytes of a frame in %" PRIu64 " s",
                         conn->input_bytes, (now_ns - conn->frame_since_ns) / NS_PER_S);
        conn_refuse(conn, LKV_EPROTOCOL, &why);
        return false;
    }
    return conn->frame_since_ns != 0 || net_queued(conn->net) > 0 || !list_empty(&conn->held);
}

static void look_at_all(struct server *server, uint64_t now_ns) {
    bool again = false;
    struct list_link *next;
    for (struct list_link *link = server->conns.next; link != &server->conns; link = next) {
        next = link->next;
        again = look_at(LIST_ITEM(link, struct conn, link), now_ns) || again;
    }
    server->look_at_ns = again ? now_ns + LOOK_S * NS_PER_S : UINT64_MAX;
}

uint64_t server_expire(struct server *server, uint64_t now_ns) {
    struct list_link batch;
    list_init(&batch);
    /* Only those that wait now: one that pauses again does so for the next turn. */
    while (!list_empty(&server->resumable)) {
        list_push_back(&batch, list_pop_front(&server->resumable));
    }
    for (struct list_link *link; (link = list_pop_front(&batch)) != NULL;) {
        feed(LIST_ITEM(link, struct conn, resume), (struct slice){0});
    }
    if (now_ns >= server->look_at_ns) {
        look_at_all(server, now_ns);
    }
    return list_empty(&server->resumable) ? server->look_at_ns : now_ns;
}

/* ------------------------------------------------------------------ the server */

int server_open(struct server **out, struct loop *loop, const struct server_options *options,
                const struct server_host *host) {
    *out = NULL;
    struct server *server = mem_calloc(1, sizeof(*server));
    if (server == NULL) {
        return LKV_ENOMEM;
    }
    server->decoder = wire_decoder_new();
    if (server->decoder == NULL) {
        mem_free(server);
        return LKV_ENOMEM;
    }
    server->loop = loop;
    server->options = *options;
    server->host = *host;
    server->limits = (struct limits){.key_bytes_max = options->key_bytes_max,
                                     .value_bytes_max = options->value_bytes_max};
    buffer_init(&server->scratch);
    list_init(&server->conns);
    list_init(&server->resumable);
    server->look_at_ns = UINT64_MAX;
    *out = server;
    return 0;
}

static const struct net_conn_events conn_events = {
    .on_data = on_data, .on_drain = on_drain, .on_close = on_close};

static struct conn *conn_new(struct server *server, struct net_conn *net) {
    struct conn *conn = mem_calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return NULL;
    }
    conn->server = server;
    conn->net = net;
    conn->taken_bytes = UINT64_MAX;
    wire_input_init(&conn->input);
    list_init(&conn->held);
    list_init(&conn->resume);
    list_push_back(&server->conns, &conn->link);
    server->conn_count++;
    server->conns_alive++;
    return conn;
}

void server_adopt(struct server *server, struct net_conn *net, struct slice first_bytes) {
    struct conn *conn = server->closed ? NULL : conn_new(server, net);
    if (conn == NULL) {
        net_close(net);
        return;
    }
    net_set_limit(net, OUTPUT_BYTES_MAX);
    if (server->conn_count > server->options.connections_max) {
        struct reason why;
        (void)reason_set(&why, LKV_EBUSY, "connections_max is %" PRIu64,
                         server->options.connections_max);
        conn_refuse(conn, LKV_EBUSY, &why);
        return;
    }
    net_attach(net, &conn_events, conn);
    feed(conn, first_bytes);
}

size_t server_connections(const struct server *server) {
    return server != NULL ? server->conn_count : 0;
}

void server_close(struct server *server) {
    if (server == NULL) {
        return;
    }
    server->conns_alive++; /* closing the last connection may not free it yet */
    server->closed = true;
    while (!list_empty(&server->conns)) {
        conn_close(LIST_ITEM(server->conns.next, struct conn, link));
    }
    server->conns_alive--;
    release(server);
}
