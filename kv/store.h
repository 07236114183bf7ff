/* The contents of a state machine: all keys with their versions, and who still needs old ones.
 *
 * Two revisions matter. Readers see the state at `shown.revision`. The applier writes versions above
 * it, in short turns between which readers get in; nobody sees them until it publishes, in one step.
 * So a batch, or a delete of a million keys, is visible as a whole and stops readers only briefly;
 * and what a failed allocation left half done stays above `shown.revision`, out of sight for ever.
 *
 * What happens to a superseded version is in kv/history.h.
 *
 * Everything here belongs to the gate of the state machine: "alone" or "inside" says which side.
 */
#ifndef KV_STORE_H
#define KV_STORE_H

#include "kv/gate.h"
#include "kv/history.h"
#include "kv/index.h"
#include "kv/kv.h"
#include "kv/lease.h"
#include "kv/session.h"
#include "kv/table.h"

struct work;
struct durable;

/* A pass through all keys that moves what lies in slabs of which most is free (base/pool.h). */
struct thinning {
    bool active;
    uint32_t bucket; /* of the table: where it goes on */
    uint64_t peak;   /* the most bytes that were in use since the last pass */
};

struct store {
    struct durable
        *durable; /* owned; not NULL: versions lie in a map on disk, table and index are empty */
    struct pool *pool;        /* owned; versions, and what is as many */
    struct thinning thinning; /* alone */
    struct table table;
    struct index index;
    struct kv_stamp shown;             /* what readers see */
    uint32_t feature_level;            /* as of the last complete entry; changed alone */
    uint64_t shown_keys, shown_bytes;  /* logical size at `shown` */
    uint64_t keys, bytes;              /* logical size with what the applier has added since */
    uint64_t versions, version_memory; /* physical, with old ones */
    struct history history;
    struct work *work;        /* owned; alone */
    struct sessions sessions; /* as of the last complete entry; changed alone */
    struct leases leases;     /* the same; their trees also of what is half carried out */
    atomic_uint refs;         /* the state machine, and each pin of a view */
};

/* The whole state machine. */
struct kv {
    struct gate *gate;   /* owned */
    struct store *store; /* owned reference; read inside, replaced alone */
    const struct trace *trace;
    uint32_t feature_level; /* the highest that is understood */
    bool in_map;            /* its stores are durable */
    int failed;             /* applier: a final error, no entry is taken any more */
};

/* As kv_open; `fresh`: an empty one, beside what its home has, that is removed unless it is exchanged. */
MUST_USE int kv_open_fresh(struct kv **out, const struct kv_options *options, bool fresh);

/* Returns owned, or NULL when out of memory: empty, at revision 1. */
struct store *store_new(uint64_t seed);
void store_ref(struct store *store);
void store_unref(struct store *store); /* NULL is fine; the last one frees every version */

/* ------------------------------------------------------------------ inside */

/* Whether older versions are part of the state. */
static inline bool has_history(const struct store *store) {
    return store->feature_level >= KV_LEVEL_HISTORY;
}

/* The key's newest version, tombstones and unpublished ones too; NULL: none. */
struct kv_version *store_newest(const struct store *store, struct slice key);

/* The version of the chain that was the newest at the revision; NULL: none is known. Versions from `kept_from`
 * on are sure to be there: by the state, or because the caller pins them. */
struct kv_version *version_upto(struct kv_version *newest, uint64_t revision, uint64_t kept_from);

/* The version of the chain that the revision sees; NULL: no such key then. */
static inline struct kv_version *version_at(struct kv_version *newest, uint64_t revision,
                                            uint64_t kept_from) {
    struct kv_version *version = newest;
    if (version != NULL && version->main > revision) {
        version = version_upto(newest, revision, kept_from);
    }
    return version == NULL || version_is_tombstone(version) ? NULL : version;
}

/* Whether the state at the stamp can be read as of that revision: 0, LKV_ECOMPACTED, LKV_EFUTURE. */
MUST_USE int stamp_reaches(const struct kv_stamp *stamp, uint64_t revision);

/* ------------------------------------------------------------------ alone */

/* Links a version whose key is not in the store. LKV_ENOMEM: nothing has changed. */
MUST_USE int store_add(struct store *store, uint64_t hash, struct kv_version *version);

/* Puts a newer version before the newest one, `*slot` of the table, and lets it know one further back, if it has room
 * for that. The old one stays linked, and the history has room reserved for it. */
void store_supersede(struct store *store, struct kv_version **slot, struct kv_version *newest);

/* Links an older version behind the oldest one, and leaves the history alone. */
void store_add_older(struct store *store, struct kv_version *oldest, struct kv_version *older);

/* Unlinks a version that has a newer one, and with it a tombstone that has nothing to hide any more;
 * `from` as of history_needed_from. */
void store_unlink(struct store *store, struct kv_version *version, uint64_t from,
                  struct kv_version **dead);

/* Unlinks a tombstone, and so its key, if it is the newest version, hides nothing, and was made below
 * `from`. One that is not the newest goes as a superseded version. */
void store_remove_if_empty(struct store *store, struct kv_version *version, uint64_t from,
                           struct kv_version **dead);

/* Puts a copy in the place of a key's only version, if nobody else knows that one: `*slot` of the table, made below
 * `from` as of history_needed_from. LKV_ENOMEM: nothing has changed. */
MUST_USE int store_move(struct store *store, struct kv_version **slot, struct kv_version **dead);

/* Makes everything up to the stamp visible. */
void store_publish(struct store *store, const struct kv_stamp *stamp);

/* ------------------------------------------------------------------ outside */

/* Drops the store's references to a list of unlinked versions. */
void dead_free(struct kv_version *dead);

#endif
