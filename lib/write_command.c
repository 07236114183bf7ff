#include "lib/write_command.h"

#include "base/feature.h"
#include "kv/txn.h"
#include "lib/ledgerkv.h"

int write_command_put(const struct limits *limits, struct slice key, struct slice value,
                      struct kv_command *out, struct reason *why) {
    *out = (struct kv_command){.op = KV_PUT, .key = key, .value = value};
    return write_command_check(limits, out, why);
}

int write_command_delete(const struct limits *limits, struct slice key, struct kv_command *out,
                         struct reason *why) {
    *out = (struct kv_command){.op = KV_DELETE, .key = key};
    return write_command_check(limits, out, why);
}

void write_command_span(struct slice from, struct slice to, struct slice *key, struct slice *end) {
    /* In a command the first possible key stands for "the first", and as an end for "the last". */
    static const uint8_t zeros[2] = {0, 0};
    const struct slice first_key = slice_of(zeros, 1);

    *key = from.size > 0 ? from : first_key;
    *end = to.size > 0 ? to : first_key;
    if (slice_equal(to, first_key)) {
        /* No key lies below "\0". As an end of the command it would stand for everything instead. */
        *key = *end = slice_of(zeros, 2);
    }
}

int write_command_delete_range(const struct limits *limits, struct slice from, struct slice to,
                               struct kv_command *out, struct reason *why) {
    *out = (struct kv_command){.op = KV_DELETE};
    write_command_span(from, to, &out->key, &out->end);
    int rc = limits_check_end(limits, from, false, why);
    return rc == 0 ? limits_check_end(limits, to, false, why) : rc;
}

/* ------------------------------------------------------------------ transactions */

static int check_spans(const struct limits *limits, struct slice key, struct slice end,
                       struct slice value, bool read, struct reason *why) {
    int rc = read && end.size > 0 ? limits_check_end(limits, key, true, why)
                                  : limits_check_key(limits, key, why);
    rc = rc == 0 ? limits_check_end(limits, end, read, why) : rc;
    return rc == 0 ? limits_check_value(limits, value, why) : rc;
}

static int check_program(const struct limits *limits, struct slice program, unsigned depth,
                         size_t *left, struct reason *why);

static int count_one(size_t *left, struct reason *why) {
    if (*left == 0) {
        return reason_set(why, LKV_ETOOLARGE,
                          "the transaction has more than %d compares and operations",
                          LKV_TXN_STEPS_MAX);
    }
    (*left)--;
    return 0;
}

static int check_steps(const struct limits *limits, struct reader *reader, unsigned depth,
                       size_t *left, struct reason *why) {
    int rc = 0;
    while (rc == 0 && reader->left > 0) {
        struct kv_step step;
        if (!txn_next_step(reader, &step)) {
            return reason_set(why, LKV_EPROTOCOL, "an operation of a transaction is malformed");
        }
        rc = count_one(left, why);
        if (rc == 0 && step.op == KV_TXN) {
            rc = check_program(limits, step.txn, depth + 1, left, why);
        } else if (rc == 0) {
            rc = check_spans(limits, step.key, step.end, step.value, step.op == KV_RANGE, why);
        }
    }
    return rc;
}

/* The limits of this node's options; the format's own are kv_command_check's. */
static int check_program(const struct limits *limits, struct slice program, unsigned depth,
                         size_t *left, struct reason *why) {
    struct txn_parts parts;
    if (depth > KV_TXN_DEPTH_MAX) {
        return reason_set(why, LKV_EINVAL, "transactions more than %d inside of each other",
                          KV_TXN_DEPTH_MAX);
    }
    if (!txn_open(program, &parts)) {
        return reason_set(why, LKV_EPROTOCOL, "a transaction is malformed");
    }
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < parts.compare_count; i++) {
        struct kv_compare compare;
        if (!txn_next_compare(&parts.compares, &compare)) {
            return reason_set(why, LKV_EPROTOCOL, "a compare of a transaction is malformed");
        }
        rc = count_one(left, why);
        if (rc == 0) {
            rc = check_spans(limits, compare.key, compare.end, compare.value, true, why);
        }
    }
    rc = rc == 0 ? check_steps(limits, &parts.then_steps, depth, left, why) : rc;
    return rc == 0 ? check_steps(limits, &parts.else_steps, depth, left, why) : rc;
}

static int check_txn(const struct limits *limits, const struct kv_command *command,
                     struct reason *why) {
    size_t left = LKV_TXN_STEPS_MAX;
    int rc = check_program(limits, command->txn, 1, &left, why);
    return rc == 0 ? kv_command_check(command, why) : rc;
}

/* ------------------------------------------------------------------ all of them */

int write_command_check(const struct limits *limits, const struct kv_command *command,
                        struct reason *why) {
    if (command->op == KV_SESSION_EXPIRE) {
        return reason_set(why, LKV_EINVAL, "a session's expiry is its leader's to propose");
    }
    if (command->op == KV_LEASE_CHECKPOINT || command->granted != 0) {
        return reason_set(why, LKV_EINVAL, "what is left of a lease is its leader's to say");
    }
    if (!kv_command_has_keys(command) || kv_command_is_lease(command)) {
        return kv_command_check(command, why);
    }
    if (command->session != 0 && command->seq == 0) {
        return reason_set(why, LKV_EINVAL, "sequence numbers of a session begin at 1");
    }
    if (command->op == KV_TXN) {
        return check_txn(limits, command, why);
    }
    if (command->op == KV_COMPACT) {
        return kv_command_check(command, why);
    }
    int rc = check_spans(limits, command->key, command->end, command->value, false, why);
    return rc == 0 && kv_command_level(command) > FEATURE_LEVEL_FIRST
               ? kv_command_check(command, why)
               : rc;
}
