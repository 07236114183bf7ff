/* Points and pages. */
#include "base/mem.h"
#include "kv/walk.h"

static void item_fill(struct kv_item *item, struct kv_version *version, bool keys_only) {
    *item = (struct kv_item){.key = version_key(version),
                             .value = keys_only ? (struct slice){0} : version_value(version),
                             .create_rev = version->create_rev,
                             .mod_rev = version->main,
                             .version = version->version,
                             .lease = version_lease(version),
                             .owner = version};
}

/* ---------------------------------------------------------------------------- points */

static struct kv_version *visible(const struct store *store, struct slice key) {
    return version_at(store_newest(store, key), store->shown.revision);
}

int kv_get_at(struct kv *kv, struct slice key, uint64_t revision, struct kv_item *out,
              struct kv_stamp *stamp) {
    unsigned lane = gate_enter(kv->gate);
    const struct store *store = kv->store;
    revision = revision != 0 ? revision : store->shown.revision;
    int rc = stamp_reaches(&store->shown, revision);
    struct kv_version *version = rc == 0 ? version_at(store_newest(store, key), revision) : NULL;
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
    return kv_get_at(kv, key, 0, out, stamp);
}

void kv_item_release(struct kv_item *item) {
    if (item->owner != NULL) {
        version_unref(item->owner);
    }
    *item = (struct kv_item){0};
}

int kv_get_copy(struct kv *kv, struct slice key, void *into, size_t capacity, size_t *size) {
    unsigned lane = gate_enter(kv->gate);
    const struct kv_version *version = visible(kv->store, key);
    if (version != NULL) {
        struct slice value = version_value(version);
        *size = value.size;
        size_t copied = value.size < capacity ? value.size : capacity;
        if (copied > 0) {
            memcpy(into, value.data, copied);
        }
    }
    gate_leave(kv->gate, lane);
    return version != NULL ? 0 : LKV_ENOTFOUND;
}

/* ---------------------------------------------------------------------------- pages */

/* A page that is being filled. */
struct page {
    const struct kv_query *query;
    struct kv_range *out;
    size_t capacity; /* of out->items */
    size_t bytes;
    bool full;
};

static bool page_takes(const struct page *page, const struct kv_version *version) {
    const struct kv_query *query = page->query;
    if (page->full || (query->limit > 0 && page->out->count == query->limit)) {
        return false;
    }
    size_t size = version->key_size + (query->keys_only ? 0 : (size_t)version->value_size);
    return query->bytes_max == 0 || page->out->count == 0 ||
           (page->bytes <= query->bytes_max && size <= query->bytes_max - page->bytes);
}

static int page_add(struct page *page, struct kv_version *version) {
    struct kv_range *out = page->out;
    struct kv_item *items =
        mem_array_grow(out->items, &page->capacity, out->count + 1, sizeof(*items));
    if (items == NULL) {
        return LKV_ENOMEM;
    }
    out->items = items;
    struct kv_item *item = &items[out->count++];
    item_fill(item, version, page->query->keys_only);
    page->bytes += item->key.size + item->value.size;
    return 0;
}

/* Takes over the references: into the page, or, once it is full, nowhere. */
static int page_add_all(struct page *page, struct kv_version **versions, size_t count) {
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        if (rc == 0 && page_takes(page, versions[i])) {
            rc = page_add(page, versions[i]);
            if (rc == 0) {
                continue;
            }
        }
        page->full = true;
        version_unref(versions[i]);
    }
    return rc;
}

/* How many keys to look for: one more than the limit allows, which tells whether there are more. */
static size_t wanted(const struct page *page) {
    size_t limit = page->query->limit;
    size_t left = limit > 0 ? limit - page->out->count : WALK_KEYS;
    return left < WALK_KEYS ? left + 1 : WALK_KEYS;
}

static int fill_page(struct walk *walk, struct page *page) {
    struct kv_version *versions[WALK_KEYS];
    while (!walk->ended && !page->full) {
        size_t max = wanted(page);
        bool final = !page->query->with_total && page->query->limit > 0 && max < WALK_KEYS;
        size_t count = walk_next(walk, versions, max, final);
        page->out->total += count;
        int rc = page_add_all(page, versions, count);
        if (rc != 0) {
            return rc;
        }
    }
    page->out->more = page->full;
    return 0;
}

static int count_rest(struct walk *walk, const struct kv_query *query, struct kv_range *out) {
    while (!walk->ended) {
        if (query->cancel != NULL && atomic_load_explicit(query->cancel, memory_order_relaxed)) {
            return LKV_ECANCELED;
        }
        out->total += walk_count(walk);
    }
    return 0;
}

int kv_range(struct kv *kv, const struct kv_query *query, struct kv_range *out) {
    *out = (struct kv_range){0};
    struct walk walk;
    walk_init(&walk, kv, query->from, query->to, query->descending, query->revision);
    struct page page = {.query = query, .out = out};
    int rc = 0;
    if (!query->count_only) {
        rc = fill_page(&walk, &page);
    }
    if (rc == 0 && (query->count_only || query->with_total)) {
        rc = count_rest(&walk, query, out);
    } else {
        out->total = out->count;
    }
    rc = rc == 0 ? walk.rc : rc;
    const struct kv_stamp stamp = walk.stamp;
    walk_fini(&walk);
    if (rc != 0) {
        kv_range_fini(out);
    }
    out->stamp = stamp;
    return rc;
}

void kv_range_fini(struct kv_range *range) {
    for (size_t i = 0; i < range->count; i++) {
        kv_item_release(&range->items[i]);
    }
    mem_free(range->items);
    *range = (struct kv_range){0};
}
