/* The contents of a state machine: all keys with their versions, and who still needs old ones.
 *
 * Two revisions matter. Readers see the state at `shown.revision`. The applier writes versions above
 * it, in short turns between which readers get in; nobody sees them until it publishes, in one step.
 * So a batch, or a delete of a million keys, is visible as a whole and stops readers only briefly;
 * and what a failed allocation left half done stays above `shown.revision`, out of sight for ever.
 *
 * A superseded version is garbage as soon as no revision between its own and its successor's can be
 * asked for. A pin keeps one revision. Each old version that pins still need waits in the list of the
 * newest of them; when that pin goes, its list is looked through and what older pins need moves to
 * the next older one. No list is ever scanned in vain. (The dead lists of ZFS work like this.)
 *
 * Everything here belongs to the gate of the state machine: "alone" or "inside" says which side.
 */
#ifndef KV_STORE_H
#define KV_STORE_H

#include "base/list.h"
#include "kv/gate.h"
#include "kv/index.h"
#include "kv/kv.h"
#include "kv/session.h"
#include "kv/table.h"

enum { GARBAGE_ITEMS = 253 };

/* Superseded versions, in blocks: also the unit of work between two looks at the gate. */
struct garbage {
    struct garbage *next; /* owned */
    uint64_t before;      /* the revision that readers saw when these were superseded */
    size_t count;
    struct kv_version *items[GARBAGE_ITEMS];
};

struct pin {
    struct list_link link; /* in store.pins, ascending by revision */
    uint64_t revision;
    bool closing;            /* gets no more garbage */
    struct garbage *garbage; /* owned; what this pin is the newest to need */
};

struct buried {
    uint64_t keys, bytes; /* that have got a tombstone */
};

/* A delete that goes on in the next kv_apply. What it has done is above what readers see. */
struct unfinished {
    uint64_t index; /* of its entry; 0: there is none */
    struct buried buried;
    struct kv_version *last; /* owned reference: the place to go on from; NULL: the beginning */
    struct garbage *garbage; /* owned */
};

struct store {
    struct table table;
    struct index index;
    struct kv_stamp shown;             /* what readers see */
    uint32_t feature_level;            /* as of the last complete entry; changed alone */
    uint64_t shown_keys, shown_bytes;  /* logical size at `shown` */
    uint64_t keys, bytes;              /* logical size with what the applier has added since */
    uint64_t versions, version_memory; /* physical, with old ones */
    struct garbage *garbage;           /* owned; to be collected, alone */
    struct unfinished unfinished;      /* alone */
    struct sessions sessions;          /* as of the last complete entry; changed alone */
    struct list_link pins;             /* alone; or inside and under pins_mutex */
    pthread_mutex_t pins_mutex;
    atomic_uint refs; /* the state machine, and each pin of a view */
};

/* The whole state machine. */
struct kv {
    struct gate *gate;   /* owned */
    struct store *store; /* owned reference; read inside, replaced alone */
    const struct trace *trace;
    uint32_t feature_level; /* the highest that is understood */
    int failed;             /* applier: a final error, no entry is taken any more */
};

/* Returns owned, or NULL when out of memory: empty, at revision 1. */
struct store *store_new(uint64_t seed);
void store_ref(struct store *store);
void store_unref(struct store *store); /* NULL is fine; the last one frees every version */

/* ------------------------------------------------------------------ inside */

/* The key's newest version, tombstones and unpublished ones too; NULL: none. */
struct kv_version *store_newest(const struct store *store, struct slice key);

/* The version of the chain that the revision sees; NULL: no such key then. */
static inline struct kv_version *version_at(struct kv_version *newest, uint64_t revision) {
    struct kv_version *version = newest;
    while (version != NULL && version->main > revision) {
        version = version->older;
    }
    return version == NULL || version_is_tombstone(version) ? NULL : version;
}

/* Pins what readers see now; `pin` lies in the caller's memory and must be closed. */
void pin_open(struct store *store, struct pin *pin);

/* ------------------------------------------------------------------ outside */

/* Lets go of the pin's revision and frees what only it needed, in short turns. Any thread. */
void pin_close(struct kv *kv, struct store *store, struct pin *pin);

/* ------------------------------------------------------------------ alone */

/* Links a version whose key is not in the store. LKV_ENOMEM: nothing has changed. */
MUST_USE int store_add(struct store *store, uint64_t hash, struct kv_version *version);

/* Puts a newer version before the newest one, `*slot` of the table. The old one stays linked, and
 * the caller has to add it to some garbage. */
void store_supersede(struct store *store, struct kv_version **slot, struct kv_version *newest);

/* Makes everything up to the stamp visible. */
void store_publish(struct store *store, const struct kv_stamp *stamp);

/* Looks through one block of versions whose successors are shown: what a pin needs moves to it, the
 * rest goes to `dead`. Returns the block for mem_free, or NULL: a pin took it. */
struct garbage *store_collect(struct store *store, struct garbage *block, struct kv_version **dead);

/* Forgets the work; its garbage stays linked, and is freed with the store. */
void unfinished_drop(struct unfinished *work);

/* ------------------------------------------------------------------ outside again */

/* Drops the store's references to a list of unlinked versions. */
void dead_free(struct kv_version *dead);

#endif
