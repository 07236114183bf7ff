/* A growing byte buffer with a sticky failure: encoders append without checking each call, and ask
 * once at the end. After a failed allocation `failed` is set and later appends do nothing. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include "base/slice.h"

struct buffer {
    uint8_t *data; /* owned */
    size_t size;
    size_t capacity;
    bool failed;
};

void buffer_init(struct buffer *buffer);
void buffer_fini(struct buffer *buffer);
void buffer_clear(struct buffer *buffer); /* keeps the memory */
void buffer_append(struct buffer *buffer, const void *data, size_t size);
uint8_t *buffer_reserve(struct buffer *buffer, size_t size); /* `size` more writable bytes at */
void buffer_commit(struct buffer *buffer, size_t size);      /* the end, then count them in */
void buffer_consume(struct buffer *buffer, size_t size);     /* drops bytes from the front */
void buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline struct slice buffer_slice(const struct buffer *buffer) {
    return slice_of(buffer->data, buffer->size);
}

#endif
