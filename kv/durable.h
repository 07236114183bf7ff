/* A store whose versions lie in an ordered map on disk (kv/ordered.h) instead of in memory. Commands,
 * transactions, sessions, the gate and images are the same; what differs is in these functions, to which
 * store, change, history, walk and read turn when the store has a map.
 *
 *      k <key, escaped> <revision, inverted>    a version: a key's newest one first
 *      c <revision> <sub>                       a change that is kept: key, the version before it, what it was
 *      s <session>   r <session> <seq % window> a session, and each reply that it keeps
 *      l <lease>     a <lease> <key>            a lease, and each live key that has it
 *      m...                                     whose it is, where it stands
 *
 * The applier's changes gather in a batch that nobody else sees; publishing commits it, with sessions and
 * the stamp (rule 23). Readers use iterators and snapshots made inside of the gate, and read outside. So
 * nothing waits for a pin: compaction removes what it may, and a snapshot goes on showing it.
 *
 * The map is not flushed with each commit. After a crash it stands at an earlier entry, and the log is
 * replayed from there. What an unfinished command has changed may be in the map, too, above the revision
 * that it stands at: opening removes it. All of the map can be made anew from an image and the log. */
#ifndef KV_DURABLE_H
#define KV_DURABLE_H

#include "base/buffer.h"
#include "kv/change.h"
#include "kv/ordered.h"
#include "kv/walk.h"

#include <stdatomic.h>

struct durable_change;

/* Of a change. */
struct durable_place {
    uint64_t main;
    uint32_t sub;
};

struct durable {
    const struct ordered_ops *ops;
    struct ordered *map; /* owned */
    char path[DISK_PATH_SIZE];
    bool adopted;        /* it is the state of its directory, not one being loaded */
    bool doomed;         /* another one has taken its place: its files go with it */
    atomic_bool damaged; /* any thread has read something that cannot be right */
    /* The applier's. */
    int fault; /* the first error: nothing is published after it (S22) */
    struct reason why;
    struct ordered_iter *newest; /* owned; what the batch does not change; NULL: to be made */
    struct kv_version *lent;     /* owned reference: what durable_at has returned last */
    struct buffer key, value;    /* being encoded */
    struct durable_place purged; /* versions before changes up to here are gone */
    uint64_t collected;          /* nothing is left to be collected for this kept_from */
    uint64_t unchecked;          /* bytes committed since it was asked whether the map is busy */
    bool busy;
    /* Of an image that is being loaded: its last version, whose predecessor is not known yet. */
    struct buffer load_key;
    uint64_t load_main;
    uint32_t load_sub;
    bool load_tombstone, load_due;
};

/* ------------------------------------------------------------------ life: kv/durable_open.c */

/* Opens what `home` has and fills the store from it, or begins an empty one: when there is none, or in
 * any case with `fresh`, for an image, beside the others until it is adopted. LKV_EDAMAGED: remove it and
 * begin anew; LKV_EIDENTITY: it is somebody else's; LKV_EIO, LKV_ENOMEM. */
MUST_USE int durable_open(struct store *store, const struct kv_home *home, bool fresh,
                          struct reason *why);
/* Durable, so that every later open is LKV_EDAMAGED, until durable_clear. */
MUST_USE int durable_condemn(const struct kv_home *home, struct reason *why);
/* Removes whatever lies in the directory. */
MUST_USE int durable_clear(const struct kv_home *home, struct reason *why);
/* `store` becomes the state of the directory instead of `old`. Applier's thread. */
void durable_adopt(struct store *store, struct store *old);
void durable_close(struct durable *durable); /* NULL is fine */
/* The index of what is on the disk. Any thread. */
MUST_USE int durable_persisted(struct durable *durable, uint64_t *index, struct reason *why);

/* ------------------------------------------------------------------ changes, applier: kv/durable.c */

/* The live version that the revision sees, with the batch above the map; valid until the next call. NULL:
 * none, or durable->fault is set. */
struct kv_version *durable_at(struct store *store, struct slice key, uint64_t revision);

/* As timeline_read, with what was there before; owned references. Less than `max`: there are no more up to
 * `upto`, or a fault. */
size_t durable_read_changes(struct store *store, struct kv_place place, uint64_t upto,
                            struct kv_version **versions, struct kv_version **previous, size_t max);

/* As change_put and change_delete. */
MUST_USE int durable_put(struct store *store, struct kv_version *fresh, uint64_t revision,
                         struct changes *changes);
MUST_USE int durable_delete(struct store *store, struct slice key, uint64_t revision,
                            struct changes *changes);
/* The session has changed, or gone; with a seq: that reply was recorded. */
void durable_note_session(struct store *store, uint64_t id, uint64_t seq);

/* The lease has been granted, or gone; what a checkpoint command says. */
void durable_note_lease(struct store *store, int64_t id);
void durable_note_checkpoints(struct store *store, struct slice checkpoints);

/* All changes since the last commit, and the stamp. Alone: what readers see changes with it. */
MUST_USE int durable_commit(struct store *store, const struct kv_stamp *stamp, struct reason *why);
/* Whether applying has to wait for the disk. */
bool durable_busy(struct durable *durable);

/* As history_collect. */
size_t durable_collect(struct store *store, size_t max);
bool durable_has_garbage(const struct store *store);

