/* ledgerkv: an embedded, consistent key/value store on a replicated log.
 *
 * Link -lledgerkv, give lkv_open() a directory (and its peers' addresses), and this process holds a
 * replica: automatic leader election, no outside coordinator, every acknowledged write durable on a
 * majority of disks. Or reach nodes in other processes with lkv_connect(). The verbs are the same.
 *
 *     struct lkv_options *options = lkv_options_new();
 *     lkv_options_set(options, "dir", "./data");
 *     struct lkv *db;
 *     int rc = lkv_open(&db, NULL, options, NULL);
 *     lkv_options_free(options);
 *     if (rc == 0) {
 *         rc = lkv_put(db, LKV_STR("greeting"), LKV_STR("hello"), LKV_DEFAULT, NULL);
 *         lkv_close(db, 0);
 *     }
 *
 * Conventions, valid for every function
 *   Threads    Any function may be called from any thread; where more or less holds, "Thread" says
 *              so. Nothing of the caller's runs on the library's threads except the trace sink. Two
 *              calls on one handle may run at once; freeing a handle, a queue, a session or a
 *              message while another thread uses it is the caller's error.
 *   Ownership  Inputs are borrowed for the call: what is needed longer is copied before it returns.
 *              What comes back through a pointer to a pointer is owned by the caller: messages
 *              until lkv_msg_free(), everything else until its own free or close. Each of these
 *              accepts NULL. Messages never change, except by being freed, and outlive the handle
 *              that made them.
 *   Later      A submit that returns 0 yields exactly one final message on its queue; one that
 *              fails yields none. lkv_close() yields the final messages that are still owed.
 *   Errors     0 or a negative LKV_E code of ledgerkv_errors.h; lkv_last_text() has a sentence
 *              about it. After a failed open or connect the handle is NULL and nothing is left
 *              behind, but in a new directory empty folders and the lock's file. Every function
 *              that has a handle returns LKV_EINVAL for a NULL one, for a timeout below
 *              LKV_DEFAULT, for flags or a way to read that do not exist, and for bytes at a NULL
 *              pointer. All may return LKV_ENOMEM; the calls to a cluster also LKV_ECLOSED.
 *   Outcome    Every result is done, not done, negative ("no such key") or unknown (the write may
 *              or may not take effect): lkv_outcome(rc). LKV_EUNKNOWN is never used for a write
 *              that certainly failed, and a failure code never for a write that may have succeeded.
 *   Time       timeout_ms covers the whole call, in milliseconds; LKV_DEFAULT takes the option
 *              "timeout_ms". While no leader is known, a call waits for one until then.
 *   Limits     Keys of 1 to "key_bytes_max" bytes (8 KiB), values of 0 to "value_bytes_max" (4
 *              MiB); any byte values. Beyond it: LKV_ETOOLARGE with limit and size in the text.
 *              What waits or is under way in one handle has "inflight_bytes_max" (64 MiB): beyond
 *              it LKV_EBUSY.
 *   Process    The library installs no signal handlers, never exits, never prints. Its threads
 *              block all signals, its descriptors are close-on-exec. Open after fork, not before.
 *   Layout     Structs shown with members, and the numbers of the enums, are the whole binary
 *              interface; the rest is opaque. Structs do not grow within a major version; enums do:
 *              take a kind, an outcome or a role that you do not know as one of a later version,
 *              and pass it by.
 */
#ifndef LEDGERKV_H
#define LEDGERKV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledgerkv_errors.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LKV_VERSION "0.1.0"

#if defined(__GNUC__)
#define LKV_API   __attribute__((visibility("default")))
#define LKV_CHECK __attribute__((warn_unused_result))
#else
#define LKV_API
#define LKV_CHECK
#endif

struct lkv;     /* a node in this process, or a client of remote nodes: same verbs */
struct lkv_env; /* threads and listener shared by several nodes of one process; NULL = private */
struct lkv_options; /* settings by name, for one open */
struct lkv_queue;   /* where everything that happens later arrives */
struct lkv_msg;     /* an answer or an event */
struct lkv_view;    /* one revision, kept readable for a while */
struct lkv_iter;    /* a walk over the keys of a view */
struct lkv_session; /* writes that take effect once, however often they are sent */

struct lkv_bytes {
    const void *data; /* may be NULL when size is 0 */
    size_t size;
};

