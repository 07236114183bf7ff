#include "tests/sim/sim_net_conn.h"

#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

enum { SYN_ATTEMPTS_MAX = 7, GHOST = SIM_HOSTS_MAX };

#define SECOND_NS UINT64_C(1000000000)

bool sim_net_blocked(const struct sim_net *net, unsigned from, unsigned to) {
    if (from == GHOST || to == GHOST) {
        return false;
    }
    return net->time->now_ns < net->cut_until_ns[from][to] ||
           net->hosts[from].state == SIM_HOST_OFF || net->hosts[to].state == SIM_HOST_OFF;
}

uint64_t sim_net_latency(struct sim_net *net) {
    const struct sim_net_options *options = &net->options;
    bool spread = options->latency_max_ns > options->latency_min_ns; /* not in every simpler plan */
    uint64_t spread_ns = spread ? options->latency_max_ns - options->latency_min_ns : 0;
    uint64_t ns = options->latency_min_ns + prng_below(&net->prng, spread_ns + 1);
    bool spike = prng_below(&net->prng, 1000) < options->spike_permille;
    net->counts.spikes += spike;
    return spike ? ns + prng_below(&net->prng, options->spike_ns + 1) : ns;
}

void sim_net_address(unsigned host, char out[static SIM_ADDRESS_SIZE]) {
    (void)snprintf(out, SIM_ADDRESS_SIZE, "10.0.0.%u:7001", host + 1);
}

/* ------------------------------------------------------------------ listeners */

static struct sim_listener *find_listener(const struct sim_host *host, const char *address) {
    for (struct list_link *at = host->listeners.next; at != &host->listeners; at = at->next) {
        struct sim_listener *listener = LIST_ITEM(at, struct sim_listener, link);
        if (strcmp(listener->address, address) == 0) {
            return listener;
        }
    }
    return NULL;
}

static int net_listen_sim(struct net *base, const char *address,
                          void (*on_accept)(void *arg, struct net_conn *conn), void *arg,
                          struct net_listener **out, struct reason *why) {
    struct sim_host *host = sim_host_of(base);
    if (strncmp(address, "unix:", 5) == 0 || strlen(address) >= SIM_ADDRESS_SIZE) {
        return reason_set(why, LKV_EPERM, "%s: no such sockets in here", address);
    }
    if (find_listener(host, address) != NULL) {
        return reason_set(why, LKV_EADDRINUSE, "%s is in use", address);
    }
    struct sim_listener *listener = calloc(1, sizeof(*listener));
    ASSERT(listener != NULL);
    listener->base.net = base;
    (void)snprintf(listener->address, sizeof(listener->address), "%s", address);
    listener->on_accept = on_accept;
    listener->arg = arg;
    list_push_back(&host->listeners, &listener->link);
    *out = &listener->base;
    return 0;
}

static const char *listener_address(const struct net_listener *base) {
    return ((const struct sim_listener *)(const void *)base)->address;
}

static void listener_close(struct net_listener *base) {
    struct sim_listener *listener = (struct sim_listener *)(void *)base;
    list_remove(&listener->link);
    free(listener);
}

/* ------------------------------------------------------------------ dialing */

static struct sim_host *host_by_address(struct sim_net *net, const char *address) {
    for (unsigned i = 0; i < net->host_count; i++) {
        char own[SIM_ADDRESS_SIZE];
        sim_net_address(i, own);
        if (strcmp(own, address) == 0) {
            return &net->hosts[i];
        }
    }
    return NULL;
}

static int net_connect_sim(struct net *base, const char *address,
                           const struct net_conn_events *events, void *arg, struct net_conn **out) {
    struct sim_host *host = sim_host_of(base);
    const struct sim_host *to = host_by_address(host->network, address);
    if (to == NULL) {
        return LKV_EINVAL;
    }
    struct sim_conn *conn = sim_conn_new(host);
    conn->events = *events;
    conn->arg = arg;
    conn->attached = conn->dialed = true;
    conn->peer_host = to->number;
    (void)snprintf(conn->address, sizeof(conn->address), "%s", address);
    sim_event_in(host->network->time, &conn->event, sim_net_latency(host->network));
    *out = &conn->base;
    return 0;
}

