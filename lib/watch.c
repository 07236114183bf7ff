#include "lib/watch.h"

#include "base/assert.h"
#include "base/loop.h"
#include "base/mem.h"
#include "lib/handle.h"

enum {
    CREDIT_BYTES = LKV_WATCH_CREDIT_BYTES,
    ASK_BYTES_MAX = 256 * 1024,
    ASK_MS = 10 * 1000, /* then it is asked again: a client notices a node that is gone */
    SWEEP_MIN = 16
};
#define ASK_NS (ASK_MS * MS_NS)

struct watch {
    struct watch *next_older; /* of the handle's list */
    atomic_uint refs;         /* the list's, the question's, each message's */

    /* Immutable after open. */
    struct lkv_queue *queue; /* borrowed */
    void *tag;
    struct blob *keys; /* owned */
    atomic_bool ended; /* any thread */
    struct slice from, to;
    int flags;

    /* Under mutex. A handle's mutex may be held when it is taken, never the other way round. */
    pthread_mutex_t mutex;
    struct lkv *db;       /* NULL: closed */
    struct lkv_msg *last; /* owned: LKV_END, made beforehand; NULL: sent */
    uint64_t next,
        sub; /* the first change that is to be told: revision, and number within it; 0: the next one */
    bool begun;        /* where it begins has been told */
    bool asking;       /* a question is under way */
    size_t parts;      /* messages not freed */
    size_t held_bytes; /* their cost */
};

/* What a message of the watch means to it. */
struct part {
    struct watch *watch; /* owned reference */
    size_t cost;
};

static void unref(struct watch *watch) {
    if (atomic_fetch_sub(&watch->refs, 1) == 1) {
        ASSERT(watch->parts == 0);
        lkv_msg_free(watch->last);
        blob_unref(watch->keys);
        (void)pthread_mutex_destroy(&watch->mutex);
        mem_free(watch);
    }
}

static struct watch *ref(struct watch *watch) {
    atomic_fetch_add(&watch->refs, 1);
    return watch;
}

/* ------------------------------------------------------------------ under the watch's mutex */

/* `reply` (may be NULL) explains. */
static void end(struct watch *watch, int rc, const struct lkv_msg *reply) {
    struct lkv_msg *last = watch->last;
    if (last == NULL) {
        return;
    }
    watch->last = NULL;
    atomic_store(&watch->ended, true);
    uint64_t first;
    if (reply != NULL && reply->text != NULL) {
        msg_set_rc(last, rc, "%s", reply->text);
    } else {
        msg_set_rc(last, rc, NULL);
    }
    if (reply != NULL && lkv_msg_u64(reply, "first", &first)) {
        msg_set_u64(last, "first", first);
    }
    msg_set_u64(last, "next", watch->next);
    queue_push(watch->queue, last);
}

static void on_answer(struct request *request);

static struct request *question(const struct watch *watch) {
    struct request *request = request_new(REQUEST_WATCH);
    if (request == NULL || request_set_keys(request, watch->from, watch->to) != 0) {
        request_free(request);
        return NULL;
    }
    size_t room = CREDIT_BYTES > watch->held_bytes ? CREDIT_BYTES - watch->held_bytes : 1;
    request->from = watch->next;
    request->from_sub = (uint32_t)watch->sub;
    request->watch_flags = watch->flags;
    request->unwanted = &watch->ended;
    request->bytes_max = room < ASK_BYTES_MAX ? room : ASK_BYTES_MAX;
    /* Where it begins, and that it has a node that answers, is not waited for. */
    request->wait = watch->begun;
    request->deadline_ns = watch->db->ops->now_ns(watch->db) + ASK_NS;
    request->on_finish = on_answer;
    return request;
}

static void ask(struct watch *watch) {
    if (watch->asking || watch->last == NULL ||
        (watch->held_bytes >= CREDIT_BYTES && watch->parts > 0)) {
        return;
    }
    struct request *request = question(watch);
    if (request == NULL) {
        end(watch, LKV_ENOMEM, NULL);
        return;
    }
    request->owner = ref(watch);
    watch->asking = true;
    int rc = watch->db->ops->submit(watch->db, request);
    if (rc != 0) {
        request_free(request);
        watch->asking = false;
        end(watch, rc, NULL);
        unref(watch); /* the question's; the caller has one, too */
    }
}

/* ------------------------------------------------------------------ a message comes back */

static void on_part_freed(void *arg, struct lkv_msg *msg) {
    (void)msg;
    struct part *part = arg;
    struct watch *watch = part->watch;
    (void)pthread_mutex_lock(&watch->mutex);
    watch->parts--;
    watch->held_bytes -= part->cost;
    if (watch->db != NULL) {
        ask(watch);
    }
    (void)pthread_mutex_unlock(&watch->mutex);
    mem_free(part);
    unref(watch);
}

/* ------------------------------------------------------------------ an answer */

static void deliver(struct watch *watch, struct lkv_msg *reply) {
    struct part *part = mem_calloc(1, sizeof(*part));
    if (part == NULL) {
        end(watch, LKV_ENOMEM, NULL);
        lkv_msg_free(reply);
        return;
    }
    *part = (struct part){.watch = ref(watch), .cost = msg_events_cost(reply)};
    watch->held_bytes += part->cost;
    watch->parts++;
    reply->kind = LKV_EVENTS;
    reply->tag = watch->tag;
    reply->on_free = on_part_freed;
    reply->on_free_arg = part;
    queue_push(watch->queue, reply);
}

