/* The client of lkv_connect against three nodes on paper: where requests go, and how each ends. */
#include "lib/client.h"
#include "base/mem.h"
#include "tests/support/client_host.h"
#include "tests/support/paper_net.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { NODES = 3 };

static struct paper *paper;
static struct loop *node_loop, *client_loop;
static struct net *node_net;
static struct host_store store;
static struct host hosts[NODES];
static bool running[NODES];
static struct client *client;
static struct net_listener *mute; /* accepts, and never says a word */
static struct lkv *db;
static struct lkv_queue *queue;

static const char *const addresses[NODES] = {"n1:1", "n2:1", "n3:1"};

static void nodes_turn(void *arg) {
    (void)arg;
    uint64_t next_ns = UINT64_MAX;
    for (size_t i = 0; i < NODES; i++) {
        uint64_t due_ns = running[i] ? host_turn(&hosts[i]) : UINT64_MAX;
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    loop_timer_set(node_loop, next_ns);
}

static void nothing(void *arg) {
    (void)arg;
}

static void start_node(size_t i) {
    host_open(&hosts[i], &store, node_loop, node_net, addresses[i], &(struct server_options){0});
    running[i] = true;
}

static void stop_node(size_t i) {
    running[i] = false;
    host_close(&hosts[i]);
}

/* NODES: nobody leads. */
static void lead(size_t leader) {
    for (size_t i = 0; i < NODES; i++) {
        enum host_role role = i == leader      ? HOST_LEADER
                              : leader < NODES ? HOST_FOLLOWER
                                               : HOST_NO_LEADER;
        atomic_store(&hosts[i].role, role);
        (void)snprintf(hosts[i].leader_address, sizeof(hosts[i].leader_address), "%s",
                       leader < NODES ? addresses[leader] : "");
    }
}

static void start_client(const char *endpoints) {
    struct lkv_options *options = lkv_options_new();
    cr_assert_eq(lkv_options_set(options, "endpoints", endpoints), 0);
    cr_assert_eq(lkv_options_set(options, "inflight_bytes_max", "1200KiB"), 0);
    cr_assert_eq(client_new(&client, options, NULL), 0);
    lkv_options_free(options);
    struct loop_events events = client_events(client);
    client_loop = paper_loop(paper, &events);
    client_start(client, client_loop, paper_net(paper, client_loop));
    db = client_handle(client);
}

static void stop_client(void) {
    client_stop(client);
    client_free(client);
    client = NULL;
}

static void open_paper(void) {
    struct loop_events events = {
        .on_timer = nothing, .on_wake = nothing, .on_turn_end = nodes_turn};
    paper = paper_new();
    node_loop = paper_loop(paper, &events);
    node_net = paper_net(paper, node_loop);
    host_store_open(&store);
    for (size_t i = 0; i < NODES; i++) {
        start_node(i);
    }
    cr_assert_eq(lkv_queue_new(&queue), 0);
    start_client("n1:1,n2:1,n3:1");
    lead(0);
    paper_run(paper);
}

static void close_paper(void) {
    if (client != NULL) {
        stop_client();
    }
    for (size_t i = 0; i < NODES; i++) {
        if (running[i]) {
            stop_node(i);
        }
    }
    if (mute != NULL) {
        net_listener_close(mute);
        mute = NULL;
    }
    paper_free(paper);
    host_store_close(&store);
    lkv_queue_free(queue);
}

TestSuite(lib_client, .init = open_paper, .fini = close_paper);

/* ------------------------------------------------------------------ requests */

static void put(int64_t timeout_ms) {
    cr_assert_eq(lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), timeout_ms, queue, NULL), 0);
}

static void get(int64_t timeout_ms) {
    cr_assert_eq(lkv_get_submit(db, LKV_STR("k"), LKV_LINEARIZABLE, timeout_ms, queue, NULL), 0);
}

/* How many ended; all of them as `rc`. */
static size_t ended(int rc) {
    size_t count = 0;
    for (struct lkv_msg *msg; (msg = lkv_queue_next(queue, 0)) != NULL; count++) {
        cr_assert_eq(lkv_msg_rc(msg), rc, "%s: %s", lkv_error_name(lkv_msg_rc(msg)),
                     lkv_msg_text(msg));
        lkv_msg_free(msg);
    }
    return count;
}

static void assert_put_works(void) {
    put(1000);
    paper_run(paper);
    cr_assert_eq(ended(0), 1);
}

