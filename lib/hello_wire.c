#include "lib/hello_wire.h"

#include "base/scan.h"
#include "lib/option_value.h"

#include <msgpack.h>
#include <stdio.h>

/* One array; later versions append fields, and a reader ignores what lies behind those it knows. */
enum {
    HELLO_FIELDS = 15,
    WITH_MODEL = 16, /* of model log */
    WITH_GROWN = 18, /* of a cluster that grew */
    WITH_FLAGS = 19, /* there is one */
    GROWN_FIELDS = WITH_GROWN - WITH_MODEL,
    MEMBER_FIELDS = 3
};

enum { FLAG_END_UNKNOWN = 1 };

/* The last fields are left out as far as they say what is usual. */
static size_t field_count(const struct hello *hello) {
    if (hello->end_unknown) {
        return WITH_FLAGS;
    }
    if (hello->grown_index != 0) {
        return WITH_GROWN;
    }
    return model_has_records(hello->model) ? WITH_MODEL : HELLO_FIELDS;
}

static int append_bytes(void *data, const char *bytes, size_t size) {
    struct buffer *out = data;
    buffer_append(out, bytes, size);
    return 0; /* a failure stays in the buffer */
}

static void pack_text(msgpack_packer *packer, const char *text) {
    size_t size = strlen(text);
    msgpack_pack_str(packer, size);
    msgpack_pack_str_body(packer, text, size);
}

void hello_encode(const struct hello *hello, struct buffer *out) {
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, append_bytes);
    size_t fields = field_count(hello);
    msgpack_pack_array(&packer, fields);
    msgpack_pack_uint32(&packer, hello->protocol_min);
    msgpack_pack_uint32(&packer, hello->protocol_max);
    msgpack_pack_uint32(&packer, hello->feature_level);
    msgpack_pack_uint64(&packer, hello->group_id);
    msgpack_pack_uint64(&packer, hello->cluster_id);
    msgpack_pack_uint64(&packer, hello->member_id);
    msgpack_pack_uint64(&packer, hello->start_counter);
    msgpack_pack_uint64(&packer, hello->boot_nonce);
    msgpack_pack_uint64(&packer, hello->conn_nonce);
    msgpack_pack_uint64(&packer, hello->sequence);
    pack_text(&packer, hello->name);
    pack_text(&packer, hello->address);
    msgpack_pack_uint64(&packer, hello->last_index);
    msgpack_pack_uint64(&packer, hello->last_term);
    msgpack_pack_array(&packer, hello->member_count);
    for (size_t i = 0; i < hello->member_count; i++) {
        msgpack_pack_array(&packer, MEMBER_FIELDS);
        pack_text(&packer, hello->members[i].name);
        msgpack_pack_uint64(&packer, hello->members[i].id);
        pack_text(&packer, hello->members[i].address);
    }
    if (fields >= WITH_MODEL) {
        pack_text(&packer, model_name(model_has_records(hello->model) ? hello->model : MODEL_KV));
    }
    if (fields >= WITH_GROWN) {
        msgpack_pack_uint64(&packer, hello->grown_index);
        msgpack_pack_uint64(&packer, hello->grown_term);
    }
    if (fields >= WITH_FLAGS) {
        msgpack_pack_uint64(&packer, hello->end_unknown ? FLAG_END_UNKNOWN : 0);
    }
}

/* Walks the fields of an array; the first that is absent or of another type sets `failed`. */
struct fields {
    const msgpack_object *at;
    uint32_t left;
    bool failed;
};

static const msgpack_object *next(struct fields *fields, msgpack_object_type type) {
    if (fields->failed || fields->left == 0 || fields->at->type != type) {
        fields->failed = true;
        return NULL;
    }
    fields->left--;
    return fields->at++;
}

static uint64_t next_u64(struct fields *fields) {
    const msgpack_object *object = next(fields, MSGPACK_OBJECT_POSITIVE_INTEGER);
    return object != NULL ? object->via.u64 : 0;
}

static uint32_t next_u32(struct fields *fields) {
    uint64_t value = next_u64(fields);
    fields->failed = fields->failed || value > UINT32_MAX;
    return (uint32_t)value;
}

static struct slice next_text(struct fields *fields) {
    const msgpack_object *object = next(fields, MSGPACK_OBJECT_STR);
    return object != NULL ? slice_of(object->via.str.ptr, object->via.str.size) : (struct slice){0};
}

static void next_name(struct fields *fields, char into[static NAME_SIZE]) {
    struct slice text = next_text(fields);
    if (option_name(text, into, NULL) != 0) {
        fields->failed = true;
    }
}

/* An address goes into traces and into the identity file, where a line break would forge a line. */
static void next_address(struct fields *fields, char into[static ADDRESS_SIZE]) {
    struct slice text = next_text(fields);
    bool good = text.size < ADDRESS_SIZE;
    for (size_t i = 0; good && i < text.size; i++) {
        good = text.data[i] > 0x1f && text.data[i] != 0x7f;
    }
    if (!good) {
        fields->failed = true;
        return;
    }
    if (text.size > 0) {
        memcpy(into, text.data, text.size);
    }
    into[text.size] = '\0';
}

