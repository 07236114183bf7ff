/* The public verbs on a handle that answers at once, later, or not. */
#include "base/mem.h"
#include "kv/command.h"
#include "lib/handle.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>

/* A handle that keeps the last request, or answers it. */
static struct {
    struct lkv handle;
    struct lkv_ops ops;
    int submit_rc; /* of the next submit */
    int reply_rc;  /* of its answer */
    bool later;    /* answered by another thread */
    struct request *kept;
    struct kv_command command; /* of the last write */
    uint8_t bytes[1 << 16];
    struct request copy; /* of the last request; its pointers are not valid any more */
    size_t key_size, end_size;
    int64_t handover_ms;
    size_t local_gets;
} fake;

static void keep_command(const struct request *request) {
    struct reason why;
    memcpy(fake.bytes, request->command->data, request->command->size);
    cr_assert_eq(
        kv_command_decode(slice_of(fake.bytes, request->command->size), &fake.command, &why), 0);
}

static void answer(struct request *request) {
    msg_set_u64(request->reply, "rev", 42);
    msg_set_u64(request->reply, "count", 3);
    if (fake.reply_rc == 0) {
        request_finish(request);
    } else {
        request_fail(request, fake.reply_rc, "the fake says %d", fake.reply_rc);
    }
}

static void *answer_later(void *arg) {
    (void)poll(NULL, 0, 20);
    answer(arg);
    return NULL;
}

static int fake_submit(struct lkv *db, struct request *request) {
    cr_assert_eq(db, &fake.handle);
    if (fake.submit_rc != 0) {
        return fake.submit_rc;
    }
    fake.copy = *request;
    fake.key_size = request->key.size;
    fake.end_size = request->end.size;
    if (request->op == REQUEST_WRITE && request->command->size <= sizeof(fake.bytes)) {
        keep_command(request);
    }
    if (fake.later) {
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, answer_later, request), 0);
        (void)pthread_detach(thread);
    } else {
        answer(request);
    }
    return 0;
}

static int fake_close(struct lkv *db, int64_t handover_ms) {
    (void)db;
    fake.handover_ms = handover_ms;
    return LKV_EIO;
}

static uint64_t fake_now_ns(const struct lkv *db) {
    (void)db;
    return 1000;
}

static int fake_get_local(struct lkv *db, struct request *request) {
    (void)db;
    fake.local_gets++;
    msg_set_u64(request->reply, "rev", 7);
    return fake.reply_rc;
}

static int fake_get_copy(struct lkv *db, struct slice key, void *into, size_t capacity,
                         size_t *size) {
    (void)db;
    if (fake.reply_rc != 0) {
        return fake.reply_rc;
    }
    *size = key.size;
    memcpy(into, key.data, key.size < capacity ? key.size : capacity);
    return 0;
}

static struct lkv *db;
static struct lkv_queue *queue;

static void open_fake(void) {
    memset(&fake, 0, sizeof(fake));
    fake.ops = (struct lkv_ops){.submit = fake_submit, .close = fake_close, .now_ns = fake_now_ns};
    fake.handle = (struct lkv){
        .ops = &fake.ops, .timeout_ms = 5000, .key_bytes_max = 8192, .value_bytes_max = 100000};
    db = &fake.handle;
    cr_assert_eq(lkv_queue_new(&queue), 0);
}

static void close_fake(void) {
    lkv_queue_free(queue);
}

TestSuite(lib_api, .init = open_fake, .fini = close_fake);

static struct lkv_bytes bytes_of(const void *data, size_t size) {
    return (struct lkv_bytes){.data = data, .size = size};
}

static char big[200000];

Test(lib_api, put_gives_the_revision) {
    uint64_t rev = 0;
    cr_assert_eq(lkv_put(db, LKV_STR("key"), LKV_STR("value"), LKV_DEFAULT, &rev), 0);
    cr_assert_eq(rev, 42);
    cr_assert_eq(fake.command.op, KV_PUT);
    cr_assert(slice_equal(fake.command.key, slice_text("key")));
    cr_assert(slice_equal(fake.command.value, slice_text("value")));
    cr_assert_eq(lkv_put(db, LKV_STR("key"), LKV_STR(""), 10, NULL), 0);
    cr_assert_eq(fake.copy.deadline_ns, 1000 + 10 * UINT64_C(1000000));
}

