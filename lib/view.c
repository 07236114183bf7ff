#include "lib/view.h"

#include "base/buffer.h"
#include "base/loop.h"
#include "base/mem.h"

struct lkv_iter {
    struct lkv_view *view; /* owned reference */
    int flags;
    struct buffer from, to; /* what is left, once the page is read */
    struct lkv_msg *page;   /* owned; NULL before the first one */
    size_t at;              /* the page's next item */
    bool more;              /* behind the page */
};

/* ------------------------------------------------------------------ views: life */

static void release(struct lkv_view *view) {
    if (atomic_fetch_sub_explicit(&view->refs, 1, memory_order_acq_rel) == 1) {
        (void)pthread_mutex_destroy(&view->mutex);
        mem_free(view);
    }
}

static struct lkv_view *make(struct lkv *db) {
    struct lkv_view *view = mem_calloc(1, sizeof(*view));
    if (view == NULL) {
        return NULL;
    }
    atomic_init(&view->refs, 2);
    (void)pthread_mutex_init(&view->mutex, NULL);
    view->db = db;
    (void)pthread_mutex_lock(&db->views.mutex);
    view->next = db->views.first;
    db->views.first = view;
    (void)pthread_mutex_unlock(&db->views.mutex);
    return view;
}

static void delist(struct lkv *db, struct lkv_view *view) {
    (void)pthread_mutex_lock(&db->views.mutex);
    struct lkv_view **at = &db->views.first;
    while (*at != NULL && *at != view) {
        at = &(*at)->next;
    }
    bool found = *at != NULL;
    if (found) {
        *at = view->next;
    }
    (void)pthread_mutex_unlock(&db->views.mutex);
    if (found) {
        release(view);
    }
}

static struct lkv *leave(struct lkv_view *view) {
    (void)pthread_mutex_lock(&view->mutex);
    struct lkv *db = view->db;
    view->db = NULL;
    (void)pthread_mutex_unlock(&view->mutex);
    return db;
}

void views_detach(struct lkv *db) {
    struct lkv_view *view;
    do {
        (void)pthread_mutex_lock(&db->views.mutex);
        view = db->views.first;
        (void)pthread_mutex_unlock(&db->views.mutex);
        if (view != NULL) {
            (void)leave(view);
            delist(db, view);
        }
    } while (view != NULL);
}

/* ------------------------------------------------------------------ views: opening and closing */

int api_view_open(struct lkv *db, enum lkv_read how, uint64_t rev, int64_t max_age_ms,
                  struct lkv_view **out, struct request **request) {
    *out = NULL;
    *request = NULL;
    int rc = api_check_how(how);
    if (rc == 0 && (max_age_ms < 1 || max_age_ms > LKV_VIEW_AGE_MS_MAX)) {
        rc = api_fail(LKV_EINVAL, "a view of %lld ms, expected 1 to %d", (long long)max_age_ms,
                      LKV_VIEW_AGE_MS_MAX);
    }
    rc = rc == 0 ? api_begin(db, REQUEST_VIEW_OPEN, LKV_DEFAULT, request) : rc;
    if (rc != 0) {
        return rc;
    }
    struct lkv_view *view = make(db);
    if (view == NULL) {
        request_free(*request);
        *request = NULL;
        return api_fail(LKV_ENOMEM, "out of memory for a view");
    }
    view->how = how;
    view->age_ms = (uint64_t)max_age_ms;
    view->expires_ns = db->ops->now_ns(db) + view->age_ms * MS_NS;
    (*request)->how = how;
    (*request)->select.rev = rev;
    (*request)->view_age_ms = view->age_ms;
    *out = view;
    return 0;
}

void api_view_opened(struct lkv_view *view, const struct lkv_msg *reply) {
    (void)lkv_msg_u64(reply, "rev", &view->rev);
    (void)lkv_msg_u64(reply, "view", &view->id);
}

