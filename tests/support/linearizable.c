#include "tests/support/linearizable.h"

#include "tests/support/need.h"

#include "tests/support/linearizable_search.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CULPRITS_TRIED_MAX = 2000 };
#define OTHER_VALUE UINT64_MAX

/* ------------------------------------------------------------------ one key */

/* One key's operations, and where they stand in the caller's array. */
struct part {
    struct lin_op *ops;      /* owned copies, in the order in which they began */
    const size_t *positions; /* borrowed */
    size_t count;
    size_t states_max;
};

static bool search_from(const struct part *part, size_t first, size_t count, const uint64_t *starts,
                        size_t start_count, struct lin_search_result *out) {
    lin_search(part->ops + first, count, starts, start_count, part->states_max, out);
    out->last += first;
    return out->verdict == LIN_VIOLATED;
}

/* ------------------------------------------------------------------ the smallest window */

static int by_number(const void *a, const void *b) {
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

/* Every value that the register could have had before, as far as it makes a difference: those that
 * somebody wrote, and any other. */
static size_t any_value(const struct part *part, uint64_t *out) {
    size_t count = 0, kept = 0;
    out[count++] = LIN_ABSENT;
    out[count++] = OTHER_VALUE;
    for (size_t i = 0; i < part->count; i++) {
        if (part->ops[i].outcome != LIN_FAIL && part->ops[i].kind != LIN_GET) {
            out[count++] = part->ops[i].value;
        }
    }
    qsort(out, count, sizeof(*out), by_number);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || out[i] != out[kept - 1]) {
            out[kept++] = out[i];
        }
    }
    return kept;
}

/* Positions at which nothing that was answered is under way. */
static size_t quiescent(const struct part *part, size_t *out) {
    size_t count = 0;
    uint64_t busy_until = 0;
    for (size_t i = 0; i < part->count; i++) {
        const struct lin_op *op = &part->ops[i];
        if (op->outcome != LIN_OK) {
            continue;
        }
        if (op->begun_ns > busy_until || count == 0) {
            out[count++] = i;
        }
        busy_until = op->ended_ns > busy_until ? op->ended_ns : busy_until;
    }
    return count;
}

/* What an unanswered write could have done before the window it can do in it. */
static void bring_unanswered(struct part *part, size_t first) {
    for (size_t i = 0; i < first; i++) {
        if (part->ops[i].outcome == LIN_OK) {
            part->ops[i].outcome = LIN_FAIL;
        }
    }
}

/* The latest quiescent moment from which, whatever the value was then, the rest has no order. What fails from
 * a moment fails from every earlier one, so it is found by halving. */
static void narrow(struct part *part, uint64_t *starts, size_t *start_count) {
    struct lin_search_result found;
    struct lin_op *all = need(malloc((part->count + 1) * sizeof(*all)));
    size_t *moments = need(calloc(part->count + 1, sizeof(*moments)));
    size_t low = 0, high = quiescent(part, moments);
    uint64_t *any = need(calloc(part->count + 2, sizeof(*any)));
    size_t any_count = any_value(part, any);
    memcpy(all, part->ops, part->count * sizeof(*all));
    while (low < high) { /* all before `low` fail, none from `high` on does */
        size_t middle = low + (high - low) / 2;
        bring_unanswered(part, moments[middle]);
        if (search_from(part, 0, part->count, any, any_count, &found)) {
            low = middle + 1;
        } else {
            high = middle;
        }
        memcpy(part->ops, all, part->count * sizeof(*all));
    }
    if (low > 0) {
        bring_unanswered(part, moments[low - 1]);
        memcpy(starts, any, any_count * sizeof(*any));
        *start_count = any_count;
    }
    free(any);
    free(moments);
    free(all);
}

/* ------------------------------------------------------------------ who is to blame */

/* Sets one free: a read may have been answered anything, a write may be anywhere or nowhere. */
static void set_free(struct lin_op *op) {
    if (op->kind == LIN_GET) {
        op->outcome = LIN_FAIL;
    }
    op->outcome = op->outcome == LIN_OK ? LIN_INFO : op->outcome;
    op->begun_ns = 0;
    op->ended_ns = LIN_NEVER;
}

