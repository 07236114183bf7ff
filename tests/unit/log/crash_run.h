/* One seed = one life story of a log on a disk that crashes: random operations, faults and deaths,
 * compared after every reopening with a model that knows what may be there. Included by crash.c
 * (many seeds, quickly), crash_long.c (very many) and mutants.c (must find something).
 *
 * The model holds the log that was reported durable, and what the one unfinished operation may have
 * made of it. After a reopening:
 *   - what was reported durable is there, byte for byte; nothing is invented;
 *   - the unfinished write is there as a prefix of its steps (vote, cut, entries), never otherwise;
 *   - what was cut never comes back;
 *   - damage is never reported, unless a bit was flipped; a flipped bit under a durable mark is.
 */
#ifndef TESTS_UNIT_LOG_CRASH_RUN_H
#define TESTS_UNIT_LOG_CRASH_RUN_H

#include "base/crc.h"
#include "base/prng.h"
#include "log/format.h"
#include "log/log.h"
#include "tests/sim/sim_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define RUN_DIR "d"

enum { RUN_INDICES = 1024, RUN_TERMS = 60, RUN_BATCH = 12, RUN_SEGMENT = 16 * 1024 };

struct crash_options {
    unsigned steps;
    bool rot;             /* ends with a flipped bit */
    bool ignore_sync_dir; /* the disk lies: a mutant, which the model must notice */
    bool ignore_sync;
    bool verbose; /* prints what it does */
};

/* What a number of seeds did, for judging the test itself. */
struct crash_counts {
    uint64_t opens, crashes, power_cuts, failed_opens, faults, no_space, cuts, torn, restarts,
        superseded, rot_covered, rot_blind, rot_header, rot_slot, rot_dead, reads;
};

/* Entry i has term[i] and a payload made from uid[i] of size[i] bytes. */
struct run_log {
    uint64_t base; /* nothing at or below it may ever be read: the log was restarted here */
    uint64_t last;
    uint64_t term[RUN_INDICES];
    uint64_t uid[RUN_INDICES];
    uint32_t size[RUN_INDICES];
};

struct run {
    struct crash_options options;
    struct crash_counts *counts;
    struct prng prng;
    struct sim_disk *sim;
    struct log *log;
    struct log_state state;

    struct run_log durable; /* reported durable */
    struct log_vote vote;
    uint64_t covered; /* a durable mark says so */
    uint64_t image, image_term;
    uint64_t used_terms[RUN_INDICES]; /* bit t: (index, t) existed; never used for other bytes */

    /* The unfinished write, if any. */
    bool pending, pending_vote, pending_restart;
    struct log_vote new_vote;
    uint64_t pending_cut; /* 0: none */
    uint64_t pending_from;
    struct run_log after; /* durable + cut + all entries */

    /* One story in four is about the tail: small records, many across sectors, and a death in
     * every other write. */
    bool about_tail;

    jmp_buf stop;
    char *text;
    size_t text_size;
};

static inline void run_say(struct run *r, const char *format, ...) {
    if (r->options.verbose) {
        va_list args;
        va_start(args, format);
        (void)vprintf(format, args);
        va_end(args);
        (void)printf("\n");
        (void)fflush(stdout);
    }
}

static inline _Noreturn void run_fail(struct run *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(r->text, r->text_size, format, args);
    va_end(args);
    run_say(r, "FAILED: %s", r->text);
    longjmp(r->stop, 1);
}

#define RUN_CHECK(r, condition, ...)    \
    do {                                \
        if (!(condition)) {             \
            run_fail((r), __VA_ARGS__); \
        }                               \
    } while (0)

typedef unsigned long long ull;

static inline uint64_t run_below(struct run *r, uint64_t bound) {
    return prng_below(&r->prng, bound);
}

static inline bool run_chance(struct run *r, unsigned one_in) {
    return run_below(r, one_in) == 0;
}

static inline struct blob *run_payload(uint64_t uid, uint32_t size) {
    struct blob *blob = blob_new(size);
    struct prng prng = prng_of(uid);
    for (uint32_t i = 0; i < size; i++) {
        blob->data[i] = (uint8_t)prng_next(&prng);
    }
    return blob;
}

/* --- comparing a reopened log with the model --- */

/* What opening with the current image should show of a log: empty behind the image if the image is
 * beyond it or contradicts it. */
