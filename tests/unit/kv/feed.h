/* For tests of the state machine: feeds it entries as the log would. */
#ifndef TESTS_UNIT_KV_FEED_H
#define TESTS_UNIT_KV_FEED_H

#include "base/feature.h"
#include "kv/command.h"
#include "kv/kv.h"
#include "tests/support/map_home.h"

#include <stdio.h>
#include <stdlib.h>

struct feed {
    struct kv *kv;
    uint64_t index, term;
    struct kv_result result; /* of the last entry */
    struct map_home *home;   /* owned; NULL: in memory */
};

/* Test code's own failures end the test program: a test must never pass by accident. */
#define FEED_REQUIRE(condition)                                                             \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            (void)fprintf(stderr, "%s:%d: required: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                        \
        }                                                                                   \
    } while (0)

/* With LKV_TEST_ENGINE=rocksdb in the environment the same tests drive the other engine. */
static inline struct feed feed_begin(struct kv_options options) {
    struct feed feed = {.term = 1};
    const char *engine = getenv("LKV_TEST_ENGINE");
    if (engine != NULL && strcmp(engine, "rocksdb") == 0) {
        feed.home = malloc(sizeof(*feed.home));
        FEED_REQUIRE(feed.home != NULL);
        map_home_make(feed.home);
        options.home = &feed.home->home;
    }
    int rc = kv_open(&feed.kv, &options);
    FEED_REQUIRE(rc == 0);
    return feed;
}

static inline struct feed feed_open(uint64_t seed) {
    return feed_begin((struct kv_options){.hash_seed = seed});
}

static inline int feed_entry(struct feed *feed, enum entry_type type, struct blob *payload);

/* A cluster that has agreed on history: the first entry is spent for it. */
static inline struct feed feed_open_history(uint64_t seed) {
    struct feed feed =
        feed_begin((struct kv_options){.hash_seed = seed, .feature_level = KV_LEVEL_HISTORY});
    struct blob *level = feature_encode(KV_LEVEL_HISTORY);
    FEED_REQUIRE(level != NULL);
    int rc = feed_entry(&feed, ENTRY_FEATURE, level);
    FEED_REQUIRE(rc == 0);
    blob_unref(level);
    return feed;
}

static inline void feed_close(struct feed *feed) {
    kv_close(feed->kv);
    feed->kv = NULL;
    if (feed->home != NULL) {
        map_home_remove(feed->home);
        free(feed->home);
        feed->home = NULL;
    }
}

/* Applies any entry and returns kv_apply's code; the entry's own is in feed->result. */
static inline int feed_entry(struct feed *feed, enum entry_type type, struct blob *payload) {
    const struct entry entry = {
        .index = feed->index + 1, .term = feed->term, .type = type, .payload = payload};
    size_t applied = 0;
    int rc = 0;
    while (rc == 0 && applied == 0) {
        rc = kv_apply(feed->kv, &entry, 1, &feed->result, &applied, NULL);
    }
    feed->index += applied;
    return rc;
}

static inline int feed_command(struct feed *feed, const struct kv_command *command) {
    struct blob *payload = kv_command_encode(command);
    FEED_REQUIRE(payload != NULL);
    int rc = feed_entry(feed, ENTRY_COMMAND, payload);
    blob_unref(payload);
    return rc;
}

static inline int feed_put(struct feed *feed, struct slice key, struct slice value) {
    const struct kv_command command = {.op = KV_PUT, .key = key, .value = value};
    return feed_command(feed, &command);
}

static inline int feed_delete(struct feed *feed, struct slice key, struct slice end) {
    const struct kv_command command = {.op = KV_DELETE, .key = key, .end = end};
    return feed_command(feed, &command);
}

static inline int feed_grant(struct feed *feed, int64_t id, uint64_t ttl_ms) {
    const struct kv_command command = {
        .op = KV_LEASE_GRANT, .lease = id, .ttl_ms = ttl_ms, .limit = KV_LEASES_MAX};
    return feed_command(feed, &command);
}

static inline void must_grant(struct feed *feed, int64_t id, uint64_t ttl_ms) {
    int rc = feed_grant(feed, id, ttl_ms);
    FEED_REQUIRE(rc == 0 && feed->result.rc == 0);
}

static inline void must_put(struct feed *feed, const char *key, const char *value) {
    int rc = feed_put(feed, slice_text(key), slice_text(value));
    FEED_REQUIRE(rc == 0 && feed->result.rc == 0);
}

static inline void must_delete(struct feed *feed, const char *key) {
    int rc = feed_delete(feed, slice_text(key), (struct slice){0});
    FEED_REQUIRE(rc == 0 && feed->result.rc == 0);
}

#endif
