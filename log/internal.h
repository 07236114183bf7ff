/* struct log, for the files of this room only. */
#ifndef LOG_INTERNAL_H
#define LOG_INTERNAL_H

#include "log/log.h"
#include "log/names.h"
#include "log/recover.h"
#include "log/segment.h"
#include "log/terms.h"
#include "log/vote.h"

#include <pthread.h>

/* A file under a spare name, zero-filled or recycled, whose every byte is on disk: what is written
 * into it later needs no more space and moves no metadata. */
struct spare {
    struct spare *next;
    uint64_t number; /* of its name, not of a segment */
    uint64_t capacity;
    bool zeroed;            /* all zeros; else it was recycled and holds old records */
    struct disk_file *file; /* owned */
};

/* A file under a segment's name that no open may miss any more; waits for the bulk thread. */
struct dead_file {
    uint64_t number;
    uint64_t capacity;
    bool recyclable; /* rule 16: not while a reader could still look into it */
};

/* What one log_write gathers into one write call. */
struct batch {
    uint8_t *bytes; /* owned: headers, small payloads and padding, back to back */
    size_t size, capacity;
    struct slice *parts; /* owned */
    size_t part_count, part_capacity;
};

struct log {
    /* Never changes after open. */
    struct disk *disk;
    char *dir; /* owned */
    struct log_options options;
    struct log_identity identity;

    /* Log thread. */
    struct vote_file vote;
    struct log_terms terms;       /* changed under the mutex: others may read it there */
    struct segment *current;      /* the newest; also the last one in `segments` */
    struct log_mark_value marked; /* the newest mark that is itself on disk */
    uint64_t next_number;         /* of a segment; above every number ever written (rule 6) */
    struct batch batch;
    struct log_run *state_runs; /* owned; what log_state.runs shows */
    struct log_gap *state_gaps; /* owned; what log_state.gaps shows */

    /* Held around rename + sync of the directory. The kernel reports a failed directory sync to
     * one caller only: without it a segment's switch could be told that a name is durable which
     * another thread's failed sync has just lost. */
    pthread_mutex_t names_mutex;

    /* Under the mutex, which is never held during I/O. */
    pthread_mutex_t mutex;
    struct segment **segments; /* owned; live ones, ascending in number and in first */
    size_t segment_count, segment_capacity;
    uint64_t first; /* first index kept */
    uint64_t last;  /* last index on disk */
    struct spare *spare;
    bool making_spare;
    uint64_t next_spare;
    struct dead_file *dead; /* owned */
    size_t dead_count, dead_capacity;
    uint64_t bytes;       /* in files under any of our names */
    struct log_gap *gaps; /* owned; rule 11: ascending, disjoint, each within one segment */
    size_t gap_count, gap_capacity;
    uint64_t cuts; /* so far: entries read before one are not those of after it */
    int failed;    /* rule 10: the first error; final */
};

/* fail.c: rule 10 */
MUST_USE int log_failed(struct log *log, struct reason *why); /* 0, or the final error */
MUST_USE int log_fail(struct log *log, int rc, struct reason *why, const char *doing);

/* gaps.c: rule 11 */
MUST_USE int gaps_add(struct log *log, const struct log_gap *gap); /* under the mutex */
void gaps_clip(struct log *log);                  /* under the mutex: to [first, last] of the log */
void gaps_end_in(struct log *log, uint64_t term); /* the same: one at the log's end ends in it */
void gaps_filled(struct log *log, uint64_t upto); /* under the mutex: the gap that holds it */
/* The first gap that ends at or behind `index`. Any thread. */
bool gaps_next(struct log *log, uint64_t index, struct log_gap *out);

/* spare.c */
MUST_USE int spare_make(struct log *log, uint64_t capacity, struct spare **out);
struct spare *spare_take(struct log *log, uint64_t capacity_min); /* NULL: none that large */
void spare_return(struct log *log, struct spare *spare);          /* keeps it or discards it */
void spare_free(struct spare *spare);                             /* closes; the file stays */
void spare_adopt(struct log *log, const struct name_list *names); /* at open */

