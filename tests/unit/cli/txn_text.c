/* The text of a transaction: what each wrong line is told. What right ones do is in cluster/writes.sh. */
#include "cli/txn_text.c"
#include "cli/bytes.c"
#include "cli/lease_id.c"
#include "cli/txn_words.c"

#include <criterion/criterion.h>

static bool read_text(const char *text, size_t size, struct text *why) {
    struct lkv_txn *txn = lkv_txn_new();
    bool good = txn_text_read((struct lkv_bytes){text, size}, txn, why);
    lkv_txn_free(txn);
    return good;
}

static void refused(const char *text, const char *wanted) {
    struct text why = {0};
    cr_assert_not(read_text(text, strlen(text), &why), "taken: %s", text);
    cr_assert_str_eq(text_string(&why), wanted, "of '%s': %s", text, text_string(&why));
    text_free(&why);
}

static void taken(const char *text) {
    struct text why = {0};
    cr_assert(read_text(text, strlen(text), &why), "of '%s': %s", text, text_string(&why));
    cr_assert_eq(why.size, 0);
    text_free(&why);
}

#define PUT_OPTIONS "--lease, --if-rev, --if-absent, --prev, --keep-lease, or nothing more"

struct wrong {
    const char *text, *why;
};

static void all_refused(const struct wrong *wrong, size_t count) {
    for (size_t i = 0; i < count; i++) {
        refused(wrong[i].text, wrong[i].why);
    }
}

Test(cli_txn_text, names_the_line_of_a_part_out_of_order) {
    static const struct wrong wrong[] = {
        {"put k v", "line 1: expected if, then or else, in this order, found 'put k v'"},
        {"# nothing\n\n  iff", "line 3: expected if, then or else, in this order, found 'iff'"},
        {"then del k\nif mod(k) = 1",
         "line 2: expected if, then or else, in this order, found 'if mod(k) = 1'"},
        {"else\nthen del k",
         "line 2: expected if, then or else, in this order, found 'then del k'"},
    };
    all_refused(wrong, sizeof(wrong) / sizeof(wrong[0]));
}

Test(cli_txn_text, says_what_was_expected_and_found_in_a_compare) {
    static const struct wrong wrong[] = {
        {"if k = 1", "line 1: expected value, create, mod, version, lease or exists, found 'k'"},
        {"if (k) = 1",
         "line 1: expected value, create, mod, version, lease or exists, found '(k) = 1'"},
        {"if mod = 1", "line 1: expected (KEY) or (FROM TO), found '= 1'"},
        {"if mod", "line 1: expected (KEY) or (FROM TO), found the end of the line"},
        {"if mod(", "line 1: expected a key, found the end of the line"},
        {"if mod() = 1", "line 1: expected a key, found ') = 1'"},
        {"if mod(\"\") = 1", "line 1: expected a key, found ''"},
        {"if mod(k = 1", "line 1: expected a key, the end of a range, found '= 1'"},
        {"if mod(a b c) = 1", "line 1: expected ), found 'c) = 1'"},
        {"if mod(k)", "line 1: expected =, !=, < or >, found the end of the line"},
        {"if mod(k) ~ 1", "line 1: expected =, !=, < or >, found '~ 1'"},
        {"if mod(k) ! 1", "line 1: expected =, !=, < or >, found '! 1'"},
        {"if mod(k) =", "line 1: expected a number, found the end of the line"},
        {"if mod(k) = x", "line 1: expected a number, found 'x'"},
        {"if mod(k) = -1", "line 1: expected a number, found '-1'"},
        {"if mod(k) = 1x", "line 1: expected a number, found '1x'"},
        {"if mod(k) = 18446744073709551616",
         "line 1: expected a number, found '18446744073709551616'"},
        {"if mod(k) = 1 2", "line 1: expected nothing more, found '2'"},
        {"if value(k) =", "line 1: expected a value, found the end of the line"},
        {"if lease(k) = xyz",
         "line 1: expected a lease's id: hexadecimal, 1 to 7fffffffffffffff, found 'xyz'"},
    };
    all_refused(wrong, sizeof(wrong) / sizeof(wrong[0]));
}

