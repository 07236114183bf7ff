/* The maps of a directory: which one is its state, and a store filled from it.
 *
 *      DIR/<number>/    each is a map; the highest one that says it was adopted is the state
 *
 * An image is loaded into a map with the next number. It is adopted when the state machine becomes it;
 * until that is on the disk, the next start removes it again. */
#include "base/cursor.h"
#include "base/mem.h"
#include "kv/durable.h"

#include <inttypes.h>
#include <stdio.h>

enum { FORMAT = 1, OWNER_SIZE = 4 + 3 * 8 };

#define OWNER   "mo"
#define ADOPTED "ma"

/* ---------------------------------------------------------------------------- names */

struct numbers {
    uint64_t last, below; /* the greatest below `below` */
};

static uint64_t number_of(const char *name) {
    uint64_t number = 0;
    int end = 0;
    bool whole = sscanf(name, "%6" SCNu64 "%n", &number, &end) == 1 && name[end] == '\0';
    return whole ? number : 0;
}

static int visit_name(void *arg, const char *name) {
    struct numbers *numbers = arg;
    uint64_t number = number_of(name);
    if (number < numbers->below && number > numbers->last) {
        numbers->last = number;
    }
    return 0;
}

static int last_below(const struct kv_home *home, uint64_t below, uint64_t *number,
                      struct reason *why) {
    struct numbers numbers = {.below = below};
    int rc = disk_list(home->disk, home->dir, visit_name, &numbers);
    *number = numbers.last;
    return rc == 0 ? 0
                   : reason_set(why, rc, "%s: cannot read the directory: %s", home->dir,
                                error_text(rc));
}

static void path_of(const struct kv_home *home, uint64_t number, char *out, size_t size) {
    (void)snprintf(out, size, "%s/%06" PRIu64, home->dir, number);
}

/* What cannot be removed costs space only. */
static void remove_map(const struct kv_home *home, uint64_t number) {
    char path[DISK_PATH_SIZE];
    path_of(home, number, path, sizeof(path));
    int rc = home->engine->destroy(path, NULL);
    (void)rc;
}

static int remove_below(const struct kv_home *home, uint64_t number, struct reason *why) {
    int rc = last_below(home, number, &number, why);
    while (rc == 0 && number > 0) {
        remove_map(home, number);
        rc = last_below(home, number, &number, why);
    }
    return rc;
}

static void condemned_path(const struct kv_home *home, char *out, size_t size) {
    (void)snprintf(out, size, "%s/damaged", home->dir);
}

int durable_condemn(const struct kv_home *home, struct reason *why) {
    char path[DISK_PATH_SIZE];
    struct disk_file *file;
    condemned_path(home, path, sizeof(path));
    int rc = disk_open(home->disk, path, DISK_WRITE | DISK_CREATE, &file);
    if (rc == 0) {
        rc = disk_sync(file);
        disk_close(file);
    }
    rc = rc == 0 ? disk_sync_dir(home->disk, home->dir) : rc;
    return rc == 0 ? 0 : reason_set(why, rc, "%s: cannot write: %s", path, error_text(rc));
}

static int visit_condemned(void *arg, const char *name) {
    bool *found = arg;
    *found = *found || strcmp(name, "damaged") == 0;
    return 0;
}

static bool is_condemned(const struct kv_home *home) {
    bool found = false;
    return disk_list(home->disk, home->dir, visit_condemned, &found) == 0 && found;
}

/* The maps first: until the last of them is gone, each open says what is the matter. */
int durable_clear(const struct kv_home *home, struct reason *why) {
    int rc = disk_make_dir(home->disk, home->dir);
    if (rc != 0) {
        return reason_set(why, rc, "%s: %s", home->dir, error_text(rc));
    }
    rc = remove_below(home, UINT64_MAX, why);
    if (rc == 0 && is_condemned(home)) {
        char path[DISK_PATH_SIZE];
        condemned_path(home, path, sizeof(path));
        rc = disk_sync_dir(home->disk, home->dir);
        rc = rc == 0 ? disk_remove(home->disk, path) : rc;
        rc = rc == 0 ? disk_sync_dir(home->disk, home->dir) : rc;
        rc = rc == 0 ? 0 : reason_set(why, rc, "%s: %s", path, error_text(rc));
    }
    return rc;
}

/* ---------------------------------------------------------------------------- one map */

