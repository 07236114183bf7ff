/* The ledger itself: append, read, tail, span, hold. */
#include "base/mem.h"
#include "lib/api.h"
#include "lib/option_value.h"
#include "lib/session.h"
#include "lib/tail.h"

enum { TAIL_CREDIT_MIN = 4096 };

static void get_number(const struct lkv_msg *reply, const char *name, uint64_t *out) {
    if (out != NULL && !lkv_msg_u64(reply, name, out)) {
        *out = 0;
    }
}

/* ------------------------------------------------------------------ append */

/* The caller's records as slices, in an array to be freed. */
static int take_slices(const struct lkv_bytes *records, size_t count, struct slice **out) {
    *out = NULL;
    if (records == NULL && count > 0) {
        return api_fail(LKV_EINVAL, "%zu records at a NULL pointer", count);
    }
    if (count == 0 || count > LKV_APPEND_RECORDS_MAX) {
        return 0; /* refused, with its reason, by the check of limits */
    }
    struct slice *slices = mem_calloc(count, sizeof(*slices));
    int rc = slices != NULL ? 0 : api_fail(LKV_ENOMEM, "out of memory for records");
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = api_slice(records[i], &slices[i]);
    }
    if (rc != 0) {
        mem_free(slices);
        return rc;
    }
    *out = slices;
    return 0;
}

static int make_append(struct lkv *db, const struct slice *records, size_t count, uint64_t in_term,
                       int64_t timeout_ms, struct request **out) {
    struct limits limits = api_limits(db);
    struct reason why = {{0}};
    int rc = limits_check_records(&limits, records, count, &why);
    if (rc != 0) {
        return api_fail_with(rc, &why);
    }
    rc = api_begin(db, REQUEST_APPEND, timeout_ms, out);
    if (rc != 0) {
        return rc;
    }
    (*out)->in_term = in_term;
    if (request_set_records(*out, records, count) != 0) {
        request_free(*out);
        *out = NULL;
        return api_fail(LKV_ENOMEM, "out of memory for records");
    }
    return 0;
}

static int append_request(struct lkv *db, const struct lkv_bytes *records, size_t count,
                          uint64_t in_term, int64_t timeout_ms, struct request **out) {
    struct slice *slices;
    int rc = take_slices(records, count, &slices);
    if (rc == 0) {
        rc = make_append(db, slices, count, in_term, timeout_ms, out);
        mem_free(slices);
    }
    return rc;
}

static int call_append(struct lkv *db, struct request *request, uint64_t *index) {
    struct lkv_msg *reply = NULL;
    int rc = api_call(db, request, &reply);
    if (rc == 0) {
        get_number(reply, "index", index);
    }
    lkv_msg_free(reply);
    return rc;
}

int lkv_append(struct lkv *db, const struct lkv_bytes *records, size_t count, uint64_t in_term,
               int64_t timeout_ms, uint64_t *index) {
    struct request *request;
    int rc = append_request(db, records, count, in_term, timeout_ms, &request);
    return rc == 0 ? call_append(db, request, index) : rc;
}

int lkv_append_submit(struct lkv *db, const struct lkv_bytes *records, size_t count,
                      uint64_t in_term, int64_t timeout_ms, struct lkv_queue *queue, void *tag) {
    struct request *request;
    int rc = append_request(db, records, count, in_term, timeout_ms, &request);
    return rc == 0 ? api_submit(db, request, queue, tag) : rc;
}

/* ------------------------------------------------------------------ append once */

/* The number is taken first, since the records say up to where all are answered. */
static int make_append_once(struct lkv_session *session, struct lkv *db,
                            const struct slice *records, size_t count, uint64_t in_term,
                            struct session_call *call, int64_t timeout_ms, struct request **out) {
    struct limits limits = api_limits(db);
    struct reason why = {{0}};
    int rc = limits_check_records(&limits, records, count, &why);
    rc = rc == 0 ? session_use(session, call->seq, &call->acked_below, &why) : rc;
    if (rc != 0) {
        return api_fail_with(rc, &why);
    }
    rc = api_begin(db, REQUEST_APPEND, timeout_ms, out);
    if (rc == 0) {
        (*out)->in_term = in_term;
        if (request_set_records_once(*out, records, count, call) != 0) {
            request_free(*out);
            *out = NULL;
            rc = api_fail(LKV_ENOMEM, "out of memory for records");
        }
    }
    if (rc != 0) {
        session_give_back(session, call->seq);
        return api_fail_once(session, call->seq, rc);
    }
    session_attach(session, *out, call->seq);
    return 0;
}

static int append_once_request(struct lkv_session *session, uint64_t seq,
                               const struct lkv_bytes *records, size_t count, uint64_t in_term,
                               int64_t timeout_ms, struct lkv **db, struct request **out) {
    if (session == NULL) {
        return api_fail(LKV_EINVAL, "the session is NULL");
    }
    struct session_numbers numbers = session_numbers(session);
    struct session_call call = {.id = numbers.id, .seq = seq};
    if (numbers.db == NULL) {
        return api_fail_closed(session, seq);
    }
    struct slice *slices;
    int rc = take_slices(records, count, &slices);
    if (rc == 0) {
        rc = make_append_once(session, numbers.db, slices, count, in_term, &call, timeout_ms, out);
        mem_free(slices);
    }
    *db = numbers.db;
    return rc;
}

