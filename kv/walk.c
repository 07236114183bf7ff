#include "kv/walk.h"

#include "base/assert.h"
#include "kv/durable.h"

enum {
    COUNT_KEYS = 4096, /* passed in one visit that only counts */
    PREFETCH_AHEAD = 8
};

void walk_init(struct walk *walk, struct kv *kv, struct slice from, struct slice to,
               bool descending, uint64_t revision) {
    *walk = (struct walk){.kv = kv,
                          .from = from,
                          .to = to,
                          .descending = descending,
                          .revision = revision,
                          .pins_itself = true};
}

void walk_init_pinned(struct walk *walk, struct kv *kv, struct store *store,
                      const struct kv_stamp *stamp) {
    *walk = (struct walk){.kv = kv, .store = store, .stamp = *stamp, .revision = stamp->revision};
}

void walk_init_alone(struct walk *walk, struct store *store, struct slice from, struct slice to,
                     bool descending, uint64_t revision) {
    *walk = (struct walk){
        .store = store, .from = from, .to = to, .descending = descending, .revision = revision};
}

void walk_fini(struct walk *walk) {
    durable_walk_fini(walk);
    if (walk->last != NULL) {
        version_unref(walk->last);
    }
    if (walk->pinned) {
        pin_close(walk->kv, walk->store, &walk->pin);
        store_unref(walk->store);
    }
}

/* ---------------------------------------------------------------------------- inside */

/* The last key < `key`, or <= if `or_equal` and it is there; empty: the last of all. */
static struct index_cursor seek_before(const struct index *index, struct slice key) {
    if (key.size == 0) {
        return index_last(index);
    }
    struct index_cursor cursor = index_lower(index, key);
    if (cursor.leaf == NULL) {
        return index_last(index);
    }
    index_previous(&cursor);
    return cursor;
}

static struct index_cursor seek(const struct walk *walk) {
    const struct index *index = &walk->store->index;
    if (walk->descending) {
        return seek_before(index, walk->last != NULL ? version_key(walk->last) : walk->to);
    }
    if (walk->last == NULL) {
        return index_lower(index, walk->from);
    }
    struct slice last = version_key(walk->last);
    struct index_cursor cursor = index_lower(index, last);
    const struct kv_version *at = index_at(&cursor);
    if (at != NULL && slice_equal(version_key(at), last)) {
        index_next(&cursor);
    }
    return cursor;
}

static bool beyond_end(const struct walk *walk, struct slice key) {
    if (walk->descending) {
        return slice_compare(key, walk->from) < 0;
    }
    return walk->to.size > 0 && slice_compare(key, walk->to) >= 0;
}

static void prefetch_ahead(const struct walk *walk, const struct index_cursor *cursor) {
    unsigned at = cursor->at + (walk->descending ? -(unsigned)PREFETCH_AHEAD : PREFETCH_AHEAD);
    if (at < cursor->leaf->node.count) {
        version_prefetch(cursor->leaf->node.keys[at]);
    }
}

/* Looks at one key: its newest version, or NULL at the end of the range. */
static struct kv_version *look(struct walk *walk, struct index_cursor *cursor) {
    struct kv_version *newest = index_at(cursor);
    if (newest == NULL) {
        walk->ended = true;
        return NULL;
    }
    prefetch_ahead(walk, cursor);
    if (beyond_end(walk, version_key(newest))) {
        walk->ended = true;
        return NULL;
    }
    if (walk->descending) {
        index_previous(cursor);
    } else {
        index_next(cursor);
    }
    return newest;
}

/* From here on no version is freed before the walk ends: a view keeps its own history. */
static uint64_t safe_from(const struct walk *walk) {
    const struct kv_stamp *stamp = &walk->stamp;
    bool of_view = walk->kv != NULL && !walk->pins_itself;
    return of_view && stamp->kept_from <= stamp->revision ? stamp->kept_from
                                                          : walk->store->shown.kept_from;
}

static void begin_visit(struct walk *walk) {
    if (walk->store == NULL) {
        walk->store = walk->kv->store;
        walk->stamp = walk->store->shown;
        walk->revision = walk->revision != 0 ? walk->revision : walk->stamp.revision;
        walk->rc = stamp_reaches(&walk->stamp, walk->revision);
        walk->ended = walk->rc != 0;
    }
}

/* Remembers the place, and keeps the revision and the store until the next visit. */
static void end_visit(struct walk *walk, struct kv_version *last) {
    if (last != NULL) {
        struct kv_version *before = walk->last;
        walk->last = version_ref(last);
        if (before != NULL) {
            version_unref(before);
        }
    }
    if (walk->pins_itself && !walk->pinned) {
        pin_open(walk->store, &walk->pin, walk->revision, 0);
        store_ref(walk->store); /* a restore must not take it away in between */
        walk->pinned = true;
    }
}

