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
 *              behind. Every function that has a handle returns LKV_EINVAL for a NULL one, for a
 *              timeout below LKV_DEFAULT, for flags or a way to read that do not exist, and for
 *              bytes at a NULL pointer. All may return LKV_ENOMEM; the calls to a cluster also
 *              LKV_ECLOSED.
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
 * NULL when out of memory. Thread: one at a time for one set. */
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

/* How a read is made true. The number 1 is kept for leased reads. */
enum lkv_read {
    LKV_LINEARIZABLE = 0, /* sees every write acknowledged before the read began */
    LKV_BOUNDED = 2, /* ... before the option "bounded_ms" of the node that answers, counted back
                             from there: without asking the others when that is known already */
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
 * LKV_ENOLEADER (a node that grows waits for the others, and has not loaded its data). */
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

/* ------------------------------------------------------------------ history and queries
 *
 * A read may be of any revision that the store still keeps, and sees that one revision whole,
 * whatever is written meanwhile. What is asked for below them is LKV_ECOMPACTED, beyond the newest
 * one LKV_EFUTURE (of a local read: perhaps the replica is behind): not done. Then the text names
 * the revisions that can be read, and the numbers "kept_from" and "rev" are the first and the last
 * of them. In a cluster of feature level 1 these are the newest one alone.
 *   Pages   that belong together are those of one revision: ask for the first one with `rev` 0, and
 *           for the others with the number "rev" of its answer.
 *   Cost    What was applied does not change, so a read of such a revision is answered by any node
 *           without asking the others, also when it is linearizable. An old revision takes longer
 *           to read than the newest one; any other order than that of keys, and a filter, look at
 *           the whole range.
 */

/* As lkv_get, of revision `rev`; 0: the newest. The number "rev" is the revision that was read.
 * Errors also: LKV_ECOMPACTED, LKV_EFUTURE. */
LKV_API LKV_CHECK int lkv_get_at(struct lkv *db, struct lkv_bytes key, uint64_t rev,
                                 enum lkv_read how, int64_t timeout_ms, struct lkv_msg **out);
LKV_API LKV_CHECK int lkv_get_at_submit(struct lkv *db, struct lkv_bytes key, uint64_t rev,
                                        enum lkv_read how, int64_t timeout_ms,
                                        struct lkv_queue *queue, void *tag);

/* What items are ordered by. Of equal ones the lesser key comes first, in both directions. */
enum lkv_order {
    LKV_BY_KEY = 0,
    LKV_BY_VERSION = 1,
    LKV_BY_CREATE_REV = 2,
    LKV_BY_MOD_REV = 3,
    LKV_BY_VALUE = 4 /* byte by byte */
};

/* What to read. Zeroed, it is every key of the newest revision, in byte order, linearizable. */
struct lkv_query {
    struct lkv_bytes from,
        to;       /* [from, to); `from` of size 0: the first key, `to`: up to the last */
    uint64_t rev; /* 0: the newest */
    size_t limit; /* items; 0: no limit */
    int flags;    /* of enum lkv_range_flags, or'ed */
    enum lkv_order order;
    enum lkv_read how;
    /* Only keys last changed, and created, at these revisions; 0: no bound. */
    uint64_t mod_rev_min, mod_rev_max;
    uint64_t create_rev_min, create_rev_max;
    const void *reserved[4]; /* NULL */
};

/* As lkv_range, of a revision, in an order, filtered. "total" (with LKV_TOTAL or LKV_COUNT_ONLY)
 * counts all keys in the range, also those that the filters take out. "more": items are left out
 * behind the last one. In the order of keys go on behind that one; in any other an answer has at
 * most 4096 items, and there is no second page. Ownership: `query` and its bytes are borrowed for
 * the call. Errors as lkv_get_at, and LKV_EINVAL for what `query` cannot mean. */
LKV_API LKV_CHECK int lkv_find(struct lkv *db, const struct lkv_query *query, int64_t timeout_ms,
                               struct lkv_msg **out);
LKV_API LKV_CHECK int lkv_find_submit(struct lkv *db, const struct lkv_query *query,
                                      int64_t timeout_ms, struct lkv_queue *queue, void *tag);

/* ------------------------------------------------------------------ views and iterators
 *
 * A view keeps one revision readable for some time, whatever is written and compacted meanwhile,
 * and an iterator walks over its keys, page by page.
 *
 *     struct lkv_view *view;
 *     struct lkv_iter *iter = NULL;
 *     struct lkv_kv item;
 *     int rc = lkv_view_open(db, LKV_LINEARIZABLE, 0, 60000, &view);
 *     rc = rc == 0 ? lkv_iter_open(view, LKV_STR(""), LKV_STR(""), 0, &iter) : rc;
 *     while (rc == 0 && (rc = lkv_iter_next(iter, &item)) == 1) {
 *         rc = use(&item);
 *     }
 *     lkv_iter_close(iter);
 *     lkv_view_close(view);
 *
 * The node that is asked (this one, or the one that a client is connected to) holds the view for
 * max_age_ms, at most LKV_VIEWS_MAX at once; then it ends by itself, and the memory comes back.
 * Meanwhile it answers lkv_get_at and lkv_find of that revision, too. A client's view goes on at
 * another node when that one is gone, as long as the revision is not compacted there:
 * LKV_ECOMPACTED then.
 */
enum { LKV_VIEWS_MAX = 256, LKV_VIEW_AGE_MS_MAX = 600000 };

/* Opens a view of revision `rev`, 0: the newest, in the sense of `how`; within the option
 * "timeout_ms". max_age_ms: 1 to LKV_VIEW_AGE_MS_MAX, counted from the call.
 * Ownership: *out is the caller's, until lkv_view_close, before or after that of `db`.
 * Errors: as for reads, LKV_ECOMPACTED, LKV_EFUTURE, LKV_EBUSY (there are as many as may be). */
LKV_API LKV_CHECK int lkv_view_open(struct lkv *db, enum lkv_read how, uint64_t rev,
                                    int64_t max_age_ms, struct lkv_view **out);

/* Does not wait. Its iterators answer LKV_EVIEW from now on, beyond the page they have. */
LKV_API void lkv_view_close(struct lkv_view *view);

/* The revision that it shows; 0 for NULL. */
LKV_API uint64_t lkv_view_rev(const struct lkv_view *view);

/* An iterator over the keys in [from, to), of which an empty one is no bound. `flags`:
 * LKV_KEYS_ONLY, LKV_DESCENDING. Asks nobody. Ownership: *out is the caller's, until
 * lkv_iter_close, also after lkv_view_close. Errors: LKV_EVIEW, LKV_ECLOSED, LKV_ETOOLARGE. */
LKV_API LKV_CHECK int lkv_iter_open(struct lkv_view *view, struct lkv_bytes from,
                                    struct lkv_bytes to, int flags, struct lkv_iter **out);

/* 1: *out is the next item, whose bytes are valid until the next call for this iterator; 0: there
 * is none left. Waits for a page now and then, for at most the option "timeout_ms".
 * Thread: one at a time for one iterator. Errors: LKV_EVIEW (the view is too old, or closed),
 * LKV_ECOMPACTED, LKV_ECLOSED, and those of reads; after them it may be called again, and goes on
 * where it was. */
LKV_API LKV_CHECK int lkv_iter_next(struct lkv_iter *iter, struct lkv_kv *out);
LKV_API void lkv_iter_close(struct lkv_iter *iter);

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
 * Life       A session lives in the cluster. The leader ends it when nothing was heard of it for
 *            its ttl; a new leader begins to count anew, so it never ends early. An open handle
 *            sends keep-alives by itself. Every write in an ended session is LKV_ESESSION, and
 *            nothing was executed.
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
 * that is 256 below it, is under way), LKV_EINVAL (seq is 0); in the submitted forms all but
 * LKV_ESESSION at once. */
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

