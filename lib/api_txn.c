/* Writes with conditions, counters, compaction; and transactions, which are built in the caller's thread
 * as the bytes that the log will hold. */
#include "lib/api.h"

#include "base/mem.h"
#include "kv/txn.h"
#include "lib/write_command.h"

struct lkv_txn {
    struct kv_txn program;
    bool in_else;
    int rc; /* of the first call that could not be carried out */
    struct reason why;
    uint64_t in_term;
    struct lkv_session *session; /* borrowed */
    uint64_t seq;
};

_Static_assert(LKV_OP_PUT == (int)KV_PUT && LKV_OP_DELETE == (int)KV_DELETE &&
                   LKV_OP_TXN == (int)KV_TXN && LKV_OP_COMPACT == (int)KV_COMPACT &&
                   LKV_OP_ADD == (int)KV_ADD && LKV_OP_RANGE == (int)KV_RANGE,
               "operations are the state machine's");
_Static_assert(LKV_KEEP_VALUE == (int)KV_KEEP_VALUE && LKV_KEEP_LEASE == (int)KV_KEEP_LEASE &&
                   LKV_PREVIOUS == (int)KV_PREVIOUS && LKV_IF_ABSENT == (int)KV_IF_ABSENT,
               "flags are the state machine's");
_Static_assert(LKV_FIELD_VALUE == (int)KV_FIELD_VALUE && LKV_FIELD_EXISTS == (int)KV_FIELD_EXISTS &&
                   LKV_TXN_DEPTH_MAX == (int)KV_TXN_DEPTH_MAX,
               "fields are the state machine's");

/* ------------------------------------------------------------------ one write */

static int bytes_of(struct lkv_bytes bytes, struct slice *out, struct reason *why) {
    if (bytes.data == NULL && bytes.size > 0) {
        return reason_set(why, LKV_EINVAL, "%zu bytes at a NULL pointer", bytes.size);
    }
    *out = slice_of(bytes.data, bytes.size);
    return 0;
}

static int check_reserved(const void *const *reserved, size_t count, struct reason *why) {
    for (size_t i = 0; i < count; i++) {
        if (reserved[i] != NULL) {
            return reason_set(why, LKV_EINVAL, "what is reserved is not NULL");
        }
    }
    return 0;
}

/* What a key, its end and its value mean to each operation. */
static int spans_of(const struct lkv_change *write, struct kv_command *out, struct reason *why) {
    struct slice key, end;
    int rc = bytes_of(write->key, &key, why);
    rc = rc == 0 ? bytes_of(write->end, &end, why) : rc;
    rc = rc == 0 ? bytes_of(write->value, &out->value, why) : rc;
    if (rc != 0) {
        return rc;
    }
    out->key = key;
    if (write->op == LKV_OP_DELETE && write->range) {
        write_command_span(key, end, &out->key, &out->end);
    } else if (write->range || end.size > 0) {
        return reason_set(why, LKV_EINVAL, "a range, of an operation on one key");
    }
    return 0;
}

static int command_of(const struct lkv_change *write, struct kv_command *out, struct reason *why) {
    if (write == NULL) {
        return reason_set(why, LKV_EINVAL, "the write is NULL");
    }
    bool known = write->op == LKV_OP_PUT || write->op == LKV_OP_DELETE || write->op == LKV_OP_ADD ||
                 write->op == LKV_OP_COMPACT;
    if (!known) {
        return reason_set(why, LKV_EINVAL, "operation %d is no write", (int)write->op);
    }
    bool strange = (write->op != LKV_OP_PUT && (write->value.size > 0 || write->lease != 0)) ||
                   (write->op != LKV_OP_ADD && write->delta != 0) ||
                   (write->op != LKV_OP_COMPACT ? write->rev != 0 : write->key.size > 0) ||
                   (write->if_rev != 0 && write->op != LKV_OP_PUT && write->op != LKV_OP_DELETE) ||
                   (write->session == NULL && write->seq != 0);
    if (strange) {
        return reason_set(why, LKV_EINVAL,
                          "the write has a member that its operation has no use for");
    }
    int rc =
        check_reserved(write->reserved, sizeof(write->reserved) / sizeof(write->reserved[0]), why);
    *out = (struct kv_command){.op = (enum kv_op)write->op,
                               .lease = write->lease,
                               .flags = (uint32_t)write->flags,
                               .if_rev = write->if_rev,
                               .delta = write->delta,
                               .revision = write->rev,
                               .in_term = write->in_term};
    return rc == 0 ? spans_of(write, out, why) : rc;
}

