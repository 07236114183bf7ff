/* A random hunt: clusters of 1 to 7 nodes under random faults, checked after every step, and after
 * healing a majority must make progress within 20 election timeouts.
 *
 * LKV_HUNT_SEEDS=n runs n seeds instead of a few hundred, LKV_HUNT_FROM=s starts at seed s, and
 * LKV_HUNT_TRACE=1 prints what happens, 2 also the messages (with LKV_HUNT_SEEDS=1 and the seed that failed). */
#include "base/prng.h"
#include "tests/sim/raft_world.h"
#include "tests/support/stride.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ACTIONS = 400, SEEDS_USUAL = 1500 };

/* BUDGET: every entry that may be committed can be read by some voter; all must become well again.
 * ANY: nothing is promised but that nothing wrong happens; a node may stop. */
enum damage { NO_DAMAGE, BUDGET, ANY };

struct hunt {
    struct world *world;
    enum damage damage;
    struct prng prng;
    size_t nodes, voters;
    uint64_t severity;     /* 0: mostly well, 3: hardly ever */
    uint64_t failed_disks; /* bits: those nodes never come back */
    struct prng
        lease_prng; /* of what belongs to leases: the rest of a seed is the same without it */
    bool pauses, leases;
};

static uint64_t below(struct hunt *hunt, uint64_t bound) {
    return prng_below(&hunt->prng, bound);
}

static uint64_t some_node(struct hunt *hunt) {
    return 1 + below(hunt, hunt->nodes);
}

static void print_line(void *arg, const char *line) {
    struct hunt *hunt = arg;
    printf("%10" PRIu64 " %s\n", hunt->world != NULL ? world_now_ms(hunt->world) : 0, line);
}

/* Clocks that differ by as much as the option says, and members that know no promises, or other ones in each
 * life. */
static void draw_leases(struct hunt *hunt, struct world_options *options) {
    struct prng *prng = &hunt->lease_prng;
    static const uint32_t drifts[] = {0, 1000, 20000, 200000};
    if (prng_below(prng, 4) == 0) {
        return;
    }
    options->raft.promise_ms = options->raft.election_min_ms / (1 + (uint32_t)prng_below(prng, 2));
    options->raft.drift_ppm = drifts[prng_below(prng, 4)];
    options->drift_ppm = options->raft.drift_ppm / 2; /* of two, one fast and one slow */
    if (prng_below(prng, 2) == 0) {
        options->raft.election_max_ms =
            options->raft.election_min_ms + 5; /* at once when it may be */
    }
    hunt->leases = true;
    options->vary_times = prng_below(prng, 2) == 0;
    options->plain = prng_below(prng, 4) == 0 ? (uint32_t)prng_below(prng, 128) : 0;
    hunt->pauses = prng_below(prng, 2) == 0;
}

static struct world_options options_of(struct hunt *hunt, uint64_t seed) {
    struct world_options options = world_options_default(hunt->nodes, seed);
    options.learners = hunt->nodes > 2 ? below(hunt, 2) : 0;
    hunt->voters = hunt->nodes - options.learners;
    hunt->severity = below(hunt, 4);
    options.ordered = below(hunt, 2) == 0;
    options.fetch_max_us = below(hunt, 2) == 0 ? 0 : 300000;
    options.delay_max_us =
        options.delay_min_us + (uint32_t)below(hunt, below(hunt, 4) == 0 ? 50000 : 2000);
    options.disk_max_us = options.disk_min_us + (uint32_t)below(hunt, 20000);
    options.window_entries = (uint32_t)below(hunt, 3) * 20;
    options.raft.inflight_requests_max = below(hunt, 2) == 0 ? 4 : 512;
    options.raft.inflight_bytes_max = below(hunt, 2) == 0 ? 4000 : 8u << 20;
    options.raft.append_bytes_max = below(hunt, 2) == 0 ? 500 : 1u << 20;
    options.raft.uncommitted_bytes_max = below(hunt, 3) == 0 ? 20000 : 64u << 20;
    draw_leases(hunt, &options);
    if (getenv("LKV_HUNT_TRACE") != NULL) {
        options.trace = print_line;
        options.trace_arg = hunt;
        options.trace_messages = getenv("LKV_HUNT_TRACE")[0] == '2';
    }
    return options;
}

static void read_index(struct hunt *hunt, uint64_t node) {
    world_read(hunt->world, node, prng_below(&hunt->lease_prng, 2) == 0);
}

