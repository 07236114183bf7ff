/* The verbs of a handle, whatever it is inside: what they share, and those that are not about keys. */
#include "lib/api.h"

#include "base/assert.h"
#include "lib/client.h"
#include "lib/lease.h"
#include "lib/node.h"
#include "lib/session.h"
#include "lib/view.h"
#include "lib/waiter.h"

#include <stdarg.h>
#include <stdio.h>

/* Like errno: a call that returns a number has no other place for a sentence. */
static _Thread_local char last_text[REASON_SIZE];

const char *lkv_last_text(void) {
    return last_text;
}

int api_fail(int rc, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(last_text, sizeof(last_text), format, args);
    va_end(args);
    return rc;
}

int api_fail_with(int rc, const struct reason *why) {
    return api_fail(rc, "%s", why->text[0] != '\0' ? why->text : error_text(rc));
}

int api_slice(struct lkv_bytes bytes, struct slice *out) {
    if (bytes.data == NULL && bytes.size > 0) {
        return api_fail(LKV_EINVAL, "%zu bytes at a NULL pointer", bytes.size);
    }
    *out = slice_of(bytes.data, bytes.size);
    return 0;
}

/* ------------------------------------------------------------------ one request */

static uint64_t deadline_ns(const struct lkv *db, uint64_t timeout_ms) {
    uint64_t span_ns, at_ns;
    if (__builtin_mul_overflow(timeout_ms, MS_NS, &span_ns) ||
        __builtin_add_overflow(db->ops->now_ns(db), span_ns, &at_ns)) {
        return UINT64_MAX;
    }
    return at_ns;
}

int api_begin(struct lkv *db, enum request_op op, int64_t timeout_ms, struct request **out) {
    *out = NULL;
    if (db == NULL) {
        return api_fail(LKV_EINVAL, "the handle is NULL");
    }
    if (timeout_ms < LKV_DEFAULT) {
        return api_fail(LKV_EINVAL, "a timeout of %lld ms", (long long)timeout_ms);
    }
    struct request *request = request_new(op);
    if (request == NULL) {
        return api_fail(LKV_ENOMEM, "out of memory for a request");
    }
    request->deadline_ns =
        deadline_ns(db, timeout_ms == LKV_DEFAULT ? db->timeout_ms : (uint64_t)timeout_ms);
    *out = request;
    return 0;
}

/* What the request holds in memory until its message is taken: its limit is one of bytes. */
static size_t cost_of(const struct request *request) {
    return sizeof(struct request) + sizeof(struct lkv_msg) + blob_slice(request->bytes).size +
           blob_slice(request->command).size + request_records_cost(request);
}

static struct lkv_msg *take_reply(struct request *request) {
    struct lkv_msg *reply = request->reply;
    request->reply = NULL;
    return reply;
}

static void finish_to_queue(struct request *request) {
    queue_push(request->owner, take_reply(request));
}

static void finish_to_waiter(struct request *request) {
    waiter_complete(request->owner, take_reply(request));
}

/* A local read of a node needs nobody else: it is answered on the caller's thread. So is one of a leader with
 * a lease. */
static bool answer_here(struct lkv *db, struct request *request) {
    if (request->op == REQUEST_GET && request->how == LKV_LEASED && db->ops->get_leased != NULL) {
        return db->ops->get_leased(db, request);
    }
    if (request->op != REQUEST_GET || request->how != LKV_LOCAL || db->ops->get_local == NULL) {
        return false;
    }
    int rc = db->ops->get_local(db, request);
    if (rc == LKV_ECOMPACTED) { /* unless somebody's view keeps it: the loop knows */
        msg_clear(request->reply);
        return false;
    }
    if (rc != request->reply->rc) {
        msg_set_rc(request->reply, rc, NULL);
    }
    return true;
}

/* Hands the request over, or frees it. */
static int start(struct lkv *db, struct request *request) {
    request->cost = cost_of(request);
    if (answer_here(db, request)) {
        request_finish(request);
        return 0;
    }
    int rc = db->ops->submit(db, request);
    if (rc != 0) {
        struct reason why = {{0}};
        if (request->in_session != NULL && request->seq != 0) {
            rc = session_refusal(request->in_session, request->seq, rc, &why);
        }
        request_free(request);
        return api_fail_with(rc, &why);
    }
    return 0;
}

