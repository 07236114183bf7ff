/* Points and pages. */
#include "base/mem.h"
#include "kv/durable.h"
#include "kv/page.h"
#include "kv/walk.h"

/* ---------------------------------------------------------------------------- points */

/* Of a store that lies in a map. */
static int get_from_map(struct kv *kv, struct slice key, uint64_t revision, struct kv_item *out,
                        struct kv_stamp *stamp) {
    struct kv_version *version;
    struct kv_stamp read_at;
    int rc = durable_get(kv, key, revision, &version, &read_at);
    *out = (struct kv_item){0};
    if (rc == 0) {
        item_fill(out, version, false);
    }
    if (stamp != NULL) {
        *stamp = read_at;
    }
    return rc;
}

static struct kv_version *visible(const struct store *store, struct slice key) {
    return version_at(store_newest(store, key), store->shown.revision, store->shown.kept_from);
}

int kv_get_at(struct kv *kv, struct slice key, uint64_t revision, struct kv_item *out,
              struct kv_stamp *stamp) {
    if (kv->in_map) {
        return get_from_map(kv, key, revision, out, stamp);
    }
    unsigned lane = gate_enter(kv->gate);
    const struct store *store = kv->store;
    revision = revision != 0 ? revision : store->shown.revision;
    int rc = stamp_reaches(&store->shown, revision);
    struct kv_version *version =
        rc == 0 ? version_at(store_newest(store, key), revision, store->shown.kept_from) : NULL;
    if (version != NULL) {
        item_fill(out, version_ref(version), false);
    }
    if (stamp != NULL) {
        *stamp = store->shown;
    }
    gate_leave(kv->gate, lane);
    if (version == NULL) {
        *out = (struct kv_item){0};
        return rc != 0 ? rc : LKV_ENOTFOUND;
    }
    return 0;
}

int kv_get(struct kv *kv, struct slice key, struct kv_item *out, struct kv_stamp *stamp) {
    if (kv->in_map) {
        return get_from_map(kv, key, 0, out, stamp);
    }
    unsigned lane = gate_enter(kv->gate);
    const struct store *store = kv->store;
    struct kv_version *version = visible(store, key);
    if (version != NULL) {
        item_fill(out, version_ref(version), false);
    }
    if (stamp != NULL) {
        *stamp = store->shown;
    }
    gate_leave(kv->gate, lane);
    if (version == NULL) {
        *out = (struct kv_item){0};
        return LKV_ENOTFOUND;
    }
    return 0;
}

void kv_item_release(struct kv_item *item) {
    if (item->owner != NULL) {
        version_unref(item->owner);
    }
    *item = (struct kv_item){0};
}

static void copy_value(struct slice value, void *into, size_t capacity, size_t *size) {
    *size = value.size;
    size_t copied = value.size < capacity ? value.size : capacity;
    if (copied > 0) {
        memcpy(into, value.data, copied);
    }
}

static int copy_from_map(struct kv *kv, struct slice key, void *into, size_t capacity,
                         size_t *size) {
    struct kv_item item;
    int rc = get_from_map(kv, key, 0, &item, NULL);
    if (rc == 0) {
        copy_value(item.value, into, capacity, size);
        kv_item_release(&item);
    }
    return rc;
}

int kv_get_copy(struct kv *kv, struct slice key, void *into, size_t capacity, size_t *size) {
    if (kv->in_map) {
        return copy_from_map(kv, key, into, capacity, size);
    }
    unsigned lane = gate_enter(kv->gate);
    const struct kv_version *version = visible(kv->store, key);
    if (version != NULL) {
        copy_value(version_value(version), into, capacity, size);
    }
    gate_leave(kv->gate, lane);
    return version != NULL ? 0 : LKV_ENOTFOUND;
}

/* ---------------------------------------------------------------------------- pages */

/* Takes over the references. */
static int page_add_all(struct page *page, struct kv_version **versions, size_t count) {
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        if (rc == 0) {
            rc = page_add(page, versions[i]);
        } else {
            version_unref(versions[i]);
        }
    }
    return rc;
}

static bool is_canceled(const struct kv_query *query) {
    return query->cancel != NULL && atomic_load_explicit(query->cancel, memory_order_relaxed);
}

static int fill_page(struct walk *walk, struct page *page) {
    struct kv_version *versions[WALK_KEYS];
    int rc = 0;
    size_t looked_at = 0;
    while (rc == 0 && !walk->ended && !page->full) {
        if (page->query->keys_max > 0 && looked_at >= page->query->keys_max) {
            return LKV_EBUSY;
        }
        looked_at += WALK_KEYS;
        size_t max = page_wants(page, WALK_KEYS);
        bool final = !page->query->with_total && max < WALK_KEYS;
        size_t count = walk_next(walk, versions, max, final);
        page->out->total += count;
        rc = page_add_all(page, versions, count);
        if (rc == 0 && is_canceled(page->query)) {
            rc = LKV_ECANCELED;
        }
    }
    page_end(page);
    return rc;
}

static int count_rest(struct walk *walk, const struct kv_query *query, struct kv_range *out) {
    while (!walk->ended) {
        if (is_canceled(query)) {
            return LKV_ECANCELED;
        }
        out->total += walk_count(walk);
    }
    return 0;
}

int page_read(struct walk *walk, const struct kv_query *query, struct kv_range *out) {
    *out = (struct kv_range){0};
    struct page page;
    page_init(&page, query, out);
    int rc = 0;
    if (!query->count_only) {
        rc = fill_page(walk, &page);
    }
    if (rc == 0 && (query->count_only || query->with_total)) {
        rc = count_rest(walk, query, out);
    } else {
        out->total = out->count;
    }
    rc = rc == 0 ? walk->rc : rc;
    const struct kv_stamp stamp = walk->stamp;
    walk_fini(walk);
    if (rc != 0) {
        kv_range_fini(out);
    }
    out->stamp = stamp;
    return rc;
}

int kv_range(struct kv *kv, const struct kv_query *query, struct kv_range *out) {
    struct walk walk;
    walk_init(&walk, kv, query->from, query->to, query->descending && query_is_by_key(query),
              query->revision);
    return page_read(&walk, query, out);
}

void kv_range_fini(struct kv_range *range) {
    for (size_t i = 0; i < range->count; i++) {
        kv_item_release(&range->items[i]);
    }
    mem_free(range->items);
    *range = (struct kv_range){0};
}
