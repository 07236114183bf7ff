/* A program's hold of a session (rule 26): which sequence numbers are under way, which are answered, and
 * when the cluster has to hear of it again.
 *
 *      answered | answered, under way, open or unused | not yet
 *   ────────────┼─────────────────────────────────────┼────────> seq
 *             base                       base + KV_SESSION_WINDOW
 *
 * `base` goes with every write as its acked_below. It passes over what is answered; and over what ended
 * without an answer only when 256 later numbers are in use, since until then that may be asked again.
 *
 * Threads: the calls of a program on any; answers and keep-alives on the handle's loop. */
#ifndef LIB_SESSION_H
#define LIB_SESSION_H

#include "kv/command.h"
#include "lib/handle.h"

#include <pthread.h>

enum { SESSION_WORDS = KV_SESSION_WINDOW / 64, SESSION_TTL_MS_MIN = 1000 };

struct lkv_session {
    struct lkv_session *next; /* of the handle's list, under its mutex */
    atomic_uint refs;         /* the program, the list, and each request */

    pthread_mutex_t mutex; /* of all that follows */
    struct lkv *db;        /* NULL: the handle is closed */
    uint64_t id;           /* 0: not open yet */
    uint64_t ttl_ms;
    uint64_t base, last_seq;
    /* Bits, by seq modulo window. In doubt: an attempt ended as unknown, and no answer came since. */
    uint64_t under_way[SESSION_WORDS], answered[SESSION_WORDS], in_doubt[SESSION_WORDS];
    uint64_t renew_at_ns; /* UINT64_MAX: not */
    bool renewing;
};

/* Known to the handle from now on; `id` 0: the answer to the request that opens it tells. NULL: no
 * memory. */
struct lkv_session *session_new_handle(struct lkv *db, uint64_t id, uint64_t ttl_ms);
void session_free_handle(struct lkv_session *session);

struct session_numbers {
    struct lkv *db; /* NULL: closed */
    uint64_t id, last_seq;
};
struct session_numbers session_numbers(struct lkv_session *session);

/* Puts the request into the session: number 0 is that of opening it. To be called before it is
 * submitted; request_finish and request_free come back to session_answer and session_drop. */
void session_attach(struct lkv_session *session, struct request *request, uint64_t seq);

/* The final message is known. Loop thread, or wherever the request ends. */
void session_answer(struct request *request);
/* It was never submitted. */
void session_drop(struct request *request);

/* A number is used, for the first time or again: LKV_EINVAL (0), LKV_EANSWERED (answered, or before the
 * window), LKV_EBUSY (under way; or one that is lies a window behind), or session_refusal of it.
 * `*acked_below` goes into the command. */
MUST_USE int session_use(struct lkv_session *session, uint64_t seq, uint64_t *acked_below,
                         struct reason *why);
void session_give_back(struct lkv_session *session, uint64_t seq);

/* What a refusal means for the number: `rc`, or, of one that is in doubt, what request_doubtful says. */
int session_refusal(struct lkv_session *session, uint64_t seq, int rc, struct reason *why);

/* Sends the keep-alives that are due; returns when to be called again. Loop thread of the handle, at the
 * end of a turn. Costs one load when there are no sessions. */
uint64_t sessions_turn(struct lkv *db, uint64_t now_ns);

/* The handle goes: what the program still holds of its sessions answers LKV_ECLOSED. */
void sessions_detach(struct lkv *db);

#endif
