/* kvctl get: one key, or the keys of a span in order. */
#include "input.h"
#include "output.h"
#include "report.h"
#include "table.h"

#include <stdio.h>

struct get {
    struct cli *cli;
    struct store *store;
    bool keys_only;
    uint64_t read_rev;
    struct text line;   /* reused for each item */
    struct table table; /* FORMAT_TABLE */
};

/* ------------------------------------------------------------------ one item */

static void print_json(struct get *get, const struct lkv_kv *item) {
    struct text *line = &get->line;
    bool hex = get->cli->hex;
    json_open(line);
    json_bytes(line, "key", item->key, hex);
    if (!get->keys_only) {
        json_bytes(line, "value", item->value, hex);
    }
    json_u64(line, "create_rev", item->create_rev);
    json_u64(line, "mod_rev", item->mod_rev);
    json_u64(line, "version", item->version);
    char lease[20]; /* an id: hexadecimal */
    snprintf(lease, sizeof(lease), "%" PRIx64, (uint64_t)item->lease);
    json_string(line, "lease", lease);
    if (get->read_rev > 0) {
        json_u64(line, "read_rev", get->read_rev);
    }
    json_print(line);
}

static void print_fields(struct get *get, const struct lkv_kv *item) {
    field_bytes("key", item->key, get->cli->hex);
    if (!get->keys_only) {
        field_bytes("value", item->value, get->cli->hex);
    }
    field_u64("create_rev", item->create_rev);
    field_u64("mod_rev", item->mod_rev);
    field_u64("version", item->version);
    printf("lease: %" PRIx64 "\n\n", (uint64_t)item->lease);
}

static void add_row(struct get *get, const struct lkv_kv *item) {
    if (get->table.columns == 0) {
        table_start(&get->table, get->keys_only ? "KEY CREATE_REV MOD_REV VERSION"
                                                : "KEY CREATE_REV MOD_REV VERSION VALUE");
    }
    table_cell_bytes(&get->table, item->key, get->cli->hex);
    table_cell(&get->table, "%" PRIu64, item->create_rev);
    table_cell(&get->table, "%" PRIu64, item->mod_rev);
    table_cell(&get->table, "%" PRIu64, item->version);
    if (!get->keys_only) {
        table_cell_bytes(&get->table, item->value, get->cli->hex);
    }
}

static void print_raw(const struct get *get, struct lkv_bytes bytes) {
    if (get->cli->hex) {
        print_shown(bytes, true);
    } else {
        fwrite(bytes.data, 1, bytes.size, stdout);
    }
}

static void print_line(const struct get *get, const struct lkv_kv *item) {
    print_shown(item->key, get->cli->hex);
    if (!get->keys_only) {
        putchar('\t');
        print_shown(item->value, get->cli->hex);
    }
    putchar('\n');
}

static int print_item(void *arg, const struct lkv_kv *item) {
    struct get *get = arg;
    switch (get->cli->format) {
    case FORMAT_JSON: print_json(get, item); break;
    case FORMAT_FIELDS: print_fields(get, item); break;
    case FORMAT_TABLE: add_row(get, item); break;
    case FORMAT_RAW: print_raw(get, get->keys_only ? item->key : item->value); break;
    case FORMAT_SIMPLE: print_line(get, item); break;
    }
    return ferror(stdout) ? KVCTL_REJECTED : 0; /* output_finish() says why */
}

/* ------------------------------------------------------------------ one key */

/* The value alone. Text is shown as it is; what could confuse a terminal is escaped. */
static void print_value(const struct get *get, struct lkv_bytes value) {
    if (!get->cli->hex && bytes_are_printable(value)) {
        fwrite(value.data, 1, value.size, stdout);
    } else {
        print_shown(value, get->cli->hex);
    }
    putchar('\n');
}

static int get_one(struct get *get, const struct span *span) {
    struct store *store = get->store;
    struct lkv_msg *answer = NULL;
    int rc = lkv_get(store->db, text_bytes(&span->from), store->how, store_left(store), &answer);
    struct lkv_kv item;
    int exit = KVCTL_DONE;
    if (rc == LKV_ENOTFOUND && get->cli->format != FORMAT_JSON) {
        exit = KVCTL_NEGATIVE; /* the exit code is the answer */
    } else if (rc < 0) {
        exit = report_call(get->cli, rc, answer, "get %s", span_name(get->cli).text);
    } else if (lkv_msg_kv(answer, 0, &item)) {
        lkv_msg_u64(answer, "rev", &get->read_rev);
        if (get->cli->format == FORMAT_SIMPLE && !get->keys_only) {
            print_value(get, item.value);
        } else {
            exit = print_item(get, &item);
        }
    }
    lkv_msg_free(answer);
    return exit;
}

/* ------------------------------------------------------------------ many */

/* The key as a shell word, so that the line can be copied. */
static void add_word(struct text *out, struct lkv_bytes key, bool hex) {
    if (hex) {
        text_add_hex(out, key);
        return;
    }
    const char *bytes = key.data;
    text_add_byte(out, '\'');
    for (size_t i = 0; i < key.size; i++) {
        if (bytes[i] == '\'') {
            text_add_string(out, "'\\''");
        } else {
            text_add_byte(out, bytes[i]);
        }
    }
    text_add_byte(out, '\'');
}

