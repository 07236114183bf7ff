/* Replies on their way to a client: encoded once, handed to the network while it has room, and kept as
 * they are (values pinned in the store, not copied) while it has none. */
#include "lib/server_inside.h"

#include "base/mem.h"
#include "lib/client_wire.h"

enum { SCRATCH_BYTES_MAX = 64 * 1024 /* kept between replies */ };

/* A reply larger than the limit goes alone. */
static int write_scratch(struct server_conn *conn) {
    struct slice frame = buffer_slice(&conn->server->scratch);
    bool alone = frame.size > SERVER_OUTPUT_BYTES_MAX && net_queued(conn->net) == 0;
    if (alone) {
        net_set_limit(conn->net, frame.size);
    }
    int rc = net_write(conn->net, frame);
    if (alone) {
        net_set_limit(conn->net, SERVER_OUTPUT_BYTES_MAX);
    }
    if (rc == 0) {
        conn->sent_bytes += frame.size;
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
    server_reply(conn, number, reply);
}

void server_reply_drop(struct server_conn *conn) {
    for (struct list_link *link; (link = list_pop_front(&conn->held)) != NULL;) {
        lkv_msg_free(LIST_ITEM(link, struct lkv_msg, link));
    }
}
