#define _GNU_SOURCE /* MAP_ANONYMOUS, madvise */
#include "base/pool.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"

#include <pthread.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_WATCHED 1
#endif
#endif
#ifndef IS_WATCHED
#define IS_WATCHED 0
#endif

enum {
    REGION_SIZE = 1 << 20,
    SLAB_SIZE = 1 << 16,
    SLABS = REGION_SIZE / SLAB_SIZE, /* number 0 is the region's head */
    STEP = 16,                       /* between sizes, up to FINE_MAX; above it an eighth */
    FINE_MAX = 512,
    FINE = FINE_MAX / STEP,
    PER_DOUBLING = 8,
    CLASSES = FINE + 3 * PER_DOUBLING, /* 512 .. 1024 .. 2048 .. 4096 */
    KEPT_SLABS = 16 /* left by pool_trim, with their pages, for what comes next */
};

/* Of one slab. The blocks' memory holds nothing of it but the list of those that were freed. */
struct slab {
    struct list_link
        link;    /* of its size with room; of the empty ones, kept or not; of none: full */
    void *freed; /* blocks that were freed, linked by their first word */
    uint32_t block_size;
    uint16_t capacity, begun, used; /* blocks: in all, ever handed out, in use */
    bool has_pages;                 /* since it is in use, or kept */
};

struct region {
    struct pool *pool;
    unsigned used; /* slabs in use, or empty with their pages */
    struct slab slabs[SLABS];
};
_Static_assert(sizeof(struct region) <= SLAB_SIZE, "the head has one slab's room");

struct pool {
    pthread_mutex_t mutex;
    struct list_link with_room[CLASSES];
    struct list_link kept, bare; /* empty slabs: with their pages, and without */
    size_t kept_count, held;     /* slabs; held: in use or kept */
    uint64_t used;               /* bytes of blocks */
    bool closed;                 /* nothing is kept any more */
};

/* ---------------------------------------------------------------------------- sizes */

static size_t class_of(size_t size) {
    if (size <= FINE_MAX) {
        return (size + STEP - 1) / STEP - 1;
    }
    size_t doubling = 0, base = FINE_MAX;
    while (size > 2 * base) {
        base *= 2;
        doubling++;
    }
    size_t step = base / PER_DOUBLING;
    return FINE + doubling * PER_DOUBLING + (size - base + step - 1) / step - 1;
}

static size_t class_size(size_t class) {
    if (class < FINE) {
        return (class + 1) * STEP;
    }
    size_t base = (size_t)FINE_MAX << (class - FINE) / PER_DOUBLING;
    return base + base / PER_DOUBLING * ((class - FINE) % PER_DOUBLING + 1);
}

size_t pool_block_size(size_t size) {
    enum { HEADER = sizeof(size_t), LEAST = 32 }; /* of the system's allocator */
    if (!IS_WATCHED && size <= POOL_SIZE_MAX) {
        return class_size(class_of(size));
    }
    size_t rounded = (size + HEADER + STEP - 1) / STEP * STEP;
    return rounded < LEAST ? LEAST : rounded;
}

/* ---------------------------------------------------------------------------- regions and slabs */

static struct region *region_of(const void *block) {
    return (struct region *)((uintptr_t)block & ~(uintptr_t)(REGION_SIZE - 1));
}

static struct slab *slab_of(const void *block) {
    return &region_of(block)->slabs[((uintptr_t)block & (REGION_SIZE - 1)) / SLAB_SIZE];
}

static char *memory_of_slab(const struct slab *slab) {
    struct region *region = region_of(slab);
    return (char *)region + (slab - region->slabs) * SLAB_SIZE;
}

/* Maps twice the room, and gives back what lies beside a region in it. */
static bool region_new(struct pool *pool) {
    char *room = mmap(NULL, 2 * (size_t)REGION_SIZE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        return false;
    }
    size_t before = -(uintptr_t)room & (REGION_SIZE - 1);
    struct region *region = (struct region *)(room + before);
    if (before > 0) {
        (void)munmap(room, before);
    }
    (void)munmap((char *)region + REGION_SIZE, REGION_SIZE - before);
    region->pool = pool;
    region->used = 0;
    for (size_t i = 1; i < SLABS; i++) {
        region->slabs[i].has_pages = false;
        list_push_back(&pool->bare, &region->slabs[i].link);
    }
    return true;
}

static void region_free(struct region *region) {
    for (size_t i = 1; i < SLABS; i++) {
        list_remove(&region->slabs[i].link);
    }
    (void)munmap(region, REGION_SIZE);
}

static struct slab *slab_take(struct pool *pool, size_t block_size) {
    struct list_link *link = list_pop_front(&pool->kept);
    if (link != NULL) {
        pool->kept_count--;
    } else {
        link = list_pop_front(&pool->bare);
        if (link == NULL && region_new(pool)) {
            link = list_pop_front(&pool->bare);
        }
        if (link == NULL) {
            return NULL;
        }
    }
    struct slab *slab = LIST_ITEM(link, struct slab, link);
    if (!slab->has_pages) {
        slab->has_pages = true;
        region_of(slab)->used++;
        pool->held++;
    }
    slab->freed = NULL;
    slab->block_size = (uint32_t)block_size;
    slab->capacity = (uint16_t)(SLAB_SIZE / block_size);
    slab->begun = slab->used = 0;
    return slab;
}