int api_make_write(struct lkv *db, const struct lkv_change *write, int64_t timeout_ms,
                   struct lkv **at, struct request **out) {
    struct kv_command command;
    struct reason why = {{0}};
    int rc = command_of(write, &command, &why);
    return rc == 0 ? api_write(db, write->session, write->seq, &command, timeout_ms, at, out)
                   : api_fail_with(rc, &why);
}

int lkv_write(struct lkv *db, const struct lkv_change *write, int64_t timeout_ms,
              struct lkv_msg **out) {
    if (out != NULL) {
        *out = NULL;
    }
    struct lkv *at;
    struct request *request;
    int rc = api_make_write(db, write, timeout_ms, &at, &request);
    return rc == 0 ? api_call(at, request, out) : rc;
}

int lkv_write_submit(struct lkv *db, const struct lkv_change *write, int64_t timeout_ms,
                     struct lkv_queue *queue, void *tag) {
    struct lkv *at;
    struct request *request;
    int rc = api_make_write(db, write, timeout_ms, &at, &request);
    return rc == 0 ? api_submit(at, request, queue, tag) : rc;
}

/* ------------------------------------------------------------------ building a transaction */

struct lkv_txn *lkv_txn_new(void) {
    struct lkv_txn *txn = mem_calloc(1, sizeof(*txn));
    if (txn != NULL) {
        kv_txn_init(&txn->program);
    }
    return txn;
}

void lkv_txn_free(struct lkv_txn *txn) {
    if (txn != NULL) {
        kv_txn_fini(&txn->program);
        mem_free(txn);
    }
}

/* The first error stays. */
static bool note(struct lkv_txn *txn, int rc, const struct reason *why) {
    if (rc != 0 && txn->rc == 0) {
        txn->rc = rc;
        txn->why = *why;
    }
    return rc == 0;
}

/* What the program's format has room for; the options' limits are looked at when it is committed. */
struct txn_sizes {
    struct slice key, end, value;
};

static int check_sizes(const struct txn_sizes *sizes, struct reason *why) {
    const struct limits limits = {.key_bytes_max = KV_KEY_SIZE_MAX,
                                  .value_bytes_max = KV_COMMAND_SIZE_MAX};
    int rc = limits_check_key(&limits, sizes->key, why);
    rc = rc == 0 ? limits_check_end(&limits, sizes->end, false, why) : rc;
    return rc == 0 ? limits_check_value(&limits, sizes->value, why) : rc;
}

static int relation_of(char relation, enum kv_relation *out, struct reason *why) {
    switch (relation) {
    case '=': *out = KV_EQUAL; return 0;
    case '!': *out = KV_NOT_EQUAL; return 0;
    case '<': *out = KV_LESS; return 0;
    case '>': *out = KV_GREATER; return 0;
    default: return reason_set(why, LKV_EINVAL, "a relation that is none of = ! < >");
    }
}

static int compare_of(struct lkv_bytes key, enum lkv_field field, char relation, uint64_t number,
                      struct lkv_bytes value, struct kv_compare *out, struct reason *why) {
    *out = (struct kv_compare){.field = (enum kv_field)field, .number = number};
    if (field < LKV_FIELD_VALUE || field > LKV_FIELD_EXISTS) {
        return reason_set(why, LKV_EINVAL, "there is no field %d of a key", (int)field);
    }
    if (field == LKV_FIELD_VALUE ? number != 0 : value.size > 0) {
        return reason_set(why, LKV_EINVAL, "a number compared with a value");
    }
    int rc = relation_of(relation, &out->relation, why);
    rc = rc == 0 ? bytes_of(key, &out->key, why) : rc;
    return rc == 0 ? bytes_of(value, &out->value, why) : rc;
}

static void add_compare(struct lkv_txn *txn, int rc, const struct kv_compare *compare,
                        struct reason *why) {
    const struct txn_sizes sizes = {
        .key = compare->key, .end = compare->end, .value = compare->value};
    if (note(txn, rc == 0 ? check_sizes(&sizes, why) : rc, why)) {
        kv_txn_compare(&txn->program, compare);
    }
}

