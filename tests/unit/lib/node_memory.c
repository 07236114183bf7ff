/* S28: memory runs out at the n-th allocation, for every n, of an open and of each call. The hook is
 * per thread, so it reaches what the calling thread asks for: all of an open, and every submit. */
#include "tests/unit/lib/node_world.h"

#include "base/mem.h"
#include "lib/node.h"
#include "tests/sim/sim_disk.h"

static struct world world;

static void setup(void) {
    world_init(&world);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_node_memory, .init = setup, .fini = teardown, .timeout = 100);

/* ------------------------------------------------------------------ the public open */

static int open_failing_at(struct lkv_options *options, uint64_t n, struct lkv **db) {
    struct lkv_msg *why = NULL;
    mem_fail_after(n);
    int rc = lkv_open(db, NULL, options, &why);
    mem_fail_never();
    lkv_msg_free(why);
    return rc;
}

static void open_at_every_allocation(struct lkv_options *options) {
    struct lkv *db = NULL;
    cr_assert_eq(open_failing_at(options, UINT64_MAX / 2, &db), 0);
    put(db, "k", "v");
    cr_assert_eq(lkv_close(db, 0), 0);
    size_t fds = count_fds();
    size_t threads = count_threads(1);
    int rc = LKV_ENOMEM;
    uint64_t n = 0;
    for (; rc != 0; n++) {
        cr_assert_lt(n, 2000);
        rc = open_failing_at(options, n, &db);
        cr_assert(rc == 0 || rc == LKV_ENOMEM, "allocation %lu: %s", n, lkv_error_name(rc));
        cr_assert_eq(rc == 0, db != NULL);
        if (rc != 0) {
            cr_assert_eq(count_fds(), fds, "allocation %lu: %zu descriptors, not %zu", n,
                         count_fds(), fds);
            cr_assert_eq(count_threads(threads), threads);
        }
    }
    cr_assert_gt(n, 10, "the hook reaches an open");
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_node_memory, an_open_fails_cleanly_at_every_allocation) {
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    open_at_every_allocation(options);
    lkv_options_free(options);
    struct lkv *db = open_lone(world.dirs[0]);
    expect_get(db, LKV_LINEARIZABLE, "k", "v");
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_node_memory, an_open_with_peers_and_a_listener_fails_cleanly_too) {
    struct lkv_options *options = member_options(&world, 0);
    struct lkv *db = NULL;
    int rc = LKV_ENOMEM;
    for (uint64_t n = 0; rc != 0; n++) {
        cr_assert_lt(n, 2000);
        rc = open_failing_at(options, n, &db);
        cr_assert(rc == 0 || rc == LKV_ENOMEM, "allocation %lu: %s", n, lkv_error_name(rc));
    }
    world.nodes[0] = db;
    lkv_options_free(options);
    open_member(&world, 1);
    open_member(&world, 2);
    put(world.nodes[0], "k", "v");
}

/* ------------------------------------------------------------------ calls */

/* One call of every kind; each may fail, with LKV_ENOMEM at once. */
static int call(struct lkv *db, struct lkv_queue *queue, int which, int *owed) {
    struct lkv_msg *msg = NULL;
    int rc = 0;
    switch (which) {
    case 0: return lkv_put(db, LKV_STR("a"), LKV_STR("1"), WAIT_MS, NULL);
    case 1: rc = lkv_get(db, LKV_STR("k"), LKV_LINEARIZABLE, WAIT_MS, &msg); break;
    case 2: rc = lkv_get(db, LKV_STR("k"), LKV_LOCAL, WAIT_MS, &msg); break;
    case 3: return lkv_delete(db, LKV_STR("a"), WAIT_MS, NULL);
    case 4: return lkv_delete_range(db, LKV_STR("a"), LKV_STR("b"), WAIT_MS, NULL, NULL);
    case 5:
        rc = lkv_range(db, LKV_STR("a"), LKV_STR("z"), 0, 0, LKV_LINEARIZABLE, WAIT_MS, &msg);
        break;
    case 6: rc = lkv_status(db, WAIT_MS, &msg); break;
    case 7: rc = lkv_digest(db, WAIT_MS, &msg); break;
    case 8: rc = lkv_put_submit(db, LKV_STR("a"), LKV_STR("1"), WAIT_MS, queue, NULL); break;
    case 9: rc = lkv_get_submit(db, LKV_STR("k"), LKV_LOCAL, WAIT_MS, queue, NULL); break;
    case 10:
        rc = lkv_delete_submit(db, LKV_STR("a"), LKV_STR("b"), true, WAIT_MS, queue, NULL);
        break;
    case 11:
        rc =
            lkv_range_submit(db, LKV_STR("a"), LKV_STR("z"), 0, 0, LKV_LOCAL, WAIT_MS, queue, NULL);
        break;
    case 12: return lkv_role_watch(db, queue, NULL);
    default: break;
    }
    lkv_msg_free(msg);
    *owed += rc == 0 && which >= 8;
    return rc;
}

