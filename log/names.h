/* File names of a log directory.
 *
 *   vote                        term, vote and mark, two slots
 *   vote.tmp                    the same while it is being made
 *   00000000000000000007.seg    a live segment: only ever a whole one with a durable header
 *   spare-3.tmp                 a segment to be: the only name whose file may be discarded (rule 16)
 */
#ifndef LOG_NAMES_H
#define LOG_NAMES_H

#include "base/disk.h"

enum { LOG_NAME_SIZE = 32, LOG_PATH_SIZE = 1024 };

#define LOG_VOTE_NAME     "vote"
#define LOG_VOTE_TMP_NAME "vote.tmp"

void segment_name(char name[LOG_NAME_SIZE], uint64_t number);
void spare_name(char name[LOG_NAME_SIZE], uint64_t number);

/* LKV_EINVAL when `dir` is too long for any of the names. */
MUST_USE int log_dir_check(const char *dir, struct reason *why);
void log_path(char path[LOG_PATH_SIZE], const char *dir, const char *name);

/* What a log directory holds; other names in it are left alone. */
struct name_list {
    uint64_t *segments; /* ascending; owned */
    size_t segment_count, segment_capacity;
    uint64_t *spares; /* ascending is not promised; owned */
    size_t spare_count, spare_capacity;
    bool vote;
};

MUST_USE int name_list_load(struct name_list *names, struct disk *disk, const char *dir,
                            struct reason *why);
void name_list_fini(struct name_list *names);

#endif
