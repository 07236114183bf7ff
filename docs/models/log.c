/* The log's steps, faults, opening and wishes; what it models and what holds: log.h. */
#include "log.h"
#include "search.h"

#include <stdio.h>

#ifndef STATES_MAX
#define STATES_MAX 100000000
#endif

/* ------------------------------------------------------------------ logs as numbers */

/* Two bits for each entry's term: less than 64. */
static unsigned code_of(const uint8_t *terms, unsigned last) {
    unsigned code = 0;
    for (unsigned i = 1; i <= last; i++) {
        code |= (unsigned)terms[i] << (2 * (i - 1));
    }
    return code;
}

static unsigned cut_code(unsigned code, unsigned last) {
    return code & ((1u << (2 * last)) - 1);
}

static unsigned length_of(unsigned code) {
    unsigned last = 0;
    for (; code != 0; code >>= 2) {
        last++;
    }
    return last;
}

static void allow(struct state *state, unsigned code) {
    state->allowed |= (uint64_t)1 << code;
}

/* ------------------------------------------------------------------ writing */

static void put_cell(struct state *state, unsigned s, unsigned c, struct cell cell) {
    state->segments[s].cache[c] = cell;
    state->segments[s].dirty |= (uint8_t)(1u << c);
}

/* Rule 2: the doubtful slot first, then the other. */
static void put_vote(struct state *state, unsigned copy) {
    unsigned slot = copy == 0 ? state->doubtful : 1u - state->doubtful;
    state->slot_cache[slot] = (struct cell){.kind = VOTE,
                                            .number = (uint8_t)(state->current + 1),
                                            .index = state->saves,
                                            .term = state->vote,
                                            .prev_term = (uint8_t)copy,
                                            .mark_index = state->last,
                                            .mark_term = term_at(state, state->last)};
    if (LEFT_OUT(NO_MARKS)) {
        state->slot_cache[slot].mark_index = state->slot_cache[slot].mark_term = 0;
    }
    state->slots_dirty |= (uint8_t)(1u << slot);
}

static struct cell record(const struct state *state, enum kind kind, unsigned index, uint8_t term,
                          uint8_t prev_term, uint8_t mark_index, uint8_t mark_term) {
    struct cell cell = {.kind = (uint8_t)kind,
                        .number = (uint8_t)(state->current + 1),
                        .index = (uint8_t)index,
                        .term = term,
                        .prev_term = prev_term,
                        .mark_index = mark_index,
                        .mark_term = mark_term};
    if (LEFT_OUT(NO_MARKS)) {
        cell.mark_index = cell.mark_term = 0;
    }
    return cell;
}

/* Rule 8: each record states what was durable before this group commit. */
static void put_records(struct state *state) {
    uint8_t mark_index = state->last, mark_term = term_at(state, state->last);
    uint8_t prev_term = mark_term;
    unsigned index = state->last;
    if (LEFT_OUT(MARK_TOO_EARLY)) {
        mark_index = (uint8_t)(state->last + state->count);
        mark_term = state->entry_term;
    }
    unsigned room = (unsigned)CELLS - state->tail;
    unsigned fit = room < state->count ? room : state->count;
    for (unsigned i = 0; i < fit; i++) {
        index++;
        put_cell(state, state->current, state->tail + i,
                 record(state, RECORD, index, state->entry_term, prev_term, mark_index, mark_term));
        prev_term = state->entry_term;
    }
}

/* A file for the segment, zeros or an old one: rule 7, its header synced under the spare name, then
 * renamed. */
