/* The limits of the public header, reached and passed by one: on a node, and through a client of it. */
#include "lib/api.h"
#include "tests/unit/lib/node_world.h"

static struct world world;
static struct lkv *node, *client;
static struct lkv *handles[2];
static struct lkv_queue *queue;
static char address[2 * PATH_BYTES];

static void open_node(void) {
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    cr_assert_eq(lkv_options_set(options, "listen", address), 0);
    cr_assert_eq(lkv_options_set(options, "segment_bytes", "64MiB"), 0);
    cr_assert_eq(try_open(&node, options), 0, "%s", open_text);
    handles[0] = node;
}

static void setup(void) {
    world_init(&world);
    (void)snprintf(address, sizeof(address), "unix:%s/n.sock", world.dir);
    open_node();
    struct lkv_options *options = lkv_options_new();
    cr_assert_eq(lkv_options_set(options, "endpoints", address), 0);
    cr_assert_eq(lkv_connect(&client, options, NULL), 0);
    lkv_options_free(options);
    handles[1] = client;
    cr_assert_eq(lkv_queue_new(&queue), 0);
}

static void teardown(void) {
    cr_assert_eq(lkv_close(client, 0), 0);
    cr_assert_eq(lkv_close(node, 0), 0);
    lkv_queue_free(queue);
    world_fini(&world);
}

TestSuite(lib_limits, .init = setup, .fini = teardown, .timeout = 60);

static uint64_t number(const struct lkv_msg *msg, const char *name) {
    uint64_t value = 0;
    cr_assert(lkv_msg_u64(msg, name, &value), "no number %s", name);
    return value;
}

static struct lkv_msg *take(void) {
    struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
    cr_assert_not_null(msg);
    return msg;
}

static void take_done(size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct lkv_msg *msg = take();
        cr_assert_eq(lkv_msg_rc(msg), 0, "%s", lkv_msg_text(msg));
        lkv_msg_free(msg);
    }
}

static char large[4 * 1024 * 1024];

static void fill_large(void) {
    for (size_t i = 0; i < sizeof(large); i++) {
        large[i] = (char)(i * 31 + i / 4093);
    }
}

static struct lkv_bytes large_value(size_t size) {
    return (struct lkv_bytes){large, size};
}

/* ------------------------------------------------------------------ sizes */

enum { SIZES = 4097 };

static struct lkv_bytes key_of(int i, char into[16]) {
    (void)snprintf(into, 16, "%05d", i);
    return bytes(into);
}

Test(lib_limits, x_c9_every_size_and_the_largest_transaction_are_there_after_a_restart) {
    struct lkv_bytes value = large_value(0);
    char key[16];
    fill_large();
    for (int i = 0; i < SIZES; i++) {
        value.size = (size_t)i;
        cr_assert_eq(lkv_put_submit(handles[i % 2], key_of(i, key), value, WAIT_MS, queue, NULL),
                     0);
    }
    take_done(SIZES);
    struct lkv_txn *txn = lkv_txn_new();
    value.size = 4 * 1024 * 1024 - 1024; /* 4 of them are almost 16 MiB */
    for (int i = 0; i < 4; i++) {
        lkv_txn_put(txn, key_of(90000 + i, key), value);
    }
    cr_assert_eq(lkv_txn_commit(client, txn, WAIT_MS, NULL), 0, "%s", lkv_last_text());
    lkv_txn_free(txn);
    cr_assert_eq(lkv_close(node, 0), 0);
    open_node();
    for (int i = 0; i < SIZES + 4; i++) {
        struct lkv_msg *msg = NULL;
        struct lkv_kv item;
        value.size = i < SIZES ? (size_t)i : 4 * 1024 * 1024 - 1024;
        key_of(i < SIZES ? i : 90000 + i - SIZES, key);
        cr_assert_eq(lkv_get(node, bytes(key), LKV_LOCAL, WAIT_MS, &msg), 0, "%s", key);
        cr_assert(lkv_msg_kv(msg, 0, &item));
        cr_assert_eq(item.value.size, value.size, "%s has %zu bytes", key, item.value.size);
        cr_assert_eq(memcmp(item.value.data, value.data, value.size), 0, "%s", key);
        lkv_msg_free(msg);
    }
}

