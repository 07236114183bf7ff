/* Images between nodes while everything goes on, and bytes of earlier connections. */
#include "lib/image_wire.h"
#include "lib/peer.h"
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

static struct sim_plan plan_with_images(uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.clients = 8;
    plan.keys = 100;
    plan.value_bytes_max = 4000;
    plan.op_pause_ns = 20 * MS_NS;
    plan.segment_bytes = 16 * 1024;
    plan.image_log_bytes = 32 * 1024;
    plan.keep_entries = 5;
    return plan;
}

static struct play begin_with_laggard(const struct sim_plan *plan, struct sim_node **laggard) {
    struct play play = play_begin(plan);
    struct sim_node *leader = play_leader(&play, 3000);
    *laggard = play_follower(&play, leader);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 500);
    sim_node_crash(*laggard, true);
    sim_world_run_ms(play.world, 4000);
    return play;
}

Test(sim_images, p1_a_laggard_takes_an_image_while_writes_go_on) {
    struct sim_plan plan = plan_with_images(40);
    struct sim_node *laggard;
    struct play play = begin_with_laggard(&plan, &laggard);
    sim_node_start(laggard);
    sim_world_run_ms(play.world, 4000);
    cr_expect(play.world->counts.images > 0);
    play_agree(&play);
    play_end(&play);
}

static bool installs(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes; i++) {
        if (world->nodes[i].node != NULL && world->nodes[i].node->installing) {
            return true;
        }
    }
    return false;
}

/* Its log ends nowhere yet, and it drops what it is sent. */
Test(sim_images, a_node_that_waits_to_install_an_image_does_not_campaign) {
    struct sim_plan plan = plan_with_images(39);
    struct sim_node *laggard;
    struct play play = begin_with_laggard(&plan, &laggard);
    plan.disk.sync_hang_ns = 200 * MS_NS;
    sim_disk_set_latency(laggard->disk, &plan.disk);
    sim_node_start(laggard);
    cr_assert(sim_world_until(play.world, installs, 60000), "%s", play.world->failure);
    cr_expect(laggard->node->installing && laggard->node->gate_closed);
    sim_disk_set_latency(laggard->disk, &play.world->plan.disk);
    play_agree(&play);
    cr_expect(not(laggard->node->gate_closed));
    play_end(&play);
}

/* The core of a node that has stopped hears of nothing; what is durable is for the next start. */
Test(sim_images, a_node_whose_log_has_failed_installs_no_image) {
    for (uint64_t seed = 20; seed < 30; seed++) {
        struct sim_plan plan = plan_with_images(seed);
        struct sim_node *laggard;
        struct play play = begin_with_laggard(&plan, &laggard);
        struct reason why = {{0}};
        sim_node_start(laggard);
        cr_assert(sim_world_until(play.world, installs, 60000), "%s", play.world->failure);
        uint64_t applied = laggard->node->applied;
        (void)reason_set(&why, LKV_EIO, "as the test says");
        laggard->disk_failed = true;
        node_log_failed(laggard->node, LKV_EIO, &why);
        sim_loop_leave(&laggard->loop);
        while (laggard->state == SIM_UP &&
               !sim_world_failed(play.world)) { /* until it is looked after */
            cr_expect(laggard->node->applied == applied);
            sim_world_run_ms(play.world, 1);
        }
        play_agree(&play);
        play_end(&play);
    }
}

Test(sim_images, p3_a_transfer_survives_resets_splits_and_crashes) {
    for (uint64_t seed = 41; seed < 51; seed++) {
        struct sim_plan plan = plan_with_images(seed);
        plan.net.split_permille = 500;
        plan.net.window_bytes = 8 * 1024;
        struct sim_node *laggard;
        struct play play = begin_with_laggard(&plan, &laggard);
        sim_node_start(laggard);
        for (size_t i = 0; i < 40; i++) {
            sim_world_run_ms(play.world, 50);
            (void)sim_net_reset(&play.world->net, laggard->number);
            if (i % 10 == 9) {
                sim_node_crash(laggard, i % 20 == 9);
                sim_node_start(laggard);
            }
        }
        play_agree(&play);
        cr_expect(play.world->counts.images > 0);
        play_end(&play);
    }
}

/* P4: the laggard dies within each operation of installing. */
Test(sim_images, p4_a_laggard_dies_at_each_operation_of_installing) {
    for (uint64_t k = 0; k < 60; k += 2 * LKV_STRIDE) {
        struct sim_plan plan = plan_with_images(60 + k);
        struct sim_node *laggard;
        struct play play = begin_with_laggard(&plan, &laggard);
        sim_node_start(laggard);
        sim_world_run_ms(play.world, 20);
        sim_disk_crash_at(laggard->disk, sim_disk_op_count(laggard->disk) + k);
        sim_world_run_ms(play.world, 2000);
        play_agree(&play);
        play_end(&play);
    }
}

