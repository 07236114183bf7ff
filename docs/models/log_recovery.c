/* Recovery as in log/recover.c and log/recover_headers.c, with cells for bytes. */
#include "log.h"

static void newer_mark(struct found *found, struct mark mark) {
    const struct mark *known = &found->mark;
    if (mark.segment > known->segment ||
        (mark.segment == known->segment && mark.index > known->index)) {
        found->mark = mark;
    }
}

bool has_header(const struct state *state, unsigned s) {
    const struct cell *cell = &state->segments[s].cache[0];
    return cell->kind == HEADER && cell->number == s + 1;
}

/* Does the cell's checksum fit this segment? */
static bool is_record(const struct state *state, unsigned s, unsigned c) {
    const struct cell *cell = &state->segments[s].cache[c];
    bool right_number = LEFT_OUT(NO_SEGMENT_NUMBERS) || cell->number == s + 1;
    return (cell->kind == RECORD || cell->kind == MARK) && right_number;
}

static void read_vote(const struct state *state, struct found *found) {
    const struct cell *a = &state->slot_cache[0], *b = &state->slot_cache[1];
    bool valid[SLOTS] = {a->kind == VOTE, b->kind == VOTE};
    if (!valid[0] && !valid[1]) {
        found->damaged = true;
        return;
    }
    /* prev_term says which of its save it was: 0 the first, 1 the second. */
    unsigned later = b->index > a->index || (b->index == a->index && b->prev_term > a->prev_term);
    unsigned best = valid[0] && valid[1] ? later : valid[1];
    found->vote_doubtful = (uint8_t)(!valid[0] ? 0 : !valid[1] ? 1 : later);
    const struct cell *vote = &state->slot_cache[best];
    found->vote_term = vote->term;
    found->saves = vote->index;
    newer_mark(found, (struct mark){vote->number, vote->mark_index, vote->mark_term});
}

static bool counts(const struct state *state, unsigned s) {
    return state->segments[s].named_cache != 0 &&
           (has_header(state, s) || !LEFT_OUT(BAD_HEADER_DISCARDED));
}

static void read_headers(const struct state *state, struct found *found) {
    uint8_t vote_mark_segment = found->mark.segment;
    for (unsigned s = 0; s < SEGMENTS; s++) {
        if (!counts(state, s)) {
            continue;
        }
        const struct cell *header = &state->segments[s].cache[0];
        found->damaged = found->damaged || !has_header(state, s); /* rules 7, 8 */
        found->highest = (uint8_t)(s + 1);
        found->newest = (uint8_t)s;
        uint8_t before = (uint8_t)(header->index - 1);
        newer_mark(found, (struct mark){(uint8_t)(s + 1), before, header->prev_term});
    }
    /* A mark that names a missing segment. */
    found->damaged = found->damaged || vote_mark_segment > found->highest;
}

/* Rule 8: passes holes, to the newest segment's end. */
static void find_mark(const struct state *state, struct found *found) {
    found->headers_end = 1;
    for (unsigned c = 1; c < CELLS; c++) {
        const struct cell *cell = &state->segments[found->newest].cache[c];
        if (is_record(state, found->newest, c)) {
            struct mark mark = {(uint8_t)(found->newest + 1), cell->mark_index, cell->mark_term};
            newer_mark(found, mark);
            found->headers_end = (uint8_t)(c + 1);
        } else if (LEFT_OUT(SCAN_STOPS_AT_HOLE)) {
            return;
        }
    }
}

unsigned bound_of(const struct state *state, unsigned s) {
    unsigned bound = INDICES + 1;
    for (unsigned later = s + 1; later < SEGMENTS; later++) {
        unsigned before = state->segments[later].cache[0].index - 1u;
        if (counts(state, later) && has_header(state, later) && before < bound) {
            bound = before;
        }
    }
    return bound;
}

static void start_at(struct found *found, unsigned index, uint8_t term) {
    found->started = true;
    found->last = (uint8_t)index;
    found->terms[index] = term;
}

static void expect(struct found *found, unsigned index, uint8_t prev_term, bool is_header) {
    if (!found->started) {
        found->started = true;
        if (index <= found->image + 1u) {
            start_at(found, index - 1, prev_term);
            return;
        }
    }
    if (index == found->last + 1u && prev_term == found->terms[found->last]) {
        return; /* rule 6 */
    }
    if (index <= found->image + 1u) {
        start_at(found, index - 1, prev_term); /* rule 14 */
        return;
    }
    unsigned missing = index < found->last + 1u ? index : found->last + 1u;
    missing = missing > found->image + 1u ? missing : found->image + 1u;
    if (missing > found->mark.index && !is_header) {
        found->stopped = true; /* torn */
    } else {
        found->damaged = true;
    }
}

static void take_cell(struct found *found, const struct cell *cell, unsigned c, bool is_newest) {
    if (!found->stopped && cell->kind == RECORD) {
        expect(found, cell->index, cell->prev_term, false);
    }
    if (found->damaged) {
        return;
    }
    if (found->stopped) {
        found->damaged = !is_newest; /* above the mark, in a segment that is below it */
        found->needs_segment = true;
        return;
    }
    found->tail = (uint8_t)(c + 1);
    if (cell->kind == RECORD) {
        found->last = cell->index;
        found->terms[cell->index] = cell->term;
        if (cell->index <= found->mark.index) {
            found->rewrite_from = (uint8_t)(c + 1);
        }
    }
}

static void walk_segment(const struct state *state, struct found *found, unsigned s) {
    const struct segment *segment = &state->segments[s];
    bool is_newest = s == found->newest;
    unsigned bound = bound_of(state, s), end = is_newest ? found->headers_end : CELLS;
    if (segment->cache[0].index > bound) {
        return; /* rule 7: dead */
    }
    expect(found, segment->cache[0].index, segment->cache[0].prev_term, true);
    found->tail = found->rewrite_from = 1;
    for (unsigned c = 1; c < end && !found->damaged; c++) {
        const struct cell *cell = &segment->cache[c];
        if (is_record(state, s, c)) {
            if (cell->kind == RECORD && cell->index > bound) {
                return; /* cut by a later segment */
            }
            take_cell(found, cell, c, is_newest);
        }
    }
    if (is_newest) {
        bool clean = segment->recycled == 0;
        for (unsigned c = found->tail; c < CELLS; c++) {
            clean = clean && segment->cache[c].kind == ZERO;
        }
        found->needs_segment = (found->needs_segment || !clean) && !LEFT_OUT(TAIL_CONTINUED);
    }
}

void recover(const struct state *state, struct found *found) {
    memset(found, 0, sizeof(*found));
    found->image = LEFT_OUT(IMAGE_NOT_TOLD) ? 0 : state->image;
    found->last = found->image;
    memcpy(found->terms, state->image_terms, sizeof(found->terms));
    read_vote(state, found);
    read_headers(state, found);
    if (found->damaged || found->highest == 0) {
        found->damaged = true;
        return;
    }
    find_mark(state, found);
    for (unsigned s = 0; s < SEGMENTS && !found->damaged; s++) {
        if (counts(state, s)) {
            walk_segment(state, found, s);
        }
    }
    const struct mark *mark = &found->mark;
    if (mark->index > found->image &&
        (mark->index > found->last || found->terms[mark->index] != mark->term)) {
        found->damaged = true; /* the mark says that there is more, or something else */
    }
    if (found->last < found->image) {
        found->last = found->image;
        found->needs_segment = true;
    }
}
