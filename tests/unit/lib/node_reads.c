/* Queries, reads of older revisions, views and iterators by the public verbs, on a node and through a client
 * of it. */
#include "tests/unit/lib/node_world.h"

static struct world world;
static struct lkv *db, *remote;

static char address[64];

static struct lkv *new_remote(void) {
    struct lkv_options *options = lkv_options_new();
    struct lkv *out;
    cr_assert_eq(lkv_options_set(options, "endpoints", address), 0);
    cr_assert_eq(lkv_connect(&out, options, NULL), 0);
    lkv_options_free(options);
    return out;
}

static void setup(void) {
    world_init(&world);
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", world.ports[0]);
    cr_assert_eq(lkv_options_set(options, "listen", address), 0);
    cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
    remote = new_remote();
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

static void await_number(struct lkv *handle, const char *name, uint64_t value) {
    for (int64_t end = now_ms() + WAIT_MS; status_number(handle, name) != value; sleep_ms(2)) {
        cr_assert_lt(now_ms(), end, "%s is not %lu", name, value);
    }
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

Test(lib_node_reads, c7_the_newest_revision_is_kept_and_the_next_one_is_of_the_future) {
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
                                        {.how = (enum lkv_read)4},
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

/* ------------------------------------------------------------------ views */

static void expect_walk(struct lkv_view *view, int flags, const char *keys) {
    struct lkv_iter *iter;
    struct lkv_kv item;
    cr_assert_eq(lkv_iter_open(view, LKV_STR(""), LKV_STR(""), flags, &iter), 0);
    for (const char *key = keys; *key != '\0'; key++) {
        cr_assert_eq(lkv_iter_next(iter, &item), 1, "%s before %s", lkv_last_text(), key);
        cr_assert_eq(*(const char *)item.key.data, *key);
    }
    cr_assert_eq(lkv_iter_next(iter, &item), 0, "%s", lkv_last_text());
    lkv_iter_close(iter);
}

Test(lib_node_reads, c16_a_view_shows_its_revision_until_it_is_closed) {
    struct lkv *const handles[] = {db, remote};
    for (size_t i = 0; i < 2; i++) {
        struct lkv_view *view;
        fill();
        cr_assert_eq(lkv_view_open(handles[i], LKV_LINEARIZABLE, 0, 60000, &view), 0);
        const uint64_t rev = lkv_view_rev(view);
        put(db, "c", "new");
        put(db, "e", "new");
        cr_assert_eq(lkv_delete(db, LKV_STR("b"), WAIT_MS, NULL), 0);
        expect_walk(view, 0, "abcd");
        expect_walk(view, LKV_DESCENDING | LKV_KEYS_ONLY, "dcba");
        cr_assert_eq(lkv_view_rev(view), rev);
        struct lkv_msg *msg = NULL;
        cr_assert_eq(lkv_get_at(handles[i], LKV_STR("b"), rev, LKV_LOCAL, WAIT_MS, &msg), 0);
        expect_keys(msg, "b"); /* deleted since */
        lkv_msg_free(msg);
        cr_assert_eq(status_number(handles[i], "views"), 1);
        lkv_view_close(view);
        await_number(db, "views", 0);
        cr_assert_eq(lkv_delete(db, LKV_STR("e"), WAIT_MS, NULL), 0);
    }
}

/* A page is about 1 MiB: these keys take several. */
Test(lib_node_reads, an_iterator_goes_on_from_page_to_page) {
    static char value[400 * 1024];
    for (const char *key = "abcdefgh"; *key != '\0'; key++) {
        cr_assert_eq(lkv_put(db, (struct lkv_bytes){key, 1},
                             (struct lkv_bytes){value, sizeof(value)}, WAIT_MS, NULL),
                     0);
    }
    struct lkv *const handles[] = {db, remote};
    for (size_t i = 0; i < 2; i++) {
        struct lkv_view *view;
        cr_assert_eq(lkv_view_open(handles[i], LKV_LOCAL, 0, 60000, &view), 0);
        put(db, "ab", "new");
        cr_assert_eq(lkv_delete(db, LKV_STR("h"), WAIT_MS, NULL), 0);
        expect_walk(view, 0, "abcdefgh");
        expect_walk(view, LKV_DESCENDING, "hgfedcba");
        lkv_view_close(view);
        cr_assert_eq(lkv_delete(db, LKV_STR("ab"), WAIT_MS, NULL), 0);
        put(db, "h", "again");
    }
}

Test(lib_node_reads, there_are_only_so_many_views_and_they_end_by_themselves) {
    static struct lkv_view *views[LKV_VIEWS_MAX];
    struct lkv_view *more;
    for (size_t i = 0; i < LKV_VIEWS_MAX; i++) {
        cr_assert_eq(lkv_view_open(i % 8 == 0 ? remote : db, LKV_LOCAL, 0, 60000, &views[i]), 0);
    }
    struct lkv *const handles[] = {db, remote};
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(lkv_view_open(handles[i], LKV_LOCAL, 0, 60000, &more), LKV_EBUSY);
        cr_assert_not_null(strstr(lkv_last_text(), "n1 has 256 views open, at most 256"), "%s",
                           lkv_last_text());
    }
    lkv_view_close(views[7]);
    await_number(db, "views", LKV_VIEWS_MAX - 1);
    cr_assert_eq(lkv_view_open(remote, LKV_LOCAL, 0, 50, &more), 0);
    await_number(db, "views", LKV_VIEWS_MAX - 1); /* it was opened for 50 ms */
    struct lkv_iter *iter;
    cr_assert_eq(lkv_iter_open(more, LKV_STR(""), LKV_STR(""), 0, &iter), LKV_EVIEW);
    lkv_view_close(more);
    for (size_t i = 0; i < LKV_VIEWS_MAX; i++) {
        if (i != 7) {
            lkv_view_close(views[i]);
        }
    }
    await_number(db, "views", 0);
}

/* One client leaves room for the others. */
Test(lib_node_reads, a_connection_has_its_quota_of_views) {
    static struct lkv_view *views[LKV_CONNECTION_VIEWS_MAX];
    struct lkv_view *more;
    for (size_t i = 0; i < LKV_CONNECTION_VIEWS_MAX; i++) {
        cr_assert_eq(lkv_view_open(remote, LKV_LOCAL, 0, 60000, &views[i]), 0);
    }
    cr_assert_eq(lkv_view_open(remote, LKV_LINEARIZABLE, 0, 60000, &more), LKV_EBUSY);
    cr_assert_str_eq(lkv_last_text(), "this connection has 64 views open at n1, at most 64");
    cr_assert_eq(lkv_outcome(LKV_EBUSY), LKV_NOT_DONE);
    struct lkv *other = new_remote();
    cr_assert_eq(lkv_view_open(other, LKV_LOCAL, 0, 50, &more), 0, "another client's");
    lkv_view_close(more);
    cr_assert_eq(lkv_close(other, 0), 0);
    cr_assert_eq(lkv_view_open(db, LKV_LOCAL, 0, 60000, &more), 0, "the node's own");
    lkv_view_close(more);
    lkv_view_close(views[0]);
    await_number(db, "views", LKV_CONNECTION_VIEWS_MAX - 1);
    cr_assert_eq(lkv_view_open(remote, LKV_LOCAL, 0, 60000, &views[0]), 0, "one was closed");
    for (size_t i = 0; i < LKV_CONNECTION_VIEWS_MAX; i++) {
        lkv_view_close(views[i]);
    }
    await_number(db, "views", 0);
}