static void name_segment(struct state state, const struct segment *old, const char *what) {
    struct segment *segment = &state.segments[state.numbers];
    struct segment fresh;
    memset(&fresh, 0, sizeof(fresh));
    if (old != NULL) {
        memcpy(fresh.cache, old->disk, sizeof(fresh.cache));
        memcpy(fresh.disk, old->disk, sizeof(fresh.disk));
        fresh.recycled = 1;
    }
    *segment = fresh;
    struct cell header = {.kind = HEADER,
                          .number = (uint8_t)(state.numbers + 1),
                          .index = state.begin,
                          .prev_term = term_at(&state, state.begin - 1u)};
    segment->cache[0] = header;
    if (LEFT_OUT(HEADER_NOT_SYNCED)) {
        segment->dirty = 1;
    } else {
        segment->disk[0] = header;
    }
    segment->named_cache = 1;
    for (unsigned s = 0; s < state.numbers && LEFT_OUT(DROPPED_BEFORE_CUT); s++) {
        if (state.segments[s].cache[0].index >= state.begin) {
            state.segments[s].named_cache = 0;
        }
    }
    state.current = state.numbers++;
    state.tail = 1;
    state.step = LEFT_OUT(DIRECTORY_NOT_SYNCED) ? READY : RENAMED;
    if (state.step == READY) {
        state.last = (uint8_t)(state.begin - 1);
        state.begin = 0;
    }
    search_next(&state, "segment %u begins at %u, in %s; renamed", state.current + 1u, header.index,
                what);
}

static bool is_free(const struct segment *segment) {
    return segment->named_cache == 0 && segment->named_disk == 0 && segment->disk[0].kind != ZERO;
}

static void begin_segment(const struct state *state) {
    if (state->numbers >= SEGMENTS) {
        return; /* the model's bound */
    }
    name_segment(*state, NULL, "a file of zeros");
    for (unsigned s = 0; s < SEGMENTS; s++) {
        struct segment old = state->segments[s];
        if (is_free(&old)) {
            struct state next = *state;
            memset(&next.segments[s], 0, sizeof(old)); /* its file is the new one's now */
            name_segment(next, &old, "a recycled file");
        }
    }
}

/* DLedger's: the file is written over where the entry to be cut lies. */
static void cut_in_place(const struct state *state) {
    struct state next = *state;
    for (unsigned s = SEGMENTS; s-- > 0;) {
        for (unsigned c = 1; c < CELLS && next.segments[s].named_cache != 0; c++) {
            const struct cell *cell = &next.segments[s].cache[c];
            if (cell->kind == RECORD && cell->number == s + 1 && cell->index == state->begin) {
                next.current = (uint8_t)s;
                next.tail = (uint8_t)c;
                next.last = (uint8_t)(state->begin - 1);
                next.begin = 0;
                search_next(&next, "cut in place at %u", state->begin);
                return;
            }
        }
        next.segments[s].named_cache = 0;
    }
}

/* ------------------------------------------------------------------ work, step by step */

/* All is durable that was asked for: it is acknowledged, or the log is open. */
static void finish(struct state *state) {
    state->allowed = 0;
    allow(state, code_of(state->terms, state->last));
    if (state->opening) {
        state->excuse = NO_EXCUSE;
        state->opening = 0;
    }
}

static bool has_work(const struct state *state) {
    return state->rewrite || state->vote || state->begin || state->count || state->mark ||
           state->vote_again || state->opening;
}

static void next_part(const struct state *state) {
    struct state next = *state;
    if (state->rewrite) {
        next.step = REWRITTEN;
        search_next(&next, "what was read is written again");
    } else if (state->vote) {
        next.saves++;
        put_vote(&next, 0);
        next.step = FIRST_SLOT;
        search_next(&next, "vote of term %u: one slot written", state->vote);
    } else if (state->begin && LEFT_OUT(CUT_IN_PLACE) && state->begin <= state->last) {
        cut_in_place(state);
    } else if (state->begin) {
        begin_segment(state);
    } else if (state->count && state->tail == CELLS) {
        next.begin = (uint8_t)(state->last + 1);
        begin_segment(&next);
    } else if (state->count) {
        put_records(&next);
        next.step = WRITTEN;
        search_next(&next, "records from %u on written", state->last + 1u);
    } else if (state->mark) {
        next.mark = 0;
        next.vote_again = 1;
        if (state->tail < CELLS) {
            uint8_t term = term_at(state, state->last);
            put_cell(&next, state->current, state->tail,
                     record(state, MARK, state->last, term, 0, state->last, term));
            next.step = MARKED;
        }
        search_next(&next, "mark %u", state->last);
    } else if (state->vote_again) {
        next.vote_again = 0;
        next.vote = state->term;
        search_next(&next, "the mark goes to the vote file too");
    } else {
        finish(&next);
        search_next(&next, "the log is open");
    }
}