Test(lib_client, is_connected_before_the_first_request) {
    cr_assert_eq(paper_open_conns(paper), 2, "both ends of one");
    put(1000);
    put(1000);
    get(1000);
    paper_run(paper);
    cr_assert_eq(ended(0), 3);
}

Test(lib_client, goes_straight_to_the_leader_after_one_redirect) {
    lead(2);
    for (int i = 0; i < 700; i++) {
        put(1000);
    }
    paper_run(paper);
    cr_assert_eq(ended(0), 700);
    cr_assert_leq(atomic_load(&hosts[0].calls), 16, "it asks with a few");
    cr_assert_eq(atomic_load(&hosts[1].calls), 0);
    cr_assert_eq(atomic_load(&hosts[2].calls), 700);
    size_t calls = atomic_load(&hosts[0].calls);
    assert_put_works();
    get(1000);
    paper_run(paper);
    cr_assert_eq(ended(0), 1);
    cr_assert_eq(atomic_load(&hosts[0].calls), calls);
    cr_assert_eq(server_connections(hosts[0].server), 0, "it keeps to one node");
}

Test(lib_client, follows_a_leader_that_it_was_not_told_of) {
    stop_client();
    start_client("n1:1");
    lead(2);
    assert_put_works();
    cr_assert_eq(atomic_load(&hosts[2].calls), 1);
}

Test(lib_client, keeps_requests_while_nobody_leads) {
    lead(NODES);
    for (int i = 0; i < 500; i++) {
        put(5000);
    }
    paper_advance(paper, 2000);
    cr_assert_eq(ended(0), 0);
    size_t calls = 0;
    for (size_t i = 0; i < NODES; i++) {
        calls += atomic_load(&hosts[i].calls);
    }
    cr_assert_leq(calls, 3000, "nodes that elect are not flooded");
    lead(1);
    paper_advance(paper, 150);
    cr_assert_eq(ended(0), 500);
}

/* C6: each end is exact. */
Test(lib_client, refusals_are_definite_when_the_time_is_over) {
    lead(NODES);
    put(300);
    get(300);
    paper_advance(paper, 310);
    cr_assert_eq(ended(LKV_ENOLEADER), 2);
    lead(0);
    for (size_t i = 0; i < NODES; i++) {
        atomic_store(&hosts[i].role, HOST_STOPPED);
    }
    put(300);
    paper_advance(paper, 310);
    cr_assert_eq(ended(LKV_ESTOPPED), 1);
    cr_assert_eq(store.index, 0);
}

Test(lib_client, busy_is_passed_on_at_once) {
    atomic_store(&hosts[0].role, HOST_FULL);
    put(5000);
    paper_run(paper);
    cr_assert_eq(ended(LKV_EBUSY), 1);
}

Test(lib_client, a_sent_write_without_an_answer_is_unknown_and_a_read_is_not_done) {
    atomic_store(&hosts[0].role, HOST_SILENT);
    put(300);
    paper_advance(paper, 310);
    cr_assert_eq(ended(LKV_EUNKNOWN), 1);
    get(300);
    paper_advance(paper, 310);
    cr_assert_eq(ended(LKV_ETIMEOUT), 1);
}

Test(lib_client, what_could_not_be_sent_is_unreachable) {
    for (size_t i = 0; i < NODES; i++) {
        stop_node(i);
    }
    paper_run(paper);
    put(300);
    get(300);
    cr_assert_eq(lkv_status(NULL, 0, NULL), LKV_EINVAL);
    paper_advance(paper, 310);
    cr_assert_eq(ended(LKV_EUNREACHABLE), 2);
    put(0);
    paper_advance(paper, 10);
    cr_assert_eq(ended(LKV_EUNREACHABLE), 1);
}

Test(lib_client, a_node_that_never_answers_the_connect_is_given_up) {
    stop_client();
    paper_cut(paper, addresses[0], true);
    start_client("n1:1,n2:1");
    lead(1);
    put(1000);
    paper_advance(paper, 1010);
    cr_assert_eq(ended(LKV_EUNREACHABLE), 1);
    put(2000);
    paper_advance(paper, 1500);
    cr_assert_eq(ended(0), 1);
}

static void ignore_data(void *arg, struct slice bytes) {
    (void)arg;
    (void)bytes;
}

static void ignore_close(void *arg, int rc) {
    (void)arg;
    (void)rc;
}

