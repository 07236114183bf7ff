/* Leased reads (rule 30) at three nodes in one process, on real files, sockets and clocks, and through a client. */
#include "tests/unit/lib/node_world.h"

static struct world world;

static void open_leasing(int i, const char *lease_reads) {
    struct lkv_options *options = member_options(&world, i);
    cr_assert_eq(lkv_options_set(options, "lease_reads", lease_reads), 0);
    cr_assert_eq(try_open(&world.nodes[i], options), 0, "%s", open_text);
}

static void setup(void) {
    world_init(&world);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_node_leased, .init = setup, .fini = teardown, .timeout = 60);

/* The leader, when it has a lease, or has none. */
static int await_lease(bool has) {
    for (int64_t end = now_ms() + WAIT_MS; now_ms() < end; sleep_ms(5)) {
        int leader = find_leader(&world);
        if ((status_number(world.nodes[leader], "read_lease_ms") > 0) == has) {
            return leader;
        }
    }
    cr_assert(false, "the lease is not as expected");
    return 0;
}

static void expect_everywhere(const char *key, const char *value) {
    for (int i = 0; i < NODES; i++) {
        expect_get(world.nodes[i], LKV_LEASED, key, value);
    }
    struct lkv_options *options = lkv_options_new();
    struct lkv *remote;
    char address[64];
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", world.ports[find_leader(&world)]);
    cr_assert_eq(lkv_options_set(options, "endpoints", address), 0);
    cr_assert_eq(lkv_connect(&remote, options, NULL), 0);
    lkv_options_free(options);
    expect_get(remote, LKV_LEASED, key, value);
    cr_assert_eq(lkv_close(remote, 0), 0);
}

Test(lib_node_leased, every_node_and_client_reads_what_was_acknowledged_before) {
    for (int i = 0; i < NODES; i++) {
        open_leasing(i, "on");
    }
    put(world.nodes[0], "k", "1");
    int leader = await_lease(true);
    for (int i = 0; i < 20; i++) {
        char value[16];
        (void)snprintf(value, sizeof(value), "%d", i);
        put(world.nodes[i % NODES], "k", value);
        expect_everywhere("k", value);
    }
    struct lkv_msg *msg = NULL;
    cr_assert_eq(lkv_get(world.nodes[leader], LKV_STR("none"), LKV_LEASED, WAIT_MS, &msg),
                 LKV_ENOTFOUND);
    uint64_t rev = 0;
    cr_assert(lkv_msg_u64(msg, "rev", &rev) && rev > 1);
    lkv_msg_free(msg);
    cr_assert_eq(
        lkv_range(world.nodes[leader], LKV_STR(""), LKV_STR(""), 0, 0, LKV_LEASED, WAIT_MS, &msg),
        0);
    cr_assert_eq(lkv_msg_count(msg), 1);
    lkv_msg_free(msg);
}

/* The option is the leader's; without it, and while nobody else is there to promise, reads are as without leases. */
Test(lib_node_leased, without_a_lease_a_quorum_answers) {
    for (int i = 0; i < NODES; i++) {
        open_leasing(i, "off");
    }
    put(world.nodes[0], "k", "1");
    int leader = await_lease(false);
    expect_everywhere("k", "1");
    close_member(&world, (leader + 1) % NODES);
    close_member(&world, (leader + 2) % NODES);
    struct lkv_msg *msg = NULL;
    cr_assert_neq(lkv_get(world.nodes[leader], LKV_STR("k"), LKV_LEASED, 300, &msg), 0);
    lkv_msg_free(msg);
}

/* Nobody else could lead. */
Test(lib_node_leased, a_node_alone_reads_at_once) {
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    cr_assert_eq(lkv_options_set(options, "lease_reads", "on"), 0);
    cr_assert_neq(lkv_options_set(options, "clock_drift_ppm", "500001"), 0);
    cr_assert_eq(try_open(&world.nodes[0], options), 0, "%s", open_text);
    put(world.nodes[0], "k", "1");
    expect_get(world.nodes[0], LKV_LEASED, "k", "1");
    cr_assert_eq(status_number(world.nodes[0], "read_lease_ms"), 0, "it does not end");
}
