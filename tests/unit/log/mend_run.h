/* One seed = the story of a damaged log: a life as in crash_run.h, then rot, zeroed and unreadable
 * sectors, cut and deleted files, then openings with `mend` and repair from a copy that is whole, with
 * deaths at any step of it. Included by mend.c and mend_long.c.
 *
 * After each opening:
 *   - every entry that is not in a gap reads as it was; nothing that was cut or never written appears;
 *   - a gap's last term, and the terms of what is readable, are those that were;
 *   - what was filled or appended and reported durable is there, unless it was damaged anew;
 *   - the end is the one that was, or is said to be unknown, and that until it is settled.
 * In the end the log is whole and opens without `mend`.
 */
#ifndef TESTS_UNIT_LOG_MEND_RUN_H
#define TESTS_UNIT_LOG_MEND_RUN_H

#include "tests/unit/log/crash_run.h"

struct mend_counts {
    uint64_t damages, opens, crashes, gaps, fills, filled, no_space, unknown_ends, whole, appends,
        cuts, refused, blind, other_image, conflicts;
};

struct mend {
    struct run *r;
    struct mend_counts *counts;
    uint64_t low;             /* the image that the log is told of */
    bool damaged_anew;        /* since the last opening */
    bool end_unknown;         /* was reported */
    uint64_t marked;          /* marks that no damage to segments can take say so much */
    bool unreadable;          /* somewhere there are sectors that cannot be read */
    bool newest_known;        /* the vote names the newest segment */
    bool settling;            /* log_settle_end has not returned */
    bool filled[RUN_INDICES]; /* reported durable */
};

static inline uint64_t mend_low_term(const struct mend *m) {
    return m->low == 0 ? 0
                       : (m->low == m->r->image ? m->r->image_term : m->r->durable.term[m->low]);
}

/* --- damage --- */

static inline const char *mend_some_segment(struct run *r) {
    const char *paths[64];
    size_t count = 0;
    uint64_t number;
    const char *path;
    for (size_t n = 0; (path = sim_disk_path(r->sim, n)) != NULL && count < 64; n++) {
        if (run_segment_number(path, &number)) {
            paths[count++] = path;
        }
    }
    return count > 0 ? paths[run_below(r, count)] : NULL;
}

static inline const char *mend_newest_segment(struct run *r) {
    const char *newest = "";
    uint64_t number;
    const char *path;
    for (size_t n = 0; (path = sim_disk_path(r->sim, n)) != NULL; n++) {
        newest = run_segment_number(path, &number) ? path : newest;
    }
    return newest;
}

static inline void mend_rot_one_record(struct mend *m) {
    struct run *r = m->r;
    if (r->durable.last <= m->low) {
        return;
    }
    struct run_place at;
    uint64_t index = m->low + 1 + run_below(r, r->durable.last - m->low);
    if (run_find_record(r, index, &at)) {
        run_say(r, "rot in entry %llu: %s:%llu", (ull)index, at.path, (ull)at.offset);
        (void)sim_disk_flip_bit(r->sim, at.path, at.offset + run_below(r, at.length),
                                (unsigned)run_below(r, 8), SIM_ROT_BOTH);
    }
}

static inline void mend_damage_once(struct mend *m) {
    struct run *r = m->r;
    char path[64];
    const char *some = mend_some_segment(r);
    struct slice bytes;
    if (some == NULL || !sim_disk_peek(r->sim, some, &bytes) || bytes.size < LOG_BLOCK) {
        return;
    }
    (void)snprintf(path, sizeof(path), "%s", some);
    uint64_t at = run_below(r, bytes.size) / 512 * 512;
    uint64_t size = 512 << run_below(r, 5);
    size = size < bytes.size - at ? size : bytes.size - at;
    uint64_t what = run_below(r, 16);
    if (what >= 6) {
        mend_rot_one_record(m);
        return;
    }
    run_say(r, "damage %llu of %s at %llu, %llu bytes", (ull)what, path, (ull)at, (ull)size);
    switch (what) {
    case 0: (void)sim_disk_flip_bit(r->sim, path, run_below(r, 512), 1, SIM_ROT_BOTH); break;
    case 1: (void)sim_disk_zero(r->sim, path, at, size, SIM_ROT_BOTH); break;
    case 2: m->unreadable |= sim_disk_unreadable(r->sim, path, at, size); break;
    case 3:
        if (m->newest_known || strcmp(path, mend_newest_segment(r)) != 0) {
            (void)sim_disk_unlink(r->sim, path);
        } /* else nobody could know that it was there */
        break;
    case 4: (void)sim_disk_cut_file(r->sim, path, at); break;
    default: (void)sim_disk_zero(r->sim, path, 0, size, SIM_ROT_BOTH); break;
    }
}

