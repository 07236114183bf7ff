/* Borrowed bytes: a pointer and a size, valid as long as its source says. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const uint8_t *data; /* may be NULL when size is 0 */
    size_t size;
};

static inline struct slice slice_of(const void *data, size_t size) {
    return (struct slice){.data = data, .size = size};
}

static inline struct slice slice_text(const char *text) {
    return slice_of(text, strlen(text));
}

/* Byte order, a shorter prefix first: the order of keys everywhere in the project. */
static inline int slice_compare(struct slice a, struct slice b) {
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common > 0 ? memcmp(a.data, b.data, common) : 0;
    if (order != 0) {
        return order;
    }
    return (a.size > b.size) - (a.size < b.size);
}

static inline bool slice_equal(struct slice a, struct slice b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool slice_starts_with(struct slice text, struct slice prefix) {
    return prefix.size == 0 ||
           (text.size >= prefix.size && memcmp(text.data, prefix.data, prefix.size) == 0);
}

#endif
