/* kvctl del and kvctl count.
 *
 * Deleting is safe: one word is one key, a range is asked for by name, and everything by --all.
 */
#include "change.h"
#include "input.h"
#include "output.h"
#include "report.h"

#include <stdio.h>

/* ------------------------------------------------------------------ del */

static int delete_span(struct store *store, const struct span *span) {
    struct lkv_change change = {.op = LKV_OP_DELETE,
                                .key = text_bytes(&span->from),
                                .end = text_bytes(&span->to),
                                .range = !span->single};
    struct text what = {0};
    int exit = change_take_flags(store->cli, &change);
    if (span->single) {
        change.end = (struct lkv_bytes){0};
    }
    if (exit == 0 && change.if_rev != 0 && change.range) {
        exit = report_usage(store->cli, "--if-rev is about one key");
    }
    text_printf(&what, "del %s", span_name(store->cli).text);
    exit = exit == 0 ? change_run(store, &change, text_string(&what)) : exit;
    text_free(&what);
    return exit;
}

static int count_span(struct store *store, const struct span *span, uint64_t at, const char *name,
                      const char *after) {
    uint64_t count;
    uint64_t rev;
    int exit = span_count(store, span, at, &count, &rev);
    if (exit == 0) {
        output_count(store->cli, name, after, count, rev);
    }
    return exit;
}

static int check_safe(struct cli *cli, const struct span *span) {
    bool all = args_switch(&cli->args, "all");
    if (span->everything && !all && !args_switch(&cli->args, "dry-run")) {
        return report_usage(cli, "that is every key: say --all if it is meant");
    }
    if (all && !span->everything) {
        return report_usage(cli, "--all is every key, but a part was named");
    }
    return 0;
}

static int run_del(struct cli *cli) {
    bool named = args_switch(&cli->args, "prefix") || args_switch(&cli->args, "range");
    if (!named && cli->args.word_count > 1) {
        return report_usage(cli, "del takes one key; for the keys from '%s' to '%s' say --range",
                            shown(cli->args.words[0]).text, shown(cli->args.words[1]).text);
    }
    if (!named && args_switch(&cli->args, "all") && cli->args.word_count > 0) {
        return report_usage(cli, "--all is every key, but a part was named");
    }
    struct span span;
    int exit = span_take(cli, &span);
    if (exit != 0) {
        return exit;
    }
    bool dry = args_switch(&cli->args, "dry-run");
    struct store store;
    exit = check_safe(cli, &span);
    exit = exit == 0 ? store_open(cli, dry ? TO_READ : TO_DELETE, &store) : exit;
    if (exit == 0) {
        exit = dry ? count_span(&store, &span, 0, "would_delete", " would be deleted")
                   : delete_span(&store, &span);
        store_close(&store);
    }
    span_free(&span);
    return exit;
}

static const struct flag del_flags[] = {
    {"prefix", FLAG_MODE, 0, false, NULL, "the keys that begin with the word"},
    {"range", FLAG_MODE, 0, false, NULL, "two words: the keys from FROM up to, not including, TO"},
    {"all", FLAG_SWITCH, 0, false, NULL, "every key"},
    {"if-rev", FLAG_VALUE, 0, false, "N", "only if the key was last changed at revision N"},
    {"prev", FLAG_SWITCH, 0, false, NULL, "also print what was there before"},
    {"dry-run", FLAG_SWITCH, 0, false, NULL, "count, but delete nothing"},
    FLAG_END,
};

const struct command command_del = {
    .name = "del",
    .words = "KEY | --prefix PREFIX | --range FROM TO | --all",
    .summary = "Delete one key, or many in one write.",
    .details = "Deleting a key that does not exist is no error: deleted=0.",
    .examples = "  kvctl del /svc/a/1\n"
                "  kvctl del --prefix /svc/a/ --dry-run\n"
                "  kvctl del --range /svc/a /svc/c",
    .flags = del_flags,
    .words_max = 2,
    .run = run_del,
};

/* ------------------------------------------------------------------ count */

static int run_count(struct cli *cli) {
    bool named = args_switch(&cli->args, "prefix") || args_switch(&cli->args, "range") ||
                 args_switch(&cli->args, "from-key") || cli->args.word_count > 0;
    struct span span = {.everything = true};
    uint64_t at = 0;
    if (!args_number(&cli->args, "rev", 1, UINT64_MAX, &at)) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    int exit = named ? span_take(cli, &span) : 0;
    if (exit != 0) {
        return exit;
    }
    struct store store;
    exit = store_open(cli, TO_READ, &store);
    if (exit == 0) {
        exit = count_span(&store, &span, at, "count", "");
        store_close(&store);
    }
    span_free(&span);
    return exit;
}

static const struct flag count_flags[] = {
    {"prefix", FLAG_MODE, 0, false, NULL, "the keys that begin with the word"},
    {"range", FLAG_MODE, 0, false, NULL, "two words: the keys from FROM up to, not including, TO"},
    {"from-key", FLAG_MODE, 0, false, NULL, "the key and all behind it"},
    {"rev", FLAG_VALUE, 0, false, "N", "as of revision N"},
    {"leased", FLAG_SWITCH, 0, false, NULL,
     "the newest, without asking the others where the leader has the option lease_reads"},
    {"bounded", FLAG_SWITCH, 0, false, NULL,
     "not older than the node's option bounded_ms, mostly without asking the others"},
    {"local", FLAG_SWITCH, 0, false, NULL,
     "what the node asked has applied, at any time, maybe old"},
    FLAG_END,
};

const struct command command_count = {
    .name = "count",
    .words = "[KEY | --prefix PREFIX | --range FROM TO | --from-key KEY]",
    .summary = "Count keys; prints the number alone.",
    .examples = "  kvctl count\n  kvctl count --prefix /svc/",
    .flags = count_flags,
    .words_max = 2,
    .run = run_count,
};
