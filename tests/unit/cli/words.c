/* Durations, suggestions, and lines of a pipe. */
#include "cli/bytes.c"
#include "cli/clock.c"
#include "cli/lines.c"
#include "cli/suggest.c"

#include <criterion/criterion.h>

Test(cli_clock, reads_durations) {
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"5", 5000},     {"5s", 5000},    {"250ms", 250}, {"0.5", 500},
                {"1.5m", 90000}, {"2h", 7200000}, {"0", 0},       {"0.1ms", 1}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t ms = -1;
        cr_assert(duration_parse(good[i].text, &ms), "%s", good[i].text);
        cr_assert_eq(ms, good[i].ms, "%s", good[i].text);
    }
    static const char *const bad[] = {"",
                                      "s",
                                      "-1",
                                      "5 s",
                                      "5d",
                                      "1e3",
                                      "0x10",
                                      "nan",
                                      "inf",
                                      "1.2.3",
                                      "+5",
                                      "5ss",
                                      "99999999999999999h"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t ms;
        cr_assert_not(duration_parse(bad[i], &ms), "%s", bad[i]);
    }
}

static const char *nearest(const char *typed) {
    static const char *const words[] = {"put", "get", "del", "count", "status", "import", "export"};
    struct suggestion suggestion = {0};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        suggestion_try(&suggestion, typed, words[i]);
    }
    return suggestion.word != NULL ? suggestion.word : "";
}

Test(cli_suggest, finds_the_nearest_word_if_one_is_near) {
    cr_assert_str_eq(nearest("gett"), "get");
    cr_assert_str_eq(nearest("statsu"), "status");
    cr_assert_str_eq(nearest("improt"), "import");
    cr_assert_str_eq(nearest("exprot"), "export");
    cr_assert_str_eq(nearest("coutn"), "count");
    cr_assert_str_eq(nearest("frobnicate"), "");
    cr_assert_str_eq(nearest(""), "");
    cr_assert_str_eq(nearest("a word that is much longer than any that a person would type"), "");
}

static void check_line(struct lines *lines, enum line_state state, const char *wanted) {
    struct lkv_bytes line = {0};
    cr_assert_eq(lines_next(lines, &line), state);
    if (wanted != NULL) {
        cr_assert(bytes_equal(line, bytes_of(wanted)));
    }
}

Test(cli_lines, never_waits_for_the_writer) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    struct lines lines = {.fd = ends[0]};
    check_line(&lines, LINE_LATER, NULL);
    cr_assert_eq(write(ends[1], "one\ntw", 6), 6);
    check_line(&lines, LINE_READ, "one");
    check_line(&lines, LINE_LATER, NULL);
    cr_assert_eq(write(ends[1], "o\n\nrest", 7), 7);
    check_line(&lines, LINE_READ, "two");
    check_line(&lines, LINE_READ, "");
    check_line(&lines, LINE_LATER, NULL);
    close(ends[1]);
    check_line(&lines, LINE_READ, "rest");
    check_line(&lines, LINE_END, NULL);
    check_line(&lines, LINE_END, NULL);
    cr_assert_eq(lines.taken, 13);
    lines_free(&lines);
    close(ends[0]);
}

Test(cli_lines, holds_lines_longer_than_a_read) {
    char path[] = "/tmp/lkv-lines-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    struct text content = {0};
    for (size_t i = 0; i < 700000; i++) {
        text_add_byte(&content, (char)('a' + i % 26));
    }
    struct text whole = {0};
    text_add_string(&whole, "first\n");
    text_add(&whole, content.data, content.size);
    text_add_string(&whole, "\nlast");
    cr_assert_eq(write(fd, whole.data, whole.size), (ssize_t)whole.size);
    lseek(fd, 0, SEEK_SET);
    struct lines lines = {.fd = fd};
    check_line(&lines, LINE_READ, "first");
    check_line(&lines, LINE_READ, text_string(&content));
    check_line(&lines, LINE_READ, "last");
    check_line(&lines, LINE_END, NULL);
    lines_free(&lines);
    text_free(&content);
    text_free(&whole);
    close(fd);
}
