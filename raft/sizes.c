#include "raft/sizes.h"

#include "base/assert.h"
#include "base/mem.h"

void sizes_init(struct sizes *sizes, uint64_t next) {
    *sizes = (struct sizes){.first = next, .next = next};
}

void sizes_fini(struct sizes *sizes) {
    mem_free(sizes->ends);
    *sizes = (struct sizes){0};
}

void sizes_reset(struct sizes *sizes, uint64_t next) {
    sizes->first = sizes->next = next;
}

static size_t slot(const struct sizes *sizes, uint64_t index) {
    return (size_t)index & (sizes->capacity - 1);
}

/* Total after entry `index`, which may be first - 1. */
static uint64_t end_of(const struct sizes *sizes, uint64_t index) {
    return index < sizes->first ? sizes->base : sizes->ends[slot(sizes, index)];
}

bool sizes_reserve(struct sizes *sizes, size_t count) {
    size_t used = (size_t)(sizes->next - sizes->first);
    if (count <= sizes->capacity - used) {
        return true;
    }
    size_t capacity = sizes->capacity > 0 ? sizes->capacity : 256;
    while (capacity - used < count) {
        if (capacity > SIZE_MAX / 2 / sizeof(uint64_t)) {
            return false;
        }
        capacity *= 2;
    }
    uint64_t *ends = mem_alloc(capacity * sizeof *ends);
    if (ends == NULL) {
        return false;
    }
    for (uint64_t i = sizes->first; i < sizes->next; i++) {
        ends[(size_t)i & (capacity - 1)] = sizes->ends[slot(sizes, i)];
    }
    mem_free(sizes->ends);
    sizes->ends = ends;
    sizes->capacity = capacity;
    return true;
}

void sizes_push(struct sizes *sizes, uint32_t size) {
    ASSERT(sizes->next - sizes->first < sizes->capacity);
    uint64_t before = end_of(sizes, sizes->next - 1);
    sizes->ends[slot(sizes, sizes->next)] = before + size + SIZES_ENTRY_OVERHEAD;
    sizes->next++;
}

void sizes_cut(struct sizes *sizes, uint64_t from) {
    if (from <= sizes->first) {
        sizes_reset(sizes, from);
    } else if (from < sizes->next) {
        sizes->next = from;
    }
}

void sizes_forget_below(struct sizes *sizes, uint64_t first) {
    if (first > sizes->next) {
        first = sizes->next;
    }
    if (first > sizes->first) {
        sizes->base = end_of(sizes, first - 1);
        sizes->first = first;
    }
}

uint64_t sizes_between(const struct sizes *sizes, uint64_t from, uint64_t to) {
    from = from < sizes->first ? sizes->first : from;
    to = to >= sizes->next ? sizes->next - 1 : to;
    return from > to ? 0 : end_of(sizes, to) - end_of(sizes, from - 1);
}

uint64_t sizes_fit(const struct sizes *sizes, uint64_t from, uint64_t bytes_max, size_t count_max) {
    ASSERT(from >= sizes->first && from < sizes->next && count_max > 0);
    uint64_t before = end_of(sizes, from - 1);
    uint64_t low = from, high = sizes->next - 1; /* the answer is in [low, high] */
    if (high - from >= count_max) {
        high = from + count_max - 1;
    }
    if (end_of(sizes, high) - before <= bytes_max) { /* nearly always all of them */
        return high;
    }
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (end_of(sizes, middle) - before <= bytes_max) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}
