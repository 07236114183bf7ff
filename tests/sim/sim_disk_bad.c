/* Sectors of the simulated disk that cannot be read, and its worst power cut. */
#include "base/assert.h"
#include "tests/sim/sim_disk_model.h"

#include <stdlib.h>

bool sim_inode_bad(const struct sim_inode *inode, uint64_t offset, uint64_t size, bool partly) {
    uint64_t end = offset + size;
    for (uint64_t n = offset / SIM_SECTOR; n < inode->bad_count && n * SIM_SECTOR < end; n++) {
        bool whole = offset <= n * SIM_SECTOR && (n + 1) * SIM_SECTOR <= end;
        if (inode->bad[n] && !(partly && whole)) {
            return true;
        }
    }
    return false;
}

void sim_inode_mend(struct sim_inode *inode, uint64_t offset, uint64_t size) {
    uint64_t first = (offset + SIM_SECTOR - 1) / SIM_SECTOR, end = (offset + size) / SIM_SECTOR;
    for (uint64_t n = first; n < end && n < inode->bad_count; n++) {
        inode->bad[n] = 0;
    }
}

bool sim_disk_unreadable(struct sim_disk *sim, const char *path, uint64_t offset, uint64_t size) {
    const struct sim_name *name = sim_names_find(&sim->cache, path);
    if (name == NULL || size == 0) {
        return false;
    }
    struct sim_inode *inode = &sim->inodes[name->inode];
    if (offset + size > inode->cache.size) {
        return false;
    }
    uint64_t first = offset / SIM_SECTOR, count = (offset + size + SIM_SECTOR - 1) / SIM_SECTOR;
    if (count > inode->bad_count) {
        inode->bad = sim_must(realloc(inode->bad, (size_t)count));
        memset(inode->bad + inode->bad_count, 0, (size_t)(count - inode->bad_count));
        inode->bad_count = count;
    }
    memset(inode->bad + first, 1, (size_t)(count - first));
    return true;
}

void sim_disk_forget_unsynced(struct sim_disk *sim) {
    sim_disk_kill(sim);
    for (size_t i = 0; i < sim->change_count; i++) {
        sim_change_fini(&sim->changes[i]);
    }
    sim->change_count = 0;
    sim_names_fini(&sim->cache);
    sim_names_copy(&sim->cache, &sim->medium);
    for (size_t i = 0; i < sim->inode_count; i++) {
        struct sim_inode *inode = &sim->inodes[i];
        if (inode->used) {
            sim_inode_clean(inode);
            sim_image_copy(&inode->cache, &inode->medium);
        }
    }
    sim_inode_sweep(sim);
}
