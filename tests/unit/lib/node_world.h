/* For the tests of whole nodes: a folder of their own, free ports, and nodes in this process. */
#ifndef TESTS_UNIT_LIB_NODE_WORLD_H
#define TESTS_UNIT_LIB_NODE_WORLD_H

#include "lib/ledgerkv.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 3, PATH_BYTES = 256, WAIT_MS = 20000 };

struct world {
    char dir[PATH_BYTES];         /* everything lies in it */
    char dirs[NODES][PATH_BYTES]; /* of the nodes */
    int ports[NODES];
    char peers[256]; /* the option */
    struct lkv *nodes[NODES];
};

static inline void sleep_ms(long ms) {
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&span, NULL);
}

static inline int64_t now_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Held open until all are known, so that they differ. */
static inline void choose_ports(int *ports, int count) {
    int sockets[NODES];
    for (int i = 0; i < count; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        cr_assert_geq(sockets[i], 0);
        cr_assert_eq(bind(sockets[i], (struct sockaddr *)&address, size), 0);
        cr_assert_eq(getsockname(sockets[i], (struct sockaddr *)&address, &size), 0);
        ports[i] = ntohs(address.sin_port);
    }
    for (int i = 0; i < count; i++) {
        (void)close(sockets[i]);
    }
}

static inline void world_init(struct world *world) {
    const char *base = getenv("TMPDIR");
    *world = (struct world){0};
    (void)snprintf(world->dir, PATH_BYTES, "%.100s/lkv-unit-XXXXXX", base != NULL ? base : "/tmp");
    cr_assert_not_null(mkdtemp(world->dir));
    choose_ports(world->ports, NODES);
    for (int i = 0; i < NODES; i++) {
        (void)snprintf(world->dirs[i], PATH_BYTES, "%.200s/n%d", world->dir, i + 1);
    }
    (void)snprintf(world->peers, sizeof(world->peers),
                   "n1=127.0.0.1:%d,n2=127.0.0.1:%d,n3=127.0.0.1:%d", world->ports[0],
                   world->ports[1], world->ports[2]);
}

