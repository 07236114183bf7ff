/* The newest entries in memory, so that replication and apply do not reread the disk. One thread
 * (the loop); no I/O. Contiguous by index. Bounded in bytes: the owner trims what is durable,
 * applied and acknowledged, and anything else is refused when it is full. */
#ifndef LOG_WINDOW_H
#define LOG_WINDOW_H

#include "base/entry.h"
#include "base/error.h"

struct log_window {
    struct entry *ring; /* owned; capacity is a power of two */
    size_t capacity;
    uint64_t first; /* index of the oldest entry held; last = first + count - 1 */
    size_t count;
    size_t bytes; /* payload bytes held */
};

void log_window_init(struct log_window *window, uint64_t next_index);
void log_window_fini(struct log_window *window);

/* Appends at index first + count, taking over the payload reference on success only. LKV_ENOMEM. */
MUST_USE int log_window_push(struct log_window *window, const struct entry *entry);

/* NULL when the index is not held. Valid until the next push, cut or trim. */
const struct entry *log_window_at(const struct log_window *window, uint64_t index);

void log_window_cut(struct log_window *window, uint64_t from);           /* drops indices >= from */
void log_window_trim(struct log_window *window, uint64_t below);         /* drops indices < below */
void log_window_restart(struct log_window *window, uint64_t next_index); /* drops everything */

static inline uint64_t log_window_next(const struct log_window *window) {
    return window->first + window->count;
}

#endif
