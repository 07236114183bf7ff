/* Random transactions against the naive state machine: outcome, answers, and the state after it. */
#include "base/prng.h"
#include "kv/txn.h"
#include "naive_query.h"

#include <criterion/criterion.h>

enum { COMPARES = 2, STEPS = 4, TEXT = 24 };

/* A program as a tree, before it is bytes. */
struct plan;
struct plan_step {
    struct kv_step step;
    struct plan *nested; /* owned */
    char key[TEXT], end[TEXT], value[TEXT];
};
struct plan {
    struct kv_compare compares[COMPARES];
    char texts[COMPARES][3][TEXT];
    size_t compare_count;
    struct plan_step steps[2][STEPS]; /* [1]: then */
    size_t counts[2];
};

struct pair {
    struct feed feed;
    struct naive naive;
    struct naive before[8]; /* some older states, by revision */
    struct prng prng;
    uint64_t kept_from;
    size_t refused, failed, done;
};

/* ---------------------------------------------------------------------------- making one */

static struct slice random_key(struct prng *prng, char into[TEXT]) {
    (void)snprintf(into, TEXT, "k%u", (unsigned)prng_below(prng, 12));
    return slice_text(into);
}

static struct slice random_end(struct prng *prng, char into[TEXT]) {
    switch (prng_below(prng, 8)) {
    case 0: return slice_of("\0", 1);
    case 1:
    case 2: return random_key(prng, into);
    default: return (struct slice){0};
    }
}

static struct slice random_value(struct prng *prng, char into[TEXT]) {
    static const char *const odd[] = {"x", "", "9223372036854775807", "-9223372036854775808"};
    if (prng_below(prng, 12) == 0) {
        (void)snprintf(into, TEXT, "%s", odd[prng_below(prng, 4)]);
    } else {
        (void)snprintf(into, TEXT, "%u", (unsigned)prng_below(prng, 20));
    }
    return slice_text(into);
}

static void random_compare(struct pair *pair, struct plan *plan) {
    struct prng *prng = &pair->prng;
    size_t i = plan->compare_count++;
    plan->compares[i] = (struct kv_compare){
        .field = (enum kv_field)prng_below(prng, 6),
        .relation = (enum kv_relation)prng_below(prng, 4),
        .key = random_key(prng, plan->texts[i][0]),
        .end = random_end(prng, plan->texts[i][1]),
        .value = random_value(prng, plan->texts[i][2]),
        .number =
            prng_below(prng, 2) ? prng_below(prng, 3) : prng_below(prng, pair->naive.revision + 2)};
}

static uint32_t random_flags(struct prng *prng, uint32_t allowed) {
    return prng_below(prng, 3) ? 0 : (uint32_t)prng_below(prng, 16) & allowed;
}

static struct plan *random_plan(struct pair *pair, unsigned depth);

static void random_step(struct pair *pair, struct plan_step *out, unsigned depth) {
    struct prng *prng = &pair->prng;
    struct kv_step *step = &out->step;
    uint64_t revision = pair->naive.revision;
    *out = (struct plan_step){.nested = NULL};
    step->key = random_key(prng, out->key);
    switch (prng_below(prng, depth < 3 ? 8 : 7)) {
    case 0:
    case 1:
    case 2:
        step->op = KV_PUT;
        step->flags = random_flags(prng, 15);
        if (!(step->flags & KV_KEEP_VALUE)) {
            step->value = random_value(prng, out->value);
        }
        step->lease = (step->flags & KV_KEEP_LEASE) ? 0 : (int64_t)prng_below(prng, 3);
        step->lease += step->lease > 0 && prng_below(prng, 16) == 0 ? 7 : 0; /* no lease */
        step->if_rev = prng_below(prng, 8) ? 0 : prng_below(prng, revision + 1);
        break;
    case 3:
        step->op = KV_DELETE;
        step->flags = random_flags(prng, KV_PREVIOUS);
        step->end = random_end(prng, out->end);
        step->if_rev =
            step->end.size > 0 || prng_below(prng, 6) ? 0 : prng_below(prng, revision + 1);
        break;
    case 4:
        step->op = KV_ADD;
        step->flags = random_flags(prng, KV_PREVIOUS);
        step->delta = (int64_t)prng_below(prng, 7) - 3;
        break;
    case 5:
    case 6:
        step->op = KV_RANGE;
        step->end = random_end(prng, out->end);
        step->query = naive_random_query(prng, revision);
        step->query.revision =
            prng_below(prng, 4) ? 0 : revision + 1 - prng_below(prng, 9) % (revision + 1);
        break;
    default:
        step->op = KV_TXN;
        out->nested = random_plan(pair, depth + 1);
        break;
    }
}

