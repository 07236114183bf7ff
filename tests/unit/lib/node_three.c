/* Three nodes in one process, on real files and sockets. */
#include "tests/unit/lib/node_world.h"

#include <signal.h>
#include <sys/wait.h>

static struct world world;

static void setup(void) {
    world_init(&world);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_node_three, .init = setup, .fini = teardown, .timeout = 120);

/* The two that are not `one`. */
static int other(int one, int which) {
    return (one + 1 + which) % NODES;
}

static uint64_t digest_at(struct lkv *db, uint64_t *index) {
    struct lkv_msg *msg = NULL;
    uint64_t digest = 0;
    cr_assert_eq(lkv_digest(db, WAIT_MS, &msg), 0);
    cr_assert(lkv_msg_u64(msg, "digest", &digest));
    cr_assert(lkv_msg_u64(msg, "index", index));
    lkv_msg_free(msg);
    return digest;
}

static void expect_equal_digests(void) {
    uint64_t last = status_number(world.nodes[find_leader(&world)], "last");
    uint64_t digest = 0;
    for (int i = 0; i < NODES; i++) {
        uint64_t index = 0;
        await_applied(world.nodes[i], last);
        uint64_t mine = digest_at(world.nodes[i], &index);
        cr_assert_geq(index, last);
        cr_assert(i == 0 || mine == digest, "n%d differs", i + 1);
        digest = mine;
    }
}

Test(lib_node_three, any_node_takes_writes_and_all_have_them) {
    open_all(&world);
    for (int i = 0; i < 60; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        put(world.nodes[i % NODES], key, key);
        expect_get(world.nodes[(i + 1) % NODES], LKV_LINEARIZABLE, key, key);
    }
    expect_equal_digests();
    cr_assert_eq(status_number(world.nodes[0], "keys"), 60);
}

Test(lib_node_three, goes_on_without_its_leader) {
    open_all(&world);
    put(world.nodes[0], "before", "1");
    int leader = find_leader(&world);
    uint64_t term = status_number(world.nodes[leader], "term");
    close_member(&world, leader);
    put(world.nodes[other(leader, 0)], "after", "2");
    expect_get(world.nodes[other(leader, 1)], LKV_LINEARIZABLE, "before", "1");
    expect_get(world.nodes[other(leader, 1)], LKV_LINEARIZABLE, "after", "2");
    cr_assert_gt(status_number(world.nodes[find_leader(&world)], "term"), term);
    open_member(&world, leader);
    expect_get(world.nodes[leader], LKV_LINEARIZABLE, "after", "2");
    expect_equal_digests();
}

/* A close that hands over leaves no gap of an election timeout. */
Test(lib_node_three, hands_over_when_its_leader_closes_politely) {
    open_all(&world);
    put(world.nodes[0], "k", "1");
    int leader = find_leader(&world);
    cr_assert_eq(lkv_close(world.nodes[leader], 5000), 0);
    world.nodes[leader] = NULL;
    int next = -1;
    for (int i = 0; i < 2; i++) {
        next = has_role(world.nodes[other(leader, i)], "leader") ? i : next;
    }
    cr_assert_geq(next, 0, "one of the others leads as soon as close returns");
}

/* L14 */
Test(lib_node_three, a_single_write_on_an_idle_cluster_is_quick) {
    open_all(&world);
    put(world.nodes[0], "k", "1");
    for (int i = 0; i < 3; i++) {
        sleep_ms(400);
        int64_t begun = now_ms();
        put(world.nodes[i], "k", "2");
        cr_assert_lt(now_ms() - begun, 1000);
    }
}

static void take_role(struct lkv_queue *queue, const char *role, uint64_t *term) {
    for (;;) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg, "no %s", role);
        char found[32];
        (void)snprintf(found, sizeof(found), "%s", lkv_msg_str(msg, "role"));
        cr_assert(lkv_msg_u64(msg, "term", term));
        lkv_msg_free(msg);
        if (strcmp(found, role) == 0) {
            return;
        }
    }
}

