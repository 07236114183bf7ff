/* The state machine against the naive one, with random commands and random questions. */
#include "base/prng.h"
#include "kv/view.h"
#include "naive_query.h"

#include <criterion/criterion.h>

enum { KEY_MAX = 40, VALUE_MAX = 3000 };

struct pair {
    struct feed feed;
    struct naive naive;
    struct prng prng;
};

static struct slice random_key(struct prng *prng, uint8_t *into) {
    static const char *const prefixes[] = {"", "registry/", "registry/pods/", "\xff\xff"};
    static const uint8_t letters[] = {0, 'a', 'b', 'c', 0xff};
    const char *prefix = prefixes[prng_below(prng, 4)];
    size_t size = strlen(prefix);
    memcpy(into, prefix, size);
    for (size_t more = 1 + prng_below(prng, 5); more > 0; more--) {
        into[size++] = letters[prng_below(prng, sizeof(letters))];
    }
    return slice_of(into, size);
}

/* Mostly small; some of them large enough to stay in the log entry's payload. */
static struct slice random_value(struct prng *prng, uint8_t *into) {
    size_t size = prng_below(prng, 8) == 0 ? prng_below(prng, VALUE_MAX) : prng_below(prng, 20);
    memset(into, (int)prng_below(prng, 256), size);
    return slice_of(into, size);
}

static struct slice random_end(struct prng *prng, uint8_t *into) {
    switch (prng_below(prng, 40)) {
    case 0: return slice_of("\0", 1);
    case 1:
    case 2:
    case 3: return random_key(prng, into);
    default: return (struct slice){0};
    }
}

static void random_command(struct pair *pair, unsigned deletes_of_16) {
    uint8_t key_bytes[KEY_MAX];
    uint8_t other_bytes[VALUE_MAX];
    struct slice key = random_key(&pair->prng, key_bytes);
    uint64_t expected = 0;
    if (prng_below(&pair->prng, 16) < deletes_of_16) {
        struct slice end = random_end(&pair->prng, other_bytes);
        cr_assert_eq(feed_delete(&pair->feed, key, end), 0);
        expected = naive_delete(&pair->naive, key, end);
    } else {
        struct slice value = random_value(&pair->prng, other_bytes);
        cr_assert_eq(feed_put(&pair->feed, key, value), 0);
        naive_put(&pair->naive, key, value);
    }
    cr_assert_eq(pair->feed.result.rc, 0);
    cr_assert_eq(pair->feed.result.count, expected);
    cr_assert_eq(pair->feed.result.revision, pair->naive.revision);
}

static void compare_point(struct pair *pair) {
    uint8_t key_bytes[KEY_MAX];
    struct slice key = random_key(&pair->prng, key_bytes);
    size_t at = naive_lower(&pair->naive, key);
    struct kv_item item;
    struct kv_stamp stamp;
    int rc = kv_get(pair->feed.kv, key, &item, &stamp);
    cr_assert_eq(rc, naive_has(&pair->naive, at, key) ? 0 : LKV_ENOTFOUND);
    cr_assert(rc != 0 || naive_equal(&pair->naive.keys[at], &item, false));
    cr_assert_eq(stamp.revision, pair->naive.revision);
    cr_assert_eq(stamp.index, pair->feed.index);
    kv_item_release(&item);

    uint8_t copy[16];
    size_t size;
    cr_assert_eq(kv_get_copy(pair->feed.kv, key, copy, sizeof(copy), &size), rc);
    if (rc == 0) {
        struct slice value = blob_slice(pair->naive.keys[at].value);
        cr_assert_eq(size, value.size);
        cr_assert_arr_eq(copy, value.data, size < sizeof(copy) ? size : sizeof(copy));
    }
}

static void compare_page(struct pair *pair) {
    struct prng *prng = &pair->prng;
    uint8_t from_bytes[KEY_MAX];
    uint8_t to_bytes[KEY_MAX];
    const struct naive *naive = &pair->naive;
    struct kv_query query = naive_random_query(prng, naive->revision);
    if (naive->count > 1500) { /* the model sorts slowly */
        query.order = KV_BY_KEY;
        query.limit = query.limit > 0 ? query.limit : 1;
    }
    query.from = prng_below(prng, 2) ? random_key(prng, from_bytes) : (struct slice){0};
    query.to = prng_below(prng, 2) ? random_key(prng, to_bytes) : (struct slice){0};
    struct naive_page page = naive_query(naive, &query);
    struct kv_range range;
    cr_assert_eq(kv_range(pair->feed.kv, &query, &range), 0);
    cr_assert_eq(range.count, page.count);
    cr_assert_eq(range.more, page.more);
    cr_assert_eq(range.total, page.total);
    cr_assert_eq(range.stamp.revision, naive->revision);
    for (size_t i = 0; i < page.count; i++) {
        cr_assert(naive_equal(page.keys[i], &range.items[i], query.keys_only));
    }
    kv_range_fini(&range);
    free(page.keys);
}

static void compare_stats(const struct pair *pair) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < pair->naive.count; i++) {
        bytes += pair->naive.keys[i].key->size + pair->naive.keys[i].value->size;
    }
    struct kv_stats stats;
    kv_stats(pair->feed.kv, &stats);
    cr_assert_eq(stats.keys, pair->naive.count);
    cr_assert_eq(stats.versions, pair->naive.count, "no view, so no older versions");
    cr_assert_eq(stats.bytes, bytes);
}

