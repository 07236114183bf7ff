/* Changes of a store that lies in a map: they gather in its batch, and are committed when they are
 * published. */
#include "kv/durable.h"

#include "base/assert.h"

enum { CHECK_BYTES = 256 * 1024 /* committed from one look at the map's health to the next */ };

int durable_note(struct durable *durable, int rc) {
    if (rc == LKV_EDAMAGED) {
        atomic_store(&durable->damaged, true);
    }
    return rc;
}

int durable_health(struct durable *durable, struct reason *why) {
    int rc = durable->ops->health(durable->map, why);
    if (rc == 0 && atomic_load(&durable->damaged)) {
        rc = reason_set(why, LKV_EDAMAGED, "%s: what was read is damaged", durable->path);
    }
    return rc;
}

int durable_fail(struct durable *durable, int rc, const struct reason *why) {
    (void)durable_note(durable, rc);
    if (durable->fault == 0) {
        durable->fault = rc;
        (void)reason_set(&durable->why, rc, "%s: %s", durable->path,
                         why != NULL && why->text[0] != '\0' ? why->text : error_text(rc));
    }
    return rc;
}

void durable_forget(struct durable *durable) {
    durable->ops->end(durable->newest);
    durable->newest = NULL;
}

/* ---------------------------------------------------------------------------- reading, with the batch */

static struct slice encoded(const struct buffer *buffer) {
    return buffer_slice(buffer);
}

/* Seeks the newest version of a key at or before the revision; durable->key has its key then, or rather what
 * was looked for. False: there is none, or a fault. The record borrows until the next one. */
static bool find(struct durable *durable, struct slice key, uint64_t revision,
                 struct durable_record *record) {
    const struct ordered_ops *ops = durable->ops;
    if (durable->newest == NULL) {
        durable->newest = ops->iterate(durable->map, ORDERED_PENDING, NULL, true);
    }
    buffer_clear(&durable->key);
    durable_put_key(&durable->key, key);
    durable_put_revision(&durable->key, revision);
    if (durable->newest == NULL || durable->key.failed) {
        (void)durable_fail(durable, LKV_ENOMEM, NULL);
        return false;
    }
    struct slice wanted = encoded(&durable->key), found, value, prefix;
    wanted.size -= DURABLE_REVISION_SIZE;
    ops->seek(durable->newest, encoded(&durable->key));
    if (!ops->at(durable->newest, &found, &value)) {
        struct reason why = {{0}};
        int rc = ops->error(durable->newest, &why);
        if (rc != 0) {
            (void)durable_fail(durable, rc, &why);
        }
        return false;
    }
    uint64_t main;
    if (!durable_split_key(found, &prefix, &main) || !slice_equal(prefix, wanted)) {
        return false;
    }
    if (!durable_get_record(value, main, record)) {
        (void)durable_fail(durable, LKV_EDAMAGED, NULL);
        return false;
    }
    return true;
}

struct kv_version *durable_at(struct store *store, struct slice key, uint64_t revision) {
    struct durable *durable = store->durable;
    struct durable_record record;
    if (durable->lent != NULL) {
        version_unref(durable->lent);
        durable->lent = NULL;
    }
    if (!find(durable, key, revision, &record) || record.version == 0) {
        return NULL;
    }
    struct slice prefix = encoded(&durable->key);
    prefix.size -= DURABLE_REVISION_SIZE;
    int rc = durable_make_version(prefix, &record, &durable->lent);
    if (rc != 0) {
        (void)durable_fail(durable, rc, NULL);
    }
    return durable->lent;
}

/* One version of a key, made at the revision or before. An owned reference, or NULL: none, or a fault. */
static struct kv_version *copy_of(struct durable *durable, struct slice key, uint64_t revision) {
    struct durable_record record;
    struct kv_version *version = NULL;
    if (find(durable, key, revision, &record)) {
        struct slice prefix = encoded(&durable->key);
        prefix.size -= DURABLE_REVISION_SIZE;
        int rc = durable_make_version(prefix, &record, &version);
        if (rc != 0) {
            (void)durable_fail(durable, rc, NULL);
        }
    }
    return version;
}

void durable_reattach(struct store *store, const struct durable_change *change) {
    struct durable *durable = store->durable;
    const uint64_t revisions[] = {change->main, change->main - 1};
    for (size_t i = 0; i < 2; i++) {
        struct durable_record record;
        if (find(durable, change->key, revisions[i], &record) && record.lease != 0) {
            durable_set_attached(durable, record.lease, change->key, i == 1);
        }
    }
}