static void accept_now(struct sim_conn *conn) {
    struct sim_listener *listener = find_listener(conn->host, conn->address);
    conn->accepted = false;
    if (listener == NULL) {
        sim_conn_close(conn, SIM_END_RESET);
        return;
    }
    listener->on_accept(listener->arg, &conn->base);
    ASSERT(conn->closed || conn->attached || conn->let_go);
}

static struct sim_conn *arrive(struct sim_host *at, const char *address, unsigned from) {
    struct sim_conn *conn = sim_conn_new(at);
    conn->state = SIM_CONN_OPEN;
    conn->accepted = true;
    conn->peer_host = from;
    (void)snprintf(conn->address, sizeof(conn->address), "%s", address);
    sim_event_in(at->network->time, &conn->event, 0);
    return conn;
}

static void give_up(struct sim_conn *conn) {
    sim_conn_close(conn, SIM_END_SILENT);
    conn->events.on_close(conn->arg, LKV_EUNREACHABLE);
}

static void begin_recording(struct sim_conn *conn) {
    struct sim_net *net = conn->host->network;
    struct sim_recording *recording = &net->recordings[net->recorded % SIM_RECORDINGS];
    for (size_t i = 0; i < net->host_count; i++) { /* one recorder for each slot */
        struct list_link *conns = &net->hosts[i].conns;
        for (struct list_link *at = conns->next; at != conns; at = at->next) {
            struct sim_conn *other = LIST_ITEM(at, struct sim_conn, link);
            other->recording = other->recording == recording ? NULL : other->recording;
        }
    }
    net->recorded++;
    recording->to = conn->peer_host;
    recording->size = 0;
    conn->recording = recording;
}

/* The first packet arrives, is refused, or is lost and sent again. */
void sim_conn_dial(struct sim_conn *conn) {
    if (conn->accepted) {
        accept_now(conn);
        if (!conn->closed) {
            sim_conn_plan(conn);
        }
        return;
    }
    struct sim_net *net = conn->host->network;
    struct sim_host *to = &net->hosts[conn->peer_host];
    if (sim_net_blocked(net, conn->host->number, to->number) ||
        sim_net_blocked(net, to->number, conn->host->number)) {
        if (conn->attempts == SYN_ATTEMPTS_MAX) {
            give_up(conn);
            return;
        }
        uint64_t pause_ns =
            net->options.retransmit_backoff ? SECOND_NS << conn->attempts : SECOND_NS / 10;
        conn->attempts += net->options.retransmit_backoff ? 1 : 0;
        sim_event_in(net->time, &conn->event, pause_ns);
        return;
    }
    conn->attempts = 0;
    if (find_listener(to, conn->address) == NULL) {
        net->counts.refused++;
        give_up(conn);
        return;
    }
    conn->peer = arrive(to, conn->address, conn->host->number);
    conn->peer->peer = conn;
    conn->state = SIM_CONN_OPENING;
    begin_recording(conn);
    sim_event_in(net->time, &conn->event, sim_net_latency(net));
}

/* ------------------------------------------------------------------ the seam's calls */

static void conn_attach(struct net_conn *base, const struct net_conn_events *events, void *arg) {
    struct sim_conn *conn = sim_conn_of(base);
    ASSERT(!conn->closed && !conn->let_go);
    conn->events = *events;
    conn->arg = arg;
    conn->attached = true;
    sim_conn_plan(conn);
}

