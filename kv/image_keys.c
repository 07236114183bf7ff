#include "kv/image_keys.h"

#include "base/mem.h"
#include "kv/durable.h"

#include <stdlib.h>

void image_keys_fini(struct image_keys *keys) {
    buffer_fini(&keys->key);
    mem_free(keys->superseded.items);
    mem_free(keys->tombstones.items);
    mem_free(keys->changes.items);
}

/* ---------------------------------------------------------------------------- what may follow what */

static bool image_has_history(const struct image_keys *keys) {
    return keys->header->feature_level >= KV_LEVEL_HISTORY;
}

static bool is_tombstone(const struct digest_item *item) {
    return item->version == 0;
}

/* A version at or below it hides everything before it. */
static uint64_t visible_from(const struct image_keys *keys) {
    const struct kv_stamp *stamp = &keys->header->stamp;
    return stamp->kept_from < stamp->revision ? stamp->kept_from : stamp->revision;
}

/* Whether `older` can be the version before the last one. */
static bool precedes(const struct image_keys *keys, const struct digest_item *older) {
    const struct digest_item *last = &keys->last;
    if (last->mod_rev <= visible_from(keys) || older->mod_rev >= last->mod_rev) {
        return false;
    }
    if (is_tombstone(last)) {
        return !is_tombstone(older);
    }
    if (last->version == 1) {
        return is_tombstone(older);
    }
    return older->create_rev == last->create_rev && older->version == last->version - 1;
}

static const char *fault_of(const struct image_keys *keys, const struct image_version *version,
                            bool same_key) {
    const struct digest_item *item = &version->item;
    const struct kv_stamp *stamp = &keys->header->stamp;
    if (item->lease != 0 && !image_has_history(keys)) {
        return "a key has a lease at a level without leases";
    }
    if (item->mod_rev > stamp->revision) {
        return "a key is newer than the image";
    }
    if (is_tombstone(item) && item->mod_rev < stamp->kept_from) {
        return "a deleted key is older than the history";
    }
    if (same_key ? !precedes(keys, item) : keys->owes) {
        return "a key's versions do not follow each other";
    }
    return NULL;
}

/* ---------------------------------------------------------------------------- linking */

static int heap_add(struct image_heap *heap, struct kv_version *version) {
    struct kv_version **items =
        mem_array_grow(heap->items, &heap->capacity, heap->count + 1, sizeof(struct kv_version *));
    if (items == NULL) {
        return LKV_ENOMEM;
    }
    heap->items = items;
    heap->items[heap->count++] = version;
    return 0;
}

/* The versions of a key come newest first: each is what some newer ones jump to. */
static void link_jumps(struct image_keys *keys, struct kv_version *version) {
    unsigned level = version_level(version->main);
    while (keys->waiting_count > 0 &&
           version_level(keys->waiting[keys->waiting_count - 1]->main) <= level) {
        version_set_jump(keys->waiting[--keys->waiting_count], version);
    }
    if (version->has_jump) {
        keys->waiting[keys->waiting_count++] = version;
    }
}

static int link_version(struct image_keys *keys, struct kv_version *version, bool same_key) {
    struct store *store = keys->store;
    if (same_key) {
        int rc = heap_add(&keys->superseded, version);
        if (rc == 0) {
            store_add_older(store, keys->oldest, version);
        }
        return rc;
    }
    int rc = store_add(store, table_hash(&store->table, version_key(version)), version);
    if (rc == 0 && !version_is_tombstone(version)) {
        store->keys++;
        store->bytes += (uint64_t)version->key_size + version->value_size;
    }
    return rc;
}

static int add_to_store(struct image_keys *keys, const struct image_version *from, bool same_key) {
    const struct digest_item *item = &from->item;
    const struct version_new fresh = {.key = item->key,
                                      .value = item->value,
                                      .lease = item->lease,
                                      .sub = from->sub,
                                      .has_jump = image_has_history(keys) &&
                                                  version_level(item->mod_rev) > 0,
                                      .pool = keys->store->pool};
    struct kv_version *version = version_new(&fresh);
    if (version == NULL) {
        return LKV_ENOMEM;
    }
    version->main = item->mod_rev;
    version->create_rev = item->create_rev;
    version->version = item->version;
    if (keys->store->durable != NULL) {
        int put = durable_load(keys->store, version, same_key, keys->header->stamp.kept_from);
        version_unref(version);
        return put;
    }
    int rc = version_is_tombstone(version) ? heap_add(&keys->tombstones, version) : 0;
    if (rc == 0 && image_has_history(keys) && version->main >= keys->header->stamp.kept_from) {
        rc = heap_add(&keys->changes, version);
    }
    rc = rc == 0 ? link_version(keys, version, same_key) : rc;
    if (rc != 0) {
        version_unref(version);
        return rc;
    }
    keys->oldest = version;
    keys->waiting_count = same_key ? keys->waiting_count : 0;
    link_jumps(keys, version);
    return 0;
}

