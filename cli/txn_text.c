/*      if   mod("k1") = 41        if, then, else begin a part; a line without one belongs to the last
 *      then put k2 "x\n"          words are bare or quoted: \n \t \r \" \\ \xNN
 *      else get k1                # begins a comment */
#include "txn_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum part { PART_NONE, PART_IF, PART_THEN, PART_ELSE };
enum { WORDS_MAX = 4 };

struct line {
    const char *at, *end;
    struct text words[WORDS_MAX];
    size_t count;
    const char *fault; /* NULL: none */
};

static const char separators[] = "()=!<>#\"";

static void skip_blanks(struct line *line) {
    while (line->at < line->end && strchr(" \t\r", *line->at) != NULL) {
        line->at++;
    }
}

static bool at_end(struct line *line) {
    skip_blanks(line);
    return line->at == line->end || *line->at == '#';
}

static void take_escape(struct line *line, struct text *word) {
    static const char names[] = "ntr\"\\", bytes[] = "\n\t\r\"\\";
    char name = line->at < line->end ? *line->at++ : '\0';
    const char *found = name != '\0' ? strchr(names, name) : NULL;
    if (found != NULL) {
        text_add_byte(word, bytes[found - names]);
    } else if (name == 'x' && line->end - line->at >= 2 &&
               text_decode_hex(word, (struct lkv_bytes){line->at, 2})) {
        line->at += 2;
    } else {
        line->fault = "an escape is \\n, \\t, \\r, \\\", \\\\ or \\xNN";
    }
}

static void take_quoted(struct line *line, struct text *word) {
    line->at++;
    while (line->at < line->end && *line->at != '"' && line->fault == NULL) {
        if (*line->at == '\\') {
            line->at++;
            take_escape(line, word);
        } else {
            text_add_byte(word, *line->at++);
        }
    }
    if (line->at == line->end) {
        line->fault = line->fault != NULL ? line->fault : "a quote is not closed";
    } else {
        line->at++;
    }
}

/* One more word. With `plain` it ends at an operator, too. */
static struct text *take_word(struct line *line, bool plain) {
    if (at_end(line) || line->count == WORDS_MAX) {
        line->fault = line->fault != NULL ? line->fault : "it ends too early, or goes on too long";
        return &line->words[0];
    }
    struct text *word = &line->words[line->count++];
    if (*line->at == '"') {
        take_quoted(line, word);
        return word;
    }
    while (line->at < line->end && strchr(" \t\r", *line->at) == NULL &&
           !(plain && strchr(separators, *line->at) != NULL)) {
        text_add_byte(word, *line->at++);
    }
    return word;
}

static void expect(struct line *line, char byte, const char *fault) {
    skip_blanks(line);
    if (line->at < line->end && *line->at == byte) {
        line->at++;
    } else if (line->fault == NULL) {
        line->fault = fault;
    }
}

static bool is_word(const struct text *word, const char *name) {
    return strcmp(text_string(word), name) == 0;
}

/* ------------------------------------------------------------------ compares */

static const char *const fields[] = {[LKV_FIELD_VALUE] = "value", [LKV_FIELD_CREATE_REV] = "create",
                                     [LKV_FIELD_MOD_REV] = "mod", [LKV_FIELD_VERSION] = "version",
                                     [LKV_FIELD_LEASE] = "lease", [LKV_FIELD_EXISTS] = "exists"};

static char take_relation(struct line *line) {
    skip_blanks(line);
    char relation = line->at < line->end ? *line->at : '\0';
    if (relation == '\0' || strchr("=!<>", relation) == NULL) {
        line->fault = line->fault != NULL ? line->fault : "expected =, !=, < or >";
        return '=';
    }
    line->at++;
    if (relation == '!') {
        expect(line, '=', "expected =, !=, < or >");
    }
    return relation;
}

static uint64_t unsigned_of(struct line *line, const struct text *word, int base) {
    const char *text = text_string(word);
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, base);
    bool digit = (*text >= '0' && *text <= '9') || base == 16;
    if (!digit || *text == '-' || *end != '\0' || errno != 0 || *text == '\0') {
        line->fault = line->fault != NULL ? line->fault : "expected a number";
    }
    return number;
}

