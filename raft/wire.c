/* One msgpack array a message: [kind, from, to, term, ...the kind's fields, in the order below].
 *
 * Each kind's fields are listed once, in `layouts`, for packing and for reading. An array of another
 * length, a field of another type or beyond its range is refused: what may follow in later versions
 * is agreed on in the hello, before. What protocol 1 has got since is the last field of a kind, and left out
 * when it says nothing: it says something only to who has said that it knows it. */
#include "raft/wire.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/scan.h"

#include <msgpack.h>
#include <stdio.h>

/* ------------------------------------------------------------------ each kind's fields */

enum shape {
    NUMBER, /* uint64_t */
    SMALL,  /* uint32_t, or an enum of ours */
    CODE,   /* int, an error code: 0 or negative, and stored positive */
    FLAG    /* bool; the only one that is no unsigned integer on the wire */
};

struct field {
    enum shape shape;
    size_t offset;        /* in struct raft_message */
    uint64_t least, most; /* of what is on the wire; of a flag nothing */
};

#define FIELD(shape, name, least, most) \
    { (shape), offsetof(struct raft_message, name), (least), (most) }
#define U64(name)               FIELD(NUMBER, name, 0, UINT64_MAX)
#define U32(name)               FIELD(SMALL, name, 0, UINT32_MAX)
#define INDEX(name)             FIELD(NUMBER, name, 0, UINT64_MAX / 2) /* entries are counted from it */
#define ENUM(name, least, most) FIELD(SMALL, name, least, most)
#define ROOM(name)              ENUM(name, RAFT_ROOM_NONE, RAFT_ROOM_FREE)
#define ERROR(name)             FIELD(CODE, name, 0, 999)
#define BOOL(name)              FIELD(FLAG, name, 0, 0)

_Static_assert(sizeof(enum raft_message_kind) == sizeof(uint32_t), "an enum is SMALL");

struct layout {
    size_t count;
    const struct field *fields;
    bool last_is_late; /* and left out when it is 0 or false */
};

#define LAYOUT_OF(late, ...)                                                \
    {                                                                       \
        sizeof((const struct field[]){__VA_ARGS__}) / sizeof(struct field), \
            (const struct field[]){__VA_ARGS__}, (late)                     \
    }
#define LAYOUT(...)           LAYOUT_OF(false, __VA_ARGS__)
#define LAYOUT_WITH_LATE(...) LAYOUT_OF(true, __VA_ARGS__)

static const struct layout head =
    LAYOUT(ENUM(kind, RAFT_VOTE_REQUEST, RAFT_CATCHUP_REPLY), U64(from), U64(to), U64(term));

/* Behind those of an append and of a repair reply come the entries, as one array more. */
static const struct layout layouts[] = {
    [RAFT_VOTE_REQUEST] =
        LAYOUT(BOOL(vote_request.pre), BOOL(vote_request.by_transfer),
               U64(vote_request.token_leader), U64(vote_request.token_term),
               U64(vote_request.last_index), U64(vote_request.last_term), U64(vote_request.round)),
    [RAFT_VOTE_REPLY] = LAYOUT(BOOL(vote_reply.pre),
                               ENUM(vote_reply.answer, RAFT_VOTE_ACCEPT, RAFT_VOTE_NOT_MEMBER),
                               U64(vote_reply.round)),
    [RAFT_APPEND] = LAYOUT(INDEX(append.prev_index), U64(append.prev_term), U64(append.commit),
                           U64(append.request_no)),
    [RAFT_APPEND_REPLY] =
        LAYOUT(ENUM(append_reply.result, RAFT_APPEND_OK, RAFT_APPEND_GAP),
               U64(append_reply.request_no), U64(append_reply.durable), U64(append_reply.received),
               U64(append_reply.conflict_term), U64(append_reply.conflict_first),
               U64(append_reply.want_first), U64(append_reply.want_last), ROOM(append_reply.room)),
    [RAFT_HEARTBEAT] =
        LAYOUT_WITH_LATE(U64(heartbeat.commit), U64(heartbeat.round), U32(heartbeat.promise_ms)),
    [RAFT_HEARTBEAT_REPLY] = LAYOUT_WITH_LATE(
        U64(heartbeat_reply.round), U64(heartbeat_reply.durable), U64(heartbeat_reply.received),
        ROOM(heartbeat_reply.room), U32(heartbeat_reply.promise_ms)),
    [RAFT_READ_REQUEST] = LAYOUT_WITH_LATE(U64(read_request.context), U64(read_request.boot_nonce),
                                           BOOL(read_request.leased)),
    [RAFT_READ_REPLY] = LAYOUT(U64(read_reply.context), U64(read_reply.boot_nonce),
                               U64(read_reply.index), ERROR(read_reply.rc)),
    [RAFT_TRANSFER_NOW] = LAYOUT(U64(transfer_now.last_index)),
    [RAFT_REPAIR_REQUEST] = LAYOUT(
        ENUM(repair_request.want, RAFT_REPAIR_STATUS, RAFT_REPAIR_IMAGE), U64(repair_request.first),
        U64(repair_request.last), U64(repair_request.prev_term), U64(repair_request.last_term),
        U32(repair_request.bytes_max), U64(repair_request.boot_nonce), U64(repair_request.round)),
    [RAFT_REPAIR_REPLY] = LAYOUT(
        ENUM(repair_reply.answer, RAFT_REPAIR_READABLE, RAFT_REPAIR_COMPACTED),
        U64(repair_reply.boot_nonce), U64(repair_reply.round), U64(repair_reply.shared_index),
        U64(repair_reply.shared_term), INDEX(repair_reply.first)),
    [RAFT_CATCHUP_REQUEST] = LAYOUT(U64(catchup_request.context), U64(catchup_request.boot_nonce)),
    [RAFT_CATCHUP_REPLY] =
        LAYOUT(U64(catchup_reply.context), U64(catchup_reply.boot_nonce), U64(catchup_reply.index)),
};

