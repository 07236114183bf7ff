/* A bar on stderr, with rate and time left, when stderr is a terminal; otherwise nothing. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *verb;
    bool shown;
    int64_t start_us, next_us;
};

void progress_start(struct progress *progress, const char *verb);

/* `done` things; `part` of `whole` of the work (bytes, milliseconds, ...), whole 0: not known. Cheap
 * when nothing is due. */
void progress_update(struct progress *progress, uint64_t done, uint64_t part, uint64_t whole);

/* Wipes the bar. */
void progress_end(struct progress *progress);

/* "1.2 GiB" into `buf`, which is returned. */
const char *size_name(uint64_t bytes, char buf[static 24]);

/* "1:05" or "2:01:05". */
const char *time_name(uint64_t seconds, char buf[static 24]);

#endif
