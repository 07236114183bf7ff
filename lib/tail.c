#include "lib/tail.h"

#include "base/mem.h"
#include "lib/handle.h"
#include "lib/records.h"

enum { ASK_BYTES_MAX = 1024 * 1024 };

static struct request *question(struct subscription *subscription) {
    (void)subscription;
    struct request *request = request_new(REQUEST_LOG_READ);
    if (request != NULL) {
        request->wait = true;
    }
    return request;
}

/* Without records it may have got past a gap. */
static enum subscription_news take(struct subscription *subscription, const struct lkv_msg *reply) {
    (void)lkv_msg_u64(reply, "next", &subscription->next);
    return reply->record_count > 0 ? SUBSCRIPTION_TELLS : SUBSCRIPTION_NOTHING;
}

/* Of a client whose node did not answer: another one may. */
static bool goes_on(int rc) {
    return rc == LKV_ETIMEOUT || rc == LKV_EUNREACHABLE || rc == LKV_EUNKNOWN;
}

static void tell_consumed(struct subscription *subscription) {
    if (subscription->db->ops->consumed != NULL) {
        subscription->db->ops->consumed(subscription->db);
    }
}

static void tail_free(struct subscription *subscription) {
    mem_free(subscription);
}

static const struct subscription_kind plain = {.tells = LKV_RECORDS,
                                               .ask_bytes_max = ASK_BYTES_MAX,
                                               .question = question,
                                               .take = take,
                                               .cost = msg_records_cost,
                                               .goes_on = goes_on,
                                               .free = tail_free};

static const struct subscription_kind gating = {.tells = LKV_RECORDS,
                                                .ask_bytes_max = ASK_BYTES_MAX,
                                                .question = question,
                                                .take = take,
                                                .cost = msg_records_cost,
                                                .goes_on = goes_on,
                                                .freed = tell_consumed,
                                                .free = tail_free};

bool tails_consumed(struct subscriptions *subscriptions, uint64_t index) {
    bool consumed = true;
    (void)pthread_mutex_lock(&subscriptions->mutex);
    for (struct subscription *at = subscriptions->newest; consumed && at != NULL;
         at = at->next_older) {
        consumed = at->kind != &gating || subscription_consumed(at, index);
    }
    (void)pthread_mutex_unlock(&subscriptions->mutex);
    return consumed;
}

int tail_open(struct lkv *db, const struct tail_options *options) {
    struct subscription *tail = mem_calloc(1, sizeof(*tail));
    if (tail == NULL) {
        return LKV_ENOMEM;
    }
    *tail = (struct subscription){.kind = options->gates_ready ? &gating : &plain,
                                  .queue = options->queue,
                                  .tag = options->tag,
                                  .credit_bytes = options->credit_bytes,
                                  .next = options->from};
    int rc = subscription_open(db, tail);
    if (rc != 0) {
        mem_free(tail);
    }
    return rc;
}