static void read_compare(struct line *line, struct lkv_txn *txn) {
    const struct text *name = take_word(line, true);
    enum lkv_field field = LKV_FIELD_VALUE;
    while (field <= LKV_FIELD_EXISTS && !is_word(name, fields[field])) {
        field++;
    }
    if (field > LKV_FIELD_EXISTS) {
        line->fault = "expected value, create, mod, version, lease or exists, and (KEY)";
        return;
    }
    expect(line, '(', "expected (KEY)");
    const struct text *key = take_word(line, true);
    expect(line, ')', "expected )");
    char relation = take_relation(line);
    const struct text *operand = take_word(line, false);
    bool by_value = field == LKV_FIELD_VALUE;
    int base = field == LKV_FIELD_LEASE ? 16 : 10;
    uint64_t number = by_value || line->fault != NULL ? 0 : unsigned_of(line, operand, base);
    if (line->fault == NULL) {
        lkv_txn_if(txn, text_bytes(key), field, relation, number,
                   by_value ? text_bytes(operand) : (struct lkv_bytes){0});
    }
}

/* ------------------------------------------------------------------ operations */

static int64_t delta_of(struct line *line, const struct text *word) {
    const char *text = text_string(word);
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0) {
        line->fault = line->fault != NULL ? line->fault : "expected a number";
    }
    return number;
}

static void read_operation(struct line *line, struct lkv_txn *txn) {
    const struct text *name = take_word(line, false);
    struct lkv_change change = {.op = LKV_OP_DELETE};
    const struct text *key = take_word(line, false);
    change.key = text_bytes(key);
    if (is_word(name, "get")) {
        lkv_txn_get(txn, change.key);
        return;
    }
    if (is_word(name, "range")) {
        struct lkv_query query = {.from = change.key, .to = text_bytes(take_word(line, false))};
        lkv_txn_find(txn, &query);
        return;
    }
    if (is_word(name, "put")) {
        change.op = LKV_OP_PUT;
        change.value = text_bytes(take_word(line, false));
    } else if (is_word(name, "add")) {
        change.op = LKV_OP_ADD;
        change.delta = delta_of(line, take_word(line, false));
    } else if (is_word(name, "del-range")) {
        change.range = true;
        change.end = text_bytes(take_word(line, false));
    } else if (!is_word(name, "del")) {
        line->fault = "expected put, add, del, del-range, get or range";
    }
    if (line->fault == NULL) {
        lkv_txn_write(txn, &change);
    }
}

/* ------------------------------------------------------------------ all of it */

static bool begins_with(struct line *line, const char *word) {
    size_t size = strlen(word);
    skip_blanks(line);
    if ((size_t)(line->end - line->at) < size || memcmp(line->at, word, size) != 0 ||
        ((size_t)(line->end - line->at) > size && strchr(" \t\r", line->at[size]) == NULL)) {
        return false;
    }
    line->at += size;
    return true;
}

static void read_line(struct line *line, enum part *part, struct lkv_txn *txn) {
    enum part before = *part;
    *part = begins_with(line, "if")     ? PART_IF
            : begins_with(line, "then") ? PART_THEN
            : begins_with(line, "else") ? PART_ELSE
                                        : before;
    if (*part == PART_NONE || *part < before) {
        line->fault = "expected if, then or else, in this order";
        return;
    }
    if (*part == PART_ELSE && before != PART_ELSE) {
        lkv_txn_else(txn);
    }
    if (at_end(line)) {
        return; /* a part's name alone */
    }
    if (*part == PART_IF) {
        read_compare(line, txn);
    } else {
        read_operation(line, txn);
    }
    if (line->fault == NULL && !at_end(line)) {
        line->fault = "something follows";
    }
}

bool txn_text_read(struct lkv_bytes text, struct lkv_txn *txn, struct text *why) {
    const char *at = text.data, *end = at + text.size;
    enum part part = PART_NONE;
    bool good = true;
    for (unsigned number = 1; good && at != NULL && at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct line line = {.at = at, .end = newline != NULL ? newline : end};
        if (!at_end(&line)) {
            read_line(&line, &part, txn);
        }
        if (line.fault != NULL) {
            text_printf(why, "line %u: %s", number, line.fault);
            good = false;
        }
        for (size_t i = 0; i < WORDS_MAX; i++) {
            text_free(&line.words[i]);
        }
        at = newline != NULL ? newline + 1 : end;
    }
    return good;
}
