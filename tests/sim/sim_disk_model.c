#include "tests/sim/sim_disk_model.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

void *sim_must(void *pointer) {
    if (pointer == NULL) {
        abort(); /* a test without memory is no test; the log's own failures come by mem_fail */
    }
    return pointer;
}

/* The simulator allocates outside of base/mem.h: a test that fails the n-th allocation means the
 * code under test. */
static void *grow(void *pointer, size_t *capacity, size_t needed, size_t item) {
    if (needed <= *capacity) {
        return pointer;
    }
    size_t wanted = *capacity < 8 ? 8 : *capacity * 2;
    *capacity = wanted < needed ? needed : wanted;
    return sim_must(realloc(pointer, *capacity * item));
}

/* --- names --- */

static size_t place_of(const struct sim_names *names, const char *path) {
    size_t from = 0, to = names->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        bool before = strcmp(names->list[middle].path, path) < 0;
        from = before ? middle + 1 : from;
        to = before ? to : middle;
    }
    return from;
}

struct sim_name *sim_names_find(const struct sim_names *names, const char *path) {
    size_t at = place_of(names, path);
    bool found = at < names->count && strcmp(names->list[at].path, path) == 0;
    return found ? &names->list[at] : NULL;
}

void sim_names_set(struct sim_names *names, const char *path, size_t inode) {
    struct sim_name *found = sim_names_find(names, path);
    if (found != NULL) {
        found->inode = inode;
        return;
    }
    names->list = grow(names->list, &names->capacity, names->count + 1, sizeof(*names->list));
    size_t at = place_of(names, path);
    memmove(names->list + at + 1, names->list + at, (names->count - at) * sizeof(*names->list));
    names->list[at] = (struct sim_name){.path = sim_must(strdup(path)), .inode = inode};
    names->count++;
}

void sim_names_remove(struct sim_names *names, const char *path) {
    struct sim_name *found = sim_names_find(names, path);
    if (found == NULL) {
        return;
    }
    free(found->path);
    size_t at = (size_t)(found - names->list);
    names->count--;
    memmove(names->list + at, names->list + at + 1, (names->count - at) * sizeof(*names->list));
}

void sim_names_copy(struct sim_names *to, const struct sim_names *from) {
    for (size_t i = 0; i < from->count; i++) {
        sim_names_set(to, from->list[i].path, from->list[i].inode);
    }
}

void sim_names_fini(struct sim_names *names) {
    for (size_t i = 0; i < names->count; i++) {
        free(names->list[i].path);
    }
    free(names->list);
    *names = (struct sim_names){0};
}

void sim_change_apply(struct sim_names *names, const struct sim_change *change) {
    switch (change->kind) {
    case SIM_CHANGE_SET: sim_names_set(names, change->path, change->inode); break;
    case SIM_CHANGE_REMOVE: sim_names_remove(names, change->path); break;
    case SIM_CHANGE_RENAME: {
        struct sim_name *old = sim_names_find(names, change->path);
        if (old != NULL && old->inode == change->inode) {
            sim_names_remove(names, change->path);
        }
        sim_names_set(names, change->to, change->inode);
        break;
    }
    }
}

void sim_change_begin(struct sim_disk *sim) {
    sim->settling++;
}

bool sim_change_may(struct sim_disk *sim, const struct sim_change *change, bool wanted) {
    struct sim_inode *inode = &sim->inodes[change->inode];
    inode->held_in = wanted ? inode->held_in : sim->settling;
    return inode->held_in != sim->settling;
}

void sim_change_fini(struct sim_change *change) {
    free(change->path);
    free(change->to);
}

void sim_path_parent(const char *path, char *out, size_t size) {
    (void)snprintf(out, size, "%s", path);
    char *slash = strrchr(out, '/');
    *(slash != NULL ? slash : out) = '\0';
}

bool sim_change_in(const struct sim_change *change, const char *dir) {
    char parent[1024];
    sim_path_parent(change->path, parent, sizeof(parent));
    if (strcmp(parent, dir) == 0) {
        return true;
    }
    if (change->to == NULL) {
        return false;
    }
    sim_path_parent(change->to, parent, sizeof(parent));
    return strcmp(parent, dir) == 0;
}

/* --- contents --- */

void sim_image_resize(struct sim_image *image, uint64_t size) {
    if (size > image->capacity) {
        uint64_t capacity = image->capacity * 2 > size ? image->capacity * 2 : size;
        image->data = sim_must(realloc(image->data, (size_t)capacity));
        image->capacity = capacity;
    }
    if (size > image->size) {
        memset(image->data + image->size, 0, (size_t)(size - image->size));
    }
    image->size = size;
}