static inline uint64_t run_visible_last(const struct run *r, const struct run_log *log) {
    bool beyond = r->image > log->last;
    bool conflicts = !beyond && r->image > log->base && log->term[r->image] != r->image_term;
    return beyond || conflicts ? r->image : log->last;
}

static inline bool run_entry_equal(const struct run_log *log, const struct entry *entry) {
    uint64_t i = entry->index;
    if (i > log->last || i <= log->base || log->term[i] != entry->term) {
        return false;
    }
    struct blob *want = run_payload(log->uid[i], log->size[i]);
    bool equal = slice_equal(blob_slice(want), blob_slice(entry->payload));
    blob_unref(want);
    return equal;
}

/* Reads [from, to] and compares with `log`; the first difference goes to `what`. */
static inline bool run_same_entries(struct run *r, const struct run_log *log, uint64_t from,
                                    uint64_t to, char *what, size_t what_size) {
    while (from <= to) {
        struct entry got[16];
        size_t count;
        struct reason why = {{0}};
        int rc = log_read(r->log, from, to, 1 << 16, got, 16, &count, &why);
        if (rc != 0) {
            (void)snprintf(what, what_size, "read %llu: %.200s", (ull)from, why.text);
            return false;
        }
        bool same = true;
        for (size_t i = 0; i < count; i++) {
            if (same && (got[i].index != from || !run_entry_equal(log, &got[i]))) {
                (void)snprintf(what, what_size, "entry %llu (term %llu) is another one", (ull)from,
                               (ull)got[i].term);
                same = false;
            }
            from++;
            blob_unref(got[i].payload);
        }
        if (!same) {
            return false;
        }
    }
    return true;
}

/* Could `log`, of which [.., last] exists, be what was opened? */
static inline bool run_matches(struct run *r, const struct run_log *full, uint64_t last, char *what,
                               size_t what_size) {
    struct run_log *log = malloc(sizeof(*log));
    *log = *full;
    log->last = last;
    uint64_t visible = run_visible_last(r, log);
    bool ok = r->state.last == visible;
    if (!ok) {
        (void)snprintf(what, what_size, "last is %llu, expected %llu", (ull)r->state.last,
                       (ull)visible);
    }
    bool emptied =
        visible == r->image &&
        (r->image > last || (r->image > log->base && log->term[r->image] != r->image_term));
    if (ok && !emptied) {
        ok = r->state.first > log->base || r->state.first > r->state.last;
        if (!ok) {
            (void)snprintf(what, what_size, "first is %llu, nothing at %llu may be left",
                           (ull)r->state.first, (ull)log->base);
        }
        ok = ok && run_same_entries(r, log, r->state.first, r->state.last, what, what_size);
    } else if (ok && r->state.first != visible + 1) {
        ok = false;
        (void)snprintf(what, what_size, "first is %llu behind an image at %llu",
                       (ull)r->state.first, (ull)r->image);
    }
    if (ok && !emptied) {
        r->durable = *log;
    }
    if (ok && emptied) {
        r->durable.base = r->durable.last = visible;
    }
    free(log);
    return ok;
}

static inline bool run_vote_is(const struct run *r, const struct log_vote *vote) {
    return r->state.vote.term == vote->term && r->state.vote.voted_for == vote->voted_for;
}

/* Every state that the unfinished write may have left. */
static inline void run_judge(struct run *r) {
    char what[300] = "", unused[300];
    bool old_vote = run_vote_is(r, &r->vote);
    bool new_vote = r->pending && r->pending_vote ? run_vote_is(r, &r->new_vote) : old_vote;
    RUN_CHECK(r, old_vote || new_vote, "the vote is term %llu for %llu, was %llu for %llu",
              (ull)r->state.vote.term, (ull)r->state.vote.voted_for, (ull)r->vote.term,
              (ull)r->vote.voted_for);
    RUN_CHECK(r, r->state.first <= r->image + 1, "first %llu is above the image %llu",
              (ull)r->state.first, (ull)r->image);
    struct run_log *before = malloc(sizeof(*before));
    *before = r->durable;
    bool ok = run_matches(r, before, before->last, what, sizeof(what));
    if (!ok && r->pending && new_vote) {
        uint64_t lowest = r->pending_cut != 0 ? r->pending_cut - 1 : before->last + 1;
        for (uint64_t last = r->after.last; !ok && last >= lowest && last > 0; last--) {
            ok = run_matches(r, &r->after, last, unused, sizeof(unused));
        }
        if (!ok && lowest == 0) {
            ok = run_matches(r, &r->after, 0, unused, sizeof(unused));
        }
    }
    free(before);
    RUN_CHECK(r, ok, "reopened log is not one that may be there: %s (pending %d, cut %llu)", what,
              (int)r->pending, (ull)r->pending_cut);
    r->vote = r->state.vote;
    r->pending = false;
    r->covered = r->state.last;
}

