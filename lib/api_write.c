/* put and delete. A write is one command of the state machine, encoded in the caller's thread. */
#include "lib/api.h"

#include "kv/command.h"

/* Takes the request on success only. */
static int set_command(struct request *request, const struct kv_command *command) {
    request->command = kv_command_encode(command);
    return request->command != NULL ? 0 : api_fail(LKV_ENOMEM, "out of memory for a command");
}

static int make_write(struct lkv *db, const struct kv_command *command, int64_t timeout_ms,
                      struct request **out) {
    int rc = api_begin(db, REQUEST_WRITE, timeout_ms, out);
    if (rc != 0) {
        return rc;
    }
    rc = set_command(*out, command);
    if (rc != 0) {
        request_free(*out);
        *out = NULL;
    }
    return rc;
}

static int check_put(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value,
                     struct kv_command *out) {
    *out = (struct kv_command){.op = KV_PUT};
    int rc = api_slice(key, &out->key);
    if (rc == 0) {
        rc = api_slice(value, &out->value);
    }
    if (rc != 0 || db == NULL) {
        return rc; /* a NULL handle is api_begin's to refuse */
    }
    struct limits limits = api_limits(db);
    struct reason why = {{0}};
    rc = limits_check_key(&limits, out->key, &why);
    if (rc == 0) {
        rc = limits_check_value(&limits, out->value, &why);
    }
    return rc == 0 ? 0 : api_fail_with(rc, &why);
}

static int make_put(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value,
                    int64_t timeout_ms, struct request **out) {
    struct kv_command command;
    int rc = check_put(db, key, value, &command);
    return rc == 0 ? make_write(db, &command, timeout_ms, out) : rc;
}

/* The command's ends of the range [from, to) of the public header, in which an empty `to` means "to
 * the last key", and so does an `end` of one zero byte in the command. */
static void set_range(struct kv_command *command, struct slice from, struct slice to) {
    static const uint8_t zeros[2] = {0, 0};
    const struct slice first = slice_of(zeros, 1);
    const struct slice second = slice_of(zeros, 2);

    command->key = from.size > 0 ? from : first;
    command->end = to.size > 0 ? to : first;
    if (slice_equal(to, first)) {
        /* No key lies below "\0". Passed on as it is, it would delete everything instead. */
        command->key = second;
        command->end = second;
    }
}

static int check_delete(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to, bool range,
                        struct kv_command *out) {
    *out = (struct kv_command){.op = KV_DELETE};
    struct slice first, end = {0};
    int rc = api_slice(from, &first);
    if (rc == 0 && range) {
        rc = api_slice(to, &end);
    }
    if (rc != 0 || db == NULL) {
        return rc;
    }
    struct limits limits = api_limits(db);
    struct reason why = {{0}};
    if (range) {
        rc = limits_check_end(&limits, first, false, &why);
        rc = rc == 0 ? limits_check_end(&limits, end, false, &why) : rc;
        set_range(out, first, end);
    } else {
        rc = limits_check_key(&limits, first, &why);
        out->key = first;
    }
    return rc == 0 ? 0 : api_fail_with(rc, &why);
}

static int make_delete(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to, bool range,
                       int64_t timeout_ms, struct request **out) {
    struct kv_command command;
    int rc = check_delete(db, from, to, range, &command);
    return rc == 0 ? make_write(db, &command, timeout_ms, out) : rc;
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
