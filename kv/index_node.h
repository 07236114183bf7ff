/* One node's sorted array of keys, leaf or inner; private to the index. */
#ifndef KV_INDEX_NODE_H
#define KV_INDEX_NODE_H

#include "kv/index.h"

/* A copy of as much of a key as is needed to tell two leaves apart. */
struct separator {
    uint16_t size;
    uint8_t data[];
};

struct index_inner {
    struct index_node node;
    struct index_node *children[INDEX_FANOUT + 1];
};

struct slice node_key(const struct index_node *node, unsigned at);

/* Number of keys < `key`, or <= `key` if `or_equal`. */
unsigned node_search(const struct index_node *node, struct slice key, bool or_equal);

/* There must be room. */
void node_insert(struct index_node *node, unsigned at, struct slice key, void *pointer);
void node_remove(struct index_node *node, unsigned at);

/* Moves the keys from `at` on to the end of `to`; they are greater than what it has. */
void node_move_tail(struct index_node *node, unsigned at, struct index_node *to);

/* The shortest key that is greater than `left` and not greater than `right`, which is greater than
 * `left`. Returns owned, or NULL when out of memory. */
struct separator *separator_between(struct pool *pool, struct slice left, struct slice right);
void separator_free(struct separator *separator); /* NULL is fine */

/* Versions that are new in a leaf learn where they are. */
void leaf_adopt(struct index_leaf *leaf, unsigned from);

#endif
