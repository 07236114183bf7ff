/* Leases as bytes: the records of an image's section, what their digest is made of, and checkpoints. */
#include "base/assert.h"
#include "kv/digest.h"
#include "kv/lease.h"

static void write_lease(uint8_t into[LEASE_SIZE], const struct kv_lease *lease) {
    struct writer writer = writer_of(into, LEASE_SIZE);
    write_u64(&writer, (uint64_t)lease->id);
    write_u64(&writer, lease->granted);
    write_u64(&writer, lease->ttl_ms);
    write_u64(&writer, lease->remaining_ms);
    ASSERT(!writer.failed && writer.left == 0);
}

void lease_put(struct buffer *into, const struct kv_lease *lease) {
    uint8_t bytes[LEASE_SIZE];
    write_lease(bytes, lease);
    buffer_append(into, bytes, sizeof(bytes));
}

bool lease_get(struct reader *reader, struct kv_lease *out) {
    uint64_t id = read_u64(reader);
    out->id = id <= INT64_MAX ? (int64_t)id : 0;
    out->granted = read_u64(reader);
    out->ttl_ms = read_u64(reader);
    out->remaining_ms = read_u64(reader);
    return !reader->failed && out->id > 0 && out->granted > 0 && out->ttl_ms > 0 &&
           out->ttl_ms <= KV_LEASE_TTL_MS_MAX && out->remaining_ms <= out->ttl_ms;
}

uint64_t lease_digest(const struct kv_lease *lease) {
    uint8_t bytes[LEASE_SIZE];
    write_lease(bytes, lease);
    return digest_of_lease(slice_of(bytes, sizeof(bytes)));
}

void kv_checkpoint_put(struct buffer *into, const struct kv_checkpoint *checkpoint) {
    uint8_t bytes[KV_CHECKPOINT_SIZE];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    write_u64(&writer, (uint64_t)checkpoint->id);
    write_u64(&writer, checkpoint->granted);
    write_u64(&writer, checkpoint->remaining_ms);
    ASSERT(!writer.failed && writer.left == 0);
    buffer_append(into, bytes, sizeof(bytes));
}

bool kv_checkpoint_get(struct reader *reader, struct kv_checkpoint *out) {
    uint64_t id = read_u64(reader);
    out->id = id <= INT64_MAX ? (int64_t)id : 0;
    out->granted = read_u64(reader);
    out->remaining_ms = read_u64(reader);
    return !reader->failed && out->id > 0 && out->granted > 0;
}
