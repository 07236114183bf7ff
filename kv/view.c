#include "kv/view.h"

#include "base/mem.h"
#include "kv/digest.h"

int kv_view_open(struct kv *kv, struct kv_view **out) {
    *out = NULL;
    if (kv->in_map && kv->failed != 0) {
        return kv->failed; /* its sessions may be ahead of its keys */
    }
    struct kv_view *view = mem_calloc(1, sizeof(*view));
    if (view == NULL) {
        return LKV_ENOMEM;
    }
    view->kv = kv;
    unsigned lane = gate_enter(kv->gate);
    struct store *store = kv->store;
    store_ref(store);
    /* Without history it keeps one revision; else what is purged waits for it (rule 24). */
    bool whole = store->shown.kept_from <= store->shown.revision;
    pin_open(store, &view->pin, store->shown.revision, whole ? store->shown.kept_from : 0);
    view->store = store;
    view->stamp = store->shown;
    view->feature_level = store->feature_level;
    view->keys = store->shown_keys;
    view->bytes = store->shown_bytes;
    int rc = sessions_freeze(&store->sessions, &view->sessions);
    rc = rc == 0 ? leases_freeze(&store->leases, &view->leases) : rc;
    gate_leave(kv->gate, lane);
    if (rc != 0) {
        kv_view_close(view);
        return rc;
    }
    *out = view;
    return 0;
}

void kv_view_close(struct kv_view *view) {
    if (view != NULL) {
        pin_close(view->kv, view->store, &view->pin);
        sessions_fini(&view->sessions);
        lease_list_fini(&view->leases);
        store_unref(view->store);
        mem_free(view);
    }
}

void kv_view_stamp(const struct kv_view *view, struct kv_stamp *out) {
    *out = view->stamp;
}

static uint64_t digest_version(const struct kv_version *version) {
    const struct digest_item item = {.key = version_key(version),
                                     .value = version_value(version),
                                     .create_rev = version->create_rev,
                                     .mod_rev = version->main,
                                     .version = version->version,
                                     .lease = version_lease(version)};
    return digest_of(&item);
}

int kv_view_digest(struct kv_view *view, const atomic_bool *cancel, uint64_t *digest) {
    int rc = sessions_digest(&view->sessions, digest);
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < view->leases.count; i++) {
        *digest += lease_digest(&view->leases.items[i]);
    }
    struct walk walk;
    walk_init_pinned(&walk, view->kv, view->store, &view->stamp);
    walk.scan.snapshot = view->pin.snapshot;
    while (rc == 0 && !walk.ended) {
        struct kv_version *versions[WALK_KEYS];
        size_t count = walk_next(&walk, versions, WALK_KEYS, false);
        for (size_t i = 0; i < count; i++) {
            *digest += digest_version(versions[i]);
            version_unref(versions[i]);
        }
        if (cancel != NULL && atomic_load_explicit(cancel, memory_order_relaxed)) {
            rc = LKV_ECANCELED;
        }
    }
    rc = rc == 0 ? walk.rc : rc;
    walk_fini(&walk);
    return rc;
}
