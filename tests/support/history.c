#include "tests/support/history.h"

#include "tests/support/need.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 10, COLUMNS_MIN = 5, FOUND_SHOWN_MAX = 60 };
enum { AT, PROCESS, EVENT, OPERATION, KEY, A, B };

/* ------------------------------------------------------------------ names */

/* Texts and their numbers, from 1. */
struct history_names {
    char **texts; /* owned, each owned; [number - 1] */
    size_t count, capacity;
    size_t *index; /* owned; number, 0: free; open addressing */
    size_t index_size;
};

static uint64_t hash(const char *text) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (; *text != '\0'; text++) {
        sum = (sum ^ (unsigned char)*text) * 0x100000001b3u;
    }
    return sum;
}

static size_t place_of(const struct history_names *names, const char *text) {
    size_t at = (size_t)hash(text) & (names->index_size - 1);
    while (names->index[at] != 0 && strcmp(names->texts[names->index[at] - 1], text) != 0) {
        at = (at + 1) & (names->index_size - 1);
    }
    return at;
}

static void grow(struct history_names *names) {
    names->capacity = names->capacity * 2 + 64;
    names->texts = need(realloc(names->texts, names->capacity * sizeof(*names->texts)));
    names->index_size = names->index_size > 0 ? names->index_size * 4 : 512;
    free(names->index);
    names->index = need(calloc(names->index_size, sizeof(*names->index)));
    for (size_t i = 0; i < names->count; i++) {
        names->index[place_of(names, names->texts[i])] = i + 1;
    }
}

static uint64_t number_of(struct history_names *names, const char *text) {
    if (names->count == names->capacity) {
        grow(names);
    }
    size_t at = place_of(names, text);
    if (names->index[at] == 0) {
        names->texts[names->count++] = need(strdup(text));
        names->index[at] = names->count;
    }
    return names->index[at];
}

static void names_free(struct history_names *names) {
    for (size_t i = 0; i < names->count; i++) {
        free(names->texts[i]);
    }
    free(names->texts);
    free(names->index);
    free(names);
}

static void print_key(const void *arg, uint64_t key, FILE *out) {
    fputs(((const struct history *)arg)->keys->texts[key - 1], out);
}

static void print_value(const void *arg, uint64_t value, FILE *out) {
    fputs(((const struct history *)arg)->values->texts[value - 1], out);
}

static void print_where(const void *arg, size_t position, FILE *out) {
    const struct history_origin *origin = &((const struct history *)arg)->origins[position];
    fprintf(out, "line %zu: process %" PRIu64, origin->line, origin->process);
}

/* ------------------------------------------------------------------ columns */

struct reader {
    struct history *history;
    const char *name;
    size_t line;
    char *columns[COLUMNS];
    size_t *under_way; /* owned, [process]: its operation + 1 */
    size_t under_way_size;
};

