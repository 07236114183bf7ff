/* The bytes of a link between nodes: a frame as it is read from a connection, or the body of one kind of
 * frame as it is after the checksum (which a search does not pass by itself).
 *
 * What decodes must be written and read again alike; what does not must say why. */
#include "base/assert.h"
#include "lib/frame.h"
#include "lib/hello_wire.h"
#include "lib/image_wire.h"
#include "raft/wire.h"

static void read_frame(struct slice bytes) {
    struct frame frame;
    struct reason why = {{0}};
    int rc = frame_decode(bytes, 0, FRAME_HELLO_MAX, &frame, &why);
    ASSERT((rc < 0) == (why.text[0] != '\0'));
    ASSERT(rc != 1 ||
           (frame.size <= bytes.size && frame.body.size + FRAME_HEADER_SIZE == frame.size));
}

static void read_hello(struct slice body) {
    struct hello hello, again;
    struct reason why = {{0}};
    int rc = hello_decode(body, &hello, &why);
    ASSERT((rc != 0) == (why.text[0] != '\0'));
    if (rc != 0) {
        return;
    }
    struct buffer out;
    buffer_init(&out);
    hello_encode(&hello, &out);
    ASSERT(!out.failed && hello_decode(buffer_slice(&out), &again, &why) == 0);
    ASSERT(again.member_id == hello.member_id && again.member_count == hello.member_count);
    buffer_fini(&out);
}

static void read_raft(struct slice body) {
    struct raft_packet packet, again;
    struct reason why = {{0}};
    int rc = raft_wire_decode(body, &packet, &why);
    ASSERT((rc != 0) == (why.text[0] != '\0'));
    if (rc != 0) {
        return;
    }
    struct buffer out;
    buffer_init(&out);
    raft_wire_encode(&packet.message, packet.entries, &out);
    ASSERT(!out.failed && raft_wire_decode(buffer_slice(&out), &again, &why) == 0);
    ASSERT(again.message.kind == packet.message.kind && again.message.term == packet.message.term);
    raft_packet_fini(&again);
    raft_packet_fini(&packet);
    buffer_fini(&out);
}

static void read_image_chunk(struct slice body) {
    struct image_chunk chunk;
    if (image_chunk_decode(body, &chunk) == 0) {
        ASSERT(chunk.bytes.size <= body.size);
        struct buffer out;
        buffer_init(&out);
        image_chunk_encode(&chunk, &out);
        ASSERT(!out.failed && image_chunk_decode(buffer_slice(&out), &chunk) == 0);
        buffer_fini(&out);
    }
}

static void read_image_ack(struct slice body) {
    struct image_ack ack;
    if (image_ack_decode(body, &ack) == 0) {
        ASSERT(ack.state >= IMAGE_ACK_MORE && ack.state <= IMAGE_ACK_FAILED);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const readers[])(struct slice) = {read_frame, read_hello, read_raft,
                                                    read_image_chunk, read_image_ack};
    if (size >= 1) {
        readers[data[0] % (sizeof(readers) / sizeof(readers[0]))](slice_of(data + 1, size - 1));
    }
    return 0;
}
