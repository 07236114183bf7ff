/* What the files of the network share; nobody else includes this. All of it is loop thread. */
#ifndef LIB_UV_NET_INSIDE_H
#define LIB_UV_NET_INSIDE_H

#include "lib/uv/loop_inside.h"
#include "lib/uv/net_uv.h"
#include "lib/uv/output.h"
#include "lib/uv/resolver.h"

enum {
    LINGER_MS = 3000,
    READ_BUFFER_SIZE = 256 * 1024, /* one for all; untouched pages of it are never real */
    NET_LIMIT_DEFAULT = 64 * 1024 * 1024
};

struct net_uv {
    struct net base;
    struct loop_uv *loop;
    struct loop_hook hook;
    struct resolver *resolver; /* owned */
    uint8_t *read_buffer;      /* owned; of whoever reads just now */
    struct list_link conns;
    struct list_link listeners;
    struct list_link dirty;    /* conns with output or an error to deal with at the turn's end */
    struct list_link released; /* conns that their owner let go, oldest first */
    uv_timer_t linger_timer;   /* active while somebody is in `released` */
    size_t handles;            /* of libuv, not yet closed completely */
    size_t accepts_owed;       /* by listeners that were out of memory */
    size_t rotation;           /* which of a name's addresses is tried first */
};

/* Any kind of socket. */
union net_handle {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

/*
 *     LOOKING_UP ──> CONNECTING ──> OPEN ──> CLOSED       net_connect
 *                     │      ^                            (the arrow back: the next address)
 *                     └──────┘      OPEN ──> CLOSED       accepted
 *
 * CLOSED is reached from everywhere and lasts until libuv has let go of the handle.
 */
enum conn_state { CONN_LOOKING_UP, CONN_CONNECTING, CONN_OPEN, CONN_CLOSED };

struct conn {
    struct net_conn base;
    struct net_uv *net;
    union net_handle at;
    struct list_link link;
    struct list_link dirty;
    struct list_link released; /* on net->released once let go by close_after_flush */
    enum conn_state state;
    bool is_unix;

    struct net_conn_events events;
    void *arg;
    bool attached;
    bool let_go; /* the owner hears nothing more; close when the output is out */
    bool paused;
    bool reading;
    bool ended;        /* the other end sends nothing more (only of a conn let go) */
    bool shutting;     /* our own end is announced (likewise) */
    uint64_t until_ms; /* of a conn let go */
    int error;         /* to be told at the turn's end */

    struct output output;
    bool writing; /* the first `in_flight` bytes of output are libuv's */
    size_t in_flight;
    size_t limit;
    bool drain_due; /* on_drain when no more than `drain_at` bytes are queued */
    size_t drain_at;

    uv_write_t write;
    uv_shutdown_t shutdown;

    /* of net_connect */
    uv_connect_t connect;
    struct lookup *lookup;                   /* while LOOKING_UP */
    size_t address_count, address_at, tried; /* in a ring */
    struct sockaddr_storage *addresses;      /* owned */
    char peer_name[ADDRESS_TEXT_SIZE];
};

struct listener {
    struct net_listener base;
    struct net_uv *net;
    union net_handle at;
    struct list_link link;
    bool is_unix;
    bool closed;
    bool owes_accept; /* a connection waits because there was no memory for it */
    void (*on_accept)(void *arg, struct net_conn *conn);
    void *arg;
    char address[ADDRESS_TEXT_SIZE];
};

static inline struct net_uv *net_uv_of(struct net *net) {
    return (struct net_uv *)(void *)net;
}

static inline struct conn *conn_of(struct net_conn *conn) {
    return (struct conn *)(void *)conn;
}

/* ---- conn.c ---- */

/* With an open libuv handle and no socket yet; NULL when out of memory. */
struct conn *conn_new(struct net_uv *net, bool is_unix);

void conn_new_handle(struct conn *conn); /* another one; the one before is closed */
void conn_close_handle(struct conn *conn);

/* The socket is connected: of accept, or of connect. */
void conn_opened(struct conn *conn);

void conn_attach(struct net_conn *base, const struct net_conn_events *events, void *arg);
int conn_write(struct net_conn *base, struct slice bytes);
int conn_write_blob(struct net_conn *base, struct blob *blob);
size_t conn_queued(const struct net_conn *base);
void conn_set_limit(struct net_conn *base, size_t limit);
void conn_pause(struct net_conn *base, bool paused);
void conn_close(struct net_conn *base);
void conn_close_after_flush(struct net_conn *base);
const char *conn_peer_name(const struct net_conn *base);

void conn_end(struct conn *conn, int rc); /* tells the owner, then lets go of everything */
void conn_discard(struct conn *conn);     /* without telling */
void conn_flush(struct conn *conn);
void conn_mark_dirty(struct conn *conn);
void conn_start_reading(struct conn *conn); /* unless it is not open, not attached, or paused */

/* ---- net_uv.c ---- */

void net_uv_linger(struct conn *conn); /* closes it after LINGER_MS */

/* ---- connect.c ---- */

int net_uv_connect(struct net *base, const char *address, const struct net_conn_events *events,
                   void *arg, struct net_conn **out);
void connect_next(struct conn *conn); /* its handle has been closed: on to the next address */
void connect_given_up(struct conn *conn);

/* ---- listen.c ---- */

int net_uv_listen(struct net *base, const char *address,
                  void (*on_accept)(void *arg, struct net_conn *conn), void *arg,
                  struct net_listener **out, struct reason *why);
const char *listener_address(const struct net_listener *base);
void listener_close(struct net_listener *base);
void listeners_accept_owed(struct net_uv *net);

#endif
