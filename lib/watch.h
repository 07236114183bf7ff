/* lkv_watch: a reader of changes that goes on by itself, on a node or on a client alike.
 *
 *   watch_open ──> asks (REQUEST_WATCH, which waits for events) ──> answer: LKV_EVENTS to the queue ──┐
 *                    ^                                                                                │
 *                    └──── while unfreed messages hold less than the credit <─────────────────────────┘
 *
 * One question at a time, from the place that the last answer has named: whatever node answers, nothing is told twice
 * or passed over, and a node that is behind that place lets it wait. What a slow reader has not asked for costs
 * nothing anywhere; when a compaction has taken it, the watch ends with LKV_ECOMPACTED. */
#ifndef LIB_WATCH_H
#define LIB_WATCH_H

#include "lib/events.h"

#include <pthread.h>

struct watch;

/* The watches of one handle. */
struct watches {
    pthread_mutex_t mutex;
    struct watch *newest; /* owned references, also of those that have ended lately */
    size_t count, sweep_at;
};

void watches_init(struct watches *watches);

/* Ends all with LKV_ECLOSED; no watch touches the handle afterwards. */
void watches_close(struct watches *watches);

struct watch_options {
    struct slice from, to; /* as in struct kv_query */
    uint64_t rev;          /* the first that is wanted; 0: the next one */
    int flags;             /* enum lkv_watch_flags */
    struct lkv_queue *queue;
    void *tag;
};
/* Copies the keys. LKV_ENOMEM. */
MUST_USE int watch_open(struct lkv *db, const struct watch_options *options);

/* LKV_ENOENT when no watch has this tag. */
int watches_cancel(struct watches *watches, void *tag);

#endif