/* Damage may take the newest marks in the segments with it; the vote's mark stays, and so does that of
 * the newest segment's header, as long as its file or its name in the vote does. */
static inline void mend_look_for_marks(struct mend *m) {
    struct slice bytes;
    struct vote_record vote = {0}, slot;
    for (int i = 0; i < 2 && sim_disk_peek(m->r->sim, RUN_DIR "/vote", &bytes); i++) {
        struct slice part = slice_of(bytes.data + i * LOG_BLOCK, LOG_HEADER_SIZE);
        if (vote_record_decode(part, &slot, NULL) == 0 &&
            (vote.sequence == 0 || slot.sequence < vote.sequence)) { /* the one that is synced */
            vote = slot;
        }
    }
    struct segment_header header;
    uint64_t number = 0;
    const char *newest = mend_newest_segment(m->r);
    bool valid = run_segment_number(newest, &number) && sim_disk_peek(m->r->sim, newest, &bytes) &&
                 segment_header_decode(bytes, &header, NULL) == 0;
    m->newest_known = vote.mark.segment == number;
    m->marked = m->newest_known ? vote.mark.index : (valid ? header.first - 1 : 0);
}

static inline void mend_damage(struct mend *m) {
    mend_look_for_marks(m);
    for (uint64_t n = 1 + run_below(m->r, 4); n > 0; n--) {
        mend_damage_once(m);
        m->counts->damages++;
    }
    m->damaged_anew = true;
    memset(m->filled, 0, sizeof(m->filled));
}

/* --- judging what was opened --- */

static inline uint64_t mend_run_term(const struct log_state *state, uint64_t index) {
    uint64_t term = 0;
    for (size_t i = 0; i < state->run_count && state->runs[i].first <= index; i++) {
        term = state->runs[i].term;
    }
    return term;
}

static inline bool mend_gap_matches(struct mend *m, const struct run_log *log,
                                    const struct log_gap *gap, char *what, size_t size) {
    for (uint64_t i = gap->first; i <= gap->last; i++) {
        if (m->filled[i]) {
            (void)snprintf(what, size, "entry %llu was filled and is a gap again", (ull)i);
            return false;
        }
    }
    if (gap->last_term != log->term[gap->last]) {
        (void)snprintf(what, size, "gap [%llu..%llu] ends with term %llu, it was %llu",
                       (ull)gap->first, (ull)gap->last, (ull)gap->last_term,
                       (ull)log->term[gap->last]);
        return false;
    }
    return true;
}

static inline bool mend_terms_match(struct run *r, const struct run_log *log, uint64_t from,
                                    uint64_t to, char *what, size_t size) {
    for (uint64_t i = from; i <= to; i++) {
        if (mend_run_term(&r->state, i) != log->term[i]) {
            (void)snprintf(what, size, "term of %llu is %llu, it was %llu", (ull)i,
                           (ull)mend_run_term(&r->state, i), (ull)log->term[i]);
            return false;
        }
    }
    return true;
}

/* Is what is open the beginning of `log` up to the state's last entry? */
static inline bool mend_matches(struct mend *m, const struct run_log *log, char *what,
                                size_t size) {
    struct run *r = m->r;
    uint64_t last = r->state.last;
    if (r->state.first > m->low + 1 || last > log->last) {
        (void)snprintf(what, size, "[%llu..%llu] behind an image at %llu, expected up to %llu",
                       (ull)r->state.first, (ull)last, (ull)m->low, (ull)log->last);
        return false;
    }
    uint64_t i = r->state.first > log->base + 1 ? r->state.first : log->base + 1;
    while (i <= last) {
        struct log_gap gap;
        if (log_damage_at(r->log, i, &gap)) {
            if (!mend_gap_matches(m, log, &gap, what, size)) {
                return false;
            }
            i = gap.last + 1;
            continue;
        }
        uint64_t to = i;
        for (; to < last && !log_damage_at(r->log, to + 1, NULL); to++) {
        }
        if (!mend_terms_match(r, log, i, to, what, size) ||
            !run_same_entries(r, log, i, to, what, size)) {
            return false;
        }
        i = to + 1;
    }
    return true;
}

