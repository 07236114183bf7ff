/* More opens that must fail (X-H1): with a code and a text that names the file, the limit or the option,
 * and with nothing of the host's process changed. And a disk that is full in its table of files (S9). */
#define _GNU_SOURCE
#include "tests/unit/lib/node_world.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>

/* What a library could change in the process of its host. */
struct process {
    size_t fds, threads;
    struct sigaction actions[65];
    sigset_t mask;
    mode_t umask;
    char cwd[PATH_BYTES];
    struct itimerval timer;
};

static struct world world;
static struct process before;

static void look_at(struct process *out, size_t threads) {
    *out = (struct process){.fds = count_fds(), .threads = count_threads(threads)};
    for (int i = 1; i < 65; i++) {
        (void)sigaction(i, NULL, &out->actions[i]);
    }
    cr_assert_eq(pthread_sigmask(SIG_SETMASK, NULL, &out->mask), 0);
    out->umask = umask(0);
    (void)umask(out->umask);
    cr_assert_not_null(getcwd(out->cwd, sizeof(out->cwd)));
    cr_assert_eq(getitimer(ITIMER_REAL, &out->timer), 0);
}

static void expect_unchanged(void) {
    struct process now;
    look_at(&now, before.threads);
    cr_assert_eq(now.fds, before.fds, "%zu descriptors, not %zu", now.fds, before.fds);
    cr_assert_eq(now.threads, before.threads, "%zu threads", now.threads);
    for (int i = 1; i < 65; i++) {
        cr_assert_eq(now.actions[i].sa_handler, before.actions[i].sa_handler, "signal %d", i);
        cr_assert_eq(now.actions[i].sa_flags, before.actions[i].sa_flags, "signal %d", i);
        cr_assert_eq(sigismember(&now.mask, i), sigismember(&before.mask, i), "signal %d", i);
    }
    cr_assert_eq(now.umask, before.umask);
    cr_assert_str_eq(now.cwd, before.cwd);
    cr_assert_eq(now.timer.it_value.tv_sec, before.timer.it_value.tv_sec);
}

static void setup(void) {
    world_init(&world);
    /* What libuv makes once for the process and keeps. */
    cr_assert_eq(lkv_close(open_lone(world.dirs[2]), 0), 0);
    look_at(&before, 1);
}

static void teardown(void) {
    expect_unchanged();
    world_fini(&world);
}

TestSuite(lib_node_doors, .init = setup, .fini = teardown, .timeout = 100);

static struct lkv_options *options_with(const char *name, const char *text) {
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    cr_assert_eq(lkv_options_set(options, name, text), 0, "%s", lkv_options_error(options));
    return options;
}

static void expect_refused(const char *name, const char *text, int code, const char *part) {
    for (int i = 0; i < 3; i++) {
        struct lkv *db = NULL;
        int rc = try_open(&db, options_with(name, text));
        cr_assert_eq(rc, code, "%s: %s", lkv_error_name(rc), open_text);
        cr_assert_not_null(strstr(open_text, part), "nothing like '%s' in: %s", part, open_text);
        expect_unchanged();
    }
}

/* The newest file in a folder of the node whose name ends so. */
static void find_file(const char *folder, const char *end, char path[3 * PATH_BYTES]) {
    char dir_path[2 * PATH_BYTES];
    (void)snprintf(dir_path, sizeof(dir_path), "%.200s/%s", world.dirs[0], folder);
    DIR *dir = opendir(dir_path);
    cr_assert_not_null(dir, "%s", dir_path);
    path[0] = '\0';
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t size = strlen(entry->d_name), tail = strlen(end);
        if (size >= tail && strcmp(entry->d_name + size - tail, end) == 0) {
            (void)snprintf(path, 3 * PATH_BYTES, "%s/%.200s", dir_path, entry->d_name);
        }
    }
    (void)closedir(dir);
    cr_assert_neq(path[0], '\0', "no %s in %s", end, folder);
}

static void make_store(const char *model) {
    struct lkv *db = NULL;
    struct lkv_options *options = options_with("model", model);
    cr_assert_eq(lkv_options_set(options, "image_log_bytes", "64KiB"), 0);
    cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
    static char value[16 * 1024];
    struct lkv_bytes record = {value, sizeof(value)};
    bool log = strcmp(model, "log") == 0;
    for (int i = 0; i < 40; i++) {
        int rc = log ? lkv_append(db, &record, 1, 0, WAIT_MS, NULL)
                     : lkv_put(db, LKV_STR("key"), record, WAIT_MS, NULL);
        cr_assert_eq(rc, 0, "%s", lkv_error_name(rc));
    }
    for (int i = 0; !log && status_number(db, "image_index") == 0; i++) {
        cr_assert_lt(i, 2000, "no image");
        sleep_ms(5);
    }
    cr_assert_eq(log ? lkv_log_hold(db, "reader", 3, WAIT_MS) : 0, 0);
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_node_doors, x_h1_a_corrupt_image) {
    make_store("kv");
    char path[3 * PATH_BYTES];
    find_file("image", ".img", path);
    overwrite(path, 100, "\x55\xaa", 2);
    expect_refused("model", "kv", LKV_EDAMAGED, strrchr(path, '/'));
}

