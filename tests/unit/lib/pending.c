/* Rule 28: each request that waits for its entry is finished exactly once, and says only what is
 * known. */
#include "lib/pending.h"

#include "base/mem.h"
#include "base/prng.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* What became of one request. */
struct fate {
    int finishes;
    int rc;
    char text[200];
    uint64_t index, term, deadline; /* the naive model's */
    bool waiting;
};

static void on_finish(struct request *request) {
    struct fate *fate = request->owner;
    fate->finishes++;
    fate->rc = lkv_msg_rc(request->reply);
    (void)snprintf(fate->text, sizeof(fate->text), "%s", lkv_msg_text(request->reply));
}

static struct request *new_request(struct fate *fate) {
    struct request *request = request_new(REQUEST_WRITE);
    cr_assert_not_null(request);
    *fate = (struct fate){.rc = 1};
    request->owner = fate;
    request->on_finish = on_finish;
    request->cost = 100;
    return request;
}

static void add(struct pending *pending, struct fate *fate, uint64_t index, uint64_t term) {
    cr_assert_eq(pending_reserve(pending, 1), 0);
    pending_add(pending, new_request(fate), index, term);
}

/* Applies (index, term) as the node does. */
static bool apply(struct pending *pending, uint64_t index, uint64_t term) {
    struct request *request = pending_take(pending, index, term);
    if (request == NULL) {
        return false;
    }
    cr_assert_eq(request->index, index);
    cr_assert_eq(request->term, term);
    request_finish(request);
    return true;
}

static void fini(struct pending *pending) {
    cr_assert_eq(pending->waiting, 0);
    pending_fini(pending);
}

Test(lib_pending, gives_each_waiter_to_its_entry_in_order) {
    struct pending pending;
    struct fate fates[600];
    pending_init(&pending);
    for (size_t i = 0; i < 600; i++) { /* beyond the first capacity */
        add(&pending, &fates[i], 10 + i, 3);
    }
    cr_assert_eq(pending.waiting, 600);
    for (size_t i = 0; i < 600; i++) {
        cr_assert(apply(&pending, 10 + i, 3));
        cr_assert_eq(fates[i].finishes, 1);
        cr_assert_eq(fates[i].rc, 0);
    }
    fini(&pending);
}

Test(lib_pending, knows_nothing_of_entries_without_a_waiter) {
    struct pending pending;
    struct fate fate;
    pending_init(&pending);
    cr_assert_not(apply(&pending, 1, 1));
    add(&pending, &fate, 5, 1);
    cr_assert_not(apply(&pending, 4, 1));
    cr_assert_eq(fate.finishes, 0);
    cr_assert(apply(&pending, 5, 1));
    cr_assert_not(apply(&pending, 5, 1), "only once");
    fini(&pending);
}

Test(lib_pending, bears_holes_of_own_entries) {
    struct pending pending;
    struct fate fates[2];
    pending_init(&pending);
    add(&pending, &fates[0], 5, 1);
    add(&pending, &fates[1], 7, 1);
    cr_assert(apply(&pending, 5, 1));
    cr_assert_not(apply(&pending, 6, 1));
    cr_assert(apply(&pending, 7, 1));
    fini(&pending);
}

Test(lib_pending, an_orphan_is_done_when_its_own_entry_is_applied) {
    struct pending pending;
    struct fate fate;
    pending_init(&pending);
    add(&pending, &fate, 5, 1);
    pending_orphan(&pending);
    cr_assert_eq(fate.finishes, 0);
    cr_assert(apply(&pending, 5, 1));
    cr_assert_eq(fate.rc, 0);
    fini(&pending);
}

Test(lib_pending, an_orphan_is_not_done_when_another_entry_took_its_index) {
    struct pending pending;
    struct fate fate;
    pending_init(&pending);
    add(&pending, &fate, 5, 1);
    pending_orphan(&pending);
    cr_assert_not(apply(&pending, 5, 2));
    cr_assert_eq(fate.finishes, 1);
    cr_assert_eq(fate.rc, LKV_ENOTLEADER);
    cr_assert_eq(lkv_outcome(fate.rc), LKV_NOT_DONE);
    cr_assert_not_null(strstr(fate.text, "index 5"), "%s", fate.text);
    fini(&pending);
}

/* Led term 1, lost it, leads term 3: both terms' waiters may stand at the same index. */
Test(lib_pending, tells_two_terms_at_one_index_apart) {
    struct pending pending;
    struct fate earlier;
    struct fate later;
    pending_init(&pending);
    add(&pending, &earlier, 5, 1);
    pending_orphan(&pending);
    add(&pending, &later, 5, 3);
    cr_assert(apply(&pending, 5, 3));
    cr_assert_eq(earlier.rc, LKV_ENOTLEADER);
    cr_assert_eq(later.rc, 0);
    fini(&pending);
}