/* ------------------------------------------------------------------ leases
 *
 * A lease is a time to live in the cluster that keys can be attached to. When nobody keeps it alive
 * for its ttl, or it is revoked, it ends, and its keys are deleted, all at one revision.
 *
 *     int64_t lease;
 *     int rc = lkv_lease_open(db, 15000, queue, NULL, &lease);
 *     if (rc == 0) {
 *         rc = lkv_put_leased(db, LKV_STR("/svc/a/1"), LKV_STR("10.0.0.1:80"), lease, LKV_DEFAULT,
 *                             NULL);
 *     }
 *
 * Life       The leader measures, on its monotonic clock; the end is an entry of the log, the same
 *            on all nodes. A lease never ends before its ttl has passed since its last keep-alive
 *            was answered, or its grant. It may live longer: by less than a second as a rule, and
 *            for each change of leader by up to 5 s and the time in which nobody led. (Time in
 *            which the leader's process stands still does not count, either.)
 * Keys       A put with a lease attaches the key, any later put without it detaches it. A lease
 *            that does not exist is LKV_ELEASE (not done).
 * Ids        1 to 2^63 - 1. The library chooses them at random; who chooses by himself gets
 *            LKV_EEXIST for one that exists.
 * Limits     ttl of 1000 ms to 366 days; 65,536 leases in a cluster (LKV_EBUSY).
 *
 * Model kv only, from feature level 2 of the cluster on (LKV_EUNSUPPORTED below).
 */

/* One row of lkv_lease_list(). */
struct lkv_lease {
    int64_t id;
    int64_t ttl_ms;       /* as granted */
    int64_t remaining_ms; /* until it ends, if nobody keeps it alive */
    uint64_t reserved[2]; /* 0: room for what later versions know of a lease */
};

/* Grants a lease that the caller keeps alive. `id` 0: the library chooses. *out (may be NULL): its
 * id. The ttl counts from some moment during the call. Outcomes as those of lkv_put; one that is
 * unknown and was granted runs out by itself.
 * Errors: LKV_EEXIST, LKV_EBUSY (also: there are too many), LKV_EINVAL. */
LKV_API LKV_CHECK int lkv_lease_grant(struct lkv *db, int64_t id, int64_t ttl_ms,
                                      int64_t timeout_ms, int64_t *out);

/* The lease lives for its ttl from the start of this call on; *ttl_ms (may be NULL) says how long
 * that is. Answered by a leader that a quorum has followed since the call came, so never by one
 * that was deposed; while an end of the lease is on its way, it waits for that.
 * Errors: LKV_ELEASE (it has ended); of the others nothing follows: it may live or not. */
LKV_API LKV_CHECK int lkv_lease_keep_alive(struct lkv *db, int64_t id, int64_t timeout_ms,
                                           int64_t *ttl_ms);

/* Ends the lease and deletes its keys, all at revision *rev; *count: how many. Both may be NULL.
 * Once it has returned 0, no keep-alive of that lease succeeds. Outcomes as those of lkv_put.
 * Errors: LKV_ELEASE (no such lease). */
LKV_API LKV_CHECK int lkv_lease_revoke(struct lkv *db, int64_t id, int64_t timeout_ms,
                                       uint64_t *rev, uint64_t *count);

/* What is left of a lease: a message with the numbers "lease", "ttl_ms", "remaining_ms" and "more",
 * and up to `limit` (at most 1000) of its keys, without values, from behind `after` on (empty: from
 * the first; "more": there are others). Linearizable, as of the leader. Ownership: free *out, also
 * after an error. Errors: LKV_ELEASE, and those of reads. */
LKV_API LKV_CHECK int lkv_lease_ttl(struct lkv *db, int64_t id, struct lkv_bytes after,
                                    size_t limit, int64_t timeout_ms, struct lkv_msg **out);

/* Up to `limit` leases (at most 1000; 0: as many), ascending, with ids above `after` (0: from the
 * first), for lkv_msg_lease; number "more". Otherwise as lkv_lease_ttl. */