Test(lib_node_doors, x_h1_both_votes_corrupt) {
    make_store("kv");
    char path[3 * PATH_BYTES];
    static const char noise[64] = "noise";
    find_file("data", "vote", path);
    overwrite(path, 16, noise, sizeof(noise));
    overwrite(path, 4096 + 16, noise, sizeof(noise));
    expect_refused("model", "kv", LKV_EDAMAGED, "vote");
}

Test(lib_node_doors, x_h1_corrupt_holds) {
    make_store("log");
    char path[3 * PATH_BYTES];
    find_file(".", "retention", path);
    overwrite(path, 10, "\x55\xaa", 2);
    expect_refused("model", "log", LKV_EDAMAGED, "retention");
}

Test(lib_node_doors, x_h1_the_other_model) {
    make_store("log");
    expect_refused("model", "kv", LKV_EIDENTITY, "log");
}

static void expect_bad_option(const char *name, const char *text, const char *part) {
    struct lkv_options *options = lkv_options_new();
    cr_assert_eq(lkv_options_set(options, name, text), LKV_EOPTION);
    cr_assert_not_null(strstr(lkv_options_error(options), part), "%s", lkv_options_error(options));
    lkv_options_free(options);
}

Test(lib_node_doors, x_h1_a_client_with_bad_options_or_without_descriptors) {
    expect_bad_option("endpoints", "nowhere", "nowhere");
    expect_bad_option("endpoints", "h:70000", "70000");
    expect_bad_option("timeout_ms", "soon", "soon");
    expect_bad_option("no such option", "1", "no such option");
    struct lkv *db = (struct lkv *)&world;
    cr_assert_eq(lkv_connect(&db, NULL, NULL), LKV_EINVAL);
    cr_assert_null(db);
    struct lkv_options *nobody = lkv_options_new();
    struct lkv_msg *why = NULL;
    cr_assert_eq(lkv_options_set(nobody, "endpoints", ""), 0);
    cr_assert_eq(lkv_connect(&db, nobody, &why), LKV_EOPTION);
    cr_assert(db == NULL && strstr(lkv_msg_text(why), "endpoints") != NULL);
    lkv_msg_free(why);
    lkv_options_free(nobody);
    struct rlimit old;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    int refused = 0;
    bool opened = false;
    for (rlim_t least = before.fds - 1; !opened; least++) {
        struct rlimit low = {.rlim_cur = least, .rlim_max = old.rlim_max};
        struct lkv_options *options = lkv_options_new();
        cr_assert_lt(least, 200);
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
        int rc = lkv_connect(&db, options, NULL);
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
        lkv_options_free(options);
        cr_assert_eq(rc == 0, db != NULL, "%s", lkv_error_name(rc));
        opened = rc == 0;
        refused += rc != 0;
        cr_assert_eq(lkv_close(db, 0), 0);
        expect_unchanged();
    }
    cr_assert_gt(refused, 1, "%d", refused);
}

/* X-H2: also of clients, and of members that never found their peers. */
Test(lib_node_doors, x_h2_a_hundred_clients_and_lonely_members_leave_nothing) {
    for (int i = 0; i < 100; i++) {
        struct lkv_options *options = lkv_options_new();
        struct lkv *db = NULL;
        cr_assert_eq(lkv_options_set(options, "endpoints", "127.0.0.1:1,localhost:1"), 0);
        cr_assert_eq(lkv_connect(&db, options, NULL), 0);
        lkv_options_free(options);
        if (i % 10 == 0) {
            int rc = lkv_put(db, LKV_STR("k"), LKV_STR("v"), 50, NULL);
            cr_assert_eq(lkv_outcome(rc), LKV_NOT_DONE, "%s", lkv_error_name(rc));
        }
        cr_assert_eq(lkv_close(db, 0), 0);
    }
    expect_unchanged();
    for (int i = 0; i < 20; i++) {
        open_member(&world, 0);
        close_member(&world, 0);
    }
}

/* S9: the n-th new name has no room, for every n: open, rename and mkdir fail, not writes. */
Test(lib_node_doors, s9_no_room_for_the_nth_name) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", world.dir, "tmpfs", 0, "size=64m,nr_inodes=100") != 0) {
        cr_skip("SKIPPED, LOUDLY: needs to mount a small file system");
    }
    bool opened = false;
    int refused = 0;
    for (int inodes = 2; !opened; inodes++) {
        char size[64];
        cr_assert_lt(inodes, 40);
        remove_tree(world.dirs[0]);
        (void)snprintf(size, sizeof(size), "size=64m,nr_inodes=%d", inodes);
        cr_assert_eq(mount("none", world.dir, "tmpfs", MS_REMOUNT, size), 0);
        struct lkv *db = NULL;
        int rc = try_open(&db, new_options(world.dirs[0], "n1"));
        cr_assert(rc == 0 || rc == LKV_ENOSPACE, "%d inodes: %s: %s", inodes, lkv_error_name(rc),
                  open_text);
        opened = rc == 0 && lkv_put(db, LKV_STR("k"), LKV_STR("v"), WAIT_MS, NULL) == 0;
        refused += rc != 0;
        (void)lkv_close(db, 0);
        expect_unchanged();
        cr_assert_eq(mount("none", world.dir, "tmpfs", MS_REMOUNT, "size=64m,nr_inodes=100"), 0);
        db = open_lone(world.dirs[0]);
        put(db, "again", "v");
        cr_assert_eq(lkv_close(db, 0), 0);
    }
    cr_assert_gt(refused, 4, "%d", refused);
    cr_assert_eq(umount2(world.dir, MNT_DETACH), 0);
}
