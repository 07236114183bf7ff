/* lkv_watch: a reader of changes (lib/subscription.h).
 *
 * It asks (REQUEST_WATCH, which waits for events) from the place that the last answer has named: whatever node answers,
 * nothing is told twice or passed over, and a node that is behind that place lets it wait. What a slow reader has not
 * asked for costs nothing anywhere; when a compaction has taken it, the watch ends with LKV_ECOMPACTED. */
#ifndef LIB_WATCH_H
#define LIB_WATCH_H

#include "base/error.h"
#include "base/slice.h"
#include "lib/ledgerkv.h"

struct watch_options {
    struct slice from, to; /* as in struct kv_query */
    uint64_t rev;          /* the first that is wanted; 0: the next one */
    int flags;             /* enum lkv_watch_flags */
    struct lkv_queue *queue;
    void *tag;
};
/* Copies the keys. LKV_ENOMEM. */
MUST_USE int watch_open(struct lkv *db, const struct watch_options *options);

#endif
