/* lkv_log_walk: what a person sees of a log that nobody holds. */
#define _GNU_SOURCE
#include "tests/unit/lib/node_world.h"

#include <sched.h>
#include <sys/mount.h>

static struct world world;

enum { ITEMS_MAX = 64 };

struct item {
    enum lkv_log_kind kind;
    char file[PATH_BYTES], type[16], key[32], value[64], text[256];
    uint64_t offset, index, term;
    size_t payload_size;
};

static struct item items[ITEMS_MAX];
static size_t item_count;
static char why_text[1024];

static void copy(char *into, size_t size, struct lkv_bytes from) {
    (void)snprintf(into, size, "%.*s", (int)from.size,
                   from.data != NULL ? (const char *)from.data : "");
}

static int visit(void *arg, const struct lkv_log_item *item) {
    cr_assert_eq(arg, &world);
    if (item_count < ITEMS_MAX) {
        struct item *out = &items[item_count++];
        *out = (struct item){.kind = item->kind,
                             .offset = item->offset,
                             .index = item->index,
                             .term = item->term,
                             .payload_size = item->payload.size};
        (void)snprintf(out->file, sizeof(out->file), "%s", item->file);
        (void)snprintf(out->type, sizeof(out->type), "%s", item->type);
        (void)snprintf(out->text, sizeof(out->text), "%s", item->text != NULL ? item->text : "");
        copy(out->key, sizeof(out->key), item->key);
        copy(out->value, sizeof(out->value), item->value);
    }
    return 0;
}

static int walk(const char *dir) {
    struct lkv_msg *why = NULL;
    item_count = 0;
    int rc = lkv_log_walk(dir, visit, &world, &why);
    (void)snprintf(why_text, sizeof(why_text), "%s", why != NULL ? lkv_msg_text(why) : "");
    cr_assert_eq(rc < 0, why != NULL, "%s", lkv_error_name(rc));
    if (rc < 0) {
        cr_assert_str_eq(lkv_last_text(), why_text);
    }
    lkv_msg_free(why);
    return rc;
}

static size_t count_kind(enum lkv_log_kind kind) {
    size_t count = 0;
    for (size_t i = 0; i < item_count; i++) {
        count += items[i].kind == kind;
    }
    return count;
}

/* By number, from 1; the entry that raises the feature level comes among the first, and does not count. */
static const struct item *record(uint64_t number) {
    for (size_t i = 0; i < item_count; i++) {
        if (items[i].kind == LKV_LOG_RECORD && strcmp(items[i].type, "feature") != 0 &&
            --number == 0) {
            return &items[i];
        }
    }
    cr_assert_fail("too few records");
    return NULL;
}

