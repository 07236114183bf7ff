/* One node alone on real files: the verbs, reopening, killing, and being one of several handles. */
#include "tests/unit/lib/node_world.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct world world;

static void setup(void) {
    world_init(&world);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_node_alone, .init = setup, .fini = teardown, .timeout = 100);

Test(lib_node_alone, puts_gets_ranges_and_deletes) {
    struct lkv *db = open_lone(world.dirs[0]);
    uint64_t rev = 0;
    cr_assert_eq(lkv_put(db, LKV_STR("a"), LKV_STR("1"), LKV_DEFAULT, &rev), 0);
    cr_assert_eq(rev, 2, "an empty store has revision 1");
    put(db, "b", "2");
    put(db, "c", "3");
    expect_get(db, LKV_LINEARIZABLE, "b", "2");
    expect_get(db, LKV_LOCAL, "b", "2");
    char copy[1];
    size_t size = 0;
    cr_assert_eq(lkv_get_copy(db, LKV_STR("b"), copy, sizeof(copy), &size), 0);
    cr_assert(size == 1 && copy[0] == '2');
    struct lkv_msg *msg = NULL;
    struct lkv_kv kv;
    cr_assert_eq(lkv_range(db, LKV_STR("b"), (struct lkv_bytes){0}, 0, 0, LKV_LINEARIZABLE,
                           LKV_DEFAULT, &msg),
                 0);
    cr_assert_eq(lkv_msg_count(msg), 2);
    cr_assert(lkv_msg_kv(msg, 1, &kv));
    cr_assert(kv.key.size == 1 && *(const char *)kv.key.data == 'c');
    lkv_msg_free(msg);
    cr_assert_eq(lkv_delete(db, LKV_STR("a"), LKV_DEFAULT, &rev), 0);
    cr_assert_eq(rev, 5);
    cr_assert_eq(lkv_delete(db, LKV_STR("a"), LKV_DEFAULT, &rev), 0);
    cr_assert_eq(rev, 5, "deleting nothing changes no revision");
    uint64_t count = 0;
    cr_assert_eq(lkv_delete_range(db, LKV_STR("b"), LKV_STR("d"), LKV_DEFAULT, &rev, &count), 0);
    cr_assert_eq(count, 2);
    cr_assert_eq(lkv_get(db, LKV_STR("b"), LKV_LINEARIZABLE, LKV_DEFAULT, &msg), LKV_ENOTFOUND);
    cr_assert(lkv_msg_u64(msg, "rev", &rev));
    cr_assert_eq(rev, 6);
    lkv_msg_free(msg);
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_node_alone, finds_everything_again_when_reopened) {
    for (int life = 0; life < 4; life++) {
        struct lkv *db = open_lone(world.dirs[0]);
        char key[16];
        for (int i = 0; i < life * 50; i++) {
            (void)snprintf(key, sizeof(key), "k%d", i);
            expect_get(db, LKV_LINEARIZABLE, key, key);
        }
        for (int i = life * 50; i < (life + 1) * 50; i++) {
            (void)snprintf(key, sizeof(key), "k%d", i);
            put(db, key, key);
        }
        cr_assert_eq(lkv_close(db, life % 2 == 0 ? 0 : 1000), 0);
    }
}

static void put_many(struct lkv *db, int count) {
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    for (int i = 0; i < count; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "many%06d", i);
        cr_assert_eq(lkv_put_submit(db, bytes(key), bytes("v"), WAIT_MS, queue, NULL), 0);
    }
    for (int i = 0; i < count; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert(msg != NULL && lkv_msg_rc(msg) == 0);
        lkv_msg_free(msg);
    }
    lkv_queue_free(queue);
}

static uint64_t count_many(struct lkv *db, size_t limit, int flags, enum lkv_read how) {
    struct lkv_msg *msg = NULL;
    uint64_t total = 0;
    cr_assert_eq(lkv_range(db, LKV_STR("many"), LKV_STR("many~"), limit, flags, how, WAIT_MS, &msg),
                 0);
    cr_assert(lkv_msg_u64(msg, "total", &total));
    cr_assert_eq(lkv_msg_count(msg), (flags & (int)LKV_COUNT_ONLY) != 0 ? 0 : limit);
    lkv_msg_free(msg);
    return total;
}

