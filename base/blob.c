#include "base/blob.h"

#include "base/assert.h"
#include "base/mem.h"

struct blob *blob_new(size_t size) {
    if (size > SIZE_MAX - sizeof(struct blob)) {
        return NULL;
    }
    struct blob *blob = mem_alloc(sizeof(*blob) + size);
    if (blob == NULL) {
        return NULL;
    }
    atomic_init(&blob->refs, 1);
    blob->crc = 0;
    blob->crc_known = false;
    blob->size = size;
    return blob;
}

struct blob *blob_copy(struct slice bytes) {
    struct blob *blob = blob_new(bytes.size);
    if (blob != NULL && bytes.size > 0) {
        memcpy(blob->data, bytes.data, bytes.size);
    }
    return blob;
}

struct blob *blob_ref(struct blob *blob) {
    if (blob != NULL) {
        unsigned before = atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
        ASSERT(before > 0);
    }
    return blob;
}

void blob_unref(struct blob *blob) {
    if (blob == NULL) {
        return;
    }
    /* acq_rel: the last holder must see every write of the others before the bytes go. */
    unsigned before = atomic_fetch_sub_explicit(&blob->refs, 1, memory_order_acq_rel);
    ASSERT(before > 0);
    if (before == 1) {
        mem_free(blob);
    }
}
