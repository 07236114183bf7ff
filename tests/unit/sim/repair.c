/* Disks that rot, on whole nodes (rule 11). What must hold (nothing acknowledged is lost or invented) is
 * checked by the world after each callback; here it is also that all comes back. */
#include "lib/image_wire.h"
#include "lib/node_repair.h"
#include "lib/peer.h"
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

enum { SCRUB_MS = 2400 };

static struct sim_plan plan_of(uint64_t seed, size_t nodes) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.nodes = nodes;
    plan.segment_bytes = 4 * 1024;
    plan.image_log_bytes = 1024 * 1024; /* none by itself */
    return plan;
}

static void put_some(struct play *play, uint32_t count) {
    for (uint32_t key = 0; key < count; key++) {
        play_put(play, key % 8);
    }
    sim_world_run_ms(play->world, 200); /* idle: all is marked */
    for (size_t i = 0; i < play->world->plan.nodes; i++) {
        cr_assert(sim_rot_possible(&play->world->nodes[i]), "%s", play->world->failure);
    }
}

static void restart(struct play *play, struct sim_node *node) {
    sim_node_crash(node, true);
    sim_node_restart_in(node, 0);
    sim_world_run_ms(play->world, 200);
}

/* ------------------------------------------------------------------ alone: nobody helps */

Test(sim_repair, the_scrub_of_a_lone_node_covers_a_rotten_entry_with_an_image) {
    struct sim_plan plan = plan_of(1, 1);
    plan.scrub_ms = SCRUB_MS;
    struct play play = play_begin(&plan);
    struct sim_node *node = play_leader(&play, 3000);
    put_some(&play, 60);
    cr_assert(node->node->image_index == 0);
    cr_assert(sim_rot_entry(node, 20, SIM_ROT_BIT));
    sim_world_run_ms(play.world, 2 * SCRUB_MS);
    cr_expect(node->node->image_index >= 60);
    restart(&play, node); /* without that image it would be refused */
    play_agree(&play);
    play_end(&play);
}

Test(sim_repair, the_scrub_writes_a_rotten_image_anew) {
    for (enum sim_rot_kind kind = SIM_ROT_BIT; kind <= SIM_ROT_LOST; kind++) {
        struct sim_plan plan = plan_of(2, 1);
        plan.scrub_ms = SCRUB_MS;
        plan.image_log_bytes = 2 * 1024;
        plan.keep_entries = 0;
        struct play play = play_begin(&plan);
        struct sim_node *node = play_leader(&play, 3000);
        put_some(&play, 80);
        cr_assert(node->node->image_index > 0);
        cr_assert(sim_rot_image(node, kind));
        sim_world_run_ms(play.world, 2 * SCRUB_MS);
        restart(&play, node);
        cr_expect(sim_node_runs(node), "after rot %d", (int)kind);
        play_agree(&play);
        play_end(&play);
    }
}
/* ------------------------------------------------------------------ several: the others help */

enum { PUTS = 60, MIDDLE = 20 };

static uint64_t last_of(const struct sim_node *node) {
    struct raft_status status;
    raft_status(node->node->raft, &status);
    return status.last;
}

static bool is_whole(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes; i++) {
        struct log_gap gap;
        if (!sim_node_runs(&world->nodes[i]) || log_gaps(world->nodes[i].node->log, &gap, 1) > 0 ||
            world->nodes[i].node->repair.end_why.text[0] != '\0') {
            return false;
        }
    }
    return true;
}

/* All are up, agree, and lack nothing; and a restart of all finds nothing new. */
static void check_whole(struct play *play) {
    play_agree(play);
    if (!sim_world_until(play->world, is_whole, 20000)) {
        sim_story_print(play->story);
        cr_assert(false, "not whole: %s", play->world->failure);
    }
    for (size_t i = 0; i < play->world->plan.nodes; i++) {
        sim_node_crash(&play->world->nodes[i], true);
    }
    play_agree(play);
    cr_expect(is_whole(play->world), "the disks did not keep it");
}

