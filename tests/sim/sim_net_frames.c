/* Frames between nodes that are lost, doubled, swapped or changed on their way.
 *
 * A TCP stream does none of this by itself, and what is built on it must not need that it does not
 * (N16): a frame may wait in a queue that is dropped, and go out again on the next connection. Hellos
 * and refusals are left alone, since they are a connection's own; clients' streams, too. */
#include "tests/sim/sim_net_conn.h"

#include "base/assert.h"
#include "lib/frame.h"

#include <stdlib.h>

enum { SIZE_OFFSET = 4, KIND_OFFSET = 2, FRAMES_MAX = 4096 };

struct span {
    size_t at, size;
};

static bool happens(struct sim_net *net, uint32_t permille) {
    return permille > 0 && prng_below(&net->prng, 1000) < permille;
}

/* The frame that begins there; 0 when it is none, or not all of it is there. */
static size_t frame_size_at(const uint8_t *bytes, size_t size) {
    if (size < FRAME_HEADER_SIZE || bytes[0] != 'L' || bytes[1] != 'K') {
        return 0;
    }
    size_t body = 0;
    for (size_t i = 0; i < 4; i++) {
        body |= (size_t)bytes[SIZE_OFFSET + i] << (8 * i);
    }
    return body <= size - FRAME_HEADER_SIZE ? FRAME_HEADER_SIZE + body : 0;
}

static bool may_suffer(const uint8_t *frame) {
    return frame[KIND_OFFSET] != FRAME_HELLO && frame[KIND_OFFSET] != FRAME_REFUSED;
}

static void put(struct sim_conn *conn, const uint8_t *from, size_t size, bool changed) {
    struct sim_net *net = conn->host->network;
    if (conn->out_size + size > conn->out_capacity) {
        conn->out_capacity = (conn->out_size + size) * 2;
        conn->out = realloc(conn->out, conn->out_capacity);
        ASSERT(conn->out != NULL);
    }
    memcpy(conn->out + conn->out_size, from, size);
    if (changed) {
        size_t at = (size_t)prng_below(&net->prng, size);
        conn->out[conn->out_size + at] ^= (uint8_t)(1u << prng_below(&net->prng, 8));
        net->counts.frames_changed++;
    }
    conn->out_size += size;
}

static void send_frame(struct sim_conn *conn, const uint8_t *frame, size_t size) {
    struct sim_net *net = conn->host->network;
    if (!may_suffer(frame)) {
        put(conn, frame, size, false);
    } else if (conn->stretch) {
        conn->stretch = false;
        put(conn, frame, size, false);
        conn->out[conn->out_size - size + SIZE_OFFSET + 2] |= 0x10;
        net->counts.frames_changed++;
    } else if (happens(net, net->options.frame_drop_permille)) {
        net->counts.frames_dropped++;
    } else {
        put(conn, frame, size, happens(net, net->options.frame_change_permille));
        if (happens(net, net->options.frame_double_permille)) {
            put(conn, frame, size, false);
            net->counts.frames_doubled++;
        }
    }
}

/* Where the whole frames of these bytes are; what is behind them is no frame, or the end of one is
 * missing. Returns how many bytes they are. */
static size_t find_frames(const uint8_t *bytes, size_t size, struct span *frames, size_t *count) {
    size_t at = 0, next;
    while (*count < FRAMES_MAX && (next = frame_size_at(bytes + at, size - at)) > 0) {
        frames[(*count)++] = (struct span){.at = at, .size = next};
        at += next;
    }
    return at;
}

static void swap_some(struct sim_net *net, const uint8_t *bytes, struct span *frames,
                      size_t count) {
    for (size_t i = 0; i + 1 < count; i++) {
        if (may_suffer(bytes + frames[i].at) && may_suffer(bytes + frames[i + 1].at) &&
            happens(net, net->options.frame_swap_permille)) {
            struct span first = frames[i];
            frames[i] = frames[i + 1];
            frames[i + 1] = first;
            net->counts.frames_swapped++;
        }
    }
}

static bool is_off(const struct sim_net_options *options) {
    return options->frame_drop_permille == 0 && options->frame_double_permille == 0 &&
           options->frame_swap_permille == 0 && options->frame_change_permille == 0;
}

void sim_conn_shape(struct sim_conn *conn) {
    struct sim_net *net = conn->host->network;
    size_t size = conn->out_size - conn->shaped, count = 0;
    if (size == 0 || conn->unshaped || (is_off(&net->options) && !conn->stretch)) {
        return;
    }
    uint8_t *bytes = malloc(size);
    struct span *frames = malloc(FRAMES_MAX * sizeof(*frames));
    ASSERT(bytes != NULL && frames != NULL);
    memcpy(bytes, conn->out + conn->shaped, size);
    size_t whole = find_frames(bytes, size, frames, &count);
    swap_some(net, bytes, frames, count);
    conn->out_size = conn->shaped;
    for (size_t i = 0; i < count; i++) {
        send_frame(conn, bytes + frames[i].at, frames[i].size);
    }
    if (whole < size) { /* a client's stream; or a frame that is written piece by piece */
        put(conn, bytes + whole, size - whole, false);
        conn->unshaped = true;
    }
    free(frames);
    free(bytes);
}

bool sim_net_stretch(struct sim_net *net, unsigned from, unsigned to) {
    struct list_link *conns = &net->hosts[from].conns;
    for (struct list_link *at = conns->next; at != conns; at = at->next) {
        struct sim_conn *conn = LIST_ITEM(at, struct sim_conn, link);
        if (conn->dialed && conn->peer_host == to && conn->state == SIM_CONN_OPEN) {
            conn->stretch = true;
            return true;
        }
    }
    return false;
}
