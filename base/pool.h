/* Small blocks that live long and go in great numbers: an allocator in which a free never takes long, and from
 * which memory returns to the system.
 *
 *      region (1 MiB) = | what is known of its slabs | slab | slab | ... |      a slab: 64 KiB, blocks of one size
 *
 * The system's allocator keeps what is freed in bins of its own, and now and then goes through all of them, or
 * gives everything at its end back at once: tens of milliseconds, in whichever free happens to come then. And one
 * block that stays keeps what lies around it. Here a free touches one slab; slabs that are empty go back a few at a
 * time, when their owner has a moment; and blocks of another kind, which stay, lie in other slabs.
 *
 * Blocks that are larger than POOL_SIZE_MAX come from mem_alloc, and with a sanitizer all do: it watches them
 * there. A block may be freed after its pool was closed. Any thread. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POOL_SIZE_MAX = 4096 };

struct pool;

/* LKV_ENOMEM. */
MUST_USE int pool_open(struct pool **out);
/* NULL is fine. Blocks that are still in use stay, and the last of them takes the rest with it. */
void pool_close(struct pool *pool);

/* `size` > 0. Returns owned, for pool_free, aligned to 16 bytes, or NULL when out of memory. */
void *pool_alloc(struct pool *pool, size_t size);

/* `size` as it was asked for. NULL is fine. */
void pool_free(void *block, size_t size);

/* What a block of that size takes. */
size_t pool_block_size(size_t size);

/* Whether most of the block's slab is free, and it is not the one that the next block of the size comes from: once all
 * of its blocks have moved elsewhere, its memory returns. */
bool pool_is_sparse(const void *block, size_t size);

/* Gives the pages of empty slabs back, of `max` at most, which takes some microseconds each; a few are kept for what
 * comes next. True: there are more. Not done by pool_free, since many slabs may become empty at once. */
bool pool_trim(struct pool *pool, size_t max);

/* Bytes of the blocks in use. */
uint64_t pool_used(struct pool *pool);

/* Bytes of slabs that have blocks, or had and are not given back. */
uint64_t pool_held(struct pool *pool);

#endif
