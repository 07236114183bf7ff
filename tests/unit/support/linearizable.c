/* The black-box checker: recorded histories, small ones by hand, random ones against every order there is, and
 * against the witness. */
#include "base/prng.h"
#include "tests/support/history.h"
#include "tests/support/witness.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 8192 };

/* Lines with blanks for tabs. */
static struct history *read_text(const char *text, char why[static 512]) {
    char copy[TEXT_MAX];
    bool comment = false;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    for (char *at = copy; *at != '\0'; at++) {
        comment = *at == '#' || (comment && *at != '\n');
        *at = *at == ' ' && !comment ? '\t' : *at;
    }
    FILE *file = fmemopen(copy, strlen(copy), "r");
    struct history *history = history_read_from(file, "h", why);
    (void)fclose(file);
    return history;
}

/* Gives the verdict, and the report in words. */
static enum lin_verdict judge(const char *text, char report[static TEXT_MAX]) {
    char why[512];
    struct history *history = read_text(text, why);
    cr_assert_not_null(history, "%s", why);
    struct lin_result result;
    lin_check(history->ops, history->count, LIN_STATES_MAX, &result);
    FILE *out = fmemopen(report, TEXT_MAX, "w");
    fputc(' ', out);
    lin_print(&result, history->ops, history->count, &history->names, out);
    (void)fclose(out);
    enum lin_verdict verdict = result.verdict;
    lin_result_fini(&result);
    history_free(history);
    return verdict;
}

static void accept(const char *text) {
    char report[TEXT_MAX];
    cr_assert_eq(judge(text, report), LIN_LINEARIZABLE, "%s", report);
}

static void refuse(const char *text, const char *report_expected) {
    char report[TEXT_MAX];
    cr_assert_eq(judge(text, report), LIN_VIOLATED);
    cr_assert_str_eq(report + 1, report_expected);
}

/* ------------------------------------------------------------------ recorded histories */

Test(support_linearizable, agrees_with_every_recorded_verdict) {
    char name[64], verdict[32], path[512], why[512];
    size_t count = 0;
    FILE *file = fopen(LKV_TESTS_DIR "/histories/verdicts.tsv", "re");
    cr_assert_not_null(file);
    while (fscanf(file, "%63s %31s", name, verdict) == 2) {
        (void)snprintf(path, sizeof(path), LKV_TESTS_DIR "/histories/%s", name);
        struct history *history = history_read(path, why);
        cr_assert_not_null(history, "%s", why);
        struct lin_result result;
        lin_check(history->ops, history->count, LIN_STATES_MAX, &result);
        bool expected = strcmp(verdict, "linearizable") == 0;
        cr_assert(expected || strcmp(verdict, "not-linearizable") == 0, "%s", verdict);
        cr_assert_eq(result.verdict, expected ? LIN_LINEARIZABLE : LIN_VIOLATED, "%s", name);
        cr_assert_eq(result.culprit_count > 0, !expected, "%s", name);
        lin_result_fini(&result);
        history_free(history);
        count++;
    }
    (void)fclose(file);
    cr_assert_eq(count, 52);
}

/* ------------------------------------------------------------------ by hand */

Test(support_linearizable, accepts_what_overlaps_in_any_order) {
    accept("");
    accept("# a comment\n1 0 invoke get k\n2 0 ok get k -\n");
    accept("1 0 invoke put k a\n2 1 invoke put k b\n3 0 ok put k\n4 1 ok put k\n"
           "5 0 invoke get k\n6 0 ok get k a\n7 0 invoke get k\n8 0 ok get k a\n");
    accept(
        "1 0 invoke put k a\n2 1 invoke get k\n3 1 ok get k a\n4 2 invoke get k\n5 2 ok get k a\n"
        "6 0 ok put k\n");
    accept(
        "1 0 invoke put k a\n2 0 ok put k\n2 1 invoke get k\n3 1 ok get k -\n"); /* at one moment */
    accept("1 0 invoke put j a\n2 0 ok put j\n3 0 invoke get k\n4 0 ok get k -\n");
    accept("1 0 invoke put k a\n2 0 ok put k a 7 9 1:1 n1\n3 0 invoke delete k\n4 1 invoke get k\n"
           "5 1 ok get k a\n6 1 invoke get k\n7 1 ok get k -\n8 0 ok delete k\n");
}