Test(lib_pending, keeps_orphans_of_several_terms_in_the_order_of_indices) {
    struct pending pending;
    struct fate fates[6];
    pending_init(&pending);
    for (size_t i = 0; i < 3; i++) {
        add(&pending, &fates[i], 7 + i, 1);
    }
    pending_orphan(&pending);
    for (size_t i = 3; i < 6; i++) {
        add(&pending, &fates[i], 3 + i, 4); /* 6, 7, 8: below those of term 1 */
    }
    pending_orphan(&pending);
    cr_assert(apply(&pending, 6, 4));
    cr_assert(apply(&pending, 7, 4));
    cr_assert_eq(fates[0].rc, LKV_ENOTLEADER);
    cr_assert_not(apply(&pending, 8, 5));
    cr_assert_eq(fates[1].rc, LKV_ENOTLEADER);
    cr_assert_eq(fates[5].rc, LKV_ENOTLEADER);
    cr_assert_eq(fates[2].finishes, 0);
    cr_assert(apply(&pending, 9, 1));
    fini(&pending);
}

Test(lib_pending, what_an_image_covers_is_unknown) {
    struct pending pending;
    struct fate fates[3];
    pending_init(&pending);
    for (size_t i = 0; i < 3; i++) {
        add(&pending, &fates[i], 5 + i, 1);
    }
    pending_skip(&pending, 6);
    cr_assert_eq(fates[0].rc, LKV_EUNKNOWN);
    cr_assert_eq(fates[1].rc, LKV_EUNKNOWN);
    cr_assert_eq(fates[2].finishes, 0);
    cr_assert(apply(&pending, 7, 1));
    fini(&pending);
}

/* C6: a deadline of something appended is unknown, never a failure. */
Test(lib_pending, what_is_past_its_deadline_is_unknown) {
    struct pending pending;
    struct fate fates[3];
    pending_init(&pending);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(pending_reserve(&pending, 1), 0);
        struct request *request = new_request(&fates[i]);
        request->deadline_ns = i < 2 ? 100 * (i + 1) : UINT64_MAX;
        pending_add(&pending, request, 5 + i, 1);
    }
    cr_assert_eq(pending_expire(&pending, 99), 100);
    cr_assert_eq(pending_expire(&pending, 100), 200);
    cr_assert_eq(fates[0].rc, LKV_EUNKNOWN);
    cr_assert_eq(lkv_outcome(fates[0].rc), LKV_UNKNOWN);
    cr_assert_not_null(strstr(fates[0].text, "entry 5 of term 1"), "%s", fates[0].text);
    cr_assert_not(apply(&pending, 5, 1), "its entry comes all the same");
    pending_orphan(&pending);
    cr_assert_eq(pending_expire(&pending, 200), UINT64_MAX);
    cr_assert_eq(fates[1].rc, LKV_EUNKNOWN);
    cr_assert_eq(fates[2].finishes, 0);
    cr_assert(apply(&pending, 7, 1));
    fini(&pending);
}

/* X-A12: what was appended when the node is closed, or stops, is unknown, and says why. */
Test(lib_pending, at_the_end_everything_is_unknown) {
    struct pending pending;
    struct fate fates[4];
    pending_init(&pending);
    add(&pending, &fates[0], 5, 1);
    add(&pending, &fates[1], 6, 1);
    pending_orphan(&pending);
    add(&pending, &fates[2], 6, 2);
    add(&pending, &fates[3], 9, 2);
    pending_fail_all(&pending, "n1 was closed");
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(fates[i].finishes, 1);
        cr_assert_eq(fates[i].rc, LKV_EUNKNOWN);
        cr_assert_not_null(strstr(fates[i].text, "n1 was closed; entry"), "%s", fates[i].text);
    }
    pending_fail_all(&pending, "again");
    fini(&pending);
}

/* S28: no memory is asked for where it could not be refused. */
Test(lib_pending, only_reserving_asks_for_memory) {
    struct pending pending;
    pending_init(&pending);
    mem_fail_after(0);
    int rc = pending_reserve(&pending, 1);
    mem_fail_never();
    cr_assert_eq(rc, LKV_ENOMEM);
    cr_assert_eq(pending_reserve(&pending, 1000), 0);
    static struct fate fates[1000];
    struct request *requests[1000];
    for (size_t i = 0; i < 1000; i++) {
        requests[i] = new_request(&fates[i]);
    }
    mem_fail_after(0);
    for (size_t i = 0; i < 1000; i++) {
        pending_add(&pending, requests[i], 1 + i, 1);
    }
    pending_orphan(&pending);
    for (size_t i = 0; i < 1000; i++) {
        struct request *request = pending_take(&pending, 1 + i, 1);
        cr_assert_eq(request, requests[i]);
        request_finish(request);
    }
    mem_fail_never();
    fini(&pending);
}

/* ------------------------------------------------------------------ against a naive model */

enum { FATES = 4000, LOG = 4000 };