enum { ENTRY_FIELDS = 3 };

static bool has_entries(enum raft_message_kind kind) {
    return kind == RAFT_APPEND || kind == RAFT_REPAIR_REPLY;
}

static uint64_t load(const struct raft_message *m, const struct field *field) {
    const void *at = (const char *)m + field->offset;
    if (field->shape == NUMBER) {
        return *(const uint64_t *)at;
    }
    if (field->shape == SMALL) {
        return *(const uint32_t *)at;
    }
    return field->shape == CODE ? (uint64_t)(-*(const int *)at) : *(const bool *)at;
}

static void store(struct raft_message *m, const struct field *field, uint64_t value) {
    void *at = (char *)m + field->offset;
    if (field->shape == NUMBER) {
        *(uint64_t *)at = value;
    } else if (field->shape == SMALL) {
        *(uint32_t *)at = (uint32_t)value;
    } else if (field->shape == CODE) {
        *(int *)at = -(int)value;
    } else {
        *(bool *)at = value != 0;
    }
}

/* Of a kind's own fields, how many a message has, which may be without the last. */
static size_t own_fields(const struct raft_message *m) {
    const struct layout *layout = &layouts[m->kind];
    bool without = layout->last_is_late && load(m, &layout->fields[layout->count - 1]) == 0;
    return layout->count - without;
}

/* ------------------------------------------------------------------ encode */

static int write_buffer(void *data, const char *bytes, size_t size) {
    buffer_append(data, bytes, size);
    return 0; /* a failure stays in the buffer */
}

static void put_fields(msgpack_packer *packer, const struct layout *layout, size_t count,
                       const struct raft_message *m) {
    for (size_t i = 0; i < count; i++) {
        const struct field *field = &layout->fields[i];
        uint64_t value = load(m, field);
        if (field->shape == FLAG) {
            (void)(value != 0 ? msgpack_pack_true(packer) : msgpack_pack_false(packer));
        } else {
            (void)msgpack_pack_uint64(packer, value);
        }
    }
}

static void put_entries(msgpack_packer *packer, uint64_t first, uint32_t count,
                        const struct entry *entries) {
    (void)msgpack_pack_array(packer, (size_t)count * ENTRY_FIELDS);
    for (uint32_t i = 0; i < count; i++) {
        const struct entry *entry = &entries[i];
        ASSERT(entry->index == first + i);
        struct slice payload = blob_slice(entry->payload);
        (void)msgpack_pack_uint64(packer, entry->term);
        (void)msgpack_pack_uint64(packer, (uint64_t)entry->type);
        (void)msgpack_pack_bin(packer, payload.size);
        if (payload.size > 0) {
            (void)msgpack_pack_bin_body(packer, payload.data, payload.size);
        }
    }
}

