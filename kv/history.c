#include "kv/history.h"

#include "base/assert.h"
#include "kv/durable.h"
#include "kv/store.h"

/* ---------------------------------------------------------------------------- queues */

int queue_reserve(struct version_queue *queue, struct pool *pool) {
    if (queue->last != NULL && queue->last->count < GARBAGE_ITEMS) {
        return 0;
    }
    struct garbage *block = pool_alloc(pool, sizeof(*block));
    if (block == NULL) {
        return LKV_ENOMEM;
    }
    block->next = NULL;
    block->start = block->count = 0;
    if (queue->last != NULL) {
        queue->last->next = block;
    } else {
        queue->first = block;
    }
    queue->last = block;
    queue->blocks++;
    return 0;
}

void queue_add(struct version_queue *queue, struct kv_version *version) {
    ASSERT(queue->last->count < GARBAGE_ITEMS);
    queue->last->items[queue->last->count++] = version;
    queue->bytes += version_memory(version);
}

static struct kv_version *queue_first(const struct version_queue *queue) {
    const struct garbage *block = queue->first;
    return block != NULL && block->start < block->count ? block->items[block->start] : NULL;
}

/* One block stays, for the next. */
static void queue_pop(struct version_queue *queue) {
    struct garbage *block = queue->first;
    queue->bytes -= version_memory(block->items[block->start]);
    if (++block->start < block->count) {
        return;
    }
    if (block->next == NULL) {
        block->start = block->count = 0;
        return;
    }
    queue->first = block->next;
    queue->blocks--;
    pool_free(block, sizeof(*block));
}

static void free_blocks(struct garbage *block) {
    while (block != NULL) {
        struct garbage *next = block->next;
        pool_free(block, sizeof(*block));
        block = next;
    }
}

int history_init(struct history *history, struct pool *pool) {
    *history = (struct history){.pool = pool, .timeline = {.pool = pool}};
    atomic_init(&history->untold_from, UINT64_MAX);
    list_init(&history->pins);
    return pthread_mutex_init(&history->pins_mutex, NULL) == 0 ? 0 : LKV_ENOMEM;
}

void history_fini(struct history *history) {
    ASSERT(list_empty(&history->pins));
    free_blocks(history->superseded.first);
    free_blocks(history->tombstones.first);
    timeline_fini(&history->timeline);
    (void)pthread_mutex_destroy(&history->pins_mutex);
}

size_t history_memory(const struct history *history) {
    return (history->superseded.blocks + history->tombstones.blocks) *
               pool_block_size(sizeof(struct garbage)) +
           timeline_memory(&history->timeline);
}

/* ---------------------------------------------------------------------------- collecting */

uint64_t history_told_from(const struct store *store) {
    uint64_t untold = atomic_load_explicit(&store->history.untold_from, memory_order_relaxed);
    return untold < store->shown.kept_from ? untold : store->shown.kept_from;
}

uint64_t history_needed_from(const struct store *store) {
    const struct list_link *pins = &store->history.pins;
    uint64_t from = history_told_from(store);
    for (const struct list_link *link = pins->next; link != pins; link = link->next) {
        const struct pin *pin = LIST_ITEM(link, struct pin, link);
        if (pin->kept_from != 0 && pin->kept_from < from) {
            from = pin->kept_from;
        }
    }
    return from;
}

/* The newest pin at or below the revision that still gets garbage, looking back from `link`. */
static struct pin *pin_before(struct history *history, struct list_link *link, uint64_t revision) {
    for (link = link->prev; link != &history->pins; link = link->prev) {
        struct pin *pin = LIST_ITEM(link, struct pin, link);
        if (!pin->closing && pin->revision <= revision) {
            return pin;
        }
    }
    return NULL;
}

static int pin_add(struct pin *pin, struct pool *pool, struct kv_version *version) {
    struct garbage *block = pin->garbage;
    if (block == NULL || block->count == GARBAGE_ITEMS) {
        block = pool_alloc(pool, sizeof(*block));
        if (block == NULL) {
            return LKV_ENOMEM;
        }
        block->next = pin->garbage;
        block->start = block->count = 0;
        pin->garbage = block;
    }
    block->items[block->count++] = version;
    return 0;
}

/* Unlinks the version, or gives it to the newest pin that needs it. Without memory for that it stays
 * where it is, and nothing is lost. */
static int let_go(struct store *store, struct kv_version *version, uint64_t from,
                  struct kv_version **dead) {
    struct history *history = &store->history;
    struct pin *pin = pin_before(history, &history->pins, version->newer->main - 1);
    if (pin == NULL || pin->revision < version->main) {
        store_unlink(store, version, from, dead);
        return 0;
    }
    return pin_add(pin, history->pool, version);
}

static struct kv_version *passed_tombstone(const struct store *store, uint64_t from) {
    struct kv_version *version = queue_first(&store->history.tombstones);
    return version != NULL && version->main < from ? version : NULL;
}

/* What the applier has not published is never due: it may turn out not to be complete. */
static struct kv_version *passed_version(const struct store *store, uint64_t from) {
    uint64_t upto = from < store->shown.revision ? from : store->shown.revision;
    struct kv_version *version = queue_first(&store->history.superseded);
    return version != NULL && version->newer->main <= upto ? version : NULL;
}