/* ---------------------------------------------------------------------------- visits */

static size_t visit(struct walk *walk, struct kv_version **versions, size_t max, bool final) {
    ASSERT(max > 0 && max <= WALK_KEYS);
    struct index_cursor cursor = seek(walk);
    struct kv_version *last = NULL;
    size_t count = 0;
    for (int looked_at = 0; !walk->ended && looked_at < WALK_KEYS && count < max; looked_at++) {
        struct kv_version *newest = look(walk, &cursor);
        if (newest == NULL) {
            break;
        }
        last = newest;
        struct kv_version *version = version_at(newest, walk->revision, safe_from(walk));
        if (version != NULL) {
            versions[count++] = version_ref(version);
        }
    }
    if (!walk->ended && !(final && count == max)) {
        end_visit(walk, last);
    }
    return count;
}

/* A store in a map is visited outside of the gate. True: there is something to visit. */
static bool begin_scan(struct walk *walk) {
    if (walk->scan.iter == NULL && !walk->ended) {
        unsigned lane = gate_enter(walk->kv->gate);
        begin_visit(walk);
        if (!walk->ended) {
            durable_walk_begin(walk);
        }
        gate_leave(walk->kv->gate, lane);
    }
    return !walk->ended;
}

size_t walk_next(struct walk *walk, struct kv_version **versions, size_t max, bool final) {
    if (walk->kv->in_map) {
        return begin_scan(walk) ? durable_visit(walk, versions, max) : 0;
    }
    unsigned lane = gate_enter(walk->kv->gate);
    begin_visit(walk);
    size_t count = visit(walk, versions, max, final);
    gate_leave(walk->kv->gate, lane);
    return count;
}

size_t walk_take(struct walk *walk, struct kv_version **versions, size_t max) {
    return walk->store->durable != NULL ? durable_visit(walk, versions, max)
                                        : visit(walk, versions, max, false);
}

/* Whether the version is an older one that the stamp keeps: then what is before it is superseded late
 * enough. */
static struct kv_version *older_kept(const struct walk *walk, const struct kv_version *version) {
    const struct kv_stamp *stamp = &walk->stamp;
    uint64_t upto = stamp->kept_from < stamp->revision ? stamp->kept_from : stamp->revision;
    return version->main > upto ? version->older : NULL;
}

static bool is_kept(const struct walk *walk, const struct kv_version *version) {
    return !version_is_tombstone(version) || version->main >= walk->stamp.kept_from;
}

size_t walk_next_kept(struct walk *walk, struct kv_version **versions, size_t max) {
    ASSERT(max > 0 && max <= WALK_KEYS);
    if (walk->kv->in_map) {
        return begin_scan(walk) ? durable_visit_kept(walk, versions, max) : 0;
    }
    unsigned lane = gate_enter(walk->kv->gate);
    struct index_cursor cursor = seek(walk);
    /* The history is pinned, so what the last visit has ended at is still linked. */
    struct kv_version *version = walk->inside ? older_kept(walk, walk->last) : NULL;
    struct kv_version *last = NULL;
    size_t count = 0;
    for (int looked_at = 0; looked_at < WALK_KEYS && count < max; looked_at++) {
        if (version == NULL) {
            struct kv_version *newest = look(walk, &cursor);
            if (newest == NULL) {
                break;
            }
            last = newest;
            version = version_upto(newest, walk->revision, safe_from(walk));
        }
        if (version != NULL) {
            if (is_kept(walk, version)) {
                versions[count++] = version_ref(version);
            }
            last = version;
            version = older_kept(walk, version);
        }
    }
    walk->inside = version != NULL;
    if (!walk->ended) {
        end_visit(walk, last);
    }
    gate_leave(walk->kv->gate, lane);
    return count;
}

size_t walk_count(struct walk *walk) {
    if (walk->kv->in_map) {
        return begin_scan(walk) ? durable_visit_count(walk, COUNT_KEYS) : 0;
    }
    unsigned lane = gate_enter(walk->kv->gate);
    begin_visit(walk);
    struct index_cursor cursor = seek(walk);
    struct kv_version *last = NULL;
    size_t count = 0;
    for (int looked_at = 0; !walk->ended && looked_at < COUNT_KEYS; looked_at++) {
        struct kv_version *newest = look(walk, &cursor);
        if (newest == NULL) {
            break;
        }
        last = newest;
        count += version_at(newest, walk->revision, safe_from(walk)) != NULL;
    }
    if (!walk->ended) {
        end_visit(walk, last);
    }
    gate_leave(walk->kv->gate, lane);
    return count;
}
