/* log_write and log_mark: one group commit at a time, on the log thread.
 *
 *   plan (may be refused) -> vote, 2 syncs -> cut = new segment -> records: 1 write + 1 sync for
 *   each segment that they fall into (nearly always one)
 */
#include "log/internal.h"

#include "base/assert.h"

/* Entries [first, first + count) are on disk and become visible to readers. */
static void publish(struct log *log, const struct entry *entries, size_t count) {
    struct segment *segment = log->current;
    struct log_mark_value mark = {.segment = segment->number,
                                  .index = log->last,
                                  .term = log_terms_at(&log->terms, log->last)};
    pthread_mutex_lock(&log->mutex);
    for (size_t i = 0; i < count; i++) {
        log_terms_push(&log->terms, entries[i].index, entries[i].term);
        segment_note(segment, entries[i].index, segment->tail);
        segment->tail += record_size(entry_length(&entries[i]));
    }
    segment->last = log->last = entries[count - 1].index;
    pthread_mutex_unlock(&log->mutex);
    log->marked = log_mark_newer(log->marked, mark); /* the records said it, and are synced */
}

static int flush_batch(struct log *log, struct reason *why) {
    int rc =
        disk_write(log->current->file, log->current->tail, log->batch.parts, log->batch.part_count);
    if (rc == 0) {
        rc = disk_sync(log->current->file);
    }
    return rc != 0 ? log_fail(log, rc, why, "write records") : log_failed(log, why);
}

/* As many entries as fit into the current segment; returns how many. */
static size_t fill_batch(struct log *log, const struct entry *entries, size_t count) {
    uint64_t prev_term = log_terms_at(&log->terms, log->last);
    uint64_t offset = log->current->tail;
    uint64_t end = offset + segment_room(log->current);
    size_t taken = 0;
    batch_begin(&log->batch);
    while (taken < count) {
        const struct entry *entry = &entries[taken];
        uint64_t size = record_size(entry_length(entry));
        if (size > end - offset) {
            break;
        }
        batch_add(&log->batch, log, entry, prev_term, offset);
        prev_term = entry->term;
        offset += size;
        taken++;
    }
    return taken;
}

int append_entries(struct log *log, const struct entry *entries, size_t count,
                   struct write_plan *plan, struct reason *why) {
    while (count > 0) {
        size_t taken = fill_batch(log, entries, count);
        int rc;
        if (taken > 0) {
            rc = flush_batch(log, why);
        } else {
            /* Everything before is synced: the header's mark says so. */
            rc = segment_begin(log, plan_take(plan), entries[0].index,
                               log_terms_at(&log->terms, log->last), true, why);
        }
        if (rc != 0) {
            return rc;
        }
        if (taken > 0) {
            publish(log, entries, taken);
        }
        entries += taken;
        count -= taken;
    }
    return 0;
}

/* Rule 7: no old byte is touched; what the new segment begins with is dead in the older ones. */
static int cut(struct log *log, const struct log_write *write, struct write_plan *plan,
               struct reason *why) {
    uint64_t from = write->cut_from;
    uint64_t known = log_terms_at(&log->terms, from - 1);
    uint64_t prev_term = write->cut_prev_term != 0 ? write->cut_prev_term : known;
    int rc = segment_begin(log, plan_take(plan), from, prev_term, true, why);
    if (rc == 0) {
        pthread_mutex_lock(&log->mutex);
        log_terms_cut(&log->terms, from);
        if (prev_term != known) { /* in a gap */
            log_terms_cut(&log->terms, from - 1);
            log_terms_push(&log->terms, from - 1, prev_term);
        }
        gaps_end_in(log, prev_term); /* what is left of a gap (rule 11) */
        pthread_mutex_unlock(&log->mutex);
    }
    return rc;
}

static void trim_terms(struct log *log) {
    pthread_mutex_lock(&log->mutex);
    log_terms_trim(&log->terms, log->first);
    pthread_mutex_unlock(&log->mutex);
}

int log_write(struct log *log, const struct log_write *write, struct reason *why) {
    int rc = log_failed(log, why); /* rule 10 */
    if (rc != 0) {
        return rc;
    }
    trim_terms(log);
    struct write_plan plan;
    rc = plan_write(log, write, &plan, why);
    if (rc != 0) {
        return rc;
    }
    rc = vote_write(log, write->save_vote ? &write->vote : NULL, plan.segments, why);
    if (rc == 0 && plan.cuts) {
        rc = cut(log, write, &plan, why);
    }
    if (rc == 0) {
        rc = append_entries(log, write->entries, write->count, &plan, why);
    }
    ASSERT(rc != 0 || plan.spares == NULL);
    plan_undo(log, &plan);
    batch_shrink(&log->batch);
    return rc;
}

static int write_mark_record(struct log *log, struct reason *why) {
    batch_begin(&log->batch);
    batch_add_mark(&log->batch, log, log->current->tail);
    int rc = flush_batch(log, why); /* rule 8: a mark is itself synced */
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&log->mutex);
    log->current->tail += LOG_RECORD_HEADER;
    pthread_mutex_unlock(&log->mutex);
    log->marked = (struct log_mark_value){.segment = log->current->number,
                                          .index = log->last,
                                          .term = log_terms_at(&log->terms, log->last)};
    return 0;
}

int log_mark(struct log *log, struct reason *why) {
    int rc = log_failed(log, why);
    if (rc != 0) {
        return rc;
    }
    bool recorded = log->marked.segment == log->current->number && log->marked.index == log->last;
    const struct log_mark_value *said = &log->vote.record.mark;
    bool vote_says = said->segment == log->current->number && said->index == log->last;
    if (recorded && vote_says) {
        return 0;
    }
    bool room = segment_room(log->current) >= LOG_RECORD_HEADER;
    if (!recorded && room) {
        rc = batch_reserve(&log->batch, NULL, 0);
        rc = rc != 0 ? reason_set(why, rc, "%s: %s", log->dir, error_text(rc))
                     : write_mark_record(log, why);
        if (rc != 0) {
            return rc;
        }
    }
    /* The vote file carries a mark too. It needs no space, and it does not share the fate of the
     * segment's tail: zeros from an acknowledged record to the end would else take the mark with
     * them, and look like a write that was never finished. */
    struct log_vote vote = vote_saved(log);
    return vote_write(log, &vote, 0, why);
}

int log_restart_after(struct log *log, uint64_t index, uint64_t term, struct reason *why) {
    int rc = log_failed(log, why);
    struct write_plan plan = {0};
    if (rc == 0) {
        rc = plan_segment(log, &plan, 0, why);
    }
    if (rc == 0 && live_reserve(log, 1) != 0) {
        rc = reason_set(why, LKV_ENOMEM, "%s: %s", log->dir, error_text(LKV_ENOMEM));
    }
    if (rc == 0) {
        rc = vote_write(log, NULL, 1, why);
    }
    if (rc == 0) {
        rc = segment_begin(log, plan_take(&plan), index + 1, term, false, why);
    }
    plan_undo(log, &plan);
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&log->mutex);
    log_terms_restart(&log->terms, index, term);
    log->last = index;
    pthread_mutex_unlock(&log->mutex);
    live_drop(log, index); /* all but the new one */
    return 0;
}
