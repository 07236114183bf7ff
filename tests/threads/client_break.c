/* A node that comes and goes under several threads: each request ends once, done, definitely not done,
 * or unknown, and what is "done" is there. */
#include "tests/support/client_real.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 3, PER_TURN = 200, RESTARTS = 6 };

static struct lkv *db;
static atomic_bool stopping;
static atomic_size_t done, unknown, refused;

static void count(int rc) {
    switch (lkv_outcome(rc)) {
    case LKV_DONE: atomic_fetch_add(&done, 1); break;
    case LKV_UNKNOWN:
        CHECK(rc == LKV_EUNKNOWN);
        atomic_fetch_add(&unknown, 1);
        break;
    case LKV_NOT_DONE:
        CHECK(rc == LKV_EUNREACHABLE || rc == LKV_ETIMEOUT || rc == LKV_ECLOSED);
        atomic_fetch_add(&refused, 1);
        break;
    case LKV_NEGATIVE: CHECK(false); break;
    }
}

static void *work(void *arg) {
    struct lkv_queue *queue;
    CHECK(lkv_queue_new(&queue) == 0);
    while (!atomic_load(&stopping)) {
        for (int i = 0; i < PER_TURN; i++) {
            CHECK(lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), 500, queue, arg) == 0);
        }
        for (int i = 0; i < PER_TURN; i++) {
            struct lkv_msg *msg = lkv_queue_next(queue, 60000);
            CHECK(msg != NULL && lkv_msg_tag(msg) == arg);
            count(lkv_msg_rc(msg));
            lkv_msg_free(msg);
        }
        CHECK(lkv_queue_next(queue, 0) == NULL);
    }
    lkv_queue_free(queue);
    return NULL;
}

int main(void) {
    struct real_host real;
    char address[128];
    pthread_t threads[THREADS];
    real_host_start(&real, "127.0.0.1:0");
    (void)snprintf(address, sizeof(address), "%s", real.address);
    db = real_client(address, "2");
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    }
    for (int i = 0; i < RESTARTS; i++) {
        (void)poll(NULL, 0, 150);
        real_host_stop(&real);
        (void)poll(NULL, 0, i % 2 == 0 ? 0 : 700);
        real_host_start(&real, address);
    }
    (void)poll(NULL, 0, 300);
    atomic_store(&stopping, true);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(lkv_close(db, 0) == 0);
    real_host_stop(&real);
    (void)printf("%zu done, %zu unknown, %zu not done\n", atomic_load(&done), atomic_load(&unknown),
                 atomic_load(&refused));
    CHECK(atomic_load(&done) > 0 && atomic_load(&refused) > 0);
    return 0;
}
