#include "tests/support/paper_net.h"

#include "base/assert.h"
#include "base/buffer.h"
#include "base/list.h"
#include "base/prng.h"

#include <stdio.h>
#include <stdlib.h>

enum { LIMIT_DEFAULT = 64 * 1024 * 1024, CHUNK_DEFAULT = 256 * 1024, ADDRESS_MAX = 300 };

struct paper {
    uint64_t now_ns;
    size_t chunk;
    struct prng prng;
    struct list_link loops, nets, listeners, conns, cuts;
};

struct paper_loop {
    struct loop base;
    struct list_link link;
    struct paper *paper;
    uint64_t timer_ns;
    bool awake, active;
};

struct paper_net {
    struct net base;
    struct list_link link;
    struct paper_loop *loop;
};

struct paper_listener {
    struct net_listener base;
    struct list_link link;
    struct paper_net *net;
    char address[ADDRESS_MAX];
    void (*on_accept)(void *arg, struct net_conn *conn);
    void *arg;
};

struct paper_conn {
    struct net_conn base;
    struct list_link link;
    struct paper_net *net;
    struct paper_conn *peer;   /* NULL: not connected yet, or gone */
    char address[ADDRESS_MAX]; /* of the listener at one of the ends */
    const struct net_conn_events *events;
    void *arg;
    bool connecting, paused, closed, closing;
    bool ended; /* the peer closed: told when its bytes were read */
    int end_rc;
    struct buffer out;
    size_t limit, drain_at;
    bool drain_due;
};

struct cut {
    struct list_link link;
    char address[ADDRESS_MAX];
};

static void *make(size_t size) {
    void *made = calloc(1, size);
    ASSERT(made != NULL);
    return made;
}

/* ------------------------------------------------------------------ loops */

static struct paper_loop *loop_of(const struct loop *loop) {
    return (struct paper_loop *)(void *)(uintptr_t)loop;
}

static uint64_t now_ns(const struct loop *loop) {
    return loop_of(loop)->paper->now_ns;
}

static uint64_t random_bits(struct loop *loop) {
    return prng_next(&loop_of(loop)->paper->prng);
}

static void timer_set(struct loop *loop, uint64_t at_ns) {
    loop_of(loop)->timer_ns = at_ns;
}

static void wake(struct loop *loop) {
    loop_of(loop)->awake = true;
}

static const struct loop_ops loop_ops = {.now_ns = now_ns,
                                         .wall_ms = now_ns,
                                         .random = random_bits,
                                         .timer_set = timer_set,
                                         .wake = wake};

struct loop *paper_loop(struct paper *paper, const struct loop_events *events) {
    struct paper_loop *loop = make(sizeof(*loop));
    loop->base = (struct loop){.ops = &loop_ops, .events = *events};
    loop->paper = paper;
    loop->timer_ns = UINT64_MAX;
    list_push_back(&paper->loops, &loop->link);
    return &loop->base;
}

/* ------------------------------------------------------------------ network: the calls */

static struct paper_conn *conn_of(const struct net_conn *conn) {
    return (struct paper_conn *)(void *)(uintptr_t)conn;
}

static struct paper_conn *conn_new(struct paper_net *net, const char *address) {
    struct paper_conn *conn = make(sizeof(*conn));
    conn->base.net = &net->base;
    conn->net = net;
    conn->limit = LIMIT_DEFAULT;
    (void)snprintf(conn->address, sizeof(conn->address), "%s", address);
    buffer_init(&conn->out);
    list_push_back(&net->loop->paper->conns, &conn->link);
    return conn;
}

static int listen_at(struct net *base, const char *address,
                     void (*on_accept)(void *arg, struct net_conn *conn), void *arg,
                     struct net_listener **out, struct reason *why) {
    (void)why;
    struct paper_net *net = (struct paper_net *)(void *)base;
    struct paper_listener *listener = make(sizeof(*listener));
    listener->base.net = base;
    listener->net = net;
    listener->on_accept = on_accept;
    listener->arg = arg;
    (void)snprintf(listener->address, sizeof(listener->address), "%s", address);
    list_push_back(&net->loop->paper->listeners, &listener->link);
    *out = &listener->base;
    return 0;
}