void durable_close(struct durable *durable) {
    if (durable == NULL) {
        return;
    }
    const struct ordered_ops *ops = durable->ops;
    durable_forget(durable);
    if (durable->lent != NULL) {
        version_unref(durable->lent);
    }
    bool keep = durable->adopted && !durable->doomed;
    if (durable->map != NULL) {
        if (keep && durable->fault == 0) {
            int rc = ops->flush(durable->map, NULL); /* else the log is replayed */
            (void)rc;
        }
        ops->close(durable->map);
        if (!keep) {
            int rc = ops->destroy(durable->path, NULL);
            (void)rc;
        }
    }
    buffer_fini(&durable->key);
    buffer_fini(&durable->value);
    buffer_fini(&durable->load_key);
    mem_free(durable);
}

static int open_map(struct durable **out, const struct kv_home *home, uint64_t number,
                    struct reason *why) {
    const struct ordered_options options = {.write_buffer_bytes = home->unflushed_bytes,
                                            .cache_bytes = home->cache_bytes};
    struct durable *durable = mem_calloc(1, sizeof(*durable));
    *out = NULL;
    if (durable == NULL) {
        return reason_set(why, LKV_ENOMEM, "%s: no memory", home->dir);
    }
    durable->ops = home->engine;
    path_of(home, number, durable->path, sizeof(durable->path));
    struct reason found = {{0}};
    int rc = home->engine->open(&durable->map, durable->path, &options, &found);
    if (rc != 0) {
        (void)reason_set(why, rc, "%s: %s", durable->path,
                         found.text[0] != '\0' ? found.text : error_text(rc));
        mem_free(durable);
        return rc;
    }
    *out = durable;
    return 0;
}

static int put_owner(struct durable *durable, const struct kv_home *home) {
    uint8_t bytes[OWNER_SIZE];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    write_u32(&writer, FORMAT);
    write_u64(&writer, home->cluster_id);
    write_u64(&writer, home->group_id);
    write_u64(&writer, home->member_id);
    durable->ops->put(durable->map, slice_text(OWNER), slice_of(bytes, sizeof(bytes)));
    return 0;
}

static void put_adopted(struct durable *durable) {
    durable->ops->put(durable->map, slice_text(ADOPTED), (struct slice){0});
    durable->adopted = true;
}

/* ---------------------------------------------------------------------------- what is in it */

static int malformed(const struct durable *durable, const char *what, struct reason *why) {
    return reason_set(why, LKV_EDAMAGED, "%s: %s", durable->path, what);
}

static int read_all(struct durable *durable, const char *key, uint8_t *into, size_t size,
                    struct reason *why) {
    size_t got = 0;
    struct reason found = {{0}};
    int rc = durable->ops->persisted(durable->map, slice_text(key), into, size, &got, &found);
    if (rc == 0 && got != size) {
        return malformed(durable, "a record has another size", why);
    }
    return rc == 0 || rc == LKV_ENOENT ? rc
                                       : reason_set(why, rc, "%s: %s", durable->path, found.text);
}

/* Whose it is. A cluster id of 0 is that of a member that was not founded yet. */
static int check_owner(struct durable *durable, const struct kv_home *home, bool *stale,
                       struct reason *why) {
    uint8_t bytes[OWNER_SIZE];
    int rc = read_all(durable, OWNER, bytes, sizeof(bytes), why);
    if (rc != 0) {
        return rc;
    }
    struct reader reader = reader_of(slice_of(bytes, sizeof(bytes)));
    uint32_t format = read_u32(&reader);
    uint64_t cluster = read_u64(&reader), group = read_u64(&reader), member = read_u64(&reader);
    if (format != FORMAT) {
        return reason_set(why, LKV_EVERSION, "%s: format %u, this program knows %d", durable->path,
                          format, FORMAT);
    }
    bool same_cluster = cluster == home->cluster_id || cluster == 0 || home->cluster_id == 0;
    if (!same_cluster || group != home->group_id || member != home->member_id) {
        return reason_set(why, LKV_EIDENTITY,
                          "%s is of member %016" PRIx64 " in cluster %016" PRIx64 " group %" PRIu64
                          ", expected member %016" PRIx64 " in cluster %016" PRIx64
                          " group %" PRIu64
                          ": remove it, and it is made anew from the image and the log",
                          durable->path, member, cluster, group, home->member_id, home->cluster_id,
                          home->group_id);
    }
    *stale = cluster != home->cluster_id && home->cluster_id != 0;
    return 0;
}

