/* put and delete. A write is one command of the state machine, encoded in the caller's thread. */
#include "lib/api.h"

#include "lib/session.h"
#include "lib/write_command.h"

/* Where a write goes: to a handle, or with a number into a session of one. */
struct target {
    struct lkv *db;
    struct lkv_session *session; /* NULL: none */
    uint64_t seq;
    uint64_t id; /* the session's */
};

static struct target handle_target(struct lkv *db) {
    return (struct target){.db = db};
}

static int once_target(struct lkv_session *session, uint64_t seq, struct target *out) {
    if (session == NULL) {
        return api_fail(LKV_EINVAL, "the session is NULL");
    }
    struct session_numbers numbers = session_numbers(session);
    *out = (struct target){.db = numbers.db, .session = session, .seq = seq, .id = numbers.id};
    return numbers.db != NULL ? 0 : api_fail_closed(session, seq);
}

static int make_write(const struct target *target, const struct kv_command *command,
                      int64_t timeout_ms, struct request **out) {
    int rc = api_begin(target->db, REQUEST_WRITE, timeout_ms, out);
    if (rc != 0) {
        return rc;
    }
    (*out)->in_term = command->in_term;
    (*out)->write_op = (uint8_t)command->op;
    (*out)->answers = command->op == KV_TXN || (command->flags & KV_PREVIOUS) != 0;
    (*out)->level = (uint8_t)kv_command_level(command);
    (*out)->command = kv_command_encode(command);
    if ((*out)->command == NULL) {
        request_free(*out);
        *out = NULL;
        return api_fail(LKV_ENOMEM, "out of memory for a command");
    }
    return 0;
}

/* The number is taken first, since the command says up to where all are answered. */
static int make_write_once(const struct target *target, struct kv_command *command,
                           int64_t timeout_ms, struct request **out) {
    struct reason why = {{0}};
    *out = NULL;
    command->session = target->id;
    command->seq = target->seq;
    int rc = session_use(target->session, target->seq, &command->acked_below, &why);
    if (rc != 0) {
        return api_fail_with(rc, &why);
    }
    rc = make_write(target, command, timeout_ms, out);
    if (rc != 0) {
        session_give_back(target->session, target->seq);
        return api_fail_once(target->session, target->seq, rc);
    }
    (*out)->session = target->id;
    session_attach(target->session, *out, target->seq);
    return 0;
}

static int make(const struct target *target, struct kv_command *command, int64_t timeout_ms,
                struct request **out) {
    return target->session != NULL ? make_write_once(target, command, timeout_ms, out)
                                   : make_write(target, command, timeout_ms, out);
}

/* A NULL handle has no limits: it is api_begin's to refuse. */
static int make_put(const struct target *target, struct lkv_bytes key_bytes,
                    struct lkv_bytes value_bytes, int64_t timeout_ms, struct request **out) {
    struct slice key, value;
    int rc = api_slice(key_bytes, &key);
    rc = rc == 0 ? api_slice(value_bytes, &value) : rc;
    if (rc != 0) {
        return rc;
    }
    struct limits limits = api_limits(target->db);
    struct kv_command command;
    struct reason why = {{0}};
    rc = write_command_put(&limits, key, value, &command, &why);
    return rc == 0 ? make(target, &command, timeout_ms, out) : api_fail_with(rc, &why);
}

static int make_delete(const struct target *target, struct lkv_bytes from_bytes,
                       struct lkv_bytes to_bytes, bool range, int64_t timeout_ms,
                       struct request **out) {
    struct slice from, to = {0};
    int rc = api_slice(from_bytes, &from);
    if (rc == 0 && range) {
        rc = api_slice(to_bytes, &to);
    }
    if (rc != 0) {
        return rc;
    }
    struct limits limits = api_limits(target->db);
    struct kv_command command;
    struct reason why = {{0}};
    rc = range ? write_command_delete_range(&limits, from, to, &command, &why)
               : write_command_delete(&limits, from, &command, &why);
    return rc == 0 ? make(target, &command, timeout_ms, out) : api_fail_with(rc, &why);
}

