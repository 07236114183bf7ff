/* Records of the log in a message, and where their bytes lie on disk.
 *
 *   message ──> struct msg_extents ──> struct extents <── node
 *                 (its pins)             (the log, until the node closes it)
 *
 * A message may outlive its node: what it asks of the log goes through the shared struct, which knows
 * when the log is gone. */
#ifndef LIB_RECORDS_H
#define LIB_RECORDS_H

#include "lib/msg.h"
#include "log/log.h"

struct extents;

/* The log's end of it. extents_close: later questions are LKV_ECLOSED; it is freed with the last
 * message. Loop thread, before log_close. NULL is fine. */
struct extents *extents_open(struct log *log); /* NULL without memory */
void extents_close(struct extents *extents);

/* Room for `capacity` records, in a message that has none; `extents` may be NULL. LKV_ENOMEM. */
MUST_USE int msg_records_reserve(struct lkv_msg *msg, size_t capacity, struct extents *extents);

/* Adds one, with a reference of its own to the blob (NULL: no bytes). The first `skip` bytes of the payload
 * are not shown. */
void msg_records_add(struct lkv_msg *msg, const struct entry *entry, size_t skip);

/* What the message holds in memory, as far as it is the records'. */
size_t msg_records_cost(const struct lkv_msg *msg);

#endif
