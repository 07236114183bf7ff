/* The state machine: an ordered map of keys with revisions, changed only by replayed log entries.
 *
 * Threads: kv_apply, kv_view_open and kv_restore come from one thread at a time, the applier. All
 * reads may come from any thread at any time; they see whole batches of kv_apply or none of it.
 *
 * Revisions: an empty store has revision 1; it rises by one for each command that changes a key, and
 * only then. create_rev, mod_rev and version are per key; a tombstone resets version.
 *
 * History begins when the cluster has reached KV_LEVEL_HISTORY: from then on every older version stays
 * until a KV_COMPACT command gives it up. What is kept is part of the state, the same on every node;
 * when the memory comes back is not (kv_tidy).
 *
 * Sessions (kv/session.h) make a repeated command take effect once. Leases (kv/lease.h) take their keys
 * away together. Neither has versions: a view freezes them when it is opened.
 */
#ifndef KV_KV_H
#define KV_KV_H

#include "base/disk.h"
#include "base/entry.h"
#include "base/trace.h"
#include "kv/command.h"

struct kv;
struct kv_view;
struct ordered_ops;

/* A directory in which the versions lie, instead of in memory: the engine is a module (kv/ordered.h). What
 * is in it is a copy, made anew from an image and the log when it is lost. */
struct kv_home {
    const struct ordered_ops *engine;
    struct disk *disk;
    const char *dir;                          /* made if absent; its parent is there */
    uint64_t cluster_id, group_id, member_id; /* whose it is; a cluster of 0: not founded yet */
    uint64_t unflushed_bytes; /* about so much is replayed from the log after a crash */
    uint64_t cache_bytes;
};

struct kv_options {
    uint64_t hash_seed;     /* of the table; never influences any answer, order, image or digest */
    uint32_t feature_level; /* the highest that is understood; 0: FEATURE_LEVEL */
    const struct trace *trace;
    const struct kv_home *home; /* NULL: in memory; copied */
    struct reason *why;         /* of a home that cannot be opened; may be NULL */
};

/* In memory: an empty one, or LKV_ENOMEM. With a home: what is in it. LKV_EDAMAGED: kv_home_clear and begin
 * anew; LKV_EIDENTITY, LKV_EVERSION: it is another's; LKV_EIO, LKV_ENOSPACE. */
MUST_USE int kv_open(struct kv **out, const struct kv_options *options);
/* NULL is fine; no view may be open. What has a home is on the disk then. */
void kv_close(struct kv *kv);

/* What is in it is damaged: durable, so that kv_open says LKV_EDAMAGED until kv_home_clear. It may be open. */
MUST_USE int kv_home_condemn(const struct kv_home *home, struct reason *why);

/* Removes what is in a home that nothing has open. */
MUST_USE int kv_home_clear(const struct kv_home *home, struct reason *why);

/* Everything applied before the call is on the disk when it returns, if there is a home (rule 23). Any
 * thread but the applier's, which must not wait; LKV_EIO, LKV_ENOSPACE. */
MUST_USE int kv_flush(struct kv *kv, struct reason *why);
/* What of it is on the disk now: the index that a crash would go back to. In memory: UINT64_MAX, since there
 * is nothing to go back to. Any thread. */
MUST_USE int kv_persisted(struct kv *kv, uint64_t *index, struct reason *why);
/* Whether kv_apply waits for the disk: ask again a moment later. Applier's thread. */
bool kv_waits(const struct kv *kv);
/* Whether the engine has failed where nobody was waiting for it: LKV_EIO, LKV_ENOSPACE; or has given what cannot
 * be right, to anybody: LKV_EDAMAGED (see kv_home_condemn). Then the applier stops, too. */
MUST_USE int kv_health(struct kv *kv, struct reason *why);

/* The feature level (base/feature.h) from which on there are history, KV_COMPACT, KV_TXN, KV_ADD, leases,
 * and the options of puts and deletes. Below it they must not be proposed: kv_apply stops at them. */
enum { KV_LEVEL_HISTORY = 2 };

/* Who proposes a command asks first kv_command_check, and that kv_command_level is not above the level of
 * the cluster, as kv_feature_level says; whoever does so can be sure that no replica stops at it. */

/* Where the state stands: the last applied entry and the revision after it, and what is kept. */
struct kv_stamp {
    uint64_t index, term;
    uint64_t revision;
    /* Every change from this revision on is kept; revision + 1: none is. What can be read are the
     * revisions from here on, and the present one in any case. */
    uint64_t kept_from;
};
void kv_stamp(const struct kv *kv, struct kv_stamp *out); /* any thread */

/* The feature level that the entries applied so far have agreed on. Applier's thread. */
uint32_t kv_feature_level(const struct kv *kv);

