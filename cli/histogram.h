/* Latencies in log-linear buckets: exact below 256, within 1/128 above, 60 kB for any range. */
#ifndef CLI_HISTOGRAM_H
#define CLI_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BITS = 7, HISTOGRAM_BUCKETS = (64 - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS };

struct histogram {
    uint64_t buckets[HISTOGRAM_BUCKETS];
    uint64_t count, max;
};

void histogram_add(struct histogram *histogram, uint64_t value);

/* The value below or at which `part` (0 to 1) of all lie; 0 when there are none. */
uint64_t histogram_at(const struct histogram *histogram, double part);

#endif