int api_submit(struct lkv *db, struct request *request, struct lkv_queue *queue, void *tag) {
    if (queue == NULL) {
        request_free(request);
        return api_fail(LKV_EINVAL, "the queue is NULL");
    }
    request->on_finish = finish_to_queue;
    request->owner = queue;
    request->reply->tag = tag;
    return start(db, request);
}

int api_call(struct lkv *db, struct request *request, struct lkv_msg **out) {
    if (out != NULL) {
        *out = NULL;
    }
    struct waiter waiter;
    waiter_init(&waiter);
    request->on_finish = finish_to_waiter;
    request->owner = &waiter;
    int rc = start(db, request);
    if (rc != 0) {
        return rc;
    }
    struct lkv_msg *reply = waiter_wait(&waiter);
    rc = reply->rc;
    if (rc != 0) {
        (void)api_fail(rc, "%s", lkv_msg_text(reply));
    }
    if (out != NULL) {
        *out = reply;
    } else {
        lkv_msg_free(reply);
    }
    return rc;
}

/* ------------------------------------------------------------------ open and close */

typedef int open_fn(struct lkv **out, const struct lkv_options *options, struct reason *why);

static int open_with(open_fn *open, struct lkv **out, const struct lkv_options *options,
                     struct lkv_msg **why) {
    struct reason reason = {{0}};
    int rc = options != NULL ? open(out, options, &reason)
                             : reason_set(&reason, LKV_EINVAL, "the options are NULL");
    if (rc == 0) {
        ASSERT(*out != NULL);
        return 0;
    }
    *out = NULL;
    (void)api_fail_with(rc, &reason);
    if (why != NULL) {
        *why = msg_new(LKV_REPLY, NULL);
        if (*why != NULL) {
            msg_set_rc(*why, rc, "%s", last_text);
        }
    }
    return rc;
}

int lkv_open(struct lkv **out, struct lkv_env *env, const struct lkv_options *options,
             struct lkv_msg **why) {
    *out = NULL;
    if (why != NULL) {
        *why = NULL;
    }
    if (env != NULL) {
        return api_fail(LKV_EUNSUPPORTED, "this version shares nothing between nodes: env is NULL");
    }
    return open_with(node_open, out, options, why);
}

int lkv_connect(struct lkv **out, const struct lkv_options *options, struct lkv_msg **why) {
    *out = NULL;
    if (why != NULL) {
        *why = NULL;
    }
    return open_with(client_open, out, options, why);
}

int lkv_close(struct lkv *db, int64_t handover_ms) {
    if (db == NULL) {
        return 0;
    }
    if (handover_ms == LKV_DEFAULT) {
        handover_ms = (int64_t)db->timeout_ms;
    }
    sessions_detach(db);
    views_detach(db);
    lease_holds_detach(db);
    subscriptions_close(&db->subscriptions);
    return db->ops->close(db, handover_ms > 0 ? handover_ms : 0);
}

/* ------------------------------------------------------------------ the node itself */

int lkv_role_watch(struct lkv *db, struct lkv_queue *queue, void *tag) {
    if (db == NULL || queue == NULL) {
        return api_fail(LKV_EINVAL, "the handle or the queue is NULL");
    }
    if (db->ops->role_watch == NULL) {
        return api_fail(LKV_EUNSUPPORTED, "only a node in this process has a role to watch");
    }
    int rc = db->ops->role_watch(db, queue, tag);
    return rc == 0 ? 0 : api_fail(rc, "%s", error_text(rc));
}

static int ask(struct lkv *db, enum request_op op, int64_t timeout_ms, struct lkv_msg **out) {
    if (out != NULL) {
        *out = NULL;
    }
    struct request *request;
    int rc = api_begin(db, op, timeout_ms, &request);
    return rc == 0 ? api_call(db, request, out) : rc;
}

int lkv_status(struct lkv *db, int64_t timeout_ms, struct lkv_msg **out) {
    return ask(db, REQUEST_STATUS, timeout_ms, out);
}

int lkv_digest(struct lkv *db, int64_t timeout_ms, struct lkv_msg **out) {
    return ask(db, REQUEST_DIGEST, timeout_ms, out);
}
