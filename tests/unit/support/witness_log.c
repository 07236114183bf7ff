/* The checker of histories of appends finds what it is for. */
#include "tests/support/witness_log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct witness_log_counts counts;

/* Lines with blanks for tabs: of the history, and of the log. */
static bool agrees(const char *history, const char *records, char why[512]) {
    struct witness_log *log = witness_log_new();
    char copy[4096];
    bool good = true;
    for (int part = 0; part < 2; part++) {
        (void)snprintf(copy, sizeof(copy), "%s", part == 0 ? history : records);
        for (char *rest = copy, *line; good && (line = strsep(&rest, "\n")) != NULL;) {
            for (char *at = line; *at != '\0'; at++) {
                *at = *at == ' ' && line[0] != '#' ? '\t' : *at;
            }
            good = line[0] == '\0' ||
                   (part == 0 ? witness_log_line(log, line) : witness_log_record(log, line));
        }
    }
    good = good && witness_log_check(log, &counts);
    (void)snprintf(why, 512, "%s", witness_log_why(log));
    witness_log_free(log);
    return good;
}

static void accept(const char *history, const char *records) {
    char why[512];
    cr_assert(agrees(history, records, why), "%s", why);
}

static void refuse(const char *history, const char *records, const char *reason) {
    char why[512];
    cr_assert_not(agrees(history, records, why));
    cr_assert_not_null(strstr(why, reason), "%s", why);
}

#define ASKED_TWO   "1 0 invoke append - 1 2 - 9:1 -\n"
#define ANSWERED_AT "5 0 ok append - 1 2 7 9:1 -\n"

Test(support_witness_log, accepts_what_the_log_says) {
    accept("# a head\n" ASKED_TWO "2 1 invoke append - 3 1 - 9:2 -\n"
           "3 2 invoke append - 4 1 - - -\n4 3 invoke append - 5 2 - 9:3 -\n" ANSWERED_AT
           "6 1 info append - 3 1 - 9:2 -\n7 2 fail append - 4 1 - - -\n",
           "7 0001.x\n8 0002.y\n10 0003.z\n");
    cr_assert_eq(counts.ok, 1);
    cr_assert_eq(counts.failed, 1);
    cr_assert_eq(counts.unknown, 2);
    cr_assert_eq(counts.placed, 1);
}

Test(support_witness_log, finds_records_that_are_missing_or_elsewhere) {
    refuse(ASKED_TWO ANSWERED_AT, "", "of 2 records from 1 on 0 are in the log");
    refuse(ASKED_TWO ANSWERED_AT, "7 1.x\n", "on 1 are in the log, and its outcome is \"done\"");
    refuse(ASKED_TWO ANSWERED_AT, "8 1.x\n9 2.y\n", "stands at 8");
    refuse(ASKED_TWO ANSWERED_AT, "7 1.x\n9 2.y\n", "stands at 9");
}

Test(support_witness_log, finds_what_should_not_be_there) {
    refuse(ASKED_TWO ANSWERED_AT, "7 1.x\n8 2.y\n9 1.x\n", "is at 7 and at 9");
    refuse(ASKED_TWO ANSWERED_AT, "7 1.x\n8 2.y\n9 3.z\n", "was never appended");
    refuse(ASKED_TWO "5 0 fail append - 1 2 - 9:1 -\n", "7 1.x\n8 2.y\n", "\"not done\"");
    refuse(ASKED_TWO "5 0 info append - 1 2 - 9:1 -\n", "7 1.x\n", "\"unknown\"");
    accept("1 0 invoke append - 1 2 - - -\n5 0 info append - 1 2 - - -\n", "7 1.x\n");
    refuse("1 0 invoke append - 1 2 - - -\n5 0 info append - 1 2 - - -\n", "7 2.y\n",
           "stands at 7");
}

Test(support_witness_log, finds_an_order_against_real_time) {
    refuse(ASKED_TWO ANSWERED_AT "6 0 invoke append - 3 1 - 9:2 -\n8 0 ok append - 3 1 5 9:2 -\n",
           "5 3.z\n7 1.x\n8 2.y\n", "was asked after the one at 8");
    refuse(ASKED_TWO ASKED_TWO, "", "asks twice");
    refuse(ANSWERED_AT, "", "had not asked");
    refuse("1 0 invoke put k a\n", "", "no line of an append");
}
