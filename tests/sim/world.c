#include "tests/sim/world_call.h"
#include "tests/sim/world_watch.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SPIN_EVENTS = 300000 }; /* in a tenth of a second: no load of ours makes so many */

void sim_world_tell(struct sim_world *world, const char *format, ...) {
    if (world->story == NULL) {
        return;
    }
    char line[1400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    world->story(world->story_arg, world->time.now_ns, line);
}

void sim_world_fail(struct sim_world *world, const char *format, ...) {
    if (sim_world_failed(world)) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(world->failure, sizeof(world->failure), format, args);
    va_end(args);
    sim_world_tell(world, "WRONG: %s", world->failure);
}

void sim_world_run_ms(struct sim_world *world, uint64_t ms) {
    uint64_t limit_ns = world->time.now_ns + ms * MS_NS;
    uint64_t fired = world->time.fired + SPIN_EVENTS + ms * SPIN_EVENTS / 100;
    while (!sim_world_failed(world) && sim_time_step(&world->time, limit_ns)) {
        if (world->time.fired > fired) {
            sim_world_fail(world, "somebody spins: over %d events within %" PRIu64 " ms",
                           SPIN_EVENTS, ms);
        }
    }
}

bool sim_world_until(struct sim_world *world, bool (*question)(struct sim_world *world),
                     uint64_t limit_ms) {
    uint64_t end_ns = world->time.now_ns + limit_ms * MS_NS;
    while (!sim_world_failed(world) && world->time.now_ns < end_ns) {
        if (question(world)) {
            return true;
        }
        sim_world_run_ms(world, 1);
    }
    return !sim_world_failed(world) && question(world);
}

static void set_options(struct sim_node *node) {
    const struct sim_plan *plan = &node->world->plan;
    struct lkv_options *made = lkv_options_new();
    ASSERT(made != NULL);
    node->options = *made;
    lkv_options_free(made);
    struct lkv_options *options = &node->options;
    (void)snprintf(options->dir, sizeof(options->dir), "top/db");
    (void)snprintf(options->id, sizeof(options->id), "%s", node->name);
    sim_net_address(node->number, options->listen);
    for (size_t i = 0; plan->nodes > 1 && i < plan->nodes; i++) {
        struct option_peer *peer = &options->peers[options->peer_count++];
        (void)snprintf(peer->name, sizeof(peer->name), "n%zu", i + 1);
        sim_net_address((unsigned)i, peer->address);
    }
    options->heartbeat_ms = plan->heartbeat_ms;
    options->election_ms = plan->election_ms;
    options->disk_hang_ms = plan->disk_hang_ms;
    options->segment_bytes = plan->segment_bytes;
    options->window_bytes = plan->window_bytes;
    options->image_log_bytes = plan->image_log_bytes;
    options->keep_entries = plan->keep_entries;
    options->bounded_ms = plan->bounded_ms;
    options->lease_reads = plan->lease_reads != SIM_LEASE_READS_OFF;
    options->clock_drift_ppm = 2 * (uint64_t)plan->drift_ppm; /* no more than there is */
    options->history_revisions = plan->history_revisions;
    options->history_ms = plan->history_ms;
    options->history_bytes = plan->history_bytes;
    options->model = plan->own_mode ? MODEL_OWN : plan->log_mode ? MODEL_LOG : MODEL_KV;
    options->retention_bytes = plan->retention_bytes;
    options->hold_bytes_max = UINT64_MAX; /* holds never lose here */
    options->peer_inflight_bytes = plan->peer_inflight_bytes;
    options->peer_inflight_requests = plan->peer_inflight_requests;
    options->scrub_ms = plan->scrub_ms;
    options->digest_ms = plan->digest_ms;
    if (plan->inflight_bytes > 0) {
        options->inflight_bytes_max = plan->inflight_bytes;
    }
    options->ready_timeout_ms = plan->fault_ms_max;
}

static void on_line(void *arg, int level, const char *json) {
    const struct sim_node *node = arg;
    (void)level;
    sim_world_tell(node->world, "%s", json);
}

/* ------------------------------------------------------------------ disks */

/* The names of a folder, copied: a visitor may remove what it is shown. */
struct listing {
    char (*names)[64]; /* owned */
    size_t count, capacity;
};

static int collect(void *arg, const char *name) {
    struct listing *listing = arg;
    if (listing->count == listing->capacity) {
        listing->capacity = listing->capacity * 2 + 16;
        listing->names = realloc(listing->names, listing->capacity * sizeof(*listing->names));
        ASSERT(listing->names != NULL);
    }
    ASSERT(strlen(name) < sizeof(*listing->names));
    (void)snprintf(listing->names[listing->count++], sizeof(*listing->names), "%s", name);
    return 0;
}

static int (*list_locked)(struct disk *disk, const char *path,
                          int (*visit)(void *arg, const char *name), void *arg);

static int list_copied(struct disk *disk, const char *path,
                       int (*visit)(void *arg, const char *name), void *arg) {
    struct listing listing = {0};
    int rc = list_locked(disk, path, collect, &listing);
    for (size_t i = 0; rc == 0 && i < listing.count; i++) {
        rc = visit(arg, listing.names[i]);
    }
    free(listing.names);
    return rc;
}

static struct sim_disk *make_disk(uint64_t seed) {
    static struct disk_ops patched;
    struct sim_disk *sim = sim_disk_new(seed);
    struct disk *disk = sim_disk_seam(sim);
    if (patched.list == NULL) {
        patched = *disk->ops;
        list_locked = patched.list;
        patched.list = list_copied;
    }
    disk->ops = &patched;
    int rc = disk_make_dir(disk, "top");
    ASSERT(rc == 0);
    rc = disk_sync_dir(disk, "");
    ASSERT(rc == 0);
    return sim;
}

/* ------------------------------------------------------------------ life */

static void make_node(struct sim_world *world, unsigned number) {
    struct sim_node *node = &world->nodes[number];
    sim_node_init(node, world, number);
    set_options(node);
    if (world->story != NULL) {
        node->options.trace =
            (struct trace){.sink = on_line, .arg = node, .level = TRACE_INFO, .node = node->name};
    }
    node->disk = make_disk(prng_next(&world->prng_life));
    sim_disk_set_latency(node->disk, &world->plan.disk);
}

struct sim_world *sim_world_new(const struct sim_plan *plan,
                                void (*story)(void *arg, uint64_t now_ns, const char *line),
                                void *story_arg) {
    struct sim_world *world = calloc(1, sizeof(*world));
    ASSERT(world != NULL && plan->nodes <= SIM_NODES_MAX && plan->clients <= SIM_CLIENTS_MAX);
    ASSERT(plan->remotes <= SIM_REMOTES_MAX);
    struct prng seeds = prng_of(plan->seed);
    world->plan = *plan;
    world->plan.own_mode =
        plan->own_mode && plan->log_mode; /* also when somebody sets the one only */
    world->story = story;
    world->story_arg = story_arg;
    world->prng_fault = prng_of(prng_next(&seeds));
    world->prng_load = prng_of(prng_next(&seeds));
    world->prng_life = prng_of(prng_next(&seeds));
    world->prng_program = prng_of(plan->seed ^ UINT64_C(0x9a3e9a3e9a3e9a3e));
    world->prng_remote = prng_of(plan->seed ^ UINT64_C(0xc11ec11ec11ec11e));
    world->prng_leased = prng_of(plan->seed ^ UINT64_C(0x1ea5ed1ea5ed1ea5));
    world->prng_read = prng_of(plan->seed ^ UINT64_C(0x4ead4ead4ead4ead));
    world->prng_lease = prng_of(plan->seed ^ UINT64_C(0x1ea51ea51ea51ea5));
    world->prng_watch = prng_of(plan->seed ^ UINT64_C(0x3a7c43a7c43a7c41));
    world->prng_more = prng_of(plan->seed ^ UINT64_C(0x303e303e303e303e));
    world->prng_own = prng_of(plan->seed ^ UINT64_C(0x0b170b170b170b17));
    world->prng_rot = prng_of(plan->seed ^ UINT64_C(0x7077077070770770));
    list_init(&world->ops);
    sim_model_init(&world->model);
    world->model.log_mode = plan->log_mode;
    sim_net_init(&world->net, &world->time, prng_next(&seeds), plan->nodes + plan->remotes,
                 &plan->net);
    for (unsigned i = 0; i < plan->nodes; i++) {
        make_node(world, i);
    }
    sim_remotes_init(world);
    return world;
}

void sim_world_free(struct sim_world *world) {
    if (world == NULL) {
        return;
    }
    sim_load_stop(world);
    sim_remotes_fini(world);
    for (size_t i = 0; i < world->plan.nodes; i++) {
        sim_node_crash(&world->nodes[i], true);
        sim_disk_free(world->nodes[i].disk);
    }
    for (size_t i = 0; i < world->plan.clients; i++) {
        sim_log_fini(&world->clients[i]);
        sim_view_fini(&world->clients[i]);
        sim_watch_fini(&world->clients[i]);
    }
    sim_net_fini(&world->net);
    ASSERT(world->op_count == 0);
    free(world->led);
    free(world->digests);
    free(world->completed);
    free(world->own.hashes);
    sim_model_fini(&world->model);
    sim_history_fini(&world->history);
    sim_time_fini(&world->time);
    free(world);
}
