/* Bytes as people and programs see them: see bytes.h. */
#include "bytes.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char hex_digits[] = "0123456789abcdef";
static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void *must_realloc(void *old, size_t size) {
    void *memory = realloc(old, size > 0 ? size : 1);
    if (memory == NULL) {
        fputs("kvctl: out of memory\n", stderr);
        exit(4);
    }
    return memory;
}

char *must_strdup(const char *string) {
    size_t size = strlen(string) + 1;
    return memcpy(must_realloc(NULL, size), string, size);
}

/* ------------------------------------------------------------------ growing text */

void text_free(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}

void text_clear(struct text *text) {
    text->size = 0;
    if (text->data != NULL) {
        text->data[0] = '\0';
    }
}

/* Room for `more` bytes and the zero byte behind them. */
static void text_reserve(struct text *text, size_t more) {
    size_t wanted = text->size + more + 1;
    if (wanted <= text->capacity) {
        return;
    }
    size_t capacity = text->capacity < 64 ? 64 : text->capacity * 2;
    if (capacity < wanted) {
        capacity = wanted;
    }
    text->data = must_realloc(text->data, capacity);
    text->capacity = capacity;
}

void text_add(struct text *text, const void *data, size_t size) {
    text_reserve(text, size);
    if (size > 0) {
        memcpy(text->data + text->size, data, size);
    }
    text->size += size;
    text->data[text->size] = '\0';
}

void text_add_byte(struct text *text, char byte) {
    text_add(text, &byte, 1);
}

void text_add_string(struct text *text, const char *string) {
    text_add(text, string, strlen(string));
}

void text_vprintf(struct text *text, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    if (size > 0) {
        text_reserve(text, (size_t)size);
        vsnprintf(text->data + text->size, (size_t)size + 1, format, again);
        text->size += (size_t)size;
    }
    va_end(again);
}

void text_printf(struct text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    text_vprintf(text, format, args);
    va_end(args);
}

const char *text_string(const struct text *text) {
    return text->data != NULL ? text->data : "";
}

struct lkv_bytes text_bytes(const struct text *text) {
    return (struct lkv_bytes){text_string(text), text->size};
}

struct lkv_bytes bytes_of(const char *string) {
    return (struct lkv_bytes){string, strlen(string)};
}

bool bytes_equal(struct lkv_bytes a, struct lkv_bytes b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* ------------------------------------------------------------------ UTF-8 */

/* Length of the well-formed sequence at `p` (Unicode 15, table 3-7), 0 when there is none. */
static size_t utf8_length(const unsigned char *p, size_t size) {
    if (p[0] < 0x80) {
        return 1;
    }
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || size < length) {
        return 0;
    }
    unsigned low = 0x80;
    unsigned high = 0xbf;
    switch (p[0]) {
    case 0xe0: low = 0xa0; break;  /* overlong */
    case 0xed: high = 0x9f; break; /* surrogates */
    case 0xf0: low = 0x90; break;
    case 0xf4: high = 0x8f; break; /* beyond U+10FFFF */
    default: break;
    }
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

static bool is_control(const unsigned char *p, size_t length) {
    bool c1 = length == 2 && p[0] == 0xc2 && p[1] < 0xa0;
    return c1 || (length == 1 && (p[0] < 0x20 || p[0] == 0x7f));
}

bool bytes_are_text(struct lkv_bytes bytes) {
    const unsigned char *p = bytes.data;
    for (size_t i = 0; i < bytes.size;) {
        size_t length = utf8_length(p + i, bytes.size - i);
        if (length == 0 || p[i] == 0) {
            return false;
        }
        i += length;
    }
    return true;
}

bool bytes_are_printable(struct lkv_bytes bytes) {
    const unsigned char *p = bytes.data;
    for (size_t i = 0; i < bytes.size;) {
        size_t length = utf8_length(p + i, bytes.size - i);
        if (length == 0 || (is_control(p + i, length) && p[i] != '\n' && p[i] != '\t')) {
            return false;
        }
        i += length;
    }
    return true;
}

/* ------------------------------------------------------------------ writing */

void text_add_hex(struct text *text, struct lkv_bytes bytes) {
    const unsigned char *p = bytes.data;
    text_reserve(text, bytes.size * 2);
    for (size_t i = 0; i < bytes.size; i++) {
        text->data[text->size++] = hex_digits[p[i] >> 4];
        text->data[text->size++] = hex_digits[p[i] & 15];
    }
    text->data[text->size] = '\0';
}

void text_add_base64(struct text *text, struct lkv_bytes bytes) {
    const unsigned char *p = bytes.data;
    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        uint32_t group = (uint32_t)p[i] << 16;
        group |= left > 1 ? (uint32_t)p[i + 1] << 8 : 0;
        group |= left > 2 ? (uint32_t)p[i + 2] : 0;
        char digits[4] = {base64_digits[group >> 18], base64_digits[group >> 12 & 63],
                          left > 1 ? base64_digits[group >> 6 & 63] : '=',
                          left > 2 ? base64_digits[group & 63] : '='};
        text_add(text, digits, sizeof(digits));
    }
}

static void add_escape(struct text *text, unsigned char byte) {
    switch (byte) {
    case '\n': text_add_string(text, "\\n"); break;
    case '\t': text_add_string(text, "\\t"); break;
    case '\r': text_add_string(text, "\\r"); break;
    case '\\': text_add_string(text, "\\\\"); break;
    default: text_printf(text, "\\x%02x", byte); break;
    }
}

