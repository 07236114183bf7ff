/* Reading a store that lies in a map: points, and walks over its keys. An iterator is made inside of the
 * gate, together with the stamp that it is read at, and used outside. */
#include "kv/durable.h"

enum {
    LOOKED_AT = 256, /* keys in one visit */
    STEPS = 4        /* over older versions, until a seek is faster */
};

static int failed(struct durable *durable, struct ordered_iter *iter) {
    struct reason why = {{0}};
    return durable_note(durable, durable->ops->error(iter, &why));
}

/* ---------------------------------------------------------------------------- points */

static int get(struct durable *durable, struct ordered_iter *iter, struct slice key,
               uint64_t revision, struct kv_version **out) {
    struct buffer wanted;
    buffer_init(&wanted);
    durable_put_key(&wanted, key);
    size_t size = wanted.size;
    durable_put_revision(&wanted, revision);
    struct slice found, value, prefix;
    struct durable_record record;
    uint64_t main;
    int rc = wanted.failed ? LKV_ENOMEM : 0;
    if (rc == 0) {
        durable->ops->seek(iter, buffer_slice(&wanted));
    }
    if (rc != 0) {
        /* no memory to look for it */
    } else if (!durable->ops->at(iter, &found, &value)) {
        rc = failed(durable, iter);
        rc = rc == 0 ? LKV_ENOTFOUND : rc;
    } else if (!durable_split_key(found, &prefix, &main) ||
               !slice_equal(prefix, slice_of(wanted.data, size))) {
        rc = LKV_ENOTFOUND;
    } else if (!durable_get_record(value, main, &record)) {
        rc = durable_note(durable, LKV_EDAMAGED);
    } else {
        rc = record.version == 0 ? LKV_ENOTFOUND : durable_make_version(prefix, &record, out);
    }
    buffer_fini(&wanted);
    return rc;
}

int durable_get(struct kv *kv, struct slice key, uint64_t revision, struct kv_version **out,
                struct kv_stamp *stamp) {
    *out = NULL;
    unsigned lane = gate_enter(kv->gate);
    struct store *store = kv->store;
    struct durable *durable = store->durable;
    struct ordered_iter *iter = NULL;
    *stamp = store->shown;
    revision = revision != 0 ? revision : stamp->revision;
    int rc = stamp_reaches(stamp, revision);
    if (rc == 0) {
        store_ref(store);
        iter = durable->ops->iterate(durable->map, ORDERED_COMMITTED, NULL, true);
    }
    gate_leave(kv->gate, lane);
    if (rc != 0) {
        return rc;
    }
    rc = iter != NULL ? get(durable, iter, key, revision, out) : LKV_ENOMEM;
    durable->ops->end(iter);
    store_unref(store);
    return rc;
}

/* ---------------------------------------------------------------------------- walks */

void durable_walk_begin(struct walk *walk) {
    const struct durable *durable = walk->store->durable;
    walk->scan.iter = durable->ops->iterate(durable->map, ORDERED_COMMITTED,
                                            walk->pins_itself ? NULL : walk->scan.snapshot, false);
    if (walk->pins_itself) {
        store_ref(walk->store); /* a restore must not take it away */
        walk->scan.holds = true;
    }
}

void durable_walk_fini(struct walk *walk) {
    buffer_fini(&walk->scan.place);
    buffer_fini(&walk->scan.bound);
    /* Otherwise the store is not looked at: of the memory engine it may be gone. */
    if (walk->scan.iter != NULL) {
        walk->store->durable->ops->end(walk->scan.iter);
    }
    if (walk->scan.holds) {
        store_unref(walk->store);
    }
    walk->scan = (struct walk_scan){0};
}

/* The keys of one visit. */
struct visit {
    struct walk *walk;
    const struct ordered_ops *ops;
    struct ordered_iter *iter;
    struct buffer *place; /* the key looked at, or where to go on from */
    struct kv_version **versions;
    size_t count, max;
    bool counts_only;
    int rc;
};

static void stop(struct visit *visit, int rc) {
    visit->rc = durable_note(visit->walk->store->durable, rc);
    visit->walk->ended = true;
}

/* The record that the iterator is at, if it is a version of a key; else the walk has ended. */
static bool current(struct visit *visit, struct slice *prefix, uint64_t *main,
                    struct slice *value) {
    struct slice key;
    bool there = visit->ops->at(visit->iter, &key, value);
    if (!there) {
        stop(visit, failed(visit->walk->store->durable, visit->iter));
    } else if (!durable_split_key(key, prefix, main)) {
        stop(visit, 0);
        there = false;
    }
    return there;
}

