/* Makes malloc itself fail, for what libraries allocate by themselves; ours go through base/mem.h. */
#ifndef TESTS_SUPPORT_MALLOC_FAIL_H
#define TESTS_SUPPORT_MALLOC_FAIL_H

#include <stdbool.h>
#include <stdint.h>

/* The n-th malloc of this thread from now (0 = the next) fails, and so do all after it until
 * malloc_fail_never(). False: a sanitizer has taken malloc over, and none fails. */
bool malloc_fail_after(uint64_t n);
void malloc_fail_never(void);

#endif
