/* A disk in memory behind the seam of base/disk.h that crashes, tears, rots, fills and lies.
 *
 * Each file has two images: what a process sees (the page cache) and what is on the medium. A write
 * changes the first; a sync copies the dirty 512-byte sectors to the second; names likewise, through
 * sync_dir of their folder. The same seed gives the same behaviour. Calls may come from several
 * threads, but then their order, and with it the outcome, is theirs.
 *
 *     kill       the process dies, the page cache stays: the next process sees every write
 *     power cut  each unsynced sector and name survives or not, one sector may be torn
 *
 * A sync that is made to fail leaves any subset of its sectors on the medium and calls all of them
 * clean: cache and medium then differ, and a later sync does not mend it (as Linux does).
 */
#ifndef TESTS_SIM_SIM_DISK_H
#define TESTS_SIM_SIM_DISK_H

#include "base/disk.h"

struct sim_disk;

struct sim_disk *sim_disk_new(uint64_t seed); /* returns owned; aborts without memory */
void sim_disk_free(struct sim_disk *sim);     /* every file must have been closed */
struct disk *sim_disk_seam(struct sim_disk *sim);

/* A second disk with the same content (both images, names, pending names); no open files, faults
 * or locks. Its randomness starts from `seed`. */
struct sim_disk *sim_disk_clone(const struct sim_disk *sim, uint64_t seed);

/* --- operations, counted from 0 since the last restart --- */

enum sim_op {
    SIM_OPEN = 1 << 0,
    SIM_READ = 1 << 1,
    SIM_WRITE = 1 << 2,
    SIM_SYNC = 1 << 3,
    SIM_SIZE = 1 << 4,
    SIM_TRUNCATE = 1 << 5,
    SIM_SYNC_DIR = 1 << 6,
    SIM_RENAME = 1 << 7,
    SIM_REMOVE = 1 << 8,
    SIM_LIST = 1 << 9,
    SIM_MAKE_DIR = 1 << 10,
    SIM_FREE_BYTES = 1 << 11,
    SIM_LOCK = 1 << 12,
    SIM_ANY = (1 << 13) - 1
};

/* What befell it, of all its lives. */
struct sim_disk_counts {
    uint64_t lost_sectors, torn_sectors, lost_names; /* in power cuts, and in syncs that failed */
    uint64_t crashes;                                /* within an operation */
    uint64_t errors, failed_syncs, bad_reads, no_space;
    uint64_t evicted; /* sectors whose cache was another than the medium */
};
const struct sim_disk_counts *sim_disk_counts(const struct sim_disk *sim);

uint64_t sim_disk_op_count(const struct sim_disk *sim);
uint64_t sim_disk_sync_count(const struct sim_disk *sim); /* of files */
size_t sim_disk_open_files(const struct sim_disk *sim);

/* --- death --- */

/* The process dies within operation number `op`, which may happen in part; that call and all after
 * it return LKV_EIO until kill or power_cut. UINT64_MAX: never. */
void sim_disk_crash_at(struct sim_disk *sim, uint64_t op);
void sim_disk_crash_now(struct sim_disk *sim); /* between two operations */
bool sim_disk_crashed(const struct sim_disk *sim);

/* The worst power cut: nothing that was not synced survives. Close all files first. */
void sim_disk_forget_unsynced(struct sim_disk *sim);

/* Restarts: close all files of the dead process first. Faults and crash points are cleared, locks
 * released. */
void sim_disk_kill(struct sim_disk *sim);
void sim_disk_power_cut(struct sim_disk *sim);

/* --- faults --- */

/* The `countdown`-th operation (0 = next) among `kinds` returns `rc`; `lasting`: all later ones of
 * these kinds too, until sim_disk_heal. A failing write may have been done in part. */
void sim_disk_fail(struct sim_disk *sim, int kinds, uint64_t countdown, int rc, bool lasting);
void sim_disk_heal(struct sim_disk *sim);

/* File contents beyond `bytes` in all are LKV_ENOSPACE; UINT64_MAX: no limit. */
void sim_disk_set_capacity(struct sim_disk *sim, uint64_t bytes);

/* Lies: syncs report success and do nothing. For proving that a harness notices. */
void sim_disk_ignore_sync(struct sim_disk *sim, bool ignore);
void sim_disk_ignore_sync_dir(struct sim_disk *sim, bool ignore);

/* The next write reports success but never reaches the medium, not even by a later sync. */
void sim_disk_lose_next_write(struct sim_disk *sim);
/* The next write lands `distance` bytes further on, cache and medium alike. */
void sim_disk_misdirect_next_write(struct sim_disk *sim, int64_t distance);

/* After a failed sync the kernel may drop clean pages at any time: makes the cache of a random half
 * of the clean sectors show what the medium has. */
void sim_disk_evict(struct sim_disk *sim);

/* --- looking and rotting; false when there is no such file or range --- */

enum sim_rot_where { SIM_ROT_MEDIUM, SIM_ROT_BOTH };

bool sim_disk_flip_bit(struct sim_disk *sim, const char *path, uint64_t offset, unsigned bit,
                       enum sim_rot_where where);
bool sim_disk_zero(struct sim_disk *sim, const char *path, uint64_t offset, uint64_t size,
                   enum sim_rot_where where);
bool sim_disk_poke(struct sim_disk *sim, const char *path, uint64_t offset, struct slice bytes);
/* Its sectors return LKV_EIO to reads, and to writes of a part of one, until they are written whole. */
bool sim_disk_unreadable(struct sim_disk *sim, const char *path, uint64_t offset, uint64_t size);
bool sim_disk_cut_file(struct sim_disk *sim, const char *path, uint64_t size);
bool sim_disk_unlink(struct sim_disk *sim, const char *path); /* from both images */

/* What a process would read. Valid until the next call that changes the file. */
bool sim_disk_peek(const struct sim_disk *sim, const char *path, struct slice *bytes);
/* The n-th existing path in byte order, or NULL. Valid until names change. */
const char *sim_disk_path(const struct sim_disk *sim, size_t n);
/* Equal when both disks show the same names and bytes. */
uint64_t sim_disk_fingerprint(const struct sim_disk *sim);

/* --- time --- */

struct sim_disk_latency {
    uint64_t op_ns;        /* of every call */
    uint64_t sync_ns;      /* more, of sync and sync_dir */
    uint64_t byte_ps;      /* more, of reads and writes, per byte */
    uint64_t sync_hang_ns; /* more, of sync: a sick disk */
};

void sim_disk_set_latency(struct sim_disk *sim, const struct sim_disk_latency *latency);
/* Virtual time that calls have taken since this was last asked. */
uint64_t sim_disk_take_ns(struct sim_disk *sim);

#endif
