#include "base/buffer.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

void buffer_init(struct buffer *buffer) {
    *buffer = (struct buffer){0};
}

void buffer_fini(struct buffer *buffer) {
    mem_free(buffer->data);
    buffer_init(buffer);
}

void buffer_clear(struct buffer *buffer) {
    buffer->size = 0;
    buffer->failed = false;
}

uint8_t *buffer_reserve(struct buffer *buffer, size_t size) {
    if (buffer->failed || size > SIZE_MAX - buffer->size) {
        buffer->failed = true;
        return NULL;
    }
    uint8_t *grown = mem_array_grow(buffer->data, &buffer->capacity, buffer->size + size, 1);
    if (grown == NULL) {
        buffer->failed = true;
        return NULL;
    }
    buffer->data = grown;
    return buffer->data + buffer->size;
}

void buffer_commit(struct buffer *buffer, size_t size) {
    ASSERT(size <= buffer->capacity - buffer->size);
    buffer->size += size;
}

void buffer_append(struct buffer *buffer, const void *data, size_t size) {
    uint8_t *end = buffer_reserve(buffer, size);
    if (end != NULL && size > 0) {
        memcpy(end, data, size);
        buffer->size += size;
    }
}

void buffer_consume(struct buffer *buffer, size_t size) {
    ASSERT(size <= buffer->size);
    if (size > 0 && size < buffer->size) {
        memmove(buffer->data, buffer->data + size, buffer->size - size);
    }
    buffer->size -= size;
}

void buffer_printf(struct buffer *buffer, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int needed = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(needed >= 0);
    uint8_t *end = buffer_reserve(buffer, (size_t)needed + 1);
    if (end == NULL) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf((char *)end, (size_t)needed + 1, format, args);
    va_end(args);
    buffer->size += (size_t)needed;
}
