/* Locks and elections on real nodes: in the order of asking, with fencing tokens that rise, lost with the lease. */
#include "tests/unit/lib/node_world.h"

#include <pthread.h>

static struct world world;

static void setup(void) {
    world_init(&world);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_node_lock, .init = setup, .fini = teardown, .timeout = 100);

static const struct lkv_bytes name = {"/jobs/nightly", 13};

static struct lkv *open_alone(void) {
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    struct lkv *db = NULL;
    cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
    return db;
}

static int64_t grant(struct lkv *db, int64_t ttl_ms) {
    int64_t lease = 0;
    cr_assert_eq(lkv_lease_grant(db, 0, ttl_ms, WAIT_MS, &lease), 0, "%s", lkv_last_text());
    return lease;
}

struct waiter {
    struct lkv *db;
    int64_t lease;
    int rc;
    uint64_t token;
    pthread_t thread;
};

static void *wait_for_lock(void *arg) {
    struct waiter *waiter = arg;
    waiter->rc = lkv_lock(waiter->db, name, waiter->lease, WAIT_MS, &waiter->token);
    return NULL;
}

static size_t in_queue(struct lkv *db) {
    struct lkv_msg *msg = NULL;
    cr_assert_eq(lkv_range(db, LKV_STR("/jobs/nightly//"), LKV_STR("/jobs/nightly/0"), 0,
                           LKV_KEYS_ONLY, LKV_LINEARIZABLE, WAIT_MS, &msg),
                 0);
    size_t count = lkv_msg_count(msg);
    lkv_msg_free(msg);
    return count;
}

static bool write_fenced(struct lkv *db, int64_t lease, uint64_t token) {
    struct lkv_txn *txn = lkv_txn_new();
    struct lkv_msg *msg = NULL;
    uint64_t held = 0;
    lkv_txn_if_locked(txn, name, lease, token);
    lkv_txn_put(txn, LKV_STR("/jobs/state"), LKV_STR("mine"));
    cr_assert_eq(lkv_txn_commit(db, txn, WAIT_MS, &msg), 0, "%s", lkv_last_text());
    cr_assert(lkv_msg_u64(msg, "held", &held));
    lkv_msg_free(msg);
    lkv_txn_free(txn);
    return held == 1;
}

