/* Leases: keys that vanish together when nobody has kept them alive for a time to live (rule 27).
 *
 *      slots, by id ──> lease: granted, ttl, remaining ──> tree of the keys that are attached to it
 *
 * What the state is: which leases there are, the ttl that each was granted, and what was left of it at
 * the latest checkpoint. It knows no clock: the leader measures, and what it decides comes as entries.
 *
 * Which keys are attached follows from the keys: those whose newest version has the lease. The trees only
 * find them. Each has all of them, and some that were attached once (`stale`); these are taken out when
 * the command that detached them is complete, a few at a time. So a reader between two pieces of a large
 * command still finds all that was attached before it, and nothing has to be undone.
 *
 * Only the applier's thread uses it. A frozen copy has no keys. */
#ifndef KV_LEASE_H
#define KV_LEASE_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/prng.h"
#include "kv/command.h"
#include "kv/kv.h"

/* A node of a treap (Seidel and Aragon, Algorithmica 1996): by key, and a heap by priority. The shape is
 * of this replica alone; the order is that of the keys. */
struct lease_key {
    struct lease_key *left, *right; /* owned */
    struct lease_key *next_stale;   /* of lease.stale */
    uint32_t priority;
    bool stale; /* on that list: to be looked at */
    uint16_t size;
    uint8_t bytes[];
};

struct lease {
    struct kv_lease is;
    struct lease_key *keys;  /* owned tree */
    struct lease_key *stale; /* list of nodes of the tree */
    struct lease *next;      /* of leases.garbage */
    bool queued;             /* on that list */
    bool gone;               /* it is no lease any more, and not in the table */
};

struct leases {
    struct lease **items; /* owned; ascending by id */
    size_t count, capacity;
    struct lease *garbage; /* list: with stale keys, or gone (then owned) */
    struct prng prng;      /* of priorities */
    size_t key_memory;     /* of the trees */
    struct pool *pool;     /* borrowed; of their nodes */
};

void leases_init(struct leases *leases, struct pool *pool, uint64_t seed); /* borrowed */
void leases_fini(struct leases *leases);

/* NULL: there is none. */
struct lease *leases_find(const struct leases *leases, int64_t id);

/* Carries out a grant or a checkpoint; result->index is that of its entry. The outcome goes into the
 * result; LKV_ENOMEM: nothing has changed. */
MUST_USE int leases_command(struct leases *leases, const struct kv_command *command,
                            struct kv_result *result);
/* It is no lease any more; its tree is garbage. */
void leases_remove(struct leases *leases, struct lease *lease);

/* ------------------------------------------------------------------ keys */

/* Both name a lease that there is. LKV_ENOMEM: nothing has changed. */
MUST_USE int leases_attach(struct leases *leases, int64_t id, struct slice key);
void leases_detach(struct leases *leases, int64_t id, struct slice key);

static inline struct slice lease_key_slice(const struct lease_key *key) {
    return slice_of(key->bytes, key->size);
}
/* The first key behind `key`, which need not be in the tree; an empty one: the first of all. NULL: none. */
struct lease_key *lease_key_after(const struct lease *lease, struct slice key);

struct store;
/* Whether the key's newest version is live and has the lease. Alone. */
bool lease_has_key(struct store *store, int64_t id, struct slice key);

/* Looks at about `max` keys of the garbage. Returns how many: fewer than `max` when there is no more.
 * Not while a command is half carried out. Alone. */
size_t leases_tidy(struct store *store, size_t max);
size_t leases_tidy_with(struct leases *leases, struct store *store, size_t max);

/* ------------------------------------------------------------------ images and digests */

/* Behind the last one: ids ascend. One that is known by its keys only becomes whole. LKV_EDAMAGED,
 * LKV_ENOMEM. */
MUST_USE int leases_load(struct leases *leases, const struct kv_lease *from);
/* A key of an image, before its lease has come. `key` NULL: only that there must be such a lease. */
MUST_USE int leases_load_key(struct leases *leases, int64_t id, const struct slice *key);
/* Whether every lease that a key names has come. */
bool leases_loaded(const struct leases *leases);

/* An unchanging copy without keys. */
struct lease_list {
    struct kv_lease *items; /* owned; ascending by id */
    size_t count;
};
MUST_USE int leases_freeze(const struct leases *leases, struct lease_list *out);
void lease_list_fini(struct lease_list *list); /* zero-initialised is empty */

/* One lease as in an image's section, and back. */
enum { LEASE_SIZE = 4 * 8 };
void lease_put(struct buffer *into,
               const struct kv_lease *lease); /* the buffer remembers failure */
/* False: malformed. */
bool lease_get(struct reader *reader, struct kv_lease *out);
/* Its part of a state's digest: a hash of the bytes of lease_put. */
uint64_t lease_digest(const struct kv_lease *lease);

#endif
