/* Memory for helpers of tests: the test program ends when there is none. */
#ifndef TESTS_SUPPORT_NEED_H
#define TESTS_SUPPORT_NEED_H

#include <stdio.h>
#include <stdlib.h>

static inline void *need(void *memory) {
    if (memory == NULL) {
        (void)fprintf(stderr, "out of memory\n");
        abort();
    }
    return memory;
}

#endif
