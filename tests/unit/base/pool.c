/* Blocks do not overlap, whatever is freed when; memory goes back; no call takes more than its slab. With a sanitizer
 * the blocks are the system's: then only what holds of these is asked. */
#include "base/pool.h"

#include "base/mem.h"
#include "base/prng.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

enum { SLAB = 64 * 1024, BLOCKS = 20000 };

struct block {
    uint8_t *at;
    size_t size;
    uint8_t mark;
};

static struct pool *open_pool(void) {
    struct pool *pool;
    cr_assert_eq(pool_open(&pool), 0);
    return pool;
}

static void take(struct pool *pool, struct block *block, size_t size, uint8_t mark) {
    *block = (struct block){.at = pool_alloc(pool, size), .size = size, .mark = mark};
    cr_assert_not_null(block->at);
    cr_assert_eq((uintptr_t)block->at % 16, 0);
    memset(block->at, mark, size);
}

static void give(struct block *block) {
    for (size_t i = 0; i < block->size; i++) {
        cr_assert_eq(block->at[i], block->mark, "byte %zu of %zu", i, block->size);
    }
    pool_free(block->at, block->size);
    block->at = NULL;
}

/* True where blocks lie in slabs. */
static bool has_slabs(struct pool *pool) {
    return pool_used(pool) > 0;
}

Test(base_pool, blocks_keep_what_is_written_to_them) {
    static struct block blocks[2000];
    struct pool *pool = open_pool();
    struct prng prng = prng_of(7);
    for (unsigned i = 0; i < 100000; i++) {
        struct block *block = &blocks[prng_below(&prng, 2000)];
        if (block->at != NULL) {
            give(block);
        } else {
            size_t most = prng_below(&prng, 4) == 0 ? POOL_SIZE_MAX + 300 : 200;
            take(pool, block, 1 + prng_below(&prng, most), (uint8_t)i);
        }
    }
    for (size_t i = 0; i < 2000; i++) {
        if (blocks[i].at != NULL) {
            give(&blocks[i]);
        }
    }
    cr_assert_eq(pool_used(pool), 0);
    pool_close(pool);
}

Test(base_pool, a_block_takes_its_size_and_an_eighth_at_most) {
    for (size_t size = 1; size <= POOL_SIZE_MAX; size++) {
        cr_assert_geq(pool_block_size(size), size);
        cr_assert_leq(pool_block_size(size), size + size / 8 + 31, "%zu", size);
    }
}

Test(base_pool, memory_goes_back_when_slabs_are_empty) {
    static struct block blocks[BLOCKS];
    struct pool *pool = open_pool();
    for (size_t i = 0; i < BLOCKS; i++) {
        take(pool, &blocks[i], 320, (uint8_t)i);
    }
    if (has_slabs(pool)) {
        cr_assert_eq(pool_used(pool), BLOCKS * 320ull);
        cr_assert_lt(pool_held(pool), BLOCKS * 320ull + BLOCKS / 204 * 256ull + 2ull * SLAB);
    }
    bool had_slabs = has_slabs(pool);
    for (size_t i = 0; i < BLOCKS; i++) {
        give(&blocks[i]);
    }
    if (had_slabs) {
        cr_assert_gt(pool_held(pool), 90ull * SLAB, "not by itself");
        cr_assert(pool_trim(pool, 10));
        cr_assert_lt(pool_held(pool), 90ull * SLAB);
    }
    cr_assert(!pool_trim(pool, 1000));
    cr_assert_leq(pool_held(pool), 16ull * SLAB, "some are kept for what comes next");
    pool_close(pool);
}

Test(base_pool, says_which_blocks_keep_a_slab_from_going) {
    static struct block blocks[BLOCKS];
    struct pool *pool = open_pool();
    for (size_t i = 0; i < BLOCKS; i++) {
        take(pool, &blocks[i], 320, (uint8_t)i);
    }
    cr_assert(!pool_is_sparse(blocks[0].at, 320));
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 10 != 0) {
            give(&blocks[i]);
        }
    }
    if (has_slabs(pool)) {
        cr_assert_gt(pool_held(pool), 9 * pool_used(pool), "one of ten keeps it");
        cr_assert(pool_is_sparse(blocks[BLOCKS / 2].at, 320));
    }
    for (size_t i = 0; i < BLOCKS; i += 10) {
        if (pool_is_sparse(blocks[i].at, 320)) {
            struct block moved;
            take(pool, &moved, 320, blocks[i].mark);
            give(&blocks[i]);
            blocks[i] = moved;
        }
    }
    cr_assert(!pool_trim(pool, 1000));
    cr_assert_leq(pool_held(pool), pool_used(pool) + 20ull * SLAB, "what stays lies together");
    for (size_t i = 0; i < BLOCKS; i += 10) {
        give(&blocks[i]);
    }
    pool_close(pool);
}

Test(base_pool, a_block_may_outlive_its_pool) {
    struct block blocks[3];
    struct pool *pool = open_pool();
    take(pool, &blocks[0], 48, 1);
    take(pool, &blocks[1], 48, 2);
    take(pool, &blocks[2], 4096, 3);
    pool_close(pool);
    give(&blocks[1]);
    give(&blocks[2]);
    give(&blocks[0]);
    pool_close(NULL);
    pool_free(NULL, 48);
}

/* S28. */
Test(base_pool, s28_says_when_there_is_no_memory) {
    struct pool *pool = open_pool(), *none;
    mem_fail_after(0);
    cr_assert_null(pool_alloc(pool, 48));
    cr_assert_null(pool_alloc(pool, 5000));
    cr_assert_eq(pool_open(&none), LKV_ENOMEM);
    cr_assert_null(none);
    mem_fail_never();
    struct block block;
    take(pool, &block, 48, 1);
    give(&block);
    pool_close(pool);
}

enum { PER_THREAD = 5000 };

struct hand {
    struct block blocks[PER_THREAD];
    struct pool *pool;
    uint8_t mark;
};

static void *take_many(void *arg) {
    struct hand *hand = arg;
    for (size_t i = 0; i < PER_THREAD; i++) {
        take(hand->pool, &hand->blocks[i], 1 + i % 900, hand->mark);
    }
    return NULL;
}

static void *give_many(void *arg) {
    struct hand *hand = arg;
    for (size_t i = 0; i < PER_THREAD; i++) {
        give(&hand->blocks[i]);
    }
    return NULL;
}

Test(base_pool, any_thread_may_take_and_free) {
    static struct hand hands[2];
    struct pool *pool = open_pool();
    for (int round = 0; round < 4; round++) { /* one takes while the other frees what was taken */
        pthread_t taker, giver;
        hands[round % 2] = (struct hand){.pool = pool, .mark = (uint8_t)(round + 1)};
        cr_assert_eq(pthread_create(&taker, NULL, take_many, &hands[round % 2]), 0);
        if (round > 0) {
            cr_assert_eq(pthread_create(&giver, NULL, give_many, &hands[(round + 1) % 2]), 0);
            (void)pthread_join(giver, NULL);
        }
        (void)pthread_join(taker, NULL);
    }
    (void)give_many(&hands[1]);
    cr_assert_eq(pool_used(pool), 0);
    pool_close(pool);
}
