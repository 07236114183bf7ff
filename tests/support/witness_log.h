/* Checks a history of appends (cli/history.h) against the log that came of it: every append that was
 * acknowledged has its records side by side where the answer says, and none is anywhere else; what was
 * refused is nowhere; what is unknown is there once or not at all, and in a session whole or not at
 * all; and the order of the log agrees with real time. O(n log n).
 *
 * A line of the log is an index, a tab and the record, as `kvctl read` prints it; each record begins with
 * its number. */
#ifndef TESTS_SUPPORT_WITNESS_LOG_H
#define TESTS_SUPPORT_WITNESS_LOG_H

#include <stdbool.h>
#include <stdint.h>

struct witness_log;

struct witness_log_counts {
    uint64_t appends, ok, failed, unknown, records;
    uint64_t placed; /* of the unknown ones, found in the log */
};

struct witness_log *witness_log_new(void); /* never NULL */
void witness_log_free(struct witness_log *log);

/* One line of a history, or of the log, without its newline. False: malformed, or wrong. */
bool witness_log_line(struct witness_log *log, const char *line);
bool witness_log_record(struct witness_log *log, const char *line);

/* When all lines were given. */
bool witness_log_check(struct witness_log *log, struct witness_log_counts *counts);

const char *witness_log_why(const struct witness_log *log);

#endif