static struct plan *random_plan(struct pair *pair, unsigned depth) {
    struct plan *plan = calloc(1, sizeof(*plan));
    FEED_REQUIRE(plan != NULL);
    for (uint64_t i = prng_below(&pair->prng, COMPARES + 1); i > 0; i--) {
        random_compare(pair, plan);
    }
    for (size_t branch = 0; branch < 2; branch++) {
        plan->counts[branch] = prng_below(&pair->prng, STEPS + 1);
        for (size_t i = 0; i < plan->counts[branch]; i++) {
            random_step(pair, &plan->steps[branch][i], depth);
        }
    }
    return plan;
}

static void plan_free(struct plan *plan) {
    for (size_t branch = 0; plan != NULL && branch < 2; branch++) {
        for (size_t i = 0; i < plan->counts[branch]; i++) {
            plan_free(plan->steps[branch][i].nested);
        }
    }
    free(plan);
}

static struct buffer plan_bytes(const struct plan *plan) {
    struct kv_txn txn;
    struct buffer bytes;
    kv_txn_init(&txn);
    buffer_init(&bytes);
    for (size_t i = 0; i < plan->compare_count; i++) {
        kv_txn_compare(&txn, &plan->compares[i]);
    }
    for (size_t branch = 0; branch < 2; branch++) {
        for (size_t i = 0; i < plan->counts[branch]; i++) {
            struct kv_step step = plan->steps[branch][i].step;
            struct buffer inner = {0};
            if (step.op == KV_TXN) {
                inner = plan_bytes(plan->steps[branch][i].nested);
                step.txn = buffer_slice(&inner);
            }
            kv_txn_step(&txn, branch, &step);
            buffer_fini(&inner);
        }
    }
    kv_txn_write(&txn, &bytes);
    kv_txn_fini(&txn);
    return bytes;
}

/* ---------------------------------------------------------------------------- what must not be said */

/* A change, and the branches and operations that lead to it. */
struct leaf {
    const struct kv_step *step;
    size_t way[8], length;
};
struct leaves {
    struct leaf items[4096];
    size_t count;
};

static void collect(const struct plan *plan, struct leaves *leaves, struct leaf way) {
    for (size_t branch = 0; branch < 2; branch++) {
        for (size_t i = 0; i < plan->counts[branch]; i++) {
            const struct plan_step *step = &plan->steps[branch][i];
            struct leaf leaf = way;
            leaf.way[leaf.length++] = branch;
            leaf.way[leaf.length++] = i;
            leaf.step = &step->step;
            if (step->nested != NULL) {
                collect(step->nested, leaves, leaf);
            } else if (step->step.op != KV_RANGE) {
                leaves->items[leaves->count++] = leaf;
            }
        }
    }
}

static bool covers(const struct kv_step *step, struct slice key) {
    if (step->end.size == 0) {
        return slice_equal(step->key, key);
    }
    return slice_compare(step->key, key) <= 0 &&
           (end_is_open(step->end) || slice_compare(key, step->end) < 0);
}

/* Not both of them can be carried out. */
static bool exclude(const struct leaf *a, const struct leaf *b) {
    size_t at = 0;
    while (a->way[at] == b->way[at]) {
        at++;
    }
    return at % 2 == 0; /* the same operation up to there, and then another branch */
}

