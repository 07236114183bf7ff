/* Bounds-checked reading and writing of fixed-width little-endian fields: the disk formats read
 * like their tables, and no parser does pointer arithmetic of its own. A read past the end sets
 * `failed` and gives zero; the parser asks once, when it has read everything. */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include "base/slice.h"

struct reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

struct reader reader_of(struct slice bytes);
uint8_t read_u8(struct reader *reader);
uint16_t read_u16(struct reader *reader);
uint32_t read_u32(struct reader *reader);
uint64_t read_u64(struct reader *reader);
struct slice read_bytes(struct reader *reader, size_t size); /* borrows from the source */

/* Writes into memory of the caller; running out of room sets `failed` and writes nothing more. */
struct writer {
    uint8_t *at;
    size_t left;
    bool failed;
};

struct writer writer_of(void *data, size_t size);
void write_u8(struct writer *writer, uint8_t value);
void write_u16(struct writer *writer, uint16_t value);
void write_u32(struct writer *writer, uint32_t value);
void write_u64(struct writer *writer, uint64_t value);
void write_bytes(struct writer *writer, struct slice bytes);

#endif
