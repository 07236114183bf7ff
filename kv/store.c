#include "kv/store.h"

#include "base/assert.h"
#include "base/feature.h"
#include "base/mem.h"

/* ---------------------------------------------------------------------------- life */

struct store *store_new(uint64_t seed) {
    struct store *store = mem_calloc(1, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    if (index_init(&store->index) != 0) {
        goto fail_after_memory;
    }
    if (table_init(&store->table, seed) != 0) {
        goto fail_after_index;
    }
    if (pthread_mutex_init(&store->pins_mutex, NULL) != 0) {
        goto fail_after_table;
    }
    list_init(&store->pins);
    atomic_init(&store->refs, 1);
    store->shown.revision = 1;
    store->feature_level = FEATURE_LEVEL_FIRST;
    return store;

fail_after_table:
    table_fini(&store->table);
fail_after_index:
    index_fini(&store->index);
fail_after_memory:
    mem_free(store);
    return NULL;
}

void store_ref(struct store *store) {
    (void)atomic_fetch_add_explicit(&store->refs, 1, memory_order_relaxed);
}

static void free_chain(struct kv_version *version) {
    while (version != NULL) {
        struct kv_version *older = version->older;
        version_unref(version);
        version = older;
    }
}

static void free_garbage(struct garbage *block) {
    while (block != NULL) {
        struct garbage *next = block->next;
        mem_free(block);
        block = next;
    }
}

void unfinished_drop(struct unfinished *work) {
    if (work->last != NULL) {
        version_unref(work->last);
    }
    free_garbage(work->garbage);
    *work = (struct unfinished){0};
}

void store_unref(struct store *store) {
    if (store == NULL || atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) > 1) {
        return;
    }
    ASSERT(list_empty(&store->pins));
    unfinished_drop(&store->unfinished);
    free_garbage(store->garbage);
    struct index_cursor cursor = index_lower(&store->index, (struct slice){0});
    for (struct kv_version *version; (version = index_at(&cursor)) != NULL;) {
        index_next(&cursor);
        free_chain(version);
    }
    sessions_fini(&store->sessions);
    table_fini(&store->table);
    index_fini(&store->index);
    (void)pthread_mutex_destroy(&store->pins_mutex);
    mem_free(store);
}

/* ---------------------------------------------------------------------------- linking */

struct kv_version *store_newest(const struct store *store, struct slice key) {
    struct kv_version **slot = table_find(&store->table, table_hash(&store->table, key), key);
    return slot != NULL ? *slot : NULL;
}

static void count_in(struct store *store, const struct kv_version *version) {
    store->versions++;
    store->version_memory += version_memory(version);
}

/* Unlinked versions form a list by their `older`, which nobody else follows any more. */
static void bury(struct store *store, struct kv_version *version, struct kv_version **dead) {
    store->versions--;
    store->version_memory -= version_memory(version);
    version->older = *dead;
    *dead = version;
}

int store_add(struct store *store, uint64_t hash, struct kv_version *version) {
    int rc = index_insert(&store->index, version);
    if (rc != 0) {
        return rc;
    }
    rc = table_insert(&store->table, hash, version);
    if (rc != 0) {
        index_remove(&store->index, version);
        return rc;
    }
    count_in(store, version);
    return 0;
}

void store_supersede(struct store *store, struct kv_version **slot, struct kv_version *newest) {
    struct kv_version *old = *slot;
    index_replace(old, newest);
    newest->older = old;
    old->newer = newest; /* takes the place of `leaf`, which only the newest has */
    *slot = newest;
    count_in(store, newest);
}

/* A tombstone with nothing behind it hides nothing: the key goes. One that is not the newest is some
 * garbage's item and goes by that way. */
static void remove_if_empty(struct store *store, struct kv_version *version,
                            struct kv_version **dead) {
    if (!version_is_tombstone(version) || version->older != NULL) {
        return;
    }
    struct slice key = version_key(version);
    uint64_t hash = table_hash(&store->table, key);
    struct kv_version **slot = table_find(&store->table, hash, key);
    ASSERT(slot != NULL);
    if (*slot == version) {
        table_remove(&store->table, hash, key);
        index_remove(&store->index, version);
        bury(store, version, dead);
    }
}

static void unlink_old(struct store *store, struct kv_version *version, struct kv_version **dead) {
    struct kv_version *newer = version->newer;
    newer->older = version->older;
    if (version->older != NULL) {
        version->older->newer = newer;
    }
    bury(store, version, dead);
    remove_if_empty(store, newer, dead);
}

void dead_free(struct kv_version *dead) {
    free_chain(dead);
}

/* ---------------------------------------------------------------------------- pins */

void pin_open(struct store *store, struct pin *pin) {
    *pin = (struct pin){.revision = store->shown.revision};
    (void)pthread_mutex_lock(&store->pins_mutex);
    /* Ascending: `shown` stands still while we are inside, and only grows. */
    list_push_back(&store->pins, &pin->link);
    (void)pthread_mutex_unlock(&store->pins_mutex);
}

/* The newest pin at or below the revision that still gets garbage, looking back from `link`. */
static struct pin *pin_before(struct store *store, struct list_link *link, uint64_t revision) {
    for (link = link->prev; link != &store->pins; link = link->prev) {
        struct pin *pin = LIST_ITEM(link, struct pin, link);
        if (!pin->closing && pin->revision <= revision) {
            return pin;
        }
    }
    return NULL;
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
static void sift(struct store *store, struct garbage *block, uint64_t revision,
                 struct kv_version **dead) {
    size_t kept = 0;
    for (size_t i = 0; i < block->count; i++) {
        if (block->items[i]->main <= revision) {
            block->items[kept++] = block->items[i];
        } else {
            unlink_old(store, block->items[i], dead);
        }
    }
    block->count = kept;
}

/* Without garbage a pin may go while others read: nobody gives it any, since that is done alone. */
static bool close_unused(struct kv *kv, struct store *store, struct pin *pin) {
    unsigned lane = gate_enter(kv->gate);
    bool unused = pin->garbage == NULL;
    if (unused) {
        (void)pthread_mutex_lock(&store->pins_mutex);
        list_remove(&pin->link);
        (void)pthread_mutex_unlock(&store->pins_mutex);
    }
    gate_leave(kv->gate, lane);
    return unused;
}

void pin_close(struct kv *kv, struct store *store, struct pin *pin) {
    bool open = !close_unused(kv, store, pin);
    while (open) {
        struct kv_version *dead = NULL;
        gate_enter_alone(kv->gate);
        pin->closing = true;
        struct garbage *block = pin->garbage;
        if (block != NULL) {
            pin->garbage = block->next;
            struct pin *older = pin_before(store, &pin->link, pin->revision);
            sift(store, block, older != NULL ? older->revision : 0, &dead);
            if (block->count > 0) {
                block = pin_take(older, block);
            }
        } else {
            list_remove(&pin->link);
            open = false;
        }
        gate_leave_alone(kv->gate);
        dead_free(dead);
        mem_free(block);
    }
}

/* ---------------------------------------------------------------------------- publishing */

void store_publish(struct store *store, const struct kv_stamp *stamp) {
    store->shown = *stamp;
    store->shown_keys = store->keys;
    store->shown_bytes = store->bytes;
}

struct garbage *store_collect(struct store *store, struct garbage *block,
                              struct kv_version **dead) {
    /* Pins that came after the superseding versions were shown do not need these. */
    struct pin *pin = pin_before(store, &store->pins, block->before);
    sift(store, block, pin != NULL ? pin->revision : 0, dead);
    return block->count > 0 ? pin_take(pin, block) : block;
}