Test(support_linearizable, lets_unknown_writes_happen_late_or_never) {
    accept("1 0 invoke put k a\n2 0 info put k\n3 1 invoke get k\n4 1 ok get k -\n"
           "5 1 invoke get k\n6 1 ok get k a\n");
    accept("1 0 invoke put k a\n2 0 info put k\n3 1 invoke get k\n4 1 ok get k -\n");
    accept(
        "1 0 invoke put k a\n2 1 invoke put k b\n3 1 ok put k\n4 1 invoke get k\n5 1 ok get k a\n");
    accept("1 0 invoke put k a\n2 0 fail put k\n3 1 invoke get k\n4 1 ok get k -\n");
    accept("1 0 invoke put k a\n2 0 ok put k\n3 1 invoke delete k\n4 2 invoke delete k\n"
           "5 0 invoke get k\n6 0 ok get k -\n7 0 invoke put k b\n8 0 ok put k\n"
           "9 0 invoke get k\n10 0 ok get k -\n");
}

Test(support_linearizable, names_the_operations_that_have_no_order) {
    refuse("1 0 invoke put k a\n2 0 ok put k\n3 0 invoke put k b\n4 0 ok put k\n"
           "5 0 invoke put k c\n6 0 ok put k\n7 1 invoke get k\n8 1 ok get k b\n",
           "not linearizable: key k: 2 operations have no order, between 5 and 8:\n"
           "  line 5: process 0: put c, 5 to 6\n"
           "  line 7: process 1: get -> b, 7 to 8\n");
    refuse("1 0 invoke get k\n2 0 ok get k a\n3 1 invoke put k a\n4 1 ok put k\n",
           "not linearizable: key k: 1 operations have no order, between 1 and 2:\n"
           "  line 1: process 0: get -> a, 1 to 2\n");
    /* A write that took effect twice. */
    refuse("1 0 invoke put k a\n2 0 info put k\n3 1 invoke get k\n4 1 ok get k a\n"
           "5 1 invoke put k b\n6 1 ok put k\n7 1 invoke get k\n8 1 ok get k a\n",
           "not linearizable: key k: 4 operations have no order, between 3 and 8:\n"
           "  line 1: process 0: put a, from 1, never answered\n"
           "  line 3: process 1: get -> a, 3 to 4\n"
           "  line 5: process 1: put b, 5 to 6\n"
           "  line 7: process 1: get -> a, 7 to 8\n");
    /* New, then old. */
    refuse(
        "1 0 invoke put k a\n2 1 invoke get k\n3 1 ok get k a\n4 2 invoke get k\n5 2 ok get k -\n"
        "6 0 ok put k\n",
        "not linearizable: key k: 3 operations have no order, between 2 and 5:\n"
        "  line 1: process 0: put a, 1 to 6\n"
        "  line 2: process 1: get -> a, 2 to 3\n"
        "  line 4: process 2: get -> nothing, 4 to 5\n");
    refuse("1 0 invoke put k a\n2 0 fail put k\n3 1 invoke get k\n4 1 ok get k a\n",
           "not linearizable: key k: 1 operations have no order, between 3 and 4:\n"
           "  line 3: process 1: get -> a, 3 to 4\n");
}

Test(support_linearizable, knows_compare_and_set) {
    accept("1 0 invoke cas k - a\n2 1 invoke cas k a b\n3 1 ok cas k\n4 0 ok cas k\n"
           "5 0 invoke get k\n6 0 ok get k b\n");
    accept("1 0 invoke cas k - a\n2 1 invoke cas k - b\n3 1 ok cas k\n4 0 fail cas k\n");
    refuse("1 0 invoke cas k - a\n2 1 invoke cas k - b\n3 1 ok cas k\n4 0 ok cas k\n",
           "not linearizable: key k: 2 operations have no order, between 1 and 4:\n"
           "  line 1: process 0: cas nothing -> a, 1 to 4\n"
           "  line 2: process 1: cas nothing -> b, 2 to 3\n");
}

Test(support_linearizable, the_first_key_out_of_order_is_told) {
    char report[TEXT_MAX];
    enum lin_verdict verdict =
        judge("1 0 invoke put j a\n2 0 ok put j\n3 0 invoke get k\n4 0 ok get k a\n", report);
    cr_assert_eq(verdict, LIN_VIOLATED);
    cr_assert_not_null(strstr(report, "key k"));
}

