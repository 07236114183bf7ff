#include "lib/wire_input.h"

enum {
    FRAME_FIRST_CALL = 0x94,   /* an array of four, as requests and replies are */
    FRAME_FIRST_NOTICE = 0x93, /* ... of three, as notifications are */
    KEEP_CAPACITY_MAX = 64 * 1024
};

void wire_input_init(struct wire_input *input) {
    buffer_init(&input->kept);
    input->scan = (struct scan){0};
}

void wire_input_fini(struct wire_input *input) {
    buffer_fini(&input->kept);
}

/* Anything else could make us keep 17 MiB before somebody sees that it is no frame. */
static int check_first(uint8_t byte, struct reason *why) {
    if (byte == FRAME_FIRST_CALL || byte == FRAME_FIRST_NOTICE) {
        return 0;
    }
    return reason_set(why, LKV_EPROTOCOL, "a frame begins with byte 0x%02x, expected 0x%02x", byte,
                      FRAME_FIRST_CALL);
}

/* `*used` is the size of the frames handed on. */
static int take_frames(struct wire_input *input, struct slice bytes,
                       const struct scan_limits *limits, wire_take_fn *take, void *arg,
                       size_t *used, struct reason *why) {
    *used = 0;
    while (*used < bytes.size) {
        struct slice rest = slice_of(bytes.data + *used, bytes.size - *used);
        int rc = check_first(rest.data[0], why);
        rc = rc == 0 ? scan_object(&input->scan, rest, limits, why) : rc;
        if (rc != 1) {
            return rc; /* 0: the rest is the beginning of a frame */
        }
        struct slice frame = slice_of(rest.data, input->scan.offset);
        *used += frame.size;
        input->scan = (struct scan){0};
        rc = take(arg, frame);
        if (rc != WIRE_MORE) {
            return rc;
        }
    }
    return 0;
}

static int feed_kept(struct wire_input *input, struct slice bytes, const struct scan_limits *limits,
                     wire_take_fn *take, void *arg, struct reason *why) {
    buffer_append(&input->kept, bytes.data, bytes.size);
    if (input->kept.failed) {
        return reason_set(why, LKV_ENOMEM, "out of memory for a frame");
    }
    size_t used;
    int rc = take_frames(input, buffer_slice(&input->kept), limits, take, arg, &used, why);
    buffer_consume(&input->kept, used);
    if (input->kept.size == 0 && input->kept.capacity > KEEP_CAPACITY_MAX) {
        buffer_fini(&input->kept); /* one large frame must not cost memory for ever */
    }
    return rc;
}

int wire_input_feed(struct wire_input *input, struct slice bytes, const struct scan_limits *limits,
                    wire_take_fn *take, void *arg, struct reason *why) {
    if (input->kept.size > 0) {
        return feed_kept(input, bytes, limits, take, arg, why);
    }
    size_t used;
    int rc = take_frames(input, bytes, limits, take, arg, &used, why);
    if (rc < 0 || used == bytes.size) {
        return rc;
    }
    buffer_append(&input->kept, bytes.data + used, bytes.size - used);
    return input->kept.failed ? reason_set(why, LKV_ENOMEM, "out of memory for a frame") : rc;
}