/* A whole image of a later entry lies under the name of the newest one: what is announced is another. */
static void misplace_image(const struct sim_node *leader) {
    struct node *node = leader->node;
    char path[DISK_PATH_SIZE];
    struct kv_view *view;
    struct reason why = {{0}};
    const struct kv_owner owner = {.cluster_id = node->identity.cluster_id};
    cr_assert(node->image_index > 0 && node->applied > node->image_index, "%d and %d",
              (int)node->image_index, (int)node->applied);
    node_image_path(node, node->image_index, path, sizeof(path));
    cr_assert(kv_view_open(node->kv, &view) == 0);
    int rc = kv_image_save(view, node->world.disk, node->image_dir, path, owner, (struct slice){0},
                           NULL, NULL, &why);
    kv_view_close(view);
    cr_assert(rc == 0, "%s", why.text);
}

Test(sim_images, p3_an_image_of_another_entry_than_announced_is_refused) {
    struct sim_plan plan = plan_with_images(140);
    struct sim_node *laggard;
    struct play play = begin_with_laggard(&plan, &laggard);
    sim_load_stop(play.world);
    sim_world_run_ms(play.world, 1000);
    play_put(&play, 1);
    misplace_image(sim_world_leader(play.world));
    uint64_t images = play.world->counts.images;
    sim_node_start(laggard);
    sim_world_run_ms(play.world, 3000);
    cr_expect(play.world->counts.images == images, "it was installed");
    sim_load_start(play.world); /* the next one is right */
    sim_world_run_ms(play.world, 10000);
    cr_expect(play.world->counts.images > images);
    play_agree(&play);
    play_end(&play);
}

/* P4: its bytes were on the disk before its name was; alone with them it knows what it knew. */
Test(sim_images, p4_an_installed_image_survives_a_power_cut) {
    for (uint64_t seed = 130; seed < 134; seed++) {
        struct sim_plan plan = plan_with_images(seed);
        struct sim_node *laggard;
        struct play play = begin_with_laggard(&plan, &laggard);
        sim_node_start(laggard);
        cr_assert(sim_world_until(play.world, installs, 60000), "%s", play.world->failure);
        while (laggard->node->installing) {
            sim_world_run_ms(play.world, 1);
        }
        uint64_t index = laggard->node->image_index;
        sim_node_crash(laggard, true);
        sim_isolate(play.world, laggard->number, UINT64_MAX);
        sim_node_start(laggard);
        sim_world_run_ms(play.world, 100);
        cr_expect(index > 0 && laggard->node->image_index >= index, "it had %d, has %d", (int)index,
                  (int)laggard->node->image_index);
        sim_rejoin(play.world, laggard->number);
        play_agree(&play);
        play_end(&play);
    }
}

Test(sim_images, n11_bytes_of_earlier_connections_change_nothing) {
    struct sim_plan plan = sim_plan_calm(50);
    plan.clients = 4;
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 2000);
    for (size_t i = 0; i < plan.nodes; i++) { /* some of the recordings are of earlier lives */
        if (&play.world->nodes[i] != leader) {
            sim_node_crash(&play.world->nodes[i], false);
            sim_node_start(&play.world->nodes[i]);
            sim_world_run_ms(play.world, 1500);
        }
    }
    uint64_t term = sim_world_leader(play.world)->node->term;
    for (size_t i = 0; i < 50; i++) {
        (void)sim_net_replay(&play.world->net);
        sim_world_run_ms(play.world, 100);
    }
    cr_expect(play.world->net.counts.replays > 10);
    cr_expect(play_leader(&play, 0)->node->term == term);
    play_agree(&play);
    play_end(&play);
}

/* The laggard is closed at each moment of taking an image, or the leader while it sends one. */
static void close_meanwhile(uint64_t seed, uint64_t ms, bool leader_too) {
    struct sim_plan plan = plan_with_images(seed);
    struct sim_node *laggard;
    struct play play = begin_with_laggard(&plan, &laggard);
    struct sim_node *leader = play_leader(&play, 3000);
    sim_node_start(laggard);
    sim_world_run_ms(play.world, ms);
    sim_node_close(leader_too ? leader : laggard, 0);
    sim_world_run_ms(play.world, 3000);
    play_agree(&play);
    play_end(&play);
}

Test(sim_images, either_end_of_a_transfer_may_be_closed_at_any_moment) {
    for (uint64_t ms = 10; ms < 90; ms += 2 * LKV_STRIDE) {
        close_meanwhile(200 + ms, ms, ms % 4 == 0);
    }
}