/* --- death and reopening --- */

/* What lies in the directory, for people. */
static inline void run_show_files(struct run *r) {
    const char *path;
    struct slice bytes;
    for (size_t n = 0; r->options.verbose && (path = sim_disk_path(r->sim, n)) != NULL; n++) {
        struct segment_header header;
        if (!sim_disk_peek(r->sim, path, &bytes)) {
            continue;
        }
        bool valid = segment_header_decode(bytes, &header, NULL) == 0;
        run_say(r, "    %s %zu bytes: segment %llu from %llu", path, bytes.size,
                valid ? (ull)header.number : 0, valid ? (ull)header.first : 0);
    }
}

static inline void run_die(struct run *r) {
    sim_disk_crash_now(r->sim);
    log_close(r->log);
    r->log = NULL;
    if (run_chance(r, 2)) {
        r->counts->power_cuts++;
        run_say(r, "power cut");
        sim_disk_power_cut(r->sim);
    } else {
        run_say(r, "kill");
        sim_disk_kill(r->sim);
        if (run_chance(r, 3)) {
            sim_disk_evict(r->sim);
        }
    }
}

static inline struct log_options run_log_options(void) {
    return (struct log_options){.cluster_id = 0xc1,
                                .group_id = 7,
                                .segment_bytes = RUN_SEGMENT,
                                .record_bytes_max = 64 * 1024};
}

static inline void run_open(struct run *r) {
    for (;;) {
        struct log_options options = run_log_options();
        struct reason why = {{0}};
        bool disturbed = run_chance(r, 3);
        if (disturbed && run_chance(r, 2)) {
            sim_disk_crash_at(r->sim, run_below(r, 40));
        } else if (disturbed) {
            int kinds = run_chance(r, 2) ? SIM_SYNC | SIM_SYNC_DIR : SIM_ANY;
            sim_disk_fail(r->sim, kinds, run_below(r, 15),
                          run_chance(r, 3) ? LKV_ENOSPACE : LKV_EIO, run_chance(r, 3));
        }
        int rc = log_open(&r->log, sim_disk_seam(r->sim), RUN_DIR, &options, r->image,
                          r->image_term, &r->state, &why);
        r->counts->opens++;
        sim_disk_heal(r->sim);
        run_show_files(r);
        run_say(r, "open: %s %s: [%llu..%llu] vote %llu/%llu cut %llu", error_name(rc), why.text,
                (ull)r->state.first, (ull)r->state.last, (ull)r->state.vote.term,
                (ull)r->state.vote.voted_for, (ull)r->state.cut_records);
        if (rc == 0) {
            sim_disk_crash_at(r->sim, UINT64_MAX);
            break;
        }
        RUN_CHECK(r, disturbed && rc != LKV_EDAMAGED, "open: %s: %s", error_name(rc), why.text);
        r->counts->failed_opens++;
        run_die(r);
    }
    r->counts->torn += r->state.cut_records > 0;
    run_judge(r);
}

static inline void run_reopen(struct run *r) {
    run_die(r);
    run_open(r);
}

/* --- operations --- */

/* A term for (index) that is at least `low` and was never used there for other bytes; 0: none. */
static inline uint64_t run_term_for(struct run *r, uint64_t index, uint64_t low) {
    for (uint64_t term = low > 0 ? low : 1; term < RUN_TERMS; term++) {
        if ((r->used_terms[index] >> term & 1) == 0) {
            return term;
        }
    }
    return 0;
}

static inline uint32_t run_size(struct run *r) {
    if (r->about_tail) {
        return (uint32_t)run_below(r, 3) * 8;
    }
    switch (run_below(r, 12)) {
    case 0: return 0;
    case 1: return (uint32_t)run_below(r, 5000);
    case 2: return run_chance(r, 6) ? (uint32_t)run_below(r, 20000) : 8;
    default: return (uint32_t)run_below(r, 700);
    }
}

