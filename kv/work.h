/* The command that is being carried out, when it is more than a plain put or delete of one key. It may
 * take several turns and several calls of kv_apply; what it has done so far is above what readers see.
 *
 * A transaction goes through its program twice. First it finds the way, with all compares, and checks
 * each operation on it, against the state before; its answer, so far without contents, remembers the way. Only
 * when nothing can fail any more but the allocator, the operations are carried out. */
#ifndef KV_WORK_H
#define KV_WORK_H

#include "kv/change.h"
#include "kv/page.h"
#include "kv/txn.h"
#include "kv/walk.h"

struct batch;
struct entry;
struct kv_result;

/* A program on the way. */
struct work_frame {
    struct txn_parts parts;
    uint32_t compares_seen;
    bool decided;        /* the compares have been looked at, and answer->held says how it went */
    struct reader steps; /* of the branch: what is left */
    size_t next;         /* number of the next operation */
    struct kv_answer *answer; /* in work.answer */
};

struct work {
    uint64_t index;       /* of its entry; 0: there is none */
    struct slice program; /* of a transaction */
    struct blob *payload; /* owned reference: all slices here are in it */
    bool checked;         /* nothing can fail any more but an allocation */
    int rc;               /* an outcome without effect, or 0 */
    uint64_t revision;    /* of what it changes */
    struct changes changes;
    int64_t number;              /* of an add: what is written */
    struct lease_key *lease_key; /* of a revoke: the next one to be deleted */
    struct kv_answer *answer;    /* owned; NULL: only numbers are answered */
    size_t answer_bytes;         /* keys and values in it */
    struct work_frame frames[KV_TXN_DEPTH_MAX];
    unsigned depth;
    /* An operation on several keys, or a compare of them. */
    bool walking;
    bool found_any; /* keys, by a compare */
    struct walk walk;
    struct kv_query query;
    struct page page;
    struct kv_range range; /* owned */
};

/* Zero-initialised is none. What it has superseded stays linked, and is freed with the store. */
void work_drop(struct work *work);

/* Carries out a put, delete, add, transaction or revoke, in a turn. 0: complete, the outcome is in the result;
 * UNFINISHED: to be called again with the same entry; LKV_ENOMEM: nothing of it will ever be seen. */
MUST_USE int work_on(struct batch *batch, const struct entry *entry,
                     const struct kv_command *command, struct kv_result *result);

/* ------------------------------------------------------------------ its parts */

/* So many keys have been looked at: readers get in now and then. UNFINISHED: enough for this call. */
MUST_USE int work_pause(struct batch *batch, size_t keys);

/* Whether an operation, but a nested program, can be carried out on the state before; work->rc says why
 * not. */
void work_check(struct batch *batch, struct work *work, const struct kv_step *step);

/* Carries it out, and fills its answer, if there is one. 0, UNFINISHED, LKV_ENOMEM. */
MUST_USE int work_do(struct batch *batch, struct work *work, const struct kv_step *step,
                     struct kv_answer *answer);

/* Visits the keys [key, end) as of a revision: at most `*count` (and WALK_KEYS) versions on each call. 0: these were the
 * last, or there are more, as work->walking says. The references are the caller's. */
void work_walk(struct batch *batch, struct work *work, const struct kv_step *range,
               uint64_t revision, struct kv_version **versions, size_t *count);

/* A revoke, but for the lease itself. 0, UNFINISHED, LKV_ENOMEM. */
MUST_USE int work_revoke(struct batch *batch, struct work *work, const struct kv_command *command);

/* A program: first the way, then the operations. 0, UNFINISHED, LKV_ENOMEM. */
MUST_USE int work_find_way(struct batch *batch, struct work *work);
MUST_USE int work_follow_way(struct batch *batch, struct work *work);
/* Back to the start of the program. */
void work_begin_program(struct work *work, struct slice program);

#endif
