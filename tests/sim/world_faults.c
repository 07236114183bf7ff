/* Faults: which one, where, how long; and the end of all of them. */
#include "tests/sim/world.h"

#define FOREVER UINT64_MAX

static const char *const names[SIM_FAULTS] = {
    [SIM_KILL] = "kill",
    [SIM_POWER] = "power-cut",
    [SIM_CRASH_AT_OP] = "crash-in-operation",
    [SIM_POWER_ALL] = "power-cut-of-all",
    [SIM_CLEAN_RESTART] = "clean-restart",
    [SIM_PAUSE] = "pause",
    [SIM_CUT_PAIR] = "cut-pair",
    [SIM_CUT_ONE_WAY] = "cut-one-way",
    [SIM_ISOLATE] = "isolate",
    [SIM_SPLIT] = "split",
    [SIM_RESET] = "reset",
    [SIM_REPLAY] = "replay",
    [SIM_DISK_STALL] = "disk-stall",
    [SIM_DISK_ERROR] = "disk-error",
    [SIM_DISK_FULL] = "disk-full",
    [SIM_ROT] = "rot",
    [SIM_CUT_SOME] = "cut-some",
    [SIM_EVICT] = "evict",
};

const char *sim_fault_name(enum sim_fault_kind kind) {
    return names[kind];
}

static uint64_t draw(struct sim_world *world, uint64_t bound) {
    return prng_below(&world->prng_fault, bound);
}

uint64_t sim_draw_fault_ms(const struct sim_world *world, struct prng *prng) {
    uint64_t max_ms = world->plan.fault_ms_max;
    return 1 + prng_below(prng, prng_below(prng, 4) == 0 ? max_ms : max_ms / 8 + 1);
}

static uint64_t draw_ms(struct sim_world *world) {
    return sim_draw_fault_ms(world, &world->prng_fault);
}

/* ------------------------------------------------------------------ network */

void sim_isolate(struct sim_world *world, unsigned node, uint64_t until_ns) {
    for (unsigned other = 0; other < world->plan.nodes; other++) {
        if (other != node) {
            sim_net_cut(&world->net, node, other, until_ns);
            sim_net_cut(&world->net, other, node, until_ns);
        }
    }
}

void sim_rejoin(struct sim_world *world, unsigned node) {
    for (unsigned other = 0; other < world->plan.nodes; other++) {
        sim_net_mend(&world->net, node, other);
        sim_net_mend(&world->net, other, node);
    }
}

static void split(struct sim_world *world, uint64_t until_ns) {
    uint64_t side = draw(world, UINT64_C(1) << world->plan.nodes);
    for (unsigned a = 0; a < world->plan.nodes; a++) {
        for (unsigned b = 0; b < world->plan.nodes; b++) {
            if (a != b && ((side >> a) & 1) != ((side >> b) & 1)) {
                sim_net_cut(&world->net, a, b, until_ns);
            }
        }
    }
}

/* Some hear each other, some only listen; who can reach whom has no pattern. */
static void cut_some(struct sim_world *world, uint64_t until_ns) {
    uint64_t share = 1 + draw(world, 3);
    for (unsigned a = 0; a < world->plan.nodes; a++) {
        for (unsigned b = 0; b < world->plan.nodes; b++) {
            if (a != b && draw(world, 4) < share) {
                sim_net_cut(&world->net, a, b, until_ns);
            }
        }
    }
}

static void network_fault(struct sim_world *world, enum sim_fault_kind kind, unsigned at) {
    unsigned other = (unsigned)draw(world, world->plan.nodes);
    uint64_t until_ns = world->time.now_ns + draw_ms(world) * MS_NS;
    if (kind == SIM_ISOLATE) {
        sim_isolate(world, at, until_ns);
    } else if (kind == SIM_SPLIT) {
        split(world, until_ns);
    } else if (kind == SIM_CUT_SOME) {
        cut_some(world, until_ns);
    } else if (kind == SIM_RESET) {
        (void)sim_net_reset(&world->net, at);
    } else if (kind == SIM_REPLAY) {
        (void)sim_net_replay(&world->net);
    } else if (other != at) {
        sim_net_cut(&world->net, at, other, until_ns);
        if (kind == SIM_CUT_PAIR) {
            sim_net_cut(&world->net, other, at, until_ns);
        }
    }
}

/* ------------------------------------------------------------------ disk */

static void stall(struct sim_world *world, struct sim_node *node) {
    struct sim_disk_latency latency = world->plan.disk;
    uint32_t slow = world->plan.slow_permille;
    if (slow > 0 && draw(world, 1000) < slow) {
        latency.op_ns = draw_ms(world) * MS_NS / 8;
        world->counts.slow_disks++;
    } else {
        latency.sync_hang_ns = draw_ms(world) * MS_NS;
    }
    sim_disk_set_latency(node->disk, &latency);
}

static void fail_once(struct sim_world *world, struct sim_node *node) {
    static const int kinds[] = {SIM_SYNC, SIM_WRITE, SIM_SYNC_DIR, SIM_RENAME,
                                SIM_OPEN, SIM_READ,  SIM_REMOVE,   SIM_SYNC | SIM_WRITE,
                                SIM_ANY,  SIM_LIST,  SIM_TRUNCATE, SIM_SYNC};
    int kind = kinds[draw(world, sizeof(kinds) / sizeof(kinds[0]))];
    bool lasting = draw(world, 8) == 0;
    enum sim_rot_budget budget = world->plan.rot_budget;
    /* What cannot be read counts as lost, and is the budget's to say. Without rot nobody says it, so it must not last: a
     * majority could be left without an end that is known. */
    bool loses = budget == SIM_ROT_NONE ? lasting : budget != SIM_ROT_ANY;
    if (loses) {
        kind &= ~(SIM_READ | SIM_OPEN | SIM_SIZE | SIM_LIST);
        kind = kind != 0 ? kind : SIM_SYNC;
    }
    node->disk_failed = true;
    sim_disk_fail(node->disk, kind, draw(world, 20), LKV_EIO, lasting);
}

