/* The lock that keeps a second process off a directory. */
#ifndef LIB_UV_DISK_POSIX_LOCK_H
#define LIB_UV_DISK_POSIX_LOCK_H

#include "base/error.h"

/* Makes the file if need be, locks it and writes this process's pid into it; the descriptor is the
 * lock. LKV_ELOCKED sets `*owner` to the holder's pid (0 if unknown); otherwise it is set to 0. */
int disk_posix_lock(const char *path, int *out, long *owner) MUST_USE;

/* The same for one who only reads, where the file cannot be written: it keeps writers away, not other
 * readers, and writes nothing. LKV_ENOENT: a read-only file system without the file, where nobody can
 * hold it. */
int disk_posix_lock_shared(const char *path, int *out, long *owner) MUST_USE;

void disk_posix_unlock(int fd);

#endif
