/* A lock of the open file description: unlike a lock of the process it is refused to a second open
 * in the same process, and closing another descriptor of the file does not drop it. It dies with
 * the last copy of the descriptor, so a killed process leaves only a file, which does not matter.
 *
 * A child by fork has a copy. Therefore the lock is let go by closing alone: an explicit unlock in
 * a child that cleans up would open its parent's directory to everybody.
 */
#define _GNU_SOURCE /* open file description locks */
#include "lib/uv/disk_posix_lock.h"

#include "lib/uv/disk_posix_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { LOCK_FILE_MODE = 0600, ATTEMPTS = 100 };

static int set_lock(int fd, short type) {
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    int rc;
    do {
        rc = fcntl(fd, F_OFD_SETLK, &whole);
    } while (rc != 0 && errno == EINTR);
    if (rc == 0) {
        return 0;
    }
    return errno == EAGAIN || errno == EACCES ? LKV_ELOCKED : disk_posix_error(errno);
}

/* The pid in the file; 0 if there is none, or none that lives (it is of an owner before). */
static long read_owner(int fd) {
    char text[32];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    long pid = strtol(text, NULL, 10);
    if (pid <= 0 || pid > INT32_MAX) {
        return 0;
    }
    return kill((pid_t)pid, 0) == 0 || errno == EPERM ? pid : 0;
}

/* Of one width, so that on a full disk it goes where the last one was. It is only for people: when
 * it cannot be written, the lock is good all the same. */
static void write_owner(int fd) {
    char text[24];
    int size = snprintf(text, sizeof(text), "%-20ld\n", (long)getpid());
    ssize_t n = pwrite(fd, text, (size_t)size, 0);
    (void)n;
}

/* Whether the name still means the file that was locked: somebody may have removed it in between,
 * and a third process would lock the next one of that name. */
static bool is_named(int fd, const char *path) {
    struct stat locked, named;
    return fstat(fd, &locked) == 0 && stat(path, &named) == 0 && locked.st_ino == named.st_ino &&
           locked.st_dev == named.st_dev;
}

static int try_lock(const char *path, int *out, long *owner) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, LOCK_FILE_MODE);
    if (fd < 0) {
        return disk_posix_error(errno);
    }
    int rc = set_lock(fd, F_WRLCK);
    if (rc == 0 && is_named(fd, path)) {
        *out = fd;
        return 0;
    }
    if (rc == LKV_ELOCKED) {
        *owner = read_owner(fd);
    }
    (void)close(fd);
    return rc == 0 ? LKV_ENOENT : rc;
}

int disk_posix_lock(const char *path, int *out, long *owner) {
    *owner = 0;
    int rc = LKV_ENOENT;
    for (int i = 0; rc == LKV_ENOENT && i < ATTEMPTS; i++) {
        rc = try_lock(path, out, owner);
    }
    if (rc == 0) {
        write_owner(*out);
    }
    return rc;
}

/* A mount that is read-only here may be written elsewhere, through another one. Its lock is the inode's,
 * so a node there is seen as long as its file is. */
int disk_posix_lock_shared(const char *path, int *out, long *owner) {
    *owner = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        struct statvfs system;
        char dir[1200];
        (void)snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
        bool absent = errno == ENOENT && statvfs(dir, &system) == 0;
        return absent && (system.f_flag & ST_RDONLY) != 0 ? LKV_ENOENT : LKV_EPERM;
    }
    int rc = set_lock(fd, F_RDLCK);
    if (rc == 0) {
        *out = fd;
        return 0;
    }
    if (rc == LKV_ELOCKED) {
        *owner = read_owner(fd);
    }
    (void)close(fd);
    return rc;
}

void disk_posix_unlock(int fd) {
    (void)close(fd);
}
