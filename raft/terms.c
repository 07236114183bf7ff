#include "raft/terms.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

bool terms_init(struct terms *terms, const struct raft_run *runs, size_t count) {
    *terms = (struct terms){0};
    if (count == 0) {
        return true;
    }
    struct raft_run *copy = mem_array_grow(NULL, &terms->capacity, count, sizeof *copy);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, runs, count * sizeof *copy);
    terms->runs = copy;
    terms->count = count;
    return true;
}

void terms_fini(struct terms *terms) {
    mem_free(terms->runs);
    *terms = (struct terms){0};
}

/* How many runs start at or below `index`; the last of them holds it. */
static size_t runs_up_to(const struct terms *terms, uint64_t index) {
    size_t low = 0, high = terms->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (terms->runs[middle].first <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t terms_at(const struct terms *terms, uint64_t index) {
    size_t n = terms->count;
    if (n > 0 && terms->runs[n - 1].first <= index) { /* nearly always */
        return terms->runs[n - 1].term;
    }
    n = runs_up_to(terms, index);
    return n > 0 ? terms->runs[n - 1].term : 0;
}

bool terms_push(struct terms *terms, uint64_t first, uint64_t term) {
    if (terms->count > 0) {
        const struct raft_run *newest = &terms->runs[terms->count - 1];
        ASSERT(newest->first < first && newest->term <= term);
        if (newest->term == term) {
            return true;
        }
    }
    struct raft_run *grown =
        mem_array_grow(terms->runs, &terms->capacity, terms->count + 1, sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    terms->runs = grown;
    terms->runs[terms->count++] = (struct raft_run){.first = first, .term = term};
    return true;
}

bool terms_set(struct terms *terms, uint64_t first, uint64_t last, uint64_t term, uint64_t end) {
    struct terms old = *terms;
    *terms = (struct terms){0};
    bool ok = true;
    size_t i = 0;
    for (; i < old.count && old.runs[i].first < first; i++) {
        ok = ok && terms_push(terms, old.runs[i].first, old.runs[i].term);
    }
    ok = ok && terms_push(terms, first, term);
    if (last < end) {
        uint64_t behind = terms_at(&old, last + 1);
        ok = ok && terms_push(terms, last + 1, behind > term ? behind : term);
    }
    for (; i < old.count; i++) {
        if (old.runs[i].first > last + 1 && old.runs[i].term >= term) {
            ok = ok && terms_push(terms, old.runs[i].first, old.runs[i].term);
        }
    }
    terms_fini(&old);
    return ok;
}

void terms_cut(struct terms *terms, uint64_t from) {
    terms->count = from > 0 ? runs_up_to(terms, from - 1) : 0;
}

void terms_drop_below(struct terms *terms, uint64_t first) {
    size_t n = runs_up_to(terms, first);
    if (n == 0) {
        return;
    }
    size_t gone = n - 1; /* the run that holds `first` stays, from there on */
    memmove(terms->runs, terms->runs + gone, (terms->count - gone) * sizeof *terms->runs);
    terms->count -= gone;
    terms->runs[0].first = first;
}

void terms_clear(struct terms *terms) {
    terms->count = 0;
}

uint64_t terms_run_first(const struct terms *terms, uint64_t index) {
    size_t n = runs_up_to(terms, index);
    return n > 0 ? terms->runs[n - 1].first : 0;
}

uint64_t terms_last_of(const struct terms *terms, uint64_t term, uint64_t limit) {
    size_t n = runs_up_to(terms, limit);
    uint64_t end = limit;
    while (n > 0 && terms->runs[n - 1].term > term) {
        end = terms->runs[n - 1].first - 1;
        n--;
    }
    return n > 0 && terms->runs[n - 1].term == term ? end : 0;
}

uint64_t terms_last_up_to(const struct terms *terms, uint64_t term, uint64_t limit) {
    size_t n = runs_up_to(terms, limit);
    uint64_t end = limit;
    while (n > 0 && terms->runs[n - 1].term > term) {
        end = terms->runs[n - 1].first - 1;
        n--;
    }
    return n > 0 ? end : 0;
}
