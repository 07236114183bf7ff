/* Opening and ending a session; the writes in it are in api_write.c. */
#include "lib/api.h"
#include "lib/session.h"

static int make_command(struct lkv *db, const struct kv_command *command, int64_t timeout_ms,
                        struct request **out) {
    int rc = api_begin(db, REQUEST_WRITE, timeout_ms, out);
    if (rc != 0) {
        return rc;
    }
    (*out)->command = kv_command_encode(command);
    (*out)->session = command->session;
    (*out)->repeatable = true; /* opening twice leaves one that nobody uses, and that expires */
    if ((*out)->command == NULL) {
        request_free(*out);
        *out = NULL;
        return api_fail(LKV_ENOMEM, "out of memory for a command");
    }
    return 0;
}

int api_session_open(struct lkv *db, uint64_t resume, int64_t ttl_ms, struct lkv_session **out,
                     struct request **request) {
    *out = NULL;
    if (db == NULL) {
        return api_fail(LKV_EINVAL, "the handle is NULL");
    }
    if (ttl_ms < SESSION_TTL_MS_MIN || ttl_ms > KV_SESSION_TTL_MS_MAX) {
        return api_fail(LKV_EINVAL, "a ttl of %lld ms, expected %d to %d", (long long)ttl_ms,
                        SESSION_TTL_MS_MIN, KV_SESSION_TTL_MS_MAX);
    }
    struct lkv_session *session = session_new_handle(db, resume, (uint64_t)ttl_ms);
    if (session == NULL) {
        return api_fail(LKV_ENOMEM, "out of memory for a session");
    }
    const struct kv_command command = {.op = KV_SESSION_OPEN,
                                       .session = resume,
                                       .ttl_ms = (uint64_t)ttl_ms,
                                       .limit = db->sessions_max};
    int rc = make_command(db, &command, LKV_DEFAULT, request);
    if (rc != 0) {
        session_free_handle(session);
        return rc;
    }
    session_attach(session, *request, 0);
    *out = session;
    return 0;
}

int lkv_session_open(struct lkv *db, uint64_t resume, int64_t ttl_ms, struct lkv_session **out) {
    struct request *request;
    int rc = api_session_open(db, resume, ttl_ms, out, &request);
    if (rc != 0) {
        return rc;
    }
    rc = api_call(db, request, NULL);
    if (rc == 0 && lkv_session_id(*out) == 0) {
        rc = api_fail(LKV_EPROTOCOL, "the node opened a session and did not say which");
    }
    if (rc != 0) {
        session_free_handle(*out);
        *out = NULL;
    }
    return rc;
}

uint64_t lkv_session_id(struct lkv_session *session) {
    return session != NULL ? session_numbers(session).id : 0;
}

uint64_t lkv_session_last(struct lkv_session *session) {
    return session != NULL ? session_numbers(session).last_seq : 0;
}

int api_session_close(struct lkv_session *session, int64_t timeout_ms, struct lkv **db,
                      struct request **request) {
    struct session_numbers numbers = session_numbers(session);
    const struct kv_command command = {.op = KV_SESSION_CLOSE, .session = numbers.id};
    session_free_handle(session);
    *db = numbers.db;
    *request = NULL;
    return timeout_ms == 0 || *db == NULL ? 0 : make_command(*db, &command, timeout_ms, request);
}

/* What is wrong with the call's own arguments was wrong of no earlier attempt: it is told as it is. */
int api_fail_once(struct lkv_session *session, uint64_t seq, int rc) {
    struct reason why = {{0}};
    (void)reason_set(&why, rc, "%s", lkv_last_text());
    rc = rc == LKV_EINVAL ? rc : session_refusal(session, seq, rc, &why);
    return api_fail_with(rc, &why);
}

int api_fail_closed(struct lkv_session *session, uint64_t seq) {
    (void)api_fail(LKV_ECLOSED, "the session's handle is closed");
    return api_fail_once(session, seq, LKV_ECLOSED);
}

int lkv_session_close(struct lkv_session *session, int64_t timeout_ms) {
    if (session == NULL) {
        return 0;
    }
    struct lkv *db;
    struct request *request;
    int rc = api_session_close(session, timeout_ms, &db, &request);
    rc = rc == 0 && request != NULL ? api_call(db, request, NULL) : rc;
    return rc == LKV_ESESSION ? 0 : rc; /* it had ended, perhaps by our own first attempt */
}
