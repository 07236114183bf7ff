/* Frames between nodes: a fixed header, then a body. docs/formats/peer-frames.md has the table.
 *
 * The checksum covers header and body and is seeded with the nonce that the receiver chose for this
 * connection (0 in the first hello): bytes recorded on another connection never pass (N11). */
#ifndef LIB_FRAME_H
#define LIB_FRAME_H

#include "base/buffer.h"
#include "base/error.h"

enum frame_kind {
    FRAME_HELLO = 1,
    FRAME_RAFT = 2,
    FRAME_IMAGE_CHUNK = 3,
    FRAME_IMAGE_ACK = 4,
    FRAME_REFUSED = 5, /* a sentence for the other node's trace; then the connection closes */
    FRAME_DIGEST = 6   /* agreement.h; from feature level FEATURE_DIGEST on */
};

/* Before the sentence of a refusal may stand a byte for the program. Others below 32 mean nothing yet. */
enum refusal_code {
    REFUSAL_PLAIN = 0, /* no such byte */
    REFUSAL_END_DOUBTED =
        1, /* of a hello: the sender's log lacks what it has acknowledged (rule 17) */
    REFUSAL_CODES = 32
};

enum {
    FRAME_HEADER_SIZE = 20,
    FRAME_BODY_MAX = 17 * 1024 * 1024,
    FRAME_HELLO_MAX = 64 * 1024 /* before the hello is accepted */
};

struct frame {
    enum frame_kind kind;
    uint64_t group_id;
    struct slice body; /* points into the parsed bytes */
    size_t size;       /* header and body */
};

/* Appends header and body. Failure is out->failed. */
void frame_encode(enum frame_kind kind, uint64_t group_id, uint32_t seed, struct slice body,
                  struct buffer *out);

/* 1: a whole frame; 0: more bytes are needed; LKV_EPROTOCOL, LKV_ETOOLARGE with the reason. Only the
 * header is looked at before the length has passed the limit. */
MUST_USE int frame_decode(struct slice bytes, uint32_t seed, size_t body_max, struct frame *out,
                          struct reason *why);

/* The checksum seed that a connection nonce stands for. */
static inline uint32_t frame_seed(uint64_t nonce) {
    return (uint32_t)(nonce ^ (nonce >> 32));
}

#endif
