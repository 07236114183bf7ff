/* The words of one line of a transaction's text, and what is wrong with them. */
#ifndef CLI_TXN_WORDS_H
#define CLI_TXN_WORDS_H

#include "bytes.h"

enum { WORDS_MAX = 8 };

/* A line that is being read, from left to right. Words are bare or in double quotes, with \n \t \r \" \\
 * \xNN; # begins a comment where a word could begin. Zero-initialised but for `at` and `end`. */
struct words {
    const char *at, *end;         /* what is left of it; borrowed */
    struct text taken[WORDS_MAX]; /* owned */
    size_t count;
    struct text fault; /* owned; empty: none. The first one stays */
};

void words_free(struct words *words);

/* Notes that something else was expected than what comes next. */
void words_expected(struct words *words, const char *what);
/* ... or than what has come. */
void words_found(struct words *words, const char *what, const struct text *found);

bool words_at_end(struct words *words);    /* nothing is left, but a comment */
bool words_at_option(struct words *words); /* next comes a bare word that begins with -- */

/* Takes the next word, `what` is what it is expected to be. An inside word ends at an operator, too. Never
 * NULL: empty after a fault. Valid until words_free. */
const struct text *words_take(struct words *words, const char *what);
const struct text *words_take_inside(struct words *words, const char *what);
/* ... which must not be empty. */
const struct text *words_take_key(struct words *words, bool inside);

/* The next word, if it is this bare one, is taken. */
bool words_skip(struct words *words, const char *name);
/* The next byte but blanks must be this one, and is taken. */
void words_skip_byte(struct words *words, char byte, const char *what);
/* = ! (for !=) < or >. */
char words_take_relation(struct words *words);

uint64_t words_take_u64(struct words *words, const char *what);
int64_t words_take_i64(struct words *words, const char *what);

#endif