struct kv_item {
    struct slice key, value; /* valid until kv_item_release / kv_range_fini / kv_result_fini */
    uint64_t create_rev, mod_rev, version;
    int64_t lease;
    struct kv_version *owner; /* pinned */
};

/* What an operation answers beyond numbers. The items of one command have at most KV_ANSWER_BYTES_MAX bytes
 * of keys and values, and those of a range KV_ANSWER_ITEMS_MAX, or, in another order than that of keys,
 * KV_ANSWER_SORTED_MAX of them; `more` says that there would be others. */
enum {
    KV_ANSWER_BYTES_MAX = 16 * 1024 * 1024,
    KV_ANSWER_ITEMS_MAX = 65536,
    KV_ANSWER_SORTED_MAX = 4096
};
struct kv_answer {
    enum kv_op op;         /* kv/command.h */
    struct kv_item *items; /* of a range: what was found; with KV_PREVIOUS: what was there before */
    size_t count;
    bool more;
    bool held;                 /* KV_TXN: all its compares: the first branch was carried out */
    uint64_t total;            /* KV_RANGE: as in struct kv_range; KV_DELETE: keys deleted */
    int64_t number;            /* KV_ADD: the number that is there now */
    struct kv_answer *answers; /* KV_TXN: of the branch's operations, in their order */
    size_t answer_count;
};

/* What one entry did. Once it is applied, for kv_result_fini.
 *
 * Codes, all without effect: LKV_ETERM (fenced by another term), LKV_ESESSION (unknown session), LKV_EBUSY
 * (beyond the session's window, or too many sessions or leases), LKV_EANSWERED (before the session's window);
 * LKV_ECOMPARE (if_rev, KV_IF_ABSENT), LKV_ENOTFOUND (nothing there whose value or lease could be kept),
 * LKV_ENUMBER and LKV_EOVERFLOW (KV_ADD), LKV_ELEASE (unknown lease), LKV_EEXIST (KV_LEASE_GRANT), LKV_ECOMPACTED and LKV_EFUTURE (KV_COMPACT, and reads of a
 * transaction). That a compare of a transaction does not hold is no error. */
struct kv_result {
    int rc;
    uint64_t index, term; /* of the entry that took effect: this one, or the one that it repeats */
    uint64_t revision;    /* store revision after that */
    uint64_t kept_from;   /* as in struct kv_stamp, after the entry that was applied */
    /* KV_DELETE, KV_LEASE_REVOKE: keys deleted; KV_LEASE_GRANT: its id; KV_ADD: the number after it, as an int64_t; KV_TXN: 1 if its compares
     * held, else 0; of an opened session: its greatest sequence number so far. */
    uint64_t count;
    uint64_t session; /* that it belongs to, that it opened or ended; 0: none */
    bool ended;       /* that session is no more */
    bool repeated;    /* an earlier entry's answer, without any effect: numbers only (rule 26) */
    struct kv_answer *answer; /* owned; of a transaction, and with KV_PREVIOUS; else NULL */
};
void kv_result_fini(struct kv_result *result);

/* Applies consecutive entries in order; the first must be stamp.index + 1. NOOP and CONFIG entries
 * only move the stamp, FEATURE entries the feature level too. The batch becomes visible to readers as
 * one. An entry that cannot be understood (LKV_EPROTOCOL, LKV_EVERSION) or a failed allocation (LKV_ENOMEM) is final: nothing
 * after it is applied, `*applied` says how many were, and the node must stop (rule 22).
 *
 * One call does a bounded amount of work, some milliseconds: a delete of more keys than that takes
 * several. Then it returns 0 with `*applied` < count, maybe 0: call it again with the rest, the same
 * entry first. With a home that is also the answer when the disk is behind, with nothing applied. An error
 * of the disk (LKV_EIO, LKV_ENOSPACE, LKV_EDAMAGED) is final, too: nothing of the call is applied. */
MUST_USE int kv_apply(struct kv *kv, const struct entry *entries, size_t count,
                      struct kv_result *results, size_t *applied, struct reason *why);

/* Frees a bounded part of what large deletes, compactions and closed views left behind; true: there is
 * more. Each kv_apply does the same, so this is for a state machine that has nothing to apply. Applier's
 * thread. */
bool kv_tidy(struct kv *kv);

/* ------------------------------------------------------------------ reading, any thread */

/* LKV_ENOTFOUND; or 0 and a pinned item that later writes do not touch. `stamp` (may be NULL) is
 * the state that was read, also with LKV_ENOTFOUND. */
