/* Starting a thread of ours inside somebody else's process.
 *
 * It gets no signal but those that report its own fault: the host's handlers never run on it, and
 * a write to a connection that the peer has closed is an error code, not SIGPIPE. No disposition
 * of the process changes. */
#ifndef LIB_UV_THREAD_H
#define LIB_UV_THREAD_H

#include "base/error.h"

#include <pthread.h>
#include <stddef.h>

enum {
    THREAD_STACK_SIZE = 256 * 1024,     /* our own code: shallow, without big frames */
    THREAD_STACK_SIZE_FOREIGN = 1 << 20 /* name service modules: nobody knows what they need */
};

/* `name` is cut to the 15 bytes that the kernel keeps. LKV_ENOMEM when the system has no room for
 * another thread. */
int thread_start(pthread_t *out, const char *name, size_t stack_size, void *(*run)(void *arg),
                 void *arg) MUST_USE;

#endif