static bool wrong(struct reader *reader, const char *found, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool wrong(struct reader *reader, const char *found, const char *format, ...) {
    char expected[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(expected, sizeof(expected), format, args);
    va_end(args);
    (void)snprintf(reader->history->why, sizeof(reader->history->why),
                   "%.200s:%zu: expected %s, found %s%.*s%s", reader->name, reader->line, expected,
                   found[0] != '\0' ? "\"" : "nothing", FOUND_SHOWN_MAX, found,
                   found[0] != '\0' ? "\"" : "");
    return false;
}

static bool take_number(struct reader *reader, size_t column, const char *what, uint64_t max,
                        uint64_t *out) {
    const char *text = reader->columns[column];
    *out = 0;
    for (const char *at = text; *at != '\0'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (*at < '0' || *at > '9' || *out > (max - digit) / 10) {
            return wrong(reader, text, "%s, a number up to %" PRIu64, what, max);
        }
        *out = *out * 10 + digit;
    }
    return text[0] != '\0' || wrong(reader, text, "%s, a number", what);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_plain(int byte) {
    return byte > ' ' && byte < 0x7f && byte != '%';
}

/* One text for one string of bytes, however it was encoded: in place. */
static bool normalise(struct reader *reader, char *text) {
    static const char digits[] = "0123456789ABCDEF";
    bool dash = strcmp(text, "-") == 0;
    const char *from = text;
    char *to = text;
    while (*from != '\0') {
        int byte = (unsigned char)*from;
        if (byte == '%') {
            int high = hex_digit(from[1]), low = high < 0 ? -1 : hex_digit(from[2]);
            if (low < 0) {
                return wrong(reader, from, "two hexadecimal digits after %%");
            }
            byte = high * 16 + low;
            from += 2;
        } else if (!is_plain(byte)) {
            return wrong(reader, from, "bytes outside 0x21 to 0x7e as %%XX");
        }
        from++;
        if (is_plain(byte)) {
            *to++ = (char)byte;
        } else {
            *to++ = '%';
            *to++ = digits[byte >> 4];
            *to++ = digits[byte & 15];
        }
    }
    *to = '\0';
    if (!dash && strcmp(text, "-") == 0) { /* it was %2D, which is a byte and not none */
        memcpy(text, "%2D", sizeof("%2D"));
    }
    return true;
}

static bool is_none(const char *text) {
    return text[0] == '\0' || strcmp(text, "-") == 0;
}

static bool take_value(struct reader *reader, size_t column, const char *what, bool may_be_none,
                       uint64_t *out) {
    char *text = reader->columns[column];
    *out = LIN_ABSENT;
    if (is_none(text)) {
        return may_be_none || wrong(reader, text, "%s", what);
    }
    if (!normalise(reader, text)) {
        return false;
    }
    *out = number_of(reader->history->values, text);
    return true;
}

/* ------------------------------------------------------------------ lines */

static bool take_kind(struct reader *reader, enum lin_kind *out) {
    static const char *const names[] = {
        [LIN_GET] = "get", [LIN_PUT] = "put", [LIN_DELETE] = "delete", [LIN_CAS] = "cas"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(reader->columns[OPERATION], names[i]) == 0) {
            *out = (enum lin_kind)i;
            return true;
        }
    }
    return wrong(reader, reader->columns[OPERATION], "get, put, delete or cas");
}

static bool take_key(struct reader *reader, uint64_t *out) {
    char *text = reader->columns[KEY];
    if (is_none(text)) {
        return wrong(reader, text, "a key");
    }
    if (!normalise(reader, text)) {
        return false;
    }
    *out = number_of(reader->history->keys, text);
    return true;
}

static size_t *under_way(struct reader *reader, uint64_t process) {
    if (process >= reader->under_way_size) {
        size_t size = (size_t)process * 2 + 64;
        reader->under_way = need(realloc(reader->under_way, size * sizeof(*reader->under_way)));
        memset(reader->under_way + reader->under_way_size, 0,
               (size - reader->under_way_size) * sizeof(*reader->under_way));
        reader->under_way_size = size;
    }
    return &reader->under_way[process];
}

static bool take_arguments(struct reader *reader, struct lin_op *op) {
    switch (op->kind) {
    case LIN_GET:
    case LIN_DELETE: return true;
    case LIN_PUT: return take_value(reader, A, "the value of a put", false, &op->value);
    case LIN_CAS:
        return take_value(reader, A, "what a cas replaces", true, &op->expected) &&
               take_value(reader, B, "what a cas writes", true, &op->value);
    }
    return false;
}

static bool invoke(struct reader *reader, struct lin_op op, uint64_t process) {
    struct history *history = reader->history;
    size_t *open = under_way(reader, process);
    if (*open != 0) {
        return wrong(reader, reader->columns[EVENT],
                     "the end of what process %" PRIu64 " began in line %zu", process,
                     history->origins[*open - 1].line);
    }
    if (!take_arguments(reader, &op)) {
        return false;
    }
    if (history->count == history->capacity) {
        history->capacity = history->capacity * 2 + 256;
        history->ops = need(realloc(history->ops, history->capacity * sizeof(*history->ops)));
        history->origins =
            need(realloc(history->origins, history->capacity * sizeof(*history->origins)));
    }
    op.outcome = LIN_INFO;
    op.ended_ns = LIN_NEVER;
    history->ops[history->count] = op;
    history->origins[history->count++] = (struct history_origin){reader->line, process};
    *open = history->count;
    return true;
}

static bool answered(struct reader *reader, struct lin_op *op) {
    uint64_t value;
    if (op->kind == LIN_GET) {
        return take_value(reader, A, "what a get was answered", true, &op->value);
    }
    if (op->kind != LIN_PUT || is_none(reader->columns[A])) {
        return true;
    }
    if (!take_value(reader, A, "the value of a put", true, &value)) {
        return false;
    }
    return value == op->value || wrong(reader, reader->columns[A], "the value of the put's invoke");
}

static bool finish(struct reader *reader, const struct lin_op *line, uint64_t process) {
    const char *event = reader->columns[EVENT];
    size_t *open = under_way(reader, process);
    if (*open == 0) {
        return wrong(reader, event, "invoke, since process %" PRIu64 " has nothing under way",
                     process);
    }
    struct lin_op *op = &reader->history->ops[*open - 1];
    if (op->kind != line->kind || op->key != line->key) {
        return wrong(reader, reader->columns[op->kind != line->kind ? OPERATION : KEY],
                     "what process %" PRIu64 " began in line %zu", process,
                     reader->history->origins[*open - 1].line);
    }
    if (line->begun_ns < op->begun_ns) {
        return wrong(reader, reader->columns[AT], "a time not before %" PRIu64, op->begun_ns);
    }
    *open = 0;
    if (strcmp(event, "info") == 0) {
        return true;
    }
    op->ended_ns = line->begun_ns;
    if (strcmp(event, "fail") == 0) {
        op->outcome = LIN_FAIL;
        return true;
    }
    op->outcome = LIN_OK;
    return answered(reader, op);
}

static bool one_line(struct reader *reader, char *line) {
    static char none[] = "";
    struct lin_op op = {.kind = LIN_GET};
    uint64_t process;
    size_t count = 0;
    for (char *rest = line; rest != NULL && count < COLUMNS; count++) {
        reader->columns[count] = strsep(&rest, "\t");
    }
    for (size_t i = count; i < COLUMNS; i++) {
        reader->columns[i] = none;
    }
    if (!take_number(reader, AT, "a time in ns", LIN_NEVER - 1, &op.begun_ns) ||
        !take_number(reader, PROCESS, "a process", HISTORY_PROCESSES_MAX - 1, &process)) {
        return false;
    }
    static const char *const events[] = {"invoke", "ok", "fail", "info"};
    bool known = false;
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        known = known || strcmp(reader->columns[EVENT], events[i]) == 0;
    }
    if (!known) {
        return wrong(reader, reader->columns[EVENT], "invoke, ok, fail or info");
    }
    if (!take_kind(reader, &op.kind) || !take_key(reader, &op.key)) {
        return false;
    }
    return strcmp(reader->columns[EVENT], "invoke") == 0 ? invoke(reader, op, process)
                                                         : finish(reader, &op, process);
}

/* ------------------------------------------------------------------ files */

static bool all_lines(struct reader *reader, FILE *file) {
    char *line = NULL;
    size_t capacity = 0;
    bool good = true;
    ssize_t size;
    while (good && (size = getline(&line, &capacity, file)) > 0) {
        reader->line++;
        if (line[size - 1] != '\n') {
            break;
        }
        line[--size] = '\0';
        if (strlen(line) != (size_t)size) {
            good = wrong(reader, line, "no byte 0");
        } else if (size > HISTORY_LINE_BYTES_MAX) {
            good = wrong(reader, line, "at most %d bytes in a line", HISTORY_LINE_BYTES_MAX);
        } else if (size > 0 && line[0] != '#') {
            good = one_line(reader, line);
        }
    }
    if (good && ferror(file) != 0) {
        good = wrong(reader, "", "a file that can be read");
    }
    free(line);
    return good;
}

struct history *history_read_from(FILE *file, const char *name, char why[static 512]) {
    struct history *history = need(calloc(1, sizeof(*history)));
    struct reader reader = {.history = history, .name = name};
    history->keys = need(calloc(1, sizeof(*history->keys)));
    history->values = need(calloc(1, sizeof(*history->values)));
    history->names = (struct lin_names){print_key, print_value, print_where, history};
    why[0] = '\0';
    bool good = all_lines(&reader, file);
    free(reader.under_way);
    if (!good) {
        memcpy(why, history->why, sizeof(history->why));
        history_free(history);
        return NULL;
    }
    return history;
}

struct history *history_read(const char *path, char why[static 512]) {
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)snprintf(why, 512, "%.300s: %s", path, "cannot be opened");
        return NULL;
    }
    struct history *history = history_read_from(file, path, why);
    (void)fclose(file);
    return history;
}

void history_free(struct history *history) {
    if (history == NULL) {
        return;
    }
    names_free(history->keys);
    names_free(history->values);
    free(history->ops);
    free(history->origins);
    free(history);
}