enum { CALLS = 13 };

Test(lib_node_memory, a_call_is_refused_at_every_allocation_and_owes_nothing) {
    struct lkv *db = open_lone(world.dirs[0]);
    struct lkv_queue *queue;
    put(db, "k", "v");
    cr_assert_eq(lkv_queue_new(&queue), 0);
    int owed = 0;
    for (int which = 0; which < CALLS; which++) {
        int rc = LKV_ENOMEM;
        for (uint64_t n = 0; rc != 0; n++) {
            cr_assert_lt(n, 50, "call %d: %s", which, lkv_error_name(rc));
            mem_fail_after(n);
            rc = call(db, queue, which, &owed);
            mem_fail_never();
            cr_assert(rc == 0 || rc == LKV_ENOMEM, "call %d: %s", which, lkv_error_name(rc));
        }
    }
    expect_get(db, LKV_LINEARIZABLE, "k", "v");
    while (owed > 0) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg);
        /* A local get without memory for its item is answered so, by message. */
        cr_assert(lkv_msg_kind(msg) == LKV_ROLE || lkv_msg_rc(msg) == 0 ||
                      lkv_msg_rc(msg) == LKV_ENOMEM,
                  "%s", lkv_msg_text(msg));
        owed -= lkv_msg_kind(msg) == LKV_REPLY;
        lkv_msg_free(msg);
    }
    cr_assert_eq(lkv_close(db, 0), 0);
    lkv_queue_free(queue);
}

/* ------------------------------------------------------------------ a node on a loop of our own
 *
 * The loop's turns and both queues' jobs run on this thread, so the hook reaches everything a node
 * does: elect itself, append, write, apply, answer, take an image. */

struct hand_loop {
    struct loop loop; /* first */
    struct list_link jobs;
    uint64_t now_ns, timer_ns, random;
    bool woken;
};

static uint64_t hand_now(const struct loop *loop) {
    return ((const struct hand_loop *)loop)->now_ns;
}

static uint64_t hand_random(struct loop *loop) {
    return ++((struct hand_loop *)loop)->random * 0x9e3779b97f4a7c15u;
}

static void hand_timer(struct loop *loop, uint64_t at_ns) {
    ((struct hand_loop *)loop)->timer_ns = at_ns;
}

static void hand_wake(struct loop *loop) {
    ((struct hand_loop *)loop)->woken = true;
}

static void hand_submit(struct loop *loop, enum loop_queue queue, struct loop_job *job) {
    (void)queue;
    list_init(&job->link);
    list_push_back(&((struct hand_loop *)loop)->jobs, &job->link);
}

static const struct loop_ops hand_ops = {.now_ns = hand_now,
                                         .wall_ms = hand_now,
                                         .random = hand_random,
                                         .timer_set = hand_timer,
                                         .wake = hand_wake,
                                         .submit = hand_submit};

static int no_listen(struct net *net, const char *address,
                     void (*on_accept)(void *arg, struct net_conn *conn), void *arg,
                     struct net_listener **out, struct reason *why) {
    (void)net, (void)on_accept, (void)arg;
    *out = NULL;
    return reason_set(why, LKV_EPERM, "%s: no network here", address);
}

static const struct net_ops hand_net_ops = {.listen = no_listen};

struct hand {
    struct hand_loop loop;
    struct net net;
    struct sim_disk *sim;
    struct lkv_options *options;
    struct node *node;
};

static void hand_init(struct hand *hand) {
    *hand =
        (struct hand){.loop = {.loop = {.ops = &hand_ops}, .now_ns = 1000, .timer_ns = UINT64_MAX},
                      .net = {.ops = &hand_net_ops},
                      .sim = sim_disk_new(1)};
    list_init(&hand->loop.jobs);
    hand->options = new_options("dir", "n1");
    cr_assert_eq(lkv_options_set(hand->options, "image_log_bytes", "64KiB"), 0);
}

static int hand_open(struct hand *hand) {
    struct node_world on = {
        .loop = &hand->loop.loop, .net = &hand->net, .disk = sim_disk_seam(hand->sim)};
    struct reason why = {{0}};
    int rc = node_create(&hand->node, hand->options, &on, &why);
    if (rc == 0) {
        hand->loop.loop.events = node_loop_events(hand->node);
        node_turn(hand->node);
    }
    return rc;
}