struct model {
    struct pending pending;
    struct fate *fates;
    size_t count;
    uint64_t log[LOG]; /* term of each index */
    uint64_t last, applied, term, now;
    bool leading;
};

static void expect(struct fate *fate, int rc) {
    cr_assert_eq(fate->finishes, 1);
    cr_assert_eq(fate->rc, rc, "%d, not %d: %s", fate->rc, rc, fate->text);
    fate->waiting = false;
}

static void append(struct model *model, struct prng *prng) {
    size_t more = 1 + prng_below(prng, 20);
    if (!model->leading || model->count + more > FATES || model->last + more >= LOG) {
        return;
    }
    cr_assert_eq(pending_reserve(&model->pending, more), 0);
    for (size_t i = 0; i < more; i++) {
        struct fate *fate = &model->fates[model->count++];
        struct request *request = new_request(fate);
        request->deadline_ns =
            prng_below(prng, 3) == 0 ? model->now + prng_below(prng, 50) : UINT64_MAX;
        fate->index = ++model->last;
        fate->term = model->log[model->last] = model->term;
        fate->deadline = request->deadline_ns;
        fate->waiting = true;
        pending_add(&model->pending, request, fate->index, fate->term);
    }
}

/* Leadership is lost: a part of what was not applied is overwritten by another leader's entries. */
static void lose(struct model *model, struct prng *prng) {
    if (model->leading) {
        pending_orphan(&model->pending);
        model->leading = false;
    }
    model->term++;
    uint64_t kept = model->applied + prng_below(prng, model->last - model->applied + 1);
    uint64_t fresh = prng_below(prng, 5);
    model->last = kept;
    for (uint64_t i = 0; i < fresh && model->last + 1 < LOG; i++) {
        model->log[++model->last] = model->term;
    }
}

static void win(struct model *model) {
    if (!model->leading && model->last + 1 < LOG) {
        model->leading = true;
        model->log[++model->last] = ++model->term; /* the no-op, without a waiter */
    }
}

static void apply_some(struct model *model, struct prng *prng) {
    uint64_t to = model->applied + prng_below(prng, model->last - model->applied + 1);
    while (model->applied < to) {
        uint64_t index = ++model->applied;
        (void)apply(&model->pending, index, model->log[index]);
        for (size_t i = 0; i < model->count; i++) {
            struct fate *fate = &model->fates[i];
            if (fate->waiting && fate->index == index) {
                expect(fate, fate->term == model->log[index] ? 0 : LKV_ENOTLEADER);
            }
        }
    }
}

static void skip(struct model *model, struct prng *prng) {
    if (model->leading) {
        return;
    }
    uint64_t to = model->applied + prng_below(prng, model->last - model->applied + 1);
    pending_skip(&model->pending, to);
    model->applied = to;
    for (size_t i = 0; i < model->count; i++) {
        if (model->fates[i].waiting && model->fates[i].index <= to) {
            expect(&model->fates[i], LKV_EUNKNOWN);
        }
    }
}

static void expire(struct model *model, uint64_t now) {
    uint64_t earliest = pending_expire(&model->pending, now);
    uint64_t left = UINT64_MAX;
    for (size_t i = 0; i < model->count; i++) {
        struct fate *fate = &model->fates[i];
        if (fate->waiting && fate->deadline <= now) {
            expect(fate, LKV_EUNKNOWN);
        } else if (fate->waiting && fate->deadline < left) {
            left = fate->deadline;
        }
    }
    cr_assert_eq(earliest, left);
}

static void check(const struct model *model) {
    size_t waiting = 0;
    for (size_t i = 0; i < model->count; i++) {
        waiting += model->fates[i].waiting;
        cr_assert_eq(model->fates[i].finishes, model->fates[i].waiting ? 0 : 1, "request %zu", i);
    }
    cr_assert_eq(model->pending.waiting, waiting);
}

Test(lib_pending, agrees_with_a_naive_model, .timeout = 100) {
    for (uint64_t seed = 0; seed < 150; seed++) {
        struct prng prng = prng_of(seed);
        struct model *model = calloc(1, sizeof(*model));
        model->fates = calloc(FATES, sizeof(*model->fates));
        pending_init(&model->pending);
        for (int i = 0; i < 300; i++) {
            switch (prng_below(&prng, 12)) {
            case 0: lose(model, &prng); break;
            case 1:
            case 2: win(model); break;
            case 3: skip(model, &prng); break;
            case 4: expire(model, model->now += prng_below(&prng, 30)); break;
            case 5:
            case 6:
            case 7: apply_some(model, &prng); break;
            default: append(model, &prng); break;
            }
            check(model);
        }
        pending_fail_all(&model->pending, "closed");
        for (size_t i = 0; i < model->count; i++) {
            if (model->fates[i].waiting) {
                expect(&model->fates[i], LKV_EUNKNOWN);
            }
        }
        check(model);
        fini(&model->pending);
        free(model->fates);
        free(model);
    }
}
