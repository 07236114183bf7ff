#include "lib/server_call.h"

#include "base/assert.h"
#include "base/crc.h"
#include "lib/lease.h"
#include "lib/session.h"
#include "lib/write_command.h"

/* What a reply may pin or allocate: a page of a range is about 1 MiB. */
enum {
    LEASE_REPLY_BYTES = 64 * 1024,
    GET_REPLY_BYTES = 4096,
    PAGE_REPLY_BYTES = 1024 * 1024,
    STATUS_REPLY_BYTES = 16 * 1024
};

static int out_of_memory(struct reason *why) {
    return reason_set(why, LKV_ENOMEM, "out of memory for a request");
}

/* ------------------------------------------------------------------ writes */

static void note(const struct kv_command *command, struct request *request) {
    request->level = (uint8_t)kv_command_level(command);
    request->write_op = (uint8_t)command->op;
    request->in_term = kv_command_has_keys(command) ? command->in_term : 0;
    request->answers = command->op == KV_TXN || (command->flags & KV_PREVIOUS) != 0;
}

static int encode(const struct kv_command *command, struct request *request, struct reason *why) {
    note(command, request);
    request->command = kv_command_encode(command);
    return request->command != NULL ? 0 : out_of_memory(why);
}

static int encode_in_session(const struct wire_call *call, const struct limits *limits,
                             struct kv_command *command, struct request *request,
                             struct reason *why) {
    command->session = request->session = call->session;
    command->seq = call->seq;
    command->acked_below = call->acked_below;
    request->repeatable = call->session != 0;
    int rc = call->session != 0 ? write_command_check(limits, command, why) : 0;
    return rc == 0 ? encode(command, request, why) : rc;
}

static int fill_put(const struct wire_call *call, const struct limits *limits,
                    struct request *request, struct reason *why) {
    struct kv_command command;
    int rc = write_command_put(limits, call->key, call->value, &command, why);
    return rc == 0 ? encode_in_session(call, limits, &command, request, why) : rc;
}

static int fill_delete(const struct wire_call *call, const struct limits *limits,
                       struct request *request, struct reason *why) {
    struct kv_command command;
    int rc = call->has_end ? write_command_delete_range(limits, call->key, call->end, &command, why)
                           : write_command_delete(limits, call->key, &command, why);
    return rc == 0 ? encode_in_session(call, limits, &command, request, why) : rc;
}

static int fill_session(const struct wire_call *call, const struct limits *limits,
                        struct request *request, struct reason *why) {
    struct kv_command command = {.op = KV_SESSION_CLOSE, .session = call->session};
    if (call->method == WIRE_SESSION_OPEN) {
        command = (struct kv_command){.op = KV_SESSION_OPEN,
                                      .session = call->session,
                                      .ttl_ms = call->ttl_ms,
                                      .limit = limits->sessions_max};
        if (call->ttl_ms < SESSION_TTL_MS_MIN || call->ttl_ms > KV_SESSION_TTL_MS_MAX) {
            return reason_set(why, LKV_EINVAL, "a ttl of %llu ms, expected %d to %d",
                              (unsigned long long)call->ttl_ms, SESSION_TTL_MS_MIN,
                              KV_SESSION_TTL_MS_MAX);
        }
    } else if (call->session == 0) {
        return reason_set(why, LKV_EINVAL, "no session has the id 0");
    }
    request->session = command.session;
    request->repeatable = true;
    return encode(&command, request, why);
}

static int fill_keep(const struct wire_call *call, struct request *request, struct reason *why) {
    request->session = call->session;
    return call->session != 0 ? 0 : reason_set(why, LKV_EINVAL, "no session has the id 0");
}

static int fill_lease_write(const struct wire_call *call, struct request *request,
                            struct reason *why) {
    struct kv_command command = {.op = KV_LEASE_REVOKE, .lease = call->lease};
    if (call->method == WIRE_LEASE_GRANT) {
        command.op = KV_LEASE_GRANT;
        command.ttl_ms = call->ttl_ms;
        command.limit = KV_LEASES_MAX;
    } else {
        request->lease = call->lease;
    }
    if (call->method == WIRE_LEASE_GRANT &&
        (call->ttl_ms < LEASE_TTL_MS_MIN || call->ttl_ms > KV_LEASE_TTL_MS_MAX)) {
        return reason_set(why, LKV_EINVAL, "a ttl of %llu ms, expected %d to %llu",
                          (unsigned long long)call->ttl_ms, LEASE_TTL_MS_MIN,
                          (unsigned long long)KV_LEASE_TTL_MS_MAX);
    }
    return encode(&command, request, why);
}

static int fill_lease_read(const struct wire_call *call, struct request *request,
                           struct reason *why) {
    request->lease = call->lease;
    request->limit = call->limit < SIZE_MAX ? (size_t)call->limit : SIZE_MAX;
    if (call->method != WIRE_LEASE_TTL) {
        return 0;
    }
    int rc = request_set_keys(request, call->key, (struct slice){0});
    return rc == 0 ? 0 : out_of_memory(why);
}

