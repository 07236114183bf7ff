/* Conditions, counters, compaction and transactions, through a node and through its client alike. Ids as
 * in the catalogue of faults. */
#include "tests/unit/lib/node_world.h"

static struct world world;
static struct lkv *handles[2]; /* a node, and a client of it */
static struct lkv *db;         /* one of them */

static void setup(void) {
    world_init(&world);
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    char address[64];
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", world.ports[0]);
    cr_assert_eq(lkv_options_set(options, "listen", address), 0);
    cr_assert_eq(lkv_options_set(options, "value_bytes_max", "1000"), 0);
    cr_assert_eq(try_open(&handles[0], options), 0, "%s", open_text);
    while (status_number(handles[0], "feature_level") < 2) {
        sleep_ms(1); /* the last entry of the leader's own */
    }
    options = lkv_options_new();
    cr_assert_eq(lkv_options_set(options, "endpoints", address), 0);
    cr_assert_eq(lkv_connect(&handles[1], options, NULL), 0);
    lkv_options_free(options);
}

static void teardown(void) {
    cr_assert_eq(lkv_close(handles[1], 0), 0);
    cr_assert_eq(lkv_close(handles[0], 0), 0);
    world_fini(&world);
}

TestSuite(lib_node_writes, .init = setup, .fini = teardown, .timeout = 60);

static int write_out(const struct lkv_change *write, struct lkv_msg **out) {
    return lkv_write(db, write, WAIT_MS, out);
}

static int write_rc(const struct lkv_change *write) {
    struct lkv_msg *msg;
    int rc = write_out(write, &msg);
    lkv_msg_free(msg);
    return rc;
}

static uint64_t number(const struct lkv_msg *msg, const char *name) {
    uint64_t value = UINT64_MAX;
    cr_assert(lkv_msg_u64(msg, name, &value), "no number %s", name);
    return value;
}

static void expect_item(const struct lkv_kv *kv, const char *key, const char *value) {
    cr_expect(kv->key.size == strlen(key) && memcmp(kv->key.data, key, kv->key.size) == 0);
    cr_expect(kv->value.size == strlen(value) && memcmp(kv->value.data, value, kv->value.size) == 0,
              "%.*s", (int)kv->value.size, (const char *)kv->value.data);
}

static void delete_all(void) {
    cr_assert_eq(
        lkv_delete_range(db, (struct lkv_bytes){0}, (struct lkv_bytes){0}, WAIT_MS, NULL, NULL), 0);
}

/* ------------------------------------------------------------------ single writes */

static void conditions(void) {
    uint64_t rev;
    cr_assert_eq(lkv_put(db, LKV_STR("k"), LKV_STR("one"), WAIT_MS, &rev), 0);
    struct lkv_change write = {.op = LKV_OP_PUT,
                               .key = LKV_STR("k"),
                               .value = LKV_STR("two"),
                               .flags = LKV_PREVIOUS,
                               .if_rev = rev};
    struct lkv_msg *msg;
    struct lkv_kv kv;
    cr_assert_eq(write_out(&write, &msg), 0, "%s", lkv_last_text());
    cr_assert_eq(lkv_msg_count(msg), 1);
    cr_assert(lkv_msg_kv(msg, 0, &kv));
    expect_item(&kv, "k", "one");
    cr_expect_eq(number(msg, "rev"), rev + 1);
    lkv_msg_free(msg);
    cr_expect_eq(write_rc(&write), LKV_ECOMPARE, "it has another revision now");
    write = (struct lkv_change){.op = LKV_OP_PUT, .key = LKV_STR("k"), .flags = LKV_IF_ABSENT};
    cr_expect_eq(write_rc(&write), LKV_ECOMPARE);
    write.key = LKV_STR("new");
    cr_expect_eq(write_rc(&write), 0);
    write.flags = LKV_KEEP_VALUE;
    write.key = LKV_STR("nosuch");
    cr_expect_eq(write_rc(&write), LKV_ENOTFOUND);
    write.key = LKV_STR("k");
    cr_expect_eq(write_rc(&write), 0);
    expect_get(db, LKV_LINEARIZABLE, "k", "two");
    write = (struct lkv_change){.op = LKV_OP_DELETE, .key = LKV_STR("k"), .if_rev = rev};
    cr_expect_eq(write_rc(&write), LKV_ECOMPARE);
    write = (struct lkv_change){
        .op = LKV_OP_DELETE, .range = true, .end = LKV_STR("l"), .flags = LKV_PREVIOUS};
    cr_assert_eq(write_out(&write, &msg), 0);
    cr_expect_eq(number(msg, "count"), 1);
    cr_assert(lkv_msg_kv(msg, 0, &kv));
    expect_item(&kv, "k", "two");
    lkv_msg_free(msg);
}

