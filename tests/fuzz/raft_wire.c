/* Consensus messages from a peer: whatever the bytes are, they are refused with a reason or decoded, and what was
 * decoded is written and read again as the same message. */
#include "base/assert.h"
#include "raft/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_again(const struct raft_packet *packet) {
    struct buffer first, second;
    struct raft_packet again;
    struct reason why = {{0}};
    buffer_init(&first);
    buffer_init(&second);
    raft_wire_encode(&packet->message, packet->entries, &first);
    ASSERT(!first.failed);
    ASSERT(raft_wire_decode(buffer_slice(&first), &again, &why) == 0);
    raft_wire_encode(&again.message, again.entries, &second);
    ASSERT(slice_equal(buffer_slice(&first), buffer_slice(&second)));
    raft_packet_fini(&again);
    buffer_fini(&first);
    buffer_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct raft_packet packet;
    struct reason why = {{0}};
    int rc = raft_wire_decode(slice_of(data, size), &packet, &why);
    ASSERT((rc != 0) == (why.text[0] != '\0'));
    if (rc == 0) {
        read_again(&packet);
        raft_packet_fini(&packet);
    }
    return 0;
}