/* What a change has made, and what was there before; false: a fault. */
static bool read_change(struct store *store, const struct durable_change *change,
                        struct kv_version **version, struct kv_version **previous) {
    struct durable *durable = store->durable;
    bool told = change->main > history_told_from(store) && change->before != 0;
    *version = copy_of(durable, change->key, change->main);
    *previous = *version != NULL && told ? copy_of(durable, change->key, change->before) : NULL;
    if (*previous != NULL && version_is_tombstone(*previous)) {
        version_unref(*previous);
        *previous = NULL;
    }
    if (*version == NULL || (*version)->main != change->main) {
        (void)durable_fail(durable, LKV_EDAMAGED, NULL);
    }
    if (durable->fault != 0) {
        if (*version != NULL) {
            version_unref(*version);
        }
        if (*previous != NULL) {
            version_unref(*previous);
        }
        return false;
    }
    return true;
}

size_t durable_read_changes(struct store *store, struct kv_place place, uint64_t upto,
                            struct kv_version **versions, struct kv_version **previous,
                            size_t max) {
    struct durable *durable = store->durable;
    struct ordered_iter *iter = durable->ops->iterate(durable->map, ORDERED_COMMITTED, NULL, false);
    size_t count = 0;
    struct slice key, value;
    struct durable_change change;
    buffer_clear(&durable->key);
    durable_put_change_key(&durable->key, place.revision, place.sub);
    if (iter == NULL || durable->key.failed) {
        durable->ops->end(iter);
        (void)durable_fail(durable, LKV_ENOMEM, NULL);
        return 0;
    }
    durable->ops->seek(iter, encoded(&durable->key));
    while (count < max && durable->ops->at(iter, &key, &value) &&
           durable_get_change(key, value, &change) && change.main <= upto &&
           read_change(store, &change, &versions[count], &previous[count])) {
        count++;
        durable->ops->next(iter);
    }
    struct reason why = {{0}};
    int rc = durable->ops->error(iter, &why);
    durable->ops->end(iter);
    if (rc != 0) {
        (void)durable_fail(durable, rc, &why);
    }
    return count;
}

/* ---------------------------------------------------------------------------- changing */

static void put(struct durable *durable, struct slice key, const struct buffer *value) {
    durable->ops->put(durable->map, key, encoded(value));
}

/* What a change needs to know of what was there. */
struct before {
    bool live, any;
    uint64_t main, create_rev, version, bytes;
    int64_t lease;
};

static void look(struct durable *durable, struct slice key, struct before *before) {
    struct durable_record record;
    *before = (struct before){.any = find(durable, key, UINT64_MAX, &record)};
    if (before->any) {
        before->main = record.main;
        before->create_rev = record.create_rev;
        before->version = record.version;
        before->bytes = key.size + record.value.size;
        before->live = record.version > 0;
        before->lease = record.lease;
    }
}

static void note_change(struct durable *durable, const struct durable_change *change) {
    buffer_clear(&durable->key);
    durable_put_change_key(&durable->key, change->main, change->sub);
    buffer_clear(&durable->value);
    durable_put_change(&durable->value, change);
    put(durable, encoded(&durable->key), &durable->value);
}

/* Puts a version before what is there. Without history, what was there goes at once, and a tombstone is
 * nothing but that. durable->key has the key. */
static int write(struct store *store, struct slice key, const struct durable_record *record,
                 const struct before *before) {
    struct durable *durable = store->durable;
    bool history = has_history(store);
    bool tombstone = record->version == 0;
    if (before->any && !history) {
        durable_set_revision(&durable->key, before->main);
        durable->ops->remove(durable->map, encoded(&durable->key));
        store->versions--;
    }
    if (history || !tombstone) {
        durable_set_revision(&durable->key, record->main);
        buffer_clear(&durable->value);
        durable_put_record(&durable->value, record);
        put(durable, encoded(&durable->key), &durable->value);
        store->versions++;
    }
    if (history) {
        const struct durable_change change = {.main = record->main,
                                              .sub = record->sub,
                                              .tombstone = tombstone,
                                              .before = before->live ? before->main : 0,
                                              .key = key};
        note_change(durable, &change);
    }
    return durable->key.failed || durable->value.failed ? durable_fail(durable, LKV_ENOMEM, NULL)
                                                        : 0;
}

