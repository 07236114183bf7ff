/* Three nodes of model log in one process: forwarding, reads on any node, a change of leader under a
 * tail, a laggard behind retention, clients. */
#include "tests/unit/lib/node_world.h"

static struct world world;
static const char *extra[8][2];
static size_t extra_count;

static void setup(void) {
    world_init(&world);
    extra_count = 0;
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_log_three, .init = setup, .fini = teardown, .timeout = 100);

static void open_log_member(int i) {
    struct lkv_options *options = member_options(&world, i);
    cr_assert_eq(lkv_options_set(options, "model", "log"), 0);
    for (size_t at = 0; at < extra_count; at++) {
        cr_assert_eq(lkv_options_set(options, extra[at][0], extra[at][1]), 0);
    }
    int rc = try_open(&world.nodes[i], options);
    cr_assert_eq(rc, 0, "%s: %s", lkv_error_name(rc), open_text);
}

static void open_cluster(void) {
    for (int i = 0; i < NODES; i++) {
        open_log_member(i);
    }
    (void)find_leader(&world);
}

static struct lkv *open_client(void) {
    char endpoints[256];
    (void)snprintf(endpoints, sizeof(endpoints), "127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d",
                   world.ports[0], world.ports[1], world.ports[2]);
    struct lkv_options *options = lkv_options_new();
    struct lkv *client = NULL;
    cr_assert_eq(lkv_options_set(options, "endpoints", endpoints), 0);
    cr_assert_eq(lkv_connect(&client, options, NULL), 0);
    lkv_options_free(options);
    return client;
}

static uint64_t append(struct lkv *db, const char *text) {
    struct lkv_bytes record = bytes(text);
    uint64_t index = 0;
    int rc = lkv_append(db, &record, 1, 0, WAIT_MS, &index);
    cr_assert_eq(rc, 0, "append %s: %s: %s", text, lkv_error_name(rc), lkv_last_text());
    return index;
}

/* Waits for it, on a node that follows. */
static void expect_at(struct lkv *db, uint64_t index, const char *text) {
    cr_assert_eq(lkv_log_span(db, LKV_LINEARIZABLE, WAIT_MS, NULL, NULL), 0);
    struct lkv_msg *msg = NULL;
    struct lkv_record record;
    int rc = lkv_log_read(db, index, 1, WAIT_MS, &msg);
    cr_assert_eq(rc, 0, "%s", lkv_last_text());
    cr_assert(lkv_msg_record(msg, 0, &record), "nothing at %lu", index);
    cr_assert_eq(record.index, index);
    cr_assert_eq(record.data.size, strlen(text));
    cr_assert_arr_eq(record.data.data, text, record.data.size);
    lkv_msg_free(msg);
}

Test(lib_log_three, every_node_takes_appends_and_reads_them_all) {
    open_cluster();
    struct lkv *client = open_client();
    char text[32];
    for (int i = 0; i < 24; i++) {
        (void)snprintf(text, sizeof(text), "record %d", i);
        uint64_t index = append(i % 4 < NODES ? world.nodes[i % 4] : client, text);
        for (int n = 0; n < NODES; n++) {
            expect_at(world.nodes[n], index, text);
        }
        expect_at(client, index, text);
    }
    cr_assert_eq(lkv_log_hold(client, "h", 1, WAIT_MS), LKV_EUNSUPPORTED);
    struct lkv_msg *msg = NULL;
    int fd;
    uint64_t offset;
    cr_assert_eq(lkv_log_read(client, 0, 0, WAIT_MS, &msg), 0);
    cr_assert_eq(lkv_msg_count(msg), 24);
    cr_assert_eq(lkv_log_extent(msg, 0, &fd, &offset), LKV_EUNSUPPORTED);
    lkv_msg_free(msg);
    cr_assert_eq(lkv_close(client, 0), 0);
}

