#include "history.h"

#include <inttypes.h>
#include <time.h>

static void add_bytes(struct text *line, struct lkv_bytes bytes) {
    const unsigned char *at = bytes.data;
    for (size_t i = 0; i < bytes.size; i++) {
        bool plain =
            at[i] > ' ' && at[i] < 0x7f && at[i] != '%' && !(at[i] == '-' && bytes.size == 1);
        if (plain) {
            text_add_byte(line, (char)at[i]);
        } else {
            text_printf(line, "%%%02X", at[i]);
        }
    }
}

static void add_number(struct text *line, bool known, uint64_t number) {
    if (known) {
        text_printf(line, "\t%" PRIu64, number);
    } else {
        text_add_string(line, "\t-");
    }
}

static void begin(struct text *line, const struct history_op *op, const char *event) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    text_printf(line, "%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t",
                (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec, op->process, event,
                op->records > 0 ? "append"
                : op->is_get    ? "get"
                                : "put");
    if (op->records > 0) {
        text_add_byte(line, '-');
    } else {
        add_bytes(line, op->key);
    }
    text_add_byte(line, '\t');
}

static void end(struct text *line, const struct history_op *op, FILE *file) {
    if (op->session != 0) {
        text_printf(line, "\t%" PRIu64 ":%" PRIu64 "\t-\n", op->session, op->seq);
    } else {
        text_add_string(line, "\t-\t-\n");
    }
    fwrite(text_string(line), 1, line->size, file);
    fflush(file);
    text_free(line);
}

/* The bytes of an empty value are none, too. */
static void add_value(struct text *line, bool known, struct lkv_bytes value) {
    if (known) {
        add_bytes(line, value);
    } else {
        text_add_byte(line, '-');
    }
}

void history_head(FILE *file, const char *command, uint64_t seed) {
    fprintf(file, "# kvctl %s %s seed=%" PRIu64 "\n", LKV_VERSION, command, seed);
    fflush(file);
}

void history_invoke(FILE *file, const struct history_op *op) {
    struct text line = {0};
    begin(&line, op, "invoke");
    add_value(&line, !op->is_get, op->value);
    add_number(&line, op->records > 0, op->records);
    add_number(&line, false, 0);
    end(&line, op, file);
}

static const char *event_of(int rc) {
    switch (lkv_outcome(rc)) {
    case LKV_DONE:
    case LKV_NEGATIVE: return "ok"; /* "no such key" is an answer */
    case LKV_NOT_DONE: return "fail";
    case LKV_UNKNOWN: return "info";
    }
    return "info";
}

void history_return(FILE *file, const struct history_op *op, int rc, const struct lkv_msg *answer) {
    struct text line = {0};
    struct lkv_kv kv = {.mod_rev = 0};
    uint64_t rev = 0;
    uint64_t index = 0;
    bool answered = answer != NULL && lkv_outcome(rc) != LKV_UNKNOWN;
    bool found = op->is_get && rc == 0 && answered && lkv_msg_kv(answer, 0, &kv);
    bool has_rev = !op->is_get && rc == 0 && answered && lkv_msg_u64(answer, "rev", &rev);
    bool has_index =
        answered && lkv_outcome(rc) != LKV_NOT_DONE && lkv_msg_u64(answer, "index", &index);
    begin(&line, op, event_of(rc));
    add_value(&line, found || !op->is_get, op->is_get ? kv.value : op->value);
    if (op->records > 0) {
        add_number(&line, true, op->records);
    } else {
        add_number(&line, found || has_rev, found ? kv.mod_rev : rev);
    }
    add_number(&line, has_index, index);
    end(&line, op, file);
}