static const char *listener_address(const struct net_listener *base) {
    return ((const struct paper_listener *)(const void *)base)->address;
}

static void listener_close(struct net_listener *base) {
    struct paper_listener *listener = (struct paper_listener *)(void *)base;
    list_remove(&listener->link);
    free(listener);
}

static int connect_to(struct net *base, const char *address, const struct net_conn_events *events,
                      void *arg, struct net_conn **out) {
    struct paper_conn *conn = conn_new((struct paper_net *)(void *)base, address);
    conn->events = events;
    conn->arg = arg;
    conn->connecting = true;
    *out = &conn->base;
    return 0;
}

static void attach(struct net_conn *base, const struct net_conn_events *events, void *arg) {
    struct paper_conn *conn = conn_of(base);
    ASSERT(!conn->closed);
    conn->events = events;
    conn->arg = arg;
}

static bool has_room(struct paper_conn *conn, size_t size) {
    size_t queued = conn->out.size;
    if (queued <= conn->limit && size <= conn->limit - queued) {
        return true;
    }
    if (queued > 0) {
        size_t level = queued < conn->limit ? queued / 2 : conn->limit / 2;
        conn->drain_at = conn->drain_due && conn->drain_at < level ? conn->drain_at : level;
        conn->drain_due = true;
    }
    return false;
}

static int write_bytes(struct net_conn *base, struct slice bytes) {
    struct paper_conn *conn = conn_of(base);
    ASSERT(!conn->closed && !conn->closing);
    if (!has_room(conn, bytes.size)) {
        return LKV_EBUSY;
    }
    buffer_append(&conn->out, bytes.data, bytes.size);
    if (!conn->drain_due && conn->out.size > conn->limit / 2) {
        conn->drain_due = true;
        conn->drain_at = conn->limit / 2;
    }
    return conn->out.failed ? LKV_ENOMEM : 0;
}

static int write_blob(struct net_conn *base, struct blob *blob) {
    return write_bytes(base, blob_slice(blob));
}

static size_t queued(const struct net_conn *base) {
    return conn_of(base)->out.size;
}

static void set_limit(struct net_conn *base, size_t limit) {
    conn_of(base)->limit = limit;
}

static void set_paused(struct net_conn *base, bool paused) {
    ASSERT(!conn_of(base)->closed);
    conn_of(base)->paused = paused;
}

/* The peer hears of it when it has read what was delivered. */
static void drop(struct paper_conn *conn, int rc_for_peer) {
    conn->closed = true;
    buffer_fini(&conn->out);
    if (conn->peer != NULL) {
        conn->peer->ended = true;
        conn->peer->end_rc = rc_for_peer;
        conn->peer->peer = NULL;
        conn->peer = NULL;
    }
}

static void close_conn(struct net_conn *base) {
    ASSERT(!conn_of(base)->closed);
    drop(conn_of(base), 0);
}

static void close_after_flush(struct net_conn *base) {
    conn_of(base)->closing = true;
}

static const char *peer_name(const struct net_conn *base) {
    return conn_of(base)->address;
}

static const struct net_ops net_ops = {.listen = listen_at,
                                       .listener_address = listener_address,
                                       .listener_close = listener_close,
                                       .connect = connect_to,
                                       .attach = attach,
                                       .write = write_bytes,
                                       .write_blob = write_blob,
                                       .queued = queued,
                                       .set_limit = set_limit,
                                       .pause = set_paused,
                                       .close = close_conn,
                                       .close_after_flush = close_after_flush,
                                       .peer_name = peer_name};

struct net *paper_net(struct paper *paper, struct loop *loop) {
    struct paper_net *net = make(sizeof(*net));
    net->base.ops = &net_ops;
    net->loop = loop_of(loop);
    list_push_back(&paper->nets, &net->link);
    return &net->base;
}

