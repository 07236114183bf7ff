/* Reference-counted bytes: the one form in which a payload travels from a caller through the
 * inbox, the log's window, the wire and the state machine without being copied.
 *
 * Written by its creator before it is shared, immutable afterwards. Any thread.
 */
#ifndef BASE_BLOB_H
#define BASE_BLOB_H

#include "base/slice.h"

#include <stdatomic.h>

struct blob {
    atomic_uint refs;
    uint32_t crc;   /* CRC32C of data, valid once crc_known; set before the blob is shared */
    bool crc_known; /* (a payload's checksum is computed once, where the bytes enter) */
    size_t size;
    uint8_t data[];
};

struct blob *blob_new(size_t size);         /* returns owned (one reference), or NULL */
struct blob *blob_copy(struct slice bytes); /* returns owned, or NULL */
struct blob *blob_ref(struct blob *blob);   /* returns its argument; NULL is fine */
void blob_unref(struct blob *blob);         /* NULL is fine */
static inline struct slice blob_slice(const struct blob *blob) {
    return blob != NULL ? slice_of(blob->data, blob->size) : (struct slice){0};
}

#endif