/* Only the newest version counts: what had a lease before may outlive it in the history. */
static int take_lease(struct image_keys *keys, const struct digest_item *item) {
    return leases_load_key(keys->leases, item->lease, keys->store != NULL ? &item->key : NULL);
}

static int take_version(struct image_keys *keys, const struct image_version *version, bool same_key,
                        const char **what) {
    const struct digest_item *item = &version->item;
    *what = fault_of(keys, version, same_key);
    if (*what != NULL) {
        return LKV_EDAMAGED;
    }
    keys->versions++;
    if (!same_key && !is_tombstone(item)) {
        keys->keys++;
        keys->bytes += item->key.size + item->value.size;
        keys->digest += digest_of(item);
    }
    keys->last = *item;
    keys->last.key = keys->last.value = (struct slice){0};
    keys->owes = item->mod_rev > visible_from(keys) && item->version != 1;
    int rc = keys->store != NULL ? add_to_store(keys, version, same_key) : 0;
    return rc == 0 && !same_key && item->lease != 0 ? take_lease(keys, item) : rc;
}

/* ---------------------------------------------------------------------------- records */

/* Whether the record goes on with the key before it. */
static int begin_record(struct image_keys *keys, struct slice key, bool *same_key,
                        const char **what) {
    int order = keys->versions > 0 ? slice_compare(buffer_slice(&keys->key), key) : -1;
    *same_key = order == 0;
    if (order > 0 || (order == 0 && !image_has_history(keys))) {
        *what = "keys are not in order";
        return LKV_EDAMAGED;
    }
    buffer_clear(&keys->key);
    buffer_append(&keys->key, key.data, key.size);
    return keys->key.failed ? LKV_ENOMEM : 0;
}

int image_keys_take(struct image_keys *keys, struct slice chunk, const char **what) {
    struct reader reader = reader_of(chunk);
    while (reader.left > 0) {
        struct slice key;
        uint32_t left;
        bool same_key;
        *what = "malformed record";
        if (!image_get_record(&reader, &key, &left)) {
            return LKV_EDAMAGED;
        }
        int rc = begin_record(keys, key, &same_key, what);
        for (; rc == 0 && left > 0; left--) {
            struct image_version version;
            *what = "malformed record";
            rc = image_get_version(&reader, key, &version)
                     ? take_version(keys, &version, same_key, what)
                     : LKV_EDAMAGED;
            same_key = true;
        }
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* ---------------------------------------------------------------------------- the end */

static int by_successor(const void *a, const void *b) {
    const struct kv_version *const *left = a;
    const struct kv_version *const *right = b;
    uint64_t x = (*left)->newer->main, y = (*right)->newer->main;
    return (x > y) - (x < y);
}

static int by_revision(const void *a, const void *b) {
    const struct kv_version *const *left = a;
    const struct kv_version *const *right = b;
    uint64_t x = (*left)->main, y = (*right)->main;
    return (x > y) - (x < y);
}

static int by_place(const void *a, const void *b) {
    const struct kv_version *const *left = a;
    const struct kv_version *const *right = b;
    uint32_t x = version_sub(*left), y = version_sub(*right);
    int order = by_revision(a, b);
    return order != 0 ? order : (x > y) - (x < y);
}

static int add_changes(struct timeline *timeline, struct image_heap *heap) {
    if (heap->count > 0) {
        qsort(heap->items, heap->count, sizeof(struct kv_version *), by_place);
    }
    for (size_t i = 0; i < heap->count; i++) {
        if (timeline_reserve(timeline, heap->items[i]->main) != 0) {
            return LKV_ENOMEM;
        }
        timeline_add(timeline, heap->items[i]);
    }
    return 0;
}

static int queue_all(struct version_queue *queue, struct pool *pool, struct image_heap *heap,
                     int (*order)(const void *a, const void *b)) {
    if (heap->count > 0) {
        qsort(heap->items, heap->count, sizeof(struct kv_version *), order);
    }
    for (size_t i = 0; i < heap->count; i++) {
        if (queue_reserve(queue, pool) != 0) {
            return LKV_ENOMEM;
        }
        queue_add(queue, heap->items[i]);
    }
    return 0;
}

int image_keys_end(struct image_keys *keys, const char **what) {
    if (keys->owes) {
        *what = "a key's versions do not follow each other";
        return LKV_EDAMAGED;
    }
    if (keys->store == NULL) {
        return 0;
    }
    struct history *history = &keys->store->history;
    int rc = queue_all(&history->superseded, history->pool, &keys->superseded, by_successor);
    rc = rc == 0 ? queue_all(&history->tombstones, history->pool, &keys->tombstones, by_revision)
                 : rc;
    return rc == 0 ? add_changes(&history->timeline, &keys->changes) : rc;
}
