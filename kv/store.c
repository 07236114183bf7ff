#include "kv/store.h"

#include "base/assert.h"
#include "base/feature.h"
#include "base/mem.h"
#include "kv/durable.h"
#include "kv/work.h"

/* ---------------------------------------------------------------------------- life */

struct store *store_new(uint64_t seed) {
    struct store *store = mem_calloc(1, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    if (pool_open(&store->pool) != 0) {
        goto fail_after_memory;
    }
    if (index_init(&store->index) != 0) {
        goto fail_after_pool;
    }
    if (table_init(&store->table, seed) != 0) {
        goto fail_after_index;
    }
    if (history_init(&store->history, store->pool) != 0) {
        goto fail_after_table;
    }
    store->work = mem_calloc(1, sizeof(*store->work));
    if (store->work == NULL) {
        goto fail_after_history;
    }
    leases_init(&store->leases, store->pool, seed);
    atomic_init(&store->refs, 1);
    store->shown.revision = 1;
    store->shown.kept_from = 2;
    store->feature_level = FEATURE_LEVEL_FIRST;
    return store;

fail_after_history:
    history_fini(&store->history);
fail_after_table:
    table_fini(&store->table);
fail_after_index:
    index_fini(&store->index);
fail_after_pool:
    pool_close(store->pool);
fail_after_memory:
    mem_free(store);
    return NULL;
}

void store_ref(struct store *store) {
    (void)atomic_fetch_add_explicit(&store->refs, 1, memory_order_relaxed);
}

static void free_chain(struct kv_version *version) {
    while (version != NULL) {
        struct kv_version *older = version->older;
        version_unref(version);
        version = older;
    }
}

void store_unref(struct store *store) {
    if (store == NULL || atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) > 1) {
        return;
    }
    work_drop(store->work);
    mem_free(store->work);
    struct index_cursor cursor = index_lower(&store->index, (struct slice){0});
    for (struct kv_version *version; (version = index_at(&cursor)) != NULL;) {
        index_next(&cursor);
        free_chain(version);
    }
    durable_close(store->durable);
    sessions_fini(&store->sessions);
    leases_fini(&store->leases);
    table_fini(&store->table);
    index_fini(&store->index);
    history_fini(&store->history);
    pool_close(store->pool);
    mem_free(store);
}

/* ---------------------------------------------------------------------------- linking */

struct kv_version *store_newest(const struct store *store, struct slice key) {
    struct kv_version **slot = table_find(&store->table, table_hash(&store->table, key), key);
    return slot != NULL ? *slot : NULL;
}

static void count_in(struct store *store, const struct kv_version *version) {
    store->versions++;
    store->version_memory += version_memory(version);
}

/* Unlinked versions form a list by their `older`, which nobody else follows any more. */
static void bury(struct store *store, struct kv_version *version, struct kv_version **dead) {
    store->versions--;
    store->version_memory -= version_memory(version);
    version->older = *dead;
    *dead = version;
}

int store_add(struct store *store, uint64_t hash, struct kv_version *version) {
    int rc = index_insert(&store->index, version);
    if (rc != 0) {
        return rc;
    }
    rc = table_insert(&store->table, hash, version);
    if (rc != 0) {
        index_remove(&store->index, version);
        return rc;
    }
    count_in(store, version);
    return 0;
}

struct kv_version *version_upto(struct kv_version *newest, uint64_t revision, uint64_t kept_from) {
    struct kv_version *version = newest;
    while (version != NULL && version->main > revision) {
        struct version_jump jump = version_jump(version);
        bool leads = jump.to != NULL && jump.main > revision && jump.main >= kept_from;
        version = leads ? jump.to : version->older;
    }
    return version;
}

/* The newest version from `version` on back whose level is not lower, if one is kept. */
static struct kv_version *jump_target(struct kv_version *version, unsigned level,
                                      uint64_t kept_from) {
    while (version != NULL && version_level(version->main) < level) {
        struct version_jump jump = version_jump(version);
        bool leads = jump.to != NULL && jump.main >= kept_from;
        version = !version->has_jump ? version->older : leads ? jump.to : NULL;
    }
    return version;
}

void store_supersede(struct store *store, struct kv_version **slot, struct kv_version *newest) {
    struct kv_version *old = *slot;
    if (newest->has_jump) {
        unsigned level = version_level(newest->main);
        version_set_jump(newest, jump_target(old, level, store->shown.kept_from));
    }
    index_replace(old, newest);
    newest->older = old;
    old->newer = newest; /* takes the place of `leaf`, which only the newest has */
    *slot = newest;
    count_in(store, newest);
}

void store_add_older(struct store *store, struct kv_version *oldest, struct kv_version *older) {
    ASSERT(oldest->older == NULL);
    oldest->older = older;
    older->newer = oldest;
    count_in(store, older);
}

int store_move(struct store *store, struct kv_version **slot, struct kv_version **dead) {
    struct kv_version *old = *slot;
    struct kv_version *copy = version_copy(old, store->pool, false);
    if (copy == NULL) {
        return LKV_ENOMEM;
    }
    index_replace(old, copy);
    *slot = copy;
    count_in(store, copy);
    bury(store, old, dead);
    return 0;
}

void store_remove_if_empty(struct store *store, struct kv_version *version, uint64_t from,
                           struct kv_version **dead) {
    if (!version_is_tombstone(version) || version->older != NULL || version->main >= from) {
        return;
    }
    struct slice key = version_key(version);
    uint64_t hash = table_hash(&store->table, key);
    struct kv_version **slot = table_find(&store->table, hash, key);
    ASSERT(slot != NULL);
    if (*slot == version) {
        table_remove(&store->table, hash, key);
        index_remove(&store->index, version);
        bury(store, version, dead);
    }
}

void store_unlink(struct store *store, struct kv_version *version, uint64_t from,
                  struct kv_version **dead) {
    struct kv_version *newer = version->newer;
    newer->older = version->older;
    if (version->older != NULL) {
        version->older->newer = newer;
    }
    bury(store, version, dead);
    store_remove_if_empty(store, newer, from, dead);
}

void dead_free(struct kv_version *dead) {
    free_chain(dead);
}

/* ---------------------------------------------------------------------------- revisions */

int stamp_reaches(const struct kv_stamp *stamp, uint64_t revision) {
    if (revision > stamp->revision) {
        return LKV_EFUTURE;
    }
    /* The newest state can be read even when it has no history. */
    return revision >= stamp->kept_from || revision == stamp->revision ? 0 : LKV_ECOMPACTED;
}

void store_publish(struct store *store, const struct kv_stamp *stamp) {
    store->shown = *stamp;
    store->shown_keys = store->keys;
    store->shown_bytes = store->bytes;
}