LKV_API LKV_CHECK int lkv_lease_list(struct lkv *db, int64_t after, size_t limit,
                                     int64_t timeout_ms, struct lkv_msg **out);

/* The i-th lease of a list, from 0; false past the end. */
LKV_API bool lkv_msg_lease(const struct lkv_msg *msg, size_t i, struct lkv_lease *out);

/* As lkv_put and lkv_put_submit, and the key is attached to the lease.
 * Errors also: LKV_ELEASE (no such lease: not done). */
LKV_API LKV_CHECK int lkv_put_leased(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value,
                                     int64_t lease, int64_t timeout_ms, uint64_t *rev);
LKV_API LKV_CHECK int lkv_put_leased_submit(struct lkv *db, struct lkv_bytes key,
                                            struct lkv_bytes value, int64_t lease,
                                            int64_t timeout_ms, struct lkv_queue *queue, void *tag);

/* Grants a lease, within the option "timeout_ms", that the handle keeps alive by itself until
 * lkv_lease_close(), or until it is lost. That is told by one LKV_LEASE_LOST message on the queue,
 * with the number "lease" and `tag`; its rc is LKV_ELEASE (the cluster has ended it), or
 * LKV_ETIMEOUT: by this process's own clock a ttl has passed since the last keep-alive that was
 * answered had been sent. So it comes before another owner can follow: stop acting then, without
 * asking anybody. (A process that stood still learns of it when it goes on, which may be too late:
 * what must not happen then is fenced by the revision of a key of the lease.)
 * With the handle's end it is not kept alive any more; no message follows.
 * Ownership: the queue must outlive the lease or the handle. Errors: as lkv_lease_grant. */
LKV_API LKV_CHECK int lkv_lease_open(struct lkv *db, int64_t ttl_ms, struct lkv_queue *queue,
                                     void *tag, int64_t *id);

/* The handle no longer keeps it alive, and it is revoked within timeout_ms (0: not; it runs out by
 * itself). Its message may be in the queue already; none follows. Returns 0 also when it had ended,
 * or why the cluster could not be told. */
LKV_API int lkv_lease_close(struct lkv *db, int64_t id, int64_t timeout_ms);
/* ------------------------------------------------------------------ watches
 *
 * Every change of a key is an event. A watch tells those of a range: each once, in the order of
 * their revisions (within one revision in the order of its operations), without a gap, from a
 * revision on that the caller names. Where a client's node is lost, or a leader, it goes on by
 * itself from where it was, at any node; never at one that has not seen yet what it has told.
 *
 *   Whole      All events of one revision are in one message. One that is too large for that (about
 *              256 KiB of keys, values and 128 bytes for each event, or one event) comes in parts:
 *              every message but its last has the number "partial" 1, and ends inside of revision
 *              "next".
 *   From       `rev` is the first revision that is told. One in the future waits until it has come.
 *              0: the next one that the node that answers first will see. The first message of a
 *              watch, perhaps without events, says that it has begun: what is changed after it is
 *              told. So a program reads a range, and watches it from the "rev" of that answer + 1.
 *   Slow       Messages that have not been freed hold at most about LKV_WATCH_CREDIT_BYTES for each
 *              watch; freeing them lets it go on. What it has not told yet is kept nowhere but in
 *              the history, so however slow a reader is, it costs no memory. When a compaction has
 *              overtaken it, it ends with LKV_ECOMPACTED and the oldest revision in "first".
 *   Kept       History begins at "feature_level" 2 (lkv_status), and reaches back to the last
 *              compaction. A compaction to revision R leaves R itself to be watched, with its
 *              deletes.
 */
enum { LKV_WATCH_CREDIT_BYTES = 1024 * 1024 };

enum lkv_watch_flags {
    LKV_WATCH_KEY = 1,        /* the one key `from`; `to` is ignored */
    LKV_WATCH_PREVIOUS = 2,   /* events have what was there before */
    LKV_WATCH_NO_PUTS = 4,    /* deletes only */
    LKV_WATCH_NO_DELETES = 8, /* puts only */
    LKV_WATCH_PROGRESS = 16   /* while nothing happens a message without events each 10 seconds */
};

/* From now on the events of the keys [from, to) arrive on the queue, as LKV_EVENTS messages; empty
 * `from`: from the first key; empty `to`: to the last one (lkv_prefix_end makes it of a prefix).
 * Numbers of each message: "rev" (everything up to it has been told), "next" (the revision to go on
 * from: what another lkv_watch, also by another program, is to be given), "partial" (0 or 1: then a
 * new watch from "next" tells that revision from its beginning).
 * The watch ends with one LKV_END, numbers "next" and perhaps "first", whose rc tells why:
 * LKV_ECANCELED (lkv_cancel), LKV_ECLOSED, LKV_ECOMPACTED (not all from "next" on is kept; number
 * "first": the oldest revision that is), LKV_EUNSUPPORTED (model=log; or no history
 * for 10 seconds, see "Kept"), LKV_EBUSY (a client's: 16,384 watches on one connection),
 * LKV_ESTOPPED, LKV_ENOMEM.
 * Ownership: copies the keys; the queue must outlive the watch. Freed messages may be those of an
 * ended watch. Thread: any. Errors: LKV_EINVAL, LKV_ETOOLARGE.
 * Source of the semantics: etcd's watch, with whole revisions. */
LKV_API LKV_CHECK int lkv_watch(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to,
                                uint64_t rev, int flags, struct lkv_queue *queue, void *tag);

/* ------------------------------------------------------------------ conditions and transactions
 *
 * These begin at feature level 2 of the cluster (number "feature_level" of status): while a
 * member's program is older, they are LKV_EUNSUPPORTED, with its name. The outcomes are those of
 * lkv_put, and with nothing changed: negative (LKV_ECOMPARE: a condition does not hold,
 * LKV_ENOTFOUND: there is nothing whose value or lease could be kept); not done (LKV_ENUMBER,
 * LKV_EOVERFLOW: of LKV_OP_ADD, LKV_ECOMPACTED, LKV_EFUTURE: of LKV_OP_COMPACT, and of what a
 * transaction reads). In a session these are the answer of their number: sent again, it gets the
 * same one.
 *
 * What was there before, and what a transaction has read, is in the message of the answer alone: a
 * number of a session that is sent again gets the numbers of its first answer, without the rest.
 */

