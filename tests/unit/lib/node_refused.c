/* X-H1, X-E5: opens that must fail: with the exact code, a text that helps, and nothing left behind. */
#define _GNU_SOURCE
#include "tests/unit/lib/node_world.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct world world;
static size_t fds, threads;
static struct sigaction before[32];

static void look_at_signals(struct sigaction out[32]) {
    for (int i = 1; i < 32; i++) {
        (void)sigaction(i, NULL, &out[i]);
    }
}

static void setup(void) {
    world_init(&world);
    look_at_signals(before);
    /* What libuv makes once for the process and keeps. */
    cr_assert_eq(lkv_close(open_lone(world.dirs[2]), 0), 0);
    fds = count_fds();
    threads = count_threads(1);
}

static void expect_nothing_left(void) {
    cr_assert_eq(count_fds(), fds, "%zu descriptors, not %zu", count_fds(), fds);
    cr_assert_eq(count_threads(threads), threads);
    struct sigaction after[32];
    look_at_signals(after);
    for (int i = 1; i < 32; i++) {
        cr_assert_eq(after[i].sa_handler, before[i].sa_handler, "signal %d", i);
    }
}

static void teardown(void) {
    expect_nothing_left();
    world_fini(&world);
}

TestSuite(lib_node_refused, .init = setup, .fini = teardown, .timeout = 60);

/* Three times: what one failure left would show in the next, or in the counts. */
static void expect_refused(struct lkv_options *(*options)(void), int code, const char *part) {
    for (int i = 0; i < 3; i++) {
        struct lkv *db = NULL;
        int rc = try_open(&db, options());
        cr_assert_eq(rc, code, "%s: %s", lkv_error_name(rc), open_text);
        cr_assert_not_null(strstr(open_text, part), "nothing like '%s' in: %s", part, open_text);
        expect_nothing_left();
    }
}

static struct lkv_options *lone(void) {
    return new_options(world.dirs[0], "n1");
}

