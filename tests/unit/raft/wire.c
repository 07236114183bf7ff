#include "raft/wire.h"

#include "base/mem.h"
#include "base/prng.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { KINDS = 13 };

static void sample_repair(struct raft_message *m) {
    if (m->kind == RAFT_REPAIR_REQUEST) {
        m->repair_request.want = RAFT_REPAIR_ENTRIES;
        m->repair_request.first = 10;
        m->repair_request.last = 300;
        m->repair_request.prev_term = 8;
        m->repair_request.last_term = 9;
        m->repair_request.bytes_max = 1u << 20;
        m->repair_request.boot_nonce = 6;
        m->repair_request.round = 7;
    } else if (m->kind == RAFT_REPAIR_REPLY) {
        m->repair_reply.answer = RAFT_REPAIR_READABLE;
        m->repair_reply.boot_nonce = 6;
        m->repair_reply.round = 7;
        m->repair_reply.shared_index = 300;
        m->repair_reply.shared_term = 9;
        m->repair_reply.first = 10;
        m->repair_reply.count = 2;
    } else if (m->kind == RAFT_CATCHUP_REQUEST) {
        m->catchup_request.context = 1;
        m->catchup_request.boot_nonce = 2;
    } else {
        m->catchup_reply.context = 1;
        m->catchup_reply.boot_nonce = 2;
        m->catchup_reply.index = 3;
    }
}

static struct raft_message sample(enum raft_message_kind kind) {
    struct raft_message m = {.kind = kind, .from = 0x1122334455667788u, .to = 2, .term = 300};
    switch (kind) {
    case RAFT_VOTE_REQUEST:
        m.vote_request.pre = true;
        m.vote_request.by_transfer = true;
        m.vote_request.token_leader = 7;
        m.vote_request.token_term = 299;
        m.vote_request.last_index = 70000;
        m.vote_request.last_term = 298;
        m.vote_request.round = 5;
        break;
    case RAFT_VOTE_REPLY:
        m.vote_reply.pre = true;
        m.vote_reply.answer = RAFT_VOTE_HAS_LEADER;
        m.vote_reply.round = 5;
        break;
    case RAFT_APPEND:
        m.append.prev_index = 9;
        m.append.prev_term = 8;
        m.append.commit = 7;
        m.append.request_no = 6;
        m.append.count = 2;
        break;
    case RAFT_APPEND_REPLY:
        m.append_reply.result = RAFT_APPEND_GAP;
        m.append_reply.request_no = 1;
        m.append_reply.durable = 2;
        m.append_reply.received = 3;
        m.append_reply.conflict_term = 4;
        m.append_reply.conflict_first = 5;
        m.append_reply.want_first = 6;
        m.append_reply.want_last = 7;
        m.append_reply.room = RAFT_ROOM_FREE;
        break;
    case RAFT_HEARTBEAT:
        m.heartbeat.commit = 1;
        m.heartbeat.round = UINT64_MAX;
        break;
    case RAFT_HEARTBEAT_REPLY:
        m.heartbeat_reply.round = 1;
        m.heartbeat_reply.durable = 2;
        m.heartbeat_reply.received = 3;
        m.heartbeat_reply.room = RAFT_ROOM_RESERVED;
        break;
    case RAFT_READ_REQUEST:
        m.read_request.context = 1;
        m.read_request.boot_nonce = 2;
        break;
    case RAFT_READ_REPLY:
        m.read_reply.context = 1;
        m.read_reply.boot_nonce = 2;
        m.read_reply.index = 3;
        m.read_reply.rc = LKV_ENOTLEADER;
        break;
    case RAFT_TRANSFER_NOW: m.transfer_now.last_index = 1; break;
    case RAFT_REPAIR_REQUEST:
    case RAFT_REPAIR_REPLY:
    case RAFT_CATCHUP_REQUEST:
    case RAFT_CATCHUP_REPLY: sample_repair(&m); break;
    }
    return m;
}

