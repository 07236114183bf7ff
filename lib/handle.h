/* What a struct lkv is inside: the verbs of api.c on a node or on a client. */
#ifndef LIB_HANDLE_H
#define LIB_HANDLE_H

#include "lib/options.h"
#include "lib/own_image.h"
#include "lib/request.h"
#include "lib/subscription.h"

#include <pthread.h>

struct lkv_ops {
    /* Takes the request on success (0): one final message follows. LKV_EBUSY, LKV_ECLOSED: nothing
     * follows, the caller still owns it. Any thread. */
    int (*submit)(struct lkv *db, struct request *request);
    int (*close)(struct lkv *db, int64_t handover_ms);
    uint64_t (*now_ns)(const struct lkv *db);
    void (*wake)(struct lkv *db); /* its loop has a turn soon; any thread */
    /* NULL where the handle cannot (LKV_EUNSUPPORTED). */
    int (*get_copy)(struct lkv *db, struct slice key, void *into, size_t capacity, size_t *size);
    int (*get_local)(struct lkv *db,
                     struct request *request); /* fills request->reply, any thread */
    bool (*get_leased)(struct lkv *db, struct request *request); /* likewise; false: submit it */
    int (*role_watch)(struct lkv *db, struct lkv_queue *queue, void *tag);
    /* Where images of the program's state go; NULL: this node has none. */
    struct own_place *(*own)(struct lkv *db);
    /* A tail that gates readiness has got on; any thread. NULL: there is no role here to gate. */
    void (*consumed)(struct lkv *db);
};

/* The sessions that the program has open through a handle. Zero-initialised is empty. */
struct session_list {
    pthread_mutex_t mutex;
    struct lkv_session *first; /* owned references */
    atomic_size_t count;
    atomic_bool sooner; /* one may be due before due_ns */
    uint64_t due_ns;    /* loop thread: when the earliest keep-alive is */
};

/* The views that the program has open through a handle. Zero-initialised is empty. */
struct view_list {
    pthread_mutex_t mutex;
    struct lkv_view *first; /* owned references */
};

struct lease_hold;

/* The leases that it keeps alive for the program (lib/lease.h). Zero-initialised is empty. */
struct lease_list {
    pthread_mutex_t mutex;
    struct lease_hold *first; /* owned references */
    atomic_size_t count;
    atomic_bool sooner;    /* one may be due before due_ns */
    uint64_t due_ns;       /* loop thread: when the earliest one is */
    _Atomic(uint64_t) ids; /* of new leases: where the next one comes from */
};

struct lkv {
    const struct lkv_ops *ops;
    uint64_t timeout_ms, key_bytes_max, value_bytes_max, sessions_max;
    struct session_list sessions;
    struct view_list views;
    struct lease_list leases;
    struct subscriptions subscriptions; /* tails and watches */
};

/* lib/queue.c: a message for a queue, any thread; takes it. */
void queue_push(struct lkv_queue *queue, struct lkv_msg *msg);

#endif
