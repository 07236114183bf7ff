/* One msgpack array a message: [kind, from, to, term, ...the kind's fields, in the order below].
 *
 * Each kind's fields are listed once for packing and once for reading, next to each other. An array
 * of another length, a field of another type or beyond its range is refused: what may follow in
 * later versions is agreed on in the hello, before. */
#include "raft/wire.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/scan.h"

#include <msgpack.h>

enum { HEAD_FIELDS = 4, ENTRY_FIELDS = 3 };

/* ------------------------------------------------------------------ packing */

static int write_buffer(void *data, const char *bytes, size_t size) {
    struct buffer *out = data;
    buffer_append(out, bytes, size);
    return out->failed ? -1 : 0;
}

static void put(msgpack_packer *packer, uint64_t value) {
    (void)msgpack_pack_uint64(packer, value); /* a failure stays in the buffer */
}

static void put_flag(msgpack_packer *packer, bool value) {
    (void)(value ? msgpack_pack_true(packer) : msgpack_pack_false(packer));
}

static void put_entries(msgpack_packer *packer, uint64_t first, uint32_t count,
                        const struct entry *entries) {
    (void)msgpack_pack_array(packer, (size_t)count * ENTRY_FIELDS);
    for (uint32_t i = 0; i < count; i++) {
        const struct entry *entry = &entries[i];
        ASSERT(entry->index == first + i);
        struct slice payload = blob_slice(entry->payload);
        put(packer, entry->term);
        put(packer, (uint64_t)entry->type);
        (void)msgpack_pack_bin(packer, payload.size);
        if (payload.size > 0) {
            (void)msgpack_pack_bin_body(packer, payload.data, payload.size);
        }
    }
}

/* ------------------------------------------------------------------ reading */

struct fields {
    const msgpack_object *items;
    size_t count, at;
    int rc; /* sticky */
    struct reason *why;
};

static const msgpack_object *next(struct fields *fields) {
    ASSERT(fields->at < fields->count); /* the array's length was checked for its kind */
    return &fields->items[fields->at++];
}

static void refuse(struct fields *fields, const char *expected) {
    if (fields->rc == 0) {
        fields->rc = reason_set(fields->why, LKV_EPROTOCOL, "field %zu of the message is not %s",
                                fields->at - 1, expected);
    }
}

static uint64_t get(struct fields *fields) {
    const msgpack_object *object = next(fields);
    if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER) {
        refuse(fields, "an unsigned integer");
        return 0;
    }
    return object->via.u64;
}

static uint64_t get_within(struct fields *fields, uint64_t least, uint64_t most) {
    uint64_t value = get(fields);
    if (fields->rc == 0 && (value < least || value > most)) {
        refuse(fields, "within its range");
    }
    return value;
}

static bool get_flag(struct fields *fields) {
    const msgpack_object *object = next(fields);
    if (object->type != MSGPACK_OBJECT_BOOLEAN) {
        refuse(fields, "a boolean");
        return false;
    }
    return object->via.boolean;
}

static enum raft_room get_room(struct fields *fields) {
    return (enum raft_room)get_within(fields, RAFT_ROOM_NONE, RAFT_ROOM_FREE);
}

/* ------------------------------------------------------------------ each kind's fields */

static size_t field_count(uint64_t kind) {
    switch (kind) {
    case RAFT_VOTE_REQUEST: return HEAD_FIELDS + 7;
    case RAFT_VOTE_REPLY: return HEAD_FIELDS + 3;
    case RAFT_APPEND: return HEAD_FIELDS + 5;
    case RAFT_APPEND_REPLY: return HEAD_FIELDS + 9;
    case RAFT_HEARTBEAT: return HEAD_FIELDS + 2;
    case RAFT_HEARTBEAT_REPLY: return HEAD_FIELDS + 4;
    case RAFT_READ_REQUEST: return HEAD_FIELDS + 2;
    case RAFT_READ_REPLY: return HEAD_FIELDS + 4;
    case RAFT_TRANSFER_NOW: return HEAD_FIELDS + 1;
    case RAFT_REPAIR_REQUEST: return HEAD_FIELDS + 8;
    case RAFT_REPAIR_REPLY: return HEAD_FIELDS + 7;
    case RAFT_CATCHUP_REQUEST: return HEAD_FIELDS + 2;
    case RAFT_CATCHUP_REPLY: return HEAD_FIELDS + 3;
    default: return 0;
    }
}

