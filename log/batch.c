/* Many records as one gathered write. Headers, padding and small payloads are copied together, so
 * that the kernel sees few pieces; large payloads are borrowed where they lie. */
#include "log/internal.h"

#include "base/assert.h"
#include "base/crc.h"
#include "base/mem.h"

enum { COPIED_PAYLOAD_MAX = 4096, KEPT_CAPACITY_MAX = 1024 * 1024 };

static bool is_copied(uint32_t length) {
    return length <= COPIED_PAYLOAD_MAX;
}

int batch_reserve(struct batch *batch, const struct entry *entries, size_t count) {
    size_t bytes = LOG_RECORD_HEADER, parts = 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t length = entry_length(&entries[i]);
        bytes += LOG_RECORD_HEADER + LOG_ALIGN + (is_copied(length) ? length : 0);
        parts += is_copied(length) ? 0 : 2;
    }
    uint8_t *grown = mem_array_grow(batch->bytes, &batch->capacity, bytes, 1);
    if (grown == NULL) {
        return LKV_ENOMEM;
    }
    batch->bytes = grown;
    struct slice *slices =
        mem_array_grow(batch->parts, &batch->part_capacity, parts, sizeof(*slices));
    if (slices == NULL) {
        return LKV_ENOMEM;
    }
    batch->parts = slices;
    return 0;
}

void batch_begin(struct batch *batch) {
    batch->size = 0;
    batch->part_count = 0;
}

void batch_shrink(struct batch *batch) {
    if (batch->capacity > KEPT_CAPACITY_MAX) {
        batch_fini(batch); /* one large burst must not cost memory for ever */
    }
}

static void add_part(struct batch *batch, const uint8_t *data, size_t size) {
    struct slice *last = batch->part_count > 0 ? &batch->parts[batch->part_count - 1] : NULL;
    if (size == 0) {
        return;
    }
    if (last != NULL && last->data + last->size == data) {
        last->size += size;
        return;
    }
    ASSERT(batch->part_count < batch->part_capacity);
    batch->parts[batch->part_count++] = slice_of(data, size);
}

static uint8_t *add_bytes(struct batch *batch, size_t size) {
    ASSERT(size <= batch->capacity - batch->size);
    uint8_t *at = batch->bytes + batch->size;
    batch->size += size;
    add_part(batch, at, size);
    return at;
}

static uint32_t payload_crc(const struct blob *payload) {
    if (payload == NULL) {
        return 0;
    }
    return payload->crc_known ? payload->crc : crc32c(0, blob_slice(payload));
}

static void add_record(struct batch *batch, const struct log *log, struct record_header *header,
                       const struct entry *entry, uint64_t offset) {
    uint32_t length = entry_length(entry);
    header->payload_crc = payload_crc(entry->payload);
    header->length = length;
    header->index = entry->index;
    header->term = entry->term;
    header->type = (uint8_t)entry->type;
    record_header_encode(header, &log->identity, offset, add_bytes(batch, LOG_RECORD_HEADER));
    if (is_copied(length) && length > 0) {
        memcpy(add_bytes(batch, length), entry->payload->data, length);
    } else if (length > 0) {
        add_part(batch, entry->payload->data, length);
    }
    size_t padding = (size_t)(record_size(length) - LOG_RECORD_HEADER - length);
    memset(add_bytes(batch, padding), 0, padding);
}

void batch_add(struct batch *batch, const struct log *log, const struct entry *entry,
               uint64_t prev_term, uint64_t offset) {
    struct record_header header = {.prev_term = prev_term,
                                   .segment = log->current->number,
                                   /* Rule 8: what was durable before this group commit. */
                                   .mark_index = log->last,
                                   .mark_term = log_terms_at(&log->terms, log->last)};
    add_record(batch, log, &header, entry, offset);
}

void batch_add_in(struct batch *batch, const struct log *log, const struct segment *segment,
                  const struct entry *entry, uint64_t prev_term, uint64_t offset) {
    struct record_header header = {.prev_term = prev_term,
                                   .segment = segment->number,
                                   .mark_index = segment->first - 1,
                                   .mark_term = segment->prev_term};
    add_record(batch, log, &header, entry, offset);
}

void batch_add_mark(struct batch *batch, const struct log *log, uint64_t offset) {
    uint64_t term = log_terms_at(&log->terms, log->last);
    struct record_header header = {.index = log->last,
                                   .term = term,
                                   .segment = log->current->number,
                                   .mark_index = log->last,
                                   .mark_term = term,
                                   .type = LOG_TYPE_MARK};
    record_header_encode(&header, &log->identity, offset, add_bytes(batch, LOG_RECORD_HEADER));
}

void batch_fini(struct batch *batch) {
    mem_free(batch->bytes);
    mem_free(batch->parts);
    *batch = (struct batch){0};
}