static void make_lone(void) {
    struct lkv *db = open_lone(world.dirs[0]);
    put(db, "key", "a value to be found");
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* ------------------------------------------------------------------ arguments and options */

static struct lkv_options *without_dir(void) {
    return lkv_options_new();
}

static struct lkv_options *peers_without_self(void) {
    struct lkv_options *options = lone();
    cr_assert_eq(lkv_options_set(options, "peers", "n2=h:1,n3=h:2"), 0);
    return options;
}

static struct lkv_options *peers_without_default_self(void) {
    struct lkv_options *options = peers_without_self();
    cr_assert_eq(lkv_options_set(options, "id", ""), 0);
    return options;
}

Test(lib_node_refused, options_that_cannot_be) {
    expect_refused(without_dir, LKV_EOPTION, "dir");
    expect_refused(peers_without_self, LKV_EOPTION, "\"n1\"");
    expect_refused(peers_without_default_self, LKV_EOPTION, "\"n1\"");
    cr_assert_eq(access(world.dirs[0], F_OK), -1, "a refused open makes no directory");
    struct lkv *db = (struct lkv *)&world;
    cr_assert_eq(lkv_open(&db, NULL, NULL, NULL), LKV_EINVAL);
    cr_assert_null(db);
    struct lkv_options *options = lone();
    cr_assert_eq(lkv_open(&db, (struct lkv_env *)&world, options, NULL), LKV_EUNSUPPORTED);
    cr_assert_null(db);
    lkv_options_free(options);
}

static struct lkv_options *without_parent(void) {
    char dir[PATH_BYTES + 8];
    (void)snprintf(dir, sizeof(dir), "%s/x/y", world.dir);
    return new_options(dir, "n1");
}

Test(lib_node_refused, a_directory_that_cannot_be_made) {
    expect_refused(without_parent, LKV_ENOENT, "x/y");
    int fd = open(world.dirs[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* a file in its place */
    cr_assert_geq(fd, 0);
    (void)close(fd);
    struct lkv *db = NULL;
    cr_assert_lt(try_open(&db, lone()), 0);
    cr_assert_not_null(strstr(open_text, world.dirs[0]), "%s", open_text);
}

static void open_as_nobody(void) {
    if (setgid(65534) != 0 || setuid(65534) != 0) {
        _exit(2);
    }
    struct lkv *db = NULL;
    struct lkv_msg *why = NULL;
    struct lkv_options *options = lkv_options_new();
    int rc = lkv_options_set(options, "dir", world.dirs[0]);
    rc = rc == 0 ? lkv_open(&db, NULL, options, &why) : rc;
    bool good = rc == LKV_EPERM && why != NULL && strstr(lkv_msg_text(why), world.dirs[0]) != NULL;
    _exit(good ? 0 : 1);
}

Test(lib_node_refused, a_directory_of_another_user) {
    make_lone();
    if (getuid() != 0) {
        cr_skip("SKIPPED, LOUDLY: needs root to become another user");
    }
    cr_assert_eq(chmod(world.dir, 0755), 0);
    for (int mode = 0700; mode <= 0755; mode += 055) {
        cr_assert_eq(chmod(world.dirs[0], (mode_t)mode), 0);
        pid_t child = fork();
        if (child == 0) {
            open_as_nobody();
        }
        int status = 0;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0, "mode %o", mode);
    }
    struct lkv *db = open_lone(world.dirs[0]);
    expect_get(db, LKV_LINEARIZABLE, "key", "a value to be found");
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* ------------------------------------------------------------------ the disk */

static void mount_small(const char *size) {
    char options[64];
    (void)snprintf(options, sizeof(options), "size=%s", size);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", world.dir, "tmpfs", 0, options) != 0) {
        cr_skip("SKIPPED, LOUDLY: needs to mount a small file system");
    }
}

Test(lib_node_refused, a_full_disk) {
    mount_small("40k");
    expect_refused(lone, LKV_ENOSPACE, "no space");
    cr_assert_eq(mount("none", world.dir, "tmpfs", MS_REMOUNT, "size=64m"), 0);
    make_lone();
    cr_assert_eq(umount2(world.dir, MNT_DETACH), 0);
}

/* At whatever byte of an open the disk is full: a code that says so, and once there is room it goes
 * on as if nothing had happened. */
Test(lib_node_refused, a_disk_that_fills_anywhere_during_open) {
    mount_small("64m");
    for (int kib = 4; kib <= 2200; kib += kib < 64 ? 4 : 300) {
        char size[32];
        remove_tree(world.dirs[0]);
        (void)snprintf(size, sizeof(size), "size=%dk", kib);
        cr_assert_eq(mount("none", world.dir, "tmpfs", MS_REMOUNT, size), 0);
        struct lkv *db = NULL;
        int rc = try_open(&db, lone());
        cr_assert(rc == 0 || rc == LKV_ENOSPACE, "%d KiB: %s", kib, lkv_error_name(rc));
        if (rc == 0) {
            (void)lkv_close(db, 0);
        }
        expect_nothing_left();
        cr_assert_eq(mount("none", world.dir, "tmpfs", MS_REMOUNT, "size=64m"), 0);
        make_lone();
    }
    cr_assert_eq(umount2(world.dir, MNT_DETACH), 0);
}

/* X-C1: full while running: refused with no space, reads go on; with room again writes go on. */
Test(lib_node_refused, writes_on_a_disk_that_fills_while_running) {
    mount_small("8m");
    struct lkv *db = open_lone(world.dirs[0]);
    static char value[100 * 1024];
    memset(value, 'v', sizeof(value));
    put(db, "key", "kept");
    int rc = 0;
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    char filler[PATH_BYTES + 8];
    (void)snprintf(filler, sizeof(filler), "%s/filler", world.dir);
    int out = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(out, value, sizeof(value)) > 0) {
    }
    (void)close(out);
    (void)close(fd);
    int64_t begun = now_ms();
    for (int i = 0; i < 100 && rc != LKV_ENOSPACE; i++) {
        begun = now_ms();
        rc = lkv_put(db, LKV_STR("big"), (struct lkv_bytes){value, sizeof(value)}, 1000, NULL);
        cr_assert(rc == 0 || rc == LKV_ENOSPACE || rc == LKV_EUNKNOWN, "%s", lkv_error_name(rc));
    }
    cr_assert_eq(rc, LKV_ENOSPACE, "%s", lkv_error_name(rc));
    cr_assert_leq(now_ms() - begun, 1100);
    expect_get(db, LKV_LOCAL, "key", "kept");
    expect_get(db, LKV_LINEARIZABLE, "key", "kept");
    await_text(db, "state", "full");
    cr_assert_eq(unlink(filler), 0);
    for (int64_t end = now_ms() + 10000;; sleep_ms(20)) {
        rc = lkv_put(db, LKV_STR("again"), LKV_STR("v"), 1000, NULL);
        if (rc == 0) {
            break;
        }
        cr_assert_lt(now_ms(), end, "%s", lkv_error_name(rc));
    }
    cr_assert_eq(lkv_close(db, 0), 0);
    db = open_lone(world.dirs[0]);
    expect_get(db, LKV_LINEARIZABLE, "again", "v");
    cr_assert_eq(lkv_close(db, 0), 0);
    cr_assert_eq(umount2(world.dir, MNT_DETACH), 0);
}

Test(lib_node_refused, closing_on_a_full_disk_ends) {
    mount_small("2m");
    struct lkv *db = open_lone(world.dirs[0]);
    static char value[100 * 1024];
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    int owed = 0;
    for (int i = 0; i < 60; i++) {
        owed += lkv_put_submit(db, LKV_STR("big"), (struct lkv_bytes){value, sizeof(value)}, 60000,
                               queue, NULL) == 0;
    }
    sleep_ms(300);
    (void)lkv_close(db, 1000);
    while (owed > 0) {
        struct lkv_msg *msg = lkv_queue_next(queue, 0);
        cr_assert_not_null(msg);
        lkv_msg_free(msg);
        owed--;
    }
    lkv_queue_free(queue);
    cr_assert_eq(umount2(world.dir, MNT_DETACH), 0);
}

/* ------------------------------------------------------------------ damaged files */

static void path_of(const char *name, char out[2 * PATH_BYTES]) {
    (void)snprintf(out, 2 * PATH_BYTES, "%.250s/%s", world.dirs[0], name);
}

Test(lib_node_refused, a_damaged_identity) {
    make_lone();
    char path[2 * PATH_BYTES];
    path_of("identity", path);
    overwrite(path, 30, "Z", 1);
    expect_refused(lone, LKV_EDAMAGED, "/identity");
}

Test(lib_node_refused, an_identity_of_a_later_version) {
    make_lone();
    char path[2 * PATH_BYTES];
    path_of("identity", path);
    overwrite(path, 18, "9", 1);
    expect_refused(lone, LKV_EVERSION, "version 9");
}

/* S2: an acknowledged record that cannot be read is damage, never a shorter log. */
Test(lib_node_refused, a_damaged_segment) {
    make_lone();
    char name[PATH_BYTES];
    damage_text(world.dirs[0], "a value to be found", name);
    (void)strncat(name, ":", 2); /* and where in it */
    expect_refused(lone, LKV_EDAMAGED, name);
    cr_assert_not_null(strstr(open_text, "acknowledged"), "%s", open_text);
}

/* The whole of data/ is gone, the identity says that the node was a member: it has voted and
 * acknowledged, and must not take part as if it were new. */
Test(lib_node_refused, a_removed_log) {
    make_lone();
    char path[2 * PATH_BYTES];
    path_of("data", path);
    remove_tree(path);
    expect_refused(lone, LKV_EDAMAGED, "was removed");
}

/* The other way round: the log is nobody's, and a new identity beside it would hide that. */
static struct lkv_options *member(void) {
    return member_options(&world, 0);
}

Test(lib_node_refused, a_removed_identity) {
    make_lone();
    char path[2 * PATH_BYTES];
    path_of("identity", path);
    cr_assert_eq(unlink(path), 0);
    expect_refused(lone, LKV_EDAMAGED, "identity is missing");
    expect_refused(member, LKV_EDAMAGED, "identity is missing");
    cr_assert_neq(access(path, F_OK), 0, "a new identity was written");
}

/* No slot of the vote can be read: what is told is what this version can do. */
Test(lib_node_refused, both_slots_of_the_vote) {
    make_lone();
    char path[2 * PATH_BYTES];
    path_of("data/vote", path);
    cr_assert_eq(truncate(path, 0), 0);
    expect_refused(lone, LKV_EDAMAGED, "kvctl log dump");
    cr_assert_not_null(strstr(open_text, "must not vote again"), "%s", open_text);
    cr_assert_null(strstr(open_text, "new member"), "%s", open_text);
}

/* ------------------------------------------------------------------ ports */

static int taken_port;

static struct lkv_options *with_taken_port(void) {
    char address[32];
    struct lkv_options *options = lone();
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", taken_port);
    cr_assert_eq(lkv_options_set(options, "listen", address), 0);
    return options;
}

Test(lib_node_refused, a_port_in_use) {
    taken_port = world.ports[0];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)taken_port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(fd, 1), 0);
    fds++;
    char text[16];
    (void)snprintf(text, sizeof(text), ":%d", taken_port);
    expect_refused(with_taken_port, LKV_EADDRINUSE, text);
    (void)close(fd);
    fds--;
    struct lkv *db = NULL;
    cr_assert_eq(try_open(&db, with_taken_port()), 0, "%s", open_text);
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* ------------------------------------------------------------------ somebody else's directory */