/* X-A12: the leader is alone with 100 puts: each exactly one final message, none of them a failure
 * that may have happened; what was refused was never appended. */
Test(lib_node_three, a_leader_left_alone_answers_each_put_once) {
    enum { PUTS = 100 };
    static int tags[PUTS];
    open_all(&world);
    put(world.nodes[0], "k", "1");
    int leader = find_leader(&world);
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    close_member(&world, other(leader, 0));
    close_member(&world, other(leader, 1));
    for (int i = 0; i < PUTS; i++) {
        cr_assert_eq(
            lkv_put_submit(world.nodes[leader], LKV_STR("x"), LKV_STR("y"), 1500, queue, &tags[i]),
            0);
    }
    int unknown = 0;
    for (int i = 0; i < PUTS; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg);
        int rc = lkv_msg_rc(msg);
        cr_assert(rc == LKV_EUNKNOWN || rc == LKV_ENOLEADER || rc == LKV_ENOTLEADER, "%s",
                  lkv_error_name(rc));
        unknown += rc == LKV_EUNKNOWN;
        (*(int *)lkv_msg_tag(msg))++;
        lkv_msg_free(msg);
    }
    for (int i = 0; i < PUTS; i++) {
        cr_assert_eq(tags[i], 1);
    }
    cr_assert_null(lkv_queue_next(queue, 100));
    /* A linearizable read must not be answered by a leader without a quorum. */
    struct lkv_msg *msg = NULL;
    int rc = lkv_get(world.nodes[leader], LKV_STR("k"), LKV_LINEARIZABLE, 300, &msg);
    lkv_msg_free(msg);
    cr_assert(rc == LKV_ETIMEOUT || rc == LKV_ENOLEADER, "%s", lkv_error_name(rc));
    expect_get(world.nodes[leader], LKV_LOCAL, "k", "1");
    open_member(&world, other(leader, 0));
    put(world.nodes[leader], "k", "3");
    rc = lkv_get(world.nodes[leader], LKV_STR("x"), LKV_LINEARIZABLE, WAIT_MS, &msg);
    lkv_msg_free(msg);
    cr_assert(rc == 0 ? unknown > 0 : rc == LKV_ENOTFOUND, "%s", lkv_error_name(rc));
    lkv_queue_free(queue);
}

/* X-A12: close completes each of them before it returns. */
Test(lib_node_three, closing_a_leader_left_alone_answers_each_put_once) {
    enum { PUTS = 100 };
    open_all(&world);
    put(world.nodes[0], "k", "1");
    int leader = find_leader(&world);
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    close_member(&world, other(leader, 0));
    close_member(&world, other(leader, 1));
    for (int i = 0; i < PUTS; i++) {
        cr_assert_eq(
            lkv_put_submit(world.nodes[leader], LKV_STR("x"), LKV_STR("y"), 60000, queue, NULL), 0);
    }
    sleep_ms(50);
    int64_t begun = now_ms();
    cr_assert_eq(lkv_close(world.nodes[leader], 500), 0);
    cr_assert_lt(now_ms() - begun, 2000);
    world.nodes[leader] = NULL;
    for (int i = 0; i < PUTS; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, 0);
        cr_assert_not_null(msg, "message %d", i);
        int rc = lkv_msg_rc(msg);
        cr_assert(rc == LKV_EUNKNOWN || rc == LKV_ECLOSED || rc == LKV_ENOLEADER, "%s",
                  lkv_error_name(rc));
        lkv_msg_free(msg);
    }
    cr_assert_null(lkv_queue_next(queue, 0));
    lkv_queue_free(queue);
}

