/*      if   mod("k1") = 41        if, then, else begin a part; a line without one belongs to the last
 *           exists(/a/ /b/) = 1   two words: the keys from the first up to the second; "": to the last
 *      then put k2 "x\n" --prev   words are bare or quoted: \n \t \r \" \\ \xNN
 *           txn                   a transaction inside, up to its end
 *             if exists(k3) = 0
 *             then put k3 y
 *           end
 *      else get k1                # begins a comment */
#include "txn_text.h"

#include "lease_id.h"
#include "txn_words.h"

#include <string.h>

enum part { PART_NONE, PART_IF, PART_THEN, PART_ELSE };

/* One transaction that is being read. */
struct frame {
    struct lkv_txn *txn; /* owned, but that of the outermost */
    enum part part;
    unsigned line; /* where it began */
};

struct parse {
    struct frame frames[LKV_TXN_DEPTH_MAX];
    size_t depth;  /* of the innermost, from 0 */
    unsigned line; /* from 1 */
};

/* ------------------------------------------------------------------ compares */

static const char *const fields[] = {[LKV_FIELD_VALUE] = "value", [LKV_FIELD_CREATE_REV] = "create",
                                     [LKV_FIELD_MOD_REV] = "mod", [LKV_FIELD_VERSION] = "version",
                                     [LKV_FIELD_LEASE] = "lease", [LKV_FIELD_EXISTS] = "exists"};

static bool is_word(const struct text *word, const char *name) {
    return bytes_equal(text_bytes(word), bytes_of(name));
}

static enum lkv_field take_field(struct words *words) {
    static const char what[] = "value, create, mod, version, lease or exists";
    const struct text *name = words_take_inside(words, what);
    enum lkv_field field = LKV_FIELD_VALUE;
    while (field <= LKV_FIELD_EXISTS && !is_word(name, fields[field])) {
        field++;
    }
    if (field > LKV_FIELD_EXISTS) {
        words_found(words, what, name);
        return LKV_FIELD_VALUE;
    }
    return field;
}

/* As kvctl shows it; 0: that there is none. */
static uint64_t take_lease(struct words *words) {
    static const char what[] = "a lease's id: hexadecimal, 1 to 7fffffffffffffff";
    const struct text *word = words_take(words, what);
    int64_t id = 0;
    if (!is_word(word, "0") && !lease_id_take(text_string(word), &id)) {
        words_found(words, what, word);
    }
    return (uint64_t)id;
}

static void read_compare(struct words *words, struct lkv_txn *txn) {
    enum lkv_field field = take_field(words);
    words_skip_byte(words, '(', "(KEY) or (FROM TO)");
    const struct text *from = words_take_inside(words, "a key"), *to = NULL;
    if (!words_at_end(words) && *words->at != ')') {
        to = words_take_inside(words, "a key, the end of a range");
    } else if (from->size == 0) {
        words_found(words, "a key", from);
    }
    words_skip_byte(words, ')', ")");
    char relation = words_take_relation(words);
    struct lkv_bytes value = {0};
    uint64_t number = 0;
    if (field == LKV_FIELD_VALUE) {
        value = text_bytes(words_take(words, "a value"));
    } else {
        number = field == LKV_FIELD_LEASE ? take_lease(words) : words_take_u64(words, "a number");
    }
    if (words->fault.size > 0) {
        return;
    }
    if (to != NULL) {
        lkv_txn_if_range(txn, text_bytes(from), text_bytes(to), field, relation, number, value);
    } else {
        lkv_txn_if(txn, text_bytes(from), field, relation, number, value);
    }
}

/* ------------------------------------------------------------------ operations */

enum option {
    OPTION_LEASE = 1,
    OPTION_IF_REV = 2,
    OPTION_IF_ABSENT = 4,
    OPTION_PREV = 8,
    OPTION_KEEP_VALUE = 16,
    OPTION_KEEP_LEASE = 32,
    OPTION_LIMIT = 64,
    OPTION_KEYS_ONLY = 128,
    OPTION_COUNT = 256,
    OPTION_DESC = 512
};