/* Two entries behind index 9: bytes, and none. */
static void sample_entries(struct entry entries[2]) {
    entries[0] = (struct entry){
        .index = 10, .term = 299, .type = ENTRY_COMMAND, .payload = blob_copy(slice_text("abc"))};
    entries[1] = (struct entry){.index = 11, .term = 300, .type = ENTRY_NOOP};
    cr_assert(entries[0].payload != NULL);
}

static bool has_entries(enum raft_message_kind kind) {
    return kind == RAFT_APPEND || kind == RAFT_REPAIR_REPLY;
}

static void encode(enum raft_message_kind kind, struct buffer *out) {
    struct raft_message m = sample(kind);
    struct entry entries[2];
    sample_entries(entries);
    buffer_init(out);
    raft_wire_encode(&m, has_entries(kind) ? entries : NULL, out);
    cr_assert(!out->failed);
    blob_unref(entries[0].payload);
}

static int decode(struct slice bytes) {
    struct raft_packet packet;
    struct reason why = {{0}};
    int rc = raft_wire_decode(bytes, &packet, &why);
    cr_assert(rc == 0 || why.text[0] != '\0');
    if (rc == 0) {
        raft_packet_fini(&packet);
    }
    return rc;
}

static const struct {
    enum raft_message_kind kind;
    const char *hex;
} golden[KINDS] = {
    {RAFT_VOTE_REQUEST, "9b01cf112233445566778802cd012cc3c307cd012bce00011170cd012a05"},
    {RAFT_VOTE_REPLY, "9702cf112233445566778802cd012cc30505"},
    {RAFT_APPEND, "9903cf112233445566778802cd012c0908070696cd012b03c403616263cd012c01c400"},
    {RAFT_APPEND_REPLY, "9d04cf112233445566778802cd012c030102030405060702"},
    {RAFT_HEARTBEAT, "9605cf112233445566778802cd012c01cfffffffffffffffff"},
    {RAFT_HEARTBEAT_REPLY, "9806cf112233445566778802cd012c01020301"},
    {RAFT_READ_REQUEST, "9607cf112233445566778802cd012c0102"},
    {RAFT_READ_REPLY, "9808cf112233445566778802cd012c01020308"},
    {RAFT_TRANSFER_NOW, "9509cf112233445566778802cd012c01"},
    {RAFT_REPAIR_REQUEST, "9c0acf112233445566778802cd012c020acd012c0809ce001000000607"},
    {RAFT_REPAIR_REPLY,
     "9b0bcf112233445566778802cd012c010607cd012c090a96cd012b03c403616263cd012c01c400"},
    {RAFT_CATCHUP_REQUEST, "960ccf112233445566778802cd012c0102"},
    {RAFT_CATCHUP_REPLY, "970dcf112233445566778802cd012c010203"},
};

Test(raft_wire, writes_the_bytes_that_the_format_says) {
    for (size_t i = 0; i < KINDS; i++) {
        struct buffer out;
        encode(golden[i].kind, &out);
        char hex[256] = "";
        for (size_t k = 0; k < out.size; k++) {
            (void)snprintf(hex + 2 * k, sizeof hex - 2 * k, "%02x", out.data[k]);
        }
        cr_expect_str_eq(hex, golden[i].hex, "kind %zu", i + 1);
        buffer_fini(&out);
    }
}

Test(raft_wire, gives_back_every_field) {
    for (enum raft_message_kind kind = RAFT_VOTE_REQUEST; kind <= RAFT_CATCHUP_REPLY; kind++) {
        struct buffer first, second;
        encode(kind, &first);
        struct raft_packet packet;
        struct reason why = {{0}};
        cr_assert(raft_wire_decode(buffer_slice(&first), &packet, &why) == 0, "%s", why.text);
        buffer_init(&second);
        raft_wire_encode(&packet.message, packet.entries, &second);
        cr_expect(slice_equal(buffer_slice(&first), buffer_slice(&second)), "kind %d", (int)kind);
        raft_packet_fini(&packet);
        buffer_fini(&first);
        buffer_fini(&second);
    }
}

