#include "lib/subscription.h"

#include "base/assert.h"
#include "base/loop.h"
#include "base/mem.h"
#include "lib/handle.h"

enum {
    ASK_MS = 10 * 1000, /* then it is asked again: a client notices a node that is gone */
    SWEEP_MIN = 16
};
#define ASK_NS (ASK_MS * MS_NS)

/* What a message of the subscription means to it. */
struct part {
    struct list_link link;
    struct subscription *subscription; /* owned reference */
    uint64_t first;                    /* place from which on it has what there was */
    size_t cost;
};

static void unref(struct subscription *subscription) {
    if (atomic_fetch_sub(&subscription->refs, 1) == 1) {
        ASSERT(list_empty(&subscription->parts));
        lkv_msg_free(subscription->last);
        (void)pthread_mutex_destroy(&subscription->mutex);
        subscription->kind->free(subscription);
    }
}

static struct subscription *ref(struct subscription *subscription) {
    atomic_fetch_add(&subscription->refs, 1);
    return subscription;
}

/* ------------------------------------------------------------------ under the subscription's mutex */

/* `reply` (may be NULL) explains. */
static void end(struct subscription *subscription, int rc, const struct lkv_msg *reply) {
    struct lkv_msg *last = subscription->last;
    if (last == NULL) {
        return;
    }
    subscription->last = NULL;
    atomic_store(&subscription->ended, true);
    uint64_t first;
    if (reply != NULL && reply->text != NULL) {
        msg_set_rc(last, rc, "%s", reply->text);
    } else {
        msg_set_rc(last, rc, NULL);
    }
    if (reply != NULL && lkv_msg_u64(reply, "first", &first)) {
        msg_set_u64(last, "first", first);
    }
    msg_set_u64(last, "next", subscription->next);
    queue_push(subscription->queue, last);
}

static void on_answer(struct request *request);

static void ask(struct subscription *subscription) {
    size_t held = subscription->held_bytes, credit = subscription->credit_bytes;
    if (subscription->asking || subscription->last == NULL ||
        (held >= credit && !list_empty(&subscription->parts))) {
        return;
    }
    struct request *request = subscription->kind->question(subscription);
    if (request == NULL) {
        end(subscription, LKV_ENOMEM, NULL);
        return;
    }
    size_t room = credit > held ? credit - held : 1, most = subscription->kind->ask_bytes_max;
    request->from = subscription->next;
    request->bytes_max = room < most ? room : most;
    request->deadline_ns = subscription->db->ops->now_ns(subscription->db) + ASK_NS;
    request->on_finish = on_answer;
    request->owner = ref(subscription);
    subscription->asking = true;
    int rc = subscription->db->ops->submit(subscription->db, request);
    if (rc != 0) {
        request_free(request);
        subscription->asking = false;
        end(subscription, rc, NULL);
        unref(subscription); /* the question's; the caller has one, too */
    }
}

/* ------------------------------------------------------------------ a message comes back */

static void on_part_freed(void *arg, struct lkv_msg *msg) {
    (void)msg;
    struct part *part = arg;
    struct subscription *subscription = part->subscription;
    (void)pthread_mutex_lock(&subscription->mutex);
    list_remove(&part->link);
    subscription->held_bytes -= part->cost;
    if (subscription->db != NULL) {
        if (subscription->kind->freed != NULL) {
            subscription->kind->freed(subscription);
        }
        ask(subscription);
    }
    (void)pthread_mutex_unlock(&subscription->mutex);
    mem_free(part);
    unref(subscription);
}

/* ------------------------------------------------------------------ an answer */

/* True: the queue has it. */
static bool deliver(struct subscription *subscription, uint64_t first, struct lkv_msg *reply) {
    struct part *part = mem_calloc(1, sizeof(*part));
    if (part == NULL) {
        return false;
    }
    *part = (struct part){
        .subscription = ref(subscription), .first = first, .cost = subscription->kind->cost(reply)};
    subscription->held_bytes += part->cost;
    list_push_back(&subscription->parts, &part->link);
    reply->kind = subscription->kind->tells;
    reply->tag = subscription->tag;
    reply->on_free = on_part_freed;
    reply->on_free_arg = part;
    queue_push(subscription->queue, reply);
    return true;
}

/* True: the queue has it. */
static bool take_answer(struct subscription *subscription, struct lkv_msg *reply) {
    if (subscription->last == NULL) {
        return false;
    }
    if (reply->rc != 0) {
        if (!subscription->kind->goes_on(reply->rc)) {
            end(subscription, reply->rc, reply);
        }
        return false;
    }
    uint64_t first = subscription->next;
    switch (subscription->kind->take(subscription, reply)) {
    case SUBSCRIPTION_NOTHING: return false;
    case SUBSCRIPTION_CONFUSED: end(subscription, LKV_EPROTOCOL, NULL); return false;
    case SUBSCRIPTION_TELLS: break;
    }
    if (!deliver(subscription, first, reply)) {
        subscription->next = first; /* what LKV_END names: it was not told */
        end(subscription, LKV_ENOMEM, NULL);
        return false;
    }
    return true;
}

