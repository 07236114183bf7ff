/* An answer or an event, as the caller will own it. Built by one thread, then immutable. */
#ifndef LIB_MSG_H
#define LIB_MSG_H

#include "base/list.h"
#include "kv/watch.h"
#include "lib/ledgerkv.h"

#include <stdarg.h>

enum { MSG_NUMBERS_MAX = 24, MSG_STRINGS_MAX = 12 };

/* The names are static strings of the table in msg.c: a name that comes from the wire is looked up
 * there, and dropped when this version does not know it. */
struct msg_number {
    const char *name;
    uint64_t value;
};
struct msg_string {
    const char *name;
    char *value; /* owned */
};
struct msg_member {
    char *id, *address, *role, *state; /* owned */
    uint64_t match, lag_entries, lag_ms;
};

struct msg_record {
    uint64_t index, term;
    struct slice data; /* of the blob, or of the message's `backing` */
    size_t skip;       /* bytes of the log's record that stand before it */
    struct blob *blob; /* owned; may be NULL */
};
struct msg_extents; /* lib/records.c: what pins the records' files */

struct lkv_msg {
    struct list_link link; /* of the queue that holds it */
    enum lkv_kind kind;
    int rc;
    void *tag;
    char *text; /* owned; NULL: the table's sentence of rc */
    struct msg_number numbers[MSG_NUMBERS_MAX];
    size_t number_count;
    struct msg_string strings[MSG_STRINGS_MAX];
    size_t string_count;
    struct kv_range
        range;            /* items, pinned in the engine; or, decoded from the wire, in `backing` */
    struct blob *backing; /* owned; non-NULL: `range.items` point into it, not into the engine */
    struct kv_answer *answer;   /* owned; NULL, or of a transaction; its bytes: as of the items */
    struct msg_member *members; /* owned */
    size_t member_count;
    struct msg_record *records; /* owned */
    size_t record_count;
    struct lkv_lease *leases; /* owned */
    size_t lease_count;
    struct kv_event *events; /* owned array; as `range`: pinned, or in `backing` */
    size_t event_count;
    struct msg_extents *extents; /* owned; NULL: the records lie in no file that we know */
    void (*on_free)(void *arg, struct lkv_msg *msg); /* any thread; role messages */
    void *on_free_arg;
};

struct lkv_msg *msg_new(enum lkv_kind kind, void *tag); /* NULL when out of memory */

/* Setters on a message that nobody else sees yet. They fail only for want of memory or room, and then
 * leave the value out: an answer without its text is better than none. A name must be in the table.
 * `format` may be NULL: the text is the table's sentence of rc. */
void msg_set_rc(struct lkv_msg *msg, int rc, const char *format, ...) PRINTF_LIKE(3, 4);
void msg_set_rc_list(struct lkv_msg *msg, int rc, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
void msg_set_u64(struct lkv_msg *msg, const char *name, uint64_t value);
void msg_set_str(struct lkv_msg *msg, const char *name, const char *value);
void msg_add_member(struct lkv_msg *msg, const struct lkv_member *member);

/* Room for so many leases. LKV_ENOMEM. */
MUST_USE int msg_reserve_leases(struct lkv_msg *msg, size_t count);

/* What a write has answered, which is taken: the items of a single one become the message's. Less than
 * all of it, and the number "more", when it does not fit into an answer. */
void msg_set_answer(struct lkv_msg *msg, struct kv_answer *answer);
void msg_drop_answer(struct lkv_msg *msg);
struct lkv_kv msg_kv_of(const struct kv_item *item);

/* What lib/records.c keeps in a message. */
void msg_drop_records(struct lkv_msg *msg);

/* Drops everything but kind and tag, for another attempt at the same operation. */
void msg_clear(struct lkv_msg *msg);

/* The table's own copy of a known name, NULL for an unknown one. */
const char *msg_known_name(struct slice name);

#endif
