/* What a program must not say. No key may be changed twice: what a put writes nothing else in the same
 * branch may touch, except in two branches of one nested program, of which only one is carried out.
 * (Deletes may overlap each other.) So each change of a transaction has its own key, and the state
 * before it tells whether all its operations can be carried out. */
#include "base/mem.h"
#include "kv/txn.h"

#include <stdlib.h>

/* The keys that an operation changes. */
struct span {
    struct slice from;
    struct slice end; /* exclusive, but for `only` */
    bool is_put;
    bool only;   /* the one key `from`, which is `end` too */
    bool open;   /* no end */
    size_t step; /* that it belongs to, in the branch that is being looked at */
};

struct check {
    struct span *spans; /* owned */
    size_t count, capacity;
    struct reason *why;
};

static int fault(const struct check *check, size_t step, const char *what) {
    return reason_set(check->why, LKV_EINVAL, "txn: operation %zu: %s", step + 1, what);
}

/* ---------------------------------------------------------------------------- overlaps */

/* Deletes first where they begin together: they are what a put is compared with. */
static int by_start(const void *left, const void *right) {
    const struct span *a = left, *b = right;
    int order = slice_compare(a->from, b->from);
    return order != 0 ? order : a->is_put - b->is_put;
}

static bool covers(const struct span *span, struct slice key) {
    if (span->open) {
        return true;
    }
    int order = slice_compare(key, span->end);
    return order < 0 || (order == 0 && span->only);
}

static bool reaches_further(const struct span *a, const struct span *b) {
    if (a->open || b->open) {
        return a->open && !b->open;
    }
    int order = slice_compare(a->end, b->end);
    return order > 0 || (order == 0 && a->only && !b->only);
}

/* Of the deletes so far the one that reaches furthest, and the one of another step that does. */
struct furthest {
    const struct span *first, *second;
};

static void add_delete(struct furthest *furthest, const struct span *span) {
    const struct span *first = furthest->first;
    if (first == NULL || reaches_further(span, first)) {
        if (first != NULL && first->step != span->step) {
            furthest->second = first;
        }
        furthest->first = span;
    } else if (span->step != first->step &&
               (furthest->second == NULL || reaches_further(span, furthest->second))) {
        furthest->second = span;
    }
}

static bool is_deleted_too(const struct furthest *furthest, const struct span *put) {
    const struct span *one = furthest->first;
    if (one != NULL && one->step == put->step) {
        one = furthest->second;
    }
    return one != NULL && covers(one, put->from);
}

static int check_overlaps(const struct check *check, size_t start) {
    struct furthest furthest = {NULL, NULL};
    const struct span *last_put = NULL;
    if (check->count - start > 1) {
        qsort(&check->spans[start], check->count - start, sizeof(struct span), by_start);
    }
    for (size_t i = start; i < check->count; i++) {
        const struct span *span = &check->spans[i];
        if (!span->is_put) {
            add_delete(&furthest, span);
            continue;
        }
        bool twice = last_put != NULL && last_put->step != span->step &&
                     slice_equal(last_put->from, span->from);
        if (twice || is_deleted_too(&furthest, span)) {
            return fault(check, span->step, "changes a key that another one changes");
        }
        last_put = span;
    }
    return 0;
}

/* ---------------------------------------------------------------------------- the pieces */

static int add_span(struct check *check, const struct kv_step *step, size_t number) {
    const struct span span = {.from = step->key,
                              .end = step->end.size > 0 ? step->end : step->key,
                              .is_put = step->op != KV_DELETE,
                              .only = step->end.size == 0,
                              .open = end_is_open(step->end),
                              .step = number};
    struct span *spans =
        mem_array_grow(check->spans, &check->capacity, check->count + 1, sizeof(span));
    if (spans == NULL) {
        return reason_set(check->why, LKV_ENOMEM, "txn: out of memory");
    }
    check->spans = spans;
    check->spans[check->count++] = span;
    return 0;
}

static int check_compares(const struct check *check, struct txn_parts *parts) {
    for (uint32_t i = 0; i < parts->compare_count; i++) {
        struct kv_compare compare;
        if (!txn_next_compare(&parts->compares, &compare) || compare.key.size == 0 ||
            compare.key.size > KV_KEY_SIZE_MAX || compare.end.size > KV_KEY_SIZE_MAX) {
            return reason_set(check->why, LKV_EINVAL, "txn: compare %u is malformed", i + 1);
        }
    }
    return parts->compares.left == 0
               ? 0
               : reason_set(check->why, LKV_EINVAL, "txn: bytes follow the compares");
}

static int check_program(struct check *check, struct slice program, unsigned depth);

static int check_step(struct check *check, const struct kv_step *step, size_t number,
                      unsigned depth) {
    const char *what = step_fault(step);
    if (what != NULL) {
        return fault(check, number, what);
    }
    if (step->op == KV_RANGE) {
        return 0;
    }
    if (step->op != KV_TXN) {
        return add_span(check, step, number);
    }
    if (depth == KV_TXN_DEPTH_MAX) {
        return fault(check, number, "programs are nested too deeply");
    }
    size_t start = check->count;
    int rc = check_program(check, step->txn, depth + 1);
    for (size_t i = start; i < check->count; i++) {
        check->spans[i].step = number; /* they are this one's, whichever branch they are in */
    }
    return rc;
}

static int check_branch(struct check *check, struct reader steps, unsigned depth) {
    size_t start = check->count;
    int rc = 0;
    for (size_t number = 0; rc == 0 && steps.left > 0; number++) {
        struct kv_step step;
        rc = txn_next_step(&steps, &step) ? check_step(check, &step, number, depth)
                                          : fault(check, number, "malformed");
    }
    return rc == 0 ? check_overlaps(check, start) : rc;
}

/* Recursion is as deep as programs may be nested. */
static int check_program(struct check *check, struct slice program, unsigned depth) {
    struct txn_parts parts;
    if (!txn_open(program, &parts)) {
        return reason_set(check->why, LKV_EINVAL, "txn: malformed");
    }
    int rc = check_compares(check, &parts);
    rc = rc == 0 ? check_branch(check, parts.then_steps, depth) : rc;
    return rc == 0 ? check_branch(check, parts.else_steps, depth) : rc;
}

int kv_txn_check(struct slice program, struct reason *why) {
    struct check check = {.why = why};
    int rc = check_program(&check, program, 1);
    mem_free(check.spans);
    return rc;
}
