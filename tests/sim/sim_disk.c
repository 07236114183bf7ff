/* The seam's functions on the simulated disk. */
#include "tests/sim/sim_disk.h"

#include "base/assert.h"
#include "tests/sim/sim_disk_model.h"

#include <stdlib.h>

static struct sim_disk *sim_of(struct disk *disk) {
    return (struct sim_disk *)(void *)disk;
}

static struct sim_file *file_of(struct disk_file *file) {
    return (struct sim_file *)(void *)file;
}

static void spend(struct sim_disk *sim, enum sim_op kind, uint64_t bytes) {
    const struct sim_disk_latency *latency = &sim->latency;
    sim->spent_ns += latency->op_ns + bytes * latency->byte_ps / 1000;
    if (kind == SIM_SYNC || kind == SIM_SYNC_DIR) {
        sim->spent_ns += latency->sync_ns;
    }
    if (kind == SIM_SYNC) {
        sim->spent_ns += latency->sync_hang_ns;
    }
}

/* What becomes of one call. With `rc` != 0 and `partly`, some of it may still happen. */
struct fate {
    int rc;
    bool partly;
};

static struct fate begin(struct sim_disk *sim, enum sim_op kind, uint64_t bytes) {
    pthread_mutex_lock(&sim->mutex);
    if (sim->crashed) {
        return (struct fate){.rc = LKV_EIO};
    }
    spend(sim, kind, bytes);
    uint64_t op = sim->ops++;
    if (op >= sim->crash_at) {
        sim->counts.crashes++;
        sim->crashed = true;
        return (struct fate){.rc = LKV_EIO, .partly = true};
    }
    struct sim_fault *fault = &sim->fault;
    if ((fault->kinds & (int)kind) == 0) {
        return (struct fate){0};
    }
    if (fault->countdown > 0) {
        fault->countdown--;
        return (struct fate){0};
    }
    int rc = fault->rc;
    if (!fault->lasting) {
        fault->kinds = 0;
    }
    sim->counts.errors++;
    sim->counts.failed_syncs += kind == SIM_SYNC;
    return (struct fate){.rc = rc, .partly = true};
}

static int end(struct sim_disk *sim, int rc) {
    pthread_mutex_unlock(&sim->mutex);
    return rc;
}

static bool coin(struct sim_disk *sim) {
    return prng_below(&sim->prng, 2) == 0;
}

static void change(struct sim_disk *sim, enum sim_change_kind kind, const char *path,
                   const char *to, size_t inode) {
    if (sim->change_count == sim->change_capacity) {
        sim->change_capacity = sim->change_capacity * 2 + 8;
        sim->changes =
            sim_must(realloc(sim->changes, sim->change_capacity * sizeof(*sim->changes)));
    }
    struct sim_change *made = &sim->changes[sim->change_count++];
    *made = (struct sim_change){.kind = kind,
                                .path = sim_must(strdup(path)),
                                .to = to != NULL ? sim_must(strdup(to)) : NULL,
                                .inode = inode};
    sim_change_apply(&sim->cache, made);
}

static bool parent_exists(const struct sim_disk *sim, const char *path) {
    char parent[1024];
    sim_path_parent(path, parent, sizeof(parent));
    const struct sim_name *name = sim_names_find(&sim->cache, parent);
    return parent[0] == '\0' || (name != NULL && sim->inodes[name->inode].is_dir);
}

static int sim_make_dir(struct disk *disk, const char *path) {
    struct sim_disk *sim = sim_of(disk);
    struct fate fate = begin(sim, SIM_MAKE_DIR, 0);
    if (fate.rc == 0 && !parent_exists(sim, path)) {
        fate.rc = LKV_ENOENT;
    }
    if (fate.rc == 0 && sim_names_find(&sim->cache, path) == NULL) {
        change(sim, SIM_CHANGE_SET, path, NULL, sim_inode_new(sim, true));
    }
    return end(sim, fate.rc);
}

static int find_or_create(struct sim_disk *sim, const char *path, int flags, size_t *inode) {
    const struct sim_name *name = sim_names_find(&sim->cache, path);
    if (name != NULL) {
        if ((flags & DISK_EXCLUSIVE) != 0) {
            return LKV_EEXIST;
        }
        *inode = name->inode;
        return sim->inodes[*inode].is_dir ? LKV_EIO : 0;
    }
    if ((flags & DISK_CREATE) == 0 || !parent_exists(sim, path)) {
        return LKV_ENOENT;
    }
    *inode = sim_inode_new(sim, false);
    change(sim, SIM_CHANGE_SET, path, NULL, *inode);
    return 0;
}

