/* Commands of the state machine as bytes in log entries (msgpack; layout in docs/formats/kv-command.md).
 *
 * Everything that decides an effect is in the command, fixed when it was proposed (rule 22); nothing
 * is taken from options or clocks when it is applied. Any thread. */
#ifndef KV_COMMAND_H
#define KV_COMMAND_H

#include "base/blob.h"
#include "base/error.h"

/* Numbers are on disk and never change meaning. Reserved for later commands of version 1:
 * txn 3, lease 5-7, digest 11, auth 12, alarm 13. */
enum kv_op {
    KV_PUT = 1,
    KV_DELETE = 2,
    KV_COMPACT = 4,        /* gives up what is older than a revision */
    KV_SESSION_OPEN = 8,   /* session 0: a new one; else: that one lives on, with this ttl */
    KV_SESSION_CLOSE = 9,  /* by its client */
    KV_SESSION_EXPIRE = 10 /* by the leader */
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

struct kv_command {
    enum kv_op op;
    /* Exactly-once: 0 when the command belongs to no session (rule 26). */
    uint64_t session, seq, acked_below;
    uint64_t in_term; /* 0, or: takes effect only as an entry of this term */
    struct slice key;
    struct slice end;   /* KV_DELETE: empty = only `key`; "\0" (one zero byte) = to the last key;
                           else keys in [key, end) */
    struct slice value; /* KV_PUT */
    int64_t lease;      /* KV_PUT: 0 = none */
    uint64_t ttl_ms;    /* KV_SESSION_OPEN: 1 .. KV_SESSION_TTL_MS_MAX */
    uint64_t limit;     /* KV_SESSION_OPEN: of open sessions; 0 .. KV_SESSIONS_MAX */
    uint64_t revision;  /* KV_COMPACT: stays readable, and what is older goes; from 1 on */
};

/* All but those that open or end a session: in a session they are carried out once. */
static inline bool kv_command_has_keys(const struct kv_command *command) {
    return command->op < KV_SESSION_OPEN || command->op > KV_SESSION_EXPIRE;
}

/* The feature level that a cluster must have reached before the command may be proposed (rule 22). */
uint32_t kv_command_level(const struct kv_command *command);

/* Returns owned with crc set, or NULL when out of memory. The caller has checked the limits. */
struct blob *kv_command_encode(const struct kv_command *command);

/* Slices point into `bytes`. LKV_EPROTOCOL; LKV_EVERSION for a version, an operation or an
 * element of a newer program, with expected and found; LKV_ENOMEM. */
MUST_USE int kv_command_decode(struct slice bytes, struct kv_command *out, struct reason *why);

#endif
