/* Exit codes and errors. Every failure is told once, on stderr: a sentence, or one JSON object under
 * -o json with code, message, outcome and retryable. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli.h"

/* Stable: scripts rely on them. */
enum exit_code {
    KVCTL_DONE = 0,
    KVCTL_NEGATIVE = 1,    /* no such key */
    KVCTL_UNREACHABLE = 2, /* no endpoint reachable */
    KVCTL_USAGE = 3,       /* usage, bad input, configuration or identity mismatch */
    KVCTL_REJECTED = 4,    /* limit, quota, busy, disk full, compacted */
    KVCTL_UNHEALTHY = 5,   /* no leader, no quorum */
    KVCTL_UNKNOWN = 6,     /* outcome unknown */
    KVCTL_INTEGRITY = 7,   /* checksum or digest differs */
    KVCTL_PERMISSION = 8,  /* authentication or permission */
    KVCTL_INTERRUPTED = 130
};

enum exit_code exit_of(int rc);

/* Each returns the exit code to return. */
int report_usage(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What the library answered. `why` may be NULL; otherwise its sentence is told. */
int report_rc(struct cli *cli, int rc, const struct lkv_msg *why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same of a call that has just failed on this thread: without a message the library's last text. */
int report_call(struct cli *cli, int rc, const struct lkv_msg *why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A finding of kvctl itself, under the code of the library that fits best. */
int report_found(struct cli *cli, enum exit_code exit, int rc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

void report_warning(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *outcome_name(enum lkv_outcome outcome);

#endif