enum lkv_op {
    LKV_OP_PUT = 1,     /* key, value, lease, if_rev; all flags */
    LKV_OP_DELETE = 2,  /* key, if_rev; or with `range` [key, end); LKV_PREVIOUS */
    LKV_OP_TXN = 3,     /* in an answer: a transaction inside of another */
    LKV_OP_COMPACT = 4, /* rev: stays readable, and what is older goes, on all nodes */
    LKV_OP_ADD = 14,    /* key, delta; LKV_PREVIOUS */
    LKV_OP_RANGE = 15   /* in an answer: a read of a transaction */
};

enum lkv_write_flags {
    LKV_KEEP_VALUE = 1, /* the value stays, and the key gets a new version; `value` is empty */
    LKV_KEEP_LEASE = 2, /* the lease stays; `lease` is 0 */
    LKV_PREVIOUS = 4,   /* the answer's items are what was there before, 15 MiB of it at most */
    LKV_IF_ABSENT = 8   /* only if there is no such key, else LKV_ECOMPARE */
};

/* What to write. Zeroed, but for `op` and `key`, it is as lkv_put and lkv_delete. */
struct lkv_change {
    enum lkv_op op; /* LKV_OP_PUT, _DELETE, _ADD, _COMPACT */
    int flags;      /* of enum lkv_write_flags, or'ed */
    struct lkv_bytes key, end, value;
    bool range;       /* delete: key of size 0: from the first, end of size 0: to the last */
    int64_t lease;    /* put: 0: none */
    uint64_t if_rev;  /* only if that is the key's mod_rev; 0: in any case */
    int64_t delta;    /* the value is a decimal number; a key that is not there counts as 0 */
    uint64_t rev;     /* compact */
    uint64_t in_term; /* 0, or: in that term, or not at all (LKV_ETERM) */
    struct lkv_session *session; /* NULL, or: once, under the number `seq` of this session */
    uint64_t seq;
    const void *reserved[4]; /* NULL */
};

/* Writes. *out is a message with numbers "rev" (store revision after it), "index", "term"; "count"
 * (keys deleted), "number" (of LKV_OP_ADD: what is there now, an int64_t), "more" (items were left
 * out). With a session the handle is the session's: `db` is that one, or NULL. Ownership: `write`
 * and its bytes are borrowed for the call; free *out, also after an error (it may be NULL).
 * Errors also: LKV_EINVAL for what `write` cannot mean, and those of lkv_put_once. */
LKV_API LKV_CHECK int lkv_write(struct lkv *db, const struct lkv_change *write, int64_t timeout_ms,
                                struct lkv_msg **out);
LKV_API LKV_CHECK int lkv_write_submit(struct lkv *db, const struct lkv_change *write,
                                       int64_t timeout_ms, struct lkv_queue *queue, void *tag);

struct lkv_txn; /* compares, and the operations that are carried out if all of them hold, or not */

/* What is compared. Of a key that is not there all numbers are 0, and no compare of its value
 * holds. */
enum lkv_field {
    LKV_FIELD_VALUE = 0,
    LKV_FIELD_CREATE_REV = 1,
    LKV_FIELD_MOD_REV = 2,
    LKV_FIELD_VERSION = 3,
    LKV_FIELD_LEASE = 4,
    LKV_FIELD_EXISTS = 5 /* 1 or 0 */
};

enum { LKV_TXN_STEPS_MAX = 16384, LKV_TXN_DEPTH_MAX = 4 };

/* A new transaction, empty. All its operations have one revision, or, when one of them cannot be
 * carried out, nothing is done. Compares look at the state before it, reads see its own earlier
 * operations. No key may be changed twice. At most LKV_TXN_STEPS_MAX compares and operations, 16
 * MiB in all, LKV_TXN_DEPTH_MAX transactions inside of each other.
 *
 *     struct lkv_txn *txn = lkv_txn_new();
 *     lkv_txn_if(txn, LKV_STR("lock"), LKV_FIELD_EXISTS, '=', 0, (struct lkv_bytes){0});
 *     lkv_txn_put(txn, LKV_STR("lock"), LKV_STR("me"));
 *     lkv_txn_else(txn);
 *     lkv_txn_get(txn, LKV_STR("lock"));
 *     int rc = lkv_txn_commit(db, txn, LKV_DEFAULT, &msg);
 *     lkv_txn_free(txn);
 *
 * The functions that add to it return nothing: what was wrong is what commit and submit return.
 * Ownership: the caller's, until lkv_txn_free; it copies what it is given, and may be committed
 * again. NULL when out of memory; all functions below accept that, and commit is LKV_ENOMEM.
 * Thread: one at a time for one transaction. */
LKV_API struct lkv_txn *lkv_txn_new(void);
LKV_API void lkv_txn_free(struct lkv_txn *txn);

/* Compares a field of one key, or of all keys in [from, to) as in lkv_range (none: as of one key
 * that is not there). `relation` is '=', '!', '<' or '>': field relation operand; the operand is
 * `value` of LKV_FIELD_VALUE, else `number`. */
LKV_API void lkv_txn_if(struct lkv_txn *txn, struct lkv_bytes key, enum lkv_field field,
                        char relation, uint64_t number, struct lkv_bytes value);
LKV_API void lkv_txn_if_range(struct lkv_txn *txn, struct lkv_bytes from, struct lkv_bytes to,
                              enum lkv_field field, char relation, uint64_t number,
                              struct lkv_bytes value);

/* Adds an operation. Of lkv_txn_write: LKV_OP_PUT, LKV_OP_DELETE or LKV_OP_ADD, without in_term and
 * session; of lkv_txn_find: `how` does not count. lkv_txn_nest adds what `inner` is now as one
 * operation, of which its own compares decide. */
