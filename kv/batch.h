/* The entries of one kv_apply on their way into the store; private to applying.
 *
 *      kv_apply: | prepare | turn, alone: carry out | prepare | turn: carry out, publish, collect |
 *
 * Preparing decodes a few entries and makes their versions without any lock. A turn carries them out
 * while readers wait, so turns are short; the last one also publishes. What was superseded is given
 * back to the allocator outside. A call ends after a bounded amount of work: a long delete goes on in
 * the next one, unseen until it is complete. */
#ifndef KV_BATCH_H
#define KV_BATCH_H

#include "kv/command.h"
#include "kv/store.h"

enum {
    TURN_ENTRIES = 64,                    /* prepared and carried out in one turn */
    TURN_KEYS = 128,                      /* looked at in one turn */
    CALL_KEYS = 512,                      /* looked at in one call */
    CALL_GARBAGE = 512,                   /* versions looked through in one call */
    CALL_GARBAGE_BYTES = 4 * 1024 * 1024, /* of them, beside what the call's entries have */
    CALL_SLABS = 32,                      /* of them, given back to the system in one call */
    UNFINISHED = 1 /* an effect's return: the call's work is done, the entry's is not */
};

/* One entry, ready to be carried out. */
struct operation {
    bool is_command;
    uint32_t feature_level; /* 0, or the entry raises the cluster's to it */
    struct kv_command command;
    uint64_t hash;
    struct kv_version *fresh;       /* owned; of a put without options, until it is linked */
    const struct kv_version *guess; /* probably the newest version there is, or NULL: then */
    const struct index_node *leaf;  /* probably where the key will go */
};

struct batch {
    struct kv *kv;
    struct store *store;
    struct kv_stamp stamp; /* after the last entry that is complete */
    struct operation operations[TURN_ENTRIES];
    size_t prepared;
    unsigned looked_at;      /* keys, by what takes longer than a put */
    unsigned in_turn;        /* of them, since readers got in */
    uint64_t bytes;          /* of the entries that are complete */
    size_t carried_out;      /* how many they are */
    struct kv_version *dead; /* owned; freed when the turn is over */
};

/* The next turn begins: alone. */
void batch_enter(struct batch *batch);
/* Readers get in. */
void batch_leave(struct batch *batch);
/* Both, in the middle of an entry. A view that closes meanwhile takes versions and leaves away. */
void batch_breathe(struct batch *batch);

/* What is complete so far becomes visible, in a turn. An error: nothing does any more. */
MUST_USE int batch_settle(struct batch *batch, struct reason *why);

/* Carries out a command, in a turn, at the revision behind the stamp's: all of it, or an error and nothing
 * that will ever be seen (rule 23); or UNFINISHED, to be called again with the same entry. An outcome
 * without effect is in the result. */
MUST_USE int effect_of(struct batch *batch, const struct entry *entry, struct operation *operation,
                       struct kv_result *result);

#endif
