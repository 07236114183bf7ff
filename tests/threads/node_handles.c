/* Several threads on embedded nodes while others are closed and opened again. Under TSan. */
#include "lib/ledgerkv.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
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

enum { NODES = 3, WORKERS = 4, ROUNDS = 60, WAIT_MS = 60000, PATH_BYTES = 256 };

static char folder[PATH_BYTES];
static char peers[256];

static void pause_ms(long ms) {
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&span, NULL);
}

static void remove_tree(const char *path) {
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char inner[2 * PATH_BYTES];
        (void)snprintf(inner, sizeof(inner), "%.200s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            remove_tree(inner);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    (void)remove(path);
}

static void make_folder(void) {
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%.100s/lkv-threads-XXXXXX",
                   base != NULL ? base : "/tmp");
    CHECK(mkdtemp(folder) != NULL);
}

/* Held open until all are known, so that they differ. */
static void choose_peers(void) {
    int sockets[NODES];
    int ports[NODES];
    for (int i = 0; i < NODES; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(bind(sockets[i], (struct sockaddr *)&address, size) == 0);
        CHECK(getsockname(sockets[i], (struct sockaddr *)&address, &size) == 0);
        ports[i] = ntohs(address.sin_port);
    }
    for (int i = 0; i < NODES; i++) {
        (void)close(sockets[i]);
    }
    (void)snprintf(peers, sizeof(peers), "n1=127.0.0.1:%d,n2=127.0.0.1:%d,n3=127.0.0.1:%d",
                   ports[0], ports[1], ports[2]);
}

static struct lkv *open_node(int number, bool alone) {
    char dir[2 * PATH_BYTES];
    char id[16];
    (void)snprintf(id, sizeof(id), "n%d", number);
    (void)snprintf(dir, sizeof(dir), "%s/%s", folder, id);
    struct lkv_options *options = lkv_options_new();
    CHECK(lkv_options_set(options, "dir", dir) == 0);
    CHECK(lkv_options_set(options, "id", id) == 0);
    CHECK(lkv_options_set(options, "segment_bytes", "1MiB") == 0);
    CHECK(lkv_options_set(options, "image_log_bytes", "64KiB") == 0);
    CHECK(lkv_options_set(options, "keep_entries", "100") == 0);
    CHECK(lkv_options_set(options, "lease_reads", "on") == 0);
    CHECK(alone || lkv_options_set(options, "peers", peers) == 0);
    struct lkv *db = NULL;
    struct lkv_msg *why = NULL;
    int rc = lkv_open(&db, NULL, options, &why);
    lkv_options_free(options);
    if (rc != 0) {
        (void)fprintf(stderr, "%s\n", lkv_msg_text(why));
    }
    CHECK(rc == 0);
    return db;
}

/* ------------------------------------------------------------------ what a worker does */

struct worker {
    pthread_t thread;
    struct lkv *db;
    struct lkv_queue *queue;
    int number;
    atomic_bool *stop; /* NULL: ROUNDS rounds */
    int owed;
};

/* Any answer but a claim of success without one: leaders come and go. */
static void do_blocking(struct worker *worker, int round) {
    char key[32];
    (void)snprintf(key, sizeof(key), "w%d/%d", worker->number, round % 20);
    struct lkv_bytes name = {key, strlen(key)};
    struct lkv_msg *msg = NULL;
    size_t size = 0;
    char copy[64];
    int rc = lkv_put(worker->db, name, LKV_STR("value"), WAIT_MS, NULL);
    CHECK(rc == 0 || rc == LKV_EUNKNOWN || rc == LKV_ENOTLEADER);
    rc = lkv_get(worker->db, name, LKV_LINEARIZABLE, WAIT_MS, &msg);
    CHECK(rc == 0 || rc == LKV_ENOTFOUND);
    lkv_msg_free(msg);
    rc = lkv_get(worker->db, name, LKV_LEASED, WAIT_MS, &msg); /* of a leader, on this thread */
    CHECK(rc == 0 || rc == LKV_ENOTFOUND);
    lkv_msg_free(msg);
    rc = lkv_get(worker->db, name, LKV_LOCAL, WAIT_MS, &msg);
    CHECK(rc == 0 || rc == LKV_ENOTFOUND);
    lkv_msg_free(msg);
    rc = lkv_get_copy(worker->db, name, copy, sizeof(copy), &size);
    CHECK(rc == 0 || rc == LKV_ENOTFOUND);
    rc = lkv_range(worker->db, LKV_STR("w"), LKV_STR("x"), 10, LKV_TOTAL, LKV_LOCAL, WAIT_MS, &msg);
    CHECK(rc == 0);
    lkv_msg_free(msg);
    CHECK(lkv_status(worker->db, WAIT_MS, &msg) == 0);
    CHECK(lkv_msg_str(msg, "role") != NULL);
    lkv_msg_free(msg);
    if (round % 10 == 0) {
        CHECK(lkv_digest(worker->db, WAIT_MS, &msg) == 0);
        lkv_msg_free(msg);
        rc = lkv_delete_range(worker->db, name, (struct lkv_bytes){0}, WAIT_MS, NULL, NULL);
        CHECK(rc == 0 || rc == LKV_EUNKNOWN || rc == LKV_ENOTLEADER);
    }
}