static void load(struct hunt *hunt) {
    uint64_t leader = world_leader(hunt->world);
    uint64_t node = leader != 0 && below(hunt, 4) != 0 ? leader : some_node(hunt);
    for (uint64_t i = below(hunt, 4); i > 0; i--) {
        (void)world_submit(hunt->world, node, 1 + below(hunt, 10), (uint32_t)below(hunt, 200), 0,
                           NULL);
    }
    if (below(hunt, 3) == 0) {
        read_index(hunt, some_node(hunt));
    }
}

static void crash(struct hunt *hunt) {
    uint64_t node = some_node(hunt);
    if (world_is_up(hunt->world, node)) {
        world_crash(hunt->world, node, below(hunt, 2) == 0);
    } else if ((hunt->failed_disks >> node & 1) == 0) {
        world_restart(hunt->world, node);
    }
}

static void partition(struct hunt *hunt) {
    switch (below(hunt, 4)) {
    case 0: world_cut(hunt->world, some_node(hunt), some_node(hunt), below(hunt, 2) == 0); break;
    case 1: world_isolate(hunt->world, some_node(hunt), below(hunt, 2) == 0); break;
    case 2: world_loss(hunt->world, (uint32_t)below(hunt, 200), (uint32_t)below(hunt, 200)); break;
    default: world_heal(hunt->world); break;
    }
}

static void disks(struct hunt *hunt) {
    uint64_t node = some_node(hunt);
    switch (below(hunt, 5)) {
    case 0:
    case 1: world_disk_hang(hunt->world, node, below(hunt, 2) == 0); break;
    case 2: world_disk_space(hunt->world, node, (enum raft_room)below(hunt, 3)); break;
    case 3: world_disk_delay(hunt->world, node, 100, 100 + (uint32_t)below(hunt, 150000)); break;
    default:
        if (hunt->damage != BUDGET && below(hunt, 20) == 0 && hunt->voters > 2 &&
            hunt->failed_disks == 0) {
            hunt->failed_disks |= 1ull << node;
            world_disk_fail(hunt->world, node);
        }
        break;
    }
}

/* Sometimes the old leader does not hear that it was replaced, and goes on being asked. */
static void transfer(struct hunt *hunt) {
    uint64_t leader = world_leader(hunt->world);
    if (leader == 0) {
        return;
    }
    uint64_t target = below(hunt, 2) == 0 ? some_node(hunt) : RAFT_NOBODY;
    if (world_transfer(hunt->world, leader, target) != 0 || below(hunt, 2) == 0) {
        return;
    }
    world_run_us(hunt->world, below(hunt, 3000));
    for (uint64_t i = 1; i <= hunt->nodes; i++) {
        if (i != leader) {
            world_cut(hunt->world, i, leader, true);
        }
    }
    for (int i = 0; i < 10; i++) {
        world_run_us(hunt->world, below(hunt, 20000));
        read_index(hunt, leader);
        load(hunt);
    }
    world_heal(hunt->world);
}

/* The leader is heard no more, and is asked until it has noticed. */
static void silence(struct hunt *hunt) {
    struct prng *prng = &hunt->lease_prng;
    uint64_t leader = world_leader(hunt->world);
    if (leader == 0) {
        return;
    }
    bool deaf = prng_below(prng, 2) == 0;
    for (uint64_t i = 1; i <= hunt->nodes; i++) {
        if (i != leader) {
            world_cut(hunt->world, leader, i, true);
            world_cut(hunt->world, i, leader, deaf);
        }
    }
    for (int i = 0; i < 20; i++) {
        world_run_us(hunt->world, prng_below(prng, 60000));
        world_read(hunt->world, leader, true);
    }
    world_heal(hunt->world);
}

static void rot(struct hunt *hunt, uint64_t node) {
    uint64_t last = world_disk_last(hunt->world, node);
    uint64_t reach = below(hunt, 2) == 0 ? 12 : last + 1; /* mostly what others may lack too */
    for (uint64_t i = 1 + below(hunt, 2); i > 0; i--) {
        uint64_t back = below(hunt, reach < last + 1 ? reach : last + 1);
        uint64_t first = last > back ? last - back : 1;
        world_rot(hunt->world, node, first, first + below(hunt, 6), hunt->damage == BUDGET);
    }
}

/* Mostly to nodes that are down, and they come back with it; else found while running, or never. */
static void damage(struct hunt *hunt) {
    uint64_t node = some_node(hunt);
    bool budget = hunt->damage == BUDGET;
    if (world_is_up(hunt->world, node) && below(hunt, 6) == 0) {
        world_reread(hunt->world, node, 1 + below(hunt, 6));
        return;
    }
    if (world_is_up(hunt->world, node) && below(hunt, 3) == 0) {
        rot(hunt, node);
        if (below(hunt, 2) == 0) {
            world_scrub(hunt->world, node);
        }
        return;
    }
    if (world_is_up(hunt->world, node)) {
        world_crash(hunt->world, node, below(hunt, 2) == 0);
    }
    switch (below(hunt, 6)) {
    case 0: world_lose_image(hunt->world, node, budget); break;
    case 1: world_lose_end(hunt->world, node, 1 + below(hunt, 8), budget); break;
    default: rot(hunt, node); break;
    }
    if (below(hunt, 3) != 0 && (hunt->failed_disks >> node & 1) == 0) {
        world_restart(hunt->world, node);
    }
}