static void set_size(struct sim_inode *inode, uint64_t size) {
    uint64_t before = inode->cache.size;
    sim_image_resize(&inode->cache, size);
    if (size > before) {
        sim_inode_dirty(inode, before, size - before);
    }
    inode->size_dirty = inode->size_dirty || size < before;
}

static int sim_open(struct disk *disk, const char *path, int flags, struct disk_file **out) {
    struct sim_disk *sim = sim_of(disk);
    struct fate fate = begin(sim, SIM_OPEN, 0);
    size_t inode = 0;
    bool creates = (flags & DISK_CREATE) != 0;
    if (fate.rc == 0 || (fate.partly && creates && sim->crashed && coin(sim))) {
        int rc = find_or_create(sim, path, flags, &inode);
        fate.rc = fate.rc != 0 ? fate.rc : rc;
    }
    if (fate.rc != 0) {
        return end(sim, fate.rc);
    }
    if ((flags & DISK_TRUNCATE) != 0) {
        set_size(&sim->inodes[inode], 0);
    }
    struct sim_file *file = sim_must(calloc(1, sizeof(*file)));
    file->base.disk = disk;
    file->sim = sim;
    file->inode = inode;
    file->writable = (flags & DISK_WRITE) != 0;
    sim->inodes[inode].open++;
    sim->open_files++;
    *out = &file->base;
    return end(sim, 0);
}

static void sim_close(struct disk_file *handle) {
    struct sim_file *file = file_of(handle);
    struct sim_disk *sim = file->sim;
    pthread_mutex_lock(&sim->mutex);
    ASSERT(sim->inodes[file->inode].open > 0);
    sim->inodes[file->inode].open--;
    sim->open_files--;
    pthread_mutex_unlock(&sim->mutex);
    free(file);
}

static int sim_read(struct disk_file *handle, uint64_t offset, void *into, size_t size,
                    size_t *got) {
    struct sim_file *file = file_of(handle);
    struct sim_disk *sim = file->sim;
    struct fate fate = begin(sim, SIM_READ, size);
    *got = 0;
    if (fate.rc != 0) {
        return end(sim, fate.rc);
    }
    const struct sim_inode *inode = &sim->inodes[file->inode];
    const struct sim_image *cache = &inode->cache;
    if (offset < cache->size) {
        uint64_t left = cache->size - offset;
        size_t fits = left < size ? (size_t)left : size;
        if (sim_inode_bad(inode, offset, fits, false)) {
            sim->counts.bad_reads++;
            return end(sim, LKV_EIO);
        }
        *got = fits;
        memcpy(into, cache->data + offset, *got);
    }
    return end(sim, 0);
}

static uint64_t bytes_used(const struct sim_disk *sim) {
    uint64_t used = 0;
    for (size_t i = 0; i < sim->cache.count; i++) {
        used += sim->inodes[sim->cache.list[i].inode].cache.size;
    }
    return used;
}

/* One piece into the cache; how much of it fits on the disk. */
static uint64_t fitting(const struct sim_disk *sim, const struct sim_inode *inode, uint64_t offset,
                        uint64_t size) {
    if (sim->capacity == UINT64_MAX || offset + size <= inode->cache.size) {
        return size;
    }
    uint64_t used = bytes_used(sim);
    uint64_t free_bytes = used < sim->capacity ? sim->capacity - used : 0;
    uint64_t limit = inode->cache.size + free_bytes;
    return offset >= limit ? 0 : (offset + size > limit ? limit - offset : size);
}

static int write_parts(struct sim_disk *sim, struct sim_inode *inode, uint64_t offset,
                       const struct slice *parts, size_t count, uint64_t upto) {
    for (size_t i = 0; i < count && upto > 0; i++) {
        uint64_t size = parts[i].size < upto ? parts[i].size : upto;
        uint64_t fits = fitting(sim, inode, offset, size);
        sim_image_put(&inode->cache, offset, parts[i].data, fits);
        if (!sim->lose_next_write) {
            sim_inode_dirty(inode, offset, fits);
        }
        if (fits < size) {
            sim->counts.no_space++;
            return LKV_ENOSPACE;
        }
        offset += size;
        upto -= size;
    }
    return 0;
}

static int sim_write(struct disk_file *handle, uint64_t offset, const struct slice *parts,
                     size_t count) {
    struct sim_file *file = file_of(handle);
    struct sim_disk *sim = file->sim;
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += parts[i].size;
    }
    struct fate fate = begin(sim, SIM_WRITE, total);
    ASSERT(file->writable);
    struct sim_inode *inode = &sim->inodes[file->inode];
    uint64_t upto = fate.rc == 0 ? total : 0;
    if (fate.partly) {
        upto = prng_below(&sim->prng, total + 1);
    }
    if (fate.rc == 0) {
        offset = (uint64_t)((int64_t)offset + sim->misdirect);
        sim->misdirect = 0;
    }
    /* A sector that is written in part has to be read first. */
    if (fate.rc == 0 && sim_inode_bad(inode, offset, total, true)) {
        sim->lose_next_write = false;
        return end(sim, LKV_EIO);
    }
    int rc = write_parts(sim, inode, offset, parts, count, upto);
    sim_inode_mend(inode, offset, upto);
    sim->lose_next_write = false;
    return end(sim, fate.rc != 0 ? fate.rc : rc);
}

