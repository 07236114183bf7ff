/* Listeners and accepting. */
#include "base/assert.h"
#include "base/mem.h"
#include "lib/uv/net_inside.h"
#include "lib/uv/socket_posix.h"

#include <stdio.h>

enum { BACKLOG = 511 };

static struct listener *listener_of(struct net_listener *listener) {
    return (struct listener *)(void *)listener;
}

/* ---- Accepting ---- */

static void name_peer(struct conn *conn, const struct listener *listener) {
    struct sockaddr_storage peer;
    int size = sizeof(peer);
    if (listener->is_unix) {
        memcpy(conn->peer_name, listener->address, sizeof(conn->peer_name));
    } else if (uv_tcp_getpeername(&conn->at.tcp, (struct sockaddr *)&peer, &size) == 0) {
        address_format((const struct sockaddr *)&peer, conn->peer_name);
    } else {
        (void)snprintf(conn->peer_name, sizeof(conn->peer_name), "?"); /* it has gone again */
    }
}

static void accept_one(struct listener *listener) {
    struct net_uv *net = listener->net;
    struct conn *conn = conn_new(net, listener->is_unix);
    if (conn == NULL) {
        /* libuv does not ask again until this one is taken. */
        listener->owes_accept = true;
        net->accepts_owed++;
        return;
    }
    if (uv_accept(&listener->at.stream, &conn->at.stream) != 0) {
        conn_discard(conn);
        return;
    }
    conn_opened(conn);
    name_peer(conn, listener);
    loop_uv_mark_active(net->loop);
    listener->on_accept(listener->arg, &conn->base);
}

/* A failure (out of descriptors, for one) is about a connection that nobody has; libuv has already
 * closed it, and goes on. */
static void on_connection(uv_stream_t *stream, int status) {
    if (status == 0) {
        accept_one(stream->data);
    }
}

static void forgive_accept(struct listener *listener) {
    if (listener->owes_accept) {
        listener->owes_accept = false;
        listener->net->accepts_owed--;
    }
}

void listeners_accept_owed(struct net_uv *net) {
    struct list_link *next;
    for (struct list_link *link = net->listeners.next;
         net->accepts_owed > 0 && link != &net->listeners; link = next) {
        next = link->next;
        struct listener *listener = LIST_ITEM(link, struct listener, link);
        if (listener->owes_accept) {
            forgive_accept(listener);
            accept_one(listener);
            return; /* one for each turn: on_accept may have closed the next listener */
        }
    }
}

/* ---- Closing ---- */

static void on_listener_closed(uv_handle_t *handle) {
    struct listener *listener = handle->data;
    listener->net->handles--;
    mem_free(listener);
}

void listener_close(struct net_listener *base) {
    struct listener *listener = listener_of(base);
    ASSERT(!listener->closed);
    listener->closed = true;
    forgive_accept(listener);
    list_remove(&listener->link);
    uv_close(&listener->at.handle, on_listener_closed); /* removes the file of a unix socket */
}

const char *listener_address(const struct net_listener *base) {
    return ((const struct listener *)(const void *)base)->address;
}

/* ---- Listening ---- */

static struct listener *new_listener(struct net_uv *net, bool is_unix) {
    struct listener *listener = mem_calloc(1, sizeof(*listener));
    if (listener == NULL) {
        return NULL;
    }
    uv_loop_t *uv = &net->loop->uv;
    listener->base.net = &net->base;
    listener->net = net;
    listener->is_unix = is_unix;
    int rc = is_unix ? uv_pipe_init(uv, &listener->at.pipe, 0) : uv_tcp_init(uv, &listener->at.tcp);
    ASSERT(rc == 0); /* it makes no socket yet */
    listener->at.handle.data = listener;
    net->handles++;
    list_push_back(&net->listeners, &listener->link);
    return listener;
}

static int refuse(struct reason *why, const char *address, int status) {
    if (status == UV_EADDRINUSE) {
        return reason_set(why, LKV_EADDRINUSE, "cannot listen on %s: the address is in use",
                          address);
    }
    if (status == UV_EACCES || status == UV_EPERM) {
        return reason_set(why, LKV_EPERM, "cannot listen on %s: permission denied", address);
    }
    if (status == UV_EADDRNOTAVAIL) {
        return reason_set(why, LKV_EINVAL, "cannot listen on %s: it is no address of this machine",
                          address);
    }
    int rc = status == UV_ENOMEM ? LKV_ENOMEM : status == UV_EINVAL ? LKV_EINVAL : LKV_EIO;
    return reason_set(why, rc, "cannot listen on %s: %s", address, uv_strerror(status));
}

static void learn_address(struct listener *listener) {
    struct sockaddr_storage own;
    int size = sizeof(own);
    int rc = uv_tcp_getsockname(&listener->at.tcp, (struct sockaddr *)&own, &size);
    ASSERT(rc == 0);
    address_format((const struct sockaddr *)&own, listener->address);
}

static int listen_tcp(struct net_uv *net, const struct sockaddr *to, struct listener **out) {
    struct listener *listener = new_listener(net, false);
    if (listener == NULL) {
        return UV_ENOMEM;
    }
    int status = uv_tcp_bind(&listener->at.tcp, to, 0);
    if (status == 0) {
        status = uv_listen(&listener->at.stream, BACKLOG, on_connection);
    }
    if (status != 0) {
        listener_close(&listener->base);
        return status;
    }
    learn_address(listener);
    *out = listener;
    return 0;
}

static int listen_name(struct net_uv *net, const struct address *to, struct listener **out) {
    struct lookup_result found;
    resolve_now(to->host, to->port, &found);
    int status = found.rc == LKV_ENOMEM ? UV_ENOMEM : UV_EAI_NONAME;
    for (size_t i = 0; i < found.count; i++) {
        status = listen_tcp(net, (const struct sockaddr *)&found.addresses[i], out);
        if (status == 0) {
            break;
        }
    }
    return status;
}

static int listen_unix(struct net_uv *net, const struct address *to, struct listener **out) {
    if (socket_remove_stale(to->path) != 0) {
        return UV_EADDRINUSE;
    }
    struct listener *listener = new_listener(net, true);
    if (listener == NULL) {
        return UV_ENOMEM;
    }
    int status = uv_pipe_bind(&listener->at.pipe, to->path);
    if (status == 0 && socket_make_private(to->path) != 0) {
        status = UV_EPERM;
    }
    if (status == 0) {
        status = uv_listen(&listener->at.stream, BACKLOG, on_connection);
    }
    if (status != 0) {
        listener_close(&listener->base);
        return status;
    }
    (void)snprintf(listener->address, sizeof(listener->address), "unix:%s", to->path);
    *out = listener;
    return 0;
}

int net_uv_listen(struct net *base, const char *address,
                  void (*on_accept)(void *arg, struct net_conn *conn), void *arg,
                  struct net_listener **out, struct reason *why) {
    *out = NULL;
    struct net_uv *net = net_uv_of(base);
    struct address to;
    int rc = address_parse(address, &to, why);
    if (rc != 0) {
        return rc;
    }
    struct listener *listener = NULL;
    int status = 0;
    switch (to.kind) {
    case ADDRESS_NUMERIC:
        status = listen_tcp(net, (const struct sockaddr *)&to.socket, &listener);
        break;
    case ADDRESS_NAME: status = listen_name(net, &to, &listener); break;
    case ADDRESS_UNIX: status = listen_unix(net, &to, &listener); break;
    }
    if (status != 0) {
        return refuse(why, address, status);
    }
    listener->on_accept = on_accept;
    listener->arg = arg;
    *out = &listener->base;
    return 0;
}
