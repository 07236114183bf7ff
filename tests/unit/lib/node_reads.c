/* Queries and reads of older revisions by the public verbs, on a node and through a client of it. */
#include "tests/unit/lib/node_world.h"

static struct world world;
static struct lkv *db, *remote;

static void setup(void) {
    world_init(&world);
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    char address[64];
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", world.ports[0]);
    cr_assert_eq(lkv_options_set(options, "listen", address), 0);
    cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
    options = lkv_options_new();
    cr_assert_eq(lkv_options_set(options, "endpoints", address), 0);
    cr_assert_eq(lkv_connect(&remote, options, NULL), 0);
    lkv_options_free(options);
}

static void teardown(void) {
    cr_assert_eq(lkv_close(remote, 0), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
    world_fini(&world);
}

TestSuite(lib_node_reads, .init = setup, .fini = teardown, .timeout = 60);

static uint64_t number(const struct lkv_msg *msg, const char *name) {
    uint64_t value = 0;
    cr_assert(lkv_msg_u64(msg, name, &value), "no %s", name);
    return value;
}

/* The keys of an answer, one letter each. */
static void expect_keys(const struct lkv_msg *msg, const char *keys) {
    struct lkv_kv kv;
    cr_assert_eq(lkv_msg_count(msg), strlen(keys), "%zu keys, not %s", lkv_msg_count(msg), keys);
    for (size_t i = 0; keys[i] != '\0'; i++) {
        cr_assert(lkv_msg_kv(msg, i, &kv));
        cr_assert_eq(*(const char *)kv.key.data, keys[i], "the key %zu of %s is %c", i, keys,
                     *(const char *)kv.key.data);
    }
}

static void expect_found(const struct lkv_query *query, const char *keys) {
    struct lkv *const handles[] = {db, remote};
    for (size_t i = 0; i < 2; i++) {
        struct lkv_msg *msg = NULL;
        int rc = lkv_find(handles[i], query, WAIT_MS, &msg);
        cr_assert_eq(rc, 0, "%s", lkv_last_text());
        expect_keys(msg, keys);
        lkv_msg_free(msg);
    }
}

/* Revision: a 2, b 3, c 4, d 5, b again 6, a anew 8. */
static void fill(void) {
    put(db, "a", "4");
    put(db, "b", "3");
    put(db, "c", "2");
    put(db, "d", "1");
    put(db, "b", "9");
    cr_assert_eq(lkv_delete(db, LKV_STR("a"), WAIT_MS, NULL), 0);
    put(db, "a", "5");
}

Test(lib_node_reads, queries_order_and_filter) {
    fill();
    expect_found(&(struct lkv_query){0}, "abcd");
    expect_found(&(struct lkv_query){.flags = LKV_DESCENDING}, "dcba");
    expect_found(&(struct lkv_query){.order = LKV_BY_VERSION}, "acdb");
    expect_found(&(struct lkv_query){.order = LKV_BY_CREATE_REV}, "bcda");
    expect_found(&(struct lkv_query){.order = LKV_BY_MOD_REV, .flags = LKV_DESCENDING}, "abdc");
    expect_found(&(struct lkv_query){.order = LKV_BY_VALUE, .limit = 3}, "dca");
    expect_found(&(struct lkv_query){.mod_rev_min = 5, .mod_rev_max = 6}, "bd");
    expect_found(&(struct lkv_query){.create_rev_min = 4}, "acd");
    expect_found(&(struct lkv_query){.create_rev_max = 3, .how = LKV_LOCAL}, "b");
    expect_found(&(struct lkv_query){.from = LKV_STR("b"), .to = LKV_STR("d")}, "bc");
    expect_found(&(struct lkv_query){.flags = LKV_COUNT_ONLY}, "");
}

Test(lib_node_reads, the_total_counts_what_filters_take_out) {
    fill();
    struct lkv_msg *msg = NULL;
    const struct lkv_query query = {.limit = 1, .flags = LKV_TOTAL, .mod_rev_min = 5};
    cr_assert_eq(lkv_find(remote, &query, WAIT_MS, &msg), 0);
    expect_keys(msg, "a");
    cr_assert_eq(number(msg, "total"), 4);
    cr_assert_eq(number(msg, "more"), 1);
    cr_assert_eq(number(msg, "rev"), 8);
    lkv_msg_free(msg);
}

Test(lib_node_reads, C7_the_newest_revision_is_kept_and_the_next_one_is_of_the_future) {
    fill();
    struct lkv *const handles[] = {db, remote};
    for (size_t i = 0; i < 2; i++) {
        struct lkv_msg *msg = NULL;
        cr_assert_eq(lkv_get_at(handles[i], LKV_STR("b"), 8, LKV_LINEARIZABLE, WAIT_MS, &msg), 0);
        expect_keys(msg, "b");
        cr_assert_eq(number(msg, "rev"), 8);
        lkv_msg_free(msg);
        cr_assert_eq(lkv_get_at(handles[i], LKV_STR("b"), 9, LKV_LINEARIZABLE, WAIT_MS, &msg),
                     LKV_EFUTURE);
        cr_assert(number(msg, "rev") == 8 && number(msg, "kept_from") <= 8);
        cr_assert_not_null(strstr(lkv_msg_text(msg), "revision 9 is in the future: "), "%s",
                           lkv_msg_text(msg));
        cr_assert_eq(lkv_outcome(lkv_msg_rc(msg)), LKV_NOT_DONE);
        lkv_msg_free(msg);
        const struct lkv_query query = {.rev = 9, .how = LKV_LOCAL};
        cr_assert_eq(lkv_find(handles[i], &query, WAIT_MS, &msg), LKV_EFUTURE);
        cr_assert_eq(number(msg, "rev"), 8);
        lkv_msg_free(msg);
    }
}

Test(lib_node_reads, submitted_forms_answer_on_the_queue) {
    struct lkv *const handles[] = {db, remote};
    struct lkv_queue *queue;
    fill();
    cr_assert_eq(lkv_queue_new(&queue), 0);
    for (size_t i = 0; i < 2; i++) {
        const struct lkv_query query = {.rev = 8, .from = LKV_STR("c")};
        cr_assert_eq(lkv_find_submit(handles[i], &query, WAIT_MS, queue, &world), 0);
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_eq(lkv_msg_tag(msg), (void *)&world);
        expect_keys(msg, "cd");
        lkv_msg_free(msg);
        cr_assert_eq(
            lkv_get_at_submit(handles[i], LKV_STR("x"), 8, LKV_LOCAL, WAIT_MS, queue, NULL), 0);
        msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_eq(lkv_msg_rc(msg), LKV_ENOTFOUND);
        cr_assert_eq(number(msg, "rev"), 8);
        lkv_msg_free(msg);
    }
    lkv_queue_free(queue);
}

Test(lib_node_reads, what_a_query_cannot_mean_is_refused_at_once) {
    const struct lkv_query queries[] = {{.flags = 16},
                                        {.order = (enum lkv_order)5},
                                        {.order = (enum lkv_order) - 1},
                                        {.how = (enum lkv_read)1},
                                        {.from = {.size = 1}},
                                        {.reserved = {NULL, NULL, NULL, &world}}};
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        struct lkv_msg *msg = NULL;
        cr_assert_eq(lkv_find(db, &queries[i], WAIT_MS, &msg), LKV_EINVAL, "%zu", i);
        cr_assert(msg == NULL && lkv_last_text()[0] != '\0');
    }
    cr_assert_eq(lkv_find(db, NULL, WAIT_MS, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_find(NULL, &(struct lkv_query){0}, WAIT_MS, NULL), LKV_EINVAL);
}
