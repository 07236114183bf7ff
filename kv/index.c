#include "kv/index.h"

#include "base/assert.h"
#include "kv/index_node.h"

enum {
    /* A tree of this height holds 32^15 keys even when every node is only half full. */
    HEIGHT_MAX = 16,
    FEW = INDEX_FANOUT / 4, /* a node with fewer keys looks for a neighbour to merge with */
    MERGED_MAX = INDEX_FANOUT / 4 * 3 /* of both: leaves room, so that it does not split at once */
};

static struct index_leaf *as_leaf(struct index_node *node) {
    ASSERT(node->is_leaf);
    return (struct index_leaf *)node;
}

static struct index_inner *as_inner(struct index_node *node) {
    ASSERT(!node->is_leaf);
    return (struct index_inner *)node;
}

static size_t node_size(bool is_leaf) {
    return is_leaf ? sizeof(struct index_leaf) : sizeof(struct index_inner);
}

static struct index_node *new_node(struct pool *pool, bool is_leaf) {
    struct index_node *node = pool_alloc(pool, node_size(is_leaf));
    if (node != NULL) {
        node->is_leaf = is_leaf;
        node->count = node->skip = 0;
    }
    return node;
}

int index_init(struct index *index) {
    *index = (struct index){.leaves = 1};
    if (pool_open(&index->pool) != 0) {
        return LKV_ENOMEM;
    }
    index->root = new_node(index->pool, true);
    if (index->root == NULL) {
        index_fini(index);
        return LKV_ENOMEM;
    }
    index->first = index->last = as_leaf(index->root);
    index->first->previous = index->first->next = NULL;
    return 0;
}

static void drop_node(struct index_node *node) {
    pool_free(node, node_size(node->is_leaf));
}

/* Recursion is as deep as the tree is high. */
static void free_node(struct index_node *node) {
    if (!node->is_leaf) {
        for (unsigned i = 0; i < node->count; i++) {
            separator_free(node->keys[i]);
        }
        for (unsigned i = 0; i <= node->count; i++) {
            free_node(as_inner(node)->children[i]);
        }
    }
    drop_node(node);
}

void index_fini(struct index *index) {
    if (index->root != NULL) {
        free_node(index->root);
    }
    pool_close(index->pool);
}

/* ---------------------------------------------------------------------------- the way down */

/* The nodes from the root to a leaf, and which child was taken at each. */
struct path {
    struct index_node *nodes[HEIGHT_MAX];
    unsigned taken[HEIGHT_MAX];
    unsigned height; /* nodes[height - 1] is the leaf */
};

static void descend(const struct index *index, struct slice key, struct path *path) {
    struct index_node *node = index->root;
    path->height = 0;
    while (!node->is_leaf) {
        ASSERT(path->height < HEIGHT_MAX - 1);
        unsigned child = node_search(node, key, true);
        path->nodes[path->height] = node;
        path->taken[path->height++] = child;
        node = as_inner(node)->children[child];
    }
    path->nodes[path->height++] = node;
}

static struct index_leaf *leaf_for(const struct index *index, struct slice key) {
    struct index_node *node = index->root;
    while (!node->is_leaf) {
        node = as_inner(node)->children[node_search(node, key, true)];
    }
    return as_leaf(node);
}

/* ---------------------------------------------------------------------------- inserting */

/* Everything that a chain of splits takes, allocated before anything is changed. */
struct spares {
    struct index_node *nodes[HEIGHT_MAX]; /* [0] for the leaf, then upwards; last a new root */
    unsigned count;
    struct separator *separator;
};

static void free_spares(struct spares *spares) {
    for (unsigned i = 0; i < spares->count; i++) {
        drop_node(spares->nodes[i]);
    }
    separator_free(spares->separator);
}

static bool add_spare(struct spares *spares, struct pool *pool, bool is_leaf) {
    struct index_node *node = new_node(pool, is_leaf);
    if (node == NULL) {
        return false;
    }
    spares->nodes[spares->count++] = node;
    return true;
}

/* A leaf that grows at the right end of the tree stays full: ascending keys fill it. */
static unsigned split_point(const struct index *index, const struct index_leaf *leaf, unsigned at) {
    return leaf == index->last && at == INDEX_FANOUT ? INDEX_FANOUT : INDEX_FANOUT / 2;
}