static void tell_more(const struct get *get, const struct walk *walk) {
    struct lkv_bytes last = text_bytes(&walk->last);
    struct text line = {0};
    if (get->cli->format == FORMAT_JSON) {
        json_open(&line);
        text_add_string(&line, "\"more\":true");
        json_bytes(&line, "after", last, get->cli->hex);
        json_u64(&line, "total", walk->total);
        text_add_byte(&line, '}');
    } else {
        bool hex = get->cli->hex || !bytes_are_printable(last);
        text_printf(&line, "# more: next %s--after ", hex && !get->cli->hex ? "-x " : "");
        add_word(&line, last, hex);
        text_printf(&line, " (%" PRIu64 " total)", walk->total);
    }
    fflush(stdout);
    fprintf(stderr, "%s\n", text_string(&line));
    text_free(&line);
}

static int take_walk(struct cli *cli, struct span *span, struct walk *walk) {
    bool descending = args_switch(&cli->args, "desc");
    if (!args_number(&cli->args, "limit", 0, UINT64_MAX, &walk->limit)) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    walk->flags = (args_switch(&cli->args, "keys-only") ? LKV_KEYS_ONLY : 0) |
                  (descending ? LKV_DESCENDING : 0) | (walk->limit > 0 ? LKV_TOTAL : 0);
    const char *after = args_text(&cli->args, "after");
    struct text key = {0};
    int exit = after != NULL ? key_take(cli, after, &key) : 0;
    if (exit == 0 && after != NULL) {
        span_after(span, text_bytes(&key), descending);
    }
    text_free(&key);
    return exit;
}

static int get_many(struct get *get, struct span *span) {
    struct walk walk = {.store = get->store, .visit = print_item, .arg = get};
    int exit = take_walk(get->cli, span, &walk);
    exit = exit == 0 ? span_walk(&walk, span) : exit;
    if (exit == 0 && walk.more) {
        tell_more(get, &walk);
    }
    text_free(&walk.last);
    return exit;
}

/* ------------------------------------------------------------------ the command */

static int check_flags(struct cli *cli, const struct span *span) {
    static const char *const many[] = {"limit", "after", "desc"};
    for (size_t i = 0; span->single && i < sizeof(many) / sizeof(many[0]); i++) {
        if (args_text(&cli->args, many[i]) != NULL) {
            return report_usage(cli, "--%s wants --prefix, --range or --from-key", many[i]);
        }
    }
    return 0;
}

static int run_get(struct cli *cli) {
    struct span span;
    int exit = span_take(cli, &span);
    if (exit != 0) {
        return exit;
    }
    struct store store;
    exit = check_flags(cli, &span);
    exit = exit == 0 ? store_open(cli, TO_READ, &store) : exit;
    if (exit == 0) {
        struct get get = {.cli = cli, .store = &store};
        get.keys_only = args_switch(&cli->args, "keys-only");
        exit = span.single ? get_one(&get, &span) : get_many(&get, &span);
        if (get.table.columns > 0) {
            table_print(&get.table, stdout);
            table_free(&get.table);
        }
        text_free(&get.line);
        store_close(&store);
    }
    span_free(&span);
    return exit;
}

static const struct flag get_flags[] = {
    {"prefix", FLAG_MODE, 0, false, NULL, "the keys that begin with the word"},
    {"range", FLAG_MODE, 0, false, NULL, "two words: the keys from FROM up to, not including, TO"},
    {"from-key", FLAG_MODE, 0, false, NULL, "the key and all behind it"},
    {"limit", FLAG_VALUE, 0, false, "N", "at most N keys; says on stderr where to go on"},
    {"after", FLAG_VALUE, 0, false, "KEY", "only what comes after KEY: the next page"},
    {"desc", FLAG_SWITCH, 0, false, NULL, "from the last key to the first"},
    {"keys-only", FLAG_SWITCH, 0, false, NULL, "without the values"},
    {"local", FLAG_SWITCH, 0, false, NULL,
     "what the node asked has applied, at any time, maybe old"},
    FLAG_END,
};

const struct command command_get = {
    .name = "get",
    .words = "KEY | --prefix PREFIX | --range FROM TO | --from-key KEY",
    .summary = "Read one key, or many in order.",
    .details =
        "One key: its value and a newline; exit code 1 and no output when there is none.\n"
        "Many: KEY, a tab, VALUE, one a line; what is no text is escaped (\\n, \\xff).\n"
        "-o raw prints the exact bytes of the values and adds nothing. Long ranges are read\n"
        "page by page, so they are not of one instant while writes go on.",
    .examples = "  kvctl get /svc/a/1\n"
                "  kvctl get /svc/a/1 -o json\n"
                "  kvctl get --prefix /svc/ --limit 2\n"
                "  kvctl get --range /svc/a /svc/c --keys-only\n"
                "  kvctl get /blob -o raw > blob",
    .flags = get_flags,
    .words_max = 2,
    .run = run_get,
};