/* ------------------------------------------------------------------ limits */

Test(support_linearizable, more_than_its_limits_is_undecided) {
    struct lin_op ops[LIN_OPEN_MAX + 40];
    struct lin_result result;
    for (size_t i = 0; i <= LIN_OPEN_MAX; i++) {
        ops[i] =
            (struct lin_op){.begun_ns = i, .ended_ns = 1000 + i, .kind = LIN_PUT, .value = i + 1};
    }
    lin_check(ops, LIN_OPEN_MAX + 1, LIN_STATES_MAX, &result);
    cr_assert_eq(result.verdict, LIN_UNDECIDED);
    cr_assert_not_null(strstr(result.why, "LIN_OPEN_MAX"), "%s", result.why);
    lin_result_fini(&result);

    /* Forty puts, any of which may be the last, and later all are read: 2^40 ways. It says so, and stays within
     * its memory. */
    for (size_t i = 0; i < 40; i++) {
        ops[40 + i] = (struct lin_op){
            .begun_ns = 10 * i, .ended_ns = 3000 + i, .kind = LIN_GET, .value = i + 1};
    }
    lin_check(ops, 64, LIN_STATES_MAX, &result);
    cr_assert_eq(result.verdict, LIN_UNDECIDED);
    cr_assert_not_null(strstr(result.why, "so many states"), "%s", result.why);
    lin_result_fini(&result);
}

Test(support_linearizable, sixteen_clients_are_decided) {
    struct lin_op ops[32];
    struct lin_result result;
    for (size_t i = 0; i < 16; i++) {
        ops[i] =
            (struct lin_op){.begun_ns = i, .ended_ns = 1000 + i, .kind = LIN_PUT, .value = i + 1};
        ops[16 + i] =
            (struct lin_op){.begun_ns = i, .ended_ns = 2000 - i, .kind = LIN_GET, .value = i + 1};
    }
    lin_check(ops, 32, LIN_STATES_MAX, &result);
    cr_assert_eq(result.verdict, LIN_LINEARIZABLE);
    cr_assert_gt(result.states_max, 1000, "%zu", result.states_max);
    lin_result_fini(&result);
}

Test(support_linearizable, writes_that_nobody_reads_need_no_search) {
    struct lin_op ops[61];
    struct lin_result result;
    for (size_t i = 0; i < 60; i++) {
        ops[i] =
            (struct lin_op){.begun_ns = i, .ended_ns = 1000 + i, .kind = LIN_PUT, .value = i + 1};
    }
    ops[60] = (struct lin_op){.begun_ns = 2000, .ended_ns = 2001, .value = 60};
    lin_check(ops, 61, LIN_STATES_MAX, &result);
    cr_assert_eq(result.verdict, LIN_LINEARIZABLE);
    cr_assert_lt(result.states_max, 200, "%zu", result.states_max);
    lin_result_fini(&result);
}

/* ------------------------------------------------------------------ malformed */

static void refuse_line(const char *text, const char *expected) {
    char why[512];
    struct history *history = read_text(text, why);
    cr_assert_null(history, "%s", text);
    cr_assert_str_eq(why, expected);
}

Test(support_history, says_what_is_wrong_and_where) {
    refuse_line("# c\nx 0 invoke get k\n",
                "h:2: expected a time in ns, a number up to 18446744073709551614, found \"x\"");
    refuse_line("1 0\n", "h:1: expected invoke, ok, fail or info, found nothing");
    refuse_line("1 99999999 invoke get k\n",
                "h:1: expected a process, a number up to 16777215, found \"99999999\"");
    refuse_line("1 0 start get k\n", "h:1: expected invoke, ok, fail or info, found \"start\"");
    refuse_line("1 0 invoke range k\n", "h:1: expected get, put, delete or cas, found \"range\"");
    refuse_line("1 0 invoke get\n", "h:1: expected a key, found nothing");
    refuse_line("1 0 invoke put k -\n", "h:1: expected the value of a put, found \"-\"");
    refuse_line("1 0 ok get k\n",
                "h:1: expected invoke, since process 0 has nothing under way, found \"ok\"");
    refuse_line("1 0 invoke get k\n2 0 invoke get k\n",
                "h:2: expected the end of what process 0 began in line 1, found \"invoke\"");
    refuse_line("1 0 invoke get k\n2 0 ok get j\n",
                "h:2: expected what process 0 began in line 1, found \"j\"");
    refuse_line("1 0 invoke get k\n2 0 ok put k\n",
                "h:2: expected what process 0 began in line 1, found \"put\"");
    refuse_line("2 0 invoke get k\n1 0 ok get k\n",
                "h:2: expected a time not before 2, found \"1\"");
    refuse_line("1 0 invoke put k a\n2 0 ok put k b\n",
                "h:2: expected the value of the put's invoke, found \"b\"");
    refuse_line("1 0 invoke get %4\n",
                "h:1: expected two hexadecimal digits after %, found \"%4\"");
    refuse_line("1 0 invoke get \x80\n",
                "h:1: expected bytes outside 0x21 to 0x7e as %XX, found \"\x80\"");
}