/* An iterator at the first record of that kind. */
static struct ordered_iter *iterate(struct durable *durable, struct slice from) {
    struct ordered_iter *iter = durable->ops->iterate(durable->map, ORDERED_COMMITTED, NULL, false);
    if (iter != NULL) {
        durable->ops->seek(iter, from);
    }
    return iter;
}

static int ended(struct durable *durable, struct ordered_iter *iter, struct reason *why) {
    struct reason found = {{0}};
    int rc = durable->ops->error(iter, &found);
    durable->ops->end(iter);
    return rc == 0 ? 0 : reason_set(why, rc, "%s: %s", durable->path, found.text);
}

/* The changes of a command that was not complete, above the revision that the map stands at. */
static int undo(struct store *store, struct reason *why) {
    struct durable *durable = store->durable;
    buffer_clear(&durable->key);
    durable_put_change_key(&durable->key, store->shown.revision + 1, 0);
    struct ordered_iter *iter = iterate(durable, buffer_slice(&durable->key));
    if (iter == NULL || durable->key.failed) {
        durable->ops->end(iter);
        return reason_set(why, LKV_ENOMEM, "%s: no memory", durable->path);
    }
    struct slice key, value;
    struct durable_change change;
    while (durable->ops->at(iter, &key, &value) && durable_get_change(key, value, &change)) {
        durable_reattach(store, &change);
        buffer_clear(&durable->key);
        durable_put_key(&durable->key, change.key);
        durable_put_revision(&durable->key, change.main);
        durable->ops->remove(durable->map, buffer_slice(&durable->key));
        durable->ops->remove(durable->map, key);
        store->versions--;
        durable->ops->next(iter);
    }
    int rc = ended(durable, iter, why);
    rc = rc == 0 && durable->fault != 0 ? reason_set(why, durable->fault, "%s", durable->why.text)
                                        : rc;
    return rc;
}

static int read_replies(struct durable *durable, struct session *session, struct reason *why) {
    buffer_clear(&durable->key);
    durable_put_reply_key(&durable->key, session->id, 0);
    struct ordered_iter *iter = iterate(durable, buffer_slice(&durable->key));
    if (iter == NULL || durable->key.failed) {
        durable->ops->end(iter);
        return reason_set(why, LKV_ENOMEM, "%s: no memory", durable->path);
    }
    struct slice prefix = slice_of(durable->key.data, 1 + sizeof(uint64_t));
    struct slice key, value;
    int rc = 0;
    while (rc == 0 && durable->ops->at(iter, &key, &value) && slice_starts_with(key, prefix)) {
        if (!durable_get_reply(value, session)) {
            rc = malformed(durable, "malformed reply", why);
        }
        durable->ops->next(iter);
    }
    int read = ended(durable, iter, why);
    return rc != 0 ? rc : read;
}

static int read_sessions(struct store *store, struct reason *why) {
    struct durable *durable = store->durable;
    buffer_clear(&durable->value);
    durable_put_session_key(&durable->value, 0);
    struct ordered_iter *iter = iterate(durable, buffer_slice(&durable->value));
    if (iter == NULL) {
        return reason_set(why, LKV_ENOMEM, "%s: no memory", durable->path);
    }
    struct slice key, value;
    int rc = 0;
    while (rc == 0 && durable->ops->at(iter, &key, &value) && key.size > 0 &&
           key.data[0] == durable->value.data[0]) {
        struct session *session;
        rc = durable_get_session(key, value, &session);
        if (rc != 0) {
            rc = malformed(durable, "malformed session", why);
            break;
        }
        rc = read_replies(durable, session, why);
        rc = rc == 0 ? sessions_add(&store->sessions, session) : rc;
        if (rc != 0) {
            session_unref(session);
        }
        durable->ops->next(iter);
    }
    int read = ended(durable, iter, why);
    return rc != 0 ? rc : read;
}