static inline void remove_tree(const char *path) {
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

/* Small files and short timeouts: the tests wait for real clocks. */
static inline struct lkv_options *new_options(const char *dir, const char *id) {
    struct lkv_options *options = lkv_options_new();
    cr_assert_not_null(options);
    cr_assert_eq(lkv_options_set(options, "dir", dir), 0);
    cr_assert_eq(lkv_options_set(options, "id", id), 0);
    cr_assert_eq(lkv_options_set(options, "segment_bytes", "1MiB"), 0);
    cr_assert_eq(lkv_options_set(options, "election_ms", "150"), 0);
    cr_assert_eq(lkv_options_set(options, "heartbeat_ms", "30"), 0);
    cr_assert_eq(lkv_options_set(options, "digest_hours", "0"), 0); /* entries are counted */
    return options;
}

static inline struct lkv_options *member_options(const struct world *world, int i) {
    char id[16];
    (void)snprintf(id, sizeof(id), "n%d", i + 1);
    struct lkv_options *options = new_options(world->dirs[i], id);
    cr_assert_eq(lkv_options_set(options, "peers", world->peers), 0);
    return options;
}

/* Opens and frees the options. The text is kept for the caller. */
static char open_text[1024];

static inline int try_open(struct lkv **out, struct lkv_options *options) {
    struct lkv_msg *why = NULL;
    int rc = lkv_open(out, NULL, options, &why);
    lkv_options_free(options);
    (void)snprintf(open_text, sizeof(open_text), "%s", why != NULL ? lkv_msg_text(why) : "");
    cr_assert_eq(rc != 0, why != NULL, "a failed open says why, and only that: %d", rc);
    cr_assert_eq(rc == 0, *out != NULL);
    lkv_msg_free(why);
    return rc;
}

static inline struct lkv *open_lone(const char *dir) {
    struct lkv *db = NULL;
    int rc = try_open(&db, new_options(dir, "n1"));
    cr_assert_eq(rc, 0, "%s: %s", lkv_error_name(rc), open_text);
    return db;
}

static inline void open_member(struct world *world, int i) {
    int rc = try_open(&world->nodes[i], member_options(world, i));
    cr_assert_eq(rc, 0, "%s: %s", lkv_error_name(rc), open_text);
}

static inline void open_all(struct world *world) {
    for (int i = 0; i < NODES; i++) {
        open_member(world, i);
    }
}

static inline void close_member(struct world *world, int i) {
    cr_assert_eq(lkv_close(world->nodes[i], 0), 0);
    world->nodes[i] = NULL;
}

static inline void world_fini(struct world *world) {
    for (int i = 0; i < NODES; i++) {
        if (world->nodes[i] != NULL) {
            close_member(world, i);
        }
    }
    remove_tree(world->dir);
}

/* ------------------------------------------------------------------ asking */

static inline struct lkv_bytes bytes(const char *text) {
    return (struct lkv_bytes){text, strlen(text)};
}

static inline void put(struct lkv *db, const char *key, const char *value) {
    int rc = lkv_put(db, bytes(key), bytes(value), WAIT_MS, NULL);
    cr_assert_eq(rc, 0, "put %s: %s: %s", key, lkv_error_name(rc), lkv_last_text());
}

static inline void expect_get(struct lkv *db, enum lkv_read how, const char *key,
                              const char *value) {
    struct lkv_msg *msg = NULL;
    struct lkv_kv kv;
    int rc = lkv_get(db, bytes(key), how, WAIT_MS, &msg);
    cr_assert_eq(rc, 0, "get %s: %s", key, lkv_error_name(rc));
    cr_assert(lkv_msg_kv(msg, 0, &kv));
    cr_assert_eq(kv.value.size, strlen(value));
    cr_assert_arr_eq(kv.value.data, value, kv.value.size);
    lkv_msg_free(msg);
}

static inline uint64_t status_number(struct lkv *db, const char *name) {
    struct lkv_msg *msg = NULL;
    uint64_t value = 0;
    cr_assert_eq(lkv_status(db, WAIT_MS, &msg), 0);
    cr_assert(lkv_msg_u64(msg, name, &value), "status has no number %s", name);
    lkv_msg_free(msg);
    return value;
}

static inline bool status_text(struct lkv *db, const char *name, char out[1024]) {
    struct lkv_msg *msg = NULL;
    cr_assert_eq(lkv_status(db, WAIT_MS, &msg), 0);
    const char *text = lkv_msg_str(msg, name);
    (void)snprintf(out, 1024, "%s", text != NULL ? text : "");
    lkv_msg_free(msg);
    return text != NULL;
}

static inline bool has_role(struct lkv *db, const char *role) {
    char text[1024];
    (void)status_text(db, "role", text);
    return strcmp(text, role) == 0;
}

/* The index of a node that leads, once one does. */
static inline int find_leader(const struct world *world) {
    for (int64_t end = now_ms() + WAIT_MS; now_ms() < end; sleep_ms(5)) {
        for (int i = 0; i < NODES; i++) {
            if (world->nodes[i] != NULL && has_role(world->nodes[i], "leader")) {
                return i;
            }
        }
    }
    cr_assert_fail("no leader in %d ms", WAIT_MS);
    return -1;
}

static inline void await_text(struct lkv *db, const char *name, const char *part) {
    char text[1024] = "";
    for (int64_t end = now_ms() + WAIT_MS; now_ms() < end; sleep_ms(5)) {
        if (status_text(db, name, text) && strstr(text, part) != NULL) {
            return;
        }
    }
    cr_assert_fail("%s is '%s', not '%s', after %d ms", name, text, part, WAIT_MS);
}

static inline void await_applied(struct lkv *db, uint64_t index) {
    for (int64_t end = now_ms() + WAIT_MS; status_number(db, "applied") < index; sleep_ms(5)) {
        cr_assert_lt(now_ms(), end, "entry %lu was not applied in %d ms", index, WAIT_MS);
    }
}

/* ------------------------------------------------------------------ the process */

static inline size_t count_entries(const char *path) {
    DIR *dir = opendir(path);
    cr_assert_not_null(dir);
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(dir);
    return count;
}

static inline size_t count_fds(void) {
    return count_entries("/proc/self/fd");
}

/* A joined thread may be seen for a moment longer. */
static inline size_t count_threads(size_t expected) {
    size_t count = count_entries("/proc/self/task");
    for (int i = 0; i < 200 && count > expected; i++) {
        sleep_ms(5);
        count = count_entries("/proc/self/task");
    }
    return count;
}

static inline void overwrite(const char *path, long offset, const char *with, size_t size) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0, "%s", path);
    cr_assert_eq(pwrite(fd, with, size, offset), (ssize_t)size);
    (void)close(fd);
}

static inline long find_text(const char *path, const char *text) {
    static char content[2 * 1024 * 1024];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, content, sizeof(content)) : 0;
    size_t wanted = strlen(text);
    (void)close(fd);
    for (ssize_t at = 0; at + (ssize_t)wanted <= size; at++) {
        if (memcmp(content + at, text, wanted) == 0) {
            return at;
        }
    }
    return -1;
}

/* Changes one byte of this text in the first file in DIR/data/ that has it; the file's name to `name`. */
static inline void damage_text(const char *node_dir, const char *text, char name[PATH_BYTES]) {
    char folder[2 * PATH_BYTES];
    (void)snprintf(folder, sizeof(folder), "%.250s/data", node_dir);
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    long at = -1;
    while (at < 0 && (entry = readdir(dir)) != NULL) {
        char path[3 * PATH_BYTES];
        (void)snprintf(path, sizeof(path), "%s/%.200s", folder, entry->d_name);
        (void)snprintf(name, PATH_BYTES, "%.200s", entry->d_name);
        at = entry->d_name[0] != '.' ? find_text(path, text) : -1;
        if (at >= 0) {
            overwrite(path, at, "#", 1);
        }
    }
    (void)closedir(dir);
    cr_assert_geq(at, 0, "no file has '%s'", text);
}

#endif