Test(support_history, a_line_that_was_cut_off_is_not_read) {
    accept("1 0 invoke put k a\n2 0 ok put k\n3 0 invoke get k\n4 0 ok get k nons");
}

Test(support_history, bytes_have_one_number_however_encoded) {
    char why[512];
    struct history *history =
        read_text("1 0 invoke put %6b %2D\n2 0 ok put k %2d\n3 0 invoke get k\n4 0 ok get k -\n"
                  "5 0 invoke put k %0a\n6 0 ok put k %0A\n",
                  why);
    cr_assert_not_null(history, "%s", why);
    cr_assert_eq(history->ops[0].key, history->ops[1].key);
    cr_assert_eq(history->ops[1].value, LIN_ABSENT);
    cr_assert_neq(history->ops[0].value, LIN_ABSENT); /* a dash is a byte, none is not */
    history_free(history);
}

/* ------------------------------------------------------------------ against every order */

/* Does some order of those that took effect, and of any of the unknown ones, explain the answers? */
static bool some_order(const struct lin_op *ops, size_t count, uint32_t placed, uint64_t value) {
    bool complete = true;
    uint64_t earliest_end = LIN_NEVER;
    for (size_t i = 0; i < count; i++) {
        bool waits = (placed >> i & 1) == 0 && ops[i].outcome == LIN_OK;
        complete = complete && !waits;
        earliest_end = waits && ops[i].ended_ns < earliest_end ? ops[i].ended_ns : earliest_end;
    }
    for (size_t i = 0; i < count && !complete; i++) {
        const struct lin_op *op = &ops[i];
        bool next =
            (placed >> i & 1) == 0 && op->outcome != LIN_FAIL && op->begun_ns <= earliest_end;
        bool fits = op->kind == LIN_GET ? op->outcome != LIN_OK || op->value == value
                                        : op->kind != LIN_CAS || op->expected == value;
        uint64_t after = op->kind == LIN_GET ? value : op->value;
        complete = next && fits && some_order(ops, count, placed | 1u << i, after);
    }
    return complete;
}

static struct lin_op random_op(struct prng *prng, uint64_t values) {
    struct lin_op op = {.begun_ns = prng_below(prng, 20),
                        .kind = (enum lin_kind)prng_below(prng, 4)};
    op.ended_ns = op.begun_ns + prng_below(prng, 6);
    op.value = op.kind == LIN_DELETE ? LIN_ABSENT : prng_below(prng, values);
    op.expected = op.kind == LIN_CAS ? prng_below(prng, values) : 0;
    uint64_t outcome = prng_below(prng, 10);
    if (outcome == 0) {
        op.outcome = LIN_FAIL;
    } else if (outcome <= 2) {
        op.outcome = LIN_INFO;
        op.ended_ns = LIN_NEVER;
    }
    return op;
}

Test(support_linearizable, judges_small_histories_like_a_trial_of_every_order) {
    struct prng prng = prng_of(7);
    size_t verdicts[2] = {0, 0};
    for (int round = 0; round < 20000; round++) {
        struct lin_op ops[7];
        struct lin_result result;
        size_t count = 1 + (size_t)prng_below(&prng, 7);
        uint64_t values = 2 + prng_below(&prng, 3);
        for (size_t i = 0; i < count; i++) {
            ops[i] = random_op(&prng, values);
        }
        bool expected = some_order(ops, count, 0, LIN_ABSENT);
        lin_check(ops, count, LIN_STATES_MAX, &result);
        cr_assert_eq(result.verdict, expected ? LIN_LINEARIZABLE : LIN_VIOLATED, "round %d", round);
        verdicts[expected]++;
        lin_result_fini(&result);
    }
    cr_assert_gt(verdicts[0], 3000);
    cr_assert_gt(verdicts[1], 3000);
}

