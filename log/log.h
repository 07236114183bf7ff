/* The durable log of one node: segments of checksummed records and the term/vote record.
 *
 * Threads: writes (log_write, log_mark, log_fill and whatever says so) come from one thread at a
 * time, the log thread. log_read, log_first, log_drop_prefix, log_prepare_spare, log_note_damage and
 * log_scrub may run on other threads at the same time.
 *
 * Damage (rule 11): entries that were durable here and cannot be read are a gap. The log goes on
 * around it: the entries before and behind it are read, new ones are written, and the gap is filled
 * from others' copies with log_fill. What a gap held is never forgotten by itself.
 *
 * A write that returned an error is final (rule 10): every later write returns that error again,
 * nothing more is acknowledged, reads go on. The exceptions changed nothing and may be tried again:
 * LKV_ENOSPACE, LKV_ENOMEM before anything was written, and the refusals LKV_EINVAL and
 * LKV_ETOOLARGE. (A disk that fills up later than that is LKV_EIO, and final.)
 */
#ifndef LOG_LOG_H
#define LOG_LOG_H

#include "base/disk.h"
#include "base/entry.h"
#include "base/trace.h"

struct log;

struct log_options {
    uint64_t cluster_id; /* in every checksum: a record of another cluster never reads as ours */
    uint64_t group_id;
    uint64_t segment_bytes; /* of a new segment file; a larger record gets a segment of its own */
    uint32_t record_bytes_max; /* payload limit; larger is LKV_ETOOLARGE */
    bool mend; /* damage does not refuse the open: others can repair it (see log_state.gaps) */
    bool no_quorum_left; /* without this node: nobody could confirm an end that is not known */
    const struct trace *trace; /* borrowed, may be NULL */
};

/* From index `first` on (up to the next run) entries have this term. */
struct log_run {
    uint64_t first;
    uint64_t term;
};

struct log_vote {
    uint64_t term;
    uint64_t voted_for;   /* member id, 0 = nobody */
    uint32_t promised_ms; /* the owner's: how long a restart must not vote (rule 30) */
};

/* Entries [first, last] were durable here and cannot be read. The term of the last one is always
 * known: from its own header, from what follows it, or from the mark. The term of first - 1 is known
 * as well (of an entry that can be read, of the gap before, of the image, or 0); when the two are
 * equal, so are all in between. Otherwise the terms of [first, last - 1] are not known. */
struct log_gap {
    uint64_t first, last;
    uint64_t last_term;
    /* Where log_open expected the first entry; 0: found later. */
    uint64_t segment, offset;
};

/* What the disk says at open. All that it reports is durable when log_open returns (rule 9). */
struct log_state {
    struct log_vote vote; /* term >= the term of the last entry and of the mark */
    uint64_t first;       /* first index kept; last + 1 when the log is empty */
    uint64_t last;        /* 0 when nothing was ever stored (or image_index if that is later) */
    uint64_t last_term;
    /* Terms of [first, last], ascending; owned by the log, until close. Of an entry in a gap whose
     * term is not known it states some term between those of its neighbours: not to be used. */
    struct log_run *runs;
    size_t run_count;
    uint64_t cut_records; /* torn records cut off at open */
    bool blank;           /* no segment and no vote existed: just created */

    /* With `mend` only. Ascending and disjoint; one may begin just behind another. A snapshot of
     * the open, owned by the log until close. */
    const struct log_gap *gaps;
    size_t gap_count;
    /* More than `last` may have been durable here, and nothing here says how much (the newest
     * segment is lost). Durable before anything else is written, and reported by every later open
     * until log_settle_end. */
    bool end_unknown;
    uint64_t life;        /* as last noted by log_note_life; 0: never */
    struct reason damage; /* file:offset, expected and found, of the first finding; else empty */
};

/* Opens or creates the log in `dir` (which exists and is locked by the caller). `image_index` and
 * `image_term` name the newest durable image, 0 without one: holes at or below it are no damage
 * (rule 14). LKV_EDAMAGED: `why` names file, offset and what is wrong, and nothing was changed; with
 * `mend` that is only what no peer can repair: no readable vote, or records that contradict each
 * other. LKV_EIDENTITY: records of another cluster or group. LKV_EVERSION: a newer format, bytes
 * unchanged. After a failure `*out` is NULL.
 *
 * With `mend` and an image that is lost or damaged, name the newest image that is readable (0: none):
 * what lies between it and the first entry kept is a gap like any other. */
MUST_USE int log_open(struct log **out, struct disk *disk, const char *dir,
                      const struct log_options *options, uint64_t image_index, uint64_t image_term,
                      struct log_state *state, struct reason *why);

