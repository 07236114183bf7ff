/* The kinds of faults, each with where it is counted. */
#include "tests/sim/world_story.h"

#include <stddef.h>

struct kind {
    const char *name;
    size_t offset; /* in the summary */
};

#define FAULT(kind, name) \
    { name, offsetof(struct sim_summary, counts.faults) + (kind) * sizeof(uint64_t) }
#define ROT(kind, name) \
    { name, offsetof(struct sim_summary, counts.rot_kinds) + (kind) * sizeof(uint64_t) }
#define PLACE(place, name) \
    { name, offsetof(struct sim_summary, counts.rot_places) + (place) * sizeof(uint64_t) }
#define NET(member, name) \
    { name, offsetof(struct sim_summary, net.member) }
#define DISK(member, name) \
    { name, offsetof(struct sim_summary, disk.member) }

static const struct kind kinds[] = {
    FAULT(SIM_KILL, "kill"),
    FAULT(SIM_POWER, "power-cut"),
    FAULT(SIM_POWER_ALL, "power-cut-of-all"),
    DISK(crashes, "crash-in-operation"),
    FAULT(SIM_CLEAN_RESTART, "clean-restart"),
    FAULT(SIM_PAUSE, "pause"),
    FAULT(SIM_CUT_PAIR, "cut-pair"),
    FAULT(SIM_CUT_ONE_WAY, "cut-one-way"),
    FAULT(SIM_CUT_SOME, "cut-some"),
    FAULT(SIM_ISOLATE, "isolate"),
    FAULT(SIM_SPLIT, "split"),
    NET(blocked, "blocked-by-a-cut"),
    NET(resets, "reset"),
    NET(replays, "replay"),
    NET(spikes, "delay"),
    NET(losses, "loss"),
    NET(splits, "bytes-in-pieces"),
    NET(frames_dropped, "frame-dropped"),
    NET(frames_doubled, "frame-doubled"),
    NET(frames_swapped, "frame-swapped"),
    NET(frames_changed, "frame-changed"),
    FAULT(SIM_DISK_STALL, "disk-stall"),
    {"disk-slow", offsetof(struct sim_summary, counts.slow_disks)},
    DISK(errors, "disk-error"),
    DISK(failed_syncs, "failed-sync"),
    DISK(no_space, "disk-full"),
    DISK(lost_sectors, "unsynced-sector-lost"),
    DISK(torn_sectors, "sector-torn"),
    DISK(lost_names, "name-lost"),
    DISK(evicted, "cache-was-not-the-disk"),
    ROT(SIM_ROT_BIT, "rot-bit"),
    ROT(SIM_ROT_ZERO, "rot-zeroed-sector"),
    ROT(SIM_ROT_UNREADABLE, "rot-unreadable-sector"),
    ROT(SIM_ROT_LOST, "rot-lost-file"),
    ROT(SIM_ROT_UNWRITTEN, "rot-lost-write"),
    ROT(SIM_ROT_MISDIRECTED, "rot-misdirected-write"),
    PLACE(SIM_ROT_IN_RECORD, "in-records"),
    PLACE(SIM_ROT_IN_HEADER, "in-segment-headers"),
    PLACE(SIM_ROT_IN_IMAGE, "in-images"),
    PLACE(SIM_ROT_IN_VOTE, "in-votes"),
    DISK(bad_reads, "read-of-an-unreadable-sector"),
};

size_t sim_fired_kinds(void) {
    return sizeof(kinds) / sizeof(kinds[0]);
}

const char *sim_fired_name(size_t kind) {
    return kinds[kind].name;
}

uint64_t sim_fired(const struct sim_summary *summary, size_t kind) {
    const char *at = (const char *)summary + kinds[kind].offset;
    return *(const uint64_t *)(const void *)at;
}
