/* Limits on keys and values, and the one text for each that both ends of a connection give. */
#ifndef LIB_LIMITS_H
#define LIB_LIMITS_H

#include "base/error.h"
#include "base/slice.h"

struct limits {
    uint64_t key_bytes_max, value_bytes_max;
    uint64_t sessions_max;
};

/* LKV_EINVAL (empty key) or LKV_ETOOLARGE, with limit and size in `why`. Any thread. */
MUST_USE int limits_check_key(const struct limits *limits, struct slice key, struct reason *why);
MUST_USE int limits_check_value(const struct limits *limits, struct slice value,
                                struct reason *why);

/* The records of one append: how many, each one's size, and the sum. */
MUST_USE int limits_check_records(const struct limits *limits, const struct slice *records,
                                  size_t count, struct reason *why);

/* An end of a range, which may be empty. That of a read may be one byte longer than any key: the
 * next page starts behind the last key, at that key with a zero byte added. */
MUST_USE int limits_check_end(const struct limits *limits, struct slice end, bool read,
                              struct reason *why);

#endif
