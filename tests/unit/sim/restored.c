/* Rule 17: a follower comes back with less than it had acknowledged, because its disk lied or its directory
 * was restored. Whoever led it knows; it takes no part until it has caught up (rule 11). */
#include "lib/peer.h"
#include "tests/unit/sim/play.h"

static bool doubts_its_end(const struct sim_node *node) {
    struct raft_status status = {0};
    if (sim_node_runs(node)) {
        raft_status(node->node->raft, &status);
    }
    return status.end_unknown;
}

static const struct seen_peer *known_of(struct sim_node *node, const struct sim_node *peer) {
    return seen_find(&node->node->seen, peer->name);
}

/* A copy of the disk, block by block, from which it can be restored. */
static struct sim_disk *backup_of(const struct sim_node *node, uint64_t seed) {
    struct sim_disk *copy = sim_disk_clone(node->disk, seed);
    sim_disk_seam(copy)->ops = sim_disk_seam(node->disk)->ops;
    return copy;
}

struct story {
    struct play play;
    struct sim_node *leader, *follower;
    struct sim_disk *backup; /* owned, until it is in its place */
    uint64_t acknowledged;
};

/* A follower whose backup lacks ten writes that it has acknowledged since. */
static void begin(struct story *story, uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    story->play = play_begin(&plan);
    story->leader = play_leader(&story->play, 3000);
    story->follower = play_follower(&story->play, story->leader);
    play_put(&story->play, 1);
    sim_world_run_ms(story->play.world, 500);
    story->backup = backup_of(story->follower, seed);
    for (uint32_t key = 2; key < 12; key++) {
        play_put(&story->play, key);
    }
    sim_world_run_ms(story->play.world, 500);
    story->acknowledged = known_of(story->leader, story->follower)->acknowledged;
    cr_assert(gt(u64, story->acknowledged, 10));
    sim_node_crash(story->follower, true);
}

static void restore_as(struct story *story, enum moved moved) {
    struct sim_node *follower = story->follower;
    sim_disk_free(follower->disk);
    follower->disk = story->backup;
    sim_disk_kill(follower->disk);
    follower->options.moved = moved;
    sim_node_start(follower);
    follower->options.moved = MOVED_OFF;
    cr_assert(eq(int, follower->state, SIM_UP));
    struct raft_status status;
    raft_status(follower->node->raft, &status);
    cr_assert(lt(u64, status.last, story->acknowledged));
    cr_assert(eq(int, status.end_unknown, moved == MOVED_ON), "it cannot know by itself");
}

/* The operator restores the backup and is wrong: it is not the newest. */
static void restore(struct story *story) {
    restore_as(story, MOVED_NEWEST);
}

static void expect_doubt_and_catching_up(struct story *story) {
    bool doubted = false;
    for (int i = 0; i < 2000 && !doubted; i++) {
        sim_world_run_ms(story->play.world, 1);
        doubted = doubts_its_end(story->follower);
    }
    cr_assert(doubted, "it takes part without what it had acknowledged");
    play_put(&story->play, 20);
    play_agree(&story->play);
    sim_world_run_ms(story->play.world, 1000);
    cr_assert(not(doubts_its_end(story->follower)), "it has caught up");
    play_end(&story->play);
}

Test(sim_restored, rule_17_a_follower_without_what_it_acknowledged_is_absent_until_it_caught_up) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct story story;
        begin(&story, seed);
        restore(&story);
        expect_doubt_and_catching_up(&story);
    }
}

/* The leader was restarted meanwhile: it knows from its file. */
Test(sim_restored, rule_17_what_was_acknowledged_is_known_after_a_restart_of_the_leader) {
    for (uint64_t seed = 30; seed < 42; seed++) {
        struct story story;
        begin(&story, seed);
        sim_world_run_ms(story.play.world, 4000); /* its connection ends, and that is written */
        sim_node_crash(story.leader, seed % 2 == 0);
        sim_node_start(story.leader);
        cr_assert(
            ge(u64, known_of(story.leader, story.follower)->acknowledged, story.acknowledged));
        restore(&story);
        expect_doubt_and_catching_up(&story);
    }
}

/* An older copy of one, while the only other one that has the newest writes is down: with the third it
 * makes no leader, in no later life either. When that one comes, all is there. */
