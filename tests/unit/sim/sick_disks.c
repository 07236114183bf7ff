/* Whole nodes on disks that are full, fail once, or are slow to keep what they were given. Ids as in
 * the catalogue of faults; the world checks after each callback that nothing acknowledged is lost and
 * nothing refused is there. */
#include "tests/support/stride.h"
#include "tests/unit/sim/play.h"

enum { CALLS = 10, KINDS = 6 };

static const int call_kinds[KINDS] = {SIM_OPEN,   SIM_WRITE,    SIM_SYNC,
                                      SIM_RENAME, SIM_SYNC_DIR, SIM_MAKE_DIR};

/* Small segments and images, so that every kind of call is made often. */
static struct sim_plan plan_with_calls(uint64_t seed, size_t nodes) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.nodes = nodes;
    plan.clients = 4;
    plan.keys = 50;
    plan.value_bytes_max = 1000;
    plan.op_pause_ns = 10 * MS_NS;
    plan.segment_bytes = 8 * 1024;
    plan.image_log_bytes = 16 * 1024;
    plan.keep_entries = 20;
    return plan;
}

static int ask(struct play *play, struct sim_node *node, enum sim_call_kind kind, uint32_t key) {
    int done = 0;
    sim_submit(node, kind, key, 500, &done);
    for (int ms = 0; ms < 1500 && done == 0; ms++) {
        sim_world_run_ms(play->world, 1);
    }
    cr_expect(done != 0, "no answer");
    return done - 1;
}

/* No space from the k-th call of a kind on: the others go on, what the sick one holds can still be
 * read, and once there is room it is a member like any other. */
static void full_leader(int kind, uint64_t k) {
    struct sim_plan plan = plan_with_calls(1000 + k, 3);
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000);
    play_put(&play, 1);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 100);
    leader->disk_failed = true; /* a sync that fails is final, rule 10 */
    sim_disk_fail(leader->disk, kind, k, LKV_ENOSPACE, true);
    sim_world_run_ms(play.world, 1500);
    play_put(&play, 2);
    if (sim_node_runs(leader)) {
        cr_expect(ask(&play, leader, SIM_GET_LOCAL, 1) != (int)LKV_UNKNOWN);
    }
    play_agree(&play);
    play_end(&play);
}

Test(sim_sick_disks, s9_a_leader_without_space_at_any_call_is_replaced_and_comes_back) {
    for (size_t i = 0; i < KINDS; i++) {
        for (uint64_t k = 0; k < CALLS; k += LKV_STRIDE) {
            full_leader(call_kinds[i], k);
        }
    }
}

/* Alone there is nobody to hand over to: an explicit answer, reads go on, and room is enough to go on.
 * A write that may have been done in part, a rename that may have been done, or a failed sync ends this life
 * of the node (rule 10), and then a restart goes on; what is prepared beforehand keeps a disk that is
 * merely full away from these. */
static void full_alone(int kind, uint64_t k) {
    struct sim_plan plan = plan_with_calls(1100 + k, 1);
    plan.clients = 0;
    struct play play = play_begin(&plan);
    struct sim_node *node = play_leader(&play, 3000);
    play_put(&play, 1);
    bool may_stop = kind != SIM_OPEN && kind != SIM_MAKE_DIR;
    unsigned life = node->lives;
    node->disk_failed = may_stop;
    sim_disk_fail(node->disk, kind, k, LKV_ENOSPACE, true);
    int put = (int)LKV_DONE;
    for (uint32_t i = 0; i < 200 && put == (int)LKV_DONE && node->lives == life; i++) {
        put = ask(&play, node, SIM_PUT, i % 50);
    }
    if (node->lives == life && sim_node_runs(node)) {
        cr_expect(ask(&play, node, SIM_GET, 1) == (int)LKV_DONE, "reads go on");
        sim_disk_heal(node->disk);
        sim_world_run_ms(play.world, 1500); /* a segment is tried each second */
        cr_expect(ask(&play, node, SIM_PUT, 3) == (int)LKV_DONE, "kind %d, call %d", kind, (int)k);
        cr_expect(node->lives == life, "without a restart");
    } else {
        cr_expect(may_stop, "kind %d, call %d", kind, (int)k);
    }
    play_agree(&play);
    play_end(&play);
}

Test(sim_sick_disks, s9_a_node_alone_goes_on_when_there_is_room_again) {
    for (size_t i = 0; i < KINDS; i++) {
        for (uint64_t k = 0; k < CALLS; k += LKV_STRIDE) {
            full_alone(call_kinds[i], k);
        }
    }
}

