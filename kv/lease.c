#include "kv/lease.h"

#include "base/assert.h"
#include "base/mem.h"

/* ---------------------------------------------------------------------------- the table */

void leases_init(struct leases *leases, struct pool *pool, uint64_t seed) {
    *leases = (struct leases){.prng = prng_of(seed), .pool = pool};
}

/* The place of the first lease whose id is not below. */
static size_t lower(const struct leases *leases, int64_t id) {
    size_t low = 0, high = leases->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (leases->items[middle]->is.id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct lease *leases_find(const struct leases *leases, int64_t id) {
    size_t at = lower(leases, id);
    return at < leases->count && leases->items[at]->is.id == id ? leases->items[at] : NULL;
}

/* There is none with this id yet. NULL when out of memory. */
static struct lease *add(struct leases *leases, const struct kv_lease *from) {
    struct lease **items =
        mem_array_grow(leases->items, &leases->capacity, leases->count + 1, sizeof(struct lease *));
    if (items == NULL) {
        return NULL;
    }
    leases->items = items;
    struct lease *lease = mem_calloc(1, sizeof(*lease));
    if (lease == NULL) {
        return NULL;
    }
    lease->is = *from;
    size_t at = lower(leases, from->id);
    memmove(&items[at + 1], &items[at], (leases->count - at) * sizeof(struct lease *));
    items[at] = lease;
    leases->count++;
    return lease;
}

static void add_garbage(struct leases *leases, struct lease *lease) {
    if (!lease->queued) {
        lease->queued = true;
        lease->next = leases->garbage;
        leases->garbage = lease;
    }
}

void leases_remove(struct leases *leases, struct lease *lease) {
    size_t at = lower(leases, lease->is.id);
    ASSERT(at < leases->count && leases->items[at] == lease);
    leases->count--;
    memmove(&leases->items[at], &leases->items[at + 1],
            (leases->count - at) * sizeof(struct lease *));
    lease->gone = true;
    add_garbage(leases, lease);
}

/* ---------------------------------------------------------------------------- commands */

static int grant(struct leases *leases, const struct kv_command *command,
                 struct kv_result *result) {
    if (leases_find(leases, command->lease) != NULL) {
        result->rc = LKV_EEXIST;
        return 0;
    }
    if (leases->count >= command->limit) {
        result->rc = LKV_EBUSY;
        return 0;
    }
    const struct kv_lease fresh = {.id = command->lease,
                                   .granted = result->index,
                                   .ttl_ms = command->ttl_ms,
                                   .remaining_ms = command->ttl_ms};
    result->count = (uint64_t)command->lease;
    return add(leases, &fresh) != NULL ? 0 : LKV_ENOMEM;
}

/* What was left of them when the leader said so. One that has been granted anew since is another one. */
static void checkpoint(struct leases *leases, struct slice checkpoints) {
    struct reader reader = reader_of(checkpoints);
    struct kv_checkpoint at;
    while (reader.left > 0 && kv_checkpoint_get(&reader, &at)) {
        struct lease *lease = leases_find(leases, at.id);
        if (lease != NULL && lease->is.granted == at.granted) {
            lease->is.remaining_ms =
                at.remaining_ms < lease->is.ttl_ms ? at.remaining_ms : lease->is.ttl_ms;
        }
    }
}

int leases_command(struct leases *leases, const struct kv_command *command,
                   struct kv_result *result) {
    if (command->op == KV_LEASE_GRANT) {
        return grant(leases, command, result);
    }
    checkpoint(leases, command->checkpoints);
    return 0;
}

/* ---------------------------------------------------------------------------- trees */

static size_t size_of_key(const struct lease_key *key) {
    return sizeof(*key) + key->size;
}

static void free_key(struct leases *leases, struct lease_key *key) {
    leases->key_memory -= pool_block_size(size_of_key(key));
    pool_free(key, size_of_key(key));
}

/* The link to the key's node, or to where it would be if it had that priority at least. */
static struct lease_key **find_link(struct lease_key **at, struct slice key, uint32_t priority,
                                    bool *found) {
    *found = false;
    while (*at != NULL) {
        int order = slice_compare(key, lease_key_slice(*at));
        *found = order == 0;
        if (*found || (*at)->priority < priority) {
            break;
        }
        at = order < 0 ? &(*at)->left : &(*at)->right;
    }
    return at;
}

/* The tree below a link becomes two: what is below the key, and what is above. */
static void split(struct lease_key *tree, struct slice key, struct lease_key **below,
                  struct lease_key **above) {
    while (tree != NULL) {
        if (slice_compare(lease_key_slice(tree), key) < 0) {
            *below = tree;
            below = &tree->right;
            tree = tree->right;
        } else {
            *above = tree;
            above = &tree->left;
            tree = tree->left;
        }
    }
    *below = *above = NULL;
}

static void join(struct lease_key **into, struct lease_key *below, struct lease_key *above) {
    while (below != NULL && above != NULL) {
        if (below->priority >= above->priority) {
            *into = below;
            into = &below->right;
            below = below->right;
        } else {
            *into = above;
            into = &above->left;
            above = above->left;
        }
    }
    *into = below != NULL ? below : above;
}

struct lease_key *lease_key_after(const struct lease *lease, struct slice key) {
    struct lease_key *best = NULL;
    for (struct lease_key *at = lease->keys; at != NULL;) {
        if (slice_compare(lease_key_slice(at), key) > 0) {
            best = at;
            at = at->left;
        } else {
            at = at->right;
        }
    }
    return best;
}

static struct lease_key *find_key(struct lease *lease, struct slice key) {
    bool found;
    struct lease_key **link = find_link(&lease->keys, key, 0, &found);
    return found ? *link : NULL;
}

static int add_key(struct leases *leases, struct lease *lease, struct slice key) {
    ASSERT(key.size <= KV_KEY_SIZE_MAX);
    struct lease_key *node = pool_alloc(leases->pool, sizeof(*node) + key.size);
    if (node == NULL) {
        return LKV_ENOMEM;
    }
    *node = (struct lease_key){.priority = (uint32_t)(prng_next(&leases->prng) >> 32),
                               .size = (uint16_t)key.size};
    memcpy(node->bytes, key.data, key.size);
    bool found;
    struct lease_key **link = find_link(&lease->keys, key, node->priority, &found);
    split(*link, key, &node->left, &node->right);
    *link = node;
    leases->key_memory += pool_block_size(size_of_key(node));
    return 0;
}

int leases_attach(struct leases *leases, int64_t id, struct slice key) {
    struct lease *lease = leases_find(leases, id);
    ASSERT(lease != NULL); /* whoever puts has looked */
    /* One that is stale is on its list until that is tidied up, and then turns out to be attached. */
    return find_key(lease, key) != NULL ? 0 : add_key(leases, lease, key);
}

void leases_detach(struct leases *leases, int64_t id, struct slice key) {
    struct lease *lease = leases_find(leases, id);
    struct lease_key *node = lease != NULL ? find_key(lease, key) : NULL;
    ASSERT(node != NULL); /* a live key's lease is there, and has it */
    if (!node->stale) {
        node->stale = true;
        node->next_stale = lease->stale;
        lease->stale = node;
        add_garbage(leases, lease);
    }
}

/* ---------------------------------------------------------------------------- garbage */

/* The tree without one of its nodes, freed; each step turns it a little, so that no step is long. */
static void take_apart(struct leases *leases, struct lease *lease) {
    struct lease_key *top = lease->keys;
    if (top->left != NULL) {
        lease->keys = top->left;
        top->left = lease->keys->right;
        lease->keys->right = top;
    } else {
        lease->keys = top->right;
        free_key(leases, top);
    }
}

static void tidy_stale(struct leases *leases, struct store *store, struct lease *lease) {
    struct lease_key *node = lease->stale;
    lease->stale = node->next_stale;
    node->stale = false;
    if (!lease_has_key(store, lease->is.id, lease_key_slice(node))) {
        bool found;
        struct lease_key **link = find_link(&lease->keys, lease_key_slice(node), 0, &found);
        ASSERT(found && *link == node);
        join(link, node->left, node->right);
        free_key(leases, node);
    }
}

/* One step; false when there is nothing to do. Without a store all of them are gone. */
static bool tidy_one(struct leases *leases, struct store *store) {
    struct lease *lease = leases->garbage;
    if (lease == NULL) {
        return false;
    }
    if (lease->gone && lease->keys != NULL) {
        take_apart(leases, lease);
    } else if (!lease->gone && lease->stale != NULL) {
        tidy_stale(leases, store, lease);
    } else {
        leases->garbage = lease->next;
        lease->queued = false;
        if (lease->gone) {
            mem_free(lease);
        }
    }
    return true;
}

size_t leases_tidy_with(struct leases *leases, struct store *store, size_t max) {
    size_t done = 0;
    while (done < max && tidy_one(leases, store)) {
        done++;
    }
    return done;
}

void leases_fini(struct leases *leases) {
    for (size_t i = 0; i < leases->count; i++) {
        leases->items[i]->gone = true;
        add_garbage(leases, leases->items[i]);
    }
    while (tidy_one(leases, NULL)) {
    }
    mem_free(leases->items);
    *leases = (struct leases){0};
}

/* ---------------------------------------------------------------------------- images */

static bool is_partial(const struct lease *lease) {
    return lease->is.granted == 0;
}

int leases_load(struct leases *leases, const struct kv_lease *from) {
    struct lease *known = leases_find(leases, from->id);
    if (known != NULL && !is_partial(known)) {
        return LKV_EDAMAGED;
    }
    if (known != NULL) {
        known->is = *from;
        return 0;
    }
    return add(leases, from) != NULL ? 0 : LKV_ENOMEM;
}

int leases_load_key(struct leases *leases, int64_t id, const struct slice *key) {
    const struct kv_lease partial = {.id = id};
    struct lease *lease = leases_find(leases, id);
    if (lease == NULL) {
        lease = add(leases, &partial);
    }
    if (lease == NULL) {
        return LKV_ENOMEM;
    }
    return key != NULL ? add_key(leases, lease, *key) : 0;
}

bool leases_loaded(const struct leases *leases) {
    for (size_t i = 0; i < leases->count; i++) {
        if (is_partial(leases->items[i])) {
            return false;
        }
    }
    return true;
}

int leases_freeze(const struct leases *leases, struct lease_list *out) {
    *out = (struct lease_list){0};
    if (leases->count == 0) {
        return 0;
    }
    out->items = mem_alloc(leases->count * sizeof(out->items[0]));
    if (out->items == NULL) {
        return LKV_ENOMEM;
    }
    for (; out->count < leases->count; out->count++) {
        out->items[out->count] = leases->items[out->count]->is;
    }
    return 0;
}

void lease_list_fini(struct lease_list *list) {
    mem_free(list->items);
    *list = (struct lease_list){0};
}