/* What will separate the leaf from its new right neighbour once `key` is at `at`. */
static struct separator *separator_for(const struct index *index, const struct index_leaf *leaf,
                                       unsigned split, unsigned at, struct slice key) {
    struct slice left = node_key(&leaf->node, split - 1);
    struct slice right = split == at ? key : node_key(&leaf->node, split);
    return separator_between(index->pool, left, right);
}

static int gather_spares(const struct index *index, struct spares *spares, const struct path *path,
                         struct separator *separator) {
    spares->count = 0;
    spares->separator = separator;
    bool good = separator != NULL && add_spare(spares, index->pool, true);
    unsigned depth = path->height - 1;
    while (good && depth > 0 && path->nodes[depth - 1]->count == INDEX_FANOUT) {
        good = add_spare(spares, index->pool, false);
        depth--;
    }
    if (good && depth == 0) {
        good = add_spare(spares, index->pool, false);
    }
    if (!good) {
        free_spares(spares);
    }
    return good ? 0 : LKV_ENOMEM;
}

static void inner_insert(struct index_inner *inner, unsigned at, struct separator *separator,
                         struct index_node *right) {
    unsigned behind = inner->node.count - at;
    memmove(&inner->children[at + 2], &inner->children[at + 1],
            behind * sizeof(inner->children[0]));
    inner->children[at + 1] = right;
    node_insert(&inner->node, at, slice_of(separator->data, separator->size), separator);
}

/* Splits a full inner node in the middle: the middle separator goes up. */
static struct separator *split_inner(struct index_inner *inner, struct index_inner *right) {
    unsigned middle = INDEX_FANOUT / 2;
    struct separator *up = inner->node.keys[middle];
    memcpy(right->children, &inner->children[middle + 1],
           (INDEX_FANOUT - middle) * sizeof(inner->children[0]));
    node_move_tail(&inner->node, middle + 1, &right->node);
    node_remove(&inner->node, middle);
    return up;
}

/* Hangs `right` and its separator into the ancestors of the node at `depth`, splitting those that
 * are full. */
static void hang_in(struct index *index, struct path *path, unsigned depth,
                    struct index_node *right, struct spares *spares) {
    struct separator *separator = spares->separator;
    unsigned next_spare = 1;
    while (depth > 0) {
        struct index_inner *parent = as_inner(path->nodes[depth - 1]);
        unsigned at = path->taken[depth - 1];
        if (parent->node.count < INDEX_FANOUT) {
            inner_insert(parent, at, separator, right);
            return;
        }
        struct index_inner *beside = as_inner(spares->nodes[next_spare++]);
        struct separator *up = split_inner(parent, beside);
        index->inners++;
        if (at <= parent->node.count) {
            inner_insert(parent, at, separator, right);
        } else {
            inner_insert(beside, at - parent->node.count - 1u, separator, right);
        }
        separator = up;
        right = &beside->node;
        depth--;
    }
    struct index_inner *root = as_inner(spares->nodes[next_spare]);
    root->children[0] = index->root;
    inner_insert(root, 0, separator, right);
    index->root = &root->node;
    index->inners++;
}

static void link_after(struct index *index, struct index_leaf *leaf, struct index_leaf *right) {
    right->previous = leaf;
    right->next = leaf->next;
    leaf->next = right;
    if (right->next != NULL) {
        right->next->previous = right;
    } else {
        index->last = right;
    }
    index->leaves++;
}

static void settle(struct index_node *leaf, unsigned at, struct kv_version *version) {
    version->leaf = leaf;
    version->at = (uint8_t)at;
}

static void leaf_insert(struct index_leaf *leaf, unsigned at, struct kv_version *version) {
    node_insert(&leaf->node, at, version_key(version), version);
    settle(&leaf->node, at, version);
}

static int insert_with_split(struct index *index, struct path *path, unsigned at,
                             struct kv_version *version) {
    struct slice key = version_key(version);
    struct index_leaf *leaf = as_leaf(path->nodes[path->height - 1]);
    unsigned split = split_point(index, leaf, at);
    struct spares spares;
    int rc = gather_spares(index, &spares, path, separator_for(index, leaf, split, at, key));
    if (rc != 0) {
        return rc;
    }
    struct index_leaf *right = as_leaf(spares.nodes[0]);
    node_move_tail(&leaf->node, split, &right->node);
    leaf_adopt(right, 0);
    link_after(index, leaf, right);
    /* A key at the border goes right: the separator may be made of it. */
    if (at < split) {
        leaf_insert(leaf, at, version);
    } else {
        leaf_insert(right, at - split, version);
    }
    hang_in(index, path, path->height - 1, &right->node, &spares);
    return 0;
}

