/* Diagnostics as one-line JSON objects to a sink that the embedding program chose; never to stdout
 * or stderr by the library itself. The sink may be called from any of our threads, one at a time
 * per thread, and must not call back into the library. Without a sink a trace costs one branch. */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include "base/error.h"

enum trace_level { TRACE_ERROR, TRACE_WARN, TRACE_INFO, TRACE_DEBUG };

struct trace {
    void (*sink)(void *arg, int level, const char *json); /* NULL: tracing is off */
    void *arg;
    enum trace_level level; /* what is above it is not formatted */
    const char *node;       /* name of the node, in every line; borrowed, may be NULL */
};

/* One line {"level":"warn","node":"n1","event":EVENT,"text":...}; the text is the formatted
 * message, escaped. `trace` may be NULL. Lines are cut at 1 KiB. */
void trace_line(const struct trace *trace, enum trace_level level, const char *event,
                const char *format, ...) PRINTF_LIKE(4, 5);

#endif
