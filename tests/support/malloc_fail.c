#include "tests/support/malloc_fail.h"

#include <errno.h>
#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

#ifdef SANITIZED

bool malloc_fail_after(uint64_t n) {
    (void)n;
    return false;
}

void malloc_fail_never(void) {
}

#else

static _Thread_local struct {
    bool armed;
    uint64_t remaining;
} failure;

void *__libc_malloc(size_t size); /* glibc's own, under the name that nobody replaces */

/* Libraries must find it. */
__attribute__((visibility("default"))) void *malloc(size_t size) {
    if (failure.armed && failure.remaining == 0) {
        errno = ENOMEM;
        return NULL;
    }
    failure.remaining -= failure.armed ? 1 : 0;
    return __libc_malloc(size);
}

bool malloc_fail_after(uint64_t n) {
    failure.remaining = n;
    failure.armed = true;
    return true;
}

void malloc_fail_never(void) {
    failure.armed = false;
}

#endif
