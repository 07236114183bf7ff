/* Reads a history of registers, one line an event:
 *
 *   t_ns  process  invoke|ok|fail|info  get|put|delete|cas  key  a  b  [index  session:seq  node]
 *
 * separated by tabs; trailing columns may be missing, `-` or nothing is none, bytes are percent-encoded,
 * lines that begin with # are comments. `a` is what a put writes, what a get was answered (none: there is
 * no such key), what a cas found; `b` is what a cas writes. `fail` is definitely not done, `info` is
 * unknown and open for ever, like an operation without a second line. A last line without its newline was
 * cut off when its writer died, and is not read. */
#ifndef TESTS_SUPPORT_HISTORY_H
#define TESTS_SUPPORT_HISTORY_H

#include "tests/support/linearizable.h"

enum { HISTORY_LINE_BYTES_MAX = 1 << 20, HISTORY_PROCESSES_MAX = 1 << 24 };

struct history_names;

struct history {
    struct lin_op *ops; /* owned, in the order of their first lines */
    struct history_origin {
        size_t line; /* from 1, of the invoke */
        uint64_t process;
    } * origins; /* owned, [op] */
    size_t count, capacity;
    struct history_names *keys, *values; /* owned: their texts, by number */
    struct lin_names names;              /* for lin_print; valid until history_free */
    char why[512];
};

/* NULL only with `why` set: FILE:LINE: expected, found. Ends the program when memory ends. */
struct history *history_read(const char *path, char why[static 512]);
/* The same of a stream that is called `name` in messages. */
struct history *history_read_from(FILE *file, const char *name, char why[static 512]);
void history_free(struct history *history);

#endif