void sim_disk_fill(struct sim_node *node, uint64_t room) {
    const uint64_t large = UINT64_C(1) << 40;
    uint64_t left = 0;
    sim_disk_set_capacity(node->disk, large);
    if (disk_free_bytes(sim_disk_seam(node->disk), "top", &left) == 0) {
        sim_disk_set_capacity(node->disk, large - left + room);
    }
}

static void disk_fault(struct sim_world *world, enum sim_fault_kind kind, struct sim_node *node) {
    if (kind == SIM_DISK_STALL) {
        stall(world, node);
    } else if (kind == SIM_DISK_ERROR) {
        fail_once(world, node);
    } else {
        sim_disk_fill(node, draw(world, 32 * 1024));
    }
    sim_event_in(&world->time, &node->disk_heals, draw_ms(world) * MS_NS);
}

/* ------------------------------------------------------------------ processes */

static void crash(struct sim_world *world, struct sim_node *node, bool power) {
    if (node->state == SIM_DOWN) {
        return;
    }
    sim_node_crash(node, power);
    sim_node_restart_in(node, draw_ms(world));
}

static void process_fault(struct sim_world *world, enum sim_fault_kind kind,
                          struct sim_node *node) {
    if (kind == SIM_KILL || kind == SIM_POWER) {
        crash(world, node, kind == SIM_POWER);
    } else if (kind == SIM_POWER_ALL) {
        for (size_t i = 0; i < world->plan.nodes; i++) {
            crash(world, &world->nodes[i], true);
        }
    } else if (kind == SIM_CRASH_AT_OP) {
        uint64_t op = sim_disk_op_count(node->disk) + draw(world, draw(world, 2) == 0 ? 6 : 60);
        sim_disk_crash_at(node->disk, op);
    } else if (kind == SIM_CLEAN_RESTART) {
        sim_node_close(node, draw(world, 2) == 0 ? 0 : (int64_t)draw(world, 1000));
    } else if (node->state != SIM_DOWN) {
        sim_loop_pause(&node->loop, draw_ms(world) * MS_NS);
    }
}

/* ------------------------------------------------------------------ the course of events */

void sim_fault_begin(struct sim_world *world, enum sim_fault_kind kind) {
    unsigned at = (unsigned)draw(world, world->plan.nodes);
    sim_world_tell(world, "fault %s at n%u", names[kind], at + 1);
    world->counts.faults[kind]++;
    if (kind <= SIM_PAUSE) {
        process_fault(world, kind, &world->nodes[at]);
    } else if (kind == SIM_EVICT) {
        sim_disk_evict(world->nodes[at].disk);
    } else if (kind <= SIM_REPLAY || kind == SIM_CUT_SOME) {
        network_fault(world, kind, at);
    } else if (kind == SIM_ROT) {
        sim_rot_begin(world, &world->nodes[at]);
    } else {
        disk_fault(world, kind, &world->nodes[at]);
    }
}

static void plan_next(struct sim_world *world) {
    sim_event_in(&world->time, &world->fault, draw(world, 2 * world->plan.fault_pause_ms) * MS_NS);
}

static void fire_fault(struct sim_event *event) {
    struct sim_world *world = LIST_ITEM(event, struct sim_world, fault);
    uint64_t total = 0;
    for (size_t i = 0; i < SIM_FAULTS; i++) {
        total += world->plan.weights[i];
    }
    uint64_t at = draw(world, total);
    size_t kind = 0;
    while (total > 0 && at >= world->plan.weights[kind]) {
        at -= world->plan.weights[kind++];
    }
    if (total > 0) {
        sim_fault_begin(world, (enum sim_fault_kind)kind);
        plan_next(world);
    }
}

void sim_faults_start(struct sim_world *world) {
    world->fault.fire = fire_fault;
    plan_next(world);
    sim_remote_faults_start(world);
}

void sim_net_calm(struct sim_world *world) {
    struct sim_net_options *net = &world->net.options;
    uint64_t quick_ns = world->plan.election_ms * MS_NS / 16;
    net->spike_permille = net->loss_permille = 0;
    net->frame_drop_permille = net->frame_double_permille = net->frame_swap_permille = 0;
    net->frame_change_permille = 0;
    net->window_bytes = (size_t)1024 * 1024; /* no heartbeat waits behind data */
    net->latency_max_ns = net->latency_max_ns < quick_ns ? net->latency_max_ns : quick_ns;
}

void sim_node_heal(struct sim_node *node) {
    sim_event_in(&node->world->time, &node->disk_heals, 0);
    sim_disk_crash_at(node->disk, FOREVER);
    if (node->state == SIM_DOWN) {
        sim_node_restart_in(node, 0);
    }
}

void sim_world_heal(struct sim_world *world) {
    sim_world_tell(world, "everything heals");
    sim_event_cancel(&world->time, &world->fault);
    sim_remote_faults_stop(world);
    sim_net_mend_all(&world->net);
    sim_programs_release(world);
    sim_net_calm(world);
    for (size_t i = 0; i < world->plan.nodes; i++) {
        sim_node_heal(&world->nodes[i]);
    }
}