/* One turn: a job, a wake-up or the timer. */
static void hand_turn(struct hand *hand) {
    struct hand_loop *loop = &hand->loop;
    const struct loop_events *events = &loop->loop.events;
    struct list_link *link = list_pop_front(&loop->jobs);
    if (link != NULL) {
        struct loop_job *job = LIST_ITEM(link, struct loop_job, link);
        loop->now_ns += 1000000;
        job->run(job);
        job->done(job);
    } else if (loop->woken) {
        loop->woken = false;
        events->on_wake(events->arg);
    } else if (loop->timer_ns != UINT64_MAX) {
        loop->now_ns = loop->timer_ns > loop->now_ns ? loop->timer_ns : loop->now_ns;
        loop->timer_ns = UINT64_MAX;
        events->on_timer(events->arg);
    }
    events->on_turn_end(events->arg);
}

struct answers {
    int count, done, not_done, unknown;
};

static void on_answer(struct request *request) {
    struct answers *answers = request->owner;
    answers->count++;
    switch (lkv_outcome(lkv_msg_rc(request->reply))) {
    case LKV_DONE:
    case LKV_NEGATIVE: answers->done++; break;
    case LKV_NOT_DONE: answers->not_done++; break;
    case LKV_UNKNOWN: answers->unknown++; break;
    }
}

/* A put of 1 KiB or a linearizable get; made without the hook. */
static struct request *hand_request(struct answers *answers, int number) {
    static const uint8_t value[1024];
    char key[16];
    (void)snprintf(key, sizeof(key), "k%d", number);
    struct request *request = request_new(number % 4 == 3 ? REQUEST_GET : REQUEST_WRITE);
    struct kv_command put_command = {
        .op = KV_PUT, .key = slice_text(key), .value = slice_of(value, sizeof(value))};
    if (request->op == REQUEST_WRITE) {
        request->command = kv_command_encode(&put_command);
    } else {
        cr_assert_eq(request_set_keys(request, slice_text("k0"), (struct slice){0}), 0);
    }
    request->on_finish = on_answer;
    request->owner = answers;
    request->cost = 2000;
    return request;
}

/* Memory runs out from the n-th allocation of the life on, for good: the node stops or refuses, every
 * request is answered once, and what was acknowledged is there in the next life. True: never failed. */
static bool live_and_die(uint64_t n) {
    enum { REQUESTS = 120 };
    struct hand hand;
    struct answers answers = {0};
    hand_init(&hand);
    struct request *requests[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        requests[i] = hand_request(&answers, i);
    }
    mem_fail_after(n);
    int rc = hand_open(&hand);
    for (int i = 0; i < REQUESTS; i++) {
        if (rc != 0 || node_submit(&hand.node->handle, requests[i]) != 0) {
            request_free(requests[i]);
            answers.count++;
        }
        for (int turn = 0; rc == 0 && turn < 6; turn++) {
            hand_turn(&hand);
        }
    }
    for (int turn = 0; rc == 0 && turn < 200; turn++) {
        hand_turn(&hand);
    }
    bool failed = mem_fail_count() > n;
    mem_fail_never();
    if (rc == 0) {
        node_close_begin(hand.node, 0);
        for (int turn = 0; !hand.node->finished; turn++) {
            cr_assert_lt(turn, 1000, "allocation %lu: never finished", n);
            hand_turn(&hand);
        }
        node_destroy(hand.node);
    }
    cr_assert(list_empty(&hand.loop.jobs));
    cr_assert_eq(answers.count, REQUESTS, "allocation %lu: %d answers", n, answers.count);
    cr_assert_eq(sim_disk_open_files(hand.sim), 0);

    cr_assert(failed || answers.done == REQUESTS, "%d of %d done", answers.done, REQUESTS);
    int acknowledged = answers.done;
    cr_assert_eq(hand_open(&hand), 0, "allocation %lu: the next life", n);
    for (int turn = 0; turn < 300; turn++) {
        hand_turn(&hand);
    }
    struct kv_stats stats;
    kv_stats(hand.node->kv, &stats);
    cr_assert_geq((int)stats.keys, acknowledged * 3 / 4 - 1, "allocation %lu: %d of %d", n,
                  (int)stats.keys, acknowledged);
    node_close_begin(hand.node, 0);
    while (!hand.node->finished) {
        hand_turn(&hand);
    }
    node_destroy(hand.node);
    lkv_options_free(hand.options);
    sim_disk_free(hand.sim);
    return !failed;
}

Test(lib_node_memory, a_node_out_of_memory_stops_or_refuses_but_loses_nothing) {
    uint64_t n = 0;
    for (; !live_and_die(n); n += n < 150 ? 1 : 17) {
        cr_assert_lt(n, 100000);
    }
    cr_assert_gt(n, 300, "only %lu", n);
}
