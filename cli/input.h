/* What a command is given to work on: keys, values, and spans of keys. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "store.h"

/* Each returns 0, or the exit code, having said why. */

/* A key as typed, or in hexadecimal under -x. */
int key_take(struct cli *cli, const char *word, struct text *out);

/* Text (hexadecimal under -x), - for the exact bytes of stdin, @FILE for those of a file. */
int value_take(struct cli *cli, const char *word, struct text *out);

/* Keys in [from, to); `to` empty: up to the last key. */
struct span {
    struct text from, to; /* owned */
    bool single;          /* one key: `from` */
    bool everything;
};

/* From --prefix, --range, --from-key, --all or one KEY, as far as the command has these flags. */
int span_take(struct cli *cli, struct span *span);
void span_free(struct span *span);

/* From a prefix in `from`: `to` becomes the first key behind all that begin with it. */
void span_to_prefix_end(struct span *span);

/* Only what lies behind `key`, in the direction of the walk. */
void span_after(struct span *span, struct lkv_bytes key, bool descending);

/* For messages: the first word, or "all keys". */
struct shown span_name(const struct cli *cli);

/* ------------------------------------------------------------------ walking */

struct walk {
    struct store *store;
    uint64_t limit;         /* 0: none */
    int flags;              /* LKV_KEYS_ONLY, LKV_DESCENDING, LKV_TOTAL */
    struct lkv_query query; /* of it the revision, the order and the bounds of revisions */
    int (*visit)(void *arg, const struct lkv_kv *item); /* non-zero: end, and return it */
    void *arg;
    int64_t patience_ms;   /* a page refused for a while is asked for again, for so long; 0: not */
    struct text last;      /* the last key visited; owned by the walk, free it */
    struct lkv_view *view; /* its own: keeps the first page's revision for the others */
    uint64_t page_rev;     /* its own: of the pages behind the first one */
    uint64_t count, total, rev;
    bool more; /* keys are left beyond the limit */
};

/* Visits the keys of the span page by page, all of one revision. Should the cluster not have kept that, a
 * warning says from where on what is visited is newer; unless the revision was asked for. In another order than
 * that of keys there is one page. */
int span_walk(struct walk *walk, const struct span *span);

/* How many keys the span has, or had at revision `at` (0: now); 0, or the exit code, having said why. */
int span_count(struct store *store, const struct span *span, uint64_t at, uint64_t *count,
               uint64_t *rev);

#endif