/* One item of a get or a range. Its bytes are valid until the message is freed. */
struct lkv_kv {
    struct lkv_bytes key, value; /* value: empty with LKV_KEYS_ONLY */
    uint64_t create_rev;         /* store revision at which the key was created */
    uint64_t mod_rev;            /* ... and last changed */
    uint64_t version;            /* writes since it was created, from 1 */
    int64_t lease;               /* 0: none */
};

/* One row of lkv_status(). Strings are never NULL, and valid until the message is freed. */
struct lkv_member {
    const char *id;      /* name given by the option "id" */
    const char *address; /* HOST:PORT for peers */
    const char *role;    /* "leader", "follower", "candidate", "stopped", "unknown" */
    const char *state;   /* "replicate", "probe", "install", "down", "stopped", "-": unknown here */
    uint64_t match;      /* last log index known durable there; 0: not known */
    uint64_t lag_entries;    /* behind the leader's last one */
    uint64_t lag_ms;         /* since it was last heard by the leader */
    const void *reserved[4]; /* NULL: room for what later versions know of a member */
};

enum lkv_event_type { LKV_EVENT_PUT = 0, LKV_EVENT_DELETE = 1 };

/* One change of a key, told by a watch. Its bytes are valid until the message is freed. */
struct lkv_event {
    enum lkv_event_type type;
    /* What was written; mod_rev is the revision of the change. Of a delete: the key and mod_rev,
     * and nothing else (version 0). */
    struct lkv_kv kv;
    /* With LKV_WATCH_PREVIOUS: what was there before; version 0: nothing was, or (kv.version is not
     * 1) it has been compacted, which can be so only at the oldest revision that is kept. */
    struct lkv_kv previous;
};

/* One record of the log itself (model=log). Its bytes are valid until the message is freed. */
struct lkv_record {
    uint64_t index; /* rises from record to record; the cluster's own entries leave gaps */
    uint64_t term;  /* of the leader that appended it */
    struct lkv_bytes data;
};

/* LKV_STR("text"): the bytes of a string literal, without its zero. */
#ifdef __cplusplus
static inline struct lkv_bytes lkv_bytes_of(const void *data, size_t size) {
    struct lkv_bytes bytes;
    bytes.data = data;
    bytes.size = size;
    return bytes;
}
#define LKV_STR(s) lkv_bytes_of((s), sizeof(s) - 1)
#else
#define LKV_STR(s) ((struct lkv_bytes){(s), sizeof(s) - 1})
#endif

/* As timeout_ms: the option's value. */
#define LKV_DEFAULT (-1)

/* ------------------------------------------------------------------ errors */

/* What may be concluded from the result of an operation. Of 0 and more: done; of a code that this
 * version does not know: unknown. */
LKV_API enum lkv_outcome lkv_outcome(int rc);

/* Whether the same call may succeed later, without any change. */
LKV_API bool lkv_retryable(int rc);

/* "LKV_EBUSY". Static storage, never NULL. */
LKV_API const char *lkv_error_name(int rc);

/* "a queue is full, try again". Static storage, never NULL. */
LKV_API const char *lkv_error_text(int rc);

/* A sentence about the last call of this thread that returned an error: limit and size, the
 * leader's address, what was expected and what came. Empty when there was none; never NULL.
 * Thread: valid on the calling thread, until its next call. */
LKV_API const char *lkv_last_text(void);

/* ------------------------------------------------------------------ options
 *
 * Names and texts as in kvctl's flags and its configuration file; lkv_options_help() lists all with
 * unit, default and range. The important ones:
 *   dir         directory of a node (created if its parent exists)
 *   id          name of this node, 1 to 63 of [A-Za-z0-9._-]; empty: the directory's, "n1" in a new
 *               one
 *   listen      HOST:PORT of this node, for peers and clients
 *   peers       ID=HOST:PORT,... the first members, this node among them; empty: alone
 *   endpoints   HOST:PORT,... for lkv_connect
 *   forward     on: a follower passes requests to the leader; off: LKV_ENOTLEADER with its address
 *   offline     on: the directory of one member of several is opened for local reads, without the
 *               others
 *   model       kv (keys and values), log (records by index) or own (a state machine of the
 *               program's own); the directory remembers it
 *   timeout_ms  5000
 */

/* New options, all at their defaults. Ownership: the caller's; one set may serve several opens.
 * NULL when out of memory; the functions below, and opens, accept that and are LKV_EINVAL.
 * Thread: one at a time for one set. */
