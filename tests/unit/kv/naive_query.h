/* A query answered by the naive state machine: collect, filter, sort all, cut. */
#ifndef TESTS_UNIT_KV_NAIVE_QUERY_H
#define TESTS_UNIT_KV_NAIVE_QUERY_H

#include "naive.h"

struct naive_page {
    const struct naive_key **keys; /* owned */
    size_t count;
    bool more;
    uint64_t total;
};

static inline int naive_order(const struct kv_query *query, const struct naive_key *a,
                              const struct naive_key *b) {
    int order = 0;
    int keys = slice_compare(blob_slice(a->key), blob_slice(b->key));
    switch (query->order) {
    case KV_BY_KEY: return query->descending ? -keys : keys;
    case KV_BY_VERSION: order = (a->version > b->version) - (a->version < b->version); break;
    case KV_BY_CREATE_REV:
        order = (a->create_rev > b->create_rev) - (a->create_rev < b->create_rev);
        break;
    case KV_BY_MOD_REV: order = (a->mod_rev > b->mod_rev) - (a->mod_rev < b->mod_rev); break;
    case KV_BY_VALUE: order = slice_compare(blob_slice(a->value), blob_slice(b->value)); break;
    }
    order = query->descending ? -order : order;
    return order != 0 ? order : keys;
}

static inline bool naive_passes(const struct kv_query *query, const struct naive_key *key) {
    return key->mod_rev >= query->mod_rev_min && key->create_rev >= query->create_rev_min &&
           (query->mod_rev_max == 0 || key->mod_rev <= query->mod_rev_max) &&
           (query->create_rev_max == 0 || key->create_rev <= query->create_rev_max);
}

static inline size_t naive_cut(const struct naive_page *page, const struct kv_query *query) {
    size_t count = 0;
    size_t bytes = 0;
    while (count < page->count && (query->limit == 0 || count < query->limit)) {
        bytes += page->keys[count]->key->size;
        bytes += query->keys_only ? 0 : page->keys[count]->value->size;
        if (query->bytes_max > 0 && bytes > query->bytes_max && count > 0) {
            break;
        }
        count++;
    }
    return count;
}

/* For free(page.keys). */
static inline struct naive_page naive_query(const struct naive *naive,
                                            const struct kv_query *query) {
    struct naive_page page = {.keys = calloc(naive->count + 1, sizeof(page.keys[0]))};
    FEED_REQUIRE(page.keys != NULL);
    size_t from = naive_lower(naive, query->from);
    size_t to = query->to.size > 0 ? naive_lower(naive, query->to) : naive->count;
    size_t all = to > from ? to - from : 0;
    for (size_t i = 0; i < all && !query->count_only; i++) {
        const struct naive_key *key = &naive->keys[from + i];
        if (!naive_passes(query, key)) {
            continue;
        }
        size_t at = page.count++;
        while (at > 0 && naive_order(query, page.keys[at - 1], key) > 0) {
            page.keys[at] = page.keys[at - 1];
            at--;
        }
        page.keys[at] = key;
    }
    size_t cut = naive_cut(&page, query);
    page.more = cut < page.count;
    page.count = cut;
    page.total = query->with_total || query->count_only ? all : cut;
    return page;
}

/* Everything that can be asked for. */
static inline struct kv_query naive_random_query(struct prng *prng, uint64_t revision) {
    struct kv_query query = {
        .order = prng_below(prng, 3) ? KV_BY_KEY : (enum kv_order)prng_below(prng, 5),
        .descending = prng_below(prng, 2),
        .keys_only = prng_below(prng, 4) == 0,
        .count_only = prng_below(prng, 6) == 0,
        .with_total = prng_below(prng, 3) == 0,
        .limit = prng_below(prng, 2) ? prng_below(prng, 12) : prng_below(prng, 1200),
        .bytes_max = prng_below(prng, 3) ? 0 : 1 + prng_below(prng, 5000)};
    if (prng_below(prng, 4) == 0) {
        query.mod_rev_min = prng_below(prng, revision + 2);
        query.create_rev_max = prng_below(prng, revision + 2);
    } else if (prng_below(prng, 4) == 0) {
        query.mod_rev_max = prng_below(prng, revision + 2);
        query.create_rev_min = prng_below(prng, revision + 2);
    }
    return query;
}

#endif
