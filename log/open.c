/* log_open and log_close.
 *
 *   read everything -> damaged, and nobody to mend it? refuse, nothing changed
 *   else rule 9: rewrite + sync what may only be in the page cache: records above the mark,
 *        headers, the directory, both vote slots -> the segment behind a torn tail -> a synced mark
 */
#include "log/internal.h"

#include "base/assert.h"
#include "base/mem.h"

#include <inttypes.h>

static struct log *log_new(struct disk *disk, const char *dir, const struct log_options *options) {
    struct log *log = mem_calloc(1, sizeof(*log));
    if (log == NULL) {
        return NULL;
    }
    log->dir = mem_strdup(dir);
    if (log->dir == NULL) {
        mem_free(log);
        return NULL;
    }
    log->disk = disk;
    log->options = *options;
    log->identity =
        (struct log_identity){.cluster_id = options->cluster_id, .group_id = options->group_id};
    pthread_mutex_init(&log->mutex, NULL);
    pthread_mutex_init(&log->names_mutex, NULL);
    return log;
}

static void log_free(struct log *log) {
    for (size_t i = 0; i < log->segment_count; i++) {
        segment_free(log->segments[i]);
    }
    spare_free(log->spare);
    vote_close(&log->vote);
    log_terms_fini(&log->terms);
    batch_fini(&log->batch);
    mem_free(log->segments);
    mem_free(log->dead);
    mem_free(log->state_runs);
    mem_free(log->state_gaps);
    mem_free(log->gaps);
    pthread_mutex_destroy(&log->mutex);
    pthread_mutex_destroy(&log->names_mutex);
    mem_free(log->dir);
    mem_free(log);
}

/* No log ever gets there; what says so is no number of ours. */
#define NUMBER_MAX (UINT64_MAX / 2)

