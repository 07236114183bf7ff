#include "kv/timeline.h"

#include "base/assert.h"
#include "base/mem.h"

enum { BLOCKS_MIN = 16 };

void timeline_fini(struct timeline *timeline) {
    for (size_t i = timeline->start; i < timeline->end; i++) {
        pool_free(timeline->blocks[i], sizeof(*timeline->blocks[i]));
    }
    mem_free(timeline->blocks);
    *timeline = (struct timeline){0};
}

size_t timeline_memory(const struct timeline *timeline) {
    return (timeline->end - timeline->start) * pool_block_size(sizeof(struct timeline_block)) +
           timeline->capacity * sizeof(struct timeline_block *);
}

static uint64_t revision_of(const struct timeline_block *block, size_t i) {
    return block->first + block->later[i];
}

static uint64_t last_of(const struct timeline_block *block) {
    return revision_of(block, block->count - 1);
}

/* ---------------------------------------------------------------------------- adding */

/* A place at the end of the array: moves to its front when half of it is free there, or grows. */
static int reserve_slot(struct timeline *timeline) {
    if (timeline->end < timeline->capacity) {
        return 0;
    }
    size_t used = timeline->end - timeline->start;
    if (timeline->start > 0 && timeline->start >= used) {
        memmove(timeline->blocks, timeline->blocks + timeline->start,
                used * sizeof(timeline->blocks[0]));
        timeline->start = 0;
        timeline->end = used;
        return 0;
    }
    size_t capacity = timeline->capacity > 0 ? 2 * timeline->capacity : BLOCKS_MIN;
    struct timeline_block **grown =
        mem_realloc(timeline->blocks, capacity * sizeof(timeline->blocks[0]));
    if (grown == NULL) {
        return LKV_ENOMEM;
    }
    timeline->blocks = grown;
    timeline->capacity = capacity;
    return 0;
}

/* A block gets no more items when it is full, or when what comes is too far from its first. */
static bool has_room(const struct timeline *timeline, uint64_t revision) {
    if (timeline->start == timeline->end) {
        return false;
    }
    const struct timeline_block *last = timeline->blocks[timeline->end - 1];
    return last->count < TIMELINE_ITEMS &&
           (last->count == 0 || revision - last->first <= UINT16_MAX);
}

int timeline_reserve(struct timeline *timeline, uint64_t revision) {
    if (has_room(timeline, revision)) {
        return 0;
    }
    struct timeline_block *block =
        reserve_slot(timeline) == 0 ? pool_alloc(timeline->pool, sizeof(*block)) : NULL;
    if (block == NULL) {
        return LKV_ENOMEM;
    }
    block->first = 0;
    block->first_sub = 0;
    block->start = block->count = 0;
    timeline->blocks[timeline->end++] = block;
    return 0;
}

void timeline_add(struct timeline *timeline, struct kv_version *version) {
    ASSERT(has_room(timeline, version->main));
    struct timeline_block *block = timeline->blocks[timeline->end - 1];
    if (block->count == 0) {
        block->first = version->main;
        block->first_sub = version_sub(version);
    }
    ASSERT(version->main >= block->first);
    block->later[block->count] = (uint16_t)(version->main - block->first);
    block->items[block->count++] = version;
}

/* ---------------------------------------------------------------------------- forgetting */

/* The first of the block's items that is of the revision or a later one. */
static size_t lower(const struct timeline_block *block, uint64_t revision) {
    size_t from = block->start, to = block->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (revision_of(block, middle) < revision) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

size_t timeline_trim(struct timeline *timeline, size_t max, uint64_t from) {
    size_t dropped = 0;
    while (timeline->start < timeline->end && dropped < max) {
        struct timeline_block *block = timeline->blocks[timeline->start];
        if (block->count == 0 || last_of(block) >= from) {
            block->start = lower(block, from);
            break;
        }
        pool_free(block, sizeof(*block));
        timeline->start++;
        dropped++;
    }
    return dropped;
}

/* ---------------------------------------------------------------------------- reading */

/* The last block that begins at the place or before it; the first of all if there is none. */
static size_t find_block(const struct timeline *timeline, struct kv_place place) {
    size_t from = timeline->start, to = timeline->end;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const struct timeline_block *block = timeline->blocks[middle];
        const struct kv_place first = {.revision = block->first, .sub = block->first_sub};
        if (block->count > 0 && !place_is_before(place, first)) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from > timeline->start ? from - 1 : from;
}

/* The first of the block's items that is at the place or behind it. */
static size_t locate(const struct timeline_block *block, struct kv_place place) {
    size_t at = lower(block, place.revision), beyond = lower(block, place.revision + 1);
    size_t skip = place.sub;
    if (place.revision == block->first) { /* its revision may have begun in an earlier block */
        skip -= place.sub < block->first_sub ? place.sub : block->first_sub;
        at = 0;
    }
    at = skip < beyond - at ? at + skip : beyond;
    return at > block->start ? at : block->start;
}

size_t timeline_read(const struct timeline *timeline, struct kv_place place, uint64_t upto,
                     struct kv_version **versions, size_t max) {
    size_t count = 0;
    for (size_t at = find_block(timeline, place); at < timeline->end; at++) {
        const struct timeline_block *block = timeline->blocks[at];
        for (size_t i = locate(block, place); i < block->count; i++) {
            if (count == max || revision_of(block, i) > upto) {
                return count;
            }
            versions[count++] = block->items[i];
        }
    }
    return count;
}
