/* What the files of the clients' server share; nobody else includes this. Loop thread. */
#ifndef LIB_SERVER_INSIDE_H
#define LIB_SERVER_INSIDE_H

#include "lib/limits.h"
#include "lib/server.h"
#include "lib/wire_input.h"

#define NS_PER_S UINT64_C(1000000000)

/* Between looks at clients that wait until others' outputs have room. */
#define SERVER_STARVED_NS (NS_PER_S / 20)

enum {
    SERVER_OUTPUT_BYTES_MAX = 256 * 1024, /* replies not taken by a client; then they wait */
    SERVER_OUTPUT_SHARE = 16 * 1024,      /* of them, what even a client among many hoarders gets */
    SERVER_LOOK_S = 1                     /* between looks at slow connections */
};

struct wire_decoder;

/* A reply that waits keeps its number in its tag. */
_Static_assert(sizeof(uintptr_t) >= sizeof(uint64_t), "a tag holds a number of 64 bits");

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
    uint64_t conns_seen;          /* numbers them, from 1 */
    size_t input_bytes;           /* kept in all inputs */
    size_t output_bytes;    /* queued in all outputs, as last counted: never less than it is */
    uint64_t counted_at_ns; /* all of them */
    uint64_t look_at_ns;    /* at slow connections; UINT64_MAX: none can be */
    bool trim_due;          /* much may have been freed: at the next look, when it is */
    bool closed;
};

struct server_conn {
    struct list_link link, resume;
    struct server *server;
    uint64_t number;      /* of no other connection of this server */
    struct net_conn *net; /* NULL: closed */
    struct wire_input input;
    size_t input_bytes; /* counted in the server's */
    bool feeding;       /* the input is on the stack below */
    bool started;       /* calls are taken from it */
    bool paused;
    size_t pending;        /* requests in work */
    size_t work_bytes;     /* their cost */
    size_t work_pages;     /* of them, ranges */
    size_t watches;        /* of them, watches: they wait, and do not keep it from being read */
    struct list_link held; /* finished replies that wait for room, number in the tag */
    uint64_t refused_appends;
    int refused_rc;              /* of what is behind the last of them */
    struct append_place appends; /* of its requests in work */

    uint64_t frame_since_ns; /* a frame is half here since; 0: none is */
    size_t output_bytes;     /* queued, as counted in the server's */
    bool starved;            /* its next reply waits for others' outputs, not for its own */
    bool clogged; /* a reply larger than the limit is on its way, and not half of it is gone */
    uint64_t sent_bytes;     /* replies handed to the network, in total */
    uint64_t taken_bytes;    /* of them, gone when last looked; UINT64_MAX: all */
    uint64_t taken_since_ns; /* that number has not grown since */
};

/* ---- server.c ---- */

void server_look_soon(struct server *server); /* some connection may be slow */
void server_look_at(struct server *server, uint64_t at_ns);
void server_release(struct server *server); /* frees it, if nobody needs it any more */

/* ---- server_conn.c ---- */

struct server_conn *server_conn_new(struct server *server, struct net_conn *net); /* or NULL */
void server_conn_start(struct server_conn *conn, struct slice first_bytes);

/* After any of these the connection must not be touched. */
void server_conn_close(struct server_conn *conn);
void server_conn_refuse(struct server_conn *conn, int rc,
                        const struct reason *why); /* last words */
void server_conn_resume(struct server_conn *conn); /* reading, after a pause */

void server_conn_pause(struct server_conn *conn, bool paused);
bool server_conn_look(struct server_conn *conn, uint64_t now_ns); /* true: look at it again */

/* ---- server_reply.c ---- */

/* Takes the reply; it may have to wait, or the connection may be closed. */
void server_reply(struct server_conn *conn, uint64_t number, struct lkv_msg *reply);
void server_reply_error(struct server_conn *conn, uint64_t number, int rc,
                        const struct reason *why); /* rc 0: an empty reply */
void server_reply_flush(struct server_conn *conn); /* those that wait */
void server_reply_drop(struct server_conn *conn);
void server_reply_count(struct server_conn *conn); /* anew what it has queued */

#endif
