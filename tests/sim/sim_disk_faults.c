/* What tests do to a simulated disk. */
#include "base/assert.h"
#include "base/crc.h"
#include "tests/sim/sim_disk_model.h"

#include <stdlib.h>

const struct sim_disk_counts *sim_disk_counts(const struct sim_disk *sim) {
    return &sim->counts;
}

uint64_t sim_disk_op_count(const struct sim_disk *sim) {
    return sim->ops;
}

uint64_t sim_disk_sync_count(const struct sim_disk *sim) {
    return sim->syncs;
}

size_t sim_disk_open_files(const struct sim_disk *sim) {
    return sim->open_files;
}

void sim_disk_crash_at(struct sim_disk *sim, uint64_t op) {
    sim->crash_at = op;
}

void sim_disk_crash_now(struct sim_disk *sim) {
    sim->crashed = true;
}

bool sim_disk_crashed(const struct sim_disk *sim) {
    return sim->crashed;
}

static void restart(struct sim_disk *sim) {
    ASSERT(sim->open_files == 0);
    sim->crashed = false;
    sim->crash_at = UINT64_MAX;
    sim->ops = 0;
    sim->fault = (struct sim_fault){0};
    sim->lose_next_write = false;
    sim->misdirect = 0;
    for (struct sim_lock *lock = sim->locks; lock != NULL; lock = lock->next) {
        free(lock->path);
        lock->path = NULL;
    }
}

void sim_disk_kill(struct sim_disk *sim) {
    restart(sim);
}

/* Names whose folder was lost are lost with it. */
static void drop_orphans(struct sim_disk *sim) {
    for (size_t i = 0; i < sim->medium.count; i++) {
        char parent[1024];
        sim_path_parent(sim->medium.list[i].path, parent, sizeof(parent));
        if (parent[0] != '\0' && sim_names_find(&sim->medium, parent) == NULL) {
            sim_names_remove(&sim->medium, sim->medium.list[i].path);
            i = (size_t)-1;
        }
    }
}

void sim_disk_power_cut(struct sim_disk *sim) {
    restart(sim);
    uint64_t chance = prng_below(&sim->prng, 5);
    sim_change_begin(sim);
    for (size_t i = 0; i < sim->change_count; i++) {
        if (sim_change_may(sim, &sim->changes[i], prng_below(&sim->prng, 4) < chance)) {
            sim_change_apply(&sim->medium, &sim->changes[i]);
        } else {
            sim->counts.lost_names++;
        }
        sim_change_fini(&sim->changes[i]);
    }
    sim->change_count = 0;
    drop_orphans(sim);
    sim_names_fini(&sim->cache);
    sim_names_copy(&sim->cache, &sim->medium);
    for (size_t i = 0; i < sim->inode_count; i++) {
        struct sim_inode *inode = &sim->inodes[i];
        if (inode->used) {
            sim_inode_settle_some(sim, inode, true);
            sim_inode_clean(inode);
            sim_image_copy(&inode->cache, &inode->medium);
        }
    }
    sim_inode_sweep(sim);
}

void sim_disk_fail(struct sim_disk *sim, int kinds, uint64_t countdown, int rc, bool lasting) {
    sim->fault =
        (struct sim_fault){.kinds = kinds, .countdown = countdown, .rc = rc, .lasting = lasting};
}

void sim_disk_heal(struct sim_disk *sim) {
    sim->fault = (struct sim_fault){0};
}

void sim_disk_set_capacity(struct sim_disk *sim, uint64_t bytes) {
    sim->capacity = bytes;
}

void sim_disk_ignore_sync(struct sim_disk *sim, bool ignore) {
    sim->ignore_sync = ignore;
}

void sim_disk_ignore_sync_dir(struct sim_disk *sim, bool ignore) {
    sim->ignore_sync_dir = ignore;
}

void sim_disk_lose_next_write(struct sim_disk *sim) {
    sim->lose_next_write = true;
}

void sim_disk_misdirect_next_write(struct sim_disk *sim, int64_t distance) {
    sim->misdirect = distance;
}

void sim_disk_evict(struct sim_disk *sim) {
    for (size_t i = 0; i < sim->inode_count; i++) {
        struct sim_inode *inode = &sim->inodes[i];
        uint64_t sectors = inode->used ? sim_inode_sectors(inode) : 0;
        for (uint64_t n = 0; n < sectors; n++) {
            bool dirty = n < inode->dirty_count && inode->dirty[n];
            uint64_t offset = n * SIM_SECTOR;
            if (dirty || offset >= inode->cache.size || prng_below(&sim->prng, 2) == 0) {
                continue;
            }
            uint8_t sector[SIM_SECTOR] = {0};
            uint64_t size = inode->cache.size - offset;
            size = size < SIM_SECTOR ? size : SIM_SECTOR;
            if (offset < inode->medium.size) {
                uint64_t left = inode->medium.size - offset;
                memcpy(sector, inode->medium.data + offset, (size_t)(left < size ? left : size));
            }
            sim->counts.evicted += memcmp(inode->cache.data + offset, sector, (size_t)size) != 0;
            memcpy(inode->cache.data + offset, sector, (size_t)size);
        }
    }
}

static struct sim_inode *inode_at(struct sim_disk *sim, const char *path) {
    struct sim_name *name = sim_names_find(&sim->cache, path);
    return name != NULL ? &sim->inodes[name->inode] : NULL;
}