/* Fills `after` and the entries; returns how many. */
static inline size_t run_make_entries(struct run *r, uint64_t from, struct entry *entries,
                                      size_t wanted) {
    r->after = r->durable;
    r->after.last = from - 1;
    uint64_t low = from - 1 > r->after.base ? r->after.term[from - 1]
                                            : (from - 1 == r->image ? r->image_term : 0);
    size_t count = 0;
    while (count < wanted && from + count < RUN_INDICES - 1) {
        uint64_t index = from + count;
        uint64_t term = run_term_for(r, index, low + (run_chance(r, 6) ? 1 : 0));
        if (term == 0) {
            break;
        }
        r->used_terms[index] |= 1ull << term;
        low = term;
        r->after.last = index;
        r->after.term[index] = term;
        r->after.uid[index] = prng_next(&r->prng);
        r->after.size[index] = run_size(r);
        entries[count] =
            (struct entry){.index = index,
                           .term = term,
                           .type = ENTRY_COMMAND,
                           .payload = r->after.size[index] > 0
                                          ? run_payload(r->after.uid[index], r->after.size[index])
                                          : NULL};
        count++;
    }
    return count;
}

/* After an operation that failed: final, unless there was no space. */
static inline void run_failed(struct run *r, int rc, const char *what) {
    r->counts->faults++;
    if (sim_disk_crashed(r->sim)) {
        r->counts->crashes++;
        run_reopen(r);
        return;
    }
    if (rc == LKV_ENOSPACE) {
        r->counts->no_space++;
        return; /* nothing has changed: the caller has dropped what was pending */
    }
    sim_disk_heal(r->sim);
    struct reason why = {{0}};
    struct log_write again = {.save_vote = true, .vote = {.term = RUN_TERMS, .voted_for = 1}};
    RUN_CHECK(r, log_write(r->log, &again, &why) != 0, "rule 10: a write after a failed %s", what);
    run_reopen(r);
}

static inline void run_write(struct run *r, bool cuts, bool votes, size_t wanted) {
    struct entry entries[RUN_BATCH];
    uint64_t lowest = (r->image > r->durable.base ? r->image : r->durable.base) + 1;
    uint64_t from = r->durable.last + 1;
    if (cuts && r->durable.last >= lowest) {
        from = lowest + run_below(r, r->durable.last - lowest + 1);
    } else {
        cuts = false;
    }
    size_t count = run_make_entries(r, from, entries, wanted);
    uint64_t term = count > 0 ? entries[count - 1].term : 0;
    r->new_vote = r->vote;
    if (term > r->vote.term || votes) {
        votes = true;
        r->new_vote.term = (term > r->vote.term ? term : r->vote.term) + run_below(r, 2);
        r->new_vote.voted_for =
            r->new_vote.term == r->vote.term ? r->vote.voted_for : run_below(r, 4);
    }
    r->pending = true;
    r->pending_vote = votes;
    r->pending_cut = cuts ? from : 0;
    struct log_write write = {.save_vote = votes,
                              .vote = r->new_vote,
                              .cut_from = cuts ? from : 0,
                              .entries = entries,
                              .count = count};
    struct reason why = {{0}};
    int rc = log_write(r->log, &write, &why);
    run_say(r, "write cut %llu vote %d (%llu/%llu) entries %llu..%llu: %s %s", (ull)r->pending_cut,
            (int)votes, (ull)r->new_vote.term, (ull)r->new_vote.voted_for, (ull)from,
            (ull)(from + count - 1), error_name(rc), why.text);
    for (size_t i = 0; i < count; i++) {
        blob_unref(entries[i].payload);
    }
    r->counts->cuts += cuts && rc == 0;
    if (rc == 0) {
        /* Said in the records and in the vote; a cut lowers it. */
        uint64_t said = count > 0 || votes ? r->durable.last : r->covered;
        r->covered = cuts ? from - 1 : said;
        r->durable = r->after;
        r->vote = r->new_vote;
        r->pending = false;
        return;
    }
    if (rc == LKV_ENOSPACE) {
        r->pending = false;
    }
    run_failed(r, rc, "log_write");
}

static inline void run_mark(struct run *r) {
    struct reason why = {{0}};
    int rc = log_mark(r->log, &why);
    run_say(r, "mark: %s %s", error_name(rc), why.text);
    if (rc == 0) {
        r->covered = r->durable.last;
    } else {
        run_failed(r, rc, "log_mark");
    }
}

