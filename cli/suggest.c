/* The nearest known word: edit distance with swaps of neighbours (optimal string alignment). */
#include "suggest.h"

#include <string.h>

enum { WORD_LENGTH_MAX = 40 };

static size_t min3(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

static size_t distance(const char *a, const char *b) {
    size_t rows[3][WORD_LENGTH_MAX + 1]; /* the row being made and the two above it, in turn */
    size_t a_length = strlen(a);
    size_t b_length = strlen(b);
    for (size_t j = 0; j <= b_length; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t change = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = min3(above[j] + 1, row[j - 1] + 1, change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                size_t swap = rows[(i - 2) % 3][j - 2] + 1;
                row[j] = swap < row[j] ? swap : row[j];
            }
        }
    }
    return rows[a_length % 3][b_length];
}

void suggestion_try(struct suggestion *suggestion, const char *typed, const char *candidate) {
    size_t typed_length = strlen(typed);
    size_t length = strlen(candidate);
    if (typed_length == 0 || typed_length > WORD_LENGTH_MAX || length > WORD_LENGTH_MAX) {
        return;
    }
    size_t near = typed_length < 3 ? 1 : typed_length < 6 ? 2 : 3;
    size_t found = distance(typed, candidate);
    if (found <= near && (suggestion->word == NULL || found < suggestion->distance)) {
        suggestion->word = candidate;
        suggestion->distance = found;
    }
}