static bool changes_twice(const struct plan *plan) {
    static struct leaves leaves;
    leaves.count = 0;
    collect(plan, &leaves, (struct leaf){.length = 0});
    for (size_t i = 0; i < leaves.count; i++) {
        for (size_t j = 0; j < leaves.count; j++) {
            const struct leaf *put = &leaves.items[i], *other = &leaves.items[j];
            if (i != j && put->step->op != KV_DELETE && covers(other->step, put->step->key) &&
                !exclude(put, other)) {
                return true;
            }
        }
    }
    return false;
}

static bool step_is_odd(const struct plan_step *step);

static bool plan_is_odd(const struct plan *plan) {
    for (size_t branch = 0; branch < 2; branch++) {
        for (size_t i = 0; i < plan->counts[branch]; i++) {
            if (step_is_odd(&plan->steps[branch][i])) {
                return true;
            }
        }
    }
    return false;
}

static bool step_is_odd(const struct plan_step *step) {
    const struct kv_step *s = &step->step;
    bool needs_key = (s->flags & (KV_KEEP_VALUE | KV_KEEP_LEASE)) || s->if_rev != 0;
    return step->nested != NULL ? plan_is_odd(step->nested)
                                : (s->flags & KV_IF_ABSENT) && needs_key;
}

/* ---------------------------------------------------------------------------- the naive run */

static bool relates(enum kv_relation relation, int order) {
    return relation == KV_EQUAL       ? order == 0
           : relation == KV_NOT_EQUAL ? order != 0
           : relation == KV_LESS      ? order < 0
                                      : order > 0;
}

static bool holds_for(const struct kv_compare *compare, const struct naive_key *key) {
    if (compare->field == KV_FIELD_VALUE) {
        return key != NULL &&
               relates(compare->relation, slice_compare(blob_slice(key->value), compare->value));
    }
    const uint64_t fields[] = {0,
                               key != NULL ? key->create_rev : 0,
                               key != NULL ? key->mod_rev : 0,
                               key != NULL ? key->version : 0,
                               key != NULL ? (uint64_t)key->lease : 0,
                               key != NULL};
    uint64_t number = fields[compare->field];
    return relates(compare->relation, (number > compare->number) - (number < compare->number));
}

static bool naive_holds(const struct naive *naive, const struct plan *plan) {
    for (size_t i = 0; i < plan->compare_count; i++) {
        size_t from;
        size_t count = naive_span(naive, plan->compares[i].key, plan->compares[i].end, &from);
        bool held = count > 0 || holds_for(&plan->compares[i], NULL);
        for (size_t k = 0; k < count; k++) {
            held = held && holds_for(&plan->compares[i], &naive->keys[from + k]);
        }
        if (!held) {
            return false;
        }
    }
    return true;
}

static const struct naive_key *find(const struct naive *naive, struct slice key) {
    size_t at = naive_lower(naive, key);
    return naive_has(naive, at, key) ? &naive->keys[at] : NULL;
}

static int naive_sum(const struct naive_key *key, int64_t delta, int64_t *sum) {
    long long number = 0;
    if (key != NULL) {
        char text[TEXT] = "", again[TEXT];
        memcpy(text, key->value->data, key->value->size);
        (void)sscanf(text, "%lld", &number);
        (void)snprintf(again, sizeof(again), "%lld", number);
        if (strcmp(text, again) != 0) {
            return LKV_ENUMBER;
        }
    }
    return __builtin_add_overflow(number, delta, sum) ? LKV_EOVERFLOW : 0;
}

static int check_step(const struct pair *pair, const struct kv_step *step) {
    const struct naive_key *old = find(&pair->naive, step->key);
    int64_t sum;
    if (step->op == KV_RANGE) {
        uint64_t revision = step->query.revision;
        return revision > pair->naive.revision               ? LKV_EFUTURE
               : revision != 0 && revision < pair->kept_from ? LKV_ECOMPACTED
                                                             : 0;
    }
    if (step->op == KV_ADD) {
        return naive_sum(old, step->delta, &sum);
    }
    if (step->lease > 2) {
        return LKV_ELEASE;
    }
    if (step->if_rev != 0 && (old == NULL || old->mod_rev != step->if_rev)) {
        return LKV_ECOMPARE;
    }
    if ((step->flags & KV_IF_ABSENT) && old != NULL) {
        return LKV_ECOMPARE;
    }
    return (step->flags & (KV_KEEP_VALUE | KV_KEEP_LEASE)) && old == NULL ? LKV_ENOTFOUND : 0;
}

