#include "lib/write_command.h"

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

int write_command_delete_range(const struct limits *limits, struct slice from, struct slice to,
                               struct kv_command *out, struct reason *why) {
    /* In a command the first possible key stands for "the first", and as an end for "the last". */
    static const uint8_t zeros[2] = {0, 0};
    const struct slice first_key = slice_of(zeros, 1);

    *out = (struct kv_command){.op = KV_DELETE,
                               .key = from.size > 0 ? from : first_key,
                               .end = to.size > 0 ? to : first_key};
    if (slice_equal(to, first_key)) {
        /* No key lies below "\0". As an end of the command it would delete everything instead. */
        out->key = out->end = slice_of(zeros, 2);
    }
    int rc = limits_check_end(limits, from, false, why);
    return rc == 0 ? limits_check_end(limits, to, false, why) : rc;
}

int write_command_check(const struct limits *limits, const struct kv_command *command,
                        struct reason *why) {
    if (command->op == KV_SESSION_EXPIRE) {
        return reason_set(why, LKV_EINVAL, "a session's expiry is its leader's to propose");
    }
    if (command->op == KV_LEASE_CHECKPOINT || command->granted != 0) {
        return reason_set(why, LKV_EINVAL, "what is left of a lease is its leader's to say");
    }
    if (!kv_command_has_keys(command) || command->op == KV_COMPACT ||
        kv_command_is_lease(command)) {
        return kv_command_check(command, why);
    }
    if (command->session != 0 && command->seq == 0) {
        return reason_set(why, LKV_EINVAL, "sequence numbers of a session begin at 1");
    }
    int rc = limits_check_key(limits, command->key, why);
    if (rc == 0) {
        rc = limits_check_end(limits, command->end, false, why);
    }
    if (rc == 0) {
        rc = limits_check_value(limits, command->value, why);
    }
    return rc;
}
