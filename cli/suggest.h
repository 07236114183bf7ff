/* The nearest known word to one that was mistyped. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>

/* Zero-initialised: nothing near yet. */
struct suggestion {
    const char *word; /* NULL: nothing is near; borrowed from the caller */
    size_t distance;
};

/* Remembers `candidate` if it is near to `typed` and nearer than what is remembered. */
void suggestion_try(struct suggestion *suggestion, const char *typed, const char *candidate);

#endif
