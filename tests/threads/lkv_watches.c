/* Watches, writes and messages in many threads at once, on a node and through a client: every event comes once
 * and in order, whoever frees the messages and whenever; messages outlive their handles. */
#include "lib/ledgerkv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRITERS = 2, READERS = 4, WRITES = 800, MANY = 200, WAIT_MS = 30000 };

static char dir[64];
static struct lkv *node, *client;
static atomic_bool stop;

#define CHECK(good)                                                                         \
    do {                                                                                    \
        if (!(good)) {                                                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #good, lkv_last_text()); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

static struct lkv *open_node(void) {
    char listen[96];
    struct lkv_options *options = lkv_options_new();
    struct lkv *db = NULL;
    (void)snprintf(listen, sizeof(listen), "unix:%s/n.sock", dir);
    CHECK(lkv_options_set(options, "dir", dir) == 0);
    CHECK(lkv_options_set(options, "listen", listen) == 0);
    CHECK(lkv_open(&db, NULL, options, NULL) == 0);
    lkv_options_free(options);
    return db;
}

static struct lkv *open_client(void) {
    char endpoints[96];
    struct lkv_options *options = lkv_options_new();
    struct lkv *db = NULL;
    (void)snprintf(endpoints, sizeof(endpoints), "unix:%s/n.sock", dir);
    CHECK(lkv_options_set(options, "endpoints", endpoints) == 0);
    CHECK(lkv_connect(&db, options, NULL) == 0);
    lkv_options_free(options);
    return db;
}

static struct lkv_msg *next_message(struct lkv_queue *queue, enum lkv_kind kind) {
    struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
    CHECK(msg != NULL);
    if (lkv_msg_kind(msg) != kind) {
        fprintf(stderr, "kind %d, rc %d: %s\n", lkv_msg_kind(msg), lkv_msg_rc(msg),
                lkv_msg_text(msg));
        exit(1);
    }
    return msg;
}

static void wait_for_end(struct lkv_queue *queue) {
    for (bool ended = false; !ended;) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        CHECK(msg != NULL);
        ended = lkv_msg_kind(msg) == LKV_END;
        lkv_msg_free(msg);
    }
}

/* It has begun. */
static uint64_t watch(struct lkv *db, const char *key, uint64_t rev, int flags,
                      struct lkv_queue *queue, void *tag) {
    uint64_t next = 0;
    CHECK(lkv_watch(db, (struct lkv_bytes){key, strlen(key)}, LKV_STR(""), rev, flags, queue,
                    tag) == 0);
    struct lkv_msg *msg = next_message(queue, LKV_EVENTS);
    CHECK(lkv_msg_u64(msg, "next", &next));
    CHECK(rev != 0 || lkv_msg_count(msg) == 0);
    lkv_msg_free(msg);
    return next;
}

/* Each writer counts its own key. */
static void *write_all(void *arg) {
    uint32_t writer = (uint32_t)(uintptr_t)arg;
    struct lkv *db = writer % 2 == 0 ? node : client;
    char key[8];
    (void)snprintf(key, sizeof(key), "w%u", writer);
    for (uint32_t i = 0; i < WRITES; i++) {
        char value[16];
        int size = snprintf(value, sizeof(value), "%u", i);
        CHECK(lkv_put(db, (struct lkv_bytes){key, strlen(key)},
                      (struct lkv_bytes){value, (size_t)size}, WAIT_MS, NULL) == 0);
    }
    return NULL;
}

struct seen {
    uint64_t last;
    uint32_t next[WRITERS], count;
};

static void take(const struct lkv_msg *msg, struct seen *seen, bool with_previous) {
    struct lkv_event event;
    for (size_t i = 0; lkv_msg_event(msg, i, &event); i++, seen->count++) {
        const char *key = event.kv.key.data;
        CHECK(event.type == LKV_EVENT_PUT && event.kv.key.size == 2 && key[0] == 'w');
        CHECK(event.kv.mod_rev > seen->last);
        seen->last = event.kv.mod_rev;
        uint32_t writer = (uint32_t)(key[1] - '0');
        char value[16];
        int size = snprintf(value, sizeof(value), "%u", seen->next[writer]);
        CHECK(writer < WRITERS && event.kv.value.size == (size_t)size &&
              memcmp(event.kv.value.data, value, (size_t)size) == 0);
        CHECK(event.kv.version == seen->next[writer] + 1u);
        CHECK(event.previous.version == (with_previous ? seen->next[writer] : 0));
        seen->next[writer]++;
    }
}

static uint64_t begin_rev;

static void *read_all(void *arg) {
    uintptr_t reader = (uintptr_t)arg;
    struct lkv *db = reader % 2 == 0 ? node : client;
    bool with_previous = reader >= 2;
    struct lkv_queue *queue;
    struct seen seen = {0};
    CHECK(lkv_queue_new(&queue) == 0);
    CHECK(lkv_watch(db, LKV_STR("w"), LKV_STR("x"), begin_rev,
                    with_previous ? LKV_WATCH_PREVIOUS | LKV_WATCH_PROGRESS : 0, queue,
                    &seen) == 0);
    struct lkv_msg *held = NULL;
    while (seen.count < WRITERS * WRITES) {
        struct lkv_msg *msg = next_message(queue, LKV_EVENTS);
        take(msg, &seen, with_previous);
        lkv_msg_free(held); /* one message late */
        held = msg;
    }
    CHECK(lkv_cancel(db, &seen) == 0);
    lkv_msg_free(held);
    wait_for_end(queue);
    lkv_queue_free(queue);
    return NULL;
}

/* Watches that come and go. */
static void *restless(void *arg) {
    struct lkv_queue *queue;
    (void)arg;
    CHECK(lkv_queue_new(&queue) == 0);
    while (!atomic_load(&stop)) {
        int tag;
        CHECK(lkv_watch(node, LKV_STR("w"), LKV_STR(""), begin_rev, 0, queue, &tag) == 0);
        lkv_msg_free(lkv_queue_next(queue, 1));
        CHECK(lkv_cancel(node, &tag) == 0);
        wait_for_end(queue);
    }
    lkv_queue_free(queue);
    return NULL;
}

/* Many watches of one handle on keys of their own: each is told its own event, and no other. */
static void watch_many(struct lkv *db) {
    struct lkv_queue *queue;
    static uint64_t tags[MANY];
    CHECK(lkv_queue_new(&queue) == 0);
    for (int i = 0; i < MANY; i++) {
        char key[16];
        int size = snprintf(key, sizeof(key), "many%d", i);
        CHECK(lkv_watch(db, (struct lkv_bytes){key, (size_t)size}, LKV_STR(""), 0, LKV_WATCH_KEY,
                        queue, &tags[i]) == 0);
    }
    for (int i = 0; i < MANY; i++) {
        lkv_msg_free(next_message(queue, LKV_EVENTS));
    }
    for (int i = 0; i < MANY; i++) {
        char key[16];
        int size = snprintf(key, sizeof(key), "many%d", i);
        CHECK(lkv_put(db, (struct lkv_bytes){key, (size_t)size}, LKV_STR("x"), WAIT_MS, &tags[i]) ==
              0);
    }
    for (int i = 0; i < MANY; i++) {
        struct lkv_msg *msg = next_message(queue, LKV_EVENTS);
        struct lkv_event event;
        CHECK(lkv_msg_count(msg) == 1 && lkv_msg_event(msg, 0, &event));
        CHECK(event.kv.mod_rev == *(uint64_t *)lkv_msg_tag(msg));
        lkv_msg_free(msg);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK(lkv_cancel(db, &tags[i]) == 0);
        wait_for_end(queue);
    }
    lkv_queue_free(queue);
}

/* Handles close while their watches hold messages, which are freed by another thread meanwhile. */
static void *free_message(void *arg) {
    lkv_msg_free(arg);
    return NULL;
}

static void close_under_watches(void) {
    struct lkv *handles[2] = {client, node};
    for (int i = 0; i < 2; i++) {
        struct lkv_queue *queue;
        pthread_t thread;
        CHECK(lkv_queue_new(&queue) == 0);
        CHECK(lkv_watch(handles[i], LKV_STR(""), LKV_STR(""), begin_rev, 0, queue, NULL) == 0);
        CHECK(lkv_watch(handles[i], LKV_STR(""), LKV_STR(""), UINT64_MAX, 0, queue, NULL) == 0);
        struct lkv_msg *msg = next_message(queue, LKV_EVENTS);
        CHECK(pthread_create(&thread, NULL, free_message, msg) == 0);
        CHECK(lkv_close(handles[i], 0) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        int ends = 0;
        while ((msg = lkv_queue_next(queue, 0)) != NULL) {
            ends += lkv_msg_kind(msg) == LKV_END;
            lkv_msg_free(msg);
        }
        CHECK(ends == 2);
        lkv_queue_free(queue);
    }
}

int main(void) {
    pthread_t threads[WRITERS + READERS + 1];
    size_t count = 0;
    struct lkv_queue *queue;
    (void)snprintf(dir, sizeof(dir), "/tmp/lkv-watches-XXXXXX");
    CHECK(mkdtemp(dir) != NULL && lkv_queue_new(&queue) == 0);
    node = open_node();
    client = open_client();
    begin_rev = watch(client, "w", 0, LKV_WATCH_KEY, queue, NULL);
    for (uintptr_t i = 0; i < WRITERS; i++) {
        CHECK(pthread_create(&threads[count++], NULL, write_all, (void *)i) == 0);
    }
    for (uintptr_t i = 0; i < READERS; i++) {
        CHECK(pthread_create(&threads[count++], NULL, read_all, (void *)i) == 0);
    }
    CHECK(pthread_create(&threads[count], NULL, restless, NULL) == 0);
    for (size_t i = 0; i < count; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    atomic_store(&stop, true);
    CHECK(pthread_join(threads[count], NULL) == 0);
    watch_many(node);
    watch_many(client);
    close_under_watches();
    lkv_queue_free(queue);
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    CHECK(system(command) == 0);
    printf("%d writes, %d readers: each event once and in order\n", WRITERS * WRITES, READERS);
    return 0;
}
