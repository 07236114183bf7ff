#include "lib/lease.h"

#include "base/loop.h"
#include "base/mem.h"
#include "lib/msg.h"
#include "lib/request.h"

enum { KEEPS_PER_TTL = 3, RETRIES_PER_TTL = 20 };

/* ------------------------------------------------------------------ life */

/* Under the list's mutex, but for one that was never listed. */
static void unref(struct lease_hold *hold) {
    if (--hold->refs == 0) {
        lkv_msg_free(hold->loss);
        mem_free(hold);
    }
}

struct lease_hold *lease_hold_new(struct lkv *db, uint64_t ttl_ms, struct lkv_queue *queue,
                                  void *tag) {
    struct lease_hold *hold = mem_calloc(1, sizeof(*hold));
    if (hold == NULL) {
        return NULL;
    }
    *hold = (struct lease_hold){.refs = 1, .ttl_ms = ttl_ms, .db = db, .queue = queue};
    hold->loss = msg_new(LKV_LEASE_LOST, tag);
    if (hold->loss == NULL) {
        mem_free(hold);
        return NULL;
    }
    return hold;
}

void lease_hold_drop(struct lease_hold *hold) {
    unref(hold);
}

static uint64_t keep_interval_ns(const struct lease_hold *hold) {
    uint64_t third_ms = hold->ttl_ms / KEEPS_PER_TTL;
    return (third_ms < LEASE_KEEP_MS_MAX ? third_ms : LEASE_KEEP_MS_MAX) * MS_NS;
}

/* The cluster has heard of it after that moment. */
static void was_kept(struct lease_hold *hold, uint64_t sent_ns) {
    hold->lost_ns = sent_ns + hold->ttl_ms * MS_NS;
    hold->keep_ns = sent_ns + keep_interval_ns(hold);
}

void lease_hold_start(struct lease_hold *hold, int64_t id, uint64_t sent_ns) {
    struct lease_list *list = &hold->db->leases;
    (void)pthread_mutex_lock(&list->mutex);
    hold->id = id;
    hold->listed = true;
    was_kept(hold, sent_ns);
    hold->next = list->first;
    list->first = hold;
    (void)atomic_fetch_add(&list->count, 1);
    atomic_store_explicit(&list->sooner, true, memory_order_release);
    struct lkv *db = hold->db; /* from here on it may be lost at any time */
    (void)pthread_mutex_unlock(&list->mutex);
    db->ops->wake(db);
}

/* Off the list, which gives up its reference. */
static void unlist(struct lease_list *list, struct lease_hold *hold) {
    struct lease_hold **at = &list->first;
    while (*at != hold) {
        at = &(*at)->next;
    }
    *at = hold->next;
    hold->listed = false;
    (void)atomic_fetch_sub(&list->count, 1);
    unref(hold);
}

bool lease_hold_end(struct lkv *db, int64_t id) {
    struct lease_list *list = &db->leases;
    (void)pthread_mutex_lock(&list->mutex);
    struct lease_hold *hold = list->first;
    while (hold != NULL && hold->id != id) {
        hold = hold->next;
    }
    if (hold != NULL) {
        unlist(list, hold);
    }
    (void)pthread_mutex_unlock(&list->mutex);
    return hold != NULL;
}

void lease_holds_detach(struct lkv *db) {
    struct lease_list *list = &db->leases;
    (void)pthread_mutex_lock(&list->mutex);
    while (list->first != NULL) {
        unlist(list, list->first);
    }
    (void)pthread_mutex_unlock(&list->mutex);
}

/* ------------------------------------------------------------------ keep-alives */

static void tell_loss(struct lease_list *list, struct lease_hold *hold, int rc, const char *text) {
    struct lkv_msg *loss = hold->loss;
    hold->loss = NULL;
    msg_set_rc(loss, rc, "%s", text);
    msg_set_u64(loss, "lease", (uint64_t)hold->id);
    queue_push(hold->queue, loss);
    unlist(list, hold);
}

static void on_kept(struct request *request) {
    struct lease_hold *hold = request->owner;
    struct lkv *db = hold->db;
    struct lease_list *list = &db->leases;
    int rc = request->reply->rc;
    (void)pthread_mutex_lock(&list->mutex);
    hold->keeping = false;
    if (hold->listed && rc == 0) {
        was_kept(hold, hold->sent_ns);
    } else if (hold->listed && rc == LKV_ELEASE) {
        tell_loss(list, hold, rc, "the cluster has ended the lease");
    } else if (hold->listed) {
        hold->keep_ns = db->ops->now_ns(db) + hold->ttl_ms * MS_NS / RETRIES_PER_TTL;
    }
    atomic_store_explicit(&list->sooner, true, memory_order_release);
    unref(hold);
    (void)pthread_mutex_unlock(&list->mutex);
}

static void keep(struct lease_hold *hold, uint64_t now_ns) {
    struct request *request = request_new(REQUEST_LEASE_KEEP);
    hold->keep_ns = now_ns + hold->ttl_ms * MS_NS / RETRIES_PER_TTL;
    if (request == NULL) {
        return;
    }
    request->cost = sizeof(*request) + sizeof(*request->reply);
    request->deadline_ns = now_ns + hold->ttl_ms * MS_NS / KEEPS_PER_TTL;
    request->lease = hold->id;
    request->on_finish = on_kept;
    request->owner = hold;
    if (hold->db->ops->submit(hold->db, request) != 0) {
        request_free(request);
        return;
    }
    hold->refs++;
    hold->keeping = true;
    hold->sent_ns = now_ns;
}

/* Returns when it is due again. */
static uint64_t look_at(struct lease_list *list, struct lease_hold *hold, uint64_t now_ns) {
    if (now_ns >= hold->lost_ns) {
        tell_loss(list, hold, LKV_ETIMEOUT, "no keep-alive was answered for the lease's ttl");
        return UINT64_MAX;
    }
    if (!hold->keeping && now_ns >= hold->keep_ns) {
        keep(hold, now_ns);
    }
    bool keeps = !hold->keeping && hold->keep_ns < hold->lost_ns;
    return keeps ? hold->keep_ns : hold->lost_ns;
}

uint64_t lease_holds_turn(struct lkv *db, uint64_t now_ns) {
    struct lease_list *list = &db->leases;
    uint64_t next_ns = UINT64_MAX;
    if (atomic_load_explicit(&list->count, memory_order_acquire) == 0) {
        return next_ns;
    }
    if (!atomic_exchange_explicit(&list->sooner, false, memory_order_acq_rel) &&
        now_ns < list->due_ns) {
        return list->due_ns;
    }
    (void)pthread_mutex_lock(&list->mutex);
    struct lease_hold *next;
    for (struct lease_hold *at = list->first; at != NULL; at = next) {
        next = at->next; /* a lost one leaves the list */
        uint64_t due_ns = look_at(list, at, now_ns);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    (void)pthread_mutex_unlock(&list->mutex);
    list->due_ns = next_ns;
    return next_ns;
}