LKV_API struct lkv_options *lkv_options_new(void);
LKV_API void lkv_options_free(struct lkv_options *options);

/* Sets one option by its name, from text. Sizes: bytes, or with KiB, MiB, GiB; times:
 * milliseconds, or with ms, s; switches: on, off.
 * Errors: LKV_EOPTION (unknown name, or a text that is no such value: see lkv_options_error); the
 * option has its former value then. */
LKV_API int lkv_options_set(struct lkv_options *options, const char *name, const char *text);

/* Why the last lkv_options_set on these options failed: what was expected and what came. Empty when
 * it did not; never NULL. Valid until the next call on them. */
LKV_API const char *lkv_options_error(const struct lkv_options *options);

/* The i-th option, from 0: name, the default as text, and one sentence with unit and range; false
 * past the end. Static storage. */
LKV_API bool lkv_options_help(size_t i, const char **name, const char **fallback,
                              const char **sentence);

/* Sends diagnostics up to `level` to `sink`, as one-line JSON objects; level 0 error, 1 warning, 2
 * information, 3 debug. `json` is valid during the call. NULL: to nobody, as at first.
 * Thread: called on the library's threads, also several at once; must return soon and not call into
 * the library. `arg` must live as long as the handles opened with these options. */
LKV_API void lkv_options_trace(struct lkv_options *options,
                               void (*sink)(void *arg, int level, const char *json), void *arg,
                               int level);

/* ------------------------------------------------------------------ open and close */

/* Starts a node in this process and returns when its log is recovered and its listener accepts. A
 * node alone is ready then: everything acknowledged before can be read. With peers a leader may not
 * be known yet, and local reads may lag. `env` is NULL (LKV_EUNSUPPORTED otherwise: sharing threads
 * between several nodes is not in this version).
 * Ownership: *out is the caller's, until lkv_close. The options may be freed afterwards. When it
 * fails and `why` is not NULL, *why is a message whose text tells what was expected and what came
 * (free it); NULL when it succeeds.
 * Errors: LKV_EOPTION, LKV_ENOENT (the parent of "dir"), LKV_ELOCKED (with the owner's pid),
 * LKV_EADDRINUSE, LKV_EPERM, LKV_ENOSPACE, LKV_EDAMAGED (with file and offset), LKV_EIDENTITY (with
 * both values), LKV_EVERSION, LKV_EIO. */
LKV_API LKV_CHECK int lkv_open(struct lkv **out, struct lkv_env *env,
                               const struct lkv_options *options, struct lkv_msg **why);

/* Makes a client of the nodes in "endpoints". Does not wait for a connection: calls do, until their
 * timeout. Ownership as lkv_open. Errors: LKV_EOPTION, LKV_EIO (no descriptor left). */
LKV_API LKV_CHECK int lkv_connect(struct lkv **out, const struct lkv_options *options,
                                  struct lkv_msg **why);

/* Ends the handle. A leader first hands over to a caught-up follower, and a node finishes the
 * writes under way, for at most handover_ms (0: at once; LKV_DEFAULT: the option "timeout_ms"). All
 * final messages still owed are queued when it returns; then the handle is gone.
 * Thread: not from the trace sink; no other call on the handle may be under way or follow.
 * Errors: why the node had stopped by itself before (LKV_EIO, LKV_EDAMAGED, LKV_ENOMEM, ...: status
 * says "stopped: ..."); the handle is gone all the same. */
LKV_API int lkv_close(struct lkv *db, int64_t handover_ms);

/* ------------------------------------------------------------------ queues and messages */

/* A new, empty queue. Any number of handles and operations may share it.
 * Ownership: the caller's; it must outlive what still owes messages to it.
 * Errors: LKV_EIO (no descriptor left). */
LKV_API LKV_CHECK int lkv_queue_new(struct lkv_queue **out);

/* A descriptor that is readable while the queue is not empty: for poll, epoll, any event loop. Do
 * not read from it. Ownership: the queue's; valid until lkv_queue_free. */
LKV_API int lkv_queue_fd(struct lkv_queue *queue);

/* The oldest message, owned by the caller, or NULL when none came within timeout_ms (0: do not
 * wait; LKV_DEFAULT: wait for ever). Thread: several may wait; each message goes to one of them. */
