/* Commands of the state machine as bytes in log entries (msgpack; layout in docs/formats/kv-command.md).
 *
 * Everything that decides an effect is in the command, fixed when it was proposed (rule 22); nothing
 * is taken from options or clocks when it is applied. Any thread. */
#ifndef KV_COMMAND_H
#define KV_COMMAND_H

#include "base/blob.h"
#include "base/error.h"

/* Numbers are on disk and never change meaning. Reserved for later commands of version 1:
 * digest 11, auth 12, alarm 13. */
enum kv_op {
    KV_PUT = 1,
    KV_DELETE = 2,
    KV_TXN = 3,     /* kv/txn.h */
    KV_COMPACT = 4, /* gives up what is older than a revision */
    KV_LEASE_GRANT = 5,
    KV_LEASE_REVOKE = 6, /* deletes its keys; by a client, or by the leader when it has run out */
    KV_LEASE_CHECKPOINT = 7, /* by the leader: what is left of some */
    KV_SESSION_OPEN = 8,     /* session 0: a new one; else: that one lives on, with this ttl */
    KV_SESSION_CLOSE = 9,    /* by its client */
    KV_SESSION_EXPIRE = 10,  /* by the leader */
    KV_ADD = 14,             /* to a decimal number */
    KV_RANGE = 15            /* in a transaction only */
};

/* Options of a put, a delete, an add; the numbers are on disk. */
enum kv_flag {
    KV_KEEP_VALUE = 1, /* put: the value stays, and the key gets a new version; `value` is empty */
    KV_KEEP_LEASE = 2, /* put: the lease stays; `lease` is 0 */
    KV_PREVIOUS = 4,   /* what was there before is answered */
    KV_IF_ABSENT = 8   /* put: only if there is no such key */
};

/* Limits of the format, not options: a replica refuses what is beyond them, so they must be the same
 * on all. A key is 1 .. KV_KEY_SIZE_MAX bytes; a command is as large as a log record at most. */
enum {
    KV_KEY_SIZE_MAX = 8192,
    KV_COMMAND_SIZE_MAX = 16 * 1024 * 1024,
    KV_COMMAND_OBJECTS_MAX =
        16384 /* of msgpack, so that a later transaction is told from nonsense */
};

enum {
    KV_SESSION_WINDOW = 256, /* sequence numbers of one session that can be told apart at once */
    KV_SESSIONS_MAX = 65536,
    KV_SESSION_TTL_MS_MAX = 7 * 24 * 3600 * 1000
};

enum { KV_LEASES_MAX = 65536, KV_CHECKPOINTS_MAX = 4096 /* in one command */ };
#define KV_LEASE_TTL_MS_MAX (UINT64_C(366) * 24 * 3600 * 1000)

struct kv_command {
    enum kv_op op;
    /* Exactly-once: 0 when the command belongs to no session (rule 26). */
    uint64_t session, seq, acked_below;
    uint64_t in_term; /* 0, or: takes effect only as an entry of this term */
    struct slice key;
    struct slice end;   /* KV_DELETE: empty = only `key`; "\0" (one zero byte) = to the last key;
                           else keys in [key, end) */
    struct slice value; /* KV_PUT */
    int64_t lease;      /* KV_PUT: 0 = none; KV_LEASE_GRANT, KV_LEASE_REVOKE: from 1 on */
    uint32_t flags;     /* KV_PUT, KV_DELETE, KV_ADD: of enum kv_flag */
    uint64_t if_rev; /* KV_PUT, KV_DELETE of one key: only if that is its mod_rev; 0: in any case */
    int64_t delta;   /* KV_ADD: a key that is not there counts as 0 */
    struct slice txn; /* KV_TXN: a program */
    uint64_t ttl_ms;  /* KV_SESSION_OPEN: 1 .. KV_SESSION_TTL_MS_MAX; KV_LEASE_GRANT: likewise */
    uint64_t
        limit; /* KV_SESSION_OPEN: of open sessions; 0 .. KV_SESSIONS_MAX; KV_LEASE_GRANT: likewise */
    uint64_t revision; /* KV_COMPACT: stays readable, and what is older goes; from 1 on */
    uint64_t granted;  /* KV_LEASE_REVOKE: 0, or: only the lease that this entry has granted */
    struct slice checkpoints; /* KV_LEASE_CHECKPOINT: at most KV_CHECKPOINTS_MAX records */
};

/* What is left of a lease, as a record of a checkpoint. */
struct kv_checkpoint {
    int64_t id;
    uint64_t granted; /* index of the entry that has granted it */
    uint64_t remaining_ms;
};
enum { KV_CHECKPOINT_SIZE = 3 * 8 };
struct buffer;
struct reader;
void kv_checkpoint_put(struct buffer *into, const struct kv_checkpoint *checkpoint);
bool kv_checkpoint_get(struct reader *reader, struct kv_checkpoint *out); /* false: malformed */

/* All but those that open or end a session: in a session they are carried out once. */
static inline bool kv_command_has_keys(const struct kv_command *command) {
    return command->op < KV_SESSION_OPEN || command->op > KV_SESSION_EXPIRE;
}

static inline bool kv_command_is_lease(const struct kv_command *command) {
    return command->op >= KV_LEASE_GRANT && command->op <= KV_LEASE_CHECKPOINT;
}

/* The feature level that a cluster must have reached before the command may be proposed (rule 22). */
uint32_t kv_command_level(const struct kv_command *command);

/* Whether the format allows it: LKV_EINVAL or LKV_ETOOLARGE, with expected and found, before anything is
 * proposed. Whoever has checked a command can be sure that no replica stops at it, once the cluster has
 * its level. LKV_ENOMEM. */
MUST_USE int kv_command_check(const struct kv_command *command, struct reason *why);

/* Returns owned with crc set, or NULL when out of memory. The caller has checked it. */
struct blob *kv_command_encode(const struct kv_command *command);

/* Slices point into `bytes`. LKV_EPROTOCOL; LKV_EVERSION for a version, an operation or an
 * element of a newer program, with expected and found; LKV_ENOMEM. */
MUST_USE int kv_command_decode(struct slice bytes, struct kv_command *out, struct reason *why);
/* The same for bytes that it has taken before: what is in a transaction is not looked at again. */
MUST_USE int kv_command_decode_again(struct slice bytes, struct kv_command *out,
                                     struct reason *why);

#endif