MUST_USE int kv_get(struct kv *kv, struct slice key, struct kv_item *out, struct kv_stamp *stamp);
void kv_item_release(struct kv_item *item);

/* The same as of an older revision; 0: the newest. LKV_ECOMPACTED and LKV_EFUTURE: the state at `*stamp`
 * cannot be read as of it, and kv_kept_reason says why. */
MUST_USE int kv_get_at(struct kv *kv, struct slice key, uint64_t revision, struct kv_item *out,
                       struct kv_stamp *stamp);

/* "revision 7 has been compacted: 20 to 30 are kept", for LKV_ECOMPACTED and LKV_EFUTURE; returns rc. */
int kv_kept_reason(int rc, uint64_t revision, const struct kv_stamp *stamp, struct reason *why);

/* Copies at most `capacity` bytes of the value; `*size` is its full size. No allocation. */
MUST_USE int kv_get_copy(struct kv *kv, struct slice key, void *into, size_t capacity,
                         size_t *size);

/* What items are ordered by; of equal ones the lesser key comes first, in both directions. Any other order
 * than that of keys looks at the whole range, whatever the limit. */
enum kv_order { KV_BY_KEY, KV_BY_VERSION, KV_BY_CREATE_REV, KV_BY_MOD_REV, KV_BY_VALUE };

struct kv_query {
    struct slice from; /* inclusive; empty = the first key */
    struct slice to;   /* exclusive; empty = after the last key */
    uint64_t revision; /* of the state that is read; 0 = the newest */
    enum kv_order order;
    bool descending;
    bool keys_only;  /* items have an empty value */
    bool count_only; /* no items, `total` only */
    bool with_total; /* count beyond the page too (else total = items returned) */
    /* Only these become items; `total` counts the others, too. 0 = no bound. */
    uint64_t mod_rev_min, mod_rev_max;
    uint64_t create_rev_min, create_rev_max;
    size_t limit;              /* items; 0 = no limit but bytes_max */
    size_t bytes_max;          /* of keys and values returned, at least one item; 0 = no limit */
    size_t keys_max;           /* about so many may be looked at, else LKV_EBUSY; 0 = no limit */
    const atomic_bool *cancel; /* may be NULL; looked at now and then: LKV_ECANCELED */
};
struct kv_range {
    struct kv_item *items;
    size_t count;
    bool more;      /* keys of the range remain that pass the filters and are not on the page */
    uint64_t total; /* keys in the range */
    struct kv_stamp stamp;
};
/* All of it is read at one revision, however long it takes (C16). LKV_ECOMPACTED, LKV_EFUTURE: as kv_get_at,
 * with out->stamp; LKV_ECANCELED; LKV_EBUSY (keys_max); LKV_ENOMEM. After an error there is nothing to be freed. */
MUST_USE int kv_range(struct kv *kv, const struct kv_query *query, struct kv_range *out);
void kv_range_fini(struct kv_range *range);

struct kv_session {
    uint64_t id, ttl_ms;
};
/* The i-th open session, ascending by id; false past the end. Applier's thread. */
bool kv_session_at(const struct kv *kv, size_t i, struct kv_session *out);

/* A lease (kv/lease.h). */
struct kv_lease {
    int64_t id;
    uint64_t granted; /* index of its entry, which tells it from another one with this id */
    uint64_t ttl_ms;
    uint64_t remaining_ms; /* what was left of it at its latest checkpoint, or the ttl */
};
/* The i-th one, ascending by id, and one by its id; false when there is none. Applier's thread. */
bool kv_lease_at(const struct kv *kv, size_t i, struct kv_lease *out);
bool kv_lease_find(const struct kv *kv, int64_t id, struct kv_lease *out);
/* At most `limit` keys that are attached to it, in order, from behind `after` on (empty: from the first);
 * out->more: there are others. Items have no value. LKV_ELEASE, LKV_ENOMEM: nothing is to be freed.
 * Applier's thread. */
MUST_USE int kv_lease_keys(struct kv *kv, int64_t id, struct slice after, size_t limit,
                           struct kv_range *out);

struct kv_stats {
    uint64_t keys, bytes;         /* logical: live keys, and bytes of their keys and values */
    uint64_t versions;            /* in memory: old ones and tombstones, too */
    uint64_t revision, kept_from; /* as in struct kv_stamp: what a policy of compaction looks at */
    uint64_t sessions;            /* open ones */
    uint64_t leases;
    uint64_t memory;         /* allocated by the engine, estimate */
    uint64_t history_memory; /* of it, by older versions that nobody but the history needs */
    bool history_held;       /* by a view, which keeps more of it than the state does */
};
void kv_stats(const struct kv *kv, struct kv_stats *out);

/* ------------------------------------------------------------------ one revision, pinned */

