/* The state machine as naively as possible, for comparison: a sorted array of keys. */
#ifndef TESTS_UNIT_KV_NAIVE_H
#define TESTS_UNIT_KV_NAIVE_H

#include "feed.h"

struct naive_key {
    struct blob *key, *value; /* owned references */
    uint64_t create_rev, mod_rev, version;
    int64_t lease;
};

struct naive {
    struct naive_key *keys; /* owned, ascending */
    size_t count, capacity;
    uint64_t revision;
};

static inline struct naive naive_new(void) {
    return (struct naive){.revision = 1};
}

static inline void naive_free(struct naive *naive) {
    for (size_t i = 0; i < naive->count; i++) {
        blob_unref(naive->keys[i].key);
        blob_unref(naive->keys[i].value);
    }
    free(naive->keys);
    *naive = naive_new();
}

static inline struct naive naive_copy(const struct naive *from) {
    struct naive copy = *from;
    copy.capacity = from->count;
    copy.keys = calloc(from->count + 1, sizeof(copy.keys[0]));
    FEED_REQUIRE(copy.keys != NULL);
    for (size_t i = 0; i < from->count; i++) {
        copy.keys[i] = from->keys[i];
        (void)blob_ref(copy.keys[i].key);
        (void)blob_ref(copy.keys[i].value);
    }
    return copy;
}

/* Position of the first key >= `key`. */
static inline size_t naive_lower(const struct naive *naive, struct slice key) {
    size_t at = 0;
    size_t end = naive->count;
    while (at < end) {
        size_t middle = (at + end) / 2;
        if (slice_compare(blob_slice(naive->keys[middle].key), key) < 0) {
            at = middle + 1;
        } else {
            end = middle;
        }
    }
    return at;
}

static inline bool naive_has(const struct naive *naive, size_t at, struct slice key) {
    return at < naive->count && slice_equal(blob_slice(naive->keys[at].key), key);
}

/* At the revision that the store has now. */
static inline void naive_set(struct naive *naive, struct slice key, struct slice value,
                             int64_t lease) {
    size_t at = naive_lower(naive, key);
    if (!naive_has(naive, at, key)) {
        if (naive->count == naive->capacity) {
            naive->capacity = naive->capacity * 2 + 16;
            naive->keys = realloc(naive->keys, naive->capacity * sizeof(naive->keys[0]));
            FEED_REQUIRE(naive->keys != NULL);
        }
        memmove(&naive->keys[at + 1], &naive->keys[at],
                (naive->count - at) * sizeof(naive->keys[0]));
        naive->count++;
        naive->keys[at] = (struct naive_key){.key = blob_copy(key), .create_rev = naive->revision};
    }
    struct blob *fresh = blob_copy(value); /* it may be the old one */
    blob_unref(naive->keys[at].value);
    naive->keys[at].value = fresh;
    naive->keys[at].lease = lease;
    naive->keys[at].mod_rev = naive->revision;
    naive->keys[at].version++;
}

static inline void naive_put(struct naive *naive, struct slice key, struct slice value) {
    naive->revision++;
    naive_set(naive, key, value, 0);
}

/* The keys that a delete or a range means: an empty end is one key, "\0" is to the last. */
static inline size_t naive_span(const struct naive *naive, struct slice key, struct slice end,
                                size_t *from) {
    *from = naive_lower(naive, key);
    size_t to = *from + (naive_has(naive, *from, key) ? 1 : 0);
    if (end.size > 0) {
        to = end.size == 1 && end.data[0] == 0 ? naive->count : naive_lower(naive, end);
    }
    return to > *from ? to - *from : 0;
}

static inline void naive_erase(struct naive *naive, size_t from, size_t count) {
    for (size_t i = from; i < from + count; i++) {
        blob_unref(naive->keys[i].key);
        blob_unref(naive->keys[i].value);
    }
    memmove(&naive->keys[from], &naive->keys[from + count],
            (naive->count - from - count) * sizeof(naive->keys[0]));
    naive->count -= count;
}

/* As KV_DELETE. Returns how many. */
static inline size_t naive_delete(struct naive *naive, struct slice key, struct slice end) {
    size_t from;
    size_t count = naive_span(naive, key, end, &from);
    if (count > 0) {
        naive_erase(naive, from, count);
        naive->revision++;
    }
    return count;
}

/* Every field of an item. */
static inline bool naive_equal(const struct naive_key *key, const struct kv_item *item,
                               bool keys_only) {
    struct slice value = keys_only ? (struct slice){0} : blob_slice(key->value);
    return slice_equal(blob_slice(key->key), item->key) && slice_equal(value, item->value) &&
           key->create_rev == item->create_rev && key->mod_rev == item->mod_rev &&
           key->version == item->version && key->lease == item->lease;
}

#endif
