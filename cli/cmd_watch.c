/* kvctl watch: every change of a key or a span, as a line or as a command that is run. */
#include "input.h"
#include "interrupt.h"
#include "output.h"
#include "report.h"
#include "spawn.h"

#include <stdio.h>
#include <stdlib.h>

enum { LOOK_MS = 100 };

struct watching {
    struct store *store;
    struct interrupt interrupt;
    struct text line;
    uint64_t since, left;
    bool counted; /* --count */
    int flags;
    char **command; /* NULL: print */
};

/* ------------------------------------------------------------------ printing */

static const char *type_name(const struct lkv_event *event) {
    switch (event->type) {
    case LKV_EVENT_PUT: return "PUT";
    case LKV_EVENT_DELETE: return "DELETE";
    }
    return "EVENT";
}

static void print_json(struct watching *watching, const struct lkv_event *event) {
    struct text *line = &watching->line;
    bool hex = watching->store->cli->hex;
    json_open(line);
    json_string(line, "type", type_name(event));
    json_u64(line, "rev", event->kv.mod_rev);
    json_bytes(line, "key", event->kv.key, hex);
    if (event->type == LKV_EVENT_PUT) {
        json_bytes(line, "value", event->kv.value, hex);
    }
    if (event->previous.version > 0) {
        json_bytes(line, "prev_value", event->previous.value, hex);
        json_u64(line, "prev_rev", event->previous.mod_rev);
    }
    json_print(line);
}

static void print_fields(const struct watching *watching, const struct lkv_event *event) {
    bool hex = watching->store->cli->hex;
    field_string("type", type_name(event));
    field_u64("rev", event->kv.mod_rev);
    field_bytes("key", event->kv.key, hex);
    if (event->type == LKV_EVENT_PUT) {
        field_bytes("value", event->kv.value, hex);
    }
    if (event->previous.version > 0) {
        field_bytes("prev_value", event->previous.value, hex);
        field_u64("prev_rev", event->previous.mod_rev);
    }
    putchar('\n');
}

/* TYPE, revision, key, value, and with --prev the value before. */
static void print_line(const struct watching *watching, const struct lkv_event *event) {
    bool hex = watching->store->cli->hex;
    printf("%s\t%" PRIu64 "\t", type_name(event), event->kv.mod_rev);
    print_shown(event->kv.key, hex);
    if (event->type == LKV_EVENT_PUT) {
        putchar('\t');
        print_shown(event->kv.value, hex);
    }
    if (event->previous.version > 0) {
        (void)fputs("\twas ", stdout);
        print_shown(event->previous.value, hex);
    }
    putchar('\n');
}

static void print_event(struct watching *watching, const struct lkv_event *event) {
    switch (watching->store->cli->format) {
    case FORMAT_JSON: print_json(watching, event); break;
    case FORMAT_FIELDS: print_fields(watching, event); break;
    case FORMAT_RAW: (void)fwrite(event->kv.value.data, 1, event->kv.value.size, stdout); break;
    case FORMAT_SIMPLE:
    case FORMAT_TABLE: print_line(watching, event); break;
    }
}

static void print_progress(struct watching *watching, uint64_t rev) {
    switch (watching->store->cli->format) {
    case FORMAT_JSON:
        json_open(&watching->line);
        json_string(&watching->line, "type", "PROGRESS");
        json_u64(&watching->line, "rev", rev);
        json_print(&watching->line);
        break;
    case FORMAT_FIELDS: printf("type: PROGRESS\nrev: %" PRIu64 "\n\n", rev); break;
    case FORMAT_RAW: break; /* values only */
    case FORMAT_SIMPLE:
    case FORMAT_TABLE: printf("PROGRESS\t%" PRIu64 "\n", rev); break;
    }
}

/* ------------------------------------------------------------------ running a command */