Test(cli_txn_text, says_what_was_expected_and_found_in_an_operation) {
    static const struct wrong wrong[] = {
        {"then set k v",
         "line 1: expected put, add, del, del-range, get, range, txn or end, found 'set k v'"},
        {"then put", "line 1: expected a key, found the end of the line"},
        {"then put \"\" v", "line 1: expected a key, found ''"},
        {"then put k", "line 1: expected a value, or --keep-value, found the end of the line"},
        {"then put k --prev",
         "line 1: expected a value, or --keep-value, found the end of the line"},
        {"then put k v w", "line 1: expected " PUT_OPTIONS ", found 'w'"},
        {"then put k v --keep-value", "line 1: expected " PUT_OPTIONS ", found '--keep-value'"},
        {"then put k v --if-revs 1", "line 1: expected " PUT_OPTIONS ", found '--if-revs 1'"},
        {"then put k v --if-rev x", "line 1: expected a revision, found 'x'"},
        {"then put k v --lease",
         "line 1: expected a lease's id: hexadecimal, 1 to 7fffffffffffffff, found the end of the "
         "line"},
        {"then put k #v", "line 1: expected a value, or --keep-value, found the end of the line"},
        {"then add k", "line 1: expected a number, found the end of the line"},
        {"then add k 1.5", "line 1: expected a number, found '1.5'"},
        {"then add k 9223372036854775808",
         "line 1: expected a number, found '9223372036854775808'"},
        {"then add k 1 --if-rev 2", "line 1: expected --prev, or nothing more, found '--if-rev 2'"},
        {"then del k l", "line 1: expected --if-rev, --prev, or nothing more, found 'l'"},
        {"then del-range a", "line 1: expected a key, or \"\", found the end of the line"},
        {"then get k v", "line 1: expected nothing more, found 'v'"},
        {"then get \"\"", "line 1: expected a key, found ''"},
        {"then range a b --limit many", "line 1: expected a number of keys, found 'many'"},
        {"then range a b --prev",
         "line 1: expected --limit, --keys-only, --count, --desc, or nothing more, found '--prev'"},
        {"then put k v --prev --prev --prev --prev --if-rev 1 --if-rev 2 --if-rev 3 --if-rev 4 "
         "--if-rev 5 --if-rev 6 --if-rev 7",
         "line 1: expected fewer words in one line, found '7'"},
    };
    all_refused(wrong, sizeof(wrong) / sizeof(wrong[0]));
}

Test(cli_txn_text, says_what_was_expected_and_found_in_quotes_and_transactions_inside) {
    static const struct wrong wrong[] = {
        {"then put k \"v", "line 1: expected a closing quote, found '\"v'"},
        {"then put k \"\\q\"",
         "line 1: expected \\n, \\t, \\r, \\\", \\\\ or \\xNN, found '\\\\q\"'"},
        {"then put k \"\\x4\"",
         "line 1: expected \\n, \\t, \\r, \\\", \\\\ or \\xNN, found '\\\\x4\"'"},
        {"then put k \"\\", "line 1: expected \\n, \\t, \\r, \\\", \\\\ or \\xNN, found '\\\\'"},

        {"end", "line 1: expected a txn in a line before, found its end"},
        {"then txn\nend\nend", "line 3: expected a txn in a line before, found its end"},
        {"then put k v\n\n txn\n then txn\n end",
         "line 3: expected the end of the txn that begins here, found the end of the text"},
        {"then txn put k v", "line 1: expected nothing more, found 'put k v'"},
        {"then txn\nend it", "line 2: expected nothing more, found 'it'"},
        {"then txn\nput k v", "line 2: expected if, then or else, in this order, found 'put k v'"},
        {"then txn\nthen txn\nthen txn\nthen txn",
         "line 4: expected at most 4 transactions inside of each other, found one more"},
    };
    all_refused(wrong, sizeof(wrong) / sizeof(wrong[0]));
}

Test(cli_txn_text, takes_what_its_help_says) {
    static const char *const good[] = {
        "",
        "# only a comment",
        "if\nthen\nelse",
        "if mod(k) = 1\r\nthen del k\r\n",
        "if value(k) != \"a b\" # as it was\n version(a b) < 2",
        "if exists(\"\" \"\") > 0\n lease(k)=7f",
        "if lease(k) = 0",
        "then put k v --lease 7fffffffffffffff --if-rev 3 --prev",
        "then put k --keep-value --keep-lease",
        "then put k \"--prev\"",
        "then put k a#b # only this is a comment",
        "then add k -5 --prev\ndel l --if-rev 1\ndel-range \"\" \"\" --prev",
        "then get k\nrange a \"\" --limit 2 --desc --keys-only\nrange a b --count",
        "then txn\nthen txn\nthen txn\nend\nend\nput k v\nend\nelse txn\nend",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        taken(good[i]);
    }
}

/* Whatever is missing or wrong of a text, it is read or told, and nothing is left (what a sanitizer sees). */
Test(cli_txn_text, survives_every_beginning_and_every_wrong_byte) {
    static const char text[] =
        "if mod(\"k\\x00\") = 41\nvalue(a b) != c\nthen put k \"x\\n\" --lease 7\n"
        "txn\nif lease(k) > 1f\nthen range a \"\" --limit 3\nend\nelse get k";
    static const char wrong[] = "\0\"\\\n# (x";
    char copy[sizeof(text)];
    for (size_t size = 0; size < sizeof(text); size++) {
        struct text why = {0};
        bool good = read_text(text, size, &why);
        cr_assert_eq(good, why.size == 0, "the first %zu bytes", size);
        text_free(&why);
        for (size_t i = 0; i < sizeof(wrong) - 1; i++) {
            memcpy(copy, text, sizeof(text));
            copy[size] = wrong[i];
            good = read_text(copy, sizeof(copy) - 1, &why);
            cr_assert_eq(good, why.size == 0, "byte %zu is %d", size, wrong[i]);
            text_free(&why);
        }
    }
}