LKV_API void lkv_txn_put(struct lkv_txn *txn, struct lkv_bytes key, struct lkv_bytes value);
LKV_API void lkv_txn_write(struct lkv_txn *txn, const struct lkv_change *write);
LKV_API void lkv_txn_get(struct lkv_txn *txn, struct lkv_bytes key);
LKV_API void lkv_txn_find(struct lkv_txn *txn, const struct lkv_query *query);
LKV_API void lkv_txn_nest(struct lkv_txn *txn, const struct lkv_txn *inner);

/* The operations that follow are carried out if some compare does not hold. */
LKV_API void lkv_txn_else(struct lkv_txn *txn);

/* Fenced: in that term, or not at all (LKV_ETERM). */
LKV_API void lkv_txn_in_term(struct lkv_txn *txn, uint64_t term);

/* Once, under a number of a session: each commit of it, as of another write with this number. */
LKV_API void lkv_txn_once(struct lkv_txn *txn, struct lkv_session *session, uint64_t seq);

/* Carries it out. *out is a message with the numbers "held" (1: all compares held, and the first
 * operations were carried out; 0: those behind lkv_txn_else), "rev", "index", "term", and an answer
 * for each operation carried out, unless it is a repeated one: lkv_msg_answer. That a compare does
 * not hold is no error. Handle, ownership and errors as of lkv_write. */
LKV_API LKV_CHECK int lkv_txn_commit(struct lkv *db, const struct lkv_txn *txn, int64_t timeout_ms,
                                     struct lkv_msg **out);
LKV_API LKV_CHECK int lkv_txn_submit(struct lkv *db, const struct lkv_txn *txn, int64_t timeout_ms,
                                     struct lkv_queue *queue, void *tag);

/* What one operation of a transaction answers. */
struct lkv_answer {
    enum lkv_op op;
    bool held;       /* LKV_OP_TXN */
    bool more;       /* there would be more items */
    uint64_t total;  /* LKV_OP_RANGE: as in lkv_find; LKV_OP_DELETE: keys deleted */
    int64_t number;  /* LKV_OP_ADD: what is there now */
    size_t items;    /* read; with LKV_PREVIOUS: what was there before */
    size_t answers;  /* LKV_OP_TXN: of its own operations */
    const void *own; /* the message's */
};

/* The i-th operation's answer, from 0; false past the end. Valid until the message is freed.
 * lkv_answer_kv: its i-th item. lkv_answer_at: the i-th answer inside of it. */
LKV_API bool lkv_msg_answer(const struct lkv_msg *msg, size_t i, struct lkv_answer *out);
LKV_API bool lkv_answer_kv(const struct lkv_answer *answer, size_t i, struct lkv_kv *out);
LKV_API bool lkv_answer_at(const struct lkv_answer *answer, size_t i, struct lkv_answer *out);

/* ------------------------------------------------------------------ locks and elections
 *
 * A lock is a queue of keys under its name, each with the lease of who waits; the one that was
 * created first holds the lock, until it is unlocked or its lease ends. So the order is that of
 * asking, and each holder's *fencing token*, the revision at which its key was created, is above
 * those before it.
 *
 *     int rc = lkv_lease_open(db, 15000, queue, NULL, &lease);
 *     rc = rc == 0 ? lkv_lock(db, LKV_STR("/jobs/nightly"), lease, 60000, &token) : rc;
 *     ... until done, or LKV_LEASE_LOST is on the queue:
 *         struct lkv_txn *txn = lkv_txn_new();
 *         lkv_txn_if_locked(txn, LKV_STR("/jobs/nightly"), lease, token);
 *         lkv_txn_put(txn, LKV_STR("/jobs/state"), state);
 *         rc = lkv_txn_commit(db, txn, LKV_DEFAULT, &msg);    "held" 0: the lock is another's
 *     lkv_unlock(db, LKV_STR("/jobs/nightly"), lease, LKV_DEFAULT);
 *
 * That a lock is lost is told as the loss of its lease, by the local clock. A holder that stood
 * still for longer does not know it yet: what must not be written then is written in a transaction
 * with lkv_txn_if_locked, which the cluster does not carry out any more; what lies elsewhere is to
 * refuse tokens below the greatest that it has seen.
 *
 * Names: not empty, without // and without / at the end. Keys are NAME//LEASE in 16 hex digits.
 * Who waits asks the cluster up to four times a second, on the calling thread.
 */

/* Waits until the lock is ours, by the lease (of lkv_lease_open, or kept alive by the caller). The
 * same lease takes a lock once: asking again gives the same token. *token (may be NULL): the
 * fencing token.
 * Errors: LKV_ETIMEOUT (not in time; we have left the queue), LKV_EUNKNOWN (the same, and the
 * cluster could not be told: it may come to be ours until the lease ends), LKV_ELEASE (the lease
 * has ended), LKV_EINVAL (such a name), and those of lkv_write and reads. */
LKV_API LKV_CHECK int lkv_lock(struct lkv *db, struct lkv_bytes name, int64_t lease,
                               int64_t timeout_ms, uint64_t *token);

/* Gives the lock, or the place in its queue, back. Outcomes as those of lkv_delete;
 * LKV_ENOTFOUND: it was not held. */
LKV_API LKV_CHECK int lkv_unlock(struct lkv *db, struct lkv_bytes name, int64_t lease,
                                 int64_t timeout_ms);

/* The same as an election: waits until elected, with a value that observers see. Resign by
 * lkv_unlock. */
LKV_API LKV_CHECK int lkv_campaign(struct lkv *db, struct lkv_bytes name, int64_t lease,
                                   struct lkv_bytes value, int64_t timeout_ms, uint64_t *token);

