/* kvctl add and kvctl compact. */
#include "change.h"
#include "input.h"
#include "output.h"
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool number_take(const char *word, int64_t *out) {
    char *end;
    errno = 0;
    long long number = strtoll(word, &end, 10);
    *out = number;
    return *word != '\0' && *end == '\0' && errno == 0 && strchr(" \t\n+", *word) == NULL;
}

static int run_change(struct cli *cli, const struct lkv_change *change, const char *what) {
    struct store store;
    int exit = store_open(cli, change->op == LKV_OP_COMPACT ? TO_DELETE : TO_WRITE, &store);
    if (exit == 0) {
        exit = change_run(&store, change, what);
        store_close(&store);
    }
    return exit;
}

static int run_add(struct cli *cli) {
    struct lkv_change change = {.op = LKV_OP_ADD, .delta = 1};
    const char *word = cli->args.word_count > 1 ? cli->args.words[1] : "1";
    struct text key = {0}, what = {0};
    if (!number_take(word, &change.delta)) {
        return report_usage(cli, "a whole number of 64 bits is added, not '%s'", shown(word).text);
    }
    int exit = key_take(cli, cli->args.words[0], &key);
    change.key = text_bytes(&key);
    change.flags = args_switch(&cli->args, "prev") ? LKV_PREVIOUS : 0;
    text_printf(&what, "add %s", shown(cli->args.words[0]).text);
    exit = exit == 0 ? run_change(cli, &change, text_string(&what)) : exit;
    text_free(&key);
    text_free(&what);
    return exit;
}

static const struct flag add_flags[] = {
    {"prev", FLAG_SWITCH, 0, false, NULL, "also print what was there before"},
    FLAG_END,
};

const struct command command_add = {
    .name = "add",
    .words = "KEY [NUMBER]",
    .summary = "Add to a key's decimal number; prints the sum.",
    .details = "NUMBER is 1 when it is left out. A key that does not exist counts as 0. A value "
               "that is no\n"
               "number, and a sum beyond 64 bits, change nothing.",
    .examples = "  kvctl add /visits\n  kvctl add /stock/7 -- -3",
    .flags = add_flags,
    .words_min = 1,
    .words_max = 2,
    .run = run_add,
};

static int run_compact(struct cli *cli) {
    struct lkv_change change = {.op = LKV_OP_COMPACT};
    const char *word = cli->args.words[0];
    int64_t rev = 0;
    if (!number_take(word, &rev) || rev < 1) {
        return report_usage(cli, "a revision is a number from 1 on, not '%s'", shown(word).text);
    }
    change.rev = (uint64_t)rev;
    struct text what = {0};
    text_printf(&what, "compact %s", word);
    int exit = run_change(cli, &change, text_string(&what));
    text_free(&what);
    return exit;
}

const struct command command_compact = {
    .name = "compact",
    .words = "REVISION",
    .summary = "Give up history before a revision, on all nodes.",
    .details =
        "The revision itself stays readable. The leader does the same by itself, by its options\n"
        "history_revisions, history_ms and history_bytes.",
    .examples = "  kvctl compact 41",
    .words_min = 1,
    .words_max = 1,
    .run = run_compact,
};
