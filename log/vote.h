/* The vote file: term, vote, mark and the reserved segment numbers, in two slots that are both
 * written and synced, one after the other, by every save (rule 2). One slot may rot or tear: the
 * other one has the newest state that anybody was told about. Log thread.
 *
 * At most one slot is ever in doubt: the one written last. A save that fails ends the process's
 * writing, and the next open begins with that very slot, since the other is known to be on disk.
 * Story: slot 1 is torn by a power cut; the next open writes slot 0 first and power fails again:
 * both are torn, and the vote is gone. */
#ifndef LOG_VOTE_H
#define LOG_VOTE_H

#include "log/format.h"
#include "log/names.h"

struct vote_file {
    struct disk_file *file;    /* owned */
    struct vote_record record; /* as last written */
    int doubtful;              /* the slot to write first */
};

enum { VOTE_SLOTS = 2 };

/* Makes the file under its temporary name, both slots synced, then renames it and syncs the
 * directory: under its real name it is never half made. */
MUST_USE int vote_create(struct vote_file *vote, struct disk *disk, const char *dir,
                         const struct log_identity *identity, struct reason *why);

/* Reads both slots. LKV_EDAMAGED when neither is valid, LKV_EVERSION, LKV_EIDENTITY (an `identity`
 * of NULL takes any). `*valid_slots` says how many were good. */
MUST_USE int vote_open(struct vote_file *vote, struct disk *disk, const char *dir, int flags,
                       const struct log_identity *identity, int *valid_slots, struct reason *why);

/* Writes `record` (its sequence is set here) to slot 0, syncs, to slot 1, syncs. After an error the
 * file's state is unknown: old or new. */
MUST_USE int vote_save(struct vote_file *vote, const struct vote_record *record);
void vote_close(struct vote_file *vote);

#endif
