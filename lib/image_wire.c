#include "lib/image_wire.h"

#include "base/crc.h"
#include "base/cursor.h"

enum { CHUNK_HEADER = 48, ACK_SIZE = 25 };

uint64_t image_file_id(struct slice head, struct slice tail) {
    return (uint64_t)crc32c(0, head) << 32 | crc32c(0, tail);
}

void image_chunk_encode(const struct image_chunk *chunk, struct buffer *out) {
    uint8_t header[CHUNK_HEADER];
    struct writer writer = writer_of(header, sizeof(header));
    write_u64(&writer, chunk->leader_term);
    write_u64(&writer, chunk->image_index);
    write_u64(&writer, chunk->image_term);
    write_u64(&writer, chunk->size);
    write_u64(&writer, chunk->file_id);
    write_u64(&writer, chunk->offset);
    buffer_append(out, header, sizeof(header));
    buffer_append(out, chunk->bytes.data, chunk->bytes.size);
}

int image_chunk_decode(struct slice body, struct image_chunk *out) {
    struct reader reader = reader_of(body);
    out->leader_term = read_u64(&reader);
    out->image_index = read_u64(&reader);
    out->image_term = read_u64(&reader);
    out->size = read_u64(&reader);
    out->file_id = read_u64(&reader);
    out->offset = read_u64(&reader);
    out->bytes = read_bytes(&reader, reader.left);
    bool good = !reader.failed && out->image_index > 0 && out->offset <= out->size &&
                out->bytes.size <= out->size - out->offset;
    return good ? 0 : LKV_EPROTOCOL;
}

void image_ack_encode(const struct image_ack *ack, struct buffer *out) {
    uint8_t bytes[ACK_SIZE];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    write_u64(&writer, ack->image_index);
    write_u64(&writer, ack->file_id);
    write_u64(&writer, ack->next_offset);
    write_u8(&writer, (uint8_t)ack->state);
    buffer_append(out, bytes, sizeof(bytes));
}

int image_ack_decode(struct slice body, struct image_ack *out) {
    struct reader reader = reader_of(body);
    out->image_index = read_u64(&reader);
    out->file_id = read_u64(&reader);
    out->next_offset = read_u64(&reader);
    uint8_t state = read_u8(&reader);
    if (reader.failed || reader.left != 0 || state < IMAGE_ACK_MORE || state > IMAGE_ACK_FAILED) {
        return LKV_EPROTOCOL;
    }
    out->state = (enum image_ack_state)state;
    return 0;
}