void sim_image_put(struct sim_image *image, uint64_t offset, const uint8_t *bytes, uint64_t size) {
    if (size == 0) {
        return;
    }
    if (offset + size > image->size) {
        sim_image_resize(image, offset + size);
    }
    memcpy(image->data + offset, bytes, (size_t)size);
}

void sim_image_copy(struct sim_image *to, const struct sim_image *from) {
    to->size = 0;
    sim_image_resize(to, from->size);
    if (from->size > 0) {
        memcpy(to->data, from->data, (size_t)from->size);
    }
}

uint64_t sim_inode_sectors(const struct sim_inode *inode) {
    uint64_t size = inode->cache.size > inode->medium.size ? inode->cache.size : inode->medium.size;
    return (size + SIM_SECTOR - 1) / SIM_SECTOR;
}

size_t sim_inode_new(struct sim_disk *sim, bool is_dir) {
    size_t at = sim->inodes_used; /* the lowest that is free */
    while (at < sim->inode_count && sim->inodes[at].used) {
        at++;
    }
    if (at == sim->inode_count) {
        sim->inodes =
            grow(sim->inodes, &sim->inode_capacity, sim->inode_count + 1, sizeof(*sim->inodes));
        sim->inode_count++;
    }
    sim->inodes_used = at + 1;
    sim->inodes[at] = (struct sim_inode){.used = true, .is_dir = is_dir, .born = ++sim->born};
    return at;
}

static void mark_names(const struct sim_names *names, bool *wanted) {
    for (size_t i = 0; i < names->count; i++) {
        wanted[names->list[i].inode] = true;
    }
}

void sim_inode_sweep(struct sim_disk *sim) {
    bool *wanted = sim_must(calloc(sim->inode_count + 1, sizeof(*wanted)));
    mark_names(&sim->cache, wanted);
    mark_names(&sim->medium, wanted);
    for (size_t i = 0; i < sim->change_count; i++) {
        wanted[sim->changes[i].inode] = true;
    }
    for (size_t i = 0; i < sim->inode_count; i++) {
        struct sim_inode *inode = &sim->inodes[i];
        if (inode->used && !wanted[i] && inode->open == 0) {
            free(inode->cache.data);
            free(inode->medium.data);
            free(inode->dirty);
            free(inode->bad);
            *inode = (struct sim_inode){0};
            sim->inodes_used = i < sim->inodes_used ? i : sim->inodes_used;
        }
    }
    free(wanted);
}

void sim_inode_dirty(struct sim_inode *inode, uint64_t offset, uint64_t size) {
    if (size == 0) {
        return;
    }
    uint64_t sectors = sim_inode_sectors(inode);
    uint64_t needed = (offset + size + SIM_SECTOR - 1) / SIM_SECTOR;
    sectors = needed > sectors ? needed : sectors;
    if (sectors > inode->dirty_count) {
        inode->dirty = sim_must(realloc(inode->dirty, (size_t)sectors));
        memset(inode->dirty + inode->dirty_count, 0, (size_t)(sectors - inode->dirty_count));
        inode->dirty_count = sectors;
    }
    memset(inode->dirty + offset / SIM_SECTOR, 1, (size_t)(needed - offset / SIM_SECTOR));
}

void sim_inode_clean(struct sim_inode *inode) {
    if (inode->dirty_count > 0) {
        memset(inode->dirty, 0, (size_t)inode->dirty_count);
    }
    inode->size_dirty = false;
}

void sim_inode_settle(struct sim_inode *inode, uint64_t n, uint64_t bytes) {
    uint64_t offset = n * SIM_SECTOR;
    if (offset >= inode->cache.size) {
        return;
    }
    uint64_t left = inode->cache.size - offset;
    sim_image_put(&inode->medium, offset, inode->cache.data + offset, left < bytes ? left : bytes);
}

void sim_inode_settle_some(struct sim_disk *sim, struct sim_inode *inode, bool tear) {
    /* Sometimes all, sometimes none, mostly a mixture: the ends are where mistakes are found. */
    uint64_t chance = prng_below(&sim->prng, 5);
    for (uint64_t n = 0; n < inode->dirty_count; n++) {
        if (!inode->dirty[n] || prng_below(&sim->prng, 4) >= chance) {
            sim->counts.lost_sectors += inode->dirty[n];
            continue;
        }
        uint64_t bytes = SIM_SECTOR;
        if (tear && prng_below(&sim->prng, 8) == 0) {
            bytes = prng_below(&sim->prng, SIM_SECTOR);
            sim->counts.torn_sectors++;
            tear = false;
        }
        sim_inode_settle(inode, n, bytes);
    }
    if (inode->size_dirty && prng_below(&sim->prng, 2) == 0) {
        sim_image_resize(&inode->medium, inode->cache.size);
    }
}
