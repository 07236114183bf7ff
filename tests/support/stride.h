/* How finely a test looks that plays one thing at each of many places, or with each of many seeds.
 *
 * The plain tree plays all of them. A sanitizer makes each play several times slower, and looks at memory
 * rather than at the outcome: there, each LKV_STRIDE-th is played. */
#ifndef TESTS_SUPPORT_STRIDE_H
#define TESTS_SUPPORT_STRIDE_H

#ifndef LKV_STRIDE
#define LKV_STRIDE 1
#endif

#endif