Test(sim_restored, rule_17_an_older_copy_makes_no_leader_without_what_was_acknowledged) {
    for (uint64_t seed = 90; seed < 102; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        struct story story = {.play = play_begin(&plan)};
        struct sim_world *world = story.play.world;
        story.leader = play_leader(&story.play, 3000);
        story.follower = play_follower(&story.play, story.leader);
        struct sim_node *third = &world->nodes[0];
        while (third == story.leader || third == story.follower) {
            third++;
        }
        play_put(&story.play, 1);
        sim_world_run_ms(world, 500);
        story.backup = backup_of(story.follower, seed);
        sim_node_crash(third, false);
        for (uint32_t key = 2; key < 12; key++) {
            play_put(&story.play, key);
        }
        sim_world_run_ms(world, 500);
        story.acknowledged = known_of(story.leader, story.follower)->acknowledged;
        sim_node_crash(story.follower, true);
        sim_node_crash(story.leader, true);
        restore_as(&story, MOVED_ON);
        sim_node_start(third);
        sim_world_run_ms(world, 5000);
        cr_assert(eq(ptr, sim_world_leader(world), NULL), "seed %d", (int)seed);
        sim_node_crash(story.follower, seed % 2 == 0);
        sim_node_start(story.follower);
        sim_world_run_ms(world, 5000);
        cr_assert(eq(ptr, sim_world_leader(world), NULL), "seed %d, without the option", (int)seed);
        cr_assert(doubts_its_end(story.follower));
        sim_node_start(story.leader);
        play_agree(&story.play);
        play_put(&story.play, 20);
        sim_world_run_ms(world, 1000);
        cr_assert(not(doubts_its_end(story.follower)));
        sim_node_crash(story.follower, seed % 2 == 0);
        sim_node_start(story.follower);
        cr_assert(not(doubts_its_end(story.follower)), "settled for ever");
        play_agree(&story.play);
        play_end(&story.play);
    }
}

/* X-E4: the third node lags, the leader is gone: the restored one and the laggard make no leader that lacks
 * what was acknowledged, once it has heard that it is doubted. Without the option it is an earlier life. */
Test(sim_restored, x_e4_with_a_laggard_it_makes_no_leader) {
    for (uint64_t seed = 50; seed < 56; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        struct story story = {.play = play_begin(&plan)};
        struct sim_world *world = story.play.world;
        story.leader = play_leader(&story.play, 3000);
        story.follower = play_follower(&story.play, story.leader);
        struct sim_node *laggard = NULL;
        for (size_t i = 0; i < plan.nodes; i++) {
            struct sim_node *node = &world->nodes[i];
            laggard = node != story.leader && node != story.follower ? node : laggard;
        }
        play_put(&story.play, 1);
        sim_world_run_ms(world, 500);
        story.backup = backup_of(story.follower, seed);
        sim_node_crash(laggard, false);
        for (uint32_t key = 2; key < 12; key++) {
            play_put(&story.play, key);
        }
        sim_world_run_ms(world, 500);
        story.acknowledged = known_of(story.leader, story.follower)->acknowledged;
        sim_node_crash(story.follower, true);
        restore(&story);
        for (int i = 0; i < 2000 && !doubts_its_end(story.follower); i++) {
            sim_world_run_ms(world, 1);
        }
        sim_node_crash(story.leader, true); /* before it can catch up */
        sim_node_start(laggard);
        sim_world_run_ms(world, 5000);
        cr_assert(eq(ptr, sim_world_leader(world), NULL), "seed %d", (int)seed);
        play_agree(&story.play);
        play_end(&story.play);
    }
}

/* Nothing is taken from a life, nor told to it, that a power cut could make this node forget. */
Test(sim_restored, rule_17_a_life_is_durable_before_its_hello_is_accepted) {
    struct sim_plan plan = sim_plan_calm(80);
    plan.disk_hang_ms = 60000;
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    struct sim_node *follower = play_follower(&play, leader);
    struct sim_node *third = &play.world->nodes[0];
    while (third == leader || third == follower) {
        third++;
    }
    play_put(&play, 1);
    sim_world_run_ms(play.world, 500);
    struct sim_disk_latency hangs = plan.disk;
    hangs.sync_hang_ns = 2000 * MS_NS;
    sim_disk_set_latency(third->disk, &hangs);
    sim_node_crash(follower, false);
    sim_node_start(follower);
    sim_world_run_ms(play.world, 1000);
    uint64_t life = follower->node->boot_nonce;
    const struct peer *peer = NULL;
    for (size_t i = 0; i < third->node->peer_count; i++) {
        const struct peer *one = third->node->peers[i];
        peer = strcmp(one->name, follower->name) == 0 ? one : peer;
    }
    cr_assert(ne(u64, peer->hello.boot_nonce, life), "accepted while its life is being written");
    cr_assert(not(peer->up));
    sim_disk_set_latency(third->disk, &plan.disk);
    sim_world_run_ms(play.world, 10000);
    cr_assert(eq(u64, peer->hello.boot_nonce, life));
    cr_assert(peer->up);
    play_agree(&play);
    play_end(&play);
}

/* No false alarm: restarts under load with honest disks. */
Test(sim_restored, rule_17_an_honest_disk_is_never_doubted) {
    for (uint64_t seed = 60; seed < 70; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        plan.clients = 6;
        plan.op_pause_ns = 3 * MS_NS;
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        sim_load_start(play.world);
        for (int i = 0; i < 20; i++) {
            struct sim_node *node = &play.world->nodes[(unsigned)i % 3];
            sim_node_crash(node, i % 2 == 0);
            sim_node_start(node);
            for (int j = 0; j < 200 && !sim_world_failed(play.world); j++) {
                sim_world_run_ms(play.world, 2);
                cr_assert(not(doubts_its_end(node)), "seed %d, restart %d", (int)seed, i);
            }
        }
        play_agree(&play);
        play_end(&play);
    }
}
