/* A counter that every call raises exactly once, however often the call is repeated: its caller may kill
 * it at any moment, and call again with the same number until it says that it is done.
 *
 *     counter DIR CALL        CALL: 1, 2, 3, ... ; prints the counter
 *
 * How: the calls are the numbers of one session, which is kept in the store itself. A write that is
 * sent twice under one number takes effect once. The count is the key's version: how often it was
 * written. On three nodes the same program would count as exactly, over the loss of any of them. */
#include <inttypes.h>
#include <ledgerkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TTL_MS = 7 * 24 * 3600 * 1000
}; /* a caller that stays away for longer begins a new count of calls */

static int fail(const char *what, int rc) {
    fprintf(stderr, "%s: %s (%s)\n", what, lkv_error_name(rc), lkv_last_text());
    return 1;
}

static int open_node(const char *dir, struct lkv **db) {
    struct lkv_options *options = lkv_options_new();
    int rc = lkv_options_set(options, "dir", dir);
    rc = rc == 0 ? lkv_open(db, NULL, options, NULL) : rc;
    lkv_options_free(options);
    return rc;
}

/* The session of earlier runs, or 0. */
static uint64_t known_session(struct lkv *db) {
    char text[32] = "";
    size_t size = 0;
    int rc = lkv_get_copy(db, LKV_STR("session"), text, sizeof(text) - 1, &size);
    return rc == 0 ? strtoull(text, NULL, 10) : 0;
}

/* Goes on with the session, or begins one and keeps its id, before any number of it is used. */
static int open_session(struct lkv *db, struct lkv_session **session) {
    uint64_t id = known_session(db);
    int rc = id != 0 ? lkv_session_open(db, id, TTL_MS, session) : LKV_ESESSION;
    if (rc != LKV_ESESSION) {
        return rc;
    }
    rc = lkv_session_open(db, 0, TTL_MS, session);
    if (rc == 0) {
        char text[32];
        int size = snprintf(text, sizeof(text), "%" PRIu64, lkv_session_id(*session));
        struct lkv_bytes value = {text, (size_t)size};
        rc = lkv_put(db, LKV_STR("session"), value, LKV_DEFAULT, NULL);
    }
    return rc;
}

/* Done when it returns 0, and then once; anything else may be repeated with the same number. */
static int increment(struct lkv_session *session, uint64_t call) {
    int rc;
    do {
        rc = lkv_put_once(session, call, LKV_STR("counter"), LKV_STR(""), LKV_DEFAULT, NULL);
    } while (rc == LKV_EUNKNOWN);
    return rc == LKV_EANSWERED ? 0 : rc; /* done by an earlier run, which heard of it */
}

static int print_count(struct lkv *db) {
    struct lkv_msg *answer = NULL;
    struct lkv_kv item;
    int rc = lkv_get(db, LKV_STR("counter"), LKV_LINEARIZABLE, LKV_DEFAULT, &answer);
    if (rc == 0 && lkv_msg_kv(answer, 0, &item)) {
        printf("%" PRIu64 "\n", item.version);
    }
    lkv_msg_free(answer);
    return rc;
}

int main(int argc, char **argv) {
    uint64_t call = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (call == 0) {
        fprintf(stderr, "usage: %s DIR CALL\n", argv[0]);
        return 3;
    }
    struct lkv *db = NULL;
    struct lkv_session *session = NULL;
    int rc = open_node(argv[1], &db);
    if (rc != 0) {
        return fail("open", rc);
    }
    rc = open_session(db, &session);
    rc = rc == 0 ? increment(session, call) : rc;
    rc = rc == 0 ? print_count(db) : rc;
    int exit_code = rc == 0 ? 0 : fail("count", rc);
    lkv_session_close(session, 0); /* it stays in the store, for the next run */
    lkv_close(db, 0);
    return exit_code;
}
