/* net_connect: a lookup if the address is a name, then one address after the other. */
#include "base/assert.h"
#include "base/mem.h"
#include "lib/uv/net_inside.h"

#include <stdio.h>
#include <sys/un.h>

static void on_connected(uv_connect_t *connect, int status);

static int start(struct conn *conn) {
    conn->state = CONN_CONNECTING;
    conn->connect.data = conn;
    const struct sockaddr *to = (const struct sockaddr *)&conn->addresses[conn->address_at];
    address_format(to, conn->peer_name);
    if (conn->is_unix) {
        const struct sockaddr_un *local = (const struct sockaddr_un *)(const void *)to;
        uv_pipe_connect(&conn->connect, &conn->at.pipe, local->sun_path, on_connected);
        return 0;
    }
    return uv_tcp_connect(&conn->connect, &conn->at.tcp, to, on_connected);
}

static int connect_error(const struct conn *conn, int status) {
    if (status == UV_ENOMEM) {
        return LKV_ENOMEM;
    }
    /* Of TCP it is a packet filter that says so, and the next attempt may pass. */
    if (conn->is_unix && (status == UV_EACCES || status == UV_EPERM)) {
        return LKV_EPERM;
    }
    return LKV_EUNREACHABLE;
}

static void attempt_failed(struct conn *conn, int status) {
    conn->tried++;
    if (conn->tried == conn->address_count) {
        conn_end(conn, connect_error(conn, status));
        return;
    }
    conn->address_at = (conn->address_at + 1) % conn->address_count;
    conn_close_handle(conn); /* a socket connects once; connect_next follows */
}

void connect_next(struct conn *conn) {
    conn_new_handle(conn);
    int status = start(conn);
    if (status != 0) {
        attempt_failed(conn, status);
    }
}

/* An address that swallows packets must not be the first choice for ever. */
void connect_given_up(struct conn *conn) {
    conn->net->rotation++;
    if (conn->lookup != NULL) {
        resolver_cancel(conn->lookup);
        conn->lookup = NULL;
    }
}

static void on_connected(uv_connect_t *connect, int status) {
    struct conn *conn = connect->data;
    if (conn->state == CONN_CLOSED || uv_is_closing(&conn->at.handle)) {
        return;
    }
    if (status != 0) {
        attempt_failed(conn, status);
        return;
    }
    conn_opened(conn);
    if (!conn->let_go && conn->events.on_open != NULL) {
        loop_uv_mark_active(conn->net->loop);
        conn->events.on_open(conn->arg);
    }
    conn_start_reading(conn);
}

static void on_looked_up(void *arg, const struct lookup_result *result) {
    struct conn *conn = arg;
    conn->lookup = NULL;
    if (result->rc != 0) {
        conn_end(conn, result->rc);
        return;
    }
    conn->addresses = mem_calloc(result->count, sizeof(*conn->addresses));
    if (conn->addresses == NULL) {
        conn_end(conn, LKV_ENOMEM);
        return;
    }
    memcpy(conn->addresses, result->addresses, result->count * sizeof(*conn->addresses));
    conn->address_count = result->count;
    conn->address_at = conn->net->rotation % result->count;
    int status = start(conn);
    if (status != 0) {
        attempt_failed(conn, status);
    }
}

static int start_lookup(struct conn *conn, const struct address *to) {
    conn->state = CONN_LOOKING_UP;
    return resolver_start(conn->net->resolver, to->host, to->port, on_looked_up, conn,
                          &conn->lookup);
}

static int start_known(struct conn *conn, const struct address *to) {
    conn->addresses = mem_calloc(1, sizeof(*conn->addresses));
    if (conn->addresses == NULL) {
        return LKV_ENOMEM;
    }
    conn->address_count = 1;
    if (conn->is_unix) {
        struct sockaddr_un *local = (struct sockaddr_un *)(void *)conn->addresses;
        local->sun_family = AF_UNIX;
        memcpy(local->sun_path, to->path, sizeof(local->sun_path));
    } else {
        conn->addresses[0] = to->socket;
    }
    int status = start(conn);
    return status == 0 ? 0 : connect_error(conn, status);
}

int net_uv_connect(struct net *base, const char *address, const struct net_conn_events *events,
                   void *arg, struct net_conn **out) {
    *out = NULL;
    struct address to;
    int rc = address_parse(address, &to, NULL);
    if (rc != 0) {
        return rc;
    }
    struct conn *conn = conn_new(net_uv_of(base), to.kind == ADDRESS_UNIX);
    if (conn == NULL) {
        return LKV_ENOMEM;
    }
    (void)snprintf(conn->peer_name, sizeof(conn->peer_name), "%s", address);
    rc = to.kind == ADDRESS_NAME ? start_lookup(conn, &to) : start_known(conn, &to);
    if (rc != 0) {
        conn_discard(conn);
        return rc;
    }
    conn->events = *events;
    conn->arg = arg;
    conn->attached = true;
    *out = &conn->base;
    return 0;
}
