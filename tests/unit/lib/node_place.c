/* A node's directory that was copied, restored or moved, its addresses, and how a lone node gets peers
 * (rules 17 and 19). */
#include "tests/unit/lib/node_world.h"

static struct world world;

static void setup(void) {
    world_init(&world);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_node_place, .init = setup, .fini = teardown, .timeout = 60);

static void path_in_world(const char *name, char out[PATH_BYTES]) {
    (void)snprintf(out, PATH_BYTES, "%.200s/%s", world.dir, name);
}

static void copy_dir(const char *from, const char *to) {
    char command[3 * PATH_BYTES];
    (void)snprintf(command, sizeof(command), "cp -a %s %s", from, to);
    cr_assert_eq(system(command), 0);
}

static void set(struct lkv_options *options, const char *name, const char *text) {
    cr_assert_eq(lkv_options_set(options, name, text), 0, "%s", lkv_options_error(options));
}

static void expect_refused(struct lkv_options *options, const char *part) {
    struct lkv *db = NULL;
    int rc = try_open(&db, options);
    cr_assert_eq(rc, LKV_EIDENTITY, "%s: %s", lkv_error_name(rc), open_text);
    cr_assert_not_null(strstr(open_text, part), "no '%s' in: %s", part, open_text);
}

static void expect_value(struct lkv_options *options, const char *value) {
    struct lkv *db = NULL;
    cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
    expect_get(db, LKV_LINEARIZABLE, "k", value);
    cr_assert_eq(lkv_close(db, 0), 0);
}

static struct lkv_options *moved(struct lkv_options *options) {
    set(options, "moved", "on");
    return options;
}

static void make_lone(void) {
    struct lkv *db = open_lone(world.dirs[0]);
    put(db, "k", "1");
    cr_assert_eq(lkv_close(db, 0), 0);
}

