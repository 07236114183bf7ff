#include "kv/kv.h"

#include "base/assert.h"
#include "base/feature.h"
#include "base/mem.h"
#include "kv/durable.h"
#include "kv/store.h"

int kv_open_fresh(struct kv **out, const struct kv_options *options, bool fresh) {
    *out = NULL;
    struct kv *kv = mem_calloc(1, sizeof(*kv));
    if (kv == NULL) {
        return LKV_ENOMEM;
    }
    kv->trace = options->trace;
    kv->feature_level = options->feature_level != 0 ? options->feature_level : FEATURE_LEVEL;
    kv->gate = gate_open();
    kv->store = store_new(options->hash_seed);
    if (kv->gate == NULL || kv->store == NULL) {
        kv_close(kv);
        return LKV_ENOMEM;
    }
    int rc = 0;
    if (options->home != NULL) {
        kv->in_map = true;
        rc = durable_open(kv->store, options->home, fresh, options->why);
    }
    if (rc == 0 &&
        kv->store->feature_level > kv->feature_level) { /* rule 22: it is left as it is */
        rc = reason_set(options->why, LKV_EVERSION,
                        "%s: the state has feature level %u, this program knows %u",
                        options->home->dir, kv->store->feature_level, kv->feature_level);
    }
    if (rc != 0) {
        kv_close(kv);
        return rc;
    }
    *out = kv;
    return 0;
}

int kv_open(struct kv **out, const struct kv_options *options) {
    return kv_open_fresh(out, options, false);
}

int kv_home_clear(const struct kv_home *home, struct reason *why) {
    return durable_clear(home, why);
}

int kv_home_condemn(const struct kv_home *home, struct reason *why) {
    return durable_condemn(home, why);
}

/* The store's map, with a reference for the caller; NULL: in memory. */
static struct durable *hold_map(struct kv *kv, struct store **store) {
    *store = NULL;
    if (!kv->in_map) {
        return NULL;
    }
    unsigned lane = gate_enter(kv->gate);
    *store = kv->store;
    store_ref(*store);
    gate_leave(kv->gate, lane);
    return (*store)->durable;
}

int kv_flush(struct kv *kv, struct reason *why) {
    struct store *store;
    struct durable *durable = hold_map(kv, &store);
    int rc = durable != NULL ? durable_note(durable, durable->ops->flush(durable->map, why)) : 0;
    store_unref(store);
    return rc;
}

int kv_persisted(struct kv *kv, uint64_t *index, struct reason *why) {
    struct store *store;
    struct durable *durable = hold_map(kv, &store);
    *index = UINT64_MAX;
    int rc = durable != NULL ? durable_note(durable, durable_persisted(durable, index, why)) : 0;
    store_unref(store);
    return rc;
}

bool kv_waits(const struct kv *kv) {
    return kv->in_map && durable_busy(kv->store->durable);
}

int kv_health(struct kv *kv, struct reason *why) {
    struct store *store;
    struct durable *durable = hold_map(kv, &store);
    int rc = durable != NULL ? durable_health(durable, why) : 0;
    store_unref(store);
    return rc;
}

void kv_close(struct kv *kv) {
    if (kv != NULL) {
        store_unref(kv->store);
        gate_close(kv->gate);
        mem_free(kv);
    }
}

void kv_stamp(const struct kv *kv, struct kv_stamp *out) {
    unsigned lane = gate_enter(kv->gate);
    *out = kv->store->shown;
    gate_leave(kv->gate, lane);
}

int kv_kept_reason(int rc, uint64_t revision, const struct kv_stamp *stamp, struct reason *why) {
    uint64_t from = stamp->kept_from < stamp->revision ? stamp->kept_from : stamp->revision;
    return reason_set(why, rc, "revision %llu %s: %llu to %llu are kept",
                      (unsigned long long)revision,
                      rc == LKV_EFUTURE ? "is in the future" : "has been compacted",
                      (unsigned long long)from, (unsigned long long)stamp->revision);
}

void kv_stats(const struct kv *kv, struct kv_stats *out) {
    unsigned lane = gate_enter(kv->gate);
    struct store *store = kv->store;
    (void)pthread_mutex_lock(&store->history.pins_mutex);
    uint64_t needed_from = history_needed_from(store);
    (void)pthread_mutex_unlock(&store->history.pins_mutex);
    *out = (struct kv_stats){.keys = store->shown_keys,
                             .sessions = store->sessions.count,
                             .leases = store->leases.count,
                             .versions = store->versions,
                             .history_memory =
                                 store->history.superseded.bytes + store->history.tombstones.bytes,
                             .history_held = needed_from < store->shown.kept_from,
                             .bytes = store->shown_bytes,
                             .revision = store->shown.revision,
                             .kept_from = store->shown.kept_from,
                             .memory = store->version_memory + table_memory(&store->table) +
                                       index_memory(&store->index) +
                                       history_memory(&store->history) + store->leases.key_memory};
    if (store->durable != NULL) {
        out->memory = store->leases.key_memory + store->durable->ops->memory(store->durable->map);
    }
    gate_leave(kv->gate, lane);
}

uint32_t kv_feature_level(const struct kv *kv) {
    return kv->store->feature_level;
}

bool kv_session_at(const struct kv *kv, size_t i, struct kv_session *out) {
    const struct sessions *sessions = &kv->store->sessions;
    if (i >= sessions->count) {
        return false;
    }
    const struct session *session = sessions->slots[i].session;
    *out = (struct kv_session){.id = session->id, .ttl_ms = session->ttl_ms};
    return true;
}

void kv_exchange(struct kv *kv, struct kv *loaded) {
    if (kv->in_map) {
        durable_adopt(loaded->store, kv->store);
    }
    gate_enter_alone(kv->gate);
    struct store *old = kv->store;
    kv->store = loaded->store;
    gate_leave_alone(kv->gate);
    loaded->store = old; /* its pins go on using kv's gate */
    kv->failed = 0;
}

void kv_restore(struct kv *kv, struct kv *loaded) {
    kv_exchange(kv, loaded);
    kv_close(loaded);
}