/* X-H4: one queue for roles and answers; stepping_down comes before any answer of a later term. */
Test(lib_node_three, steps_down_before_any_answer_of_a_later_term) {
    open_all(&world);
    put(world.nodes[0], "k", "1");
    int leader = find_leader(&world);
    struct lkv_queue *queue;
    uint64_t term = 0;
    static char role_tag;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_role_watch(world.nodes[leader], queue, &role_tag), 0);
    take_role(queue, "leader_ready", &term);
    int owed = 0;
    for (int i = 0; i < 50; i++) {
        owed += lkv_put_submit(world.nodes[leader], LKV_STR("x"), LKV_STR("y"), WAIT_MS, queue,
                               NULL) == 0;
    }
    close_member(&world, other(leader, 0));
    close_member(&world, other(leader, 1)); /* it cannot hear a quorum: it will step down */
    for (int i = 0; i < 50; i++) {
        owed += lkv_put_submit(world.nodes[leader], LKV_STR("x"), LKV_STR("z"), WAIT_MS, queue,
                               NULL) == 0;
    }
    sleep_ms(800);
    open_member(&world, other(leader, 0));
    open_member(&world, other(leader, 1));
    bool stepped_down = false;
    while (owed > 0 || !stepped_down) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg, "%d answers owed, stepped down %d", owed, stepped_down);
        uint64_t of = 0;
        bool has_term = lkv_msg_u64(msg, "term", &of);
        const char *role = lkv_msg_str(msg, "role");
        if (lkv_msg_kind(msg) != LKV_ROLE) {
            owed--;
            cr_assert(term == 0 || !has_term || of <= term,
                      "an answer of term %lu while acting as leader of %lu", of, term);
        } else if (strcmp(role, "stepping_down") == 0) {
            cr_assert_eq(of, term);
            term = 0;
            stepped_down = true;
        } else if (strcmp(role, "leader_ready") == 0) { /* once more, on a slow machine */
            cr_assert_eq(term, 0);
            term = of;
        }
        lkv_msg_free(msg);
    }
    close_member(&world, leader);
    lkv_queue_free(queue);
}

/* Rule 31: while stepping_down is not freed, the node applies nothing of a later term. */
Test(lib_node_three, waits_with_later_terms_until_stepping_down_is_freed) {
    open_all(&world);
    put(world.nodes[0], "k", "1");
    int leader = find_leader(&world);
    struct lkv_queue *queue;
    uint64_t term = 0;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_role_watch(world.nodes[leader], queue, NULL), 0);
    take_role(queue, "leader_ready", &term);
    close_member(&world, other(leader, 0));
    close_member(&world, other(leader, 1));
    struct lkv_msg *held = NULL;
    while (held == NULL) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg);
        if (strcmp(lkv_msg_str(msg, "role"), "stepping_down") == 0) {
            held = msg;
        } else {
            lkv_msg_free(msg);
        }
    }
    open_member(&world, other(leader, 0));
    open_member(&world, other(leader, 1));
    struct lkv *elsewhere = world.nodes[other(leader, 0)];
    put(elsewhere, "k", "2");
    expect_get(world.nodes[leader], LKV_LOCAL, "k", "1");
    sleep_ms(300);
    expect_get(world.nodes[leader], LKV_LOCAL, "k", "1");
    cr_assert_not(has_role(world.nodes[leader], "leader"), "nor does it campaign");
    lkv_msg_free(held);
    await_applied(world.nodes[leader], status_number(elsewhere, "applied"));
    expect_get(world.nodes[leader], LKV_LOCAL, "k", "2");
    close_member(&world, leader);
    lkv_queue_free(queue);
}

static int submit_reads(struct lkv *db, struct lkv_queue *queue, int64_t timeout_ms, int most) {
    int count = 0, rc = 0;
    while (count < most && rc == 0) {
        rc = lkv_get_submit(db, LKV_STR("k"), LKV_LINEARIZABLE, timeout_ms, queue, NULL);
        count += rc == 0;
    }
    cr_assert(rc == 0 || rc == LKV_EBUSY, "%s", lkv_error_name(rc));
    return count;
}

