/* Between recover.c, recover_headers.c and recover_places.c. */
#ifndef LOG_RECOVER_PARTS_H
#define LOG_RECOVER_PARTS_H

#include "log/recover.h"

/* Opens the vote file and every segment whose header is valid; marks of headers and vote. */
MUST_USE int recovery_open_files(struct recovery *recovery, const struct recovery_source *source,
                                 struct reason *why);

/* Remembers a finding (the first one in words) and tells the observer; returns its answer. */
MUST_USE int recovery_damaged(struct recovery *recovery, const struct recovery_source *source,
                              const struct recovery_finding *finding, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* Finds out where segments with a lost header stand, and which files are missing, from what is left:
 * their records, their successors' headers, the vote. */
MUST_USE int recovery_place_segments(struct recovery *recovery,
                                     const struct recovery_source *source, struct reason *why);

/* Rule 7: what a later segment begins with, or before, is not an earlier one's any more. Sets each segment's
 * `bound`, which holds until one of them is moved or placed. */
void recovery_bounds(struct recovery *recovery);

MUST_USE int recovery_scan_init(const struct recovery *recovery,
                                const struct recovery_source *source, const struct segment *segment,
                                struct log_scan *scan);

#endif
