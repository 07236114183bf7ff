/* kvctl import: JSON lines into the store, some hundred writes in flight.
 *
 * A write whose outcome is unknown, or that was refused for a while, is written again, under the same
 * number of a session, so that it is applied once. Lines with the same key are written one after another, in
 * the order of the input, so that the last one wins although the others fly in parallel.
 *
 *     line -> free slot -> in flight -> acknowledged -> free slot
 *                 ^            | unknown, busy, no leader
 *                 `-- waiting <´
 */
#include "import_line.h"
#include "interrupt.h"
#include "lines.h"
#include "once.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    IN_FLIGHT = 256,
    IN_FLIGHT_MAX = 100000,
    BAD_LINES_TOLD_MAX = 20,
    PATIENCE_MS = 60000,
    RETRY_MS_MIN = 10,
    RETRY_MS_MAX = 500,
    GRACE_MS = 300, /* for answers that come exactly at their deadline */
    TICK_MS = 100
};

enum slot_state { SLOT_FREE, SLOT_IN_FLIGHT, SLOT_WAITING };

struct slot {
    enum slot_state state;
    struct text key, value;
    uint64_t line, hash;
    struct once_number number;
    int64_t retry_at_ms, retry_ms;
};

struct import {
    struct cli *cli;
    struct store store;
    struct once once;
    bool plain; /* without sessions: there are too many, or the nodes know none */
    struct interrupt interrupt;
    struct progress progress;
    struct lines input;
    FILE *acks;
    const char *name;
    uint64_t input_bytes; /* 0: of unknown size */

    struct slot *slots;
    size_t slot_count, in_flight, waiting, next_free;
    struct slot next; /* a line that was read and has no slot yet */
    bool next_full;
    enum line_state input_state; /* LINE_READ: more may be there */
    int input_errno;             /* with LINE_FAILED */

    uint64_t line_number, acknowledged, retries, unknown, bad, failed;
    int last_rc, failed_rc;
    int64_t started_us, gap_from_us, gap_us, gap_at_us, patience_ms;
    int64_t over_ms; /* since when time is up; 0: it is not */
    bool stopped;    /* gave up or was interrupted */
    int exit;
};

/* ------------------------------------------------------------------ reading */

static void tell_line(struct import *import, uint64_t line, int rc, const char *why) {
    if (import->bad + import->failed <= BAD_LINES_TOLD_MAX) {
        progress_end(&import->progress);
        report_found(import->cli, KVCTL_USAGE, rc, "%s:%" PRIu64 ": %s", import->name, line, why);
        progress_start(&import->progress, "import");
    }
}

static uint64_t hash_bytes(struct lkv_bytes bytes) { /* FNV-1a */
    const unsigned char *p = bytes.data;
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < bytes.size; i++) {
        hash = (hash ^ p[i]) * 1099511628211u;
    }
    return hash;
}

/* False: it was blank, or no such line, and told. */
static bool take_line(struct import *import, struct lkv_bytes line) {
    const char *bytes = line.data;
    size_t blank = 0;
    while (blank < line.size && strchr(" \t\r", bytes[blank]) != NULL && bytes[blank] != '\0') {
        blank++;
    }
    if (blank == line.size) {
        return false;
    }
    struct text why = {0};
    bool good = import_line_parse(line, &import->next.key, &import->next.value, &why);
    if (!good) {
        import->bad++;
        tell_line(import, import->line_number, LKV_EINVAL, text_string(&why));
    }
    text_free(&why);
    return good;
}

/* The next good line into import->next; false when there is none, or none yet. */
static bool read_line(struct import *import) {
    struct lkv_bytes line;
    import->input_state = lines_next(&import->input, &line);
    while (import->input_state == LINE_READ) {
        import->line_number++;
        if (take_line(import, line)) {
            import->next.line = import->line_number;
            import->next.hash = hash_bytes(text_bytes(&import->next.key));
            return true;
        }
        import->input_state = lines_next(&import->input, &line);
    }
    import->input_errno = errno;
    return false;
}

