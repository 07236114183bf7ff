/* Views, iterators and pages in many threads at once, on a node and through a client, while keys are written,
 * deleted and compacted: two walks over one revision show the same (C16). */
#include "lib/ledgerkv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRITERS = 2, WALKERS = 3, WALKS = 200, KEYS = 64, WAIT_MS = 30000 };

static char dir[64];
static struct lkv *node, *client;
static atomic_bool stop;
static struct lkv_view *left[WALKERS][WALKS]; /* that outlive their handle */

#define CHECK(good)                                                                         \
    do {                                                                                    \
        if (!(good)) {                                                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #good, lkv_last_text()); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

static void open_both(void) {
    char address[96];
    struct lkv_options *options = lkv_options_new();
    (void)snprintf(address, sizeof(address), "unix:%s/n.sock", dir);
    CHECK(lkv_options_set(options, "dir", dir) == 0);
    CHECK(lkv_options_set(options, "listen", address) == 0);
    CHECK(lkv_options_set(options, "history_revisions", "20") == 0);
    CHECK(lkv_open(&node, NULL, options, NULL) == 0);
    lkv_options_free(options);
    options = lkv_options_new();
    CHECK(lkv_options_set(options, "endpoints", address) == 0);
    CHECK(lkv_connect(&client, options, NULL) == 0);
    lkv_options_free(options);
}

static void *write_all(void *arg) {
    static const char value[4000];
    unsigned at = (unsigned)(uintptr_t)arg;
    while (!atomic_load(&stop)) {
        char key[8];
        at = at * 1103515245 + 12345;
        (void)snprintf(key, sizeof(key), "k%02u", at / 65536 % KEYS);
        struct lkv_bytes bytes = {key, strlen(key)};
        int rc = at / 7 % 4 == 0
                     ? lkv_delete(node, bytes, WAIT_MS, NULL)
                     : lkv_put(node, bytes, (struct lkv_bytes){value, at % 4000}, WAIT_MS, NULL);
        CHECK(rc == 0);
    }
    return NULL;
}

/* What a walk has shown, in whichever order. */
struct seen {
    uint64_t count, revisions, bytes;
};

static void see(struct seen *seen, const struct lkv_kv *item, uint64_t rev) {
    CHECK(item->mod_rev <= rev && item->create_rev <= item->mod_rev);
    seen->count++;
    seen->revisions += item->mod_rev * (item->version + ((const uint8_t *)item->key.data)[2]);
    seen->bytes += item->value.size;
}

static struct seen walk(struct lkv_view *view, int flags) {
    struct lkv_iter *iter;
    struct lkv_kv item;
    struct seen seen = {0};
    int rc;
    CHECK(lkv_iter_open(view, LKV_STR("k"), LKV_STR("l"), flags, &iter) == 0);
    while ((rc = lkv_iter_next(iter, &item)) == 1) {
        see(&seen, &item, lkv_view_rev(view));
    }
    CHECK(rc == 0);
    lkv_iter_close(iter);
    return seen;
}

static struct seen page_through(struct lkv *db, uint64_t rev) {
    struct lkv_query query = {.from = LKV_STR("k"), .rev = rev, .limit = 7, .how = LKV_LOCAL};
    struct seen seen = {0};
    char from[16] = "";
    uint64_t more = 1;
    while (more != 0) {
        struct lkv_msg *page = NULL;
        struct lkv_kv item = {0};
        CHECK(lkv_find(db, &query, WAIT_MS, &page) == 0);
        CHECK(lkv_msg_u64(page, "more", &more));
        for (size_t i = 0; lkv_msg_kv(page, i, &item); i++) {
            see(&seen, &item, rev);
        }
        if (more != 0) {
            memcpy(from, item.key.data, item.key.size);
            from[item.key.size] = '\0';
            query.from = (struct lkv_bytes){from, item.key.size + 1};
        }
        lkv_msg_free(page);
    }
    return seen;
}

/* On a node local gets are answered on this thread, unless only a view keeps the revision. */
static uint64_t get_one_by_one(struct lkv *db, uint64_t rev) {
    uint64_t count = 0;
    for (int i = 0; i < KEYS; i++) {
        char key[8];
        struct lkv_msg *msg = NULL;
        (void)snprintf(key, sizeof(key), "k%02u", (unsigned)i);
        int rc =
            lkv_get_at(db, (struct lkv_bytes){key, strlen(key)}, rev, LKV_LOCAL, WAIT_MS, &msg);
        CHECK(rc == 0 || rc == LKV_ENOTFOUND);
        count += rc == 0;
        lkv_msg_free(msg);
    }
    return count;
}

static void *walk_all(void *arg) {
    uintptr_t walker = (uintptr_t)arg;
    for (size_t i = 0; i < WALKS; i++) {
        struct lkv *db = (walker + i) % 2 == 0 ? node : client;
        struct lkv_view *view;
        CHECK(lkv_view_open(db, i % 3 == 0 ? LKV_BOUNDED : LKV_LINEARIZABLE, 0, 60000, &view) == 0);
        struct seen up = walk(view, 0);
        struct seen down = walk(view, LKV_DESCENDING);
        struct seen pages = page_through(db, lkv_view_rev(view));
        CHECK(memcmp(&up, &down, sizeof(up)) == 0);
        CHECK(memcmp(&up, &pages, sizeof(up)) == 0);
        CHECK(get_one_by_one(db, lkv_view_rev(view)) == up.count);
        if (i % 8 == 0) {
            left[walker][i] = view;
        } else {
            lkv_view_close(view);
        }
    }
    return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *), uintptr_t arg) {
    CHECK(pthread_create(thread, NULL, run, (void *)arg) == 0);
}

int main(void) {
    pthread_t writers[WRITERS], walkers[WALKERS];
    (void)snprintf(dir, sizeof(dir), "%s/lkv-views-XXXXXX",
                   getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    CHECK(mkdtemp(dir) != NULL);
    open_both();
    for (uintptr_t i = 0; i < WRITERS; i++) {
        start(&writers[i], write_all, i + 1);
    }
    for (uintptr_t i = 0; i < WALKERS; i++) {
        start(&walkers[i], walk_all, i);
    }
    for (size_t i = 0; i < WALKERS; i++) {
        CHECK(pthread_join(walkers[i], NULL) == 0);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < WRITERS; i++) {
        CHECK(pthread_join(writers[i], NULL) == 0);
    }
    CHECK(lkv_close(client, 0) == 0);
    CHECK(lkv_close(node, 0) == 0);
    for (size_t i = 0; i < WALKERS * WALKS; i++) {
        lkv_view_close(left[i / WALKS][i % WALKS]);
    }
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command) == 0 ? 0 : 1;
}
