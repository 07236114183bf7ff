/* Rule 19: a node that was alone gets its peers and keeps its data, whoever dies, and when. Nothing that
 * the cluster of one acknowledged may ever be missing: the world checks that each new leader's log holds
 * all that was committed before (docs/decisions/0009-growing.md). */
#include "tests/unit/sim/play.h"

enum { ALONE_PUTS = 5, OPERATIONS = 60 };

static struct option_peer all_peers[OPTION_PEERS_MAX];
static size_t all_count;

/* n1 alone, with some entries; the others have never been started. */
static struct play begin_alone(const struct sim_plan *plan) {
    struct play play = {.story = sim_story_new(STORY_LINES, stderr)};
    play.world = sim_world_new(plan, sim_story_tell, play.story);
    struct sim_node *lone = &play.world->nodes[0];
    memcpy(all_peers, lone->options.peers, sizeof(all_peers));
    all_count = lone->options.peer_count;
    lone->options.peer_count = 0;
    sim_node_start(lone);
    for (uint32_t key = 0; key < ALONE_PUTS; key++) {
        play_put(&play, key);
    }
    return play;
}

static void give_peers(struct sim_node *node) {
    memcpy(node->options.peers, all_peers, sizeof(all_peers));
    node->options.peer_count = all_count;
}

/* Ends its lone life, and lets it start with its peers. */
static struct play begin_growing(const struct sim_plan *plan, bool power) {
    struct play play = begin_alone(plan);
    struct sim_node *lone = &play.world->nodes[0];
    sim_node_crash(lone, power);
    give_peers(lone);
    return play;
}

static void start_all(struct play *play) {
    for (size_t i = 0; i < play->world->plan.nodes; i++) {
        sim_node_start(&play->world->nodes[i]);
    }
}

static void expect_grown(struct play *play) {
    const struct node *first = play->world->nodes[0].node;
    for (size_t i = 0; i < play->world->plan.nodes; i++) {
        const struct identity *identity = &play->world->nodes[i].node->identity;
        cr_assert(eq(u64, identity->cluster_id, first->identity.cluster_id));
        cr_assert(eq(sz, identity->member_count, play->world->plan.nodes));
        cr_assert(eq(u64, identity->grown_index, first->identity.grown_index));
        cr_assert(gt(u64, identity->grown_index, ALONE_PUTS));
    }
}

Test(sim_growing, rule_19_from_one_node_to_three_and_five) {
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        plan.nodes = seed % 3 == 0 ? 5 : seed % 3 == 1 ? 3 : 2;
        struct play play = begin_growing(&plan, seed % 2 == 0);
        uint64_t cluster = 0;
        start_all(&play);
        cluster = play.world->nodes[0].node->identity.cluster_id;
        (void)play_leader(&play, 5000);
        play_put(&play, 20);
        play_agree(&play);
        expect_grown(&play);
        cr_assert(eq(u64, play.world->nodes[1].node->identity.cluster_id, cluster));
        play_end(&play);
    }
}

/* With one of the blank peers missing nothing is decided: without its peers the node is alone again. */
Test(sim_growing, rule_19_before_all_were_seen_it_can_be_alone_again) {
    struct sim_plan plan = sim_plan_calm(11);
    struct play play = begin_growing(&plan, false);
    struct sim_node *lone = &play.world->nodes[0];
    sim_node_start(lone);
    sim_node_start(&play.world->nodes[1]);
    sim_world_run_ms(play.world, 5000);
    cr_assert(not(sim_node_runs(lone)));
    cr_assert(not(sim_node_runs(&play.world->nodes[1])), "it must not found without the third");
    sim_node_crash(lone, true);
    lone->options.peer_count = 0;
    sim_node_start(lone);
    play_put(&play, 21); /* a longer log to grow from */
    sim_node_crash(lone, true);
    give_peers(lone);
    start_all(&play);
    (void)play_leader(&play, 5000);
    play_agree(&play);
    expect_grown(&play);
    play_end(&play);
}

/* The node that has everything is gone as soon as the others have adopted: they must not elect a
 * leader with an empty log, however long they are alone. */