/* Waits for who leads, or holds the lock, with another token than `known` (0: whoever it is). *out
 * is a message with one item, whose value is that of the campaign and whose create_rev is the
 * token. Ownership: free *out; NULL after an error.
 * Errors: LKV_ETIMEOUT (nobody, or still the same), and those of reads. */
LKV_API LKV_CHECK int lkv_observe(struct lkv *db, struct lkv_bytes name, uint64_t known,
                                  int64_t timeout_ms, struct lkv_msg **out);

/* Adds a compare to a transaction: the lock is still held with this token. */
LKV_API void lkv_txn_if_locked(struct lkv_txn *txn, struct lkv_bytes name, int64_t lease,
                               uint64_t token);

/* ------------------------------------------------------------------ the ledger itself
 *
 * With the option model=log there are no keys: the replicated log is the final state, and its
 * records are the caller's own bytes, 0 to "value_bytes_max" each. (The verbs of keys and values
 * are then LKV_EUNSUPPORTED, and those of this section are on a node of model kv.)
 *
 *   Indices    rise from 1 and never name another record once it is acknowledged. The cluster's own
 *              entries (each new leader's first one) take indices too: gaps, which reads skip.
 *   Order      One handle's appends get their indices in the order of the calls, also across a
 *              change of leader; an append whose outcome is unknown may still appear later. With
 *              the option "connections" above 1 a client keeps this order all the same: appends use
 *              one. When one in a session finds no room (LKV_EBUSY, LKV_ENOSPACE), those that were
 *              sent behind it before that was known end as it does.
 *   Batches    The records of one call are contiguous. They are done together; when the outcome is
 *              unknown some of the first ones may be there without the rest, never the other way.
 *   Visible    Reads, tails and spans never pass what a quorum has acknowledged, on any node, nor
 *              what this node has applied in the sense of lkv_role_watch. They show the node that
 *              is asked: this one, or the one that a client is connected to.
 *   Kept       until "retention_ms" or "retention_bytes" lets them go, in whole segment files.
 *              Never while fewer than "keep_entries" lie behind, never at or above a hold of
 *              lkv_log_hold. What has gone is LKV_ETRUNCATED, with the number "first": the first
 *              index that is kept. A node that was away for so long that the others no longer keep
 *              what it lacks goes on from their first index, and so its own "first" rises, too.
 */
enum { LKV_APPEND_RECORDS_MAX = 1024, LKV_APPEND_BYTES_MAX = 16 * 1024 * 1024 };

/* Appends `count` records (1 to LKV_APPEND_RECORDS_MAX, LKV_APPEND_BYTES_MAX bytes in all), and is
 * done when a quorum has them on disk. `in_term` 0, or the term of a "leader_ready" message: then
 * they are appended in that term or not at all (LKV_ETERM, not done): what fences a leader that was
 * replaced without knowing it. `index` (may be NULL): of the first record; the others follow it.
 * Outcomes as those of lkv_put. */
LKV_API LKV_CHECK int lkv_append(struct lkv *db, const struct lkv_bytes *records, size_t count,
                                 uint64_t in_term, int64_t timeout_ms, uint64_t *index);

/* The same with an LKV_REPLY on the queue: numbers "index" (the first record's), "count",
 * "term". */
LKV_API LKV_CHECK int lkv_append_submit(struct lkv *db, const struct lkv_bytes *records,
                                        size_t count, uint64_t in_term, int64_t timeout_ms,
                                        struct lkv_queue *queue, void *tag);

/* As lkv_append, once under the number `seq` of a session: see "writes that take effect once", all
 * of which holds for appends too. However often it is sent, its records are in the log once, side
 * by side, and the answer is the first one, with its index. All of them are seen, or none: when a
 * leader is lost between them, what is there of them is never shown, and its indices are gaps. So
 * is the order of one handle's appends kept, however many of them are under way.
 * Outcomes as those of lkv_put_once. LKV_EINVAL also: that number was used for other records.
 * LKV_ETERM does not use up the number. */
LKV_API LKV_CHECK int lkv_append_once(struct lkv_session *session, uint64_t seq,
                                      const struct lkv_bytes *records, size_t count,
                                      uint64_t in_term, int64_t timeout_ms, uint64_t *index);
LKV_API LKV_CHECK int lkv_append_once_submit(struct lkv_session *session, uint64_t seq,
                                             const struct lkv_bytes *records, size_t count,
                                             uint64_t in_term, int64_t timeout_ms,
                                             struct lkv_queue *queue, void *tag);

/* The first index kept by the node that answers, and the last one that may be read there (first -
 * 1: none yet). LKV_LINEARIZABLE: `commit` is at least that of every append acknowledged before.
 * Either pointer may be NULL. */
LKV_API LKV_CHECK int lkv_log_span(struct lkv *db, enum lkv_read how, int64_t timeout_ms,
                                   uint64_t *first, uint64_t *commit);

/* Reads records from index `from` on (0: the first that is kept): as many as fit into bytes_max (0:
 * about 1 MiB, which is also the most), but at least one if there is one. *out is a message with
 * these records and the numbers "next" (where to go on), "first" and "commit"; no records when
 * `from` is beyond "commit". Each record's checksum has been verified. Ownership: free *out, also
 * after an error.
 * Errors: LKV_ETRUNCATED (number "first"), LKV_EDAMAGED, and those of reads. */
LKV_API LKV_CHECK int lkv_log_read(struct lkv *db, uint64_t from, size_t bytes_max,
                                   int64_t timeout_ms, struct lkv_msg **out);
LKV_API LKV_CHECK int lkv_log_read_submit(struct lkv *db, uint64_t from, size_t bytes_max,
                                          int64_t timeout_ms, struct lkv_queue *queue, void *tag);

enum lkv_tail_flags {
    /* Embedded nodes only: this node is told "leader_ready" only when the messages of this tail
     * with everything that was there at its election have been freed. A leader that this keeps from
     * being ready for "ready_timeout_ms" hands over. A tail that has ended gates nothing. */
    LKV_GATES_READY = 1
};

