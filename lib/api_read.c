/* get and range, of the newest revision and of older ones. */
#include "lib/api.h"

int api_check_how(enum lkv_read how) {
    switch (how) {
    case LKV_LINEARIZABLE:
    case LKV_LEASED:
    case LKV_BOUNDED:
    case LKV_LOCAL: return 0;
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
    int rc = api_check_how(how);
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

static int make_get(struct lkv *db, struct lkv_bytes bytes, uint64_t rev, enum lkv_read how,
                    int64_t timeout_ms, struct request **out) {
    struct slice key;
    int rc = check_key(db, bytes, &key);
    rc = rc == 0 ? make_read(db, REQUEST_GET, key, (struct slice){0}, how, timeout_ms, out) : rc;
    if (rc == 0) {
        (*out)->select.rev = rev;
    }
    return rc;
}

int lkv_get_at(struct lkv *db, struct lkv_bytes key, uint64_t rev, enum lkv_read how,
               int64_t timeout_ms, struct lkv_msg **out) {
    if (out != NULL) {
        *out = NULL;
    }
    struct request *request;
    int rc = make_get(db, key, rev, how, timeout_ms, &request);
    return rc == 0 ? api_call(db, request, out) : rc;
}

int lkv_get_at_submit(struct lkv *db, struct lkv_bytes key, uint64_t rev, enum lkv_read how,
                      int64_t timeout_ms, struct lkv_queue *queue, void *tag) {
    struct request *request;
    int rc = make_get(db, key, rev, how, timeout_ms, &request);
    return rc == 0 ? api_submit(db, request, queue, tag) : rc;
}

int lkv_get(struct lkv *db, struct lkv_bytes key, enum lkv_read how, int64_t timeout_ms,
            struct lkv_msg **out) {
    return lkv_get_at(db, key, 0, how, timeout_ms, out);
}

int lkv_get_submit(struct lkv *db, struct lkv_bytes key, enum lkv_read how, int64_t timeout_ms,
                   struct lkv_queue *queue, void *tag) {
    return lkv_get_at_submit(db, key, 0, how, timeout_ms, queue, tag);
}

int lkv_get_copy(struct lkv *db, struct lkv_bytes bytes, void *buf, size_t cap, size_t *size) {
    if (db == NULL) {
        return api_fail(LKV_EINVAL, "the handle is NULL");
    }
    if (size == NULL || (buf == NULL && cap > 0)) {
        return api_fail(LKV_EINVAL, "%zu bytes at a NULL buffer, or a NULL size", cap);
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

static int check_query(const struct lkv_query *query) {
    const int known = LKV_KEYS_ONLY | LKV_COUNT_ONLY | LKV_DESCENDING | LKV_TOTAL;
    if ((query->flags & ~known) != 0) {
        return api_fail(LKV_EINVAL, "unknown flags of a range: %#x",
                        (unsigned)(query->flags & ~known));
    }
    if (query->order < LKV_BY_KEY || query->order > LKV_BY_VALUE) {
        return api_fail(LKV_EINVAL, "there is no order %d of items", (int)query->order);
    }
    for (size_t i = 0; i < sizeof(query->reserved) / sizeof(query->reserved[0]); i++) {
        if (query->reserved[i] != NULL) {
            return api_fail(LKV_EINVAL, "what is reserved in a query is not NULL");
        }
    }
    return 0;
}

int api_check_ends(const struct lkv *db, struct slice from, struct slice to) {
    struct limits limits = api_limits(db);
    struct reason why = {{0}};
    int rc = limits_check_end(&limits, from, true, &why);
    rc = rc == 0 ? limits_check_end(&limits, to, true, &why) : rc;
    return rc == 0 ? 0 : api_fail_with(rc, &why);
}

static int make_query(struct lkv *db, const struct lkv_query *query, int64_t timeout_ms,
                      struct request **out) {
    struct slice from, to;
    if (query == NULL) {
        return api_fail(LKV_EINVAL, "the query is NULL");
    }
    int rc = api_slice(query->from, &from);
    rc = rc == 0 ? api_slice(query->to, &to) : rc;
    rc = rc == 0 ? check_query(query) : rc;
    rc = rc == 0 ? api_check_ends(db, from, to) : rc;
    rc = rc == 0 ? make_read(db, REQUEST_RANGE, from, to, query->how, timeout_ms, out) : rc;
    if (rc == 0) {
        (*out)->limit = query->limit;
        (*out)->range_flags = query->flags;
        (*out)->select = (struct read_select){.rev = query->rev,
                                              .order = query->order,
                                              .mod_rev_min = query->mod_rev_min,
                                              .mod_rev_max = query->mod_rev_max,
                                              .create_rev_min = query->create_rev_min,
                                              .create_rev_max = query->create_rev_max};
    }
    return rc;
}

int lkv_find(struct lkv *db, const struct lkv_query *query, int64_t timeout_ms,
             struct lkv_msg **out) {
    if (out != NULL) {
        *out = NULL;
    }
    struct request *request;
    int rc = make_query(db, query, timeout_ms, &request);
    return rc == 0 ? api_call(db, request, out) : rc;
}

int lkv_find_submit(struct lkv *db, const struct lkv_query *query, int64_t timeout_ms,
                    struct lkv_queue *queue, void *tag) {
    struct request *request;
    int rc = make_query(db, query, timeout_ms, &request);
    return rc == 0 ? api_submit(db, request, queue, tag) : rc;
}

int lkv_range(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to, size_t limit, int flags,
              enum lkv_read how, int64_t timeout_ms, struct lkv_msg **out) {
    const struct lkv_query query = {
        .from = from, .to = to, .limit = limit, .flags = flags, .how = how};
    return lkv_find(db, &query, timeout_ms, out);
}

int lkv_range_submit(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to, size_t limit,
                     int flags, enum lkv_read how, int64_t timeout_ms, struct lkv_queue *queue,
                     void *tag) {
    const struct lkv_query query = {
        .from = from, .to = to, .limit = limit, .flags = flags, .how = how};
    return lkv_find_submit(db, &query, timeout_ms, queue, tag);
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