/* An error of the map's: LKV_EDAMAGED is kept for durable_health. Returns rc. Any thread. */
int durable_note(struct durable *durable, int rc);
/* Of the map and of what was read; LKV_EDAMAGED: the map must be made anew. Any thread. */
MUST_USE int durable_health(struct durable *durable, struct reason *why);

/* Sets the first fault. Returns rc. */
int durable_fail(struct durable *durable, int rc, const struct reason *why);
/* The batch has changed, or is committed: what was read through it is no more. */
void durable_forget(struct durable *durable);

/* ------------------------------------------------------------------ leases: kv/durable_lease.c */

/* A change is taken back: its key has the lease again that it had before. */
void durable_reattach(struct store *store, const struct durable_change *change);
void durable_set_attached(struct durable *durable, int64_t id, struct slice key, bool attached);
MUST_USE int durable_read_leases(struct store *store, struct reason *why);
void durable_put_leases(struct store *store); /* all of them, with their keys */

/* ------------------------------------------------------------------ images: kv/durable_load.c */

/* Takes a version of an image: a key's newest first, keys ascending. */
MUST_USE int durable_load(struct store *store, const struct kv_version *version, bool same_key,
                          uint64_t kept_from);
/* All have come; sessions and feature level are in the store. On disk when it returns. */
MUST_USE int durable_seal(struct store *store, const struct kv_stamp *stamp, struct reason *why);

/* ------------------------------------------------------------------ reading: kv/durable_read.c */

/* As kv_get_at: `*out` is an owned reference. Any thread. */
MUST_USE int durable_get(struct kv *kv, struct slice key, uint64_t revision,
                         struct kv_version **out, struct kv_stamp *stamp);

/* As walk_next, walk_next_kept and walk_count; outside of the gate, or in a turn of the applier. */
size_t durable_visit(struct walk *walk, struct kv_version **versions, size_t max);
size_t durable_visit_kept(struct walk *walk, struct kv_version **versions, size_t max);
size_t durable_visit_count(struct walk *walk, size_t max);
/* Begins a walk that has not begun. Inside. */
void durable_walk_begin(struct walk *walk);
void durable_walk_fini(struct walk *walk);

/* ------------------------------------------------------------------ bytes: kv/durable_bytes.c */

enum { DURABLE_REVISION_SIZE = 8, DURABLE_STAMP_SIZE = 4 * 8 + 4 + 4 * 8 + 4 };

/* A version's record. `value` borrows. */
struct durable_record {
    uint64_t main, create_rev, version; /* version 0: a tombstone */
    int64_t lease;
    uint32_t sub;
    struct slice value;
};

/* All of a version's key in the map but the revision. */
void durable_put_key(struct buffer *into, struct slice key);
void durable_put_revision(struct buffer *into, uint64_t revision);
/* Into the same, at its end. */
void durable_set_revision(struct buffer *key, uint64_t revision);
/* False: no version's key. `prefix` borrows: as durable_put_key makes it. */
bool durable_split_key(struct slice bytes, struct slice *prefix, uint64_t *revision);

void durable_put_record(struct buffer *into, const struct durable_record *record);
/* False: malformed. */
bool durable_get_record(struct slice bytes, uint64_t main, struct durable_record *out);
/* A version with one reference. LKV_ENOMEM, LKV_EDAMAGED. */
MUST_USE int durable_make_version(struct slice prefix, const struct durable_record *record,
                                  struct kv_version **out);

/* A change. `key` borrows. */
struct durable_change {
    uint64_t main;
    uint32_t sub;
    bool tombstone;
    uint64_t before; /* revision of the version before it; 0: none, or a tombstone */
    struct slice key;
};
void durable_put_change_key(struct buffer *into, uint64_t main, uint32_t sub);
void durable_put_change(struct buffer *into, const struct durable_change *change);
bool durable_get_change(struct slice key, struct slice value, struct durable_change *out);

/* Where it stands. */
struct durable_stamp {
    struct kv_stamp stamp;
    uint32_t feature_level;
    uint64_t keys, bytes, versions;
    struct durable_place purged;
};
void durable_put_stamp(struct buffer *into, const struct durable_stamp *stamp);
bool durable_get_stamp(struct slice bytes, struct durable_stamp *out);

void durable_put_session_key(struct buffer *into, uint64_t id);
void durable_put_reply_key(struct buffer *into, uint64_t id, uint64_t seq);
void durable_put_session(struct buffer *into, const struct session *session);
void durable_put_reply(struct buffer *into, const struct session_reply *reply);
/* The session that a record tells of, without replies yet; LKV_EDAMAGED, LKV_ENOMEM. */
MUST_USE int durable_get_session(struct slice key, struct slice value, struct session **out);
/* One of its replies, or one that it does not keep any more. False: malformed. */
bool durable_get_reply(struct slice value, struct session *session);

void durable_put_lease_key(struct buffer *into, int64_t id);
bool durable_is_lease(struct slice key);
void durable_put_attached(struct buffer *into, int64_t id, struct slice key);
bool durable_get_attached(struct slice bytes, int64_t *id, struct slice *key); /* borrows */

#define DURABLE_STAMP "ms"

#endif
