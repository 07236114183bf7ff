/* kvctl get: one key, or the keys of a span in an order, now or as of an older revision. */
#include "input.h"
#include "output.h"
#include "report.h"
#include "table.h"

#include <stdio.h>
#include <string.h>

struct get {
    struct cli *cli;
    struct store *store;
    bool keys_only;
    struct lkv_query query; /* of it what is neither keys nor flags */
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
    int rc = lkv_get_at(store->db, text_bytes(&span->from), get->query.rev, store->how,
                        store_left(store), &answer);
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
    bool pages = walk->query.order == LKV_BY_KEY;
    if (get->cli->format == FORMAT_JSON) {
        json_open(&line);
        text_add_string(&line, "\"more\":true");
        if (pages) {
            json_bytes(&line, "after", last, get->cli->hex);
        }
        json_u64(&line, "rev", walk->rev);
        json_u64(&line, "total", walk->total);
        text_add_byte(&line, '}');
    } else if (!pages) {
        text_printf(&line, "# more (%" PRIu64 " total)", walk->total);
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
    bool total = walk->limit > 0 || walk->query.order != LKV_BY_KEY;
    walk->flags = (args_switch(&cli->args, "keys-only") ? LKV_KEYS_ONLY : 0) |
                  (descending ? LKV_DESCENDING : 0) | (total ? LKV_TOTAL : 0);
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
    struct walk walk = {.store = get->store, .query = get->query, .visit = print_item, .arg = get};
    int exit = take_walk(get->cli, span, &walk);
    exit = exit == 0 ? span_walk(&walk, span) : exit;
    if (exit == 0 && walk.more) {
        tell_more(get, &walk);
    }
    text_free(&walk.last);
    return exit;
}

/* ------------------------------------------------------------------ the command */

/* The first of these flags that was given, or NULL. */
static const char *given(const struct cli *cli, const char *const *names) {
    while (*names != NULL && args_text(&cli->args, *names) == NULL) {
        names++;
    }
    return *names;
}

static int check_flags(struct cli *cli, const struct span *span) {
    static const char *const many[] = {"limit",          "after",          "desc",
                                       "order",          "min-mod-rev",    "max-mod-rev",
                                       "min-create-rev", "max-create-rev", NULL};
    const char *name = span->single ? given(cli, many) : NULL;
    if (name != NULL) {
        return report_usage(cli, "--%s wants --prefix, --range, --from-key or --all", name);
    }
    name = args_switch(&cli->args, "count") ? given(cli, many) : NULL;
    if (name != NULL) {
        return report_usage(cli, "--count counts all keys there are: it takes no --%s", name);
    }
    if (args_text(&cli->args, "after") != NULL && args_text(&cli->args, "order") != NULL &&
        strcmp(args_text(&cli->args, "order"), "key") != 0) {
        return report_usage(cli, "--after goes on in the order of keys: it takes no --order");
    }
    return 0;
}

static int take_order(struct cli *cli, enum lkv_order *order) {
    static const char *const names[] = {"key", "version", "create", "mod", "value"};
    const char *text = args_text(&cli->args, "order");
    for (size_t i = 0; text != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *order = (enum lkv_order)i;
            return 0;
        }
    }
    return text == NULL
               ? 0
               : report_usage(cli, "--order is key, version, create, mod or value, not '%s'",
                              shown(text).text);
}

static int take_query(struct cli *cli, struct lkv_query *query) {
    struct args *args = &cli->args;
    int exit = take_order(cli, &query->order);
    if (exit == 0 &&
        !(args_number(args, "rev", 1, UINT64_MAX, &query->rev) &&
          args_number(args, "min-mod-rev", 1, UINT64_MAX, &query->mod_rev_min) &&
          args_number(args, "max-mod-rev", 1, UINT64_MAX, &query->mod_rev_max) &&
          args_number(args, "min-create-rev", 1, UINT64_MAX, &query->create_rev_min) &&
          args_number(args, "max-create-rev", 1, UINT64_MAX, &query->create_rev_max))) {
        exit = report_usage(cli, "%s", text_string(&args->error));
    }
    return exit;
}