/* Unanswered writes whose value a culprit reads belong to the story. */
static bool is_told(const struct part *part, const bool *culprit, size_t i) {
    const struct lin_op *write = &part->ops[i];
    for (size_t j = 0; j < part->count && write->outcome == LIN_INFO && write->kind != LIN_GET;
         j++) {
        const struct lin_op *read = &part->ops[j];
        uint64_t value = read->kind == LIN_CAS ? read->expected : read->value;
        if (culprit[j] && (read->kind == LIN_GET || read->kind == LIN_CAS) &&
            value == write->value) {
            return true;
        }
    }
    return false;
}

static void blame(struct part *part, const uint64_t *starts, size_t start_count,
                  struct lin_result *out) {
    struct lin_search_result found;
    struct lin_op *original = need(malloc((part->count + 1) * sizeof(*original)));
    bool *culprit = need(calloc(part->count + 1, sizeof(*culprit)));
    size_t answered = 0;
    memcpy(original, part->ops, part->count * sizeof(*original));
    for (size_t i = 0; i < part->count; i++) {
        answered += part->ops[i].outcome == LIN_OK;
    }
    for (size_t i = 0; i < part->count; i++) {
        struct lin_op before = part->ops[i];
        if (before.outcome != LIN_OK) {
            continue;
        }
        set_free(&part->ops[i]);
        if (answered > CULPRITS_TRIED_MAX || /* a search for each */
            !search_from(part, 0, part->count, starts, start_count, &found)) {
            part->ops[i] = before;
            culprit[i] = true;
        }
    }
    memcpy(part->ops, original, part->count * sizeof(*original));
    out->culprits = need(calloc(part->count + 1, sizeof(*out->culprits)));
    out->from_ns = LIN_NEVER;
    for (size_t i = 0; i < part->count; i++) {
        const struct lin_op *op = &part->ops[i];
        if (culprit[i]) {
            out->from_ns = op->begun_ns < out->from_ns ? op->begun_ns : out->from_ns;
            out->until_ns = op->ended_ns > out->until_ns ? op->ended_ns : out->until_ns;
        }
        if (culprit[i] || is_told(part, culprit, i)) {
            out->culprits[out->culprit_count++] = part->positions[i];
        }
    }
    free(culprit);
    free(original);
}

/* What began after the operation that found no place has nothing to do with it. */
static void forget_later(struct part *part, uint64_t until_ns) {
    while (part->count > 0 && part->ops[part->count - 1].begun_ns > until_ns) {
        part->count--;
    }
}

static void explain(struct part *part, const struct lin_search_result *found,
                    struct lin_result *out) {
    uint64_t *starts = need(calloc(part->count + 3, sizeof(*starts)));
    size_t start_count = 1; /* absent */
    uint64_t until_ns = part->ops[found->last].ended_ns;
    out->last = part->positions[found->last];
    forget_later(part, until_ns);
    for (size_t i = 0; i < part->count; i++) { /* what ends later is still open at that moment */
        struct lin_op *op = &part->ops[i];
        if (op->outcome == LIN_OK && op->ended_ns > until_ns) {
            op->outcome = op->kind == LIN_GET ? LIN_FAIL : LIN_INFO;
            op->ended_ns = LIN_NEVER;
        }
    }
    narrow(part, starts, &start_count);
    blame(part, starts, start_count, out);
    free(starts);
}

/* ------------------------------------------------------------------ all keys */

struct placed {
    const struct lin_op *op;
    size_t position;
};

static int by_key(const void *a, const void *b) {
    const struct placed *one = a, *other = b;
    if (one->op->key != other->op->key) {
        return one->op->key < other->op->key ? -1 : 1;
    }
    if (one->op->begun_ns != other->op->begun_ns) {
        return one->op->begun_ns < other->op->begun_ns ? -1 : 1;
    }
    return one->position < other->position ? -1 : 1;
}