Test(lib_node_writes, conditions_and_what_was_there_before) {
    for (int i = 0; i < 2; i++) {
        db = handles[i];
        delete_all();
        conditions();
    }
}

Test(lib_node_writes, c5_a_counter) {
    for (int i = 0; i < 2; i++) {
        db = handles[i];
        delete_all();
        struct lkv_change add = {.op = LKV_OP_ADD, .key = LKV_STR("n"), .delta = -3};
        struct lkv_msg *msg;
        for (int64_t j = 1; j <= 3; j++) {
            cr_assert_eq(write_out(&add, &msg), 0);
            cr_expect_eq((int64_t)number(msg, "number"), -3 * j);
            lkv_msg_free(msg);
        }
        expect_get(db, LKV_LINEARIZABLE, "n", "-9");
        add.delta = INT64_MIN;
        cr_expect_eq(write_rc(&add), LKV_EOVERFLOW);
        put(db, "n", "text");
        cr_expect_eq(write_rc(&add), LKV_ENUMBER);
        cr_expect_eq(lkv_outcome(LKV_ENUMBER), LKV_NOT_DONE);
    }
}

Test(lib_node_writes, c9_what_is_compacted_cannot_be_read) {
    for (int i = 0; i < 2; i++) {
        db = handles[i];
        uint64_t first, last;
        cr_assert_eq(lkv_put(db, LKV_STR("k"), LKV_STR("old"), WAIT_MS, &first), 0);
        cr_assert_eq(lkv_put(db, LKV_STR("k"), LKV_STR("new"), WAIT_MS, &last), 0);
        struct lkv_change compact = {.op = LKV_OP_COMPACT, .rev = last};
        cr_expect_eq(write_rc(&compact), 0);
        cr_expect_eq(write_rc(&compact), LKV_ECOMPACTED);
        compact.rev = last + 1000;
        cr_expect_eq(write_rc(&compact), LKV_EFUTURE);
        struct lkv_msg *msg;
        cr_expect_eq(lkv_get_at(db, LKV_STR("k"), first, LKV_LINEARIZABLE, WAIT_MS, &msg),
                     LKV_ECOMPACTED);
        lkv_msg_free(msg);
    }
}

/* X-C9: before anything is proposed, in the same words by a node and by its client. */
Test(lib_node_writes, x_c9_limits_are_named_with_the_size) {
    static char big[2000];
    char words[2][512];
    for (int i = 0; i < 2; i++) {
        db = handles[i];
        uint64_t commit = status_number(handles[0], "commit");
        struct lkv_txn *txn = lkv_txn_new();
        lkv_txn_put(txn, LKV_STR("k"), (struct lkv_bytes){big, sizeof(big)});
        cr_expect_eq(lkv_txn_commit(db, txn, WAIT_MS, NULL), LKV_ETOOLARGE);
        (void)snprintf(words[i], sizeof(words[i]), "%s", lkv_last_text());
        cr_expect_not_null(strstr(words[i], "2000 bytes, value_bytes_max is 1000"), "%s", words[i]);
        lkv_txn_free(txn);
        txn = lkv_txn_new();
        for (int step = 0; step <= LKV_TXN_STEPS_MAX; step++) {
            lkv_txn_get(txn, LKV_STR("k"));
        }
        cr_expect_eq(lkv_txn_commit(db, txn, WAIT_MS, NULL), LKV_ETOOLARGE);
        cr_expect_not_null(strstr(lkv_last_text(), "16384"), "%s", lkv_last_text());
        lkv_txn_free(txn);
        cr_expect_eq(status_number(handles[0], "commit"), commit);
    }
    cr_expect_str_eq(words[0], words[1]);
}