static inline void run_drop_prefix(struct run *r) {
    uint64_t low = r->image > r->durable.base ? r->image : r->durable.base;
    if (r->durable.last <= low) {
        return;
    }
    r->image = low + 1 + run_below(r, r->durable.last - low);
    r->image_term = r->durable.term[r->image];
    struct reason why = {{0}};
    int rc = log_drop_prefix(r->log, r->image, &why);
    run_say(r, "drop prefix %llu: %s %s", (ull)r->image, error_name(rc), why.text);
    RUN_CHECK(r, rc != 0 || log_first(r->log) <= r->image + 1, "dropped too much");
    if (rc != 0 && log_mark(r->log, &why) != 0) {
        run_failed(r, LKV_EIO, "log_drop_prefix");
    }
}

static inline void run_prepare(struct run *r) {
    struct reason why = {{0}};
    int rc = log_prepare_spare(r->log, &why);
    run_say(r, "prepare spare: %s %s", error_name(rc), why.text);
    RUN_CHECK(r, rc != 0 || !log_wants_spare(r->log), "a spare is wanted still");
    if (sim_disk_crashed(r->sim)) {
        r->counts->crashes++;
        run_reopen(r);
    }
}

/* An image from the leader: beyond the log, or contradicting it. */
static inline void run_restart(struct run *r) {
    uint64_t low = r->image > r->durable.base ? r->image : r->durable.base;
    uint64_t index = low + 1 + run_below(r, r->durable.last - low + 5);
    uint64_t term = index < RUN_INDICES - 100 ? run_term_for(r, index, r->image_term + 1) : 0;
    if (term == 0) {
        return;
    }
    if (term > r->vote.term) { /* whoever takes an image has adopted its leader's term */
        struct log_write write = {.save_vote = true, .vote.term = term};
        r->pending = r->pending_vote = true;
        r->pending_cut = 0;
        r->new_vote = write.vote;
        r->after = r->durable;
        int rc = log_write(r->log, &write, NULL);
        if (rc != 0) {
            run_failed(r, rc, "log_write");
            return;
        }
        r->pending = false;
        r->vote = write.vote;
        r->covered = r->durable.last;
    }
    r->used_terms[index] |= 1ull << term;
    r->image = index; /* durable before the log hears of it */
    r->image_term = term;
    r->counts->restarts++;
    if (run_chance(r, 4)) {
        r->counts->superseded++;
        run_say(r, "image %llu term %llu, then death", (ull)index, (ull)term);
        run_reopen(r);
        return;
    }
    r->pending = true;
    r->pending_vote = false;
    r->new_vote = r->vote;
    r->pending_cut = 0;
    r->after.base = r->after.last = index;
    struct reason why = {{0}};
    int rc = log_restart_after(r->log, index, term, &why);
    run_say(r, "restart after %llu term %llu: %s %s", (ull)index, (ull)term, error_name(rc),
            why.text);
    if (rc == 0) {
        r->durable.base = r->durable.last = index;
        r->covered = index;
        r->pending = false;
        RUN_CHECK(r, log_first(r->log) == index + 1, "first after a restart");
        return;
    }
    if (rc == LKV_ENOSPACE) {
        run_reopen(r); /* the owner cannot go on with a log that contradicts its image */
        return;
    }
    run_failed(r, rc, "log_restart_after");
}

static inline void run_read(struct run *r) {
    uint64_t first = log_first(r->log);
    if (first <= r->durable.base || first > r->durable.last) {
        return;
    }
    uint64_t from = first + run_below(r, r->durable.last - first + 1);
    char what[300];
    r->counts->reads++;
    bool ok = run_same_entries(r, &r->durable, from, r->durable.last, what, sizeof(what));
    RUN_CHECK(r, ok || sim_disk_crashed(r->sim), "%s", what);
}

static inline void run_clean_stop(struct run *r) {
    run_say(r, "clean stop");
    log_close(r->log);
    r->log = NULL;
    if (sim_disk_crashed(r->sim) || run_chance(r, 3)) {
        sim_disk_power_cut(r->sim);
    } else {
        sim_disk_kill(r->sim);
    }
    run_open(r);
}

