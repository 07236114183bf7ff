/* The header that stands before the caller's bytes in an entry of a record that was appended in a session
 * (ENTRY_ONCE); docs/formats/log.md is its table. Readers never see it.
 *
 * The records of one append are side by side and know their place among them, so the last one says
 * that all are there: whoever leads a term gives its indices without a gap. */
#ifndef LIB_ONCE_H
#define LIB_ONCE_H

#include "base/entry.h"
#include "base/error.h"
#include "kv/session.h"

enum { ONCE_HEADER_SIZE = 32 };

struct once_header {
    struct session_call call;
    uint32_t position, count; /* of this record, among those of its append */
    uint32_t crc; /* of the whole append, once_crc: the same number must mean the same */
};

void once_encode(const struct once_header *header, uint8_t out[static ONCE_HEADER_SIZE]);
/* LKV_EPROTOCOL: no such header. */
MUST_USE int once_decode(struct slice payload, struct once_header *out);

/* CRC32C of sizes and bytes of all records, never 0. */
uint32_t once_crc(const struct slice *records, size_t count);

#endif