static bool take(struct visit *visit, struct slice prefix, uint64_t main, struct slice value) {
    struct durable_record record;
    if (!durable_get_record(value, main, &record)) {
        stop(visit, LKV_EDAMAGED);
        return false;
    }
    if (record.version == 0) {
        return true;
    }
    if (visit->counts_only) {
        visit->count++;
        return true;
    }
    int rc = durable_make_version(prefix, &record, &visit->versions[visit->count]);
    if (rc != 0) {
        stop(visit, rc);
        return false;
    }
    visit->count++;
    return true;
}

static void set_place(struct visit *visit, struct slice bytes) {
    buffer_clear(visit->place);
    buffer_append(visit->place, bytes.data, bytes.size);
    if (visit->place->failed) {
        stop(visit, LKV_ENOMEM);
    }
}

/* Takes what the revision sees of the key in `place`: the iterator is at one of its records, or before. */
static void take_visible(struct visit *visit, uint64_t revision, bool seeks) {
    size_t size = visit->place->size;
    if (seeks) {
        durable_put_revision(visit->place, revision);
        visit->ops->seek(visit->iter, buffer_slice(visit->place));
        visit->place->size = size;
    }
    struct slice key, prefix, value;
    uint64_t main;
    if (!visit->ops->at(visit->iter, &key, &value)) {
        int rc = failed(visit->walk->store->durable, visit->iter);
        if (rc != 0) {
            stop(visit, rc);
        }
    } else if (durable_split_key(key, &prefix, &main) &&
               slice_equal(prefix, buffer_slice(visit->place))) {
        (void)take(visit, prefix, main, value);
    }
}

static struct slice bound_of(struct walk *walk, struct slice key) {
    buffer_clear(&walk->scan.bound);
    durable_put_key(&walk->scan.bound, key);
    return buffer_slice(&walk->scan.bound);
}

/* The first record of a later key than that in `place`. */
static void seek_behind(struct visit *visit) {
    size_t size = visit->place->size;
    durable_put_revision(visit->place, 0); /* no version has it */
    visit->ops->seek(visit->iter, buffer_slice(visit->place));
    visit->place->size = size;
}

/* Past all versions of the key in `place`. */
static void pass_key(struct visit *visit) {
    struct slice prefix, value;
    uint64_t main;
    for (int step = 0; step < STEPS; step++) {
        struct slice key;
        if (!visit->ops->at(visit->iter, &key, &value) || !durable_split_key(key, &prefix, &main) ||
            !slice_equal(prefix, buffer_slice(visit->place))) {
            return;
        }
        visit->ops->next(visit->iter);
    }
    seek_behind(visit);
}

static void go_forward(struct visit *visit) {
    struct walk *walk = visit->walk;
    struct slice end = walk->to.size > 0 ? bound_of(walk, walk->to) : (struct slice){0};
    struct slice prefix, value;
    uint64_t main;
    if (walk->scan.started) {
        seek_behind(visit);
    } else {
        buffer_clear(visit->place);
        durable_put_key(visit->place, walk->from);
        if (walk->from.size == 0 && !visit->place->failed) {
            visit->place->size = 1; /* before all keys */
        }
        visit->ops->seek(visit->iter, buffer_slice(visit->place));
    }
    walk->scan.started = true;
    for (int looked_at = 0; !walk->ended && looked_at < LOOKED_AT && visit->count < visit->max;
         looked_at++) {
        if (!current(visit, &prefix, &main, &value)) {
            return;
        }
        if (end.size > 0 && slice_compare(prefix, end) >= 0) {
            stop(visit, 0);
            return;
        }
        set_place(visit, prefix);
        if (!walk->ended) {
            take_visible(visit, walk->revision, main > walk->revision);
        }
        if (!walk->ended) {
            pass_key(visit);
        }
    }
}

/* The last record before all of the key in `place`, or the last of all. */
static void seek_before(struct visit *visit) {
    visit->ops->seek_back(visit->iter, buffer_slice(visit->place));
}