LKV_API struct lkv_msg *lkv_queue_next(struct lkv_queue *queue, int64_t timeout_ms);

/* Frees the messages in it too. No operation may still owe a message to it: close the handle or
 * take them first. */
LKV_API void lkv_queue_free(struct lkv_queue *queue);

/* The number between is kept: for room to write again. */
enum lkv_kind {
    LKV_REPLY = 0,      /* the final message of a submit; and what blocking calls give */
    LKV_EVENTS = 1,     /* of lkv_watch */
    LKV_RECORDS = 2,    /* of lkv_log_tail */
    LKV_ROLE = 3,       /* of lkv_role_watch */
    LKV_LEASE_LOST = 4, /* of lkv_lease_open */
    LKV_END = 6         /* the final message of lkv_log_tail and lkv_watch */
};

/* Where it comes from, and with that what is in it. */
LKV_API enum lkv_kind lkv_msg_kind(const struct lkv_msg *msg);

/* Of a reply: what the call would have returned. Of LKV_END, LKV_LEASE_LOST and the role "stopped":
 * why. Else 0. */
LKV_API int lkv_msg_rc(const struct lkv_msg *msg);

/* As given to the submit, the tail or the watch; NULL in what blocking calls give. */
LKV_API void *lkv_msg_tag(const struct lkv_msg *msg);

/* A sentence for people; never NULL. Valid until the message is freed. */
LKV_API const char *lkv_msg_text(const struct lkv_msg *msg);

/* Named numbers: "rev" (store revision after the write, or that was read), "index" and "term" (of
 * the log entry), "count" (keys deleted), "total", "more" (0 or 1), and those of status and digest.
 * False, and *out as before, when this message has no such number. */
LKV_API bool lkv_msg_u64(const struct lkv_msg *msg, const char *name, uint64_t *out);

/* Named texts: "leader" (id), "leader_address", "id", "role", ... NULL when absent. Valid until the
 * message is freed. */
LKV_API const char *lkv_msg_str(const struct lkv_msg *msg, const char *name);

/* How many key/value items, events or records the message has. */
LKV_API size_t lkv_msg_count(const struct lkv_msg *msg);

/* The i-th item, event, record or member, from 0; false past the end. What it points to is valid
 * until the message is freed. */
LKV_API bool lkv_msg_kv(const struct lkv_msg *msg, size_t i, struct lkv_kv *out);
LKV_API bool lkv_msg_event(const struct lkv_msg *msg, size_t i, struct lkv_event *out);
LKV_API bool lkv_msg_record(const struct lkv_msg *msg, size_t i, struct lkv_record *out);
LKV_API bool lkv_msg_member(const struct lkv_msg *msg, size_t i, struct lkv_member *out);

/* Frees it. Of "stepping_down" it says: I have stopped acting as leader. Of LKV_RECORDS it gives
 * back credit. Thread: any, also after the handle was closed. */
LKV_API void lkv_msg_free(struct lkv_msg *msg);

/* ------------------------------------------------------------------ keys and values
 *
 * Outcomes of writes: done (0); not done (LKV_ETOOLARGE, LKV_EBUSY: a byte limit of a queue is
 * reached, LKV_ENOTLEADER with forward=off, LKV_ENOLEADER: none was known until the timeout,
 * LKV_ENOSPACE, LKV_EREADONLY: no member has room, LKV_ESTOPPED, LKV_ECLOSED, LKV_ETIMEOUT: it
 * never left, LKV_EUNREACHABLE: of a client, no endpoint answered); unknown (LKV_EUNKNOWN).
 * Outcomes of reads: done (0); negative (LKV_ENOTFOUND); not done (the same codes). Never unknown.
 * Thread: the blocking forms wait, and must not be called from the trace sink. The submitted forms
 * do not wait, and return LKV_EINVAL, LKV_ETOOLARGE, LKV_EBUSY, LKV_ECLOSED or LKV_ENOMEM at once,
 * everything else by message. All of them are LKV_EUNSUPPORTED with the option model=log.
 */

/* How a read is made true.
 * LKV_LEASED trusts clocks (Ongaro's thesis, 6.4.1): with the option "lease_reads" a leader answers
 * it without asking the others, a get on its own handle even on the caller's thread. The clocks of
 * two members must not differ in rate by more than the option "clock_drift_ppm", and none may stand
 * still: a virtual machine that is paused or moved from outside, without its clock going on, can
 * show what is old. Without a lease, and without the option, it is LKV_LINEARIZABLE. */