Test(lib_node_writes, refuses_what_makes_no_sense) {
    struct lkv_session *session;
    cr_assert_eq(lkv_session_open(handles[0], 0, 5000, &session), 0);
    const struct lkv_change bad[] = {
        {.op = (enum lkv_op)77, .key = LKV_STR("k")},
        {.op = LKV_OP_TXN, .key = LKV_STR("k")},
        {.op = LKV_OP_PUT},
        {.op = LKV_OP_PUT, .key = LKV_STR("k"), .flags = 16},
        {.op = LKV_OP_PUT, .key = LKV_STR("k"), .delta = 1},
        {.op = LKV_OP_PUT, .key = LKV_STR("k"), .range = true},
        {.op = LKV_OP_PUT, .key = LKV_STR("k"), .seq = 1},
        {.op = LKV_OP_PUT, .key = LKV_STR("k"), .session = session},
        {.op = LKV_OP_PUT, .key = LKV_STR("k"), .flags = LKV_IF_ABSENT, .if_rev = 4},
        {.op = LKV_OP_PUT, .key = {NULL, 4}},
        {.op = LKV_OP_PUT, .key = LKV_STR("k"), .reserved = {bad}},
        {.op = LKV_OP_DELETE, .key = LKV_STR("k"), .flags = LKV_IF_ABSENT},
        {.op = LKV_OP_DELETE, .key = LKV_STR("k"), .range = true, .if_rev = 3},
        {.op = LKV_OP_ADD, .key = LKV_STR("k"), .value = LKV_STR("v")},
        {.op = LKV_OP_COMPACT},
        {.op = LKV_OP_COMPACT, .rev = 1, .key = LKV_STR("k")}};
    db = handles[0];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(write_rc(&bad[i]), LKV_EINVAL, "%zu", i);
        cr_expect_neq(lkv_last_text()[0], '\0');
    }
    cr_expect_eq(write_rc(NULL), LKV_EINVAL);
    const struct lkv_change fine = {
        .op = LKV_OP_PUT, .key = LKV_STR("k"), .session = session, .seq = 1};
    cr_expect_eq(lkv_write(handles[1], &fine, WAIT_MS, NULL), LKV_EINVAL, "another handle's");
    cr_expect_eq(lkv_write(NULL, &fine, WAIT_MS, NULL), 0);
    cr_assert_eq(lkv_session_close(session, WAIT_MS), 0);
}

/* ------------------------------------------------------------------ transactions */

static const struct lkv_bytes none;

static struct lkv_answer answer(const struct lkv_msg *msg, size_t i) {
    struct lkv_answer out;
    cr_assert(lkv_msg_answer(msg, i, &out), "no answer %zu", i);
    return out;
}

/* All its kinds of operations, and one inside of it. */
static struct lkv_txn *make_txn(void) {
    struct lkv_txn *inner = lkv_txn_new(), *txn = lkv_txn_new();
    lkv_txn_if(inner, LKV_STR("a"), LKV_FIELD_EXISTS, '=', 0, none);
    lkv_txn_put(inner, LKV_STR("inner"), LKV_STR("then"));
    lkv_txn_else(inner);
    lkv_txn_get(inner, LKV_STR("b"));
    lkv_txn_put(inner, LKV_STR("inner"), LKV_STR("else"));
    lkv_txn_if(txn, LKV_STR("a"), LKV_FIELD_VALUE, '=', 0, LKV_STR("1"));
    lkv_txn_if(txn, LKV_STR("a"), LKV_FIELD_VERSION, '<', 2, none);
    lkv_txn_if_range(txn, LKV_STR("a"), LKV_STR("c"), LKV_FIELD_CREATE_REV, '>', 0, none);
    const struct lkv_change change = {.op = LKV_OP_DELETE,
                                      .key = LKV_STR("a"),
                                      .end = LKV_STR("b"),
                                      .range = true,
                                      .flags = LKV_PREVIOUS};
    const struct lkv_change add = {.op = LKV_OP_ADD, .key = LKV_STR("n"), .delta = 7};
    const struct lkv_query query = {.limit = 2, .flags = LKV_TOTAL};
    lkv_txn_write(txn, &change);
    lkv_txn_write(txn, &add);
    lkv_txn_nest(txn, inner);
    lkv_txn_find(txn, &query);
    lkv_txn_else(txn);
    lkv_txn_get(txn, LKV_STR("a"));
    lkv_txn_free(inner);
    return txn;
}