static void go_back(struct visit *visit) {
    struct walk *walk = visit->walk;
    struct slice first = bound_of(walk, walk->from);
    first = walk->from.size > 0 ? first : (struct slice){0};
    struct slice prefix, value;
    uint64_t main;
    if (!walk->scan.started) {
        buffer_clear(visit->place);
        durable_put_key(visit->place, walk->to);
        if (walk->to.size == 0 && !visit->place->failed) {
            visit->place->size = 1;
            visit->place->data[0]++; /* behind all keys */
        }
    }
    walk->scan.started = true;
    for (int looked_at = 0; !walk->ended && looked_at < LOOKED_AT && visit->count < visit->max;
         looked_at++) {
        seek_before(visit);
        if (!current(visit, &prefix, &main, &value)) {
            return;
        }
        if (first.size > 0 && slice_compare(prefix, first) < 0) {
            stop(visit, 0);
            return;
        }
        set_place(visit, prefix);
        if (!walk->ended) {
            take_visible(visit, walk->revision, true);
        }
    }
}

/* In a turn the batch changes from one visit to the next. */
static bool begin(struct visit *visit, struct walk *walk) {
    struct durable *durable = walk->store->durable;
    *visit = (struct visit){
        .walk = walk, .ops = durable->ops, .iter = walk->scan.iter, .place = &walk->scan.place};
    if (walk->kv == NULL) {
        visit->iter = durable->ops->iterate(durable->map, ORDERED_PENDING, NULL, false);
    }
    if (visit->iter == NULL) {
        stop(visit, LKV_ENOMEM);
    }
    return !walk->ended;
}

static size_t finish(struct visit *visit) {
    struct walk *walk = visit->walk;
    struct durable *durable = walk->store->durable;
    if (walk->scan.place.failed || walk->scan.bound.failed) {
        stop(visit, LKV_ENOMEM);
    }
    if (visit->rc != 0 && walk->kv == NULL) {
        (void)durable_fail(durable, visit->rc, NULL);
    } else if (visit->rc != 0) {
        walk->rc = visit->rc;
    }
    if (walk->kv == NULL) {
        durable->ops->end(visit->iter);
    }
    return visit->count;
}

static void run(struct visit *visit) {
    if (visit->walk->descending) {
        go_back(visit);
    } else {
        go_forward(visit);
    }
}

size_t durable_visit(struct walk *walk, struct kv_version **versions, size_t max) {
    struct visit visit;
    if (begin(&visit, walk)) {
        visit.versions = versions;
        visit.max = max;
        run(&visit);
    }
    return finish(&visit);
}

size_t durable_visit_count(struct walk *walk, size_t max) {
    struct visit visit;
    if (begin(&visit, walk)) {
        visit.counts_only = true;
        visit.max = max;
        run(&visit);
    }
    return finish(&visit);
}

/* ---------------------------------------------------------------------------- all that is kept */

/* A record of the walk: `place` has the key of the one before it. What the state keeps of a key is what
 * the stamp's revision sees, and older ones as long as the newer one is above `upto`. */
static void take_kept(struct visit *visit, struct slice prefix, uint64_t main, struct slice value) {
    struct walk *walk = visit->walk;
    const struct kv_stamp *stamp = &walk->stamp;
    uint64_t upto = stamp->kept_from < stamp->revision ? stamp->kept_from : stamp->revision;
    bool same = walk->scan.started && slice_equal(prefix, buffer_slice(visit->place));
    if (!same) {
        set_place(visit, prefix);
        walk->scan.started = true;
        walk->inside = true; /* its newest one is still to come */
    }
    if (main > stamp->revision || !walk->inside || walk->ended) {
        return;
    }
    walk->inside = main > upto;
    struct durable_record record;
    if (!durable_get_record(value, main, &record)) {
        stop(visit, LKV_EDAMAGED);
        return;
    }
    if (record.version == 0 && main < stamp->kept_from) {
        return;
    }
    int rc = durable_make_version(prefix, &record, &visit->versions[visit->count]);
    if (rc != 0) {
        stop(visit, rc);
        return;
    }
    visit->count++;
}

size_t durable_visit_kept(struct walk *walk, struct kv_version **versions, size_t max) {
    struct visit visit;
    if (begin(&visit, walk)) {
        visit.versions = versions;
        visit.max = max;
        struct slice prefix, value;
        uint64_t main;
        if (!walk->scan.positioned) {
            static const uint8_t first = 'k';
            visit.ops->seek(visit.iter, slice_of(&first, 1));
            walk->scan.positioned = true;
        }
        for (int looked_at = 0; looked_at < LOOKED_AT && visit.count < max; looked_at++) {
            if (!current(&visit, &prefix, &main, &value)) {
                break;
            }
            take_kept(&visit, prefix, main, value);
            if (walk->ended) {
                break;
            }
            visit.ops->next(visit.iter);
        }
    }
    return finish(&visit);
}
