#include "log/terms.h"

#include "base/assert.h"
#include "base/mem.h"

void log_terms_restart(struct log_terms *terms, uint64_t base_index, uint64_t base_term) {
    terms->count = 0;
    terms->base_index = terms->last = base_index;
    terms->base_term = base_term;
}

void log_terms_fini(struct log_terms *terms) {
    mem_free(terms->runs);
    *terms = (struct log_terms){0};
}

int log_terms_reserve(struct log_terms *terms, size_t more) {
    struct log_run *grown =
        mem_array_grow(terms->runs, &terms->capacity, terms->count + more, sizeof(*grown));
    if (grown == NULL) {
        return LKV_ENOMEM;
    }
    terms->runs = grown;
    return 0;
}

void log_terms_push(struct log_terms *terms, uint64_t index, uint64_t term) {
    ASSERT(index == terms->last + 1);
    terms->last = index;
    if (terms->count > 0 && terms->runs[terms->count - 1].term == term) {
        return;
    }
    ASSERT(terms->count < terms->capacity);
    terms->runs[terms->count++] = (struct log_run){.first = index, .term = term};
}

void log_terms_skip(struct log_terms *terms, uint64_t last, uint64_t last_term) {
    ASSERT(last > terms->last);
    uint64_t term = log_terms_at(terms, terms->last);
    if (last > terms->last + 1) {
        log_terms_push(terms, terms->last + 1, term != 0 ? term : last_term);
        terms->last = last - 1;
    }
    log_terms_push(terms, last, last_term);
}

void log_terms_cut(struct log_terms *terms, uint64_t from) {
    ASSERT(from > terms->base_index);
    while (terms->count > 0 && terms->runs[terms->count - 1].first >= from) {
        terms->count--;
    }
    if (from <= terms->last) {
        terms->last = from - 1;
    }
}

/* The run that holds `index`, which is above the base. */
static size_t run_of(const struct log_terms *terms, uint64_t index) {
    size_t low = 0, high = terms->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (terms->runs[middle].first <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

void log_terms_trim(struct log_terms *terms, uint64_t first) {
    if (first <= terms->base_index + 1) {
        return;
    }
    ASSERT(first <= terms->last + 1);
    uint64_t term = log_terms_at(terms, first - 1);
    if (first > terms->last) {
        log_terms_restart(terms, first - 1, term);
        return;
    }
    size_t run = run_of(terms, first);
    memmove(terms->runs, terms->runs + run, (terms->count - run) * sizeof(*terms->runs));
    terms->count -= run;
    terms->runs[0].first = first;
    terms->base_index = first - 1;
    terms->base_term = term;
}

void log_terms_begin(struct log_terms *terms, uint64_t first, uint64_t before_term) {
    log_terms_trim(terms, first);
    terms->base_term = before_term;
    size_t low = 0;
    while (low < terms->count && terms->runs[low].term < before_term) {
        terms->runs[low++].term = before_term;
    }
    size_t same = low < terms->count && terms->runs[low].term == before_term ? low + 1 : low;
    if (same > 1) {
        memmove(terms->runs + 1, terms->runs + same, (terms->count - same) * sizeof(*terms->runs));
        terms->count -= same - 1;
    }
}

static void add_run(struct log_terms_change *change, uint64_t first, uint64_t term) {
    if (change->count == 0 || change->runs[change->count - 1].term != term) {
        change->runs[change->count++] = (struct log_run){.first = first, .term = term};
    }
}

int log_terms_plan(const struct log_terms *terms, const struct entry *entries, size_t count,
                   struct log_terms_change *change) {
    uint64_t first = entries[0].index, last = entries[count - 1].index;
    change->count = 0;
    change->capacity = terms->count + count + 2;
    change->runs = mem_calloc(change->capacity, sizeof(*change->runs));
    if (change->runs == NULL) {
        return LKV_ENOMEM;
    }
    size_t i = 0;
    for (; i < terms->count && terms->runs[i].first < first; i++) {
        add_run(change, terms->runs[i].first, terms->runs[i].term);
    }
    for (size_t n = 0; n < count; n++) {
        add_run(change, entries[n].index, entries[n].term);
    }
    if (last < terms->last) {
        add_run(change, last + 1, log_terms_at(terms, last + 1));
    }
    for (; i < terms->count; i++) {
        if (terms->runs[i].first > last + 1) {
            add_run(change, terms->runs[i].first, terms->runs[i].term);
        }
    }
    return 0;
}

void log_terms_change(struct log_terms *terms, struct log_terms_change *change) {
    mem_free(terms->runs);
    terms->runs = change->runs;
    terms->count = change->count;
    terms->capacity = change->capacity;
    *change = (struct log_terms_change){0};
}

uint64_t log_terms_at(const struct log_terms *terms, uint64_t index) {
    ASSERT(index >= terms->base_index && index <= terms->last);
    return index == terms->base_index ? terms->base_term : terms->runs[run_of(terms, index)].term;
}
