#include "kv/digest.h"

#include "base/assert.h"
#include "base/cursor.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t hash(struct slice bytes) {
    return XXH3_64bits(bytes.data, bytes.size);
}

uint64_t digest_of_session(struct slice bytes) {
    enum { SEED = 3 }; /* so that no session's bytes can pass for a key's numbers */
    return XXH3_64bits_withSeed(bytes.data, bytes.size, SEED);
}

uint64_t digest_of_lease(struct slice bytes) {
    enum { SEED = 4 };
    return XXH3_64bits_withSeed(bytes.data, bytes.size, SEED);
}

uint64_t digest_of(const struct digest_item *item) {
    uint8_t canonical[8 * sizeof(uint64_t)];
    struct writer writer = writer_of(canonical, sizeof(canonical));
    write_u64(&writer, item->key.size);
    write_u64(&writer, hash(item->key));
    write_u64(&writer, item->value.size);
    write_u64(&writer, hash(item->value));
    write_u64(&writer, item->create_rev);
    write_u64(&writer, item->mod_rev);
    write_u64(&writer, item->version);
    write_u64(&writer, (uint64_t)item->lease);
    ASSERT(!writer.failed && writer.left == 0);
    return hash(slice_of(canonical, sizeof(canonical)));
}

uint64_t digest_chain(uint64_t before, const struct digest_link *link) {
    uint8_t canonical[4 * sizeof(uint64_t) + 2 * sizeof(uint32_t)];
    struct writer writer = writer_of(canonical, sizeof(canonical));
    write_u64(&writer, before);
    write_u64(&writer, link->index);
    write_u64(&writer, link->term);
    write_u64(&writer, link->size);
    write_u32(&writer, link->type);
    write_u32(&writer, link->crc);
    ASSERT(!writer.failed && writer.left == 0);
    return hash(slice_of(canonical, sizeof(canonical)));
}