/* From now on the records from index `from` on (0: the first that is kept) arrive on the queue, in
 * order, as LKV_RECORDS messages (numbers "next", "first", "commit"), as soon as they are visible.
 * `flags`: 0 or LKV_GATES_READY. Messages that have not been freed hold at most about
 * `credit_bytes` (at least one record at a time): freeing them lets the tail go on. It ends with
 * one LKV_END, whose rc tells why: LKV_ECANCELED (lkv_cancel), LKV_ECLOSED,
 * LKV_ETRUNCATED (fell behind retention; number "first"), LKV_EDAMAGED, LKV_ESTOPPED. A client's
 * tail goes on by itself, without a gap, when its node is gone and another one answers. */
LKV_API LKV_CHECK int lkv_log_tail(struct lkv *db, uint64_t from, size_t credit_bytes, int flags,
                                   struct lkv_queue *queue, void *tag);

/* Ends the tails and watches with this tag: their LKV_END is owed, with LKV_ECANCELED. What was
 * submitted is not taken back. Errors: LKV_ENOENT (no tail or watch has it). */
LKV_API int lkv_cancel(struct lkv *db, void *tag);

/* Where the i-th record's bytes lie on disk: for sendfile, copy_file_range, splice. The descriptor
 * is open for reading and belongs to the message; those bytes do not change until it is freed, or
 * the handle closed. Embedded nodes only. Thread: one at a time for one message.
 * Errors: LKV_EUNSUPPORTED, LKV_EINVAL (no such record), LKV_ETRUNCATED (gone meanwhile),
 * LKV_ECLOSED. */
LKV_API LKV_CHECK int lkv_log_extent(struct lkv_msg *msg, size_t i, int *fd, uint64_t *offset);

/* This node keeps everything from index `keep_from` on, under this name (1 to 63 of
 * [A-Za-z0-9._-]), also after a restart, until the hold moves on or is removed (keep_from 0). At
 * most "hold_bytes_max" are kept beyond what retention asks for: a consumer that never comes back
 * must not fill the disk, so beyond that the oldest holds lose. Returns when it is durable.
 * Embedded nodes only.
 * Errors: LKV_ETRUNCATED (gone already; nothing is held), LKV_EBUSY (64 holds exist). */
LKV_API LKV_CHECK int lkv_log_hold(struct lkv *db, const char *name, uint64_t keep_from,
                                   int64_t timeout_ms);

/* ------------------------------------------------------------------ a state machine of your own
 *
 * With the option model=own the records are the entries of a state machine that is the program's:
 * each node's program applies them, in the order of the log, and answers. All verbs of the ledger
 * hold; what differs is how the log ends: instead of retention, the program gives images of its
 * state, and the log up to an image goes (less "keep_entries", and holds). A node that starts, or
 * that was away for too long, goes on from an image.
 *
 *   Thread     The program's functions are called by lkv_machine_run, on the thread that calls it,
 *              one at a time. A slow one delays applying, and no election.
 *   Same       What apply does and answers may depend on nothing but the state and the entry: not
 *              on time, chance, addresses. Else replicas part, and nobody notices.
 *   Errors     One of the functions that fails ends lkv_machine_run with its error. Close the node
 *              then: it hands leadership over. Entries are not passed over.
 *
 * A failed function returns an LKV_E code, say LKV_ENOMEM or LKV_EIO.
 */
struct lkv_machine; /* a program's state machine on one node */
struct lkv_said;    /* what apply says to whoever proposed the entry */
struct lkv_image;   /* an image that is being written or read */

/* The program's functions. Each returns 0 or an error; `arg` is that of lkv_machine_new. None may
 * be NULL. */
struct lkv_machine_calls {
    /* Applies the entry; its bytes are valid during the call. lkv_machine_say() adds to what is
     * answered. */
    int (*apply)(void *arg, const struct lkv_record *entry, struct lkv_said *answer);
    /* The state becomes that of no entry at all. Called first, and before each image. */
    int (*reset)(void *arg);
    /* The next bytes of an image, in order, in pieces of any size; 0 of them: that was all. */
    int (*load)(void *arg, struct lkv_bytes bytes);
    /* Freezes the state as it is, for an image; apply goes on meanwhile. *view is for save and
     * thaw. */
    int (*freeze)(void *arg, void **view);
    /* Copies the next bytes of the view, at most `size`, to `into`; *got 0: that was all. */
    int (*save)(void *arg, void *view, void *into, size_t size, size_t *got);
    void (*thaw)(void *arg, void *view); /* the view is done with; always called after freeze */
    void *reserved[4];                   /* NULL */
};

/* A machine on a node of model=own that is open in this process. An image is made after about
 * `image_bytes` of entries (0: 64 MiB). Ownership: *out is the caller's, until lkv_machine_free;
 * free it before the handle is closed. Errors: LKV_EUNSUPPORTED (a client, or another model). */
LKV_API LKV_CHECK int lkv_machine_new(struct lkv *db, const struct lkv_machine_calls *calls,
                                      void *arg, uint64_t image_bytes, struct lkv_machine **out);

/* Loads the newest image, applies what comes behind it, and goes on, until lkv_machine_stop (then
 * 0) or an error. Once for each machine. "leader_ready" comes when what was there at the election
 * is applied (LKV_GATES_READY). Thread: the one on which the functions are called. While what
 * comes next is in no log and no image of this node, it waits: a damaged node gets it from the
 * others. Errors: that of a function; LKV_ESTOPPED, LKV_ECLOSED, LKV_EDAMAGED (an image),
 * LKV_EIO, LKV_EBUSY (it runs, or has run). */
LKV_API LKV_CHECK int lkv_machine_run(struct lkv_machine *machine);

/* lkv_machine_run returns soon. Any thread, also before it is called. NULL is fine. */
LKV_API void lkv_machine_stop(struct lkv_machine *machine);

/* No thread may be in a call on it. NULL is fine. */
LKV_API void lkv_machine_free(struct lkv_machine *machine);

