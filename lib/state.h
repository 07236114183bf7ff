/* What the replicated log is replayed into, seen by the stations of a node: keys and values
 * (state_kv.c), or what records mean beside being in the log: sessions and a chain (state_log.c).
 *
 * Replay and images go through this table, so that there is one replay, one way to save, send, receive
 * and install an image, and one order in which a log's prefix goes (rule 14). */
#ifndef LIB_STATE_H
#define LIB_STATE_H

#include "base/entry.h"
#include "kv/kv.h"
#include "lib/options.h"

struct node;

/* An image that is being made. */
struct state_image {
    uint64_t index, term; /* of the last entry that it covers */
    uint64_t drop_to;     /* the log up to here goes when it is durable; 0: nothing */
    uint64_t visible;     /* model log */
    bool own;             /* model own: the program's, which lies in a part file already */
    bool checkpoint;      /* beside the images: the state alone, for the next start */
    void *frozen;         /* the state's own */
    char summary[96];     /* for the trace, set by save */
};

/* An image that was read. */
struct state_loaded {
    uint64_t cluster_id, index, term;
    uint64_t visible; /* model log */
    void *state;      /* the state's own, until restore or discard */
};

/* A digest that is being made. */
struct state_digest {
    uint64_t digest, index;
    uint64_t revision; /* 0: this state has none */
    void *frozen;      /* the state's own */
};

struct state_ops {
    /* The state of a new or recovering node; freed by close (a state that was never opened is fine). */
    int (*open)(struct node *node, struct reason *why);
    void (*close)(struct node *node);

    /* True: an image holds all that its part of the log says, so that part may be missing. */
    bool replays;

    /* The state knows entries up to here already; they are not read back when they are beyond what
     * is applied. Then catch_up: they are here and committed. */
    uint64_t (*includes)(const struct node *node);
    void (*catch_up)(struct node *node);

    /* As kv_apply. Loop thread. */
    int (*apply)(struct node *node, const struct entry *entries, size_t count,
                 struct kv_result *results, size_t *applied, struct reason *why);

    /* Frees a bounded part of what applied entries have left behind; true: there is more. Loop thread.
     * NULL: none is left behind. */
    bool (*tidy)(struct node *node);

    /* That the entries applied so far have agreed on. Loop thread. */
    uint32_t (*feature_level)(const struct node *node);

    /* The i-th open session, ascending by id; false past the end. Loop thread. */
    bool (*session_at)(const struct node *node, size_t i, struct kv_session *out);

    /* Whether an image is due now, or wanted (node->image_wanted) and possible; then it is frozen, and
     * `end` follows in any case. A wanted one may be of the newest image's index again. Loop thread. */
    bool (*begin)(struct node *node, struct state_image *image);
    /* Makes the file durable under `path`. Bulk thread. */
    int (*save)(struct node *node, struct state_image *image, const char *path, struct reason *why);
    void (*end)(struct state_image *image); /* any thread */

    /* Whether the state that was opened knows all that this image does, so that it need not be loaded: then 0,
     * and `out` says which it is and has no state. LKV_ENOENT: no. NULL: never. Before the loop runs. */
    int (*covers)(struct node *node, const char *path, struct state_loaded *out,
                  struct reason *why);
    /* Begins anew, empty: what was opened is of no use. NULL: it always is. Before the loop runs. */
    int (*forget)(struct node *node, struct reason *why);
    /* Applying has to wait for the state's disk, and is asked again a moment later. NULL: never. */
    bool (*busy)(const struct node *node);

    /* Verifies all of it and keeps nothing. Any worker thread. */
    int (*check)(struct node *node, const char *path, struct reason *why);

    /* How much of a file that is still being received is certainly what was sent. Any worker thread. */
    int (*prefix)(struct node *node, const char *path, uint64_t *size, struct reason *why);
    /* Reads and verifies all of it. Any worker thread, or before the loop runs. */
    int (*load)(struct node *node, const char *path, struct state_loaded *out, struct reason *why);
    /* The state becomes it, and `loaded` what was before, to be discarded. Loop thread. */
    void (*restore)(struct node *node, struct state_loaded *loaded);
    void (*discard)(struct state_loaded *loaded); /* any thread; a NULL state is fine */

    /* Freezes what is digested now (loop thread), digests it and lets go of it (any thread). */
    int (*digest_begin)(struct node *node, struct state_digest *digest, struct reason *why);
    int (*digest_run)(struct state_digest *digest,
                      const atomic_bool *cancel); /* as kv_view_digest */
    void (*digest_end)(struct state_digest *digest);
};

extern const struct state_ops state_kv_ops, state_log_ops;

static inline const struct state_ops *state_of(enum model model) {
    return model_has_records(model) ? &state_log_ops : &state_kv_ops;
}

#endif