bool sim_disk_flip_bit(struct sim_disk *sim, const char *path, uint64_t offset, unsigned bit,
                       enum sim_rot_where where) {
    struct sim_inode *inode = inode_at(sim, path);
    if (inode == NULL || offset >= inode->medium.size) {
        return false;
    }
    uint8_t mask = (uint8_t)(1u << (bit % 8));
    inode->medium.data[offset] ^= mask;
    if (where == SIM_ROT_BOTH && offset < inode->cache.size) {
        inode->cache.data[offset] ^= mask;
    }
    return true;
}

bool sim_disk_zero(struct sim_disk *sim, const char *path, uint64_t offset, uint64_t size,
                   enum sim_rot_where where) {
    struct sim_inode *inode = inode_at(sim, path);
    if (inode == NULL || offset + size > inode->medium.size) {
        return false;
    }
    memset(inode->medium.data + offset, 0, (size_t)size);
    if (where == SIM_ROT_BOTH && offset + size <= inode->cache.size) {
        memset(inode->cache.data + offset, 0, (size_t)size);
    }
    return true;
}

bool sim_disk_poke(struct sim_disk *sim, const char *path, uint64_t offset, struct slice bytes) {
    struct sim_inode *inode = inode_at(sim, path);
    if (inode == NULL) {
        return false;
    }
    sim_image_put(&inode->cache, offset, bytes.data, bytes.size);
    sim_image_put(&inode->medium, offset, bytes.data, bytes.size);
    return true;
}

bool sim_disk_cut_file(struct sim_disk *sim, const char *path, uint64_t size) {
    struct sim_inode *inode = inode_at(sim, path);
    if (inode == NULL) {
        return false;
    }
    sim_image_resize(&inode->cache, size);
    sim_image_resize(&inode->medium, size);
    return true;
}

bool sim_disk_unlink(struct sim_disk *sim, const char *path) {
    bool found = inode_at(sim, path) != NULL;
    char *copy = sim_must(strdup(path)); /* it may be the name's own */
    sim_names_remove(&sim->cache, copy);
    sim_names_remove(&sim->medium, copy);
    free(copy);
    return found;
}

bool sim_disk_peek(const struct sim_disk *sim, const char *path, struct slice *bytes) {
    const struct sim_name *name = sim_names_find(&sim->cache, path);
    if (name == NULL || sim->inodes[name->inode].is_dir) {
        return false;
    }
    const struct sim_image *cache = &sim->inodes[name->inode].cache;
    *bytes = slice_of(cache->data, (size_t)cache->size);
    return true;
}

const char *sim_disk_path(const struct sim_disk *sim, size_t n) {
    return n < sim->cache.count ? sim->cache.list[n].path : NULL;
}

uint64_t sim_disk_fingerprint(const struct sim_disk *sim) {
    uint32_t names = 0, bytes = 0;
    for (size_t i = 0; i < sim->cache.count; i++) {
        const struct sim_name *name = &sim->cache.list[i];
        const struct sim_image *cache = &sim->inodes[name->inode].cache;
        names = crc32c(names, slice_of(name->path, strlen(name->path) + 1));
        bytes = crc32c(bytes, slice_of(cache->data, (size_t)cache->size));
        bytes = crc32c(bytes, slice_of(&cache->size, sizeof(cache->size)));
    }
    return (uint64_t)names << 32 | bytes;
}

void sim_disk_set_latency(struct sim_disk *sim, const struct sim_disk_latency *latency) {
    sim->latency = *latency;
}

uint64_t sim_disk_take_ns(struct sim_disk *sim) {
    pthread_mutex_lock(&sim->mutex);
    uint64_t spent = sim->spent_ns;
    sim->spent_ns = 0;
    pthread_mutex_unlock(&sim->mutex);
    return spent;
}

struct sim_disk *sim_disk_clone(const struct sim_disk *sim, uint64_t seed) {
    struct sim_disk *copy = sim_disk_new(seed);
    sim_names_copy(&copy->cache, &sim->cache);
    sim_names_copy(&copy->medium, &sim->medium);
    copy->inodes = sim_must(calloc(sim->inode_count + 1, sizeof(*copy->inodes)));
    copy->inode_count = copy->inode_capacity = sim->inode_count;
    copy->born = sim->born;
    copy->file_system = sim->file_system; /* block by block: nothing in it tells */
    for (size_t i = 0; i < sim->inode_count; i++) {
        const struct sim_inode *from = &sim->inodes[i];
        struct sim_inode *to = &copy->inodes[i];
        to->used = from->used;
        to->is_dir = from->is_dir;
        to->born = from->born;
        to->size_dirty = from->size_dirty;
        sim_image_copy(&to->cache, &from->cache);
        sim_image_copy(&to->medium, &from->medium);
        if (from->dirty_count > 0) {
            to->dirty = sim_must(malloc((size_t)from->dirty_count));
            memcpy(to->dirty, from->dirty, (size_t)from->dirty_count);
            to->dirty_count = from->dirty_count;
        }
        if (from->bad_count > 0) {
            to->bad = sim_must(malloc((size_t)from->bad_count));
            memcpy(to->bad, from->bad, (size_t)from->bad_count);
            to->bad_count = from->bad_count;
        }
    }
    copy->changes = sim_must(calloc(sim->change_count + 1, sizeof(*copy->changes)));
    copy->change_count = copy->change_capacity = sim->change_count;
    for (size_t i = 0; i < sim->change_count; i++) {
        const struct sim_change *from = &sim->changes[i];
        copy->changes[i] =
            (struct sim_change){.kind = from->kind,
                                .path = sim_must(strdup(from->path)),
                                .to = from->to != NULL ? sim_must(strdup(from->to)) : NULL,
                                .inode = from->inode};
    }
    copy->capacity = sim->capacity;
    sim_inode_sweep(copy);
    return copy;
}