/* The laggard's disk has room for the image, or some of it, and is full then; later there is room. */
static void full_meanwhile(uint64_t seed, uint64_t room) {
    struct sim_plan plan = plan_with_images(seed);
    struct sim_node *laggard;
    struct play play = begin_with_laggard(&plan, &laggard);
    sim_node_start(laggard);
    sim_disk_fill(laggard, room);
    sim_world_run_ms(play.world, 3000);
    cr_expect(laggard->node == NULL || laggard->node->stop_rc == 0);
    play_agree(&play);
    cr_expect(play.world->counts.images > 0);
    play_end(&play);
}

Test(sim_images, p8_a_full_disk_holds_an_image_up_and_stops_nobody) {
    for (uint64_t k = 0; k < 30; k += LKV_STRIDE) {
        full_meanwhile(300 + k, k * 12 * 1024);
    }
}

/* ------------------------------------------------------------------ two images at once */

enum { FILE_BYTES_MAX = 64 * 1024, SCRUB_MS = 300 };

static void put_some(struct play *play, uint32_t count) {
    for (uint32_t key = 0; key < count; key++) {
        play_put(play, key % 8);
    }
    sim_world_run_ms(play->world, 200); /* idle: all is marked */
}

/* Its newest image, whole, as one chunk. */
static void give_image(struct sim_node *from, struct node *to, struct peer *peer) {
    static uint8_t bytes[FILE_BYTES_MAX];
    char path[DISK_PATH_SIZE];
    struct disk_file *file;
    uint64_t size = 0;
    node_image_path(from->node, from->node->image_index, path, sizeof(path));
    int rc = disk_open(sim_disk_seam(from->disk), path, DISK_READ, &file);
    rc = rc == 0 ? disk_size(file, &size) : rc;
    cr_assert(rc == 0 && size <= sizeof(bytes));
    size_t got = 0;
    rc = disk_read(file, 0, bytes, size, &got);
    cr_assert(rc == 0 && got == size);
    disk_close(file);
    const struct image_chunk chunk = {.leader_term = from->node->term,
                                      .image_index = from->node->image_index,
                                      .image_term = from->node->image_term,
                                      .size = size,
                                      .file_id = 1,
                                      .bytes = slice_of(bytes, size)};
    struct buffer body;
    buffer_init(&body);
    image_chunk_encode(&chunk, &body);
    node_image_chunk(to, peer, buffer_slice(&body));
    buffer_fini(&body);
}

/* What rots while nobody can help is covered by an own image, which is being written when this returns. */
static void rot_alone(struct play *play, struct sim_node *node, uint64_t index) {
    struct sim_world *world = play->world;
    sim_isolate(world, node->number, UINT64_MAX);
    cr_assert(sim_rot_entry(node, index, SIM_ROT_BIT));
    uint64_t end_ns = world->time.now_ns + 20000 * MS_NS;
    while (world->time.now_ns < end_ns && !node->node->image_running) {
        (void)sim_time_step(&world->time, world->time.now_ns + MS_NS / 100);
    }
    cr_assert(node->node->image_running, "%s", world->failure);
}

/* A node's own image covers a rotten entry, and so does an older one that comes from the leader meanwhile.
 * That one was installed in spite of the own, newer one: the entries behind it were gone from memory. */
Test(sim_images, p2_one_that_is_older_than_the_nodes_own_changes_nothing) {
    struct sim_plan plan = sim_plan_calm(7);
    plan.segment_bytes = 4 * 1024;
    plan.keep_entries = 0;
    plan.scrub_ms = SCRUB_MS;
    struct play play = play_begin(&plan);
    const struct sim_node *leader = play_leader(&play, 3000);
    struct sim_node *node = play_follower(&play, leader);
    struct sim_node *donor = &play.world->nodes[3 - leader->number - node->number];
    put_some(&play, 40);
    rot_alone(&play, donor, 5);
    uint64_t older = donor->node->image_index;
    cr_assert(older == 0 && node->node->image_index == 0);
    sim_world_run_ms(play.world, 100);
    older = donor->node->image_index;
    cr_assert(older > 0);
    sim_rejoin(play.world, donor->number);
    put_some(&play, 20);
    struct peer *peer = peer_by_id(node->node, node->node->leader);
    cr_assert(peer != NULL && sim_rot_possible(node));
    rot_alone(&play, node, 20);
    give_image(donor, node->node, peer);
    cr_assert_not_null(node->node->receive);
    sim_world_run_ms(play.world, 200);
    cr_expect(node->node->receive == NULL && !node->node->installing);
    cr_expect(node->node->image_index > older);
    sim_rejoin(play.world, node->number);
    put_some(&play, 20);
    play_agree(&play);
    play_end(&play);
}
