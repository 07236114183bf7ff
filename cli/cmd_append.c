/* kvctl append: records at the end of a log (serve --model log). With --lines they are appended in sessions,
 * so each is there once, however often it had to be sent; a line stays unknown only when its time is up. */
#include "input.h"
#include "interrupt.h"
#include "lines.h"
#include "once.h"
#include "output.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IN_FLIGHT_MAX = 4096, WAIT_MS = 20 };

/* ------------------------------------------------------------------ one record */

static void print_appended(struct cli *cli, const struct lkv_msg *answer) {
    uint64_t index = 0, term = 0;
    lkv_msg_u64(answer, "index", &index);
    lkv_msg_u64(answer, "term", &term);
    switch (cli->format) {
    case FORMAT_JSON: {
        struct text line = {0};
        json_open(&line);
        json_u64(&line, "index", index);
        json_u64(&line, "term", term);
        json_print(&line);
        text_free(&line);
        break;
    }
    case FORMAT_FIELDS:
        field_u64("index", index);
        field_u64("term", term);
        break;
    case FORMAT_SIMPLE:
    case FORMAT_TABLE:
    case FORMAT_RAW: printf("%" PRIu64 "\n", index); break;
    }
}

static int append_one(struct store *store, const struct text *record, uint64_t in_term) {
    struct lkv_bytes bytes = text_bytes(record);
    int rc =
        lkv_append_submit(store->db, &bytes, 1, in_term, store_left(store), store->queue, NULL);
    if (rc < 0) {
        return report_rc(store->cli, rc, NULL, "append");
    }
    struct lkv_msg *answer = store_answer(store);
    rc = lkv_msg_rc(answer);
    int exit = rc < 0 ? report_rc(store->cli, rc, answer, "append") : 0;
    if (exit == 0) {
        print_appended(store->cli, answer);
    }
    lkv_msg_free(answer);
    return exit;
}

/* ------------------------------------------------------------------ one record a line */

struct line_op {
    uint64_t line;
    struct once_number number;
};

struct stream {
    struct store *store;
    struct interrupt interrupt;
    struct once once;
    struct line_op *ops;    /* owned; as many as may be in flight */
    struct line_op **spare; /* owned: a stack of those that are not */
    size_t spare_count;
    uint64_t in_term, in_flight_max, in_flight, unknown, refused;
    int first_rc;
    struct lkv_msg *first; /* owned: the answer that first_rc comes from */
    bool interrupted;
};

/* Answers come in the order of the lines, since one handle's appends keep theirs; a refusal may come
 * sooner than what was sent before it, so each is told with the number of its line. */
static void take_answer(struct stream *stream, struct lkv_msg *answer) {
    struct line_op *op = lkv_msg_tag(answer);
    uint64_t line = op->line, index = 0;
    int rc = lkv_msg_rc(answer);
    stream->spare[stream->spare_count++] = op;
    stream->in_flight--;
    once_done(&stream->once, op->number);
    if (rc ==
        LKV_ESESSION) { /* its lines are told as not appended; later ones get another session */
        int reopened = once_reopen(&stream->once, op->number);
        (void)reopened; /* else the next answer says why */
    }
    if (rc == 0 && lkv_msg_u64(answer, "index", &index)) {
        printf("%" PRIu64 "\t%" PRIu64 "\n", line, index);
        fflush(stdout);
        lkv_msg_free(answer);
        return;
    }
    bool unknown = lkv_outcome(rc) == LKV_UNKNOWN;
    stream->unknown += unknown;
    stream->refused += !unknown;
    printf("%" PRIu64 "\t%s\n", line, unknown ? "?" : "-");
    fflush(stdout);
    if (stream->first == NULL) {
        stream->first_rc = rc;
        stream->first = answer;
    } else {
        lkv_msg_free(answer);
    }
}

static void take_some(struct stream *stream) {
    struct lkv_msg *answer = NULL;
    while (stream->in_flight > 0 && (answer = lkv_queue_next(stream->store->queue, 0)) != NULL) {
        take_answer(stream, answer);
    }
}

static int append_line(struct stream *stream, uint64_t number, struct lkv_bytes record) {
    struct once_number seq;
    while (stream->in_flight >= stream->in_flight_max || !once_take(&stream->once, &seq)) {
        take_answer(stream, store_answer(stream->store));
    }
    struct line_op *op = stream->spare[--stream->spare_count];
    *op = (struct line_op){.line = number, .number = seq};
    for (;;) {
        int rc = lkv_append_once_submit(once_session(&stream->once, seq), seq.seq, &record, 1,
                                        stream->in_term, stream->store->cli->timeout_ms,
                                        stream->store->queue, op);
        if (rc == LKV_EBUSY && stream->in_flight > 0) {
            take_answer(stream, store_answer(stream->store));
            continue;
        }
        stream->in_flight += rc == 0;
        return rc < 0 ? report_rc(stream->store->cli, rc, NULL, "line %" PRIu64, number) : 0;
    }
}

static int report_stream(struct stream *stream) {
    if (stream->first == NULL) {
        return stream->interrupted ? KVCTL_INTERRUPTED : KVCTL_DONE;
    }
    int rc = stream->unknown > 0 ? LKV_EUNKNOWN : stream->first_rc;
    return report_rc(stream->store->cli, rc, stream->first,
                     "%" PRIu64 " lines not appended, %" PRIu64 " with an unknown outcome",
                     stream->refused, stream->unknown);
}

