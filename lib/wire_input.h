/* Frames out of a stream of bytes: each whole one is handed on where it lies, and only the beginning
 * of one that is still arriving is kept. Loop thread. */
#ifndef LIB_WIRE_INPUT_H
#define LIB_WIRE_INPUT_H

#include "base/buffer.h"
#include "base/scan.h"

struct wire_input {
    struct buffer kept;
    struct scan scan; /* of the frame at the front of `kept` */
};

enum wire_taken { WIRE_MORE = 0, WIRE_PAUSE = 1 };

/* The frame is valid until it returns. WIRE_PAUSE: no more for now; an error ends it too. */
typedef int wire_take_fn(void *arg, struct slice frame);

void wire_input_init(struct wire_input *input);
void wire_input_fini(struct wire_input *input);

/* Hands on all whole frames in what was kept and `bytes` (may be empty: go on after a pause).
 * Returns 0, WIRE_PAUSE, the error of `take`, LKV_ENOMEM, or the scan's refusal with its reason;
 * after an error the input must not be used any more, except for fini. */
MUST_USE int wire_input_feed(struct wire_input *input, struct slice bytes,
                             const struct scan_limits *limits, wire_take_fn *take, void *arg,
                             struct reason *why);

#endif