/* L21: what no quorum has is not shown, not even by the node that has it on its disk. */
Test(lib_log_three, nothing_uncommitted_is_ever_read) {
    open_cluster();
    int leader = find_leader(&world);
    struct lkv *db = world.nodes[leader];
    for (int i = 0; i < 500 && status_number(db, "feature_level") < 2; i++) {
        (void)usleep(10 * 1000); /* the leader's last entry of its own */
    }
    uint64_t commit = append(db, "committed");
    close_member(&world, (leader + 1) % NODES);
    close_member(&world, (leader + 2) % NODES);
    struct lkv_bytes record = LKV_STR("on one disk only");
    cr_assert_eq(lkv_outcome(lkv_append(db, &record, 1, 0, 400, NULL)), LKV_UNKNOWN);
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_log_tail(db, commit + 1, 4096, 0, queue, NULL), 0);
    cr_assert_geq(status_number(db, "last"), commit + 1);
    for (int i = 0; i < 10; i++) {
        uint64_t shown = 0;
        struct lkv_msg *msg = NULL;
        cr_assert_eq(lkv_log_span(db, LKV_LOCAL, WAIT_MS, NULL, &shown), 0);
        cr_assert_eq(shown, commit);
        cr_assert_eq(lkv_log_read(db, commit + 1, 0, WAIT_MS, &msg), 0);
        cr_assert_eq(lkv_msg_count(msg), 0);
        lkv_msg_free(msg);
        cr_assert_null(lkv_queue_next(queue, 20));
    }
    cr_assert_neq(lkv_log_span(db, LKV_LINEARIZABLE, 200, NULL, NULL), 0);
    close_member(&world, leader);
    lkv_queue_free(queue);
}

/* X-E5: a node of the other model is no member, whatever its peers option says. */
Test(lib_log_three, a_node_of_the_other_model_does_not_take_part) {
    open_log_member(0);
    open_log_member(1);
    open_member(&world, 2);
    struct lkv_bytes record = LKV_STR("x");
    cr_assert_eq(lkv_append(world.nodes[0], &record, 1, 0, 1500, NULL), LKV_ENOLEADER,
                 "three found a cluster, or nobody");
}

struct seen {
    uint64_t next_index;
    uint32_t next_value;
};

/* Records carry their number: each comes once, in order. */
static void take_records(const struct lkv_msg *msg, struct seen *seen) {
    struct lkv_record record;
    for (size_t i = 0; i < lkv_msg_count(msg); i++) {
        cr_assert(lkv_msg_record(msg, i, &record));
        cr_assert_geq(record.index, seen->next_index);
        cr_assert_eq(record.data.size, sizeof(uint32_t));
        uint32_t value;
        memcpy(&value, record.data.data, sizeof(value));
        cr_assert_eq(value, seen->next_value, "%u, not %u", value, seen->next_value);
        seen->next_index = record.index + 1;
        seen->next_value++;
    }
}

static void follow_across_leaders(struct lkv *reader) {
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_log_tail(reader, 1, 64 * 1024, 0, queue, NULL), 0);
    struct seen seen = {0};
    uint32_t count = 0;
    for (int round = 0; round < 3; round++) {
        int leader = find_leader(&world);
        for (int i = 0; i < 40; i++, count++) {
            struct lkv_bytes record = {&count, sizeof(count)};
            cr_assert_eq(lkv_append(world.nodes[leader], &record, 1, 0, WAIT_MS, NULL), 0, "%s",
                         lkv_last_text());
        }
        if (world.nodes[leader] != reader) {
            cr_assert_eq(lkv_close(world.nodes[leader], 0), 0);
            world.nodes[leader] = NULL;
            (void)find_leader(&world);
            open_log_member(leader);
        }
    }
    while (seen.next_value < count) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg, "%u of %u", seen.next_value, count);
        cr_assert_eq(lkv_msg_kind(msg), LKV_RECORDS, "%s", lkv_msg_text(msg));
        take_records(msg, &seen);
        lkv_msg_free(msg);
    }
    cr_assert_eq(lkv_cancel(reader, NULL), 0);
    lkv_msg_free(lkv_queue_next(queue, WAIT_MS));
    lkv_queue_free(queue);
}