static void check_then(const struct lkv_msg *msg, uint64_t rev) {
    struct lkv_kv kv;
    struct lkv_answer inner;
    cr_expect_eq(number(msg, "held"), 1);
    cr_expect_eq(number(msg, "rev"), rev);
    struct lkv_answer deleted = answer(msg, 0), added = answer(msg, 1), nested = answer(msg, 2),
                      read = answer(msg, 3), past;
    cr_expect(deleted.op == LKV_OP_DELETE && deleted.total == 1 && deleted.items == 1);
    cr_assert(lkv_answer_kv(&deleted, 0, &kv));
    expect_item(&kv, "a", "1");
    cr_expect(added.op == LKV_OP_ADD && added.number == 7);
    cr_expect(nested.op == LKV_OP_TXN && !nested.held && nested.answers == 2, "a was there");
    cr_assert(lkv_answer_at(&nested, 0, &inner) && lkv_answer_kv(&inner, 0, &kv));
    expect_item(&kv, "b", "2");
    cr_assert(lkv_answer_at(&nested, 1, &inner));
    cr_expect_eq(inner.op, LKV_OP_PUT);
    cr_expect(!lkv_answer_at(&nested, 2, &inner));
    cr_expect(read.op == LKV_OP_RANGE && read.total == 3 && read.items == 2 && read.more);
    cr_assert(lkv_answer_kv(&read, 1, &kv));
    expect_item(&kv, "inner", "else");
    cr_expect_eq(kv.mod_rev, rev);
    cr_expect(!lkv_answer_kv(&read, 2, &kv));
    cr_expect(!lkv_msg_answer(msg, 4, &past));
}

Test(lib_node_writes, c15_a_transaction_is_carried_out_as_one) {
    for (int i = 0; i < 2; i++) {
        db = handles[i];
        delete_all();
        put(db, "a", "1");
        uint64_t rev;
        cr_assert_eq(lkv_put(db, LKV_STR("b"), LKV_STR("2"), WAIT_MS, &rev), 0);
        struct lkv_txn *txn = make_txn();
        struct lkv_msg *msg;
        cr_assert_eq(lkv_txn_commit(db, txn, WAIT_MS, &msg), 0, "%s", lkv_last_text());
        check_then(msg, rev + 1);
        lkv_msg_free(msg);
        cr_assert_eq(lkv_txn_commit(db, txn, WAIT_MS, &msg), 0, "a is gone");
        cr_expect_eq(number(msg, "held"), 0);
        struct lkv_answer read = answer(msg, 0);
        cr_expect(read.op == LKV_OP_RANGE && read.items == 0);
        lkv_msg_free(msg);
        lkv_txn_free(txn);
    }
}

Test(lib_node_writes, c15_what_cannot_be_carried_out_changes_nothing) {
    for (int i = 0; i < 2; i++) {
        db = handles[i];
        delete_all();
        put(db, "n", "no number");
        struct lkv_txn *txn = lkv_txn_new();
        const struct lkv_change add = {.op = LKV_OP_ADD, .key = LKV_STR("n"), .delta = 1};
        lkv_txn_put(txn, LKV_STR("other"), LKV_STR("v"));
        lkv_txn_write(txn, &add);
        struct lkv_msg *msg;
        cr_expect_eq(lkv_txn_commit(db, txn, WAIT_MS, &msg), LKV_ENUMBER);
        lkv_msg_free(msg);
        cr_expect_eq(lkv_get(db, LKV_STR("other"), LKV_LINEARIZABLE, WAIT_MS, &msg), LKV_ENOTFOUND);
        lkv_msg_free(msg);
        lkv_txn_free(txn);
    }
}

static int commit_built(struct lkv_txn *txn) {
    int rc = lkv_txn_commit(handles[0], txn, WAIT_MS, NULL);
    lkv_txn_free(txn);
    return rc;
}

