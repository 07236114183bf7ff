/* One seed from its founding to its end. */
#include "tests/sim/world.h"
#include "tests/sim/world_watch.h"

#include <inttypes.h>
#include <stdio.h>

enum { ROUND_MS = 100, FOUNDING_MS = 60000 };

static bool has_leader(struct sim_world *world) {
    return sim_world_leader(world) != NULL;
}

static bool is_quiet(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes; i++) {
        const struct sim_node *node = &world->nodes[i];
        if (node->state == SIM_CLOSING || node->loop.paused_until_ns > world->time.now_ns) {
            return false;
        }
    }
    return world->op_count == 0;
}

static void start_all(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes; i++) {
        sim_node_restart_in(&world->nodes[i], prng_below(&world->prng_life, 300));
    }
}

static void run_checked(struct sim_world *world, uint64_t ms) {
    uint64_t end_ns = world->time.now_ns + ms * MS_NS;
    while (!sim_world_failed(world) && world->time.now_ns < end_ns) {
        sim_world_run_ms(world, ROUND_MS);
        sim_check_silence(world);
    }
}

void sim_explain(struct sim_world *world, const char *what, uint64_t limit_ms) {
    char text[700];
    size_t at = 0;
    for (size_t i = 0; i < world->plan.nodes && at < sizeof(text); i++) {
        const struct sim_node *node = &world->nodes[i];
        const struct node *n = node->node;
        if (n == NULL) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "; %s is down", node->name);
            continue;
        }
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "; %s %s term %" PRIu64 " applied %" PRIu64 "%s%s", node->name,
                               n->role == RAFT_LEADER ? "leads" : "follows", n->term, n->applied,
                               n->running ? "" : " unfounded", n->stop_rc != 0 ? " stopped" : "");
        struct reason repair = {{0}};
        if (n->raft != NULL) {
            raft_repair_text(n->raft, &repair);
        }
        if (repair.text[0] != '\0' && at < sizeof(text)) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, " (%.160s)", repair.text);
        }
    }
    sim_world_fail(world, "%s within %" PRIu64 " ms%s", what, limit_ms, text);
}

static bool agree(struct sim_world *world, uint64_t limit_ms) {
    for (int round = 0; round < SIM_PATIENT_ROUNDS; round++) {
        struct sim_progress before = sim_progress_of(world);
        if (sim_world_until(world, sim_world_converged, limit_ms)) {
            return true;
        }
        if (!sim_progress_goes_on(world, &before, round) && !sim_world_somebody_comes(world)) {
            return false;
        }
    }
    return false;
}

static void become_quiet(struct sim_world *world) {
    /* A node that is being closed ends what its log thread has: two writes and a mark, each as long as a
     * job lasts at most. */
    uint64_t grace_ms = 3 * world->plan.fault_ms_max + 2 * world->plan.timeout_ms + 4000;
    sim_load_stop(world);
    if (!sim_world_until(world, is_quiet, grace_ms)) {
        sim_explain(world, "not quiet", grace_ms);
    }
    sim_check_silence(world);
}

/* Everything is well: then a leader within bounds, all that was promised, and equal states. */
static void converge(struct sim_world *world) {
    const struct sim_plan *plan = &world->plan;
    uint64_t election_ms = 2 * plan->election_ms;
    become_quiet(world);
    uint64_t limit_ms = 20 * election_ms;
    if (!agree(world, limit_ms)) {
        sim_explain(world, "no agreement", limit_ms);
    }
    sim_check_end(world);
    sim_watch_settle(world);
    if (!sim_world_failed(world) && !sim_put_ok(world, 1)) {
        sim_explain(world, "no write", 5000);
    }
}

/* What loses messages may keep a cluster from a leader for as long as it lasts, so the first one is asked
 * for without that; unless faults are there from the beginning. */
static void found(struct sim_world *world) {
    struct sim_net_options *net = &world->net.options;
    start_all(world);
    if (world->plan.faults_at_founding) {
        return;
    }
    net->loss_permille = net->frame_drop_permille = net->frame_change_permille = 0;
    if (!sim_world_until(world, has_leader, FOUNDING_MS)) {
        sim_explain(world, "no first leader", FOUNDING_MS);
    }
    *net = world->plan.net;
}

/* What was acknowledged is there after all have lost their power at once (S24). */
static void restart_all(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes && !sim_world_failed(world); i++) {
        sim_node_crash(&world->nodes[i], prng_below(&world->prng_life, 4) != 0);
        sim_node_restart_in(&world->nodes[i], prng_below(&world->prng_life, 1000));
    }
    sim_world_run_ms(world, 1500);
}

/* Not all of them are well. */
static void check_those_that_run(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes && !sim_world_failed(world); i++) {
        if (sim_node_runs(&world->nodes[i])) {
            sim_check_state(&world->nodes[i]);
        }
    }
    if (!sim_world_failed(world)) {
        sim_history_check(world);
    }
}

/* The others are never well again. */
static void end_with_majority(struct sim_world *world) {
    sim_load_stop(world);
    check_those_that_run(world);
}

/* Nothing is asked for but what must hold without any bound on the damage: the checks after each
 * callback, and that whoever cannot go on says why (S26). */
static void end_without_budget(struct sim_world *world) {
    sim_world_heal(world);
    sim_load_stop(world);
    sim_world_reported(world);
    if (!sim_world_failed(world) && sim_world_converged(world)) {
        sim_check_end(world);
        return;
    }
    check_those_that_run(world);
}

bool sim_world_play(struct sim_world *world) {
    found(world);
    sim_load_start(world);
    sim_faults_start(world);
    run_checked(world, world->plan.chaos_ms);
    if (world->plan.rot_budget == SIM_ROT_ANY) {
        end_without_budget(world);
        return !sim_world_failed(world);
    }
    if (world->plan.healing != SIM_HEAL_ALL) {
        sim_world_majority(world);
    }
    if (world->plan.healing == SIM_HEAL_MAJORITY && world->counts.majorities > 0) {
        end_with_majority(world);
        return !sim_world_failed(world);
    }
    sim_world_thaw(world);
    sim_world_heal(world);
    converge(world);
    restart_all(world);
    converge(world);
    return !sim_world_failed(world);
}
