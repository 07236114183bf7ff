#define _GNU_SOURCE /* pthread_setname_np */
#include "lib/uv/thread.h"

#include <signal.h>
#include <stdio.h>

enum { NAME_SIZE = 16 };

/* Everything, except what the kernel raises because of this thread's own instruction: were those
 * blocked, it would kill the process without the crash handler that the host may have. */
static void signals_to_block(sigset_t *set) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};

    (void)sigfillset(set);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        (void)sigdelset(set, faults[i]);
    }
}

static int create(pthread_t *out, size_t stack_size, void *(*run)(void *arg), void *arg) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return -1;
    }
    int failed = pthread_attr_setstacksize(&attributes, stack_size);
    if (failed == 0) {
        failed = pthread_create(out, &attributes, run, arg);
    }
    (void)pthread_attr_destroy(&attributes);
    return failed;
}

int thread_start(pthread_t *out, const char *name, size_t stack_size, void *(*run)(void *arg),
                 void *arg) {
    sigset_t blocked, before;
    signals_to_block(&blocked);
    if (pthread_sigmask(SIG_BLOCK, &blocked, &before) != 0) {
        return LKV_ENOMEM;
    }
    int failed = create(out, stack_size, run, arg);
    if (failed != 0) {
        /* The host's thread-local storage is taken from each stack and may alone exceed ours. */
        failed = pthread_create(out, NULL, run, arg);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        return LKV_ENOMEM;
    }
    char cut[NAME_SIZE];
    (void)snprintf(cut, sizeof(cut), "%s", name);
    (void)pthread_setname_np(*out, cut);
    return 0;
}
