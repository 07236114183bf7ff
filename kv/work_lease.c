/* What leases do with keys: a revoke deletes all that are attached, at one revision, and the trees that
 * find them are tidied up. */
#include "base/mem.h"
#include "kv/batch.h"
#include "kv/durable.h"
#include "kv/page.h"
#include "kv/work.h"

bool lease_has_key(struct store *store, int64_t id, struct slice key) {
    const struct kv_version *newest =
        store->durable != NULL ? durable_at(store, key, UINT64_MAX) : store_newest(store, key);
    return newest != NULL && !version_is_tombstone(newest) && version_lease(newest) == id;
}

size_t leases_tidy(struct store *store, size_t max) {
    return leases_tidy_with(&store->leases, store, max);
}

/* ---------------------------------------------------------------------------- revoke */

static int delete_key(struct batch *batch, struct work *work, const struct lease *lease,
                      struct slice key) {
    return lease_has_key(batch->store, lease->is.id, key)
               ? change_delete(batch->store, key, work->revision, &work->changes)
               : 0;
}

int work_revoke(struct batch *batch, struct work *work, const struct kv_command *command) {
    struct lease *lease = leases_find(&batch->store->leases, command->lease);
    if (!work->checked) {
        bool meant =
            lease != NULL && (command->granted == 0 || command->granted == lease->is.granted);
        work->rc = meant ? 0 : LKV_ELEASE;
        work->checked = true;
        work->lease_key = meant ? lease_key_after(lease, (struct slice){0}) : NULL;
    }
    int rc = 0;
    while (rc == 0 && work->lease_key != NULL) { /* nobody takes it out of the tree meanwhile */
        struct slice key = lease_key_slice(work->lease_key);
        rc = delete_key(batch, work, lease, key);
        if (rc == 0) {
            work->lease_key = lease_key_after(lease, key);
            rc = work_pause(batch, 1);
        }
    }
    return rc;
}

/* ---------------------------------------------------------------------------- reading */

bool kv_lease_at(const struct kv *kv, size_t i, struct kv_lease *out) {
    const struct leases *leases = &kv->store->leases;
    if (i < leases->count) {
        *out = leases->items[i]->is;
    }
    return i < leases->count;
}

bool kv_lease_find(const struct kv *kv, int64_t id, struct kv_lease *out) {
    const struct lease *lease = leases_find(&kv->store->leases, id);
    if (lease != NULL) {
        *out = lease->is;
    }
    return lease != NULL;
}

/* The version that readers see now, if it has the lease. Inside. */
static struct kv_version *attached(struct store *store, int64_t id, struct slice key) {
    struct kv_version *version =
        store->durable != NULL
            ? durable_at(store, key, store->shown.revision)
            : version_at(store_newest(store, key), store->shown.revision, store->shown.kept_from);
    return version != NULL && version_lease(version) == id ? version : NULL;
}

int kv_lease_keys(struct kv *kv, int64_t id, struct slice after, size_t limit,
                  struct kv_range *out) {
    const struct lease *lease = leases_find(&kv->store->leases, id);
    *out = (struct kv_range){0};
    if (lease == NULL) {
        return LKV_ELEASE;
    }
    out->items = mem_calloc(limit > 0 ? limit : 1, sizeof(out->items[0]));
    if (out->items == NULL) {
        return LKV_ENOMEM;
    }
    unsigned lane = gate_enter(kv->gate);
    out->stamp = kv->store->shown;
    struct lease_key *at = lease_key_after(lease, after);
    for (; at != NULL && !out->more; at = lease_key_after(lease, lease_key_slice(at))) {
        struct kv_version *version = attached(kv->store, id, lease_key_slice(at));
        if (version != NULL && out->count == limit) {
            out->more = true;
        } else if (version != NULL) {
            item_fill(&out->items[out->count++], version_ref(version), true);
        }
    }
    gate_leave(kv->gate, lane);
    out->total = out->count;
    return 0;
}
