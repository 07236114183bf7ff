/* kvctl help, kvctl version, and the text behind --help. */
#include "cli.h"
#include "output.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ one command */

static void print_flag(const struct flag *flag) {
    struct text left = {0};
    if (flag->letter != 0) {
        text_printf(&left, "-%c, ", flag->letter);
    }
    text_printf(&left, "--%s", flag->name);
    if (flag->kind == FLAG_VALUE) {
        text_printf(&left, " %s", flag->argument);
    }
    printf("  %-28s %s\n", text_string(&left), flag->help);
    text_free(&left);
}

static void print_flags(const char *title, const struct flag *flags) {
    if (flags == NULL || flags->name == NULL) {
        return;
    }
    printf("\n%s\n", title);
    for (const struct flag *flag = flags; flag->name != NULL; flag++) {
        print_flag(flag);
    }
}

static void print_library_options(void) {
    const char *name;
    const char *fallback;
    const char *sentence;
    puts("\nOptions of the node (--NAME VALUE, KVCTL_NAME, or NAME=VALUE in the file)");
    for (size_t i = 0; lkv_options_help(i, &name, &fallback, &sentence); i++) {
        printf("  --%-22s %s%s%s%s\n", name, sentence, *fallback != '\0' ? " [" : "", fallback,
               *fallback != '\0' ? "]" : "");
    }
}

void help_command(const struct command *command) {
    printf("kvctl %s%s%s\n\n%s\n", command->name, *command->words != '\0' ? " " : "",
           command->words, command->summary);
    if (command->details != NULL) {
        printf("\n%s\n", command->details);
    }
    print_flags("Options", command->flags);
    print_flags("Options of every command", common_flags);
    if (command->library_options) {
        print_library_options();
    }
    printf("\nExamples\n%s\n", command->examples);
}

/* ------------------------------------------------------------------ all of them */

void help_overview(void) {
    puts("kvctl [OPTION...] COMMAND [OPTION...] [WORD...]\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        printf("  %-16s %s\n", commands[i]->name, commands[i]->summary);
    }
    print_flags("Options of every command", common_flags);
    puts("\nA value is text, - for standard input (its exact bytes), or @FILE. -- ends the "
         "options.\n"
         "An option is a flag, KVCTL_NAME in the environment, or NAME=VALUE in the file of "
         "--config;\n"
         "the flag wins, then the environment.\n"
         "\n"
         "Exit codes\n"
         "  0 success   1 no such key   2 no endpoint reachable   3 usage or configuration\n"
         "  4 rejected: limit, busy, disk full   5 no leader, no quorum   6 OUTCOME UNKNOWN\n"
         "  7 checksum or digest differs   8 permission   130 interrupted\n"
         "\n"
         "kvctl help COMMAND tells more, with examples.");
}

bool help_group(const char *name) {
    size_t told = 0;
    size_t length = strlen(name);
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (strncmp(commands[i]->name, name, length) == 0 && commands[i]->name[length] == ' ') {
            printf("  %-16s %s\n", commands[i]->name, commands[i]->summary);
            told++;
        }
    }
    if (told > 0) {
        printf("\nkvctl help %s COMMAND tells more, with examples.\n", name);
    }
    return told > 0;
}

static int run_help(struct cli *cli) {
    if (cli->args.word_count == 0) {
        help_overview();
        return KVCTL_DONE;
    }
    const char *name = cli->args.words[0];
    const char *second = cli->args.word_count > 1 ? cli->args.words[1] : NULL;
    const char *nearest;
    int used;
    const struct command *command = command_find(name, second, &used, &nearest);
    if (command != NULL) {
        help_command(command);
        return KVCTL_DONE;
    }
    if (second == NULL && help_group(name)) {
        return KVCTL_DONE;
    }
    /* Of two words it is not said which of them is wrong: the second one is, of a group of commands. */
    const char *space = second != NULL ? " " : "";
    second = second != NULL ? second : "";
    return nearest != NULL ? report_usage(cli, "unknown command '%s%s%s': did you mean '%s'?", name,
                                          space, second, nearest)
                           : report_usage(cli, "unknown command '%s%s%s'", name, space, second);
}

const struct command command_help = {
    .name = "help",
    .words = "[COMMAND]",
    .summary = "Tell what a command does.",
    .examples = "  kvctl help\n  kvctl help bench put",
    .words_max = 2,
    .run = run_help,
};

/* ------------------------------------------------------------------ version */

static int run_version(struct cli *cli) {
    if (cli->format == FORMAT_JSON) {
        struct text line = {0};
        json_open(&line);
        json_string(&line, "kvctl", KVCTL_VERSION);
        json_string(&line, "header", LKV_VERSION);
        json_print(&line);
        text_free(&line);
    } else if (cli->format == FORMAT_RAW) {
        fputs(KVCTL_VERSION, stdout);
    } else {
        puts("kvctl " KVCTL_VERSION);
    }
    return KVCTL_DONE;
}

const struct command command_version = {
    .name = "version",
    .words = "",
    .summary = "Print the version.",
    .examples = "  kvctl version",
    .run = run_version,
};
