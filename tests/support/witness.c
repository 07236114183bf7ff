#include "tests/support/witness.h"

#include "tests/support/need.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 10, LINE_MAX_BYTES = 1 << 16 };

enum outcome { OPEN, OK, FAILED, INFO };

struct op {
    uint64_t process, begun_ns, ended_ns; /* ended_ns UINT64_MAX: never */
    bool is_get;
    char *key, *value, *session; /* owned; a get's value as it was answered */
    enum outcome outcome;
    uint64_t rev, index;
};

struct witness {
    struct op *ops; /* owned */
    size_t count, capacity;
    size_t *open; /* [process]: its operation under way + 1 */
    size_t open_capacity;
    struct witness_counts counts;
    char why[512];
};

/* ------------------------------------------------------------------ small things */

static bool wrong(struct witness *witness, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool wrong(struct witness *witness, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(witness->why, sizeof(witness->why), format, args);
    va_end(args);
    return false;
}

struct witness *witness_new(void) {
    return need(calloc(1, sizeof(struct witness)));
}

void witness_free(struct witness *witness) {
    for (size_t i = 0; i < witness->count; i++) {
        free(witness->ops[i].key);
        free(witness->ops[i].value);
        free(witness->ops[i].session);
    }
    free(witness->ops);
    free(witness->open);
    free(witness);
}

const char *witness_why(const struct witness *witness) {
    return witness->why;
}

/* ------------------------------------------------------------------ lines */

static bool number(const char *text, uint64_t *out) {
    char *end;
    *out = strcmp(text, "-") == 0 ? 0 : strtoull(text, &end, 10);
    return strcmp(text, "-") == 0 || (*text != '\0' && *end == '\0');
}

static size_t *open_of(struct witness *witness, uint64_t process) {
    if (process >= witness->open_capacity) {
        size_t capacity = (size_t)process * 2 + 64;
        witness->open = need(realloc(witness->open, capacity * sizeof(*witness->open)));
        memset(witness->open + witness->open_capacity, 0,
               (capacity - witness->open_capacity) * sizeof(*witness->open));
        witness->open_capacity = capacity;
    }
    return &witness->open[process];
}

static bool invoke(struct witness *witness, uint64_t at_ns, uint64_t process, char **columns) {
    size_t *open = open_of(witness, process);
    bool is_get = strcmp(columns[3], "get") == 0;
    if (*open != 0) {
        return wrong(witness, "process %" PRIu64 " asks twice at once", process);
    }
    if (!is_get && strcmp(columns[3], "put") != 0) {
        return wrong(witness, "there is no operation %s", columns[3]);
    }
    if (witness->count == witness->capacity) {
        witness->capacity = witness->capacity * 2 + 256;
        witness->ops = need(realloc(witness->ops, witness->capacity * sizeof(*witness->ops)));
    }
    witness->ops[witness->count++] = (struct op){.process = process,
                                                 .begun_ns = at_ns,
                                                 .ended_ns = UINT64_MAX,
                                                 .is_get = is_get,
                                                 .key = need(strdup(columns[4])),
                                                 .value = need(strdup(columns[5])),
                                                 .session = need(strdup(columns[8]))};
    *open = witness->count;
    return true;
}

static bool end(struct witness *witness, uint64_t at_ns, uint64_t process, char **columns) {
    size_t *open = open_of(witness, process);
    if (*open == 0) {
        return wrong(witness, "process %" PRIu64 " is answered and had not asked", process);
    }
    struct op *op = &witness->ops[*open - 1];
    *open = 0;
    if (strcmp(columns[2], "info") == 0) {
        op->outcome = INFO;
        return true;
    }
    op->ended_ns = at_ns;
    op->outcome = strcmp(columns[2], "ok") == 0 ? OK : FAILED;
    if (op->outcome == OK && op->is_get) {
        free(op->value);
        op->value = need(strdup(columns[5]));
    }
    if (!number(columns[6], &op->rev) || !number(columns[7], &op->index)) {
        return wrong(witness, "revision %s or index %s is no number", columns[6], columns[7]);
    }
    if (op->outcome == OK && op->index == 0) {
        return wrong(witness, "an answer to process %" PRIu64 " has no index", process);
    }
    return true;
}

bool witness_line(struct witness *witness, const char *line) {
    static char none[] = "-";
    char copy[LINE_MAX_BYTES];
    char *columns[COLUMNS];
    uint64_t at_ns, process;
    if (line[0] == '#' || line[0] == '\0') {
        return true;
    }
    if (strlen(line) >= sizeof(copy)) {
        return wrong(witness, "a line of %zu bytes", strlen(line));
    }
    memcpy(copy, line, strlen(line) + 1);
    char *rest = copy;
    for (size_t i = 0; i < COLUMNS; i++) {
        char *column = rest != NULL ? strsep(&rest, "\t") : NULL;
        columns[i] =
            column != NULL && *column != '\0' ? column : none; /* trailing ones may be missing */
    }
    if (!number(columns[0], &at_ns) || !number(columns[1], &process) || process > UINT32_MAX) {
        return wrong(witness, "time %s or process %s is no number", columns[0], columns[1]);
    }
    return strcmp(columns[2], "invoke") == 0 ? invoke(witness, at_ns, process, columns)
                                             : end(witness, at_ns, process, columns);
}

/* ------------------------------------------------------------------ real time */

struct event {
    uint64_t at_ns;
    bool ends;
    struct op *op;
};

static int by_time(const void *a, const void *b) {
    const struct event *one = a, *other = b;
    if (one->at_ns != other->at_ns) {
        return one->at_ns < other->at_ns ? -1 : 1;
    }
    return (int)one->ends - (int)other->ends; /* at one moment: as if they overlapped */
}

/* What was asked after an answer had come may not lie before it in the log. */
static bool check_time(struct witness *witness) {
    struct event *events = need(calloc(witness->count * 2 + 1, sizeof(*events)));
    uint64_t *floors = need(calloc(witness->count + 1, sizeof(*floors)));
    size_t count = 0;
    uint64_t floor = 0;
    bool good = true;
    for (size_t i = 0; i < witness->count; i++) {
        struct op *op = &witness->ops[i];
        if (op->outcome == OK) {
            events[count++] = (struct event){op->begun_ns, false, op};
            events[count++] = (struct event){op->ended_ns, true, op};
        }
    }
    qsort(events, count, sizeof(*events), by_time);
    for (size_t i = 0; i < count && good; i++) {
        struct op *op = events[i].op;
        uint64_t *at = &floors[op - witness->ops];
        if (!events[i].ends) {
            *at = floor;
        } else if (op->index < *at || (!op->is_get && op->index == *at)) {
            good = wrong(witness,
                         "%s of %s by process %" PRIu64 " took effect at %" PRIu64
                         ", and was asked after %" PRIu64 " had been answered",
                         op->is_get ? "get" : "put", op->key, op->process, op->index, *at);
        } else {
            floor = op->index > floor ? op->index : floor;
        }
    }
    free(floors);
    free(events);
    return good;
}

/* ------------------------------------------------------------------ replay */

/* By key, then in the order of the log; a write before the reads of its index. */
static int by_key(const void *a, const void *b) {
    const struct op *one = *(struct op *const *)a, *other = *(struct op *const *)b;
    int order = strcmp(one->key, other->key);
    if (order != 0) {
        return order;
    }
    if (one->index != other->index) {
        return one->index < other->index ? -1 : 1;
    }
    return (int)one->is_get - (int)other->is_get;
}

static int by_value(const void *a, const void *b) {
    const struct op *one = *(struct op *const *)a, *other = *(struct op *const *)b;
    int order = strcmp(one->key, other->key);
    return order != 0 ? order : strcmp(one->value, other->value);
}

struct lost {
    struct op **ops; /* owned; puts without an answer, by key and value */
    size_t count;
};

static struct op *find_lost(const struct lost *lost, const struct op *read) {
    struct op **found = bsearch(&read, lost->ops, lost->count, sizeof(struct op *), by_value);
    return found != NULL ? *found : NULL;
}

/* The read shows a revision above the last write that was acknowledged before it. */
static bool check_lost(struct witness *witness, const struct lost *lost, const struct op *read) {
    struct op *put = find_lost(lost, read);
    if (put == NULL || put->begun_ns > read->ended_ns) {
        return wrong(witness,
                     "get of %s at %" PRIu64 " shows %s of revision %" PRIu64
                     ", which nobody had written",
                     read->key, read->index, read->value, read->rev);
    }
    if (put->rev != 0 && put->rev != read->rev) {
        return wrong(witness,
                     "%s of %s is seen at the revisions %" PRIu64 " and %" PRIu64
                     ": it was written twice",
                     read->value, read->key, put->rev, read->rev);
    }
    witness->counts.placed += put->rev == 0;
    put->rev = read->rev;
    return true;
}

/* What a key holds at a point of the log. */
struct state {
    const char *key;
    uint64_t rev, put_index; /* rev 0: nothing was written */
    const char *value;
};

static bool check_read(struct witness *witness, const struct lost *lost, struct state *state,
                       const struct op *read) {
    if (read->rev < state->rev) {
        return wrong(witness,
                     "get of %s at %" PRIu64 " shows revision %" PRIu64 ", where %" PRIu64
                     " was written",
                     read->key, read->index, read->rev, state->rev);
    }
    if (read->rev > state->rev && !check_lost(witness, lost, read)) {
        return false;
    }
    if (read->rev == state->rev && strcmp(state->value, read->value) != 0) {
        return wrong(witness, "get of %s at %" PRIu64 " shows %s, where %s was written", read->key,
                     read->index, read->value, state->value);
    }
    state->rev = read->rev;
    state->value = read->value;
    return true;
}

static bool check_put(struct witness *witness, struct state *state, const struct op *put) {
    if (state->put_index == put->index) {
        return wrong(witness, "two puts of %s took effect at %" PRIu64, put->key, put->index);
    }
    if (state->rev >= put->rev) {
        return wrong(witness,
                     "the put of %s at %" PRIu64 " has revision %" PRIu64
                     ", before it was %" PRIu64,
                     put->key, put->index, put->rev, state->rev);
    }
    state->rev = put->rev;
    state->put_index = put->index;
    state->value = put->value;
    return true;
}

static bool replay(struct witness *witness, const struct lost *lost, struct op **done,
                   size_t count) {
    struct state state = {.key = NULL};
    for (size_t i = 0; i < count; i++) {
        const struct op *op = done[i];
        if (state.key == NULL || strcmp(state.key, op->key) != 0) {
            state = (struct state){.key = op->key, .value = "-"};
        }
        if (op->is_get ? !check_read(witness, lost, &state, op) : !check_put(witness, &state, op)) {
            return false;
        }
    }
    return true;
}

bool witness_check(struct witness *witness, struct witness_counts *counts) {
    struct op **done = need(calloc(witness->count + 1, sizeof(struct op *)));
    struct lost lost = {.ops = need(calloc(witness->count + 1, sizeof(struct op *)))};
    size_t count = 0;
    witness->counts = (struct witness_counts){.operations = witness->count};
    for (size_t i = 0; i < witness->count; i++) {
        struct op *op = &witness->ops[i];
        witness->counts.ok += op->outcome == OK;
        witness->counts.failed += op->outcome == FAILED;
        witness->counts.unknown += op->outcome == INFO || op->outcome == OPEN;
        if (op->outcome == OK) {
            done[count++] = op;
        } else if (!op->is_get && op->outcome != FAILED) {
            lost.ops[lost.count++] = op;
        }
    }
    qsort(done, count, sizeof(struct op *), by_key);
    qsort(lost.ops, lost.count, sizeof(struct op *), by_value);
    bool good = check_time(witness) && replay(witness, &lost, done, count);
    free(done);
    free(lost.ops);
    *counts = witness->counts;
    return good;
}

void witness_writes(const struct witness *witness, const char *key, uint64_t *done,
                    uint64_t *unknown) {
    *done = *unknown = 0;
    for (size_t i = 0; i < witness->count; i++) {
        const struct op *op = &witness->ops[i];
        if (!op->is_get && strcmp(op->key, key) == 0) {
            *done += op->outcome == OK;
            *unknown += op->outcome == INFO || op->outcome == OPEN;
        }
    }
}