void lkv_txn_if(struct lkv_txn *txn, struct lkv_bytes key, enum lkv_field field, char relation,
                uint64_t number, struct lkv_bytes value) {
    if (txn != NULL) {
        struct kv_compare compare;
        struct reason why = {{0}};
        int rc = compare_of(key, field, relation, number, value, &compare, &why);
        add_compare(txn, rc, &compare, &why);
    }
}

void lkv_txn_if_range(struct lkv_txn *txn, struct lkv_bytes from, struct lkv_bytes to,
                      enum lkv_field field, char relation, uint64_t number,
                      struct lkv_bytes value) {
    if (txn == NULL) {
        return;
    }
    struct kv_compare compare;
    struct slice end;
    struct reason why = {{0}};
    int rc = compare_of(from, field, relation, number, value, &compare, &why);
    rc = rc == 0 ? bytes_of(to, &end, &why) : rc;
    if (rc == 0) {
        write_command_span(compare.key, end, &compare.key, &compare.end);
    }
    add_compare(txn, rc, &compare, &why);
}

void api_txn_fault(struct lkv_txn *txn, int rc, const char *text) {
    struct reason why;
    (void)reason_set(&why, rc, "%s", text);
    if (txn != NULL) {
        bool good = note(txn, rc, &why);
        (void)good;
    }
}

static void add_step(struct lkv_txn *txn, int rc, const struct kv_step *step, struct reason *why) {
    const struct txn_sizes sizes = {.key = step->key, .end = step->end, .value = step->value};
    rc = rc == 0 ? check_sizes(&sizes, why) : rc;
    const char *fault = rc == 0 ? step_fault(step) : NULL;
    if (fault != NULL) {
        rc = reason_set(why, LKV_EINVAL, "%s", fault);
    }
    if (note(txn, rc, why)) {
        kv_txn_step(&txn->program, !txn->in_else, step);
    }
}

void lkv_txn_write(struct lkv_txn *txn, const struct lkv_change *write) {
    if (txn == NULL) {
        return;
    }
    struct kv_command command;
    struct reason why = {{0}};
    int rc = command_of(write, &command, &why);
    if (rc == 0 && (command.op == KV_COMPACT || write->in_term != 0 || write->session != NULL)) {
        rc = reason_set(&why, LKV_EINVAL, "compact, in_term and session are not in a transaction");
    }
    const struct kv_step step = rc == 0 ? step_of(&command) : (struct kv_step){.op = KV_PUT};
    add_step(txn, rc, &step, &why);
}

void lkv_txn_put(struct lkv_txn *txn, struct lkv_bytes key, struct lkv_bytes value) {
    const struct lkv_change write = {.op = LKV_OP_PUT, .key = key, .value = value};
    lkv_txn_write(txn, &write);
}

void lkv_txn_get(struct lkv_txn *txn, struct lkv_bytes key) {
    if (txn == NULL) {
        return;
    }
    struct kv_step step = {.op = KV_RANGE};
    struct reason why = {{0}};
    int rc = bytes_of(key, &step.key, &why);
    add_step(txn, rc, &step, &why);
}

static int query_of(const struct lkv_query *query, struct kv_step *out, struct reason *why) {
    const int known = LKV_KEYS_ONLY | LKV_COUNT_ONLY | LKV_DESCENDING | LKV_TOTAL;
    struct slice from, to;
    if (query == NULL || (query->flags & ~known) != 0 || query->order < LKV_BY_KEY ||
        query->order > LKV_BY_VALUE) {
        return reason_set(why, LKV_EINVAL, "the query is NULL, or has an unknown flag or order");
    }
    int rc =
        check_reserved(query->reserved, sizeof(query->reserved) / sizeof(query->reserved[0]), why);
    rc = rc == 0 ? bytes_of(query->from, &from, why) : rc;
    rc = rc == 0 ? bytes_of(query->to, &to, why) : rc;
    if (rc != 0) {
        return rc;
    }
    write_command_span(from, to, &out->key, &out->end);
    out->query = (struct kv_query){.revision = query->rev,
                                   .order = (enum kv_order)query->order,
                                   .descending = (query->flags & LKV_DESCENDING) != 0,
                                   .keys_only = (query->flags & LKV_KEYS_ONLY) != 0,
                                   .count_only = (query->flags & LKV_COUNT_ONLY) != 0,
                                   .with_total = (query->flags & LKV_TOTAL) != 0,
                                   .mod_rev_min = query->mod_rev_min,
                                   .mod_rev_max = query->mod_rev_max,
                                   .create_rev_min = query->create_rev_min,
                                   .create_rev_max = query->create_rev_max,
                                   .limit = query->limit};
    return 0;
}