/* ------------------------------------------------------------------ against the witness */

enum { CLIENTS = 5, STEPS = 120, KEYS = 2 };

struct client {
    struct lin_op op;
    bool busy, placed;
    size_t position;
};

/* A register that works, under a random schedule; now and then an answer is forged. Writes what both
 * checkers read. */
static size_t play(struct prng *prng, unsigned forged_permille, struct lin_op *ops,
                   struct witness *witness) {
    struct client clients[CLIENTS] = {0};
    uint64_t value[KEYS] = {0}, rev[KEYS] = {0}, index = 1, next_value = 1;
    size_t count = 0;
    char line[160];
    for (uint64_t at = 1; at <= STEPS; at++) {
        size_t who = (size_t)prng_below(prng, CLIENTS);
        struct client *client = &clients[who];
        struct lin_op *op = &ops[client->position];
        if (!client->busy) {
            client->position = count++;
            op = &ops[client->position];
            bool is_get = prng_below(prng, 2) == 0;
            *op = (struct lin_op){.key = 1 + prng_below(prng, KEYS),
                                  .begun_ns = at,
                                  .ended_ns = LIN_NEVER,
                                  .kind = is_get ? LIN_GET : LIN_PUT,
                                  .outcome = LIN_INFO,
                                  .value = is_get ? 0 : next_value++};
            client->busy = true;
            client->placed = false;
            (void)snprintf(line, sizeof(line),
                           "%" PRIu64 "\t%zu\tinvoke\t%s\tk%" PRIu64 "\tv%" PRIu64, at, who,
                           is_get ? "get" : "put", op->key, op->value);
            cr_assert(witness_line(witness, line));
            continue;
        }
        size_t k = (size_t)op->key - 1;
        if (!client->placed) { /* takes effect */
            client->placed = true;
            if (op->kind == LIN_PUT) {
                index++;
                rev[k] = index;
                value[k] = op->value;
            }
            client->op = (struct lin_op){.value = value[k], .expected = rev[k], .begun_ns = index};
            continue;
        }
        client->busy = false;
        op->ended_ns = at;
        op->outcome = LIN_OK;
        uint64_t seen = client->op.value;
        if (op->kind == LIN_GET && prng_below(prng, 1000) < forged_permille) {
            seen = prng_below(prng, next_value);
        }
        op->value = op->kind == LIN_GET ? seen : op->value;
        char text[24] = "-";
        if (seen != 0) {
            (void)snprintf(text, sizeof(text), "v%" PRIu64, seen);
        }
        (void)snprintf(line, sizeof(line),
                       "%" PRIu64 "\t%zu\tok\t%s\tk%" PRIu64 "\t%s\t%" PRIu64 "\t%" PRIu64, at, who,
                       op->kind == LIN_GET ? "get" : "put", op->key, text, client->op.expected,
                       client->op.begun_ns);
        cr_assert(witness_line(witness, line), "%s", witness_why(witness));
    }
    return count;
}

Test(support_linearizable, refuses_nothing_that_the_witness_can_order) {
    struct prng prng = prng_of(3);
    size_t both = 0, neither = 0;
    for (int round = 0; round < 600; round++) {
        struct lin_op ops[STEPS + CLIENTS];
        struct lin_result result;
        struct witness_counts counts;
        struct witness *witness = witness_new();
        size_t count = play(&prng, round % 2 == 0 ? 0 : 90, ops, witness);
        bool ordered = witness_check(witness, &counts);
        lin_check(ops, count, LIN_STATES_MAX, &result);
        if (ordered) {
            cr_assert_eq(result.verdict, LIN_LINEARIZABLE, "round %d", round);
        }
        cr_assert(ordered || round % 2 == 1, "round %d: %s", round, witness_why(witness));
        both += ordered;
        neither += result.verdict == LIN_VIOLATED;
        lin_result_fini(&result);
        witness_free(witness);
    }
    cr_assert_geq(both, 300);
    cr_assert_gt(neither, 150, "%zu", neither);
}
