/* Breadth-first search over all states that a model can reach.
 *
 * A state is a plain struct without padding, compared as bytes. A visited state is kept as a 64-bit hash: two
 * states that share one would be taken for the same, which among ten million happens once in 400,000
 * runs. Whole states are kept for the frontier only. The shortest way to a violation is found by walking
 * its actions again. */
#ifndef MODELS_SEARCH_H
#define MODELS_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called by the model while its successors are listed. The text is used only when a way is told. */
void search_next(const void *state, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The state whose successors are being listed, or the one given next, breaks an invariant. */
void search_violated(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct search_model {
    const char *name;
    size_t state_size;
    const void *initial;
    void (*list_next)(const void *state);
    void (*print)(const void *state); /* the last state of a way; may be NULL */
};

/* Prints one line "NAME: N states, ..., no violation", or the way to one. Returns an exit code: 0, 1
 * violated, 2 beyond `states_max`. */
int search_run(const struct search_model *model, size_t states_max);

#endif
