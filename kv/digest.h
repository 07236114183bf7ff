/* The digest of a state: the sum of one hash per live key, per session and per lease, so that the order
 * does not matter.
 *
 * A key's hash is XXH3 (64 bits, seed 0) over eight little-endian 64-bit numbers: size and XXH3 of the
 * key, size and XXH3 of the value, create_rev, mod_rev, version, lease. A session's is XXH3 (64 bits,
 * seed 3) of its bytes in an image, a lease's the same with seed 4. None ever changes: replicas of different versions of this program
 * compare digests (rule 25). */
#ifndef KV_DIGEST_H
#define KV_DIGEST_H

#include "base/slice.h"

struct digest_item {
    struct slice key, value;
    uint64_t create_rev, mod_rev, version;
    int64_t lease;
};

uint64_t digest_of(const struct digest_item *item);
uint64_t digest_of_session(struct slice bytes);
uint64_t digest_of_lease(struct slice bytes);

/* One more link of a chain over entries: it depends on all links before it, in their order. `type` and
 * `crc` (CRC32C) are of the entry and its payload. */
struct digest_link {
    uint64_t index, term, size;
    uint32_t type, crc;
};
uint64_t digest_chain(uint64_t before, const struct digest_link *link);

#endif