/* The same names as those of the commands. */
static const struct {
    enum option option;
    const char *name;
    int flag; /* of a change or of a query */
} options[] = {{OPTION_LEASE, "--lease", 0},
               {OPTION_IF_REV, "--if-rev", 0},
               {OPTION_IF_ABSENT, "--if-absent", LKV_IF_ABSENT},
               {OPTION_PREV, "--prev", LKV_PREVIOUS},
               {OPTION_KEEP_VALUE, "--keep-value", LKV_KEEP_VALUE},
               {OPTION_KEEP_LEASE, "--keep-lease", LKV_KEEP_LEASE},
               {OPTION_LIMIT, "--limit", LKV_TOTAL},
               {OPTION_KEYS_ONLY, "--keys-only", LKV_KEYS_ONLY},
               {OPTION_COUNT, "--count", LKV_COUNT_ONLY},
               {OPTION_DESC, "--desc", LKV_DESCENDING}};

enum operation { PUT, ADD, DELETE, DELETE_RANGE, GET, RANGE };

static const struct {
    const char *name;
    enum operation operation;
    int options;
} operations[] = {{"put", PUT,
                   OPTION_LEASE | OPTION_IF_REV | OPTION_IF_ABSENT | OPTION_PREV |
                       OPTION_KEEP_VALUE | OPTION_KEEP_LEASE},
                  {"add", ADD, OPTION_PREV},
                  {"del", DELETE, OPTION_IF_REV | OPTION_PREV},
                  {"del-range", DELETE_RANGE, OPTION_PREV},
                  {"get", GET, 0},
                  {"range", RANGE, OPTION_LIMIT | OPTION_KEYS_ONLY | OPTION_COUNT | OPTION_DESC}};

enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]) };
enum { OPTIONS = sizeof(options) / sizeof(options[0]) };

/* What an operation is told by its options. */
struct told {
    int flags;
    int64_t lease;
    uint64_t if_rev, limit;
};

static void expected_option(struct words *words, int allowed) {
    struct text what = {0};
    for (size_t i = 0; i < OPTIONS; i++) {
        if (allowed & (int)options[i].option) {
            text_printf(&what, "%s, ", options[i].name);
        }
    }
    text_add_string(&what, what.size > 0 ? "or nothing more" : "nothing more");
    words_expected(words, text_string(&what));
    text_free(&what);
}

static void take_options(struct words *words, int allowed, struct told *told) {
    while (words->fault.size == 0 && !words_at_end(words)) {
        size_t i = 0;
        while (i < OPTIONS &&
               !((allowed & (int)options[i].option) != 0 && words_skip(words, options[i].name))) {
            i++;
        }
        if (i == OPTIONS) {
            expected_option(words, allowed);
            return;
        }
        told->flags |= options[i].flag;
        if (options[i].option == OPTION_LEASE) {
            told->lease = (int64_t)take_lease(words);
        } else if (options[i].option == OPTION_IF_REV) {
            told->if_rev = words_take_u64(words, "a revision");
        } else if (options[i].option == OPTION_LIMIT) {
            told->limit = words_take_u64(words, "a number of keys");
        }
    }
}

static void read_range(struct words *words, int allowed, struct lkv_txn *txn) {
    struct told told = {0};
    struct lkv_query query = {.order = LKV_BY_KEY};
    query.from = text_bytes(words_take(words, "a key, or \"\""));
    query.to = text_bytes(words_take(words, "a key, or \"\""));
    take_options(words, allowed, &told);
    query.flags = told.flags;
    query.limit = told.limit;
    if (words->fault.size == 0) {
        lkv_txn_find(txn, &query);
    }
}

static void read_get(struct words *words, int allowed, struct lkv_txn *txn) {
    struct told told = {0};
    const struct text *key = words_take_key(words, false);
    take_options(words, allowed, &told);
    if (words->fault.size == 0) {
        lkv_txn_get(txn, text_bytes(key));
    }
}

static void read_change(struct words *words, enum operation operation, int allowed,
                        struct lkv_txn *txn) {
    struct told told = {0};
    struct lkv_change change = {.op = operation == PUT   ? LKV_OP_PUT
                                      : operation == ADD ? LKV_OP_ADD
                                                         : LKV_OP_DELETE};
    if (operation == DELETE_RANGE) {
        change.range = true;
        change.key = text_bytes(words_take(words, "a key, or \"\""));
        change.end = text_bytes(words_take(words, "a key, or \"\""));
    } else {
        change.key = text_bytes(words_take_key(words, false));
    }
    bool has_value = operation == PUT && !words_at_option(words);
    if (has_value) {
        change.value = text_bytes(words_take(words, "a value, or --keep-value"));
    } else if (operation == ADD) {
        change.delta = words_take_i64(words, "a number");
    }
    take_options(words, has_value ? allowed & ~OPTION_KEEP_VALUE : allowed, &told);
    if (operation == PUT && has_value == ((told.flags & LKV_KEEP_VALUE) != 0)) {
        words_expected(words, "a value, or --keep-value");
    }
    change.flags = told.flags;
    change.lease = told.lease;
    change.if_rev = told.if_rev;
    if (words->fault.size == 0) {
        lkv_txn_write(txn, &change);
    }
}

