/* One segment in memory: its file, its range, and where its records lie.
 *
 * Fields under the log's mutex: last, tail, pins, rotten, dropped, points. The rest never changes after
 * the segment was made. The offset index is sparse (one point for some 16 KiB of records, 8 bytes each) and
 * disposable: it is rebuilt from the records at open, and a missing point costs a longer scan. */
#ifndef LOG_SEGMENT_H
#define LOG_SEGMENT_H

#include "base/disk.h"
#include "log/format.h"

struct segment_point {
    uint32_t ordinal; /* index - first */
    uint32_t offset;  /* in units of LOG_ALIGN */
};

enum { SEGMENT_POINT_BYTES = 16 * 1024 };

struct segment {
    uint64_t number;
    uint64_t first, prev_term;
    uint64_t capacity;                           /* bytes of the file */
    bool zeroed;                                 /* it was zeros when it was begun */
    struct segment_place before[SEGMENT_BEFORE]; /* as its header says it */
    bool headless; /* during recovery: its header is lost, and its place not yet known */
    bool unread;   /* during recovery: the disk returned errors */
    uint64_t
        bound;   /* during recovery: as far as no later segment has taken over (recovery_bounds) */
    bool closed; /* nothing is written behind its end any more (rule 7) */
    struct disk_file *file; /* owned */

    uint64_t last;                /* last live record in it; first - 1 when none */
    uint64_t tail;                /* where the next record goes */
    unsigned pins;                /* readers; it is closed and recycled only at 0 */
    bool rotten;                  /* it was damaged: its file is not used again */
    bool dropped;                 /* no longer in the log's list: the last reader closes it */
    struct segment_point *points; /* owned */
    size_t point_count, point_capacity;
};

/* Returns owned, empty, taking the file; NULL without memory (the file stays the caller's). */
struct segment *segment_new(const struct segment_header *header, struct disk_file *file,
                            uint64_t capacity);
static inline struct segment_place segment_place(const struct segment *segment) {
    return (struct segment_place){
        .number = segment->number, .first = segment->first, .prev_term = segment->prev_term};
}

/* Bytes of records that may still be written into it. */
static inline uint64_t segment_room(const struct segment *segment) {
    return segment->closed ? 0 : segment->capacity - segment->tail;
}

void segment_free(struct segment *segment); /* closes the file; NULL is fine */

/* Remembers where record `index` starts, if it is time for a point. Never fails: see above. */
void segment_note(struct segment *segment, uint64_t index, uint64_t offset);

/* Forgets points of records from `index` on. */
void segment_forget(struct segment *segment, uint64_t index);

/* Forgets those of [first, last], where other records may lie from now on. */
void segment_forget_between(struct segment *segment, uint64_t first, uint64_t last);

/* An offset at or before the record `index`, where some record starts. */
uint64_t segment_seek(const struct segment *segment, uint64_t index);

#endif
