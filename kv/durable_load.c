/* An image on its way into a map. */
#include "kv/durable.h"

enum { COMMIT_BYTES = 1024 * 1024 };

/* The change that the last version is, now that the one before it is known. */
static void note_last(struct durable *durable, uint64_t before) {
    if (!durable->load_due) {
        return;
    }
    const struct durable_change change = {.main = durable->load_main,
                                          .sub = durable->load_sub,
                                          .tombstone = durable->load_tombstone,
                                          .before = before,
                                          .key = buffer_slice(&durable->load_key)};
    buffer_clear(&durable->key);
    buffer_clear(&durable->value);
    durable_put_change_key(&durable->key, change.main, change.sub);
    durable_put_change(&durable->value, &change);
    durable->ops->put(durable->map, buffer_slice(&durable->key), buffer_slice(&durable->value));
    durable->load_due = false;
}

static void put_version(struct durable *durable, const struct kv_version *version) {
    const struct durable_record record = {.main = version->main,
                                          .create_rev = version->create_rev,
                                          .version = version->version,
                                          .lease = version_lease(version),
                                          .sub = version_sub(version),
                                          .value = version_value(version)};
    buffer_clear(&durable->key);
    buffer_clear(&durable->value);
    durable_put_key(&durable->key, version_key(version));
    durable_put_revision(&durable->key, version->main);
    durable_put_record(&durable->value, &record);
    durable->ops->put(durable->map, buffer_slice(&durable->key), buffer_slice(&durable->value));
}

static int out_of_memory(struct durable *durable) {
    bool failed = durable->key.failed || durable->value.failed || durable->load_key.failed;
    return failed ? LKV_ENOMEM : 0;
}

/* Not where it stands: only durable_seal says that. */
static int commit_some(struct durable *durable) {
    if (durable->ops->pending(durable->map) < COMMIT_BYTES) {
        return 0;
    }
    struct reason why = {{0}};
    int rc = durable->ops->commit(durable->map, &why);
    return rc == 0 ? 0 : durable_fail(durable, rc, &why);
}

int durable_load(struct store *store, const struct kv_version *version, bool same_key,
                 uint64_t kept_from) {
    struct durable *durable = store->durable;
    struct slice key = version_key(version);
    note_last(durable, same_key && !version_is_tombstone(version) ? version->main : 0);
    put_version(durable, version);
    store->versions++;
    if (!same_key) {
        buffer_clear(&durable->load_key);
        buffer_append(&durable->load_key, key.data, key.size);
        if (!version_is_tombstone(version)) {
            store->keys++;
            store->bytes += key.size + version->value_size;
        }
    }
    durable->load_due = version->main >= kept_from;
    durable->load_main = version->main;
    durable->load_sub = version_sub(version);
    durable->load_tombstone = version_is_tombstone(version);
    int rc = out_of_memory(durable);
    return rc == 0 ? commit_some(durable) : rc;
}

int durable_seal(struct store *store, const struct kv_stamp *stamp, struct reason *why) {
    struct durable *durable = store->durable;
    note_last(durable, 0);
    durable_put_leases(store);
    for (size_t i = 0; i < store->sessions.count; i++) {
        const struct session *session = store->sessions.slots[i].session;
        durable_note_session(store, session->id, 0);
        for (size_t j = 0; j < session->capacity; j++) {
            if (session->replies[j].index != 0) {
                durable_note_session(store, session->id, session->replies[j].seq);
            }
        }
    }
    if (out_of_memory(durable) != 0) {
        (void)durable_fail(durable, LKV_ENOMEM, NULL);
    }
    int rc = durable_commit(store, stamp, why);
    return rc == 0 ? durable->ops->flush(durable->map, why) : rc;
}
