/* ledgerkv: the key/value model beyond single keys. A part of ledgerkv.h, which includes it and
 * whose conventions hold: include that. */
#ifndef LEDGERKV_KV_H
#define LEDGERKV_KV_H

#include "ledgerkv.h"

#ifdef __cplusplus
extern "C" {
#endif

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
 * max_age_ms; then it ends by itself, and the memory comes back. It holds at most LKV_VIEWS_MAX at
 * once, LKV_CONNECTION_VIEWS_MAX of them for one connection of a client. Meanwhile it answers
 * lkv_get_at and lkv_find of that revision, too. A client's view goes on at another node when that
 * one is gone, as long as the revision is not compacted there: LKV_ECOMPACTED then.
 */
enum { LKV_VIEWS_MAX = 256, LKV_CONNECTION_VIEWS_MAX = 64, LKV_VIEW_AGE_MS_MAX = 600000 };

/* Opens a view of revision `rev`, 0: the newest, in the sense of `how`; within the option
 * "timeout_ms". max_age_ms: 1 to LKV_VIEW_AGE_MS_MAX, counted from the call.
 * Ownership: *out is the caller's, until lkv_view_close, before or after that of `db`.
 * Errors: as for reads, LKV_ECOMPACTED, LKV_EFUTURE, LKV_EBUSY (there are as many as may be: the
 * text has how many, and the limit). */
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

/* Adds a compare to a transaction: the lock is still held with this token. What no lock can have
 * (such a name, a lease below 1, token 0) is LKV_EINVAL at commit. */
LKV_API void lkv_txn_if_locked(struct lkv_txn *txn, struct lkv_bytes name, int64_t lease,
                               uint64_t token);

#ifdef __cplusplus
}
#endif
#endif
