#include "raft/wire.h"

#include "base/mem.h"
#include "base/prng.h"
#include "tests/support/malloc_fail.h"

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

static char told[sizeof(((struct reason *)NULL)->text)]; /* by the last `decode` */

static int decode(struct slice bytes) {
    struct raft_packet packet;
    struct reason why = {{0}};
    int rc = raft_wire_decode(bytes, &packet, &why);
    (void)snprintf(told, sizeof told, "%s", why.text);
    cr_assert(rc == 0 || told[0] != '\0');
    cr_assert(rc == 0 || (packet.entries == NULL && packet.metas == NULL && packet.count == 0));
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

/* An append that only asks, and flags that are not set. */
Test(raft_wire, gives_back_what_is_empty_or_false) {
    struct raft_message probe = sample(RAFT_APPEND);
    probe.append.count = 0;
    struct raft_message vote = {.kind = RAFT_VOTE_REQUEST, .from = 1, .to = 2, .term = 3};
    struct buffer out;
    struct raft_packet packet;
    struct reason why = {{0}};
    buffer_init(&out);
    raft_wire_encode(&probe, NULL, &out);
    cr_assert_eq(raft_wire_decode(buffer_slice(&out), &packet, &why), 0, "%s", why.text);
    cr_expect(packet.first == 10 && packet.message.append.prev_index == 9);
    cr_expect(packet.message.append.count == 0 && packet.message.append.entries == NULL);
    raft_packet_fini(&packet);
    buffer_clear(&out);
    raft_wire_encode(&vote, NULL, &out);
    cr_assert_eq(raft_wire_decode(buffer_slice(&out), &packet, &why), 0, "%s", why.text);
    cr_expect(!packet.message.vote_request.pre && !packet.message.vote_request.by_transfer);
    raft_packet_fini(&packet);
    buffer_fini(&out);
}

/* What protocol 1 has got since comes last and is left out when it says nothing; there it is not written as 0. */
Test(raft_wire, late_fields_are_these_bytes_and_left_out_when_they_say_nothing) {
    struct raft_message beat = sample(RAFT_HEARTBEAT), back = sample(RAFT_HEARTBEAT_REPLY),
                        ask = sample(RAFT_READ_REQUEST);
    beat.heartbeat.promise_ms = 300;
    back.heartbeat_reply.promise_ms = 200;
    ask.read_request.leased = true;
    const struct raft_message *const messages[] = {&beat, &back, &ask};
    static const char *const hex[] = {"9705cf112233445566778802cd012c01cfffffffffffffffffcd012c",
                                      "9906cf112233445566778802cd012c01020301ccc8",
                                      "9707cf112233445566778802cd012c0102c3"};
    for (size_t i = 0; i < 3; i++) {
        struct buffer out;
        struct raft_packet packet;
        struct reason why = {{0}};
        buffer_init(&out);
        raft_wire_encode(messages[i], NULL, &out);
        char text[256] = "";
        for (size_t k = 0; k < out.size; k++) {
            (void)snprintf(text + 2 * k, sizeof text - 2 * k, "%02x", out.data[k]);
        }
        cr_expect_str_eq(text, hex[i]);
        cr_assert_eq(raft_wire_decode(buffer_slice(&out), &packet, &why), 0, "%s", why.text);
        const struct raft_message *got = &packet.message;
        cr_expect(i != 0 || got->heartbeat.promise_ms == 300);
        cr_expect(i != 1 || got->heartbeat_reply.promise_ms == 200);
        cr_expect(i != 2 || got->read_request.leased);
        raft_packet_fini(&packet);
        buffer_fini(&out);
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

#define REFUSED(why, ...)                                                   \
    do {                                                                    \
        static const uint8_t bytes[] = {__VA_ARGS__};                       \
        cr_expect_eq(decode(slice_of(bytes, sizeof bytes)), LKV_EPROTOCOL); \
        cr_expect_str_eq(told, why);                                        \
    } while (0)

Test(raft_wire, says_which_field_is_beyond_its_range) {
#define FIELD(n, range) "field " #n " of the message is not from " range
    REFUSED(FIELD(0, "1 to 13: found 14"), 0x95, 14, 1, 2, 3, 1);
    REFUSED(FIELD(0, "1 to 13: found 0"), 0x95, 0, 1, 2, 3, 1);
    REFUSED(FIELD(5, "1 to 7: found 0"), 0x97, 0x02, 1, 2, 3, 0xc2, 0, 1);
    REFUSED(FIELD(5, "1 to 7: found 8"), 0x97, 0x02, 1, 2, 3, 0xc2, 8, 1);
    REFUSED(FIELD(4, "1 to 3: found 4"), 0x9d, 0x04, 1, 2, 3, 4, 1, 1, 1, 1, 1, 1, 1, 2);
    REFUSED(FIELD(12, "0 to 2: found 3"), 0x9d, 0x04, 1, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 3);
    REFUSED(FIELD(7, "0 to 999: found 4096"), 0x98, 0x08, 1, 2, 3, 1, 1, 1, 0xcd, 0x10, 0x00);
    REFUSED(FIELD(4, "0 to 9223372036854775807: found 9223372036854775808"), 0x99, 0x03, 1, 2, 3,
            0xcf, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0x90);
    REFUSED(FIELD(9, "0 to 4294967295: found 4294967296"), 0x9c, 0x0a, 1, 2, 3, 1, 1, 1, 1, 1, 0xcf,
            0, 0, 0, 1, 0, 0, 0, 0, 1, 1);
    /* Of the entries: each has three. */
    REFUSED(FIELD(1, "1 to 255: found 0"), 0x99, 0x03, 1, 2, 3, 1, 1, 1, 1, 0x93, 1, 0, 0xc4, 0);
    REFUSED(FIELD(4, "1 to 255: found 256"), 0x99, 0x03, 1, 2, 3, 1, 1, 1, 1, 0x96, 1, 1, 0xc4, 0,
            1, 0xcd, 1, 0, 0xc4, 0);
#undef FIELD
}

Test(raft_wire, says_which_field_is_of_another_type) {
#define FIELD(n, type) "field " #n " of the message is not " type
    REFUSED(FIELD(0, "an unsigned integer"), 0x95, 0xc0, 1, 2, 3, 1);
    REFUSED(FIELD(7, "an unsigned integer"), 0x98, 0x06, 1, 2, 3, 1, 1, 1, 0xc3);
    REFUSED(FIELD(4, "a boolean"), 0x97, 0x02, 1, 2, 3, 1, 0, 0xc0); /* the first of three */
    REFUSED(FIELD(8, "an array of entries"), 0x99, 0x03, 1, 2, 3, 1, 1, 1, 1, 0x92, 1, 1);
    REFUSED(FIELD(8, "an array of entries"), 0x99, 0x03, 1, 2, 3, 1, 1, 1, 1, 1);
    REFUSED(FIELD(4, "an unsigned integer"), 0x99, 0x03, 1, 2, 3, 0xc0, 1, 1, 1, 0x93, 1, 1, 0xc0);
    REFUSED(FIELD(2, "bytes"), 0x99, 0x03, 1, 2, 3, 1, 1, 1, 1, 0x93, 1, 1, 0xa0);
#undef FIELD
}

Test(raft_wire, refuses_what_has_not_the_shape_of_its_kind) {
    REFUSED("a message is an array of at least 4 fields", 0xc0);
    REFUSED("a message is an array of at least 4 fields", 0x90);
    REFUSED("a message is an array of at least 4 fields", 0x93, 1, 2, 3);
    REFUSED("kind 9 has 5 fields; 4 came", 0x94, 0x09, 1, 2, 3);
    REFUSED("kind 9 has 5 fields; 6 came", 0x96, 0x09, 1, 2, 3, 4, 5);
    REFUSED("kind 3 has 9 fields; 8 came", 0x98, 0x03, 1, 2, 3, 1, 1, 1, 1);
    REFUSED("byte 0 announces 6 bytes more; at most 3 in all are accepted", 0x95, 0x09, 1);
    REFUSED("1 bytes are not one message", 0xdc);
    REFUSED("7 bytes are not one message", 0x95, 0x09, 1, 2, 3, 4, 5);
    REFUSED("no msgpack type we use starts at byte 1", 0x91, 0xc1);
    REFUSED("byte 9 announces 4278190085 bytes more; at most 14 in all are accepted", 0x99, 0x03, 1,
            2, 3, 1, 1, 1, 1, 0xdd, 0xff, 0, 0, 0);
}

/* One more than may be sent at once: they fit into a frame, and are refused before they cost memory. */
Test(raft_wire, refuses_more_entries_than_an_append_has) {
    for (uint32_t more = 0; more < 2; more++) {
        struct entry *entries = mem_calloc(RAFT_APPEND_ENTRIES_MAX + more, sizeof *entries);
        struct raft_message m = {.kind = RAFT_APPEND, .from = 1, .to = 2, .term = 3};
        m.append.count = RAFT_APPEND_ENTRIES_MAX + more;
        for (uint32_t i = 0; i < m.append.count; i++) {
            entries[i] = (struct entry){.index = 1 + i, .term = 3, .type = ENTRY_NOOP};
        }
        struct buffer out;
        buffer_init(&out);
        raft_wire_encode(&m, entries, &out);
        cr_expect_eq(decode(buffer_slice(&out)), more == 0 ? 0 : LKV_EPROTOCOL);
        cr_expect_str_eq(told,
                         more == 0 ? "" : "field 8 of the message is not an array of entries");
        buffer_fini(&out);
        mem_free(entries);
    }
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
    static const char *const expected[] = {"no memory for 2 entries", "no memory for 2 entries",
                                           "no memory for an entry's payload"};
    for (uint64_t n = 0; n < 3; n++) {
        mem_fail_after(n);
        int rc = decode(buffer_slice(&out));
        mem_fail_never();
        cr_expect_eq(rc, LKV_ENOMEM);
        cr_expect_str_eq(told, expected[n]);
    }
    mem_fail_after(3);
    cr_expect_eq(decode(buffer_slice(&out)), 0, "there were three");
    mem_fail_never();
    if (malloc_fail_after(0)) {
        int rc = decode(buffer_slice(&out));
        malloc_fail_never();
        cr_expect_eq(rc, LKV_ENOMEM);
        cr_expect_str_eq(told, "no memory to unpack a message");
    }
    buffer_fini(&out);
}

/* S28: the buffer says it, and no half message is sent. */
Test(raft_wire, encodes_nothing_without_memory) {
    struct raft_message m = sample(RAFT_HEARTBEAT);
    struct buffer out;
    buffer_init(&out);
    mem_fail_after(0);
    raft_wire_encode(&m, NULL, &out);
    mem_fail_never();
    cr_expect(out.failed);
    buffer_fini(&out);
}