static int read_state(struct store *store, struct reason *why) {
    struct durable *durable = store->durable;
    struct durable_stamp stamp;
    uint8_t bytes[DURABLE_STAMP_SIZE];
    int rc = read_all(durable, DURABLE_STAMP, bytes, sizeof(bytes), why);
    if (rc != 0) {
        return rc == LKV_ENOENT ? malformed(durable, "it does not say where it stands", why) : rc;
    }
    if (!durable_get_stamp(slice_of(bytes, sizeof(bytes)), &stamp)) {
        return malformed(durable, "malformed stamp", why);
    }
    store->keys = stamp.keys;
    store->bytes = stamp.bytes;
    store->versions = stamp.versions;
    store->feature_level = stamp.feature_level;
    durable->purged = stamp.purged;
    store_publish(store, &stamp.stamp);
    rc = read_sessions(store, why);
    rc = rc == 0 ? undo(store, why) : rc;
    return rc == 0 ? durable_read_leases(store, why) : rc;
}

int durable_persisted(struct durable *durable, uint64_t *index, struct reason *why) {
    uint8_t bytes[DURABLE_STAMP_SIZE];
    struct durable_stamp stamp;
    *index = 0;
    int rc = read_all(durable, DURABLE_STAMP, bytes, sizeof(bytes), why);
    if (rc == 0 && !durable_get_stamp(slice_of(bytes, sizeof(bytes)), &stamp)) {
        rc = malformed(durable, "malformed stamp", why);
    }
    if (rc == 0) {
        *index = stamp.stamp.index;
    }
    return rc == LKV_ENOENT ? 0 : rc;
}

/* ---------------------------------------------------------------------------- opening */

static int begin_empty(struct store *store, const struct kv_home *home, uint64_t number,
                       bool adopted, struct reason *why) {
    int rc = open_map(&store->durable, home, number, why);
    if (rc != 0) {
        return rc;
    }
    struct durable *durable = store->durable;
    rc = put_owner(durable, home);
    if (adopted) {
        put_adopted(durable);
    }
    rc = rc == 0 ? durable_commit(store, &store->shown, why) : rc;
    if (rc == 0 && adopted) {
        rc = durable->ops->flush(durable->map, why);
    }
    return rc;
}

/* 0, LKV_ENOENT: it was never adopted, or an error. */
static int open_existing(struct store *store, const struct kv_home *home, uint64_t number,
                         struct reason *why) {
    int rc = open_map(&store->durable, home, number, why);
    if (rc != 0) {
        return rc;
    }
    struct durable *durable = store->durable;
    size_t size;
    bool stale = false;
    rc = durable->ops->persisted(durable->map, slice_text(ADOPTED), NULL, 0, &size, why);
    rc = rc == 0 ? check_owner(durable, home, &stale, why) : rc;
    rc = rc == 0 ? read_state(store, why) : rc;
    if (rc == 0) {
        durable->adopted = true;
        if (stale) {
            rc = put_owner(durable, home);
        }
        rc = rc == 0 ? durable_commit(store, &store->shown, why) : rc;
    }
    return rc;
}

static void close_existing(struct store *store) {
    struct durable *durable = store->durable;
    store->durable = NULL;
    if (durable != NULL) {
        durable->adopted = true; /* so that its files stay */
        durable->fault =
            durable->fault != 0 ? durable->fault : LKV_EIO; /* and nothing is flushed */
        durable_close(durable);
    }
}

int durable_open(struct store *store, const struct kv_home *home, bool fresh, struct reason *why) {
    int rc = disk_make_dir(home->disk, home->dir);
    if (rc != 0) {
        return reason_set(why, rc, "%s: %s", home->dir, error_text(rc));
    }
    if (!fresh && is_condemned(home)) {
        return reason_set(why, LKV_EDAMAGED, "%s: it was found to be damaged", home->dir);
    }
    uint64_t last, number;
    rc = last_below(home, UINT64_MAX, &last, why);
    if (rc != 0 || fresh) {
        return rc != 0 ? rc : begin_empty(store, home, last + 1, false, why);
    }
    for (number = last; number > 0;) {
        rc = open_existing(store, home, number, why);
        if (rc == 0) {
            return remove_below(home, number, why);
        }
        close_existing(store);
        if (rc != LKV_ENOENT) {
            return rc;
        }
        remove_map(home, number);
        rc = last_below(home, number, &number, why);
        if (rc != 0) {
            return rc;
        }
    }
    return begin_empty(store, home, last + 1, true, why);
}

void durable_adopt(struct store *store, struct store *old) {
    put_adopted(store->durable);
    int rc = durable_commit(store, &store->shown, NULL);
    (void)rc; /* a fault: the next entry stops */
    if (old->durable != NULL) {
        old->durable->doomed = true;
    }
}