void text_add_escaped(struct text *text, struct lkv_bytes bytes) {
    const unsigned char *p = bytes.data;
    for (size_t i = 0; i < bytes.size;) {
        size_t length = utf8_length(p + i, bytes.size - i);
        if (length > 0 && p[i] != '\\' && !is_control(p + i, length)) {
            text_add(text, p + i, length);
            i += length;
            continue;
        }
        for (size_t end = i + (length > 0 ? length : 1); i < end; i++) {
            add_escape(text, p[i]);
        }
    }
}

void text_add_visible(struct text *text, struct lkv_bytes bytes) {
    const unsigned char *p = bytes.data;
    for (size_t i = 0; i < bytes.size;) {
        size_t length = utf8_length(p + i, bytes.size - i);
        if (length > 0 && (p[i] == '\n' || p[i] == '\t' || !is_control(p + i, length))) {
            text_add(text, p + i, length);
            i += length;
            continue;
        }
        for (size_t end = i + (length > 0 ? length : 1); i < end; i++) {
            add_escape(text, p[i]);
        }
    }
}

struct shown shown(const char *word) {
    struct shown out;
    struct text escaped = {0};
    size_t size = strlen(word);
    size_t taken = 0; /* of the word, by whole characters */
    while (taken < size) {
        size_t length = utf8_length((const unsigned char *)word + taken, size - taken);
        struct lkv_bytes next = {word + taken, length > 0 ? length : 1};
        size_t before = escaped.size;
        text_add_escaped(&escaped, next);
        if (escaped.size > SHOWN_BYTES) {
            escaped.size = before;
            break;
        }
        taken += next.size;
    }
    int end = (int)escaped.size;
    if (taken < size) {
        snprintf(out.text, sizeof(out.text), "%.*s... (%zu bytes)", end, text_string(&escaped),
                 size);
    } else {
        snprintf(out.text, sizeof(out.text), "%.*s", end, text_string(&escaped));
    }
    text_free(&escaped);
    return out;
}

static void add_json_byte(struct text *text, unsigned char byte) {
    switch (byte) {
    case '"': text_add_string(text, "\\\""); break;
    case '\\': text_add_string(text, "\\\\"); break;
    case '\b': text_add_string(text, "\\b"); break;
    case '\f': text_add_string(text, "\\f"); break;
    case '\n': text_add_string(text, "\\n"); break;
    case '\t': text_add_string(text, "\\t"); break;
    case '\r': text_add_string(text, "\\r"); break;
    default: text_printf(text, "\\u%04x", byte); break;
    }
}

void text_add_json(struct text *text, struct lkv_bytes bytes) {
    const unsigned char *p = bytes.data;
    size_t plain = 0; /* start of the run that needs no escape */
    text_add_byte(text, '"');
    for (size_t i = 0; i < bytes.size; i++) {
        if (p[i] < 0x20 || p[i] == '"' || p[i] == '\\') {
            text_add(text, p + plain, i - plain);
            add_json_byte(text, p[i]);
            plain = i + 1;
        }
    }
    if (bytes.size > plain) {
        text_add(text, p + plain, bytes.size - plain);
    }
    text_add_byte(text, '"');
}

void text_add_json_string(struct text *text, const char *string) {
    if (bytes_are_text(bytes_of(string))) {
        text_add_json(text, bytes_of(string));
        return;
    }
    struct text escaped = {0};
    text_add_escaped(&escaped, bytes_of(string));
    text_add_json(text, text_bytes(&escaped));
    text_free(&escaped);
}

/* ------------------------------------------------------------------ reading */

static int hex_value(char digit) {
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

bool text_decode_hex(struct text *text, struct lkv_bytes encoded) {
    const char *p = encoded.data;
    size_t start = text->size;
    bool good = encoded.size % 2 == 0;
    for (size_t i = 0; good && i < encoded.size; i += 2) {
        int high = hex_value(p[i]);
        int low = hex_value(p[i + 1]);
        good = high >= 0 && low >= 0;
        if (good) {
            text_add_byte(text, (char)(high << 4 | low));
        }
    }
    if (!good) {
        text->size = start;
    }
    return good;
}

static int base64_value(char digit) {
    const char *found = digit != '\0' ? strchr(base64_digits, digit) : NULL;
    return found != NULL ? (int)(found - base64_digits) : -1;
}

/* One group of four digits; -1 when it is none, otherwise how many bytes it holds. */
static int base64_group(const char *digits, bool last, unsigned char out[3]) {
    int pads = digits[3] != '=' ? 0 : digits[2] != '=' ? 1 : 2;
    uint32_t group = 0;
    for (int i = 0; i < 4; i++) {
        int value = i < 4 - pads ? base64_value(digits[i]) : 0;
        if (value < 0) {
            return -1;
        }
        group = group << 6 | (uint32_t)value;
    }
    out[0] = (unsigned char)(group >> 16);
    out[1] = (unsigned char)(group >> 8);
    out[2] = (unsigned char)group;
    return pads > 0 && !last ? -1 : 3 - pads;
}

bool text_decode_base64(struct text *text, struct lkv_bytes encoded) {
    const char *p = encoded.data;
    size_t start = text->size;
    bool good = encoded.size % 4 == 0;
    for (size_t i = 0; good && i < encoded.size; i += 4) {
        unsigned char bytes[3];
        int count = base64_group(p + i, i + 4 == encoded.size, bytes);
        good = count > 0;
        if (good) {
            text_add(text, bytes, (size_t)count);
        }
    }
    if (!good) {
        text->size = start;
    }
    return good;
}