/* S27: a disk's worth of writes, then nothing but reads, then room. */
Test(sim_sick_disks, s27_with_all_disks_full_the_cluster_is_read_only_and_recovers) {
    for (uint64_t room = 0; room < 60 * 1024; room += 6000 * LKV_STRIDE) {
        struct sim_plan plan = plan_with_calls(1200 + room, 3);
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        play_put(&play, 1);
        for (size_t i = 0; i < plan.nodes; i++) {
            sim_disk_fill(&play.world->nodes[i], room);
        }
        sim_load_start(play.world);
        sim_world_run_ms(play.world, 4000);
        sim_load_stop(play.world);
        sim_world_run_ms(play.world, 5000);
        struct sim_node *leader = play_leader(&play, 3000);
        cr_expect(ask(&play, leader, SIM_PUT, 2) == (int)LKV_NOT_DONE, "room %d", (int)room);
        cr_expect(ask(&play, leader, SIM_GET, 1) != (int)LKV_UNKNOWN);
        for (size_t i = 0; i < plan.nodes; i++) {
            sim_disk_set_capacity(play.world->nodes[i].disk, UINT64_MAX);
        }
        play_put(&play, 2);
        for (size_t i = 0; i < plan.nodes; i++) {
            cr_expect(play.world->nodes[i].lives == 1, "nobody had to be started again");
        }
        play_agree(&play);
        play_end(&play);
    }
}

/* What a process sees of its files does not change while it is not written to. */
static void expect_no_write(struct play *play, struct sim_node *node) {
    unsigned life = node->lives;
    uint64_t before = sim_disk_fingerprint(node->disk);
    for (int ms = 0; ms < 1000 && node->lives == life && node->state == SIM_UP; ms++) {
        cr_assert(sim_disk_fingerprint(node->disk) == before, "written to after a failed sync");
        sim_world_run_ms(play->world, 1);
    }
}

static bool first_has_stopped(struct sim_world *world) {
    const struct node *node = world->nodes[0].node;
    return node != NULL && node->stop_rc != 0;
}

static void fail_one_sync(size_t nodes, uint64_t k, bool power) {
    struct sim_plan plan = plan_with_calls(1300 + k, nodes);
    /* Every sync is one of the log: those of images and spare segments that fail cost only these. */
    plan.image_log_bytes = plan.segment_bytes = 1024 * 1024;
    struct play play = play_begin(&plan);
    struct sim_node *sick = &play.world->nodes[0];
    (void)play_leader(&play, 3000);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 200);
    sick->disk_failed = true;
    sim_disk_fail(sick->disk, SIM_SYNC, k, LKV_EIO, false); /* the next one would work */
    bool stopped = sim_world_until(play.world, first_has_stopped, 5000);
    cr_assert(stopped, "sync %d of %d nodes: %s", (int)k, (int)nodes, play.world->failure);
    cr_expect(sick->node->stop_rc == LKV_EIO);
    expect_no_write(&play, sick);
    sim_node_crash(sick, power); /* the page cache shows what the disk does not have, or is gone */
    sim_node_start(sick);
    sim_world_run_ms(play.world, 500);
    for (size_t i = 0; i < nodes; i++) { /* what it answers with now must survive this */
        sim_node_crash(&play.world->nodes[i], true);
    }
    play_agree(&play);
    play_end(&play);
}

Test(sim_sick_disks, s10_a_sync_that_failed_once_is_final_until_a_restart) {
    for (uint64_t k = 0; k < CALLS; k++) {
        fail_one_sync(3, k, k % 2 == 0);
        fail_one_sync(1, k, k % 2 == 0);
    }
}

/* L1: with one follower gone, the leader's own copy is needed, and it is not counted before it is on
 * its disk. */
Test(sim_sick_disks, l1_a_leader_counts_its_own_copy_only_when_it_is_durable) {
    for (uint64_t seed = 1400; seed < 1410; seed += LKV_STRIDE) {
        struct sim_plan plan = sim_plan_calm(seed);
        plan.fault_ms_max = 10000; /* a sync may take so long */
        struct play play = play_begin(&plan);
        struct sim_node *leader = play_leader(&play, 3000);
        struct sim_node *gone = play_follower(&play, leader);
        play_put(&play, 1);
        sim_world_run_ms(play.world, 500);
        sim_node_crash(gone, false);
        struct sim_disk_latency slow = plan.disk;
        slow.sync_hang_ns = 900 * MS_NS;
        sim_disk_set_latency(leader->disk, &slow);
        int done = 0;
        uint64_t commit = play.world->model.commit;
        sim_submit(leader, SIM_PUT, 2, 5000, &done);
        sim_world_run_ms(play.world, 800);
        cr_expect(done == 0, "acknowledged before the leader's disk has it");
        cr_expect(play.world->model.commit == commit, "committed before it, on one disk of three");
        sim_world_run_ms(play.world, 3000);
        cr_expect(done == 1 + (int)LKV_DONE);
        for (size_t i = 0; i < plan.nodes; i++) {
            sim_node_crash(&play.world->nodes[i], true);
        }
        play_agree(&play);
        play_end(&play);
    }
}