static int conn_write(struct net_conn *base, struct slice bytes) {
    struct sim_conn *conn = sim_conn_of(base);
    ASSERT(!conn->closed && !conn->let_go);
    if (conn->host->state != SIM_HOST_LIVE) {
        return 0; /* it is dead, and does not know */
    }
    if (conn->out_size + bytes.size > conn->limit) {
        conn->drain_due = true;
        return LKV_EBUSY;
    }
    if (conn->out_size + bytes.size > conn->out_capacity) {
        conn->out_capacity = (conn->out_size + bytes.size) * 2;
        conn->out = realloc(conn->out, conn->out_capacity);
        ASSERT(conn->out != NULL);
    }
    if (bytes.size > 0) {
        memcpy(conn->out + conn->out_size, bytes.data, bytes.size);
    }
    conn->out_size += bytes.size;
    conn->drain_due = conn->drain_due || conn->out_size > conn->limit / 2;
    sim_conn_mark_dirty(conn);
    return 0;
}

static int conn_write_blob(struct net_conn *base, struct blob *blob) {
    return conn_write(base, blob_slice(blob));
}

static size_t conn_queued(const struct net_conn *base) {
    return ((const struct sim_conn *)(const void *)base)->out_size;
}

static void conn_set_limit(struct net_conn *base, size_t limit) {
    sim_conn_of(base)->limit = limit;
}

static void conn_pause(struct net_conn *base, bool paused) {
    struct sim_conn *conn = sim_conn_of(base);
    ASSERT(!conn->closed);
    conn->paused = paused;
    sim_conn_plan(conn);
}

static enum sim_conn_end end_of(const struct sim_host *host) {
    return host->state == SIM_HOST_OFF ? SIM_END_SILENT : SIM_END_FIN;
}

static void conn_close(struct net_conn *base) {
    struct sim_conn *conn = sim_conn_of(base);
    ASSERT(!conn->let_go);
    sim_conn_close(conn, end_of(conn->host));
}

static void conn_close_after_flush(struct net_conn *base) {
    struct sim_conn *conn = sim_conn_of(base);
    if (conn->closed) {
        return;
    }
    conn->let_go = true;
    if (conn->host->state == SIM_HOST_LIVE) {
        sim_conn_mark_dirty(conn);
        sim_conn_plan(conn);
    } else {
        sim_conn_close(conn, end_of(conn->host));
    }
}

static const char *conn_peer_name(const struct net_conn *base) {
    return ((const struct sim_conn *)(const void *)base)->address;
}

static const struct net_ops ops = {.listen = net_listen_sim,
                                   .listener_address = listener_address,
                                   .listener_close = listener_close,
                                   .connect = net_connect_sim,
                                   .attach = conn_attach,
                                   .write = conn_write,
                                   .write_blob = conn_write_blob,
                                   .queued = conn_queued,
                                   .set_limit = conn_set_limit,
                                   .pause = conn_pause,
                                   .close = conn_close,
                                   .close_after_flush = conn_close_after_flush,
                                   .peer_name = conn_peer_name};

/* ------------------------------------------------------------------ hosts */

void sim_net_init(struct sim_net *net, struct sim_time *time, uint64_t seed, size_t hosts,
                  const struct sim_net_options *options) {
    ASSERT(hosts <= SIM_HOSTS_MAX);
    *net = (struct sim_net){
        .time = time, .prng = prng_of(seed), .options = *options, .host_count = hosts};
    for (unsigned i = 0; i < hosts; i++) {
        struct sim_host *host = &net->hosts[i];
        host->base.ops = &ops;
        host->network = net;
        host->number = i;
        host->state = SIM_HOST_IDLE;
        list_init(&host->conns);
        list_init(&host->dirty);
        list_init(&host->listeners);
    }
}

void sim_net_fini(struct sim_net *net) {
    for (size_t i = 0; i < net->host_count; i++) {
        ASSERT(list_empty(&net->hosts[i].conns) && list_empty(&net->hosts[i].listeners));
    }
}

void sim_host_up(struct sim_host *host, struct sim_loop *loop) {
    host->state = SIM_HOST_LIVE;
    host->loop = loop;
}

void sim_host_down(struct sim_host *host, bool power) {
    host->state = power ? SIM_HOST_OFF : SIM_HOST_IDLE;
}

