#include "lib/events.h"

#include "base/assert.h"
#include "base/mem.h"

void msg_set_events(struct lkv_msg *msg, struct kv_event *events, size_t count) {
    ASSERT(msg->events == NULL);
    msg->events = events;
    msg->event_count = count;
}

void msg_drop_events(struct lkv_msg *msg) {
    for (size_t i = 0; i < msg->event_count; i++) {
        kv_event_release(&msg->events[i]); /* one that came from the wire pins nothing */
    }
    mem_free(msg->events);
    msg->events = NULL;
    msg->event_count = 0;
}

static size_t size_of(const struct kv_item *item) {
    return item->key.size + item->value.size;
}

size_t msg_events_cost(const struct lkv_msg *msg) {
    size_t cost = sizeof(*msg);
    for (size_t i = 0; i < msg->event_count; i++) {
        const struct kv_event *event = &msg->events[i];
        cost += sizeof(*event) + size_of(&event->item) + size_of(&event->previous);
    }
    return cost;
}

/* Never NULL: no special case for whoever copies empty bytes. */
static struct lkv_bytes bytes_of(struct slice slice) {
    return (struct lkv_bytes){.data = slice.size > 0 ? (const void *)slice.data : "",
                              .size = slice.size};
}

static struct lkv_kv kv_of(const struct kv_item *item) {
    return (struct lkv_kv){.key = bytes_of(item->key),
                           .value = bytes_of(item->value),
                           .create_rev = item->create_rev,
                           .mod_rev = item->mod_rev,
                           .version = item->version,
                           .lease = item->lease};
}

bool lkv_msg_event(const struct lkv_msg *msg, size_t i, struct lkv_event *out) {
    if (i >= msg->event_count) {
        return false;
    }
    const struct kv_event *event = &msg->events[i];
    *out = (struct lkv_event){.type = event->item.version == 0 ? LKV_EVENT_DELETE : LKV_EVENT_PUT,
                              .kv = kv_of(&event->item),
                              .previous = kv_of(&event->previous)};
    return true;
}
