/* Sessions: which writes of a client have taken effect, so that a repeated one is answered, not done
 * again (rule 26).
 *
 *      forgotten | kept: first reply, or free | not yet
 *   ─────────────┼────────────────────────────┼─────────> seq
 *            acked_below          acked_below + SESSION_WINDOW
 *
 * A client's sequence numbers rise. What is below `acked_below` the client has heard the answer of, so
 * nothing is kept. Within the window each number takes effect once. Beyond it a command is refused, so
 * a reply is never given up before the client has said that it may be.
 *
 * The table knows nothing of keys: whoever has an effect to make asks judge, makes room, makes the
 * effect, records. Only the applier's thread changes it. A frozen copy shares the sessions, and a shared
 * session is copied before it changes; frozen copies may be read and dropped on any thread. */
#ifndef KV_SESSION_H
#define KV_SESSION_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"
#include "kv/command.h"
#include "kv/kv.h"

#include <stdatomic.h>

/* What a first attempt was answered. 48 bytes, whatever the command wrote. */
struct session_reply {
    uint64_t seq;
    uint64_t index, term; /* of the entry that took effect; index 0: a free place */
    uint64_t revision, count;
    int32_t rc; /* 0, or why that entry had no effect */
};

struct session {
    atomic_uint refs; /* the table, and each frozen copy */
    uint64_t id;      /* index of the entry that opened it */
    uint64_t ttl_ms;
    uint64_t acked_below;           /* from 1 */
    uint64_t last_seq;              /* the greatest that was recorded; 0: none */
    size_t capacity;                /* of `replies`: a power of two, at most KV_SESSION_WINDOW */
    struct session_reply replies[]; /* by seq modulo capacity */
};

struct session_slot {
    uint64_t id;
    struct session *session; /* owned reference */
};

struct sessions {
    struct session_slot *slots; /* owned; ascending by id */
    size_t count, capacity;
};

void sessions_fini(struct sessions *sessions); /* zero-initialised is empty */

/* The session's place, or `count` when there is none. */
size_t sessions_find(const struct sessions *sessions, uint64_t id);

/* LKV_EBUSY: there are `limit` already; LKV_ENOMEM. `id` is above all that were opened before. */
MUST_USE int sessions_open(struct sessions *sessions, uint64_t id, uint64_t ttl_ms, uint64_t limit);
/* LKV_ESESSION: no such session; LKV_ENOMEM. */
MUST_USE int sessions_renew(struct sessions *sessions, uint64_t id, uint64_t ttl_ms);
/* 0, or LKV_ESESSION. */
MUST_USE int sessions_remove(struct sessions *sessions, uint64_t id);

/* Carries out a command that opens, renews or ends one; result->index is that of its entry. The outcome
 * goes into the result; LKV_ENOMEM: nothing has changed. */
MUST_USE int sessions_command(struct sessions *sessions, const struct kv_command *command,
                              struct kv_result *result);

/* A command's place in its session, as its envelope says. */
struct session_call {
    uint64_t id, seq, acked_below;
};

enum { SESSION_EXECUTE = 0, SESSION_REPEATED = 1 };

/* SESSION_EXECUTE: not seen yet; SESSION_REPEATED: `*first` is the reply. Otherwise it is not executed:
 * LKV_ESESSION; LKV_EANSWERED, below the window; LKV_EBUSY, beyond it. Changes nothing. */
MUST_USE int sessions_judge(const struct sessions *sessions, const struct session_call *call,
                            struct session_reply *first);
/* Room for the reply of a call that is to be executed, so that recording cannot fail. LKV_ENOMEM:
 * nothing has changed. */
MUST_USE int sessions_reserve(struct sessions *sessions, const struct session_call *call);
void sessions_record(struct sessions *sessions, const struct session_call *call,
                     const struct session_reply *reply);

/* What was recorded for this call did not happen after all. What the client has said of its answers
 * stays. */
void sessions_unrecord(struct sessions *sessions, const struct session_call *call);

/* An unchanging copy, for sessions_fini. Costs a pointer for each session. */
MUST_USE int sessions_freeze(const struct sessions *sessions, struct sessions *out);

/* One session as in an image's section, and back. Equal sessions have equal bytes. */
void session_put(struct buffer *into,
                 const struct session *session); /* the buffer remembers failure */
/* LKV_EDAMAGED: malformed; LKV_ENOMEM; or 0 and an owned reference. */
MUST_USE int session_get(struct reader *reader, struct session **out);
/* Adds a session from an image: ids ascend. Takes it on success. LKV_EDAMAGED, LKV_ENOMEM. */
MUST_USE int sessions_add(struct sessions *sessions, struct session *session);
/* All of them, one behind the other, up to the reader's end. get: LKV_EDAMAGED, LKV_ENOMEM: `out` is
 * empty. */
void sessions_put(struct buffer *into, const struct sessions *sessions);
MUST_USE int sessions_get(struct reader *reader, struct sessions *out);
/* Room for the numbers below acked_below + span. NULL when out of memory. */
struct session *session_new(uint64_t span);
void session_unref(struct session *session); /* NULL is fine */

/* Its part of a state's digest: a hash of the bytes of session_put. LKV_ENOMEM. */
MUST_USE int session_digest(const struct session *session, uint64_t *digest);
/* The sum over all. LKV_ENOMEM. */
MUST_USE int sessions_digest(const struct sessions *sessions, uint64_t *digest);

#endif
