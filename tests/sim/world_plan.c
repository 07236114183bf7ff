/* What a seed stands for. Each thing is drawn from few values that differ much, so that seeds differ
 * in kind and not only in numbers. */
#include "tests/sim/world.h"

#define US_NS UINT64_C(1000)
#define KIB   UINT64_C(1024)

struct sim_plan sim_plan_calm(uint64_t seed) {
    return (struct sim_plan){
        .seed = seed,
        .nodes = 3,
        .heartbeat_ms = 50,
        .election_ms = 300,
        .disk_hang_ms = 2000,
        .segment_bytes = 64 * KIB,
        .window_bytes = 64 * KIB,
        .image_log_bytes = 1024 * KIB,
        .keep_entries = 1000,
        .history_revisions = 100,
        .peer_inflight_bytes = 1024 * KIB,
        .peer_inflight_requests = 512,
        .net = {.latency_min_ns = 50 * US_NS,
                .latency_max_ns = 300 * US_NS,
                .window_bytes = 256 * KIB,
                .retransmit_backoff = true},
        .disk = {.op_ns = 5 * US_NS, .sync_ns = 800 * US_NS, .byte_ps = 300},
        .turn_ns_max = 20 * US_NS,
        .depth = 1,
        .keys = 16,
        .hot_permille = 200,
        .value_bytes_max = 64,
        .op_pause_ns = 100 * MS_NS,
        .timeout_ms = 2000,
        .bounded_ms = 1000,
        .remote_permille = 1000,
        .remote_connections = 1,
        .fault_pause_ms = 1000,
        .fault_ms_max = 3000,
    };
}

