/* What an allocation takes from the system, for estimates: the allocator's header and rounding. */
#ifndef KV_MEMORY_H
#define KV_MEMORY_H

#include <stddef.h>

static inline size_t memory_of(size_t size) {
    size_t with_header = (size + sizeof(size_t) + 15) & ~(size_t)15;
    return with_header < 32 ? 32 : with_header;
}

#endif
