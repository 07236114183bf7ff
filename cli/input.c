/* Keys, values and spans of keys: see input.h. */
#include "input.h"

#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_RETRY_MS = 50,
    VALUE_BYTES_MAX = 15 * 1024 * 1024, /* VALUE_MAX of lib/options.c */
    TEXT_BYTES_MAX = 64 * 1024 * 1024   /* of a transaction, whose bytes may be written as \xHH */
};

/* ------------------------------------------------------------------ keys and values */

static int hex_take(struct cli *cli, const char *what, const char *word, struct text *out) {
    if (text_decode_hex(out, bytes_of(word))) {
        return 0;
    }
    return report_usage(cli, "the %s under -x wants two hexadecimal digits a byte, not '%s'", what,
                        shown(word).text);
}

int key_take(struct cli *cli, const char *word, struct text *out) {
    if (cli->hex) {
        return hex_take(cli, "key", word, out);
    }
    text_add_string(out, word);
    return 0;
}

static int read_all(struct cli *cli, const char *name, FILE *file, struct text *out) {
    char block[65536];
    size_t size;
    size_t most = strcmp(cli->command->name, "txn") == 0 ? TEXT_BYTES_MAX : VALUE_BYTES_MAX;
    while (out->size <= most && (size = fread(block, 1, sizeof(block), file)) > 0) {
        text_add(out, block, size);
    }
    if (out->size > most) { /* whoever writes it may never end */
        return report_found(cli, KVCTL_REJECTED, LKV_ETOOLARGE,
                            "%s has more than %zu bytes, the most that is accepted", name, most);
    }
    if (ferror(file)) {
        return report_found(cli, KVCTL_USAGE, LKV_EIO, "cannot read %s: %s", name, strerror(errno));
    }
    return 0;
}

int value_take(struct cli *cli, const char *word, struct text *out) {
    if (strcmp(word, "-") == 0) {
        return read_all(cli, "standard input", stdin, out);
    }
    if (word[0] == '@') {
        FILE *file = fopen(word + 1, "re");
        if (file == NULL) {
            return report_found(cli, KVCTL_USAGE, LKV_ENOENT, "cannot read %s: %s", word + 1,
                                strerror(errno));
        }
        int exit = read_all(cli, word + 1, file, out);
        fclose(file);
        return exit;
    }
    if (cli->hex) {
        return hex_take(cli, "value", word, out);
    }
    text_add_string(out, word);
    return 0;
}

/* ------------------------------------------------------------------ spans */

void span_free(struct span *span) {
    text_free(&span->from);
    text_free(&span->to);
    *span = (struct span){0};
}

static int words_wanted(struct cli *cli, size_t count, const char *usage) {
    if (cli->args.word_count == count) {
        return 0;
    }
    if (cli->args.word_count > count) {
        return report_usage(cli, "'%s' is one word too many: %s %s",
                            shown(cli->args.words[count]).text, cli->command->name, usage);
    }
    return report_usage(cli, "something is missing: %s %s", cli->command->name, usage);
}

void span_to_prefix_end(struct span *span) {
    char *end = must_realloc(NULL, span->from.size);
    text_add(&span->to, end, lkv_prefix_end(text_bytes(&span->from), end));
    free(end);
}

static int take_prefix(struct cli *cli, struct span *span, bool all) {
    /* `--prefix --all` needs no empty word. */
    int exit = all && cli->args.word_count == 0 ? 0 : words_wanted(cli, 1, "--prefix PREFIX");
    if (exit == 0 && cli->args.word_count == 1) {
        exit = key_take(cli, cli->args.words[0], &span->from);
    }
    if (exit == 0) {
        span_to_prefix_end(span);
        span->everything = span->from.size == 0;
    }
    return exit;
}