static void sync_cells(struct state *state) {
    for (unsigned s = 0; s < SEGMENTS; s++) {
        struct segment *segment = &state->segments[s];
        for (unsigned c = 0; c < CELLS; c++) {
            if (segment->dirty >> c & 1) {
                segment->disk[c] = segment->cache[c];
            }
        }
        segment->dirty = 0;
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (state->slots_dirty >> i & 1) {
            state->slot_disk[i] = state->slot_cache[i];
        }
    }
    state->slots_dirty = 0;
}

static void sync_names(struct state *state) {
    for (unsigned s = 0; s < SEGMENTS; s++) {
        state->segments[s].named_disk = state->segments[s].named_cache;
    }
}

static void records_durable(struct state *state) {
    unsigned room = (unsigned)CELLS - state->tail;
    unsigned fit = room < state->count ? room : state->count;
    state->covered = state->last > state->covered ? state->last : state->covered;
    for (unsigned i = 0; i < fit; i++) {
        state->terms[++state->last] = state->entry_term;
    }
    state->tail = (uint8_t)(state->tail + fit);
    state->count = (uint8_t)(state->count - fit);
}

static void slot_durable(struct state *state, bool second) {
    state->covered = state->last;
    if (!second && !LEFT_OUT(VOTE_IN_ONE_SLOT)) {
        put_vote(state, 1);
        state->step = SECOND_SLOT;
        return;
    }
    state->doubtful = (uint8_t)(second ? 1 - state->doubtful : state->doubtful);
    state->told = state->term = state->vote;
    state->vote = 0;
}

/* What the step that ends now has brought about. */
static void step_done(struct state *state) {
    enum step step = (enum step)state->step;
    state->step = READY;
    switch (step) {
    case REWRITTEN:
        state->rewrite = 0;
        sync_names(state);
        break;
    case FIRST_SLOT: slot_durable(state, false); break;
    case SECOND_SLOT: slot_durable(state, true); break;
    case RENAMED:
        sync_names(state);
        state->last = (uint8_t)(state->begin - 1);
        state->covered = state->last; /* the header's mark */
        state->begin = 0;
        break;
    case WRITTEN: records_durable(state); break;
    case MARKED:
        state->covered = state->last;
        state->tail++;
        break;
    case DOWN:
    case REFUSED:
    case READY: break;
    }
    if (state->step == READY && !has_work(state)) {
        finish(state);
    }
}

static void sync(const struct state *state) {
    struct state next = *state;
    sync_cells(&next);
    step_done(&next);
    search_next(&next, "synced");
}

/* ------------------------------------------------------------------ faults */

static void die(struct state *state) {
    state->step = DOWN;
    state->opening = 0;
    state->rewrite = state->vote = state->begin = state->count = state->entry_term = 0;
    state->mark = state->vote_again = 0;
    state->last = state->current = state->tail = state->term = state->doubtful = state->saves = 0;
    memset(state->terms, 0, sizeof(state->terms));
}

static void kill_process(const struct state *state) {
    struct state next = *state;
    next.crashes++;
    die(&next);
    search_next(&next, "SIGKILL");
}

/* Whatever reaches the disk of what is dirty, one part after the other: cells, slots, names. */
struct fate {
    struct state state;
    char text[160];
    void (*end)(struct fate *fate);
};

