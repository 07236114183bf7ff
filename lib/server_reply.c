/* Replies on their way to a client: encoded once, handed to the network while it has room, and kept as
 * they are (values pinned in the store, not copied) while it has none. */
#include "lib/server_inside.h"

#include "base/mem.h"
#include "lib/client_wire.h"

enum { SCRATCH_BYTES_MAX = 64 * 1024 /* kept between replies */ };

void server_reply_count(struct server_conn *conn) {
    struct server *server = conn->server;
    size_t queued = conn->net != NULL ? net_queued(conn->net) : 0;
    server->output_bytes = server->output_bytes - conn->output_bytes + queued;
    conn->output_bytes = queued;
}

static void count_all(struct server *server) {
    uint64_t now_ns = loop_now_ns(server->loop);
    if (now_ns - server->counted_at_ns < SERVER_STARVED_NS) {
        return;
    }
    server->counted_at_ns = now_ns;
    for (struct list_link *at = server->conns.next; at != &server->conns; at = at->next) {
        server_reply_count(LIST_ITEM(at, struct server_conn, link));
    }
}

/* Whether all outputs together have no room. What has left one is not counted at once, so a full count
 * is taken again first. */
static bool is_full(struct server *server, size_t size) {
    if (server->output_bytes + size <= server->options.output_bytes_max) {
        return false;
    }
    count_all(server);
    return server->output_bytes + size > server->options.output_bytes_max;
}

/* Clients that never read must not take the memory of all; one that reads beside them gets on. A reply
 * that is larger than everything goes alone. */
static bool is_starved(const struct server_conn *conn, size_t size) {
    struct server *server = conn->server;
    return conn->output_bytes + size > SERVER_OUTPUT_SHARE && server->output_bytes > 0 &&
           is_full(server, size);
}

/* A reply larger than the limit goes alone. */
static int write_scratch(struct server_conn *conn) {
    struct slice frame = buffer_slice(&conn->server->scratch);
    server_reply_count(conn);
    conn->starved = is_starved(conn, frame.size);
    if (conn->starved) {
        return LKV_EBUSY;
    }
    bool alone = frame.size > SERVER_OUTPUT_BYTES_MAX && net_queued(conn->net) == 0;
    if (alone) {
        net_set_limit(conn->net, frame.size);
    }
    int rc = net_write(conn->net, frame);
    if (alone) {
        net_set_limit(conn->net, SERVER_OUTPUT_BYTES_MAX);
    }
    if (rc == 0) {
        conn->clogged = conn->clogged || alone;
        conn->sent_bytes += frame.size;
        server_reply_count(conn);
        server_look_soon(conn->server);
    }
    return rc;
}

/* 0, LKV_EBUSY: no room now; or LKV_ENOMEM: the client will never hear, so its connection goes. */
static int try_reply(struct server_conn *conn, uint64_t number, const struct lkv_msg *reply) {
    struct buffer *scratch = &conn->server->scratch;
    buffer_clear(scratch);
    wire_encode_reply(scratch, number, reply);
    int rc = scratch->failed ? LKV_ENOMEM : write_scratch(conn);
    if (scratch->capacity > SCRATCH_BYTES_MAX) {
        buffer_fini(scratch);
    }
    return rc;
}

/* Takes the message. */
static void hold(struct server_conn *conn, uint64_t number, struct lkv_msg *reply) {
    reply->tag = (void *)(uintptr_t)number;
    list_push_back(&conn->held, &reply->link);
    server_conn_pause(conn, true);
    server_look_soon(conn->server);
    if (conn->starved) {
        server_look_at(conn->server, loop_now_ns(conn->server->loop) + SERVER_STARVED_NS);
    }
}

void server_reply(struct server_conn *conn, uint64_t number, struct lkv_msg *reply) {
    int rc = list_empty(&conn->held) ? try_reply(conn, number, reply) : LKV_EBUSY;
    if (rc == LKV_EBUSY) {
        hold(conn, number, reply);
        return;
    }
    lkv_msg_free(reply);
    if (rc != 0) {
        server_conn_close(conn);
    }
}

void server_reply_flush(struct server_conn *conn) {
    server_reply_count(conn);
    if (conn->starved && is_full(conn->server, 0)) {
        return; /* to encode it again would be for nothing */
    }
    while (conn->net != NULL && !list_empty(&conn->held)) {
        struct lkv_msg *reply = LIST_ITEM(conn->held.next, struct lkv_msg, link);
        int rc = try_reply(conn, (uint64_t)(uintptr_t)reply->tag, reply);
        if (rc == LKV_EBUSY) {
            return;
        }
        list_remove(&reply->link);
        lkv_msg_free(reply);
        if (rc != 0) {
            server_conn_close(conn);
            return;
        }
    }
}

/* A call that never became a request. */
void server_reply_error(struct server_conn *conn, uint64_t number, int rc,
                        const struct reason *why) {
    struct lkv_msg *reply = msg_new(LKV_REPLY, NULL);
    if (reply == NULL) {
        server_conn_close(conn);
        return;
    }
    if (rc != 0) {
        msg_set_rc(reply, rc, "%s", why->text[0] != '\0' ? why->text : error_text(rc));
    }
    if (conn->refused_appends > 0) {
        msg_set_u64(reply, "refusals", conn->refused_appends);
    }
    server_reply(conn, number, reply);
}

void server_reply_drop(struct server_conn *conn) {
    for (struct list_link *link; (link = list_pop_front(&conn->held)) != NULL;) {
        lkv_msg_free(LIST_ITEM(link, struct lkv_msg, link));
    }
}
