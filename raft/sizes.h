/* Payload sizes of the log's recent entries, as running totals, so that "how many bytes are these
 * entries" and "how many entries fit" cost no walk. Covers exactly what the owner's window holds. */
#ifndef RAFT_SIZES_H
#define RAFT_SIZES_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { SIZES_ENTRY_OVERHEAD = 32 }; /* counted beside the payload: empty entries cost memory too */

struct sizes {
    uint64_t *ends;       /* owned ring: total after entry i at [i % capacity] */
    size_t capacity;      /* a power of two, or 0 */
    uint64_t first, next; /* covers [first, next) */
    uint64_t base;        /* total before entry `first` */
};

void sizes_init(struct sizes *sizes, uint64_t next);
void sizes_fini(struct sizes *sizes);
void sizes_reset(struct sizes *sizes, uint64_t next); /* forgets all; the next entry is `next` */

/* Room for `count` more, so that sizes_push cannot fail. False: out of memory. */
MUST_USE bool sizes_reserve(struct sizes *sizes, size_t count);
void sizes_push(struct sizes *sizes, uint32_t size);
void sizes_cut(struct sizes *sizes, uint64_t from);
void sizes_forget_below(struct sizes *sizes, uint64_t first);

/* Payload and overhead of the entries in [from, to] that are covered. */
uint64_t sizes_between(const struct sizes *sizes, uint64_t from, uint64_t to);

/* The last index up to which entries from `from` on fit into both limits; `from` always fits.
 * `from` must be covered. */
uint64_t sizes_fit(const struct sizes *sizes, uint64_t from, uint64_t bytes_max, size_t count_max);

#endif
