#include "lib/watch.h"

#include "base/mem.h"
#include "lib/events.h"
#include "lib/handle.h"

enum { ASK_BYTES_MAX = 256 * 1024 };

struct watch {
    /* Its `next`: the revision of the first change that is to be told; 0: the next one. */
    struct subscription subscription;

    /* Immutable after open. */
    struct blob *keys; /* owned */
    struct slice from, to;
    int flags;

    /* Under the subscription's mutex. */
    uint64_t sub; /* the change's number within its revision */
    bool begun;   /* where it begins has been told */
};

static struct watch *watch_of(struct subscription *subscription) {
    return LIST_ITEM(subscription, struct watch, subscription);
}

static struct request *question(struct subscription *subscription) {
    struct watch *watch = watch_of(subscription);
    struct request *request = request_new(REQUEST_WATCH);
    if (request == NULL || request_set_keys(request, watch->from, watch->to) != 0) {
        request_free(request);
        return NULL;
    }
    request->from_sub = (uint32_t)watch->sub;
    request->watch_flags = watch->flags;
    request->unwanted = &subscription->ended;
    /* Where it begins, and that it has a node that answers, is not waited for. */
    request->wait = watch->begun;
    return request;
}

/* It has asked from some place, and there the next one begins; false: that is no answer. */
static bool take_place(struct watch *watch, const struct lkv_msg *reply) {
    uint64_t next, sub = 0, before = watch->subscription.next;
    (void)lkv_msg_u64(reply, "next_sub", &sub);
    bool good = lkv_msg_u64(reply, "next", &next) && next > 0 && sub <= UINT32_MAX &&
                (next != before ? next > before : sub >= watch->sub);
    if (good) {
        watch->subscription.next = next;
        watch->sub = sub;
    }
    return good;
}

static enum subscription_news take(struct subscription *subscription, const struct lkv_msg *reply) {
    struct watch *watch = watch_of(subscription);
    bool news = reply->event_count > 0 || !watch->begun;
    if (!take_place(watch, reply)) {
        return SUBSCRIPTION_CONFUSED;
    }
    watch->begun = true;
    return news || (watch->flags & LKV_WATCH_PROGRESS) ? SUBSCRIPTION_TELLS : SUBSCRIPTION_NOTHING;
}

/* Of a client whose node did not answer, or has no leader: another one may. */
static bool goes_on(int rc) {
    return rc == LKV_ETIMEOUT || rc == LKV_EUNREACHABLE || rc == LKV_ENOLEADER ||
           rc == LKV_ENOTLEADER;
}

static void watch_free(struct subscription *subscription) {
    struct watch *watch = watch_of(subscription);
    blob_unref(watch->keys);
    mem_free(watch);
}

static const struct subscription_kind kind = {.tells = LKV_EVENTS,
                                              .ask_bytes_max = ASK_BYTES_MAX,
                                              .question = question,
                                              .take = take,
                                              .cost = msg_events_cost,
                                              .goes_on = goes_on,
                                              .free = watch_free};

static struct blob *copy_keys(const struct watch_options *options) {
    struct blob *keys = blob_new(options->from.size + options->to.size);
    if (keys != NULL && options->from.size > 0) {
        memcpy(keys->data, options->from.data, options->from.size);
    }
    if (keys != NULL && options->to.size > 0) {
        memcpy(keys->data + options->from.size, options->to.data, options->to.size);
    }
    return keys;
}

int watch_open(struct lkv *db, const struct watch_options *options) {
    struct watch *watch = mem_calloc(1, sizeof(*watch));
    struct blob *keys = copy_keys(options);
    if (watch == NULL || keys == NULL) {
        mem_free(watch);
        blob_unref(keys);
        return LKV_ENOMEM;
    }
    *watch = (struct watch){.subscription = {.kind = &kind,
                                             .queue = options->queue,
                                             .tag = options->tag,
                                             .credit_bytes = LKV_WATCH_CREDIT_BYTES,
                                             .next = options->rev},
                            .keys = keys,
                            .from = slice_of(keys->data, options->from.size),
                            .to = slice_of(keys->data + options->from.size, options->to.size),
                            .flags = options->flags};
    int rc = subscription_open(db, &watch->subscription);
    if (rc != 0) {
        watch_free(&watch->subscription);
    }
    return rc;
}