static inline void mend_judge(struct mend *m) {
    struct run *r = m->r;
    char what[300] = "", unused[300];
    if (m->end_unknown && !r->state.end_unknown) {
        RUN_CHECK(r, m->settling, "the end is known without having been settled");
        m->end_unknown = false;
    }
    RUN_CHECK(r, !r->state.end_unknown || m->end_unknown || m->damaged_anew,
              "the end became unknown by itself");
    m->counts->unknown_ends += r->state.end_unknown && !m->end_unknown;
    m->end_unknown = r->state.end_unknown;
    m->settling = false;
    r->vote = r->state.vote;
    m->counts->gaps += r->state.gap_count;
    if (m->end_unknown) {
        r->pending = false;
        m->damaged_anew = false;
        return; /* what is there may be older than what was; mend_catch_up compares */
    }
    uint64_t least = m->damaged_anew ? m->marked : r->durable.last;
    least = least > m->low ? least : m->low;
    bool ok = r->state.last >= least && mend_matches(m, &r->durable, what, sizeof(what));
    if (!ok && what[0] == '\0') {
        (void)snprintf(what, sizeof(what), "last is %llu, %llu was acknowledged",
                       (ull)r->state.last, (ull)least);
    }
    if (!ok && r->pending) {
        uint64_t lowest = r->pending_cut != 0 ? r->pending_cut - 1 : r->durable.last + 1;
        ok = r->state.last >= lowest && mend_matches(m, &r->after, unused, sizeof(unused));
        if (ok) {
            r->durable = r->after;
        }
    }
    RUN_CHECK(r, ok, "%s (or %s; pending %d, cut %llu)", what, unused, (int)r->pending,
              (ull)r->pending_cut);
    m->counts->blind += r->durable.last > r->state.last && m->damaged_anew;
    r->durable.last = r->state.last;
    r->covered = r->state.last;
    r->pending = false;
    m->damaged_anew = false;
}

/* --- opening --- */

static inline void mend_show(struct mend *m, int rc, const struct reason *why) {
    struct run *r = m->r;
    run_show_files(r);
    run_say(r, "open: %s %s: [%llu..%llu] end unknown %d: %s", error_name(rc), why->text,
            (ull)r->state.first, (ull)r->state.last, (int)r->state.end_unknown,
            r->state.damage.text);
    for (size_t i = 0; rc == 0 && i < r->state.gap_count; i++) {
        const struct log_gap *gap = &r->state.gaps[i];
        run_say(r, "    gap [%llu..%llu] term %llu", (ull)gap->first, (ull)gap->last,
                (ull)gap->last_term);
    }
}

static inline void mend_open(struct mend *m) {
    struct run *r = m->r;
    for (;;) {
        struct log_options options = run_log_options();
        options.mend = true;
        struct reason why = {{0}};
        bool disturbed = run_chance(r, 3);
        if (disturbed) {
            sim_disk_crash_at(r->sim, run_below(r, 60));
        }
        int rc = log_open(&r->log, sim_disk_seam(r->sim), RUN_DIR, &options, m->low,
                          mend_low_term(m), &r->state, &why);
        m->counts->opens++;
        mend_show(m, rc, &why);
        if (rc == 0) {
            sim_disk_crash_at(r->sim, UINT64_MAX);
            break;
        }
        RUN_CHECK(r, disturbed && sim_disk_crashed(r->sim), "open: %s: %s", error_name(rc),
                  why.text);
        m->counts->crashes++;
        run_die(r);
    }
    mend_judge(m);
}

static inline void mend_reopen(struct mend *m) {
    run_die(m->r);
    sim_disk_set_capacity(m->r->sim, UINT64_MAX);
    if (run_chance(m->r, 12)) {
        mend_damage(m);
    }
    mend_open(m);
}