/* On a thread of their own, when there are so many; each sees what was written before it. */
Test(lib_node_alone, counts_many_keys_beside_other_work) {
    enum { KEYS = 25000 };
    struct lkv *db = open_lone(world.dirs[0]);
    put_many(db, KEYS);
    for (uint64_t i = 1; i <= 20; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "many+%lu", i);
        put(db, key, "v");
        cr_assert_eq(count_many(db, 0, LKV_COUNT_ONLY, LKV_LINEARIZABLE), KEYS + i);
        cr_assert_eq(count_many(db, 7, LKV_TOTAL | LKV_KEYS_ONLY, LKV_LOCAL), KEYS + i);
    }
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(lkv_range_submit(db, LKV_STR("many"), LKV_STR("many~"), 0, LKV_COUNT_ONLY,
                                      LKV_LINEARIZABLE, WAIT_MS, queue, NULL),
                     0);
    }
    cr_assert_eq(lkv_close(db, 0), 0);
    for (int i = 0; i < 10; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg);
        cr_assert(lkv_msg_rc(msg) == 0 || lkv_msg_rc(msg) == LKV_ECLOSED);
        lkv_msg_free(msg);
    }
    lkv_queue_free(queue);
}

static unsigned long bytes_read(void) {
    unsigned long count = 0;
    FILE *file = fopen("/proc/self/io", "re");
    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "rchar: %lu", &count), 1);
    (void)fclose(file);
    return count;
}

/* It takes several turns, and what was read from disk behind it is not read again for each. */
Test(lib_node_alone, replays_a_large_delete_without_reading_the_log_again_and_again) {
    enum { KEYS = 30000, VALUES = 30, VALUE_BYTES = 100000 };
    static char value[VALUE_BYTES];
    struct lkv *db = open_lone(world.dirs[0]);
    put_many(db, KEYS);
    uint64_t count = 0;
    cr_assert_eq(lkv_delete_range(db, LKV_STR("many"), LKV_STR("many~"), WAIT_MS, NULL, &count), 0);
    cr_assert_eq(count, KEYS);
    for (int i = 0; i < VALUES; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        struct lkv_bytes large = {value, sizeof(value)};
        cr_assert_eq(lkv_put(db, bytes(key), large, WAIT_MS, NULL), 0);
    }
    cr_assert_eq(lkv_close(db, 0), 0);
    unsigned long before = bytes_read();
    db = open_lone(world.dirs[0]);
    cr_assert_eq(status_number(db, "keys"), VALUES);
    unsigned long read = bytes_read() - before;
    cr_assert_lt(read, 40UL * 1000 * 1000, "%lu bytes were read", read);
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_node_alone, closing_politely_finishes_the_writes_under_way) {
    enum { PUTS = 500 };
    struct lkv *db = open_lone(world.dirs[0]);
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    for (int i = 0; i < PUTS; i++) {
        cr_assert_eq(lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), WAIT_MS, queue, NULL), 0);
    }
    cr_assert_eq(lkv_close(db, WAIT_MS), 0);
    for (int i = 0; i < PUTS; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, 0);
        cr_assert_not_null(msg);
        cr_assert_eq(lkv_msg_rc(msg), 0, "%s", lkv_msg_text(msg));
        lkv_msg_free(msg);
    }
    lkv_queue_free(queue);
}

static int connect_to(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static bool was_closed(int fd) {
    char bytes[256];
    ssize_t size;
    do {
        size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    } while (size > 0);
    return size == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* N7: what begins like a peer and never says who it is. */
Test(lib_node_alone, takes_so_many_nameless_peers_and_no_more) {
    enum { PEERS = 300, TAKEN = 256 };
    int fds[PEERS];
    char listen[32];
    struct lkv *db = NULL;
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    (void)snprintf(listen, sizeof(listen), "127.0.0.1:%d", world.ports[0]);
    cr_assert_eq(lkv_options_set(options, "listen", listen), 0);
    cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
    for (int i = 0; i < PEERS; i++) {
        fds[i] = connect_to(world.ports[0]);
        cr_assert_eq(send(fds[i], "L", 1, MSG_NOSIGNAL), 1);
        sleep_ms(i % 16 == 0 ? 5 : 0);
    }
    int open = PEERS;
    for (int64_t end = now_ms() + 2000; open > TAKEN && now_ms() < end; sleep_ms(5)) {
        open = 0;
        for (int i = 0; i < PEERS; i++) {
            open += !was_closed(fds[i]);
        }
    }
    cr_assert_leq(open, TAKEN);
    cr_assert_gt(open, 0);
    put(db, "k", "v");
    for (int i = 0; i < PEERS; i++) {
        (void)close(fds[i]);
    }
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* L20, rule 31: follower first, leader only when its first entry is applied. */
Test(lib_node_alone, says_follower_then_leader_ready) {
    struct lkv *db = open_lone(world.dirs[0]);
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_role_watch(db, queue, &world), 0);
    bool ready = false;
    while (!ready) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg);
        cr_assert_eq(lkv_msg_tag(msg), &world);
        const char *role = lkv_msg_str(msg, "role");
        ready = strcmp(role, "leader_ready") == 0;
        uint64_t index = 0;
        if (ready) {
            cr_assert(lkv_msg_u64(msg, "index", &index));
            cr_assert_geq(status_number(db, "applied"), index);
        } else {
            cr_assert(strcmp(role, "follower") == 0 || strcmp(role, "candidate") == 0, "%s", role);
        }
        lkv_msg_free(msg);
    }
    cr_assert_eq(lkv_close(db, 0), 0);
    lkv_queue_free(queue);
}