static void say(struct fate *fate, const char *what, unsigned a, unsigned b) {
    size_t size = strlen(fate->text);
    (void)snprintf(fate->text + size, sizeof(fate->text) - size, " %s %u.%u", what, a, b);
}

static void decide(struct fate fate, unsigned part) {
    enum {
        ALL_CELLS = SEGMENTS * CELLS,
        ALL_SLOTS = ALL_CELLS + SLOTS,
        ALL = ALL_SLOTS + SEGMENTS
    };
    for (; part < ALL; part++) {
        unsigned s = part / CELLS, c = part % CELLS;
        struct fate other = fate;
        if (part < ALL_CELLS && (fate.state.segments[s].dirty >> c & 1)) {
            struct segment *segment = &fate.state.segments[s];
            decide(other, part + 1);
            if (c > 0 && segment->cache[c].kind == RECORD) {
                other.state.segments[s].disk[c] = (struct cell){.kind = BAD};
                say(&other, "torn", s + 1, c);
                decide(other, part + 1);
            }
            segment->disk[c] = segment->cache[c];
            say(&fate, "cell", s + 1, c);
        } else if (part >= ALL_CELLS && part < ALL_SLOTS &&
                   (fate.state.slots_dirty >> (part - ALL_CELLS) & 1)) {
            decide(other, part + 1);
            fate.state.slot_disk[part - ALL_CELLS] = fate.state.slot_cache[part - ALL_CELLS];
            say(&fate, "slot", part - ALL_CELLS, 0);
        } else if (part >= ALL_SLOTS) {
            struct segment *segment = &fate.state.segments[part - ALL_SLOTS];
            if (segment->named_cache != segment->named_disk) {
                decide(other, part + 1);
                segment->named_disk = segment->named_cache;
                say(&fate, "name", part - ALL_SLOTS + 1, 0);
            }
        }
    }
    fate.end(&fate);
}

static void all_clean(struct state *state) {
    for (unsigned s = 0; s < SEGMENTS; s++) {
        state->segments[s].dirty = 0;
    }
    state->slots_dirty = 0;
}

static void end_of_power(struct fate *fate) {
    struct state *state = &fate->state;
    for (unsigned s = 0; s < SEGMENTS; s++) {
        memcpy(state->segments[s].cache, state->segments[s].disk, sizeof(state->segments[s].cache));
        state->segments[s].named_cache = state->segments[s].named_disk;
    }
    memcpy(state->slot_cache, state->slot_disk, sizeof(state->slot_cache));
    all_clean(state);
    die(state);
    search_next(state, "POWER FAILS; reached the disk:%s", fate->text);
}

static void power_cut(const struct state *state) {
    struct fate fate = {.state = *state, .text = "", .end = end_of_power};
    fate.state.crashes++;
    decide(fate, 0);
}

/* Rule 10: the cache shows what the disk may lack, and calls it clean. */
static void end_of_sync(struct fate *fate) {
    all_clean(&fate->state);
    if (LEFT_OUT(SYNC_RETRIED)) {
        step_done(&fate->state); /* the second sync has nothing to do, and says that all is well */
    } else {
        die(&fate->state);
    }
    search_next(&fate->state, "SYNC FAILS; reached the disk:%s", fate->text);
}

static void failing_sync(const struct state *state) {
    struct fate fate = {.state = *state, .text = "", .end = end_of_sync};
    fate.state.errors++;
    decide(fate, 0);
}

/* A clean page that differs from the disk is dropped from the cache, and read again. */
static void evict(const struct state *state) {
    for (unsigned s = 0; s < SEGMENTS; s++) {
        for (unsigned c = 0; c < CELLS; c++) {
            const struct segment *segment = &state->segments[s];
            bool clean = (segment->dirty >> c & 1) == 0;
            if (clean && memcmp(&segment->cache[c], &segment->disk[c], sizeof(struct cell)) != 0) {
                struct state next = *state;
                next.segments[s].cache[c] = segment->disk[c];
                search_next(&next, "cell %u.%u is read from the disk again", s + 1, c);
            }
        }
    }
}

