/* Leases: grants, keep-alives, revokes, reads; and those that the library keeps alive. */
#include "lib/api.h"

#include "base/prng.h"
#include "lib/lease.h"
#include "lib/write_command.h"

static int check_id(int64_t id) {
    return id > 0 ? 0 : api_fail(LKV_EINVAL, "a lease's id is from 1 on, not %lld", (long long)id);
}

static int check_ttl(int64_t ttl_ms) {
    bool good = ttl_ms >= LEASE_TTL_MS_MIN && (uint64_t)ttl_ms <= KV_LEASE_TTL_MS_MAX;
    return good ? 0
                : api_fail(LKV_EINVAL, "a ttl of %lld ms, expected %d to %llu", (long long)ttl_ms,
                           LEASE_TTL_MS_MIN, (unsigned long long)KV_LEASE_TTL_MS_MAX);
}

static int make_command(struct lkv *db, const struct kv_command *command, int64_t timeout_ms,
                        struct request **out) {
    int rc = api_begin(db, REQUEST_WRITE, timeout_ms, out);
    if (rc != 0) {
        return rc;
    }
    (*out)->level = (uint8_t)kv_command_level(command);
    (*out)->lease = command->op == KV_LEASE_REVOKE ? command->lease : 0;
    (*out)->command = kv_command_encode(command);
    if ((*out)->command == NULL) {
        request_free(*out);
        *out = NULL;
        return api_fail(LKV_ENOMEM, "out of memory for a command");
    }
    return 0;
}

/* Ids that nobody else has: 63 random bits. */
static int64_t choose_id(struct lkv *db) {
    struct prng prng = prng_of(atomic_fetch_add(&db->leases.ids, UINT64_C(0x9e3779b97f4a7c15)));
    int64_t id;
    do {
        id = (int64_t)(prng_next(&prng) >> 1);
    } while (id == 0);
    return id;
}

int api_lease_grant(struct lkv *db, int64_t *id, int64_t ttl_ms, int64_t timeout_ms,
                    struct request **request) {
    if (db == NULL) {
        return api_fail(LKV_EINVAL, "the handle is NULL");
    }
    int rc = check_ttl(ttl_ms);
    if (rc == 0 && *id == 0) {
        *id = choose_id(db);
    }
    rc = rc == 0 ? check_id(*id) : rc;
    const struct kv_command command = {
        .op = KV_LEASE_GRANT, .lease = *id, .ttl_ms = (uint64_t)ttl_ms, .limit = KV_LEASES_MAX};
    return rc == 0 ? make_command(db, &command, timeout_ms, request) : rc;
}

int lkv_lease_grant(struct lkv *db, int64_t wanted, int64_t ttl_ms, int64_t timeout_ms,
                    int64_t *id) {
    struct request *request;
    int64_t chosen = wanted;
    int rc = api_lease_grant(db, &chosen, ttl_ms, timeout_ms, &request);
    rc = rc == 0 ? api_call(db, request, NULL) : rc;
    if (id != NULL) {
        *id = rc == 0 ? chosen : 0;
    }
    return rc;
}

int api_lease_revoke(struct lkv *db, int64_t id, int64_t timeout_ms, struct request **request) {
    const struct kv_command command = {.op = KV_LEASE_REVOKE, .lease = id};
    int rc = check_id(id);
    return rc == 0 ? make_command(db, &command, timeout_ms, request) : rc;
}

int lkv_lease_revoke(struct lkv *db, int64_t id, int64_t timeout_ms, uint64_t *rev,
                     uint64_t *count) {
    struct request *request;
    struct lkv_msg *reply = NULL;
    int rc = api_lease_revoke(db, id, timeout_ms, &request);
    rc = rc == 0 ? api_call(db, request, &reply) : rc;
    if (rc == 0 && rev != NULL && !lkv_msg_u64(reply, "rev", rev)) {
        *rev = 0;
    }
    if (rc == 0 && count != NULL && !lkv_msg_u64(reply, "count", count)) {
        *count = 0;
    }
    lkv_msg_free(reply);
    return rc;
}

int api_lease_keep(struct lkv *db, int64_t id, int64_t timeout_ms, struct request **request) {
    int rc = check_id(id);
    rc = rc == 0 ? api_begin(db, REQUEST_LEASE_KEEP, timeout_ms, request) : rc;
    if (rc == 0) {
        (*request)->lease = id;
    }
    return rc;
}

int lkv_lease_keep_alive(struct lkv *db, int64_t id, int64_t timeout_ms, int64_t *ttl_ms) {
    struct request *request;
    struct lkv_msg *reply = NULL;
    uint64_t ttl = 0;
    int rc = api_lease_keep(db, id, timeout_ms, &request);
    rc = rc == 0 ? api_call(db, request, &reply) : rc;
    if (rc == 0 && (!lkv_msg_u64(reply, "ttl_ms", &ttl) || ttl == 0 || ttl > KV_LEASE_TTL_MS_MAX)) {
        rc = api_fail(LKV_EPROTOCOL,
                      "a lease was kept alive, and the node did not say for how long");
    }
    if (rc == 0 && ttl_ms != NULL) {
        *ttl_ms = (int64_t)ttl;
    }
    lkv_msg_free(reply);
    return rc;
}

