/* X-H2: opening and closing leaves nothing behind. X-A12: closing with requests under way ends each
 * of them. */
#include "tests/support/client_real.h"

#include <signal.h>

enum { ROUNDS = 100, REQUESTS = 50 };

static void close_under_way(const struct real_host *real) {
    struct lkv *db = real_client(real->address, "2");
    struct lkv_queue *queue;
    CHECK(lkv_queue_new(&queue) == 0);
    for (int i = 0; i < REQUESTS; i++) {
        CHECK(lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), 60000, queue, NULL) == 0);
    }
    CHECK(lkv_close(db, 0) == 0);
    for (int i = 0; i < REQUESTS; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, 0); /* no waiting: they are there */
        CHECK(msg != NULL);
        int rc = lkv_msg_rc(msg);
        CHECK(rc == 0 || rc == LKV_EUNKNOWN || rc == LKV_ECLOSED);
        lkv_msg_free(msg);
    }
    CHECK(lkv_queue_next(queue, 0) == NULL);
    lkv_queue_free(queue);
}

static void open_and_close(const struct real_host *real) {
    for (int i = 0; i < ROUNDS; i++) {
        struct lkv *db = real_client(real->address, "1");
        CHECK(i % 2 == 0 || lkv_put(db, LKV_STR("k"), LKV_STR("v"), 60000, NULL) == 0);
        CHECK(lkv_close(db, 0) == 0);
        close_under_way(real);
    }
}

static void check_refused(const char *endpoints) {
    struct lkv *db = real_client(endpoints, "1");
    CHECK(lkv_put(db, LKV_STR("k"), LKV_STR("v"), 200, NULL) == LKV_EUNREACHABLE);
    CHECK(lkv_last_text()[0] != '\0');
    struct lkv_msg *msg = NULL;
    CHECK(lkv_get(db, LKV_STR("k"), LKV_LOCAL, 200, &msg) == LKV_EUNREACHABLE);
    lkv_msg_free(msg);
    CHECK(lkv_close(db, 0) == 0);
}

int main(void) {
    struct real_host real;
    struct sigaction before, after;
    CHECK(sigaction(SIGPIPE, NULL, &before) == 0);
    real_host_start(&real, "127.0.0.1:0");
    open_and_close(&real);
    size_t threads = count_threads(), descriptors = count_descriptors();
    open_and_close(&real);
    CHECK(count_threads() <= threads);
    /* The host still has the far ends of some, until it hears that they are closed. */
    CHECK(count_descriptors() <= descriptors + 8);
    check_refused("127.0.0.1:1");
    check_refused("unix:/nonexistent/socket");
    CHECK(sigaction(SIGPIPE, NULL, &after) == 0);
    CHECK(before.sa_handler == after.sa_handler);
    real_host_stop(&real);
    return 0;
}