/* And before them the timeline. */
static size_t collect_tombstones(struct store *store, size_t max, uint64_t from,
                                 struct kv_version **dead) {
    struct kv_version *version;
    size_t looked_at = timeline_trim(&store->history.timeline, max, from);
    while (looked_at < max && (version = passed_tombstone(store, from)) != NULL) {
        queue_pop(&store->history.tombstones);
        store_remove_if_empty(store, version, from, dead);
        looked_at++;
    }
    return looked_at;
}

bool history_collect(struct store *store, size_t max, uint64_t *bytes, struct kv_version **dead) {
    if (store->durable != NULL) {
        return durable_collect(store, max) == max;
    }
    uint64_t from = history_needed_from(store);
    struct kv_version *version;
    size_t looked_at = collect_tombstones(store, max, from, dead);
    while (looked_at<max && * bytes> 0 && (version = passed_version(store, from)) != NULL) {
        uint64_t memory = version_memory(version);
        if (let_go(store, version, from, dead) != 0) {
            return false;
        }
        queue_pop(&store->history.superseded);
        *bytes -= memory < *bytes ? memory : *bytes;
        looked_at++;
    }
    return looked_at == max;
}

bool history_has_garbage(const struct store *store) {
    if (store->durable != NULL) {
        return durable_has_garbage(store);
    }
    uint64_t from = history_needed_from(store);
    return passed_tombstone(store, from) != NULL || passed_version(store, from) != NULL;
}

/* ---------------------------------------------------------------------------- pins */

void pin_open(struct store *store, struct pin *pin, uint64_t revision, uint64_t kept_from) {
    struct history *history = &store->history;
    *pin = (struct pin){.revision = revision, .kept_from = kept_from};
    if (store->durable != NULL) {
        pin->snapshot = store->durable->ops->pin(store->durable->map);
        return;
    }
    (void)pthread_mutex_lock(&history->pins_mutex);
    struct list_link *before = &history->pins;
    while (before->prev != &history->pins &&
           LIST_ITEM(before->prev, struct pin, link)->revision > revision) {
        before = before->prev;
    }
    list_push_back(before, &pin->link);
    (void)pthread_mutex_unlock(&history->pins_mutex);
}

/* Adds the block's items to the pin's; returns the block if its memory was not needed. */
static struct garbage *pin_take(struct pin *pin, struct garbage *block) {
    struct garbage *own = pin->garbage;
    if (own == NULL || own->count + block->count > GARBAGE_ITEMS) {
        block->next = own;
        pin->garbage = block;
        return NULL;
    }
    memcpy(&own->items[own->count], block->items, block->count * sizeof(block->items[0]));
    own->count += block->count;
    block->count = 0;
    return block;
}

/* Keeps in the block what was written at or before the revision, and unlinks the rest. */
static void sift(struct store *store, struct garbage *block, uint64_t revision, uint64_t from,
                 struct kv_version **dead) {
    size_t kept = 0;
    for (size_t i = 0; i < block->count; i++) {
        if (block->items[i]->main <= revision) {
            block->items[kept++] = block->items[i];
        } else {
            store_unlink(store, block->items[i], from, dead);
        }
    }
    block->count = kept;
}

/* Without garbage a pin may go while others read: nobody gives it any, since that is done alone. */
static bool close_unused(struct kv *kv, struct store *store, struct pin *pin) {
    unsigned lane = gate_enter(kv->gate);
    bool unused = pin->garbage == NULL;
    if (unused) {
        (void)pthread_mutex_lock(&store->history.pins_mutex);
        list_remove(&pin->link);
        (void)pthread_mutex_unlock(&store->history.pins_mutex);
    }
    gate_leave(kv->gate, lane);
    return unused;
}

/* One block of the pin's garbage. Returns it for pool_free, or NULL: an older pin took it. */
static struct garbage *pass_on(struct store *store, struct pin *pin, uint64_t from,
                               struct kv_version **dead) {
    struct garbage *block = pin->garbage;
    pin->garbage = block->next;
    struct pin *older = pin_before(&store->history, &pin->link, pin->revision);
    sift(store, block, older != NULL ? older->revision : 0, from, dead);
    return block->count > 0 ? pin_take(older, block) : block;
}

void pin_close(struct kv *kv, struct store *store, struct pin *pin) {
    if (store->durable != NULL) {
        store->durable->ops->unpin(store->durable->map, pin->snapshot);
        return;
    }
    bool open = !close_unused(kv, store, pin), freed = open;
    while (open) {
        struct kv_version *dead = NULL;
        struct garbage *block = NULL;
        gate_enter_alone(kv->gate);
        pin->closing = true;
        uint64_t from = history_needed_from(store);
        /* What is unlinked here must not be in the queue of tombstones any more. */
        if (collect_tombstones(store, GARBAGE_ITEMS, from, &dead) < GARBAGE_ITEMS) {
            if (pin->garbage != NULL) {
                block = pass_on(store, pin, from, &dead);
            } else {
                list_remove(&pin->link);
                open = false;
            }
        }
        gate_leave_alone(kv->gate);
        dead_free(dead);
        pool_free(block, sizeof(*block));
    }
    while (freed && pool_trim(store->pool, 1)) {
    }
}
