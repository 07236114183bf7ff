/* Transactions: compares, and the operations that are carried out if all of them hold, or if not.
 *
 * A program is bytes (docs/formats/kv-command.md) that are read as they are: a command of any size
 * takes no memory to be decoded. All compares of a program, those of nested programs too, look at the
 * state before the transaction; its reads see its own earlier operations. All that it changes has one
 * revision, or, when one of its operations cannot be carried out, nothing is changed. */
#ifndef KV_TXN_H
#define KV_TXN_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "kv/command.h"
#include "kv/kv.h"

enum { KV_TXN_DEPTH_MAX = 4 /* programs inside of each other, with the outermost */ };

/* ------------------------------------------------------------------ what a program consists of */

/* Of a key that is not there no compare of the value holds; the others count as 0. */
enum kv_field {
    KV_FIELD_VALUE = 0,
    KV_FIELD_CREATE_REV = 1,
    KV_FIELD_MOD_REV = 2,
    KV_FIELD_VERSION = 3,
    KV_FIELD_LEASE = 4,
    KV_FIELD_EXISTS = 5 /* 1 or 0 */
};
enum kv_relation { KV_EQUAL = 0, KV_NOT_EQUAL = 1, KV_LESS = 2, KV_GREATER = 3 };

/* Holds if the field of the key is in this relation to the operand; for a range, if those of all its keys
 * are, and if there is none, as for one key that is not there. */
struct kv_compare {
    enum kv_field field;
    enum kv_relation relation;
    struct slice key, end; /* as in struct kv_command */
    struct slice value;    /* KV_FIELD_VALUE */
    uint64_t number;       /* the others */
};

/* One operation. KV_PUT, KV_DELETE, KV_ADD as commands of their own. KV_RANGE: the keys [key, end) as a
 * query says, whose from, to and cancel do not count; with revision 0 it sees the earlier operations.
 * KV_TXN: a program, whose operations take the place of this one. */
struct kv_step {
    enum kv_op op;
    struct slice key, end, value;
    int64_t lease;
    uint32_t flags;
    uint64_t if_rev;
    int64_t delta;
    struct kv_query query;
    struct slice txn;
};

/* ------------------------------------------------------------------ writing one */

struct kv_txn {
    struct buffer compares, then_steps, else_steps; /* they remember failed allocations */
    uint32_t compare_count;
};
void kv_txn_init(struct kv_txn *txn);
void kv_txn_fini(struct kv_txn *txn);
void kv_txn_compare(struct kv_txn *txn, const struct kv_compare *compare);   /* copies */
void kv_txn_step(struct kv_txn *txn, bool then, const struct kv_step *step); /* copies */
/* Appends the program; `out` remembers failed allocations of both. */
void kv_txn_write(const struct kv_txn *txn, struct buffer *out);

/* Limits, and that no key can be changed twice: LKV_EINVAL with the reason, LKV_ENOMEM. */
MUST_USE int kv_txn_check(struct slice program, struct reason *why);

/* ------------------------------------------------------------------ reading one */

/* The three parts of a program. */
struct txn_parts {
    struct reader compares;
    uint32_t compare_count;
    struct reader then_steps, else_steps;
};
/* False: malformed. Slices borrow from the program. */
bool txn_open(struct slice program, struct txn_parts *parts);
bool txn_next_compare(struct reader *reader, struct kv_compare *compare);
bool txn_next_step(struct reader *reader, struct kv_step *step); /* while reader->left > 0 */

/* NULL, or what is wrong with an operation: its sizes, flags, numbers; not what a nested program says. */
const char *step_fault(const struct kv_step *step);
/* The operation that a command is: a put, a delete, an add. */
struct kv_step step_of(const struct kv_command *command);

static inline bool end_is_open(struct slice end) {
    return end.size == 1 && end.data[0] == 0;
}

#endif
