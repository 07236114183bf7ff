#include "lib/frame.h"

#include "base/crc.h"
#include "base/cursor.h"

enum { FRAME_MAGIC = 0x4b4c /* "LK" */, CRC_OFFSET = 16 };

static uint32_t frame_crc(uint32_t seed, const uint8_t *header, struct slice body) {
    return crc32c(crc32c(seed, slice_of(header, CRC_OFFSET)), body);
}

void frame_encode(enum frame_kind kind, uint64_t group_id, uint32_t seed, struct slice body,
                  struct buffer *out) {
    uint8_t header[FRAME_HEADER_SIZE];
    struct writer writer = writer_of(header, sizeof(header));
    write_u16(&writer, FRAME_MAGIC);
    write_u8(&writer, (uint8_t)kind);
    write_u8(&writer, 0); /* reserved */
    write_u32(&writer, (uint32_t)body.size);
    write_u64(&writer, group_id);
    write_u32(&writer, frame_crc(seed, header, body));
    buffer_append(out, header, sizeof(header));
    buffer_append(out, body.data, body.size);
}

int frame_decode(struct slice bytes, uint32_t seed, size_t body_max, struct frame *out,
                 struct reason *why) {
    if (bytes.size >= 2 && (bytes.data[0] | bytes.data[1] << 8) != FRAME_MAGIC) {
        return reason_set(why, LKV_EPROTOCOL, "frame begins with %02x %02x, expected 4c 4b",
                          bytes.data[0], bytes.data[1]);
    }
    if (bytes.size < FRAME_HEADER_SIZE) {
        return 0;
    }
    struct reader reader = reader_of(bytes);
    (void)read_u16(&reader);
    uint8_t kind = read_u8(&reader);
    (void)read_u8(&reader);
    uint32_t size = read_u32(&reader);
    uint64_t group_id = read_u64(&reader);
    uint32_t crc = read_u32(&reader);
    if (kind < FRAME_HELLO || kind > FRAME_DIGEST) {
        return reason_set(why, LKV_EPROTOCOL, "frame kind %u, expected %d to %d", kind, FRAME_HELLO,
                          FRAME_DIGEST);
    }
    if (size > body_max) {
        return reason_set(why, LKV_ETOOLARGE, "frame of %u bytes, limit %zu", size, body_max);
    }
    struct slice body = read_bytes(&reader, size);
    if (reader.failed) {
        return 0;
    }
    uint32_t found = frame_crc(seed, bytes.data, body);
    if (found != crc) {
        return reason_set(why, LKV_EPROTOCOL, "frame checksum %08x, expected %08x", found, crc);
    }
    *out = (struct frame){.kind = (enum frame_kind)kind,
                          .group_id = group_id,
                          .body = body,
                          .size = FRAME_HEADER_SIZE + (size_t)size};
    return 1;
}
