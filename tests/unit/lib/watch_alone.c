/* Watches of one node on real files, in the process and through a client. */
#include "tests/unit/lib/node_world.h"

static struct world world;
static struct lkv *node, *client;
static struct lkv_queue *queue;

static void setup(void) {
    char listen[2 * PATH_BYTES];
    world_init(&world);
    (void)snprintf(listen, sizeof(listen), "unix:%s/n.sock", world.dir);
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    cr_assert_eq(lkv_options_set(options, "listen", listen), 0);
    cr_assert_eq(try_open(&node, options), 0, "%s", open_text);
    options = lkv_options_new();
    cr_assert_eq(lkv_options_set(options, "endpoints", listen), 0);
    cr_assert_eq(lkv_connect(&client, options, NULL), 0);
    lkv_options_free(options);
    cr_assert_eq(lkv_queue_new(&queue), 0);
}

static void teardown(void) {
    cr_assert_eq(lkv_close(client, 0), 0);
    cr_assert_eq(lkv_close(node, 0), 0);
    lkv_queue_free(queue);
    world_fini(&world);
}

TestSuite(lib_watch_alone, .init = setup, .fini = teardown, .timeout = 60);

static uint64_t number(const struct lkv_msg *msg, const char *name) {
    uint64_t value = 0;
    cr_assert(lkv_msg_u64(msg, name, &value), "no number %s", name);
    return value;
}

static struct lkv_msg *take(enum lkv_kind kind) {
    struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
    cr_assert_not_null(msg);
    cr_assert_eq(lkv_msg_kind(msg), kind, "%d: %s", lkv_msg_kind(msg), lkv_msg_text(msg));
    return msg;
}

static void expect_event(const struct lkv_msg *msg, size_t i, const char *key, const char *value) {
    struct lkv_event event;
    cr_assert(lkv_msg_event(msg, i, &event));
    cr_assert_eq(event.type, value != NULL ? LKV_EVENT_PUT : LKV_EVENT_DELETE);
    cr_assert(event.kv.key.size == strlen(key) && memcmp(event.kv.key.data, key, strlen(key)) == 0);
    value = value != NULL ? value : "";
    cr_assert(event.kv.value.size == strlen(value) &&
              memcmp(event.kv.value.data, value, strlen(value)) == 0);
}

static void end(struct lkv *db, void *tag) {
    cr_assert_eq(lkv_cancel(db, tag), 0);
    struct lkv_msg *msg = take(LKV_END);
    cr_assert_eq(lkv_msg_rc(msg), LKV_ECANCELED);
    cr_assert_eq(lkv_msg_tag(msg), tag);
    lkv_msg_free(msg);
    cr_assert_eq(lkv_cancel(db, tag), LKV_ENOENT);
}

Test(lib_watch_alone, from_now_on_begins_with_a_message_that_says_so) {
    struct lkv *const handles[] = {node, client};
    for (int i = 0; i < 2; i++) {
        put(node, "a", "before");
        uint64_t rev = status_number(node, "rev");
        cr_assert_eq(lkv_watch(handles[i], bytes("a"), bytes("b"), 0, 0, queue, &rev), 0);
        struct lkv_msg *msg = take(LKV_EVENTS);
        cr_assert_eq(lkv_msg_count(msg), 0);
        cr_assert(number(msg, "rev") == rev && number(msg, "next") == rev + 1);
        cr_assert_eq(number(msg, "partial"), 0);
        lkv_msg_free(msg);
        put(node, "b", "not in the range");
        put(node, "a", "after");
        msg = take(LKV_EVENTS);
        cr_assert_eq(lkv_msg_count(msg), 1);
        expect_event(msg, 0, "a", "after");
        cr_assert_eq(number(msg, "next"), rev + 3);
        cr_assert_eq(lkv_msg_tag(msg), &rev);
        lkv_msg_free(msg);
        end(handles[i], &rev);
    }
}

Test(lib_watch_alone, one_key_and_only_deletes) {
    struct lkv *const handles[] = {node, client};
    put(node, "a", "1");
    put(node, "ab", "2");
    cr_assert_eq(lkv_delete(node, bytes("ab"), WAIT_MS, NULL), 0);
    cr_assert_eq(lkv_delete(node, bytes("a"), WAIT_MS, NULL), 0);
    for (int i = 0; i < 2; i++) {
        int flags = LKV_WATCH_KEY | LKV_WATCH_NO_PUTS | LKV_WATCH_PREVIOUS;
        cr_assert_eq(lkv_watch(handles[i], bytes("a"), bytes(""), 1, flags, queue, &flags), 0);
        struct lkv_msg *msg = take(LKV_EVENTS);
        struct lkv_event event;
        cr_assert_eq(lkv_msg_count(msg), 1);
        expect_event(msg, 0, "a", NULL);
        cr_assert(lkv_msg_event(msg, 0, &event));
        cr_assert(event.previous.version == 1 && event.previous.value.size == 1);
        lkv_msg_free(msg);
        end(handles[i], &flags);
    }
}

