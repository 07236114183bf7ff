#include "tests/sim/world_client.h"

#include "base/assert.h"
#include "lib/client.h"
#include "tests/sim/world_call.h"

#include <stdio.h>

enum { RESTART_MS_MAX = 500, HELD_BYTES_SMALL = 4096 };

/* ------------------------------------------------------------------ final messages */

static struct sim_call *find(const struct sim_world *world, uint64_t id) {
    for (struct list_link *at = world->ops.next; at != &world->ops; at = at->next) {
        struct sim_call *op = LIST_ITEM(at, struct sim_call, link);
        if (op->id == id) {
            return op;
        }
    }
    return NULL;
}

/* One for each operation, and none for what nobody asked. */
static bool take(struct sim_remote *remote, struct lkv_msg *msg) {
    uint64_t id = (uint64_t)(uintptr_t)lkv_msg_tag(msg);
    struct sim_call *op = find(remote->world, id);
    if (op == NULL || op->remote != remote || lkv_msg_kind(msg) != LKV_REPLY) {
        sim_world_fail(remote->world, "%s: a final message for an operation that has had its own",
                       remote->name);
        return false;
    }
    return sim_call_finish(op, msg, !remote->deaf);
}

static void take_all(struct sim_remote *remote) {
    for (struct lkv_msg *msg; (msg = lkv_queue_next(remote->queue, 0)) != NULL;) {
        if (!take(remote, msg)) {
            lkv_msg_free(msg);
        }
    }
}

static void on_callback(void *owner) {
    struct sim_remote *remote = owner;
    if (remote->client != NULL) { /* else it is being closed */
        take_all(remote);
    }
}

static void on_flush(void *owner) {
    const struct sim_remote *remote = owner;
    sim_host_flush(&remote->world->net.hosts[remote->host]);
}

/* ------------------------------------------------------------------ life */

static int close_client(struct lkv *db, int64_t handover_ms) {
    struct client *client = client_of(db);
    (void)handover_ms;
    client_stop(client);
    client_free(client);
    return 0;
}

/* All nodes, or one of them that knows the others; more than one connection; room for little. */
static void set_options(struct sim_remote *remote, struct lkv_options *options) {
    struct sim_world *world = remote->world;
    struct prng *prng = &world->prng_remote;
    size_t nodes = world->plan.nodes;
    size_t first = (size_t)prng_below(prng, nodes);
    options->endpoint_count = prng_below(prng, 3) == 0 ? 1 : nodes;
    for (size_t i = 0; i < options->endpoint_count; i++) {
        sim_net_address((unsigned)((first + i) % nodes), options->endpoints[i]);
    }
    options->connections = world->plan.remote_connections;
    options->timeout_ms = world->plan.timeout_ms;
    if (prng_below(prng, 4) == 0) {
        options->inflight_bytes_max = HELD_BYTES_SMALL;
    }
}

/* What only a node in this process has is refused at once. */
static void check_refusals(struct sim_remote *remote) {
    struct lkv *db = client_handle(remote->client);
    size_t size;
    if (lkv_role_watch(db, remote->queue, NULL) != LKV_EUNSUPPORTED ||
        lkv_get_copy(db, LKV_STR("k001"), NULL, 0, &size) != LKV_EUNSUPPORTED ||
        lkv_log_hold(db, "a", 1, LKV_DEFAULT) != LKV_EUNSUPPORTED ||
        lkv_log_tail(db, 1, 1, LKV_GATES_READY, remote->queue, NULL) != LKV_EUNSUPPORTED) {
        sim_world_fail(remote->world, "%s does what only a node can", remote->name);
    }
}