/* Writes the mark (clean stop) unless the log has failed. NULL is fine. */
void log_close(struct log *log);

/* One group commit. In this order, each part optional: the vote record; a cut of everything from
 * `cut_from` on (rule 7; 0 = none); entries appended at the end (indices consecutive). Durable, all
 * of it, when it returns 0. Borrows the entries for the call.
 *
 * A cut beyond the end is none. LKV_EINVAL, nothing done: indices that do not continue, terms that
 * fall or are above the durable one (rule 2: save the term first or with them), a vote that would
 * be the second in its term, a cut below the first index, or a cut inside a gap behind an entry
 * whose term is neither known nor told in `cut_prev_term`. Gaps at or behind the cut vanish; what is
 * left of one across it ends in that term from then on, for the new segment's header states it. */
struct log_write {
    bool save_vote;
    struct log_vote vote;
    uint64_t cut_from;
    uint64_t cut_prev_term; /* with cut_from: term of the entry before; 0: as the log knows it */
    const struct entry *entries;
    size_t count;
};
MUST_USE int log_write(struct log *log, const struct log_write *write, struct reason *why);

/* States on disk what is durable, so that later damage to it is told from a torn write (rule 8).
 * Called after 50 ms without a write; returns at once when nothing has changed since the last. */
MUST_USE int log_mark(struct log *log, struct reason *why);

/* After an image at (index, term) is durable whose index is beyond or conflicts with the log: the
 * log becomes empty and continues at index + 1 (log thread). */
MUST_USE int log_restart_after(struct log *log, uint64_t index, uint64_t term, struct reason *why);

/* Reads entries from `from` up to `to`, at least one and then as many as fit into `bytes_max` of
 * payload and `capacity` slots; verifies every checksum. The caller owns the references in `out`.
 * LKV_ETRUNCATED: below the first index kept. LKV_EINVAL: behind the end. LKV_EDAMAGED: entry `from`
 * is unreadable (a bad checksum, or sectors that the disk does not return), never "end of log";
 * log_damage_at tells whether that is known already, log_note_damage makes it known. What a cut
 * removes during the call may still be returned. */
MUST_USE int log_read(struct log *log, uint64_t from, uint64_t to, size_t bytes_max,
                      struct entry *out, size_t capacity, size_t *count, struct reason *why);

uint64_t log_first(struct log *log);

/* Term of entry `index`; 0: not in the log, or in a gap where it is not known. Any thread. */
uint64_t log_term_at(struct log *log, uint64_t index);

/* Is entry `index` in a gap that is known, and which (`gap` may be NULL)? Any thread. */
bool log_damage_at(struct log *log, uint64_t index, struct log_gap *gap);

/* The gaps as they are now: writes at most `capacity` of them and returns how many there are. */
size_t log_gaps(struct log *log, struct log_gap *out, size_t capacity);
uint64_t log_damaged_entries(struct log *log); /* in all of them */

/* Writes "path:offset" of a gap that log_open found, else nothing. */
void log_gap_place(const struct log *log, const struct log_gap *gap, char *out, size_t size);

/* A read has found damage in [first, last]. Reads them again; `*gap` gets the first entries of the
 * range that cannot be read, as a gap that the log knows from now on (the known one when there was
 * one). LKV_EINVAL: all of them can be read, or have left the log. LKV_ENOMEM. Any thread. */
MUST_USE int log_note_damage(struct log *log, uint64_t first, uint64_t last, struct log_gap *gap);

/* Writes `entries` where they were: consecutive, from the first index of a gap on, all of it or its
 * beginning. Durable and read back when it returns 0, and the gap is shorter or gone. It borrows the
 * entries. LKV_EINVAL, nothing done: no gap begins there, more than the gap, or terms that do not fit
 * (they fall, pass the gap's last term or the durable one, or the gap's last entry has another).
 * LKV_ETOOLARGE. LKV_ENOSPACE, LKV_ENOMEM, LKV_EDAMAGED (what was written reads back otherwise): the
 * gap stays, try again. Any other error is final (rule 10). Log thread. */
MUST_USE int log_fill(struct log *log, const struct entry *entries, size_t count,
                      struct reason *why);

/* Looks again at the beginning of the gap that begins at `first`, past the page cache where the disk can:
 * its records up to `last` that lie there whole, one behind the other, as many as fit into `bytes_max` of payload and
 * `capacity` slots; none when the first one is still unreadable, or no gap begins there. The caller owns the
 * references in `out`, also when it fails (LKV_ENOMEM). Any thread. */
MUST_USE int log_reread(struct log *log, uint64_t first, uint64_t last, size_t bytes_max,
                        struct entry *out, size_t capacity, size_t *count, struct reason *why);