/* Whoever follows without the same lease leaves it; to the trees, a key is attached before that. */
static void move_lease(struct store *store, struct slice key, const struct before *before,
                       int64_t lease) {
    if (before->lease == lease) {
        return;
    }
    if (before->lease != 0) {
        leases_detach(&store->leases, before->lease, key);
        durable_set_attached(store->durable, before->lease, key, false);
    }
    if (lease != 0) {
        durable_set_attached(store->durable, lease, key, true);
    }
}

static void count_out(struct changes *changes, const struct before *before) {
    if (before->live) {
        changes->keys_out++;
        changes->bytes_out += before->bytes;
    }
}

int durable_put(struct store *store, struct kv_version *fresh, uint64_t revision,
                struct changes *changes) {
    struct durable *durable = store->durable;
    struct before before;
    look(durable, version_key(fresh), &before);
    if (durable->fault != 0) {
        return durable->fault;
    }
    const struct durable_record record = {.main = revision,
                                          .create_rev = before.live ? before.create_rev : revision,
                                          .version = before.live ? before.version + 1 : 1,
                                          .lease = version_lease(fresh),
                                          .sub = version_sub(fresh),
                                          .value = version_value(fresh)};
    int rc =
        record.lease != 0 ? leases_attach(&store->leases, record.lease, version_key(fresh)) : 0;
    rc = rc == 0 ? write(store, version_key(fresh), &record, &before) : rc;
    if (rc == 0) {
        move_lease(store, version_key(fresh), &before, record.lease);
        count_out(changes, &before);
        changes->keys_in++;
        changes->bytes_in += (uint64_t)fresh->key_size + fresh->value_size;
        changes->count++;
        version_unref(fresh);
    }
    return rc;
}

int durable_delete(struct store *store, struct slice key, uint64_t revision,
                   struct changes *changes) {
    struct durable *durable = store->durable;
    struct before before;
    look(durable, key, &before);
    if (durable->fault != 0 || !before.live) {
        return durable->fault;
    }
    const struct durable_record record = {.main = revision, .sub = change_sub(store, changes)};
    int rc = write(store, key, &record, &before);
    if (rc == 0) {
        move_lease(store, key, &before, 0);
        count_out(changes, &before);
        changes->count++;
    }
    return rc;
}

/* ---------------------------------------------------------------------------- sessions */

static void drop_session(struct durable *durable, uint64_t id) {
    const struct ordered_ops *ops = durable->ops;
    ops->remove(durable->map, encoded(&durable->key));
    for (uint64_t seq = 0; seq < KV_SESSION_WINDOW; seq++) {
        buffer_clear(&durable->key);
        durable_put_reply_key(&durable->key, id, seq);
        ops->remove(durable->map, encoded(&durable->key));
    }
}

void durable_note_session(struct store *store, uint64_t id, uint64_t seq) {
    struct durable *durable = store->durable;
    const struct sessions *sessions = &store->sessions;
    size_t at = sessions_find(sessions, id);
    buffer_clear(&durable->key);
    buffer_clear(&durable->value);
    durable_put_session_key(&durable->key, id);
    if (at == sessions->count) {
        drop_session(durable, id);
    } else {
        const struct session *session = sessions->slots[at].session;
        durable_put_session(&durable->value, session);
        put(durable, encoded(&durable->key), &durable->value);
        if (seq != 0) {
            buffer_clear(&durable->key);
            buffer_clear(&durable->value);
            durable_put_reply_key(&durable->key, id, seq);
            durable_put_reply(&durable->value, &session->replies[seq & (session->capacity - 1)]);
            put(durable, encoded(&durable->key), &durable->value);
        }
    }
    if (durable->key.failed || durable->value.failed) {
        (void)durable_fail(durable, LKV_ENOMEM, NULL);
    }
}

/* ---------------------------------------------------------------------------- committing */

/* Now and then: the answer takes the map's lock. */
static int check(struct durable *durable, size_t bytes) {
    durable->unchecked += bytes;
    if (durable->unchecked < CHECK_BYTES) {
        return 0;
    }
    struct reason why = {{0}};
    durable->unchecked = 0;
    durable->busy = durable->ops->busy(durable->map);
    int rc = durable->ops->health(durable->map, &why);
    return rc == 0 ? 0 : durable_fail(durable, rc, &why);
}

bool durable_busy(struct durable *durable) {
    durable->busy = durable->busy && durable->ops->busy(durable->map);
    return durable->busy;
}

