/* What the store should be: fed with entries as they appear in some node's log, and with indices as
 * they commit; asked what any key was at any index. */
#ifndef TESTS_SIM_WORLD_MODEL_H
#define TESTS_SIM_WORLD_MODEL_H

#include "base/entry.h"
#include "base/slice.h"
#include "kv/command.h"
#include "lib/once.h"
#include "tests/sim/world_lease.h"
#include "tests/sim/world_sessions.h"

enum { SIM_KEYS_MAX = 256, SIM_KEY_SIZE = 8 };

/* An entry that some log held or holds. */
struct sim_entry {
    struct sim_entry *next; /* another term's at the same index */
    uint64_t index, term;
    enum entry_type type;
    uint64_t print; /* of type and payload */
    bool is_put, is_delete;
    struct slice other; /* owned bytes: a command that is neither (world_model_write.c) */
    uint32_t key, end;  /* a delete of [key, end) */
    uint64_t value;     /* number of a put's value, unique; 0: none */
    uint32_t value_print;
    struct kv_command command;         /* its slices are not valid */
    uint32_t level;                    /* that it raises the cluster to; 0: none */
    struct kv_checkpoint *checkpoints; /* owned; of a checkpoint of leases */
    size_t checkpoint_count;
    /* Log mode: */
    struct once_header once; /* count 0: no record of a session */
    uint32_t size, crc;      /* of the payload */
    bool shown;              /* a record that readers see, now that it is committed */
    uint64_t chain;          /* of hashes over all committed entries up to this one */
    /* When committed: */
    bool committed, claimed; /* claimed: some client was told that it is its own */
    uint64_t seen_term;      /* of the node at which it was first seen to be */
    int rc;                  /* of a session: why it was not carried out */
    uint64_t first;          /* the entry whose answer it has: its own, or one that it repeats */
    uint64_t revision, count;
    uint64_t
        kept_from; /* every change from this revision on can still be read; revision + 1: none */
};

struct sim_version {
    uint64_t index;
    bool live;
    uint64_t value;
    uint32_t print;
    uint64_t create_rev, mod_rev, version;
    int64_t lease;
    bool is_number; /* a counter's value */
    int64_t number;
};

struct sim_key {
    struct sim_version *versions; /* owned; ascending by index */
    size_t count, capacity;
};

/* What became of the client's operation that wrote a value. */
struct sim_value {
    uint64_t committed; /* index, 0: not */
    bool not_done;      /* the client was told so */
};

struct sim_model {
    bool log_mode;
    uint64_t chain;
    uint64_t voids;              /* appends that lost their rest with a leader */
    struct sim_entry **by_index; /* owned lists; [index] */
    struct sim_entry **committed;
    size_t capacity;
    uint64_t last; /* highest index seen */
    uint64_t commit;
    uint64_t revision;
    uint32_t level; /* the feature level */
    uint64_t kept_from;
    struct sim_sessions sessions;
    struct sim_leases leases;
    uint64_t now_ns; /* when what is committed next is seen to be */
    struct sim_key keys[SIM_KEYS_MAX];
    struct sim_value *values; /* owned; by number */
    size_t value_capacity;
    char why[512]; /* of the last call that returned false */
};

void sim_model_init(struct sim_model *model);
void sim_model_fini(struct sim_model *model);

void sim_key_text(uint32_t key, char out[static SIM_KEY_SIZE]);
bool sim_key_number(struct slice text, uint32_t *key);
/* The bytes of a value; `out` has room for size (>= 8). */
void sim_value_fill(uint64_t number, uint8_t *out, size_t size);
uint64_t sim_value_number(struct slice bytes);

/* False, with `why`, when another entry is known at this index and term, or it makes no sense. */
bool sim_model_see(struct sim_model *model, const struct entry *entry);
struct sim_entry *sim_model_find(const struct sim_model *model, uint64_t index, uint64_t term);
/* Index is committed, in this term's form: false when it was with another, or is not known. */
bool sim_model_commit(struct sim_model *model, uint64_t index, uint64_t term, uint64_t seen_term);
/* NULL: no such key at that index. */
const struct sim_version *sim_model_at(const struct sim_model *model, uint32_t key, uint64_t index);
uint64_t sim_model_revision(const struct sim_model *model, uint64_t index);
/* Of the entry that made this revision, or 0: no entry did. */
uint64_t sim_model_made(const struct sim_model *model, uint64_t revision);

struct sim_value *sim_model_value(struct sim_model *model, uint64_t number);

/* Deletes what has the lease, at one revision; returns how much that is. */
uint64_t sim_model_drop_lease(struct sim_model *model, int64_t lease, uint64_t index);

/* world_model_write.c: a write with conditions, a counter, a transaction, a compaction. */
bool sim_model_see_write(struct sim_entry *seen, struct slice payload);
void sim_model_commit_write(struct sim_model *model, struct sim_entry *entry);
struct sim_version *sim_model_newest(struct sim_model *model, uint32_t key); /* NULL: never */
struct sim_version *sim_model_add(struct sim_model *model, uint32_t key, uint64_t index);

/* world_log_model.c: as sim_model_see and sim_model_commit, what differs in log mode. */
bool sim_model_see_log(struct sim_entry *seen, struct slice payload);
bool sim_model_commit_log(struct sim_model *model, struct sim_entry *entry);

#endif