static void accept_mutely(void *arg, struct net_conn *conn) {
    static const struct net_conn_events mute_events = {.on_data = ignore_data,
                                                       .on_close = ignore_close};
    (void)arg;
    net_attach(conn, &mute_events, NULL);
}

/* As a process that was stopped does: its system still accepts. */
Test(lib_client, an_endpoint_that_accepts_and_never_answers_is_given_up) {
    cr_assert_eq(net_listen(node_net, "mute:1", accept_mutely, NULL, &mute, NULL), 0);
    stop_client();
    start_client("mute:1,n1:1");
    paper_run(paper);
    for (int i = 0; i < 10; i++) {
        get(5000);
    }
    put(5000);
    for (int i = 0; i < 100; i++) {
        get(5000);
    }
    paper_advance(paper, 2600);
    struct lkv_msg *msg = lkv_queue_next(queue, 0);
    cr_assert_eq(lkv_msg_rc(msg), LKV_EUNKNOWN, "it may have been applied there");
    lkv_msg_free(msg);
    cr_assert_eq(ended(LKV_ENOTFOUND), 110, "the next endpoint answers");
    assert_put_works();
}

/* Its address is known from a redirect; the next endpoint in turn would be the same node. */
Test(lib_client, a_leader_that_vanished_is_not_asked_next) {
    lead(1);
    assert_put_works();
    paper_cut(paper, addresses[1], true);
    put(5000);
    paper_advance(paper, 100);
    lead(2);
    atomic_store(&hosts[1].role, HOST_LEADER);
    paper_advance(paper, 2500);
    cr_assert_eq(ended(LKV_EUNKNOWN), 1);
    assert_put_works();
    cr_assert_eq(atomic_load(&hosts[1].passed_on), 0);
}

Test(lib_client, a_broken_connection_makes_writes_unknown_and_reads_move) {
    atomic_store(&hosts[0].role, HOST_SILENT);
    put(1000);
    get(1000);
    put(1000);
    paper_run(paper);
    stop_node(0);
    lead(1);
    paper_advance(paper, 100);
    size_t unknown = 0, fine = 0;
    for (struct lkv_msg *msg; (msg = lkv_queue_next(queue, 0)) != NULL;) {
        unknown += lkv_msg_rc(msg) == LKV_EUNKNOWN ? 1 : 0;
        fine += lkv_msg_rc(msg) == LKV_ENOTFOUND ? 1 : 0;
        lkv_msg_free(msg);
    }
    cr_assert_eq(unknown, 2);
    cr_assert_eq(fine, 1);
    assert_put_works();
}

/* N7: the node is full of connections. It says so before it looks at a call, whatever has been sent. */
Test(lib_client, what_a_full_node_refused_unseen_is_not_done_and_says_why) {
    stop_node(0);
    stop_node(1);
    stop_node(2);
    paper_advance(paper, 100);
    const struct server_options options = {.connections_max = 1};
    host_open(&hosts[0], &store, node_loop, node_net, addresses[0], &options);
    running[0] = true;
    stop_client();
    start_client("n1:1");
    struct client *first = client;
    lead(0);
    assert_put_works();
    start_client("n1:1");
    put(1000);
    get(1000);
    paper_advance(paper, 1100);
    size_t count = 0;
    for (struct lkv_msg *msg; (msg = lkv_queue_next(queue, 0)) != NULL; count++) {
        cr_assert_eq(lkv_msg_rc(msg), LKV_EBUSY, "%s", lkv_msg_text(msg));
        cr_assert_not_null(strstr(lkv_msg_text(msg), "connections_max is 1"), "%s",
                           lkv_msg_text(msg));
        lkv_msg_free(msg);
    }
    cr_assert_eq(count, 2);
    client_stop(first);
    client_free(first);
    paper_advance(paper, 200);
    assert_put_works();
}

static int repeated_rc;

static void note_rc(struct request *request) {
    repeated_rc = request->reply->rc;
}

/* C6: of the first attempt nobody knows; that the next node refuses says nothing of it. */
Test(lib_client, what_was_sent_once_and_refused_later_is_unknown) {
    atomic_store(&hosts[0].role, HOST_SILENT);
    const struct kv_command command = {
        .op = KV_PUT, .key = slice_text("k"), .session = 1, .seq = 1, .acked_below = 1};
    struct request *request = request_new(REQUEST_WRITE);
    cr_assert_not_null(request);
    request->command = kv_command_encode(&command);
    request->cost = 64;
    request->repeatable = true;
    request->deadline_ns = loop_now_ns(client_loop) + 1000 * MS_NS;
    request->on_finish = note_rc;
    cr_assert_eq(db->ops->submit(db, request), 0);
    paper_run(paper);
    stop_node(0);
    lead(NODES);
    paper_advance(paper, 2000);
    cr_assert_eq(repeated_rc, LKV_EUNKNOWN, "%s", error_name(repeated_rc));
}

