/* Ranges of keys, and which of them a key lies in: log n + what is found, whatever overlaps.
 *
 * A search tree over the ranges' first keys, in which each node knows the greatest end below it (Cormen et al.,
 * "Introduction to Algorithms", interval trees); random priorities keep it flat (a treap). The nodes lie in their
 * owners' memory, so no operation fails. Not thread-safe. */
#ifndef KV_INTERVALS_H
#define KV_INTERVALS_H

#include "base/slice.h"

/* One end of a range, with the beginning of its key, so that most comparisons stay in the node. */
struct interval_end {
    uint64_t head; /* the first eight bytes, big-endian, padded with zeros */
    struct slice key;
};

struct interval {
    struct interval_end from;     /* inclusive */
    struct interval_end to;       /* exclusive; an empty key: no end */
    struct interval_end farthest; /* the greatest `to` of this node and those below it */
    struct interval *parent, *left, *right;
    uint32_t priority; /* none below has a greater one */
};

/* Zero-initialised is empty. */
struct intervals {
    struct interval *root;
    size_t count;
    uint32_t random;
};

/* [from, to): an empty `from` is the first key, an empty `to` is beyond the last. The bytes are borrowed until it is
 * removed. */
void intervals_add(struct intervals *intervals, struct interval *interval, struct slice from,
                   struct slice to);
void intervals_remove(struct intervals *intervals, struct interval *interval);

/* Calls `found` for each range that the key lies in; it must not add or remove any. */
void intervals_find(const struct intervals *intervals, struct slice key,
                    void (*found)(void *arg, struct interval *interval), void *arg);

/* All of them in the order of their first keys; NULL: there are no more. */
struct interval *intervals_first(const struct intervals *intervals);
struct interval *intervals_next(const struct interval *interval);

#endif