static bool key_is_busy(const struct import *import, const struct slot *next) {
    for (size_t i = 0; i < import->slot_count; i++) {
        const struct slot *slot = &import->slots[i];
        if (slot->hash == next->hash && slot->state != SLOT_FREE &&
            bytes_equal(text_bytes(&slot->key), text_bytes(&next->key))) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ writing */

static void slot_wait(struct import *import, struct slot *slot) {
    slot->state = SLOT_WAITING;
    import->waiting++;
    slot->retry_at_ms = clock_ms() + RETRY_MS_MIN;
}

static void slot_retry(struct import *import, struct slot *slot) {
    slot_wait(import, slot);
    import->retries++;
    slot->retry_at_ms = clock_ms() + slot->retry_ms;
    slot->retry_ms = slot->retry_ms * 2 < RETRY_MS_MAX ? slot->retry_ms * 2 : RETRY_MS_MAX;
}

static void slot_failed(struct import *import, struct slot *slot, int rc, const char *why) {
    slot->state = SLOT_FREE;
    if (!import->plain) {
        once_done(&import->once, slot->number);
    }
    import->failed++;
    import->failed_rc = import->failed_rc == 0 ? rc : import->failed_rc;
    tell_line(import, slot->line, rc, *why != '\0' ? why : lkv_error_text(rc));
}

static void slot_refused(struct import *import, struct slot *slot, int rc, const char *why) {
    import->last_rc = rc;
    import->unknown += lkv_outcome(rc) == LKV_UNKNOWN;
    bool again = lkv_retryable(rc) || lkv_outcome(rc) == LKV_UNKNOWN;
    if (rc == LKV_ESESSION) { /* silent for longer than its ttl: the cluster was away */
        int reopened = once_reopen(&import->once, slot->number);
        again = reopened == 0 || lkv_retryable(reopened);
    }
    if (again) {
        slot_retry(import, slot);
    } else {
        slot_failed(import, slot, rc, why);
    }
}

static int slot_put(struct import *import, struct slot *slot) {
    struct store *store = &import->store;
    struct lkv_bytes key = text_bytes(&slot->key);
    struct lkv_bytes value = text_bytes(&slot->value);
    int64_t left_ms = store_left(store);
    if (import->plain) {
        return lkv_put_submit(store->db, key, value, left_ms, store->queue, slot);
    }
    return lkv_put_once_submit(once_session(&import->once, slot->number), slot->number.seq, key,
                               value, left_ms, store->queue, slot);
}

static void slot_submit(struct import *import, struct slot *slot) {
    if (!import->plain && !once_valid(&import->once, slot->number) &&
        !once_take(&import->once, &slot->number)) {
        slot_wait(import, slot); /* for the answer to an older one */
        return;
    }
    int rc = slot_put(import, slot);
    if (rc < 0) {
        slot_refused(import, slot, rc, lkv_last_text());
        return;
    }
    slot->state = SLOT_IN_FLIGHT;
    import->in_flight++;
}

static struct slot *slot_free(struct import *import) {
    for (size_t i = 0; i < import->slot_count; i++) {
        struct slot *slot = &import->slots[(import->next_free + i) % import->slot_count];
        if (slot->state == SLOT_FREE) {
            import->next_free = (import->next_free + i + 1) % import->slot_count;
            return slot;
        }
    }
    return NULL;
}

static void fill(struct import *import) {
    /* While some were refused, more would only be refused too. */
    while (import->over_ms == 0 && import->in_flight + import->waiting < import->slot_count &&
           import->waiting == 0) {
        if (!import->next_full) {
            import->next_full = read_line(import);
        }
        if (!import->next_full || key_is_busy(import, &import->next)) {
            return;
        }
        struct slot *slot = slot_free(import);
        struct slot old = *slot;
        *slot = import->next;
        slot->retry_ms = RETRY_MS_MIN;
        import->next = (struct slot){.key = old.key, .value = old.value}; /* its memory again */
        import->next_full = false;
        if (import->in_flight == 0) {
            import->gap_from_us = clock_us(); /* nobody was waiting before this line */
        }
        slot_submit(import, slot);
    }
}

static int64_t resubmit(struct import *import) {
    int64_t now = clock_ms();
    int64_t wait = TICK_MS;
    for (size_t i = 0; import->over_ms == 0 && import->waiting > 0 && i < import->slot_count; i++) {
        struct slot *slot = &import->slots[i];
        if (slot->state != SLOT_WAITING) {
            continue;
        }
        if (slot->retry_at_ms <= now) {
            import->waiting--;
            slot_submit(import, slot);
        } else if (slot->retry_at_ms - now < wait) {
            wait = slot->retry_at_ms - now;
        }
    }
    return wait;
}

/* ------------------------------------------------------------------ answers */

static void log_ack(struct import *import, const struct slot *slot) {
    struct text line = {0};
    if (import->cli->hex) {
        text_add_hex(&line, text_bytes(&slot->key));
    } else {
        text_add_escaped(&line, text_bytes(&slot->key));
    }
    text_add_byte(&line, '\n');
    fwrite(text_string(&line), 1, line.size, import->acks);
    text_free(&line);
}

static void slot_acknowledged(struct import *import, struct slot *slot) {
    int64_t now = clock_us();
    if (now - import->gap_from_us > import->gap_us) {
        import->gap_us = now - import->gap_from_us;
        import->gap_at_us = import->gap_from_us - import->started_us;
    }
    import->gap_from_us = now;
    import->acknowledged++;
    if (!import->plain) {
        once_done(&import->once, slot->number);
    }
    if (import->acks != NULL) {
        log_ack(import, slot);
    }
    slot->state = SLOT_FREE;
}

static void take_answers(struct import *import, int64_t wait_ms) {
    struct lkv_msg *answer = lkv_queue_next(import->store.queue, wait_ms);
    while (answer != NULL) {
        struct slot *slot = lkv_msg_tag(answer);
        int rc = lkv_msg_rc(answer);
        import->in_flight--;
        if (rc < 0) {
            slot_refused(import, slot, rc, lkv_msg_text(answer));
        } else {
            slot_acknowledged(import, slot);
        }
        lkv_msg_free(answer);
        answer = lkv_queue_next(import->store.queue, 0);
    }
}

/* ------------------------------------------------------------------ the loop */

static void give_up(struct import *import) {
    int64_t silent_ms = (clock_us() - import->gap_from_us) / 1000;
    int64_t patience = import->acknowledged > 0 ? import->patience_ms : import->cli->timeout_ms;
    bool idle = import->in_flight + import->waiting == 0;
    bool over = deadline_passed(import->cli->deadline) || (!idle && silent_ms >= patience);
    if (!over) {
        import->over_ms = 0;
        return;
    }
    import->over_ms = import->over_ms != 0 ? import->over_ms : clock_ms();
    if (import->in_flight > 0 && clock_ms() - import->over_ms < GRACE_MS) {
        return;
    }
    int rc = import->last_rc != 0 ? import->last_rc : LKV_ETIMEOUT;
    bool timed_out = deadline_passed(import->cli->deadline);
    import->stopped = true;
    progress_end(&import->progress);
    import->exit = report_rc(import->cli, rc, NULL,
                             "import ends at line %" PRIu64 ", %s, after %.1f s without an "
                             "acknowledgement",
                             import->line_number, timed_out ? "its time is up" : "out of patience",
                             (double)silent_ms / 1000);
}

static void wait_for_any(struct import *import, int64_t wait_ms) {
    if (import->acks != NULL) {
        fflush(import->acks);
    }
    bool idle = import->in_flight + import->waiting == 0;
    if (import->input_state == LINE_LATER) { /* a slow writer must not delay answers, nor they it */
        lines_wait(&import->input, idle ? TICK_MS : 1);
    }
    take_answers(import, import->input_state == LINE_LATER ? 0 : wait_ms);
}

static void run_loop(struct import *import) {
    for (;;) {
        fill(import);
        int64_t wait = resubmit(import);
        bool idle = import->in_flight + import->waiting == 0 && !import->next_full;
        if (idle && import->input_state != LINE_LATER && import->input_state != LINE_READ) {
            return;
        }
        wait_for_any(import, wait);
        progress_update(&import->progress, import->acknowledged, import->input.taken,
                        import->input_bytes);
        give_up(import);
        if (interrupt_came(&import->interrupt)) {
            import->stopped = true;
            import->exit = KVCTL_INTERRUPTED;
        }
        if (import->stopped) {
            return;
        }
    }
}

/* ------------------------------------------------------------------ the end */

static void print_summary(const struct import *import) {
    double seconds = (double)(clock_us() - import->started_us) / 1e6;
    bool gaps = args_switch(&import->cli->args, "gaps");
    if (import->cli->format == FORMAT_JSON) {
        struct text line = {0};
        json_open(&line);
        json_u64(&line, "acknowledged", import->acknowledged);
        json_u64(&line, "retries", import->retries);
        json_u64(&line, "unknown", import->unknown);
        json_u64(&line, "bad_lines", import->bad);
        json_u64(&line, "failed", import->failed);
        json_u64(&line, "unfinished", import->in_flight + import->waiting);
        json_real(&line, "seconds", seconds);
        json_real(&line, "gap_ms", (double)import->gap_us / 1000);
        json_real(&line, "gap_at_s", (double)import->gap_at_us / 1e6);
        json_print(&line);
        text_free(&line);
        return;
    }
    printf("acknowledged=%" PRIu64 " retries=%" PRIu64 " unknown=%" PRIu64 " bad_lines=%" PRIu64
           " failed=%" PRIu64 " in %.1fs (%.0f/s)\n",
           import->acknowledged, import->retries, import->unknown, import->bad, import->failed,
           seconds, seconds > 0 ? (double)import->acknowledged / seconds : 0);
    if (gaps) {
        printf("longest time without an acknowledgement: %.0f ms, %.1f s after the start\n",
               (double)import->gap_us / 1000, (double)import->gap_at_us / 1e6);
    }
}

static int finish(struct import *import) {
    progress_end(&import->progress);
    if (import->input_state == LINE_FAILED) {
        import->exit = report_found(import->cli, KVCTL_USAGE, LKV_EIO, "cannot read %s: %s",
                                    import->name, strerror(import->input_errno));
    }
    if (import->acks != NULL && (fflush(import->acks) != 0 || ferror(import->acks))) {
        import->exit =
            report_found(import->cli, KVCTL_REJECTED, LKV_EIO,
                         "cannot write the list of acknowledged keys: %s", strerror(errno));
    }
    print_summary(import);
    if (import->exit == 0 && import->failed > 0) {
        import->exit = (int)exit_of(import->failed_rc);
    }
    if (import->exit == 0 && import->bad > 0) {
        import->exit = KVCTL_USAGE;
    }
    return import->exit;
}

static int open_sessions(struct import *import) {
    int rc = once_open(&import->once, import->store.db, import->slot_count);
    import->plain = rc == LKV_EBUSY || rc == LKV_EUNSUPPORTED;
    if (rc == 0 || import->plain) {
        if (import->plain) {
            report_warning(import->cli,
                           "no session (%s): a write whose outcome is unknown may be applied twice",
                           lkv_last_text());
        }
        return 0;
    }
    int exit = report_rc(import->cli, rc, NULL, "import: %s", lkv_last_text());
    once_close(&import->once, 0);
    store_close(&import->store);
    return exit;
}

static int run_import_open(struct import *import) {
    struct cli *cli = import->cli;
    if (!cli->timeout_given) {
        cli->deadline = (struct deadline){0}; /* only each write has its limit */
    }
    interrupt_start(&import->interrupt);
    int exit = store_open(cli, TO_WRITE, &import->store);
    exit = exit == 0 ? open_sessions(import) : exit;
    if (exit == 0) {
        import->slots = must_realloc(NULL, import->slot_count * sizeof(*import->slots));
        memset(import->slots, 0, import->slot_count * sizeof(*import->slots));
        progress_start(&import->progress, "import");
        import->started_us = import->gap_from_us = clock_us();
        run_loop(import);
        exit = finish(import);
        once_close(&import->once, import->in_flight == 0 ? import->cli->timeout_ms : 0);
        store_close(&import->store); /* what is still owed dies with the queue */
    }
    for (size_t i = 0; import->slots != NULL && i < import->slot_count; i++) {
        text_free(&import->slots[i].key);
        text_free(&import->slots[i].value);
    }
    free(import->slots);
    text_free(&import->next.key);
    text_free(&import->next.value);
    lines_free(&import->input);
    interrupt_end(&import->interrupt);
    return exit;
}

/* ------------------------------------------------------------------ the command */

static int open_files(struct import *import) {
    struct cli *cli = import->cli;
    const char *word = cli->args.words[0];
    bool is_stdin = strcmp(word, "-") == 0;
    import->name = is_stdin ? "standard input" : word;
    import->input.fd = is_stdin ? STDIN_FILENO : open(word, O_RDONLY | O_CLOEXEC);
    if (import->input.fd < 0) {
        return report_found(cli, KVCTL_USAGE, LKV_ENOENT, "cannot read %s: %s", word,
                            strerror(errno));
    }
    struct stat info;
    if (fstat(import->input.fd, &info) == 0 && S_ISREG(info.st_mode)) {
        import->input_bytes = (uint64_t)info.st_size;
    }
    const char *acks = args_text(&cli->args, "ack-log");
    import->acks = acks != NULL ? fopen(acks, "we") : NULL;
    if (acks != NULL && import->acks == NULL) {
        return report_found(cli, KVCTL_USAGE, LKV_EIO, "cannot write %s: %s", acks,
                            strerror(errno));
    }
    return 0;
}

static int run_import(struct cli *cli) {
    struct import import = {.cli = cli, .interrupt = {.fd = -1}, .patience_ms = PATIENCE_MS};
    uint64_t in_flight = IN_FLIGHT;
    if (!args_number(&cli->args, "in-flight", 1, IN_FLIGHT_MAX, &in_flight) ||
        !args_duration(&cli->args, "patience", &import.patience_ms)) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    import.slot_count = (size_t)in_flight;
    int exit = open_files(&import);
    exit = exit == 0 ? run_import_open(&import) : exit;
    if (import.input.fd > STDIN_FILENO) {
        close(import.input.fd);
    }
    if (import.acks != NULL) {
        fclose(import.acks);
    }
    return exit;
}

static const struct flag import_flags[] = {
    {"in-flight", FLAG_VALUE, 0, false, "N", "writes at once (default 256)"},
    {"patience", FLAG_VALUE, 0, false, "DURATION",
     "give up when nothing was acknowledged for so long (default 60s)"},
    {"ack-log", FLAG_VALUE, 0, false, "FILE", "write each acknowledged key, one a line"},
    {"gaps", FLAG_SWITCH, 0, false, NULL, "also print the longest time without acknowledgement"},
    FLAG_END,
};

const struct command command_import = {
    .name = "import",
    .words = "FILE",
    .summary = "Write keys from JSON lines; - is standard input.",
    .details =
        "A line is {\"key\":TEXT,\"value\":TEXT}; bytes that are no text go under key_b64,\n"
        "value_b64 (base64) or key_hex, value_hex. Writes whose outcome is unknown and writes\n"
        "refused for a while are repeated, so an import survives a change of leader; they are\n"
        "numbered in a session, so that each takes effect once all the same. Of lines\n"
        "with the same key the last one wins. Lines that are no such thing are told and left\n"
        "out; the exit code is then 3. Without --timeout there is no limit for the whole, and\n"
        "each write has 5 s; until the first acknowledgement it gives up after --timeout.",
    .examples = "  kvctl import data.jsonl\n"
                "  kvctl export | kvctl --endpoints other:7001 import -\n"
                "  kvctl import data.jsonl --gaps --ack-log acknowledged.txt",
    .flags = import_flags,
    .words_min = 1,
    .words_max = 1,
    .run = run_import,
};