static void act(struct hunt *hunt) {
    if (hunt->damage != NO_DAMAGE && below(hunt, 10) == 0) {
        damage(hunt);
    }
    switch (below(hunt, 12)) {
    case 0: crash(hunt); break;
    case 1: partition(hunt); break;
    case 2: disks(hunt); break;
    case 3: transfer(hunt); break;
    case 4: world_compact(hunt->world, some_node(hunt), below(hunt, 30)); break;
    case 5: world_reconnect(hunt->world, some_node(hunt), some_node(hunt)); break;
    default: load(hunt); break;
    }
    if (hunt->leases && prng_below(&hunt->lease_prng, 40) == 0) {
        silence(hunt);
    }
    if (hunt->pauses && prng_below(&hunt->lease_prng, 40) == 0) {
        uint64_t node = 1 + prng_below(&hunt->lease_prng, hunt->nodes);
        world_pause(hunt->world, node, prng_below(&hunt->lease_prng, 1500000));
    }
    world_run_us(hunt->world, below(hunt, below(hunt, 10) == 0 ? 800000 : 20000));
}

/* Without some repair nearly everything would be down most of the time. */
static void repair(struct hunt *hunt) {
    if (below(hunt, 8 << 2 * hunt->severity) != 0) {
        return;
    }
    world_heal(hunt->world);
    for (uint64_t i = 1; i <= hunt->nodes; i++) {
        if ((hunt->failed_disks >> i & 1) == 0) {
            world_restart(hunt->world, i);
        }
    }
}

/* ------------------------------------------------------------------ after healing */

static bool leads(struct world *world, void *arg) {
    (void)arg;
    uint64_t leader = world_leader(world);
    return leader != 0 && world_submit(world, leader, 1, 10, 0, NULL) == 0;
}

static bool committed(struct world *world, void *arg) {
    return world_committed(world) >= *(uint64_t *)arg;
}

static bool all_equal(struct world *world, void *arg) {
    struct hunt *hunt = arg;
    for (uint64_t i = 1; i <= hunt->nodes; i++) {
        if ((hunt->failed_disks >> i & 1) == 0 &&
            world_status(world, i).commit < world_committed(world)) {
            return false;
        }
        if (hunt->damage == BUDGET &&
            (world_status(world, i).gap_count > 0 || world_status(world, i).end_unknown)) {
            return false;
        }
    }
    return true;
}

static const char *heal(struct hunt *hunt) {
    struct world *world = hunt->world;
    for (uint64_t i = 1; i <= hunt->nodes; i++) {
        if ((hunt->failed_disks >> i & 1) == 0 &&
            (world_status(world, i).role == RAFT_STOPPED || !world_is_up(world, i))) {
            world_crash(world, i, false);
            world_restart(world, i);
        }
    }
    world_heal(world);
    world_delay(world, 100, 1000);
    uint64_t limit_ms = 20 * raft_options_default().election_max_ms;
    uint64_t target = world_committed(world) + 1;
    if (!world_until(world, leads, NULL, limit_ms) ||
        !world_until(world, committed, &target, limit_ms)) {
        return "no progress within 20 election timeouts after healing";
    }
    world_run_ms(world, 100);
    if (!world_until(world, all_equal, hunt, 10 * limit_ms)) {
        return "the nodes do not become equal after healing";
    }
    return NULL;
}

/* Where everybody stands, for whoever looks at a failure. */
static void print_nodes(struct hunt *hunt) {
    for (uint64_t i = 1; i <= hunt->nodes && world_is_up(hunt->world, i); i++) {
        struct raft_status s = world_status(hunt->world, i);
        printf("n%" PRIu64 " role %d term %" PRIu64 " log %" PRIu64 "..%" PRIu64 " durable %" PRIu64
               " commit %" PRIu64 " noop %" PRIu64 " gaps %zu (%" PRIu64 "..%" PRIu64 ")%s\n",
               i, (int)s.role, s.term, s.first, s.last, s.durable, s.commit, s.noop_index,
               s.gap_count, s.first_gap.first, s.first_gap.last,
               s.end_unknown ? ", end unknown" : "");
        struct raft_peer_status peers[RAFT_MEMBERS_MAX];
        size_t count = raft_peers(world_raft(hunt->world, i), peers, RAFT_MEMBERS_MAX);
        for (size_t k = 0; s.role == RAFT_LEADER && k < count; k++) {
            printf("    n%" PRIu64 " up %d room %d state %d match %" PRIu64 " next %" PRIu64
                   " inflight %u (%u bytes)\n",
                   peers[k].id, peers[k].up, (int)peers[k].room, (int)peers[k].state,
                   peers[k].match, peers[k].next, peers[k].inflight_requests,
                   peers[k].inflight_bytes);
        }
    }
}