Test(lib_node_writes, what_was_wrong_with_a_transaction_surfaces_at_commit) {
    struct lkv_txn *txn = lkv_txn_new();
    lkv_txn_if(txn, LKV_STR("k"), LKV_FIELD_VALUE, '~', 0, none);
    lkv_txn_else(txn);
    lkv_txn_else(txn);
    cr_expect_eq(commit_built(txn), LKV_EINVAL);
    cr_expect_not_null(strstr(lkv_last_text(), "relation"), "the first: %s", lkv_last_text());
    txn = lkv_txn_new();
    lkv_txn_put(txn, none, LKV_STR("v"));
    cr_expect_eq(commit_built(txn), LKV_EINVAL);
    txn = lkv_txn_new();
    lkv_txn_put(txn, LKV_STR("k"), LKV_STR("v"));
    lkv_txn_put(txn, LKV_STR("k"), LKV_STR("v"));
    cr_expect_eq(commit_built(txn), LKV_EINVAL, "twice");
    txn = lkv_txn_new();
    lkv_txn_nest(txn, NULL);
    cr_expect_eq(commit_built(txn), LKV_EINVAL);
    txn = lkv_txn_new();
    for (int depth = 0; depth < LKV_TXN_DEPTH_MAX; depth++) {
        struct lkv_txn *outer = lkv_txn_new();
        lkv_txn_nest(outer, txn);
        lkv_txn_free(txn);
        txn = outer;
    }
    cr_expect_eq(commit_built(txn), LKV_EINVAL, "too deep");
    cr_expect_eq(commit_built(NULL), LKV_ENOMEM);
    txn = lkv_txn_new();
    lkv_txn_in_term(txn, 1000000);
    cr_expect_eq(commit_built(txn), LKV_ETERM);
}

/* S19: a number takes effect once, whatever it is a number of. */
Test(lib_node_writes, s19_once_in_a_session) {
    for (int i = 0; i < 2; i++) {
        db = handles[i];
        delete_all();
        struct lkv_session *session;
        cr_assert_eq(lkv_session_open(db, 0, 5000, &session), 0);
        const struct lkv_change add = {
            .op = LKV_OP_ADD, .key = LKV_STR("n"), .delta = 5, .session = session, .seq = 1};
        cr_expect_eq(write_rc(&add), 0);
        cr_expect_eq(write_rc(&add), LKV_EANSWERED);
        struct lkv_txn *txn = lkv_txn_new();
        const struct lkv_change more = {.op = LKV_OP_ADD, .key = LKV_STR("n"), .delta = 5};
        lkv_txn_write(txn, &more);
        lkv_txn_once(txn, session, 2);
        cr_expect_eq(lkv_txn_commit(db, txn, WAIT_MS, NULL), 0);
        cr_expect_eq(lkv_txn_commit(db, txn, WAIT_MS, NULL), LKV_EANSWERED);
        lkv_txn_free(txn);
        expect_get(db, LKV_LINEARIZABLE, "n", "10");
        cr_assert_eq(lkv_session_close(session, WAIT_MS), 0);
    }
}

Test(lib_node_writes, submits_answer_on_the_queue) {
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    for (int i = 0; i < 2; i++) {
        db = handles[i];
        const struct lkv_change add = {.op = LKV_OP_ADD, .key = LKV_STR("q"), .delta = 1};
        struct lkv_txn *txn = lkv_txn_new();
        lkv_txn_get(txn, LKV_STR("q"));
        cr_assert_eq(lkv_write_submit(db, &add, WAIT_MS, queue, &world), 0);
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_expect(lkv_msg_rc(msg) == 0 && lkv_msg_tag(msg) == &world);
        cr_expect_eq(number(msg, "number"), (uint64_t)i + 1);
        lkv_msg_free(msg);
        cr_assert_eq(lkv_txn_submit(db, txn, WAIT_MS, queue, NULL), 0);
        lkv_txn_free(txn);
        msg = lkv_queue_next(queue, WAIT_MS);
        cr_expect_eq(answer(msg, 0).items, 1);
        lkv_msg_free(msg);
    }
    lkv_queue_free(queue);
}
