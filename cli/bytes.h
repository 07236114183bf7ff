/* Bytes as people and programs see them: growing text, hexadecimal, base64, escapes, JSON strings.
 *
 * kvctl is a short-lived program: when memory runs out it says so and ends with exit code 4, so
 * nothing here returns an error for it.
 */
#ifndef CLI_BYTES_H
#define CLI_BYTES_H

#include <ledgerkv.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Growing bytes. Zero-initialised is empty; text_free returns it to that. `data` has a zero byte
 * behind its last one once anything was added, so that it can be read as a C string. */
struct text {
    char *data; /* owned */
    size_t size, capacity;
};

void *must_realloc(void *old, size_t size); /* never NULL */
char *must_strdup(const char *string);

void text_free(struct text *text);
void text_clear(struct text *text);
void text_add(struct text *text, const void *data, size_t size);
void text_add_byte(struct text *text, char byte);
void text_add_string(struct text *text, const char *string);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_vprintf(struct text *text, const char *format, va_list args);
const char *text_string(const struct text *text); /* "" when empty; valid until the next change */
struct lkv_bytes text_bytes(const struct text *text);

/* Lower-case hexadecimal, two digits a byte. */
void text_add_hex(struct text *text, struct lkv_bytes bytes);
void text_add_base64(struct text *text, struct lkv_bytes bytes);

/* One line, whatever is in it: \n \t \r \\ and \xNN for control characters and for what is not UTF-8. */
void text_add_escaped(struct text *text, struct lkv_bytes bytes);

/* A sentence for people, which may quote anything: as it is, but \xNN for what could confuse a terminal.
 * What was escaped before stays as it is. */
void text_add_visible(struct text *text, struct lkv_bytes bytes);

/* What a message calls a word or a key: escaped, of a long one the beginning and how long it is. By
 * value, for `shown(word).text` as an argument of printf. */
enum { SHOWN_BYTES = 64 };
struct shown {
    char text[SHOWN_BYTES + 40];
};
struct shown shown(const char *word);

/* With quotes. The bytes must be UTF-8. */
void text_add_json(struct text *text, struct lkv_bytes bytes);
void text_add_json_string(struct text *text, const char *string);

/* UTF-8 without a zero byte: what JSON strings of every reader can hold. */
bool bytes_are_text(struct lkv_bytes bytes);

/* Text that a terminal shows as it is: UTF-8 without control characters but newline and tab. */
bool bytes_are_printable(struct lkv_bytes bytes);

/* Append what was encoded; false, with nothing added, when it is no such text. Spaces are not taken. */
bool text_decode_hex(struct text *text, struct lkv_bytes encoded);
bool text_decode_base64(struct text *text, struct lkv_bytes encoded);

struct lkv_bytes bytes_of(const char *string);
bool bytes_equal(struct lkv_bytes a, struct lkv_bytes b);

#endif