Test(lib_api, blocking_calls_wait_for_another_thread) {
    fake.later = true;
    uint64_t rev = 0, count = 0;
    cr_assert_eq(lkv_delete(db, LKV_STR("key"), LKV_DEFAULT, &rev), 0);
    cr_assert_eq(rev, 42);
    cr_assert_eq(lkv_delete_range(db, LKV_STR("a"), LKV_STR("b"), LKV_DEFAULT, &rev, &count), 0);
    cr_assert_eq(count, 3);
}

Test(lib_api, submitted_calls_answer_on_the_queue_with_their_tag) {
    int tag;
    cr_assert_eq(lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), 100, queue, &tag), 0);
    struct lkv_msg *msg = lkv_queue_next(queue, 0);
    cr_assert_not_null(msg);
    cr_assert_eq(lkv_msg_tag(msg), (void *)&tag);
    cr_assert_eq(lkv_msg_kind(msg), LKV_REPLY);
    lkv_msg_free(msg);
    cr_assert_eq(lkv_get_submit(db, LKV_STR("k"), LKV_LINEARIZABLE, 100, queue, NULL), 0);
    cr_assert_eq(fake.copy.op, REQUEST_GET);
    cr_assert_eq(lkv_delete_submit(db, LKV_STR("k"), LKV_STR("z"), false, 100, queue, NULL), 0);
    cr_assert_eq(fake.command.end.size, 0, "one key");
    cr_assert_eq(
        lkv_range_submit(db, LKV_STR("k"), LKV_STR(""), 9, LKV_TOTAL, LKV_LOCAL, 100, queue, NULL),
        0);
    cr_assert_eq(fake.copy.limit, 9);
    cr_assert_eq(fake.copy.range_flags, LKV_TOTAL);
    cr_assert_eq(fake.copy.how, LKV_LOCAL);
    for (int i = 0; i < 3; i++) {
        lkv_msg_free(lkv_queue_next(queue, 0));
    }
    cr_assert_null(lkv_queue_next(queue, 0));
}

Test(lib_api, a_failed_submit_yields_no_message) {
    fake.submit_rc = LKV_EBUSY;
    cr_assert_eq(lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), 100, queue, NULL), LKV_EBUSY);
    cr_assert_str_eq(lkv_last_text(), lkv_error_text(LKV_EBUSY));
    cr_assert_eq(lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), 100, NULL, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_put(db, LKV_STR("k"), LKV_STR("v"), 100, NULL), LKV_EBUSY);
    cr_assert_null(lkv_queue_next(queue, 0));
}

Test(lib_api, outcomes_of_replies_are_returned_with_their_text) {
    fake.reply_rc = LKV_EUNKNOWN;
    cr_assert_eq(lkv_put(db, LKV_STR("k"), LKV_STR("v"), 100, NULL), LKV_EUNKNOWN);
    cr_assert_str_eq(lkv_last_text(), "the fake says -10");
    fake.reply_rc = LKV_ENOTFOUND;
    struct lkv_msg *msg;
    cr_assert_eq(lkv_get(db, LKV_STR("k"), LKV_LINEARIZABLE, 100, &msg), LKV_ENOTFOUND);
    uint64_t rev;
    cr_assert(lkv_msg_u64(msg, "rev", &rev) && rev == 42);
    lkv_msg_free(msg);
    cr_assert_eq(lkv_get(db, LKV_STR("k"), LKV_LINEARIZABLE, 100, NULL), LKV_ENOTFOUND);
}