static void check_key(const struct placed *placed, size_t count, size_t states_max,
                      struct lin_result *out) {
    static const uint64_t absent = LIN_ABSENT;
    struct lin_op *ops = need(calloc(count, sizeof(*ops)));
    size_t *positions = need(calloc(count, sizeof(*positions)));
    for (size_t i = 0; i < count; i++) {
        ops[i] = *placed[i].op;
        positions[i] = placed[i].position;
    }
    struct part part = {
        .ops = ops, .positions = positions, .count = count, .states_max = states_max};
    struct lin_search_result found;
    lin_search(ops, count, &absent, 1, states_max, &found);
    out->keys++;
    out->states_max = found.states_max > out->states_max ? found.states_max : out->states_max;
    out->verdict = found.verdict;
    if (found.verdict == LIN_VIOLATED) {
        out->key = ops[0].key;
        explain(&part, &found, out);
        (void)snprintf(out->why, sizeof(out->why), "%zu operations have no order",
                       out->culprit_count);
    } else if (found.verdict == LIN_UNDECIDED) {
        out->key = ops[0].key;
        (void)snprintf(out->why, sizeof(out->why), "expected at most %s", found.limit);
    }
    free(ops);
    free(positions);
}

void lin_check(const struct lin_op *ops, size_t count, size_t states_max, struct lin_result *out) {
    struct placed *placed = need(calloc(count + 1, sizeof(*placed)));
    *out = (struct lin_result){.verdict = LIN_LINEARIZABLE, .operations = count};
    states_max = states_max < LIN_STATES_MAX ? states_max : LIN_STATES_MAX;
    for (size_t i = 0; i < count; i++) {
        placed[i] = (struct placed){&ops[i], i};
    }
    qsort(placed, count, sizeof(*placed), by_key);
    for (size_t first = 0, next; first < count && out->verdict == LIN_LINEARIZABLE; first = next) {
        next = first + 1;
        while (next < count && placed[next].op->key == placed[first].op->key) {
            next++;
        }
        check_key(placed + first, next - first, states_max, out);
    }
    free(placed);
}

void lin_result_fini(struct lin_result *result) {
    free(result->culprits);
    *result = (struct lin_result){.verdict = LIN_LINEARIZABLE};
}

/* ------------------------------------------------------------------ in words */

static void print_key(const struct lin_names *names, uint64_t key, FILE *out) {
    if (names != NULL && names->key != NULL) {
        names->key(names->arg, key, out);
    } else {
        fprintf(out, "%" PRIu64, key);
    }
}

static void print_value(const struct lin_names *names, uint64_t value, FILE *out) {
    if (value == LIN_ABSENT) {
        fputs("nothing", out);
    } else if (names != NULL && names->value != NULL) {
        names->value(names->arg, value, out);
    } else {
        fprintf(out, "%" PRIu64, value);
    }
}

static void print_what(const struct lin_names *names, const struct lin_op *op, FILE *out) {
    switch (op->kind) {
    case LIN_GET: fputs("get -> ", out); break;
    case LIN_PUT: fputs("put ", out); break;
    case LIN_DELETE: fputs("delete", out); return;
    case LIN_CAS:
        fputs("cas ", out);
        print_value(names, op->expected, out);
        fputs(" -> ", out);
        break;
    }
    print_value(names, op->value, out);
}

static void print_op(const struct lin_names *names, const struct lin_op *op, size_t position,
                     FILE *out) {
    fputs("  ", out);
    if (names != NULL && names->where != NULL) {
        names->where(names->arg, position, out);
    } else {
        fprintf(out, "operation %zu", position);
    }
    fputs(": ", out);
    print_what(names, op, out);
    if (op->outcome == LIN_OK) {
        fprintf(out, ", %" PRIu64 " to %" PRIu64 "\n", op->begun_ns, op->ended_ns);
    } else {
        fprintf(out, ", from %" PRIu64 ", never answered\n", op->begun_ns);
    }
}

void lin_print(const struct lin_result *result, const struct lin_op *ops, size_t count,
               const struct lin_names *names, FILE *out) {
    if (result->verdict == LIN_LINEARIZABLE || count == 0) {
        return;
    }
    fputs(result->verdict == LIN_VIOLATED ? "not linearizable: key " : "undecided: key ", out);
    print_key(names, result->key, out);
    fprintf(out, ": %s", result->why);
    if (result->verdict == LIN_UNDECIDED) {
        fputc('\n', out);
        return;
    }
    fprintf(out, ", between %" PRIu64 " and %" PRIu64 ":\n", result->from_ns, result->until_ns);
    for (size_t i = 0; i < result->culprit_count; i++) {
        size_t position = result->culprits[i];
        print_op(names, &ops[position], position, out);
    }
}