/* Is the record part of a log that recovery may find now? A later segment whose name may still be lost
 * does not make it dead. */
static bool is_live(const struct state *state, unsigned s, const struct cell *cell) {
    for (unsigned later = s + 1; later < SEGMENTS; later++) {
        const struct segment *segment = &state->segments[later];
        if (segment->named_cache && segment->named_disk && cell->index >= segment->cache[0].index) {
            return false;
        }
    }
    if (cell->number != s + 1 || cell->index <= state->image) {
        return false;
    }
    for (unsigned code = 0; code < 64; code++) {
        bool allowed = (state->allowed >> code & 1) != 0;
        if (allowed && (code >> (2 * (cell->index - 1)) & 3) == cell->term) {
            return true;
        }
    }
    return false;
}

static void rot_cell(const struct state *state, unsigned s, unsigned c, bool in_cache_too) {
    struct state next = *state;
    struct segment *segment = &next.segments[s];
    struct cell cell = segment->disk[c];
    next.rots++;
    segment->disk[c] = (struct cell){.kind = BAD};
    if (in_cache_too) {
        segment->cache[c] = segment->disk[c];
    }
    if (cell.kind == RECORD && is_live(state, s, &cell)) {
        if (cell.index > state->covered && cell.index - 1 < next.excuse) {
            next.excuse = (uint8_t)(cell.index - 1);
        }
    } else if (cell.kind != HEADER) {
        next.harmless = 1;
    }
    search_next(&next, "ROT of cell %u.%u%s", s + 1, c, in_cache_too ? "" : ", on the disk only");
}

static void rot(const struct state *state) {
    for (unsigned s = 0; s < SEGMENTS; s++) {
        const struct segment *segment = &state->segments[s];
        for (unsigned c = 0; c < CELLS && segment->named_disk != 0; c++) {
            bool clean = (segment->dirty >> c & 1) == 0;
            if (segment->disk[c].kind > BAD && clean) {
                rot_cell(state, s, c, false);
                rot_cell(state, s, c, true);
            }
        }
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (state->slot_disk[i].kind == VOTE && (state->slots_dirty >> i & 1) == 0) {
            struct state next = *state;
            next.rots++;
            next.slot_disk[i] = next.slot_cache[i] = (struct cell){.kind = BAD};
            next.harmless = 1;
            search_next(&next, "ROT of vote slot %u", i);
        }
    }
}

/* ------------------------------------------------------------------ opening */

static bool is_kept(const struct state *state, unsigned code) {
    if ((state->allowed >> code & 1) != 0) {
        return true;
    }
    unsigned last = length_of(code);
    for (unsigned other = 0; other < 64 && state->excuse != NO_EXCUSE; other++) {
        bool allowed = (state->allowed >> other & 1) != 0;
        if (allowed && last >= state->excuse && cut_code(other, last) == code) {
            return true;
        }
    }
    return false;
}

/* Rule 9: what is above the mark, all headers, names and both vote slots are written again and synced. */
static void rewrite(struct state *state, const struct found *found) {
    for (unsigned s = 0; s < SEGMENTS; s++) {
        struct segment *segment = &state->segments[s];
        for (unsigned c = 0; c < CELLS && segment->named_cache != 0; c++) {
            bool differs = memcmp(&segment->cache[c], &segment->disk[c], sizeof(struct cell)) != 0;
            bool again =
                c == 0 || (s == found->newest && c >= found->rewrite_from && c < found->tail);
            if (differs && again) {
                segment->dirty |= (uint8_t)(1u << c);
            }
        }
    }
}

static uint8_t term_at_open(const struct found *found) {
    uint8_t term = found->vote_term, of_last = found->terms[found->last];
    term = of_last > term ? of_last : term;
    return found->mark.term > term ? found->mark.term : term;
}

