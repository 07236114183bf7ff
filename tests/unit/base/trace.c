#include "base/trace.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct {
    int calls;
    int level;
    char json[4096];
} sunk;

static void sink(void *arg, int level, const char *json) {
    cr_assert_eq(arg, &sunk);
    sunk.calls++;
    sunk.level = level;
    (void)snprintf(sunk.json, sizeof(sunk.json), "%s", json);
}

static const struct trace trace = {.sink = sink, .arg = &sunk, .level = TRACE_INFO, .node = "n1"};

Test(base_trace, line_is_a_json_object) {
    trace_line(&trace, TRACE_WARN, "torn_tail", "cut %d bytes", 7);
    cr_assert_eq(sunk.calls, 1);
    cr_assert_eq(sunk.level, TRACE_WARN);
    cr_assert_str_eq(sunk.json, "{\"level\":\"warn\",\"node\":\"n1\",\"event\":\"torn_tail\","
                                "\"text\":\"cut 7 bytes\"}");
}

Test(base_trace, levels_have_names) {
    struct trace all = trace;
    all.level = TRACE_DEBUG;
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int level = TRACE_ERROR; level <= TRACE_DEBUG; level++) {
        trace_line(&all, (enum trace_level)level, "e", "t");
        char expected[64];
        (void)snprintf(expected, sizeof(expected), "{\"level\":\"%s\",", names[level]);
        cr_assert_eq(strncmp(sunk.json, expected, strlen(expected)), 0);
    }
}

Test(base_trace, what_is_above_the_level_is_not_told) {
    trace_line(&trace, TRACE_DEBUG, "e", "t");
    cr_assert_eq(sunk.calls, 0);
    trace_line(&trace, TRACE_INFO, "e", "t");
    cr_assert_eq(sunk.calls, 1);
}

Test(base_trace, nobody_listening_is_fine) {
    trace_line(NULL, TRACE_ERROR, "e", "t");
    struct trace off = trace;
    off.sink = NULL;
    trace_line(&off, TRACE_ERROR, "e", "t");
    cr_assert_eq(sunk.calls, 0);
}

Test(base_trace, node_may_be_nameless) {
    struct trace nameless = trace;
    nameless.node = NULL;
    trace_line(&nameless, TRACE_ERROR, "e", "t");
    cr_assert_str_eq(sunk.json,
                     "{\"level\":\"error\",\"node\":\"\",\"event\":\"e\",\"text\":\"t\"}");
}

Test(base_trace, text_is_escaped) {
    trace_line(&trace, TRACE_ERROR, "e", "%s", "a\"b\\c\nd\x01\x7f\xff");
    const char *text = strstr(sunk.json, "\"text\":");
    cr_assert_str_eq(text, "\"text\":\"a\\\"b\\\\c\\u000ad\\u0001\\u007f\\u00ff\"}");
}

Test(base_trace, node_and_event_are_escaped_and_cut) {
    struct trace odd = trace;
    odd.node = "a\"b\n";
    trace_line(&odd, TRACE_ERROR, "e\\", "t");
    cr_assert_str_eq(sunk.json,
                     "{\"level\":\"error\",\"node\":\"a\\\"b\\u000a\",\"event\":\"e\\\\\","
                     "\"text\":\"t\"}");
    char long_name[2000];
    memset(long_name, '\n', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = '\0';
    odd.node = long_name;
    trace_line(&odd, TRACE_ERROR, long_name, "%s", long_name);
    size_t size = strlen(sunk.json);
    cr_assert_leq(size, 1024);
    cr_assert_str_eq(sunk.json + size - 8, "\\u000a\"}");
    cr_assert_not_null(strstr(sunk.json, "\",\"event\":\"\\u000a"));
}

/* The worst for the length: every byte becomes six, and the cut must not fall into an escape. */
Test(base_trace, long_text_is_cut_and_still_an_object) {
    for (int shift = 0; shift < 8; shift++) {
        char text[2000];
        memset(text, '\n', sizeof(text));
        memset(text, 'x', (size_t)shift);
        text[sizeof(text) - 1] = '\0';
        trace_line(&trace, TRACE_ERROR, "e", "%s", text);
        size_t size = strlen(sunk.json);
        cr_assert_leq(size, 1024);
        cr_assert_gt(size, 900);
        cr_assert_str_eq(sunk.json + size - 8, "\\u000a\"}");
    }
}