int lkv_append_once(struct lkv_session *session, uint64_t seq, const struct lkv_bytes *records,
                    size_t count, uint64_t in_term, int64_t timeout_ms, uint64_t *index) {
    struct lkv *db;
    struct request *request;
    int rc = append_once_request(session, seq, records, count, in_term, timeout_ms, &db, &request);
    return rc == 0 ? call_append(db, request, index) : rc;
}

int lkv_append_once_submit(struct lkv_session *session, uint64_t seq,
                           const struct lkv_bytes *records, size_t count, uint64_t in_term,
                           int64_t timeout_ms, struct lkv_queue *queue, void *tag) {
    struct lkv *db;
    struct request *request;
    int rc = append_once_request(session, seq, records, count, in_term, timeout_ms, &db, &request);
    return rc == 0 ? api_submit(db, request, queue, tag) : rc;
}

/* ------------------------------------------------------------------ span and read */

int lkv_log_span(struct lkv *db, enum lkv_read how, int64_t timeout_ms, uint64_t *first,
                 uint64_t *commit) {
    struct request *request;
    int rc = api_check_how(how);
    rc = rc == 0 ? api_begin(db, REQUEST_LOG_SPAN, timeout_ms, &request) : rc;
    if (rc != 0) {
        return rc;
    }
    request->how = how;
    struct lkv_msg *reply = NULL;
    rc = api_call(db, request, &reply);
    if (rc == 0) {
        get_number(reply, "first", first);
        get_number(reply, "commit", commit);
    }
    lkv_msg_free(reply);
    return rc;
}

static int make_read(struct lkv *db, uint64_t from, size_t bytes_max, int64_t timeout_ms,
                     struct request **out) {
    int rc = api_begin(db, REQUEST_LOG_READ, timeout_ms, out);
    if (rc == 0) {
        (*out)->from = from;
        (*out)->bytes_max = bytes_max;
    }
    return rc;
}

int lkv_log_read(struct lkv *db, uint64_t from, size_t bytes_max, int64_t timeout_ms,
                 struct lkv_msg **out) {
    if (out != NULL) {
        *out = NULL;
    }
    struct request *request;
    int rc = make_read(db, from, bytes_max, timeout_ms, &request);
    return rc == 0 ? api_call(db, request, out) : rc;
}

int lkv_log_read_submit(struct lkv *db, uint64_t from, size_t bytes_max, int64_t timeout_ms,
                        struct lkv_queue *queue, void *tag) {
    struct request *request;
    int rc = make_read(db, from, bytes_max, timeout_ms, &request);
    return rc == 0 ? api_submit(db, request, queue, tag) : rc;
}

/* ------------------------------------------------------------------ tail */

int lkv_log_tail(struct lkv *db, uint64_t from, size_t credit_bytes, int flags,
                 struct lkv_queue *queue, void *tag) {
    if (db == NULL || queue == NULL) {
        return api_fail(LKV_EINVAL, "the handle or the queue is NULL");
    }
    if ((flags & ~LKV_GATES_READY) != 0) {
        return api_fail(LKV_EINVAL, "unknown flags of a tail: %#x", (unsigned)flags);
    }
    bool gates = (flags & LKV_GATES_READY) != 0;
    if (gates && db->ops->consumed == NULL) {
        return api_fail(LKV_EUNSUPPORTED, "only a node in this process has readiness to gate");
    }
    const struct tail_options options = {
        .from = from,
        .credit_bytes = credit_bytes > TAIL_CREDIT_MIN ? credit_bytes : TAIL_CREDIT_MIN,
        .gates_ready = gates,
        .queue = queue,
        .tag = tag};
    int rc = tail_open(db, &options);
    return rc == 0 ? 0 : api_fail(rc, "%s", error_text(rc));
}

int lkv_cancel(struct lkv *db, void *tag) {
    if (db == NULL) {
        return api_fail(LKV_EINVAL, "the handle is NULL");
    }
    int rc = subscriptions_cancel(&db->subscriptions, tag);
    return rc == 0 ? 0 : api_fail(rc, "no tail or watch has this tag");
}

/* ------------------------------------------------------------------ hold */

int lkv_log_hold(struct lkv *db, const char *name, uint64_t keep_from, int64_t timeout_ms) {
    if (db == NULL || name == NULL) {
        return api_fail(LKV_EINVAL, "the handle or the name is NULL");
    }
    if (db->ops->consumed == NULL) {
        return api_fail(LKV_EUNSUPPORTED, "only a node in this process has a log to hold");
    }
    char checked[NAME_SIZE];
    struct reason why = {{0}};
    if (option_name(slice_text(name), checked, &why) != 0) {
        return api_fail(LKV_EINVAL, "the hold's name: %s", why.text);
    }
    struct request *request;
    int rc = api_begin(db, REQUEST_LOG_HOLD, timeout_ms, &request);
    if (rc != 0) {
        return rc;
    }
    request->from = keep_from;
    if (request_set_keys(request, slice_text(checked), (struct slice){0}) != 0) {
        request_free(request);
        return api_fail(LKV_ENOMEM, "out of memory for a hold");
    }
    return api_call(db, request, NULL);
}
