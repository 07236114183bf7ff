/* kvctl: the command line of ledgerkv.
 *
 *     kvctl [OPTION...] COMMAND [OPTION...] [WORD...]
 *
 * main finds the command, collects its settings (args.h) and runs it. Each command lives in cmd_*.c.
 */
#include "cli.h"
#include "output.h"
#include "report.h"
#include "suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 5000 };

const struct flag common_flags[] = {
    {"endpoints", FLAG_VALUE, 0, true, "HOST:PORT,...", "nodes to ask (default 127.0.0.1:7001)"},
    {"dir", FLAG_VALUE, 0, true, "DIR", "the store in this directory, without a server"},
    {"timeout", FLAG_VALUE, 0, true, "DURATION", "for the whole command (default 5s)"},
    {"output", FLAG_VALUE, 'o', true, "FORMAT", "simple, json, table, raw or fields"},
    {"hex", FLAG_SWITCH, 'x', true, NULL, "show and take bytes as hexadecimal"},
    {"config", FLAG_VALUE, 0, true, "FILE", "lines name=value; environment and flags beat it"},
    {"trace", FLAG_VALUE, 0, true, "LEVEL", "diagnostics on stderr: error, warn, info, debug, off"},
    {"help", FLAG_SWITCH, 'h', false, NULL, "this text"},
    FLAG_END,
};

const struct command *const commands[] = {
    &command_serve,       &command_put,          &command_get,           &command_del,
    &command_count,       &command_status,       &command_endpoint_hash, &command_import,
    &command_export,      &command_append,       &command_read,          &command_log_span,
    &command_log_dump,    &command_log_verify,   &command_bench_put,     &command_bench_get,
    &command_bench_mixed, &command_bench_append, &command_add,           &command_compact,
    &command_txn,         &command_lease_grant,  &command_lease_revoke,  &command_lease_keep_alive,
    &command_lease_ttl,   &command_lease_list,   &command_lock,          &command_elect,
    &command_watch,       &command_version,      &command_help,          NULL,
};

/* ------------------------------------------------------------------ finding the command */

/* How many words of `name` and `second` are the command's name; 0: it is another one. */
static int name_match(const struct command *command, const char *name, const char *second) {
    const char *blank = strchr(command->name, ' ');
    if (blank == NULL) {
        return strcmp(command->name, name) == 0 ? 1 : 0;
    }
    size_t group = (size_t)(blank - command->name);
    bool same = strlen(name) == group && strncmp(command->name, name, group) == 0;
    return same && second != NULL && strcmp(blank + 1, second) == 0 ? 2 : 0;
}

const struct command *command_find(const char *name, const char *second, int *used,
                                   const char **nearest) {
    struct text both = {0};
    text_printf(&both, "%s %s", name, second != NULL ? second : "");
    struct suggestion suggestion = {0};
    const struct command *found = NULL;
    for (size_t i = 0; commands[i] != NULL && found == NULL; i++) {
        *used = name_match(commands[i], name, second);
        found = *used > 0 ? commands[i] : NULL;
        bool grouped = strchr(commands[i]->name, ' ') != NULL;
        suggestion_try(&suggestion, grouped ? text_string(&both) : name, commands[i]->name);
    }
    text_free(&both);
    *nearest = suggestion.word;
    return found;
}

static bool is_group(const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (strncmp(commands[i]->name, name, length) == 0 && commands[i]->name[length] == ' ') {
            return true;
        }
    }
    return false;
}

static int report_no_command(struct cli *cli, const char *name, const char *second,
                             const char *nearest) {
    if (is_group(name)) {
        struct text members = {0};
        for (size_t i = 0; commands[i] != NULL; i++) {
            size_t length = strlen(name);
            if (strncmp(commands[i]->name, name, length) == 0 && commands[i]->name[length] == ' ') {
                text_printf(&members, "%s%s", members.size > 0 ? ", " : "", commands[i]->name);
            }
        }
        int exit = second == NULL
                       ? report_usage(cli, "'%s' is one of: %s", name, text_string(&members))
                       : report_usage(cli, "unknown command '%s %s': there are %s", name, second,
                                      text_string(&members));
        text_free(&members);
        return exit;
    }
    if (nearest != NULL) {
        return report_usage(cli, "unknown command '%s': did you mean '%s'?", name, nearest);
    }
    return report_usage(cli, "unknown command '%s'", name);
}