/* True when the process died in it, and it was opened again. */
static inline bool mend_died(struct mend *m, int rc, const char *what) {
    struct run *r = m->r;
    if (rc == 0 && !sim_disk_crashed(r->sim)) {
        return false;
    }
    if (sim_disk_crashed(r->sim)) {
        m->counts->crashes++;
        mend_reopen(m);
        return true;
    }
    if (rc == LKV_EIO && m->unreadable) {
        mend_reopen(m); /* rule 10: a recycled file had such a sector where the next record goes */
        return true;
    }
    RUN_CHECK(r, rc == LKV_ENOSPACE, "%s: %s", what, error_name(rc));
    m->counts->no_space++;
    r->pending = false;
    return true;
}

/* --- repair --- */

static inline size_t mend_entries(const struct run_log *log, uint64_t first, size_t count,
                                  struct entry *entries) {
    for (size_t i = 0; i < count; i++) {
        uint64_t index = first + i;
        entries[i] = (struct entry){.index = index,
                                    .term = log->term[index],
                                    .type = ENTRY_COMMAND,
                                    .payload = log->size[index] > 0
                                                   ? run_payload(log->uid[index], log->size[index])
                                                   : NULL};
    }
    return count;
}

static inline void mend_free(struct entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        blob_unref(entries[i].payload);
    }
}

/* LKV_EINVAL is the caller's to judge; any other failure is handled. */
static inline int mend_fill(struct mend *m, const struct log_gap *gap, size_t wanted) {
    struct run *r = m->r;
    struct entry entries[RUN_BATCH] = {{0}};
    size_t count =
        gap->last - gap->first + 1 < wanted ? (size_t)(gap->last - gap->first + 1) : wanted;
    if (gap->first + count - 1 > r->durable.last) {
        return LKV_EINVAL; /* the copy ends before */
    }
    (void)mend_entries(&r->durable, gap->first, count, entries);
    struct reason why = {{0}};
    int rc = log_fill(r->log, entries, count, &why);
    mend_free(entries, count);
    run_say(r, "fill %llu..%llu of %llu: %s %s", (ull)gap->first, (ull)(gap->first + count - 1),
            (ull)gap->last, error_name(rc), why.text);
    m->counts->fills++;
    if (rc == LKV_EINVAL) {
        return rc;
    }
    if (!mend_died(m, rc, "log_fill")) {
        for (size_t i = 0; i < count; i++) {
            m->filled[gap->first + i] = true;
        }
        m->counts->filled += count;
        RUN_CHECK(r, !log_damage_at(r->log, gap->first, NULL), "a gap that was filled");
    }
    return 0;
}

static inline void mend_fill_some(struct mend *m) {
    struct log_gap gaps[64];
    size_t count = log_gaps(m->r->log, gaps, 64);
    if (count == 0 || m->end_unknown) {
        return;
    }
    const struct log_gap *gap = &gaps[run_below(m->r, count < 64 ? count : 64)];
    if (gap->first <= m->r->durable.base) {
        return; /* from before the image: only an image has it */
    }
    int rc = mend_fill(m, gap, 1 + run_below(m->r, RUN_BATCH));
    RUN_CHECK(m->r, rc == 0, "fill [%llu..%llu]: refused", (ull)gap->first, (ull)gap->last);
}

/* Cuts (0: not) and appends, as a leader would have it done. */
static inline void mend_write(struct mend *m, uint64_t cut, const struct entry *entries,
                              size_t count) {
    struct run *r = m->r;
    struct log_write write = {.cut_from = cut, .entries = entries, .count = count};
    if (count > 0 && entries[count - 1].term > r->vote.term) {
        write.save_vote = true;
        write.vote.term = entries[count - 1].term;
    }
    struct reason why = {{0}};
    int rc = log_write(r->log, &write, &why);
    run_say(r, "write cut %llu, %zu entries from %llu: %s %s", (ull)cut, count,
            count > 0 ? (ull)entries[0].index : 0, error_name(rc), why.text);
    if (rc == 0 && write.save_vote) {
        r->vote = write.vote;
    }
    if (!mend_died(m, rc, "log_write")) {
        if (r->pending) {
            r->covered = cut != 0 ? cut - 1 : r->durable.last;
            r->durable = r->after;
        }
        r->pending = false;
        m->counts->appends += count;
        m->counts->cuts += cut != 0;
    }
}

