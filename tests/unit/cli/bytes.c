/* kvctl is a program, not a library: its tests take in the source. */
#include "cli/bytes.c"

#include <criterion/criterion.h>

static struct lkv_bytes bytes(const char *data, size_t size) {
    return (struct lkv_bytes){data, size};
}

static void check(void (*add)(struct text *, struct lkv_bytes), struct lkv_bytes input,
                  const char *wanted) {
    struct text text = {0};
    add(&text, input);
    cr_assert_str_eq(text_string(&text), wanted);
    text_free(&text);
}

Test(cli_bytes, shows_text_as_it_is_and_escapes_the_rest) {
    check(text_add_escaped, bytes_of("plain é€😀"), "plain é€😀");
    check(text_add_escaped, bytes("a\nb\tc\rd\\e", 9), "a\\nb\\tc\\rd\\\\e");
    check(text_add_escaped, bytes("\0\x1b[1m\x7f\xff", 7), "\\x00\\x1b[1m\\x7f\\xff");
    check(text_add_escaped, bytes_of("\xc2\x9b"), "\\xc2\\x9b"); /* a control of the second set */
    check(text_add_escaped, bytes_of("\xed\xa0\x80"), "\\xed\\xa0\\x80"); /* a surrogate */
    check(text_add_escaped, bytes_of("\xc0\x80"), "\\xc0\\x80");          /* overlong */
    check(text_add_escaped, bytes_of("\xe2\x82"), "\\xe2\\x82");          /* cut short */
    check(text_add_escaped, bytes_of("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

Test(cli_bytes, names_a_long_or_odd_word_in_a_message) {
    cr_assert_str_eq(shown("/svc/a").text, "/svc/a");
    cr_assert_str_eq(shown("").text, "");
    cr_assert_str_eq(shown("a\x1b[31m\xff\n").text, "a\\x1b[31m\\xff\\n");
    char word[8193];
    memset(word, 'k', sizeof(word));
    word[64] = '\0';
    cr_assert_str_eq(shown(word).text, word);
    word[64] = 'k';
    word[8192] = '\0';
    struct shown name = shown(word);
    cr_assert_eq(strspn(name.text, "k"), SHOWN_BYTES);
    cr_assert_str_eq(name.text + SHOWN_BYTES, "... (8192 bytes)");
    word[63] = '\xc3'; /* no character and no escape is cut */
    word[64] = '\xa9';
    name = shown(word);
    cr_assert_str_eq(name.text + 63, "... (8192 bytes)");
}

Test(cli_bytes, makes_a_sentence_harmless_once) {
    struct text out = {0};
    text_add_visible(&out, bytes_of("a\\x1b \x1b\xff\xc2\x9b\xc3\xa9\n"));
    cr_assert_str_eq(text_string(&out), "a\\x1b \\x1b\\xff\\xc2\\x9b\xc3\xa9\n");
    text_free(&out);
}

Test(cli_bytes, writes_json_that_every_reader_takes) {
    check(text_add_json, bytes_of("a\"b\\c/\n\t\r\b\f\x01"),
          "\"a\\\"b\\\\c/\\n\\t\\r\\b\\f\\u0001\"");
    check(text_add_json, bytes_of(""), "\"\"");
    check(text_add_json, bytes_of("é"), "\"é\"");
}

Test(cli_bytes, knows_what_json_can_hold) {
    cr_assert(bytes_are_text(bytes_of("é\n\x7f")));
    cr_assert(bytes_are_text(bytes(NULL, 0)));
    cr_assert_not(bytes_are_text(bytes("a\0b", 3)));
    cr_assert_not(bytes_are_text(bytes_of("\xff")));
    cr_assert(bytes_are_printable(bytes_of("two\nlines\twith é")));
    cr_assert_not(bytes_are_printable(bytes_of("\x1b[31m")));
    cr_assert_not(bytes_are_printable(bytes_of("\r")));
}

Test(cli_bytes, encodes_base64_as_rfc_4648_says) {
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        check(text_add_base64, bytes_of(pairs[i][0]), pairs[i][1]);
        struct text back = {0};
        cr_assert(text_decode_base64(&back, bytes_of(pairs[i][1])));
        cr_assert_str_eq(text_string(&back), pairs[i][0]);
        text_free(&back);
    }
}

Test(cli_bytes, refuses_what_is_no_base64_and_adds_nothing) {
    static const char *const bad[] = {"Z",    "Zg",       "Zg=",  "Zg=a",
                                      "=g==", "Zg==Zg==", "Z g=", "Z\xff=="};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct text text = {0};
        text_add_string(&text, "kept");
        cr_assert_not(text_decode_base64(&text, bytes_of(bad[i])), "%s", bad[i]);
        cr_assert_eq(text.size, 4);
        text_free(&text);
    }
}

Test(cli_bytes, hexadecimal_goes_both_ways) {
    struct text text = {0};
    check(text_add_hex, bytes("\0\x0f\xf0\xff", 4), "000ff0ff");
    cr_assert(text_decode_hex(&text, bytes_of("000Ff0FF")));
    cr_assert(bytes_equal(text_bytes(&text), bytes("\0\x0f\xf0\xff", 4)));
    cr_assert_not(text_decode_hex(&text, bytes_of("0")));
    cr_assert_not(text_decode_hex(&text, bytes_of("0g")));
    cr_assert_not(text_decode_hex(&text, bytes_of("0 ")));
    cr_assert_eq(text.size, 4);
    text_free(&text);
}

Test(cli_bytes, grows_by_any_size) {
    struct text text = {0};
    char block[1000];
    memset(block, 'x', sizeof(block));
    for (size_t i = 0; i < 100; i++) {
        text_add(&text, block, i);
        text_printf(&text, "%zu", i);
    }
    cr_assert_eq(text.size, 4950 + 190);
    cr_assert_eq(strlen(text_string(&text)), text.size);
    text_clear(&text);
    cr_assert_str_eq(text_string(&text), "");
    text_free(&text);
}
