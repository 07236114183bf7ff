#include "change.h"

#include "output.h"
#include "report.h"

#include <stdio.h>

int change_take_flags(struct cli *cli, struct lkv_change *change) {
    if (!args_number(&cli->args, "if-rev", 1, UINT64_MAX, &change->if_rev)) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    change->flags |= args_switch(&cli->args, "prev") ? LKV_PREVIOUS : 0;
    return 0;
}

/* ------------------------------------------------------------------ a compare that failed */

/* What is there instead, as far as that can be said: it may have changed again since. */
static int tell_compare(struct store *store, const struct lkv_change *change, const char *what) {
    struct lkv_msg *answer = NULL;
    struct lkv_kv item;
    char key[SHOWN_BYTES + 40], wanted[48] = "no such key";
    struct text text = {0};
    text_add(&text, change->key.data, change->key.size);
    (void)snprintf(key, sizeof(key), "%s", shown(text_string(&text)).text);
    text_free(&text);
    if (change->if_rev != 0) {
        (void)snprintf(wanted, sizeof(wanted), "%" PRIu64, change->if_rev);
    }
    int rc = lkv_get(store->db, change->key, LKV_LINEARIZABLE, store_left(store), &answer);
    int exit;
    if (rc == 0 && lkv_msg_kv(answer, 0, &item)) {
        exit = report_found(store->cli, KVCTL_NEGATIVE, LKV_ECOMPARE,
                            "compare failed: %s mod_rev=%" PRIu64 ", wanted %s", key, item.mod_rev,
                            wanted);
    } else if (rc == LKV_ENOTFOUND) {
        exit = report_found(store->cli, KVCTL_NEGATIVE, LKV_ECOMPARE,
                            "compare failed: %s does not exist, wanted %s", key, wanted);
    } else {
        exit = report_found(store->cli, KVCTL_NEGATIVE, LKV_ECOMPARE, "%s: compare failed", what);
    }
    lkv_msg_free(answer);
    return exit;
}

/* ------------------------------------------------------------------ done */

static void print_json(const struct cli *cli, const struct lkv_change *change,
                       const struct lkv_msg *answer, uint64_t rev) {
    struct text line = {0};
    uint64_t number = 0;
    json_open(&line);
    json_string(&line, "outcome", "done");
    json_u64(&line, "rev", rev);
    if (change->op == LKV_OP_DELETE && lkv_msg_u64(answer, "count", &number)) {
        json_u64(&line, "deleted", number);
    }
    if (change->op == LKV_OP_ADD && lkv_msg_u64(answer, "number", &number)) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%" PRId64, (int64_t)number);
        json_string(&line, "number", text);
    }
    if (change->flags & LKV_PREVIOUS) {
        struct lkv_kv item;
        text_add_string(&line, ",\"prev\":[");
        for (size_t i = 0; lkv_msg_kv(answer, i, &item); i++) {
            struct text inner = {0};
            json_open(&inner);
            json_bytes(&inner, "key", item.key, cli->hex);
            json_bytes(&inner, "value", item.value, cli->hex);
            json_u64(&inner, "mod_rev", item.mod_rev);
            text_add_string(&line, i > 0 ? "," : "");
            text_add(&line, inner.data, inner.size);
            text_add_byte(&line, '}');
            text_free(&inner);
        }
        text_add_byte(&line, ']');
    }
    json_print(&line);
    text_free(&line);
}

static void print_previous(const struct cli *cli, const struct lkv_msg *answer) {
    struct lkv_kv item;
    for (size_t i = 0; lkv_msg_kv(answer, i, &item); i++) {
        if (cli->format == FORMAT_FIELDS) {
            field_bytes("prev_key", item.key, cli->hex);
            field_bytes("prev_value", item.value, cli->hex);
            continue;
        }
        fputs("prev ", stdout);
        print_shown(item.key, cli->hex);
        putchar('\t');
        print_shown(item.value, cli->hex);
        putchar('\n');
    }
}

static void print_done(const struct cli *cli, const struct lkv_change *change,
                       const struct lkv_msg *answer) {
    uint64_t rev = 0, number = 0;
    (void)lkv_msg_u64(answer, "rev", &rev);
    if (cli->format == FORMAT_JSON) {
        print_json(cli, change, answer, rev);
        return;
    }
    if (change->op == LKV_OP_ADD) { /* the number alone, as count prints one */
        (void)lkv_msg_u64(answer, "number", &number);
        printf(cli->format == FORMAT_FIELDS ? "number: %" PRId64 "\n" : "%" PRId64,
               (int64_t)number);
        if (cli->format != FORMAT_FIELDS && cli->format != FORMAT_RAW) {
            putchar('\n');
        }
    } else {
        (void)lkv_msg_u64(answer, "count", &number);
        output_written(cli, rev, change->op == LKV_OP_DELETE ? &number : NULL);
    }
    if (cli->format != FORMAT_RAW) {
        print_previous(cli, answer);
    }
}

int change_run(struct store *store, const struct lkv_change *change, const char *what) {
    int rc = lkv_write_submit(store->db, change, store_left(store), store->queue, NULL);
    if (rc < 0) {
        return report_call(store->cli, rc, NULL, "%s", what);
    }
    struct lkv_msg *answer = store_answer(store);
    int exit = 0;
    rc = lkv_msg_rc(answer);
    if (rc == LKV_ECOMPARE) {
        exit = tell_compare(store, change, what);
    } else if (rc < 0) {
        exit = report_rc(store->cli, rc, answer, "%s", what);
    } else {
        print_done(store->cli, change, answer);
    }
    lkv_msg_free(answer);
    return exit;
}
