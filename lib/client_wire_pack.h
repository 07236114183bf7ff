/* What the two halves of the codec share: requests (client_wire_call.c), replies
 * (client_wire_reply.c). */
#ifndef LIB_CLIENT_WIRE_PACK_H
#define LIB_CLIENT_WIRE_PACK_H

#include "lib/client_wire.h"

#include <msgpack.h>

enum { WIRE_TYPE_CALL = 0, WIRE_TYPE_REPLY = 1, WIRE_FRAME_PARTS = 4 };

struct wire_decoder {
    msgpack_zone zone;
    msgpack_object root; /* of the frame decoded last */
};

msgpack_packer wire_packer(struct buffer *out);
void wire_pack_bytes(msgpack_packer *packer, struct slice bytes);
void wire_pack_text(msgpack_packer *packer, const char *text);

/* Decodes one frame into decoder->root: an array of four that begins with `type`. */
MUST_USE int wire_unpack(struct wire_decoder *decoder, struct slice frame, uint64_t type,
                         struct reason *why);

/* Typed views of an object; false when it is something else. Bytes may come as bin or str. */
bool wire_as_number(const msgpack_object *object, uint64_t *out);
bool wire_as_bytes(const msgpack_object *object, struct slice *out);
bool wire_as_array(const msgpack_object *object, const msgpack_object **at, uint32_t *count);

#endif