static void do_submitted(struct worker *worker) {
    for (int i = 0; i < 10; i++) {
        int rc = lkv_put_submit(worker->db, LKV_STR("shared"), LKV_STR("v"), WAIT_MS, worker->queue,
                                worker);
        CHECK(rc == 0 || rc == LKV_EBUSY);
        worker->owed += rc == 0;
    }
    for (struct lkv_msg *msg; (msg = lkv_queue_next(worker->queue, 0)) != NULL;) {
        worker->owed -= lkv_msg_kind(msg) == LKV_REPLY;
        lkv_msg_free(msg); /* role messages too: stepping_down is not held */
    }
}

static void *work(void *arg) {
    struct worker *worker = arg;
    for (int round = 0; worker->stop != NULL ? !atomic_load(worker->stop) : round < ROUNDS;
         round++) {
        do_blocking(worker, round);
        do_submitted(worker);
    }
    return NULL;
}

static void start(struct worker *worker, struct lkv *db, int number, atomic_bool *stop) {
    *worker = (struct worker){.db = db, .number = number, .stop = stop};
    CHECK(lkv_queue_new(&worker->queue) == 0);
    CHECK(lkv_role_watch(db, worker->queue, NULL) == 0);
    CHECK(pthread_create(&worker->thread, NULL, work, worker) == 0);
}

/* After the handle was closed: everything owed has come. */
static void finish(struct worker *worker) {
    for (struct lkv_msg *msg; (msg = lkv_queue_next(worker->queue, 0)) != NULL;) {
        worker->owed -= lkv_msg_kind(msg) == LKV_REPLY;
        lkv_msg_free(msg);
    }
    CHECK(worker->owed == 0);
    lkv_queue_free(worker->queue);
}

/* ------------------------------------------------------------------ the tests */

static void several_threads_use_one_node(void) {
    for (int life = 0; life < 3; life++) {
        struct lkv *db = open_node(30, true);
        struct worker workers[WORKERS];
        for (int i = 0; i < WORKERS; i++) {
            start(&workers[i], db, i, NULL);
        }
        for (int i = 0; i < WORKERS; i++) {
            CHECK(pthread_join(workers[i].thread, NULL) == 0);
        }
        CHECK(lkv_close(db, 100) == 0);
        for (int i = 0; i < WORKERS; i++) {
            finish(&workers[i]);
        }
    }
}

static void several_stores_live_in_one_process(void) {
    struct lkv *stores[NODES];
    struct worker workers[NODES];
    for (int i = 0; i < NODES; i++) {
        stores[i] = open_node(10 + i, true);
        start(&workers[i], stores[i], i, NULL);
    }
    for (int i = 0; i < NODES; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
        CHECK(lkv_close(stores[i], 0) == 0);
        finish(&workers[i]);
    }
}

/* Workers on two nodes of three, while the third, and then each of the two by turns, is closed and
 * opened again. */
static void threads_use_nodes_while_others_restart(void) {
    struct lkv *nodes[NODES];
    for (int i = 0; i < NODES; i++) {
        nodes[i] = open_node(i + 1, false);
    }
    for (int round = 0; round < 6; round++) {
        atomic_bool stop = false;
        int victim = round % NODES;
        struct worker workers[NODES];
        for (int i = 0; i < NODES; i++) {
            if (i != victim) {
                start(&workers[i], nodes[i], i, &stop);
            }
        }
        pause_ms(100);
        CHECK(lkv_close(nodes[victim], round % 2 == 0 ? 0 : 2000) == 0);
        pause_ms(200);
        nodes[victim] = open_node(victim + 1, false);
        pause_ms(200);
        atomic_store(&stop, true);
        for (int i = 0; i < NODES; i++) {
            if (i != victim) {
                CHECK(pthread_join(workers[i].thread, NULL) == 0);
                CHECK(lkv_close(nodes[i], 0) == 0);
                finish(&workers[i]);
            }
        }
        for (int i = 0; i < NODES; i++) {
            if (i != victim) {
                nodes[i] = open_node(i + 1, false);
            }
        }
    }
    for (int i = 0; i < NODES; i++) {
        CHECK(lkv_close(nodes[i], 0) == 0);
    }
}

/* Submits race with the end: each that was taken is answered before close returns. */
static void submits_meet_a_closing_node(void) {
    for (int round = 0; round < 20; round++) {
        struct lkv *db = open_node(20, true);
        struct lkv_queue *queue;
        CHECK(lkv_queue_new(&queue) == 0);
        int owed = 0;
        for (int i = 0; i < 200; i++) {
            owed += lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), WAIT_MS, queue, NULL) == 0;
            owed += lkv_get_submit(db, LKV_STR("k"), LKV_LINEARIZABLE, WAIT_MS, queue, NULL) == 0;
        }
        pause_ms(round);
        CHECK(lkv_close(db, 0) == 0);
        for (struct lkv_msg *msg; (msg = lkv_queue_next(queue, 0)) != NULL; owed--) {
            lkv_msg_free(msg);
        }
        CHECK(owed == 0);
        lkv_queue_free(queue);
    }
}

int main(void) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        {"several threads use one node", several_threads_use_one_node},
        {"several stores live in one process", several_stores_live_in_one_process},
        {"submits meet a closing node", submits_meet_a_closing_node},
        {"threads use nodes while others restart", threads_use_nodes_while_others_restart},
    };
    make_folder();
    choose_peers();
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        printf("  %s\n", tests[i].name);
        (void)fflush(stdout);
        tests[i].run();
    }
    remove_tree(folder);
    printf("%zu passed, 0 failed\n", sizeof(tests) / sizeof(tests[0]));
    return 0;
}
