/* kvctl put. */
#include "input.h"
#include "lease_id.h"
#include "output.h"
#include "report.h"

static int put(struct store *store, const struct text *key, const struct text *value, int64_t lease,
               const char *name) {
    int rc = lease == 0 ? lkv_put_submit(store->db, text_bytes(key), text_bytes(value),
                                         store_left(store), store->queue, NULL)
                        : lkv_put_leased_submit(store->db, text_bytes(key), text_bytes(value),
                                                lease, store_left(store), store->queue, NULL);
    if (rc < 0) {
        return report_call(store->cli, rc, NULL, "put %s", name);
    }
    struct lkv_msg *answer = store_answer(store);
    int exit = 0;
    rc = lkv_msg_rc(answer);
    if (rc < 0) {
        exit = report_rc(store->cli, rc, answer, "put %s", name);
    } else {
        uint64_t rev = 0;
        lkv_msg_u64(answer, "rev", &rev);
        output_written(store->cli, rev, NULL);
    }
    lkv_msg_free(answer);
    return exit;
}

static int run_put(struct cli *cli) {
    struct text key = {0};
    struct text value = {0};
    struct store store;
    int64_t lease = 0;
    const char *id = args_text(&cli->args, "lease");
    if (id != NULL && !lease_id_take(id, &lease)) {
        return report_usage(cli, "a lease's id is hexadecimal, 1 to 7fffffffffffffff, not '%s'",
                            shown(id).text);
    }
    int exit = key_take(cli, cli->args.words[0], &key);
    exit = exit == 0 ? value_take(cli, cli->args.words[1], &value) : exit;
    exit = exit == 0 ? store_open(cli, TO_WRITE, &store) : exit;
    if (exit == 0) {
        exit = put(&store, &key, &value, lease, shown(cli->args.words[0]).text);
        store_close(&store);
    }
    text_free(&key);
    text_free(&value);
    return exit;
}

static const struct flag put_flags[] = {
    {"lease", FLAG_VALUE, 0, false, "ID", "the key is deleted when this lease ends"},
    FLAG_END,
};

const struct command command_put = {
    .name = "put",
    .words = "KEY VALUE",
    .summary = "Write one key.",
    .details = "VALUE is text, - for standard input (its exact bytes), or @FILE.\n"
               "Exit code 6: the outcome is unknown; the write may have been applied.",
    .examples = "  kvctl put /svc/a/1 10.0.0.1:80\n"
                "  kvctl put /cfg/motd @motd.txt\n"
                "  head -c 1000 /dev/urandom | kvctl put /blob -\n"
                "  kvctl put temperature -- -5\n"
                "  kvctl --dir ./data put greeting hello",
    .flags = put_flags,
    .words_min = 2,
    .words_max = 2,
    .run = run_put,
};
