/* The network seam: byte streams between addresses. An address is "HOST:PORT", "[V6]:PORT" or
 * "unix:PATH". All calls and all callbacks are on the loop's thread.
 */
#ifndef BASE_NET_H
#define BASE_NET_H

#include "base/blob.h"
#include "base/error.h"

struct net;
struct net_listener;
struct net_conn;

/* A connection's owner. After on_close, or after net_close returns, no callback follows and the
 * connection must not be used. A callback may call net_close on its own connection. */
struct net_conn_events {
    void (*on_open)(void *arg);                     /* of net_connect: connected */
    void (*on_data)(void *arg, struct slice bytes); /* valid until it returns */
    void (*on_drain)(void *arg);                    /* queued bytes fell to half of high water */
    void (*on_close)(void *arg, int rc);            /* 0: the other end closed; or an error */
};

struct net_ops {
    /* `on_accept` owns each connection from then on: it must net_attach or net_close it. With port
     * 0 the system chooses; `net_listener_address` tells. LKV_EADDRINUSE, LKV_EPERM, LKV_EINVAL. */
    int (*listen)(struct net *net, const char *address,
                  void (*on_accept)(void *arg, struct net_conn *conn), void *arg,
                  struct net_listener **out, struct reason *why);
    const char *(*listener_address)(const struct net_listener *listener); /* until it closes */
    void (*listener_close)(struct net_listener *listener);
    /* Resolves the name anew each time, without blocking the loop. A failure later is on_close. */
    int (*connect)(struct net *net, const char *address, const struct net_conn_events *events,
                   void *arg, struct net_conn **out);
    void (*attach)(struct net_conn *conn, const struct net_conn_events *events, void *arg);
    /* Queues bytes; they leave together at the end of the loop's turn. `write` copies, `write_blob`
     * takes a reference of its own. LKV_EBUSY when more than `limit` bytes would be queued (then
     * nothing is queued); LKV_ENOMEM. */
    int (*write)(struct net_conn *conn, struct slice bytes);
    int (*write_blob)(struct net_conn *conn, struct blob *blob);
    size_t (*queued)(const struct net_conn *conn);          /* bytes not yet given to the system */
    void (*set_limit)(struct net_conn *conn, size_t limit); /* default 64 MiB */
    void (*pause)(struct net_conn *conn, bool paused);      /* stop or resume reading */
    void (*close)(struct net_conn *conn);                   /* what is queued is dropped */
    /* Sends what is queued, then closes; no callback follows. */
    void (*close_after_flush)(struct net_conn *conn);
    const char *(*peer_name)(const struct net_conn *conn); /* "127.0.0.1:40312", for people */
};

struct net {
    const struct net_ops *ops;
};
struct net_listener {
    struct net *net;
};
struct net_conn {
    struct net *net;
};

static inline MUST_USE int net_listen(struct net *net, const char *address,
                                      void (*on_accept)(void *arg, struct net_conn *conn),
                                      void *arg, struct net_listener **out, struct reason *why) {
    return net->ops->listen(net, address, on_accept, arg, out, why);
}
static inline const char *net_listener_address(const struct net_listener *listener) {
    return listener->net->ops->listener_address(listener);
}
static inline void net_listener_close(struct net_listener *listener) {
    if (listener != NULL) {
        listener->net->ops->listener_close(listener);
    }
}
static inline MUST_USE int net_connect(struct net *net, const char *address,
                                       const struct net_conn_events *events, void *arg,
                                       struct net_conn **out) {
    return net->ops->connect(net, address, events, arg, out);
}
static inline void net_attach(struct net_conn *conn, const struct net_conn_events *events,
                              void *arg) {
    conn->net->ops->attach(conn, events, arg);
}
static inline MUST_USE int net_write(struct net_conn *conn, struct slice bytes) {
    return conn->net->ops->write(conn, bytes);
}
static inline MUST_USE int net_write_blob(struct net_conn *conn, struct blob *blob) {
    return conn->net->ops->write_blob(conn, blob);
}
static inline size_t net_queued(const struct net_conn *conn) {
    return conn->net->ops->queued(conn);
}
static inline void net_set_limit(struct net_conn *conn, size_t limit) {
    conn->net->ops->set_limit(conn, limit);
}
static inline void net_pause(struct net_conn *conn, bool paused) {
    conn->net->ops->pause(conn, paused);
}
static inline void net_close(struct net_conn *conn) {
    if (conn != NULL) {
        conn->net->ops->close(conn);
    }
}
static inline void net_close_after_flush(struct net_conn *conn) {
    conn->net->ops->close_after_flush(conn);
}
static inline const char *net_peer_name(const struct net_conn *conn) {
    return conn->net->ops->peer_name(conn);
}

#endif