int lkv_view_open(struct lkv *db, enum lkv_read how, uint64_t rev, int64_t max_age_ms,
                  struct lkv_view **out) {
    struct request *request;
    struct lkv_view *view;
    *out = NULL;
    int rc = api_view_open(db, how, rev, max_age_ms, &view, &request);
    if (rc != 0) {
        return rc;
    }
    struct lkv_msg *reply = NULL;
    rc = api_call(db, request, &reply);
    if (rc == 0) {
        api_view_opened(view, reply);
        *out = view;
    } else {
        lkv_view_close(view);
    }
    lkv_msg_free(reply);
    return rc;
}

static void nobody_waits(struct request *request) {
    (void)request;
}

/* Without it the node keeps the view until its time is over. */
static void tell_closed(struct lkv *db, const struct lkv_view *view) {
    struct request *request = request_new(REQUEST_VIEW_CLOSE);
    if (request == NULL) {
        return;
    }
    request->cost = sizeof(*request) + sizeof(*request->reply);
    request->deadline_ns = view->expires_ns;
    request->view = view->id;
    request->on_finish = nobody_waits;
    if (db->ops->submit(db, request) != 0) {
        request_free(request);
    }
}

void lkv_view_close(struct lkv_view *view) {
    if (view == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&view->mutex);
    view->closed = true;
    (void)pthread_mutex_unlock(&view->mutex);
    struct lkv *db = leave(view);
    if (db != NULL) {
        if (view->id != 0 && db->ops->now_ns(db) < view->expires_ns) {
            tell_closed(db, view);
        }
        delist(db, view);
    }
    release(view);
}

uint64_t lkv_view_rev(const struct lkv_view *view) {
    return view != NULL ? view->rev : 0;
}

/* ------------------------------------------------------------------ iterators: steps */

static int too_old(const struct lkv_view *view) {
    return api_fail(LKV_EVIEW, "the view of revision %llu is too old: it was opened for %llu ms",
                    (unsigned long long)view->rev, (unsigned long long)view->age_ms);
}

static int use(struct lkv_view *view, struct lkv **db) {
    (void)pthread_mutex_lock(&view->mutex);
    bool closed = view->closed;
    *db = view->db;
    (void)pthread_mutex_unlock(&view->mutex);
    if (closed) {
        return api_fail(LKV_EVIEW, "the view of revision %llu is closed",
                        (unsigned long long)view->rev);
    }
    if (*db == NULL) {
        return api_fail(LKV_ECLOSED, "the handle of the view is closed");
    }
    return (*db)->ops->now_ns(*db) >= view->expires_ns ? too_old(view) : 0;
}

int api_iter_step(struct lkv_iter *iter, struct lkv_kv *out) {
    if (iter->page != NULL && lkv_msg_kv(iter->page, iter->at, out)) {
        iter->at++;
        return 1;
    }
    return iter->page == NULL || iter->more ? ITER_ASK : 0;
}

/* What is left begins, or ends, at the page's last key. */
static int move_on(struct lkv_iter *iter) {
    struct lkv_kv last;
    size_t count = iter->page != NULL ? lkv_msg_count(iter->page) : 0;
    if (count == 0 || !lkv_msg_kv(iter->page, count - 1, &last)) {
        return 0;
    }
    bool descends = (iter->flags & LKV_DESCENDING) != 0;
    struct buffer *edge = descends ? &iter->to : &iter->from;
    buffer_clear(edge);
    buffer_append(edge, last.key.data, last.key.size);
    if (!descends) {
        buffer_append(edge, "", 1); /* the first key behind it */
    }
    return edge->failed ? api_fail(LKV_ENOMEM, "out of memory for a key") : 0;
}