Test(sim_repair, counts_all_that_is_unreadable_in_however_many_places) {
    struct sim_plan plan = plan_of(3, 3);
    struct play play = play_begin(&plan);
    struct sim_node *node = play_leader(&play, 3000);
    put_some(&play, 200);
    for (size_t i = 0; i < plan.nodes; i++) {
        sim_node_crash(&play.world->nodes[i], true);
    }
    for (uint64_t index = 10; index < 190; index += 2) {
        cr_assert(sim_rot_entry(node, index, SIM_ROT_BIT));
    }
    sim_node_restart_in(node, 0); /* and nobody else: it waits */
    sim_world_run_ms(play.world, 500);
    char text[512] = "";
    cr_assert(node_repair_state(node->node, text, sizeof(text)));
    struct log_gap gaps[100];
    size_t count = log_gaps(node->node->log, gaps, 100);
    cr_assert(count > 64 && count <= 100, "%zu", count);
    uint64_t entries = 0;
    for (size_t i = 0; i < count; i++) {
        entries += gaps[i].last - gaps[i].first + 1;
    }
    char expected[100];
    (void)snprintf(expected, sizeof(expected), "repairing: %llu entries from 10 on unreadable",
                   (unsigned long long)entries);
    cr_expect_not_null(strstr(text, expected), "%s", text);
    cr_expect_eq(node_damaged_entries(node->node), entries);
    for (size_t i = 0; i < plan.nodes; i++) {
        if (&play.world->nodes[i] != node) {
            sim_node_restart_in(&play.world->nodes[i], 0);
        }
    }
    check_whole(&play);
    play_end(&play);
}

static void offer_image(struct sim_world *world, struct node *node, size_t from, uint64_t index) {
    uint8_t bytes[100] = {0};
    const struct image_chunk chunk = {.image_index = index,
                                      .image_term = 1,
                                      .size = 10 * sizeof(bytes),
                                      .file_id = index,
                                      .bytes = slice_of(bytes, sizeof(bytes))};
    struct buffer body;
    buffer_init(&body);
    image_chunk_encode(&chunk, &body);
    node_image_chunk(node, node->peers[from], buffer_slice(&body));
    buffer_fini(&body);
    sim_world_run_ms(world, 50);
}

/* The one image of which a part is here. */
static uint64_t incoming(const struct sim_node *node) {
    uint64_t found = 0;
    const char *path;
    for (size_t n = 0; (path = sim_disk_path(node->disk, n)) != NULL; n++) {
        const char *name = strstr(path, "incoming-");
        if (name != NULL) {
            cr_assert_eq(found, 0, "%s", path);
            found = strtoull(name + strlen("incoming-"), NULL, 10);
        }
    }
    return found;
}

/* A gap that only an image covers may bring two of them, from two nodes: one after the other, or none
 * would ever be whole. */
Test(sim_repair, takes_one_image_at_a_time) {
    struct sim_plan plan = plan_of(4, 3);
    struct play play = play_begin(&plan);
    struct sim_node *node = play_leader(&play, 3000);
    put_some(&play, PUTS);
    for (size_t i = 0; i < plan.nodes; i++) {
        sim_node_crash(&play.world->nodes[i], true);
    }
    cr_assert(sim_rot_entry(node, MIDDLE, SIM_ROT_BIT));
    sim_node_restart_in(node, 0);
    sim_world_run_ms(play.world, 500);
    offer_image(play.world, node->node, 0, 500);
    cr_assert(incoming(node) == 500);
    offer_image(play.world, node->node, 1, 600);
    cr_expect(incoming(node) == 500, "the first sender is not silent yet");
    offer_image(play.world, node->node, 0, 550);
    cr_expect(incoming(node) == 550, "its own newer one");
    sim_world_run_ms(play.world, 5000);
    offer_image(play.world, node->node, 1, 600);
    cr_expect(incoming(node) == 600, "the first one is silent");
    for (size_t i = 0; i < plan.nodes; i++) {
        if (&play.world->nodes[i] != node) {
            sim_node_restart_in(&play.world->nodes[i], 0);
        }
    }
    check_whole(&play);
    play_end(&play);
}

