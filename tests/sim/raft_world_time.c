/* Each node's clock, pauses, and what leases promise (rule 30). */
#include "tests/sim/raft_world_parts.h"

typedef unsigned long long ull;

enum { PPM = 1000000 };

void w_clock_begin(struct world *world, struct w_node *node) {
    int64_t most = world->options.drift_ppm;
    node->set_at_ns = node->set_to_ns = world->now_ns;
    if (most > 0) { /* the two ends of what is allowed are likely */
        int64_t drawn =
            (int64_t)prng_below(&world->clock_prng, (uint64_t)(4 * most + 1)) - 2 * most;
        node->drift_ppm = drawn < -most ? -most : drawn > most ? most : drawn;
    }
}

uint64_t w_clock(const struct world *world, const struct w_node *node) {
    uint64_t passed_ns = world->now_ns - node->set_at_ns;
    __int128 drift = (__int128)passed_ns * node->drift_ppm / PPM;
    return node->set_to_ns + passed_ns + (uint64_t)(int64_t)drift;
}

uint64_t w_when(const struct w_node *node, uint64_t clock_ns) {
    if (node->drift_ppm == 0 && node->set_at_ns == node->set_to_ns) {
        return clock_ns;
    }
    if (clock_ns == UINT64_MAX || clock_ns <= node->set_to_ns) {
        return clock_ns == UINT64_MAX ? UINT64_MAX : node->set_at_ns;
    }
    __int128 passed = (__int128)(clock_ns - node->set_to_ns) * PPM / (PPM + node->drift_ppm);
    return node->set_at_ns + (uint64_t)passed + 2; /* both roundings */
}

void world_clock(struct world *world, uint64_t id, int64_t ppm) {
    struct w_node *node = w_node(world, id);
    node->set_to_ns = w_clock(world, node);
    node->set_at_ns = world->now_ns;
    node->drift_ppm = ppm;
}

void world_pause(struct world *world, uint64_t id, uint64_t us) {
    w_node(world, id)->paused_until_ns = world->now_ns + us * 1000;
}

uint64_t w_awake(const struct w_node *node, uint64_t at_ns) {
    return at_ns > node->paused_until_ns ? at_ns : node->paused_until_ns;
}

void w_draw_times(struct world *world, struct raft_options *options) {
    if (!world->options.vary_times) {
        return;
    }
    uint32_t part = 1 + (uint32_t)prng_below(&world->clock_prng, 2);
    options->election_min_ms /= part;
    options->election_max_ms /= part;
    options->promise_ms = options->promise_ms / 2 * (uint32_t)prng_below(&world->clock_prng, 3);
    if (options->promise_ms > options->election_min_ms) {
        options->promise_ms = options->election_min_ms;
    }
}

static uint64_t lease_left_ns(const struct world *world, const struct w_node *node) {
    struct raft_status status;
    raft_status(node->raft, &status);
    uint64_t now_ns = w_clock(world, node);
    return status.lease_until_ns > now_ns ? status.lease_until_ns - now_ns : 0;
}

uint64_t world_lease_ms(const struct world *world, uint64_t id) {
    const struct w_node *node = w_node(world, id);
    return node->raft != NULL ? lease_left_ns(world, node) / 1000000 : 0;
}

/* Whoever has a lease would answer a read now without asking anybody. */
void w_check_leases(struct world *world, const struct w_node *leader) {
    for (size_t i = 0; i < world->options.nodes; i++) {
        const struct w_node *other = &world->nodes[i];
        if (other == leader || other->raft == NULL || other->term >= leader->update.term) {
            continue;
        }
        uint64_t left_ns = lease_left_ns(world, other);
        if (left_ns > 0) {
            w_violate(world, "n%d leads in term %llu, the lease of n%d lasts %.3f ms more",
                      (int)leader->id, (ull)leader->update.term, (int)other->id,
                      (double)left_ns / 1e6);
        }
    }
}
