/* The terms of a log's entries as runs: terms never fall, so a log of millions of entries has as
 * many runs as it has seen elections. Knows nothing of where the log ends: callers ask only for
 * indices inside the log. */
#ifndef RAFT_TERMS_H
#define RAFT_TERMS_H

#include "raft/raft.h"

struct terms {
    struct raft_run *runs; /* owned; ascending in first and in term */
    size_t count, capacity;
};

/* Copies the runs. False: out of memory. */
MUST_USE bool terms_init(struct terms *terms, const struct raft_run *runs, size_t count);
void terms_fini(struct terms *terms);

/* 0 below the first run. */
uint64_t terms_at(const struct terms *terms, uint64_t index);

/* Entries from `first` on have this term, at least the newest run's. False: out of memory. */
MUST_USE bool terms_push(struct terms *terms, uint64_t first, uint64_t term);

/* Entries [first, last] have this term, which lies between those of their neighbours. `end` is the log's
 * last index. False: out of memory. */
MUST_USE bool terms_set(struct terms *terms, uint64_t first, uint64_t last, uint64_t term,
                        uint64_t end);

void terms_cut(struct terms *terms, uint64_t from);         /* forgets entries from here on */
void terms_drop_below(struct terms *terms, uint64_t first); /* forgets entries below */
void terms_clear(struct terms *terms);

/* First index of the run that holds `index`; 0 below the first run. */
uint64_t terms_run_first(const struct terms *terms, uint64_t index);

/* The highest index at most `limit` with exactly this term; 0: there is none. */
uint64_t terms_last_of(const struct terms *terms, uint64_t term, uint64_t limit);

/* The highest index at most `limit` with this term or a lower one; 0: there is none. */
uint64_t terms_last_up_to(const struct terms *terms, uint64_t term, uint64_t limit);

#endif
