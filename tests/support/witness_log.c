#include "tests/support/witness_log.h"

#include "tests/support/need.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum outcome { OPEN, OK, FAILED, INFO };

struct append {
    uint64_t begun_ns, ended_ns; /* ended_ns UINT64_MAX: never */
    uint64_t process, first, count, index;
    bool in_session;
    enum outcome outcome;
};

struct record {
    uint64_t index, number;
};

struct witness_log {
    struct append *appends; /* owned; in the order in which they were asked */
    size_t append_count, append_capacity;
    struct record *records; /* owned */
    size_t record_count, record_capacity;
    size_t *open; /* owned; [process]: its append under way + 1 */
    size_t open_capacity;
    char why[512];
};

static bool wrong(struct witness_log *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool wrong(struct witness_log *log, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(log->why, sizeof(log->why), format, args);
    va_end(args);
    return false;
}

struct witness_log *witness_log_new(void) {
    return need(calloc(1, sizeof(struct witness_log)));
}

void witness_log_free(struct witness_log *log) {
    free(log->appends);
    free(log->records);
    free(log->open);
    free(log);
}

const char *witness_log_why(const struct witness_log *log) {
    return log->why;
}

/* ------------------------------------------------------------------ the history */

static size_t *open_of(struct witness_log *log, uint64_t process) {
    if (process >= log->open_capacity) {
        size_t capacity = (size_t)process * 2 + 64;
        log->open = need(realloc(log->open, capacity * sizeof(*log->open)));
        memset(log->open + log->open_capacity, 0,
               (capacity - log->open_capacity) * sizeof(*log->open));
        log->open_capacity = capacity;
    }
    return &log->open[process];
}

static void invoke(struct witness_log *log, const struct append *append) {
    if (log->append_count == log->append_capacity) {
        log->append_capacity = log->append_capacity * 2 + 256;
        log->appends = need(realloc(log->appends, log->append_capacity * sizeof(*log->appends)));
    }
    log->appends[log->append_count++] = *append;
    *open_of(log, append->process) = log->append_count;
}

bool witness_log_line(struct witness_log *log, const char *line) {
    struct append now = {.ended_ns = UINT64_MAX};
    char event[16], index[24], session[48];
    uint64_t at_ns, process;
    if (line[0] == '#' || line[0] == '\0') {
        return true;
    }
    int fields = sscanf(
        line, "%" SCNu64 "\t%" SCNu64 "\t%15s\tappend\t-\t%" SCNu64 "\t%" SCNu64 "\t%23s\t%47s",
        &at_ns, &process, event, &now.first, &now.count, index, session);
    if (fields != 7 || process > UINT32_MAX || now.count == 0) {
        return wrong(log, "no line of an append: %.100s", line);
    }
    size_t *open = open_of(log, process);
    if (strcmp(event, "invoke") == 0) {
        now.begun_ns = at_ns;
        now.process = process;
        now.in_session = strcmp(session, "-") != 0;
        if (*open != 0) {
            return wrong(log, "process %" PRIu64 " asks twice at once", process);
        }
        invoke(log, &now);
        return true;
    }
    if (*open == 0) {
        return wrong(log, "process %" PRIu64 " is answered and had not asked", process);
    }
    struct append *append = &log->appends[*open - 1];
    *open = 0;
    append->outcome = strcmp(event, "ok") == 0 ? OK : strcmp(event, "info") == 0 ? INFO : FAILED;
    append->ended_ns = append->outcome == INFO ? UINT64_MAX : at_ns;
    append->index = append->outcome == OK ? strtoull(index, NULL, 10) : 0;
    return append->outcome != OK || append->index != 0 ||
           wrong(log, "an answer to process %" PRIu64 " has no index", process);
}

/* ------------------------------------------------------------------ the log */

bool witness_log_record(struct witness_log *log, const char *line) {
    struct record record;
    if (sscanf(line, "%" SCNu64 "\t%" SCNu64, &record.index, &record.number) != 2) {
        return wrong(log, "no record with a number: %.100s", line);
    }
    if (log->record_count > 0 && log->records[log->record_count - 1].index >= record.index) {
        return wrong(log, "index %" PRIu64 " comes again, or out of order", record.index);
    }
    if (log->record_count == log->record_capacity) {
        log->record_capacity = log->record_capacity * 2 + 256;
        log->records = need(realloc(log->records, log->record_capacity * sizeof(*log->records)));
    }
    log->records[log->record_count++] = record;
    return true;
}

static int by_number(const void *a, const void *b) {
    const struct record *one = a, *other = b;
    return one->number < other->number ? -1 : one->number > other->number;
}

static const struct record *find(const struct witness_log *log, uint64_t number) {
    const struct record wanted = {.number = number};
    if (log->record_count == 0) {
        return NULL;
    }
    return bsearch(&wanted, log->records, log->record_count, sizeof(wanted), by_number);
}

/* ------------------------------------------------------------------ comparing */

/* How many of its records are there, from its first on; 0 also when the first is missing. */
static bool look_up(struct witness_log *log, const struct append *append, uint64_t *there) {
    *there = 0;
    uint64_t index = append->index;
    for (uint64_t i = 0; i < append->count; i++) {
        const struct record *record = find(log, append->first + i);
        if (record == NULL) {
            continue;
        }
        index = index != 0 ? index : record->index - i;
        if (record->index != index + i || *there != i) {
            return wrong(log,
                         "record %" PRIu64 " of %" PRIu64 " from %" PRIu64 " stands at %" PRIu64,
                         append->first + i, append->count, append->first, record->index);
        }
        ++*there;
    }
    return true;
}

static bool compare(struct witness_log *log, struct witness_log_counts *counts) {
    for (size_t i = 0; i < log->append_count; i++) {
        const struct append *append = &log->appends[i];
        bool sure = append->outcome == OK, never = append->outcome == FAILED;
        uint64_t there;
        if (!look_up(log, append, &there)) {
            return false;
        }
        bool whole = there == append->count || (!append->in_session && !sure);
        if ((never && there > 0) || (sure && !whole) || (there > 0 && !whole)) {
            return wrong(log,
                         "of %" PRIu64 " records from %" PRIu64 " on %" PRIu64
                         " are in the log, and its outcome is \"%s\"",
                         append->count, append->first, there,
                         sure    ? "done"
                         : never ? "not done"
                                 : "unknown");
        }
        counts->ok += sure;
        counts->failed += never;
        counts->unknown += !sure && !never;
        counts->placed += !sure && !never && there > 0;
    }
    return true;
}

/* No record is there twice, and none that nobody appended. */
static bool all_known(struct witness_log *log) {
    uint64_t asked = 0;
    for (size_t i = 0; i < log->append_count; i++) {
        uint64_t end = log->appends[i].first + log->appends[i].count;
        asked = end > asked ? end : asked;
    }
    for (size_t i = 0; i < log->record_count; i++) {
        const struct record *record = &log->records[i];
        if (record->number == 0 || record->number >= asked) {
            return wrong(log, "record %" PRIu64 " at %" PRIu64 " was never appended",
                         record->number, record->index);
        }
        if (i > 0 && record->number == record[-1].number) {
            return wrong(log, "record %" PRIu64 " is at %" PRIu64 " and at %" PRIu64,
                         record->number, record[-1].index, record->index);
        }
    }
    return true;
}

struct moment {
    uint64_t at_ns;
    bool ends;
    const struct append *append;
};

static int by_time(const void *a, const void *b) {
    const struct moment *one = a, *other = b;
    if (one->at_ns != other->at_ns) {
        return one->at_ns < other->at_ns ? -1 : 1;
    }
    return (int)one->ends - (int)other->ends; /* at one moment: as if they overlapped */
}

/* What was asked after an answer had come stands behind it. */
static bool check_time(struct witness_log *log) {
    struct moment *moments = need(calloc(log->append_count * 2 + 1, sizeof(*moments)));
    uint64_t *floors = need(calloc(log->append_count + 1, sizeof(*floors)));
    size_t count = 0;
    uint64_t floor = 0;
    bool good = true;
    for (size_t i = 0; i < log->append_count; i++) {
        const struct append *append = &log->appends[i];
        if (append->outcome == OK) {
            moments[count++] = (struct moment){append->begun_ns, false, append};
            moments[count++] = (struct moment){append->ended_ns, true, append};
        }
    }
    qsort(moments, count, sizeof(*moments), by_time);
    for (size_t i = 0; good && i < count; i++) {
        const struct append *append = moments[i].append;
        uint64_t *at = &floors[append - log->appends];
        uint64_t last = append->index + append->count - 1;
        if (!moments[i].ends) {
            *at = floor;
        } else if (append->index <= *at) {
            good = wrong(log,
                         "an append stands at %" PRIu64 ", and was asked after the one at %" PRIu64
                         " had been answered",
                         append->index, *at);
        } else {
            floor = last > floor ? last : floor;
        }
    }
    free(floors);
    free(moments);
    return good;
}

bool witness_log_check(struct witness_log *log, struct witness_log_counts *counts) {
    *counts =
        (struct witness_log_counts){.appends = log->append_count, .records = log->record_count};
    if (log->record_count > 0) {
        qsort(log->records, log->record_count, sizeof(*log->records), by_number);
    }
    return all_known(log) && compare(log, counts) && check_time(log);
}
