#include "kv/page.h"

#include "base/mem.h"

#include <stdlib.h>

enum { SORT_AT_LEAST = 512 };

/* ---------------------------------------------------------------------------- filters */

bool query_has_filter(const struct kv_query *query) {
    return query->mod_rev_min > 0 || query->mod_rev_max > 0 || query->create_rev_min > 0 ||
           query->create_rev_max > 0;
}

static bool is_within(uint64_t number, uint64_t min, uint64_t max) {
    return number >= min && (max == 0 || number <= max);
}

static bool passes(const struct kv_query *query, const struct kv_version *version) {
    return is_within(version->main, query->mod_rev_min, query->mod_rev_max) &&
           is_within(version->create_rev, query->create_rev_min, query->create_rev_max);
}

/* ---------------------------------------------------------------------------- order */

static int compare_numbers(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

/* Of equal ones the lesser key comes first, whichever way the order goes: no two nodes differ. */
#define COMPARE(name, expression)                                   \
    static int name##_up(const void *left, const void *right) {     \
        const struct kv_item *a = left, *b = right;                 \
        int order = (expression);                                   \
        return order != 0 ? order : slice_compare(a->key, b->key);  \
    }                                                               \
    static int name##_down(const void *left, const void *right) {   \
        const struct kv_item *a = left, *b = right;                 \
        int order = (expression);                                   \
        return order != 0 ? -order : slice_compare(a->key, b->key); \
    }

COMPARE(by_version, compare_numbers(a->version, b->version))
COMPARE(by_create_rev, compare_numbers(a->create_rev, b->create_rev))
COMPARE(by_mod_rev, compare_numbers(a->mod_rev, b->mod_rev))
COMPARE(by_value, slice_compare(version_value(a->owner), version_value(b->owner)))

typedef int compare_fn(const void *left, const void *right);

static compare_fn *compare_of(const struct kv_query *query) {
    bool down = query->descending;
    switch (query->order) {
    case KV_BY_VERSION: return down ? by_version_down : by_version_up;
    case KV_BY_CREATE_REV: return down ? by_create_rev_down : by_create_rev_up;
    case KV_BY_MOD_REV: return down ? by_mod_rev_down : by_mod_rev_up;
    case KV_BY_VALUE: return down ? by_value_down : by_value_up;
    case KV_BY_KEY: break;
    }
    return NULL; /* they come in this order */
}

/* ---------------------------------------------------------------------------- the page */

void page_init(struct page *page, const struct kv_query *query, struct kv_range *out) {
    *page = (struct page){.query = query, .out = out, .sort_at = SIZE_MAX};
    if (!query_is_by_key(query) && (query->limit > 0 || query->bytes_max > 0)) {
        size_t limit = query->limit < SIZE_MAX / 4 ? query->limit : SIZE_MAX / 4;
        page->sort_at = 2 * limit + SORT_AT_LEAST;
    }
}

size_t page_wants(const struct page *page, size_t max) {
    const struct kv_query *query = page->query;
    if (query->limit == 0 || !query_is_by_key(query) || query_has_filter(query)) {
        return max;
    }
    size_t left = query->limit - page->out->count;
    return left < max ? left + 1 : max;
}

static size_t size_of(const struct kv_query *query, const struct kv_version *version) {
    return version->key_size + (query->keys_only ? 0 : (size_t)version->value_size);
}

/* Whether one of this size fits behind `count` items of `bytes`. The first always does. */
static bool fits(const struct kv_query *query, size_t count, size_t bytes, size_t size) {
    if (query->limit > 0 && count == query->limit) {
        return false;
    }
    return query->bytes_max == 0 || count == 0 ||
           (bytes <= query->bytes_max && size <= query->bytes_max - bytes);
}

static int append(struct page *page, struct kv_version *version) {
    struct kv_range *out = page->out;
    struct kv_item *items =
        mem_array_grow(out->items, &page->capacity, out->count + 1, sizeof(*items));
    if (items == NULL) {
        version_unref(version);
        return LKV_ENOMEM;
    }
    out->items = items;
    item_fill(&items[out->count++], version, page->query->keys_only);
    return 0;
}

/* Keeps those that belong on the page if nothing better comes. */
static void sort_and_cut(struct page *page) {
    const struct kv_query *query = page->query;
    struct kv_range *out = page->out;
    if (out->count > 1) {
        qsort(out->items, out->count, sizeof(out->items[0]), compare_of(query));
    }
    size_t kept = 0;
    size_t bytes = 0;
    while (kept < out->count) {
        size_t size = size_of(query, out->items[kept].owner);
        if (!fits(query, kept, bytes, size)) {
            break;
        }
        bytes += size;
        kept++;
    }
    for (size_t i = kept; i < out->count; i++) {
        version_unref(out->items[i].owner);
        out->more = true;
    }
    out->count = kept;
    page->sort_at =
        page->sort_at > 2 * kept + SORT_AT_LEAST ? page->sort_at : 2 * kept + SORT_AT_LEAST;
}

int page_add(struct page *page, struct kv_version *version) {
    const struct kv_query *query = page->query;
    if (page->full || !passes(query, version)) {
        version_unref(version);
        return 0;
    }
    if (!query_is_by_key(query)) {
        int rc = append(page, version);
        if (rc == 0 && page->out->count >= page->sort_at) {
            sort_and_cut(page);
        }
        return rc;
    }
    size_t size = size_of(query, version);
    if (!fits(query, page->out->count, page->bytes, size)) {
        page->full = page->out->more = true;
        version_unref(version);
        return 0;
    }
    page->bytes += size;
    return append(page, version);
}

void page_end(struct page *page) {
    if (!query_is_by_key(page->query)) {
        sort_and_cut(page);
    }
}
