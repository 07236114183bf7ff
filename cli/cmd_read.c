/* kvctl read, kvctl log span: records of a log by index. */
#include "input.h"
#include "interrupt.h"
#include "output.h"
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CREDIT_BYTES = 8 * 1024 * 1024, LOOK_MS = 100 };

struct reading {
    struct store *store;
    struct interrupt interrupt;
    struct text line;
    uint64_t from, left;
};

static void print_record(struct reading *reading, const struct lkv_record *record) {
    const struct cli *cli = reading->store->cli;
    struct text *line = &reading->line;
    switch (cli->format) {
    case FORMAT_JSON:
        json_open(line);
        json_u64(line, "index", record->index);
        json_u64(line, "term", record->term);
        json_bytes(line, "data", record->data, cli->hex);
        json_print(line);
        break;
    case FORMAT_RAW: (void)fwrite(record->data.data, 1, record->data.size, stdout); break;
    case FORMAT_FIELDS:
        field_u64("index", record->index);
        field_u64("term", record->term);
        field_bytes("data", record->data, cli->hex);
        break;
    case FORMAT_SIMPLE:
    case FORMAT_TABLE:
        printf("%" PRIu64 "\t", record->index);
        print_shown(record->data, cli->hex);
        putchar('\n');
        break;
    }
}

static void print_records(struct reading *reading, const struct lkv_msg *msg) {
    struct lkv_record record;
    for (size_t i = 0; reading->left > 0 && lkv_msg_record(msg, i, &record); i++) {
        print_record(reading, &record);
        reading->left--;
    }
    (void)lkv_msg_u64(msg, "next", &reading->from);
}

/* ------------------------------------------------------------------ what is there */

/* What was acknowledged before this command is to be seen by it, whichever node it asks. */
static int catch_up(struct store *store, uint64_t *commit) {
    int rc = lkv_log_span(store->db, store->how, store_left(store), NULL, commit);
    return rc < 0 ? report_call(store->cli, rc, NULL, "read") : 0;
}

static int read_pages(struct reading *reading) {
    struct store *store = reading->store;
    uint64_t wanted = reading->left, commit = 0;
    int exit = catch_up(store, &commit);
    while (exit == 0 && reading->left > 0 && reading->from <= commit) {
        struct lkv_msg *page = NULL;
        /* One record more than asked for costs less than a page of them. */
        int rc = lkv_log_read(store->db, reading->from, reading->left == 1 ? 1 : 0,
                              store_left(store), &page);
        if (rc < 0) {
            exit = report_rc(store->cli, rc, page, "read %" PRIu64, reading->from);
        } else {
            print_records(reading, page);
        }
        lkv_msg_free(page);
    }
    if (exit == 0 && reading->left == wanted) {
        return report_found(store->cli, KVCTL_NEGATIVE, LKV_ENOTFOUND,
                            "no record at index %" PRIu64
                            " or behind it; the last index is %" PRIu64,
                            reading->from, commit);
    }
    return exit;
}

/* ------------------------------------------------------------------ what comes */

static int follow(struct reading *reading) {
    struct store *store = reading->store;
    int rc = lkv_log_tail(store->db, reading->from, CREDIT_BYTES, 0, store->queue, NULL);
    if (rc < 0) {
        return report_call(store->cli, rc, NULL, "read");
    }
    int exit = 0;
    interrupt_start(&reading->interrupt);
    while (exit == 0 && reading->left > 0) {
        struct lkv_msg *msg = lkv_queue_next(store->queue, LOOK_MS);
        bool over = store->cli->timeout_given && deadline_passed(store->cli->deadline);
        if (interrupt_came(&reading->interrupt)) {
            exit = KVCTL_INTERRUPTED;
        } else if (msg == NULL && over) { /* as `watch` */
            exit = args_text(&store->cli->args, "count") != NULL ? KVCTL_NEGATIVE : KVCTL_DONE;
            break;
        } else if (msg != NULL && lkv_msg_kind(msg) == LKV_END) {
            exit = report_rc(store->cli, lkv_msg_rc(msg), msg, "read %" PRIu64, reading->from);
        } else if (msg != NULL) {
            print_records(reading, msg);
            fflush(stdout);
        }
        exit = exit == 0 && ferror(stdout) ? KVCTL_REJECTED : exit;
        lkv_msg_free(msg);
    }
    interrupt_end(&reading->interrupt);
    return exit;
}