int api_iter_ask(struct lkv_iter *iter, struct lkv **db, struct request **request) {
    struct lkv_view *view = iter->view;
    *request = NULL;
    int rc = use(view, db);
    rc = rc == 0 ? move_on(iter) : rc;
    rc = rc == 0 ? api_begin(*db, REQUEST_RANGE, LKV_DEFAULT, request) : rc;
    if (rc != 0) {
        return rc;
    }
    struct request *made = *request;
    rc = request_set_keys(made, buffer_slice(&iter->from), buffer_slice(&iter->to));
    if (rc != 0) {
        request_free(made);
        *request = NULL;
        return api_fail(rc, "out of memory for a key");
    }
    made->how = view->how;
    made->range_flags = iter->flags;
    made->select.rev = view->rev;
    made->deadline_ns = made->deadline_ns < view->expires_ns ? made->deadline_ns : view->expires_ns;
    return 0;
}

void api_iter_take(struct lkv_iter *iter, struct lkv_msg *page) {
    uint64_t more = 0;
    lkv_msg_free(iter->page);
    (void)lkv_msg_u64(page, "more", &more);
    iter->page = page;
    iter->at = 0;
    iter->more = more != 0;
}

/* ------------------------------------------------------------------ iterators */

static int check_iter(const struct lkv *db, struct slice from, struct slice to, int flags) {
    const int known = LKV_KEYS_ONLY | LKV_DESCENDING;
    if ((flags & ~known) != 0) {
        return api_fail(LKV_EINVAL, "unknown flags of an iterator: %#x",
                        (unsigned)(flags & ~known));
    }
    return api_check_ends(db, from, to);
}

static int iter_make(struct lkv_view *view, struct slice from, struct slice to, int flags,
                     struct lkv_iter **out) {
    struct lkv_iter *iter = mem_calloc(1, sizeof(*iter));
    if (iter == NULL) {
        return api_fail(LKV_ENOMEM, "out of memory for an iterator");
    }
    (void)atomic_fetch_add_explicit(&view->refs, 1, memory_order_relaxed);
    iter->view = view;
    iter->flags = flags;
    buffer_init(&iter->from);
    buffer_init(&iter->to);
    buffer_append(&iter->from, from.data, from.size);
    buffer_append(&iter->to, to.data, to.size);
    if (iter->from.failed || iter->to.failed) {
        lkv_iter_close(iter);
        return api_fail(LKV_ENOMEM, "out of memory for an iterator");
    }
    *out = iter;
    return 0;
}

int lkv_iter_open(struct lkv_view *view, struct lkv_bytes from_bytes, struct lkv_bytes to_bytes,
                  int flags, struct lkv_iter **out) {
    struct slice from, to;
    struct lkv *db;
    *out = NULL;
    if (view == NULL) {
        return api_fail(LKV_EINVAL, "the view is NULL");
    }
    int rc = api_slice(from_bytes, &from);
    rc = rc == 0 ? api_slice(to_bytes, &to) : rc;
    rc = rc == 0 ? use(view, &db) : rc;
    rc = rc == 0 ? check_iter(db, from, to, flags) : rc;
    return rc == 0 ? iter_make(view, from, to, flags, out) : rc;
}

int lkv_iter_next(struct lkv_iter *iter, struct lkv_kv *out) {
    if (iter == NULL || out == NULL) {
        return api_fail(LKV_EINVAL, "the iterator or the item is NULL");
    }
    int step;
    while ((step = api_iter_step(iter, out)) == ITER_ASK) {
        struct request *request;
        struct lkv_msg *page = NULL;
        struct lkv *db;
        int rc = api_iter_ask(iter, &db, &request);
        if (rc != 0) {
            return rc;
        }
        rc = api_call(db, request, &page);
        if (rc != 0) {
            lkv_msg_free(page);
            return db->ops->now_ns(db) >= iter->view->expires_ns ? too_old(iter->view) : rc;
        }
        api_iter_take(iter, page);
    }
    return step;
}

void lkv_iter_close(struct lkv_iter *iter) {
    if (iter != NULL) {
        lkv_msg_free(iter->page);
        buffer_fini(&iter->from);
        buffer_fini(&iter->to);
        release(iter->view);
        mem_free(iter);
    }
}