void sim_remote_start(struct sim_remote *remote) {
    struct sim_world *world = remote->world;
    if (remote->client != NULL) {
        return;
    }
    struct lkv_options *options = lkv_options_new();
    ASSERT(options != NULL);
    set_options(remote, options);
    int64_t drift = world->plan.drift_ppm;
    drift =
        drift == 0 ? 0 : (int64_t)prng_below(&world->prng_remote, (uint64_t)(2 * drift)) - drift;
    sim_loop_init(&remote->loop, &world->time, NULL, prng_next(&world->prng_remote), drift);
    remote->loop.turn_ns_max = world->plan.turn_ns_max;
    remote->loop.on_callback = on_callback;
    remote->loop.on_flush = on_flush;
    remote->loop.owner = remote;
    remote->deaf = false;
    remote->lives++;
    memset(&remote->appends, 0, sizeof(remote->appends));
    sim_event_cancel(&world->time, &remote->restart);
    int rc = remote->queue == NULL ? lkv_queue_new(&remote->queue) : 0;
    rc = rc == 0 ? client_new(&remote->client, options, close_client) : rc;
    ASSERT(rc == 0);
    lkv_options_free(options);
    sim_host_up(&world->net.hosts[remote->host], &remote->loop);
    remote->loop.base.events = client_events(remote->client);
    sim_world_tell(world, "%s: starts, life %u", remote->name, remote->lives);
    client_start(remote->client, &remote->loop.base, &world->net.hosts[remote->host].base);
    sim_loop_leave(&remote->loop);
    check_refusals(remote);
}

/* The handles of sessions go with it; the sessions stay. */
static void let_sessions_go(struct sim_remote *remote) {
    struct sim_world *world = remote->world;
    for (size_t i = 0; i < world->plan.clients; i++) {
        struct sim_client *client = &world->clients[i];
        if (client->held != NULL && i % world->plan.remotes == remote->number) {
            sim_session_let_go(client);
        }
    }
}

void sim_remote_end(struct sim_remote *remote, enum sim_remote_end how) {
    struct sim_world *world = remote->world;
    struct sim_host *host = &world->net.hosts[remote->host];
    if (remote->client == NULL) {
        return;
    }
    sim_world_tell(world, "%s: %s", remote->name,
                   how == SIM_REMOTE_CLOSED   ? "closed"
                   : how == SIM_REMOTE_KILLED ? "killed"
                                              : "power cut");
    if (how != SIM_REMOTE_CLOSED) {
        remote->deaf = true;
        sim_host_down(host, how == SIM_REMOTE_POWER);
    }
    remote->loop.halted = true;
    struct lkv *db = client_handle(remote->client);
    remote->client = NULL;
    int rc = lkv_close(db, 0);
    ASSERT(rc == 0);
    take_all(remote);
    let_sessions_go(remote);
    sim_host_down(host, how == SIM_REMOTE_POWER);
    sim_host_forget(host);
    sim_loop_fini(&remote->loop);
    sim_check_silence(world); /* all that was owed has come */
}

static void fire_restart(struct sim_event *event) {
    sim_remote_start(LIST_ITEM(event, struct sim_remote, restart));
}

/* ------------------------------------------------------------------ all of them */

void sim_remotes_init(struct sim_world *world) {
    for (unsigned i = 0; i < SIM_REMOTES_MAX; i++) {
        struct sim_remote *remote = &world->remotes[i];
        *remote = (struct sim_remote){
            .world = world, .number = i, .host = (unsigned)world->plan.nodes + i};
        (void)snprintf(remote->name, sizeof(remote->name), "c%u", i + 1);
        remote->restart.fire = fire_restart;
    }
}

void sim_remotes_start(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.remotes; i++) {
        struct sim_remote *remote = &world->remotes[i];
        if (remote->client == NULL) {
            sim_event_in(&world->time, &remote->restart,
                         prng_below(&world->prng_remote, RESTART_MS_MAX) * MS_NS);
        }
    }
}

void sim_remotes_fini(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.remotes; i++) {
        struct sim_remote *remote = &world->remotes[i];
        sim_event_cancel(&world->time, &remote->restart);
        sim_remote_end(remote, SIM_REMOTE_POWER);
        lkv_queue_free(remote->queue);
    }
}

struct sim_remote *sim_remote_draw(struct sim_client *client) {
    struct sim_world *world = client->world;
    if (world->plan.remotes == 0 ||
        prng_below(&world->prng_remote, 1000) >= world->plan.remote_permille) {
        return NULL;
    }
    return &world->remotes[client->number % world->plan.remotes];
}