/* New entries at the end, or, for a cut, from a known place on. */
static inline void mend_append(struct mend *m, bool cuts) {
    struct run *r = m->r;
    struct entry entries[RUN_BATCH];
    if (m->end_unknown) {
        return;
    }
    uint64_t from = r->durable.last + 1;
    struct log_gap gap;
    if (cuts && r->durable.last > m->low && r->durable.last > r->durable.base) {
        uint64_t low = m->low > r->durable.base ? m->low : r->durable.base;
        from = low + 1 + run_below(r, r->durable.last - low);
        if (log_damage_at(r->log, from - 1, &gap) && gap.last >= from) {
            from = gap.first; /* the term before a cut must be known */
            if (from <= low) {
                return;
            }
        }
    }
    uint64_t before = r->durable.last;
    size_t count = run_make_entries(r, from, entries, 1 + run_below(r, 6));
    bool cut = from <= before;
    r->pending = true;
    r->pending_vote = false;
    r->pending_cut = cut ? from : 0;
    if (cut) {
        for (uint64_t i = from; i < RUN_INDICES; i++) {
            m->filled[i] = false;
        }
    }
    mend_write(m, cut ? from : 0, entries, count);
    mend_free(entries, count);
}

/* The end is unknown: a leader that has everything goes through what is here. */
static inline void mend_catch_up(struct mend *m) {
    struct run *r = m->r;
    uint64_t first = log_first(r->log), no_space = m->counts->no_space;
    for (uint64_t i = first > m->low + 1 ? first : m->low + 1;
         i <= r->durable.last && m->end_unknown && m->counts->no_space == no_space; i++) {
        struct log_gap gap;
        struct entry entry;
        char what[300];
        bool known = log_damage_at(r->log, i, &gap);
        if (known && mend_fill(m, &gap, 1) == 0) {
            i = log_first(r->log) - 1; /* perhaps it died: all over again */
            i = i > m->low ? i : m->low;
            continue;
        }
        if (!known && run_same_entries(r, &r->durable, i, i, what, sizeof(what))) {
            continue;
        }
        if (sim_disk_crashed(r->sim)) {
            (void)mend_died(m, LKV_EIO, "log_read");
            i = log_first(r->log) - 1;
            i = i > m->low ? i : m->low;
            continue;
        }
        m->counts->conflicts++;
        size_t count;
        struct entry got;
        bool there = known || log_read(r->log, i, i, 1 << 20, &got, 1, &count, NULL) == 0;
        if (there && !known) {
            blob_unref(got.payload);
        }
        (void)mend_entries(&r->durable, i, 1, &entry);
        mend_write(m, there ? i : 0, &entry, 1);
        blob_unref(entry.payload);
        i = log_first(r->log) - 1;
        i = i > m->low ? i : m->low;
    }
    uint64_t opens = m->counts->opens;
    if (m->end_unknown && m->counts->no_space == no_space) {
        mend_write(m, r->durable.last + 1, NULL, 0); /* nothing older behind it */
    }
    if (!m->end_unknown || m->counts->no_space != no_space || m->counts->opens != opens ||
        log_gaps(r->log, NULL, 0) > 0) {
        return;
    }
    m->settling = true;
    int rc = log_settle_end(r->log, NULL);
    run_say(r, "settle: %s", error_name(rc));
    if (!mend_died(m, rc, "log_settle_end")) {
        m->end_unknown = m->settling = false;
        r->covered = r->durable.last;
    }
}

static inline void mend_scrub(struct mend *m) {
    uint64_t index = 0;
    struct log_gap gap;
    bool any = false;
    int rc;
    do {
        rc = log_scrub(m->r->log, &index, 1 + run_below(m->r, 20000), &gap, &any, NULL);
        RUN_CHECK(m->r, sim_disk_crashed(m->r->sim) || (rc == 0 && !any),
                  "scrub: %s, found [%llu..%llu]", error_name(rc), (ull)gap.first, (ull)gap.last);
    } while (rc == 0 && index != 0);
}

static inline void mend_step(struct mend *m) {
    struct run *r = m->r;
    if (run_chance(r, 3)) {
        sim_disk_crash_at(r->sim, sim_disk_op_count(r->sim) + run_below(r, 14));
    }
    if (run_chance(r, 20)) {
        sim_disk_set_capacity(r->sim, 1);
    }
    switch (run_below(r, 16)) {
    case 0: mend_append(m, false); break;
    case 1: mend_append(m, run_chance(r, 2)); break;
    case 2:
        if (!m->end_unknown) {
            (void)mend_died(m, log_mark(r->log, NULL), "log_mark");
        }
        break;
    case 3: (void)mend_died(m, log_prepare_spare(r->log, NULL), "log_prepare_spare"); break;
    case 4: mend_scrub(m); break;
    case 5: mend_reopen(m); break;
    default:
        if (m->end_unknown) {
            mend_catch_up(m);
        } else {
            mend_fill_some(m);
        }
        break;
    }
    sim_disk_set_capacity(r->sim, UINT64_MAX);
    if (sim_disk_crashed(r->sim)) {
        m->counts->crashes++;
        mend_reopen(m);
    }
    sim_disk_crash_at(r->sim, UINT64_MAX);
}

