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

/* ------------------------------------------------------------------ as JSON */

static void json_items(const struct cli *cli, const struct lkv_answer *answer, const char *name,
                       struct text *line) {
    struct lkv_kv item;
    text_printf(line, ",\"%s\":[", name);
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

/* All but the answers inside of it, and the brace that closes it. */
static void json_answer(const struct cli *cli, const struct lkv_answer *answer, struct text *line) {
    json_open(line);
    json_string(line, "op", op_name(answer->op));
    switch (answer->op) {
    case LKV_OP_DELETE: json_u64(line, "deleted", answer->total); break;
    case LKV_OP_ADD: {
        char text[32];
        (void)snprintf(text, sizeof(text), "%" PRId64, answer->number);
        json_string(line, "number", text);
        break;
    }
    case LKV_OP_RANGE:
        json_items(cli, answer, "items", line);
        if (answer->more || answer->items == 0) {
            json_u64(line, "total", answer->total);
        }
        break;
    case LKV_OP_TXN: json_string(line, "branch", answer->held ? "then" : "else"); break;
    case LKV_OP_PUT:
    case LKV_OP_COMPACT: break;
    }
    if (answer->op != LKV_OP_RANGE && answer->items > 0) {
        json_items(cli, answer, "prev", line);
    }
    if (answer->more) {
        text_add_string(line, ",\"more\":true");
    }
}

static bool answer_at(const struct lkv_msg *msg, const struct lkv_answer *outer, size_t i,
                      struct lkv_answer *out) {
    return outer == NULL ? lkv_msg_answer(msg, i, out) : lkv_answer_at(outer, i, out);
}

/* Those of the message, or those inside of `outer`. As deep as transactions are. */
static void json_answers(const struct cli *cli, const struct lkv_msg *msg,
                         const struct lkv_answer *outer, struct text *line) {
    struct lkv_answer answer;
    text_add_string(line, ",\"answers\":[");
    for (size_t i = 0; answer_at(msg, outer, i, &answer); i++) {
        struct text inner = {0};
        json_answer(cli, &answer, &inner);
        if (answer.op == LKV_OP_TXN) {
            json_answers(cli, msg, &answer, &inner);
        }
        text_add_string(line, i > 0 ? "," : "");
        text_add(line, inner.data, inner.size);
        text_add_byte(line, '}');
        text_free(&inner);
    }
    text_add_byte(line, ']');
}

static void print_json(const struct cli *cli, const struct lkv_msg *msg, bool held, uint64_t rev) {
    struct text line = {0};
    json_open(&line);
    json_string(&line, "outcome", "done");
    json_string(&line, "branch", held ? "then" : "else");
    json_u64(&line, "rev", rev);
    json_answers(cli, msg, NULL, &line);
    json_print(&line);
    text_free(&line);
}

/* ------------------------------------------------------------------ as text */

static void print_items(const struct cli *cli, const char *name, const struct lkv_answer *answer) {
    struct lkv_kv item;
    const char *before = answer->op == LKV_OP_RANGE ? "" : "prev ";
    for (size_t i = 0; lkv_answer_kv(answer, i, &item); i++) {
        printf("%s %s", name, before);
        print_shown(item.key, cli->hex);
        putchar('\t');
        print_shown(item.value, cli->hex);
        putchar('\n');
    }
}

static void print_answer(const struct cli *cli, const char *name, const struct lkv_answer *answer) {
    switch (answer->op) {
    case LKV_OP_DELETE: printf("%s OK deleted=%" PRIu64 "\n", name, answer->total); break;
    case LKV_OP_ADD: printf("%s OK %" PRId64 "\n", name, answer->number); break;
    case LKV_OP_TXN: printf("%s %s\n", name, answer->held ? "COMMITTED" : "COMPARE FAILED"); break;
    case LKV_OP_RANGE:
        if (answer->items == 0) {
            printf("%s count=%" PRIu64 "\n", name, answer->total);
        }
        break;
    case LKV_OP_PUT:
    case LKV_OP_COMPACT: printf("%s OK\n", name); break;
    }
    print_items(cli, name, answer);
    if (answer->more && answer->op == LKV_OP_RANGE) {
        printf("%s more (%" PRIu64 " total)\n", name, answer->total);
    } else if (answer->more) {
        printf("%s more\n", name);
    }
}

/* Each line begins with its place: then[0], and inside of that then[0].else[1]. */
static void print_answers(const struct cli *cli, const struct lkv_msg *msg,
                          const struct lkv_answer *outer, const char *branch) {
    struct lkv_answer answer;
    for (size_t i = 0; answer_at(msg, outer, i, &answer); i++) {
        struct text name = {0};
        text_printf(&name, "%s[%zu]", branch, i);
        print_answer(cli, text_string(&name), &answer);
        if (answer.op == LKV_OP_TXN) {
            text_add_string(&name, answer.held ? ".then" : ".else");
            print_answers(cli, msg, &answer, text_string(&name));
        }
        text_free(&name);
    }
}

/* Exit code 1: the compares do not hold, and what is said under else was done. */
static int print_done(const struct cli *cli, const struct lkv_msg *msg) {
    uint64_t held = 0, rev = 0;
    (void)lkv_msg_u64(msg, "held", &held);
    (void)lkv_msg_u64(msg, "rev", &rev);
    if (cli->format == FORMAT_JSON) {
        print_json(cli, msg, held != 0, rev);
    } else {
        printf("%s rev=%" PRIu64 "\n", held != 0 ? "COMMITTED" : "COMPARE FAILED", rev);
        print_answers(cli, msg, NULL, held != 0 ? "then" : "else");
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
        "  if FIELD(KEY) = OPERAND       = != < >; value, create, mod, version, lease or exists\n"
        "  if FIELD(FROM TO) = OPERAND   of all keys from FROM up to, not including, TO\n"
        "  then OPERATION                if all of them hold\n"
        "  else OPERATION                if not\n"
        "A line without if, then, else belongs to the same part as the one before. Operations:\n"
        "  put KEY VALUE   [--lease ID] [--keep-lease] [--if-rev N] [--if-absent] [--prev]\n"
        "  put KEY --keep-value   and the same\n"
        "  add KEY NUMBER [--prev]\n"
        "  del KEY [--if-rev N] [--prev], del-range FROM TO [--prev]\n"
        "  get KEY, range FROM TO [--limit N] [--keys-only] [--count] [--desc]\n"
        "  txn   begins a transaction inside; its own lines follow, and then the line: end\n"
        "Words may be quoted, with \\n \\t \\r \\\" \\\\ \\xNN; a FROM of \"\" is the first key, a "
        "TO of \"\"\n"
        "goes up to the last. # begins a comment. No key may be changed twice; a condition of a "
        "put\n"
        "or del that does not hold undoes all.\n"
        "Exit code 1: a compare does not hold; what is said under else was carried out.",
    .examples = "  kvctl txn <<'T'\n"
                "  if   mod(\"k1\") = 41\n"
                "       exists(/jobs/ /jobs0) = 0\n"
                "  then put k2 \"x\\n\"\n"
                "       txn\n"
                "         if lease(k3) = 0\n"
                "         then del k3\n"
                "       end\n"
                "  else get k1\n"
                "  T",
    .words_max = 1,
    .run = run_txn,
};
