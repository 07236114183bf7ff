#include "kv/index_node.h"

#include "base/assert.h"
#include "base/mem.h"

struct slice node_key(const struct index_node *node, unsigned at) {
    if (node->is_leaf) {
        return version_key(node->keys[at]);
    }
    const struct separator *separator = node->keys[at];
    return slice_of(separator->data, separator->size);
}

static uint16_t common_prefix(struct slice a, struct slice b) {
    size_t most = a.size < b.size ? a.size : b.size;
    size_t same = 0;
    while (same < most && a.data[same] == b.data[same]) {
        same++;
    }
    return (uint16_t)same;
}

static uint32_t head_of(struct slice key, unsigned skip) {
    uint32_t head = 0;
    for (unsigned i = 0; i < sizeof(head); i++) {
        head = head << 8 | (skip + i < key.size ? key.data[skip + i] : 0u);
    }
    return head;
}

/* ---------------------------------------------------------------------------- searching */

/* -1, 0, 1: the key sorts before, has, or sorts after what all keys of the node start with. */
static int compare_prefix(const struct index_node *node, struct slice key) {
    struct slice prefix = slice_of(node_key(node, 0).data, node->skip);
    if (slice_starts_with(key, prefix)) {
        return 0;
    }
    return slice_compare(key, prefix) < 0 ? -1 : 1;
}

/* Number of heads below `head`; without branches, since they would be guessed wrong half the time. */
static unsigned heads_below(const struct index_node *node, uint32_t head) {
    const uint32_t *base = node->heads;
    unsigned left = node->count;
    while (left > 1) {
        unsigned half = left / 2;
        base += base[half - 1] < head ? half : 0;
        left -= half;
    }
    return (unsigned)(base - node->heads) + (base[0] < head);
}

unsigned node_search(const struct index_node *node, struct slice key, bool or_equal) {
    if (node->count == 0) {
        return 0;
    }
    int prefix = compare_prefix(node, key);
    if (prefix != 0) {
        return prefix < 0 ? 0 : node->count;
    }
    uint32_t head = head_of(key, node->skip);
    unsigned low = heads_below(node, head);
    unsigned high = low;
    while (high < node->count && node->heads[high] == head) {
        high++;
    }
    /* Only keys with an equal head are left to be compared as a whole. */
    while (low < high) {
        unsigned middle = (low + high) / 2;
        int order = slice_compare(node_key(node, middle), key);
        if (order < 0 || (order == 0 && or_equal)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---------------------------------------------------------------------------- changing */

static void fill_heads(struct index_node *node, unsigned from) {
    for (unsigned i = from; i < node->count; i++) {
        node->heads[i] = head_of(node_key(node, i), node->skip);
    }
}

/* Takes the longest prefix there is. Looks at every key: for splits and merges only. */
static void refresh(struct index_node *node) {
    if (node->count > 0) {
        node->skip = common_prefix(node_key(node, 0), node_key(node, node->count - 1u));
        fill_heads(node, 0);
    }
}

void node_insert(struct index_node *node, unsigned at, struct slice key, void *pointer) {
    ASSERT(node->count < INDEX_FANOUT);
    ASSERT(at <= node->count);
    unsigned behind = node->count - at;
    memmove(&node->keys[at + 1], &node->keys[at], behind * sizeof(node->keys[0]));
    memmove(&node->heads[at + 1], &node->heads[at], behind * sizeof(node->heads[0]));
    node->keys[at] = pointer;
    node->count++;
    if (node->count == 1) {
        refresh(node);
        return;
    }
    /* Inside, the prefix of first and last key is the new key's too; at the ends it may shrink. */
    if (at == 0 || at == node->count - 1u) {
        uint16_t common = common_prefix(key, node_key(node, at == 0 ? 1 : 0));
        if (common < node->skip) {
            node->skip = common;
            fill_heads(node, 0);
        }
    }
    node->heads[at] = head_of(key, node->skip);
}

void node_remove(struct index_node *node, unsigned at) {
    ASSERT(at < node->count);
    unsigned behind = node->count - at - 1u;
    memmove(&node->keys[at], &node->keys[at + 1], behind * sizeof(node->keys[0]));
    memmove(&node->heads[at], &node->heads[at + 1], behind * sizeof(node->heads[0]));
    node->count--;
}

void node_move_tail(struct index_node *node, unsigned at, struct index_node *to) {
    ASSERT(at <= node->count);
    unsigned moved = node->count - at;
    ASSERT(to->count + moved <= INDEX_FANOUT);
    memcpy(&to->keys[to->count], &node->keys[at], moved * sizeof(node->keys[0]));
    to->count = (uint16_t)(to->count + moved);
    node->count = (uint16_t)at;
    refresh(to);
    refresh(node);
}

struct separator *separator_between(struct pool *pool, struct slice left, struct slice right) {
    size_t size = (size_t)common_prefix(left, right) + 1;
    ASSERT(size <= right.size);
    struct separator *separator = pool_alloc(pool, sizeof(*separator) + size);
    if (separator != NULL) {
        separator->size = (uint16_t)size;
        memcpy(separator->data, right.data, size);
    }
    return separator;
}

void separator_free(struct separator *separator) {
    if (separator != NULL) {
        pool_free(separator, sizeof(*separator) + separator->size);
    }
}

void leaf_adopt(struct index_leaf *leaf, unsigned from) {
    for (unsigned i = from; i < leaf->node.count; i++) {
        struct kv_version *version = leaf->node.keys[i];
        version->leaf = &leaf->node;
        version->at = (uint8_t)i;
    }
}