int api_write(struct lkv *db, struct lkv_session *session, uint64_t seq, struct kv_command *command,
              int64_t timeout_ms, struct lkv **at, struct request **out) {
    struct target target = handle_target(db);
    int rc = session != NULL ? once_target(session, seq, &target) : 0;
    if (rc == 0 && db != NULL && target.db != db) {
        rc = api_fail(LKV_EINVAL, "the session is another handle's");
    }
    if (rc != 0) {
        return rc;
    }
    struct limits limits = api_limits(target.db);
    struct reason why = {{0}};
    command->seq = seq; /* that a session's numbers begin at 1 is said below */
    rc = write_command_check(&limits, command, &why);
    if (rc != 0) {
        return api_fail_with(rc, &why);
    }
    *at = target.db;
    return make(&target, command, timeout_ms, out);
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

static int put(const struct target *target, struct lkv_bytes key, struct lkv_bytes value,
               int64_t timeout_ms, uint64_t *rev) {
    struct request *request;
    int rc = make_put(target, key, value, timeout_ms, &request);
    return rc == 0 ? call_write(target->db, request, rev, NULL) : rc;
}

int lkv_put(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value, int64_t timeout_ms,
            uint64_t *rev) {
    struct target target = handle_target(db);
    return put(&target, key, value, timeout_ms, rev);
}

int lkv_put_once(struct lkv_session *session, uint64_t seq, struct lkv_bytes key,
                 struct lkv_bytes value, int64_t timeout_ms, uint64_t *rev) {
    struct target target;
    int rc = once_target(session, seq, &target);
    return rc == 0 ? put(&target, key, value, timeout_ms, rev) : rc;
}

static int put_submit(const struct target *target, struct lkv_bytes key, struct lkv_bytes value,
                      int64_t timeout_ms, struct lkv_queue *queue, void *tag) {
    struct request *request;
    int rc = make_put(target, key, value, timeout_ms, &request);
    return rc == 0 ? api_submit(target->db, request, queue, tag) : rc;
}

int lkv_put_submit(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value, int64_t timeout_ms,
                   struct lkv_queue *queue, void *tag) {
    struct target target = handle_target(db);
    return put_submit(&target, key, value, timeout_ms, queue, tag);
}

int lkv_put_once_submit(struct lkv_session *session, uint64_t seq, struct lkv_bytes key,
                        struct lkv_bytes value, int64_t timeout_ms, struct lkv_queue *queue,
                        void *tag) {
    struct target target;
    int rc = once_target(session, seq, &target);
    return rc == 0 ? put_submit(&target, key, value, timeout_ms, queue, tag) : rc;
}

static int delete (const struct target *target, struct lkv_bytes from, struct lkv_bytes to,
                   bool range, int64_t timeout_ms, uint64_t *rev, uint64_t *count) {
    struct request *request;
    int rc = make_delete(target, from, to, range, timeout_ms, &request);
    return rc == 0 ? call_write(target->db, request, rev, count) : rc;
}

int lkv_delete(struct lkv *db, struct lkv_bytes key, int64_t timeout_ms, uint64_t *rev) {
    struct target target = handle_target(db);
    return delete (&target, key, (struct lkv_bytes){0}, false, timeout_ms, rev, NULL);
}

int lkv_delete_range(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to, int64_t timeout_ms,
                     uint64_t *rev, uint64_t *count) {
    struct target target = handle_target(db);
    return delete (&target, from, to, true, timeout_ms, rev, count);
}

int lkv_delete_once(struct lkv_session *session, uint64_t seq, struct lkv_bytes from,
                    struct lkv_bytes to, bool range, int64_t timeout_ms, uint64_t *rev,
                    uint64_t *count) {
    struct target target;
    int rc = once_target(session, seq, &target);
    return rc == 0 ? delete (&target, from, to, range, timeout_ms, rev, count) : rc;
}

static int delete_submit(const struct target *target, struct lkv_bytes from, struct lkv_bytes to,
                         bool range, int64_t timeout_ms, struct lkv_queue *queue, void *tag) {
    struct request *request;
    int rc = make_delete(target, from, to, range, timeout_ms, &request);
    return rc == 0 ? api_submit(target->db, request, queue, tag) : rc;
}

int lkv_delete_submit(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to, bool range,
                      int64_t timeout_ms, struct lkv_queue *queue, void *tag) {
    struct target target = handle_target(db);
    return delete_submit(&target, from, to, range, timeout_ms, queue, tag);
}

int lkv_delete_once_submit(struct lkv_session *session, uint64_t seq, struct lkv_bytes from,
                           struct lkv_bytes to, bool range, int64_t timeout_ms,
                           struct lkv_queue *queue, void *tag) {
    struct target target;
    int rc = once_target(session, seq, &target);
    return rc == 0 ? delete_submit(&target, from, to, range, timeout_ms, queue, tag) : rc;
}
