#include "raft/early.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

void early_request_fini(struct early_request *request) {
    mem_free(request->entries);
    *request = (struct early_request){0};
}

void early_fini(struct early *early) {
    for (size_t i = 0; i < early->count; i++) {
        early_request_fini(&early->items[i]);
    }
    mem_free(early->items);
    *early = (struct early){0};
}

/* Position from which on items lie lower than `prev_index`. */
static size_t position_of(const struct early *early, uint64_t prev_index) {
    size_t low = 0, high = early->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (early->items[middle].prev_index > prev_index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void evict_farthest(struct early *early, struct early_request *evicted) {
    *evicted = early->items[0];
    early->bytes -= evicted->bytes;
    early->count--;
    memmove(early->items, early->items + 1, early->count * sizeof *early->items);
}

static bool copy_entries(struct early_request *request) {
    if (request->count == 0) {
        request->entries = NULL;
        return true;
    }
    size_t size = request->count * sizeof *request->entries;
    struct raft_entry_meta *copy = mem_alloc(size);
    if (copy != NULL) {
        memcpy(copy, request->entries, size);
    }
    request->entries = copy;
    return copy != NULL;
}

static enum early_result place(struct early *early, struct early_request request) {
    struct early_request *items =
        mem_array_grow(early->items, &early->capacity, early->count + 1, sizeof *items);
    if (items == NULL) {
        return EARLY_NO_MEMORY;
    }
    early->items = items;
    if (!copy_entries(&request)) {
        return EARLY_NO_MEMORY;
    }
    size_t at = position_of(early, request.prev_index);
    memmove(items + at + 1, items + at, (early->count - at) * sizeof *items);
    items[at] = request;
    early->count++;
    early->bytes += request.bytes;
    return EARLY_KEPT;
}

enum early_result early_insert(struct early *early, const struct early_request *request,
                               size_t count_max, uint64_t bytes_max,
                               struct early_request *evicted) {
    *evicted = (struct early_request){0};
    size_t at = position_of(early, request->prev_index);
    if (at < early->count && early->items[at].prev_index == request->prev_index) {
        return EARLY_REFUSED;
    }
    if (early->count >= count_max || early->bytes + request->bytes > bytes_max) {
        bool farther = early->count > 0 && early->items[0].prev_index > request->prev_index;
        if (!farther || early->bytes - early->items[0].bytes + request->bytes > bytes_max) {
            return EARLY_REFUSED;
        }
        evict_farthest(early, evicted);
    }
    return place(early, *request);
}

bool early_take(struct early *early, uint64_t index, struct early_request *out) {
    if (early->count == 0 || early->items[early->count - 1].prev_index > index) {
        return false;
    }
    *out = early->items[--early->count];
    early->bytes -= out->bytes;
    return true;
}

uint64_t early_lowest(const struct early *early) {
    return early->count > 0 ? early->items[early->count - 1].prev_index : 0;
}