void lkv_txn_find(struct lkv_txn *txn, const struct lkv_query *query) {
    if (txn == NULL) {
        return;
    }
    struct kv_step step = {.op = KV_RANGE};
    struct reason why = {{0}};
    int rc = query_of(query, &step, &why);
    add_step(txn, rc, &step, &why);
}

void lkv_txn_nest(struct lkv_txn *txn, const struct lkv_txn *inner) {
    if (txn == NULL) {
        return;
    }
    struct reason why = {{0}};
    if (inner == NULL || inner->session != NULL || inner->in_term != 0) {
        int rc =
            reason_set(&why, LKV_EINVAL, "the inner transaction is NULL, or has a term or session");
        (void)note(txn, rc, &why);
        return;
    }
    struct buffer program;
    buffer_init(&program);
    kv_txn_write(&inner->program, &program);
    const struct kv_step step = {.op = KV_TXN, .txn = buffer_slice(&program)};
    int rc = inner->rc;
    if (rc == 0 && program.failed) {
        rc = reason_set(&why, LKV_ENOMEM, "out of memory for a transaction");
    } else if (rc != 0) {
        why = inner->why;
    }
    if (note(txn, rc, &why)) {
        kv_txn_step(&txn->program, !txn->in_else, &step);
    }
    buffer_fini(&program);
}

void lkv_txn_else(struct lkv_txn *txn) {
    struct reason why = {{0}};
    if (txn != NULL &&
        note(txn, txn->in_else ? reason_set(&why, LKV_EINVAL, "else, twice") : 0, &why)) {
        txn->in_else = true;
    }
}

void lkv_txn_in_term(struct lkv_txn *txn, uint64_t term) {
    if (txn != NULL) {
        txn->in_term = term;
    }
}

void lkv_txn_once(struct lkv_txn *txn, struct lkv_session *session, uint64_t seq) {
    struct reason why = {{0}};
    if (txn != NULL &&
        note(txn, session == NULL ? reason_set(&why, LKV_EINVAL, "the session is NULL") : 0,
             &why)) {
        txn->session = session;
        txn->seq = seq;
    }
}

/* ------------------------------------------------------------------ carrying it out */

int api_make_txn(struct lkv *db, const struct lkv_txn *txn, int64_t timeout_ms, struct lkv **at,
                 struct request **out) {
    if (txn == NULL) {
        return api_fail(LKV_ENOMEM, "the transaction is NULL: there was no memory for it");
    }
    if (txn->rc != 0) {
        return api_fail_with(txn->rc, &txn->why);
    }
    struct buffer program;
    buffer_init(&program);
    kv_txn_write(&txn->program, &program);
    struct slice bytes = buffer_slice(&program);
    int rc = program.failed ? api_fail(LKV_ENOMEM, "out of memory for a transaction") : 0;
    if (rc == 0) {
        struct kv_command command = {.op = KV_TXN, .txn = bytes, .in_term = txn->in_term};
        rc = api_write(db, txn->session, txn->seq, &command, timeout_ms, at, out);
    }
    buffer_fini(&program); /* the command's bytes are the request's own */
    return rc;
}

int lkv_txn_commit(struct lkv *db, const struct lkv_txn *txn, int64_t timeout_ms,
                   struct lkv_msg **out) {
    if (out != NULL) {
        *out = NULL;
    }
    struct lkv *at;
    struct request *request;
    int rc = api_make_txn(db, txn, timeout_ms, &at, &request);
    return rc == 0 ? api_call(at, request, out) : rc;
}

int lkv_txn_submit(struct lkv *db, const struct lkv_txn *txn, int64_t timeout_ms,
                   struct lkv_queue *queue, void *tag) {
    struct lkv *at;
    struct request *request;
    int rc = api_make_txn(db, txn, timeout_ms, &at, &request);
    return rc == 0 ? api_submit(at, request, queue, tag) : rc;
}
