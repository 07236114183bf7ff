#include "raft/writes.h"

#include "base/assert.h"
#include "base/mem.h"

void writes_fini(struct writes *writes) {
    mem_free(writes->items);
    *writes = (struct writes){0};
}

static struct pending_write *item(const struct writes *writes, size_t position) {
    return &writes->items[(writes->head + position) & (writes->capacity - 1)];
}

static bool grow(struct writes *writes) {
    size_t capacity = writes->capacity > 0 ? writes->capacity * 2 : 64;
    struct pending_write *items = mem_alloc(capacity * sizeof *items);
    if (items == NULL) {
        return false;
    }
    for (size_t i = 0; i < writes->count; i++) {
        items[i] = *item(writes, i);
    }
    mem_free(writes->items);
    writes->items = items;
    writes->capacity = capacity;
    writes->head = 0;
    return true;
}

bool writes_push(struct writes *writes, struct pending_write write) {
    if (writes->count == writes->capacity && !grow(writes)) {
        return false;
    }
    ASSERT(write.no == writes->newest_no + 1);
    writes->newest_no = write.no;
    if (write.has_vote) {
        writes->vote_no = write.no;
    }
    *item(writes, writes->count++) = write;
    return true;
}

void writes_cut(struct writes *writes, uint64_t from) {
    for (size_t i = writes->count; i > 0; i--) {
        struct pending_write *write = item(writes, i - 1);
        if (write->end < from) {
            return; /* ends never fall from older to newer */
        }
        write->end = from - 1;
    }
}

const struct pending_write *writes_oldest(const struct writes *writes) {
    return writes->count > 0 ? item(writes, 0) : NULL;
}

void writes_pop(struct writes *writes) {
    ASSERT(writes->count > 0);
    writes->durable_no = item(writes, 0)->no;
    writes->head = (writes->head + 1) & (writes->capacity - 1);
    writes->count--;
}
