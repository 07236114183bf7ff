/* The healing of a majority: what a cluster promises is that a majority which is well goes on, whatever
 * the others are in the middle of. So the others stay cut, paused, dead, slow, full and damaged, exactly as
 * they were, for as long as it takes.
 *
 * The majority has to be one that can: each committed entry is intact on one of its disks, and its
 * nodes know where their logs end (rule 11: one that does not takes part only when a quorum without it has
 * said so). */
#include "tests/sim/world.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FOREVER UINT64_MAX

enum {
    CHOICES_MAX = 12,
    FREEZE_TICK_MS = 100,
    OTHERS_MS = 3000 /* how long the majority goes on before the others come back */
};

static uint64_t election_timeouts_ms(const struct sim_world *world, uint64_t count) {
    return count * 2 * world->plan.election_ms;
}

/* ------------------------------------------------------------------ which */

/* A random one, in bits. */
static uint32_t draw_majority(struct sim_world *world) {
    size_t nodes = world->plan.nodes;
    uint32_t chosen = 0;
    for (size_t count = 0; count < nodes / 2 + 1;) {
        uint32_t bit = 1u << prng_below(&world->prng_life, nodes);
        count += (chosen & bit) == 0;
        chosen |= bit;
    }
    return chosen;
}

static bool is_sound(const struct sim_node *node) {
    return node->has_run && !node->maimed && !node->end_unknown;
}

/* What a node takes for lost it will not read again by itself. False: some of it was never committed. */
static bool forget_gaps(const struct sim_node *node, bool *held, uint64_t last) {
    struct raft_gap gaps[64];
    if (node->node == NULL || node->node->raft == NULL) {
        return true;
    }
    bool whole = true;
    size_t count = raft_gaps(node->node->raft, gaps, sizeof(gaps) / sizeof(gaps[0]));
    for (size_t i = 0; i < count && i < sizeof(gaps) / sizeof(gaps[0]); i++) {
        for (uint64_t at = gaps[i].first; at <= gaps[i].last && at <= last; at++) {
            held[at] = false;
        }
        whole = whole && gaps[i].last <= last;
    }
    return whole;
}

/* Every committed entry is in one of their logs or images; and what one of them has lost was committed: of
 * anything else all voters have to say that they do not have it, before it is given up. */
static bool holds_all(struct sim_world *world, uint32_t chosen) {
    uint64_t last = world->model.commit;
    bool *all = calloc(last + 1, sizeof(*all)), *held = calloc(last + 1, sizeof(*held));
    bool whole = true;
    ASSERT(all != NULL && held != NULL);
    for (size_t i = 0; i < world->plan.nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        if ((chosen >> i & 1) == 0) {
            continue;
        }
        memset(held, 0, (size_t)(last + 1) * sizeof(*held));
        whole = sim_rot_mark_held(node, held) && whole;
        whole = forget_gaps(node, held, last) && whole;
        for (uint64_t at = 1; at <= last; at++) {
            all[at] = all[at] || held[at] || at <= node->image_index;
        }
    }
    for (uint64_t at = 1; at <= last; at++) {
        whole = whole && all[at];
    }
    free(held);
    free(all);
    return whole;
}

static bool may_choose(struct sim_world *world, uint32_t chosen) {
    for (size_t i = 0; i < world->plan.nodes; i++) {
        if ((chosen >> i & 1) != 0 && !is_sound(&world->nodes[i])) {
            return false;
        }
    }
    return holds_all(world, chosen);
}

/* 0: there is none, or none was found. */
static uint32_t choose(struct sim_world *world) {
    for (int i = 0; i < CHOICES_MAX && world->plan.nodes > 2; i++) {
        uint32_t chosen = draw_majority(world);
        if (may_choose(world, chosen)) {
            return chosen;
        }
    }
    return 0;
}

/* ------------------------------------------------------------------ the others */

static void fire_freeze(struct sim_event *event) {
    struct sim_node *node = LIST_ITEM(event, struct sim_node, freeze);
    if (node->frozen && node->frozen_paused) {
        sim_loop_pause(&node->loop, (uint64_t)2 * FREEZE_TICK_MS * MS_NS);
        sim_event_in(&node->world->time, &node->freeze, FREEZE_TICK_MS * MS_NS);
    }
}

