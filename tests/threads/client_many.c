/* Many threads on one client handle, over real sockets: every submit gets exactly one final message,
 * and a blocking caller its own answer. */
#include "tests/support/client_real.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, PIPELINED = 10000, BLOCKING = 500 };

static struct lkv *db;

struct worker {
    pthread_t thread;
    int number;
    struct lkv_queue *queue;
};

static void pipeline(struct worker *worker) {
    char *seen = calloc(PIPELINED, 1);
    CHECK(seen != NULL);
    char key[32];
    for (int i = 0; i < PIPELINED; i++) {
        struct lkv_bytes bytes = {key,
                                  (size_t)snprintf(key, sizeof(key), "%d/%d", worker->number, i)};
        CHECK(lkv_put_submit(db, bytes, bytes, 60000, worker->queue, seen + i) == 0);
    }
    for (int i = 0; i < PIPELINED; i++) {
        struct lkv_msg *msg = lkv_queue_next(worker->queue, 60000);
        CHECK(msg != NULL);
        CHECK(lkv_msg_rc(msg) == 0);
        char *slot = lkv_msg_tag(msg);
        CHECK(*slot == 0);
        *slot = 1;
        lkv_msg_free(msg);
    }
    CHECK(lkv_queue_next(worker->queue, 0) == NULL);
    free(seen);
}

static void call(const struct worker *worker) {
    char key[32], value[32];
    for (int i = 0; i < BLOCKING; i++) {
        struct lkv_bytes k = {key, (size_t)snprintf(key, sizeof(key), "b%d/%d", worker->number, i)};
        struct lkv_bytes v = {value, (size_t)snprintf(value, sizeof(value), "value %d", i)};
        CHECK(lkv_put(db, k, v, 60000, NULL) == 0);
        struct lkv_msg *msg;
        struct lkv_kv kv;
        CHECK(lkv_get(db, k, LKV_LINEARIZABLE, 60000, &msg) == 0);
        CHECK(lkv_msg_kv(msg, 0, &kv));
        CHECK(kv.value.size == v.size && memcmp(kv.value.data, value, v.size) == 0);
        lkv_msg_free(msg);
    }
}

static void *work(void *arg) {
    struct worker *worker = arg;
    pipeline(worker);
    call(worker);
    return NULL;
}

static void run(const struct real_host *real, const char *connections) {
    static struct worker workers[THREADS];
    db = real_client(real->address, connections);
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        CHECK(lkv_queue_new(&workers[i].queue) == 0);
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
        lkv_queue_free(workers[i].queue);
    }
    CHECK(lkv_close(db, 0) == 0);
}

int main(void) {
    struct real_host real;
    real_host_start(&real, "127.0.0.1:0");
    run(&real, "1");
    run(&real, "3");
    real_host_stop(&real);
    return 0;
}
