/* The two frames of an image's way to a follower (docs/formats/peer-frames.md). Fixed fields, little
 * endian; the frame's checksum covers them. */
#ifndef LIB_IMAGE_WIRE_H
#define LIB_IMAGE_WIRE_H

#include "base/buffer.h"
#include "base/error.h"

struct image_chunk {
    uint64_t leader_term;             /* a deposed leader's chunks are refused (L4) */
    uint64_t image_index, image_term; /* which image */
    uint64_t size;                    /* of the whole file */
    uint64_t file_id;                 /* image_file_id: of its first and last bytes */
    uint64_t offset;                  /* of these bytes in it */
    struct slice bytes;
};

enum image_ack_state {
    IMAGE_ACK_MORE = 1,      /* send from next_offset on */
    IMAGE_ACK_INSTALLED = 2, /* durable, and the state is the image's or later */
    IMAGE_ACK_FAILED = 3     /* given up: start anew later */
};

struct image_ack {
    uint64_t image_index, file_id; /* of the chunk that is answered */
    uint64_t next_offset;
    enum image_ack_state state;
};

/* Tells files of one index, term and size apart, without reading all of them. Head and tail are up to
 * IMAGE_ID_BYTES of the file's two ends, and may overlap. */
enum { IMAGE_ID_BYTES = 4096 };
uint64_t image_file_id(struct slice head, struct slice tail);

void image_chunk_encode(const struct image_chunk *chunk, struct buffer *out);
MUST_USE int image_chunk_decode(struct slice body, struct image_chunk *out);
void image_ack_encode(const struct image_ack *ack, struct buffer *out);
MUST_USE int image_ack_decode(struct slice body, struct image_ack *out);

#endif