enum lkv_read {
    LKV_LINEARIZABLE = 0, /* sees every write acknowledged before the read began */
    LKV_LEASED = 1,       /* the same, as long as clocks keep to their bound */
    LKV_BOUNDED = 2, /* every write acknowledged before the option "bounded_ms" of the node that
                             answers, counted back from there: without asking the others when that
                             is known already */
    LKV_LOCAL = 3    /* this replica's applied state, at any time, perhaps old; of a client: of
                             the node that it is connected to */
};

/* Writes one key. `rev` (may be NULL): the store revision of this write. */
LKV_API LKV_CHECK int lkv_put(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value,
                              int64_t timeout_ms, uint64_t *rev);

/* Reads one key. *out is a message with one item, number "rev" = the revision read, also with
 * LKV_ENOTFOUND. On any other error *out is NULL, or a message that explains. Ownership: free
 * *out. */
LKV_API LKV_CHECK int lkv_get(struct lkv *db, struct lkv_bytes key, enum lkv_read how,
                              int64_t timeout_ms, struct lkv_msg **out);

/* A local read without allocation: copies at most `cap` bytes of the value to `buf`, *size is its
 * full size in bytes. Embedded nodes only (else LKV_EUNSUPPORTED). Errors: LKV_ENOTFOUND,
 * LKV_EINVAL (`size` is NULL, or `buf` with a `cap`), LKV_ENOLEADER (a node that grows waits for
 * the others, and has not loaded its data). */
LKV_API LKV_CHECK int lkv_get_copy(struct lkv *db, struct lkv_bytes key, void *buf, size_t cap,
                                   size_t *size);

/* Deletes one key. A key that does not exist is done, and changes no revision. `rev` (may be NULL):
 * the store revision after it. */
LKV_API LKV_CHECK int lkv_delete(struct lkv *db, struct lkv_bytes key, int64_t timeout_ms,
                                 uint64_t *rev);

/* Deletes the keys in [from, to), as one write; `to` with size 0: up to the last key. `rev` and
 * `count` (each may be NULL): the store revision after it, and how many keys went. */
LKV_API LKV_CHECK int lkv_delete_range(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to,
                                       int64_t timeout_ms, uint64_t *rev, uint64_t *count);

enum lkv_range_flags {
    LKV_KEYS_ONLY = 1,
    LKV_COUNT_ONLY = 2, /* no items, the number "total" */
    LKV_DESCENDING = 4,
    LKV_TOTAL = 8 /* the number "total" counts the keys beyond the limit too */
};

/* Reads the keys in [from, to) in byte order, of one revision; `to` with size 0: up to the last
 * key. `flags`: of enum lkv_range_flags, or'ed. At most `limit` items (0: no limit), and at most
 * about 1 MiB a page: while the number "more" is 1, go on after the last key: from = that key with
 * one zero byte added. Ownership of *out as lkv_get; no key at all is done, with no item. */
LKV_API LKV_CHECK int lkv_range(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to,
                                size_t limit, int flags, enum lkv_read how, int64_t timeout_ms,
                                struct lkv_msg **out);

/* The first key behind every key that starts with `prefix` into buf (at most prefix.size bytes);
 * its size in bytes, 0 when there is none (range to the end). */
LKV_API size_t lkv_prefix_end(struct lkv_bytes prefix, void *buf);

/* The same verbs with their answer on a queue, as an LKV_REPLY with this tag. The delete is that of
 * one key (range: false, `to` is ignored) or of [from, to) (range: true). */
LKV_API LKV_CHECK int lkv_put_submit(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value,
                                     int64_t timeout_ms, struct lkv_queue *queue, void *tag);
LKV_API LKV_CHECK int lkv_get_submit(struct lkv *db, struct lkv_bytes key, enum lkv_read how,
                                     int64_t timeout_ms, struct lkv_queue *queue, void *tag);
LKV_API LKV_CHECK int lkv_delete_submit(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to,
                                        bool range, int64_t timeout_ms, struct lkv_queue *queue,
                                        void *tag);
LKV_API LKV_CHECK int lkv_range_submit(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to,
                                       size_t limit, int flags, enum lkv_read how,
                                       int64_t timeout_ms, struct lkv_queue *queue, void *tag);

