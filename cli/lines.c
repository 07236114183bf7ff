/* Lines of a file or pipe: see lines.h. */
#include "lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    READ_SIZE = 262144,
    LINE_BYTES_MAX =
        128 * 1024 * 1024 /* the largest value, each byte written as \u00XX, and a key */
};

void lines_wait(const struct lines *lines, int ms) {
    struct pollfd fd = {.fd = lines->fd, .events = POLLIN};
    poll(&fd, 1, ms);
}

static bool is_readable(const struct lines *lines) {
    struct pollfd fd = {.fd = lines->fd, .events = POLLIN};
    return poll(&fd, 1, 0) != 0; /* an error shows itself in read() */
}

/* What was given out makes room at the front. */
static void drop_taken(struct lines *lines) {
    struct text *buffer = &lines->buffer;
    if (lines->start > 0) {
        memmove(buffer->data, buffer->data + lines->start, buffer->size - lines->start);
        buffer->size -= lines->start;
        lines->searched -= lines->start;
        lines->start = 0;
    }
}

static enum line_state read_more(struct lines *lines) {
    if (!is_readable(lines)) {
        return LINE_LATER;
    }
    drop_taken(lines);
    char *block = must_realloc(NULL, READ_SIZE);
    ssize_t size;
    do {
        size = read(lines->fd, block, READ_SIZE);
    } while (size < 0 && errno == EINTR);
    if (size > 0) {
        text_add(&lines->buffer, block, (size_t)size);
    }
    int reason = errno;
    free(block);
    errno = reason;
    if (size < 0) {
        return errno == EAGAIN ? LINE_LATER : LINE_FAILED;
    }
    lines->ended = size == 0;
    return LINE_READ;
}

enum line_state lines_next(struct lines *lines, struct lkv_bytes *line) {
    struct text *buffer = &lines->buffer;
    for (;;) {
        char *newline = NULL;
        if (buffer->size > lines->searched) {
            newline = memchr(buffer->data + lines->searched, '\n', buffer->size - lines->searched);
        }
        bool rest = lines->ended && buffer->size > lines->start;
        if (newline != NULL || rest) {
            size_t end = newline != NULL ? (size_t)(newline - buffer->data) : buffer->size;
            size_t next = newline != NULL ? end + 1 : end;
            *line = (struct lkv_bytes){buffer->data + lines->start, end - lines->start};
            lines->taken += next - lines->start;
            lines->start = lines->searched = next;
            return LINE_READ;
        }
        if (lines->ended) {
            return LINE_END;
        }
        if (buffer->size - lines->start > LINE_BYTES_MAX) { /* whoever writes it may never end */
            errno = EMSGSIZE;
            return LINE_FAILED;
        }
        lines->searched = buffer->size;
        enum line_state state = read_more(lines);
        if (state != LINE_READ) {
            return state;
        }
    }
}

void lines_free(struct lines *lines) {
    text_free(&lines->buffer);
}
