/* What the files of the public verbs share. */
#ifndef LIB_API_H
#define LIB_API_H

#include "kv/command.h"
#include "lib/handle.h"
#include "lib/limits.h"

/* A new request with its deadline, or an error that is remembered for lkv_last_text: LKV_EINVAL for a
 * timeout below LKV_DEFAULT. */
MUST_USE int api_begin(struct lkv *db, enum request_op op, int64_t timeout_ms,
                       struct request **out);

/* Both take the request in any case. api_call waits for its final message, which is *out (NULL when
 * nothing was submitted), and returns that one's rc. With `out` NULL the message is freed. */
MUST_USE int api_call(struct lkv *db, struct request *request, struct lkv_msg **out);
MUST_USE int api_submit(struct lkv *db, struct request *request, struct lkv_queue *queue,
                        void *tag);

/* A request for a command, which is checked: on a handle, or, with a session, under a number of it. `at` is
 * the handle to submit it to. */
MUST_USE int api_write(struct lkv *db, struct lkv_session *session, uint64_t seq,
                       struct kv_command *command, int64_t timeout_ms, struct lkv **at,
                       struct request **out);

/* The same from what the public verbs take. */
MUST_USE int api_make_write(struct lkv *db, const struct lkv_change *write, int64_t timeout_ms,
                            struct lkv **at, struct request **out);
MUST_USE int api_make_txn(struct lkv *db, const struct lkv_txn *txn, int64_t timeout_ms,
                          struct lkv **at, struct request **out);

/* What a function that adds to a transaction found wrong, for its commit to say. `txn` NULL is fine. */
void api_txn_fault(struct lkv_txn *txn, int rc, const char *text);

/* What lkv_session_open and lkv_session_close ask of the cluster, to be handed to one of the two above.
 * The handle of the session is there before its answer (free it with lkv_session_close when that is an
 * error), and gone before its end; without a cluster to tell `*request` is NULL. */
MUST_USE int api_session_open(struct lkv *db, uint64_t resume, int64_t ttl_ms,
                              struct lkv_session **out, struct request **request);
MUST_USE int api_session_close(struct lkv_session *session, int64_t timeout_ms, struct lkv **db,
                               struct request **request);

/* The same for leases. `*id` 0: one is chosen. */
MUST_USE int api_lease_grant(struct lkv *db, int64_t *id, int64_t ttl_ms, int64_t timeout_ms,
                             struct request **request);
MUST_USE int api_lease_revoke(struct lkv *db, int64_t id, int64_t timeout_ms,
                              struct request **request);
MUST_USE int api_lease_keep(struct lkv *db, int64_t id, int64_t timeout_ms,
                            struct request **request);
MUST_USE int api_lease_ttl(struct lkv *db, int64_t id, struct lkv_bytes after, size_t limit,
                           int64_t timeout_ms, struct request **request);
MUST_USE int api_put_leased(struct lkv *db, struct lkv_bytes key, struct lkv_bytes value,
                            int64_t lease, int64_t timeout_ms, struct request **request);
MUST_USE int api_lease_list(struct lkv *db, int64_t after, size_t limit, int64_t timeout_ms,
                            struct request **request);

/* The calling thread's lkv_last_text. Both return rc. */
int api_fail(int rc, const char *format, ...) PRINTF_LIKE(2, 3);
int api_fail_with(int rc, const struct reason *why);

/* A write in a session that was refused at once, with lkv_last_text: of a number that is in doubt neither
 * LKV_ENOMEM nor LKV_ECLOSED is definite. */
int api_fail_once(struct lkv_session *session, uint64_t seq, int rc);
int api_fail_closed(struct lkv_session *session, uint64_t seq);

/* LKV_EINVAL for bytes without data. */
MUST_USE int api_slice(struct lkv_bytes bytes, struct slice *out);

/* LKV_EINVAL for a way to read that does not exist; the same, and LKV_ETOOLARGE, for the ends of a range. */
MUST_USE int api_check_how(enum lkv_read how);
MUST_USE int api_check_ends(const struct lkv *db, struct slice from, struct slice to);

/* Of a NULL handle: none, since api_begin refuses it. */
static inline struct limits api_limits(const struct lkv *db) {
    return (struct limits){.key_bytes_max = db != NULL ? db->key_bytes_max : UINT64_MAX,
                           .value_bytes_max = db != NULL ? db->value_bytes_max : UINT64_MAX};
}

#endif