/* A node dies, one of its entries rots, it comes back. */
static void lose_entry(uint64_t seed, bool leads, bool newest, enum sim_rot_kind kind) {
    struct sim_plan plan = plan_of(seed, 3);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    put_some(&play, PUTS);
    struct sim_node *node = leads ? leader : play_follower(&play, leader);
    uint64_t index = newest ? last_of(node) : MIDDLE;
    sim_node_crash(node, true);
    cr_assert(sim_rot_entry(node, index, kind));
    sim_node_restart_in(node, 0);
    sim_world_run_ms(play.world, 3000);
    check_whole(&play);
    cr_expect(play.world->counts.filled > 0, "rot %d of entry %d", (int)kind, (int)index);
    play_end(&play);
}

Test(sim_repair, s2_s3_s4_an_entry_that_rotted_comes_back) {
    uint64_t seed = 10;
    for (enum sim_rot_kind kind = SIM_ROT_BIT; kind < SIM_ROT_LOST; kind++) {
        for (int variant = 0; variant < 4; variant++) {
            lose_entry(seed++, (variant & 1) != 0, (variant & 2) != 0, kind);
        }
    }
}

/* The same for the beginning of a segment, or all of it; back = 0: the newest one. */
static void lose_segment(uint64_t seed, size_t back, enum sim_rot_kind kind) {
    struct sim_plan plan = plan_of(seed, 3);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    put_some(&play, 2 * PUTS);
    struct sim_node *node = play_follower(&play, leader);
    sim_node_crash(node, true);
    cr_assert(sim_rot_segment(node, kind, back));
    sim_node_restart_in(node, 0);
    sim_world_run_ms(play.world, 500);
    for (uint32_t key = 0; key < 20; key++) {
        play_put(&play, key % 8);
    }
    check_whole(&play);
    play_end(&play);
}

Test(sim_repair, a_segment_whose_header_or_file_is_lost_comes_back) {
    uint64_t seed = 30;
    for (enum sim_rot_kind kind = SIM_ROT_BIT; kind <= SIM_ROT_LOST; kind++) {
        for (size_t back = 0; back < 3; back++) {
            lose_segment(seed++, back, kind);
        }
    }
}

static bool end_is_unknown(const struct sim_node *node) {
    struct raft_status status;
    raft_status(node->node->raft, &status);
    return status.end_unknown;
}

static const struct sim_node *speaker, *listener;

/* As soon as the leader has met this life of it. */
static bool stretches(struct sim_world *world) {
    bool met = false;
    for (size_t i = 0; i < speaker->node->peer_count && listener->state == SIM_UP; i++) {
        const struct peer *peer = speaker->node->peers[i];
        met = met || (peer->up && peer->hello.boot_nonce == listener->node->boot_nonce);
    }
    return met && end_is_unknown(listener) &&
           sim_net_stretch(&world->net, speaker->number, listener->number);
}

/* The leader hears from the node, which asks whoever is there about its log, and thinks the node hears it, too; but
 * there a mebibyte is waited for that the leader never sends. Who asks and hears no answer ends both connections. */
Test(sim_repair, a_false_length_does_not_keep_a_node_from_being_repaired) {
    struct sim_plan plan = plan_of(70, 3);
    plan.net.latency_min_ns = plan.net.latency_max_ns = 3 * MS_NS;
    plan.net.retransmit_backoff = false;
    struct play play = play_begin(&plan);
    struct sim_world *world = play.world;
    struct sim_node *leader = play_leader(&play, 3000);
    struct sim_node *node = play_follower(&play, leader);
    put_some(&play, PUTS);
    sim_node_crash(node, true);
    cr_assert(sim_rot_segment(node, SIM_ROT_LOST, 0));
    sim_node_restart_in(node, 0);
    speaker = leader;
    listener = node;
    cr_assert(sim_world_until(world, stretches, 2000));
    sim_world_run_ms(world, 500);
    cr_assert(end_is_unknown(node), "too late");
    sim_world_run_ms(world, 6000);
    cr_expect(world->net.counts.frames_changed == 1);
    cr_expect_not(end_is_unknown(node));
    check_whole(&play);
    play_end(&play);
}