/* The leader says how many sessions there may be, whatever its client believes. */
static int encode_foreign(const struct limits *limits, struct kv_command *command,
                          struct slice bytes, struct request *request, struct reason *why) {
    note(command, request);
    request->session = command->session;
    request->repeatable = !kv_command_has_keys(command) || command->session != 0;
    if (command->op == KV_SESSION_OPEN) {
        command->limit = limits->sessions_max;
        return encode(command, request, why);
    }
    if (command->op == KV_LEASE_GRANT) {
        command->limit = KV_LEASES_MAX;
        return encode(command, request, why);
    }
    request->lease = command->op == KV_LEASE_REVOKE ? command->lease : 0;
    request->command = blob_copy(bytes);
    if (request->command == NULL) {
        return out_of_memory(why);
    }
    request->command->crc = crc32c(0, bytes);
    request->command->crc_known = true;
    return 0;
}

/* A command that cannot be understood stops every node that applies it: none gets past here. */
static int fill_propose(const struct wire_call *call, const struct limits *limits,
                        struct request *request, struct reason *why) {
    struct kv_command command;
    int rc = kv_command_decode(call->command, &command, why);
    rc = rc == 0 ? write_command_check(limits, &command, why) : rc;
    return rc == 0 ? encode_foreign(limits, &command, call->command, request, why) : rc;
}

static int fill_append(const struct wire_call *call, const struct limits *limits,
                       struct request *request, struct reason *why) {
    int rc = limits_check_records(limits, call->records, call->record_count, why);
    if (rc != 0) {
        return rc;
    }
    request->in_term = call->in_term;
    if (call->session == 0) {
        rc = request_set_records(request, call->records, call->record_count);
    } else if (call->seq == 0) {
        return reason_set(why, LKV_EINVAL, "sequence numbers of a session begin at 1");
    } else {
        const struct session_call numbers = {
            .id = call->session, .seq = call->seq, .acked_below = call->acked_below};
        rc = request_set_records_once(request, call->records, call->record_count, &numbers);
    }
    return rc == 0 ? 0 : out_of_memory(why);
}

/* ------------------------------------------------------------------ reads */

static int fill_get(const struct wire_call *call, const struct limits *limits,
                    struct request *request, struct reason *why) {
    int rc = limits_check_key(limits, call->key, why);
    if (rc != 0) {
        return rc;
    }
    request->how = call->how;
    request->select.rev = call->select.rev;
    rc = request_set_keys(request, call->key, (struct slice){0});
    return rc == 0 ? 0 : out_of_memory(why);
}

static int fill_range(const struct wire_call *call, const struct limits *limits,
                      struct request *request, struct reason *why) {
    int rc = limits_check_end(limits, call->key, true, why);
    rc = rc == 0 ? limits_check_end(limits, call->end, true, why) : rc;
    if (rc != 0) {
        return rc;
    }
    request->how = call->how;
    request->range_flags = call->range_flags;
    request->limit = call->limit < SIZE_MAX ? (size_t)call->limit : SIZE_MAX;
    request->select = call->select;
    rc = request_set_keys(request, call->key, call->end);
    return rc == 0 ? 0 : out_of_memory(why);
}

static int fill_view(const struct wire_call *call, struct request *request, struct reason *why) {
    if (call->view_age_ms < 1 || call->view_age_ms > LKV_VIEW_AGE_MS_MAX) {
        return reason_set(why, LKV_EINVAL, "a view of %llu ms, expected 1 to %d",
                          (unsigned long long)call->view_age_ms, LKV_VIEW_AGE_MS_MAX);
    }
    request->how = call->how;
    request->select.rev = call->select.rev;
    request->view_age_ms = call->view_age_ms;
    return 0;
}

static int fill_watch(const struct wire_call *call, const struct limits *limits,
                      struct request *request, struct reason *why) {
    int rc = limits_check_end(limits, call->key, true, why);
    rc = rc == 0 ? limits_check_end(limits, call->end, true, why) : rc;
    if (rc != 0) {
        return rc;
    }
    request->from = call->from;
    request->from_sub = call->from_sub;
    request->watch_flags = call->watch_flags;
    request->bytes_max = call->bytes_max < SIZE_MAX ? (size_t)call->bytes_max : SIZE_MAX;
    request->wait = call->wait;
    rc = request_set_keys(request, call->key, call->end);
    return rc == 0 ? 0 : out_of_memory(why);
}

/* ------------------------------------------------------------------ both */