static int naive_check(const struct pair *pair, const struct plan *plan) {
    bool branch = naive_holds(&pair->naive, plan);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < plan->counts[branch]; i++) {
        const struct plan_step *step = &plan->steps[branch][i];
        rc = step->nested != NULL ? naive_check(pair, step->nested) : check_step(pair, &step->step);
    }
    return rc;
}

static void expect_items(const struct naive *naive, size_t from, size_t count,
                         const struct kv_answer *answer) {
    cr_assert_eq(answer->count, count);
    for (size_t i = 0; i < count; i++) {
        cr_assert(naive_equal(&naive->keys[from + i], &answer->items[i], false));
    }
}

static void expect_range(const struct naive *naive, const struct kv_step *step,
                         const struct kv_answer *answer) {
    struct kv_query query = step->query;
    char next[TEXT + 1] = "";
    query.from = step->key;
    query.to = end_is_open(step->end) ? (struct slice){0} : step->end;
    if (step->end.size == 0) {
        memcpy(next, step->key.data, step->key.size);
        query.to = slice_of(next, step->key.size + 1);
    }
    struct naive_page page = naive_query(naive, &query);
    cr_assert(answer->count == page.count && answer->total == page.total &&
              answer->more == page.more);
    for (size_t i = 0; i < page.count; i++) {
        cr_assert(naive_equal(page.keys[i], &answer->items[i], query.keys_only));
    }
    free(page.keys);
}

static void do_put(struct naive *now, const struct kv_step *step) {
    const struct naive_key *old = find(now, step->key);
    struct slice value = (step->flags & KV_KEEP_VALUE) ? blob_slice(old->value) : step->value;
    naive_set(now, step->key, value, (step->flags & KV_KEEP_LEASE) ? old->lease : step->lease);
}

static void do_add(struct naive *now, const struct kv_step *step, const struct kv_answer *answer) {
    const struct naive_key *old = find(now, step->key);
    char text[TEXT];
    int64_t sum;
    cr_assert_eq(naive_sum(old, step->delta, &sum), 0);
    cr_assert_eq(answer->number, sum);
    (void)snprintf(text, sizeof(text), "%lld", (long long)sum);
    naive_set(now, step->key, slice_text(text), old != NULL ? old->lease : 0);
}

/* Carries it out on `now`, whose revision has risen already, and compares the answers. */
static void naive_run(struct pair *pair, struct naive *now, const struct plan *plan,
                      const struct kv_answer *answer, size_t *changes) {
    bool branch = naive_holds(&pair->naive, plan);
    cr_assert_eq(answer->held, branch);
    cr_assert_eq(answer->answer_count, plan->counts[branch]);
    for (size_t i = 0; i < plan->counts[branch]; i++) {
        const struct kv_step *step = &plan->steps[branch][i].step;
        const struct kv_answer *one = &answer->answers[i];
        cr_assert_eq(one->op, step->op);
        if (step->op == KV_TXN) {
            naive_run(pair, now, plan->steps[branch][i].nested, one, changes);
            continue;
        }
        if (step->op == KV_RANGE) {
            uint64_t revision = step->query.revision;
            const struct naive *state = revision == 0 ? now
                                        : revision == pair->naive.revision
                                            ? &pair->naive
                                            : &pair->before[revision % 8];
            cr_assert(revision == 0 || state->revision == revision);
            expect_range(state, step, one);
            continue;
        }
        size_t from;
        size_t count = naive_span(now, step->key, step->end, &from);
        expect_items(now, from, (step->flags & KV_PREVIOUS) ? count : 0, one);
        if (step->op == KV_DELETE) {
            cr_assert_eq(one->total, count);
            naive_erase(now, from, count);
            *changes += count;
            continue;
        }
        *changes += 1;
        if (step->op == KV_PUT) {
            do_put(now, step);
        } else {
            do_add(now, step, one);
        }
    }
}

