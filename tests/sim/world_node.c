/* A node's lives: started on what its disk holds, crashed, closed. */
#include "tests/sim/world.h"

#include "base/assert.h"
#include "lib/view.h"

#include <inttypes.h>
#include <stdio.h>

enum { START_RETRY_MS = 200, START_RETRY_MS_MAX = 3000 };

/* ------------------------------------------------------------------ the loop's owner */

static void on_callback(void *owner) {
    struct sim_node *node = owner;
    sim_check_node(node);
}

static void on_flush(void *owner) {
    const struct sim_node *node = owner;
    sim_host_flush(&node->world->net.hosts[node->number]);
}

/* Everything of the node stops at once; it is taken apart in an event of its own. */
void sim_node_die(struct sim_node *node, bool power) {
    if (node->dying) {
        return;
    }
    node->dying = true;
    node->dying_by_power = power;
    node->loop.halted = true;
    sim_event_in(&node->world->time, &node->death, 0);
}

static void on_died(void *owner) {
    struct sim_node *node = owner;
    sim_node_die(node, prng_below(&node->world->prng_life, 2) == 0);
}

/* ------------------------------------------------------------------ ends */

static void end_of_life(struct sim_node *node) {
    sim_program_end(node);
    sim_loop_fini(&node->loop);
    sim_host_forget(&node->world->net.hosts[node->number]);
    node->state = SIM_DOWN;
    node->dying = false;
    node->disk_failed = false;
    sim_event_cancel(&node->world->time, &node->death);
    sim_event_cancel(&node->world->time, &node->supervise);
}

static void restart_disk(struct sim_node *node, bool power) {
    if (power) {
        sim_disk_power_cut(node->disk);
    } else {
        sim_disk_kill(node->disk);
        uint32_t evict = node->world->plan.evict_permille;
        if (evict > 0 && prng_below(&node->world->prng_life, 1000) < evict) {
            sim_disk_evict(node->disk);
        }
    }
    struct sim_disk_latency latency = node->world->plan.disk;
    sim_disk_set_latency(node->disk, &latency);
    (void)sim_disk_take_ns(node->disk);
}

/* No call reaches the disk any more; the one that finds out changes nothing. */
static void stop_disk(struct sim_node *node) {
    uint64_t bytes;
    sim_disk_heal(node->disk);
    sim_disk_crash_at(node->disk, 0);
    int rc = disk_free_bytes(sim_disk_seam(node->disk), "top", &bytes);
    ASSERT(rc == LKV_EIO && sim_disk_crashed(node->disk));
}

void sim_node_crash(struct sim_node *node, bool power) {
    if (node->state == SIM_DOWN) {
        sim_event_cancel(&node->world->time, &node->restart);
        return;
    }
    sim_world_tell(node->world, "%s: %s", node->name, power ? "power cut" : "killed");
    node->dying = true;
    node->loop.halted = true;
    sim_host_down(&node->world->net.hosts[node->number], power);
    if (!sim_disk_crashed(node->disk)) {
        stop_disk(node);
    }
    if (!node->node->closing) {
        node_close_begin(node->node, 0); /* in memory only: answers what is owed */
    }
    sim_loop_drain(&node->loop);
    subscriptions_close(&node->node->handle.subscriptions);
    views_detach(&node->node->handle);
    sim_own_end(node);
    node_destroy(node->node);
    node->node = NULL;
    end_of_life(node);
    restart_disk(node, power);
}

static void fire_death(struct sim_event *event) {
    struct sim_node *node = LIST_ITEM(event, struct sim_node, death);
    struct sim_world *world = node->world;
    if (node->node->finished_loop) { /* it was closed, and has come to its end */
        sim_world_tell(world, "%s: closed", node->name);
        int rc = node->node->stop_rc;
        subscriptions_close(&node->node->handle.subscriptions);
        views_detach(&node->node->handle);
        sim_own_end(node);
        node_destroy(node->node);
        node->node = NULL;
        sim_host_down(&world->net.hosts[node->number], false);
        end_of_life(node);
        restart_disk(node, rc != 0 && prng_below(&world->prng_life, 2) == 0);
    } else {
        sim_node_crash(node, node->dying_by_power);
    }
    sim_node_restart_in(node, 20 + prng_below(&world->prng_life, 2000));
}