Test(lib_limits, x_c9_a_larger_transaction_is_refused_with_limit_and_size_by_both) {
    char said[2][512];
    struct lkv_txn *small = lkv_txn_new();
    cr_assert_eq(lkv_txn_commit(node, small, WAIT_MS, NULL), 0, "and the level is up, too");
    lkv_txn_free(small);
    for (int i = 0; i < 2; i++) {
        struct lkv_txn *txn = lkv_txn_new();
        char key[16];
        for (int k = 0; k < 4; k++) {
            lkv_txn_put(txn, key_of(k, key), large_value(4 * 1024 * 1024));
        }
        uint64_t commit = status_number(node, "commit");
        cr_assert_eq(lkv_txn_commit(handles[i], txn, WAIT_MS, NULL), LKV_ETOOLARGE);
        (void)snprintf(said[i], sizeof(said[i]), "%s", lkv_last_text());
        cr_assert_eq(status_number(node, "commit"), commit, "nothing was proposed");
        lkv_txn_free(txn);
    }
    cr_assert_str_eq(said[0], said[1]);
    cr_assert_not_null(strstr(said[0], "bytes, at most 16777216"), "%s", said[0]);
}

Test(lib_limits, transactions_are_four_deep) {
    for (int i = 0; i < 2; i++) {
        struct lkv_txn *txn = lkv_txn_new();
        lkv_txn_put(txn, LKV_STR("k"), LKV_STR("v"));
        for (int depth = 2; depth <= LKV_TXN_DEPTH_MAX + 1; depth++) {
            struct lkv_txn *outer = lkv_txn_new();
            cr_assert_eq(lkv_txn_commit(handles[i], txn, WAIT_MS, NULL), 0, "%d deep: %s",
                         depth - 1, lkv_last_text());
            lkv_txn_nest(outer, txn);
            lkv_txn_free(txn);
            txn = outer;
        }
        cr_assert_eq(lkv_txn_commit(handles[i], txn, WAIT_MS, NULL), LKV_EINVAL);
        cr_assert_not_null(strstr(lkv_last_text(), "4 inside of each other"), "%s",
                           lkv_last_text());
        lkv_txn_free(txn);
    }
}

/* ------------------------------------------------------------------ answers */

Test(lib_limits, what_was_there_before_is_told_up_to_15_mib) {
    for (int i = 0; i < 2; i++) {
        char key[16];
        for (int k = 0; k < 4; k++) {
            cr_assert_eq(lkv_put(node, key_of(k, key), large_value(4 * 1024 * 1024), WAIT_MS, NULL),
                         0);
        }
        const struct lkv_change all = {.op = LKV_OP_DELETE,
                                       .range = true,
                                       .key = LKV_STR("0"),
                                       .end = LKV_STR("1"),
                                       .flags = LKV_PREVIOUS};
        struct lkv_msg *msg = NULL;
        struct lkv_kv item;
        cr_assert_eq(lkv_write(handles[i], &all, WAIT_MS, &msg), 0, "%s", lkv_last_text());
        cr_assert_eq(number(msg, "count"), 4, "all have gone");
        cr_assert_eq(lkv_msg_count(msg), 3);
        cr_assert_eq(number(msg, "more"), 1);
        cr_assert(lkv_msg_kv(msg, 2, &item));
        cr_assert_eq(item.value.size, 4 * 1024 * 1024);
        lkv_msg_free(msg);
    }
}