/* A revision that is larger than a message is told in parts. */
Test(lib_watch_alone, a_large_revision_comes_in_parts) {
    enum { KEYS = 3000 };
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%05d", i);
        cr_assert_eq(lkv_put_submit(node, bytes(key), bytes("v"), WAIT_MS, queue, NULL), 0);
    }
    for (int i = 0; i < KEYS; i++) {
        lkv_msg_free(take(LKV_REPLY));
    }
    uint64_t rev = 0, count = 0;
    cr_assert_eq(lkv_delete_range(node, bytes("0"), bytes("1"), WAIT_MS, &rev, &count), 0);
    cr_assert_eq(count, KEYS);
    struct lkv *const handles[] = {node, client};
    for (int i = 0; i < 2; i++) {
        int seen = 0, parts = 0;
        cr_assert_eq(lkv_watch(handles[i], bytes(""), bytes(""), rev, 0, queue, &seen), 0);
        while (seen < KEYS) {
            struct lkv_msg *msg = take(LKV_EVENTS);
            for (size_t k = 0; k < lkv_msg_count(msg); k++, seen++) {
                char key[16];
                (void)snprintf(key, sizeof(key), "%05d", seen);
                expect_event(msg, k, key, NULL);
            }
            cr_assert_eq(number(msg, "partial"), seen < KEYS);
            cr_assert_eq(number(msg, "next"), seen < KEYS ? rev : rev + 1);
            lkv_msg_free(msg);
            parts++;
        }
        cr_assert_gt(parts, 1);
        end(handles[i], &seen);
    }
}

Test(lib_watch_alone, what_has_not_been_freed_holds_the_rest_back) {
    enum { EVENTS = 30 };
    static char large[100000];
    memset(large, 'x', sizeof(large) - 1);
    for (int i = 0; i < EVENTS; i++) {
        put(node, "large", large);
    }
    struct lkv *const handles[] = {node, client};
    for (int i = 0; i < 2; i++) {
        struct lkv_msg *held[EVENTS];
        size_t count = 0, bytes_held = 0, events = 0;
        cr_assert_eq(lkv_watch(handles[i], bytes("large"), bytes(""), 1, 0, queue, NULL), 0);
        for (struct lkv_msg *msg; (msg = lkv_queue_next(queue, 300)) != NULL;) {
            bytes_held += lkv_msg_count(msg) * sizeof(large);
            events += lkv_msg_count(msg);
            held[count++] = msg;
        }
        cr_assert_lt(events, EVENTS);
        cr_assert_leq(bytes_held, LKV_WATCH_CREDIT_BYTES + 256 * 1024);
        for (size_t k = 0; k < count; k++) {
            lkv_msg_free(held[k]);
        }
        while (events < EVENTS) {
            struct lkv_msg *msg = take(LKV_EVENTS);
            events += lkv_msg_count(msg);
            lkv_msg_free(msg);
        }
        end(handles[i], NULL);
    }
}

Test(lib_watch_alone, what_makes_no_sense_is_refused_at_once) {
    static char large[8194];
    memset(large, 'x', sizeof(large) - 1);
    struct lkv_bytes none = {NULL, 1}, a = bytes("a");
    cr_assert_eq(lkv_watch(NULL, a, a, 0, 0, queue, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_watch(node, a, a, 0, 0, NULL, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_watch(node, none, a, 0, 0, queue, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_watch(node, a, none, 0, 0, queue, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_watch(node, a, a, 0, 1024, queue, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_watch(node, a, a, 0, LKV_WATCH_NO_PUTS | LKV_WATCH_NO_DELETES, queue, NULL),
                 LKV_EINVAL);
    cr_assert_eq(lkv_watch(node, bytes(""), a, 0, LKV_WATCH_KEY, queue, NULL), LKV_EINVAL);
    struct lkv_bytes long_key = {large, 8193};
    cr_assert_eq(lkv_watch(node, long_key, a, 0, LKV_WATCH_KEY, queue, NULL), LKV_ETOOLARGE);
    long_key.size = 8192;
    cr_assert_eq(lkv_watch(client, long_key, a, 1, LKV_WATCH_KEY, queue, NULL), 0);
    lkv_msg_free(take(LKV_EVENTS));
    cr_assert_null(lkv_queue_next(queue, 0));
    end(client, NULL);
}