static int compare_texts(const struct text *a, const struct text *b) {
    size_t size = a->size < b->size ? a->size : b->size;
    int order = memcmp(text_string(a), text_string(b), size);
    return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

static int take_range(struct cli *cli, struct span *span) {
    int exit = words_wanted(cli, 2, "--range FROM TO");
    exit = exit == 0 ? key_take(cli, cli->args.words[0], &span->from) : exit;
    exit = exit == 0 ? key_take(cli, cli->args.words[1], &span->to) : exit;
    if (exit != 0) {
        return exit;
    }
    if (span->to.size > 0 && compare_texts(&span->from, &span->to) >= 0) {
        return report_usage(cli, "--range FROM TO: FROM comes before TO, which is not included");
    }
    span->everything = span->from.size == 0 && span->to.size == 0;
    return 0;
}

static int take_from_key(struct cli *cli, struct span *span) {
    int exit = words_wanted(cli, 1, "--from-key KEY");
    exit = exit == 0 ? key_take(cli, cli->args.words[0], &span->from) : exit;
    span->everything = span->from.size == 0;
    return exit;
}

int span_take(struct cli *cli, struct span *span) {
    bool prefix = args_switch(&cli->args, "prefix");
    bool range = args_switch(&cli->args, "range");
    bool from_key = args_switch(&cli->args, "from-key");
    bool all = args_switch(&cli->args, "all");
    *span = (struct span){0};
    if ((int)prefix + (int)range + (int)from_key > 1) {
        return report_usage(cli, "--prefix, --range and --from-key exclude each other");
    }
    int exit;
    if (prefix) {
        exit = take_prefix(cli, span, all);
    } else if (range) {
        exit = take_range(cli, span);
    } else if (from_key) {
        exit = take_from_key(cli, span);
    } else if (all) {
        exit = words_wanted(cli, 0, "--all");
        span->everything = true;
    } else {
        exit = words_wanted(cli, 1, cli->command->words);
        exit = exit == 0 ? key_take(cli, cli->args.words[0], &span->from) : exit;
        span->single = true;
    }
    if (exit != 0) {
        span_free(span);
    }
    return exit;
}

void span_after(struct span *span, struct lkv_bytes key, bool descending) {
    struct text *edge = descending ? &span->to : &span->from;
    struct text moved = {0};
    text_add(&moved, key.data, key.size);
    if (!descending) {
        text_add_byte(&moved, '\0');
    }
    /* A page's edge only ever narrows the span. */
    bool narrower = descending ? edge->size == 0 || compare_texts(&moved, edge) < 0
                               : compare_texts(&moved, edge) > 0;
    if (narrower) {
        text_clear(edge);
        text_add(edge, moved.data, moved.size);
    }
    text_free(&moved);
}

struct shown span_name(const struct cli *cli) {
    return shown(cli->args.word_count > 0 ? cli->args.words[0] : "all keys");
}

/* ------------------------------------------------------------------ walking */

static int visit_page(struct walk *walk, const struct lkv_msg *page) {
    size_t count = lkv_msg_count(page);
    struct lkv_kv item;
    for (size_t i = 0; i < count && lkv_msg_kv(page, i, &item); i++) {
        int exit = walk->visit(walk->arg, &item);
        if (exit != 0) {
            return exit;
        }
        walk->count++;
        if (i + 1 == count) {
            text_clear(&walk->last);
            text_add(&walk->last, item.key.data, item.key.size);
        }
    }
    return 0;
}

/* Asks again while the answer is "not now", as long as the walk has patience. */
static int ask_page(struct walk *walk, const struct span *rest, int flags, struct lkv_msg **page) {
    struct store *store = walk->store;
    struct lkv_query query = walk->query;
    query.from = text_bytes(&rest->from);
    query.to = text_bytes(&rest->to);
    query.limit = walk->limit > 0 ? (size_t)(walk->limit - walk->count) : 0;
    query.flags = flags;
    query.how = store->how;
    query.rev = walk->page_rev;
    int64_t start_ms = clock_ms();
    for (;;) {
        int rc = lkv_find(store->db, &query, store_left(store), page);
        bool again = rc < 0 && lkv_retryable(rc) && walk->count > 0 && walk->patience_ms > 0;
        if (!again || clock_ms() - start_ms > walk->patience_ms ||
            deadline_passed(store->cli->deadline)) {
            return rc;
        }
        lkv_msg_free(*page);
        *page = NULL;
        clock_wait(PAGE_RETRY_MS);
    }
}

/* Whether pages follow one of so many keys, if there are more. */
static bool goes_on(const struct walk *walk, size_t keys) {
    return walk->query.order == LKV_BY_KEY &&
           (walk->limit == 0 || walk->count + keys < walk->limit);
}

/* The pages that follow are of this one's revision, and a view keeps that while they are read. */
static void hold_revision(struct walk *walk) {
    if (walk->page_rev == 0 && walk->view == NULL) {
        walk->page_rev = walk->rev;
        int rc = lkv_view_open(walk->store->db, walk->store->how, walk->rev, LKV_VIEW_AGE_MS_MAX,
                               &walk->view);
        (void)rc; /* without a view, what the cluster keeps has to do */
    }
}

/* Nobody keeps the revision of the pages so far. */
static bool give_up_revision(struct walk *walk, int rc) {
    if (rc != LKV_ECOMPACTED || walk->query.rev != 0 || walk->page_rev == 0) {
        return false;
    }
    report_warning(walk->store->cli, "%s; what follows is of a newer revision", lkv_last_text());
    lkv_view_close(walk->view);
    walk->view = NULL;
    walk->page_rev = 0;
    return true;
}

static int walk_page(struct walk *walk, const struct span *rest, int flags, bool *more) {
    struct store *store = walk->store;
    struct lkv_msg *page = NULL;
    int rc = ask_page(walk, rest, flags, &page);
    if (give_up_revision(walk, rc)) {
        lkv_msg_free(page);
        page = NULL;
        rc = ask_page(walk, rest, flags, &page);
    }
    int exit;
    if (rc < 0) {
        exit = report_call(store->cli, rc, page, "%s", span_name(store->cli).text);
    } else {
        uint64_t number = 0;
        lkv_msg_u64(page, "rev", &walk->rev);
        lkv_msg_u64(page, "total", flags & LKV_TOTAL ? &walk->total : &number);
        *more = lkv_msg_u64(page, "more", &number) && number != 0 && lkv_msg_count(page) > 0;
        if (*more && goes_on(walk, lkv_msg_count(page))) {
            hold_revision(walk); /* before what takes the caller's time */
        }
        exit = visit_page(walk, page);
    }
    lkv_msg_free(page);
    return exit;
}

int span_walk(struct walk *walk, const struct span *span) {
    struct span rest = {0};
    text_add(&rest.from, text_string(&span->from), span->from.size);
    text_add(&rest.to, text_string(&span->to), span->to.size);
    int flags = walk->flags;
    walk->page_rev = walk->query.rev;
    bool more = true;
    int exit = 0;
    while (exit == 0 && more) {
        more = false;
        exit = walk_page(walk, &rest, flags, &more);
        flags &= ~LKV_TOTAL; /* of the first page: those behind it count less */
        if (!goes_on(walk, 0)) {
            walk->more = more;
            break;
        }
        if (exit == 0 && more) {
            span_after(&rest, text_bytes(&walk->last), walk->flags & LKV_DESCENDING);
        }
    }
    lkv_view_close(walk->view);
    walk->view = NULL;
    span_free(&rest);
    return exit;
}

int span_count(struct store *store, const struct span *span, uint64_t at, uint64_t *count,
               uint64_t *rev) {
    struct lkv_msg *answer = NULL;
    int rc;
    if (span->single) {
        rc = lkv_get_at(store->db, text_bytes(&span->from), at, store->how, store_left(store),
                        &answer);
    } else {
        const struct lkv_query query = {.from = text_bytes(&span->from),
                                        .to = text_bytes(&span->to),
                                        .rev = at,
                                        .flags = LKV_COUNT_ONLY,
                                        .how = store->how};
        rc = lkv_find(store->db, &query, store_left(store), &answer);
    }
    int exit = 0;
    *count = span->single && rc == 0;
    *rev = 0;
    if (rc < 0 && rc != LKV_ENOTFOUND) {
        exit = report_call(store->cli, rc, answer, "%s", span_name(store->cli).text);
    } else {
        lkv_msg_u64(answer, "rev", rev);
    }
    if (exit == 0 && !span->single) {
        lkv_msg_u64(answer, "total", count);
    }
    lkv_msg_free(answer);
    return exit;
}