/* ------------------------------------------------------------------ network: what happens */

static bool is_cut(const struct paper *paper, const char *address) {
    for (struct list_link *at = paper->cuts.next; at != &paper->cuts; at = at->next) {
        if (strcmp(LIST_ITEM(at, struct cut, link)->address, address) == 0) {
            return true;
        }
    }
    return false;
}

static struct paper_listener *find_listener(const struct paper *paper, const char *address) {
    for (struct list_link *at = paper->listeners.next; at != &paper->listeners; at = at->next) {
        struct paper_listener *listener = LIST_ITEM(at, struct paper_listener, link);
        if (strcmp(listener->address, address) == 0) {
            return listener;
        }
    }
    return NULL;
}

static void hear(struct paper_conn *conn) {
    conn->net->loop->active = true;
}

static void end(struct paper_conn *conn, int rc) {
    drop(conn, rc);
    if (!conn->closing && conn->events != NULL) {
        hear(conn);
        conn->events->on_close(conn->arg, rc);
    }
}

static bool step_connecting(struct paper *paper, struct paper_conn *conn) {
    struct paper_listener *listener = find_listener(paper, conn->address);
    conn->connecting = false;
    if (listener == NULL) {
        end(conn, LKV_EUNREACHABLE);
        return true;
    }
    struct paper_conn *accepted = conn_new(listener->net, conn->address);
    conn->peer = accepted;
    accepted->peer = conn;
    hear(accepted);
    listener->on_accept(listener->arg, &accepted->base);
    if (!conn->closed) {
        hear(conn);
        conn->events->on_open(conn->arg);
    }
    return true;
}

/* Hands the front of `from`'s output to its peer. */
static bool step_output(const struct paper *paper, struct paper_conn *from) {
    struct paper_conn *to = from->peer;
    if (from->out.size == 0 || to == NULL || to->paused || to->events == NULL) {
        return false;
    }
    size_t size = from->out.size < paper->chunk ? from->out.size : paper->chunk;
    uint8_t *bytes = malloc(size);
    ASSERT(bytes != NULL);
    memcpy(bytes, from->out.data, size);
    buffer_consume(&from->out, size);
    if (!to->closing) {
        hear(to);
        to->events->on_data(to->arg, slice_of(bytes, size));
    }
    free(bytes);
    if (!from->closed && from->drain_due && from->out.size <= from->drain_at && !from->closing) {
        from->drain_due = false;
        if (from->events->on_drain != NULL) {
            hear(from);
            from->events->on_drain(from->arg);
        }
    }
    return true;
}

static bool step_conn(struct paper *paper, struct paper_conn *conn) {
    if (conn->closed || is_cut(paper, conn->address)) {
        return false;
    }
    if (conn->connecting) {
        return step_connecting(paper, conn);
    }
    if (step_output(paper, conn)) {
        return true;
    }
    if ((conn->ended && !conn->paused) ||
        (conn->closing && (conn->out.size == 0 || conn->peer == NULL))) {
        end(conn, conn->end_rc);
        return true;
    }
    return false;
}

void paper_cut(struct paper *paper, const char *address, bool cut) {
    for (struct list_link *at = paper->cuts.next, *next; at != &paper->cuts; at = next) {
        next = at->next;
        struct cut *old = LIST_ITEM(at, struct cut, link);
        if (strcmp(old->address, address) == 0) {
            list_remove(at);
            free(old);
        }
    }
    if (cut) {
        struct cut *made = make(sizeof(*made));
        (void)snprintf(made->address, sizeof(made->address), "%s", address);
        list_push_back(&paper->cuts, &made->link);
    }
}

