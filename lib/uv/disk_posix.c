#define _GNU_SOURCE /* pwritev, statx */
#include "lib/uv/disk_posix.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/uv/disk_posix_calls.h"
#include "lib/uv/disk_posix_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { FILE_MODE = 0600, DIRECTORY_MODE = 0700, PARTS_PER_CALL = 64 };

struct posix_disk {
    struct disk base;
    const struct disk_posix_calls *calls;
};

struct posix_file {
    struct disk_file base;
    const struct disk_posix_calls *calls;
    int fd;
};

struct posix_lock {
    struct disk_lock base;
    int fd;
};

int disk_posix_error(int error) {
    switch (error) {
    case ENOENT:
    case ENOTDIR: return LKV_ENOENT;
    case EEXIST: return LKV_EEXIST;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return LKV_ENOSPACE; /* EFBIG: the process's own limit of file size */
    case EACCES:
    case EPERM:
    case EROFS: return LKV_EPERM;
    case EMFILE: /* descriptors, like memory, may be there again a moment later */
    case ENFILE:
    case ENOMEM: return LKV_ENOMEM;
    default: return LKV_EIO;
    }
}

static int last_error(void) {
    return disk_posix_error(errno);
}

static struct posix_disk *disk_of(struct disk *disk) {
    return (struct posix_disk *)(void *)disk;
}

static struct posix_file *file_of(struct disk_file *file) {
    return (struct posix_file *)(void *)file;
}

/* ---- Opening ---- */