static struct fields next_array(struct fields *fields) {
    const msgpack_object *object = next(fields, MSGPACK_OBJECT_ARRAY);
    if (object == NULL) {
        return (struct fields){.failed = true};
    }
    return (struct fields){.at = object->via.array.ptr, .left = object->via.array.size};
}

/* The last member: its id is one, and neither name nor id stands before it. */
static bool is_new_member(const struct hello *hello) {
    const struct identity_member *last = &hello->members[hello->member_count - 1];
    for (const struct identity_member *at = hello->members; at < last; at++) {
        if (at->id == last->id || strcmp(at->name, last->name) == 0) {
            return false;
        }
    }
    return last->id != 0;
}

static void decode_members(struct fields *fields, struct hello *out) {
    struct fields list = next_array(fields);
    if (list.failed || list.left > OPTION_PEERS_MAX) {
        fields->failed = true;
        return;
    }
    while (list.left > 0 && !list.failed) {
        struct identity_member *member = &out->members[out->member_count++];
        struct fields row = next_array(&list);
        next_name(&row, member->name);
        member->id = next_u64(&row);
        next_address(&row, member->address);
        list.failed = list.failed || row.failed || !is_new_member(out);
    }
    fields->failed = list.failed;
}

/* The field behind the last: absent, or of another type, where the model is kv. */
static void decode_model(struct fields *fields, struct hello *out) {
    out->model = MODEL_KV;
    if (fields->failed || fields->left == 0 || fields->at->type != MSGPACK_OBJECT_STR) {
        return;
    }
    struct slice name = next_text(fields);
    enum model model = MODEL_KV;
    while (model <= MODEL_OWN && !slice_equal(name, slice_text(model_name(model)))) {
        model++;
    }
    if (model <= MODEL_OWN) {
        out->model = model;
    } else {
        fields->failed = true; /* of a later version: not a member of this cluster */
    }
}

static void decode_grown(struct fields *fields, struct hello *out) {
    if (!fields->failed && fields->left >= GROWN_FIELDS &&
        fields->at->type == MSGPACK_OBJECT_POSITIVE_INTEGER) {
        out->grown_index = next_u64(fields);
        out->grown_term = next_u64(fields);
    }
}

/* Flags that are not known yet mean nothing here. */
static void decode_flags(struct fields *fields, struct hello *out) {
    if (!fields->failed && fields->left > 0 &&
        fields->at->type == MSGPACK_OBJECT_POSITIVE_INTEGER) {
        out->end_unknown = (next_u64(fields) & FLAG_END_UNKNOWN) != 0;
    }
}

static bool decode_fields(struct fields *fields, struct hello *out) {
    out->protocol_min = next_u32(fields);
    out->protocol_max = next_u32(fields);
    out->feature_level = next_u32(fields);
    out->group_id = next_u64(fields);
    out->cluster_id = next_u64(fields);
    out->member_id = next_u64(fields);
    out->start_counter = next_u64(fields);
    out->boot_nonce = next_u64(fields);
    out->conn_nonce = next_u64(fields);
    out->sequence = next_u64(fields);
    next_name(fields, out->name);
    next_address(fields, out->address);
    out->last_index = next_u64(fields);
    out->last_term = next_u64(fields);
    decode_members(fields, out);
    decode_model(fields, out);
    decode_grown(fields, out);
    decode_flags(fields, out);
    return !fields->failed && out->member_id != 0;
}

int hello_decode(struct slice body, struct hello *out, struct reason *why) {
    *out = (struct hello){0};
    struct scan scan = {0};
    static const struct scan_limits limits = {.bytes_max = 64 * 1024, .objects_max = 1024};
    int rc = scan_object(&scan, body, &limits, why);
    if (rc != 1 || scan.offset != body.size) {
        return rc < 0 ? rc
                      : reason_set(why, LKV_EPROTOCOL, "hello of %zu bytes is not one whole object",
                                   body.size);
    }
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t offset = 0;
    bool unpacks = msgpack_unpack_next(&unpacked, (const char *)body.data, body.size, &offset) ==
                   MSGPACK_UNPACK_SUCCESS;
    bool good = unpacks && unpacked.data.type == MSGPACK_OBJECT_ARRAY;
    if (good) {
        struct fields fields = {.at = unpacked.data.via.array.ptr,
                                .left = unpacked.data.via.array.size};
        good = decode_fields(&fields, out);
    }
    msgpack_unpacked_destroy(&unpacked);
    if (!unpacks) { /* the scan has accepted the bytes */
        return reason_set(why, LKV_ENOMEM, "no memory to unpack a hello");
    }
    if (!good) {
        return reason_set(why, LKV_EPROTOCOL,
                          "hello has a missing field, one of another type or an impossible value "
                          "(expected %d fields)",
                          HELLO_FIELDS);
    }
    if (out->protocol_min > PROTOCOL_MAX || out->protocol_max < PROTOCOL_MIN) {
        return reason_set(why, LKV_EVERSION, "node %s speaks protocol %u to %u, this one %d to %d",
                          out->name, out->protocol_min, out->protocol_max, PROTOCOL_MIN,
                          PROTOCOL_MAX);
    }
    return 0;
}
