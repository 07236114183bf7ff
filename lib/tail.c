#include "lib/tail.h"

#include "base/assert.h"
#include "base/loop.h"
#include "base/mem.h"
#include "lib/handle.h"

enum {
    ASK_BYTES_MAX = 1024 * 1024,
    ASK_MS = 10 * 1000 /* then it is asked again: a client notices a node that is gone */
};
#define ASK_NS (ASK_MS * MS_NS)

struct tail {
    struct tail *next_older; /* of the handle's list */
    atomic_uint refs;        /* the list's, the question's, each message's */

    /* Immutable after open. */
    struct lkv_queue *queue; /* borrowed */
    void *tag;
    size_t credit_bytes;
    bool gates_ready;

    /* Under mutex. A handle's mutex may be held when it is taken, never the other way round. */
    pthread_mutex_t mutex;
    struct lkv *db;         /* NULL: closed */
    struct lkv_msg *last;   /* owned: LKV_END, made beforehand; NULL: sent */
    uint64_t next;          /* index */
    bool asking;            /* a question is under way */
    struct list_link parts; /* of struct part, oldest first: messages not freed */
    size_t held_bytes;      /* their cost */
};

/* What a message of the tail means to it. */
struct part {
    struct list_link link;
    struct tail *tail; /* owned reference */
    uint64_t first;    /* index from which on it has what there was */
    size_t cost;
};

static void unref(struct tail *tail) {
    if (atomic_fetch_sub(&tail->refs, 1) == 1) {
        ASSERT(list_empty(&tail->parts));
        lkv_msg_free(tail->last);
        (void)pthread_mutex_destroy(&tail->mutex);
        mem_free(tail);
    }
}

static struct tail *ref(struct tail *tail) {
    atomic_fetch_add(&tail->refs, 1);
    return tail;
}

/* ------------------------------------------------------------------ under the tail's mutex */

/* `reply` (may be NULL) explains. */
static void end(struct tail *tail, int rc, const struct lkv_msg *reply) {
    struct lkv_msg *last = tail->last;
    if (last == NULL) {
        return;
    }
    tail->last = NULL;
    uint64_t first;
    if (reply != NULL && reply->text != NULL) {
        msg_set_rc(last, rc, "%s", reply->text);
    } else {
        msg_set_rc(last, rc, NULL);
    }
    if (reply != NULL && lkv_msg_u64(reply, "first", &first)) {
        msg_set_u64(last, "first", first);
    }
    msg_set_u64(last, "next", tail->next);
    queue_push(tail->queue, last);
}

static void on_answer(struct request *request);

static void ask(struct tail *tail) {
    if (tail->asking || tail->last == NULL ||
        (tail->held_bytes >= tail->credit_bytes && !list_empty(&tail->parts))) {
        return;
    }
    struct request *request = request_new(REQUEST_LOG_READ);
    if (request == NULL) {
        end(tail, LKV_ENOMEM, NULL);
        return;
    }
    size_t room = tail->credit_bytes > tail->held_bytes ? tail->credit_bytes - tail->held_bytes : 1;
    request->from = tail->next;
    request->bytes_max = room < ASK_BYTES_MAX ? room : ASK_BYTES_MAX;
    request->wait = true;
    request->deadline_ns = tail->db->ops->now_ns(tail->db) + ASK_NS;
    request->on_finish = on_answer;
    request->owner = ref(tail);
    tail->asking = true;
    int rc = tail->db->ops->submit(tail->db, request);
    if (rc != 0) {
        request_free(request);
        tail->asking = false;
        end(tail, rc, NULL);
        unref(tail); /* the question's; the caller has one, too */
    }
}

/* ------------------------------------------------------------------ a message comes back */

static void on_part_freed(void *arg, struct lkv_msg *msg) {
    (void)msg;
    struct part *part = arg;
    struct tail *tail = part->tail;
    (void)pthread_mutex_lock(&tail->mutex);
    list_remove(&part->link);
    tail->held_bytes -= part->cost;
    if (tail->db != NULL) {
        if (tail->gates_ready && tail->db->ops->consumed != NULL) {
            tail->db->ops->consumed(tail->db);
        }
        ask(tail);
    }
    (void)pthread_mutex_unlock(&tail->mutex);
    mem_free(part);
    unref(tail);
}

/* ------------------------------------------------------------------ an answer */

static void deliver(struct tail *tail, struct lkv_msg *reply) {
    struct part *part = mem_calloc(1, sizeof(*part));
    if (part == NULL) {
        end(tail, LKV_ENOMEM, NULL);
        lkv_msg_free(reply);
        return;
    }
    *part = (struct part){.tail = ref(tail), .first = tail->next, .cost = msg_records_cost(reply)};
    tail->held_bytes += part->cost;
    list_push_back(&tail->parts, &part->link);
    (void)lkv_msg_u64(reply, "next", &tail->next);
    reply->kind = LKV_RECORDS;
    reply->tag = tail->tag;
    reply->on_free = on_part_freed;
    reply->on_free_arg = part;
    queue_push(tail->queue, reply);
}