void sim_host_forget(struct sim_host *host) {
    while (!list_empty(&host->conns)) {
        sim_conn_close(LIST_ITEM(host->conns.next, struct sim_conn, link), end_of(host));
    }
    while (!list_empty(&host->listeners)) {
        listener_close(&LIST_ITEM(host->listeners.next, struct sim_listener, link)->base);
    }
    host->loop = NULL;
}

void sim_host_flush(struct sim_host *host) {
    struct list_link dirty;
    list_init(&dirty);
    struct list_link *link;
    while ((link = list_pop_front(&host->dirty)) != NULL) {
        list_push_back(&dirty, link);
    }
    while ((link = list_pop_front(&dirty)) != NULL) {
        sim_conn_flush(LIST_ITEM(link, struct sim_conn, dirty));
    }
}

/* ------------------------------------------------------------------ faults */

void sim_net_cut(struct sim_net *net, unsigned from, unsigned to, uint64_t until_ns) {
    uint64_t *at = &net->cut_until_ns[from][to];
    *at = until_ns > *at ? until_ns : *at;
}

void sim_net_mend(struct sim_net *net, unsigned from, unsigned to) {
    net->cut_until_ns[from][to] = 0;
}

void sim_net_mend_all(struct sim_net *net) {
    memset(net->cut_until_ns, 0, sizeof(net->cut_until_ns));
}

static struct sim_conn *nth_conn(const struct sim_host *host, uint64_t n) {
    struct list_link *at = host->conns.next;
    for (; n > 0 && at != &host->conns; n--) {
        at = at->next;
    }
    return at == &host->conns ? NULL : LIST_ITEM(at, struct sim_conn, link);
}

bool sim_net_reset(struct sim_net *net, unsigned host) {
    struct sim_conn *conn = nth_conn(&net->hosts[host], prng_below(&net->prng, 8));
    if (conn == NULL || conn->peer == NULL) {
        return false;
    }
    struct sim_conn *peer = conn->peer;
    conn->peer = peer->peer = NULL;
    sim_conn_ends(conn, LKV_EIO, prng_below(&net->prng, 2) == 0);
    sim_conn_ends(peer, LKV_EIO, prng_below(&net->prng, 2) == 0);
    net->counts.resets++;
    return true;
}

static const struct sim_recording *draw_recording(struct sim_net *net) {
    size_t have = net->recorded < SIM_RECORDINGS ? net->recorded : SIM_RECORDINGS;
    return have > 0 ? &net->recordings[prng_below(&net->prng, have)] : NULL;
}

static bool is_of_peer(const struct sim_recording *recording) {
    return recording->size > 0 && recording->bytes[0] == 'L';
}

static bool replay(struct sim_net *net, const struct sim_recording *recording, size_t size) {
    struct sim_host *to = &net->hosts[recording->to];
    char address[SIM_ADDRESS_SIZE];
    sim_net_address(recording->to, address);
    if (size == 0 || to->state != SIM_HOST_LIVE || find_listener(to, address) == NULL) {
        return false;
    }
    struct sim_conn *conn = arrive(to, address, GHOST);
    conn->ghost = true;
    sim_conn_push(conn, recording->bytes, size);
    sim_conn_ends(conn, 0, false);
    conn->end_ns += 10 * SECOND_NS;
    net->counts.replays++;
    return true;
}

/* A client's call is done as often as it is sent; only what peers say must be refused. */
bool sim_net_replay(struct sim_net *net) {
    const struct sim_recording *recording = draw_recording(net);
    return recording != NULL && is_of_peer(recording) && replay(net, recording, recording->size);
}

bool sim_net_replay_client(struct sim_net *net, size_t (*repeatable)(struct slice bytes)) {
    const struct sim_recording *recording = draw_recording(net);
    return recording != NULL && !is_of_peer(recording) &&
           replay(net, recording, repeatable(slice_of(recording->bytes, recording->size)));
}
