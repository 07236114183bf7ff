/* Checks a history that says of each answer at which log index it took effect: replayed in the order of
 * the indices every read must show what was written last, and the order must agree with real time.
 *
 * Of an operation whose outcome is unknown the history has no index; a read that shows its value places
 * it, by the revision that it tells. O(n log n). */
#ifndef TESTS_SUPPORT_WITNESS_H
#define TESTS_SUPPORT_WITNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct witness;

struct witness_counts {
    uint64_t operations, ok, failed, unknown; /* unknown: info, or never returned */
    uint64_t placed;                          /* of these, seen by a read */
};

/* Never NULL: the test program ends when memory does. */
struct witness *witness_new(void);
void witness_free(struct witness *witness);

/* One line of a history, without its newline. False: malformed, `witness_why` tells. */
bool witness_line(struct witness *witness, const char *line);

/* When all lines were given. False: not linearizable, `witness_why` tells. */
bool witness_check(struct witness *witness, struct witness_counts *counts);

/* How many writes of the key the history acknowledges, and how many may have happened besides. After
 * witness_check. */
void witness_writes(const struct witness *witness, const char *key, uint64_t *done,
                    uint64_t *unknown);

const char *witness_why(const struct witness *witness);

#endif
