/* What reads on by itself until it is cancelled: a watch (lib/watch.h) or a tail (lib/tail.h), on a node or on a client
 * alike.
 *
 *   subscription_open ──> asks (a request that waits for news) ──> answer: a message to the queue ──┐
 *                           ^                                                                       │
 *                           └──── while unfreed messages hold less than the credit <────────────────┘
 *
 * One question at a time, from the place that the last answer has named. Nobody but the subscription knows of it: to a
 * node it is one more request. It ends with one LKV_END, whatever happens. */
#ifndef LIB_SUBSCRIPTION_H
#define LIB_SUBSCRIPTION_H

#include "base/list.h"
#include "lib/request.h"

#include <pthread.h>

struct lkv;
struct subscription;

enum subscription_news {
    SUBSCRIPTION_NOTHING,
    SUBSCRIPTION_TELLS,
    SUBSCRIPTION_CONFUSED /* that is no answer */
};

/* What subscriptions differ in. All of it is called under the subscription's mutex, but for `free`. */
struct subscription_kind {
    enum lkv_kind tells; /* the kind of its messages */
    size_t ask_bytes_max;
    /* The question of what comes next; NULL: no memory. */
    struct request *(*question)(struct subscription *subscription);
    /* Of an answer without error: moves `next` on, and says whether the program is to get it. */
    enum subscription_news (*take)(struct subscription *subscription, const struct lkv_msg *reply);
    size_t (*cost)(const struct lkv_msg *reply); /* of the credit, while it is not freed */
    bool (*goes_on)(int rc);                     /* after this error: another node may answer */
    /* A message was freed, and the handle is open; or NULL. */
    void (*freed)(struct subscription *subscription);
    /* Frees what lies around it, and itself. */
    void (*free)(struct subscription *subscription);
};

struct subscription {
    struct subscription *next_older; /* of the handle's list */
    atomic_uint refs;                /* the list's, the question's, each message's */

    /* Immutable after open. */
    const struct subscription_kind *kind;
    struct lkv_queue *queue; /* borrowed */
    void *tag;
    size_t credit_bytes;

    atomic_bool ended; /* any thread: no answer is wanted any more */

    /* Under mutex. A handle's mutex may be held when it is taken, never the other way round. */
    pthread_mutex_t mutex;
    struct lkv *db;         /* NULL: closed */
    struct lkv_msg *last;   /* owned: LKV_END, made beforehand; NULL: sent */
    uint64_t next;          /* where the next question begins */
    bool asking;            /* a question is under way */
    struct list_link parts; /* of what is in messages that are not freed, oldest first */
    size_t held_bytes;      /* their cost */
};

/* The subscriptions of one handle. */
struct subscriptions {
    pthread_mutex_t mutex;
    struct subscription *newest; /* owned references, also of those that have ended lately */
    size_t count, sweep_at;
};

void subscriptions_init(struct subscriptions *subscriptions);

/* Ends all with LKV_ECLOSED; no subscription touches the handle afterwards. */
void subscriptions_close(struct subscriptions *subscriptions);

/* LKV_ENOENT when no subscription has this tag. */
int subscriptions_cancel(struct subscriptions *subscriptions, void *tag);

/* Takes `subscription`, whose members up to credit_bytes, and `next`, are set, and begins to read. LKV_ENOMEM: it is
 * still the caller's. */
MUST_USE int subscription_open(struct lkv *db, struct subscription *subscription);

/* Under the list's mutex: whether it has ended, or all up to `index` was in messages that are freed. */
bool subscription_consumed(struct subscription *subscription, uint64_t index);

#endif
