#include "kv/table.h"

#include "base/assert.h"
#include "base/mem.h"
#include "kv/memory.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    SLOTS = 6,
    CACHE_LINE = 64,
    SEGMENT_BUCKETS = 256,
    LEVEL_MIN = 3,
    /* Entries per bucket, in quarters, at which a bucket is split or the last one merged away. Far
     * apart, so that alternating inserts and removes at a border do not split and merge each time. */
    LOAD_QUARTERS_MAX = 18,
    LOAD_QUARTERS_MIN = 9
};

struct bucket {
    struct kv_version *slots[SLOTS]; /* the filled ones come first */
    uint16_t tags[SLOTS];
    uint32_t overflow; /* 0: none */
};
_Static_assert(sizeof(struct bucket) == CACHE_LINE, "a bucket is one cache line");

/* ---------------------------------------------------------------------------- bucket arrays */

static struct bucket *bucket_at(const struct bucket_array *array, uint32_t number) {
    uintptr_t raw = (uintptr_t)array->segments[number / SEGMENT_BUCKETS];
    struct bucket *first = (struct bucket *)((raw + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1));
    return first + number % SEGMENT_BUCKETS;
}

/* Hands out the next number, zeroed. */
static int array_push(struct bucket_array *array) {
    if (array->used == array->segment_count * SEGMENT_BUCKETS) {
        void **segments = mem_array_grow(array->segments, &array->capacity,
                                         array->segment_count + (size_t)1, sizeof(void *));
        if (segments == NULL) {
            return LKV_ENOMEM;
        }
        array->segments = segments;
        void *segment = mem_calloc(SEGMENT_BUCKETS + 1, sizeof(struct bucket));
        if (segment == NULL) {
            return LKV_ENOMEM;
        }
        array->segments[array->segment_count++] = segment;
    }
    *bucket_at(array, array->used++) = (struct bucket){0};
    return 0;
}

/* Takes the last number back. One empty segment stays, for the next push. */
static void array_pop(struct bucket_array *array) {
    array->used--;
    if (array->used + 2 * SEGMENT_BUCKETS <= array->segment_count * SEGMENT_BUCKETS) {
        mem_free(array->segments[--array->segment_count]);
    }
}

static void array_fini(struct bucket_array *array) {
    for (uint32_t i = 0; i < array->segment_count; i++) {
        mem_free(array->segments[i]);
    }
    mem_free(array->segments);
}

static size_t array_memory(const struct bucket_array *array) {
    return array->segment_count * memory_of((SEGMENT_BUCKETS + 1) * sizeof(struct bucket)) +
           memory_of(array->capacity * sizeof(void *));
}

/* ---------------------------------------------------------------------------- overflow buckets */

static struct bucket *next_of(const struct table *table, const struct bucket *bucket) {
    return bucket->overflow == 0 ? NULL : bucket_at(&table->overflow, bucket->overflow);
}

static uint32_t overflow_take(struct table *table) {
    uint32_t number = table->free_overflow;
    if (number != 0) {
        struct bucket *bucket = bucket_at(&table->overflow, number);
        table->free_overflow = bucket->overflow;
        *bucket = (struct bucket){0};
        return number;
    }
    number = table->overflow.used;
    return array_push(&table->overflow) == 0 ? number : 0;
}

static void overflow_give(struct table *table, uint32_t number) {
    bucket_at(&table->overflow, number)->overflow = table->free_overflow;
    table->free_overflow = number;
}

/* ---------------------------------------------------------------------------- chains of buckets */

static uint16_t tag_of(uint64_t hash) {
    return (uint16_t)(hash >> 48);
}

/* Buckets below the split point have been split in this round: they use one bit more. */
static uint32_t bucket_of(const struct table *table, uint64_t hash) {
    uint32_t low = (uint32_t)hash & ((1u << table->level) - 1);
    uint32_t split = table->primary.used - (1u << table->level);
    return low < split ? (uint32_t)hash & ((2u << table->level) - 1) : low;
}

/* Puts an entry into the first free slot of the chain, which gets longer if there is none. */
static int chain_add(struct table *table, struct bucket *bucket, uint16_t tag,
                     struct kv_version *version) {
    for (;;) {
        for (int i = 0; i < SLOTS; i++) {
            if (bucket->slots[i] == NULL) {
                bucket->slots[i] = version;
                bucket->tags[i] = tag;
                return 0;
            }
        }
        if (bucket->overflow == 0) {
            uint32_t number = overflow_take(table);
            if (number == 0) {
                return LKV_ENOMEM;
            }
            bucket->overflow = number;
        }
        bucket = next_of(table, bucket);
    }
}

/* Deals the entries of `old` out to where they belong now. This needs no memory: every overflow
 * bucket is free again before its entries are placed, and 6 n entries on two primary buckets need at
 * most n - 1 others. */
static void deal_out(struct table *table, struct bucket old) {
    for (;;) {
        for (int i = 0; i < SLOTS && old.slots[i] != NULL; i++) {
            uint64_t hash = table_hash(table, version_key(old.slots[i]));
            struct bucket *to = bucket_at(&table->primary, bucket_of(table, hash));
            int rc = chain_add(table, to, old.tags[i], old.slots[i]);
            ASSERT(rc == 0);
        }
        if (old.overflow == 0) {
            return;
        }
        uint32_t number = old.overflow;
        old = *bucket_at(&table->overflow, number);
        overflow_give(table, number);
    }
}

static void split_one(struct table *table) {
    uint32_t from = table->primary.used - (1u << table->level);
    if (table->primary.used == UINT32_MAX / 2 || array_push(&table->primary) != 0) {
        return; /* chains get longer, nothing else */
    }
    struct bucket *bucket = bucket_at(&table->primary, from);
    struct bucket old = *bucket;
    *bucket = (struct bucket){0};
    /* The new bucket exists, so bucket_of already sends the entries to the right one of the two. */
    deal_out(table, old);
    if (table->primary.used == 2u << table->level) {
        table->level++;
    }
}