static void set_text(const char *name, struct lkv_bytes bytes) {
    struct text text = {0};
    text_add(&text, bytes.data, bytes.size);
    (void)setenv(name, text_string(&text), 1);
    text_free(&text);
}

static void set_number(const char *name, uint64_t number) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, number);
    (void)setenv(name, text, 1);
}

/* One after the other, so that they come in order. */
static void run_command(struct watching *watching, const struct lkv_event *event) {
    struct text hex = {0};
    text_add_hex(&hex, event->kv.key);
    (void)setenv("KVCTL_EVENT_TYPE", type_name(event), 1);
    set_text("KVCTL_KEY", event->kv.key); /* up to a zero byte: */
    (void)setenv("KVCTL_KEY_HEX", text_string(&hex), 1);
    set_number("KVCTL_REV", event->kv.mod_rev);
    text_free(&hex);
    int status = spawn_with_input(watching->command, event->kv.value);
    if (status != 0) {
        report_warning(watching->store->cli, "%s: %s %d at revision %" PRIu64, watching->command[0],
                       status < 0 ? "error" : "exit code", status < 0 ? -status : status,
                       event->kv.mod_rev);
    }
}

/* ------------------------------------------------------------------ messages */

static void take_events(struct watching *watching, const struct lkv_msg *msg) {
    struct lkv_event event;
    uint64_t rev = 0;
    for (size_t i = 0; watching->left > 0 && lkv_msg_event(msg, i, &event); i++) {
        if (watching->command != NULL) {
            run_command(watching, &event);
        } else {
            print_event(watching, &event);
        }
        watching->left--;
    }
    if (lkv_msg_count(msg) == 0 && (watching->flags & LKV_WATCH_PROGRESS) &&
        watching->command == NULL && lkv_msg_u64(msg, "rev", &rev)) {
        print_progress(watching, rev);
    }
    (void)fflush(stdout);
}

static int listen_on(struct watching *watching) {
    struct store *store = watching->store;
    int exit = 0;
    while (exit == 0 && watching->left > 0) {
        struct lkv_msg *msg = lkv_queue_next(store->queue, LOOK_MS);
        bool over = store->cli->timeout_given && deadline_passed(store->cli->deadline);
        if (interrupt_came(&watching->interrupt)) {
            exit = KVCTL_INTERRUPTED;
        } else if (msg == NULL && over) {
            return watching->counted ? KVCTL_NEGATIVE : KVCTL_DONE;
        } else if (msg != NULL && lkv_msg_kind(msg) == LKV_END) {
            exit = report_rc(store->cli, lkv_msg_rc(msg), msg, "watch");
        } else if (msg != NULL) {
            take_events(watching, msg);
        }
        exit = exit == 0 && ferror(stdout) ? KVCTL_REJECTED : exit;
        lkv_msg_free(msg);
    }
    return exit;
}

/* A watch waits for ever; whether somebody is there is asked before. */
static int watch_span(struct watching *watching, const struct span *span) {
    struct store *store = watching->store;
    struct lkv_msg *status = NULL;
    int rc = lkv_status(store->db, store_left(store), &status);
    lkv_msg_free(status);
    int one = span->single ? (int)LKV_WATCH_KEY : 0;
    if (rc == 0) {
        rc = lkv_watch(store->db, text_bytes(&span->from), text_bytes(&span->to), watching->since,
                       watching->flags | one, store->queue, NULL);
    }
    if (rc < 0) {
        return report_call(store->cli, rc, NULL, "watch");
    }
    interrupt_start(&watching->interrupt);
    int exit = listen_on(watching);
    interrupt_end(&watching->interrupt);
    return exit;
}

/* ------------------------------------------------------------------ the command line */