/* ------------------------------------------------------------------ writes that take effect once
 *
 * LKV_EUNKNOWN leaves a program in doubt: it may not repeat the write, for it may have been done.
 * In a session it may. Each write in one has a number; however often a number is sent, by whichever
 * handle and to whichever node, also across changes of leader, restarts and images, it takes effect
 * once, and each time the answer is the first one. Handles make use of that themselves: a write in
 * a session whose answer was lost is sent again until its timeout, so LKV_EUNKNOWN is left for the
 * timeout alone.
 *
 *     struct lkv_session *session;
 *     int rc = lkv_session_open(db, 0, 30000, &session);
 *     for (uint64_t seq = 1; rc == 0 && more(); seq++) {
 *         do {
 *             rc = lkv_put_once(session, seq, key, value, LKV_DEFAULT, NULL);
 *         } while (rc == LKV_EUNKNOWN);
 *     }
 *     lkv_session_close(session, LKV_DEFAULT);
 *
 * Numbers    They begin at 1 and rise, gaps are fine. At most 256 are open at once: a number may be
 *            used for the first time, and again after it ended as unknown or not done, until one
 *            that is 256 above is used. After that, and after it was answered, it is LKV_EANSWERED.
 *            A number that is sent with another key or value than the first time gets the first
 *            time's answer. What ends as not done, except with LKV_ETERM, does not use up its
 *            number.
 * Doubt      Once a number has ended as LKV_EUNKNOWN, no refusal of it is told as not done until an
 *            answer comes: one that may pass (no leader, no quorum, no time, a full queue) is
 *            LKV_EUNKNOWN again; one that stays (the session has ended, the handle or its node is
 *            closed) is LKV_EANSWERED, whose outcome is unknown too, and which ends the loop above.
 *            Arguments that are refused at once (LKV_EINVAL, LKV_ETOOLARGE) are told as such. A
 *            resumed session is in doubt about all numbers up to lkv_session_last; a greater one's
 *            refusals tell of this handle's attempts alone.
 * Life       A session lives in the cluster. The leader ends it when nothing was heard of it for
 *            its ttl; a new leader begins to count anew, so it never ends early. An open handle
 *            sends keep-alives by itself. Every write in an ended session is LKV_ESESSION, and
 *            nothing was executed; of a number in doubt it is LKV_EANSWERED.
 * Cost       The cluster keeps one short reply a number, none of what the client has heard the
 *            answer of.
 */

/* Opens a session, within the option "timeout_ms". `resume` 0: a new one. Otherwise the id of one
 * that is still open, to go on with it after a restart; what it was in doubt about may be sent
 * again by its number. One handle at a time uses a session. ttl_ms: 1000 to 604,800,000
 * milliseconds.
 * Ownership: *out is the caller's, until lkv_session_close, before or after that of `db`.
 * Errors: as for writes, and LKV_ESESSION (resume: it has ended), LKV_EBUSY (also: the cluster has
 * "sessions_max" of them), LKV_EINVAL. */
LKV_API LKV_CHECK int lkv_session_open(struct lkv *db, uint64_t resume, int64_t ttl_ms,
                                       struct lkv_session **out);

/* Its id in the cluster, for `resume`; 0 for NULL. */
LKV_API uint64_t lkv_session_id(struct lkv_session *session);

/* The greatest number used so far; 0: none. Known to the cluster too: use the next one after
 * resuming. */
LKV_API uint64_t lkv_session_last(struct lkv_session *session);

/* Frees the handle of the session, and ends the session in the cluster within timeout_ms. With 0 it
 * stays there, to be resumed, until its ttl is over. No write in it may be under way. Returns 0, or
 * why the cluster could not be told; the handle is gone all the same. */
LKV_API int lkv_session_close(struct lkv_session *session, int64_t timeout_ms);

/* As lkv_put, lkv_delete (range: false, `to` is ignored) and lkv_delete_range (range: true), once
 * under the number `seq`. Errors also: LKV_ESESSION, LKV_EANSWERED, LKV_EBUSY (that number, or one
 * that is 256 below it, is under way), LKV_EINVAL (seq is 0 or 2^64-1); in the submitted forms all
 * but LKV_ESESSION at once. */
LKV_API LKV_CHECK int lkv_put_once(struct lkv_session *session, uint64_t seq, struct lkv_bytes key,
                                   struct lkv_bytes value, int64_t timeout_ms, uint64_t *rev);
