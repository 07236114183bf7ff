/* A small seeded generator (SplitMix64: Steele, Lea, Flood, OOPSLA 2014). The same seed gives the
 * same sequence everywhere; it is never used where an adversary must not guess. */
#ifndef BASE_PRNG_H
#define BASE_PRNG_H

#include <stdint.h>

struct prng {
    uint64_t state;
};

static inline struct prng prng_of(uint64_t seed) {
    return (struct prng){.state = seed};
}

static inline uint64_t prng_next(struct prng *prng) {
    uint64_t z = (prng->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, bound) up to a bias below bound / 2^64; 0 when bound is 0. */
static inline uint64_t prng_below(struct prng *prng, uint64_t bound) {
    return (uint64_t)(((unsigned __int128)prng_next(prng) * bound) >> 64);
}

#endif