static struct lkv_options *other_id(void) {
    return new_options(world.dirs[0], "other");
}

/* S17, X-E5 */
Test(lib_node_refused, the_directory_of_another_node) {
    make_lone();
    expect_refused(other_id, LKV_EIDENTITY, "\"n1\"");
    cr_assert_not_null(strstr(open_text, "\"other\""), "%s", open_text);
    struct lkv *db = open_lone(world.dirs[0]);
    expect_get(db, LKV_LINEARIZABLE, "key", "a value to be found");
    cr_assert_eq(lkv_close(db, 0), 0);
}

static struct lkv_options *lone_offline(void) {
    struct lkv_options *options = lone();
    cr_assert_eq(lkv_options_set(options, "offline", "on"), 0);
    return options;
}

static struct lkv_options *member_offline(void) {
    struct lkv_options *options = member_options(&world, 0);
    cr_assert_eq(lkv_options_set(options, "offline", "on"), 0);
    return options;
}

/* To look into a member that still waits for its peers must not make it a cluster of one. */
Test(lib_node_refused, a_member_that_is_not_founded_yet) {
    open_member(&world, 0);
    close_member(&world, 0);
    expect_refused(lone, LKV_EIDENTITY, "not founded yet");
    expect_refused(lone_offline, LKV_EIDENTITY, "not founded yet");
    expect_refused(member_offline, LKV_EIDENTITY, "no cluster yet");
    open_member(&world, 0); /* its real start is as good as before */
    await_text(world.nodes[0], "state", "founding");
    close_member(&world, 0);
}

/* Descriptors run out at every point of an open. */
Test(lib_node_refused, no_descriptors_left) {
    make_lone();
    struct rlimit old;
    (void)getrlimit(RLIMIT_NOFILE, &old);
    size_t least = fds;
    for (bool opened = false; !opened; least += 2) {
        cr_assert_lt(least, 200);
        struct rlimit low = {.rlim_cur = least, .rlim_max = old.rlim_max};
        struct lkv *db = NULL;
        struct lkv_msg *why = NULL;
        struct lkv_options *options = lone();
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
        opened = lkv_open(&db, NULL, options, &why) == 0;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
        lkv_options_free(options);
        (void)lkv_close(db, 0);
        lkv_msg_free(why);
        expect_nothing_left();
    }
    struct lkv *db = open_lone(world.dirs[0]);
    expect_get(db, LKV_LINEARIZABLE, "key", "a value to be found");
    cr_assert_eq(lkv_close(db, 0), 0);
}
