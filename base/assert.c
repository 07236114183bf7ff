#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void assert_failed(const char *condition, const char *file, int line,
                             const char *function) {
    (void)fprintf(stderr, "ledgerkv: assertion failed: %s (%s:%d, %s)\n", condition, file, line,
                  function);
    abort();
}