int index_insert(struct index *index, struct kv_version *version) {
    struct path path;
    struct slice key = version_key(version);
    descend(index, key, &path);
    struct index_node *leaf = path.nodes[path.height - 1];
    unsigned at = node_search(leaf, key, false);
    if (leaf->count == INDEX_FANOUT) {
        return insert_with_split(index, &path, at, version);
    }
    leaf_insert(as_leaf(leaf), at, version);
    return 0;
}

/* ---------------------------------------------------------------------------- replacing, removing */

/* Keys come and go around a version, so what it remembers is only where to start looking. */
static unsigned position_in(const struct index_node *leaf, const struct kv_version *version) {
    for (unsigned distance = 0; distance < INDEX_FANOUT; distance++) {
        unsigned right = version->at + distance;
        unsigned left = version->at - distance;
        if (right < leaf->count && leaf->keys[right] == version) {
            return right;
        }
        if (left < leaf->count && leaf->keys[left] == version) { /* below 0 it is huge */
            return left;
        }
    }
    ASSERT(false);
    return 0;
}

void index_replace(struct kv_version *old, struct kv_version *newest) {
    struct index_node *leaf = old->leaf;
    unsigned at = position_in(leaf, old);
    leaf->keys[at] = newest;
    settle(leaf, at, newest);
}

/* Takes child `at` out of its parent, with one separator: the caller owns both. */
static void take_child(struct index_inner *parent, unsigned at, unsigned separator) {
    unsigned behind = parent->node.count - at;
    memmove(&parent->children[at], &parent->children[at + 1], behind * sizeof(parent->children[0]));
    node_remove(&parent->node, separator);
}

static void free_child(struct index *index, struct index_node *node) {
    if (node->is_leaf) {
        struct index_leaf *leaf = as_leaf(node);
        *(leaf->previous != NULL ? &leaf->previous->next : &index->first) = leaf->next;
        *(leaf->next != NULL ? &leaf->next->previous : &index->last) = leaf->previous;
        index->leaves--;
    } else {
        index->inners--;
    }
    drop_node(node);
}

/* Moves everything of child `at + 1` into child `at`. */
static void merge_children(struct index *index, struct index_inner *parent, unsigned at) {
    struct index_node *left = parent->children[at];
    struct index_node *right = parent->children[at + 1];
    struct separator *between = parent->node.keys[at];
    take_child(parent, at + 1, at);
    if (left->is_leaf) {
        unsigned from = left->count;
        node_move_tail(right, 0, left);
        leaf_adopt(as_leaf(left), from);
        separator_free(between);
    } else {
        memcpy(&as_inner(left)->children[left->count + 1], as_inner(right)->children,
               (right->count + 1u) * sizeof(as_inner(right)->children[0]));
        node_insert(left, left->count, slice_of(between->data, between->size), between);
        node_move_tail(right, 0, left);
    }
    free_child(index, right);
}

/* The keys that children `at` and `at + 1` would have together. */
static unsigned merged_count(const struct index_inner *parent, unsigned at) {
    const struct index_node *left = parent->children[at];
    return left->count + parent->children[at + 1]->count + (left->is_leaf ? 0u : 1u);
}

static bool merge_with_neighbour(struct index *index, struct index_inner *parent, unsigned at) {
    if (at > 0 && merged_count(parent, at - 1) <= MERGED_MAX) {
        merge_children(index, parent, at - 1);
        return true;
    }
    if (at < parent->node.count && merged_count(parent, at) <= MERGED_MAX) {
        merge_children(index, parent, at);
        return true;
    }
    return false;
}

/* Removes an empty child; false: it was the only one, and now the parent is empty. */
static bool remove_empty(struct index *index, struct index_inner *parent, unsigned at) {
    struct index_node *child = parent->children[at];
    bool others = parent->node.count > 0;
    if (others) {
        unsigned separator = at > 0 ? at - 1 : 0;
        struct separator *beside = parent->node.keys[separator];
        take_child(parent, at, separator);
        separator_free(beside);
    }
    free_child(index, child);
    return others;
}