/* An empty one goes back to the system. */
static void slab_drop(struct pool *pool, struct slab *slab) {
    struct region *region = region_of(slab);
    slab->has_pages = false;
    pool->held--;
    list_push_back(&pool->bare, &slab->link);
    if (--region->used == 0) {
        region_free(region);
    } else {
        (void)madvise(memory_of_slab(slab), SLAB_SIZE, MADV_DONTNEED);
    }
}

static void slab_give(struct pool *pool, struct slab *slab) {
    if (pool->closed) {
        slab_drop(pool, slab);
    } else {
        pool->kept_count++;
        list_push_back(&pool->kept, &slab->link);
    }
}

bool pool_trim(struct pool *pool, size_t max) {
    bool more = true;
    for (size_t i = 0; i <= max && more; i++) { /* others get in between */
        (void)pthread_mutex_lock(&pool->mutex);
        more = pool->kept_count > KEPT_SLABS;
        if (more && i < max) {
            pool->kept_count--;
            slab_drop(pool, LIST_ITEM(list_pop_front(&pool->kept), struct slab, link));
        }
        (void)pthread_mutex_unlock(&pool->mutex);
    }
    return more;
}

/* ---------------------------------------------------------------------------- life */

int pool_open(struct pool **out) {
    struct pool *pool = *out = mem_calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return LKV_ENOMEM;
    }
    if (pthread_mutex_init(&pool->mutex, NULL) != 0) {
        mem_free(pool);
        *out = NULL;
        return LKV_ENOMEM;
    }
    list_init(&pool->kept);
    list_init(&pool->bare);
    for (size_t i = 0; i < CLASSES; i++) {
        list_init(&pool->with_room[i]);
    }
    return 0;
}

/* A closed pool of which nothing is in use. */
static void pool_end(struct pool *pool) {
    (void)pthread_mutex_destroy(&pool->mutex);
    mem_free(pool);
}

void pool_close(struct pool *pool) {
    if (pool == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&pool->mutex);
    pool->closed = true;
    for (struct list_link *link; (link = list_pop_front(&pool->kept)) != NULL;) {
        slab_drop(pool, LIST_ITEM(link, struct slab, link));
    }
    bool unused = pool->held == 0;
    (void)pthread_mutex_unlock(&pool->mutex);
    if (unused) {
        pool_end(pool);
    }
}

/* ---------------------------------------------------------------------------- blocks */

static void *take_block(struct pool *pool, struct list_link *with_room, size_t block_size) {
    if (list_empty(with_room)) {
        struct slab *fresh = slab_take(pool, block_size);
        if (fresh == NULL) {
            return NULL;
        }
        list_push_back(with_room, &fresh->link);
    }
    struct slab *slab = LIST_ITEM(with_room->next, struct slab, link);
    void *block = slab->freed;
    if (block != NULL) {
        slab->freed = *(void **)block;
    } else {
        block = memory_of_slab(slab) + (size_t)slab->begun++ * block_size;
    }
    pool->used += block_size;
    if (++slab->used == slab->capacity) {
        list_remove(&slab->link);
    }
    return block;
}

void *pool_alloc(struct pool *pool, size_t size) {
    ASSERT(size > 0);
    if (IS_WATCHED || size > POOL_SIZE_MAX) {
        return mem_alloc(size);
    }
    if (mem_is_denied()) {
        return NULL;
    }
    size_t class = class_of(size);
    (void)pthread_mutex_lock(&pool->mutex);
    void *block = take_block(pool, &pool->with_room[class], class_size(class));
    (void)pthread_mutex_unlock(&pool->mutex);
    return block;
}

static void give_block(struct pool *pool, struct slab *slab, void *block) {
    bool was_full = slab->used == slab->capacity;
    *(void **)block = slab->freed;
    slab->freed = block;
    pool->used -= slab->block_size;
    if (--slab->used == 0) {
        list_remove(&slab->link);
        slab_give(pool, slab);
    } else if (was_full) {
        list_push_back(&pool->with_room[class_of(slab->block_size)], &slab->link);
    }
}

void pool_free(void *block, size_t size) {
    if (IS_WATCHED || size > POOL_SIZE_MAX || block == NULL) {
        mem_free(block);
        return;
    }
    struct pool *pool = region_of(block)->pool;
    struct slab *slab = slab_of(block);
    (void)pthread_mutex_lock(&pool->mutex);
    ASSERT(slab->block_size == class_size(class_of(size)));
    give_block(pool, slab, block);
    bool ended = pool->closed && pool->held == 0;
    (void)pthread_mutex_unlock(&pool->mutex);
    if (ended) {
        pool_end(pool);
    }
}

bool pool_is_sparse(const void *block, size_t size) {
    if (IS_WATCHED || size > POOL_SIZE_MAX) {
        return false;
    }
    struct pool *pool = region_of(block)->pool;
    const struct slab *slab = slab_of(block);
    (void)pthread_mutex_lock(&pool->mutex);
    bool is_next = pool->with_room[class_of(slab->block_size)].next == &slab->link;
    bool sparse = slab->used * 2u < slab->capacity && !is_next;
    (void)pthread_mutex_unlock(&pool->mutex);
    return sparse;
}

uint64_t pool_used(struct pool *pool) {
    (void)pthread_mutex_lock(&pool->mutex);
    uint64_t used = pool->used;
    (void)pthread_mutex_unlock(&pool->mutex);
    return used;
}

uint64_t pool_held(struct pool *pool) {
    (void)pthread_mutex_lock(&pool->mutex);
    uint64_t slabs = pool->held;
    (void)pthread_mutex_unlock(&pool->mutex);
    return slabs * SLAB_SIZE;
}
