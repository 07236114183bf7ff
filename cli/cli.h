/* kvctl: a command, and what it is given. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "args.h"
#include "clock.h"

enum format { FORMAT_SIMPLE, FORMAT_JSON, FORMAT_TABLE, FORMAT_RAW, FORMAT_FIELDS };

struct cli {
    const struct command *command; /* NULL until it is known */
    struct args args;
    enum format format;
    bool hex; /* bytes are shown and taken as hexadecimal */
    int64_t timeout_ms;
    bool timeout_given;       /* by anyone; some commands have no limit otherwise */
    struct deadline deadline; /* of the whole command */
};

struct command {
    const char *name;    /* one word, or a group and a word: "log dump" */
    const char *words;   /* positionals, for the help: "KEY VALUE" */
    const char *summary; /* one line */
    const char *details; /* more lines for the help, or NULL */
    const char *examples;
    const struct flag *flags;
    bool library_options;
    const char *model; /* that a new --dir gets, and any other must have; NULL: as it is */
    size_t words_min, words_max;
    int (*run)(struct cli *cli); /* returns the exit code, having said why */
};

extern const struct command command_serve, command_put, command_add, command_compact, command_txn,
    command_get, command_del, command_count, command_status, command_endpoint_hash, command_import,
    command_export, command_log_dump, command_log_verify, command_bench_put, command_bench_get,
    command_bench_mixed, command_version, command_help, command_append, command_read,
    command_log_span, command_bench_append, command_lease_grant, command_lease_revoke,
    command_lease_keep_alive, command_lease_ttl, command_lease_list, command_lock, command_elect,
    command_watch;

/* All of them, NULL at the end. */
extern const struct command *const commands[];
extern const struct flag common_flags[];

/* `name` may be followed by `second`; *used says how many words the name took. NULL: no such command,
 * *nearest is one that may have been meant, or NULL. */
const struct command *command_find(const char *name, const char *second, int *used,
                                   const char **nearest);

void help_command(const struct command *command);
void help_overview(void);
/* The commands of this first word; false when there are none. */
bool help_group(const char *name);

#endif
