/* Faults of the programs that use the client protocol: those of the plan's faults that can befall them,
 * at moments of their own. */
#include "tests/sim/world.h"

static uint64_t draw(struct sim_world *world, uint64_t bound) {
    return prng_below(&world->prng_remote, bound);
}

static uint64_t draw_ms(struct sim_world *world) {
    return sim_draw_fault_ms(world, &world->prng_remote);
}

/* What befalls one of them; 0: never. */
static uint32_t weight_of(const struct sim_plan *plan, enum sim_fault_kind kind) {
    switch (kind) {
    case SIM_KILL:
    case SIM_POWER:
    case SIM_CLEAN_RESTART:
    case SIM_PAUSE:
    case SIM_CUT_PAIR:
    case SIM_CUT_ONE_WAY:
    case SIM_ISOLATE:
    case SIM_SPLIT:
    case SIM_RESET:
    case SIM_REPLAY: return plan->weights[kind];
    case SIM_CRASH_AT_OP:
    case SIM_POWER_ALL:
    case SIM_DISK_STALL:
    case SIM_DISK_ERROR:
    case SIM_DISK_FULL:
    case SIM_ROT:
    case SIM_CUT_SOME:
    case SIM_EVICT:
    case SIM_FAULTS: break;
    }
    return 0;
}

/* From some of the nodes: `cuts` has a bit for each. */
static void cut_from(struct sim_remote *remote, uint64_t cuts, bool there, bool back) {
    struct sim_world *world = remote->world;
    uint64_t until_ns = world->time.now_ns + draw_ms(world) * MS_NS;
    for (unsigned node = 0; node < world->plan.nodes; node++) {
        if ((cuts >> node & 1) != 0 && there) {
            sim_net_cut(&world->net, remote->host, node, until_ns);
        }
        if ((cuts >> node & 1) != 0 && back) {
            sim_net_cut(&world->net, node, remote->host, until_ns);
        }
    }
}

static void end(struct sim_remote *remote, enum sim_remote_end how) {
    struct sim_world *world = remote->world;
    sim_remote_end(remote, how);
    sim_event_in(&world->time, &remote->restart, draw_ms(world) * MS_NS);
}

static void strike(struct sim_remote *remote, enum sim_fault_kind kind) {
    struct sim_world *world = remote->world;
    uint64_t one = UINT64_C(1) << draw(world, world->plan.nodes);
    uint64_t some = draw(world, UINT64_C(1) << world->plan.nodes);
    bool there = draw(world, 2) == 0;
    if (kind == SIM_KILL || kind == SIM_POWER) {
        end(remote, kind == SIM_KILL ? SIM_REMOTE_KILLED : SIM_REMOTE_POWER);
    } else if (kind == SIM_CLEAN_RESTART) {
        end(remote, SIM_REMOTE_CLOSED);
    } else if (kind == SIM_PAUSE) {
        sim_loop_pause(&remote->loop, draw_ms(world) * MS_NS);
    } else if (kind == SIM_RESET) {
        (void)sim_net_reset(&world->net, remote->host);
    } else if (kind == SIM_REPLAY) {
        world->counts.repeats += sim_net_replay_client(&world->net, sim_remote_repeatable);
    } else if (kind == SIM_CUT_ONE_WAY) {
        cut_from(remote, one, there, !there);
    } else {
        uint64_t cuts = kind == SIM_ISOLATE ? UINT64_MAX : kind == SIM_SPLIT ? some : one;
        cut_from(remote, cuts, true, true);
    }
}

static void plan_next(struct sim_world *world) {
    sim_event_in(&world->time, &world->remote_fault,
                 draw(world, 2 * world->plan.fault_pause_ms) * MS_NS);
}

static uint64_t total_weight(const struct sim_plan *plan) {
    uint64_t total = 0;
    for (int kind = 0; kind < SIM_FAULTS; kind++) {
        total += weight_of(plan, (enum sim_fault_kind)kind);
    }
    return total;
}

static void fire_fault(struct sim_event *event) {
    struct sim_world *world = LIST_ITEM(event, struct sim_world, remote_fault);
    struct sim_remote *remote = &world->remotes[draw(world, world->plan.remotes)];
    uint64_t at = draw(world, total_weight(&world->plan));
    int kind = 0;
    while (at >= weight_of(&world->plan, (enum sim_fault_kind)kind)) {
        at -= weight_of(&world->plan, (enum sim_fault_kind)kind++);
    }
    if (remote->client != NULL) {
        sim_world_tell(world, "fault %s at %s", sim_fault_name((enum sim_fault_kind)kind),
                       remote->name);
        world->counts.faults[kind]++;
        strike(remote, (enum sim_fault_kind)kind);
    }
    plan_next(world);
}

void sim_remote_faults_start(struct sim_world *world) {
    world->remote_fault.fire = fire_fault;
    if (world->plan.remotes > 0 && total_weight(&world->plan) > 0) {
        plan_next(world);
    }
}

void sim_remote_faults_stop(struct sim_world *world) {
    sim_event_cancel(&world->time, &world->remote_fault);
    for (size_t i = 0; i < world->plan.remotes; i++) {
        struct sim_remote *remote = &world->remotes[i];
        if (remote->client == NULL && sim_event_planned(&remote->restart)) {
            sim_event_in(&world->time, &remote->restart, 0);
        }
    }
}