Test(lib_node_alone, delivers_submitted_calls_through_its_queue) {
    struct lkv *db = open_lone(world.dirs[0]);
    struct lkv_queue *queue;
    enum { PUTS = 500 };
    static char tags[PUTS];
    cr_assert_eq(lkv_queue_new(&queue), 0);
    for (int i = 0; i < PUTS; i++) {
        cr_assert_eq(lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), WAIT_MS, queue, &tags[i]), 0);
    }
    uint64_t before = 0;
    for (int i = 0; i < PUTS; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        uint64_t rev = 0;
        cr_assert_not_null(msg);
        cr_assert_eq(lkv_msg_rc(msg), 0, "%s", lkv_msg_text(msg));
        cr_assert_eq((*(char *)lkv_msg_tag(msg))++, 0, "twice");
        cr_assert(lkv_msg_u64(msg, "rev", &rev));
        cr_assert_gt(rev, before, "in order");
        before = rev;
        lkv_msg_free(msg);
    }
    cr_assert_null(lkv_queue_next(queue, 50));
    cr_assert_eq(lkv_close(db, 0), 0);
    lkv_queue_free(queue);
}

/* X-A12 for one node: close() completes each first, and says only what is known. */
Test(lib_node_alone, close_answers_everything_that_is_owed) {
    for (int round = 0; round < 10; round++) {
        struct lkv *db = open_lone(world.dirs[0]);
        struct lkv_queue *queue;
        cr_assert_eq(lkv_queue_new(&queue), 0);
        enum { PUTS = 300 };
        static int tags[PUTS];
        memset(tags, 0, sizeof(tags));
        for (int i = 0; i < PUTS; i++) {
            cr_assert_eq(lkv_put_submit(db, LKV_STR("k"), LKV_STR("v"), WAIT_MS, queue, &tags[i]),
                         0);
        }
        cr_assert_eq(lkv_get_submit(db, LKV_STR("k"), LKV_LINEARIZABLE, WAIT_MS, queue, tags), 0);
        cr_assert_eq(lkv_close(db, 0), 0);
        int left = PUTS + 1;
        for (struct lkv_msg *msg; (msg = lkv_queue_next(queue, 0)) != NULL; left--) {
            int rc = lkv_msg_rc(msg);
            cr_assert(rc == 0 || rc == LKV_ECLOSED || rc == LKV_EUNKNOWN || rc == LKV_ENOTFOUND,
                      "%s", lkv_error_name(rc));
            (*(int *)lkv_msg_tag(msg))++;
            lkv_msg_free(msg);
        }
        cr_assert_eq(left, 0);
        for (int i = 1; i < PUTS; i++) {
            cr_assert_eq(tags[i], 1);
        }
        lkv_queue_free(queue);
    }
}