static void expect_refusals(struct lkv_queue *queue, int count) {
    for (int i = 0; i < count; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg, "%d of %d", i, count);
        cr_assert_eq(lkv_outcome(lkv_msg_rc(msg)), LKV_NOT_DONE, "%s", lkv_msg_text(msg));
        lkv_msg_free(msg);
    }
}

/* Wherever they wait: for a quorum, for a leader. */
Test(lib_node_three, reads_that_wait_are_bounded) {
    for (int i = 0; i < NODES; i++) {
        struct lkv_options *options = member_options(&world, i);
        cr_assert_eq(lkv_options_set(options, "inflight_bytes_max", "1MiB"), 0);
        cr_assert_eq(try_open(&world.nodes[i], options), 0, "%s", open_text);
    }
    int leader = find_leader(&world);
    struct lkv *db = world.nodes[leader];
    put(db, "k", "v");
    close_member(&world, other(leader, 0));
    close_member(&world, other(leader, 1));
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    for (int round = 0; round < 3; round++) {
        int count = submit_reads(db, queue, 500, 5000);
        cr_assert(count > 100 && count < 5000, "%d reads wait", count);
        expect_refusals(queue, count);
    }
    int count = submit_reads(db, queue, 60000, 5000);
    cr_assert(count > 100 && count < 5000, "%d reads wait", count);
    close_member(&world, leader);
    expect_refusals(queue, count);
    lkv_queue_free(queue);
}

/* L20 */
Test(lib_node_three, nobody_leads_before_an_election) {
    open_member(&world, 0);
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_role_watch(world.nodes[0], queue, NULL), 0);
    struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
    cr_assert_str_eq(lkv_msg_str(msg, "role"), "follower");
    lkv_msg_free(msg);
    cr_assert_null(lkv_queue_next(queue, 700), "alone of three it is nothing else");
    await_text(world.nodes[0], "state", "1 of 3 members seen");
    int rc = lkv_put(world.nodes[0], LKV_STR("k"), LKV_STR("v"), 100, NULL);
    cr_assert_eq(rc, LKV_ENOLEADER, "%s", lkv_error_name(rc));
    cr_assert_not_null(strstr(lkv_last_text(), "1 of 3"), "%s", lkv_last_text());
    close_member(&world, 0); /* while it is being founded */
    lkv_queue_free(queue);
}

Test(lib_node_three, a_request_waits_for_the_founding) {
    open_member(&world, 0);
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_put_submit(world.nodes[0], LKV_STR("k"), LKV_STR("v"), WAIT_MS, queue, NULL),
                 0);
    cr_assert_eq(
        lkv_get_submit(world.nodes[0], LKV_STR("k"), LKV_LINEARIZABLE, WAIT_MS, queue, NULL), 0);
    cr_assert_null(lkv_queue_next(queue, 200));
    open_member(&world, 1);
    open_member(&world, 2);
    for (int i = 0; i < 2; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg);
        int rc = lkv_msg_rc(msg);
        cr_assert(rc == 0 || rc == LKV_ENOTFOUND, "%s", lkv_msg_text(msg));
        lkv_msg_free(msg);
    }
    close_member(&world, 0);
    lkv_queue_free(queue);
}

Test(lib_node_three, all_restart_with_everything) {
    for (int life = 0; life < 3; life++) {
        open_all(&world);
        for (int i = 0; i < life * 20; i++) {
            char key[16];
            (void)snprintf(key, sizeof(key), "k%d", i);
            expect_get(world.nodes[i % NODES], LKV_LINEARIZABLE, key, key);
        }
        for (int i = life * 20; i < (life + 1) * 20; i++) {
            char key[16];
            (void)snprintf(key, sizeof(key), "k%d", i);
            put(world.nodes[i % NODES], key, key);
        }
        for (int i = 0; i < NODES; i++) {
            close_member(&world, i);
        }
    }
}

/* X-E4: one of three comes back with a wiped directory and its old options. It stays out, says what
 * to do, and does not stop the others; alone with a laggard it makes no leader. */