static int adopt_gaps(struct log *log, const struct recovery_damage *damage) {
    int rc = 0;
    pthread_mutex_lock(&log->mutex);
    for (size_t i = 0; i < damage->gap_count && rc == 0; i++) {
        rc = gaps_add(log, &damage->gaps[i]);
    }
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

/* Takes over what recovery found. */
static int adopt(struct log *log, struct recovery *found) {
    log->vote = found->vote;
    found->vote = (struct vote_file){0};
    log->terms = found->terms;
    found->terms = (struct log_terms){0};
    log->marked = found->mark;
    log->first = log->terms.base_index + 1;
    log->last = log->terms.last;
    uint64_t used = log->vote.record.segments_reserved > found->highest_number
                        ? log->vote.record.segments_reserved
                        : found->highest_number;
    if (used > NUMBER_MAX) {
        return LKV_EDAMAGED;
    }
    log->next_number = used + 1; /* rule 6: whatever was reserved may have been written */
    if (live_reserve(log, found->segment_count + found->dead_count + 1) != 0) {
        return LKV_ENOMEM;
    }
    for (size_t i = 0; i < found->segment_count; i++) {
        found->segments[i]->rotten |= found->damage.found;
        log->bytes += found->segments[i]->capacity;
        live_push(log, found->segments[i]);
    }
    found->segment_count = 0;
    for (size_t i = 0; i < found->dead_count && !found->keeps_dead; i++) {
        found->dead[i]->rotten |= found->damage.found;
        log->bytes += found->dead[i]->capacity;
        live_bury(log, found->dead[i]);
    }
    found->dead_count = found->keeps_dead ? found->dead_count : 0;
    return adopt_gaps(log, &found->damage);
}

/* Copies a part of a file onto itself, so that a sync has something to bring to the disk. With
 * `passes`, sectors that cannot be read (S11) are left alone: no record that counts lies in them. */
static int rewrite_piece(struct disk_file *file, uint64_t from, uint8_t *bytes, size_t size,
                         bool passes) {
    size_t got;
    int rc = disk_read(file, from, bytes, size, &got);
    if (rc == LKV_EIO && passes && size > LOG_SCAN_SECTOR) {
        rc = 0;
        for (uint64_t to = from + size; rc == 0 && from < to;) {
            size_t step = (size_t)(LOG_SCAN_SECTOR - from % LOG_SCAN_SECTOR);
            step = to - from < step ? (size_t)(to - from) : step;
            rc = rewrite_piece(file, from, bytes, step, true);
            from += step;
        }
        return rc;
    }
    if (rc != 0) {
        return rc == LKV_EIO && passes ? 0 : rc;
    }
    struct slice part = slice_of(bytes, got);
    return got > 0 ? disk_write(file, from, &part, 1) : 0;
}

static int rewrite(struct disk_file *file, uint64_t from, uint64_t to, bool passes) {
    size_t capacity = to - from < LOG_SCAN_WINDOW ? (size_t)(to - from) : LOG_SCAN_WINDOW;
    uint8_t *bytes = mem_alloc(capacity);
    int rc = bytes != NULL ? 0 : LKV_ENOMEM;
    while (rc == 0 && from < to) {
        size_t step = to - from < capacity ? (size_t)(to - from) : capacity;
        rc = rewrite_piece(file, from, bytes, step, passes);
        from += step;
    }
    mem_free(bytes);
    return rc;
}

/* Rule 9: after SIGKILL or a failed fsync the page cache shows bytes that the disk does not have,
 * and calls them clean: only writing them again makes a sync mean something. A header that was lost
 * and is known from elsewhere is thereby restored. */
static int rewrite_segments(struct log *log, uint64_t from) {
    for (size_t i = 0; i < log->segment_count; i++) {
        struct segment *segment = log->segments[i];
        if (segment->file == NULL || segment->capacity == 0) {
            continue; /* lost */
        }
        int rc = segment_write_header(log, segment, segment->file);
        if (rc == 0 && segment == log->current && from < segment->tail) {
            rc = rewrite(segment->file, from, segment->tail, log->options.mend);
        }
        if (rc == 0) {
            rc = disk_sync(segment->file);
        }
        if (rc != 0) {
            return rc;
        }
    }
    return disk_sync_dir(log->disk, log->dir);
}

static void trace_torn(const struct log *log, const struct recovery *found) {
    if (found->superseded) {
        trace_line(log->options.trace, TRACE_WARN, "log.superseded",
                   "%s: the image at %" PRIu64 " contradicts the log, which is dropped", log->dir,
                   log->last);
    } else if (found->torn_offset > 0) {
        trace_line(log->options.trace, TRACE_WARN, "log.torn",
                   "%s: segment %" PRIu64 ": cut off at offset %" PRIu64 " behind entry %" PRIu64
                   ": %" PRIu64 " torn records, never acknowledged",
                   log->dir, log->current->number, found->torn_offset, log->last,
                   found->torn_records);
    }
}

/* A new newest segment behind a torn tail, behind an image, or the very first one. */
static int begin_behind(struct log *log, bool superseded, struct reason *why) {
    struct write_plan plan = {0};
    int rc = plan_segment(log, &plan, 0, why);
    if (rc == 0) {
        rc = live_reserve(log, 1);
    }
    if (rc == 0) {
        rc = segment_begin(log, plan_take(&plan), log->last + 1,
                           log_terms_at(&log->terms, log->last), !superseded, why);
    }
    plan_undo(log, &plan);
    if (rc == 0) {
        live_drop(log, log->first - 1);
    }
    return rc;
}

/* Rule 2: at open, term >= the last record's and the mark's. Raised, the vote is nobody's. */
static struct log_vote vote_at_open(const struct log *log, const struct recovery *found) {
    uint64_t term = log_terms_at(&log->terms, log->last);
    if (!found->superseded && found->mark.term > term) {
        term = found->mark.term;
    }
    struct log_vote vote = vote_saved(log);
    if (term > vote.term) {
        vote.term = term;
        vote.voted_for = 0;
    }
    return vote;
}

/* Rule 11: before anything else. The next open may find a newer segment that looks fine. */
static int admit_unknown_end(struct log *log, const struct recovery *found) {
    if (!found->damage.end_unknown || log->vote.record.end_unknown) {
        return 0;
    }
    struct vote_record record = log->vote.record;
    record.end_unknown = true;
    return vote_save(&log->vote, &record);
}

/* On a full disk the new segment can wait for the first write that needs it, and reads go on meanwhile
 * (rule 15). Until then nothing is written behind the end, so what is torn there stays as it is: above
 * the mark, and cut off again by the next open. Not so when the log does not end where its newest
 * segment does. */
static bool may_wait(const struct log *log, const struct recovery *found) {
    return log->current != NULL && !found->superseded && !found->lost_newest &&
           log->current->last == log->last;
}

static int make_durable(struct log *log, const struct recovery *found, struct reason *why) {
    int rc = admit_unknown_end(log, found);
    if (rc == 0) {
        rc = rewrite_segments(log, found->rewrite_from);
    }
    if (rc != 0) {
        return reason_set(why, rc, "%s: cannot write again what was read: %s", log->dir,
                          error_text(rc));
    }
    struct log_vote vote = vote_at_open(log, found);
    bool begins = found->needs_segment || found->lost_newest || log->current == NULL;
    if (begins) {
        rc = vote_write(log, &vote, 1, why); /* both slots, before the torn-tail segment */
        if (rc == 0) {
            rc = begin_behind(log, found->superseded, why);
        }
        if (rc == LKV_ENOSPACE && may_wait(log, found)) {
            log->current->closed = true;
            rc = 0;
        }
        if (rc != 0) {
            return rc;
        }
    }
    /* The synced mark: the vote file needs no space for it, and both slots are due anyway. */
    return vote_write(log, &vote, 0, why);
}

static int show_state(struct log *log, struct log_state *state) {
    const struct log_terms *terms = &log->terms;
    log->state_runs = mem_calloc(terms->count + 1, sizeof(*log->state_runs));
    if (log->state_runs == NULL) {
        return LKV_ENOMEM;
    }
    if (terms->count > 0) {
        memcpy(log->state_runs, terms->runs, terms->count * sizeof(*terms->runs));
    }
    state->vote = vote_saved(log);
    state->first = log->first;
    state->last = log->last;
    state->last_term = log_terms_at(terms, log->last);
    state->runs = log->state_runs;
    state->run_count = terms->count;
    if (log->gap_count > 0) {
        log->state_gaps = mem_calloc(log->gap_count, sizeof(*log->state_gaps));
        if (log->state_gaps == NULL) {
            return LKV_ENOMEM;
        }
        memcpy(log->state_gaps, log->gaps, log->gap_count * sizeof(*log->gaps));
        state->gaps = log->state_gaps;
        state->gap_count = log->gap_count;
    }
    state->end_unknown = log->vote.record.end_unknown;
    state->life = log->vote.record.life;
    return 0;
}

static int open_found(struct log *log, struct recovery *found, struct log_state *state,
                      struct reason *why) {
    const struct recovery_damage *damage = &found->damage;
    bool mends = log->options.mend && !damage->no_vote && !damage->contradiction;
    if (damage->found && !mends) {
        return reason_set(why, LKV_EDAMAGED, "%s", damage->first.text);
    }
    if (damage->end_unread && log->options.no_quorum_left) {
        /* Rule 11: once it is noted, it is for ever. */
        return reason_set(why, LKV_EIO,
                          "%s; start it again when the disk can be read: nobody else could confirm "
                          "where this log ended",
                          damage->first.text);
    }
    bool unused = found->segment_count == 0 && found->vote.record.term == 0;
    *state =
        (struct log_state){.blank = found->blank || unused, .cut_records = found->torn_records};
    if (damage->found) {
        state->damage = damage->first;
        trace_line(log->options.trace, TRACE_ERROR, "log.damaged", "%s (%zu gaps%s)",
                   damage->first.text, damage->gap_count,
                   damage->end_unknown ? ", the end is unknown" : "");
    }
    int rc = adopt(log, found);
    if (rc == 0 && found->blank) {
        rc = vote_create(&log->vote, log->disk, log->dir, &log->identity, why);
    }
    if (rc != 0) {
        return rc;
    }
    trace_torn(log, found);
    spare_adopt(log, &found->names);
    rc = make_durable(log, found, why);
    return rc != 0 ? rc : show_state(log, state);
}

int log_open(struct log **out, struct disk *disk, const char *dir,
             const struct log_options *options, uint64_t image_index, uint64_t image_term,
             struct log_state *state, struct reason *why) {
    *out = NULL;
    struct reason unwanted;
    why = why != NULL ? why : &unwanted;
    why->text[0] = '\0';
    int rc = log_dir_check(dir, why);
    if (rc != 0) {
        return rc;
    }
    struct log *log = log_new(disk, dir, options);
    if (log == NULL) {
        return reason_set(why, LKV_ENOMEM, "%s: %s", dir, error_text(LKV_ENOMEM));
    }
    struct recovery_source source = {.disk = disk,
                                     .dir = dir,
                                     .open_flags = DISK_WRITE,
                                     .mend = options->mend,
                                     .identity = &log->identity,
                                     .image_index = image_index,
                                     .image_term = image_term};
    struct recovery found;
    rc = recovery_run(&found, &source, why);
    if (rc == 0) {
        rc = open_found(log, &found, state, why);
    }
    recovery_fini(&found);
    if (rc != 0) {
        log_free(log);
        return why->text[0] != '\0' ? rc : reason_set(why, rc, "%s: %s", dir, error_text(rc));
    }
    *out = log;
    return 0;
}

void log_close(struct log *log) {
    if (log == NULL) {
        return;
    }
    (void)!log_mark(log, NULL); /* rule 8: on clean stop; refused by itself after a failure */
    log_free(log);
}

uint64_t log_first(struct log *log) {
    pthread_mutex_lock(&log->mutex);
    uint64_t first = log->first;
    pthread_mutex_unlock(&log->mutex);
    return first;
}

uint64_t log_room(struct log *log) {
    pthread_mutex_lock(&log->mutex);
    const struct segment *newest = log->segments[log->segment_count - 1];
    uint64_t room = segment_room(newest);
    room += log->spare != NULL ? log->spare->capacity - LOG_BLOCK : 0;
    pthread_mutex_unlock(&log->mutex);
    return room;
}

uint64_t log_bytes(struct log *log) {
    pthread_mutex_lock(&log->mutex);
    uint64_t bytes = log->bytes;
    pthread_mutex_unlock(&log->mutex);
    return bytes;
}
