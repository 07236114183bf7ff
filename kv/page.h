/* What a query returns: versions of one revision go in, in key order or against it, and the items that
 * belong on the page come out, filtered, ordered and cut. Any one thread. */
#ifndef KV_PAGE_H
#define KV_PAGE_H

#include "base/error.h"
#include "kv/kv.h"
#include "kv/version.h"

struct page {
    const struct kv_query *query;
    struct kv_range *out;
    size_t capacity; /* of out->items */
    size_t bytes;    /* of the items' keys and values */
    size_t sort_at; /* by another order: at so many items they are sorted, and the worst given up */
    bool full;      /* what comes next does not belong here any more: out->more is known */
};

void page_init(struct page *page, const struct kv_query *query, struct kv_range *out);

/* Takes the reference. LKV_ENOMEM: the items so far stay the range's. */
MUST_USE int page_add(struct page *page, struct kv_version *version);

/* Walks over the range and fills `out`: what kv_range does. */
struct walk;
MUST_USE int page_read(struct walk *walk, const struct kv_query *query, struct kv_range *out);

/* The last one has come, or the page is full. */
void page_end(struct page *page);

/* How many keys to look for next, at most `max`: one more than there is room for tells whether there are
 * more. */
size_t page_wants(const struct page *page, size_t max);

/* Whether items come as the keys do, and not by another order. */
static inline bool query_is_by_key(const struct kv_query *query) {
    return query->order == KV_BY_KEY;
}

bool query_has_filter(const struct kv_query *query);

static inline void item_fill(struct kv_item *item, struct kv_version *version, bool keys_only) {
    *item = (struct kv_item){.key = version_key(version),
                             .value = keys_only ? (struct slice){0} : version_value(version),
                             .create_rev = version->create_rev,
                             .mod_rev = version->main,
                             .version = version->version,
                             .lease = version_lease(version),
                             .owner = version};
}

#endif
