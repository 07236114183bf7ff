#include "txn_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\r";
static const char operators[] = "()=!<>#\"";

void words_free(struct words *words) {
    for (size_t i = 0; i < words->count; i++) {
        text_free(&words->taken[i]);
    }
    text_free(&words->fault);
}

static bool is_one_of(char byte, const char *bytes) {
    return byte != '\0' && strchr(bytes, byte) != NULL;
}

static bool has_fault(const struct words *words) {
    return words->fault.size > 0;
}

bool words_at_end(struct words *words) {
    while (words->at < words->end && is_one_of(*words->at, blanks)) {
        words->at++;
    }
    return words->at == words->end || *words->at == '#';
}

bool words_at_option(struct words *words) {
    return !words_at_end(words) && words->end - words->at >= 2 && memcmp(words->at, "--", 2) == 0;
}

/* ------------------------------------------------------------------ what is wrong */

void words_expected(struct words *words, const char *what) {
    if (has_fault(words)) {
        return;
    }
    if (words_at_end(words)) {
        text_printf(&words->fault, "expected %s, found the end of the line", what);
        return;
    }
    struct text rest = {0};
    text_add(&rest, words->at, (size_t)(words->end - words->at));
    text_printf(&words->fault, "expected %s, found '%s'", what, shown(text_string(&rest)).text);
    text_free(&rest);
}

void words_found(struct words *words, const char *what, const struct text *found) {
    if (!has_fault(words)) {
        text_printf(&words->fault, "expected %s, found '%s'", what, shown(text_string(found)).text);
    }
}

/* ------------------------------------------------------------------ one word */

static void take_escape(struct words *words, struct text *word) {
    static const char names[] = "ntr\"\\", bytes[] = "\n\t\r\"\\";
    const char *from = words->at;
    char name = words->at < words->end ? *words->at++ : '\0';
    const char *found = name != '\0' ? strchr(names, name) : NULL;
    if (found != NULL) {
        text_add_byte(word, bytes[found - names]);
    } else if (name == 'x' && words->end - words->at >= 2 &&
               text_decode_hex(word, (struct lkv_bytes){words->at, 2})) {
        words->at += 2;
    } else {
        words->at = from - 1; /* the backslash is what was found */
        words_expected(words, "\\n, \\t, \\r, \\\", \\\\ or \\xNN");
    }
}

static void take_quoted(struct words *words, struct text *word) {
    const char *from = words->at++;
    while (words->at < words->end && *words->at != '"' && !has_fault(words)) {
        if (*words->at == '\\') {
            words->at++;
            take_escape(words, word);
        } else {
            text_add_byte(word, *words->at++);
        }
    }
    if (words->at == words->end && !has_fault(words)) {
        words->at = from;
        words_expected(words, "a closing quote");
    }
    words->at += has_fault(words) ? 0 : 1;
}

static void take_bare(struct words *words, const char *until, struct text *word) {
    while (words->at < words->end && !is_one_of(*words->at, blanks) &&
           !is_one_of(*words->at, until)) {
        text_add_byte(word, *words->at++);
    }
}

static const struct text *take(struct words *words, const char *until, const char *what) {
    static const struct text none;
    bool starts = !words_at_end(words) && (*words->at == '"' || !is_one_of(*words->at, until));
    if (!starts || words->count == WORDS_MAX) {
        words_expected(words, starts ? "fewer words in one line" : what);
    }
    if (has_fault(words)) {
        return &none;
    }
    struct text *word = &words->taken[words->count++];
    if (*words->at == '"') {
        take_quoted(words, word);
    } else {
        take_bare(words, until, word);
    }
    return word;
}

const struct text *words_take(struct words *words, const char *what) {
    return take(words, "", what);
}

const struct text *words_take_inside(struct words *words, const char *what) {
    return take(words, operators, what);
}

const struct text *words_take_key(struct words *words, bool inside) {
    const struct text *key =
        inside ? words_take_inside(words, "a key") : words_take(words, "a key");
    if (key->size == 0) {
        words_found(words, "a key", key);
    }
    return key;
}

/* ------------------------------------------------------------------ what is known of it */

bool words_skip(struct words *words, const char *name) {
    size_t size = strlen(name);
    if (words_at_end(words) || (size_t)(words->end - words->at) < size ||
        memcmp(words->at, name, size) != 0) {
        return false;
    }
    const char *behind = words->at + size;
    if (behind < words->end && !is_one_of(*behind, blanks)) {
        return false;
    }
    words->at = behind;
    return true;
}

void words_skip_byte(struct words *words, char byte, const char *what) {
    if (!words_at_end(words) && *words->at == byte) {
        words->at++;
    } else {
        words_expected(words, what);
    }
}

char words_take_relation(struct words *words) {
    static const char what[] = "=, !=, < or >";
    char relation = words_at_end(words) ? '\0' : *words->at;
    bool negated = relation == '!' && words->end - words->at >= 2 && words->at[1] == '=';
    if (!is_one_of(relation, "=<>") && !negated) {
        words_expected(words, what);
        return '=';
    }
    words->at += negated ? 2 : 1;
    return relation;
}

static bool is_number(const struct text *word, const char *end) {
    const char *text = text_string(word);
    bool digit = (*text >= '0' && *text <= '9') || *text == '-';
    return digit && *end == '\0' && errno == 0 && strlen(text) == word->size;
}

uint64_t words_take_u64(struct words *words, const char *what) {
    const struct text *word = words_take(words, what);
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text_string(word), &end, 10);
    if (!is_number(word, end) || *text_string(word) == '-') {
        words_found(words, what, word);
    }
    return number;
}

int64_t words_take_i64(struct words *words, const char *what) {
    const struct text *word = words_take(words, what);
    char *end;
    errno = 0;
    long long number = strtoll(text_string(word), &end, 10);
    if (!is_number(word, end)) {
        words_found(words, what, word);
    }
    return number;
}
