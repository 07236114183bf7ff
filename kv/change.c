#include "kv/change.h"

#include "kv/durable.h"

static uint64_t bytes_of(const struct kv_version *version) {
    return (uint64_t)version->key_size + version->value_size;
}

/* Room for what a tombstone, or another version, adds to the queues: asked for before anything is
 * changed. */
static int reserve(struct store *store, bool for_tombstone) {
    int rc = queue_reserve(&store->history.superseded, store->pool);
    if (rc == 0 && for_tombstone && has_history(store)) {
        rc = queue_reserve(&store->history.tombstones, store->pool);
    }
    return rc;
}

/* Room in the timeline, for every change. */
static int reserve_event(struct store *store, uint64_t revision) {
    return has_history(store) ? timeline_reserve(&store->history.timeline, revision) : 0;
}

static void add_event(struct store *store, struct kv_version *version) {
    if (has_history(store)) {
        timeline_add(&store->history.timeline, version);
    }
}

static void supersede(struct store *store, struct kv_version **slot, struct kv_version *newest) {
    queue_add(&store->history.superseded, *slot);
    if (version_is_tombstone(newest) && has_history(store)) {
        queue_add(&store->history.tombstones, newest);
    }
    store_supersede(store, slot, newest);
}

static void count_out(struct changes *changes, const struct kv_version *old) {
    changes->keys_out++;
    changes->bytes_out += bytes_of(old);
}

/* Whoever follows without the same lease leaves it. */
static void leave_lease(struct store *store, const struct kv_version *old,
                        const struct kv_version *next) {
    int64_t lease = old->has_extra ? version_lease(old) : 0;
    if (lease != 0 && lease != version_lease(next)) {
        leases_detach(&store->leases, lease, version_key(old));
    }
}

static int put_over(struct store *store, struct kv_version **slot, struct kv_version *fresh,
                    struct changes *changes) {
    const struct kv_version *old = *slot;
    if (reserve(store, false) != 0) {
        return LKV_ENOMEM;
    }
    if (!version_is_tombstone(old)) {
        fresh->create_rev = old->create_rev;
        fresh->version = old->version + 1;
        count_out(changes, old);
        leave_lease(store, old, fresh);
    }
    supersede(store, slot, fresh);
    return 0;
}

int change_put(struct store *store, uint64_t hash, struct kv_version *fresh, uint64_t revision,
               struct changes *changes) {
    if (store->durable != NULL) {
        return durable_put(store, fresh, revision, changes);
    }
    fresh->main = fresh->create_rev = revision;
    fresh->version = 1;
    struct kv_version **slot = table_find(&store->table, hash, version_key(fresh));
    struct kv_version *linked = fresh;
    if (slot != NULL && change_has_jump(store, revision) && !fresh->has_jump) {
        linked =
            version_copy(fresh, store->pool, true); /* it was made before its revision was known */
        if (linked == NULL) {
            return LKV_ENOMEM;
        }
    }
    int64_t lease = linked->has_extra ? version_lease(linked) : 0;
    int rc = reserve_event(store, revision);
    if (rc == 0 && lease != 0) {
        rc = leases_attach(&store->leases, lease, version_key(linked));
    }
    if (rc == 0) {
        rc = slot == NULL ? store_add(store, hash, linked) : put_over(store, slot, linked, changes);
    }
    if (rc == 0) {
        add_event(store, linked);
        changes->keys_in++;
        changes->bytes_in += bytes_of(linked);
        changes->count++;
    }
    if (linked != fresh) {
        version_unref(rc == 0 ? fresh : linked);
    }
    return rc;
}

int change_delete(struct store *store, struct slice key, uint64_t revision,
                  struct changes *changes) {
    if (store->durable != NULL) {
        return durable_delete(store, key, revision, changes);
    }
    struct kv_version **slot = table_find(&store->table, table_hash(&store->table, key), key);
    if (slot == NULL || version_is_tombstone(*slot)) {
        return 0;
    }
    const struct version_new empty = {.key = version_key(*slot),
                                      .sub = change_sub(store, changes),
                                      .has_jump = change_has_jump(store, revision),
                                      .pool = store->pool};
    struct kv_version *tombstone = version_new(&empty);
    if (tombstone == NULL || reserve(store, true) != 0 || reserve_event(store, revision) != 0) {
        if (tombstone != NULL) {
            version_unref(tombstone);
        }
        return LKV_ENOMEM;
    }
    tombstone->main = revision;
    count_out(changes, *slot);
    leave_lease(store, *slot, tombstone);
    changes->count++;
    supersede(store, slot, tombstone);
    add_event(store, tombstone);
    return 0;
}

void changes_commit(struct store *store, const struct changes *changes) {
    store->keys += changes->keys_in - changes->keys_out;
    store->bytes += changes->bytes_in - changes->bytes_out;
}
