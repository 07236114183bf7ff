#include "base/cursor.h"

#include <endian.h>

struct reader reader_of(struct slice bytes) {
    return (struct reader){.at = bytes.data, .left = bytes.size};
}

struct slice read_bytes(struct reader *reader, size_t size) {
    if (reader->failed || size > reader->left) {
        reader->failed = true;
        return (struct slice){0};
    }
    struct slice taken = slice_of(reader->at, size);
    if (size > 0) {
        reader->at += size;
        reader->left -= size;
    }
    return taken;
}

static bool read_exact(struct reader *reader, void *into, size_t size) {
    struct slice taken = read_bytes(reader, size);
    if (reader->failed) {
        return false;
    }
    memcpy(into, taken.data, size);
    return true;
}

uint8_t read_u8(struct reader *reader) {
    uint8_t value;
    return read_exact(reader, &value, sizeof(value)) ? value : 0;
}

uint16_t read_u16(struct reader *reader) {
    uint16_t value;
    return read_exact(reader, &value, sizeof(value)) ? le16toh(value) : 0;
}

uint32_t read_u32(struct reader *reader) {
    uint32_t value;
    return read_exact(reader, &value, sizeof(value)) ? le32toh(value) : 0;
}

uint64_t read_u64(struct reader *reader) {
    uint64_t value;
    return read_exact(reader, &value, sizeof(value)) ? le64toh(value) : 0;
}

struct writer writer_of(void *data, size_t size) {
    return (struct writer){.at = data, .left = size};
}

void write_bytes(struct writer *writer, struct slice bytes) {
    if (writer->failed || bytes.size > writer->left) {
        writer->failed = true;
        return;
    }
    if (bytes.size > 0) {
        memcpy(writer->at, bytes.data, bytes.size);
        writer->at += bytes.size;
        writer->left -= bytes.size;
    }
}

void write_u8(struct writer *writer, uint8_t value) {
    write_bytes(writer, slice_of(&value, sizeof(value)));
}

void write_u16(struct writer *writer, uint16_t value) {
    value = htole16(value);
    write_bytes(writer, slice_of(&value, sizeof(value)));
}

void write_u32(struct writer *writer, uint32_t value) {
    value = htole32(value);
    write_bytes(writer, slice_of(&value, sizeof(value)));
}

void write_u64(struct writer *writer, uint64_t value) {
    value = htole64(value);
    write_bytes(writer, slice_of(&value, sizeof(value)));
}
