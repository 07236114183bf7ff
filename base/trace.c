#include "base/trace.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

enum { TEXT_SIZE = 768, LINE_SIZE = 1024, NAME_BYTES = 64 };

/* Appends `text` as the inside of a JSON string; what does not fit is cut at a whole escape. */
static size_t append_escaped(char *line, size_t at, size_t limit, const char *text) {
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        char escape[8];
        int size = 1;
        if (c == '"' || c == '\\') {
            size = snprintf(escape, sizeof(escape), "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            size = snprintf(escape, sizeof(escape), "\\u%04x", c);
        } else {
            escape[0] = (char)c;
        }
        if (at + (size_t)size > limit) {
            break;
        }
        for (int i = 0; i < size; i++) {
            line[at++] = escape[i];
        }
    }
    return at;
}

/* ,"name":"value" with at most NAME_BYTES of the value; the rest of the line has room for them all. */
static size_t append_name(char *line, size_t at, const char *name, const char *value) {
    char cut[NAME_BYTES + 1];
    (void)snprintf(cut, sizeof(cut), "%.*s", NAME_BYTES, value);
    at += (size_t)snprintf(line + at, LINE_SIZE - at, ",\"%s\":\"", name);
    at = append_escaped(line, at, LINE_SIZE - 128, cut);
    line[at++] = '"';
    return at;
}

static const char *level_name(enum trace_level level) {
    switch (level) {
    case TRACE_ERROR: return "error";
    case TRACE_WARN: return "warn";
    case TRACE_INFO: return "info";
    case TRACE_DEBUG: return "debug";
    }
    return "?";
}

void trace_line(const struct trace *trace, enum trace_level level, const char *event,
                const char *format, ...) {
    if (trace == NULL || trace->sink == NULL || level > trace->level) {
        return;
    }
    char text[TEXT_SIZE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    char line[LINE_SIZE];
    size_t at = (size_t)snprintf(line, sizeof(line), "{\"level\":\"%s\"", level_name(level));
    at = append_name(line, at, "node", trace->node != NULL ? trace->node : "");
    at = append_name(line, at, "event", event);
    at += (size_t)snprintf(line + at, sizeof(line) - at, ",\"text\":\"");
    at = append_escaped(line, at, sizeof(line) - 3, text);
    line[at++] = '"';
    line[at++] = '}';
    line[at] = '\0';
    trace->sink(trace->arg, level, line);
}