static void freeze(struct sim_node *node) {
    struct sim_world *world = node->world;
    node->frozen = true;
    node->frozen_paused =
        node->state != SIM_DOWN && node->loop.paused_until_ns > world->time.now_ns;
    sim_event_cancel(&world->time, &node->restart);
    sim_event_cancel(&world->time, &node->supervise);
    sim_event_cancel(&world->time, &node->disk_heals);
    sim_event_cancel(&world->time, &node->program.release);
    node->freeze.fire = fire_freeze;
    sim_event_in(&world->time, &node->freeze, 0);
    sim_world_tell(world, "%s stays as it is: %s", node->name,
                   node->state == SIM_DOWN ? "dead"
                   : node->frozen_paused   ? "paused"
                                           : "running");
}

static bool is_frozen(const struct sim_world *world, unsigned host) {
    return host < world->plan.nodes && world->nodes[host].frozen;
}

static void settle_paths(struct sim_world *world) {
    for (unsigned a = 0; a < world->net.host_count; a++) {
        for (unsigned b = 0; b < world->net.host_count; b++) {
            bool cut = world->net.cut_until_ns[a][b] > world->time.now_ns;
            if (!is_frozen(world, a) && !is_frozen(world, b)) {
                sim_net_mend(&world->net, a, b);
            } else if (cut) {
                sim_net_cut(&world->net, a, b, FOREVER);
            }
        }
    }
}

void sim_world_thaw(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        node->frozen = false; /* a paused one goes on within two ticks */
        if (node->state == SIM_UP && node->node->stop_rc != 0) {
            sim_node_stopped(
                node); /* a stopped one has no more turns in which that would be seen */
        }
    }
}

static void heal_majority(struct sim_world *world, uint32_t chosen) {
    sim_event_cancel(&world->time, &world->fault);
    sim_remote_faults_stop(world);
    sim_net_calm(world);
    for (size_t i = 0; i < world->plan.nodes; i++) {
        if ((chosen >> i & 1) == 0) {
            freeze(&world->nodes[i]);
        }
    }
    settle_paths(world);
    for (size_t i = 0; i < world->plan.nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        if (!node->frozen) {
            sim_world_tell(world, "%s heals", node->name);
            sim_program_release(node);
            sim_node_heal(node);
        }
    }
    world->counts.majorities++;
}

/* ------------------------------------------------------------------ progress */

static bool is_up(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes; i++) {
        const struct sim_node *node = &world->nodes[i];
        if (!node->frozen &&
            (!sim_node_runs(node) || node->loop.paused_until_ns > world->time.now_ns)) {
            return false;
        }
    }
    return true;
}

struct sim_progress sim_progress_of(const struct sim_world *world) {
    struct sim_progress out = {0};
    for (size_t i = 0; i < world->plan.nodes; i++) {
        const struct sim_node *node = &world->nodes[i];
        struct raft_status status = {0};
        if (!node->frozen && sim_node_runs(node)) {
            raft_status(node->node->raft, &status);
        }
        out.durable[i] = status.durable;
        out.applied[i] = status.applied;
        out.term = status.term > out.term ? status.term : out.term;
    }
    return out;
}

static bool got_on(const struct sim_progress *before, const struct sim_progress *after) {
    for (size_t i = 0; i < SIM_NODES_MAX; i++) {
        if (after->durable[i] > before->durable[i] || after->applied[i] > before->applied[i]) {
            return true;
        }
    }
    return false;
}

bool sim_progress_goes_on(const struct sim_world *world, const struct sim_progress *before,
                          int round) {
    struct sim_progress after = sim_progress_of(world);
    return got_on(before, &after) && (after.term <= before->term + 1 || round == 0);
}

/* The last entry of any log. What is committed behind it was written since. */
static uint64_t last_of_all(const struct sim_world *world) {
    uint64_t last = world->model.commit;
    for (size_t i = 0; i < world->plan.nodes; i++) {
        struct raft_status status = {0};
        if (sim_node_runs(&world->nodes[i])) {
            raft_status(world->nodes[i].node->raft, &status);
        }
        last = status.last > last ? status.last : last;
    }
    return last;
}

/* A write on one node of the majority after the other, until one is done, or was: with a leader among the
 * others whose disk is slow, that may take longer than a client waits. */
static bool writes(struct sim_world *world, uint64_t last, uint64_t limit_ms) {
    uint64_t end_ns = world->time.now_ns + limit_ms * MS_NS;
    for (size_t i = 0; !sim_world_failed(world) && world->time.now_ns < end_ns; i++) {
        struct sim_node *node = &world->nodes[i % world->plan.nodes];
        int done = 0;
        if (node->frozen || !sim_node_runs(node)) {
            sim_world_run_ms(world, 1);
            continue;
        }
        sim_submit(node, SIM_PUT, 1, election_timeouts_ms(world, 1), &done);
        while (done == 0 && !sim_world_failed(world)) {
            sim_world_run_ms(world, 1);
        }
        if (done == 1 + (int)LKV_DONE || world->model.commit > last) {
            return true;
        }
        sim_world_run_ms(world, 1);
    }
    return false;
}

