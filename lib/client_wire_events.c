/* Events of a watch on the wire: [item, previous item or nil], item as in a range; version 0: a delete. */
#include "lib/client_wire_pack.h"

#include "base/mem.h"
#include "lib/events.h"

#include <msgpack.h>

enum { EVENT_PARTS = 2 };

const char wire_events_name[] = "events";

/* On the wire and in the header, in this order. */
static const struct {
    unsigned wire;
    int flag;
} bits[] = {{WIRE_WATCH_PREVIOUS, LKV_WATCH_PREVIOUS},
            {WIRE_WATCH_NO_PUTS, LKV_WATCH_NO_PUTS},
            {WIRE_WATCH_NO_DELETES, LKV_WATCH_NO_DELETES}};

uint64_t wire_watch_bits(const struct wire_call *call) {
    uint64_t out = call->wait ? WIRE_WATCH_WAIT : 0;
    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
        out |= (call->watch_flags & bits[i].flag) != 0 ? bits[i].wire : 0;
    }
    return out;
}

void wire_take_watch_bits(struct wire_call *call, unsigned from) {
    call->wait = (from & WIRE_WATCH_WAIT) != 0;
    call->watch_flags = 0;
    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
        call->watch_flags |= (from & bits[i].wire) != 0 ? bits[i].flag : 0;
    }
}

void wire_pack_events(msgpack_packer *packer, const struct lkv_msg *reply) {
    wire_pack_text(packer, wire_events_name);
    msgpack_pack_array(packer, reply->event_count);
    for (size_t i = 0; i < reply->event_count; i++) {
        const struct kv_event *event = &reply->events[i];
        msgpack_pack_array(packer, EVENT_PARTS);
        wire_pack_item(packer, &event->item);
        if (event->previous.version > 0) {
            wire_pack_item(packer, &event->previous);
        } else {
            msgpack_pack_nil(packer);
        }
    }
}

static bool read_event(const msgpack_object *object, struct kv_event *out) {
    const msgpack_object *parts;
    uint32_t count;
    return wire_as_array(object, &parts, &count) && count >= EVENT_PARTS &&
           wire_as_item(&parts[0], &out->item) &&
           (parts[1].type == MSGPACK_OBJECT_NIL || wire_as_item(&parts[1], &out->previous));
}

int wire_read_events(const msgpack_object *object, struct slice frame, struct lkv_msg *reply) {
    const msgpack_object *at;
    uint32_t count;
    if (!wire_as_array(object, &at, &count) || reply->backing != NULL) {
        return LKV_EPROTOCOL;
    }
    reply->backing = blob_copy(frame);
    struct kv_event *events = mem_calloc(count, sizeof(*events));
    if (reply->backing == NULL || events == NULL) {
        mem_free(events);
        return LKV_ENOMEM;
    }
    msg_set_events(reply, events, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!read_event(&at[i], &events[i])) {
            return LKV_EPROTOCOL;
        }
        struct slice *const slices[] = {&events[i].item.key, &events[i].item.value,
                                        &events[i].previous.key, &events[i].previous.value};
        for (size_t j = 0; j < sizeof(slices) / sizeof(slices[0]); j++) {
            wire_rebase(slices[j], frame.data, reply->backing->data);
        }
    }
    return 0;
}
