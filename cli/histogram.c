/* Latencies in log-linear buckets: see histogram.h.
 *
 * Each power of two is cut into 2^HISTOGRAM_BITS buckets of equal width, as HdrHistogram does.
 */
#include "histogram.h"

static unsigned shift_of(uint64_t value) {
    unsigned highest = value > 0 ? 63u - (unsigned)__builtin_clzll(value) : 0;
    return highest > HISTOGRAM_BITS ? highest - HISTOGRAM_BITS : 0;
}

static uint64_t highest_in(uint64_t bucket) {
    uint64_t width = UINT64_C(1) << HISTOGRAM_BITS;
    if (bucket < 2 * width) {
        return bucket;
    }
    uint64_t shift = bucket / width - 1;
    uint64_t part = bucket - shift * width;
    return ((part + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t value) {
    unsigned shift = shift_of(value);
    uint64_t bucket = ((uint64_t)shift << HISTOGRAM_BITS) + (value >> shift);
    histogram->buckets[bucket]++;
    histogram->count++;
    histogram->max = value > histogram->max ? value : histogram->max;
}

uint64_t histogram_at(const struct histogram *histogram, double part) {
    uint64_t wanted = (uint64_t)(part * (double)histogram->count + 0.5);
    wanted = wanted > 0 ? wanted : 1;
    uint64_t seen = 0;
    for (uint64_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen >= wanted) {
            uint64_t value = highest_in(bucket);
            return value < histogram->max ? value : histogram->max;
        }
    }
    return histogram->max;
}