#define PICK(prng, ...)                         \
    pick(prng, (const uint64_t[]){__VA_ARGS__}, \
         sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static uint64_t pick(struct prng *prng, const uint64_t *values, size_t count) {
    return values[prng_below(prng, count)];
}

static void draw_world(struct prng *prng, struct sim_plan *plan) {
    plan->nodes = (size_t)PICK(prng, 1, 2, 3, 3, 3, 3, 4, 5, 5);
    plan->election_ms = PICK(prng, 150, 300, 300, 600);
    plan->heartbeat_ms = plan->election_ms / PICK(prng, 3, 6, 6, 10);
    plan->disk_hang_ms = PICK(prng, 500, 2000, 2000);
    plan->segment_bytes = PICK(prng, 2, 4, 16, 64) * KIB;
    plan->window_bytes = PICK(prng, 1, 16, 256) * KIB;
    plan->image_log_bytes = PICK(prng, 1, 4, 32, 1024) * KIB;
    plan->keep_entries = PICK(prng, 0, 1, 10, 100, 1000);
    plan->peer_inflight_bytes = PICK(prng, 16, 64, 1024) * KIB;
    plan->peer_inflight_requests = PICK(prng, 1, 4, 512);
    plan->drift_ppm = (int64_t)PICK(prng, 0, 50, 10000);
    plan->turn_ns_max = PICK(prng, 0, 20, 500) * US_NS;
}

static void draw_net(struct prng *prng, struct sim_net_options *net) {
    net->latency_min_ns = PICK(prng, 20, 100, 5000) * US_NS;
    net->latency_max_ns = net->latency_min_ns * PICK(prng, 2, 4, 10);
    net->spike_permille = (uint32_t)PICK(prng, 0, 0, 2, 50);
    net->spike_ns = PICK(prng, 20, 200, 1000) * MS_NS;
    net->window_bytes = PICK(prng, 4, 64, 256) * KIB;
    net->split_permille = (uint32_t)PICK(prng, 0, 20, 500);
    net->retransmit_backoff = prng_below(prng, 2) == 0;
}

static void draw_disk(struct prng *prng, struct sim_disk_latency *disk) {
    disk->op_ns = PICK(prng, 1, 20, 200) * US_NS;
    disk->sync_ns = PICK(prng, 50, 1000, 10000) * US_NS;
    disk->byte_ps = PICK(prng, 0, 300, 20000);
}

static void draw_load(struct prng *prng, struct sim_plan *plan) {
    plan->clients = (size_t)PICK(prng, 1, 3, 8, 16);
    plan->depth = (size_t)PICK(prng, 1, 1, 8, 40);
    plan->keys = (uint32_t)PICK(prng, 2, 16, 100);
    plan->hot_permille = (uint32_t)PICK(prng, 0, 300, 900);
    plan->value_bytes_max = (uint32_t)PICK(prng, 8, 100, 1000, 4000);
    plan->op_pause_ns = PICK(prng, 10, 50, 200) * MS_NS;
    plan->timeout_ms = PICK(prng, 100, 1000, 3000);
}

static void draw_faults(struct prng *prng, struct sim_plan *plan) {
    plan->chaos_ms = PICK(prng, 3, 10, 30) * 1000;
    plan->fault_pause_ms = PICK(prng, 100, 500, 2000);
    plan->fault_ms_max = PICK(prng, 200, 2000, 6000);
    plan->faults_at_founding = prng_below(prng, 4) == 0;
    for (size_t i = 0; i < SIM_ROT; i++) {
        plan->weights[i] = (uint32_t)PICK(prng, 0, 0, 1, 4);
    }
}

static void draw_sessions(struct prng *prng, struct sim_plan *plan) {
    plan->session_permille = (uint32_t)PICK(prng, 0, 300, 900);
    plan->session_ttl_ms = PICK(prng, 1000, 3000, 60000);
}

static void draw_remotes(struct prng *prng, struct sim_plan *plan) {
    plan->remotes = (size_t)PICK(prng, 0, 1, 2, 3);
    plan->remote_permille = (uint32_t)PICK(prng, 300, 700, 1000);
    plan->remote_connections = (size_t)PICK(prng, 1, 1, 2, 4);
    plan->more_permille = (uint32_t)PICK(prng, 0, 0, 100, 400);
}

/* Little of it, or each image is many times as large as what it is about. */
static void draw_history(struct prng *prng, struct sim_plan *plan) {
    plan->history_revisions = PICK(prng, 1, 1, 20, 200);
    plan->history_ms = PICK(prng, 0, 0, 300, 3000);
    plan->history_bytes = PICK(prng, 0, 0, 4, 64) * KIB;
}

static void draw_leases(struct prng *prng, struct sim_plan *plan) {
    plan->lease_permille = (uint32_t)PICK(prng, 0, 0, 100, 400);
    plan->lease_ttl_ms = PICK(prng, 1000, 4000, 8000);
}

struct sim_plan sim_plan_swarm(uint64_t seed) {
    struct prng prng = prng_of(seed ^ UINT64_C(0x5eed5eed5eed5eed));
    struct sim_plan plan = sim_plan_calm(seed);
    draw_world(&prng, &plan);
    draw_net(&prng, &plan.net);
    draw_disk(&prng, &plan.disk);
    draw_load(&prng, &plan);
    draw_faults(&prng, &plan);
    draw_sessions(&prng, &plan);
    /* What is new comes last: all before it stays as it was for each seed. */
    plan.late_permille = (uint32_t)PICK(&prng, 0, 0, 300, 1000);
    plan.upgrade_permille = (uint32_t)PICK(&prng, 0, 0, 100, 500);
    plan.keep_permille = (uint32_t)PICK(&prng, 0, 0, 100, 900);
    draw_remotes(&prng, &plan);
    plan.read_permille = (uint32_t)PICK(&prng, 0, 100, 300, 700);
    draw_history(&prng, &plan);
    plan.view_permille = (uint32_t)PICK(&prng, 0, 500, 800);
    draw_leases(&prng, &plan);
    plan.bounded_ms = PICK(&prng, 20, 200, 1000);
    plan.digest_ms = PICK(&prng, 0, 0, 500, 5000);
    plan.write_permille = (uint32_t)PICK(&prng, 0, 100, 300, 700);
    plan.lease_reads = (enum sim_lease_reads)PICK(&prng, SIM_LEASE_READS_OFF, SIM_LEASE_READS_ON,
                                                  SIM_LEASE_READS_ON, SIM_LEASE_READS_MIXED);
    plan.leased_permille = (uint32_t)PICK(&prng, 0, 300, 900);
    return plan;
}

static struct sim_plan rotting(struct sim_plan plan) {
    struct prng prng = prng_of(plan.seed ^ UINT64_C(0x0707070707070707));
    plan.nodes = (size_t)PICK(&prng, 2, 3, 3, 3, 3, 4, 5);
    plan.rot_budget = plan.nodes == 2 || prng_below(&prng, 2) == 0 ? SIM_ROT_APART : SIM_ROT_FEW;
    plan.scrub_ms = PICK(&prng, 0, 500, 5000);
    plan.weights[SIM_ROT] = (uint32_t)PICK(&prng, 2, 8);
    return plan;
}

struct sim_plan sim_plan_log(uint64_t seed) {
    struct prng prng = prng_of(seed ^ UINT64_C(0x1061061061061061));
    struct sim_plan plan = sim_plan_swarm(seed);
    plan.log_mode = true;
    plan.retention_bytes = PICK(&prng, 0, 1, 8, 8, 64) * KIB;
    plan.session_permille = (uint32_t)PICK(&prng, 0, 500, 900);
    return plan;
}

static struct sim_plan owning(struct sim_plan plan) {
    plan.own_mode = true;
    plan.retention_bytes = 0; /* images say how far the log goes */
    return plan;
}

struct sim_plan sim_plan_own(uint64_t seed) {
    return owning(sim_plan_log(seed));
}

struct sim_plan sim_plan_own_rot(uint64_t seed) {
    return owning(rotting(sim_plan_log(seed)));
}

struct sim_plan sim_plan_rot(uint64_t seed) {
    return rotting(sim_plan_swarm(seed));
}

struct sim_plan sim_plan_log_rot(uint64_t seed) {
    return rotting(sim_plan_log(seed));
}

/* ------------------------------------------------------------------ all of it */

static struct sim_plan draw_world_kind(struct prng *prng, uint64_t seed, bool *any) {
    uint64_t at = prng_below(prng, 20);
    bool log = prng_below(prng, 2) == 0;
    *any = at >= 18;
    return at < 8    ? sim_plan_swarm(seed)
           : at < 11 ? sim_plan_log(seed)
           : at < 15 ? sim_plan_rot(seed)
           : at < 18 ? sim_plan_log_rot(seed)
           : log     ? sim_plan_log_rot(seed)
                     : sim_plan_rot(seed);
}

/* What TCP does not do to its bytes; and what it does. */
static void draw_more_net(struct prng *prng, struct sim_net_options *net) {
    net->loss_permille = (uint32_t)PICK(prng, 0, 0, 10, 200);
    if (prng_below(prng, 2) == 0) {
        net->frame_drop_permille = (uint32_t)PICK(prng, 0, 5, 50, 200);
        net->frame_double_permille = (uint32_t)PICK(prng, 0, 20, 200);
        net->frame_swap_permille = (uint32_t)PICK(prng, 0, 20, 200);
        net->frame_change_permille = (uint32_t)PICK(prng, 0, 0, 1, 10);
    }
}

/* A segment for every two records is a file for every two records: with a backlog of ten thousand they
 * would be all that there is time for. */
static void spare_files(struct sim_plan *plan) {
    if (plan->segment_bytes <= 2 * KIB) {
        uint32_t half = (uint32_t)plan->segment_bytes / 2;
        plan->disk.sync_ns = plan->disk.sync_ns < MS_NS ? plan->disk.sync_ns : MS_NS;
        plan->depth = plan->depth < 8 ? plan->depth : 8;
        plan->clients = plan->clients < 8 ? plan->clients : 8;
        plan->value_bytes_max = plan->value_bytes_max < half ? plan->value_bytes_max : half;
    }
}

struct sim_plan sim_plan_mixed(uint64_t seed) {
    struct prng prng = prng_of(seed ^ UINT64_C(0x3333333333333333));
    bool any;
    struct sim_plan plan = draw_world_kind(&prng, seed, &any);
    bool rots = plan.rot_budget != SIM_ROT_NONE;
    plan.nodes = (size_t)PICK(&prng, 1, 2, 3, 3, 3, 3, 4, 5, 5, 6, 7);
    plan.segment_bytes = PICK(&prng, 1, 1, 2, 4, 16, 64) * KIB;
    spare_files(&plan);
    plan.inflight_bytes = PICK(&prng, 0, 0, 16, 64) * KIB;
    plan.evict_permille = (uint32_t)PICK(&prng, 0, 200, 1000);
    plan.slow_permille = (uint32_t)PICK(&prng, 0, 300, 700);
    plan.healing = (enum sim_healing)PICK(&prng, SIM_HEAL_ALL, SIM_HEAL_MAJORITY, SIM_HEAL_BOTH,
                                          SIM_HEAL_BOTH);
    draw_more_net(&prng, &plan.net);
    for (size_t i = SIM_CUT_SOME; i <= SIM_EVICT; i++) {
        plan.weights[i] = (uint32_t)PICK(&prng, 0, 0, 1, 4);
    }
    if (rots) {
        plan.nodes = plan.nodes == 1 && !any ? 3 : plan.nodes;
        plan.rot_writes = prng_below(&prng, 3) > 0;
        bool apart = plan.nodes == 2 || prng_below(&prng, 2) == 0;
        plan.rot_budget = any ? SIM_ROT_ANY : apart ? SIM_ROT_APART : SIM_ROT_FEW;
    }
    return plan.log_mode && prng_below(&prng, 3) == 0 ? owning(plan) : plan;
}

static const struct {
    const char *name;
    sim_plan_maker *maker;
} worlds[] = {{"mixed", sim_plan_mixed},    {"plain", sim_plan_swarm},     {"rot", sim_plan_rot},
              {"log", sim_plan_log},        {"log-rot", sim_plan_log_rot}, {"own", sim_plan_own},
              {"own-rot", sim_plan_own_rot}};

bool sim_world_named(const char *name, sim_plan_maker **out) {
    for (size_t i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
        if (strcmp(worlds[i].name, name) == 0) {
            *out = worlds[i].maker;
            return true;
        }
    }
    return false;
}

const char *sim_world_name(sim_plan_maker *maker) {
    size_t i = 0;
    while (worlds[i].maker != maker) {
        i++;
    }
    return worlds[i].name;
}
