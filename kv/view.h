/* A pinned state, read by one thread while the applier goes on (rule 24). */
#ifndef KV_VIEW_H
#define KV_VIEW_H

#include "kv/lease.h"
#include "kv/session.h"
#include "kv/walk.h"

struct kv_view {
    struct kv *kv;
    struct store *store; /* owned reference: a restore does not take it away */
    struct pin pin;
    struct kv_stamp stamp;
    uint32_t feature_level;
    uint64_t keys, bytes;     /* logical */
    struct sessions sessions; /* frozen */
    struct lease_list leases; /* the same */
};

#endif
