/* get and range. */
#include "lib/api.h"

static int check_how(enum lkv_read how) {
    if (how == LKV_LINEARIZABLE || how == LKV_LOCAL) {
        return 0;
    }
    return api_fail(LKV_EINVAL, "there is no way %d to read", (int)how);
}

static int check_key(const struct lkv *db, struct lkv_bytes bytes, struct slice *out) {
    int rc = api_slice(bytes, out);
    if (rc != 0) {
        return rc;
    }
    struct limits limits = api_limits(db);
    struct reason why = {{0}};
    rc = limits_check_key(&limits, *out, &why);
    return rc == 0 ? 0 : api_fail_with(rc, &why);
}

static int make_read(struct lkv *db, enum request_op op, struct slice key, struct slice end,
                     enum lkv_read how, int64_t timeout_ms, struct request **out) {
    int rc = check_how(how);
    if (rc == 0) {
        rc = api_begin(db, op, timeout_ms, out);
    }
    if (rc != 0) {
        return rc;
    }
    (*out)->how = how;
    rc = request_set_keys(*out, key, end);
    if (rc != 0) {
        request_free(*out);
        *out = NULL;
        return api_fail(rc, "out of memory for a key");
    }
    return 0;
}

static int make_get(struct lkv *db, struct lkv_bytes bytes, enum lkv_read how, int64_t timeout_ms,
                    struct request **out) {
    struct slice key;
    int rc = check_key(db, bytes, &key);
    return rc == 0 ? make_read(db, REQUEST_GET, key, (struct slice){0}, how, timeout_ms, out) : rc;
}

int lkv_get(struct lkv *db, struct lkv_bytes key, enum lkv_read how, int64_t timeout_ms,
            struct lkv_msg **out) {
    if (out != NULL) {
        *out = NULL;
    }
    struct request *request;
    int rc = make_get(db, key, how, timeout_ms, &request);
    return rc == 0 ? api_call(db, request, out) : rc;
}

int lkv_get_submit(struct lkv *db, struct lkv_bytes key, enum lkv_read how, int64_t timeout_ms,
                   struct lkv_queue *queue, void *tag) {
    struct request *request;
    int rc = make_get(db, key, how, timeout_ms, &request);
    return rc == 0 ? api_submit(db, request, queue, tag) : rc;
}

int lkv_get_copy(struct lkv *db, struct lkv_bytes bytes, void *buf, size_t cap, size_t *size) {
    if (db == NULL) {
        return api_fail(LKV_EINVAL, "the handle is NULL");
    }
    if (db->ops->get_copy == NULL) {
        return api_fail(LKV_EUNSUPPORTED, "only a node in this process reads without a message");
    }
    struct slice key;
    int rc = check_key(db, bytes, &key);
    if (rc != 0) {
        return rc;
    }
    rc = db->ops->get_copy(db, key, buf, cap, size);
    return rc == 0 ? 0 : api_fail(rc, "%s", error_text(rc));
}

/* ------------------------------------------------------------------ ranges */

static int check_range(const struct lkv *db, struct slice from, struct slice to, int flags) {
    const int known = LKV_KEYS_ONLY | LKV_COUNT_ONLY | LKV_DESCENDING | LKV_TOTAL;
    if ((flags & ~known) != 0) {
        return api_fail(LKV_EINVAL, "unknown flags of a range: %#x", (unsigned)(flags & ~known));
    }
    struct limits limits = api_limits(db);
    struct reason why = {{0}};
    int rc = limits_check_end(&limits, from, true, &why);
    rc = rc == 0 ? limits_check_end(&limits, to, true, &why) : rc;
    return rc == 0 ? 0 : api_fail_with(rc, &why);
}

static int make_range(struct lkv *db, struct lkv_bytes from_bytes, struct lkv_bytes to_bytes,
                      size_t limit, int flags, enum lkv_read how, int64_t timeout_ms,
                      struct request **out) {
    struct slice from, to;
    int rc = api_slice(from_bytes, &from);
    rc = rc == 0 ? api_slice(to_bytes, &to) : rc;
    rc = rc == 0 ? check_range(db, from, to, flags) : rc;
    rc = rc == 0 ? make_read(db, REQUEST_RANGE, from, to, how, timeout_ms, out) : rc;
    if (rc == 0) {
        (*out)->limit = limit;
        (*out)->range_flags = flags;
    }
    return rc;
}

int lkv_range(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to, size_t limit, int flags,
              enum lkv_read how, int64_t timeout_ms, struct lkv_msg **out) {
    if (out != NULL) {
        *out = NULL;
    }
    struct request *request;
    int rc = make_range(db, from, to, limit, flags, how, timeout_ms, &request);
    return rc == 0 ? api_call(db, request, out) : rc;
}

int lkv_range_submit(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to, size_t limit,
                     int flags, enum lkv_read how, int64_t timeout_ms, struct lkv_queue *queue,
                     void *tag) {
    struct request *request;
    int rc = make_range(db, from, to, limit, flags, how, timeout_ms, &request);
    return rc == 0 ? api_submit(db, request, queue, tag) : rc;
}

/* The prefix without its trailing 0xff bytes, its last byte raised by one. */
size_t lkv_prefix_end(struct lkv_bytes prefix, void *buf) {
    const uint8_t *bytes = prefix.data;
    uint8_t *end = buf;
    size_t size = prefix.size;
    while (size > 0 && bytes[size - 1] == 0xff) {
        size--;
    }
    if (size > 0) {
        memmove(end, bytes, size);
        end[size - 1]++;
    }
    return size;
}