static int get_count(const struct get *get, const struct span *span) {
    uint64_t count;
    uint64_t rev;
    int exit = span_count(get->store, span, get->query.rev, &count, &rev);
    if (exit == 0) {
        output_count(get->cli, "count", "", count, rev);
    }
    return exit;
}

static int get_span(struct get *get, struct span *span) {
    if (args_switch(&get->cli->args, "count")) {
        return get_count(get, span);
    }
    return span->single ? get_one(get, span) : get_many(get, span);
}

static int run_get(struct cli *cli) {
    struct span span;
    int exit = span_take(cli, &span);
    if (exit != 0) {
        return exit;
    }
    struct store store;
    struct get get = {.cli = cli, .store = &store};
    exit = check_flags(cli, &span);
    exit = exit == 0 ? take_query(cli, &get.query) : exit;
    exit = exit == 0 ? store_open(cli, TO_READ, &store) : exit;
    if (exit == 0) {
        get.keys_only = args_switch(&cli->args, "keys-only");
        exit = get_span(&get, &span);
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
    {"all", FLAG_SWITCH, 0, false, NULL, "every key"},
    {"rev", FLAG_VALUE, 0, false, "N", "as of revision N"},
    {"limit", FLAG_VALUE, 0, false, "N", "at most N keys; says on stderr where to go on"},
    {"after", FLAG_VALUE, 0, false, "KEY", "only what comes after KEY: the next page"},
    {"order", FLAG_VALUE, 0, false, "WHAT",
     "key, version, create, mod (revisions) or value; all but key: at most 4096 keys"},
    {"desc", FLAG_SWITCH, 0, false, NULL, "from the last to the first"},
    {"min-mod-rev", FLAG_VALUE, 0, false, "N", "only keys last changed at revision N or later"},
    {"max-mod-rev", FLAG_VALUE, 0, false, "N", "... or earlier"},
    {"min-create-rev", FLAG_VALUE, 0, false, "N", "only keys created at revision N or later"},
    {"max-create-rev", FLAG_VALUE, 0, false, "N", "... or earlier"},
    {"keys-only", FLAG_SWITCH, 0, false, NULL, "without the values"},
    {"count", FLAG_SWITCH, 0, false, NULL, "how many keys, and nothing of them"},
    {"leased", FLAG_SWITCH, 0, false, NULL,
     "the newest, without asking the others where the leader has the option lease_reads"},
    {"bounded", FLAG_SWITCH, 0, false, NULL,
     "not older than the node's option bounded_ms, mostly without asking the others"},
    {"local", FLAG_SWITCH, 0, false, NULL,
     "what the node asked has applied, at any time, maybe old"},
    FLAG_END,
};

const struct command command_get = {
    .name = "get",
    .words = "KEY | --prefix PREFIX | --range FROM TO | --from-key KEY | --all",
    .summary = "Read one key, or many in order.",
    .details =
        "One key: its value and a newline; exit code 1 and no output when there is none.\n"
        "Many: KEY, a tab, VALUE, one a line; what is no text is escaped (\\n, \\xff).\n"
        "-o raw prints the exact bytes of the values and adds nothing. Many keys are all of one\n"
        "revision, however long it takes. A revision that has been compacted away is exit code 4,\n"
        "one of the future 3, and the message names those that can be read.",
    .examples = "  kvctl get /svc/a/1\n"
                "  kvctl get /svc/a/1 -o json\n"
                "  kvctl get --prefix /svc/ --limit 2\n"
                "  kvctl get --range /svc/a /svc/c --keys-only\n"
                "  kvctl get /svc/a/1 --rev 41\n"
                "  kvctl get --prefix /svc/ --order mod --desc --limit 5\n"
                "  kvctl get /blob -o raw > blob",
    .flags = get_flags,
    .words_max = 2,
    .run = run_get,
};