static inline void run_disturb(struct run *r) {
    if (run_chance(r, 2)) {
        uint64_t soon = r->about_tail ? 5 : 12;
        sim_disk_crash_at(r->sim, sim_disk_op_count(r->sim) + run_below(r, soon));
        return;
    }
    static const int kinds[] = {SIM_ANY,  SIM_WRITE,    SIM_SYNC,   SIM_OPEN,
                                SIM_READ, SIM_SYNC_DIR, SIM_RENAME, SIM_REMOVE};
    sim_disk_fail(r->sim, kinds[run_below(r, 8)], run_below(r, 6),
                  run_chance(r, 3) ? LKV_ENOSPACE : LKV_EIO, run_chance(r, 4));
}

static inline void run_step(struct run *r) {
    bool disturbed = run_chance(r, r->about_tail ? 2 : 8);
    uint64_t what = r->about_tail && run_chance(r, 2) ? 12 : run_below(r, 20);
    if (disturbed && what != 19) {
        run_disturb(r);
    }
    switch (what) {
    case 0:
    case 1: run_write(r, true, run_chance(r, 4), 1 + run_below(r, 4)); break;
    case 2: run_write(r, true, run_chance(r, 4), 0); break;
    case 3: run_write(r, false, true, 0); break;
    case 4:
    case 5: run_mark(r); break;
    case 6: run_drop_prefix(r); break;
    case 7:
    case 8: run_prepare(r); break;
    case 9:
        if (run_chance(r, 4)) {
            run_restart(r);
        }
        break;
    case 10: run_clean_stop(r); break;
    case 11: run_reopen(r); break;
    case 19: run_read(r); break;
    default: run_write(r, false, run_chance(r, 8), 1 + run_below(r, RUN_BATCH)); break;
    }
    if (disturbed && !sim_disk_crashed(r->sim)) {
        sim_disk_heal(r->sim);
        sim_disk_crash_at(r->sim, UINT64_MAX);
    }
    if (sim_disk_crashed(r->sim)) {
        r->counts->crashes++;
        run_reopen(r);
    }
}

/* --- rot --- */

struct run_place {
    char path[64];
    uint64_t offset, length; /* of the record */
};

static inline bool run_segment_number(const char *path, uint64_t *number) {
    size_t size = strlen(path);
    if (size < 4 || strcmp(path + size - 4, ".seg") != 0) {
        return false;
    }
    *number = strtoull(path + strlen(RUN_DIR "/"), NULL, 10);
    return true;
}

/* The newest copy of entry `index`. */
static inline bool run_find_record(struct run *r, uint64_t index, struct run_place *place) {
    struct log_identity identity = {.cluster_id = 0xc1, .group_id = 7};
    bool found = false;
    const char *path;
    for (size_t n = 0; (path = sim_disk_path(r->sim, n)) != NULL; n++) {
        struct slice bytes;
        uint64_t number;
        if (!run_segment_number(path, &number) || !sim_disk_peek(r->sim, path, &bytes)) {
            continue;
        }
        for (uint64_t at = LOG_BLOCK; at + LOG_RECORD_HEADER <= bytes.size; at += LOG_ALIGN) {
            struct record_header header;
            if (record_magic_at(bytes.data + at) &&
                record_header_decode(bytes.data + at, &identity, number, at, &header) &&
                header.type != LOG_TYPE_MARK && header.index == index) {
                (void)snprintf(place->path, sizeof(place->path), "%s", path);
                place->offset = at;
                place->length = LOG_RECORD_HEADER + header.length;
                found = true;
            }
        }
    }
    return found;
}

static inline int run_open_rotten(struct run *r, struct reason *why) {
    struct log_options options = run_log_options();
    return log_open(&r->log, sim_disk_seam(r->sim), RUN_DIR, &options, r->image, r->image_term,
                    &r->state, why);
}

static inline void run_stop_for_rot(struct run *r) {
    if (run_chance(r, 2) && log_mark(r->log, NULL) == 0) { /* as a clean stop does */
        r->covered = r->durable.last;
    }
    sim_disk_crash_now(r->sim);
    log_close(r->log);
    r->log = NULL;
    if (run_chance(r, 2)) {
        sim_disk_kill(r->sim);
    } else {
        sim_disk_power_cut(r->sim);
    }
}

