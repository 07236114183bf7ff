/* The checker of histories finds what it is for. */
#include "tests/support/witness.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Lines with blanks for tabs. */
static bool linearizable(const char *text, struct witness_counts *counts, char why[512]) {
    struct witness *witness = witness_new();
    char copy[4096];
    bool good = true;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    for (char *rest = copy, *line; good && (line = strsep(&rest, "\n")) != NULL;) {
        for (char *at = line; *at != '\0'; at++) {
            *at = *at == ' ' && line[0] != '#' ? '\t' : *at;
        }
        good = witness_line(witness, line);
    }
    good = good && witness_check(witness, counts);
    (void)snprintf(why, 512, "%s", witness_why(witness));
    witness_free(witness);
    return good;
}

static void accept(const char *text) {
    struct witness_counts counts;
    char why[512];
    cr_assert(linearizable(text, &counts, why), "%s", why);
}

static void refuse(const char *text, const char *reason) {
    struct witness_counts counts;
    char why[512];
    cr_assert_not(linearizable(text, &counts, why));
    cr_assert_not_null(strstr(why, reason), "%s", why);
}

Test(support_witness, accepts_reads_of_what_was_written) {
    accept("# a head\n"
           "1 0 invoke put k a - - - -\n"
           "2 1 invoke get k - - - - -\n"
           "3 0 ok put k a 2 5 9:1 n1\n"
           "4 1 ok get k - - 4 - -\n"
           "5 1 invoke get k\n"
           "6 1 ok get k a 2 5\n");
}

Test(support_witness, finds_a_read_that_is_stale) {
    refuse("1 0 invoke put k a\n2 0 ok put k a 2 5\n3 1 invoke get k\n4 1 ok get k - - 4\n",
           "was asked after 5");
    refuse("1 0 invoke put k a\n2 0 ok put k a 2 5\n3 1 invoke get k\n4 1 ok get k - - 6\n",
           "shows revision 0, where 2");
    refuse("1 0 invoke put k a\n2 0 ok put k a 2 5\n3 1 invoke get k\n4 1 ok get k b 2 6\n",
           "shows b, where a");
}

Test(support_witness, finds_an_order_against_real_time) {
    refuse("1 0 invoke put k a\n2 0 ok put k a 3 6\n3 0 invoke put j b\n4 0 ok put j b 2 5\n",
           "was asked after 6");
}

Test(support_witness, finds_two_writes_at_one_place) {
    refuse("1 0 invoke put k a\n1 1 invoke put k b\n2 0 ok put k a 2 5\n2 1 ok put k b 2 5\n",
           "two puts");
    refuse("1 0 invoke put k a\n1 1 invoke put k b\n2 0 ok put k a 3 5\n2 1 ok put k b 2 6\n",
           "has revision 2");
}

Test(support_witness, places_what_is_unknown_where_it_is_seen) {
    struct witness_counts counts;
    char why[512];
    const char *seen =
        "1 0 invoke put k a\n2 0 info put k a\n3 1 invoke get k\n4 1 ok get k a 2 7\n";
    cr_assert(linearizable(seen, &counts, why), "%s", why);
    cr_assert(counts.unknown == 1 && counts.placed == 1 && counts.ok == 1);
    accept("1 0 invoke put k a\n3 1 invoke get k\n4 1 ok get k - - 7\n");
    refuse("1 0 invoke put k a\n2 0 info put k a\n3 1 invoke get k\n4 1 ok get k a 2 7\n"
           "5 1 invoke get k\n6 1 ok get k - - 8\n",
           "shows revision 0, where 2");
    refuse("1 0 invoke put k a\n2 0 info put k a\n3 1 invoke get k\n4 1 ok get k a 2 7\n"
           "5 1 invoke get k\n6 1 ok get k a 4 9\n",
           "written twice");
}

Test(support_witness, finds_what_was_never_written_or_refused) {
    refuse("3 1 invoke get k\n4 1 ok get k a 2 7\n", "nobody had written");
    refuse("1 0 invoke put k a\n2 0 fail put k a\n3 1 invoke get k\n4 1 ok get k a 2 7\n",
           "nobody had written");
    refuse("3 1 invoke get k\n4 1 ok get k a 2 7\n5 0 invoke put k a\n6 0 info put k a\n",
           "nobody had written");
}

Test(support_witness, refuses_what_is_no_history) {
    refuse("x 0 invoke put k a\n", "is no number");
    refuse("1 0 invoke cut k a\n", "no operation cut");
    refuse("1 0 ok put k a 2 5\n", "had not asked");
    refuse("1 0 invoke put k a\n1 0 invoke put k b\n", "twice at once");
    refuse("1 0 invoke put k a\n2 0 ok put k a 2\n", "no index");
}
