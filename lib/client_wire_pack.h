/* What the two halves of the codec share: requests (client_wire_call.c), replies
 * (client_wire_reply.c). Their files include msgpack.h. */
#ifndef LIB_CLIENT_WIRE_PACK_H
#define LIB_CLIENT_WIRE_PACK_H

#include "lib/client_wire.h"

struct msgpack_object;
struct msgpack_packer;

enum { WIRE_TYPE_CALL = 0, WIRE_TYPE_REPLY = 1, WIRE_FRAME_PARTS = 4 };

void wire_packer_init(struct msgpack_packer *packer, struct buffer *out);
void wire_pack_bytes(struct msgpack_packer *packer, struct slice bytes);
void wire_pack_text(struct msgpack_packer *packer, const char *text);

/* Items, as an array of arrays. */
void wire_pack_items(struct msgpack_packer *packer, const struct kv_item *items, size_t count);

/* Bytes of a frame, and of a copy of it, to which what is read points. */
struct wire_bytes {
    const uint8_t *frame, *copy;
};
/* Owned: an array for mem_free. LKV_EPROTOCOL, LKV_ENOMEM: what is there may be half filled. */
MUST_USE int wire_read_items(const struct msgpack_object *object, const struct wire_bytes *bytes,
                             struct kv_item **items, size_t *count);

/* client_wire_answer.c: what is in a transaction's answer. */
void wire_pack_answers(struct msgpack_packer *packer, const struct kv_answer *answer);
MUST_USE int wire_read_answers(const struct msgpack_object *object, const struct wire_bytes *bytes,
                               struct lkv_msg *reply);

/* Decodes one frame, an array of four that begins with `type`: `*parts` are the four, until the next. */
MUST_USE int wire_unpack(struct wire_decoder *decoder, struct slice frame, uint64_t type,
                         const struct msgpack_object **parts, struct reason *why);

/* Room for as many records, the decoder's own until the next call. NULL when out of memory. */
struct slice *wire_record_slices(struct wire_decoder *decoder, size_t count);

/* The four of the frame decoded last. */
const struct msgpack_object *wire_parts(const struct wire_decoder *decoder);

/* Key, value, create_rev, mod_rev, version, lease: of replies; read, its bytes lie in the frame. */
void wire_pack_item(struct msgpack_packer *packer, const struct kv_item *item);
bool wire_as_item(const struct msgpack_object *object, struct kv_item *out);
/* The item's bytes move with a copy of the frame. */
void wire_rebase(struct slice *bytes, const uint8_t *from, const uint8_t *to);

/* The events of a watch: a pair of a reply's map, and the flags of the call (client_wire_events.c). */
enum {
    WIRE_WATCH_BITS =
        WIRE_WATCH_WAIT | WIRE_WATCH_PREVIOUS | WIRE_WATCH_NO_PUTS | WIRE_WATCH_NO_DELETES
};
extern const char wire_events_name[];
void wire_pack_events(struct msgpack_packer *packer, const struct lkv_msg *reply);
MUST_USE int wire_read_events(const struct msgpack_object *object, struct slice frame,
                              struct lkv_msg *reply);
uint64_t wire_watch_bits(const struct wire_call *call);
void wire_take_watch_bits(struct wire_call *call, unsigned bits);

/* Typed views of an object; false when it is something else. Bytes may come as bin or str. */
bool wire_as_number(const struct msgpack_object *object, uint64_t *out);
bool wire_as_bytes(const struct msgpack_object *object, struct slice *out);
bool wire_as_array(const struct msgpack_object *object, const struct msgpack_object **at,
                   uint32_t *count);

#endif
