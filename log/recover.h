/* What a log directory says, read once at open and by the offline walk. Reads only.
 *
 * The newest segment's header states a mark through its first index - 1, and the highest segment
 * wins among marks (rule 8), so everything in older segments is known durable: what is unreadable
 * there is damage. Only in the newest segment can an end be torn, namely above the mark:
 *
 *     segment 7                 segment 9 (newest)
 *     [1..40]                   [31..33 | mark 33 | 34 35 | ??? 37 ]
 *     31..40 are dead           durable   mark ^     |       ^ torn: cut off, counted
 *     (9 was a cut at 31)                            ^ last
 */
#ifndef LOG_RECOVER_H
#define LOG_RECOVER_H

#include "log/log.h"
#include "log/names.h"
#include "log/scan.h"
#include "log/segment.h"
#include "log/terms.h"
#include "log/vote.h"

struct recovery_damage {
    bool found;
    bool files;           /* found in names, headers or the vote */
    bool no_vote;         /* neither slot can be read: nobody can repair that (rule 11) */
    bool contradiction;   /* valid records or marks that cannot belong to one log: nor that */
    bool end_unknown;     /* the newest segment is lost: more may be missing than its marks say */
    bool end_unread;      /* ... since the disk returned errors, which may pass */
    struct log_gap *gaps; /* owned, ascending; each within one segment */
    size_t gap_count, gap_capacity;
    struct reason first; /* file:offset, expected and found, of the first finding */
};

struct recovery_finding {
    const char *file; /* name within the directory */
    uint64_t offset;
    uint64_t index, term; /* of the first entry concerned; 0 when not known */
    const char *text;     /* a few words; the recovery's own text says expected and found */
};

/* Hears everything in file order, for the offline walk. Non-zero ends the recovery with it. */
struct recovery_observer {
    int (*on_item)(void *arg, enum log_finding kind, const struct segment *segment,
                   const struct log_scan_item *item, struct log_scan *scan, const char *text);
    int (*on_damage)(void *arg, const struct recovery_finding *finding);
    void *arg;
};

struct recovery {
    struct name_list names;
    bool blank; /* neither a vote nor a segment */
    struct vote_file vote;
    int vote_slots_valid;
    struct segment **segments; /* owned until taken; ascending. A lost file's has no file */
    size_t segment_count;      /* the live ones come to [0, segment_count) ... */
    struct segment **dead;     /* ... and these hold nothing that counts any more */
    size_t dead_count;
    size_t segment_capacity; /* of both */
    bool
        lost_newest; /* nothing is known of it but that it was: a newer one must say that it is dead */
    bool keeps_dead;         /* what they hold is not counted, but not known to be worthless */
    uint64_t highest_number; /* of any name or header */
    struct log_mark_value mark;
    struct log_terms terms; /* what is readable and live */
    uint64_t headers_end;   /* in the newest segment: no valid header starts behind it */
    uint64_t rewrite_from;  /* in the newest segment: end of what the mark covers (rule 9) */
    bool needs_segment;     /* the newest one cannot be continued */
    bool superseded;        /* the image contradicts the log: the image is right */
    uint64_t torn_records;
    uint64_t torn_offset; /* in the newest segment */
    struct recovery_damage damage;
};

struct recovery_source {
    struct disk *disk;
    const char *dir;
    int open_flags; /* DISK_READ or DISK_WRITE */
    bool mend;      /* goes on around damage, and takes unreadable sectors for damage (S11) */
    const struct log_identity *identity;      /* NULL: whatever the files say */
    uint64_t image_index, image_term;         /* image_term 0: not known, not compared */
    const struct recovery_observer *observer; /* NULL: nobody listens */
};

/* 0 also when damage was found: see `damage`. LKV_EVERSION, LKV_EIDENTITY, LKV_EIO, LKV_ENOMEM.
 * To be followed by recovery_fini in every case. */
MUST_USE int recovery_run(struct recovery *recovery, const struct recovery_source *source,
                          struct reason *why);
void recovery_fini(struct recovery *recovery);

#endif