/* ---------------------------------------------------------------------------- both */

static void remember(struct pair *pair) {
    struct naive *slot = &pair->before[pair->naive.revision % 8];
    naive_free(slot);
    *slot = naive_copy(&pair->naive);
}

static void expect_state(struct pair *pair) {
    const struct kv_query all = {0};
    struct kv_range range;
    cr_assert_eq(kv_range(pair->feed.kv, &all, &range), 0);
    cr_assert_eq(range.stamp.revision, pair->naive.revision);
    cr_assert_eq(range.count, pair->naive.count);
    uint64_t bytes = 0;
    for (size_t i = 0; i < range.count; i++) {
        cr_assert(naive_equal(&pair->naive.keys[i], &range.items[i], false));
        bytes += range.items[i].key.size + range.items[i].value.size;
    }
    kv_range_fini(&range);
    struct kv_stats stats;
    kv_stats(pair->feed.kv, &stats);
    cr_assert(stats.keys == pair->naive.count && stats.bytes == bytes);
}

static void carry_out(struct pair *pair, const struct plan *plan, struct slice program) {
    const struct kv_command command = {.op = KV_TXN, .txn = program};
    cr_assert_eq(feed_command(&pair->feed, &command), 0);
    struct kv_result *result = &pair->feed.result;
    int rc = naive_check(pair, plan);
    cr_assert_eq(result->rc, rc);
    if (rc == 0) {
        struct naive now = naive_copy(&pair->naive);
        size_t changes = 0;
        now.revision++;
        naive_run(pair, &now, plan, result->answer, &changes);
        now.revision -= changes == 0;
        naive_free(&pair->naive);
        pair->naive = now;
    }
    pair->failed += rc != 0;
    pair->done += rc == 0;
    cr_assert_eq(result->revision, pair->naive.revision);
    kv_result_fini(result);
    remember(pair);
}

static void one_transaction(struct pair *pair) {
    struct plan *plan = random_plan(pair, 1);
    struct buffer program = plan_bytes(plan);
    struct reason why = {{0}};
    int rc = kv_txn_check(buffer_slice(&program), &why);
    bool refused = changes_twice(plan) || plan_is_odd(plan);
    cr_assert_eq(rc, refused ? LKV_EINVAL : 0, "%s", why.text);
    if (rc == 0) {
        carry_out(pair, plan, buffer_slice(&program));
    }
    pair->refused += refused;
    buffer_fini(&program);
    plan_free(plan);
}

/* Only the newest few states are remembered. */
static void compact(struct pair *pair) {
    uint64_t revision = pair->naive.revision;
    if (revision > 4 && revision - 4 > pair->kept_from) {
        const struct kv_command command = {.op = KV_COMPACT, .revision = revision - 4};
        cr_assert_eq(feed_command(&pair->feed, &command), 0);
        cr_assert_eq(pair->feed.result.rc, 0);
        pair->kept_from = revision - 4;
    }
}

Test(kv_txn_model, agrees_with_the_naive_one) {
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct pair pair = {.feed = feed_open_history(seed),
                            .naive = naive_new(),
                            .prng = prng_of(seed),
                            .kept_from = 1};
        remember(&pair);
        must_grant(&pair.feed, 1, 1000);
        must_grant(&pair.feed, 2, 1000);
        for (int step = 0; step < 4000; step++) {
            one_transaction(&pair);
            compact(&pair);
            if (step % 8 == 0) {
                expect_state(&pair);
            }
        }
        cr_assert(pair.refused > 200 && pair.failed > 200 && pair.done > 1000, "%zu %zu %zu",
                  pair.refused, pair.failed, pair.done);
        for (size_t i = 0; i < 8; i++) {
            naive_free(&pair.before[i]);
        }
        naive_free(&pair.naive);
        feed_close(&pair.feed);
    }
}