Test(raft_wire, copies_payload_and_sets_index_and_metas) {
    struct buffer out;
    encode(RAFT_APPEND, &out);
    struct raft_packet packet;
    struct reason why = {{0}};
    cr_assert(raft_wire_decode(buffer_slice(&out), &packet, &why) == 0);
    buffer_fini(&out); /* nothing points there */
    cr_expect(packet.message.append.count == 2 && packet.message.append.entries == packet.metas);
    cr_expect(packet.entries[0].index == 10 && packet.entries[1].index == 11);
    cr_expect(slice_equal(blob_slice(packet.entries[0].payload), slice_text("abc")));
    cr_expect(packet.entries[1].payload == NULL && packet.metas[1].size == 0);
    cr_expect(packet.metas[0].size == 3 && packet.metas[0].term == 299 &&
              packet.metas[0].type == ENTRY_COMMAND);
    raft_packet_fini(&packet);
    encode(RAFT_REPAIR_REPLY, &out);
    cr_assert(raft_wire_decode(buffer_slice(&out), &packet, &why) == 0);
    buffer_fini(&out);
    cr_expect(packet.message.repair_reply.count == 2 && packet.count == 2 && packet.first == 10);
    cr_expect(packet.message.repair_reply.entries == packet.metas);
    cr_expect(packet.entries[0].index == 10 && packet.entries[1].index == 11);
    raft_packet_fini(&packet);
}

Test(raft_wire, refuses_every_truncation_and_every_addition) {
    for (enum raft_message_kind kind = RAFT_VOTE_REQUEST; kind <= RAFT_CATCHUP_REPLY; kind++) {
        struct buffer out;
        encode(kind, &out);
        for (size_t size = 0; size < out.size; size++) {
            cr_expect(decode(slice_of(out.data, size)) == LKV_EPROTOCOL, "%d, %zu", (int)kind,
                      size);
        }
        buffer_append(&out, "\x01", 1);
        cr_expect(decode(buffer_slice(&out)) == LKV_EPROTOCOL);
        buffer_fini(&out);
    }
}

/* Offsets at which the elements of the outer array begin, and where it ends. */
static size_t element_offsets(struct slice bytes, size_t offsets[32]) {
    size_t count = 0, at = 1;
    while (at < bytes.size) {
        offsets[count++] = at;
        uint8_t first = bytes.data[at];
        if (first == 0x96 && at > 1) { /* the entries are the last element */
            at = bytes.size;
        } else {
            at += first == 0xcf ? 9 : first == 0xce ? 5 : first == 0xcd ? 3 : 1;
        }
    }
    offsets[count] = bytes.size;
    return count;
}

Test(raft_wire, refuses_each_field_of_another_type) {
    static const uint8_t others[] = {0xc0, 0xa0, 0x90, 0x80, 0xff}; /* nil, "", [], {}, -1 */
    for (enum raft_message_kind kind = RAFT_VOTE_REQUEST; kind <= RAFT_CATCHUP_REPLY; kind++) {
        struct buffer out;
        encode(kind, &out);
        size_t offsets[32];
        size_t count = element_offsets(buffer_slice(&out), offsets);
        for (size_t i = 0; i < count; i++) {
            for (size_t k = 0; k < sizeof others; k++) {
                bool entries = has_entries(kind) && i == count - 1;
                if (entries && others[k] == 0x90) {
                    continue; /* an empty array of entries is right */
                }
                struct buffer changed;
                buffer_init(&changed);
                buffer_append(&changed, out.data, offsets[i]);
                buffer_append(&changed, &others[k], 1);
                buffer_append(&changed, out.data + offsets[i + 1], out.size - offsets[i + 1]);
                cr_expect(decode(buffer_slice(&changed)) == LKV_EPROTOCOL, "kind %d field %zu",
                          (int)kind, i);
                buffer_fini(&changed);
            }
        }
        buffer_fini(&out);
    }
}

