/* Consensus messages as bytes between nodes: one msgpack array a message, entries' payload in it.
 *
 * Framing (length, checksum) is the link's business; here is the body only. Decoding trusts nothing:
 * the pre-scan of base/scan.h has passed, then every field is checked for type and range.
 * The format and its version are described in docs/FORMATS.md. */
#ifndef RAFT_WIRE_H
#define RAFT_WIRE_H

#include "base/buffer.h"
#include "raft/raft.h"

/* Appends the encoded message to `out`. `entries` are the append's (message->append.count of them,
 * indices consecutive from prev_index + 1) or the repair reply's (repair_reply.count, from `first`
 * on), NULL otherwise. Failure is out->failed. */
void raft_wire_encode(const struct raft_message *message, const struct entry *entries,
                      struct buffer *out);

/* A decoded message with what it owns. */
struct raft_packet {
    struct raft_message message; /* its `entries`, if it has some, point to `metas` */
    struct raft_entry_meta *metas;
    struct entry *entries; /* `count` from index `first` on; payloads copied out of the frame */
    uint64_t first;
    uint32_t count;
};

/* LKV_EPROTOCOL with what was expected and what came; LKV_ENOMEM. Nothing is kept on failure. */
MUST_USE int raft_wire_decode(struct slice body, struct raft_packet *out, struct reason *why);
void raft_packet_fini(struct raft_packet *packet);

#endif
