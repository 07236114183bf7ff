/* The system calls whose short results, interruptions and errors a test wants to choose. */
#ifndef LIB_UV_DISK_POSIX_CALLS_H
#define LIB_UV_DISK_POSIX_CALLS_H

#include "base/disk.h"

#include <sys/types.h>
#include <sys/uio.h>

/* As the functions of the same names, errno included. */
struct disk_posix_calls {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*pread)(int fd, void *into, size_t size, off_t offset);
    ssize_t (*pwritev)(int fd, const struct iovec *parts, int count, off_t offset);
    int (*fdatasync)(int fd);
    int (*fsync)(int fd);
    int (*ftruncate)(int fd, off_t size);
};

/* The system's own. */
extern const struct disk_posix_calls disk_posix_system_calls;

/* disk_posix_open with `calls`, which must outlive the disk. */
int disk_posix_open_with(struct disk **out, const struct disk_posix_calls *calls) MUST_USE;

/* The LKV_E code of an errno value. */
int disk_posix_error(int error);

#endif