static void put_vote_request(msgpack_packer *packer, const struct raft_message *m) {
    put_flag(packer, m->vote_request.pre);
    put_flag(packer, m->vote_request.by_transfer);
    put(packer, m->vote_request.token_leader);
    put(packer, m->vote_request.token_term);
    put(packer, m->vote_request.last_index);
    put(packer, m->vote_request.last_term);
    put(packer, m->vote_request.round);
}

static void get_vote_request(struct fields *fields, struct raft_message *m) {
    m->vote_request.pre = get_flag(fields);
    m->vote_request.by_transfer = get_flag(fields);
    m->vote_request.token_leader = get(fields);
    m->vote_request.token_term = get(fields);
    m->vote_request.last_index = get(fields);
    m->vote_request.last_term = get(fields);
    m->vote_request.round = get(fields);
}

static void put_vote_reply(msgpack_packer *packer, const struct raft_message *m) {
    put_flag(packer, m->vote_reply.pre);
    put(packer, (uint64_t)m->vote_reply.answer);
    put(packer, m->vote_reply.round);
}

static void get_vote_reply(struct fields *fields, struct raft_message *m) {
    m->vote_reply.pre = get_flag(fields);
    m->vote_reply.answer =
        (enum raft_vote_answer)get_within(fields, RAFT_VOTE_ACCEPT, RAFT_VOTE_NOT_MEMBER);
    m->vote_reply.round = get(fields);
}

static void put_append(msgpack_packer *packer, const struct raft_message *m,
                       const struct entry *entries) {
    put(packer, m->append.prev_index);
    put(packer, m->append.prev_term);
    put(packer, m->append.commit);
    put(packer, m->append.request_no);
    put_entries(packer, m->append.prev_index + 1, m->append.count, entries);
}

static void put_append_reply(msgpack_packer *packer, const struct raft_message *m) {
    put(packer, (uint64_t)m->append_reply.result);
    put(packer, m->append_reply.request_no);
    put(packer, m->append_reply.durable);
    put(packer, m->append_reply.received);
    put(packer, m->append_reply.conflict_term);
    put(packer, m->append_reply.conflict_first);
    put(packer, m->append_reply.want_first);
    put(packer, m->append_reply.want_last);
    put(packer, (uint64_t)m->append_reply.room);
}

static void get_append_reply(struct fields *fields, struct raft_message *m) {
    m->append_reply.result =
        (enum raft_append_result)get_within(fields, RAFT_APPEND_OK, RAFT_APPEND_GAP);
    m->append_reply.request_no = get(fields);
    m->append_reply.durable = get(fields);
    m->append_reply.received = get(fields);
    m->append_reply.conflict_term = get(fields);
    m->append_reply.conflict_first = get(fields);
    m->append_reply.want_first = get(fields);
    m->append_reply.want_last = get(fields);
    m->append_reply.room = get_room(fields);
}

static void put_heartbeat(msgpack_packer *packer, const struct raft_message *m) {
    put(packer, m->heartbeat.commit);
    put(packer, m->heartbeat.round);
}

static void get_heartbeat(struct fields *fields, struct raft_message *m) {
    m->heartbeat.commit = get(fields);
    m->heartbeat.round = get(fields);
}

static void put_heartbeat_reply(msgpack_packer *packer, const struct raft_message *m) {
    put(packer, m->heartbeat_reply.round);
    put(packer, m->heartbeat_reply.durable);
    put(packer, m->heartbeat_reply.received);
    put(packer, (uint64_t)m->heartbeat_reply.room);
}

static void get_heartbeat_reply(struct fields *fields, struct raft_message *m) {
    m->heartbeat_reply.round = get(fields);
    m->heartbeat_reply.durable = get(fields);
    m->heartbeat_reply.received = get(fields);
    m->heartbeat_reply.room = get_room(fields);
}