void sim_node_close(struct sim_node *node, int64_t handover_ms) {
    if (node->state != SIM_UP || node->dying) {
        return;
    }
    sim_world_tell(node->world, "%s: closing", node->name);
    node->state = SIM_CLOSING;
    node_close_begin(node->node, handover_ms);
    sim_loop_leave(&node->loop);
}

/* ------------------------------------------------------------------ starts */

/* Whether a failed start is what the faults explain. */
static bool may_refuse(const struct sim_node *node, int rc) {
    return node->damaged || rc == LKV_EIO || rc == LKV_ENOSPACE;
}

static void failed_start(struct sim_node *node, int rc, const struct reason *why) {
    struct sim_world *world = node->world;
    bool crashed = sim_disk_crashed(node->disk);
    (void)snprintf(node->refusal, sizeof(node->refusal), "%s: %s", error_name(rc), why->text);
    sim_world_tell(world, "%s: does not start: %s: %s", node->name, error_name(rc), why->text);
    world->counts.refused++;
    sim_host_down(&world->net.hosts[node->number], false);
    end_of_life(node);
    if (!crashed && !may_refuse(node, rc)) {
        sim_world_fail(world, "%s does not start: %s: %s", node->name, error_name(rc), why->text);
    }
    restart_disk(node, crashed && prng_below(&world->prng_life, 2) == 0);
    uint64_t pause_ms = START_RETRY_MS << (node->failed_starts < 4 ? node->failed_starts : 4);
    node->failed_starts++;
    sim_node_restart_in(node, pause_ms < START_RETRY_MS_MAX ? pause_ms : START_RETRY_MS_MAX);
}

void sim_node_start(struct sim_node *node) {
    struct sim_world *world = node->world;
    if (node->state != SIM_DOWN) {
        return;
    }
    sim_event_cancel(&world->time, &node->restart);
    int64_t drift = world->plan.drift_ppm;
    drift = drift == 0 ? 0 : (int64_t)prng_below(&world->prng_life, (uint64_t)(2 * drift)) - drift;
    sim_loop_init(&node->loop, &world->time, node->disk, prng_next(&world->prng_life), drift);
    node->loop.turn_ns_max = world->plan.turn_ns_max;
    node->loop.job_ns_max = world->plan.fault_ms_max * MS_NS;
    node->loop.on_callback = on_callback;
    node->loop.on_flush = on_flush;
    node->loop.on_died = on_died;
    node->loop.owner = node;
    if (world->plan.upgrade_permille > 0 &&
        prng_below(&world->prng_life, 1000) < world->plan.upgrade_permille) {
        node->feature_level = (node->feature_level != 0 ? node->feature_level : FEATURE_LEVEL) + 1;
        sim_world_tell(world, "%s: knows feature level %u", node->name, node->feature_level);
    }
    if (world->plan.lease_reads == SIM_LEASE_READS_MIXED) {
        node->options.lease_reads = prng_below(&world->prng_leased, 2) == 0;
    }
    struct sim_host *host = &world->net.hosts[node->number];
    sim_host_up(host, &node->loop);
    struct node_world parts = {.loop = &node->loop.base,
                               .net = &host->base,
                               .disk = sim_disk_seam(node->disk),
                               .feature_level = node->feature_level};
    struct reason why = {{0}};
    node->lives++;
    world->counts.starts++;
    int rc = node_create(&node->node, &node->options, &parts, &why);
    if (rc != 0) {
        failed_start(node, rc, &why);
        return;
    }
    node->failed_starts = 0;
    node->refusal[0] = '\0';
    node->state = SIM_UP;
    node->loop.base.events = node_loop_events(node->node);
    sim_world_tell(world, "%s: starts, life %u", node->name, node->lives);
    sim_handle_begin(node);
    sim_check_life_begins(node);
    sim_program_begin(node);
    sim_own_begin(node);
    node_turn(node->node);
    sim_loop_leave(&node->loop);
    sim_loop_pause(&node->loop, sim_loop_disk_ns(&node->loop)); /* recovery took its time */
    if (sim_disk_crashed(node->disk)) {
        on_died(node);
    }
}