static int take_flags(struct cli *cli, struct watching *watching) {
    static const struct {
        const char *name;
        int flag;
    } switches[] = {{"prev", LKV_WATCH_PREVIOUS},
                    {"no-puts", LKV_WATCH_NO_PUTS},
                    {"no-deletes", LKV_WATCH_NO_DELETES},
                    {"progress", LKV_WATCH_PROGRESS}};
    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
        watching->flags |= args_switch(&cli->args, switches[i].name) ? switches[i].flag : 0;
    }
    bool good = args_number(&cli->args, "since", 1, UINT64_MAX, &watching->since) &&
                args_number(&cli->args, "count", 1, UINT64_MAX, &watching->left);
    watching->counted = args_text(&cli->args, "count") != NULL;
    return good ? 0 : report_usage(cli, "%s", text_string(&cli->args.error));
}

/* What stands behind -- is the command, and not a key. */
static void take_command(struct cli *cli, struct watching *watching) {
    size_t keys = cli->args.words_before_end, count = cli->args.word_count - keys;
    if (count == 0) {
        return;
    }
    watching->command = must_realloc(NULL, (count + 1) * sizeof(char *));
    for (size_t i = 0; i < count; i++) {
        watching->command[i] = (char *)(uintptr_t)cli->args.words[keys + i];
    }
    watching->command[count] = NULL;
    cli->args.word_count = keys;
}

static int run_watch(struct cli *cli) {
    struct store store;
    struct watching watching = {.store = &store, .interrupt = {.fd = -1}, .left = UINT64_MAX};
    struct span span = {0};
    int exit = take_flags(cli, &watching);
    if (exit == 0) {
        take_command(cli, &watching);
        exit = span_take(cli, &span);
    }
    if (exit == 0) {
        exit = store_open(cli, TO_READ, &store);
        if (exit == 0) {
            exit = watch_span(&watching, &span);
            store_close(&store);
        }
    }
    span_free(&span);
    free(watching.command);
    text_free(&watching.line);
    return exit;
}

static const struct flag watch_flags[] = {
    {"prefix", FLAG_MODE, 0, false, NULL, "the keys that begin with the word given"},
    {"range", FLAG_MODE, 0, false, NULL, "the keys from FROM on, up to TO (not included)"},
    {"all", FLAG_SWITCH, 0, false, NULL, "all keys"},
    {"since", FLAG_VALUE, 0, false, "REV", "from that revision on (default: from now on)"},
    {"count", FLAG_VALUE, 0, false, "N", "end after so many events"},
    {"prev", FLAG_SWITCH, 0, false, NULL, "with the value that was there before"},
    {"no-puts", FLAG_SWITCH, 0, false, NULL, "deletes only"},
    {"no-deletes", FLAG_SWITCH, 0, false, NULL, "puts only"},
    {"progress", FLAG_SWITCH, 0, false, NULL, "a line now and then that says how far all is told"},
    FLAG_END,
};

const struct command command_watch = {
    .name = "watch",
    .words = "KEY [-- COMMAND ...]",
    .summary = "Print each change of a key or of a span of keys, or run a command for it.",
    .details =
        "Every change is told once, in the order of revisions, also when nodes or leaders go away\n"
        "meanwhile. Exit code 4: not all since REV is kept; the oldest revision is told.\n"
        "Without --timeout it goes on until it is interrupted; with it, it ends then: exit code 0, "
        "or\n"
        "1 if --count was given and fewer came.\n"
        "COMMAND runs once for each change, one after the other, with KVCTL_EVENT_TYPE (PUT or\n"
        "DELETE), KVCTL_KEY, KVCTL_KEY_HEX and KVCTL_REV set, and the value on its stdin.",
    .examples = "  kvctl watch --prefix /svc/ --since 41 -o json\n"
                "  kvctl watch /cfg -- sh -c 'reload \"$KVCTL_EVENT_TYPE\" \"$KVCTL_REV\"'\n"
                "  kvctl watch --all --no-puts --prev",
    .flags = watch_flags,
    .words_min = 0,
    .words_max = SIZE_MAX,
    .run = run_watch,
};