Test(lib_node_lock, holders_follow_in_the_order_of_asking) {
    struct lkv *db = open_alone();
    struct waiter waiters[3];
    for (size_t i = 0; i < 3; i++) {
        waiters[i] = (struct waiter){.db = db, .lease = grant(db, 60000), .rc = 1};
        cr_assert_eq(pthread_create(&waiters[i].thread, NULL, wait_for_lock, &waiters[i]), 0);
        while (in_queue(db) <= i) {
        }
    }
    uint64_t last = 0;
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(pthread_join(waiters[i].thread, NULL), 0);
        cr_assert_eq(waiters[i].rc, 0);
        cr_assert_gt(waiters[i].token, last, "the tokens rise");
        last = waiters[i].token;
        cr_assert(write_fenced(db, waiters[i].lease, last));
        if (i < 2) {
            cr_assert_not(write_fenced(db, waiters[i + 1].lease, last), "another one's token");
        }
        uint64_t again = 0;
        cr_assert_eq(lkv_lock(db, name, waiters[i].lease, WAIT_MS, &again), 0);
        cr_assert_eq(again, last, "it has it already");
        cr_assert_eq(lkv_unlock(db, name, waiters[i].lease, WAIT_MS), 0);
        cr_assert_eq(lkv_unlock(db, name, waiters[i].lease, WAIT_MS), LKV_ENOTFOUND);
    }
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* Of a lock that nobody holds the key is not there, and its create_rev is 0. */
Test(lib_node_lock, c14_what_no_lock_can_have_is_no_fence) {
    struct lkv *db = open_alone();
    static const struct {
        struct lkv_bytes name;
        int64_t lease;
        uint64_t token;
    } wrong[] = {{LKV_STR("a"), 77, 0}, {LKV_STR("a"), 0, 5},     {LKV_STR("a"), -1, 5},
                 {LKV_STR(""), 77, 5},  {LKV_STR("a//b"), 77, 5}, {LKV_STR("a/"), 77, 5}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct lkv_txn *txn = lkv_txn_new();
        struct lkv_msg *msg = NULL;
        lkv_txn_if_locked(txn, wrong[i].name, wrong[i].lease, wrong[i].token);
        lkv_txn_put(txn, LKV_STR("x"), LKV_STR("1"));
        cr_assert_eq(lkv_txn_commit(db, txn, WAIT_MS, &msg), LKV_EINVAL, "%zu", i);
        lkv_msg_free(msg);
        lkv_txn_free(txn);
    }
    lkv_txn_if_locked(NULL, name, 1, 0); /* out of memory before */
    cr_assert_not(write_fenced(db, 77, 5), "nobody holds it");
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* C14: its token is refused as soon as the next holder may be there. */
Test(lib_node_lock, c14_a_holder_whose_lease_has_ended_is_fenced) {
    struct lkv *db = open_alone();
    int64_t paused = grant(db, 1000), next = grant(db, 60000);
    uint64_t old = 0, fresh = 0;
    cr_assert_eq(lkv_lock(db, name, paused, WAIT_MS, &old), 0);
    cr_assert(write_fenced(db, paused, old));
    cr_assert_eq(lkv_lock(db, name, next, WAIT_MS, &fresh), 0, "%s", lkv_last_text());
    cr_assert_gt(fresh, old);
    cr_assert_not(write_fenced(db, paused, old), "it goes on, and does not know");
    cr_assert(write_fenced(db, next, fresh));
    cr_assert_eq(lkv_lock(db, name, paused, WAIT_MS, &old), LKV_ELEASE);
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_node_lock, who_does_not_get_it_in_time_leaves_the_queue) {
    struct lkv *db = open_alone();
    int64_t holder = grant(db, 60000), other = grant(db, 60000);
    cr_assert_eq(lkv_lock(db, name, holder, WAIT_MS, NULL), 0);
    cr_assert_eq(lkv_lock(db, name, other, 50, NULL), LKV_ETIMEOUT);
    cr_assert_eq(in_queue(db), 1);
    /* Another lock, whose name begins with this one's, is another lock. */
    cr_assert_eq(lkv_lock(db, LKV_STR("/jobs/nightly/x"), other, WAIT_MS, NULL), 0);
    static const char *const bad[] = {"", "a//b", "a/", "//"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(lkv_lock(db, bytes(bad[i]), other, WAIT_MS, NULL), LKV_EINVAL, "%s", bad[i]);
    }
    cr_assert_eq(lkv_lock(db, name, 0, WAIT_MS, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_lock(NULL, name, other, WAIT_MS, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_lock(db, name, 12345, WAIT_MS, NULL), LKV_ELEASE, "no such lease");
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_node_lock, who_is_elected_is_seen_until_it_resigns) {
    struct lkv *db = open_alone();
    int64_t first = grant(db, 60000), second = grant(db, 60000);
    struct lkv_msg *msg = NULL;
    struct lkv_kv item;
    uint64_t token = 0;
    cr_assert_eq(lkv_observe(db, name, 0, 50, &msg), LKV_ETIMEOUT, "nobody leads");
    cr_assert_null(msg);
    cr_assert_eq(lkv_campaign(db, name, first, LKV_STR("n1"), WAIT_MS, &token), 0);
    cr_assert_eq(lkv_observe(db, name, 0, WAIT_MS, &msg), 0);
    cr_assert(lkv_msg_kv(msg, 0, &item) && item.create_rev == token && item.value.size == 2);
    lkv_msg_free(msg);
    cr_assert_eq(lkv_observe(db, name, token, 50, &msg), LKV_ETIMEOUT, "still the same");
    cr_assert_eq(lkv_unlock(db, name, first, WAIT_MS), 0);
    cr_assert_eq(lkv_campaign(db, name, second, LKV_STR("n22"), WAIT_MS, NULL), 0);
    cr_assert_eq(lkv_observe(db, name, token, WAIT_MS, &msg), 0);
    cr_assert(lkv_msg_kv(msg, 0, &item) && item.create_rev > token && item.value.size == 3);
    lkv_msg_free(msg);
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* Through a client, while the leader of three goes away. */
Test(lib_node_lock, a_lock_outlives_its_leader) {
    open_all(&world);
    int leader = find_leader(&world);
    struct lkv *db = world.nodes[(leader + 1) % NODES];
    struct lkv_queue *queue;
    int64_t lease, other;
    uint64_t token = 0, next = 0;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_lease_open(db, 20000, queue, NULL, &lease), 0, "%s", lkv_last_text());
    cr_assert_eq(lkv_lock(db, name, lease, WAIT_MS, &token), 0, "%s", lkv_last_text());
    other = grant(db, 60000);
    struct waiter waiter = {.db = db, .lease = other, .rc = 1};
    cr_assert_eq(pthread_create(&waiter.thread, NULL, wait_for_lock, &waiter), 0);
    close_member(&world, leader);
    cr_assert(write_fenced(db, lease, token));
    cr_assert_eq(lkv_lease_close(db, lease, WAIT_MS), 0);
    cr_assert_eq(pthread_join(waiter.thread, NULL), 0);
    cr_assert_eq(waiter.rc, 0);
    next = waiter.token;
    cr_assert_gt(next, token);
    cr_assert_not(write_fenced(db, lease, token));
    cr_assert_null(lkv_queue_next(queue, 0), "it was given back, not lost");
    for (int i = 0; i < NODES; i++) {
        if (world.nodes[i] != NULL) {
            close_member(&world, i);
        }
    }
    lkv_queue_free(queue);
}
