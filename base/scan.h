/* The pre-scan of msgpack bytes: no decoder of a library sees bytes that did not pass it.
 *
 * Iterative, constant memory, works on a prefix that is still arriving. Refuses announced counts
 * and lengths beyond the limits before anything is allocated (FAULTS N2, N4, N5). What it accepts is
 * one complete object. Any thread. */
#ifndef BASE_SCAN_H
#define BASE_SCAN_H

#include "base/error.h"
#include "base/slice.h"

enum { SCAN_DEPTH_MAX = 8 };

struct scan_limits {
    size_t bytes_max;     /* of the whole object */
    uint32_t objects_max; /* elements in total, over all nesting */
};

/* State of a scan of a stream; zero-initialise for the next object. */
struct scan {
    size_t offset; /* bytes of the object looked at so far */
    uint32_t objects;
    uint32_t depth;
    uint32_t left[SCAN_DEPTH_MAX]; /* elements still to come at each depth */
};

/* Looks on from where it stopped; `bytes` starts at the object's first byte each time and has grown.
 * 1: complete, scan->offset is its size. 0: more bytes are needed. LKV_EPROTOCOL or LKV_ETOOLARGE:
 * refused, `why` says where and which limit. */
MUST_USE int scan_object(struct scan *scan, struct slice bytes, const struct scan_limits *limits,
                         struct reason *why);

#endif
