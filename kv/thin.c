#include "kv/thin.h"

enum { WASTE_MIN = 4 * 1024 * 1024 /* of free room in slabs: less is not worth the work */ };

/* Worth while: a quarter is gone since the last pass, and more than half of what is held is free. */
static bool is_due(struct store *store) {
    uint64_t used = pool_used(store->pool);
    if (used > store->thinning.peak) {
        store->thinning.peak = used;
    }
    return used < store->thinning.peak / 4 * 3 && pool_held(store->pool) > 2 * used + WASTE_MIN;
}

struct mover {
    struct store *store;
    uint64_t from; /* history_needed_from */
    struct kv_version **dead;
    bool failed;
};

/* A reader may hold it: then it stays, since its memory would. */
static void visit(void *arg, struct kv_version **slot) {
    struct mover *mover = arg;
    const struct kv_version *version = *slot;
    bool unknown = version->older == NULL && !version_is_tombstone(version) &&
                   version->main < mover->from &&
                   atomic_load_explicit(&version->refs, memory_order_relaxed) == 1;
    if (unknown && !mover->failed && version_is_sparse(version)) {
        mover->failed = store_move(mover->store, slot, mover->dead) != 0;
    }
}

bool thin_some(struct store *store, unsigned buckets, struct kv_version **dead) {
    struct thinning *thinning = &store->thinning;
    if (!thinning->active) {
        if (history_has_garbage(store) || !is_due(store)) {
            return false;
        }
        thinning->active = true;
        thinning->bucket = 0;
    }
    struct mover mover = {.store = store, .from = history_needed_from(store), .dead = dead};
    for (unsigned i = 0; i < buckets && thinning->bucket < table_buckets(&store->table); i++) {
        table_each(&store->table, thinning->bucket++, visit, &mover);
    }
    thinning->active = thinning->bucket < table_buckets(&store->table);
    if (!thinning->active) {
        thinning->peak = pool_used(store->pool);
    }
    return thinning->active;
}