Test(kv_model, agrees_with_the_naive_one) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct pair pair = {.feed = feed_open(seed), .naive = naive_new(), .prng = prng_of(seed)};
        for (unsigned step = 0; step < 12000; step++) {
            unsigned deletes_of_16 = step / 3000 % 2 == 0 ? 2 : 6;
            random_command(&pair, deletes_of_16);
            if (step % 4 == 0) {
                compare_point(&pair);
            }
            if (step % 16 == 0) {
                compare_page(&pair);
            }
            if (step % 1024 == 0) {
                compare_stats(&pair);
            }
        }
        compare_stats(&pair);
        naive_free(&pair.naive);
        feed_close(&pair.feed);
    }
}

/* A view beside a copy of the model from the same moment. */
struct kept {
    struct kv_view *view;
    struct naive naive;
    uint64_t digest; /* when it was opened */
};

static uint64_t view_digest(struct kv_view *view) {
    uint64_t digest = 0;
    cr_assert_eq(kv_view_digest(view, NULL, &digest), 0);
    return digest;
}

static struct kept keep(const struct pair *pair) {
    struct kept kept = {.naive = naive_copy(&pair->naive)};
    cr_assert_eq(kv_view_open(pair->feed.kv, &kept.view), 0);
    kept.digest = view_digest(kept.view);
    return kept;
}

static void let_go(struct kept *kept) {
    struct kv_stamp stamp;
    kv_view_stamp(kept->view, &stamp);
    cr_assert_eq(stamp.revision, kept->naive.revision);
    cr_assert_eq(view_digest(kept->view), kept->digest, "a view does not change");
    kv_view_close(kept->view);
    naive_free(&kept->naive);
    kept->view = NULL;
}

/* Versions that must exist: the newest, and those that some view sees and the present does not. */
static size_t expected_versions(const struct pair *pair, const struct kept *kept, size_t views) {
    size_t versions = pair->naive.count;
    for (size_t v = 0; v < views; v++) {
        for (size_t i = 0; kept[v].view != NULL && i < kept[v].naive.count; i++) {
            const struct naive_key *key = &kept[v].naive.keys[i];
            bool counted = false;
            for (size_t other = 0; other <= v; other++) {
                const struct naive *in = other < v ? &kept[other].naive : &pair->naive;
                if (other < v && kept[other].view == NULL) {
                    continue;
                }
                size_t at = naive_lower(in, blob_slice(key->key));
                counted = counted || (naive_has(in, at, blob_slice(key->key)) &&
                                      in->keys[at].mod_rev == key->mod_rev);
            }
            versions += !counted;
        }
    }
    return versions;
}

Test(kv_model, views_keep_what_they_saw_and_no_more) {
    enum { VIEWS = 5 };
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct pair pair = {.feed = feed_open(seed), .naive = naive_new(), .prng = prng_of(seed)};
        struct kept kept[VIEWS] = {{NULL, {NULL, 0, 0, 0}, 0}};
        for (unsigned step = 0; step < 6000; step++) {
            random_command(&pair, step / 1000 % 2 == 0 ? 2 : 6);
            if (prng_below(&pair.prng, 64) == 0) {
                struct kept *one = &kept[prng_below(&pair.prng, VIEWS)];
                if (one->view != NULL) {
                    let_go(one);
                } else {
                    *one = keep(&pair);
                }
                struct kv_stats stats;
                kv_stats(pair.feed.kv, &stats);
                /* Tombstones may be in the way as well; they are counted, and are few. */
                size_t needed = expected_versions(&pair, kept, VIEWS);
                cr_assert_geq(stats.versions, needed);
                cr_assert_leq(stats.versions, needed * 3 + 8);
                compare_page(&pair);
            }
        }
        for (unsigned v = 0; v < VIEWS; v++) {
            if (kept[v].view != NULL) {
                let_go(&kept[v]);
            }
        }
        compare_stats(&pair); /* and all memory of older versions is back */
        naive_free(&pair.naive);
        feed_close(&pair.feed);
    }
}

static void compare_view(struct kv_view *view, const struct naive *naive) {
    struct walk walk;
    walk_init_pinned(&walk, view->kv, view->store, &view->stamp);
    size_t seen = 0;
    while (!walk.ended) {
        struct kv_version *versions[WALK_KEYS];
        size_t count = walk_next(&walk, versions, WALK_KEYS, false);
        for (size_t i = 0; i < count; i++) {
            const struct kv_item item = {.key = version_key(versions[i]),
                                         .value = version_value(versions[i]),
                                         .create_rev = versions[i]->create_rev,
                                         .mod_rev = versions[i]->main,
                                         .version = versions[i]->version};
            cr_assert_lt(seen, naive->count);
            cr_assert(naive_equal(&naive->keys[seen++], &item, false));
            version_unref(versions[i]);
        }
    }
    walk_fini(&walk);
    cr_assert_eq(seen, naive->count);
}

Test(kv_model, a_view_shows_every_key_as_it_was) {
    struct pair pair = {.feed = feed_open(3), .naive = naive_new(), .prng = prng_of(3)};
    for (unsigned round = 0; round < 40; round++) {
        for (unsigned i = 0; i < 200; i++) {
            random_command(&pair, 3);
        }
        struct kept kept = keep(&pair);
        for (unsigned i = 0; i < 300; i++) {
            random_command(&pair, 5);
            if (i % 100 == 0) {
                compare_view(kept.view, &kept.naive);
            }
        }
        compare_view(kept.view, &kept.naive);
        let_go(&kept);
    }
    naive_free(&pair.naive);
    feed_close(&pair.feed);
}