/* Answers are told while the next line lets us wait. */
static int append_all(struct stream *stream, struct lines *lines) {
    for (uint64_t number = 1; !interrupt_came(&stream->interrupt);) {
        struct lkv_bytes line;
        int exit = 0;
        switch (lines_next(lines, &line)) {
        case LINE_READ: exit = append_line(stream, number++, line); break;
        case LINE_LATER: lines_wait(lines, WAIT_MS); break;
        case LINE_END: return 0;
        case LINE_FAILED:
            return report_found(stream->store->cli, KVCTL_USAGE, LKV_EIO, "cannot read: %s",
                                strerror(errno));
        }
        if (exit != 0) {
            return exit;
        }
        take_some(stream);
    }
    stream->interrupted = true;
    return 0;
}

static int stream_open(struct stream *stream) {
    size_t count = (size_t)stream->in_flight_max;
    stream->ops = must_realloc(NULL, count * sizeof(*stream->ops));
    stream->spare = must_realloc(NULL, count * sizeof(*stream->spare));
    while (stream->spare_count < count) {
        stream->spare[stream->spare_count] = &stream->ops[stream->spare_count];
        stream->spare_count++;
    }
    int rc = once_open(&stream->once, stream->store->db, count);
    return rc < 0 ? report_rc(stream->store->cli, rc, NULL, "session: %s", lkv_last_text()) : 0;
}

static void stream_close(struct stream *stream) {
    once_close(&stream->once, stream->store->cli->timeout_ms);
    free(stream->ops);
    free((void *)stream->spare);
    lkv_msg_free(stream->first);
}

static int append_lines(struct store *store, int fd, uint64_t in_term, uint64_t in_flight) {
    struct stream stream = {
        .store = store, .interrupt = {.fd = -1}, .in_term = in_term, .in_flight_max = in_flight};
    struct lines lines = {.fd = fd};
    interrupt_start(&stream.interrupt);
    int exit = stream_open(&stream);
    exit = exit == 0 ? append_all(&stream, &lines) : exit;
    while (stream.in_flight > 0) {
        take_answer(&stream, store_answer(store));
    }
    interrupt_end(&stream.interrupt);
    lines_free(&lines);
    exit = exit == 0 ? report_stream(&stream) : exit;
    stream_close(&stream);
    return exit;
}

static int run_lines(struct cli *cli, const char *word, uint64_t in_term, uint64_t in_flight) {
    bool standard = strcmp(word, "-") == 0;
    if (!standard && word[0] != '@') {
        return report_usage(cli, "--lines wants - or @FILE");
    }
    int fd = standard ? STDIN_FILENO : open(word + 1, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return report_found(cli, KVCTL_USAGE, LKV_ENOENT, "cannot open %s: %s", word + 1,
                            strerror(errno));
    }
    struct store store;
    int exit = store_open(cli, TO_WRITE, &store);
    if (exit == 0) {
        exit = append_lines(&store, fd, in_term, in_flight);
        store_close(&store);
    }
    if (!standard) {
        (void)close(fd);
    }
    return exit;
}

/* ------------------------------------------------------------------ the command */

static int run_append(struct cli *cli) {
    uint64_t in_term = 0, in_flight = 64;
    if (!args_number(&cli->args, "in-term", 1, UINT64_MAX, &in_term) ||
        !args_number(&cli->args, "in-flight", 1, IN_FLIGHT_MAX, &in_flight)) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    const char *word = cli->args.word_count > 0 ? cli->args.words[0] : "-";
    if (args_switch(&cli->args, "lines")) {
        return run_lines(cli, word, in_term, in_flight);
    }
    struct text record = {0};
    struct store store;
    int exit = value_take(cli, word, &record);
    exit = exit == 0 ? store_open(cli, TO_WRITE, &store) : exit;
    if (exit == 0) {
        exit = append_one(&store, &record, in_term);
        store_close(&store);
    }
    text_free(&record);
    return exit;
}

static const struct flag append_flags[] = {
    {"lines", FLAG_SWITCH, 0, false, NULL, "each line of the input is a record"},
    {"in-flight", FLAG_VALUE, 0, false, "N", "with --lines: so many at once (default 64)"},
    {"in-term", FLAG_VALUE, 0, false, "TERM", "in this term of a leader, or not at all"},
    FLAG_END,
};

const struct command command_append = {
    .name = "append",
    .words = "[-|@FILE|TEXT]",
    .summary = "Append a record to the log (serve --model log); prints its index.",
    .details =
        "The record is text, - for standard input (its exact bytes; the default), or @FILE.\n"
        "Exit code 6: the outcome is unknown; the record may be in the log. With --lines each\n"
        "answer is a line of the input's line number and the record's index; ? when the outcome\n"
        "is unknown, - when it was not appended; and --timeout is that of one record.",
    .examples = "  kvctl append 'order 17 paid'\n"
                "  head -c 1000 /dev/urandom | kvctl append\n"
                "  journalctl -f | kvctl append --lines\n"
                "  kvctl --dir ./log append @event.json",
    .flags = append_flags,
    .model = "log",
    .words_min = 0,
    .words_max = 1,
    .run = run_append,
};
