/* Tails, appends and messages in many threads at once, on a node and through a client: every record comes
 * once and in order, whoever frees the messages and whenever; messages outlive their handles. */
#include "lib/ledgerkv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { APPENDERS = 2, READERS = 3, RECORDS = 4000, BATCH = 4, WAIT_MS = 30000 };

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
    CHECK(lkv_options_set(options, "model", "log") == 0);
    CHECK(lkv_options_set(options, "listen", listen) == 0);
    CHECK(lkv_options_set(options, "segment_bytes", "1MiB") == 0);
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

/* Records are (appender, number). */
static void *append_all(void *arg) {
    uint32_t appender = (uint32_t)(uintptr_t)arg;
    struct lkv *db = appender % 2 == 0 ? node : client;
    for (uint32_t i = 0; i < RECORDS; i += BATCH) {
        uint32_t values[BATCH][2];
        struct lkv_bytes records[BATCH];
        for (uint32_t j = 0; j < BATCH; j++) {
            values[j][0] = appender;
            values[j][1] = i + j;
            records[j] = (struct lkv_bytes){values[j], sizeof(values[j])};
        }
        CHECK(lkv_append(db, records, BATCH, 0, WAIT_MS, NULL) == 0);
    }
    return NULL;
}

static uint32_t take(const struct lkv_msg *msg, uint32_t next[APPENDERS], uint64_t *last) {
    struct lkv_record record;
    uint32_t count = 0;
    for (size_t i = 0; lkv_msg_record(msg, i, &record); i++, count++) {
        uint32_t value[2];
        CHECK(record.data.size == sizeof(value) && record.index > *last);
        memcpy(value, record.data.data, sizeof(value));
        CHECK(value[0] < APPENDERS && value[1] == next[value[0]]);
        next[value[0]]++;
        *last = record.index;
    }
    return count;
}

static void *read_all(void *arg) {
    uintptr_t reader = (uintptr_t)arg;
    struct lkv *db = reader % 2 == 0 ? node : client;
    struct lkv_queue *queue;
    uint32_t next[APPENDERS] = {0}, seen = 0;
    uint64_t last = 0;
    CHECK(lkv_queue_new(&queue) == 0);
    CHECK(lkv_log_tail(db, 0, 1, db == node ? LKV_GATES_READY : 0, queue, &next) == 0);
    struct lkv_msg *held = NULL;
    while (seen < APPENDERS * RECORDS) {
        struct lkv_msg *msg = lkv_queue_next(queue, held != NULL ? 1 : WAIT_MS);
        if (msg == NULL && held != NULL) { /* its credit may be what is waited for */
            lkv_msg_free(held);
            held = NULL;
            continue;
        }
        CHECK(msg != NULL && lkv_msg_kind(msg) == LKV_RECORDS);
        seen += take(msg, next, &last);
        lkv_msg_free(held); /* one message late */
        held = msg;
        int fd;
        uint64_t offset;
        int rc = lkv_log_extent(msg, 0, &fd, &offset);
        CHECK(rc == (db == node ? 0 : LKV_EUNSUPPORTED));
    }
    CHECK(lkv_cancel(db, &next) == 0);
    lkv_msg_free(held);
    lkv_msg_free(lkv_queue_next(queue, WAIT_MS));
    lkv_queue_free(queue);
    return NULL;
}

/* Tails that come and go. */
static void *restless(void *arg) {
    struct lkv_queue *queue;
    (void)arg;
    CHECK(lkv_queue_new(&queue) == 0);
    while (!atomic_load(&stop)) {
        int tag;
        CHECK(lkv_log_tail(node, 0, 4096, 0, queue, &tag) == 0);
        lkv_msg_free(lkv_queue_next(queue, 1));
        CHECK(lkv_cancel(node, &tag) == 0);
        bool ended = false;
        while (!ended) {
            struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
            CHECK(msg != NULL);
            ended = lkv_msg_kind(msg) == LKV_END;
            lkv_msg_free(msg);
        }
        CHECK(lkv_log_hold(node, "restless", 1, WAIT_MS) == 0);
    }
    lkv_queue_free(queue);
    return NULL;
}

/* Handles close while their tails hold messages, which are freed by another thread meanwhile. */
static void *free_message(void *arg) {
    lkv_msg_free(arg);
    return NULL;
}

static void close_under_tails(void) {
    struct lkv *handles[2] = {client, node};
    for (int i = 0; i < 2; i++) {
        struct lkv_queue *queue;
        pthread_t thread;
        CHECK(lkv_queue_new(&queue) == 0);
        CHECK(lkv_log_tail(handles[i], 0, 64, 0, queue, NULL) == 0);
        CHECK(lkv_log_tail(handles[i], UINT64_MAX, 64, 0, queue, NULL) == 0);
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        CHECK(msg != NULL);
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
    pthread_t threads[APPENDERS + READERS + 1];
    size_t count = 0;
    (void)snprintf(dir, sizeof(dir), "/tmp/lkv-tails-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    node = open_node();
    client = open_client();
    for (uintptr_t i = 0; i < APPENDERS; i++) {
        CHECK(pthread_create(&threads[count++], NULL, append_all, (void *)i) == 0);
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
    close_under_tails();
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    CHECK(system(command) == 0);
    printf("%d records, %d readers: each once and in order\n", APPENDERS * RECORDS, READERS);
    return 0;
}