int api_lease_ttl(struct lkv *db, int64_t id, struct lkv_bytes after_bytes, size_t limit,
                  int64_t timeout_ms, struct request **request) {
    struct slice after;
    int rc = check_id(id);
    rc = rc == 0 ? api_slice(after_bytes, &after) : rc;
    rc = rc == 0 ? api_begin(db, REQUEST_LEASE_TTL, timeout_ms, request) : rc;
    if (rc == 0 && request_set_keys(*request, after, (struct slice){0}) != 0) {
        request_free(*request);
        return api_fail(LKV_ENOMEM, "out of memory for a key");
    }
    if (rc == 0) {
        (*request)->lease = id;
        (*request)->limit = limit;
    }
    return rc;
}

int lkv_lease_ttl(struct lkv *db, int64_t id, struct lkv_bytes after, size_t limit,
                  int64_t timeout_ms, struct lkv_msg **out) {
    if (out != NULL) {
        *out = NULL;
    }
    struct request *request;
    int rc = api_lease_ttl(db, id, after, limit, timeout_ms, &request);
    return rc == 0 ? api_call(db, request, out) : rc;
}

int api_lease_list(struct lkv *db, int64_t after, size_t limit, int64_t timeout_ms,
                   struct request **request) {
    if (after < 0) {
        return api_fail(LKV_EINVAL, "a lease's id is from 1 on, not %lld", (long long)after);
    }
    int rc = api_begin(db, REQUEST_LEASE_LIST, timeout_ms, request);
    if (rc == 0) {
        (*request)->lease = after;
        (*request)->limit = limit;
    }
    return rc;
}

int lkv_lease_list(struct lkv *db, int64_t after, size_t limit, int64_t timeout_ms,
                   struct lkv_msg **out) {
    if (out != NULL) {
        *out = NULL;
    }
    struct request *request;
    int rc = api_lease_list(db, after, limit, timeout_ms, &request);
    return rc == 0 ? api_call(db, request, out) : rc;
}

/* ------------------------------------------------------------------ puts */

/* A put with a lease that there must be is what lkv_write does. */
int api_put_leased(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value, int64_t lease,
                   int64_t timeout_ms, struct request **request) {
    const struct lkv_change write = {.op = LKV_OP_PUT, .key = key, .value = value, .lease = lease};
    struct lkv *at;
    int rc = check_id(lease);
    return rc == 0 ? api_make_write(db, &write, timeout_ms, &at, request) : rc;
}

int lkv_put_leased(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value, int64_t lease,
                   int64_t timeout_ms, uint64_t *rev) {
    struct request *request;
    struct lkv_msg *reply = NULL;
    int rc = api_put_leased(db, key, value, lease, timeout_ms, &request);
    rc = rc == 0 ? api_call(db, request, &reply) : rc;
    if (rc == 0 && rev != NULL && !lkv_msg_u64(reply, "rev", rev)) {
        *rev = 0;
    }
    lkv_msg_free(reply);
    return rc;
}

int lkv_put_leased_submit(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value,
                          int64_t lease, int64_t timeout_ms, struct lkv_queue *queue, void *tag) {
    struct request *request;
    int rc = api_put_leased(db, key, value, lease, timeout_ms, &request);
    return rc == 0 ? api_submit(db, request, queue, tag) : rc;
}

/* ------------------------------------------------------------------ kept alive by the library */

int lkv_lease_open(struct lkv *db, int64_t ttl_ms, struct lkv_queue *queue, void *tag,
                   int64_t *id) {
    *id = 0;
    if (queue == NULL) {
        return api_fail(LKV_EINVAL, "the queue is NULL");
    }
    struct request *request;
    int64_t chosen = 0;
    int rc = api_lease_grant(db, &chosen, ttl_ms, LKV_DEFAULT, &request);
    if (rc != 0) {
        return rc;
    }
    struct lease_hold *hold = lease_hold_new(db, (uint64_t)ttl_ms, queue, tag);
    if (hold == NULL) {
        request_free(request);
        return api_fail(LKV_ENOMEM, "out of memory for a lease");
    }
    uint64_t sent_ns = db->ops->now_ns(db);
    rc = api_call(db, request, NULL);
    if (rc != 0) {
        lease_hold_drop(hold);
        return rc;
    }
    lease_hold_start(hold, chosen, sent_ns);
    *id = chosen;
    return 0;
}

int lkv_lease_close(struct lkv *db, int64_t id, int64_t timeout_ms) {
    struct request *request;
    int rc = api_lease_revoke(db, id, timeout_ms, &request);
    if (rc != 0) {
        return rc;
    }
    (void)lease_hold_end(db, id);
    if (timeout_ms == 0) { /* it runs out by itself */
        request_free(request);
        return 0;
    }
    rc = api_call(db, request, NULL);
    return rc == LKV_ELEASE ? 0 : rc; /* it had ended */
}
