/* Bytes on their way to one socket: small writes are gathered by copying, big payloads are only
 * referenced. Loop thread. */
#ifndef LIB_UV_OUTPUT_H
#define LIB_UV_OUTPUT_H

#include "base/blob.h"
#include "base/error.h"

#include <uv.h>

enum {
    OUTPUT_CHUNK_SIZE = 16 * 1024,
    OUTPUT_COPY_MAX = 1024 /* a copy of so few bytes is cheaper than one more piece to send */
};

/* A range of a blob. */
struct output_part {
    struct blob *blob; /* owned reference */
    size_t start;
    size_t end;
    bool open; /* a chunk of ours: bytes may be added after `end` */
};

struct output {
    struct output_part *parts; /* owned; those from `head` on are queued */
    size_t head;
    size_t count;
    size_t capacity;
    size_t bytes;
};

void output_init(struct output *output);
void output_fini(struct output *output);

/* LKV_ENOMEM, and then nothing has been added. */
int output_write(struct output *output, struct slice bytes) MUST_USE;     /* copies */
int output_write_blob(struct output *output, struct blob *blob) MUST_USE; /* takes a reference */

/* Points up to `max` buffers to the front of the queue; returns how many. They are valid until
 * those bytes are consumed, whatever is written meanwhile. */
unsigned output_peek(const struct output *output, uv_buf_t *buffers, unsigned max);

void output_consume(struct output *output, size_t size); /* at most `bytes` */
void output_clear(struct output *output);

#endif
