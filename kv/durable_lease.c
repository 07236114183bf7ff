/* Leases in a map, and which keys are attached to each: both are read back into memory when it is opened. */
#include "kv/durable.h"

void durable_note_lease(struct store *store, int64_t id) {
    struct durable *durable = store->durable;
    const struct lease *lease = leases_find(&store->leases, id);
    buffer_clear(&durable->key);
    buffer_clear(&durable->value);
    durable_put_lease_key(&durable->key, id);
    if (lease == NULL) {
        durable->ops->remove(durable->map, buffer_slice(&durable->key));
    } else {
        lease_put(&durable->value, &lease->is);
        durable->ops->put(durable->map, buffer_slice(&durable->key), buffer_slice(&durable->value));
    }
    if (durable->key.failed || durable->value.failed) {
        (void)durable_fail(durable, LKV_ENOMEM, NULL);
    }
}

void durable_note_checkpoints(struct store *store, struct slice checkpoints) {
    struct reader reader = reader_of(checkpoints);
    struct kv_checkpoint at;
    while (reader.left > 0 && kv_checkpoint_get(&reader, &at)) {
        if (leases_find(&store->leases, at.id) != NULL) {
            durable_note_lease(store, at.id);
        }
    }
}

void durable_set_attached(struct durable *durable, int64_t id, struct slice key, bool attached) {
    buffer_clear(&durable->value);
    durable_put_attached(&durable->value, id, key);
    if (attached) {
        durable->ops->put(durable->map, buffer_slice(&durable->value), (struct slice){0});
    } else {
        durable->ops->remove(durable->map, buffer_slice(&durable->value));
    }
}

/* ---------------------------------------------------------------------------- opening */

static struct ordered_iter *iterate(struct durable *durable, struct slice from) {
    struct ordered_iter *iter = durable->ops->iterate(durable->map, ORDERED_PENDING, NULL, false);
    if (iter != NULL) {
        durable->ops->seek(iter, from);
    }
    return iter;
}

static int read_each(struct store *store, struct ordered_iter *iter) {
    const struct ordered_ops *ops = store->durable->ops;
    struct slice key, value;
    int rc = 0;
    while (rc == 0 && ops->at(iter, &key, &value)) {
        struct reader reader = reader_of(value);
        struct kv_lease lease;
        struct slice attached;
        int64_t id;
        if (durable_is_lease(key)) {
            bool good = lease_get(&reader, &lease) && reader.left == 0;
            rc = good ? leases_load(&store->leases, &lease) : LKV_EDAMAGED;
        } else if (durable_get_attached(key, &id, &attached)) {
            rc = leases_load_key(&store->leases, id, &attached);
        } else {
            break;
        }
        ops->next(iter);
    }
    return rc;
}

/* First the keys that are attached ("a..."), then the leases ("l..."), as in an image. */
int durable_read_leases(struct store *store, struct reason *why) {
    struct durable *durable = store->durable;
    static const uint8_t kinds[] = {'a', 'l'};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(kinds); i++) {
        struct ordered_iter *iter = iterate(durable, slice_of(&kinds[i], 1));
        struct reason found = {{0}};
        rc = iter != NULL ? read_each(store, iter) : LKV_ENOMEM;
        int error = iter != NULL ? durable->ops->error(iter, &found) : 0;
        durable->ops->end(iter);
        rc = error != 0 ? error : rc;
        if (rc != 0) {
            (void)reason_set(why, rc, "%s: leases: %s", durable->path,
                             found.text[0] != '\0' ? found.text : error_text(rc));
        }
    }
    if (rc == 0 && !leases_loaded(&store->leases)) {
        rc =
            reason_set(why, LKV_EDAMAGED, "%s: a key has a lease that is not there", durable->path);
    }
    return rc;
}

/* ---------------------------------------------------------------------------- images */

void durable_put_leases(struct store *store) {
    for (size_t i = 0; i < store->leases.count; i++) {
        const struct lease *lease = store->leases.items[i];
        durable_note_lease(store, lease->is.id);
        struct lease_key *at = lease_key_after(lease, (struct slice){0});
        for (; at != NULL; at = lease_key_after(lease, lease_key_slice(at))) {
            durable_set_attached(store->durable, lease->is.id, lease_key_slice(at), true);
        }
    }
}
