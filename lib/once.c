#include "lib/once.h"

#include "base/assert.h"
#include "base/crc.h"
#include "base/cursor.h"
#include "lib/ledgerkv.h"

void once_encode(const struct once_header *header, uint8_t out[static ONCE_HEADER_SIZE]) {
    struct writer writer = writer_of(out, ONCE_HEADER_SIZE);
    write_u64(&writer, header->call.id);
    write_u64(&writer, header->call.seq);
    write_u64(&writer, header->call.acked_below);
    write_u16(&writer, (uint16_t)header->position);
    write_u16(&writer, (uint16_t)header->count);
    write_u32(&writer, header->crc);
    ASSERT(!writer.failed && writer.left == 0);
}

int once_decode(struct slice payload, struct once_header *out) {
    struct reader reader = reader_of(payload);
    out->call.id = read_u64(&reader);
    out->call.seq = read_u64(&reader);
    out->call.acked_below = read_u64(&reader);
    out->position = read_u16(&reader);
    out->count = read_u16(&reader);
    out->crc = read_u32(&reader);
    bool good = !reader.failed && out->call.id != 0 && out->call.seq != 0 &&
                out->call.acked_below <= out->call.seq && out->position < out->count &&
                out->count <= LKV_APPEND_RECORDS_MAX;
    return good ? 0 : LKV_EPROTOCOL;
}

uint32_t once_crc(const struct slice *records, size_t count) {
    uint32_t crc = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t size[8];
        struct writer writer = writer_of(size, sizeof(size));
        write_u64(&writer, records[i].size);
        crc = crc32c(crc32c(crc, slice_of(size, sizeof(size))), records[i]);
    }
    return crc != 0 ? crc : 1;
}
