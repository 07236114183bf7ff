/* Several threads open, lock with and close leases of one handle while its loop keeps them alive, and the handle
 * is closed while some are open. Under TSan. */
#include "lib/ledgerkv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition) \
    ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__, __func__))

static _Noreturn void check_failed(const char *condition, const char *file, int line,
                                   const char *function) {
    (void)fprintf(stderr, "FAILED: %s (%s:%d, %s); last: %s\n", condition, file, line, function,
                  lkv_last_text());
    (void)fflush(NULL);
    _exit(1); /* at once: other threads go on using what exit would take down */
}

enum { WORKERS = 4, ROUNDS = 12, LOCKS = 2, WAIT_MS = 60000, TTL_MS = 60000 };

static struct lkv *db;
static struct lkv_queue *queue;
static atomic_int inside[LOCKS];
static _Atomic(uint64_t) last_token[LOCKS];

/* Nobody else is inside, and nobody with a later token has been. */
static void hold(size_t lock, int64_t lease) {
    static const struct lkv_bytes names[LOCKS] = {{"a", 1}, {"b", 1}};
    uint64_t token = 0;
    CHECK(lkv_lock(db, names[lock], lease, WAIT_MS, &token) == 0);
    CHECK(atomic_fetch_add(&inside[lock], 1) == 0);
    CHECK(atomic_exchange(&last_token[lock], token) < token);
    CHECK(atomic_fetch_sub(&inside[lock], 1) == 1);
    CHECK(lkv_unlock(db, names[lock], lease, WAIT_MS) == 0);
}

static void *work(void *arg) {
    size_t number = (size_t)arg;
    for (size_t round = 0; round < ROUNDS; round++) {
        int64_t lease = 0, ttl_ms = 0;
        char key[16];
        int size = snprintf(key, sizeof(key), "k%zu", number);
        CHECK(lkv_lease_open(db, TTL_MS, queue, NULL, &lease) == 0);
        CHECK(lkv_put_leased(db, (struct lkv_bytes){key, (size_t)size}, LKV_STR("v"), lease,
                             WAIT_MS, NULL) == 0);
        hold((number + round) % LOCKS, lease);
        CHECK(lkv_lease_keep_alive(db, lease, WAIT_MS, &ttl_ms) == 0 && ttl_ms == TTL_MS);
        if (round % 4 != 3) { /* the others stay open until the handle goes */
            CHECK(lkv_lease_close(db, lease, WAIT_MS) == 0);
        }
    }
    return NULL;
}

int main(void) {
    char folder[] = "/tmp/lkv_leases_XXXXXX";
    char dir[64], command[96];
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(dir, sizeof(dir), "%s/n1", folder);
    struct lkv_options *options = lkv_options_new();
    CHECK(lkv_options_set(options, "dir", dir) == 0);
    CHECK(lkv_open(&db, NULL, options, NULL) == 0);
    lkv_options_free(options);
    CHECK(lkv_queue_new(&queue) == 0);
    pthread_t workers[WORKERS];
    for (size_t i = 0; i < WORKERS; i++) {
        CHECK(pthread_create(&workers[i], NULL, work, (void *)i) == 0); /* NOLINT: a number */
    }
    for (size_t i = 0; i < WORKERS; i++) {
        CHECK(pthread_join(workers[i], NULL) == 0);
    }
    struct lkv_msg *msg = NULL;
    CHECK(lkv_lease_list(db, 0, 0, WAIT_MS, &msg) == 0);
    CHECK(lkv_msg_count(msg) == (size_t)WORKERS * (ROUNDS / 4));
    lkv_msg_free(msg);
    CHECK(lkv_close(db, 0) == 0);
    CHECK(lkv_queue_next(queue, 0) ==
          NULL); /* none was lost, and none is told of a closed handle */
    lkv_queue_free(queue);
    (void)snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) == 0 ? 0 : 1;
}
