/* Older versions: for how long they are kept, and how their memory comes back.
 *
 *      revision  1 ......... kept_from ................... shown
 *                 forgotten      | every change is there    | what readers see
 *
 * `kept_from` is part of the state: without history it runs ahead of the revision, with history it rises
 * by compactions. A superseded version can be asked for at the revisions from its own to the one before
 * its successor's, and its own change can be asked for as an event; so
 *
 *   a version      may go when its successor's revision is kept_from or less,
 *   a tombstone    that hides nothing may go when its own is less than kept_from: a delete at exactly
 *                  the revision that was compacted to is still an event (C9).
 *
 * Both wait in queues ordered by these revisions, so looking for what may go never looks at anything
 * else. What goes by the state may still be needed by a reader: a pin keeps one revision, and that of a
 * view keeps the view's whole history, by holding back both queues. A version that pins of one revision
 * need waits in the list of the newest of them; when that pin goes, its list is looked through and what
 * older pins need moves to the next older one. (The dead lists of ZFS work like this.)
 *
 * Invariant: the timeline is trimmed first, and then the queue of tombstones is worked off. So what goes is
 * in the timeline no more, and a tombstone that has been superseded has left its queue before it may go as
 * a version.
 */
#ifndef KV_HISTORY_H
#define KV_HISTORY_H

#include "base/error.h"
#include "base/list.h"
#include "base/pool.h"
#include "kv/timeline.h"

#include <pthread.h>

struct kv;
struct store;

enum { GARBAGE_ITEMS = 253 };

/* Versions in blocks. */
struct garbage {
    struct garbage *next; /* owned */
    size_t start, count;  /* items[start .. count - 1] */
    struct kv_version *items[GARBAGE_ITEMS];
};

struct version_queue {
    struct garbage *first, *last; /* owned list; NULL: nothing was ever added */
    size_t blocks;
    uint64_t bytes; /* memory of the versions in it */
};

struct pin {
    struct list_link link; /* in history.pins, ascending by revision */
    uint64_t revision;
    uint64_t kept_from;   /* of a view that has history: all of it from here on; 0: one revision */
    bool closing;         /* gets no more garbage */
    const void *snapshot; /* of a store in a map, where it is all that a pin is */
    struct garbage *garbage; /* owned; what this pin is the newest to need */
};

struct history {
    struct pool *pool;               /* borrowed; of its blocks */
    struct version_queue superseded; /* alone; ascending by their successors' revisions */
    struct version_queue tombstones; /* alone; ascending by revision; without history empty */
    struct timeline timeline;        /* alone; the changes that are kept; without history empty */
    /* What nobody has been told yet who waits for it (kv/watch.h): what is made from here on stays whatever is
     * compacted. Written by the applier, only upwards while there is one; UINT64_MAX: none. */
    _Atomic uint64_t untold_from;
    struct list_link pins; /* alone; or inside and under pins_mutex */
    pthread_mutex_t pins_mutex;
};

MUST_USE int history_init(struct history *history, struct pool *pool); /* borrowed */
void history_fini(struct history *history); /* no pin is open; the versions are not its own */
size_t history_memory(const struct history *history); /* of the queues */

/* ------------------------------------------------------------------ alone */

/* Room for one more, asked for before anything is changed. LKV_ENOMEM. */
MUST_USE int queue_reserve(struct version_queue *queue, struct pool *pool);
void queue_add(struct version_queue *queue, struct kv_version *version); /* room is reserved */

/* From here on every change can be read from the timeline: by the state, or since it is still to be told. */
uint64_t history_told_from(const struct store *store);

/* What is made below it nobody can ask for, neither by the state nor by a view, nor waits for it. */
uint64_t history_needed_from(const struct store *store);

/* Looks through versions that may go by the state; those that no pin needs are unlinked and go to `dead`.
 * At most `max` of them, and none after those that take `*bytes` of memory, which is counted down. False:
 * nothing more can be done now. */
bool history_collect(struct store *store, size_t max, uint64_t *bytes, struct kv_version **dead);

/* Whether history_collect would find something. */
bool history_has_garbage(const struct store *store);

/* ------------------------------------------------------------------ inside */

/* Pins a revision that stamp_reaches; with `kept_from` not 0, all history from there to it. `pin` lies
 * in the caller's memory and must be closed. */
void pin_open(struct store *store, struct pin *pin, uint64_t revision, uint64_t kept_from);

/* ------------------------------------------------------------------ outside */

/* Lets go of the pin's revision and frees what only it needed, in short turns. Any thread. */
void pin_close(struct kv *kv, struct store *store, struct pin *pin);

#endif
