#include "lib/client_wire_pack.h"

#include "base/mem.h"

#include <msgpack.h>

enum {
    ZONE_CHUNK_SIZE = 4096, /* all objects of a put or get and of their replies */
    CALL_OBJECTS_MAX = 32 + LKV_APPEND_RECORDS_MAX,
    REPLY_OBJECTS_MAX = 1024 * 1024 /* of a page of 65,536 items, seven objects each */
};

const struct scan_limits wire_call_limits = {.bytes_max = WIRE_FRAME_BYTES_MAX,
                                             .objects_max = CALL_OBJECTS_MAX};
const struct scan_limits wire_reply_limits = {.bytes_max = WIRE_FRAME_BYTES_MAX,
                                              .objects_max = REPLY_OBJECTS_MAX};

struct wire_decoder {
    msgpack_zone zone;
    msgpack_object root;   /* of the frame decoded last */
    struct slice *records; /* owned: of the append decoded last */
    size_t record_capacity;
};

struct wire_decoder *wire_decoder_new(void) {
    struct wire_decoder *decoder = mem_calloc(1, sizeof(*decoder));
    if (decoder != NULL && !msgpack_zone_init(&decoder->zone, ZONE_CHUNK_SIZE)) {
        mem_free(decoder);
        return NULL;
    }
    return decoder;
}

void wire_decoder_free(struct wire_decoder *decoder) {
    if (decoder != NULL) {
        msgpack_zone_destroy(&decoder->zone);
        mem_free(decoder->records);
        mem_free(decoder);
    }
}

struct slice *wire_record_slices(struct wire_decoder *decoder, size_t count) {
    struct slice *grown = mem_array_grow(decoder->records, &decoder->record_capacity,
                                         count > 0 ? count : 1, sizeof(*grown));
    if (grown != NULL) {
        decoder->records = grown;
    }
    return grown;
}

/* ------------------------------------------------------------------ packing */

static int pack_into(void *arg, const char *data, size_t size) {
    struct buffer *out = arg;
    buffer_append(out, data, size);
    return 0; /* a failure sticks in the buffer */
}

void wire_packer_init(msgpack_packer *packer, struct buffer *out) {
    msgpack_packer_init(packer, out, pack_into);
}

void wire_pack_bytes(msgpack_packer *packer, struct slice bytes) {
    msgpack_pack_bin(packer, bytes.size);
    if (bytes.size > 0) {
        msgpack_pack_bin_body(packer, bytes.data, bytes.size);
    }
}

void wire_pack_text(msgpack_packer *packer, const char *text) {
    size_t size = strlen(text);
    msgpack_pack_str(packer, size);
    msgpack_pack_str_body(packer, text, size);
}

/* ------------------------------------------------------------------ unpacking */

bool wire_as_number(const msgpack_object *object, uint64_t *out) {
    if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER) {
        return false;
    }
    *out = object->via.u64;
    return true;
}

bool wire_as_bytes(const msgpack_object *object, struct slice *out) {
    if (object->type == MSGPACK_OBJECT_BIN) {
        *out = slice_of(object->via.bin.ptr, object->via.bin.size);
        return true;
    }
    if (object->type == MSGPACK_OBJECT_STR) {
        *out = slice_of(object->via.str.ptr, object->via.str.size);
        return true;
    }
    return false;
}

bool wire_as_array(const msgpack_object *object, const msgpack_object **at, uint32_t *count) {
    if (object->type != MSGPACK_OBJECT_ARRAY) {
        return false;
    }
    *at = object->via.array.ptr;
    *count = object->via.array.size;
    return true;
}

const msgpack_object *wire_parts(const struct wire_decoder *decoder) {
    return decoder->root.via.array.ptr;
}

int wire_unpack(struct wire_decoder *decoder, struct slice frame, uint64_t type,
                const msgpack_object **parts, struct reason *why) {
    msgpack_zone_clear(&decoder->zone);
    size_t offset = 0;
    msgpack_unpack_return unpacked = msgpack_unpack((const char *)frame.data, frame.size, &offset,
                                                    &decoder->zone, &decoder->root);
    if (unpacked != MSGPACK_UNPACK_SUCCESS) { /* the scan has accepted the bytes */
        return reason_set(why, LKV_ENOMEM, "out of memory for a frame of %zu bytes", frame.size);
    }
    uint32_t count;
    uint64_t found;
    bool good = wire_as_array(&decoder->root, parts, &count) && count == WIRE_FRAME_PARTS &&
                wire_as_number(&(*parts)[0], &found) && found == type;
    if (!good) {
        return reason_set(why, LKV_EPROTOCOL, "a frame is no array of four that begins with %u",
                          (unsigned)type);
    }
    return 0;
}
