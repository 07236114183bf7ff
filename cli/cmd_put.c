/* kvctl put. */
#include "change.h"
#include "input.h"
#include "lease_id.h"
#include "output.h"
#include "report.h"

static int take_flags(struct cli *cli, struct lkv_change *change) {
    const struct args *args = &cli->args;
    change->flags |= args_switch(args, "if-absent") ? LKV_IF_ABSENT : 0;
    change->flags |= args_switch(args, "keep-value") ? LKV_KEEP_VALUE : 0;
    change->flags |= args_switch(args, "keep-lease") ? LKV_KEEP_LEASE : 0;
    bool keeps = (change->flags & LKV_KEEP_VALUE) != 0;
    if (keeps != (args->word_count == 1)) {
        return report_usage(cli, keeps ? "--keep-value, and another value"
                                       : "put takes a key and a value");
    }
    return change_take_flags(cli, change);
}

static int run_put(struct cli *cli) {
    struct text key = {0};
    struct text value = {0};
    struct text what = {0};
    struct store store;
    int64_t lease = 0;
    struct lkv_change change = {.op = LKV_OP_PUT};
    const char *id = args_text(&cli->args, "lease");
    if (id != NULL && !lease_id_take(id, &lease)) {
        return report_usage(cli, "a lease's id is hexadecimal, 1 to 7fffffffffffffff, not '%s'",
                            shown(id).text);
    }
    int exit = take_flags(cli, &change);
    exit = exit == 0 ? key_take(cli, cli->args.words[0], &key) : exit;
    if (exit == 0 && cli->args.word_count > 1) {
        exit = value_take(cli, cli->args.words[1], &value);
    }
    exit = exit == 0 ? store_open(cli, TO_WRITE, &store) : exit;
    if (exit == 0) {
        change.key = text_bytes(&key);
        change.value = text_bytes(&value);
        change.lease = lease;
        text_printf(&what, "put %s", shown(cli->args.words[0]).text);
        exit = change_run(&store, &change, text_string(&what));
        store_close(&store);
    }
    text_free(&what);
    text_free(&key);
    text_free(&value);
    return exit;
}

static const struct flag put_flags[] = {
    {"lease", FLAG_VALUE, 0, false, "ID", "the key is deleted when this lease ends"},
    {"if-rev", FLAG_VALUE, 0, false, "N", "only if the key was last changed at revision N"},
    {"if-absent", FLAG_SWITCH, 0, false, NULL, "only if there is no such key"},
    {"prev", FLAG_SWITCH, 0, false, NULL, "also print what was there before"},
    {"keep-value", FLAG_SWITCH, 0, false, NULL, "the value stays, and the key gets a new version"},
    {"keep-lease", FLAG_SWITCH, 0, false, NULL, "the key's lease stays"},
    FLAG_END,
};

const struct command command_put = {
    .name = "put",
    .words = "KEY VALUE | --keep-value KEY",
    .summary = "Write one key.",
    .details = "VALUE is text, - for standard input (its exact bytes), or @FILE.\n"
               "Exit code 1: --if-rev or --if-absent does not hold, and nothing was written.\n"
               "Exit code 6: the outcome is unknown; the write may have been applied.",
    .examples = "  kvctl put /svc/a/1 10.0.0.1:80\n"
                "  kvctl put /cfg/motd @motd.txt\n"
                "  head -c 1000 /dev/urandom | kvctl put /blob -\n"
                "  kvctl put k v2 --if-rev 41 --prev\n"
                "  kvctl put temperature -- -5\n"
                "  kvctl --dir ./data put greeting hello",
    .flags = put_flags,
    .words_min = 1,
    .words_max = 2,
    .run = run_put,
};
