/* The inside of the simulated disk, for sim_disk.c (the seam) and sim_disk_faults.c (what tests do
 * to it). Inodes and names are kept by number, so that a disk can be copied. */
#ifndef TESTS_SIM_SIM_DISK_MODEL_H
#define TESTS_SIM_SIM_DISK_MODEL_H

#include "base/prng.h"
#include "tests/sim/sim_disk.h"

#include <pthread.h>

enum { SIM_SECTOR = 512 };

struct sim_image {
    uint8_t *data; /* owned */
    uint64_t size, capacity;
};

struct sim_inode {
    bool used, is_dir;
    uint64_t born;           /* which inode it is, of all that this disk ever had */
    unsigned open;           /* handles */
    struct sim_image cache;  /* what processes see */
    struct sim_image medium; /* what survives */
    uint8_t *dirty;          /* owned; one for each sector of the larger image */
    uint64_t dirty_count;
    bool size_dirty; /* truncated since the last sync */
    uint8_t *bad;    /* owned; one for each sector: it cannot be read until it is written whole */
    uint64_t bad_count;
    uint64_t
        held_in; /* the `settling` in which an earlier change of its name stayed off the medium */
};

struct sim_name {
    char *path; /* owned */
    size_t inode;
};

struct sim_names {
    struct sim_name *list; /* owned; in byte order of path */
    size_t count, capacity;
};

enum sim_change_kind { SIM_CHANGE_SET, SIM_CHANGE_RENAME, SIM_CHANGE_REMOVE };

/* A change of names that no sync_dir has covered. */
struct sim_change {
    enum sim_change_kind kind;
    char *path; /* owned; of a rename: the old name */
    char *to;   /* owned; of a rename */
    size_t inode;
};

struct sim_fault {
    int kinds; /* 0: none */
    uint64_t countdown;
    int rc;
    bool lasting;
};

struct sim_lock {
    struct disk_lock base;
    struct sim_disk *sim;
    char *path; /* owned; NULL when the process that held it is dead */
    struct sim_lock *next;
};

struct sim_file {
    struct disk_file base;
    struct sim_disk *sim;
    size_t inode;
    bool writable;
};

struct sim_disk {
    struct disk base;
    pthread_mutex_t mutex;
    struct prng prng;
    struct sim_inode *inodes; /* owned */
    size_t inode_count, inode_capacity;
    size_t inodes_used; /* all below are */
    uint64_t settling;  /* of names, from 1 on */
    uint64_t born, file_system;
    struct sim_names cache, medium;
    struct sim_change *changes; /* owned; in order */
    size_t change_count, change_capacity;
    uint64_t ops, syncs, crash_at;
    bool crashed;
    struct sim_fault fault;
    uint64_t capacity;
    bool ignore_sync, ignore_sync_dir, lose_next_write;
    int64_t misdirect;
    struct sim_disk_counts counts;
    struct sim_disk_latency latency;
    uint64_t spent_ns;
    size_t open_files;
    struct sim_lock *locks;
};

void *sim_must(void *pointer); /* aborts on NULL */

struct sim_name *sim_names_find(const struct sim_names *names, const char *path);
void sim_names_set(struct sim_names *names, const char *path, size_t inode);
void sim_names_remove(struct sim_names *names, const char *path);
void sim_names_copy(struct sim_names *to, const struct sim_names *from);
void sim_names_fini(struct sim_names *names);
void sim_change_apply(struct sim_names *names, const struct sim_change *change);
/* Which pending changes reach the medium: any subset, but of one file the earlier before the later,
 * as journals do it (a rename never without what it renames). Ask for all in order. */
void sim_change_begin(struct sim_disk *sim);
bool sim_change_may(struct sim_disk *sim, const struct sim_change *change, bool wanted);
void sim_change_fini(struct sim_change *change);
bool sim_change_in(const struct sim_change *change, const char *dir);
void sim_path_parent(const char *path, char *out, size_t size);

void sim_image_resize(struct sim_image *image, uint64_t size);
void sim_image_put(struct sim_image *image, uint64_t offset, const uint8_t *bytes, uint64_t size);
void sim_image_copy(struct sim_image *to, const struct sim_image *from);

/* Whether one of these sectors cannot be read; `partly`: of those that are not covered whole. */
bool sim_inode_bad(const struct sim_inode *inode, uint64_t offset, uint64_t size, bool partly);
void sim_inode_mend(struct sim_inode *inode, uint64_t offset,
                    uint64_t size); /* those covered whole */

size_t sim_inode_new(struct sim_disk *sim, bool is_dir);
void sim_inode_sweep(struct sim_disk *sim); /* frees what nothing refers to */
void sim_inode_dirty(struct sim_inode *inode, uint64_t offset, uint64_t size);
void sim_inode_clean(struct sim_inode *inode);
/* Brings sector `n` to the medium, the first `bytes` of it. */
void sim_inode_settle(struct sim_inode *inode, uint64_t n, uint64_t bytes);
uint64_t sim_inode_sectors(const struct sim_inode *inode);
/* Each dirty sector reaches the medium or not. `tear`: one of those that do, in part. */
void sim_inode_settle_some(struct sim_disk *sim, struct sim_inode *inode, bool tear);

#endif