Test(lib_log_three, a_tail_on_a_follower_goes_on_across_leaders) {
    open_cluster();
    int leader = find_leader(&world);
    follow_across_leaders(world.nodes[(leader + 1) % NODES]);
}

Test(lib_log_three, a_clients_tail_goes_on_across_leaders_and_nodes) {
    open_cluster();
    struct lkv *client = open_client();
    follow_across_leaders(client);
    cr_assert_eq(lkv_close(client, 0), 0);
}

/* One handle's appends keep their order when the leader goes: what is done is in the order of the
 * calls, with batches whole. */
static void order_across_leaders(struct lkv *writer, int kill) {
    enum { CALLS = 600, BATCH = 5 };
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    static uint32_t values[CALLS * BATCH];
    for (uint32_t call = 0; call < CALLS; call++) {
        struct lkv_bytes records[BATCH];
        for (uint32_t i = 0; i < BATCH; i++) {
            values[call * BATCH + i] = call * BATCH + i;
            records[i] = (struct lkv_bytes){&values[call * BATCH + i], sizeof(uint32_t)};
        }
        cr_assert_eq(lkv_append_submit(writer, records, BATCH, 0, WAIT_MS, queue,
                                       (void *)(uintptr_t)(call + 1)),
                     0);
        if (call == CALLS / 3) {
            cr_assert_eq(lkv_close(world.nodes[kill], 0), 0);
            world.nodes[kill] = NULL;
        }
        if (call % 16 == 0) {
            sleep_ms(1);
        }
    }
    static uint64_t at[CALLS];
    size_t unknown = 0;
    for (int i = 0; i < CALLS; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg);
        size_t call = (size_t)(uintptr_t)lkv_msg_tag(msg) - 1;
        at[call] = 0;
        if (lkv_msg_rc(msg) == 0) {
            cr_assert(lkv_msg_u64(msg, "index", &at[call]));
        } else {
            cr_assert_eq(lkv_outcome(lkv_msg_rc(msg)), LKV_UNKNOWN, "%s", lkv_msg_text(msg));
            unknown++;
        }
        lkv_msg_free(msg);
    }
    uint64_t last = 0;
    for (size_t call = 0; call < CALLS; call++) {
        cr_assert(at[call] == 0 || at[call] >= last + BATCH || last == 0, "call %zu at %lu", call,
                  at[call]);
        last = at[call] != 0 ? at[call] : last;
    }
    cr_assert_lt(unknown, CALLS / 2);
    lkv_queue_free(queue);
}

Test(lib_log_three, a_followers_appends_keep_their_order_across_leaders) {
    open_cluster();
    int leader = find_leader(&world);
    order_across_leaders(world.nodes[(leader + 1) % NODES], leader);
}

Test(lib_log_three, a_clients_appends_keep_their_order_across_leaders) {
    open_cluster();
    struct lkv *client = open_client();
    append(client, "warm");
    order_across_leaders(client, find_leader(&world));
    cr_assert_eq(lkv_close(client, 0), 0);
}

/* ------------------------------------------------------------------ roles */

static uint64_t await_ready(struct lkv_queue *roles) {
    for (;;) {
        struct lkv_msg *msg = lkv_queue_next(roles, WAIT_MS);
        cr_assert_not_null(msg);
        uint64_t term = 0;
        bool ready = strcmp(lkv_msg_str(msg, "role"), "leader_ready") == 0;
        cr_assert(lkv_msg_u64(msg, "term", &term));
        lkv_msg_free(msg);
        if (ready) {
            return term;
        }
    }
}