static void setup(void) {
    world_init(&world);
    struct lkv *db = open_lone(world.dirs[0]);
    put(db, "a", "first value");
    put(db, "b", "second value");
    cr_assert_eq(lkv_delete(db, LKV_STR("a"), WAIT_MS, NULL), 0);
    cr_assert_eq(lkv_delete_range(db, LKV_STR("b"), LKV_STR("c"), WAIT_MS, NULL, NULL), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_log_walk, .init = setup, .fini = teardown, .timeout = 60);

Test(lib_log_walk, shows_every_record_in_order) {
    cr_assert_eq(walk(world.dirs[0]), 0);
    cr_assert_eq(count_kind(LKV_LOG_RECORD), 6);
    cr_assert_str_eq(record(1)->type, "noop");
    cr_assert_str_eq(record(2)->type, "put");
    cr_assert_str_eq(record(2)->key, "a");
    cr_assert_str_eq(record(2)->value, "first value");
    cr_assert_str_eq(record(3)->key, "b");
    cr_assert_str_eq(record(4)->type, "delete");
    cr_assert_str_eq(record(4)->key, "a");
    cr_assert_str_eq(record(5)->key, "b");
    uint64_t last = 0;
    for (size_t i = 0; i < item_count; i++) {
        if (items[i].kind == LKV_LOG_RECORD) {
            cr_assert_eq(items[i].index, ++last);
            cr_assert_geq(items[i].term, 1);
            cr_assert_eq(strncmp(items[i].file, "data/", 5), 0, "%s", items[i].file);
            cr_assert_str_eq(items[i].text, "");
            cr_assert_gt(items[i].offset, 0);
        }
    }
    cr_assert_gt(record(2)->payload_size, strlen("first value"));
    cr_assert_geq(count_kind(LKV_LOG_MARK), 1, "the mark of the clean stop");
    cr_assert_eq(count_kind(LKV_LOG_DAMAGED), 0);
    cr_assert_eq(count_kind(LKV_LOG_TORN), 0);
}

Test(lib_log_walk, changes_nothing_and_can_be_repeated) {
    cr_assert_eq(walk(world.dirs[0]), 0);
    static struct item before[ITEMS_MAX];
    memcpy(before, items, sizeof(items));
    size_t count = item_count;
    cr_assert_eq(walk(world.dirs[0]), 0);
    cr_assert_eq(item_count, count);
    cr_assert_eq(memcmp(before, items, count * sizeof(items[0])), 0);
    struct lkv *db = open_lone(world.dirs[0]);
    cr_assert_eq(status_number(db, "keys"), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_log_walk, leaves_no_descriptor) {
    cr_assert_eq(walk(world.dirs[0]), 0);
    size_t fds = count_fds();
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(walk(world.dirs[0]), 0);
        cr_assert_lt(walk(world.dir), 0);
    }
    cr_assert_eq(count_fds(), fds);
}

static int stop_at_third(void *arg, const struct lkv_log_item *item) {
    (void)item;
    return ++*(int *)arg == 3 ? 77 : 0;
}

Test(lib_log_walk, ends_when_the_visitor_says_so) {
    int seen = 0;
    struct lkv_msg *why = NULL;
    cr_assert_eq(lkv_log_walk(world.dirs[0], stop_at_third, &seen, &why), 77);
    cr_assert_eq(seen, 3);
    cr_assert_null(why);
    seen = 0;
    cr_assert_eq(lkv_log_walk(world.dirs[0], stop_at_third, &seen, NULL), 77);
}

Test(lib_log_walk, refuses_nothing_at_all) {
    struct lkv_msg *why = NULL;
    cr_assert_eq(lkv_log_walk(NULL, visit, &world, &why), LKV_EINVAL);
    lkv_msg_free(why);
    cr_assert_eq(lkv_log_walk(world.dirs[0], NULL, &world, NULL), LKV_EINVAL);
}

Test(lib_log_walk, says_what_is_no_nodes_directory_and_makes_nothing_there) {
    cr_assert_eq(walk(world.dir), LKV_ENOENT);
    cr_assert_not_null(strstr(why_text, "is not a node's directory"), "%s", why_text);
    cr_assert_eq(count_entries(world.dir), 1, "only the node");
    cr_assert_eq(walk(world.dirs[1]), LKV_ENOENT);
    cr_assert_eq(count_entries(world.dir), 1);
}

Test(lib_log_walk, does_not_read_what_a_process_holds) {
    struct lkv *db = open_lone(world.dirs[0]);
    cr_assert_eq(walk(world.dirs[0]), LKV_ELOCKED);
    char pid[32];
    (void)snprintf(pid, sizeof(pid), "process %d", (int)getpid());
    cr_assert_not_null(strstr(why_text, pid), "%s", why_text);
    cr_assert_eq(lkv_close(db, 0), 0);
    cr_assert_eq(walk(world.dirs[0]), 0);
}

/* The same directory, read-only, as a second mount. */
static void bind_read_only(const char *at) {
    cr_assert_eq(mkdir(at, 0700), 0);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(world.dirs[0], at, NULL, MS_BIND, NULL) != 0) {
        cr_skip("SKIPPED, LOUDLY: needs to mount");
    }
    cr_assert_eq(mount(NULL, at, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
}

Test(lib_log_walk, reads_a_read_only_file_system_unless_a_process_holds_it_elsewhere) {
    char lock_path[PATH_BYTES + 8];
    bind_read_only(world.dirs[1]);
    size_t fds = count_fds();
    cr_assert_eq(walk(world.dirs[1]), 0, "%s", why_text);
    cr_assert_not_null(record(2));
    struct lkv *db = open_lone(world.dirs[0]);
    cr_assert_eq(walk(world.dirs[1]), LKV_ELOCKED);
    cr_assert_not_null(strstr(why_text, "in use by process"), "%s", why_text);
    cr_assert_eq(lkv_close(db, 0), 0);
    (void)snprintf(lock_path, sizeof(lock_path), "%s/lock", world.dirs[0]);
    cr_assert_eq(unlink(lock_path), 0);
    cr_assert_eq(walk(world.dirs[1]), 0, "without a lock file nobody holds it: %s", why_text);
    cr_assert_eq(count_fds(), fds);
    cr_assert_eq(umount2(world.dirs[1], MNT_DETACH), 0);
}

Test(lib_log_walk, shows_damage_and_goes_on) {
    char name[PATH_BYTES];
    damage_text(world.dirs[0], "second value", name);
    cr_assert_eq(walk(world.dirs[0]), 0, "%s", why_text);
    cr_assert_geq(count_kind(LKV_LOG_DAMAGED), 1);
    for (size_t i = 0; i < item_count; i++) {
        if (items[i].kind == LKV_LOG_DAMAGED) {
            cr_assert_neq(items[i].text[0], '\0');
            cr_assert_str_eq(items[i].file + strlen("data/"), name);
            cr_assert_str_eq(items[i].type, "-");
            break;
        }
    }
    cr_assert_str_eq(record(4)->type, "delete", "what lies behind it is shown");
}

static void make_image_file(const char *name) {
    char path[2 * PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%.200s/image/%s", world.dirs[0], name);
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file, "%s", path);
    (void)fclose(file);
}

static const struct item *finding_of(const char *file) {
    for (size_t i = 0; i < item_count; i++) {
        if (items[i].kind == LKV_LOG_DAMAGED && strcmp(items[i].file, file) == 0) {
            return &items[i];
        }
    }
    cr_assert_fail("nothing is wrong with %s", file);
    return NULL;
}

/* An image that is half made, or cannot be read, stands for nothing. */
Test(lib_log_walk, an_image_that_cannot_be_read_is_a_finding_and_hides_no_damage) {
    char name[PATH_BYTES], file[PATH_BYTES + 8];
    damage_text(world.dirs[0], "second value", name);
    make_image_file("00000000000000000005.img.tmp");
    cr_assert_eq(walk(world.dirs[0]), 0, "%s", why_text);
    size_t damaged = count_kind(LKV_LOG_DAMAGED);
    cr_assert_geq(damaged, 1);
    make_image_file("00000000000000000005.img");
    cr_assert_eq(walk(world.dirs[0]), 0, "%s", why_text);
    cr_assert_eq(count_kind(LKV_LOG_DAMAGED), damaged + 1);
    const struct item *image = finding_of("image/00000000000000000005.img");
    cr_assert_str_eq(image->type, "image");
    cr_assert_eq(image->index, 5);
    cr_assert_neq(image->text[0], '\0');
    (void)snprintf(file, sizeof(file), "data/%s", name);
    (void)finding_of(file);
}

static void node_path(const char *name, char out[static 2 * PATH_BYTES]) {
    (void)snprintf(out, 2 * PATH_BYTES, "%.250s/%s", world.dirs[0], name);
}

Test(lib_log_walk, shows_an_identity_that_cannot_be_read_and_goes_on) {
    char path[2 * PATH_BYTES];
    node_path("identity", path);
    overwrite(path, 30, "Z", 1);
    cr_assert_eq(walk(world.dirs[0]), 0, "%s", why_text);
    cr_assert_neq(finding_of("identity")->text[0], '\0');
    cr_assert_eq(count_kind(LKV_LOG_DAMAGED), 1);
    cr_assert_str_eq(record(5)->type, "delete");
}

Test(lib_log_walk, shows_what_else_would_stop_a_start) {
    static const char *const names[] = {"seen", "retention"};
    char path[2 * PATH_BYTES];
    cr_assert_eq(walk(world.dirs[0]), 0);
    cr_assert_geq(count_kind(LKV_LOG_FILE), 1, "the identity is good");
    for (size_t i = 0; i < 2; i++) {
        node_path(names[i], path);
        FILE *out = fopen(path, "we");
        cr_assert_not_null(out);
        (void)fputs("noise\n", out);
        (void)fclose(out);
        cr_assert_eq(walk(world.dirs[0]), 0, "%s", why_text);
        cr_assert_neq(finding_of(names[i])->text[0], '\0');
        cr_assert_eq(count_kind(LKV_LOG_DAMAGED), i + 1);
    }
}

/* Both slots say the same (rule 2): one is enough, and no damage. */
Test(lib_log_walk, warns_of_one_vote_slot) {
    char path[2 * PATH_BYTES];
    node_path("data/vote", path);
    for (uint64_t slot = 0; slot < 2; slot++) {
        overwrite(path, (long)slot * 4096 + 40, "\xff\xff\xff\xff", 4);
        cr_assert_eq(walk(world.dirs[0]), 0, "%s", why_text);
        cr_assert_eq(count_kind(LKV_LOG_WARNING), slot == 0);
        cr_assert_eq(count_kind(LKV_LOG_DAMAGED), slot == 1);
        for (size_t i = 0; i < item_count; i++) {
            if (items[i].kind == LKV_LOG_WARNING) {
                cr_assert_str_eq(items[i].file, "data/vote");
                cr_assert_eq(items[i].offset, slot * 4096);
            }
        }
    }
}
