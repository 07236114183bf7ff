/* One revision, kept readable for as long as somebody holds the pin. */
#include "base/mem.h"
#include "kv/page.h"
#include "kv/walk.h"

struct kv_pin {
    struct kv *kv;
    struct store *store; /* owned reference: a restore does not take it away */
    struct kv_stamp stamp;
    uint64_t revision;
    struct pin pin;
};

int kv_pin_open(struct kv *kv, uint64_t revision, struct kv_pin **out, struct kv_stamp *stamp) {
    struct kv_pin *made = mem_calloc(1, sizeof(*made));
    unsigned lane = gate_enter(kv->gate);
    struct store *store = kv->store;
    *stamp = store->shown;
    revision = revision != 0 ? revision : stamp->revision;
    int rc = made != NULL ? stamp_reaches(stamp, revision) : LKV_ENOMEM;
    if (rc == 0) {
        *made = (struct kv_pin){.kv = kv, .store = store, .stamp = *stamp, .revision = revision};
        store_ref(store);
        pin_open(store, &made->pin, revision, 0);
    }
    gate_leave(kv->gate, lane);
    if (rc != 0) {
        mem_free(made);
        made = NULL;
    }
    *out = made;
    return rc;
}

void kv_pin_close(struct kv_pin *pin) {
    if (pin != NULL) {
        pin_close(pin->kv, pin->store, &pin->pin);
        store_unref(pin->store);
        mem_free(pin);
    }
}

uint64_t kv_pin_revision(const struct kv_pin *pin) {
    return pin->revision;
}

static void walk_init_at(struct walk *walk, struct kv_pin *pin, struct slice from) {
    /* On what the store keeps by now the walk may rely, on what it kept then not: this pin is of one
     * revision. */
    struct kv_stamp stamp = pin->stamp;
    stamp.kept_from = stamp.revision + 1;
    walk_init_pinned(walk, pin->kv, pin->store, &stamp);
    walk->scan.snapshot = pin->pin.snapshot;
    walk->revision = pin->revision;
    walk->from = from;
}

int kv_pin_get(struct kv_pin *pin, struct slice key, struct kv_item *out, struct kv_stamp *stamp) {
    struct walk walk;
    struct kv_version *version;
    walk_init_at(&walk, pin, key);
    /* It is the first that is looked at; if it is not there, another one may be found. */
    size_t count = walk_next(&walk, &version, 1, true);
    int rc = walk.rc;
    walk_fini(&walk);
    *stamp = pin->stamp;
    *out = (struct kv_item){0};
    if (rc == 0 && count == 1 && slice_equal(version_key(version), key)) {
        item_fill(out, version, false);
        return 0;
    }
    if (count == 1) {
        version_unref(version);
    }
    return rc != 0 ? rc : LKV_ENOTFOUND;
}

int kv_pin_range(struct kv_pin *pin, const struct kv_query *query, struct kv_range *out) {
    struct walk walk;
    walk_init_at(&walk, pin, query->from);
    walk.to = query->to;
    walk.descending = query->descending && query_is_by_key(query);
    int rc = page_read(&walk, query, out);
    out->stamp = pin->stamp;
    return rc;
}
