/* Views and iterators on a handle that answers as it is told, in a time of its own. */
#include "lib/view.h"

#include "base/loop.h"
#include "base/mem.h"

#include <criterion/criterion.h>

enum { KEYS_MAX = 26 };

static struct {
    struct lkv handle;
    struct lkv_ops ops;
    uint64_t now_ns;
    int rc;           /* of the next answers */
    const char *keys; /* letters, ascending */
    size_t page;      /* items of one */
    struct request last;
    char from[8], to[8]; /* of it */
    size_t asked, opened, closed;
    int submit_rc;
} fake;

static struct lkv *db;

static size_t select_keys(const struct request *request, char out[static KEYS_MAX]) {
    size_t count = 0;
    for (const char *key = fake.keys; *key != '\0'; key++) {
        struct slice at = slice_of(key, 1);
        if (slice_compare(at, request->key) >= 0 &&
            (request->end.size == 0 || slice_compare(at, request->end) < 0)) {
            out[count++] = *key;
        }
    }
    if ((request->range_flags & LKV_DESCENDING) != 0) {
        for (size_t i = 0; i < count / 2; i++) {
            char other = out[i];
            out[i] = out[count - 1 - i];
            out[count - 1 - i] = other;
        }
    }
    return count;
}

static void answer_range(struct request *request) {
    struct lkv_msg *reply = request->reply;
    char keys[KEYS_MAX];
    size_t count = select_keys(request, keys);
    size_t shown = count < fake.page ? count : fake.page;
    reply->backing = blob_copy(slice_of(keys, shown));
    reply->range.items = mem_calloc(shown + 1, sizeof(struct kv_item));
    reply->range.count = shown;
    for (size_t i = 0; i < shown; i++) {
        reply->range.items[i].key = slice_of(reply->backing->data + i, 1);
    }
    msg_set_u64(reply, "more", shown < count);
}

static void copy_key(char out[static 8], struct slice key) {
    cr_assert_lt(key.size, 8);
    memset(out, 0, 8);
    if (key.size > 0) {
        memcpy(out, key.data, key.size);
    }
}

static int fake_submit(struct lkv *handle, struct request *request) {
    (void)handle;
    if (fake.submit_rc != 0) {
        return fake.submit_rc;
    }
    fake.last = *request;
    fake.asked += request->op == REQUEST_RANGE;
    fake.opened += request->op == REQUEST_VIEW_OPEN;
    fake.closed += request->op == REQUEST_VIEW_CLOSE;
    copy_key(fake.from, request->key);
    copy_key(fake.to, request->end);
    if (fake.rc != 0) {
        request_fail(request, fake.rc, "told so");
        return 0;
    }
    if (request->op == REQUEST_VIEW_OPEN) {
        msg_set_u64(request->reply, "rev", request->select.rev != 0 ? request->select.rev : 44);
        msg_set_u64(request->reply, "view", 5);
    } else if (request->op == REQUEST_RANGE) {
        answer_range(request);
    }
    request_finish(request);
    return 0;
}

static int fake_close(struct lkv *handle, int64_t handover_ms) {
    (void)handle;
    (void)handover_ms;
    return 0;
}

static uint64_t fake_now_ns(const struct lkv *handle) {
    (void)handle;
    return fake.now_ns;
}

static void setup(void) {
    memset(&fake, 0, sizeof(fake));
    fake.ops = (struct lkv_ops){.submit = fake_submit, .close = fake_close, .now_ns = fake_now_ns};
    fake.handle = (struct lkv){.ops = &fake.ops, .timeout_ms = 5000, .key_bytes_max = 8192};
    subscriptions_init(&fake.handle.subscriptions);
    fake.now_ns = 1000 * MS_NS;
    fake.keys = "abcdefg";
    fake.page = 3;
    db = &fake.handle;
}

TestSuite(lib_view, .init = setup);

static struct lkv_view *open_view(uint64_t rev, int64_t age_ms) {
    struct lkv_view *view;
    cr_assert_eq(lkv_view_open(db, LKV_LINEARIZABLE, rev, age_ms, &view), 0);
    return view;
}

static struct lkv_iter *open_iter(struct lkv_view *view, const char *from, const char *to,
                                  int flags) {
    struct lkv_iter *iter;
    cr_assert_eq(lkv_iter_open(view, (struct lkv_bytes){from, strlen(from)},
                               (struct lkv_bytes){to, strlen(to)}, flags, &iter),
                 0);
    return iter;
}

