/* What the programs of this folder share: time, figures as JSON lines, failure. */
#ifndef BENCH_SUPPORT_FIGURES_H
#define BENCH_SUPPORT_FIGURES_H

#include "base/prng.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEY_SIZE = 16 };

static inline void die(const char *what) {
    (void)fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static inline void require(bool condition, const char *what) {
    if (!condition) {
        die(what);
    }
}

static inline uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What passed by the clock, and what this thread used of it. */
struct timer {
    uint64_t wall_ns, cpu_ns;
};

static inline struct timer timer_start(void) {
    return (struct timer){clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_THREAD_CPUTIME_ID)};
}

static inline struct timer timer_since(struct timer start) {
    struct timer now = timer_start();
    return (struct timer){now.wall_ns - start.wall_ns, now.cpu_ns - start.cpu_ns};
}

static inline void report(const char *name, double value, const char *unit) {
    (void)printf("{\"bench\":\"" BENCH_NAME
                 "\",\"figure\":\"%s\",\"value\":%.1f,\"unit\":\"%s\"}\n",
                 name, value, unit);
    (void)fflush(stdout);
}

static inline void report_rate(const char *name, size_t count, struct timer taken) {
    (void)printf(
        "{\"bench\":\"" BENCH_NAME "\",\"figure\":\"%s\",\"value\":%.0f,\"unit\":\"per_s\","
        "\"cpu_ns_per_op\":%.1f}\n",
        name, (double)count * 1e9 / (double)taken.wall_ns, (double)taken.cpu_ns / (double)count);
    (void)fflush(stdout);
}

static inline double resident_bytes(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    require(file != NULL && fscanf(file, "%*d %ld", &pages) == 1, "statm");
    (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Sixteen characters in which neighbours in number are not neighbours in order. */
static inline void key_of(uint32_t number, char *into) {
    static const char digits[] = "0123456789abcdef";
    struct prng prng = prng_of(number);
    uint64_t bits = prng_next(&prng);
    for (int i = 0; i < KEY_SIZE; i++) {
        into[i] = digits[bits >> (4 * i) & 15];
    }
}

/* All keys of those numbers, shuffled. Returns owned, for free. */
static inline char (*keys_shuffled(size_t count))[KEY_SIZE] {
    struct prng prng = prng_of(1);
    char(*keys)[KEY_SIZE] = malloc((count + 1) * sizeof(keys[0]));
    require(keys != NULL, "out of memory");
    for (size_t i = 0; i < count; i++) {
        size_t at = prng_below(&prng, i + 1);
        memcpy(keys[i], keys[at], KEY_SIZE);
        key_of((uint32_t)i, keys[at]);
    }
    return keys;
}

#endif