static int sim_sync(struct disk_file *handle) {
    struct sim_file *file = file_of(handle);
    struct sim_disk *sim = file->sim;
    struct fate fate = begin(sim, SIM_SYNC, 0);
    struct sim_inode *inode = &sim->inodes[file->inode];
    if (fate.rc == 0 && !sim->ignore_sync) {
        for (uint64_t n = 0; n < inode->dirty_count; n++) {
            if (inode->dirty[n]) {
                sim_inode_settle(inode, n, SIM_SECTOR);
            }
        }
        if (inode->size_dirty || inode->medium.size < inode->cache.size) {
            sim_image_resize(&inode->medium, inode->cache.size);
        }
        sim_inode_clean(inode);
    } else if (fate.partly && !sim->crashed) {
        sim_inode_settle_some(sim, inode, false); /* and the rest is dropped, and called clean */
        sim_inode_clean(inode);
    }
    sim->syncs += fate.rc == 0;
    return end(sim, fate.rc);
}

static int sim_size(struct disk_file *handle, uint64_t *out) {
    struct sim_file *file = file_of(handle);
    struct fate fate = begin(file->sim, SIM_SIZE, 0);
    *out = file->sim->inodes[file->inode].cache.size;
    return end(file->sim, fate.rc);
}

static int sim_truncate(struct disk_file *handle, uint64_t size) {
    struct sim_file *file = file_of(handle);
    struct fate fate = begin(file->sim, SIM_TRUNCATE, 0);
    struct sim_inode *inode = &file->sim->inodes[file->inode];
    if (fate.rc == 0 && fitting(file->sim, inode, 0, size) < size) {
        fate.rc = LKV_ENOSPACE;
        file->sim->counts.no_space++;
    }
    if (fate.rc == 0) {
        set_size(inode, size);
    }
    return end(file->sim, fate.rc);
}

static void settle_names(struct sim_disk *sim, const char *dir, bool some) {
    size_t kept = 0;
    sim_change_begin(sim);
    for (size_t i = 0; i < sim->change_count; i++) {
        struct sim_change *one = &sim->changes[i];
        if (!sim_change_in(one, dir) || !sim_change_may(sim, one, !some || coin(sim))) {
            sim->changes[kept++] = *one;
            continue;
        }
        sim_change_apply(&sim->medium, one);
        sim_change_fini(one);
    }
    sim->change_count = kept;
}

static int sim_sync_dir(struct disk *disk, const char *path) {
    struct sim_disk *sim = sim_of(disk);
    struct fate fate = begin(sim, SIM_SYNC_DIR, 0);
    if (fate.rc == 0 && !sim->ignore_sync_dir) {
        settle_names(sim, path, false);
    } else if (fate.partly && !sim->crashed) {
        settle_names(sim, path, true); /* names are journaled: what is missing stays pending */
    }
    sim_inode_sweep(sim);
    return end(sim, fate.rc);
}

static int sim_rename(struct disk *disk, const char *from, const char *to) {
    struct sim_disk *sim = sim_of(disk);
    struct fate fate = begin(sim, SIM_RENAME, 0);
    const struct sim_name *name = sim_names_find(&sim->cache, from);
    if (fate.rc == 0 && name == NULL) {
        fate.rc = LKV_ENOENT;
    }
    if (name != NULL && (fate.rc == 0 || (fate.partly && sim->crashed && coin(sim)))) {
        change(sim, SIM_CHANGE_RENAME, from, to, name->inode);
    }
    return end(sim, fate.rc);
}

static int sim_remove(struct disk *disk, const char *path) {
    struct sim_disk *sim = sim_of(disk);
    struct fate fate = begin(sim, SIM_REMOVE, 0);
    const struct sim_name *name = sim_names_find(&sim->cache, path);
    if (fate.rc == 0 && name == NULL) {
        fate.rc = LKV_ENOENT;
    }
    if (name != NULL && (fate.rc == 0 || (fate.partly && sim->crashed && coin(sim)))) {
        change(sim, SIM_CHANGE_REMOVE, path, NULL, name->inode);
    }
    return end(sim, fate.rc);
}