static inline void mend_reopen_whole(struct mend *m) {
    log_close(m->r->log);
    m->r->log = NULL;
    sim_disk_power_cut(m->r->sim);
    mend_open(m);
    RUN_CHECK(m->r, log_gaps(m->r->log, NULL, 0) == 0, "a gap came back");
}

/* All that is left to do, undisturbed; then it is a log like any other. */
static inline void mend_finish(struct mend *m) {
    struct run *r = m->r;
    while (m->end_unknown) {
        mend_catch_up(m);
    }
    struct log_gap gaps[64];
    while (log_gaps(r->log, gaps, 64) > 0 && gaps[0].first > r->durable.base) {
        RUN_CHECK(r, mend_fill(m, &gaps[0], RUN_BATCH) == 0, "fill [%llu..%llu]: refused",
                  (ull)gaps[0].first, (ull)gaps[0].last);
    }
    if (log_gaps(r->log, NULL, 0) > 0) {
        return;
    }
    m->counts->whole++;
    /* Files that no longer count go once the log is whole. */
    for (unsigned i = 0; i < 2; i++) {
        RUN_CHECK(r, log_prepare_spare(r->log, NULL) == 0, "the last spare");
        RUN_CHECK(r, log_mark(r->log, NULL) == 0 || m->unreadable, "the last mark");
        mend_reopen_whole(m);
    }
    RUN_CHECK(r, log_prepare_spare(r->log, NULL) == 0, "the last spare");
    log_close(r->log);
    r->log = NULL;
    sim_disk_kill(r->sim); /* removed names need not stay removed in a power cut */
    struct log_options options = run_log_options();
    struct reason why = {{0}};
    int rc = log_open(&r->log, sim_disk_seam(r->sim), RUN_DIR, &options, m->low, mend_low_term(m),
                      &r->state, &why);
    if (rc == LKV_EIO) {
        return; /* a sector that cannot be read, where nothing lies that counts */
    }
    RUN_CHECK(r, rc == 0, "it is whole, and does not open: %s: %s", error_name(rc), why.text);
    char what[300] = "the last entry";
    RUN_CHECK(r,
              r->state.last >= m->low && mend_matches(m, &r->durable, what, sizeof(what)) &&
                  (r->state.last == r->durable.last || r->state.last == m->low),
              "whole: %s", what);
}

static inline void mend_story(struct mend *m, unsigned steps) {
    struct run *r = m->r;
    run_open(r);
    for (unsigned i = 0; i < steps; i++) {
        run_step(r);
    }
    if (run_chance(r, 2) && log_mark(r->log, NULL) == 0) {
        r->covered = r->durable.last;
    }
    run_die(r);
    m->low = r->image > r->durable.base ? r->image : r->durable.base;
    if (r->durable.base == 0 && run_chance(r, 8)) {
        m->low = 0; /* the image is lost as well */
        m->damaged_anew = true;
        m->counts->other_image++;
    }
    mend_damage(m);
    mend_open(m);
    for (unsigned i = 0; i < steps + 10; i++) {
        mend_step(m);
    }
    mend_finish(m);
}

static inline bool mend_run(uint64_t seed, bool verbose, struct mend_counts *counts, char *text,
                            size_t text_size) {
    struct run *r = calloc(1, sizeof(*r));
    struct mend *m = calloc(1, sizeof(*m));
    struct crash_counts unused = {0};
    m->r = r;
    m->counts = counts;
    r->options.verbose = verbose;
    r->counts = &unused;
    bool ok = run_begin(r, seed, text, text_size);
    if (ok && setjmp(r->stop) == 0) {
        mend_story(m, 5 + (unsigned)(seed % 6) * 6);
    } else {
        ok = false;
    }
    free(m);
    run_end(r);
    return ok;
}

#endif