/* X-C9, N6: every size up to the limit and one byte more. */
Test(lib_node_alone, keeps_the_largest_key_and_value_and_refuses_more) {
    static char large[4 * 1024 * 1024 + 1];
    memset(large, 'x', sizeof(large));
    struct lkv *db = open_lone(world.dirs[0]);
    struct lkv_bytes key = {large, 8192};
    struct lkv_bytes value = {large, sizeof(large) - 1};
    cr_assert_eq(lkv_put(db, key, value, WAIT_MS, NULL), 0);
    cr_assert_eq(lkv_put(db, LKV_STR("e"), (struct lkv_bytes){0}, WAIT_MS, NULL), 0);
    value.size++;
    cr_assert_eq(lkv_put(db, key, value, WAIT_MS, NULL), LKV_ETOOLARGE);
    cr_assert_not_null(strstr(lkv_last_text(), "4194304"), "%s", lkv_last_text());
    key.size++;
    cr_assert_eq(lkv_put(db, key, LKV_STR("v"), WAIT_MS, NULL), LKV_ETOOLARGE);
    cr_assert_eq(lkv_put(db, (struct lkv_bytes){0}, LKV_STR("v"), WAIT_MS, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_close(db, 0), 0);
    db = open_lone(world.dirs[0]);
    key.size--;
    struct lkv_msg *msg = NULL;
    struct lkv_kv kv;
    cr_assert_eq(lkv_get(db, key, LKV_LINEARIZABLE, WAIT_MS, &msg), 0);
    cr_assert(lkv_msg_kv(msg, 0, &kv));
    cr_assert_eq(kv.value.size, sizeof(large) - 1);
    cr_assert_eq(memcmp(kv.value.data, large, kv.value.size), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
    cr_assert_eq(memcmp(kv.value.data, large, kv.value.size), 0, "messages outlive the handle");
    lkv_msg_free(msg);
}

/* X-H2 */
Test(lib_node_alone, opening_and_closing_a_hundred_times_leaves_nothing) {
    cr_assert_eq(lkv_close(open_lone(world.dirs[0]), 0), 0);
    size_t fds = count_fds();
    size_t threads = count_threads(1);
    for (int i = 0; i < 100; i++) {
        struct lkv *db = open_lone(world.dirs[0]);
        if (i % 10 == 0) {
            put(db, "k", "v");
        }
        cr_assert_eq(lkv_close(db, 0), 0);
    }
    cr_assert_eq(count_fds(), fds);
    cr_assert_eq(count_threads(threads), threads);
}

Test(lib_node_alone, two_stores_in_one_process_share_nothing) {
    struct lkv *one = open_lone(world.dirs[0]);
    struct lkv *two = open_lone(world.dirs[1]);
    put(one, "k", "one");
    put(two, "k", "two");
    expect_get(one, LKV_LINEARIZABLE, "k", "one");
    cr_assert_eq(lkv_close(one, 0), 0);
    expect_get(two, LKV_LINEARIZABLE, "k", "two");
    cr_assert_eq(lkv_close(two, 0), 0);
}

/* S16: refused in 1 s with the first one's pid, the first unharmed; also from a forked child. */
static struct lkv_options *listening(const char *dir, const char *address) {
    struct lkv_options *options = new_options(dir, "n1");
    cr_assert_eq(lkv_options_set(options, "listen", address), 0);
    return options;
}

/* X-H1: what the refused start was told is not for ever. */
Test(lib_node_alone, x_h1_an_address_in_use_leaves_no_node_behind) {
    char address[64];
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", world.ports[0]);
    struct lkv *db = NULL, *second = NULL;
    cr_assert_eq(try_open(&db, listening(world.dirs[0], address)), 0, "%s", open_text);
    for (int peers = 0; peers < 2; peers++) {
        struct lkv_options *options = listening(world.dirs[1], address);
        cr_assert(peers == 0 || lkv_options_set(options, "peers", world.peers) == 0);
        cr_expect_neq(try_open(&second, options), 0);
        cr_expect_not_null(strstr(open_text, address), "%s", open_text);
    }
    cr_assert_eq(lkv_close(db, 5000), 0);
    struct lkv_options *options = listening(world.dirs[1], address);
    cr_assert_eq(lkv_options_set(options, "model", "log"), 0);
    cr_assert_eq(try_open(&second, options), 0, "%s", open_text);
    cr_assert_eq(lkv_close(second, 5000), 0);
}

Test(lib_node_alone, a_second_user_of_the_directory_is_refused) {
    struct lkv *db = open_lone(world.dirs[0]);
    struct lkv *second = NULL;
    int64_t begun = now_ms();
    cr_assert_eq(try_open(&second, new_options(world.dirs[0], "n1")), LKV_ELOCKED);
    cr_assert_lt(now_ms() - begun, 1000);
    char pid[32];
    (void)snprintf(pid, sizeof(pid), "process %d", (int)getpid());
    cr_assert_not_null(strstr(open_text, pid), "%s", open_text);
    put(db, "k", "v");
    pid_t child = fork();
    if (child == 0) {
        struct lkv_options *options = new_options(world.dirs[0], "n1");
        int rc = lkv_open(&second, NULL, options, NULL);
        _exit(rc == LKV_ELOCKED ? 0 : 1);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    expect_get(db, LKV_LINEARIZABLE, "k", "v");
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* Puts until it is killed, and writes each acknowledged number to the pipe. */
static void put_for_ever(const char *dir, int first, int pipe_fd) {
    struct lkv *db = NULL;
    struct lkv_options *options = new_options(dir, "n1");
    if (lkv_open(&db, NULL, options, NULL) != 0) {
        _exit(1);
    }
    for (int i = first;; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        if (lkv_put(db, bytes(key), bytes(key), WAIT_MS, NULL) != 0 ||
            write(pipe_fd, &i, sizeof(i)) != sizeof(i)) {
            _exit(1);
        }
    }
}

/* S15, R29: after SIGKILL it starts, and what was acknowledged is there. */
Test(lib_node_alone, keeps_what_it_acknowledged_when_killed) {
    int next = 0;
    for (int round = 0; round < 5; round++) {
        int ends[2];
        cr_assert_eq(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
            put_for_ever(world.dirs[0], next, ends[1]);
        }
        (void)close(ends[1]);
        int acknowledged = next - 1;
        for (int i = 0; i < 20 + 7 * round; i++) {
            cr_assert_eq(read(ends[0], &acknowledged, sizeof(acknowledged)), sizeof(acknowledged));
        }
        (void)kill(child, SIGKILL);
        cr_assert_eq(waitpid(child, NULL, 0), child);
        while (read(ends[0], &acknowledged, sizeof(acknowledged)) == sizeof(acknowledged)) {
        }
        (void)close(ends[0]);
        struct lkv *db = open_lone(world.dirs[0]);
        for (int i = 0; i <= acknowledged; i++) {
            char key[16];
            (void)snprintf(key, sizeof(key), "k%d", i);
            expect_get(db, LKV_LINEARIZABLE, key, key);
        }
        cr_assert_eq(lkv_close(db, 0), 0);
        next = acknowledged + 1;
    }
}

/* L14: no polling. */
Test(lib_node_alone, an_idle_node_uses_no_processor) {
    struct lkv *db = open_lone(world.dirs[0]);
    put(db, "k", "v");
    sleep_ms(300);
    struct rusage before;
    struct rusage after;
    (void)getrusage(RUSAGE_SELF, &before);
    sleep_ms(2000);
    (void)getrusage(RUSAGE_SELF, &after);
    long used_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000 +
                   after.ru_utime.tv_usec - before.ru_utime.tv_usec +
                   (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
                   after.ru_stime.tv_usec - before.ru_stime.tv_usec;
    cr_assert_lt(used_us, 20000, "%ld us in 2 s", used_us);
    int64_t begun = now_ms();
    put(db, "k", "w");
    cr_assert_lt(now_ms() - begun, 1000);
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* An image is taken while writing, the log is cut behind it, and both come back together. */
Test(lib_node_alone, starts_from_its_image) {
    enum { PUTS = 400 };
    static char value[2048];
    memset(value, 'v', sizeof(value));
    for (int life = 0; life < 2; life++) {
        struct lkv_options *options = new_options(world.dirs[0], "n1");
        cr_assert_eq(lkv_options_set(options, "image_log_bytes", "64KiB"), 0);
        cr_assert_eq(lkv_options_set(options, "keep_entries", "10"), 0);
        struct lkv *db = NULL;
        cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
        for (int i = 0; i < PUTS; i++) {
            char key[16];
            (void)snprintf(key, sizeof(key), "k%d", i);
            cr_assert_eq(
                lkv_put(db, bytes(key), (struct lkv_bytes){value, sizeof(value)}, WAIT_MS, NULL),
                0);
        }
        for (int i = 0; status_number(db, "image_index") == 0; i++) {
            cr_assert_lt(i, 1000, "no image");
            sleep_ms(10);
        }
        cr_assert_eq(status_number(db, "keys"), PUTS);
        cr_assert_eq(lkv_close(db, 0), 0);
    }
    struct lkv *db = open_lone(world.dirs[0]);
    struct lkv_msg *msg = NULL;
    cr_assert_eq(lkv_get(db, LKV_STR("k399"), LKV_LINEARIZABLE, WAIT_MS, &msg), 0);
    lkv_msg_free(msg);
    cr_assert_eq(status_number(db, "keys"), PUTS);
    cr_assert_eq(status_number(db, "rev"), 1 + 2 * PUTS);
    cr_assert_eq(lkv_close(db, 0), 0);
}