static void read_operation(struct words *words, struct lkv_txn *txn) {
    size_t i = 0;
    while (i < OPERATIONS && !words_skip(words, operations[i].name)) {
        i++;
    }
    if (i == OPERATIONS) {
        words_expected(words, "put, add, del, del-range, get, range, txn or end");
    } else if (operations[i].operation == GET) {
        read_get(words, operations[i].options, txn);
    } else if (operations[i].operation == RANGE) {
        read_range(words, operations[i].options, txn);
    } else {
        read_change(words, operations[i].operation, operations[i].options, txn);
    }
}

/* ------------------------------------------------------------------ transactions inside */

static void begin_inner(struct parse *parse, struct words *words) {
    if (parse->depth + 1 == LKV_TXN_DEPTH_MAX) {
        text_printf(&words->fault,
                    "expected at most %d transactions inside of each other, found "
                    "one more",
                    LKV_TXN_DEPTH_MAX);
        return;
    }
    parse->frames[++parse->depth] = (struct frame){.txn = lkv_txn_new(), .line = parse->line};
}

static void end_inner(struct parse *parse, struct words *words) {
    struct lkv_txn *inner = parse->frames[parse->depth].txn;
    if (parse->depth == 0) {
        text_add_string(&words->fault, "expected a txn in a line before, found its end");
        return;
    }
    parse->depth--;
    lkv_txn_nest(parse->frames[parse->depth].txn, inner);
    lkv_txn_free(inner);
}

/* ------------------------------------------------------------------ all of it */

/* The part that this line belongs to. */
static void take_part(struct words *words, struct frame *frame) {
    const char *from = words->at;
    enum part before = frame->part;
    frame->part = words_skip(words, "if")     ? PART_IF
                  : words_skip(words, "then") ? PART_THEN
                  : words_skip(words, "else") ? PART_ELSE
                                              : before;
    if (frame->part == PART_NONE || frame->part < before) {
        words->at = from;
        words_expected(words, "if, then or else, in this order");
    } else if (frame->part == PART_ELSE && before != PART_ELSE) {
        lkv_txn_else(frame->txn);
    }
}

static void read_line(struct parse *parse, struct words *words) {
    struct frame *frame = &parse->frames[parse->depth];
    if (words_skip(words, "end")) {
        end_inner(parse, words);
    } else {
        take_part(words, frame);
        if (words->fault.size > 0 || words_at_end(words)) {
            return; /* a part's name alone */
        }
        if (frame->part == PART_IF) {
            read_compare(words, frame->txn);
        } else if (words_skip(words, "txn")) {
            begin_inner(parse, words);
        } else {
            read_operation(words, frame->txn);
        }
    }
    if (!words_at_end(words)) {
        words_expected(words, "nothing more");
    }
}

static bool read_lines(struct parse *parse, struct lkv_bytes text, struct text *why) {
    const char *at = text.data, *end = text.size > 0 ? at + text.size : at;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct words words = {.at = at, .end = newline != NULL ? newline : end};
        parse->line++;
        if (!words_at_end(&words)) {
            read_line(parse, &words);
        }
        bool good = words.fault.size == 0;
        if (!good) {
            text_printf(why, "line %u: %s", parse->line, text_string(&words.fault));
        }
        words_free(&words);
        if (!good) {
            return false;
        }
        at = newline != NULL ? newline + 1 : end;
    }
    return true;
}

bool txn_text_read(struct lkv_bytes text, struct lkv_txn *txn, struct text *why) {
    struct parse parse = {.frames = {{.txn = txn}}};
    bool good = read_lines(&parse, text, why);
    if (good && parse.depth > 0) {
        text_printf(why,
                    "line %u: expected the end of the txn that begins here, found the end of "
                    "the text",
                    parse.frames[parse.depth].line);
        good = false;
    }
    for (; parse.depth > 0; parse.depth--) {
        lkv_txn_free(parse.frames[parse.depth].txn);
    }
    return good;
}