static void put_stamp(struct store *store, const struct kv_stamp *stamp) {
    struct durable *durable = store->durable;
    const struct durable_stamp all = {.stamp = *stamp,
                                      .feature_level = store->feature_level,
                                      .keys = store->keys,
                                      .bytes = store->bytes,
                                      .versions = store->versions,
                                      .purged = durable->purged};
    buffer_clear(&durable->value);
    durable_put_stamp(&durable->value, &all);
    if (durable->value.failed) {
        (void)durable_fail(durable, LKV_ENOMEM, NULL);
    }
    put(durable, slice_text(DURABLE_STAMP), &durable->value);
}

int durable_commit(struct store *store, const struct kv_stamp *stamp, struct reason *why) {
    struct durable *durable = store->durable;
    put_stamp(store, stamp);
    size_t bytes = durable->ops->pending(durable->map);
    int rc = durable->fault != 0 ? durable->fault : check(durable, bytes);
    durable_forget(durable);
    if (rc == 0) {
        struct reason found = {{0}};
        rc = durable->ops->commit(durable->map, &found);
        if (rc != 0) {
            (void)durable_fail(durable, rc, &found);
        }
    }
    return rc == 0 ? 0 : reason_set(why, rc, "%s", durable->why.text);
}

/* ---------------------------------------------------------------------------- collecting */

bool durable_has_garbage(const struct store *store) {
    return has_history(store) && store->durable->collected < history_needed_from(store) &&
           store->durable->fault == 0;
}

static bool is_behind(const struct durable_place *place, const struct durable_change *change) {
    return change->main > place->main || (change->main == place->main && change->sub > place->sub);
}

static void remove_version(struct store *store, uint64_t main) {
    struct durable *durable = store->durable;
    durable_set_revision(&durable->key, main);
    durable->ops->remove(durable->map, encoded(&durable->key));
    store->versions--;
}

/* A change at `from` itself can still be asked for; what it has superseded cannot. */
static void purge(struct store *store, const struct durable_change *change, uint64_t from) {
    struct durable *durable = store->durable;
    buffer_clear(&durable->key);
    durable_put_key(&durable->key, change->key);
    durable_put_revision(&durable->key, change->main);
    if (is_behind(&durable->purged, change)) {
        durable->purged = (struct durable_place){.main = change->main, .sub = change->sub};
        if (change->before != 0) {
            remove_version(store, change->before);
        }
    }
    if (change->main == from) {
        return;
    }
    if (change->tombstone) {
        remove_version(store, change->main);
    }
    buffer_clear(&durable->key);
    durable_put_change_key(&durable->key, change->main, change->sub);
    durable->ops->remove(durable->map, encoded(&durable->key));
}

static size_t purge_some(struct store *store, struct ordered_iter *iter, size_t max) {
    struct durable *durable = store->durable;
    uint64_t from = history_needed_from(store);
    size_t done = 0;
    struct slice key, value;
    struct durable_change change;
    while (done < max && durable->ops->at(iter, &key, &value) &&
           durable_get_change(key, value, &change) && change.main <= from) {
        purge(store, &change, from);
        done++;
        durable->ops->next(iter);
    }
    struct reason why = {{0}};
    int rc = durable->ops->error(iter, &why);
    rc = rc == 0 && durable->key.failed ? LKV_ENOMEM : rc;
    if (rc != 0) {
        (void)durable_fail(durable, rc, &why);
    } else if (done < max) {
        durable->collected = from;
    }
    return done;
}

/* What is left of what was purged at an earlier `from` are its own changes; of this one, what is behind. */
static void seek_garbage(const struct store *store, struct ordered_iter *iter) {
    struct durable *durable = store->durable;
    bool goes_on = durable->purged.main == history_needed_from(store);
    buffer_clear(&durable->key);
    durable_put_change_key(&durable->key, durable->purged.main,
                           goes_on ? durable->purged.sub + 1 : 0);
    durable->ops->seek(iter, encoded(&durable->key));
}

size_t durable_collect(struct store *store, size_t max) {
    struct durable *durable = store->durable;
    if (!durable_has_garbage(store)) {
        return 0;
    }
    struct ordered_iter *iter = durable->ops->iterate(durable->map, ORDERED_COMMITTED, NULL, false);
    if (iter == NULL) {
        return 0; /* the next time */
    }
    seek_garbage(store, iter);
    size_t done = purge_some(store, iter, max);
    durable->ops->end(iter);
    if (done > 0 && durable->fault == 0 && durable_commit(store, &store->shown, NULL) != 0) {
        return 0;
    }
    return done;
}