static void put_read_request(msgpack_packer *packer, const struct raft_message *m) {
    put(packer, m->read_request.context);
    put(packer, m->read_request.boot_nonce);
}

static void get_read_request(struct fields *fields, struct raft_message *m) {
    m->read_request.context = get(fields);
    m->read_request.boot_nonce = get(fields);
}

/* The code is stored positive: error codes are 0 or negative. */
static void put_read_reply(msgpack_packer *packer, const struct raft_message *m) {
    put(packer, m->read_reply.context);
    put(packer, m->read_reply.boot_nonce);
    put(packer, m->read_reply.index);
    put(packer, (uint64_t) - (int64_t)m->read_reply.rc);
}

static void get_read_reply(struct fields *fields, struct raft_message *m) {
    m->read_reply.context = get(fields);
    m->read_reply.boot_nonce = get(fields);
    m->read_reply.index = get(fields);
    m->read_reply.rc = -(int)get_within(fields, 0, 999);
}

static void put_repair_request(msgpack_packer *packer, const struct raft_message *m) {
    put(packer, (uint64_t)m->repair_request.want);
    put(packer, m->repair_request.first);
    put(packer, m->repair_request.last);
    put(packer, m->repair_request.prev_term);
    put(packer, m->repair_request.last_term);
    put(packer, m->repair_request.bytes_max);
    put(packer, m->repair_request.boot_nonce);
    put(packer, m->repair_request.round);
}

static void get_repair_request(struct fields *fields, struct raft_message *m) {
    m->repair_request.want =
        (enum raft_repair_want)get_within(fields, RAFT_REPAIR_STATUS, RAFT_REPAIR_IMAGE);
    m->repair_request.first = get(fields);
    m->repair_request.last = get(fields);
    m->repair_request.prev_term = get(fields);
    m->repair_request.last_term = get(fields);
    m->repair_request.bytes_max = (uint32_t)get_within(fields, 0, UINT32_MAX);
    m->repair_request.boot_nonce = get(fields);
    m->repair_request.round = get(fields);
}

static void put_repair_reply(msgpack_packer *packer, const struct raft_message *m,
                             const struct entry *entries) {
    put(packer, (uint64_t)m->repair_reply.answer);
    put(packer, m->repair_reply.boot_nonce);
    put(packer, m->repair_reply.round);
    put(packer, m->repair_reply.shared_index);
    put(packer, m->repair_reply.shared_term);
    put(packer, m->repair_reply.first);
    put_entries(packer, m->repair_reply.first, m->repair_reply.count, entries);
}

static void put_catchup_request(msgpack_packer *packer, const struct raft_message *m) {
    put(packer, m->catchup_request.context);
    put(packer, m->catchup_request.boot_nonce);
}

static void get_catchup_request(struct fields *fields, struct raft_message *m) {
    m->catchup_request.context = get(fields);
    m->catchup_request.boot_nonce = get(fields);
}

static void put_catchup_reply(msgpack_packer *packer, const struct raft_message *m) {
    put(packer, m->catchup_reply.context);
    put(packer, m->catchup_reply.boot_nonce);
    put(packer, m->catchup_reply.index);
}

static void get_catchup_reply(struct fields *fields, struct raft_message *m) {
    m->catchup_reply.context = get(fields);
    m->catchup_reply.boot_nonce = get(fields);
    m->catchup_reply.index = get(fields);
}

/* ------------------------------------------------------------------ encode */

