/* kvctl txn: several keys at once, all or nothing. */
#include "input.h"
#include "output.h"
#include "report.h"
#include "txn_text.h"

#include <stdio.h>

static const char *op_name(enum lkv_op op) {
    switch (op) {
    case LKV_OP_PUT: return "put";
    case LKV_OP_DELETE: return "del";
    case LKV_OP_ADD: return "add";
    case LKV_OP_RANGE: return "get";
    case LKV_OP_TXN: return "txn";
    case LKV_OP_COMPACT: break;
    }
    return "?";
}

static void json_answer(const struct cli *cli, const struct lkv_answer *answer, struct text *line) {
    struct lkv_kv item;
    json_open(line);
    json_string(line, "op", op_name(answer->op));
    if (answer->op == LKV_OP_DELETE) {
        json_u64(line, "deleted", answer->total);
    } else if (answer->op == LKV_OP_ADD) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%" PRId64, answer->number);
        json_string(line, "number", text);
    } else if (answer->op == LKV_OP_RANGE) {
        text_add_string(line, ",\"items\":[");
        for (size_t i = 0; lkv_answer_kv(answer, i, &item); i++) {
            struct text inner = {0};
            json_open(&inner);
            json_bytes(&inner, "key", item.key, cli->hex);
            json_bytes(&inner, "value", item.value, cli->hex);
            json_u64(&inner, "mod_rev", item.mod_rev);
            text_add_string(line, i > 0 ? "," : "");
            text_add(line, inner.data, inner.size);
            text_add_byte(line, '}');
            text_free(&inner);
        }
        text_add_byte(line, ']');
    }
    text_add_byte(line, '}');
}

static void print_json(const struct cli *cli, const struct lkv_msg *msg, bool held, uint64_t rev) {
    struct text line = {0};
    struct lkv_answer answer;
    json_open(&line);
    json_string(&line, "outcome", "done");
    json_string(&line, "branch", held ? "then" : "else");
    json_u64(&line, "rev", rev);
    text_add_string(&line, ",\"answers\":[");
    for (size_t i = 0; lkv_msg_answer(msg, i, &answer); i++) {
        struct text inner = {0};
        json_answer(cli, &answer, &inner);
        text_add_string(&line, i > 0 ? "," : "");
        text_add(&line, inner.data, inner.size);
        text_free(&inner);
    }
    text_add_byte(&line, ']');
    json_print(&line);
    text_free(&line);
}

static void print_answer(const struct cli *cli, const char *branch, size_t at,
                         const struct lkv_answer *answer) {
    struct lkv_kv item;
    if (answer->op == LKV_OP_RANGE) {
        for (size_t i = 0; lkv_answer_kv(answer, i, &item); i++) {
            printf("%s[%zu] ", branch, at);
            print_shown(item.key, cli->hex);
            putchar('\t');
            print_shown(item.value, cli->hex);
            putchar('\n');
        }
    } else if (answer->op == LKV_OP_DELETE) {
        printf("%s[%zu] OK deleted=%" PRIu64 "\n", branch, at, answer->total);
    } else if (answer->op == LKV_OP_ADD) {
        printf("%s[%zu] OK %" PRId64 "\n", branch, at, answer->number);
    } else {
        printf("%s[%zu] OK\n", branch, at);
    }
}

/* Exit code 1: the compares do not hold, and what is said under else was done. */
static int print_done(const struct cli *cli, const struct lkv_msg *msg) {
    uint64_t held = 0, rev = 0;
    struct lkv_answer answer;
    (void)lkv_msg_u64(msg, "held", &held);
    (void)lkv_msg_u64(msg, "rev", &rev);
    if (cli->format == FORMAT_JSON) {
        print_json(cli, msg, held != 0, rev);
    } else {
        printf("%s rev=%" PRIu64 "\n", held != 0 ? "COMMITTED" : "COMPARE FAILED", rev);
        for (size_t i = 0; lkv_msg_answer(msg, i, &answer); i++) {
            print_answer(cli, held != 0 ? "then" : "else", i, &answer);
        }
    }
    return held != 0 ? KVCTL_DONE : KVCTL_NEGATIVE;
}

static int commit(struct store *store, const struct lkv_txn *txn) {
    int rc = lkv_txn_submit(store->db, txn, store_left(store), store->queue, NULL);
    if (rc < 0) {
        return report_call(store->cli, rc, NULL, "txn");
    }
    struct lkv_msg *msg = store_answer(store);
    rc = lkv_msg_rc(msg);
    int exit = rc < 0 ? report_rc(store->cli, rc, msg, "txn") : print_done(store->cli, msg);
    lkv_msg_free(msg);
    return exit;
}

/* A text is never hexadecimal, whatever -x says of keys and values. */
static int take_text(struct cli *cli, struct text *out) {
    bool hex = cli->hex;
    cli->hex = false;
    int exit = value_take(cli, cli->args.word_count > 0 ? cli->args.words[0] : "-", out);
    cli->hex = hex;
    return exit;
}

static int run_txn(struct cli *cli) {
    struct text text = {0}, why = {0};
    struct store store;
    struct lkv_txn *txn = lkv_txn_new();
    int exit = take_text(cli, &text);
    if (exit == 0 && !txn_text_read(text_bytes(&text), txn, &why)) {
        exit = report_usage(cli, "%s", text_string(&why));
    }
    exit = exit == 0 ? store_open(cli, TO_WRITE, &store) : exit;
    if (exit == 0) {
        exit = commit(&store, txn);
        store_close(&store);
    }
    lkv_txn_free(txn);
    text_free(&text);
    text_free(&why);
    return exit;
}

const struct command command_txn = {
    .name = "txn",
    .words = "[TEXT | @FILE | -]",
    .summary = "Compare keys, and change and read others, all or nothing.",
    .details =
        "The text (of standard input when there is none) has lines\n"
        "  if FIELD(KEY) = OPERAND     = != < >; value, create, mod, version, lease or exists\n"
        "  then OPERATION              put KEY VALUE, add KEY NUMBER, del KEY,\n"
        "  else OPERATION              del-range FROM TO, get KEY, range FROM TO\n"
        "A line without if, then, else belongs to the same part as the one before. Words may be\n"
        "quoted, with \\n \\t \\\" \\\\ \\xNN. # begins a comment. No key may be changed twice.\n"
        "Exit code 1: a compare does not hold; what is said under else was carried out.",
    .examples = "  kvctl txn <<'T'\n"
                "  if   mod(\"k1\") = 41\n"
                "  then put k2 \"x\\n\"\n"
                "  else get k1\n"
                "  T",
    .words_max = 1,
    .run = run_txn,
};