static void open_log(const struct state *state, const struct found *found) {
    struct state next = *state;
    uint8_t term = term_at_open(found);
    next.opening = 1;
    next.step = READY;
    next.last = found->last;
    memcpy(next.terms, found->terms, sizeof(next.terms));
    memcpy(next.terms, state->image_terms, state->image + 1u);
    memset(next.terms + next.last + 1, 0, (size_t)(INDICES - next.last));
    next.current = found->newest;
    next.tail = found->tail;
    next.term = term;
    next.doubtful = found->vote_doubtful;
    next.saves = found->saves;
    for (unsigned s = 0; s < SEGMENTS; s++) {
        struct segment *segment = &next.segments[s];
        if (LEFT_OUT(BAD_HEADER_DISCARDED) && segment->named_cache != 0 && !has_header(&next, s)) {
            memset(segment, 0, sizeof(*segment));
        }
    }
    if (!LEFT_OUT(NOTHING_REWRITTEN)) {
        rewrite(&next, found);
        next.rewrite = 1;
    }
    if (found->needs_segment) {
        next.vote = term;
        next.begin = (uint8_t)(found->last + 1);
    }
    next.vote_again = 1;
    search_next(&next, "recovery reads %u entries, the mark is %u.%u%s", found->last,
                found->mark.segment, found->mark.index,
                found->needs_segment ? ", and begins a segment" : "");
}

static void start_process(const struct state *state) {
    struct found found;
    recover(state, &found);
    if (found.damaged) {
        if (state->rots == 0) {
            search_violated("alarm: nothing rotted, and it is called damaged");
        } else if (state->harmless) {
            search_violated("alarm: what rotted does not count, and it is called damage");
        }
        struct state next = *state;
        next.step = REFUSED;
        search_next(&next, "damaged");
        return;
    }
    uint8_t terms[INDICES + 1];
    memcpy(terms, found.terms, sizeof(terms));
    memcpy(terms, state->image_terms, state->image + 1u);
    if (!is_kept(state, code_of(terms, found.last))) {
        search_violated("kept: recovery reads %u entries, the last of term %u", found.last,
                        terms[found.last]);
        return;
    }
    if (term_at_open(&found) < state->told) {
        search_violated("term: %u was told, and %u is read", state->told, term_at_open(&found));
        return;
    }
    open_log(state, &found);
}

/* ------------------------------------------------------------------ the owner's wishes */

static void ask_vote(const struct state *state) {
    if (state->term < TERMS) {
        struct state next = *state;
        next.vote = (uint8_t)(state->term + 1);
        search_next(&next, "wanted: term %u", next.vote);
    }
}

/* Entries of one term behind entry `after`; what is there is cut. */
static void ask_append(const struct state *state, unsigned after, unsigned count, uint8_t term) {
    struct state next = *state;
    unsigned code = code_of(state->terms, after);
    next.appends++;
    next.count = (uint8_t)count;
    next.entry_term = term;
    if (after < state->last) {
        next.cuts++;
        next.begin = (uint8_t)(after + 1);
        allow(&next, code);
    }
    for (unsigned i = 1; i <= count; i++) {
        code |= (unsigned)term << (2 * (after + i - 1));
        allow(&next, code);
    }
    search_next(&next, "wanted: %s%u entries of term %u behind %u",
                after < state->last ? "a cut, and " : "", count, term, after);
}

static void ask_appends(const struct state *state) {
    for (unsigned after = state->image; after <= state->last; after++) {
        if (after < state->last && state->cuts >= CUTS) {
            continue;
        }
        for (uint8_t term = state->terms[after] > 0 ? state->terms[after] : 1; term <= state->term;
             term++) {
            bool contradicts = after == state->last || state->terms[after + 1] != term;
            for (unsigned count = 1; count <= 2 && after + count <= INDICES && contradicts;
                 count++) {
                ask_append(state, after, count, term);
            }
        }
    }
}

static void ask_mark(const struct state *state) {
    if (state->marks < MARKS && state->covered < state->last) {
        struct state next = *state;
        next.marks++;
        next.mark = 1;
        search_next(&next, "wanted: a mark");
    }
}