static void on_answer(struct request *request) {
    struct subscription *subscription = request->owner;
    struct lkv_msg *reply = request->reply;
    request->reply = NULL;
    (void)pthread_mutex_lock(&subscription->mutex);
    subscription->asking = false;
    bool queued = take_answer(subscription, reply);
    if (subscription->db != NULL) {
        ask(subscription);
    }
    (void)pthread_mutex_unlock(&subscription->mutex);
    if (!queued) {
        lkv_msg_free(reply);
    }
    unref(subscription);
}

/* ------------------------------------------------------------------ the handle's list */

void subscriptions_init(struct subscriptions *subscriptions) {
    *subscriptions = (struct subscriptions){.sweep_at = SWEEP_MIN};
    (void)pthread_mutex_init(&subscriptions->mutex, NULL);
}

void subscriptions_close(struct subscriptions *subscriptions) {
    (void)pthread_mutex_lock(&subscriptions->mutex);
    struct subscription *at = subscriptions->newest;
    subscriptions->newest = NULL;
    subscriptions->count = 0;
    (void)pthread_mutex_unlock(&subscriptions->mutex);
    while (at != NULL) {
        struct subscription *older = at->next_older;
        (void)pthread_mutex_lock(&at->mutex);
        end(at, LKV_ECLOSED, NULL);
        at->db = NULL;
        (void)pthread_mutex_unlock(&at->mutex);
        unref(at);
        at = older;
    }
}

/* Under the list's mutex: forgets those that have ended, each time that there are twice as many. They must not
 * touch the handle any more, so that closing it need not know them. */
static void sweep(struct subscriptions *subscriptions) {
    if (subscriptions->count < subscriptions->sweep_at) {
        return;
    }
    struct subscription **at = &subscriptions->newest;
    while (*at != NULL) {
        struct subscription *subscription = *at;
        (void)pthread_mutex_lock(&subscription->mutex);
        bool ended = subscription->last == NULL && !subscription->asking;
        if (ended) {
            subscription->db = NULL;
            *at = subscription->next_older;
        }
        (void)pthread_mutex_unlock(&subscription->mutex);
        if (ended) {
            subscriptions->count--;
            unref(subscription);
        } else {
            at = &subscription->next_older;
        }
    }
    subscriptions->sweep_at = 2 * subscriptions->count + SWEEP_MIN;
}

int subscriptions_cancel(struct subscriptions *subscriptions, void *tag) {
    int rc = LKV_ENOENT;
    (void)pthread_mutex_lock(&subscriptions->mutex);
    for (struct subscription *subscription = subscriptions->newest; subscription != NULL;
         subscription = subscription->next_older) {
        if (subscription->tag != tag) {
            continue;
        }
        (void)pthread_mutex_lock(&subscription->mutex);
        if (subscription->last != NULL) {
            end(subscription, LKV_ECANCELED, NULL);
            rc = 0;
        }
        (void)pthread_mutex_unlock(&subscription->mutex);
    }
    sweep(subscriptions);
    (void)pthread_mutex_unlock(&subscriptions->mutex);
    return rc;
}

bool subscription_consumed(struct subscription *subscription, uint64_t index) {
    (void)pthread_mutex_lock(&subscription->mutex);
    uint64_t next = list_empty(&subscription->parts)
                        ? subscription->next
                        : LIST_ITEM(subscription->parts.next, struct part, link)->first;
    bool consumed = subscription->last == NULL || next > index;
    (void)pthread_mutex_unlock(&subscription->mutex);
    return consumed;
}

int subscription_open(struct lkv *db, struct subscription *subscription) {
    struct subscriptions *subscriptions = &db->subscriptions;
    subscription->last = msg_new(LKV_END, subscription->tag);
    if (subscription->last == NULL) {
        return LKV_ENOMEM;
    }
    subscription->db = db;
    atomic_init(&subscription->refs, 1);
    atomic_init(&subscription->ended, false);
    list_init(&subscription->parts);
    (void)pthread_mutex_init(&subscription->mutex, NULL);
    (void)pthread_mutex_lock(&subscriptions->mutex);
    sweep(subscriptions);
    subscription->next_older = subscriptions->newest;
    subscriptions->newest = subscription;
    subscriptions->count++;
    (void)pthread_mutex_lock(&subscription->mutex);
    ask(subscription); /* what it cannot ask is told by LKV_END */
    (void)pthread_mutex_unlock(&subscription->mutex);
    (void)pthread_mutex_unlock(&subscriptions->mutex);
    return 0;
}