/* From a leaf that lost a key upwards, as long as a node has become too small to stay. */
static void tidy(struct index *index, const struct path *path) {
    bool empty = path->nodes[path->height - 1]->count == 0;
    for (unsigned depth = path->height - 1; depth > 0; depth--) {
        struct index_inner *parent = as_inner(path->nodes[depth - 1]);
        unsigned at = path->taken[depth - 1];
        if (empty) {
            empty = !remove_empty(index, parent, at);
        } else if (path->nodes[depth]->count >= FEW || !merge_with_neighbour(index, parent, at)) {
            return;
        }
    }
    ASSERT(!empty);
}

static void lower_root(struct index *index) {
    while (!index->root->is_leaf && index->root->count == 0) {
        struct index_node *root = index->root;
        index->root = as_inner(root)->children[0];
        drop_node(root);
        index->inners--;
    }
}

void index_remove(struct index *index, struct kv_version *version) {
    struct path path;
    descend(index, version_key(version), &path);
    struct index_node *leaf = path.nodes[path.height - 1];
    ASSERT(leaf == version->leaf);
    node_remove(leaf, position_in(leaf, version));
    version->leaf = NULL;
    /* The last leaf stays, empty: the tree needs no memory to become non-empty again. */
    if (index->leaves > 1) {
        tidy(index, &path);
    }
    lower_root(index);
}

/* ---------------------------------------------------------------------------- in order */

struct index_cursor index_lower(const struct index *index, struct slice key) {
    struct index_cursor cursor = {.leaf = index->first};
    if (key.size > 0) {
        cursor.leaf = leaf_for(index, key);
        cursor.at = node_search(&cursor.leaf->node, key, false);
    }
    if (cursor.at == cursor.leaf->node.count) {
        cursor = (struct index_cursor){.leaf = cursor.leaf->next};
    }
    return cursor;
}

struct index_cursor index_last(const struct index *index) {
    unsigned count = index->last->node.count;
    return (struct index_cursor){.leaf = count > 0 ? index->last : NULL,
                                 .at = count > 0 ? count - 1 : 0};
}

void index_next(struct index_cursor *cursor) {
    if (cursor->leaf != NULL && ++cursor->at == cursor->leaf->node.count) {
        *cursor = (struct index_cursor){.leaf = cursor->leaf->next};
    }
}

void index_previous(struct index_cursor *cursor) {
    if (cursor->leaf == NULL) {
        return;
    }
    if (cursor->at > 0) {
        cursor->at--;
        return;
    }
    struct index_leaf *previous = cursor->leaf->previous;
    *cursor = (struct index_cursor){.leaf = previous,
                                    .at = previous != NULL ? previous->node.count - 1u : 0};
}

void index_prefetch_replace(const struct kv_version *version) {
    uintptr_t leaf = (uintptr_t)version->leaf; /* or another version: then the hint is useless */
    __builtin_prefetch((const void *)leaf);
    __builtin_prefetch(
        (const void *)(leaf + offsetof(struct index_node, keys) + version->at * sizeof(void *)), 1);
}

/* A search begins with the heads, and with the first key, for the prefix. */
const struct index_node *index_prefetch_insert(const struct index *index, struct slice key) {
    enum { CACHE_LINE = 64 };
    const struct index_node *leaf = &leaf_for(index, key)->node;
    uintptr_t start = (uintptr_t)leaf;
    for (size_t at = 0; at <= offsetof(struct index_node, keys); at += CACHE_LINE) {
        __builtin_prefetch((const void *)(start + at), 1);
    }
    return leaf;
}

void index_prefetch_leaf(const struct index_node *leaf) {
    if (leaf->count > 0) {
        version_prefetch(leaf->keys[0]);
        version_prefetch(leaf->keys[leaf->count / 2]);
    }
}

size_t index_memory(const struct index *index) {
    enum { SEPARATOR = 8 }; /* bytes: a few */
    return index->leaves *
               (pool_block_size(sizeof(struct index_leaf)) + pool_block_size(SEPARATOR)) +
           index->inners * pool_block_size(sizeof(struct index_inner));
}