/* L1: a majority loses its power in the moment of an acknowledgement. */
Test(sim_sick_disks, l1_what_is_acknowledged_survives_a_power_cut_at_once) {
    for (uint64_t seed = 1500; seed < 1530; seed += LKV_STRIDE) {
        struct sim_plan plan = sim_plan_calm(seed);
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        for (uint32_t key = 0; key < seed % 10; key++) {
            play_put(&play, key);
        }
        play_put(&play, 15); /* returns in the millisecond of its answer */
        for (size_t i = 0; i < plan.nodes; i++) {
            if (seed % 2 == 0 || i != seed % 3) {
                sim_node_crash(&play.world->nodes[i], true);
            }
        }
        play_agree(&play);
        play_end(&play);
    }
}

/* X-C2: a leader of three whose disk is full at any byte: another one leads soon, and it comes back by
 * itself when there is room. */
Test(sim_sick_disks, x_c2_a_full_leader_is_replaced_and_rejoins_by_itself) {
    for (uint64_t room = 0; room < 20 * 1024; room += 1024 * LKV_STRIDE) {
        struct sim_plan plan = plan_with_calls(1600 + room, 3);
        plan.image_log_bytes = 1024 * 1024;
        struct play play = play_begin(&plan);
        struct sim_node *full = play_leader(&play, 3000);
        play_put(&play, 1);
        sim_load_start(play.world);
        sim_disk_fill(full, room);
        sim_world_run_ms(play.world,
                         10 * ELECTION_MS + room / 4); /* so long for what room there is */
        const struct sim_node *leader = play_leader(&play, 0);
        cr_expect(leader != full, "room %d: it still leads", (int)room);
        play_put(&play, 2);
        sim_disk_set_capacity(full->disk, UINT64_MAX);
        sim_world_run_ms(play.world, 3000);
        cr_expect(full->lives == 1 && sim_node_runs(full));
        cr_expect(full->node->applied + 200 > play.world->model.commit);
        play_agree(&play);
        play_end(&play);
    }
}

/* It is made on the thread that writes images. */
Test(sim_sick_disks, a_digest_does_not_wait_for_a_disk_that_hangs) {
    struct sim_plan plan = plan_with_calls(77, 1);
    plan.image_log_bytes = 1024;
    plan.history_revisions = 1;
    struct play play = play_begin(&plan);
    struct sim_node *node = play_leader(&play, 3000);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 500);
    cr_expect(ask(&play, node, SIM_DIGEST, 0) == (int)LKV_DONE);
    struct sim_disk_latency hangs = plan.disk;
    hangs.sync_hang_ns = 2500 * MS_NS;
    sim_disk_set_latency(node->disk, &hangs);
    int late = 0;
    for (int i = 0; i < 100 && late == 0; i++) { /* until one meets an image on its way */
        late += ask(&play, node, SIM_DIGEST, 0) == (int)LKV_NOT_DONE;
        sim_world_run_ms(play.world, 50);
    }
    cr_expect(late > 0, "the disk was not in its way");
    play_agree(&play);
    play_end(&play);
}

/* S11, rule 11: of two, nobody could confirm where a log ended that its disk does not return. So while it returns errors
 * the node does not start, and afterwards it does, and both go on. */
Test(sim_sick_disks, s11_one_of_two_waits_until_its_log_can_be_read) {
    struct sim_plan plan = plan_with_calls(78, 2);
    struct play play = play_begin(&plan);
    bool refused = false;
    for (uint64_t n = 0; n < 36 && !refused; n++) {
        struct sim_node *node = play_follower(&play, play_leader(&play, 3000));
        for (uint32_t key = 0; key < 8; key++) {
            play_put(&play, key);
        }
        sim_node_crash(node, true);
        node->disk_failed = true;
        sim_disk_fail(node->disk, SIM_READ, n, LKV_EIO, true);
        sim_node_start(node);
        sim_world_run_ms(play.world, 20);
        refused = strstr(node->refusal, "nobody else could confirm") != NULL;
        sim_node_heal(node);
        sim_world_run_ms(play.world, 500);
        play_put(&play, 1);
    }
    cr_expect(refused);
    play_agree(&play);
    play_end(&play);
}