/* Moves the last bucket's few entries to the one it was split from, if no memory is needed. */
static void merge_last(struct table *table) {
    if (table->primary.used == 1u << table->level) {
        if (table->level == LEVEL_MIN) {
            return;
        }
        table->level--;
    }
    uint32_t last = table->primary.used - 1;
    struct bucket *from = bucket_at(&table->primary, last);
    struct bucket *to = bucket_at(&table->primary, last - (1u << table->level));
    while (to->overflow != 0) {
        to = next_of(table, to);
    }
    int room = 0;
    int needed = 0;
    for (int i = 0; i < SLOTS; i++) {
        room += to->slots[i] == NULL;
        needed += from->slots[i] != NULL;
    }
    if (from->overflow == 0 && needed <= room) {
        for (int i = 0; i < needed; i++) {
            int rc = chain_add(table, to, from->tags[i], from->slots[i]);
            ASSERT(rc == 0);
        }
        array_pop(&table->primary);
    } else if (table->primary.used == 2u << table->level) {
        table->level++; /* the level was lowered for this attempt */
    }
}

/* ---------------------------------------------------------------------------- the table */

int table_init(struct table *table, uint64_t seed) {
    *table = (struct table){.seed = seed, .level = LEVEL_MIN};
    int rc = array_push(&table->overflow); /* number 0 */
    for (uint32_t i = 0; rc == 0 && i < 1u << LEVEL_MIN; i++) {
        rc = array_push(&table->primary);
    }
    if (rc != 0) {
        table_fini(table);
    }
    return rc;
}

void table_fini(struct table *table) {
    array_fini(&table->primary);
    array_fini(&table->overflow);
}

uint64_t table_hash(const struct table *table, struct slice key) {
    return XXH3_64bits_withSeed(key.data, key.size, table->seed);
}

/* Where a key's entry is; bucket NULL: nowhere. */
struct place {
    struct bucket *bucket;
    int slot;
};

static struct place find(const struct table *table, uint64_t hash, struct slice key) {
    uint16_t tag = tag_of(hash);
    struct bucket *bucket = bucket_at(&table->primary, bucket_of(table, hash));
    for (; bucket != NULL; bucket = next_of(table, bucket)) {
        for (int i = 0; i < SLOTS && bucket->slots[i] != NULL; i++) {
            if (bucket->tags[i] == tag && slice_equal(version_key(bucket->slots[i]), key)) {
                return (struct place){bucket, i};
            }
        }
    }
    return (struct place){NULL, 0};
}

struct kv_version **table_find(const struct table *table, uint64_t hash, struct slice key) {
    struct place place = find(table, hash, key);
    return place.bucket != NULL ? &place.bucket->slots[place.slot] : NULL;
}

int table_insert(struct table *table, uint64_t hash, struct kv_version *version) {
    struct bucket *bucket = bucket_at(&table->primary, bucket_of(table, hash));
    int rc = chain_add(table, bucket, tag_of(hash), version);
    if (rc != 0) {
        return rc;
    }
    table->count++;
    if (table->count * 4 > (size_t)table->primary.used * LOAD_QUARTERS_MAX) {
        split_one(table);
    }
    return 0;
}

/* Fills the hole with the last entry of the chain that starts at `bucket`, and drops a bucket that
 * this empties. */
static void chain_remove(struct table *table, struct bucket *bucket, struct place hole) {
    struct bucket *before = NULL;
    while (bucket->overflow != 0) {
        before = bucket;
        bucket = next_of(table, bucket);
    }
    int last = SLOTS - 1;
    while (bucket->slots[last] == NULL) {
        last--;
    }
    hole.bucket->slots[hole.slot] = bucket->slots[last];
    hole.bucket->tags[hole.slot] = bucket->tags[last];
    bucket->slots[last] = NULL;
    if (last == 0 && before != NULL) {
        overflow_give(table, before->overflow);
        before->overflow = 0;
    }
}

void table_remove(struct table *table, uint64_t hash, struct slice key) {
    struct place place = find(table, hash, key);
    ASSERT(place.bucket != NULL);
    chain_remove(table, bucket_at(&table->primary, bucket_of(table, hash)), place);
    table->count--;
    if (table->count * 4 < (size_t)table->primary.used * LOAD_QUARTERS_MIN) {
        merge_last(table);
    }
}

void table_prefetch(const struct table *table, uint64_t hash) {
    __builtin_prefetch(bucket_at(&table->primary, bucket_of(table, hash)));
}

const struct kv_version *table_guess(const struct table *table, uint64_t hash) {
    uint16_t tag = tag_of(hash);
    const struct bucket *bucket = bucket_at(&table->primary, bucket_of(table, hash));
    for (int i = 0; i < SLOTS && bucket->slots[i] != NULL; i++) {
        if (bucket->tags[i] == tag) {
            return bucket->slots[i];
        }
    }
    return NULL;
}

uint32_t table_buckets(const struct table *table) {
    return table->primary.used;
}

void table_each(const struct table *table, uint32_t number,
                void (*visit)(void *arg, struct kv_version **slot), void *arg) {
    struct bucket *bucket = bucket_at(&table->primary, number);
    for (; bucket != NULL; bucket = next_of(table, bucket)) {
        for (int i = 0; i < SLOTS && bucket->slots[i] != NULL; i++) {
            visit(arg, &bucket->slots[i]);
        }
    }
}

size_t table_memory(const struct table *table) {
    return array_memory(&table->primary) + array_memory(&table->overflow);
}