void raft_wire_encode(const struct raft_message *m, const struct entry *entries,
                      struct buffer *out) {
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, write_buffer);
    (void)msgpack_pack_array(&packer, field_count(m->kind));
    put(&packer, (uint64_t)m->kind);
    put(&packer, m->from);
    put(&packer, m->to);
    put(&packer, m->term);
    switch (m->kind) {
    case RAFT_VOTE_REQUEST: put_vote_request(&packer, m); break;
    case RAFT_VOTE_REPLY: put_vote_reply(&packer, m); break;
    case RAFT_APPEND: put_append(&packer, m, entries); break;
    case RAFT_APPEND_REPLY: put_append_reply(&packer, m); break;
    case RAFT_HEARTBEAT: put_heartbeat(&packer, m); break;
    case RAFT_HEARTBEAT_REPLY: put_heartbeat_reply(&packer, m); break;
    case RAFT_READ_REQUEST: put_read_request(&packer, m); break;
    case RAFT_READ_REPLY: put_read_reply(&packer, m); break;
    case RAFT_TRANSFER_NOW: put(&packer, m->transfer_now.last_index); break;
    case RAFT_REPAIR_REQUEST: put_repair_request(&packer, m); break;
    case RAFT_REPAIR_REPLY: put_repair_reply(&packer, m, entries); break;
    case RAFT_CATCHUP_REQUEST: put_catchup_request(&packer, m); break;
    case RAFT_CATCHUP_REPLY: put_catchup_reply(&packer, m); break;
    }
}

/* ------------------------------------------------------------------ decode */

/* [term, type, payload, term, type, payload, ...] */
static void get_entry(struct fields *fields, struct raft_packet *out, uint32_t i) {
    struct entry *entry = &out->entries[i];
    entry->index = out->first + i;
    entry->term = get(fields);
    entry->type = (enum entry_type)get_within(fields, 1, UINT8_MAX);
    const msgpack_object *payload = next(fields);
    if (payload->type != MSGPACK_OBJECT_BIN) {
        refuse(fields, "bytes");
        return;
    }
    if (payload->via.bin.size > 0) {
        entry->payload = blob_copy(slice_of(payload->via.bin.ptr, payload->via.bin.size));
        if (entry->payload == NULL) {
            fields->rc = reason_set(fields->why, LKV_ENOMEM, "no memory for an entry's payload");
        }
    }
    out->metas[i] = (struct raft_entry_meta){
        .term = entry->term, .size = payload->via.bin.size, .type = (uint8_t)entry->type};
}

static void get_entries(struct fields *fields, struct raft_packet *out) {
    const msgpack_object *list = next(fields);
    if (list->type != MSGPACK_OBJECT_ARRAY || list->via.array.size % ENTRY_FIELDS != 0 ||
        list->via.array.size / ENTRY_FIELDS > RAFT_APPEND_ENTRIES_MAX) {
        refuse(fields, "an array of entries");
    }
    if (fields->rc != 0 || list->via.array.size == 0) {
        return;
    }
    uint32_t count = list->via.array.size / ENTRY_FIELDS;
    out->metas = mem_calloc(count, sizeof *out->metas);
    out->entries = mem_calloc(count, sizeof *out->entries);
    if (out->metas == NULL || out->entries == NULL) {
        fields->rc = reason_set(fields->why, LKV_ENOMEM, "no memory for %u entries", count);
        return;
    }
    out->count = count;
    struct fields entry = {
        .items = list->via.array.ptr, .count = list->via.array.size, .why = fields->why};
    for (uint32_t i = 0; i < count && entry.rc == 0; i++) {
        get_entry(&entry, out, i);
    }
    fields->rc = entry.rc;
}

static void get_append(struct fields *fields, struct raft_packet *out) {
    struct raft_message *m = &out->message;
    m->append.prev_index = get_within(fields, 0, UINT64_MAX / 2);
    m->append.prev_term = get(fields);
    m->append.commit = get(fields);
    m->append.request_no = get(fields);
    out->first = m->append.prev_index + 1;
    get_entries(fields, out);
    m->append.count = out->count;
    m->append.entries = out->metas;
}

static void get_repair_reply(struct fields *fields, struct raft_packet *out) {
    struct raft_message *m = &out->message;
    m->repair_reply.answer =
        (enum raft_repair_answer)get_within(fields, RAFT_REPAIR_READABLE, RAFT_REPAIR_COMPACTED);
    m->repair_reply.boot_nonce = get(fields);
    m->repair_reply.round = get(fields);
    m->repair_reply.shared_index = get(fields);
    m->repair_reply.shared_term = get(fields);
    m->repair_reply.first = get_within(fields, 0, UINT64_MAX / 2);
    out->first = m->repair_reply.first;
    get_entries(fields, out);
    m->repair_reply.count = out->count;
    m->repair_reply.entries = out->metas;
}