Test(lib_node_three, a_wiped_member_stays_out_and_says_what_to_do) {
    open_all(&world);
    put(world.nodes[0], "k", "1");
    char cluster[1024];
    char again[1024];
    (void)status_text(world.nodes[0], "cluster_id", cluster);
    close_member(&world, 1);
    remove_tree(world.dirs[1]);
    put(world.nodes[0], "k", "2");
    open_member(&world, 1);
    await_text(world.nodes[1], "state", "cannot replace a member");
    (void)status_text(world.nodes[1], "cluster_id", again);
    cr_assert_str_eq(again, "0000000000000000");
    put(world.nodes[0], "k", "3");
    int rc = lkv_put(world.nodes[1], LKV_STR("k"), LKV_STR("no"), 200, NULL);
    cr_assert_eq(rc, LKV_ENOLEADER);
    cr_assert_not_null(strstr(lkv_last_text(), "cannot replace a member"), "%s", lkv_last_text());
    close_member(&world, 0);
    sleep_ms(800);
    for (int i = 1; i < NODES; i++) {
        cr_assert_not(has_role(world.nodes[i], "leader"), "n%d leads with a wiped voter", i + 1);
    }
    open_member(&world, 0);
    put(world.nodes[2], "k", "4");
    (void)status_text(world.nodes[2], "cluster_id", again);
    cr_assert_str_eq(again, cluster);
}

/* Only the log of one is removed: refused at open (see node_refused); the others go on. */
Test(lib_node_three, swapped_directories_are_refused) {
    open_all(&world);
    put(world.nodes[0], "k", "1");
    for (int i = 0; i < NODES; i++) {
        close_member(&world, i);
    }
    char spare[PATH_BYTES + 8];
    (void)snprintf(spare, sizeof(spare), "%s/spare", world.dir);
    cr_assert_eq(rename(world.dirs[0], spare), 0);
    cr_assert_eq(rename(world.dirs[1], world.dirs[0]), 0);
    cr_assert_eq(rename(spare, world.dirs[1]), 0);
    for (int i = 0; i < 2; i++) {
        struct lkv *db = NULL;
        cr_assert_eq(try_open(&db, member_options(&world, i)), LKV_EIDENTITY);
        cr_assert_not_null(strstr(open_text, "\"n1\""), "%s", open_text);
        cr_assert_not_null(strstr(open_text, "\"n2\""), "%s", open_text);
    }
}

static void expect_peers_refused(const char *peers, const char *part) {
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    struct lkv *db = NULL;
    cr_assert_eq(lkv_options_set(options, "peers", peers), 0);
    int rc = try_open(&db, options);
    cr_assert_eq(rc, LKV_EIDENTITY, "%s: %s", lkv_error_name(rc), open_text);
    cr_assert_not_null(strstr(open_text, part), "%s", open_text);
}

/* X-E5: refused before anything is written, with both values in the text. */
Test(lib_node_three, other_peers_than_founded_are_refused) {
    open_all(&world);
    put(world.nodes[0], "k", "1");
    for (int i = 0; i < NODES; i++) {
        close_member(&world, i);
    }
    char peers[512];
    const int *ports = world.ports;
    (void)snprintf(peers, sizeof(peers), "n1=127.0.0.1:%d,n2=127.0.0.1:%d", ports[0], ports[1]);
    expect_peers_refused(peers, "names 2 members");
    (void)snprintf(peers, sizeof(peers), "n1=127.0.0.1:%d,n2=127.0.0.1:%d,n4=127.0.0.1:%d",
                   ports[0], ports[1], ports[2]);
    expect_peers_refused(peers, "\"n4\"");
    (void)snprintf(peers, sizeof(peers), "n1=127.0.0.1:%d,n2=127.0.0.1:1,n3=127.0.0.1:%d", ports[0],
                   ports[2]);
    expect_peers_refused(peers, "n2 at 127.0.0.1:1");
    /* Without the option it knows its peers by itself. */
    for (int i = 0; i < NODES; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "n%d", i + 1);
        cr_assert_eq(try_open(&world.nodes[i], new_options(world.dirs[i], id)), 0, "%s", open_text);
    }
    expect_get(world.nodes[2], LKV_LINEARIZABLE, "k", "1");
}