static void fire_restart(struct sim_event *event) {
    sim_node_start(LIST_ITEM(event, struct sim_node, restart));
}

void sim_node_restart_in(struct sim_node *node, uint64_t ms) {
    if (node->frozen) {
        return; /* what is dead stays dead */
    }
    sim_event_in(&node->world->time, &node->restart, ms * MS_NS);
}

static void fire_disk_heals(struct sim_event *event) {
    struct sim_node *node = LIST_ITEM(event, struct sim_node, disk_heals);
    sim_world_tell(node->world, "%s: the disk is well again", node->name);
    sim_disk_heal(node->disk);
    sim_disk_set_capacity(node->disk, UINT64_MAX);
    sim_disk_set_latency(node->disk, &node->world->plan.disk);
}

void sim_node_finished(struct sim_node *node) {
    sim_node_die(node, false);
}

static void fire_supervise(struct sim_event *event) {
    struct sim_node *node = LIST_ITEM(event, struct sim_node, supervise);
    if (prng_below(&node->world->prng_life, 2) == 0) {
        sim_node_close(node, 0);
    } else if (node->state == SIM_UP) {
        sim_node_die(node, false);
    }
}

/* Somebody looks after it: a stopped process is started again. */
void sim_node_stopped(struct sim_node *node) {
    struct sim_world *world = node->world;
    bool full_at_founding = node->node->stop_rc == LKV_ENOSPACE && !node->node->running;
    bool bad_sector = node->bad_sectors && node->node->stop_rc == LKV_EIO;
    if (!node->disk_failed && !node->damaged && !full_at_founding && !bad_sector) {
        sim_world_fail(world, "%s stopped: %s", node->name, node->node->stop_why.text);
    }
    node->has_stopped = true;
    if (!sim_event_planned(&node->supervise) && !node->frozen) {
        sim_event_in(&world->time, &node->supervise, prng_below(&world->prng_life, 1500) * MS_NS);
    }
}

void sim_node_init(struct sim_node *node, struct sim_world *world, unsigned number) {
    *node = (struct sim_node){.world = world, .number = number, .state = SIM_DOWN};
    (void)snprintf(node->name, sizeof(node->name), "n%u", number + 1);
    sim_program_init(node);
    sim_own_init(node);
    node->restart.fire = fire_restart;
    node->death.fire = fire_death;
    node->disk_heals.fire = fire_disk_heals;
    node->supervise.fire = fire_supervise;
}

/* ------------------------------------------------------------------ looking */

bool sim_node_runs(const struct sim_node *node) {
    return node->state == SIM_UP && !node->dying && node->node->running && node->node->stop_rc == 0;
}

bool sim_node_leads(const struct sim_node *node) {
    return sim_node_runs(node) && node->node->role == RAFT_LEADER;
}

struct sim_node *sim_world_leader(struct sim_world *world) {
    struct sim_node *best = NULL;
    for (size_t i = 0; i < world->plan.nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        if (sim_node_leads(node) && (best == NULL || node->node->term > best->node->term)) {
            best = node;
        }
    }
    return best;
}

uint64_t sim_node_commit(const struct sim_node *node) {
    struct raft_status status = {0};
    if (node->node != NULL && node->node->raft != NULL) {
        raft_status(node->node->raft, &status);
    }
    return status.commit;
}
