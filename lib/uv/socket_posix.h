/* What libuv does not know about the file of a unix socket. */
#ifndef LIB_UV_SOCKET_POSIX_H
#define LIB_UV_SOCKET_POSIX_H

#include "base/error.h"

/* Removes the socket file at `path` if nobody listens on it: a killed process leaves one. 0 also
 * when there is nothing. LKV_EADDRINUSE: somebody listens, or it is no socket; LKV_EPERM. */
int socket_remove_stale(const char *path) MUST_USE;

/* Only the owner may connect. To be called between bind and listen: nobody has got in by then. */
int socket_make_private(const char *path) MUST_USE;

#endif