/* These entries, which log_reread gave, can be read where they are: it reads them once more, and the gap is
 * shorter or gone. Nothing is written; the file is synced, and a failed sync is final (rule 10). Borrows the
 * entries. Errors as of log_fill; LKV_EDAMAGED: they read otherwise now, and the gap stays. Log thread. */
MUST_USE int log_regain(struct log *log, const struct entry *entries, size_t count,
                        struct reason *why);

/* Makes durable that the end is known again: the owner holds all that it may ever have acknowledged;
 * or that it is not: a peer has seen acknowledgements beyond it (rule 17). Log thread. */
MUST_USE int log_settle_end(struct log *log, struct reason *why);
MUST_USE int log_doubt_end(struct log *log, struct reason *why);

/* Makes durable in which life of its owner this log is open: an older one at a later open means that
 * its files were put back from a copy. Log thread. */
MUST_USE int log_note_life(struct log *log, uint64_t life, struct reason *why);

/* Verifies the records from entry `*index` on (0: from the first one kept), at least one and then as
 * many as lie within `bytes_max` and in the same file, and moves `*index` behind them; 0 again when it
 * came to the end. New damage ends the call with `*found_any`, is known to the log from then on and described in
 * `*found`; `*index` is behind it. It reads past the page cache where the disk can. Any thread, one
 * at a time. */
MUST_USE int log_scrub(struct log *log, uint64_t *index, size_t bytes_max, struct log_gap *found,
                       bool *found_any, struct reason *why);

/* Where the payload of entry `index` lies. The segment's bytes below the log's end do not change, and
 * its file is neither closed nor used for anything else, until it is unpinned. Reads headers only.
 * LKV_ETRUNCATED: not in the log; LKV_EDAMAGED: as of log_read. Any thread, on this disk's files. */
struct segment;
struct log_extent {
    struct segment *segment; /* pinned */
    struct disk_file *file;  /* the segment's */
    uint64_t offset, length, term;
};
MUST_USE int log_extent_pin(struct log *log, uint64_t index, struct log_extent *out,
                            struct reason *why);
void log_extent_unpin(struct log *log, struct segment *segment);

/* The segment files, oldest first, the last one being written to; writes at most `capacity` of them
 * and returns how many there are. Any thread. */
struct log_segment {
    uint64_t first, last; /* last = first - 1: no record yet */
    uint64_t bytes;       /* of the file */
};
size_t log_segments(struct log *log, struct log_segment *out, size_t capacity);

/* Total bytes in segment files (for status). */
uint64_t log_bytes(struct log *log);

/* Bytes of records (72 each and the payload, rounded up to 8) that fit without new disk space: the
 * rest of the newest segment and the spare. When log_prepare_spare says LKV_ENOSPACE, the owner
 * keeps this for what must still be written: no-op, configuration, delete (rule 15). Any thread. */
uint64_t log_room(struct log *log);

/* Releases whole segments of entries at or below `index` (the caller holds a durable image there);
 * afterwards log_first() is at most index + 1. */
MUST_USE int log_drop_prefix(struct log *log, uint64_t index, struct reason *why);

/* An image at (index, term) is durable and stands for the gaps at or below `index`: they are given up, and
 * the log begins behind them, at index + 1 at the latest. Memory only: the next log_open, told of that
 * image, says the same. Log thread. */
void log_cover(struct log *log, uint64_t index, uint64_t term);

/* Zero-fills or recycles the next segment under its spare name, if there is none (bulk thread).
 * LKV_ENOSPACE tells the owner that writes will soon fail. */
MUST_USE int log_prepare_spare(struct log *log, struct reason *why);
bool log_wants_spare(struct log *log); /* any thread */

/* Offline, read-only: walks every record of a log that no process holds. `visit` hears each record,
 * mark and finding in file order; a non-zero return ends the walk with it. Returns 0 when it came
 * to the end, damage or not. The strings and the payload are valid during the call of `visit`. */
enum log_finding {
    LOG_RECORD,
    LOG_MARK,
    LOG_TORN,
    LOG_DAMAGED,
    LOG_DEAD,
    LOG_WARNING /* nothing is lost, but one of two copies is unreadable */
};
struct log_visit {
    enum log_finding kind;
    const char *file; /* name within the directory */
    uint64_t offset;
    uint64_t index, term;
    enum entry_type type;
    struct slice payload;
    const char *text; /* "crc mismatch (acknowledged)", ... ; NULL for a good record */
};
MUST_USE int log_walk(struct disk *disk, const char *dir, uint64_t image_index,
                      int (*visit)(void *arg, const struct log_visit *what), void *arg,
                      struct reason *why);

#endif