/* X-A12 */
Test(lib_client, an_isolated_leader_leaves_each_write_unknown_once) {
    assert_put_works();
    paper_cut(paper, addresses[0], true);
    for (int i = 0; i < 100; i++) {
        put(5000);
    }
    paper_run(paper);
    lead(1);
    atomic_store(&hosts[0].role, HOST_LEADER);
    paper_advance(paper, 3000);
    cr_assert_eq(ended(LKV_EUNKNOWN), 100);
    uint64_t index = store.index;
    assert_put_works();
    cr_assert_eq(store.index, index + 1, "and the new leader was found meanwhile");
    paper_cut(paper, addresses[0], false);
    paper_advance(paper, 5000);
    cr_assert_eq(ended(0), 0, "nothing ends twice");
}

Test(lib_client, a_silent_node_gets_nothing_more) {
    assert_put_works();
    paper_cut(paper, addresses[0], true);
    put(5000);
    paper_advance(paper, 600);
    for (int i = 0; i < 100; i++) {
        put(5000);
    }
    paper_run(paper);
    lead(1);
    paper_advance(paper, 2100);
    struct lkv_msg *msg = lkv_queue_next(queue, 0);
    cr_assert_eq(lkv_msg_rc(msg), LKV_EUNKNOWN);
    lkv_msg_free(msg);
    cr_assert_eq(ended(0), 100, "they waited, and went to the next leader");
}

Test(lib_client, answers_of_a_node_it_has_left_still_count) {
    assert_put_works();
    atomic_store(&hosts[0].role, HOST_SILENT);
    put(5000);
    put(5000);
    paper_run(paper);
    lead(1);
    assert_put_works();
    cr_assert_eq(hosts[0].kept_count, 2);
    host_answer_kept(&hosts[0]);
    paper_run(paper);
    cr_assert_eq(ended(0), 2);
    paper_run(paper);
    cr_assert_eq(server_connections(hosts[0].server), 0);
}

Test(lib_client, lets_a_follower_pass_on_when_the_leader_is_out_of_reach) {
    lead(2);
    (void)snprintf(hosts[0].leader_address, sizeof(hosts[0].leader_address), "inside:1");
    (void)snprintf(hosts[1].leader_address, sizeof(hosts[1].leader_address), "inside:1");
    stop_client();
    start_client("n1:1,n2:1");
    put(5000);
    paper_advance(paper, 2500);
    cr_assert_eq(ended(0), 1);
    cr_assert_eq(atomic_load(&hosts[0].passed_on) + atomic_load(&hosts[1].passed_on), 1);
    assert_put_works();
}

Test(lib_client, comes_back_when_the_nodes_do) {
    assert_put_works();
    for (size_t i = 0; i < NODES; i++) {
        stop_node(i);
    }
    paper_advance(paper, 60000);
    put(100);
    paper_advance(paper, 200);
    cr_assert_eq(ended(LKV_EUNREACHABLE), 1);
    put(2000);
    paper_advance(paper, 500);
    start_node(1);
    lead(1);
    paper_advance(paper, 150);
    cr_assert_eq(ended(0), 1);
}

Test(lib_client, an_idle_client_does_nothing) {
    assert_put_works();
    paper_advance(paper, 1000);
    size_t calls = atomic_load(&hosts[0].calls);
    paper_advance(paper, 3600 * 1000);
    cr_assert_eq(atomic_load(&hosts[0].calls), calls);
    cr_assert_eq(server_connections(hosts[0].server), 1);
    stop_node(0);
    paper_advance(paper, 3600 * 1000);
    lead(1);
    put(1000);
    paper_advance(paper, 50);
    cr_assert_eq(ended(0), 1);
    cr_assert_eq(atomic_load(&hosts[1].passed_on) + atomic_load(&hosts[2].passed_on), 0);
}