Test(sim_repair, an_image_that_is_lost_comes_back_from_the_leader) {
    for (enum sim_rot_kind kind = SIM_ROT_BIT; kind <= SIM_ROT_LOST; kind++) {
        struct sim_plan plan = plan_of(50 + kind, 3);
        plan.image_log_bytes = 2 * 1024;
        plan.keep_entries = 0;
        struct play play = play_begin(&plan);
        struct sim_node *leader = play_leader(&play, 3000);
        put_some(&play, 80);
        struct sim_node *node = play_follower(&play, leader);
        cr_assert(node->node->image_index > 0);
        sim_node_crash(node, true);
        cr_assert(sim_rot_image(node, kind));
        sim_node_restart_in(node, 0);
        sim_world_run_ms(play.world, 3000);
        check_whole(&play);
        cr_expect(node->node->image_index > 0 && node->node->repair.image_why.text[0] == '\0');
        play_end(&play);
    }
}

/* A follower asks for it more often than the look at it takes to begin. */
Test(sim_repair, an_image_that_is_lost_while_a_follower_needs_it_is_written_anew) {
    struct sim_plan plan = plan_of(55, 3);
    plan.heartbeat_ms = 10;
    plan.keep_entries = 0;
    plan.segment_bytes = 4096;
    plan.image_log_bytes = 1024;
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    struct sim_node *away = play_follower(&play, leader);
    sim_node_crash(away, false);
    for (uint32_t i = 0; i < 200; i++) {
        play_put(&play, i % 8);
    }
    sim_world_run_ms(play.world, 500);
    cr_assert(sim_rot_image(leader, SIM_ROT_LOST));
    sim_node_start(away);
    sim_world_run_ms(play.world, 3000);
    cr_expect(away->node->applied == leader->node->applied && leader->node->role == RAFT_LEADER);
    cr_expect(away->node->image_index > 0, "it needed one");
    play_agree(&play);
    play_end(&play);
}

/* Nobody has a clean log, and each entry has two good copies. */
Test(sim_repair, s25_disjoint_entries_on_all_nodes_come_back) {
    for (uint64_t seed = 60; seed < 66; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_of(seed, 3);
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        put_some(&play, PUTS);
        for (size_t i = 0; i < 3; i++) {
            struct sim_node *node = &play.world->nodes[i];
            sim_node_crash(node, true);
            for (uint64_t index = 10 + i; index < 40; index += 3) {
                cr_assert(sim_rot_entry(node, index, SIM_ROT_BIT));
            }
            sim_node_restart_in(node, seed % 2 * i * 500);
        }
        sim_world_run_ms(play.world, 5000);
        check_whole(&play);
        cr_expect(play.world->counts.filled >= 20);
        play_end(&play);
    }
}

Test(sim_repair, s26_an_entry_without_any_copy_stops_all_with_a_report) {
    struct sim_plan plan = plan_of(70, 3);
    plan.net.latency_min_ns = plan.net.latency_max_ns = 3 * MS_NS;
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    put_some(&play, PUTS);
    for (size_t i = 0; i < 3; i++) {
        struct sim_node *node = &play.world->nodes[i];
        node->damaged = true; /* it may stop */
        sim_node_crash(node, true);
        cr_assert(sim_rot_entry(node, MIDDLE, SIM_ROT_BIT));
        sim_node_start(node);
    }
    size_t reports = 0;
    for (size_t ms = 0; ms < 20000; ms += 100) {
        sim_world_run_ms(play.world, 100); /* they are started again and again */
        cr_assert(sim_world_leader(play.world) == NULL);
        for (size_t i = 0; i < 3; i++) {
            const struct node *node = play.world->nodes[i].node;
            cr_assert(node == NULL || node->applied < MIDDLE, "entry 20 was invented or dropped");
            bool stopped = node != NULL && node->stop_rc == LKV_EDAMAGED;
            reports += stopped && strstr(node->stop_why.text, "20") != NULL;
        }
    }
    cr_expect(reports > 3);
    play_end(&play);
}

