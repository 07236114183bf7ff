/* Sessions on real nodes: the answer comes late, twice, from another node, or after an image. */
#include "tests/unit/lib/node_world.h"

#include <pthread.h>
#include <stdatomic.h>

static struct world world;

static void setup(void) {
    world_init(&world);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_node_session, .init = setup, .fini = teardown, .timeout = 100);

static struct lkv_session *open_session(struct lkv *db, uint64_t resume, int64_t ttl_ms) {
    struct lkv_session *session = NULL;
    int rc = LKV_ENOLEADER;
    for (int i = 0; i < 20 && rc != 0; i++) { /* a cluster may just be electing */
        rc = lkv_session_open(db, resume, ttl_ms, &session);
    }
    cr_assert_eq(rc, 0, "%s: %s", lkv_error_name(rc), lkv_last_text());
    return session;
}

static uint64_t put_once(struct lkv_session *session, uint64_t seq, const char *key) {
    uint64_t rev = 0;
    int rc = lkv_put_once(session, seq, bytes(key), bytes("v"), WAIT_MS, &rev);
    cr_assert_eq(rc, 0, "put %s as %lu: %s: %s", key, seq, lkv_error_name(rc), lkv_last_text());
    return rev;
}

static uint64_t version_of(struct lkv *db, const char *key) {
    struct lkv_msg *msg = NULL;
    struct lkv_kv kv = {.version = 0};
    int rc = lkv_get(db, bytes(key), LKV_LINEARIZABLE, WAIT_MS, &msg);
    cr_assert(rc == 0 || rc == LKV_ENOTFOUND, "%s", lkv_error_name(rc));
    (void)lkv_msg_kv(msg, 0, &kv);
    lkv_msg_free(msg);
    return kv.version;
}

static struct lkv *connect_to(const struct world *w, int only) {
    struct lkv_options *options = lkv_options_new();
    char endpoints[256];
    (void)snprintf(endpoints, sizeof(endpoints), "127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d",
                   w->ports[0], w->ports[1], w->ports[2]);
    if (only >= 0) {
        (void)snprintf(endpoints, sizeof(endpoints), "127.0.0.1:%d", w->ports[only]);
    }
    struct lkv *db = NULL;
    cr_assert_eq(lkv_options_set(options, "endpoints", endpoints), 0);
    cr_assert_eq(lkv_connect(&db, options, NULL), 0);
    lkv_options_free(options);
    return db;
}

Test(lib_node_session, x_a10_resent_to_the_next_leader_and_after_a_restart_it_is_done_once) {
    open_all(&world);
    int leader = find_leader(&world);
    int other = (leader + 1) % NODES;
    struct lkv *client = connect_to(&world, -1);
    struct lkv_session *session = open_session(client, 0, 60000);
    uint64_t id = lkv_session_id(session);
    (void)put_once(session, 1, "before");
    uint64_t rev = put_once(session, 7, "c");
    cr_assert_eq(lkv_session_close(session, 0), 0); /* as if the answer had been lost with it */
    close_member(&world, leader);
    session = open_session(world.nodes[other], id, 60000);
    cr_assert_eq(lkv_session_id(session), id);
    cr_assert_eq(lkv_session_last(session), 7);
    cr_assert_eq(put_once(session, 7, "c"), rev, "the first answer");
    cr_assert_eq(lkv_session_close(session, 0), 0);

    for (int i = 0; i < NODES; i++) {
        if (world.nodes[i] != NULL) {
            close_member(&world, i);
        }
    }
    open_all(&world);
    session = open_session(client, id, 60000);
    cr_assert_eq(put_once(session, 7, "c"), rev);
    cr_assert_eq(version_of(client, "c"), 1);
    (void)put_once(session, 8, "c");
    cr_assert_eq(version_of(client, "c"), 2);
    cr_assert_eq(lkv_session_close(session, WAIT_MS), 0);
    cr_assert_eq(lkv_session_open(client, id, 60000, &session), LKV_ESESSION);
    cr_assert_null(session);
    cr_assert_eq(lkv_close(client, 0), 0);
}

/* A node of its own, with an image after little log. */
static struct lkv *open_with_images(const char *dir) {
    struct lkv_options *options = new_options(dir, "n1");
    struct lkv *db = NULL;
    cr_assert_eq(lkv_options_set(options, "image_log_bytes", "64KiB"), 0);
    cr_assert_eq(lkv_options_set(options, "keep_entries", "0"), 0);
    cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
    return db;
}

