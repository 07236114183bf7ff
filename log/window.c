#include "log/window.h"

#include "base/assert.h"
#include "base/mem.h"

enum { WINDOW_CAPACITY_MIN = 64 };

void log_window_init(struct log_window *window, uint64_t next_index) {
    *window = (struct log_window){.first = next_index};
}

void log_window_fini(struct log_window *window) {
    log_window_restart(window, window->first);
    mem_free(window->ring);
    *window = (struct log_window){0};
}

static struct entry *slot_of(const struct log_window *window, uint64_t index) {
    return &window->ring[index & (window->capacity - 1)];
}

static int grow(struct log_window *window) {
    size_t capacity = window->capacity > 0 ? window->capacity * 2 : WINDOW_CAPACITY_MIN;
    struct entry *ring = mem_calloc(capacity, sizeof(*ring));
    if (ring == NULL) {
        return LKV_ENOMEM;
    }
    for (size_t i = 0; i < window->count; i++) {
        uint64_t index = window->first + i;
        ring[index & (capacity - 1)] = *slot_of(window, index);
    }
    mem_free(window->ring);
    window->ring = ring;
    window->capacity = capacity;
    return 0;
}

static size_t payload_size(const struct entry *entry) {
    return entry->payload != NULL ? entry->payload->size : 0;
}

int log_window_push(struct log_window *window, const struct entry *entry) {
    ASSERT(entry->index == log_window_next(window));
    if (window->count == window->capacity) {
        int rc = grow(window);
        if (rc != 0) {
            return rc;
        }
    }
    *slot_of(window, entry->index) = *entry;
    window->count++;
    window->bytes += payload_size(entry);
    return 0;
}

const struct entry *log_window_at(const struct log_window *window, uint64_t index) {
    bool held = index >= window->first && index - window->first < window->count;
    return held ? slot_of(window, index) : NULL;
}

static void drop(struct log_window *window, uint64_t index) {
    struct entry *entry = slot_of(window, index);
    ASSERT(window->bytes >= payload_size(entry));
    window->bytes -= payload_size(entry);
    blob_unref(entry->payload);
    entry->payload = NULL;
    window->count--;
}

void log_window_cut(struct log_window *window, uint64_t from) {
    while (window->count > 0 && log_window_next(window) > from) {
        drop(window, log_window_next(window) - 1);
    }
    if (from < window->first) {
        window->first = from; /* what is held no longer reaches down to the cut */
    }
}

void log_window_trim(struct log_window *window, uint64_t below) {
    while (window->count > 0 && window->first < below) {
        drop(window, window->first);
        window->first++;
    }
}

void log_window_restart(struct log_window *window, uint64_t next_index) {
    log_window_trim(window, log_window_next(window));
    window->first = next_index;
}
