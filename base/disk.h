/* The disk seam: everything durable goes through it, so that the same log and image code runs on
 * POSIX files and on a simulated disk that crashes, tears, rots and fills.
 *
 * Calls block; they are made on worker threads, never on the loop. They return 0 or LKV_ENOENT,
 * LKV_EEXIST, LKV_ENOSPACE, LKV_EPERM, LKV_EIO, LKV_ELOCKED, LKV_ENOMEM. Short writes and EINTR are
 * the implementation's to finish. Different files may be used by different threads at once; one
 * file by one writer and any number of readers.
 */
#ifndef BASE_DISK_H
#define BASE_DISK_H

#include "base/error.h"
#include "base/slice.h"

struct disk;
struct disk_file;
struct disk_lock;

enum disk_open_flags {
    DISK_READ = 0,
    DISK_WRITE = 1,     /* reading too */
    DISK_CREATE = 2,    /* make it if absent */
    DISK_EXCLUSIVE = 4, /* with DISK_CREATE: LKV_EEXIST if present */
    DISK_TRUNCATE = 8   /* with DISK_WRITE: to size 0 */
};

enum { DISK_PATH_SIZE = 1400 }; /* a buffer for the path of any file in a node's directory */

/* Which file it is, for as long as it exists: a copy of it is another one (rule 17). Survives renames,
 * restarts and mounts elsewhere. All 0: this file system cannot tell. */
struct disk_file_id {
    uint64_t file_system; /* 0: unknown. Made from the device on some, which may be numbered anew */
    uint64_t number;      /* the inode's */
    uint64_t born_ns;     /* when it was made, 0: unknown. Tells a number that was used again */
};

struct disk_ops {
    int (*make_dir)(struct disk *disk, const char *path); /* present already: 0; parents: no */
    int (*open)(struct disk *disk, const char *path, int flags, struct disk_file **out);
    void (*close)(struct disk_file *file);
    /* `*got` < size only at the end of the file. */
    int (*read)(struct disk_file *file, uint64_t offset, void *into, size_t size, size_t *got);
    /* All of the slices, one after the other, or an error (then any part may have been written). */
    int (*write)(struct disk_file *file, uint64_t offset, const struct slice *parts, size_t count);
    int (*sync)(struct disk_file *file); /* data and what is needed to read it back */
    int (*size)(struct disk_file *file, uint64_t *out);
    int (*truncate)(struct disk_file *file, uint64_t size);
    int (*sync_dir)(struct disk *disk, const char *path); /* makes names in it durable */
    int (*rename)(struct disk *disk, const char *from, const char *to);
    int (*remove)(struct disk *disk, const char *path);
    /* Names only, without . and .., in byte order; `visit` returning non-zero ends it with that. */
    int (*list)(struct disk *disk, const char *path, int (*visit)(void *arg, const char *name),
                void *arg);
    int (*free_bytes)(struct disk *disk, const char *path, uint64_t *out);
    /* An advisory lock that dies with the process. LKV_ELOCKED sets `*owner` to the holder's pid
     * (0 if unknown). A process that forks must not use the handle in the child. */
    int (*lock)(struct disk *disk, const char *path, struct disk_lock **out, long *owner);
    void (*unlock)(struct disk_lock *lock);
    /* A descriptor of the caller's own for the same file, for reading only, to be closed with
     * close(2). May be NULL: a disk without descriptors. */
    int (*descriptor)(struct disk_file *file, int *out);
    int (*identify)(struct disk_file *file, struct disk_file_id *out);
    /* A hint: what is read next comes from the disk, not from clean pages in memory, which say nothing
     * about it. May be NULL: a disk without a cache. */
    void (*forget_cached)(struct disk_file *file);
};

struct disk {
    const struct disk_ops *ops;
};

struct disk_file {
    struct disk *disk;
};

struct disk_lock {
    struct disk *disk;
};

/* Thin forwards, so that callers read as verbs. */
static inline MUST_USE int disk_make_dir(struct disk *disk, const char *path) {
    return disk->ops->make_dir(disk, path);
}
static inline MUST_USE int disk_open(struct disk *disk, const char *path, int flags,
                                     struct disk_file **out) {
    return disk->ops->open(disk, path, flags, out);
}
static inline void disk_close(struct disk_file *file) {
    if (file != NULL) {
        file->disk->ops->close(file);
    }
}
static inline MUST_USE int disk_read(struct disk_file *file, uint64_t offset, void *into,
                                     size_t size, size_t *got) {
    return file->disk->ops->read(file, offset, into, size, got);
}
static inline MUST_USE int disk_write(struct disk_file *file, uint64_t offset,
                                      const struct slice *parts, size_t count) {
    return file->disk->ops->write(file, offset, parts, count);
}
static inline MUST_USE int disk_sync(struct disk_file *file) {
    return file->disk->ops->sync(file);
}
static inline MUST_USE int disk_size(struct disk_file *file, uint64_t *out) {
    return file->disk->ops->size(file, out);
}
static inline MUST_USE int disk_truncate(struct disk_file *file, uint64_t size) {
    return file->disk->ops->truncate(file, size);
}
static inline MUST_USE int disk_sync_dir(struct disk *disk, const char *path) {
    return disk->ops->sync_dir(disk, path);
}
static inline MUST_USE int disk_rename(struct disk *disk, const char *from, const char *to) {
    return disk->ops->rename(disk, from, to);
}
static inline MUST_USE int disk_remove(struct disk *disk, const char *path) {
    return disk->ops->remove(disk, path);
}
static inline MUST_USE int disk_list(struct disk *disk, const char *path,
                                     int (*visit)(void *arg, const char *name), void *arg) {
    return disk->ops->list(disk, path, visit, arg);
}
static inline MUST_USE int disk_free_bytes(struct disk *disk, const char *path, uint64_t *out) {
    return disk->ops->free_bytes(disk, path, out);
}
static inline MUST_USE int disk_lock(struct disk *disk, const char *path, struct disk_lock **out,
                                     long *owner) {
    return disk->ops->lock(disk, path, out, owner);
}
static inline MUST_USE int disk_descriptor(struct disk_file *file, int *out) {
    return file->disk->ops->descriptor != NULL ? file->disk->ops->descriptor(file, out)
                                               : LKV_EUNSUPPORTED;
}
static inline MUST_USE int disk_identify(struct disk_file *file, struct disk_file_id *out) {
    return file->disk->ops->identify(file, out);
}
static inline void disk_forget_cached(struct disk_file *file) {
    if (file->disk->ops->forget_cached != NULL) {
        file->disk->ops->forget_cached(file);
    }
}
static inline void disk_unlock(struct disk_lock *lock) {
    if (lock != NULL) {
        lock->disk->ops->unlock(lock);
    }
}

#endif
