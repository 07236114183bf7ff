#include "base/prng.h"

#include <criterion/criterion.h>

/* Published with the reference implementation. */
Test(base_prng, is_splitmix64) {
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u,
                                        9817491932198370423u, 4593380528125082431u,
                                        16408922859458223821u};
    struct prng prng = prng_of(1234567);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        cr_assert_eq(prng_next(&prng), expected[i]);
    }
}

Test(base_prng, same_seed_gives_the_same_sequence) {
    struct prng one = prng_of(5), two = prng_of(5), other = prng_of(6);
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t number = prng_next(&one);
        cr_assert_eq(prng_next(&two), number);
        same += prng_next(&other) == number;
    }
    cr_assert_eq(same, 0);
}

Test(base_prng, below_stays_below) {
    struct prng prng = prng_of(1);
    cr_assert_eq(prng_below(&prng, 0), 0);
    static const uint64_t bounds[] = {1, 2, 3, 10, 1u << 20, UINT64_MAX};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        for (int n = 0; n < 1000; n++) {
            cr_assert_lt(prng_below(&prng, bounds[i]), bounds[i]);
        }
    }
}

Test(base_prng, below_is_roughly_even) {
    enum { BUCKETS = 10, DRAWS = 100000 };
    struct prng prng = prng_of(2);
    int counts[BUCKETS] = {0};
    for (int i = 0; i < DRAWS; i++) {
        counts[prng_below(&prng, BUCKETS)]++;
    }
    for (int i = 0; i < BUCKETS; i++) {
        cr_assert_gt(counts[i], DRAWS / BUCKETS * 9 / 10);
        cr_assert_lt(counts[i], DRAWS / BUCKETS * 11 / 10);
    }
}