/* Keeps one revision readable, and not its history, whatever is compacted or restored meanwhile; 0: the
 * newest. `*stamp` is the state that it was opened at, also with LKV_ECOMPACTED and LKV_EFUTURE; LKV_ENOMEM.
 * Any thread. */
struct kv_pin;
MUST_USE int kv_pin_open(struct kv *kv, uint64_t revision, struct kv_pin **out,
                         struct kv_stamp *stamp);
/* Frees what only the pin has kept, which may be much. Any thread; NULL is fine. */
void kv_pin_close(struct kv_pin *pin);
uint64_t kv_pin_revision(const struct kv_pin *pin);
/* As kv_get_at and kv_range of the pin's revision, whatever the query's is; the stamp is the one that it was
 * opened at. Several threads at once may. */
MUST_USE int kv_pin_get(struct kv_pin *pin, struct slice key, struct kv_item *out,
                        struct kv_stamp *stamp);
MUST_USE int kv_pin_range(struct kv_pin *pin, const struct kv_query *query, struct kv_range *out);

/* ------------------------------------------------------------------ views, images, digest */

/* Pins the state at the current stamp, with its history: O(1), on the applier's thread; reading it goes on
 * in slices on any one thread while apply goes on (rule 24). Compaction goes on, too, but
 * frees nothing that the view has until it is closed. */
MUST_USE int kv_view_open(struct kv *kv, struct kv_view **out);
void kv_view_close(struct kv_view *view); /* any thread; NULL is fine */
void kv_view_stamp(const struct kv_view *view, struct kv_stamp *out);

/* Order-free digest over (key, value, revisions, lease) of the live keys, the sessions and the leases,
 * recomputed by reading them all; equal states at equal index have equal digests on every node.
 * `*cancel`, may be NULL, is looked at between slices: LKV_ECANCELED. LKV_ENOMEM. */
MUST_USE int kv_view_digest(struct kv_view *view, const atomic_bool *cancel, uint64_t *digest);

struct kv_image_info {
    struct kv_stamp stamp;
    uint64_t keys, bytes; /* bytes: of the file */
    uint64_t digest;
    uint64_t cluster_id, group_id;
    uint32_t feature_level;
};

/* Whose state it is. */
struct kv_owner {
    uint64_t cluster_id, group_id;
};

/* Writes the view as an image file: complete, synced, renamed to `path`, directory synced; a crash
 * at any moment leaves the old file or the new one. `tail` is opaque to the state machine and comes
 * back at load (the node's membership and identity section). `*cancel`, may be NULL, is looked at
 * between slices: LKV_ECANCELED, nothing left behind. Bulk thread. */
MUST_USE int kv_image_save(struct kv_view *view, struct disk *disk, const char *dir,
                           const char *path, struct kv_owner owner, struct slice tail,
                           const atomic_bool *cancel, struct kv_image_info *info,
                           struct reason *why);

/* Verifies every checksum, count and the digest: LKV_EDAMAGED with file:offset, LKV_EVERSION for a
 * newer format, feature level or section that must be understood. `tail` (may be NULL) receives an
 * owned copy, NULL on failure. */
MUST_USE int kv_image_check(struct disk *disk, const char *path, struct kv_image_info *info,
                            struct blob **tail, struct reason *why);

/* The header alone, for a reader of this feature level: whose it is and where it stands. LKV_EDAMAGED,
 * LKV_EVERSION. */
MUST_USE int kv_image_header(struct disk *disk, const char *path, uint32_t feature_level,
                             struct kv_image_info *info, struct reason *why);

/* How much of an image that is still on its way is good: up to the end of the last whole chunk whose
 * checksum fits, 0 when not even the header is. Nothing else of it is believed. */
MUST_USE int kv_image_prefix(struct disk *disk, const char *path, const atomic_bool *cancel,
                             uint64_t *size, struct reason *why);

/* A fresh state machine with the image's contents; `*out` and `*tail` are NULL on failure. `*cancel` as for
 * saving. */
MUST_USE int kv_image_load(struct kv **out, const struct kv_options *options, struct disk *disk,
                           const char *path, const atomic_bool *cancel, struct kv_image_info *info,
                           struct blob **tail, struct reason *why);

/* Replaces the whole contents of `kv` by those of `loaded` (taken, closed) in one visible step;
 * open views keep what they pinned. Applier's thread. */
void kv_restore(struct kv *kv, struct kv *loaded);

/* The same, but `loaded` receives the old contents, for kv_close on a thread that has the time:
 * freeing a million keys takes a while. It must not be used otherwise. Applier's thread. */
void kv_exchange(struct kv *kv, struct kv *loaded);

#endif