/* Of a client whose node did not answer: another one may. */
static bool goes_on(int rc) {
    return rc == LKV_ETIMEOUT || rc == LKV_EUNREACHABLE || rc == LKV_EUNKNOWN;
}

static void take_answer(struct tail *tail, struct lkv_msg *reply) {
    int rc = reply->rc;
    if (tail->last == NULL || rc != 0) {
        if (tail->last != NULL && !goes_on(rc)) {
            end(tail, rc, reply);
        }
        lkv_msg_free(reply);
    } else if (reply->record_count == 0) {
        (void)lkv_msg_u64(reply, "next", &tail->next); /* perhaps past a gap */
        lkv_msg_free(reply);
    } else {
        deliver(tail, reply);
    }
}

static void on_answer(struct request *request) {
    struct tail *tail = request->owner;
    struct lkv_msg *reply = request->reply;
    request->reply = NULL;
    (void)pthread_mutex_lock(&tail->mutex);
    tail->asking = false;
    take_answer(tail, reply);
    if (tail->db != NULL) {
        ask(tail);
    }
    (void)pthread_mutex_unlock(&tail->mutex);
    unref(tail);
}

/* ------------------------------------------------------------------ the handle's list */

void tails_init(struct tails *tails) {
    tails->newest = NULL;
    (void)pthread_mutex_init(&tails->mutex, NULL);
}

void tails_close(struct tails *tails) {
    (void)pthread_mutex_lock(&tails->mutex);
    struct tail *at = tails->newest;
    tails->newest = NULL;
    (void)pthread_mutex_unlock(&tails->mutex);
    while (at != NULL) {
        struct tail *older = at->next_older;
        (void)pthread_mutex_lock(&at->mutex);
        end(at, LKV_ECLOSED, NULL);
        at->db = NULL;
        (void)pthread_mutex_unlock(&at->mutex);
        unref(at);
        at = older;
    }
}

/* Under the list's mutex: forgets those that have ended. They must not touch the handle any more, so
 * that closing it need not know them. */
static void sweep(struct tails *tails) {
    struct tail **at = &tails->newest;
    while (*at != NULL) {
        struct tail *tail = *at;
        (void)pthread_mutex_lock(&tail->mutex);
        bool ended = tail->last == NULL && !tail->asking;
        if (ended) {
            tail->db = NULL;
            *at = tail->next_older;
        }
        (void)pthread_mutex_unlock(&tail->mutex);
        if (ended) {
            unref(tail);
        } else {
            at = &tail->next_older;
        }
    }
}

int tails_cancel(struct tails *tails, void *tag) {
    int rc = LKV_ENOENT;
    (void)pthread_mutex_lock(&tails->mutex);
    for (struct tail *tail = tails->newest; tail != NULL; tail = tail->next_older) {
        (void)pthread_mutex_lock(&tail->mutex);
        if (tail->tag == tag && tail->last != NULL) {
            end(tail, LKV_ECANCELED, NULL);
            rc = 0;
        }
        (void)pthread_mutex_unlock(&tail->mutex);
    }
    sweep(tails);
    (void)pthread_mutex_unlock(&tails->mutex);
    return rc;
}

bool tails_consumed(struct tails *tails, uint64_t index) {
    bool consumed = true;
    (void)pthread_mutex_lock(&tails->mutex);
    for (struct tail *tail = tails->newest; consumed && tail != NULL; tail = tail->next_older) {
        if (!tail->gates_ready) {
            continue;
        }
        (void)pthread_mutex_lock(&tail->mutex);
        uint64_t next = list_empty(&tail->parts)
                            ? tail->next
                            : LIST_ITEM(tail->parts.next, struct part, link)->first;
        consumed = tail->last == NULL || next > index;
        (void)pthread_mutex_unlock(&tail->mutex);
    }
    (void)pthread_mutex_unlock(&tails->mutex);
    return consumed;
}

static struct tail *tail_new(struct lkv *db, const struct tail_options *options) {
    struct tail *tail = mem_calloc(1, sizeof(*tail));
    struct lkv_msg *last = msg_new(LKV_END, options->tag);
    if (tail == NULL || last == NULL) {
        mem_free(tail);
        lkv_msg_free(last);
        return NULL;
    }
    *tail = (struct tail){.queue = options->queue,
                          .tag = options->tag,
                          .credit_bytes = options->credit_bytes,
                          .gates_ready = options->gates_ready,
                          .db = db,
                          .last = last,
                          .next = options->from};
    atomic_init(&tail->refs, 1);
    list_init(&tail->parts);
    (void)pthread_mutex_init(&tail->mutex, NULL);
    return tail;
}

int tail_open(struct lkv *db, const struct tail_options *options) {
    struct tail *tail = tail_new(db, options);
    if (tail == NULL) {
        return LKV_ENOMEM;
    }
    (void)pthread_mutex_lock(&db->tails.mutex);
    sweep(&db->tails);
    tail->next_older = db->tails.newest;
    db->tails.newest = tail;
    (void)pthread_mutex_lock(&tail->mutex);
    ask(tail); /* what it cannot ask is told by LKV_END */
    (void)pthread_mutex_unlock(&tail->mutex);
    (void)pthread_mutex_unlock(&db->tails.mutex);
    return 0;
}