static void expect_items(struct lkv_iter *iter, const char *keys) {
    struct lkv_kv item;
    for (const char *key = keys; *key != '\0'; key++) {
        cr_assert_eq(lkv_iter_next(iter, &item), 1, "before %s", key);
        cr_assert(item.key.size == 1 && *(const char *)item.key.data == *key);
    }
}

static void expect_end(struct lkv_iter *iter) {
    struct lkv_kv item;
    cr_assert_eq(lkv_iter_next(iter, &item), 0);
    cr_assert_eq(lkv_iter_next(iter, &item), 0);
}

Test(lib_view, an_iterator_goes_on_behind_the_last_key_of_its_page) {
    struct lkv_view *view = open_view(0, 60000);
    cr_assert_eq(lkv_view_rev(view), 44);
    cr_assert_eq(fake.last.view_age_ms, 60000);
    struct lkv_iter *iter = open_iter(view, "", "", LKV_KEYS_ONLY);
    cr_assert_eq(fake.asked, 0, "opening one asks nobody");
    expect_items(iter, "abc");
    cr_assert_eq(fake.asked, 1);
    expect_items(iter, "def");
    cr_assert(fake.from[0] == 'c' && fake.last.key.size == 2, "the first key behind c");
    cr_assert(fake.last.select.rev == 44 && fake.last.op == REQUEST_RANGE);
    cr_assert(fake.last.range_flags == LKV_KEYS_ONLY && fake.last.how == LKV_LINEARIZABLE);
    expect_items(iter, "g");
    expect_end(iter);
    cr_assert_eq(fake.asked, 3);
    lkv_iter_close(iter);
    lkv_view_close(view);
    cr_assert(fake.closed == 1 && fake.last.view == 5);
}

Test(lib_view, an_iterator_descends_within_its_bounds) {
    struct lkv_view *view = open_view(9, 60000);
    struct lkv_iter *iter = open_iter(view, "b", "g", LKV_DESCENDING);
    expect_items(iter, "fedcb");
    cr_assert(strcmp(fake.to, "d") == 0 && strcmp(fake.from, "b") == 0);
    expect_end(iter);
    struct lkv_iter *other = open_iter(view, "x", "", 0);
    expect_end(other);
    lkv_iter_close(iter);
    lkv_iter_close(other);
    lkv_view_close(view);
}

Test(lib_view, after_an_error_it_goes_on_where_it_was) {
    struct lkv_view *view = open_view(9, 60000);
    struct lkv_iter *iter = open_iter(view, "", "", 0);
    struct lkv_kv item;
    expect_items(iter, "abc");
    fake.rc = LKV_ENOLEADER;
    cr_assert_eq(lkv_iter_next(iter, &item), LKV_ENOLEADER);
    fake.rc = LKV_ECOMPACTED;
    cr_assert_eq(lkv_iter_next(iter, &item), LKV_ECOMPACTED);
    cr_assert_str_eq(lkv_last_text(), "told so");
    fake.rc = 0;
    expect_items(iter, "defg");
    expect_end(iter);
    lkv_iter_close(iter);
    lkv_view_close(view);
}

Test(lib_view, a_view_that_is_too_old_says_which_one) {
    struct lkv_view *view = open_view(9, 3000);
    struct lkv_iter *iter = open_iter(view, "", "", 0), *late = NULL;
    struct lkv_kv item;
    expect_items(iter, "a");
    fake.now_ns += 1000 * MS_NS;
    expect_items(iter, "bcd");
    cr_assert_eq(fake.last.deadline_ns, 4000 * MS_NS, "no page comes later than the view ends");
    fake.now_ns += 2000 * MS_NS;
    expect_items(iter, "ef"); /* of the page at hand */
    cr_assert_eq(lkv_iter_next(iter, &item), LKV_EVIEW);
    cr_assert_str_eq(lkv_last_text(),
                     "the view of revision 9 is too old: it was opened for 3000 ms");
    cr_assert_eq(lkv_iter_open(view, LKV_STR(""), LKV_STR(""), 0, &late), LKV_EVIEW);
    cr_assert_null(late);
    lkv_iter_close(iter);
    lkv_view_close(view);
    cr_assert_eq(fake.closed, 0, "it has ended by itself");
}

static int late_submit(struct lkv *handle, struct request *request) {
    fake.now_ns += 10000 * MS_NS;
    fake.rc = LKV_ETIMEOUT;
    return fake_submit(handle, request);
}