/* Of a client whose node did not answer, or has no leader: another one may. */
static bool goes_on(int rc) {
    return rc == LKV_ETIMEOUT || rc == LKV_EUNREACHABLE || rc == LKV_ENOLEADER ||
           rc == LKV_ENOTLEADER;
}

/* It has asked from some place, and there the next one begins; false: that is no answer. */
static bool take_place(struct watch *watch, const struct lkv_msg *reply) {
    uint64_t next, sub = 0;
    (void)lkv_msg_u64(reply, "next_sub", &sub);
    bool good = lkv_msg_u64(reply, "next", &next) && next > 0 && sub <= UINT32_MAX &&
                (next != watch->next ? next > watch->next : sub >= watch->sub);
    if (good) {
        watch->next = next;
        watch->sub = sub;
    }
    return good;
}

static void take_answer(struct watch *watch, struct lkv_msg *reply) {
    int rc = reply->rc;
    if (watch->last == NULL || rc != 0) {
        if (watch->last != NULL && !goes_on(rc)) {
            end(watch, rc, reply);
        }
        lkv_msg_free(reply);
        return;
    }
    bool news = reply->event_count > 0 || !watch->begun;
    if (!take_place(watch, reply)) {
        end(watch, LKV_EPROTOCOL, NULL);
        lkv_msg_free(reply);
        return;
    }
    watch->begun = true;
    if (news || (watch->flags & LKV_WATCH_PROGRESS)) {
        deliver(watch, reply);
    } else {
        lkv_msg_free(reply);
    }
}

static void on_answer(struct request *request) {
    struct watch *watch = request->owner;
    struct lkv_msg *reply = request->reply;
    request->reply = NULL;
    (void)pthread_mutex_lock(&watch->mutex);
    watch->asking = false;
    take_answer(watch, reply);
    if (watch->db != NULL) {
        ask(watch);
    }
    (void)pthread_mutex_unlock(&watch->mutex);
    unref(watch);
}

/* ------------------------------------------------------------------ the handle's list */

void watches_init(struct watches *watches) {
    watches->newest = NULL;
    watches->count = 0;
    watches->sweep_at = SWEEP_MIN;
    (void)pthread_mutex_init(&watches->mutex, NULL);
}

void watches_close(struct watches *watches) {
    (void)pthread_mutex_lock(&watches->mutex);
    struct watch *at = watches->newest;
    watches->newest = NULL;
    watches->count = 0;
    (void)pthread_mutex_unlock(&watches->mutex);
    while (at != NULL) {
        struct watch *older = at->next_older;
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
static void sweep(struct watches *watches) {
    if (watches->count < watches->sweep_at) {
        return;
    }
    struct watch **at = &watches->newest;
    while (*at != NULL) {
        struct watch *watch = *at;
        (void)pthread_mutex_lock(&watch->mutex);
        bool ended = watch->last == NULL && !watch->asking;
        if (ended) {
            watch->db = NULL;
            *at = watch->next_older;
        }
        (void)pthread_mutex_unlock(&watch->mutex);
        if (ended) {
            watches->count--;
            unref(watch);
        } else {
            at = &watch->next_older;
        }
    }
    watches->sweep_at = 2 * watches->count + SWEEP_MIN;
}

int watches_cancel(struct watches *watches, void *tag) {
    int rc = LKV_ENOENT;
    (void)pthread_mutex_lock(&watches->mutex);
    for (struct watch *watch = watches->newest; watch != NULL; watch = watch->next_older) {
        if (watch->tag != tag) {
            continue;
        }
        (void)pthread_mutex_lock(&watch->mutex);
        if (watch->last != NULL) {
            end(watch, LKV_ECANCELED, NULL);
            rc = 0;
        }
        (void)pthread_mutex_unlock(&watch->mutex);
    }
    sweep(watches);
    (void)pthread_mutex_unlock(&watches->mutex);
    return rc;
}

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

static struct watch *watch_new(struct lkv *db, const struct watch_options *options) {
    struct watch *watch = mem_calloc(1, sizeof(*watch));
    struct lkv_msg *last = msg_new(LKV_END, options->tag);
    struct blob *keys = copy_keys(options);
    if (watch == NULL || last == NULL || keys == NULL) {
        mem_free(watch);
        lkv_msg_free(last);
        blob_unref(keys);
        return NULL;
    }
    *watch = (struct watch){.queue = options->queue,
                            .tag = options->tag,
                            .keys = keys,
                            .from = slice_of(keys->data, options->from.size),
                            .to = slice_of(keys->data + options->from.size, options->to.size),
                            .flags = options->flags,
                            .db = db,
                            .last = last,
                            .next = options->rev};
    atomic_init(&watch->refs, 1);
    atomic_init(&watch->ended, false);
    (void)pthread_mutex_init(&watch->mutex, NULL);
    return watch;
}

int watch_open(struct lkv *db, const struct watch_options *options) {
    struct watch *watch = watch_new(db, options);
    if (watch == NULL) {
        return LKV_ENOMEM;
    }
    struct watches *watches = &db->watches;
    (void)pthread_mutex_lock(&watches->mutex);
    sweep(watches);
    watch->next_older = watches->newest;
    watches->newest = watch;
    watches->count++;
    (void)pthread_mutex_lock(&watch->mutex);
    ask(watch); /* what it cannot ask is told by LKV_END */
    (void)pthread_mutex_unlock(&watch->mutex);
    (void)pthread_mutex_unlock(&watches->mutex);
    return 0;
}
