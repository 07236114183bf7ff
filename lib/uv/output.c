#include "lib/uv/output.h"

#include "base/assert.h"
#include "base/mem.h"

void output_init(struct output *output) {
    *output = (struct output){0};
}

void output_clear(struct output *output) {
    for (size_t i = output->head; i < output->count; i++) {
        blob_unref(output->parts[i].blob);
    }
    output->head = output->count = 0;
    output->bytes = 0;
}

void output_fini(struct output *output) {
    output_clear(output);
    mem_free(output->parts);
    output_init(output);
}

/* Makes room for one more part; NULL when out of memory. */
static struct output_part *next_part(struct output *output) {
    if (output->count == output->capacity && output->head > 0) {
        size_t queued = output->count - output->head;
        memmove(output->parts, output->parts + output->head, queued * sizeof(*output->parts));
        output->head = 0;
        output->count = queued;
    }
    struct output_part *grown =
        mem_array_grow(output->parts, &output->capacity, output->count + 1, sizeof(*output->parts));
    if (grown == NULL) {
        return NULL;
    }
    output->parts = grown;
    return &output->parts[output->count];
}

/* How much fits behind the last part. */
static size_t room(const struct output *output) {
    if (output->head == output->count) {
        return 0;
    }
    const struct output_part *last = &output->parts[output->count - 1];
    return last->open ? last->blob->size - last->end : 0;
}

static int add_chunk(struct output *output, size_t size) {
    struct output_part *part = next_part(output);
    if (part == NULL) {
        return LKV_ENOMEM;
    }
    struct blob *chunk = blob_new(size > OUTPUT_CHUNK_SIZE ? size : OUTPUT_CHUNK_SIZE);
    if (chunk == NULL) {
        return LKV_ENOMEM;
    }
    *part = (struct output_part){.blob = chunk, .open = true};
    output->count++;
    return 0;
}

static void append(struct output_part *part, struct slice bytes) {
    ASSERT(part->open && bytes.size <= part->blob->size - part->end);
    memcpy(part->blob->data + part->end, bytes.data, bytes.size);
    part->end += bytes.size;
}

/* A chunk is filled to its end before the next begins, so that the memory held is what is queued. */
int output_write(struct output *output, struct slice bytes) {
    if (bytes.size == 0) {
        return 0;
    }
    size_t fits = room(output);
    if (bytes.size > fits) {
        int rc = add_chunk(output, bytes.size - fits);
        if (rc != 0) {
            return rc;
        }
        if (fits > 0) {
            append(&output->parts[output->count - 2], slice_of(bytes.data, fits));
        }
    } else {
        fits = 0;
    }
    append(&output->parts[output->count - 1], slice_of(bytes.data + fits, bytes.size - fits));
    output->bytes += bytes.size;
    return 0;
}

int output_write_blob(struct output *output, struct blob *blob) {
    if (blob->size <= OUTPUT_COPY_MAX) {
        return output_write(output, blob_slice(blob));
    }
    struct output_part *part = next_part(output);
    if (part == NULL) {
        return LKV_ENOMEM;
    }
    *part = (struct output_part){.blob = blob_ref(blob), .end = blob->size};
    output->count++;
    output->bytes += blob->size;
    return 0;
}

unsigned output_peek(const struct output *output, uv_buf_t *buffers, unsigned max) {
    unsigned filled = 0;
    for (size_t i = output->head; i < output->count && filled < max; i++) {
        const struct output_part *part = &output->parts[i];
        buffers[filled].base = (char *)part->blob->data + part->start;
        buffers[filled].len = part->end - part->start;
        filled++;
    }
    return filled;
}

void output_consume(struct output *output, size_t size) {
    ASSERT(size <= output->bytes);
    output->bytes -= size;
    while (size > 0) {
        struct output_part *part = &output->parts[output->head];
        size_t left = part->end - part->start;
        if (size < left) {
            part->start += size;
            return;
        }
        size -= left;
        blob_unref(part->blob);
        output->head++;
    }
    if (output->head == output->count) {
        output->head = output->count = 0;
    }
}
