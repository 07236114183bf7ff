/* Images on their way to a laggard over a path of 200 KB a second, when something comes between. */
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

enum { KEYS = 250, LIMIT_MS = 60000 };

static struct sim_plan plan_of(uint64_t seed) {
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

/* A megabyte of state, a follower that lacks it and whose log is gone behind an image, a slow path. */
static struct sim_node *begin_with_laggard(struct play *play) {
    struct sim_node *laggard = play_follower(play, play_leader(play, 5000));
    put_all(play);
    sim_isolate(play->world, laggard->number, UINT64_MAX);
    sim_world_run_ms(play->world, 5000); /* its connections are given up */
    put_all(play);
    sim_world_run_ms(play->world, 1000); /* what was superseded meanwhile is given up */
    for (uint32_t key = 0; key < 16; key++) {
        play_put(play, key); /* and is in no image any more */
    }
    play->world->net.options.latency_min_ns = 8 * MS_NS;
    play->world->net.options.latency_max_ns = 12 * MS_NS;
    play->world->net.options.window_bytes = 4096;
    return laggard;
}

static bool is_incoming(const char *path) {
    return strstr(path, "incoming-") != NULL;
}

static const char *incoming(const struct sim_node *node, struct slice *bytes) {
    const char *path;
    for (size_t i = 0; (path = sim_disk_path(node->disk, i)) != NULL; i++) {
        if (is_incoming(path) && sim_disk_peek(node->disk, path, bytes)) {
            return path;
        }
    }
    *bytes = (struct slice){0};
    return NULL;
}

/* Until so much of an image has arrived. */
static void await_bytes(struct play *play, const struct sim_node *node, size_t size) {
    struct slice bytes = {0};
    for (int i = 0; i < LIMIT_MS / 10 && bytes.size < size; i++) {
        sim_world_run_ms(play->world, 10);
        (void)incoming(node, &bytes);
    }
    cr_assert_geq(bytes.size, size, "%s", play->world->failure);
}

static void await_image(struct play *play, uint64_t before) {
    for (int i = 0; i < LIMIT_MS / 10 && play->world->counts.images == before; i++) {
        sim_world_run_ms(play->world, 10);
    }
    cr_assert_gt(play->world->counts.images, before, "no image in %d ms", LIMIT_MS);
}

static void end(struct play *play) {
    play_agree(play);
    play->world->net.options.latency_min_ns = MS_NS;
    play->world->net.options.latency_max_ns = MS_NS;
    put_all(play); /* everybody makes an image of its own: what was left behind goes */
    sim_world_run_ms(play->world, 3000);
    for (size_t i = 0; i < play->world->plan.nodes; i++) {
        struct slice bytes;
        cr_expect_null(incoming(&play->world->nodes[i], &bytes), "a leftover");
    }
    play_end(play);
}

Test(sim_transfers, p3_a_changed_byte_is_found_and_the_image_sent_again) {
    for (uint64_t seed = 1; seed <= 6; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_of(5000 + seed);
        struct play play = play_begin(&plan);
        struct sim_node *laggard = begin_with_laggard(&play);
        uint64_t images = play.world->counts.images;
        sim_rejoin(play.world, laggard->number);
        await_bytes(&play, laggard, 400 * 1024);
        struct slice bytes;
        char path[256];
        (void)snprintf(path, sizeof(path), "%s", incoming(laggard, &bytes));
        uint8_t changed = bytes.data[seed * 60000] ^ (uint8_t)(1u << seed % 8);
        cr_assert(sim_disk_poke(laggard->disk, path, seed * 60000, slice_of(&changed, 1)));
        for (int i = 0;
             i < LIMIT_MS && sim_disk_peek(laggard->disk, path, &bytes) && bytes.size >= 400 * 1024;
             i++) {
            cr_assert_eq(play.world->counts.images, images, "it was installed");
            sim_world_run_ms(play.world, 1);
        }
        await_image(&play, images);
        end(&play);
    }
}

/* What a process that was killed has received is not sent again. */
Test(sim_transfers, p4_a_killed_laggard_goes_on_where_it_was) {
    struct sim_plan plan = plan_of(5100);
    struct play play = play_begin(&plan);
    struct sim_node *laggard = begin_with_laggard(&play);
    uint64_t images = play.world->counts.images;
    sim_rejoin(play.world, laggard->number);
    await_bytes(&play, laggard, 700 * 1024);
    sim_node_crash(laggard, false);
    sim_node_start(laggard);
    uint64_t before = play.world->net.counts.bytes;
    await_image(&play, images);
    uint64_t sent = play.world->net.counts.bytes - before;
    cr_expect_lt(sent, 700 * 1024, "%zu bytes were sent again", (size_t)sent);
    end(&play);
}

/* A power cut keeps any part of what was not synced: what is gone on with is what verifies. */
Test(sim_transfers, p4_power_cuts_in_the_middle_leave_a_whole_image_or_none) {
    for (uint64_t seed = 1; seed <= 6; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_of(5200 + seed);
        struct play play = play_begin(&plan);
        struct sim_node *laggard = begin_with_laggard(&play);
        uint64_t images = play.world->counts.images;
        sim_rejoin(play.world, laggard->number);
        for (size_t i = 1; i <= 4; i++) {
            sim_world_run_ms(play.world, 700 * seed);
            sim_node_crash(laggard, true);
            sim_node_start(laggard);
        }
        await_image(&play, images);
        end(&play);
    }
}

/* P9: the path breaks more often than an image takes, and the leader makes one image after the other
 * meanwhile. Begun anew with each, none would ever arrive. */
Test(sim_transfers, p9_a_path_that_breaks_and_images_that_follow_each_other_end_in_time) {
    struct sim_plan plan = plan_of(5300);
    plan.clients = 2;
    plan.op_pause_ns = 50 * MS_NS;
    struct play play = play_begin(&plan);
    struct sim_node *laggard = begin_with_laggard(&play);
    struct sim_node *leader = play_leader(&play, 0);
    uint64_t images = play.world->counts.images, newest = leader->node->image_index;
    sim_load_start(play.world);
    sim_rejoin(play.world, laggard->number);
    for (int i = 0; i < 15 && play.world->counts.images == images; i++) {
        sim_world_run_ms(play.world, 2000);
        if (play.world->counts.images == images) {
            for (int k = 0; k < 60; k++) { /* each a random one of its connections */
                (void)sim_net_reset(&play.world->net, laggard->number);
            }
        }
    }
    cr_expect_gt(leader->node->image_index, newest, "no newer image: nothing was tried");
    cr_expect_gt(play.world->counts.images, images, "no image in 30 s");
    sim_world_run_ms(play.world, 5000);
    cr_expect_leq(play.world->counts.images, images + 2, "one image after the other");
    uint64_t applied = laggard->node != NULL ? laggard->node->applied : 0;
    cr_expect_geq(applied + 50, play.world->model.commit, "%zu of %zu", (size_t)applied,
                  (size_t)play.world->model.commit);
    end(&play);
}

/* The leader goes away in the middle: its successor has another image, or sends entries. */
Test(sim_transfers, a_new_leader_in_the_middle_of_a_transfer) {
    for (uint64_t seed = 1; seed <= 8; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_of(5400 + seed);
        struct play play = play_begin(&plan);
        struct sim_node *laggard = begin_with_laggard(&play);
        struct sim_node *leader = play_leader(&play, 0);
        sim_rejoin(play.world, laggard->number);
        await_bytes(&play, laggard, seed * 100 * 1024);
        if (seed % 2 == 0) {
            sim_node_crash(leader, true);
        } else {
            sim_node_close(leader, 500);
        }
        sim_world_run_ms(play.world, 2000);
        sim_node_start(leader);
        end(&play);
    }
}