void raft_wire_encode(const struct raft_message *m, const struct entry *entries,
                      struct buffer *out) {
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, write_buffer);
    size_t own = own_fields(m);
    (void)msgpack_pack_array(&packer, head.count + own + has_entries(m->kind));
    put_fields(&packer, &head, head.count, m);
    put_fields(&packer, &layouts[m->kind], own, m);
    if (m->kind == RAFT_APPEND) {
        put_entries(&packer, m->append.prev_index + 1, m->append.count, entries);
    } else if (m->kind == RAFT_REPAIR_REPLY) {
        put_entries(&packer, m->repair_reply.first, m->repair_reply.count, entries);
    }
}

/* ------------------------------------------------------------------ decode */

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

static uint64_t get_within(struct fields *fields, uint64_t least, uint64_t most) {
    const msgpack_object *object = next(fields);
    if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER) {
        refuse(fields, "an unsigned integer");
        return least;
    }
    if (object->via.u64 < least || object->via.u64 > most) {
        char expected[96];
        (void)snprintf(expected, sizeof expected, "from %llu to %llu: found %llu",
                       (unsigned long long)least, (unsigned long long)most,
                       (unsigned long long)object->via.u64);
        refuse(fields, expected);
        return least;
    }
    return object->via.u64;
}

static bool get_flag(struct fields *fields) {
    const msgpack_object *object = next(fields);
    if (object->type != MSGPACK_OBJECT_BOOLEAN) {
        refuse(fields, "a boolean");
        return false;
    }
    return object->via.boolean;
}

static void get_fields(struct fields *fields, const struct layout *layout, size_t count,
                       struct raft_message *m) {
    for (size_t i = 0; i < count; i++) {
        const struct field *field = &layout->fields[i];
        store(m, field,
              field->shape == FLAG ? get_flag(fields)
                                   : get_within(fields, field->least, field->most));
    }
}

static void get_entry(struct fields *fields, struct raft_packet *out, uint32_t i) {
    struct entry *entry = &out->entries[i];
    entry->index = out->first + i;
    entry->term = get_within(fields, 0, UINT64_MAX);
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

/* The entries, with what the message says of them. */
static void get_append(struct fields *fields, struct raft_packet *out) {
    struct raft_message *m = &out->message;
    out->first = m->append.prev_index + 1;
    get_entries(fields, out);
    m->append.count = out->count;
    m->append.entries = out->metas;
}

static void get_repair_reply(struct fields *fields, struct raft_packet *out) {
    struct raft_message *m = &out->message;
    out->first = m->repair_reply.first;
    get_entries(fields, out);
    m->repair_reply.count = out->count;
    m->repair_reply.entries = out->metas;
}

static int get_message(const msgpack_object *object, struct raft_packet *out, struct reason *why) {
    if (object->type != MSGPACK_OBJECT_ARRAY || object->via.array.size < head.count) {
        return reason_set(why, LKV_EPROTOCOL, "a message is an array of at least %zu fields",
                          head.count);
    }
    struct fields fields = {
        .items = object->via.array.ptr, .count = object->via.array.size, .why = why};
    struct raft_message *m = &out->message;
    get_fields(&fields, &head, head.count, m);
    if (fields.rc != 0) {
        return fields.rc;
    }
    const struct layout *layout = &layouts[m->kind];
    size_t all = head.count + layout->count + has_entries(m->kind);
    bool without = layout->last_is_late && fields.count + 1 == all;
    if (fields.count != all && !without) {
        return reason_set(why, LKV_EPROTOCOL, "kind %d has %zu fields; %zu came", (int)m->kind, all,
                          fields.count);
    }
    get_fields(&fields, layout, layout->count - without, m);
    if (m->kind == RAFT_APPEND) {
        get_append(&fields, out);
    } else if (m->kind == RAFT_REPAIR_REPLY) {
        get_repair_reply(&fields, out);
    }
    return fields.rc;
}

/* One complete object within the limits, before the library sees a byte. */
static int scan(struct slice body, struct reason *why) {
    struct scan state = {0};
    struct scan_limits limits = {.bytes_max = body.size,
                                 .objects_max = ENTRY_FIELDS * RAFT_APPEND_ENTRIES_MAX + 32};
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
    } else { /* the scan has accepted the bytes */
        rc = reason_set(why, LKV_ENOMEM, "no memory to unpack a message");
    }
    msgpack_unpacked_destroy(&unpacked);
    if (rc != 0) {
        raft_packet_fini(out);
    }
    return rc;
}

void raft_packet_fini(struct raft_packet *packet) {
    for (uint32_t i = 0; i < packet->count; i++) {
        blob_unref(packet->entries[i].payload);
    }
    mem_free(packet->entries);
    mem_free(packet->metas);
    *packet = (struct raft_packet){0};
}