/* Rule 31: what an old leader fences with its term is never done after another has taken over. */
Test(lib_log_three, a_fenced_append_of_a_past_term_is_not_done) {
    open_cluster();
    int leader = find_leader(&world);
    struct lkv_queue *roles;
    cr_assert_eq(lkv_queue_new(&roles), 0);
    cr_assert_eq(lkv_role_watch(world.nodes[leader], roles, NULL), 0);
    uint64_t term = await_ready(roles);
    struct lkv_bytes record = LKV_STR("in my term");
    cr_assert_eq(lkv_append(world.nodes[leader], &record, 1, term, WAIT_MS, NULL), 0);
    cr_assert_eq(lkv_close(world.nodes[leader], 5000), 0);
    world.nodes[leader] = NULL;
    lkv_queue_free(roles);
    struct lkv *follower = world.nodes[(leader + 1) % NODES];
    (void)find_leader(&world);
    append(follower, "of the next term");
    cr_assert_eq(lkv_append(follower, &record, 1, term, WAIT_MS, NULL), LKV_ETERM);
}

/* L20: a leader whose program does not consume what was there is not ready, and hands over. */
Test(lib_log_three, an_unready_leader_hands_over) {
    extra[extra_count][0] = "ready_timeout_ms";
    extra[extra_count++][1] = "400";
    open_cluster();
    for (int i = 0; i < 20; i++) {
        append(world.nodes[0], "something that was there");
    }
    int leader = find_leader(&world);
    int gated = (leader + 1) % NODES, other = (leader + 2) % NODES;
    struct lkv_queue *tail, *roles, *others;
    cr_assert_eq(lkv_queue_new(&tail), 0);
    cr_assert_eq(lkv_queue_new(&roles), 0);
    cr_assert_eq(lkv_queue_new(&others), 0);
    cr_assert_eq(lkv_log_tail(world.nodes[gated], 1, 4096, LKV_GATES_READY, tail, NULL), 0);
    cr_assert_eq(lkv_role_watch(world.nodes[gated], roles, NULL), 0);
    cr_assert_eq(lkv_role_watch(world.nodes[other], others, NULL), 0);
    struct lkv_msg *kept = lkv_queue_next(tail, WAIT_MS); /* and never freed while it leads */
    cr_assert_eq(lkv_msg_kind(kept), LKV_RECORDS);
    cr_assert_eq(lkv_close(world.nodes[leader], 0), 0);
    world.nodes[leader] = NULL;
    /* Whoever is elected first, the one that ends up ready is the other. */
    (void)await_ready(others);
    for (struct lkv_msg *msg; (msg = lkv_queue_next(roles, 0)) != NULL; lkv_msg_free(msg)) {
        cr_assert_str_neq(lkv_msg_str(msg, "role"), "leader_ready");
    }
    lkv_msg_free(kept);
    open_log_member(leader);
    cr_assert_eq(lkv_close(world.nodes[other], 0), 0);
    world.nodes[other] = NULL;
    (void)find_leader(&world);
    for (int i = 0; i < NODES; i++) {
        if (world.nodes[i] != NULL) {
            cr_assert_eq(lkv_close(world.nodes[i], 0), 0);
            world.nodes[i] = NULL;
        }
    }
    lkv_queue_free(tail);
    lkv_queue_free(roles);
    lkv_queue_free(others);
}

/* ------------------------------------------------------------------ a laggard behind retention */

static uint64_t first_of(struct lkv *db) {
    uint64_t first = 0;
    cr_assert_eq(lkv_log_span(db, LKV_LOCAL, WAIT_MS, &first, NULL), 0);
    return first;
}

