#include "base/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

struct error_row {
    int number;
    enum lkv_outcome outcome;
    bool retryable;
    const char *name;
    const char *text;
};

static const struct error_row rows[] = {
#define ERROR_ROW(name, number, outcome, retryable, text) {number, outcome, retryable, #name, text},
    LKV_ERROR_TABLE(ERROR_ROW)
#undef ERROR_ROW
};

static const struct error_row *row_of(int rc) {
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].number == rc) {
            return &rows[i];
        }
    }
    return NULL;
}

const char *error_name(int rc) {
    if (rc == 0) {
        return "LKV_OK";
    }
    const struct error_row *row = row_of(rc);
    return row != NULL ? row->name : "LKV_E?";
}

const char *error_text(int rc) {
    if (rc == 0) {
        return "success";
    }
    const struct error_row *row = row_of(rc);
    return row != NULL ? row->text : "unknown error code";
}

enum lkv_outcome error_outcome(int rc) {
    if (rc >= 0) {
        return LKV_DONE;
    }
    const struct error_row *row = row_of(rc);
    return row != NULL ? row->outcome : LKV_UNKNOWN;
}

bool error_retryable(int rc) {
    const struct error_row *row = row_of(rc);
    return row != NULL && row->retryable;
}

int reason_set(struct reason *why, int rc, const char *format, ...) {
    if (why != NULL) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(why->text, sizeof(why->text), format, args);
        va_end(args);
    }
    return rc;
}
