/* One node's log under crashes, power cuts, rot and failing syncs. The protocol of log/, rules 2, 6 to 10
 * and 14.
 *
 * State. Segments 1, 2, ... with a header and ROOM records each, and the two slots of the vote file.
 * Every such cell exists twice, in the page cache and on the disk, and is dirty until it is synced; a
 * segment's name likewise. What the process knows: its log (terms of the entries), the segment it writes
 * to, its term. The step it is at: what was written is dirty, and a sync comes next. For the check: which
 * logs a recovery may now find, what a durable mark covers, the term that others were told.
 *
 * Actions. The owner saves a term, appends one or two entries, cuts and appends, has a mark written, or
 * takes an image and drops what is older; each is done in steps, write and sync (append.c, begin.c,
 * vote.c). At any moment: the process dies (cache stays); power fails (of what is dirty, any part reaches
 * the disk, a record perhaps torn); one cell rots; a sync fails (any part reaches the disk, and the cache
 * calls all of it clean). Then recovery (recover.c), and opening in steps (open.c). Files are zeros or,
 * from dropped segments, recycled.
 *
 * Holds:
 *   kept     recovery finds the log that was acknowledged, or, when a write was under way, that log with any
 *            first part of the write done: nothing acknowledged is lost, nothing that was cut comes back.
 *            Excused is only rot of a record that no durable mark covers (the blind window of rule 8):
 *            that may be cut.
 *   alarm    damage is reported only if something rotted that counts. It is the end here: repair.c goes on.
 *   term     the term that others were told is never forgotten. (Rule 2)
 *
 * Bounds: INDICES, TERMS, SEGMENTS, and of each kind of event how many.
 *
 * Mutants, each without a rule: VOTE_IN_ONE_SLOT (2), NO_SEGMENT_NUMBERS (6), CUT_IN_PLACE,
 * HEADER_NOT_SYNCED, DIRECTORY_NOT_SYNCED, DROPPED_BEFORE_CUT, TAIL_CONTINUED (7), NO_MARKS,
 * MARK_TOO_EARLY, SCAN_STOPS_AT_HOLE, BAD_HEADER_DISCARDED (8), NOTHING_REWRITTEN (9), SYNC_RETRIED (10),
 * IMAGE_NOT_TOLD (14). */
#ifndef MODELS_LOG_H
#define MODELS_LOG_H

#include "mutant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef INDICES
#define INDICES 3
#endif
#ifndef TERMS
#define TERMS 2
#endif
#ifndef SEGMENTS
#define SEGMENTS 4
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef ROTS
#define ROTS 1
#endif
#ifndef ERRORS
#define ERRORS 1
#endif
#ifndef APPENDS
#define APPENDS 2
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef MARKS
#define MARKS 1
#endif
#ifndef IMAGES
#define IMAGES 1
#endif
enum { ROOM = 2, CELLS = 1 + ROOM, SLOTS = 2, NO_EXCUSE = 255 };

/* Makes a state a whole number of words, so that no byte of it is padding. */
enum {
    BYTES = SEGMENTS * (2 * CELLS * 7 + 4) + 2 * SLOTS * 7 + 29 + 2 * (INDICES + 1),
    SPARE = 8 - BYTES % 8
};

enum kind { ZERO, BAD, HEADER, RECORD, MARK, VOTE };

/* Header: index is its first one. Vote: number, mark_index, mark_term are its mark, index counts the
 * saves. */
struct cell {
    uint8_t kind, number, index, term, prev_term, mark_index, mark_term;
};

struct segment {
    struct cell cache[CELLS], disk[CELLS];
    uint8_t dirty;                   /* bit: cell */
    uint8_t named_cache, named_disk; /* a real name; without one it is a spare, or gone */
    uint8_t recycled;                /* what is behind its end is not zeros */
};

enum step {
    DOWN,    /* no process; recovery is next */
    REFUSED, /* damaged: the end */
    READY,   /* nothing is dirty that was not left behind; the next part of the work may begin */
    REWRITTEN,
    FIRST_SLOT,
    SECOND_SLOT,
    RENAMED,
    WRITTEN,
    MARKED
};

struct state {
    uint64_t allowed; /* for the check: set of codes of logs */
    struct segment segments[SEGMENTS];
    struct cell slot_cache[SLOTS], slot_disk[SLOTS];
    uint8_t slots_dirty;

    /* the process */
    uint8_t step;
    uint8_t opening;
    uint8_t last, terms[INDICES + 1]; /* its log: what is durable, once a step is done */
    uint8_t current, tail;            /* segment - 1, cell */
    uint8_t term;
    uint8_t doubtful, saves;
    uint8_t numbers; /* highest segment number ever used */

    /* work that is left, in this order */
    uint8_t rewrite, vote, begin, count, entry_term, mark, vote_again;

    /* durable by nature */
    uint8_t image, image_terms[INDICES + 1];

    /* for the check */
    uint8_t covered, excuse, told, harmless;
    uint8_t crashes, rots, errors, appends, cuts, marks, images;
    uint8_t filler[SPARE];
};

_Static_assert(sizeof(struct state) == 8 + BYTES + SPARE, "states are compared as bytes");

static inline uint8_t term_at(const struct state *state, unsigned index) {
    return index <= state->last ? state->terms[index] : 0;
}

/* ------------------------------------------------------------------ log_recovery.c */

struct mark {
    uint8_t segment, index, term;
};

struct found {
    bool damaged, needs_segment;
    uint8_t last, terms[INDICES + 1];
    uint8_t newest, tail, rewrite_from;
    uint8_t vote_term, vote_doubtful, saves, highest;
    struct mark mark;
    /* the walk */
    bool started, stopped;
    uint8_t image; /* as recovery was told */
    uint8_t headers_end;
};

/* What recovery makes of the page cache and the names in it. */
void recover(const struct state *state, struct found *found);

bool has_header(const struct state *state, unsigned s);
/* What this segment has behind it belongs to later ones. */
unsigned bound_of(const struct state *state, unsigned s);

#endif