/* live.c: the list of segments */
MUST_USE int live_reserve(struct log *log, size_t more); /* pushes that cannot fail then */
void live_push(struct log *log, struct segment *segment);
void live_cut(struct log *log, uint64_t from);   /* before a push whose segment begins there */
void live_drop(struct log *log, uint64_t index); /* segments that end at or below it */
void live_bury(struct log *log, struct segment *segment);  /* no longer in the list: dead */
struct segment *live_pin(struct log *log, uint64_t index); /* NULL: none holds it */
void live_unpin(struct log *log, struct segment *segment);

/* begin.c: a new newest segment */
/* Takes the spare, always. `continues`: what comes before it in the log still counts. */
MUST_USE int segment_begin(struct log *log, struct spare *spare, uint64_t first, uint64_t prev_term,
                           bool continues, struct reason *why);
/* Writes the block; no sync. */
MUST_USE int segment_write_header(const struct log *log, const struct segment *segment,
                                  struct disk_file *file);
/* Header into the spare's file, synced; then the segment's name for it, and that durable. */
MUST_USE int segment_publish(struct log *log, const struct spare *spare,
                             const struct segment *segment);
/* Saves `vote` (NULL: no new one) and whatever is needed to use `segments` new numbers. */
static inline struct log_vote vote_saved(const struct log *log) {
    const struct vote_record *record = &log->vote.record;
    return (struct log_vote){
        .term = record->term, .voted_for = record->voted_for, .promised_ms = record->promised_ms};
}

MUST_USE int vote_write(struct log *log, const struct log_vote *vote, size_t segments,
                        struct reason *why);

/* plan.c: everything that may be refused without having changed anything */
struct write_plan {
    bool cuts;            /* something is really cut */
    struct spare *spares; /* owned; one for each segment to begin, in order */
    size_t segments;
};
MUST_USE int plan_write(struct log *log, const struct log_write *write, struct write_plan *plan,
                        struct reason *why);
MUST_USE int plan_segment(struct log *log, struct write_plan *plan, uint64_t bytes,
                          struct reason *why); /* room for `bytes` of records */
struct spare *plan_take(struct write_plan *plan);
void plan_undo(struct log *log, struct write_plan *plan);

/* append.c */
MUST_USE int append_entries(struct log *log, const struct entry *entries, size_t count,
                            struct write_plan *plan, struct reason *why);

/* fill.c */
/* Are these the beginning of a gap? LKV_EINVAL, LKV_ETOOLARGE. */
MUST_USE int fill_check(struct log *log, const struct entry *entries, size_t count,
                        struct reason *why);
struct fill_hole {
    uint64_t start, end; /* offsets in the segment's file */
};
/* Between the last record before the gap and the first one behind it. */
MUST_USE int fill_find_hole(struct log *log, struct segment *segment, const struct log_gap *gap,
                            struct fill_hole *hole);
/* Under the mutex: the entries are on disk in `segment`, the gap shrinks. */
void fill_publish(struct log *log, struct segment *segment, uint64_t end,
                  const struct entry *entries, size_t count, struct log_terms_change *change);

/* rebuild.c: a new file for `old`, which the caller has pinned, with `entries` in it. */
MUST_USE int rebuild_segment(struct log *log, struct segment *old, const struct log_gap *gap,
                             const struct entry *entries, size_t count,
                             struct log_terms_change *change, struct reason *why);

/* batch.c */
MUST_USE int batch_reserve(struct batch *batch, const struct entry *entries, size_t count);
void batch_begin(struct batch *batch);
void batch_shrink(struct batch *batch);
void batch_add(struct batch *batch, const struct log *log, const struct entry *entry,
               uint64_t prev_term, uint64_t offset);
/* The same for a place in any segment; the record states the mark of that segment's own header. */
void batch_add_in(struct batch *batch, const struct log *log, const struct segment *segment,
                  const struct entry *entry, uint64_t prev_term, uint64_t offset);
void batch_add_mark(struct batch *batch, const struct log *log, uint64_t offset);
void batch_fini(struct batch *batch);

static inline uint32_t entry_length(const struct entry *entry) {
    return entry->payload != NULL ? (uint32_t)entry->payload->size : 0;
}

#endif