/* The leader's disk does not return an old entry that a follower needs and memory no longer has. */
Test(sim_repair, s11_a_follower_gets_what_the_leaders_disk_does_not_return) {
    for (enum sim_rot_kind kind = SIM_ROT_BIT; kind < SIM_ROT_LOST; kind++) {
        struct sim_plan plan = plan_of(80 + kind, 3);
        plan.window_bytes = 1024;
        struct play play = play_begin(&plan);
        struct sim_node *leader = play_leader(&play, 3000);
        put_some(&play, PUTS);
        struct sim_node *follower = play_follower(&play, leader);
        sim_node_crash(follower, true);
        sim_isolate(play.world, follower->number, UINT64_MAX);
        for (uint32_t key = 0; key < 6000; key++) {
            play_put(&play, key % 8);
        }
        sim_world_run_ms(play.world, 200);
        cr_assert(leader->node->window.first > 200, "it is all in memory");
        cr_assert(sim_rot_entry(leader, 100, kind));
        sim_rejoin(play.world, follower->number);
        sim_node_restart_in(follower, 0);
        sim_world_run_ms(play.world, 12000); /* longer than it waits for others */
        cr_expect(sim_node_leads(leader), "its writes went on");
        check_whole(&play);
        play_end(&play);
    }
}

/* S6: what was reported as synced is not there later. S7: it is somewhere else. */
Test(sim_repair, s6_s7_a_write_that_went_astray_comes_back) {
    for (uint64_t seed = 90; seed < 110; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_of(seed, 3);
        struct play play = play_begin(&plan);
        struct sim_node *leader = play_leader(&play, 3000);
        put_some(&play, PUTS);
        struct sim_node *node = seed % 3 == 0 ? leader : play_follower(&play, leader);
        if (seed % 2 == 0) {
            sim_disk_lose_next_write(node->disk);
        } else {
            sim_disk_misdirect_next_write(node->disk, (int64_t)(seed % 5 + 1) * 512);
        }
        put_some(&play, 3);
        sim_node_crash(node, true);
        sim_node_restart_in(node, 0);
        sim_world_run_ms(play.world, 3000);
        check_whole(&play);
        play_end(&play);
    }
}

/* Found while it runs, before anybody needs it. */
Test(sim_repair, the_scrub_finds_rot_and_the_others_mend_it) {
    for (uint64_t seed = 120; seed < 126; seed += LKV_STRIDE) {
        struct sim_plan plan = plan_of(seed, 3);
        plan.scrub_ms = SCRUB_MS;
        struct play play = play_begin(&plan);
        struct sim_node *leader = play_leader(&play, 3000);
        put_some(&play, PUTS);
        struct sim_node *node = seed % 2 == 0 ? leader : play_follower(&play, leader);
        cr_assert(sim_rot_entry(node, MIDDLE, seed % 3 == 0 ? SIM_ROT_UNREADABLE : SIM_ROT_BIT));
        sim_world_run_ms(play.world, 2 * SCRUB_MS);
        cr_expect(node->node->repair.filled_ever > 0);
        cr_expect(node->node->image_index == 0, "no image was needed");
        cr_expect(sim_node_leads(leader));
        check_whole(&play);
        play_end(&play);
    }
}

/* ------------------------------------------------------------------ everything at once */

static void play_seeds(struct sim_plan (*plan_of_seed)(uint64_t seed), const uint64_t *seeds,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct sim_plan plan = plan_of_seed(seeds[i]);
        struct sim_summary summary;
        sim_play_plan(&plan, NULL, &summary);
        cr_expect(summary.failure[0] == '\0', "seed %d: %s", (int)seeds[i], summary.failure);
    }
}

Test(sim_repair, fixed_seeds_of_rotting_disks_find_nothing) {
    uint64_t seeds[50];
    for (uint64_t i = 0; i < 50; i++) {
        seeds[i] = i + 1;
    }
    play_seeds(sim_plan_rot, seeds, 50);
}

/* 1087, 1239: a gap across a received image was filled before the log had given up its beginning, and the
 * log's beginning went while replay still read it. 1480: a cut inside a gap. 30198: a fill that did not hold
 * counted as durable, and settled the log's end. 31085, 40851: one entry for each attempt to build a
 * segment anew. In log mode 33, 163: a record below a received image was taken for a void one. */
Test(sim_repair, seeds_that_failed_once_find_nothing) {
    static const uint64_t seeds[] = {1087, 1239, 1480, 30198, 31085, 40851};
    static const uint64_t log_seeds[] = {33, 163};
    play_seeds(sim_plan_rot, seeds, sizeof(seeds) / sizeof(seeds[0]));
    play_seeds(sim_plan_log_rot, log_seeds, sizeof(log_seeds) / sizeof(log_seeds[0]));
}
