/* Who waits for the changes of a range, and gets each of them once, in order.
 *
 *             revision 1 ....... kept_from ............................ shown
 *                                    |            ^ behind                ^ live
 *      join at an older revision ────┼──> [behind]: a slice of the timeline at a time ──┐
 *      join at the next one or later ┼──> [live]: whatever kv_apply has shown <─────────┘
 *                                    └ below: LKV_ECOMPACTED, with what is kept
 *
 * A watch is a place in the timeline (kv/timeline.h) and a range. Both groups look at each change once, for all
 * of their members, and an index (kv/intervals.h) tells whose range it lies in. A watch that has found
 * something leaves its group; it goes on by joining again at its new place. So nothing is kept for who is slow:
 * what it has not asked for is in the state, until a compaction takes it.
 *
 * Revisions are whole: a watch ends between two of them, unless one alone is larger than a watch may hold. Then
 * `partial` is set, and the rest follows from `next` on.
 *
 * All of it belongs to the applier's thread. */
#ifndef KV_WATCH_H
#define KV_WATCH_H

#include "base/list.h"
#include "kv/intervals.h"
#include "kv/kv.h"
#include "kv/timeline.h"

enum {
    KV_WATCH_BYTES_MAX = 1024 * 1024, /* what the events of one watch may cost, but always one */
    KV_WATCH_EVENT_BYTES = 128,       /* of that, each event's, beside its keys and values */
    KV_WATCH_SLICE = 4096, /* changes looked at and events found by each group in one run, about */
    KV_WATCH_HELD_MAX = 8192 /* revisions held back from compactions for those that are live */
};

struct kv_event {
    struct kv_item item; /* pinned; version 0: a delete, with empty value and create_rev 0 */
    /* What was there before: pinned, all 0 if nothing was, if the watch does not want it, or if a compaction has
     * taken it, which can only be so at kept_from. */
    struct kv_item previous;
};

struct kv_watches; /* of one state machine */
struct watch_group;

struct kv_watch {
    /* The caller's, set before it joins. */
    struct slice from, to; /* as in struct kv_query; borrowed until it has left */
    struct kv_place next;  /* the first change that is wanted; revision 0: the next one */
    bool no_puts, no_deletes;
    bool previous;
    size_t bytes_max; /* as KV_WATCH_BYTES_MAX, which is the most; 0: that */

    /* What came of it. LKV_ECOMPACTED: not all from `next` on is kept; LKV_EUNSUPPORTED: the cluster has no history yet;
     * LKV_ENOMEM. After an error there are no events. */
    int rc;
    struct kv_event *events; /* owned; kv_watch_fini or whoever takes them frees them */
    size_t count, capacity;
    size_t bytes;
    bool partial; /* the last event's revision goes on at `next` */

    /* The watches' own. */
    struct list_link link; /* of done, or of those that have found something */
    struct interval interval;
    struct watch_group *group; /* that it is in, or NULL */
};

/* LKV_ENOMEM. The state machine must outlive it, and has one at most. */
MUST_USE int kv_watches_open(struct kv_watches **out, struct kv *kv);
void kv_watches_close(struct kv_watches *watches); /* all have left; NULL is fine */

/* Puts it where its place is. True: it has not joined, since it has failed: rc. */
bool kv_watch_join(struct kv_watches *watches, struct kv_watch *watch);

/* It has left, and keeps what it has found so far as far as its revisions are whole; `next` says what it has
 * seen. One that is not in a group stays as it is. */
void kv_watch_leave(struct kv_watch *watch);

/* Whether it is in a group and has seen all that has been shown. */
bool kv_watch_is_live(const struct kv_watch *watch);

/* Drops the events. */
void kv_watch_fini(struct kv_watch *watch);
void kv_event_release(struct kv_event *event);

/* After each kv_apply and restore: a slice of what those that wait live have not been told yet, and one for those
 * behind. Who has found something, or has failed, has left and is appended to `done` by its link. True: there is
 * more; call again soon. */
bool kv_watches_run(struct kv_watches *watches, struct list_link *done);

struct kv_watches_stats {
    size_t live, behind;
    uint64_t looked_at; /* changes, since the beginning */
};
void kv_watches_stats(const struct kv_watches *watches, struct kv_watches_stats *out);

#endif