static struct lkv_msg *find(struct lkv *db, const struct lkv_query *query) {
    struct lkv_msg *msg = NULL;
    cr_assert_eq(lkv_find(db, query, WAIT_MS, &msg), 0, "%s", lkv_last_text());
    return msg;
}

Test(lib_limits, another_order_than_that_of_keys_has_4096_items_and_a_page_about_1_mib) {
    char key[16];
    for (int i = 0; i < SIZES; i++) {
        cr_assert_eq(lkv_put_submit(node, key_of(i, key), large_value(300), WAIT_MS, queue, NULL),
                     0);
    }
    take_done(SIZES);
    for (int i = 0; i < 2; i++) {
        struct lkv_query query = {.flags = LKV_TOTAL | LKV_KEYS_ONLY, .order = LKV_BY_MOD_REV};
        struct lkv_msg *msg = find(handles[i], &query);
        cr_expect_eq(lkv_msg_count(msg), 4096);
        cr_expect(number(msg, "more") == 1 && number(msg, "total") == SIZES);
        lkv_msg_free(msg);
        query = (struct lkv_query){.from = LKV_STR(""), .flags = LKV_TOTAL};
        size_t seen = 0, pages = 0;
        for (uint64_t more = 1; more != 0; pages++) {
            struct lkv_kv item;
            msg = find(handles[i], &query);
            size_t count = lkv_msg_count(msg);
            more = number(msg, "more");
            seen += count;
            cr_expect_leq(count * 300, 1024 * 1024 + 64 * 1024);
            cr_assert(lkv_msg_kv(msg, count - 1, &item));
            memcpy(key, item.key.data, item.key.size);
            key[item.key.size] = '\0';
            query.from = (struct lkv_bytes){key, item.key.size + 1};
            query.rev = number(msg, "rev");
            lkv_msg_free(msg);
        }
        cr_expect_eq(seen, SIZES);
        cr_expect_gt(pages, 1);
    }
}

/* ------------------------------------------------------------------ leases and sessions */

Test(lib_limits, a_ttl_has_bounds) {
    static const int64_t week_ms = 604800000, year_ms = INT64_C(366) * 86400000;
    for (int i = 0; i < 2; i++) {
        struct lkv_session *session;
        int64_t id = 100 + i;
        cr_assert_eq(lkv_session_open(handles[i], 0, 999, &session), LKV_EINVAL);
        cr_assert_eq(lkv_session_open(handles[i], 0, week_ms + 1, &session), LKV_EINVAL);
        cr_assert_eq(lkv_session_open(handles[i], 0, week_ms, &session), 0, "%s", lkv_last_text());
        cr_assert_eq(lkv_session_close(session, WAIT_MS), 0);
        cr_assert_eq(lkv_lease_grant(handles[i], id, 999, WAIT_MS, NULL), LKV_EINVAL);
        cr_assert_not_null(strstr(lkv_last_text(), "999"), "%s", lkv_last_text());
        cr_assert_eq(lkv_lease_grant(handles[i], id, year_ms + 1, WAIT_MS, NULL), LKV_EINVAL);
        cr_assert_eq(lkv_lease_grant(handles[i], id, year_ms, WAIT_MS, NULL), 0);
        cr_assert_eq(lkv_lease_grant(handles[i], id, 1000, WAIT_MS, NULL), LKV_EEXIST);
        cr_assert_eq(lkv_lease_grant(handles[i], -1, 1000, WAIT_MS, NULL), LKV_EINVAL);
        cr_assert_eq(lkv_lease_grant(handles[i], INT64_MAX - i, 60000, WAIT_MS, &id), 0);
        cr_assert_eq(id, INT64_MAX - i);
    }
}