void paper_reset(struct paper *paper, const char *address) {
    for (struct list_link *at = paper->conns.next; at != &paper->conns; at = at->next) {
        struct paper_conn *conn = LIST_ITEM(at, struct paper_conn, link);
        if (!conn->closed && !conn->connecting && strcmp(conn->address, address) == 0) {
            buffer_clear(&conn->out);
            conn->ended = true;
            conn->end_rc = LKV_EIO;
        }
    }
}

/* ------------------------------------------------------------------ the paper */

static bool step_loops(struct paper *paper) {
    bool happened = false;
    for (struct list_link *at = paper->loops.next; at != &paper->loops; at = at->next) {
        struct paper_loop *loop = LIST_ITEM(at, struct paper_loop, link);
        if (loop->awake) {
            loop->awake = false;
            loop->active = true;
            loop->base.events.on_wake(loop->base.events.arg);
        }
        if (loop->timer_ns <= paper->now_ns) {
            loop->timer_ns = UINT64_MAX;
            loop->active = true;
            loop->base.events.on_timer(loop->base.events.arg);
        }
        if (loop->active) {
            loop->active = false;
            happened = true;
            loop->base.events.on_turn_end(loop->base.events.arg);
        }
    }
    return happened;
}

void paper_run(struct paper *paper) {
    bool happened = true;
    while (happened) {
        happened = false;
        for (struct list_link *at = paper->conns.next; at != &paper->conns; at = at->next) {
            happened = step_conn(paper, LIST_ITEM(at, struct paper_conn, link)) || happened;
        }
        happened = step_loops(paper) || happened;
    }
}

static uint64_t next_timer(const struct paper *paper) {
    uint64_t next_ns = UINT64_MAX;
    for (struct list_link *at = paper->loops.next; at != &paper->loops; at = at->next) {
        uint64_t at_ns = LIST_ITEM(at, struct paper_loop, link)->timer_ns;
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    return next_ns;
}

void paper_advance(struct paper *paper, uint64_t time_ms) {
    uint64_t end_ns = paper->now_ns + time_ms * 1000000;
    paper_run(paper);
    for (uint64_t at_ns; (at_ns = next_timer(paper)) <= end_ns;) {
        paper->now_ns = at_ns > paper->now_ns ? at_ns : paper->now_ns;
        paper_run(paper);
    }
    paper->now_ns = end_ns;
    paper_run(paper);
}

uint64_t paper_now_ns(const struct paper *paper) {
    return paper->now_ns;
}

void paper_chunk(struct paper *paper, size_t size) {
    paper->chunk = size;
}

size_t paper_open_conns(const struct paper *paper) {
    size_t count = 0;
    for (struct list_link *at = paper->conns.next; at != &paper->conns; at = at->next) {
        count += LIST_ITEM(at, struct paper_conn, link)->closed ? 0 : 1;
    }
    return count;
}

struct paper *paper_new(void) {
    struct paper *paper = make(sizeof(*paper));
    paper->now_ns = UINT64_C(1000000000000);
    paper->chunk = CHUNK_DEFAULT;
    paper->prng = prng_of(1);
    list_init(&paper->loops);
    list_init(&paper->nets);
    list_init(&paper->listeners);
    list_init(&paper->conns);
    list_init(&paper->cuts);
    return paper;
}

void paper_free(struct paper *paper) {
    struct list_link *link;
    while ((link = list_pop_front(&paper->conns)) != NULL) {
        struct paper_conn *conn = LIST_ITEM(link, struct paper_conn, link);
        buffer_fini(&conn->out);
        free(conn);
    }
    while ((link = list_pop_front(&paper->listeners)) != NULL) {
        free(LIST_ITEM(link, struct paper_listener, link));
    }
    while ((link = list_pop_front(&paper->cuts)) != NULL) {
        free(LIST_ITEM(link, struct cut, link));
    }
    while ((link = list_pop_front(&paper->nets)) != NULL) {
        free(LIST_ITEM(link, struct paper_net, link));
    }
    while ((link = list_pop_front(&paper->loops)) != NULL) {
        free(LIST_ITEM(link, struct paper_loop, link));
    }
    free(paper);
}