static int sim_list(struct disk *disk, const char *path, int (*visit)(void *arg, const char *name),
                    void *arg) {
    struct sim_disk *sim = sim_of(disk);
    struct fate fate = begin(sim, SIM_LIST, 0);
    const struct sim_name *dir = sim_names_find(&sim->cache, path);
    if (fate.rc == 0 && (dir == NULL || !sim->inodes[dir->inode].is_dir)) {
        fate.rc = LKV_ENOENT;
    }
    size_t prefix = strlen(path) + 1;
    for (size_t i = 0; fate.rc == 0 && i < sim->cache.count; i++) {
        char parent[1024];
        sim_path_parent(sim->cache.list[i].path, parent, sizeof(parent));
        if (strcmp(parent, path) == 0) {
            fate.rc = visit(arg, sim->cache.list[i].path + prefix);
        }
    }
    return end(sim, fate.rc);
}

static int sim_free_bytes(struct disk *disk, const char *path, uint64_t *out) {
    struct sim_disk *sim = sim_of(disk);
    (void)path;
    struct fate fate = begin(sim, SIM_FREE_BYTES, 0);
    uint64_t used = bytes_used(sim);
    *out = sim->capacity == UINT64_MAX ? UINT64_MAX / 2
                                       : (used < sim->capacity ? sim->capacity - used : 0);
    return end(sim, fate.rc);
}

static int sim_lock(struct disk *disk, const char *path, struct disk_lock **out, long *owner) {
    struct sim_disk *sim = sim_of(disk);
    struct fate fate = begin(sim, SIM_LOCK, 0);
    for (struct sim_lock *held = sim->locks; fate.rc == 0 && held != NULL; held = held->next) {
        if (held->path != NULL && strcmp(held->path, path) == 0) {
            *owner = 4711; /* whoever it is, it has a number */
            fate.rc = LKV_ELOCKED;
        }
    }
    if (fate.rc == 0) {
        struct sim_lock *lock = sim_must(calloc(1, sizeof(*lock)));
        lock->base.disk = disk;
        lock->sim = sim;
        lock->path = sim_must(strdup(path));
        lock->next = sim->locks;
        sim->locks = lock;
        *out = &lock->base;
    }
    return end(sim, fate.rc);
}

static void sim_unlock(struct disk_lock *handle) {
    struct sim_lock *lock = (struct sim_lock *)(void *)handle;
    struct sim_disk *sim = lock->sim;
    pthread_mutex_lock(&sim->mutex);
    struct sim_lock **at = &sim->locks;
    while (*at != lock) {
        at = &(*at)->next;
    }
    *at = lock->next;
    pthread_mutex_unlock(&sim->mutex);
    free(lock->path);
    free(lock);
}

static int sim_identify(struct disk_file *handle, struct disk_file_id *out) {
    struct sim_file *file = file_of(handle);
    struct sim_disk *sim = file->sim;
    struct fate fate = begin(sim, SIM_SIZE, 0);
    *out = (struct disk_file_id){.file_system = sim->file_system,
                                 .number = file->inode + 1,
                                 .born_ns = sim->inodes[file->inode].born};
    return end(sim, fate.rc);
}

static const struct disk_ops sim_ops = {.make_dir = sim_make_dir,
                                        .open = sim_open,
                                        .close = sim_close,
                                        .read = sim_read,
                                        .write = sim_write,
                                        .sync = sim_sync,
                                        .size = sim_size,
                                        .truncate = sim_truncate,
                                        .sync_dir = sim_sync_dir,
                                        .rename = sim_rename,
                                        .remove = sim_remove,
                                        .list = sim_list,
                                        .free_bytes = sim_free_bytes,
                                        .lock = sim_lock,
                                        .unlock = sim_unlock,
                                        .identify = sim_identify};

struct sim_disk *sim_disk_new(uint64_t seed) {
    struct sim_disk *sim = sim_must(calloc(1, sizeof(*sim)));
    sim->base.ops = &sim_ops;
    sim->prng = prng_of(seed);
    sim->file_system = seed | 1;
    sim->crash_at = UINT64_MAX;
    sim->capacity = UINT64_MAX;
    pthread_mutex_init(&sim->mutex, NULL);
    return sim;
}

void sim_disk_free(struct sim_disk *sim) {
    if (sim == NULL) {
        return;
    }
    ASSERT(sim->open_files == 0);
    sim_names_fini(&sim->cache);
    sim_names_fini(&sim->medium);
    for (size_t i = 0; i < sim->change_count; i++) {
        sim_change_fini(&sim->changes[i]);
    }
    sim->change_count = 0;
    sim_inode_sweep(sim);
    free(sim->changes);
    free(sim->inodes);
    pthread_mutex_destroy(&sim->mutex);
    free(sim);
}

struct disk *sim_disk_seam(struct sim_disk *sim) {
    return &sim->base;
}