Test(lib_node_session, x_a10_and_c2_from_an_image_too) {
    struct lkv *db = open_with_images(world.dirs[0]);
    struct lkv_session *session = open_session(db, 0, 60000);
    uint64_t id = lkv_session_id(session);
    uint64_t rev = put_once(session, 7, "c");
    static char value[16384];
    uint64_t image = 0;
    for (int i = 0; image < id + 2; i++) {
        cr_assert_lt(i, 2000, "no image");
        cr_assert_eq(
            lkv_put(db, LKV_STR("fill"), (struct lkv_bytes){value, sizeof(value)}, WAIT_MS, NULL),
            0);
        image = status_number(db, "image_index");
    }
    cr_assert_eq(lkv_session_close(session, 0), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
    db = open_with_images(world.dirs[0]);
    session = open_session(db, id, 60000);
    cr_assert_eq(put_once(session, 7, "c"), rev);
    cr_assert_eq(version_of(db, "c"), 1);
    cr_assert_eq(status_number(db, "sessions"), 1);
    cr_assert_eq(lkv_session_close(session, WAIT_MS), 0);
    cr_assert_eq(status_number(db, "sessions"), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
}

struct writer {
    struct lkv_session *session;
    atomic_bool stop;
    uint64_t done;
};

static void *write_on(void *arg) {
    struct writer *writer = arg;
    for (uint64_t seq = 1; !atomic_load(&writer->stop); seq++) {
        int rc =
            lkv_put_once(writer->session, seq, LKV_STR("counter"), LKV_STR("v"), WAIT_MS, NULL);
        cr_assert_eq(rc, 0, "number %lu: %s: %s", seq, lkv_error_name(rc), lkv_last_text());
        writer->done = seq;
    }
    return NULL;
}

/* No write of the thread ends as unknown, although leaders go; each is in the key's version once. */
static void expect_exact_count(struct lkv *db, int spare) {
    struct writer writer = {.session = open_session(db, 0, 60000)};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, write_on, &writer), 0);
    for (int round = 0; round < 4; round++) {
        sleep_ms(200);
        int leader = find_leader(&world);
        if (leader == spare) {
            leader =
                (spare + 1 + round % 2) % NODES; /* a follower goes: links break all the same */
        }
        close_member(&world, leader);
        sleep_ms(100);
        open_member(&world, leader);
    }
    atomic_store(&writer.stop, true);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_gt(writer.done, 0);
    cr_assert_eq(version_of(db, "counter"), writer.done, "%lu writes", writer.done);
    cr_assert_eq(lkv_session_close(writer.session, WAIT_MS), 0);
}

Test(lib_node_session, c1_c2_c6_a_client_never_learns_that_leaders_went) {
    open_all(&world);
    (void)find_leader(&world);
    struct lkv *client = connect_to(&world, -1);
    expect_exact_count(client, -1);
    cr_assert_eq(lkv_close(client, 0), 0);
}

Test(lib_node_session, c1_c2_c6_nor_does_a_program_whose_own_node_follows_or_leads) {
    open_all(&world);
    (void)find_leader(&world);
    expect_exact_count(world.nodes[0], 0);
}

Test(lib_node_session, c3_c4_a_silent_session_ends_everywhere_and_one_that_is_held_does_not) {
    open_all(&world);
    int leader = find_leader(&world);
    struct lkv *client = connect_to(&world, -1);
    struct lkv_session *held = open_session(client, 0, 1000);
    struct lkv_session *left = open_session(client, 0, 1000);
    uint64_t id = lkv_session_id(left);
    (void)put_once(left, 1, "k");
    cr_assert_eq(lkv_session_close(left, 0), 0); /* nobody says keep-alive for it any more */
    int64_t begun = now_ms();
    struct lkv *at = world.nodes[leader];
    while (status_number(at, "sessions") != 1) {
        cr_assert_lt(now_ms(), begun + WAIT_MS, "it never ends");
        sleep_ms(20);
    }
    cr_assert_geq(now_ms() - begun, 900, "early");
    await_applied(world.nodes[(leader + 1) % NODES], status_number(at, "applied"));
    await_applied(world.nodes[(leader + 2) % NODES], status_number(at, "applied"));
    for (int i = 0; i < NODES; i++) {
        cr_assert_eq(status_number(world.nodes[i], "sessions"), 1);
    }
    cr_assert_eq(lkv_session_open(client, id, 1000, &left), LKV_ESESSION);
    cr_assert_eq(version_of(client, "k"), 1);
    sleep_ms(1500);
    (void)put_once(held, 1, "held");
    cr_assert_eq(lkv_session_close(held, WAIT_MS), 0);
    cr_assert_eq(lkv_close(client, 0), 0);
}

Test(lib_node_session, the_leader_says_how_many_there_may_be) {
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    struct lkv *db = NULL;
    struct lkv_session *sessions[3] = {NULL};
    cr_assert_eq(lkv_options_set(options, "sessions_max", "2"), 0);
    char listen[64];
    (void)snprintf(listen, sizeof(listen), "127.0.0.1:%d", world.ports[0]);
    cr_assert_eq(lkv_options_set(options, "listen", listen), 0);
    cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
    struct lkv *client = connect_to(&world, 0);
    sessions[0] = open_session(client, 0, 60000);
    sessions[1] = open_session(db, 0, 60000);
    cr_assert_eq(lkv_session_open(client, 0, 60000, &sessions[2]), LKV_EBUSY);
    cr_assert_eq(lkv_session_open(db, 0, 60000, &sessions[2]), LKV_EBUSY);
    cr_assert_eq(lkv_session_close(sessions[0], WAIT_MS), 0);
    sessions[2] = open_session(client, 0, 60000);
    cr_assert_eq(lkv_close(client, 0), 0);
    cr_assert_eq(lkv_session_close(sessions[2], 0), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
    cr_assert_eq(lkv_session_close(sessions[1], WAIT_MS), 0, "after its handle");
}

/* An idle session lives on, on a node that follows too, and writes nothing for it. */
Test(lib_node_session, an_idle_session_is_kept_alive_without_entries) {
    open_all(&world);
    int leader = find_leader(&world);
    struct lkv *client = connect_to(&world, (leader + 1) % NODES);
    struct lkv_session *idle = open_session(world.nodes[(leader + 2) % NODES], 0, 1000);
    struct lkv_session *other = open_session(client, 0, 1000);
    uint64_t last = status_number(world.nodes[leader], "last");
    sleep_ms(3500);
    int now_leads = find_leader(&world);
    if (now_leads == leader) { /* else an election wrote an entry of its own */
        cr_expect_eq(status_number(world.nodes[leader], "last"), last);
    }
    (void)put_once(idle, 1, "a");
    (void)put_once(other, 1, "b");
    cr_assert_eq(lkv_session_close(idle, WAIT_MS), 0);
    cr_assert_eq(lkv_session_close(other, WAIT_MS), 0);
    cr_assert_eq(lkv_close(client, 0), 0);
}
