/* lkv_view and lkv_iter: one revision, held for a while, and walks over it, on a node or a client alike.
 *
 *   lkv_view_open ──> the node pins a revision, for max_age ──> view id
 *   lkv_iter_next ──> items of the page at hand ──> none left: the next page, by its revision
 *
 * All that is asked of the handle are requests; what makes and takes them stands here apart from what
 * waits for them, for those who cannot wait. */
#ifndef LIB_VIEW_H
#define LIB_VIEW_H

#include "lib/api.h"

#include <pthread.h>

struct lkv_view {
    struct lkv_view *next; /* of the handle's list, under its mutex */
    atomic_uint refs;      /* the program, the list, each iterator */
    uint64_t rev, id;      /* 0 until it is opened */
    uint64_t age_ms;
    enum lkv_read how;
    uint64_t expires_ns; /* of the handle's clock: the node's time begins later */

    pthread_mutex_t mutex; /* of all that follows */
    struct lkv *db;        /* NULL: the handle is closed */
    bool closed;
};

/* The handle goes: what the program still holds of its views answers LKV_ECLOSED. */
void views_detach(struct lkv *db);

/* What lkv_view_open asks, for api_call or api_submit; its answer goes to api_view_opened. When that was
 * no success, lkv_view_close frees the view. */
MUST_USE int api_view_open(struct lkv *db, enum lkv_read how, uint64_t rev, int64_t max_age_ms,
                           struct lkv_view **out, struct request **request);
void api_view_opened(struct lkv_view *view, const struct lkv_msg *reply);

/* What an iterator asks for next; the answer, without error, goes to api_iter_take, which takes it. */
MUST_USE int api_iter_ask(struct lkv_iter *iter, struct lkv **db, struct request **request);
void api_iter_take(struct lkv_iter *iter, struct lkv_msg *page);

/* 1: an item; 0: the end; ITER_ASK: a page has to be asked for first. */
enum { ITER_ASK = 2 };
MUST_USE int api_iter_step(struct lkv_iter *iter, struct lkv_kv *out);

#endif