Test(lib_limits, leases_and_their_keys_are_listed_by_the_thousand) {
    enum { MANY = 1001, HOLDS = 7 };
    char key[16];
    for (int64_t i = 1; i <= MANY; i++) {
        struct request *request;
        int64_t id = i;
        cr_assert_eq(api_lease_grant(node, &id, 600000, WAIT_MS, &request), 0);
        cr_assert_eq(api_submit(node, request, queue, NULL), 0);
    }
    take_done(MANY);
    for (int i = 1; i <= MANY; i++) {
        cr_assert_eq(
            lkv_put_leased_submit(node, key_of(i, key), bytes("v"), HOLDS, WAIT_MS, queue, NULL),
            0);
    }
    take_done(MANY);
    for (int i = 0; i < 2; i++) {
        const size_t limits[] = {0, 1000, 5000};
        struct lkv_msg *msg = NULL;
        struct lkv_lease lease;
        struct lkv_kv item;
        for (size_t k = 0; k < 3; k++) {
            cr_assert_eq(lkv_lease_list(handles[i], 0, limits[k], WAIT_MS, &msg), 0);
            cr_assert_eq(lkv_msg_count(msg), 1000, "limit %zu", limits[k]);
            cr_assert_eq(number(msg, "more"), 1);
            lkv_msg_free(msg);
        }
        cr_assert_eq(lkv_lease_list(handles[i], 1000, 0, WAIT_MS, &msg), 0);
        cr_assert(lkv_msg_count(msg) == 1 && number(msg, "more") == 0);
        cr_assert(lkv_msg_lease(msg, 0, &lease) && lease.id == MANY);
        lkv_msg_free(msg);
        cr_assert_eq(lkv_lease_ttl(handles[i], HOLDS, bytes(""), 5000, WAIT_MS, &msg), 0);
        cr_assert(lkv_msg_count(msg) == 1000 && number(msg, "more") == 1);
        cr_assert(lkv_msg_kv(msg, 999, &item));
        lkv_msg_free(msg);
        cr_assert_eq(lkv_lease_ttl(handles[i], HOLDS, key_of(1000, key), 5000, WAIT_MS, &msg), 0);
        cr_assert(lkv_msg_count(msg) == 1 && number(msg, "more") == 0);
        lkv_msg_free(msg);
    }
}

/* ------------------------------------------------------------------ watches */

/* One connection has 16,384 watches. One more ends at once with a definite error; the others go on. */
Test(lib_limits, a_connection_has_16384_watches) {
    enum { MANY = 16384 };
    static int tags[MANY + 1];
    uint64_t rev = status_number(node, "rev") + 1;
    char key[16];
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(
            lkv_watch(client, key_of(i, key), bytes(""), rev, LKV_WATCH_KEY, queue, &tags[i]), 0);
    }
    for (int i = 0; i < MANY; i++) {
        struct lkv_msg *msg = take(); /* it has begun */
        cr_assert_eq(lkv_msg_kind(msg), LKV_EVENTS, "%s", lkv_msg_text(msg));
        lkv_msg_free(msg);
    }
    /* They ask again, and wait, as soon as their first message is freed. What is asked now is behind that. */
    cr_assert_eq(lkv_watch(client, bytes("x"), bytes(""), rev, LKV_WATCH_KEY, queue, &tags[MANY]),
                 0);
    struct lkv_msg *msg = take();
    cr_assert_eq(lkv_msg_kind(msg), LKV_END);
    cr_assert_eq(lkv_msg_tag(msg), &tags[MANY]);
    cr_assert_eq(lkv_msg_rc(msg), LKV_EBUSY, "%s", lkv_error_name(lkv_msg_rc(msg)));
    cr_assert_str_eq(lkv_msg_text(msg), "this connection has 16384 watches already");
    lkv_msg_free(msg);
    put(client, key_of(MANY / 2, key).data, "v");
    msg = take();
    cr_assert_eq(lkv_msg_kind(msg), LKV_EVENTS);
    cr_assert_eq(lkv_msg_tag(msg), &tags[MANY / 2]);
    cr_assert_eq(lkv_msg_count(msg), 1);
    lkv_msg_free(msg);
}