#define REFUSED(...)                                                                             \
    (decode(slice_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))) == \
     LKV_EPROTOCOL)

Test(raft_wire, refuses_numbers_beyond_their_range) {
    cr_expect(REFUSED(0x95, 0x0a, 1, 2, 3, 1), "kind 10");
    cr_expect(REFUSED(0x95, 0x00, 1, 2, 3, 1), "kind 0");
    cr_expect(REFUSED(0x97, 0x02, 1, 2, 3, 0xc2, 0, 1), "answer 0");
    cr_expect(REFUSED(0x97, 0x02, 1, 2, 3, 0xc2, 8, 1), "answer 8");
    cr_expect(REFUSED(0x9d, 0x04, 1, 2, 3, 4, 1, 1, 1, 1, 1, 1, 1, 2), "result 4");
    cr_expect(REFUSED(0x9d, 0x04, 1, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 3), "room 3");
    cr_expect(REFUSED(0x98, 0x06, 1, 2, 3, 1, 1, 1, 0xc3), "room as a boolean");
    cr_expect(REFUSED(0x98, 0x08, 1, 2, 3, 1, 1, 1, 0xcd, 0x10, 0x00), "code 4096");
    cr_expect(REFUSED(0x99, 0x03, 1, 2, 3, 1, 1, 1, 1, 0x92, 1, 1), "two thirds of an entry");
    cr_expect(REFUSED(0x99, 0x03, 1, 2, 3, 1, 1, 1, 1, 0x93, 1, 0, 0xc4, 0), "entry type 0");
    cr_expect(REFUSED(0x99, 0x03, 1, 2, 3, 1, 1, 1, 1, 0x93, 1, 0xcd, 1, 0, 0xc4, 0), "type 256");
    cr_expect(REFUSED(0x99, 0x03, 1, 2, 3, 1, 1, 1, 1, 0x93, 1, 1, 0xa0), "payload as text");
    cr_expect(REFUSED(0x99, 0x03, 1, 2, 3, 1, 1, 1, 1, 0xdd, 0xff, 0, 0, 0), "many entries");
    cr_expect(REFUSED(0xc0) && REFUSED(0x90) && REFUSED(0x05));
}

/* Whatever comes, it is decoded or refused; under ASan nothing leaks and nothing is read beyond. */
Test(raft_wire, survives_random_and_mutated_bytes) {
    struct prng prng = prng_of(1);
    for (int i = 0; i < 60000; i++) {
        uint8_t bytes[96];
        size_t size = (size_t)prng_below(&prng, sizeof bytes);
        struct buffer out;
        encode((enum raft_message_kind)(1 + prng_below(&prng, KINDS)), &out);
        bool mutate = prng_below(&prng, 4) != 0;
        if (mutate) {
            size = out.size < sizeof bytes ? out.size : sizeof bytes;
            memcpy(bytes, out.data, size);
        }
        for (size_t k = 0; k < size; k++) {
            if (!mutate || prng_below(&prng, 20) == 0) {
                bytes[k] = (uint8_t)prng_next(&prng);
            }
        }
        buffer_fini(&out);
        int rc = decode(slice_of(bytes, size));
        cr_assert(rc == 0 || rc == LKV_EPROTOCOL);
    }
}

/* S28 */
Test(raft_wire, reports_each_failed_allocation_and_leaks_nothing) {
    struct buffer out;
    encode(RAFT_APPEND, &out);
    int rc = LKV_ENOMEM;
    for (uint64_t n = 0; rc != 0; n++) {
        mem_fail_after(n);
        rc = decode(buffer_slice(&out));
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        cr_assert(n < 100);
    }
    buffer_fini(&out);
}