static int open_fd(const struct disk_posix_calls *calls, const char *path, int flags) {
    int fd;
    do {
        fd = calls->open(path, flags | O_CLOEXEC | O_NOCTTY, FILE_MODE);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static int posix_flags(int flags) {
    int result = (flags & DISK_WRITE) != 0 ? O_RDWR : O_RDONLY;
    result |= (flags & DISK_CREATE) != 0 ? O_CREAT : 0;
    result |= (flags & DISK_EXCLUSIVE) != 0 ? O_EXCL : 0;
    result |= (flags & DISK_TRUNCATE) != 0 ? O_TRUNC : 0;
    return result;
}

static int open_file(struct disk *disk, const char *path, int flags, struct disk_file **out) {
    ASSERT((flags & DISK_TRUNCATE) == 0 || (flags & DISK_WRITE) != 0);
    ASSERT((flags & DISK_EXCLUSIVE) == 0 || (flags & DISK_CREATE) != 0);
    *out = NULL;
    struct posix_file *file = mem_alloc(sizeof(*file));
    if (file == NULL) {
        return LKV_ENOMEM;
    }
    *file = (struct posix_file){.base.disk = disk, .calls = disk_of(disk)->calls};
    file->fd = open_fd(file->calls, path, posix_flags(flags));
    if (file->fd < 0) {
        int rc = last_error();
        mem_free(file);
        return rc;
    }
    *out = &file->base;
    return 0;
}

static void close_file(struct disk_file *base) {
    struct posix_file *file = file_of(base);
    /* Its result says nothing about durability, and after EINTR the descriptor is gone as well. */
    (void)close(file->fd);
    mem_free(file);
}

/* ---- Bytes ---- */

static int read_file(struct disk_file *base, uint64_t offset, void *into, size_t size,
                     size_t *got) {
    struct posix_file *file = file_of(base);
    ASSERT(offset <= INT64_MAX - size);
    *got = 0;
    while (*got < size) {
        ssize_t n =
            file->calls->pread(file->fd, (char *)into + *got, size - *got, (off_t)(offset + *got));
        if (n == 0) {
            return 0;
        }
        if (n > 0) {
            *got += (size_t)n;
        } else if (errno != EINTR) {
            return last_error();
        }
    }
    return 0;
}

/* What is still to be written: the slices from `at` on, but for `skip` bytes of the first. */
struct remainder {
    const struct slice *at;
    size_t count;
    size_t skip;
};

static void advance(struct remainder *left, size_t written) {
    left->skip += written;
    while (left->count > 0 && left->skip >= left->at->size) {
        left->skip -= left->at->size;
        left->at++;
        left->count--;
    }
    ASSERT(left->count > 0 || left->skip == 0);
}

static int fill(struct iovec *parts, const struct remainder *left) {
    int count = 0;
    for (size_t i = 0; i < left->count && count < PARTS_PER_CALL; i++) {
        size_t skip = i == 0 ? left->skip : 0;
        if (left->at[i].size > skip) {
            /* pwritev only reads it. */
            parts[count].iov_base = (void *)(uintptr_t)(left->at[i].data + skip);
            parts[count].iov_len = left->at[i].size - skip;
            count++;
        }
    }
    return count;
}

static int write_file(struct disk_file *base, uint64_t offset, const struct slice *slices,
                      size_t count) {
    struct posix_file *file = file_of(base);
    struct remainder left = {.at = slices, .count = count};
    advance(&left, 0); /* past leading empty slices */
    while (left.count > 0) {
        struct iovec parts[PARTS_PER_CALL];
        int filled = fill(parts, &left);
        ASSERT(filled > 0);
        ssize_t n = file->calls->pwritev(file->fd, parts, filled, (off_t)offset);
        if (n > 0) {
            offset += (uint64_t)n;
            advance(&left, (size_t)n);
        } else if (n == 0) {
            return LKV_EIO; /* no progress and no reason: trying for ever is no answer */
        } else if (errno != EINTR) {
            return last_error();
        }
    }
    return 0;
}

static int sync_file(struct disk_file *base) {
    struct posix_file *file = file_of(base);
    int rc;
    do {
        /* Interrupted is not failed: the kernel forgets an error only when it has reported it. */
        rc = file->calls->fdatasync(file->fd);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : last_error();
}

static int file_size(struct disk_file *base, uint64_t *out) {
    struct stat status;
    if (fstat(file_of(base)->fd, &status) != 0) {
        return last_error();
    }
    *out = (uint64_t)status.st_size;
    return 0;
}

static int truncate_file(struct disk_file *base, uint64_t size) {
    struct posix_file *file = file_of(base);
    ASSERT(size <= INT64_MAX);
    int rc;
    do {
        rc = file->calls->ftruncate(file->fd, (off_t)size);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : last_error();
}

/* ---- Names ---- */

static int make_dir(struct disk *disk, const char *path) {
    (void)disk;
    if (mkdir(path, DIRECTORY_MODE) == 0) {
        return 0;
    }
    int rc = last_error();
    struct stat status;
    if (rc == LKV_EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        return 0;
    }
    return rc;
}

static int sync_dir(struct disk *disk, const char *path) {
    const struct disk_posix_calls *calls = disk_of(disk)->calls;
    int fd = open_fd(calls, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return last_error();
    }
    int rc;
    do {
        rc = calls->fsync(fd);
    } while (rc != 0 && errno == EINTR);
    rc = rc == 0 ? 0 : last_error();
    (void)close(fd);
    return rc;
}

static int rename_file(struct disk *disk, const char *from, const char *to) {
    (void)disk;
    return rename(from, to) == 0 ? 0 : last_error();
}

static int remove_file(struct disk *disk, const char *path) {
    (void)disk;
    return unlink(path) == 0 ? 0 : last_error();
}

static int free_bytes(struct disk *disk, const char *path, uint64_t *out) {
    (void)disk;
    struct statvfs status;
    int rc;
    do {
        rc = statvfs(path, &status);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0) {
        return last_error();
    }
    *out = (uint64_t)status.f_bavail * status.f_frsize;
    return 0;
}

/* ---- Listing ---- */

struct names {
    char **at; /* owned, and so is each */
    size_t count;
    size_t capacity;
};

static void free_names(struct names *names) {
    for (size_t i = 0; i < names->count; i++) {
        mem_free(names->at[i]);
    }
    mem_free(names->at);
}

static int add_name(struct names *names, const char *name) {
    char **grown =
        mem_array_grow(names->at, &names->capacity, names->count + 1, sizeof(*names->at));
    if (grown == NULL) {
        return LKV_ENOMEM;
    }
    names->at = grown;
    names->at[names->count] = mem_strdup(name);
    if (names->at[names->count] == NULL) {
        return LKV_ENOMEM;
    }
    names->count++;
    return 0;
}

static int read_names(DIR *directory, struct names *names) {
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (entry == NULL) {
            return errno == 0 ? 0 : last_error();
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        int rc = add_name(names, entry->d_name);
        if (rc != 0) {
            return rc;
        }
    }
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list(struct disk *disk, const char *path, int (*visit)(void *arg, const char *name),
                void *arg) {
    (void)disk;
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return last_error();
    }
    struct names names = {0};
    int rc = read_names(directory, &names);
    (void)closedir(directory);
    if (rc == 0 && names.count > 0) {
        qsort(names.at, names.count, sizeof(*names.at), compare_names);
    }
    for (size_t i = 0; rc == 0 && i < names.count; i++) {
        rc = visit(arg, names.at[i]);
    }
    free_names(&names);
    return rc;
}

/* ---- The lock ---- */

static int lock(struct disk *disk, const char *path, struct disk_lock **out, long *owner) {
    *out = NULL;
    struct posix_lock *taken = mem_alloc(sizeof(*taken));
    if (taken == NULL) {
        *owner = 0;
        return LKV_ENOMEM;
    }
    *taken = (struct posix_lock){.base.disk = disk};
    int rc = disk_posix_lock(path, &taken->fd, owner);
    if (rc != 0) {
        mem_free(taken);
        return rc;
    }
    *out = &taken->base;
    return 0;
}

static void unlock(struct disk_lock *base) {
    struct posix_lock *taken = (struct posix_lock *)(void *)base;
    disk_posix_unlock(taken->fd);
    mem_free(taken);
}

/* Opened anew: a duplicate would share our right to write. Through /proc, since the name may be gone. */
static int descriptor(struct disk_file *base, int *out) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file_of(base)->fd);
    *out = open(path, O_RDONLY | O_CLOEXEC);
    return *out >= 0 ? 0 : last_error();
}

static void forget_cached(struct disk_file *base) {
    (void)posix_fadvise(file_of(base)->fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* What numbers its files anew at each mount: nothing can be said of them. */
static bool numbers_files_anew(const struct statfs *status) {
    return status->f_type == FUSE_SUPER_MAGIC || status->f_type == V9FS_MAGIC;
}

/* Not the device's number, which is another one after a restart on NFS, btrfs or a device mapper: the
 * file system's own id, which most make from their UUID, and an overlay has from what is below it. */
static int identify(struct disk_file *base, struct disk_file_id *out) {
    *out = (struct disk_file_id){0};
    struct statfs system;
    struct statx file = {0};
    int rc;
    do {
        rc = fstatfs(file_of(base)->fd, &system);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0 ||
        statx(file_of(base)->fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &file) != 0) {
        return last_error();
    }
    if (numbers_files_anew(&system)) {
        return 0;
    }
    uint32_t halves[2];
    memcpy(halves, &system.f_fsid, sizeof(halves));
    out->file_system = (uint64_t)halves[0] << 32 | halves[1];
    out->number = file.stx_ino;
    if ((file.stx_mask & STATX_BTIME) != 0) {
        out->born_ns = (uint64_t)file.stx_btime.tv_sec * 1000000000u + file.stx_btime.tv_nsec;
    }
    return 0;
}

/* ---- Life ---- */

static const struct disk_ops ops = {.make_dir = make_dir,
                                    .open = open_file,
                                    .close = close_file,
                                    .read = read_file,
                                    .write = write_file,
                                    .sync = sync_file,
                                    .size = file_size,
                                    .truncate = truncate_file,
                                    .sync_dir = sync_dir,
                                    .rename = rename_file,
                                    .remove = remove_file,
                                    .list = list,
                                    .free_bytes = free_bytes,
                                    .lock = lock,
                                    .unlock = unlock,
                                    .descriptor = descriptor,
                                    .identify = identify,
                                    .forget_cached = forget_cached};

static int system_open(const char *path, int flags, mode_t mode) {
    return open(path, flags, mode);
}

const struct disk_posix_calls disk_posix_system_calls = {.open = system_open,
                                                         .pread = pread,
                                                         .pwritev = pwritev,
                                                         .fdatasync = fdatasync,
                                                         .fsync = fsync,
                                                         .ftruncate = ftruncate};

int disk_posix_open_with(struct disk **out, const struct disk_posix_calls *calls) {
    *out = NULL;
    struct posix_disk *disk = mem_alloc(sizeof(*disk));
    if (disk == NULL) {
        return LKV_ENOMEM;
    }
    *disk = (struct posix_disk){.base.ops = &ops, .calls = calls};
    *out = &disk->base;
    return 0;
}

int disk_posix_open(struct disk **out) {
    return disk_posix_open_with(out, &disk_posix_system_calls);
}

void disk_posix_close(struct disk *disk) {
    mem_free(disk);
}
