/* ledgerkv: the log itself, and what a program makes of it. A part of ledgerkv.h, which includes it
 * and whose conventions hold: include that. */
#ifndef LEDGERKV_LOG_H
#define LEDGERKV_LOG_H

#include "ledgerkv.h"

#ifdef __cplusplus
extern "C" {
#endif

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