/* L16, rule 14 */
Test(lib_log_three, a_laggard_goes_on_from_the_first_index_that_is_kept) {
    extra[extra_count][0] = "retention_bytes";
    extra[extra_count++][1] = "3MiB";
    extra[extra_count][0] = "keep_entries";
    extra[extra_count++][1] = "8";
    open_cluster();
    int leader = find_leader(&world), laggard = (leader + 1) % NODES;
    append(world.nodes[leader], "before it goes");
    close_member(&world, laggard);
    static uint8_t block[128 * 1024];
    uint64_t last = 0;
    for (int i = 0; i < 80; i++) {
        (void)snprintf((char *)block, sizeof(block), "block %d", i);
        struct lkv_bytes record = {block, sizeof(block)};
        cr_assert_eq(lkv_append(world.nodes[leader], &record, 1, 0, WAIT_MS, &last), 0);
    }
    for (int64_t end = now_ms() + WAIT_MS; first_of(world.nodes[leader]) < 20; sleep_ms(20)) {
        cr_assert_lt(now_ms(), end, "retention did not drop anything");
    }
    open_log_member(laggard);
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_log_tail(world.nodes[laggard], 1, 1 << 20, 0, queue, NULL), 0);
    uint64_t told = 0;
    for (bool ended = false; !ended;) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg);
        ended = lkv_msg_kind(msg) == LKV_END;
        cr_assert(!ended || lkv_msg_rc(msg) == LKV_ETRUNCATED, "%s", lkv_msg_text(msg));
        cr_assert(!ended || lkv_msg_u64(msg, "first", &told));
        lkv_msg_free(msg);
    }
    lkv_queue_free(queue);
    await_applied(world.nodes[laggard], last);
    uint64_t first = first_of(world.nodes[laggard]);
    cr_assert_geq(first, told);
    cr_assert_gt(first, 2);
    /* From there on it has what the others have, byte by byte. */
    uint64_t from = first > first_of(world.nodes[leader]) ? first : first_of(world.nodes[leader]);
    cr_assert_leq(from + 8, last);
    for (uint64_t index = from; index <= last; index++) {
        struct lkv_msg *a = NULL, *b = NULL;
        struct lkv_record ra, rb;
        cr_assert_eq(lkv_log_read(world.nodes[leader], index, 1, WAIT_MS, &a), 0);
        cr_assert_eq(lkv_log_read(world.nodes[laggard], index, 1, WAIT_MS, &b), 0);
        cr_assert(lkv_msg_record(a, 0, &ra) && lkv_msg_record(b, 0, &rb));
        cr_assert(ra.index == rb.index && ra.term == rb.term && ra.data.size == rb.data.size);
        cr_assert(memcmp(ra.data.data, rb.data.data, ra.data.size) == 0);
        lkv_msg_free(a);
        lkv_msg_free(b);
    }
    append(world.nodes[laggard], "and takes part again");
    close_member(&world, laggard);
    open_log_member(laggard);
    append(world.nodes[laggard], "also after a restart");
}

/* S3: before it starts, and while it runs; the read waits for the repair. */
Test(lib_log_three, a_record_that_rotted_on_one_node_is_read_there_once_the_others_gave_it) {
    open_cluster();
    int f = (find_leader(&world) + 1) % NODES;
    uint64_t indexes[40];
    char text[32], name[PATH_BYTES];
    for (int i = 0; i < 40; i++) {
        (void)snprintf(text, sizeof(text), "rots %02d", i);
        indexes[i] = append(world.nodes[0], text);
    }
    close_member(&world, f);
    damage_text(world.dirs[f], "rots 20", name);
    open_log_member(f);
    expect_at(world.nodes[f], indexes[20], "rots 20");
    cr_assert_eq(status_number(world.nodes[f], "repaired_entries"), 1);
    damage_text(world.dirs[f], "rots 10", name);
    expect_at(world.nodes[f], indexes[10], "rots 10");
    cr_assert_eq(status_number(world.nodes[f], "repaired_entries"), 2);
    cr_assert_eq(status_number(world.nodes[f], "damaged_entries"), 0);
    await_text(world.nodes[f], "state", "ok");
}
