/* What of a log cannot be read: ranges of indices, ascending, disjoint.
 *
 *          term known          terms unknown            its term is always known
 *   log  --- first - 1 ---|--- first ... last - 1 ---|--- last ---|--- readable again
 *                                  '- from `unknown_from` on
 *
 * A gap found while running has no unknown terms: they were known before. */
#ifndef RAFT_DAMAGE_H
#define RAFT_DAMAGE_H

#include "raft/raft.h"

struct gap {
    uint64_t first, last;
    uint64_t last_term;
    uint64_t unknown_from; /* terms of [unknown_from, last - 1] are not known; `last`: all are */
};

struct damage {
    struct gap *items; /* owned */
    size_t count, capacity;
};

void damage_fini(struct damage *gaps);

/* The first gap that ends at or behind `index`; NULL: none. Valid until the next change. */
struct gap *damage_from(const struct damage *gaps, uint64_t index);

/* The gap that holds the entry; NULL: it can be read. */
struct gap *damage_at(const struct damage *gaps, uint64_t index);

/* The gap that holds the entry when its term is not known; else NULL. */
struct gap *damage_unknown_at(const struct damage *gaps, uint64_t index);

/* Adds what of [first, last] is in no gap yet; all terms are known, `last_term` is that of `last`, and
 * `term_of` gives the others. False: out of memory. */
MUST_USE bool damage_add(struct damage *gaps, uint64_t first, uint64_t last,
                         uint64_t (*term_of)(void *arg, uint64_t index), void *arg);

/* The same, behind all others and with unknown terms. */
MUST_USE bool damage_push(struct damage *gaps, struct gap gap);

/* [first, index] and [index + 1, last]; `term` is that of `index`. */
MUST_USE bool damage_split(struct damage *gaps, struct gap *gap, uint64_t index, uint64_t term);

/* Entries from `from` on leave the log; the last one of a gap across it then has `prev_term`. */
void damage_cut(struct damage *gaps, uint64_t from, uint64_t prev_term);
void damage_drop_below(struct damage *gaps, uint64_t first); /* entries below leave the log */

/* Entries [first, last] can be read again: the beginning of a gap, or all of it. */
void damage_filled(struct damage *gaps, uint64_t first, uint64_t last);

#endif