Test(lib_view, a_page_that_outlives_its_view_is_too_old_too) {
    struct lkv_view *view = open_view(9, 3000);
    struct lkv_iter *iter = open_iter(view, "", "", 0);
    struct lkv_kv item;
    fake.ops.submit = late_submit;
    cr_assert_eq(lkv_iter_next(iter, &item), LKV_EVIEW);
    lkv_iter_close(iter);
    lkv_view_close(view);
}

Test(lib_view, what_is_closed_first_makes_no_difference) {
    struct lkv_view *view = open_view(9, 3000), *other = open_view(0, 3000);
    struct lkv_iter *iter = open_iter(view, "", "", 0), *second = open_iter(other, "", "", 0);
    struct lkv_kv item;
    expect_items(iter, "a");
    lkv_view_close(view);
    expect_items(iter, "bc");
    cr_assert_eq(lkv_iter_next(iter, &item), LKV_EVIEW);
    cr_assert_str_eq(lkv_last_text(), "the view of revision 9 is closed");
    lkv_iter_close(iter);
    cr_assert_eq(lkv_close(db, 0), 0);
    cr_assert_eq(lkv_iter_next(second, &item), LKV_ECLOSED);
    cr_assert_eq(lkv_view_rev(other), 44);
    lkv_view_close(other);
    lkv_iter_close(second);
    cr_assert_eq(fake.closed, 1, "the other's node is gone with its handle");
    lkv_view_close(NULL);
    lkv_iter_close(NULL);
    cr_assert_eq(lkv_view_rev(NULL), 0);
}

Test(lib_view, what_cannot_be_opened_leaves_nothing) {
    struct lkv_view *view;
    struct lkv_iter *iter;
    const struct {
        enum lkv_read how;
        int64_t age_ms;
    } wrong[] = {{LKV_LOCAL, 0}, {LKV_LOCAL, LKV_VIEW_AGE_MS_MAX + 1}, {LKV_LOCAL, -1}, {4, 10}};
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(lkv_view_open(db, wrong[i].how, 0, wrong[i].age_ms, &view), LKV_EINVAL);
        cr_assert(view == NULL && lkv_last_text()[0] != '\0');
    }
    cr_assert_eq(lkv_view_open(NULL, LKV_LOCAL, 0, 10, &view), LKV_EINVAL);
    fake.rc = LKV_EFUTURE;
    cr_assert_eq(lkv_view_open(db, LKV_LOCAL, 99, 10, &view), LKV_EFUTURE);
    cr_assert(view == NULL && fake.handle.views.first == NULL && fake.closed == 0);
    cr_assert_str_eq(lkv_last_text(), "told so");
    fake.rc = 0;
    fake.submit_rc = LKV_EBUSY;
    cr_assert_eq(lkv_view_open(db, LKV_LOCAL, 0, 10, &view), LKV_EBUSY);
    cr_assert_null(fake.handle.views.first);
    fake.submit_rc = 0;
    view = open_view(0, 10);
    cr_assert_eq(lkv_iter_open(view, LKV_STR(""), LKV_STR(""), LKV_TOTAL, &iter), LKV_EINVAL);
    cr_assert_eq(lkv_iter_open(view, (struct lkv_bytes){NULL, 1}, LKV_STR(""), 0, &iter),
                 LKV_EINVAL);
    cr_assert_eq(lkv_iter_open(NULL, LKV_STR(""), LKV_STR(""), 0, &iter), LKV_EINVAL);
    cr_assert_eq(lkv_iter_next(NULL, NULL), LKV_EINVAL);
    fake.submit_rc = LKV_ECLOSED; /* nobody can be told that it is closed */
    lkv_view_close(view);
}

Test(lib_view, without_memory_there_is_no_view_and_no_iterator) {
    struct lkv_view *view = NULL;
    struct lkv_iter *iter = NULL;
    int rc = LKV_ENOMEM;
    for (uint64_t n = 0; rc != 0; n++) {
        mem_fail_after(n);
        rc = lkv_view_open(db, LKV_LOCAL, 0, 10, &view);
        mem_fail_never();
        cr_assert(rc == 0 || (rc == LKV_ENOMEM && view == NULL), "%d", rc);
    }
    rc = LKV_ENOMEM;
    for (uint64_t n = 0; rc != 0; n++) {
        mem_fail_after(n);
        rc = lkv_iter_open(view, LKV_STR("a"), LKV_STR("d"), 0, &iter);
        mem_fail_never();
        cr_assert(rc == 0 || (rc == LKV_ENOMEM && iter == NULL), "%d", rc);
    }
    expect_items(iter, "abc");
    expect_end(iter);
    lkv_iter_close(iter);
    lkv_view_close(view);
}
