/* Events of a watch in a message: pinned in the engine, or, decoded from the wire, in its `backing`. */
#ifndef LIB_EVENTS_H
#define LIB_EVENTS_H

#include "lib/msg.h"

/* Takes an array of events, owned as mem_free wants it, into a message that has none. */
void msg_set_events(struct lkv_msg *msg, struct kv_event *events, size_t count);

/* What msg_clear drops. */
void msg_drop_events(struct lkv_msg *msg);

/* What the message holds in memory, as far as it is the events'. */
size_t msg_events_cost(const struct lkv_msg *msg);

#endif