/* N6, X-C9 */
Test(lib_api, sizes_up_to_the_limit_pass_and_one_more_is_refused) {
    cr_assert_eq(lkv_put(db, bytes_of(big, 0), LKV_STR("v"), 100, NULL), LKV_EINVAL);
    cr_assert_str_eq(lkv_last_text(), "the key is empty");
    cr_assert_eq(lkv_put(db, bytes_of(big, 8192), LKV_STR("v"), 100, NULL), 0);
    cr_assert_eq(fake.command.key.size, 8192);
    cr_assert_eq(lkv_put(db, bytes_of(big, 8193), LKV_STR("v"), 100, NULL), LKV_ETOOLARGE);
    cr_assert_str_eq(lkv_last_text(), "the key has 8193 bytes, key_bytes_max is 8192");
    cr_assert_eq(lkv_put(db, LKV_STR("k"), bytes_of(big, 0), 100, NULL), 0);
    cr_assert_eq(lkv_put(db, LKV_STR("k"), bytes_of(NULL, 0), 100, NULL), 0);
    cr_assert_eq(lkv_put(db, LKV_STR("k"), bytes_of(big, 100000), 100, NULL), 0);
    cr_assert_eq(lkv_put(db, LKV_STR("k"), bytes_of(big, 100001), 100, NULL), LKV_ETOOLARGE);
    cr_assert_str_eq(lkv_last_text(), "the value has 100001 bytes, value_bytes_max is 100000");
    cr_assert_eq(lkv_put_submit(db, LKV_STR("k"), bytes_of(big, 100001), 100, queue, NULL),
                 LKV_ETOOLARGE);
    cr_assert_eq(lkv_put(db, LKV_STR("\0\xff\0"), LKV_STR("\0"), 100, NULL), 0);
    cr_assert_eq(fake.command.key.size, 3);
    cr_assert_eq(lkv_put(db, bytes_of(NULL, 1), LKV_STR("v"), 100, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_get(db, bytes_of(big, 8193), LKV_LOCAL, 100, NULL), LKV_ETOOLARGE);
    cr_assert_eq(lkv_get(db, bytes_of(big, 0), LKV_LOCAL, 100, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_delete(db, bytes_of(big, 8193), 100, NULL), LKV_ETOOLARGE);
}

Test(lib_api, a_range_may_begin_behind_the_longest_key) {
    cr_assert_eq(lkv_range(db, bytes_of(big, 8193), LKV_STR(""), 0, 0, LKV_LOCAL, 100, NULL), 0);
    cr_assert_eq(fake.key_size, 8193);
    cr_assert_eq(lkv_range(db, bytes_of(big, 8194), LKV_STR(""), 0, 0, LKV_LOCAL, 100, NULL),
                 LKV_ETOOLARGE);
    cr_assert_eq(lkv_range(db, LKV_STR(""), bytes_of(big, 8194), 0, 0, LKV_LOCAL, 100, NULL),
                 LKV_ETOOLARGE);
    cr_assert_eq(lkv_range(db, LKV_STR(""), LKV_STR(""), 0, 16, LKV_LOCAL, 100, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_delete_range(db, bytes_of(big, 8193), LKV_STR(""), 100, NULL, NULL),
                 LKV_ETOOLARGE);
}

static void delete_range(struct lkv_bytes from, struct lkv_bytes to, struct slice key,
                         struct slice end) {
    cr_assert_eq(lkv_delete_range(db, from, to, 100, NULL, NULL), 0);
    cr_assert_eq(fake.command.op, KV_DELETE);
    cr_assert(slice_equal(fake.command.key, key));
    cr_assert(slice_equal(fake.command.end, end));
}

/* A command's end of one zero byte means "to the last key". */
Test(lib_api, deleting_a_range_never_deletes_more_than_the_range) {
    const struct slice zero = slice_of("\0", 1), two_zeros = slice_of("\0\0", 2);
    delete_range(LKV_STR("a"), LKV_STR("b"), slice_text("a"), slice_text("b"));
    delete_range(LKV_STR("a"), LKV_STR(""), slice_text("a"), zero);
    delete_range(LKV_STR(""), LKV_STR("b"), zero, slice_text("b"));
    delete_range(LKV_STR(""), LKV_STR(""), zero, zero);
    delete_range(LKV_STR(""), LKV_STR("\0"), two_zeros, two_zeros);
    delete_range(LKV_STR("a"), LKV_STR("\0"), two_zeros, two_zeros);
    delete_range(LKV_STR("b"), LKV_STR("a"), slice_text("b"), slice_text("a"));
}

Test(lib_api, refuses_bad_timeouts_and_ways_to_read) {
    cr_assert_eq(lkv_put(db, LKV_STR("k"), LKV_STR("v"), -2, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_put(db, LKV_STR("k"), LKV_STR("v"), INT64_MIN, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_put(db, LKV_STR("k"), LKV_STR("v"), INT64_MAX, NULL), 0);
    cr_assert_eq(fake.copy.deadline_ns, UINT64_MAX);
    cr_assert_eq(lkv_put(db, LKV_STR("k"), LKV_STR("v"), LKV_DEFAULT, NULL), 0);
    cr_assert_eq(fake.copy.deadline_ns, 1000 + 5000 * UINT64_C(1000000));
    cr_assert_eq(lkv_get(db, LKV_STR("k"), (enum lkv_read)4, 100, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_put(NULL, LKV_STR("k"), LKV_STR("v"), 100, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_get(NULL, LKV_STR("k"), LKV_LOCAL, 100, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_status(NULL, 100, NULL), LKV_EINVAL);
}

Test(lib_api, local_gets_of_a_node_stay_on_the_callers_thread) {
    fake.ops.get_local = fake_get_local;
    fake.submit_rc = LKV_EBUSY;
    struct lkv_msg *msg;
    cr_assert_eq(lkv_get(db, LKV_STR("k"), LKV_LOCAL, 100, &msg), 0);
    lkv_msg_free(msg);
    fake.reply_rc = LKV_ENOTFOUND;
    cr_assert_eq(lkv_get(db, LKV_STR("k"), LKV_LOCAL, 100, &msg), LKV_ENOTFOUND);
    uint64_t rev;
    cr_assert(lkv_msg_u64(msg, "rev", &rev) && rev == 7);
    lkv_msg_free(msg);
    cr_assert_eq(lkv_get_submit(db, LKV_STR("k"), LKV_LOCAL, 100, queue, NULL), 0);
    msg = lkv_queue_next(queue, 0);
    cr_assert_eq(lkv_msg_rc(msg), LKV_ENOTFOUND);
    lkv_msg_free(msg);
    cr_assert_eq(fake.local_gets, 3);
    cr_assert_eq(lkv_get(db, LKV_STR("k"), LKV_LINEARIZABLE, 100, NULL), LKV_EBUSY);
}

Test(lib_api, what_a_handle_cannot_do_is_unsupported) {
    size_t size;
    char into[2];
    cr_assert_eq(lkv_get_copy(db, LKV_STR("key"), into, 2, &size), LKV_EUNSUPPORTED);
    cr_assert_eq(lkv_role_watch(db, queue, NULL), LKV_EUNSUPPORTED);
    fake.ops.get_copy = fake_get_copy;
    cr_assert_eq(lkv_get_copy(db, LKV_STR("key"), into, 2, &size), 0);
    cr_assert_eq(size, 3);
    cr_assert_eq(lkv_get_copy(db, LKV_STR(""), into, 2, &size), LKV_EINVAL);
    cr_assert_eq(lkv_get_copy(db, LKV_STR("key"), NULL, 5, &size), LKV_EINVAL);
    cr_assert_eq(lkv_get_copy(db, LKV_STR("key"), into, 2, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_options_set(NULL, "dir", "d"), LKV_EINVAL);
    cr_assert_neq(lkv_options_error(NULL)[0], '\0');
    cr_assert_eq(lkv_role_watch(db, NULL, NULL), LKV_EINVAL);
}

Test(lib_api, what_get_copy_does_not_find_is_no_older_calls_failure) {
    size_t size;
    char into[2];
    fake.ops.get_copy = fake_get_copy;
    cr_assert_eq(lkv_get_copy(db, LKV_STR(""), into, 2, &size), LKV_EINVAL);
    cr_assert_str_eq(lkv_last_text(), "the key is empty");
    fake.reply_rc = LKV_ENOTFOUND;
    cr_assert_eq(lkv_get_copy(db, LKV_STR("k"), into, 2, &size), LKV_ENOTFOUND);
    cr_assert_str_eq(lkv_last_text(), lkv_error_text(LKV_ENOTFOUND));
}

Test(lib_api, close_passes_the_time_for_a_handover) {
    cr_assert_eq(lkv_close(NULL, 0), 0);
    cr_assert_eq(lkv_close(db, 70), LKV_EIO);
    cr_assert_eq(fake.handover_ms, 70);
    (void)lkv_close(db, LKV_DEFAULT);
    cr_assert_eq(fake.handover_ms, 5000);
    (void)lkv_close(db, -5);
    cr_assert_eq(fake.handover_ms, 0);
}

Test(lib_api, connect_refuses_bad_arguments) {
    struct lkv *out = db;
    struct lkv_msg *why;
    cr_assert_eq(lkv_connect(&out, NULL, &why), LKV_EINVAL);
    cr_assert_null(out);
    cr_assert_not_null(why);
    lkv_msg_free(why);
    struct lkv_options *options = lkv_options_new();
    cr_assert_eq(lkv_options_set(options, "endpoints", ""), 0);
    cr_assert_eq(lkv_connect(&out, options, &why), LKV_EOPTION);
    cr_assert_str_eq(lkv_msg_text(why), "endpoints: expected HOST:PORT,...; got none");
    lkv_msg_free(why);
    cr_assert_eq(lkv_open(&out, (struct lkv_env *)(void *)db, options, NULL), LKV_EUNSUPPORTED);
    lkv_options_free(options);
}

Test(lib_api, the_end_of_a_prefix_is_the_first_key_behind_it) {
    char end[8];
    cr_assert_eq(lkv_prefix_end(LKV_STR("ab"), end), 2);
    cr_assert(memcmp(end, "ac", 2) == 0);
    cr_assert_eq(lkv_prefix_end(LKV_STR("a\xff\xff"), end), 1);
    cr_assert(memcmp(end, "b", 1) == 0);
    cr_assert_eq(lkv_prefix_end(LKV_STR("\xff\xff"), end), 0);
    cr_assert_eq(lkv_prefix_end(LKV_STR(""), end), 0);
    cr_assert_eq(lkv_prefix_end(LKV_STR("a\0"), end), 2);
    cr_assert(memcmp(end, "a\x01", 2) == 0);
}

static int submit_each_kind(uint64_t fail_after) {
    int worst = 0;
    mem_fail_after(fail_after);
    int rcs[] = {
        lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), 100, queue, NULL),
        lkv_get_submit(db, LKV_STR("k"), LKV_LINEARIZABLE, 100, queue, NULL),
        lkv_delete_submit(db, LKV_STR("k"), LKV_STR("l"), true, 100, queue, NULL),
        lkv_range_submit(db, LKV_STR("k"), LKV_STR("l"), 0, 0, LKV_LOCAL, 100, queue, NULL),
    };
    mem_fail_never();
    size_t done = 0;
    for (size_t i = 0; i < 4; i++) {
        cr_assert(rcs[i] == 0 || rcs[i] == LKV_ENOMEM);
        done += rcs[i] == 0 ? 1 : 0;
        worst = rcs[i] < worst ? rcs[i] : worst;
    }
    for (; done > 0; done--) {
        struct lkv_msg *msg = lkv_queue_next(queue, 0);
        cr_assert_not_null(msg);
        lkv_msg_free(msg);
    }
    cr_assert_null(lkv_queue_next(queue, 0), "a submit that failed yields nothing");
    return worst;
}

/* S28 */
Test(lib_api, a_failed_allocation_is_a_definite_error) {
    uint64_t n = 0;
    while (submit_each_kind(n) != 0) {
        n++;
    }
    cr_assert_geq(n, 12);
}
