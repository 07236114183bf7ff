/* Changes of single keys, in a turn, at a revision that nobody sees yet; and what they add up to, which is
 * counted in when a command is complete. */
#ifndef KV_CHANGE_H
#define KV_CHANGE_H

#include "kv/store.h"

/* What a command's changes add up to. */
struct changes {
    uint64_t keys_in, bytes_in;   /* live now */
    uint64_t keys_out, bytes_out; /* live before */
    uint32_t count;               /* changes */
};

/* Puts a new version of a key before what is there. Takes `fresh` on success. LKV_ENOMEM: nothing has
 * changed. */
MUST_USE int change_put(struct store *store, uint64_t hash, struct kv_version *fresh,
                        uint64_t revision, struct changes *changes);

/* Puts a tombstone before a key's newest version, if there is one that is not one already. LKV_ENOMEM:
 * nothing has changed. */
MUST_USE int change_delete(struct store *store, struct slice key, uint64_t revision,
                           struct changes *changes);

/* With history, the keys that one command changes are told apart by their order. */
static inline uint32_t change_sub(const struct store *store, const struct changes *changes) {
    return has_history(store) ? changes->count : 0;
}

/* Whether a version of that revision knows one further back. */
static inline bool change_has_jump(const struct store *store, uint64_t revision) {
    return has_history(store) && store->durable == NULL && version_level(revision) > 0;
}

void changes_commit(struct store *store, const struct changes *changes);

#endif
