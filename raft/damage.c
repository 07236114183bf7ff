#include "raft/damage.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

void damage_fini(struct damage *gaps) {
    mem_free(gaps->items);
    *gaps = (struct damage){0};
}

/* ------------------------------------------------------------------ questions */

static size_t position(const struct damage *gaps, uint64_t index) {
    size_t low = 0, high = gaps->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gaps->items[middle].last < index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct gap *damage_from(const struct damage *gaps, uint64_t index) {
    size_t at = position(gaps, index);
    return at < gaps->count ? &gaps->items[at] : NULL;
}

struct gap *damage_at(const struct damage *gaps, uint64_t index) {
    struct gap *gap = damage_from(gaps, index);
    return gap != NULL && gap->first <= index ? gap : NULL;
}

struct gap *damage_unknown_at(const struct damage *gaps, uint64_t index) {
    struct gap *gap = damage_at(gaps, index);
    return gap != NULL && gap->unknown_from <= index && index < gap->last ? gap : NULL;
}

/* ------------------------------------------------------------------ changes */

static bool insert(struct damage *gaps, size_t at, struct gap gap) {
    struct gap *items =
        mem_array_grow(gaps->items, &gaps->capacity, gaps->count + 1, sizeof *items);
    if (items == NULL) {
        return false;
    }
    gaps->items = items;
    memmove(items + at + 1, items + at, (gaps->count - at) * sizeof *items);
    items[at] = gap;
    gaps->count++;
    return true;
}

static void erase(struct damage *gaps, size_t at, size_t count) {
    if (count == 0) {
        return; /* there may be no items at all */
    }
    gaps->count -= count;
    memmove(gaps->items + at, gaps->items + at + count, (gaps->count - at) * sizeof *gaps->items);
}

bool damage_add(struct damage *gaps, uint64_t first, uint64_t last,
                uint64_t (*term_of)(void *arg, uint64_t index), void *arg) {
    while (first <= last) {
        size_t at = position(gaps, first);
        const struct gap *next = at < gaps->count ? &gaps->items[at] : NULL;
        if (next != NULL && next->first <= first) {
            first = next->last + 1;
            continue;
        }
        uint64_t end = next != NULL && next->first <= last ? next->first - 1 : last;
        struct gap gap = {
            .first = first, .last = end, .last_term = term_of(arg, end), .unknown_from = end};
        if (!insert(gaps, at, gap)) {
            return false;
        }
        first = end + 1;
    }
    return true;
}

bool damage_push(struct damage *gaps, struct gap gap) {
    ASSERT(gap.first <= gap.last && gap.first <= gap.unknown_from && gap.unknown_from <= gap.last);
    ASSERT(gaps->count == 0 || gaps->items[gaps->count - 1].last < gap.first);
    return insert(gaps, gaps->count, gap);
}

bool damage_split(struct damage *gaps, struct gap *gap, uint64_t index, uint64_t term) {
    ASSERT(gap->first <= index && index < gap->last);
    size_t at = (size_t)(gap - gaps->items);
    struct gap rest = *gap;
    rest.first = index + 1;
    rest.unknown_from = rest.unknown_from > rest.first ? rest.unknown_from : rest.first;
    gap->last = index;
    gap->last_term = term;
    gap->unknown_from = gap->unknown_from < index ? gap->unknown_from : index;
    return insert(gaps, at + 1, rest);
}

void damage_cut(struct damage *gaps, uint64_t from, uint64_t prev_term) {
    size_t at = position(gaps, from);
    if (at < gaps->count && gaps->items[at].first < from) {
        struct gap *gap = &gaps->items[at++];
        gap->last = from - 1;
        gap->last_term = prev_term;
        gap->unknown_from = gap->unknown_from < gap->last ? gap->unknown_from : gap->last;
    }
    gaps->count = at;
}

void damage_drop_below(struct damage *gaps, uint64_t first) {
    erase(gaps, 0, position(gaps, first));
    if (gaps->count > 0 && gaps->items[0].first < first) {
        struct gap *gap = &gaps->items[0];
        gap->first = first;
        gap->unknown_from = gap->unknown_from > first ? gap->unknown_from : first;
    }
}

void damage_filled(struct damage *gaps, uint64_t first, uint64_t last) {
    size_t at = position(gaps, first);
    size_t gone = 0;
    while (at + gone < gaps->count && gaps->items[at + gone].last <= last) {
        gone++;
    }
    erase(gaps, at, gone);
    if (at < gaps->count && gaps->items[at].first <= last) {
        struct gap *gap = &gaps->items[at];
        gap->first = last + 1;
        gap->unknown_from = gap->unknown_from > gap->first ? gap->unknown_from : gap->first;
    }
}