/* One of them waits for what none of them has, and which nobody knew of when it was chosen. */
static bool is_excused(struct sim_world *world) {
    uint32_t chosen = 0;
    bool waits = false, doubts = false;
    for (size_t i = 0; i < world->plan.nodes; i++) {
        const struct sim_node *node = &world->nodes[i];
        struct raft_status status = {0};
        if (node->frozen || node->node == NULL || node->node->raft == NULL) {
            continue;
        }
        chosen |= 1u << i;
        raft_status(node->node->raft, &status);
        doubts = doubts || status.end_unknown;
        waits = waits || status.gap_count > 0;
    }
    return doubts || (waits && !holds_all(world, chosen));
}

static bool makes_progress(struct sim_world *world) {
    uint64_t last = last_of_all(world);
    for (int round = 0; round < SIM_PATIENT_ROUNDS; round++) {
        struct sim_progress before = sim_progress_of(world);
        if (writes(world, last, election_timeouts_ms(world, 20))) {
            return true;
        }
        if (!sim_progress_goes_on(world, &before, round)) {
            return false;
        }
    }
    return false;
}

void sim_world_majority(struct sim_world *world) {
    uint32_t chosen = sim_world_failed(world) ? 0 : choose(world);
    if (chosen == 0) {
        return;
    }
    heal_majority(world, chosen);
    sim_load_stop(world); /* how long a write waits behind others is no question of who leads */
    uint64_t grace_ms = 4 * world->plan.fault_ms_max + 10000; /* pauses end, logs are read */
    if (!sim_world_until(world, is_up, grace_ms)) {
        sim_explain(world, "a majority that is well does not come up", grace_ms);
    }
    if (!makes_progress(world)) {
        if (is_excused(world)) {
            world->counts.excused++;
            sim_world_tell(world, "nothing can be done without the others");
            return;
        }
        sim_explain(world, "a majority that is well makes no progress",
                    election_timeouts_ms(world, 20));
    }
    sim_load_start(world);
    for (int i = 0; i < OTHERS_MS / 100; i++) {
        sim_world_run_ms(world, 100);
        sim_check_silence(world);
    }
}

/* ------------------------------------------------------------------ without a budget */

/* What a node says of damage: it has stopped, or does not start, and why; or it waits for what others
 * have. */
static bool has_reported(const struct sim_node *node) {
    struct raft_status status = {0};
    if (node->has_stopped || node->refusal[0] != '\0') {
        return true;
    }
    if (node->node == NULL || node->node->raft == NULL) {
        return false;
    }
    raft_status(node->node->raft, &status);
    return status.gap_count > 0 || status.end_unknown ||
           node->node->repair.image_why.text[0] != '\0'; /* "image unreadable": in its status */
}

static bool has_settled(struct sim_world *world) {
    if (sim_world_converged(world)) {
        return true;
    }
    for (size_t i = 0; i < world->plan.nodes; i++) {
        if (world->nodes[i].node == NULL && world->nodes[i].refusal[0] != '\0') {
            return true;
        }
    }
    return false;
}

bool sim_world_somebody_comes(const struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes; i++) {
        const struct sim_node *node = &world->nodes[i];
        if (!sim_node_runs(node) && node->refusal[0] == '\0') {
            return true;
        }
    }
    return false;
}

void sim_world_reported(struct sim_world *world) {
    uint64_t limit_ms = election_timeouts_ms(world, 20);
    struct sim_progress before, after = sim_progress_of(world);
    bool converged = false;
    for (int round = 0; round < SIM_PATIENT_ROUNDS && !converged; round++) {
        before = after;
        (void)sim_world_until(world, has_settled, limit_ms);
        converged = sim_world_converged(world);
        after = sim_progress_of(world);
        if (!got_on(&before, &after) && !sim_world_somebody_comes(world)) {
            break;
        }
    }
    if (sim_world_failed(world) || converged) {
        return;
    }
    for (size_t i = 0; i < world->plan.nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        if (has_reported(node)) {
            sim_world_tell(world, "%s reports damage", node->name);
            world->counts.reports++;
            return;
        }
    }
    sim_explain(world, "damage without a budget: no agreement, and nobody says why,", limit_ms);
}