static inline void run_rot_record(struct run *r) {
    uint64_t low = (r->image > r->durable.base ? r->image : r->durable.base) + 1;
    if (r->durable.last < low) {
        return;
    }
    uint64_t index = low + run_below(r, r->durable.last - low + 1);
    struct run_place place;
    RUN_CHECK(r, run_find_record(r, index, &place), "no record %llu", (ull)index);
    uint64_t at = place.offset + run_below(r, place.length);
    RUN_CHECK(r, sim_disk_flip_bit(r->sim, place.path, at, (unsigned)run_below(r, 8), SIM_ROT_BOTH),
              "no bit to flip");
    struct reason why = {{0}};
    int rc = run_open_rotten(r, &why);
    run_say(r, "rot in %llu (covered %llu): %s %s", (ull)index, (ull)r->covered, error_name(rc),
            why.text);
    if (index <= r->covered) {
        r->counts->rot_covered++;
        RUN_CHECK(r, rc == LKV_EDAMAGED, "rot in acknowledged entry %llu: %s", (ull)index,
                  error_name(rc));
        return;
    }
    r->counts->rot_blind++;
    RUN_CHECK(r, rc == LKV_EDAMAGED || (rc == 0 && r->state.last == index - 1),
              "rot in the blind window at %llu: %s, last %llu", (ull)index, error_name(rc),
              (ull)r->state.last);
}

static inline void run_rot_header(struct run *r) {
    const char *paths[64];
    size_t count = 0;
    uint64_t number;
    const char *path;
    for (size_t n = 0; (path = sim_disk_path(r->sim, n)) != NULL && count < 64; n++) {
        if (run_segment_number(path, &number)) {
            paths[count++] = path;
        }
    }
    path = paths[run_below(r, count)];
    (void)sim_disk_flip_bit(r->sim, path, run_below(r, LOG_HEADER_SIZE), (unsigned)run_below(r, 8),
                            SIM_ROT_BOTH);
    struct reason why = {{0}};
    int rc = run_open_rotten(r, &why);
    r->counts->rot_header++;
    RUN_CHECK(r, rc == LKV_EDAMAGED, "rot in the header of %s: %s", path, error_name(rc));
}

static inline void run_rot_slot(struct run *r) {
    uint64_t slot = run_below(r, 2);
    (void)sim_disk_flip_bit(r->sim, RUN_DIR "/vote",
                            slot * LOG_BLOCK + run_below(r, LOG_HEADER_SIZE),
                            (unsigned)run_below(r, 8), SIM_ROT_BOTH);
    struct reason why = {{0}};
    int rc = run_open_rotten(r, &why);
    r->counts->rot_slot++;
    RUN_CHECK(r, rc == 0, "one rotten vote slot: %s: %s", error_name(rc), why.text);
    run_judge(r);
}

static inline void run_rot(struct run *r) {
    run_stop_for_rot(r);
    switch (run_below(r, 6)) {
    case 0: run_rot_header(r); break;
    case 1: run_rot_slot(r); break;
    default: run_rot_record(r); break;
    }
}

/* False: the disk did not even take the directory. */
static inline bool run_begin(struct run *r, uint64_t seed, char *text, size_t text_size) {
    r->prng = prng_of(seed);
    r->sim = sim_disk_new(prng_next(&r->prng));
    r->text = text;
    r->text_size = text_size;
    return disk_make_dir(sim_disk_seam(r->sim), RUN_DIR) == 0 &&
           disk_sync_dir(sim_disk_seam(r->sim), "") == 0;
}

static inline void run_end(struct run *r) {
    sim_disk_crash_now(r->sim);
    log_close(r->log);
    sim_disk_free(r->sim);
    free(r);
}

/* What the environment says of a long hunt. */
static inline uint64_t run_number_from(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static inline bool crash_run(uint64_t seed, const struct crash_options *options,
                             struct crash_counts *counts, char *text, size_t text_size) {
    struct run *r = calloc(1, sizeof(*r));
    r->options = *options;
    r->counts = counts;
    bool ok = run_begin(r, seed, text, text_size);
    r->about_tail = run_chance(r, 4);
    sim_disk_ignore_sync_dir(r->sim, options->ignore_sync_dir);
    sim_disk_ignore_sync(r->sim, options->ignore_sync);
    if (ok && setjmp(r->stop) == 0) {
        run_open(r);
        for (unsigned i = 0; i < options->steps; i++) {
            run_step(r);
        }
        if (options->rot) {
            run_rot(r);
        }
    } else {
        ok = false;
    }
    run_end(r);
    return ok;
}

#endif
