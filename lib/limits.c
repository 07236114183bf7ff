#include "lib/limits.h"

#include "lib/ledgerkv.h"

#include <inttypes.h>

static int check_size(const char *what, size_t size, const char *option, uint64_t max,
                      struct reason *why) {
    if (size <= max) {
        return 0;
    }
    return reason_set(why, LKV_ETOOLARGE, "the %s has %zu bytes, %s is %" PRIu64, what, size,
                      option, max);
}

int limits_check_key(const struct limits *limits, struct slice key, struct reason *why) {
    if (key.size == 0) {
        return reason_set(why, LKV_EINVAL, "the key is empty");
    }
    return check_size("key", key.size, "key_bytes_max", limits->key_bytes_max, why);
}

int limits_check_value(const struct limits *limits, struct slice value, struct reason *why) {
    return check_size("value", value.size, "value_bytes_max", limits->value_bytes_max, why);
}

int limits_check_records(const struct limits *limits, const struct slice *records, size_t count,
                         struct reason *why) {
    if (count == 0) {
        return reason_set(why, LKV_EINVAL, "an append of no records");
    }
    if (count > LKV_APPEND_RECORDS_MAX) {
        return reason_set(why, LKV_ETOOLARGE, "the append has %zu records, the limit is %d", count,
                          LKV_APPEND_RECORDS_MAX);
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        int rc =
            check_size("record", records[i].size, "value_bytes_max", limits->value_bytes_max, why);
        if (rc != 0) {
            return rc;
        }
        bytes += records[i].size;
    }
    if (bytes > LKV_APPEND_BYTES_MAX) {
        return reason_set(why, LKV_ETOOLARGE,
                          "the records of the append have %" PRIu64 " bytes, the limit is %d",
                          bytes, LKV_APPEND_BYTES_MAX);
    }
    return 0;
}

int limits_check_end(const struct limits *limits, struct slice end, bool read, struct reason *why) {
    size_t size = read && end.size > 0 ? end.size - 1 : end.size;
    return size <= limits->key_bytes_max ? 0
                                         : check_size("end of the range", end.size, "key_bytes_max",
                                                      limits->key_bytes_max, why);
}
