/* Between recover.c and recover_headers.c. */
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

#endif