/* X-D5 */
Test(lib_client, more_than_it_may_hold_is_busy) {
    atomic_store(&hosts[0].role, HOST_SILENT);
    size_t taken = 0;
    int rc = 0;
    while (rc == 0) {
        rc = lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), 5000, queue, NULL);
        taken += rc == 0 ? 1 : 0;
    }
    cr_assert_eq(rc, LKV_EBUSY);
    cr_assert(taken > 500 && taken < 2000);
    paper_run(paper);
    atomic_store(&hosts[0].role, HOST_LEADER);
    host_answer_kept(&hosts[0]);
    paper_run(paper);
    cr_assert_eq(ended(0), taken);
    assert_put_works();
}

/* Else it would be busy for ever: a node takes it too. */
Test(lib_client, one_request_may_be_larger_than_all_that_it_may_hold) {
    static char value[2 << 20];
    struct lkv_bytes large = {.data = value, .size = sizeof(value)};
    cr_assert_eq(lkv_put_submit(db, LKV_STR("k"), large, 5000, queue, NULL), 0);
    cr_assert_eq(lkv_put_submit(db, LKV_STR("k"), large, 5000, queue, NULL), LKV_EBUSY);
    paper_run(paper);
    cr_assert_eq(ended(0), 1);
    assert_put_works();
}

/* X-A12: close ends each first; what was never sent is definite. */
Test(lib_client, closing_ends_each_request_exactly) {
    atomic_store(&hosts[0].role, HOST_SILENT);
    put(5000);
    paper_run(paper);
    put(5000);
    get(5000);
    client_stop(client);
    struct lkv_msg *msg = lkv_queue_next(queue, 0);
    cr_assert_eq(lkv_msg_rc(msg), LKV_EUNKNOWN);
    lkv_msg_free(msg);
    cr_assert_eq(ended(LKV_ECLOSED), 2);
    cr_assert_eq(lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), 5000, queue, NULL), LKV_ECLOSED);
    cr_assert_eq(ended(0), 0);
}

Test(lib_client, several_connections_share_the_work) {
    stop_client();
    struct lkv_options *options = lkv_options_new();
    cr_assert_eq(lkv_options_set(options, "endpoints", "n1:1"), 0);
    cr_assert_eq(lkv_options_set(options, "connections", "4"), 0);
    cr_assert_eq(client_new(&client, options, NULL), 0);
    lkv_options_free(options);
    struct loop_events events = client_events(client);
    client_loop = paper_loop(paper, &events);
    client_start(client, client_loop, paper_net(paper, client_loop));
    db = client_handle(client);
    for (int i = 0; i < 100; i++) {
        put(1000);
    }
    paper_run(paper);
    cr_assert_eq(ended(0), 100);
    cr_assert_eq(server_connections(hosts[0].server), 4);
}

Test(lib_client, requests_keep_their_order) {
    lead(1);
    char value[16];
    for (int i = 0; i < 200; i++) {
        (void)snprintf(value, sizeof(value), "%d", i);
        cr_assert_eq(lkv_put_submit(db, LKV_STR("k"),
                                    (struct lkv_bytes){.data = value, .size = strlen(value)}, 1000,
                                    queue, (void *)(intptr_t)i),
                     0);
    }
    paper_run(paper);
    for (intptr_t i = 0; i < 200; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, 0);
        cr_assert_eq(lkv_msg_rc(msg), 0);
        uint64_t rev;
        cr_assert(lkv_msg_u64(msg, "rev", &rev));
        cr_assert_eq(rev, (uint64_t)(intptr_t)lkv_msg_tag(msg) + 2);
        lkv_msg_free(msg);
    }
}

/* S28: the client's own allocations; what a loop cannot allocate it tries again. */
Test(lib_client, survives_without_memory) {
    for (uint64_t n = 0; n < 25; n++) {
        lead(1);
        atomic_store(&hosts[1].role, HOST_FULL); /* the store behind asserts that it has memory */
        put(400);
        mem_fail_after(n);
        paper_run(paper);
        mem_fail_never();
        paper_advance(paper, 500);
        struct lkv_msg *msg = lkv_queue_next(queue, 0);
        cr_assert_not_null(msg, "%zu", (size_t)n);
        cr_assert_neq(lkv_msg_rc(msg), 0);
        lkv_msg_free(msg);
        cr_assert_null(lkv_queue_next(queue, 0));
        paper_reset(paper, addresses[1]);
        paper_run(paper);
    }
    lead(1);
    put(1000);
    paper_advance(paper, 200);
    cr_assert_eq(ended(0), 1);
}