/* ------------------------------------------------------------------ settings of every command */

static bool format_of(const char *name, enum format *out) {
    static const char *const names[] = {"simple", "json", "table", "raw", "fields"};
    for (size_t i = 0; name != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (enum format)i;
            return true;
        }
    }
    return false;
}

/* Mistakes in the command line itself are told in the format that it asks for. */
static void guess_format(struct cli *cli, int argc, char **argv) {
    format_of(getenv("KVCTL_OUTPUT"), &cli->format);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *word = argv[i];
        if (strncmp(word, "--output=", 9) == 0) {
            format_of(word + 9, &cli->format);
        } else if (strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0) {
            format_of(argv[i + 1], &cli->format);
        } else if (strncmp(word, "-o", 2) == 0) {
            format_of(word + 2, &cli->format);
        }
    }
}

static int take_common(struct cli *cli) {
    const char *output = args_text(&cli->args, "output");
    if (output != NULL && !format_of(output, &cli->format)) {
        return report_usage(cli, "--output is simple, json, table, raw or fields, not '%s'",
                            output);
    }
    cli->hex = args_switch(&cli->args, "hex");
    cli->timeout_ms = TIMEOUT_MS;
    if (!args_duration(&cli->args, "timeout", &cli->timeout_ms)) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    cli->timeout_given = args_text(&cli->args, "timeout") != NULL;
    cli->deadline = deadline_in(cli->timeout_ms);
    return 0;
}

static int check_words(struct cli *cli) {
    const struct command *command = cli->command;
    if (cli->args.word_count < command->words_min) {
        return report_usage(cli, "%s wants %s", command->name, command->words);
    }
    if (cli->args.word_count > command->words_max) {
        return report_usage(cli, "'%s' is one word too many for %s",
                            shown(cli->args.words[command->words_max]).text, command->name);
    }
    return 0;
}

/* ------------------------------------------------------------------ one run */

static int run_command(struct cli *cli) {
    bool good = args_parse_environment(&cli->args) && args_parse_file(&cli->args);
    if (!good) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    int exit = take_common(cli);
    exit = exit == 0 ? check_words(cli) : exit;
    return exit == 0 ? cli->command->run(cli) : exit;
}

static int run(struct cli *cli, int argc, char **argv) {
    int at = 1;
    guess_format(cli, argc, argv);
    if (!args_parse(&cli->args, argc, argv, &at, true)) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    if (at == argc) {
        if (args_switch(&cli->args, "help")) {
            help_overview();
            return KVCTL_DONE;
        }
        return report_usage(cli, "a command is wanted");
    }
    const char *nearest;
    int used;
    cli->command = command_find(argv[at], argv[at + 1], &used, &nearest);
    if (cli->command == NULL && argv[at + 1] != NULL &&
        (strcmp(argv[at + 1], "--help") == 0 || strcmp(argv[at + 1], "-h") == 0) &&
        help_group(argv[at])) {
        return KVCTL_DONE;
    }
    if (cli->command == NULL) {
        return report_no_command(cli, argv[at], argv[at + 1], nearest);
    }
    at += used;
    cli->args.own = cli->command->flags;
    cli->args.library_options = cli->command->library_options;
    bool good = args_parse(&cli->args, argc, argv, &at, false);
    if (args_switch(&cli->args, "help")) {
        help_command(cli->command);
        return KVCTL_DONE;
    }
    return good ? run_command(cli) : report_usage(cli, "%s", text_string(&cli->args.error));
}

int main(int argc, char **argv) {
    struct cli cli = {.args = {.common = common_flags}};
    int exit = run(&cli, argc, argv);
    exit = output_finish(&cli, exit);
    args_free(&cli.args);
    return exit;
}