static void read_identity(const char *dir, char out[1024]) {
    char path[2 * PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%.250s/identity", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, out, 1023);
    cr_assert_gt(size, 0);
    out[size] = '\0';
    (void)close(fd);
}

/* ------------------------------------------------------------------ copies */

/* S17: refused before anything of it is changed; the option lets it in, and then it is in its place. */
Test(lib_node_place, rule_17_a_copied_directory_is_refused_until_it_is_said_to_have_moved) {
    make_lone();
    char copy[PATH_BYTES];
    char before[1024];
    char after[1024];
    path_in_world("copy", copy);
    copy_dir(world.dirs[0], copy);
    read_identity(copy, before);
    for (int i = 0; i < 3; i++) {
        expect_refused(new_options(copy, "n1"), "was copied, restored or moved");
        cr_assert_not_null(strstr(open_text, "--moved on"));
    }
    read_identity(copy, after);
    cr_assert_str_eq(after, before, "a refused start writes nothing");
    expect_value(new_options(world.dirs[0], "n1"), "1");
    expect_value(moved(new_options(copy, "n1")), "1");
    expect_value(new_options(copy, "n1"), "1");
}

Test(lib_node_place, rule_17_a_restored_directory_is_refused_in_the_same_place) {
    make_lone();
    char backup[PATH_BYTES];
    path_in_world("backup", backup);
    copy_dir(world.dirs[0], backup);
    remove_tree(world.dirs[0]);
    copy_dir(backup, world.dirs[0]);
    expect_refused(new_options(world.dirs[0], "n1"), "was copied, restored or moved");
    expect_value(moved(new_options(world.dirs[0], "n1")), "1");
}

/* Another name on the same file system is the same directory. */
Test(lib_node_place, rule_17_a_renamed_directory_is_the_same) {
    make_lone();
    char there[PATH_BYTES];
    path_in_world("there", there);
    cr_assert_eq(rename(world.dirs[0], there), 0);
    expect_value(new_options(there, "n1"), "1");
}

/* It says so when it has asked the others: before that it knows no leader for another reason. */
static void await_refusal(struct lkv *db) {
    bool refused = false;
    for (int64_t end = now_ms() + WAIT_MS; !refused; sleep_ms(20)) {
        int rc = lkv_put(db, LKV_STR("k"), LKV_STR("no"), 300, NULL);
        refused = rc == LKV_ENOLEADER && strstr(lkv_last_text(), "moved=on") != NULL;
        cr_assert(refused || now_ms() < end, "it still takes part: %s: %s", lkv_error_name(rc),
                  lkv_last_text());
    }
}

/* A copy that ran has a higher counter, so the right one is refused, also by members that were restarted
 * since. With the copy stopped, the option makes it the newer one. */
Test(lib_node_place, rule_17_after_a_copy_ran_the_right_directory_comes_back_with_the_option) {
    char copy[PATH_BYTES];
    path_in_world("copy", copy);
    open_all(&world);
    put(world.nodes[0], "k", "1");
    await_applied(world.nodes[2], status_number(world.nodes[0], "commit"));
    close_member(&world, 2);
    copy_dir(world.dirs[2], copy);
    open_member(&world, 2);
    put(world.nodes[2], "k", "2");
    close_member(&world, 2);

    char original[PATH_BYTES];
    memcpy(original, world.dirs[2], sizeof(original));
    memcpy(world.dirs[2], copy, sizeof(copy));
    cr_assert_eq(try_open(&world.nodes[2], moved(member_options(&world, 2))), 0, "%s", open_text);
    put(world.nodes[2], "k", "3");
    close_member(&world, 2);

    memcpy(world.dirs[2], original, sizeof(original));
    for (int i = 0; i < 2; i++) {
        close_member(&world, i);
        open_member(&world, i);
    }
    put(world.nodes[0], "k", "4");
    open_member(&world, 2);
    await_refusal(world.nodes[2]);
    await_text(world.nodes[2], "state", "Two directories claim to be one node");
    close_member(&world, 2);
    cr_assert_eq(try_open(&world.nodes[2], moved(member_options(&world, 2))), 0, "%s", open_text);
    put(world.nodes[2], "k", "5");
    close_member(&world, 2);
    open_member(&world, 2);
    expect_get(world.nodes[2], LKV_LINEARIZABLE, "k", "5");
}

/* All of them copied at once: nobody could confirm anything, but for the operator's word. A wrong choice is
 * put right by the other one. */
Test(lib_node_place, rule_17_a_whole_cluster_moves_with_newest) {
    open_all(&world);
    put(world.nodes[0], "k", "1");
    for (int i = 0; i < NODES; i++) {
        await_applied(world.nodes[i], status_number(world.nodes[0], "commit"));
    }
    for (int i = 0; i < NODES; i++) {
        close_member(&world, i);
    }
    for (int i = 0; i < NODES; i++) {
        char copy[PATH_BYTES];
        char name[16];
        (void)snprintf(name, sizeof(name), "copy%d", i);
        path_in_world(name, copy);
        copy_dir(world.dirs[i], copy);
        memcpy(world.dirs[i], copy, sizeof(copy));
        expect_refused(member_options(&world, i), "moved=newest");
    }
    for (int i = 0; i < NODES; i++) {
        cr_assert_eq(try_open(&world.nodes[i], moved(member_options(&world, i))), 0, "%s",
                     open_text);
    }
    await_text(world.nodes[0], "state", "moved=newest");
    await_text(world.nodes[0], "role", "stopped");
    await_text(world.nodes[0], "state", "moved=newest");
    for (int i = 0; i < NODES; i++) {
        (void)lkv_close(world.nodes[i], 0);
        world.nodes[i] = NULL;
    }
    for (int i = 0; i < NODES; i++) {
        struct lkv_options *options = member_options(&world, i);
        set(options, "moved", "newest");
        cr_assert_eq(try_open(&world.nodes[i], options), 0, "%s", open_text);
    }
    expect_get(world.nodes[1], LKV_LINEARIZABLE, "k", "1");
    put(world.nodes[2], "k", "2");
    for (int i = 0; i < NODES; i++) {
        close_member(&world, i);
        open_member(&world, i);
    }
    expect_get(world.nodes[0], LKV_LINEARIZABLE, "k", "2");
}

/* A member's directory is looked at beside the member itself: it says hello to nobody. */
Test(lib_node_place, rule_17_a_copy_may_be_looked_at_and_stays_a_copy) {
    char copy[PATH_BYTES];
    path_in_world("copy", copy);
    open_all(&world);
    put(world.nodes[0], "k", "1");
    await_applied(world.nodes[2], status_number(world.nodes[0], "commit"));
    close_member(&world, 2);
    copy_dir(world.dirs[2], copy);
    open_member(&world, 2);
    put(world.nodes[2], "k", "2");
    struct lkv_options *options = new_options(copy, "n3");
    set(options, "offline", "on");
    struct lkv *db = NULL;
    cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
    expect_get(db, LKV_LOCAL, "k", "1");
    sleep_ms(300);
    put(world.nodes[2], "k", "3");
    cr_assert_eq(lkv_close(db, 0), 0);
    put(world.nodes[2], "k", "4");
    expect_refused(new_options(copy, "n3"), "was copied, restored or moved");
}

/* Nor does it make a copy of a lone directory the right one, as `kvctl --dir` opens it. */
Test(lib_node_place, rule_17_a_lone_copy_opened_offline_stays_a_copy) {
    make_lone();
    char copy[PATH_BYTES];
    path_in_world("copy", copy);
    copy_dir(world.dirs[0], copy);
    for (int i = 0; i < 2; i++) {
        struct lkv_options *options = new_options(copy, "n1");
        set(options, "offline", "on");
        expect_value(options, "1");
    }
    expect_refused(new_options(copy, "n1"), "was copied, restored or moved");
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    set(options, "offline", "on");
    expect_value(options, "1");
    expect_value(new_options(world.dirs[0], "n1"), "1");
}

/* ------------------------------------------------------------------ addresses */

static struct lkv_options *at(const char *peers) {
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    set(options, "peers", peers);
    return options;
}

/* X-E5 */
Test(lib_node_place, rule_19_the_first_address_is_free_and_a_later_one_needs_the_option) {
    make_lone();
    char first[64];
    char second[64];
    (void)snprintf(first, sizeof(first), "n1=127.0.0.1:%d", world.ports[0]);
    (void)snprintf(second, sizeof(second), "n1=127.0.0.1:%d", world.ports[1]);
    expect_value(at(first), "1");
    expect_value(at(first), "1");
    expect_refused(at(second), first + 3);
    cr_assert_not_null(strstr(open_text, second + 3), "%s", open_text);
    cr_assert_not_null(strstr(open_text, "moved=on"), "%s", open_text);
    expect_value(moved(at(second)), "1");
    expect_value(at(second), "1");
    expect_refused(at(first), second + 3);
    expect_value(new_options(world.dirs[0], "n1"), "1");
}

/* All of three move to other addresses; a name stays for ever. */
Test(lib_node_place, rule_19_members_get_other_addresses_with_the_option) {
    open_all(&world);
    put(world.nodes[0], "k", "1");
    for (int i = 0; i < NODES; i++) {
        close_member(&world, i);
    }
    choose_ports(world.ports, NODES);
    (void)snprintf(world.peers, sizeof(world.peers),
                   "n1=127.0.0.1:%d,n2=127.0.0.1:%d,n3=127.0.0.1:%d", world.ports[0],
                   world.ports[1], world.ports[2]);
    expect_refused(member_options(&world, 0), "start every member once with the new peers");
    for (int i = 0; i < NODES; i++) {
        cr_assert_eq(try_open(&world.nodes[i], moved(member_options(&world, i))), 0, "%s",
                     open_text);
    }
    expect_get(world.nodes[1], LKV_LINEARIZABLE, "k", "1");
    for (int i = 0; i < NODES; i++) {
        close_member(&world, i);
        open_member(&world, i);
    }
    expect_get(world.nodes[2], LKV_LINEARIZABLE, "k", "1");
}

/* A member that is told neither peers nor listen is where its peers look for it; one that is alone is
 * where listen_alone says, but for an address that it has had. */
Test(lib_node_place, rule_19_a_member_without_the_option_listens_where_its_peers_find_it) {
    char expected[64];
    char other[64];
    open_all(&world);
    put(world.nodes[0], "k", "1");
    for (int i = 0; i < NODES; i++) {
        close_member(&world, i);
    }
    for (int i = 0; i < 2; i++) {
        char name[4];
        (void)snprintf(name, sizeof(name), "n%d", i + 1);
        struct lkv_options *options = new_options(world.dirs[i], name);
        set(options, "listen_alone", "127.0.0.1:0");
        cr_assert_eq(try_open(&world.nodes[i], options), 0, "%s", open_text);
        (void)snprintf(expected, sizeof(expected), "127.0.0.1:%d", world.ports[i]);
        await_text(world.nodes[i], "listen", expected);
    }
    expect_get(world.nodes[1], LKV_LINEARIZABLE, "k", "1");

    char lone[PATH_BYTES];
    path_in_world("lone", lone);
    struct lkv_options *options = new_options(lone, "n1");
    (void)snprintf(other, sizeof(other), "unix:%.40s/s", world.dir);
    set(options, "listen_alone", other);
    struct lkv *db = NULL;
    cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
    await_text(db, "listen", other);
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* ------------------------------------------------------------------ growing */

static void put_many(struct lkv *db, int from, int to) {
    for (int i = from; i < to; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        put(db, key, key);
    }
}

static void expect_many(struct lkv *db, int count) {
    for (int i = 0; i < count; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        expect_get(db, LKV_LINEARIZABLE, key, key);
    }
}

Test(lib_node_place, rule_19_a_lone_node_grows_to_three_and_keeps_everything) {
    enum { ALONE = 30, ALL = 60 };
    struct lkv *db = open_lone(world.dirs[0]);
    char cluster[1024];
    char after[1024];
    put_many(db, 0, ALONE);
    (void)status_text(db, "cluster_id", cluster);
    cr_assert_eq(lkv_close(db, 0), 0);
    open_member(&world, 0);
    await_text(world.nodes[0], "state", "growing: 1 of 3 members seen");
    open_member(&world, 1);
    await_text(world.nodes[1], "state", "n1 is alone in cluster");
    cr_assert_eq(lkv_put(world.nodes[1], LKV_STR("k"), LKV_STR("no"), 300, NULL), LKV_ENOLEADER);
    open_member(&world, 2);
    expect_many(world.nodes[2], ALONE);
    put_many(world.nodes[1], ALONE, ALL);
    for (int i = 0; i < NODES; i++) {
        (void)status_text(world.nodes[i], "cluster_id", after);
        cr_assert_str_eq(after, cluster);
    }
    close_member(&world, 0); /* any one may go */
    expect_many(world.nodes[1], ALL);
    put_many(world.nodes[2], ALL, ALL + 5);
    open_member(&world, 0);
    expect_many(world.nodes[0], ALL + 5);
    for (int i = 0; i < NODES; i++) {
        close_member(&world, i);
    }
    /* Without the option it is a member of three for ever, and never alone again. */
    cr_assert_eq(try_open(&world.nodes[0], new_options(world.dirs[0], "n1")), 0, "%s", open_text);
    sleep_ms(700);
    cr_assert_not(has_role(world.nodes[0], "leader"));
    open_member(&world, 1);
    expect_many(world.nodes[0], ALL + 5);
}

/* With one missing nothing is decided, and it may be alone again. */
Test(lib_node_place, rule_19_a_lone_node_that_waits_can_go_back) {
    make_lone();
    open_member(&world, 0);
    open_member(&world, 1);
    await_text(world.nodes[0], "state", "growing: 2 of 3 members seen");
    cr_assert_eq(lkv_put(world.nodes[0], LKV_STR("k"), LKV_STR("no"), 300, NULL), LKV_ENOLEADER);
    close_member(&world, 0);
    expect_value(new_options(world.dirs[0], "n1"), "1");
    open_member(&world, 0);
    open_member(&world, 2);
    expect_get(world.nodes[1], LKV_LINEARIZABLE, "k", "1");
}

/* By an image, since the log no longer begins at 1. */
Test(lib_node_place, rule_19_a_lone_node_whose_log_was_cut_grows_too) {
    static char value[4096];
    memset(value, 'v', sizeof(value));
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    struct lkv *db = NULL;
    set(options, "image_log_bytes", "64KiB");
    set(options, "keep_entries", "5");
    cr_assert_eq(try_open(&db, options), 0, "%s", open_text);
    put(db, "k", "1");
    for (int i = 0; i < 600; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "big%d", i % 50);
        cr_assert_eq(
            lkv_put(db, bytes(key), (struct lkv_bytes){value, sizeof(value)}, WAIT_MS, NULL), 0);
    }
    for (int i = 0; status_number(db, "first") < 10; i++) {
        cr_assert_lt(i, 1000, "the log was not cut");
        sleep_ms(10);
    }
    cr_assert_eq(lkv_close(db, 0), 0);
    open_all(&world);
    expect_get(world.nodes[2], LKV_LINEARIZABLE, "k", "1");
    await_applied(world.nodes[1], status_number(world.nodes[2], "applied"));
    cr_assert_eq(status_number(world.nodes[1], "keys"), 51);
    close_member(&world, 0);
    put(world.nodes[1], "k", "2");
}

/* What can never end says why; when that has gone, so has the text. */
Test(lib_node_place, rule_19_growing_says_who_refuses_and_why) {
    make_lone();
    struct lkv_options *options = member_options(&world, 1);
    set(options, "model", "log");
    cr_assert_eq(try_open(&world.nodes[1], options), 0, "%s", open_text);
    open_member(&world, 0);
    await_text(world.nodes[0], "state", "refused by n2: n2 has model log, n1 has model kv");
    await_text(world.nodes[0], "state", "growing: 1 of 3 members seen");
    await_text(world.nodes[1], "state", "refused by n1: n1 has model kv, n2 has model log");
    cr_assert_eq(lkv_put(world.nodes[0], LKV_STR("k"), LKV_STR("no"), 300, NULL), LKV_ENOLEADER);
    cr_assert_not_null(strstr(lkv_last_text(), "refused by n2"), "%s", lkv_last_text());
    close_member(&world, 1);
    remove_tree(world.dirs[1]);
    open_member(&world, 1);
    await_text(world.nodes[0], "state", "growing: 2 of 3 members seen");
    char text[1024];
    (void)status_text(world.nodes[0], "state", text);
    cr_assert_null(strstr(text, "refused"), "%s", text);
    open_member(&world, 2);
    expect_get(world.nodes[2], LKV_LINEARIZABLE, "k", "1");
}

/* Two that were alone are two clusters. */
Test(lib_node_place, rule_19_two_lone_nodes_do_not_become_one) {
    make_lone();
    struct lkv *db = NULL;
    cr_assert_eq(try_open(&db, new_options(world.dirs[1], "n2")), 0, "%s", open_text);
    put(db, "mine", "2");
    cr_assert_eq(lkv_close(db, 0), 0);
    open_all(&world);
    sleep_ms(700);
    for (int i = 0; i < NODES; i++) {
        cr_assert_not(has_role(world.nodes[i], "leader"));
        close_member(&world, i);
    }
    expect_value(new_options(world.dirs[0], "n1"), "1");
}