/* Whole segments at or below the image, and dead ones, lose their names; that becomes durable by itself. */
static void drop(struct state *state) {
    for (unsigned s = 0; s < state->current; s++) {
        unsigned bound = bound_of(state, s);
        bool dead = state->segments[s].cache[0].index > bound;
        if (state->segments[s].named_cache != 0 && (dead || bound <= state->image)) {
            state->segments[s].named_cache = 0;
        }
    }
}

static void ask_image(const struct state *state) {
    for (unsigned index = state->image + 1u; index <= state->last && state->images < IMAGES;
         index++) {
        struct state next = *state;
        next.images++;
        next.image = (uint8_t)index;
        memset(next.image_terms, 0, sizeof(next.image_terms));
        memcpy(next.image_terms, state->terms, index + 1u);
        search_next(&next, "an image of %u", index);
    }
    struct state next = *state;
    drop(&next);
    if (memcmp(&next, state, sizeof(next)) != 0) {
        search_next(&next, "old segments dropped");
    }
    next = *state;
    sync_names(&next);
    if (memcmp(&next, state, sizeof(next)) != 0) {
        search_next(&next, "names synced");
    }
}

static void list_next(const void *from) {
    const struct state *state = from;
    if (state->step == REFUSED) {
        return;
    }
    if (state->step == DOWN) {
        start_process(state);
        evict(state);
    } else if (state->step != READY) {
        sync(state);
        if (state->errors < ERRORS) {
            failing_sync(state);
        }
    } else if (has_work(state)) {
        next_part(state);
    } else {
        ask_vote(state);
        if (state->appends < APPENDS) {
            ask_appends(state);
        }
        ask_mark(state);
        ask_image(state);
    }
    if (state->crashes < CRASHES) {
        power_cut(state);
        if (state->step != DOWN) {
            kill_process(state);
        }
    }
    if (state->rots < ROTS) {
        rot(state);
    }
}

/* ------------------------------------------------------------------ main */

static void print_cell(const struct cell *cell) {
    static const char *const names[] = {"-", "BAD", "header", "record", "mark", "vote"};
    printf(" %s", names[cell->kind]);
    if (cell->kind > BAD) {
        printf("(%u: %u, term %u after %u, mark %u)", cell->number, cell->index, cell->term,
               cell->prev_term, cell->mark_index);
    }
}

static void print(const void *what) {
    const struct state *state = what;
    for (unsigned s = 0; s < SEGMENTS; s++) {
        const struct segment *segment = &state->segments[s];
        printf("  segment %u, %s:", s + 1, segment->named_cache ? "named" : "no name");
        for (unsigned c = 0; c < CELLS; c++) {
            print_cell(&segment->cache[c]);
        }
        printf("\n");
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        printf("  slot %u:", i);
        print_cell(&state->slot_cache[i]);
        printf("\n");
    }
}

int main(void) {
    struct state initial;
    memset(&initial, 0, sizeof(initial));
    struct cell header = {.kind = HEADER, .number = 1, .index = 1};
    initial.segments[0].cache[0] = initial.segments[0].disk[0] = header;
    initial.segments[0].named_cache = initial.segments[0].named_disk = 1;
    for (unsigned i = 0; i < SLOTS; i++) {
        struct cell vote = {
            .kind = VOTE, .number = 1, .index = 1, .term = 1, .prev_term = (uint8_t)i};
        initial.slot_cache[i] = initial.slot_disk[i] = vote;
    }
    initial.step = READY;
    initial.tail = 1;
    initial.term = initial.told = 1;
    initial.doubtful = 1;
    initial.saves = 1;
    initial.numbers = 1;
    initial.excuse = NO_EXCUSE;
    allow(&initial, 0);
    const struct search_model model = {"log", sizeof(initial), &initial, list_next, print};
    return search_run(&model, STATES_MAX);
}