/* Proposes an entry, and returns what apply answers to it, on this node, when it is applied here.
 * `in_term` as of lkv_append. *answer (may be NULL) is a message with one record: the entry's index
 * and term, and the answer's bytes. Ownership: free *answer.
 * Outcomes as those of lkv_append; LKV_EUNKNOWN also when the entry is in the log, but its answer
 * did not come: not within the time, or the machine has ended, or an image has overtaken it. */
LKV_API LKV_CHECK int lkv_machine_propose(struct lkv_machine *machine, struct lkv_bytes entry,
                                          uint64_t in_term, int64_t timeout_ms,
                                          struct lkv_msg **answer);

/* Returns when the state here has every entry that was answered, to anybody, before the call:
 * what is read from it now is linearizable. `index` (may be NULL): up to which entry it has them
 * at least. The state is the program's: it sees to it that apply and its readers do not meet in
 * it. */
LKV_API LKV_CHECK int lkv_machine_read(struct lkv_machine *machine, int64_t timeout_ms,
                                       uint64_t *index);

/* Adds bytes to the answer. Thread: in apply only. */
LKV_API int lkv_machine_say(struct lkv_said *answer, struct lkv_bytes bytes);

/* For programs that apply by themselves, from lkv_log_tail, without a struct lkv_machine: an
 * image of the state as it is after entry `index`, which the node has shown. One at a time. It is
 * durable, and the log may go, when lkv_image_commit returns 0; that is also the answer when
 * there is a newer image already. lkv_image_commit frees the image whatever it returns;
 * lkv_image_close gives it up. Ownership: *out is the caller's; no image may be open when its
 * handle is closed. Errors: LKV_EBUSY (one is being written), LKV_EUNSUPPORTED (as
 * lkv_machine_new), LKV_ENOSPACE, LKV_EIO; of the commit also LKV_EINVAL (no such entry was shown
 * here), LKV_ETIMEOUT, LKV_EUNKNOWN (the disk has not taken it in time). */
LKV_API LKV_CHECK int lkv_image_begin(struct lkv *db, uint64_t index, struct lkv_image **out);
LKV_API LKV_CHECK int lkv_image_write(struct lkv_image *image, struct lkv_bytes bytes);
LKV_API LKV_CHECK int lkv_image_commit(struct lkv_image *image, int64_t timeout_ms);

/* Opens this node's newest image; `index` (may be NULL): of which entry it is. Go on with a tail
 * from index + 1. It stays readable while newer ones come. lkv_image_read gives its next bytes,
 * verified, at most `size` (not 0); *got 0: that was all. Errors: LKV_ENOENT (there is none yet),
 * LKV_EUNSUPPORTED, LKV_EDAMAGED, LKV_EIO. */
LKV_API LKV_CHECK int lkv_image_open(struct lkv *db, struct lkv_image **out, uint64_t *index);
LKV_API LKV_CHECK int lkv_image_read(struct lkv_image *image, void *into, size_t size, size_t *got);
LKV_API void lkv_image_close(struct lkv_image *image);

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
 *            since the start).
 *   Members  with lkv_msg_member, this node first. */
LKV_API LKV_CHECK int lkv_status(struct lkv *db, int64_t timeout_ms, struct lkv_msg **out);

/* An order-free digest over all live keys and sessions of this replica: numbers "digest", "index"
 * (applied), "rev". In log mode, without "rev": over the sessions and a chain of hashes over all
 * entries that were ever applied, so that it does not depend on what is still kept.
 * Two replicas with equal index have equal digests, or one is wrong. LKV_EBUSY (log mode): the node
 * goes on from an image and is still behind what that knows. */
LKV_API LKV_CHECK int lkv_digest(struct lkv *db, int64_t timeout_ms, struct lkv_msg **out);

/* ------------------------------------------------------------------ a log that nobody holds */

enum lkv_log_kind {
    LKV_LOG_RECORD,  /* a good entry */
    LKV_LOG_MARK,    /* says up to where the log was durable */
    LKV_LOG_TORN,    /* a finding: written, never acknowledged; opening cuts it off */
    LKV_LOG_DAMAGED, /* a finding: acknowledged, and unreadable */
    LKV_LOG_DEAD,    /* cut by a later segment: not part of the log any more */
    LKV_LOG_WARNING, /* a finding: unreadable, but nothing is lost: another copy has it all */
    LKV_LOG_FILE     /* no part of the log: another file of the directory, all of it good */
};

/* What lkv_log_walk visits. Everything in it is valid during the visit. */
struct lkv_log_item {
    enum lkv_log_kind kind;
    const char *file; /* relative to the directory */
    uint64_t offset;
    uint64_t index, term; /* of LKV_LOG_FILE: what an image covers, else 0 */
    /* "noop", "config", "put", "delete", "session open", ..., "record", "record once" (in a
     * session; payload: the caller's bytes), "-"; of a file: "identity", "seen", "retention",
     * "checkpoint", "image" */
    const char *type;
    struct lkv_bytes key, value, payload;
    const char *text; /* of a finding: "crc mismatch (acknowledged)"; NULL for a good record */
};

/* Reads the log in `dir` from its first byte to its last, and before it the other files that a
 * start needs (identity, seen, retention, images), changing nothing. Findings are visited, and are
 * no error; what an image that cannot be read stood for is missing from the log. `visit` returning
 * non-zero ends the walk with that value. Where the lock cannot be written, as on a read-only file
 * system, it is taken for reading.
 * Ownership of *why as lkv_open. Thread: `visit` runs on the calling thread.
 * Errors: LKV_ENOENT (no node's directory), LKV_ELOCKED (a process holds it), LKV_EPERM,
 * LKV_EVERSION, LKV_ENOMEM, LKV_EIO. */
LKV_API LKV_CHECK int lkv_log_walk(const char *dir,
                                   int (*visit)(void *arg, const struct lkv_log_item *item),
                                   void *arg, struct lkv_msg **why);

#ifdef __cplusplus
}
#endif
#endif
