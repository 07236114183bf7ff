/* Images that take long, and again within one life of a process; and who leads when one was away. Ids as
 * in the catalogue of faults. */
#include "lib/image_wire.h"
#include "lib/peer.h"
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

enum { ROUNDS = 4, PUTS = 1000, KEYS = 250, LIMIT_MS = 60000, INTERRUPTED_MS = 3000 };

static struct sim_plan plan_with_large_images(uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.keys = KEYS;
    plan.value_bytes_max = 8000;
    plan.segment_bytes = 16 * 1024;
    plan.image_log_bytes = 32 * 1024;
    plan.keep_entries = 5;
    plan.history_revisions = 1;
    plan.net.retransmit_backoff = false;
    return plan;
}

static void put_all(struct play *play) {
    for (uint32_t key = 0; key < KEYS; key++) {
        play_put(play, key);
    }
}

/* From the end of its isolation until the image replaces the laggard's state, or the limit. */
static uint64_t install_ms(struct play *play, const struct sim_node *laggard, bool interrupted) {
    struct sim_world *world = play->world;
    struct sim_net_options quick = world->net.options;
    world->net.options.latency_min_ns = 8 * MS_NS;
    world->net.options.latency_max_ns = 12 * MS_NS;
    world->net.options.window_bytes = 4096; /* on their way at once: 200 KB a second */
    uint64_t images = world->counts.images;
    sim_rejoin(world, laggard->number);
    uint64_t begun_ms = sim_world_now_ms(world);
    if (interrupted) {
        sim_world_run_ms(world, INTERRUPTED_MS);
        (void)sim_net_reset(&world->net, laggard->number);
    }
    while (world->counts.images == images && sim_world_now_ms(world) < begun_ms + LIMIT_MS) {
        sim_world_run_ms(world, 1);
    }
    world->net.options = quick;
    return sim_world_now_ms(world) - begun_ms;
}

/* An answer that is lost with its connection costs the sender's patience of 2 s; to begin anew would cost
 * what had been sent before. */
static void install_several(uint64_t seed) {
    struct sim_plan plan = plan_with_large_images(seed);
    struct play play = play_begin(&plan);
    struct sim_node *laggard = play_follower(&play, play_leader(&play, 5000));
    unsigned life = laggard->lives;
    uint64_t whole_ms = LIMIT_MS;
    for (unsigned round = 0; round < ROUNDS; round++) {
        put_all(&play);
        sim_isolate(play.world, laggard->number, UINT64_MAX);
        sim_world_run_ms(play.world, 5000); /* its connections are given up */
        put_all(&play); /* a megabyte, and its log is gone behind an image of the others */
        uint64_t ms = install_ms(&play, laggard, round % 2 == 1);
        cr_expect(ms > 1000 && ms < LIMIT_MS, "round %d: an image in %d ms", (int)round, (int)ms);
        if (round % 2 == 0) {
            whole_ms = ms;
        } else {
            cr_expect(ms < whole_ms + INTERRUPTED_MS - 500, "%d ms, not %d", (int)ms,
                      (int)whole_ms);
        }
        sim_world_run_ms(play.world, 2000);
        cr_expect(laggard->node->applied >= play.world->model.commit);
    }
    cr_expect(laggard->lives == life, "in one life");
    play_agree(&play);
    play_end(&play);
}

Test(sim_long_installs, l17_takes_several_images_of_more_than_a_second_in_one_life) {
    for (uint64_t seed = 4000; seed < 4005; seed += LKV_STRIDE) {
        install_several(seed);
    }
}

/* X-A6 with as many keys as it says: c is away for many timeouts, b restarts, c comes back, a dies. */
Test(sim_long_installs, x_a6_the_one_that_has_a_thousand_writes_leads) {
    for (uint64_t seed = 4100; seed < 4106; seed += LKV_STRIDE) {
        struct sim_plan plan = sim_plan_calm(seed);
        plan.keys = KEYS;
        struct play play = play_begin(&plan);
        struct sim_node *a = play_leader(&play, 3000);
        struct sim_node *b = play_follower(&play, a);
        const struct sim_node *c = &play.world->nodes[3 - a->number - b->number];
        sim_isolate(play.world, c->number, UINT64_MAX);
        sim_world_run_ms(play.world, 20000);
        for (uint32_t i = 0; i < PUTS; i++) {
            play_put(&play, i % KEYS);
        }
        uint64_t commit = play.world->model.commit;
        sim_node_crash(b, seed % 2 == 0);
        sim_node_start(b);
        sim_world_run_ms(play.world, 20);
        sim_rejoin(play.world, c->number);
        sim_node_crash(a, true); /* at once: c has had no time to catch up */
        cr_expect(play_leader(&play, 10 * ELECTION_MS) == b);
        cr_expect(play.world->model.commit >= commit);
        play_agree(&play);
        play_end(&play);
    }
}

/* P2: the leader's present term, so that nothing but the index speaks against it. */
static void offer_image(struct sim_node *to, uint64_t index, uint64_t term) {
    static const uint8_t noise[100];
    struct node *node = to->node;
    struct image_chunk chunk = {.leader_term = node->term,
                                .image_index = index,
                                .image_term = term,
                                .size = sizeof(noise),
                                .bytes = slice_of(noise, sizeof(noise))};
    struct buffer body;
    buffer_init(&body);
    image_chunk_encode(&chunk, &body);
    node_image_chunk(node, peer_by_id(node, node->leader), buffer_slice(&body));
    buffer_fini(&body);
}

Test(sim_long_installs, p2_an_image_that_is_not_ahead_is_ignored) {
    struct sim_plan plan = sim_plan_calm(4200);
    struct play play = play_begin(&plan);
    struct sim_node *follower = play_follower(&play, play_leader(&play, 3000));
    for (uint32_t key = 0; key < 20; key++) {
        play_put(&play, key);
    }
    sim_world_run_ms(play.world, 500);
    uint64_t applied = follower->node->applied;
    uint64_t before = sim_disk_fingerprint(follower->disk);
    for (uint64_t index = 1; index <= applied; index++) {
        offer_image(follower, index, 1 + index % 3);
        cr_assert(follower->node->receive == NULL && !follower->node->installing);
    }
    cr_expect(follower->node->applied == applied && follower->node->image_index == 0);
    cr_expect(sim_disk_fingerprint(follower->disk) == before);
    offer_image(follower, applied + 1, 1); /* the test itself: this one is taken up */
    cr_expect(follower->node->receive != NULL);
    play_agree(&play);
    play_end(&play);
}
