/* The search over one key's operations; see linearizable.h for how. */
#ifndef TESTS_SUPPORT_LINEARIZABLE_SEARCH_H
#define TESTS_SUPPORT_LINEARIZABLE_SEARCH_H

#include "tests/support/linearizable.h"

struct lin_search_result {
    enum lin_verdict verdict;
    size_t last; /* LIN_VIOLATED: position of the operation that found no place */
    size_t states_max;
    const char *limit; /* LIN_UNDECIDED: which */
};

/* Of one key, in any order; keys are not looked at. The register may hold any of `starts` at the
 * beginning. */
void lin_search(const struct lin_op *ops, size_t count, const uint64_t *starts, size_t start_count,
                size_t states_max, struct lin_search_result *out);

#endif
