#include "base/mem.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
    bool armed;
    uint64_t remaining;
    uint64_t calls;
} failure;

bool mem_is_denied(void) {
    failure.calls++;
    if (!failure.armed) {
        return false;
    }
    if (failure.remaining > 0) {
        failure.remaining--;
        return false;
    }
    return true;
}

void *mem_alloc(size_t size) {
    return mem_is_denied() ? NULL : malloc(size > 0 ? size : 1);
}

void *mem_calloc(size_t count, size_t size) {
    if (mem_is_denied()) {
        return NULL;
    }
    if (count == 0 || size == 0) {
        return calloc(1, 1);
    }
    return count <= SIZE_MAX / size ? calloc(count, size) : NULL;
}

void *mem_realloc(void *pointer, size_t size) {
    return mem_is_denied() ? NULL : realloc(pointer, size > 0 ? size : 1);
}

void *mem_array_grow(void *pointer, size_t *capacity, size_t needed, size_t item_size) {
    if (needed <= *capacity && pointer != NULL) {
        return pointer;
    }
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    while (wanted < needed) {
        if (wanted > SIZE_MAX / 2) {
            return NULL;
        }
        wanted *= 2;
    }
    if (wanted > SIZE_MAX / item_size) {
        return NULL;
    }
    void *grown = mem_realloc(pointer, wanted * item_size);
    if (grown != NULL) {
        *capacity = wanted;
    }
    return grown;
}

char *mem_strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = mem_alloc(size);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

void mem_free(void *pointer) {
    free(pointer);
}

void mem_trim(void) {
    (void)malloc_trim(0);
}

void mem_fail_after(uint64_t n) {
    failure.armed = true;
    failure.remaining = n;
    failure.calls = 0;
}

void mem_fail_never(void) {
    failure.armed = false;
    failure.calls = 0;
}

uint64_t mem_fail_count(void) {
    return failure.calls;
}