LKV_API LKV_CHECK int lkv_delete_once(struct lkv_session *session, uint64_t seq,
                                      struct lkv_bytes from, struct lkv_bytes to, bool range,
                                      int64_t timeout_ms, uint64_t *rev, uint64_t *count);
LKV_API LKV_CHECK int lkv_put_once_submit(struct lkv_session *session, uint64_t seq,
                                          struct lkv_bytes key, struct lkv_bytes value,
                                          int64_t timeout_ms, struct lkv_queue *queue, void *tag);
LKV_API LKV_CHECK int lkv_delete_once_submit(struct lkv_session *session, uint64_t seq,
                                             struct lkv_bytes from, struct lkv_bytes to, bool range,
                                             int64_t timeout_ms, struct lkv_queue *queue,
                                             void *tag);

/* ------------------------------------------------------------------ roles, status, digest */

/* From now on each change of this node's role arrives on the queue as LKV_ROLE, beginning with the
 * present one: text "role" is "follower", "candidate", "leader_ready" (its first entry is applied:
 * act as leader now), "stepping_down" (stop acting; nothing of a later term is applied and this
 * node does not campaign until the message is freed) or "stopped" (its rc and text say why);
 * numbers "term", and "index" for leader_ready. leader_ready and stepping_down are never merged or
 * dropped. Ends with the handle, without a final message. Embedded nodes only (else
 * LKV_EUNSUPPORTED). */
LKV_API LKV_CHECK int lkv_role_watch(struct lkv *db, struct lkv_queue *queue, void *tag);

/* What this node (of a client: the node it is connected to) knows. Ownership: free *out, also after
 * an error. Not done: LKV_EUNREACHABLE or LKV_ETIMEOUT of a client; a node always answers.
 *   Texts    "id", "address" (where its peers reach it), "role" ("leader", "follower", "candidate",
 *            "stopped"), "leader", "leader_address" (both absent while none is known), "listen"
 *            (with the port that was chosen), "model", "engine" (of model kv: where the keys lie),
 *            "cluster_id", "member_id" (hex), "state".
 *   State    "ok"; "founding: ..." (what it waits for), or which cluster does not know this
 *            directory; "repairing: ..." (what of its disk cannot be read; it comes from the
 *            others, and it counts for no quorum meanwhile), "end unknown: ..." (the same, and it
 *            does not vote either); "no leader" (none is known); "disk full" (deletes and reads go
 *            on); "disk hangs"; "diverged: ..." (its state differs from that of a majority: it
 *            serves nothing, and says what helps), "states differ: ..." (no majority has the same
 *            state: writes are refused); "offline: ..." (the option offline: local reads only);
 *            "stopped: ..." (after an error, for good).
 *   Numbers  "term", "commit", "applied", "durable", "first", "last" (of the log), "rev", "keys",
 *            "sessions" (open ones), "bytes" (of live keys and values), "memory_bytes" (of the
 *            engine), "log_bytes", "image_index", "feature_level" (what all members of the
 *            cluster understand), "peers_up", "connections" (of clients), "views" (that it holds),
 *            "damaged_entries" (of its log, unreadable now), "repaired_entries" (since its start),
 *            "scrub_index" (where the check of the disk is; 0: none is under way), "scrubbed_ms"
 *            (when the last whole one ended, wall clock; 0: none since the start),
 *            "compared_index" (entry at which its state was last compared with the others'; 0: not
 *            since the start), "read_lease_ms" (what is left of this leader's lease for
 *            LKV_LEASED; 0: it has none, or, being alone, needs none).
 *   Members  with lkv_msg_member, this node first. */
LKV_API LKV_CHECK int lkv_status(struct lkv *db, int64_t timeout_ms, struct lkv_msg **out);

/* An order-free digest over all live keys and sessions of this replica: numbers "digest", "index"
 * (applied), "rev". In log mode, without "rev": over the sessions and a chain of hashes over all
 * entries that were ever applied, so that it does not depend on what is still kept.
 * Two replicas with equal index have equal digests, or one is wrong. LKV_EBUSY (log mode): the node
 * goes on from an image and is still behind what that knows. */
LKV_API LKV_CHECK int lkv_digest(struct lkv *db, int64_t timeout_ms, struct lkv_msg **out);

#ifdef __cplusplus
}
#endif

#include "ledgerkv_kv.h"
#include "ledgerkv_log.h"

#endif
