/* Lines of a file or pipe, without ever waiting for the writer. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "bytes.h"

#include <stdint.h>

struct lines {
    int fd;
    struct text buffer; /* owned: what was read and not yet given out, from `start` on */
    size_t start, searched;
    uint64_t taken; /* bytes given out */
    bool ended;
};

enum line_state { LINE_READ, LINE_LATER, LINE_END, LINE_FAILED };

/* A line without its newline, valid until the next call. LINE_LATER: none is there yet. LINE_FAILED:
 * errno says why; EMSGSIZE: the line has more than 128 MiB. */
enum line_state lines_next(struct lines *lines, struct lkv_bytes *line);

/* Waits until there is something to read, at most `ms`. */
void lines_wait(const struct lines *lines, int ms);
void lines_free(struct lines *lines);

#endif