/* Two clusters meet because of a wrong address: neither mixes with the other. */
Test(lib_node_three, a_lone_node_of_another_cluster_is_not_taken_in) {
    char listen[64];
    struct lkv_options *options = new_options(world.dirs[2], "n3");
    (void)snprintf(listen, sizeof(listen), "127.0.0.1:%d", world.ports[2]);
    cr_assert_eq(lkv_options_set(options, "listen", listen), 0);
    cr_assert_eq(try_open(&world.nodes[2], options), 0, "%s", open_text);
    put(world.nodes[2], "mine", "1");
    open_member(&world, 0);
    open_member(&world, 1);
    sleep_ms(700);
    cr_assert_not(has_role(world.nodes[0], "leader"));
    cr_assert_not(has_role(world.nodes[1], "leader"));
    put(world.nodes[2], "mine", "2");
    expect_get(world.nodes[2], LKV_LINEARIZABLE, "mine", "2");
}

Test(lib_node_three, refuses_with_the_leaders_address_when_forwarding_is_off) {
    for (int i = 0; i < NODES; i++) {
        struct lkv_options *options = member_options(&world, i);
        cr_assert_eq(lkv_options_set(options, "forward", "off"), 0);
        cr_assert_eq(try_open(&world.nodes[i], options), 0, "%s", open_text);
    }
    int leader = find_leader(&world);
    put(world.nodes[leader], "k", "1");
    struct lkv *follower = world.nodes[other(leader, 0)];
    await_applied(follower, status_number(world.nodes[leader], "applied"));
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_put_submit(follower, LKV_STR("k"), LKV_STR("2"), WAIT_MS, queue, NULL), 0);
    struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
    cr_assert_not_null(msg);
    cr_assert_eq(lkv_msg_rc(msg), LKV_ENOTLEADER);
    char address[64];
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", world.ports[leader]);
    cr_assert_str_eq(lkv_msg_str(msg, "leader_address"), address);
    lkv_msg_free(msg);
    close_member(&world, other(leader, 0));
    lkv_queue_free(queue);
}

/* A follower that was away while the log was cut behind images gets an image. */
Test(lib_node_three, a_member_far_behind_catches_up_by_an_image) {
    enum { PUTS = 300 };
    static char value[4096];
    memset(value, 'v', sizeof(value));
    for (int i = 0; i < NODES; i++) {
        struct lkv_options *options = member_options(&world, i);
        cr_assert_eq(lkv_options_set(options, "image_log_bytes", "64KiB"), 0);
        cr_assert_eq(lkv_options_set(options, "keep_entries", "5"), 0);
        cr_assert_eq(lkv_options_set(options, "window_bytes", "64KiB"), 0);
        cr_assert_eq(try_open(&world.nodes[i], options), 0, "%s", open_text);
    }
    put(world.nodes[0], "k", "1");
    int away = other(find_leader(&world), 0);
    struct lkv *here = world.nodes[other(away, 0)];
    close_member(&world, away);
    for (int i = 0; i < 2 * PUTS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i % PUTS);
        cr_assert_eq(
            lkv_put(here, bytes(key), (struct lkv_bytes){value, sizeof(value)}, WAIT_MS, NULL), 0);
    }
    for (int i = 0; status_number(here, "image_index") == 0; i++) {
        cr_assert_lt(i, 1000, "no image");
        sleep_ms(10);
    }
    cr_assert_gt(status_number(world.nodes[find_leader(&world)], "first"), 10, "it was cut");
    open_member(&world, away);
    await_applied(world.nodes[away], status_number(here, "commit"));
    cr_assert_gt(status_number(world.nodes[away], "image_index"), 10);
    cr_assert_eq(status_number(world.nodes[away], "keys"), PUTS + 1);
    expect_equal_digests();
}
