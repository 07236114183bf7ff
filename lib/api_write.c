/* put and delete. A write is one command of the state machine, encoded in the caller's thread. */
#include "lib/api.h"

#include "lib/write_command.h"

static int make_write(struct lkv *db, const struct kv_command *command, int64_t timeout_ms,
                      struct request **out) {
    int rc = api_begin(db, REQUEST_WRITE, timeout_ms, out);
    if (rc != 0) {
        return rc;
    }
    (*out)->command = kv_command_encode(command);
    if ((*out)->command == NULL) {
        request_free(*out);
        *out = NULL;
        return api_fail(LKV_ENOMEM, "out of memory for a command");
    }
    return 0;
}

/* A NULL handle has no limits: it is api_begin's to refuse. */
static int make_put(struct lkv *db, struct lkv_bytes key_bytes, struct lkv_bytes value_bytes,
                    int64_t timeout_ms, struct request **out) {
    struct slice key, value;
    int rc = api_slice(key_bytes, &key);
    rc = rc == 0 ? api_slice(value_bytes, &value) : rc;
    if (rc != 0) {
        return rc;
    }
    struct limits limits = api_limits(db);
    struct kv_command command;
    struct reason why = {{0}};
    rc = write_command_put(&limits, key, value, &command, &why);
    return rc == 0 ? make_write(db, &command, timeout_ms, out) : api_fail_with(rc, &why);
}

static int make_delete(struct lkv *db, struct lkv_bytes from_bytes, struct lkv_bytes to_bytes,
                       bool range, int64_t timeout_ms, struct request **out) {
    struct slice from, to = {0};
    int rc = api_slice(from_bytes, &from);
    if (rc == 0 && range) {
        rc = api_slice(to_bytes, &to);
    }
    if (rc != 0) {
        return rc;
    }
    struct limits limits = api_limits(db);
    struct kv_command command;
    struct reason why = {{0}};
    rc = range ? write_command_delete_range(&limits, from, to, &command, &why)
               : write_command_delete(&limits, from, &command, &why);
    return rc == 0 ? make_write(db, &command, timeout_ms, out) : api_fail_with(rc, &why);
}

static void get_number(const struct lkv_msg *reply, const char *name, uint64_t *out) {
    if (out != NULL && !lkv_msg_u64(reply, name, out)) {
        *out = 0;
    }
}

static int call_write(struct lkv *db, struct request *request, uint64_t *rev, uint64_t *count) {
    struct lkv_msg *reply = NULL;
    int rc = api_call(db, request, &reply);
    if (rc == 0) {
        get_number(reply, "rev", rev);
        get_number(reply, "count", count);
    }
    lkv_msg_free(reply);
    return rc;
}

int lkv_put(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value, int64_t timeout_ms,
            uint64_t *rev) {
    struct request *request;
    int rc = make_put(db, key, value, timeout_ms, &request);
    return rc == 0 ? call_write(db, request, rev, NULL) : rc;
}

int lkv_put_submit(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value, int64_t timeout_ms,
                   struct lkv_queue *queue, void *tag) {
    struct request *request;
    int rc = make_put(db, key, value, timeout_ms, &request);
    return rc == 0 ? api_submit(db, request, queue, tag) : rc;
}

int lkv_delete(struct lkv *db, struct lkv_bytes key, int64_t timeout_ms, uint64_t *rev) {
    struct request *request;
    int rc = make_delete(db, key, (struct lkv_bytes){0}, false, timeout_ms, &request);
    return rc == 0 ? call_write(db, request, rev, NULL) : rc;
}

int lkv_delete_range(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to, int64_t timeout_ms,
                     uint64_t *rev, uint64_t *count) {
    struct request *request;
    int rc = make_delete(db, from, to, true, timeout_ms, &request);
    return rc == 0 ? call_write(db, request, rev, count) : rc;
}

int lkv_delete_submit(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to, bool range,
                      int64_t timeout_ms, struct lkv_queue *queue, void *tag) {
    struct request *request;
    int rc = make_delete(db, from, to, range, timeout_ms, &request);
    return rc == 0 ? api_submit(db, request, queue, tag) : rc;
}