static const char *hunt_one(uint64_t seed, enum damage kind, uint64_t *virtual_ms,
                            struct world_counts *sum) {
    static char text[600];
    struct hunt hunt = {
        .damage = kind, .prng = prng_of(seed * 77 + 5), .lease_prng = prng_of(seed * 79 + 30)};
    hunt.nodes = kind == NO_DAMAGE ? 1 + below(&hunt, 7) : 2 + below(&hunt, 4);
    struct world_options options = options_of(&hunt, seed);
    hunt.world = world_new(&options);
    for (int i = 0; i < ACTIONS && world_violation(hunt.world) == NULL; i++) {
        act(&hunt);
        repair(&hunt);
    }
    const char *late = NULL;
    if (kind != ANY && world_violation(hunt.world) == NULL) {
        late = heal(&hunt);
    }
    if (kind == BUDGET && late == NULL && world_counts(hunt.world)->newest_stop != 0) {
        late = "a node stopped although everything can be repaired";
    }
    const char *found = world_violation(hunt.world) != NULL ? world_violation(hunt.world) : late;
    if (found != NULL) {
        print_nodes(&hunt);
        snprintf(text, sizeof text, "seed %" PRIu64 ": %s", seed, found);
    }
    const struct world_counts *counts = world_counts(hunt.world);
    *virtual_ms += world_now_ms(hunt.world) - 1000;
    sum->steps += counts->steps;
    sum->messages += counts->messages;
    sum->leaders += counts->leaders;
    sum->reads_done += counts->reads_done;
    sum->reads_leased += counts->reads_leased;
    sum->installs += counts->installs;
    sum->fetches += counts->fetches;
    sum->crashes += counts->crashes;
    sum->rotten += counts->rotten;
    sum->lost_ends += counts->lost_ends;
    sum->filled += counts->filled;
    sum->reread += counts->reread;
    sum->discarded += counts->discarded;
    sum->settled += counts->settled;
    sum->newest_stop += counts->newest_stop != 0;
    world_free(hunt.world);
    return found != NULL ? text : NULL;
}

static uint64_t from_environment(const char *name, uint64_t usual) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : usual;
}

static void hunt_many(enum damage kind, uint64_t usual) {
    uint64_t from = from_environment("LKV_HUNT_FROM", 1);
    uint64_t count = from_environment("LKV_HUNT_SEEDS", usual);
    uint64_t virtual_ms = 0;
    struct world_counts sum = {0};
    for (uint64_t seed = from; seed < from + count; seed++) {
        const char *found = hunt_one(seed, kind, &virtual_ms, &sum);
        cr_expect(found == NULL, "%s", found);
    }
    printf("%" PRIu64 " seeds, %.2f virtual hours, %" PRIu64 " steps, %" PRIu64
           " messages, %" PRIu64 " leaders, %" PRIu64 " reads (%" PRIu64 " by leases), %" PRIu64
           " images, %" PRIu64 " fetches, %" PRIu64 " crashes\n",
           count, (double)virtual_ms / 3.6e6, sum.steps, sum.messages, sum.leaders, sum.reads_done,
           sum.reads_leased, sum.installs, sum.fetches, sum.crashes);
    if (kind != NO_DAMAGE) {
        printf("damage: %" PRIu64 " entries rotten, %" PRIu64 " filled (%" PRIu64
               " read again), %" PRIu64 " discards, %" PRIu64 " ends lost, %" PRIu64
               " settled, %" PRIu64 " clusters with a stop\n",
               sum.rotten, sum.filled, sum.reread, sum.discarded, sum.lost_ends, sum.settled,
               sum.newest_stop);
    }
}

Test(raft_hunt, finds_nothing) {
    hunt_many(NO_DAMAGE, SEEDS_USUAL / LKV_STRIDE);
}

Test(raft_hunt, damage_that_others_can_repair_is_repaired) {
    hunt_many(BUDGET, SEEDS_USUAL / 2 / LKV_STRIDE);
}

Test(raft_hunt, damage_beyond_repair_does_nothing_wrong) {
    hunt_many(ANY, SEEDS_USUAL / 2 / LKV_STRIDE);
}
