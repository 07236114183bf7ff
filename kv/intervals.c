#include "kv/intervals.h"

#include "base/assert.h"

static struct interval_end end_of(struct slice key) {
    uint64_t head = 0;
    for (size_t i = 0; i < sizeof(head); i++) {
        head = head << 8 | (i < key.size ? key.data[i] : 0);
    }
    return (struct interval_end){.head = head, .key = key};
}

/* Whether a comes before b; neither is without an end. */
static bool is_before(const struct interval_end *a, const struct interval_end *b) {
    return a->head != b->head ? a->head < b->head : slice_compare(a->key, b->key) < 0;
}

/* Whether the key is before that `to`. */
static bool is_inside(const struct interval_end *key, const struct interval_end *to) {
    return to->key.size == 0 || is_before(key, to);
}

/* ---------------------------------------------------------------------------- the tree */

static void look_farther(struct interval *node, const struct interval *child) {
    if (child == NULL || node->farthest.key.size == 0) {
        return;
    }
    if (child->farthest.key.size == 0 || is_before(&node->farthest, &child->farthest)) {
        node->farthest = child->farthest;
    }
}

static void measure(struct interval *node) {
    node->farthest = node->to;
    look_farther(node, node->left);
    look_farther(node, node->right);
}

static struct interval **link_to(struct intervals *intervals, const struct interval *node) {
    struct interval *parent = node->parent;
    if (parent == NULL) {
        return &intervals->root;
    }
    return parent->left == node ? &parent->left : &parent->right;
}

/* The node takes its parent's place, and the parent goes below it. */
static void rotate_up(struct intervals *intervals, struct interval *node) {
    struct interval *parent = node->parent;
    *link_to(intervals, parent) = node;
    node->parent = parent->parent;
    struct interval *moves;
    if (parent->left == node) {
        moves = node->right;
        parent->left = moves;
        node->right = parent;
    } else {
        moves = node->left;
        parent->right = moves;
        node->left = parent;
    }
    if (moves != NULL) {
        moves->parent = parent;
    }
    parent->parent = node;
    measure(parent);
    measure(node);
}

/* Xorshift (Marsaglia, 2003): the tree's shape is the same whenever the same is done. */
static uint32_t draw(struct intervals *intervals) {
    uint32_t x = intervals->random != 0 ? intervals->random : 2463534242U;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return intervals->random = x;
}

void intervals_add(struct intervals *intervals, struct interval *interval, struct slice from,
                   struct slice to) {
    *interval =
        (struct interval){.from = end_of(from), .to = end_of(to), .priority = draw(intervals)};
    interval->farthest = interval->to;
    struct interval **at = &intervals->root;
    while (*at != NULL) {
        interval->parent = *at;
        look_farther(*at, interval);
        at = is_before(&interval->from, &(*at)->from) ? &(*at)->left : &(*at)->right;
    }
    *at = interval;
    while (interval->parent != NULL && interval->parent->priority < interval->priority) {
        rotate_up(intervals, interval);
    }
    intervals->count++;
}

void intervals_remove(struct intervals *intervals, struct interval *interval) {
    while (interval->left != NULL || interval->right != NULL) {
        struct interval *left = interval->left, *right = interval->right;
        bool left_up = right == NULL || (left != NULL && left->priority > right->priority);
        rotate_up(intervals, left_up ? left : right);
    }
    *link_to(intervals, interval) = NULL;
    for (struct interval *node = interval->parent; node != NULL; node = node->parent) {
        measure(node);
    }
    interval->parent = NULL;
    ASSERT(intervals->count > 0);
    intervals->count--;
}

/* ---------------------------------------------------------------------------- reading */

static void visit(struct interval *node, const struct interval_end *key,
                  void (*found)(void *arg, struct interval *interval), void *arg) {
    while (node != NULL && is_inside(key, &node->farthest)) {
        visit(node->left, key, found, arg);
        if (is_before(key, &node->from)) {
            return; /* and so are all to the right */
        }
        if (is_inside(key, &node->to)) {
            found(arg, node);
        }
        node = node->right;
    }
}

void intervals_find(const struct intervals *intervals, struct slice key,
                    void (*found)(void *arg, struct interval *interval), void *arg) {
    const struct interval_end end = end_of(key);
    visit(intervals->root, &end, found, arg);
}

static struct interval *leftmost(struct interval *node) {
    while (node != NULL && node->left != NULL) {
        node = node->left;
    }
    return node;
}

struct interval *intervals_first(const struct intervals *intervals) {
    return leftmost(intervals->root);
}

struct interval *intervals_next(const struct interval *interval) {
    if (interval->right != NULL) {
        return leftmost(interval->right);
    }
    while (interval->parent != NULL && interval->parent->right == interval) {
        interval = interval->parent;
    }
    return interval->parent;
}