static void get_body(struct fields *fields, struct raft_packet *out) {
    struct raft_message *m = &out->message;
    switch (m->kind) {
    case RAFT_VOTE_REQUEST: get_vote_request(fields, m); break;
    case RAFT_VOTE_REPLY: get_vote_reply(fields, m); break;
    case RAFT_APPEND: get_append(fields, out); break;
    case RAFT_APPEND_REPLY: get_append_reply(fields, m); break;
    case RAFT_HEARTBEAT: get_heartbeat(fields, m); break;
    case RAFT_HEARTBEAT_REPLY: get_heartbeat_reply(fields, m); break;
    case RAFT_READ_REQUEST: get_read_request(fields, m); break;
    case RAFT_READ_REPLY: get_read_reply(fields, m); break;
    case RAFT_TRANSFER_NOW: m->transfer_now.last_index = get(fields); break;
    case RAFT_REPAIR_REQUEST: get_repair_request(fields, m); break;
    case RAFT_REPAIR_REPLY: get_repair_reply(fields, out); break;
    case RAFT_CATCHUP_REQUEST: get_catchup_request(fields, m); break;
    case RAFT_CATCHUP_REPLY: get_catchup_reply(fields, m); break;
    }
}

static int get_message(const msgpack_object *object, struct raft_packet *out, struct reason *why) {
    if (object->type != MSGPACK_OBJECT_ARRAY || object->via.array.size < HEAD_FIELDS) {
        return reason_set(why, LKV_EPROTOCOL, "a message is an array of at least %d fields",
                          HEAD_FIELDS);
    }
    struct fields fields = {
        .items = object->via.array.ptr, .count = object->via.array.size, .why = why};
    uint64_t kind = get(&fields);
    if (fields.rc == 0 && field_count(kind) != fields.count) {
        return reason_set(why, LKV_EPROTOCOL, "kind %llu has %zu fields; %zu came",
                          (unsigned long long)kind, field_count(kind), fields.count);
    }
    out->message.kind = (enum raft_message_kind)kind;
    out->message.from = get(&fields);
    out->message.to = get(&fields);
    out->message.term = get(&fields);
    if (fields.rc == 0) {
        get_body(&fields, out);
    }
    return fields.rc;
}

/* One complete object within the limits, before the library sees a byte. */
static int scan(struct slice body, struct reason *why) {
    struct scan state = {0};
    struct scan_limits limits = {.bytes_max = body.size,
                                 .objects_max =
                                     ENTRY_FIELDS * RAFT_APPEND_ENTRIES_MAX + 2 * HEAD_FIELDS + 16};
    int rc = scan_object(&state, body, &limits, why);
    if (rc < 0) {
        return rc == LKV_ETOOLARGE ? LKV_EPROTOCOL : rc;
    }
    if (rc == 0 || state.offset != body.size) {
        return reason_set(why, LKV_EPROTOCOL, "%zu bytes are not one message", body.size);
    }
    return 0;
}

int raft_wire_decode(struct slice body, struct raft_packet *out, struct reason *why) {
    *out = (struct raft_packet){0};
    int rc = scan(body, why);
    if (rc != 0) {
        return rc;
    }
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    msgpack_unpack_return result =
        msgpack_unpack_next(&unpacked, (const char *)body.data, body.size, NULL);
    if (result == MSGPACK_UNPACK_SUCCESS) {
        rc = get_message(&unpacked.data, out, why);
    } else if (result == MSGPACK_UNPACK_NOMEM_ERROR) {
        rc = reason_set(why, LKV_ENOMEM, "no memory to unpack a message");
    } else {
        rc = reason_set(why, LKV_EPROTOCOL, "msgpack refused what the scan accepted");
    }
    msgpack_unpacked_destroy(&unpacked);
    if (rc != 0) {
        raft_packet_fini(out);
    }
    return rc;
}

void raft_packet_fini(struct raft_packet *packet) {
    for (uint32_t i = 0; packet->entries != NULL && i < packet->count; i++) {
        blob_unref(packet->entries[i].payload);
    }
    mem_free(packet->entries);
    mem_free(packet->metas);
    *packet = (struct raft_packet){0};
}
