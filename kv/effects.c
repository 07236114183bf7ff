#include "base/mem.h"
#include "kv/batch.h"

static uint64_t bytes_of(const struct kv_version *version) {
    return (uint64_t)version->key_size + version->value_size;
}

/* ---------------------------------------------------------------------------- superseded versions */

/* Room for what a tombstone, or another version, adds to the queues: asked for before anything is
 * changed. */
static int reserve(struct store *store, bool for_tombstone) {
    int rc = queue_reserve(&store->history.superseded);
    if (rc == 0 && for_tombstone && has_history(store)) {
        rc = queue_reserve(&store->history.tombstones);
    }
    return rc;
}

static void supersede(struct store *store, struct kv_version **slot, struct kv_version *newest) {
    queue_add(&store->history.superseded, *slot);
    if (version_is_tombstone(newest) && has_history(store)) {
        queue_add(&store->history.tombstones, newest);
    }
    store_supersede(store, slot, newest);
}

/* ---------------------------------------------------------------------------- put */

static int put_over(struct store *store, struct kv_version **slot, struct kv_version *fresh) {
    const struct kv_version *old = *slot;
    if (reserve(store, false) != 0) {
        return LKV_ENOMEM;
    }
    if (!version_is_tombstone(old)) {
        fresh->create_rev = old->create_rev;
        fresh->version = old->version + 1;
        store->keys--;
        store->bytes -= bytes_of(old);
    }
    supersede(store, slot, fresh);
    return 0;
}

int effect_put(struct batch *batch, struct operation *operation, uint64_t revision) {
    struct store *store = batch->store;
    struct kv_version *fresh = operation->fresh;
    fresh->main = fresh->create_rev = revision;
    fresh->version = 1;
    struct kv_version **slot = table_find(&store->table, operation->hash, operation->command.key);
    int rc = slot == NULL ? store_add(store, operation->hash, fresh) : put_over(store, slot, fresh);
    if (rc == 0) {
        operation->fresh = NULL; /* the store's now */
        store->keys++;
        store->bytes += bytes_of(fresh);
    }
    return rc;
}

/* ---------------------------------------------------------------------------- delete */

/* With history, the keys that one command changes are told apart by their order. */
static uint32_t sub_of(const struct store *store, const struct buried *buried) {
    return has_history(store) ? (uint32_t)buried->keys : 0;
}

/* Puts a tombstone before a key's newest version, if that is not one already. */
static int bury_key(struct store *store, struct slice key, uint64_t revision,
                    struct buried *buried) {
    struct kv_version **slot = table_find(&store->table, table_hash(&store->table, key), key);
    if (slot == NULL || version_is_tombstone(*slot)) {
        return 0;
    }
    const struct version_new empty = {.key = version_key(*slot), .sub = sub_of(store, buried)};
    struct kv_version *tombstone = version_new(&empty);
    if (tombstone == NULL || reserve(store, true) != 0) {
        if (tombstone != NULL) {
            version_unref(tombstone);
        }
        return LKV_ENOMEM;
    }
    tombstone->main = revision;
    buried->keys++;
    buried->bytes += bytes_of(*slot);
    supersede(store, slot, tombstone);
    return 0;
}

static void count_out(struct store *store, const struct buried *buried) {
    store->keys -= buried->keys;
    store->bytes -= buried->bytes;
}

static int delete_one(struct batch *batch, struct slice key, uint64_t revision, uint64_t *count) {
    struct store *store = batch->store;
    struct buried buried = {0};
    int rc = bury_key(store, key, revision, &buried);
    if (rc == 0) {
        count_out(store, &buried);
        *count = buried.keys;
    }
    return rc;
}

/* The place to go on from is a key, kept by a reference: others may change the order meanwhile. */
static void keep_place(struct unfinished *work, struct kv_version *last) {
    struct kv_version *before = work->last;
    work->last = version_ref(last);
    if (before != NULL) {
        version_unref(before);
    }
}

static struct index_cursor place(const struct batch *batch, const struct kv_command *command) {
    const struct kv_version *last = batch->store->unfinished.last;
    return index_lower(&batch->store->index, last != NULL ? version_key(last) : command->key);
}

static bool beyond(const struct kv_command *command, struct slice key) {
    bool to_the_last = command->end.size == 1 && command->end.data[0] == 0;
    return !to_the_last && slice_compare(key, command->end) >= 0;
}

/* On from where the last turn ended; UNFINISHED when the call has looked at enough keys. */
static int delete_some(struct batch *batch, const struct kv_command *command, uint64_t revision) {
    struct store *store = batch->store;
    struct unfinished *work = &store->unfinished;
    struct index_cursor cursor = place(batch, command);
    struct kv_version *newest;
    while ((newest = index_at(&cursor)) != NULL) {
        struct slice key = version_key(newest);
        if (beyond(command, key)) {
            return 0;
        }
        /* A tombstone takes the place of a version, so the order of keys does not change. */
        int rc = bury_key(store, key, revision, &work->buried);
        if (rc != 0) {
            return rc;
        }
        if (++batch->looked_at % TURN_KEYS != 0) {
            index_next(&cursor);
            continue;
        }
        keep_place(work, index_at(&cursor)); /* has a tombstone: it is passed again */
        if (batch->looked_at >= CALL_KEYS) {
            return UNFINISHED;
        }
        batch_breathe(batch);
        cursor = place(batch, command);
    }
    return 0;
}

/* What the store counts, now that the delete is complete. */
static void finish(struct store *store) {
    count_out(store, &store->unfinished.buried);
    unfinished_drop(&store->unfinished);
}

static int delete_range(struct batch *batch, const struct kv_command *command, uint64_t index,
                        uint64_t revision, uint64_t *count) {
    struct unfinished *work = &batch->store->unfinished;
    if (work->index != index) {
        unfinished_drop(work);
        work->index = index;
    }
    int rc = delete_some(batch, command, revision);
    if (rc == 0) {
        *count = work->buried.keys;
        finish(batch->store);
    }
    return rc;
}

int effect_delete(struct batch *batch, const struct operation *operation, uint64_t index,
                  uint64_t revision, uint64_t *count) {
    const struct kv_command *command = &operation->command;
    return command->end.size == 0 ? delete_one(batch, command->key, revision, count)
                                  : delete_range(batch, command, index, revision, count);
}