Test(sim_growing, rule_19_the_blank_ones_never_lead_without_the_data) {
    for (uint64_t seed = 20; seed < 30; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        struct play play = begin_growing(&plan, true);
        struct sim_node *nodes = play.world->nodes;
        start_all(&play);
        while (!(sim_node_runs(&nodes[1]) && sim_node_runs(&nodes[2])) &&
               !sim_world_failed(play.world)) {
            sim_world_run_ms(play.world, 1);
            if (nodes[0].state == SIM_UP && sim_node_runs(&nodes[0])) {
                sim_isolate(play.world, 0, UINT64_MAX); /* what is on its way still arrives */
                sim_world_run_ms(play.world, seed - 20);
                sim_node_crash(&nodes[0], true);
                break;
            }
        }
        for (int i = 0; i < 100; i++) {
            sim_world_run_ms(play.world, 50);
            const struct sim_node *leader = sim_world_leader(play.world);
            cr_assert(leader == NULL || leader == &nodes[0] ||
                          sim_node_commit(leader) >= ALONE_PUTS,
                      "%s leads without the data", leader->name);
        }
        play_agree(&play);
        expect_grown(&play);
        play_end(&play);
    }
}

/* Any of the three dies within its k-th operation while the cluster grows, by a kill or a power cut. */
static void crash_while_growing(uint64_t seed, unsigned victim, uint64_t k, bool late) {
    struct sim_plan plan = sim_plan_calm(seed);
    struct play play = begin_growing(&plan, seed % 2 == 0);
    struct sim_node *node = &play.world->nodes[victim];
    if (!late) {
        sim_disk_crash_at(node->disk, sim_disk_op_count(node->disk) + k);
    }
    start_all(&play);
    if (late && node->state == SIM_UP) {
        sim_disk_crash_at(node->disk, sim_disk_op_count(node->disk) + k);
    }
    sim_world_run_ms(play.world, 3000);
    (void)play_leader(&play, 20000);
    play_put(&play, 22);
    play_agree(&play);
    expect_grown(&play);
    play_end(&play);
}

Test(sim_growing, rule_19_any_of_them_dies_at_each_operation) {
    for (unsigned victim = 0; victim < 3; victim++) {
        for (uint64_t k = 0; k < OPERATIONS; k++) {
            crash_while_growing(1000 * victim + k, victim, k, k % 2 == 0);
        }
    }
}

/* Everybody loses power again and again from the first start with peers on, under load. */
Test(sim_growing, rule_19_s24_all_lose_their_power_while_it_grows) {
    for (uint64_t seed = 40; seed < 60; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        plan.clients = 4;
        plan.op_pause_ns = 5 * MS_NS;
        struct play play = begin_growing(&plan, true);
        start_all(&play);
        sim_load_start(play.world);
        for (int cut = 0; cut < 4; cut++) {
            sim_world_run_ms(play.world, 5 + 37 * seed % 301);
            for (size_t i = 0; i < plan.nodes; i++) {
                sim_node_crash(&play.world->nodes[i], true);
                sim_node_restart_in(&play.world->nodes[i], seed * (i + 1) % 90);
            }
        }
        sim_world_run_ms(play.world, 2000);
        (void)play_leader(&play, 20000);
        play_agree(&play);
        expect_grown(&play);
        play_end(&play);
    }
}

static int unlink_one(void *arg, const char *name) {
    char path[DISK_PATH_SIZE];
    (void)snprintf(path, sizeof(path), "top/db/data/%s", name);
    (void)sim_disk_unlink(arg, path);
    return 0;
}

static void wipe(struct sim_disk *disk) {
    (void)sim_disk_unlink(disk, "top/db/identity");
    for (int i = 0; i < 8; i++) { /* a listing may miss what moves up while it goes on */
        cr_assert(eq(int, disk_list(sim_disk_seam(disk), "top/db/data", unlink_one, disk), 0));
    }
}

/* M10: one of the new members loses its directory after the others counted it in: a stranger, and the
 * two that are left go on. */
Test(sim_growing, m10_a_wiped_new_member_stays_out) {
    struct sim_plan plan = sim_plan_calm(70);
    struct play play = begin_growing(&plan, true);
    struct sim_node *nodes = play.world->nodes;
    start_all(&play);
    (void)play_leader(&play, 5000);
    play_put(&play, 23);
    sim_node_crash(&nodes[2], true);
    wipe(nodes[2].disk);
    sim_node_start(&nodes[2]);
    sim_world_run_ms(play.world, 5000);
    cr_assert(not(sim_node_runs(&nodes[2])));
    cr_assert(ne(ptr, strstr(nodes[2].node->founding_state.text, "cannot replace a member"), NULL),
              "%s", nodes[2].node->founding_state.text);
    play_put(&play, 24);
    play_end(&play);
}
