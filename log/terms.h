/* Which term each kept index has, as runs: a few entries for millions of records. */
#ifndef LOG_TERMS_H
#define LOG_TERMS_H

#include "log/log.h"

struct log_terms {
    struct log_run *runs; /* owned; ascending in first and in term */
    size_t count, capacity;
    uint64_t base_index,
        base_term; /* of the entry just before the first kept; 0 and 0 at the start */
    uint64_t last; /* last index covered; base_index when there is none */
};

void log_terms_restart(struct log_terms *terms, uint64_t base_index, uint64_t base_term);
void log_terms_fini(struct log_terms *terms);

/* Makes room for `more` pushes that cannot fail then. */
MUST_USE int log_terms_reserve(struct log_terms *terms, size_t more);
void log_terms_push(struct log_terms *terms, uint64_t index, uint64_t term); /* index = last + 1 */
void log_terms_cut(struct log_terms *terms, uint64_t from); /* forgets indices >= from */
/* Goes on to index `last`, whose term is `last_term`; those between get some term that does not
 * fall. Needs room for 2. */
void log_terms_skip(struct log_terms *terms, uint64_t last, uint64_t last_term);
/* Indices [first, first + count) get the terms of `entries`; those around them keep theirs. The first
 * prepares (LKV_ENOMEM), the second cannot fail and changes what the first was told. */
struct log_terms_change {
    struct log_run *runs; /* owned */
    size_t count, capacity;
};
MUST_USE int log_terms_plan(const struct log_terms *terms, const struct entry *entries,
                            size_t count, struct log_terms_change *change);
void log_terms_change(struct log_terms *terms, struct log_terms_change *change);
void log_terms_trim(struct log_terms *terms, uint64_t first); /* forgets indices < first */
/* The same, and the entry before has this term: what was only assumed to be lower is not. */
void log_terms_begin(struct log_terms *terms, uint64_t first, uint64_t before_term);

/* Term of an index in [base_index, last]. */
uint64_t log_terms_at(const struct log_terms *terms, uint64_t index);

#endif