static bool index_of(const char *word, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(word, &end, 10);
    return errno == 0 && *word >= '0' && *word <= '9' && *end == '\0';
}

static int run_read(struct cli *cli) {
    bool follows = args_switch(&cli->args, "follow");
    struct store store;
    struct reading reading = {
        .store = &store, .interrupt = {.fd = -1}, .left = follows ? UINT64_MAX : 1};
    if (!index_of(cli->args.words[0], &reading.from)) {
        return report_usage(cli, "INDEX is a number, not '%s'", cli->args.words[0]);
    }
    if (!args_number(&cli->args, "count", 1, UINT64_MAX, &reading.left)) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    int exit = store_open(cli, TO_READ, &store);
    if (exit == 0) {
        exit = follows ? follow(&reading) : read_pages(&reading);
        store_close(&store);
    }
    text_free(&reading.line);
    return exit;
}

static const struct flag read_flags[] = {
    {"count", FLAG_VALUE, 0, false, "N", "so many records (default 1; with --follow no end)"},
    {"follow", FLAG_SWITCH, 0, false, NULL, "go on with records as they come"},
    {"local", FLAG_SWITCH, 0, false, NULL, "what the node asked has now, maybe not the newest"},
    FLAG_END,
};

const struct command command_read = {
    .name = "read",
    .words = "INDEX",
    .summary = "Print records of the log (serve --model log) from an index on.",
    .details =
        "INDEX 0 is the first that is kept. Indices that the cluster took for itself are passed\n"
        "over. Exit code 1: no record is there yet; 4: it is gone, and the first index is told.\n"
        "-o raw prints the exact bytes.",
    .examples = "  kvctl read 17\n"
                "  kvctl read 0 --count 100 -o json\n"
                "  kvctl read 0 --follow",
    .flags = read_flags,
    .words_min = 1,
    .words_max = 1,
    .run = run_read,
};

/* ------------------------------------------------------------------ span */

static void print_span(struct cli *cli, uint64_t first, uint64_t commit) {
    struct text line = {0};
    switch (cli->format) {
    case FORMAT_JSON:
        json_open(&line);
        json_u64(&line, "first", first);
        json_u64(&line, "commit", commit);
        json_print(&line);
        break;
    case FORMAT_FIELDS:
        field_u64("first", first);
        field_u64("commit", commit);
        break;
    case FORMAT_SIMPLE:
    case FORMAT_TABLE:
    case FORMAT_RAW: printf("first=%" PRIu64 " commit=%" PRIu64 "\n", first, commit); break;
    }
    text_free(&line);
}

static int run_span(struct cli *cli) {
    struct store store;
    uint64_t first = 0, commit = 0;
    int exit = store_open(cli, TO_READ, &store);
    if (exit != 0) {
        return exit;
    }
    int rc = lkv_log_span(store.db, store.how, store_left(&store), &first, &commit);
    if (rc < 0) {
        exit = report_call(cli, rc, NULL, "log span");
    } else {
        print_span(cli, first, commit);
    }
    store_close(&store);
    return exit;
}

static const struct flag span_flags[] = {
    {"local", FLAG_SWITCH, 0, false, NULL, "what the node asked has now, maybe not the newest"},
    FLAG_END,
};

const struct command command_log_span = {
    .name = "log span",
    .words = "",
    .summary = "Print the first index that is kept and the last that may be read.",
    .details = NULL,
    .examples = "  kvctl log span\n  kvctl log span -o json",
    .flags = span_flags,
    .run = run_span,
};