static enum request_op op_of(enum wire_method method) {
    switch (method) {
    case WIRE_GET: return REQUEST_GET;
    case WIRE_RANGE: return REQUEST_RANGE;
    case WIRE_STATUS: return REQUEST_STATUS;
    case WIRE_DIGEST: return REQUEST_DIGEST;
    case WIRE_APPEND: return REQUEST_APPEND;
    case WIRE_LOG_READ: return REQUEST_LOG_READ;
    case WIRE_LOG_SPAN: return REQUEST_LOG_SPAN;
    case WIRE_SESSION_KEEP: return REQUEST_SESSION_KEEP;
    case WIRE_VIEW_OPEN: return REQUEST_VIEW_OPEN;
    case WIRE_VIEW_CLOSE: return REQUEST_VIEW_CLOSE;
    case WIRE_LEASE_KEEP: return REQUEST_LEASE_KEEP;
    case WIRE_LEASE_TTL: return REQUEST_LEASE_TTL;
    case WIRE_LEASE_LIST: return REQUEST_LEASE_LIST;
    case WIRE_LEASE_GRANT:
    case WIRE_LEASE_REVOKE:
    case WIRE_WATCH: return REQUEST_WATCH;
    case WIRE_PING:
    case WIRE_PUT:
    case WIRE_DELETE:
    case WIRE_PROPOSE:
    case WIRE_SESSION_OPEN:
    case WIRE_SESSION_CLOSE: break;
    }
    return REQUEST_WRITE;
}

static int fill(const struct wire_call *call, const struct limits *limits, struct request *request,
                struct reason *why) {
    switch (call->method) {
    case WIRE_PUT: return fill_put(call, limits, request, why);
    case WIRE_DELETE: return fill_delete(call, limits, request, why);
    case WIRE_PROPOSE: return fill_propose(call, limits, request, why);
    case WIRE_SESSION_OPEN:
    case WIRE_SESSION_CLOSE: return fill_session(call, limits, request, why);
    case WIRE_GET: return fill_get(call, limits, request, why);
    case WIRE_RANGE: return fill_range(call, limits, request, why);
    case WIRE_APPEND: return fill_append(call, limits, request, why);
    case WIRE_LOG_READ:
        request->from = call->from;
        request->bytes_max = call->bytes_max < SIZE_MAX ? (size_t)call->bytes_max : SIZE_MAX;
        request->wait = call->wait;
        break;
    case WIRE_LOG_SPAN: request->how = call->how; break;
    case WIRE_WATCH: return fill_watch(call, limits, request, why);
    case WIRE_SESSION_KEEP: return fill_keep(call, request, why);
    case WIRE_VIEW_OPEN: return fill_view(call, request, why);
    case WIRE_VIEW_CLOSE: request->view = call->view; break;
    case WIRE_LEASE_GRANT:
    case WIRE_LEASE_REVOKE: return fill_lease_write(call, request, why);
    case WIRE_LEASE_KEEP:
    case WIRE_LEASE_TTL:
    case WIRE_LEASE_LIST: return fill_lease_read(call, request, why);
    case WIRE_STATUS:
    case WIRE_DIGEST:
    case WIRE_PING: break;
    }
    return 0;
}

static size_t reply_bytes(const struct request *request) {
    switch (request->op) {
    case REQUEST_WRITE: return request->answers ? PAGE_REPLY_BYTES : 0;
    case REQUEST_APPEND:
    case REQUEST_LOG_SPAN:
    case REQUEST_SESSION_KEEP:
    case REQUEST_VIEW_OPEN:
    case REQUEST_VIEW_CLOSE:
    case REQUEST_LEASE_KEEP:
    case REQUEST_WATCH: /* counted by itself: server_conn.c */
    case REQUEST_LOG_HOLD:
    case REQUEST_IMAGE: return 0;
    case REQUEST_LEASE_TTL:
    case REQUEST_LEASE_LIST: return LEASE_REPLY_BYTES;
    /* One that waits occupies nothing; many of them must not keep a connection from being read. */
    case REQUEST_LOG_READ: return request->wait ? GET_REPLY_BYTES : PAGE_REPLY_BYTES;
    case REQUEST_GET: return GET_REPLY_BYTES;
    case REQUEST_RANGE: return PAGE_REPLY_BYTES;
    case REQUEST_STATUS:
    case REQUEST_DIGEST: return STATUS_REPLY_BYTES;
    }
    return 0;
}

int server_call_request(const struct wire_call *call, const struct limits *limits,
                        struct request **out, struct reason *why) {
    ASSERT(call->method != WIRE_PING);
    *out = NULL;
    struct request *request = request_new(op_of(call->method));
    if (request == NULL) {
        return out_of_memory(why);
    }
    request->forwarded = (call->flags & WIRE_HERE) != 0;
    request->no_park = (call->flags & WIRE_NO_WAIT) != 0;
    int rc = fill(call, limits, request, why);
    if (rc != 0) {
        request_free(request);
        return rc;
    }
    request->cost = sizeof(*request) + sizeof(*request->reply) + reply_bytes(request) +
                    blob_slice(request->bytes).size + blob_slice(request->command).size +
                    request_records_cost(request);
    *out = request;
    return 0;
}
