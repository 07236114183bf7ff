/* Before a write: is it well formed, is there memory, and is there a file for every segment that it
 * will begin? After plan_write only the disk can fail, and LKV_ENOSPACE has changed nothing. */
#include "log/internal.h"

#include "base/mem.h"

/* When the bulk thread has no segment ready, the log thread makes a small one itself. Measured on a
 * busy disk, in syncs of a 4 KiB group commit: zero-filling and syncing 1 MiB costs about as much as
 * one or two, 4 MiB two or three, 64 MiB more than thirty, which is an election. Zero-filled it is,
 * so that a record's write never needs space: full is known before anything is written. */
enum { HASTY_SEGMENT = 1024 * 1024 };

static int bad(struct reason *why, const char *what, uint64_t index) {
    return reason_set(why, LKV_EINVAL, "log write: %s at index %llu", what,
                      (unsigned long long)index);
}

/* `told`: the term before them, or 0 when the log knows it. Within a gap it does not: what it has there is
 * that of the gap's end, which the cut takes away. */
static int check_entries(const struct log *log, const struct log_write *write, uint64_t index,
                         uint64_t told, struct reason *why) {
    uint64_t prev_term = told != 0 ? told : log_terms_at(&log->terms, index - 1);
    uint64_t term_max = write->save_vote ? write->vote.term : log->vote.record.term;
    for (size_t i = 0; i < write->count; i++) {
        const struct entry *entry = &write->entries[i];
        if (entry->index != index + i) {
            return bad(why, "expected the next index", index + i);
        }
        if (entry->term < prev_term || entry->term == 0) {
            return bad(why, "terms never fall", entry->index);
        }
        if (entry->term > term_max) { /* rule 2: a term is durable before it is acted in */
            return bad(why, "a term that is not durable", entry->index);
        }
        if ((unsigned)entry->type == 0 || (unsigned)entry->type >= LOG_TYPE_MARK) {
            return bad(why, "bad entry type", entry->index);
        }
        if (entry->payload != NULL && entry->payload->size > log->options.record_bytes_max) {
            return reason_set(why, LKV_ETOOLARGE, "entry %llu has %zu bytes, the limit is %u",
                              (unsigned long long)entry->index, entry->payload->size,
                              log->options.record_bytes_max);
        }
        prev_term = entry->term;
    }
    return 0;
}

/* Rule 11: the new segment states the term before it. Within a gap only who cuts may know it. */
static bool cut_term_fits(struct log *log, const struct log_write *write) {
    uint64_t before = write->cut_from - 1, told = write->cut_prev_term;
    struct log_gap gap;
    bool in_gap = log_damage_at(log, before, &gap) && before < gap.last;
    uint64_t least = in_gap ? log_terms_at(&log->terms, gap.first - 1) : 0;
    if (in_gap && least != gap.last_term) {
        return told != 0 && told >= least && told <= gap.last_term;
    }
    return told == 0 || told == log_terms_at(&log->terms, before);
}

static int check_write(struct log *log, const struct log_write *write, struct reason *why) {
    const struct vote_record *saved = &log->vote.record;
    if (write->save_vote && (write->vote.term < saved->term ||
                             (write->vote.term == saved->term && saved->voted_for != 0 &&
                              write->vote.voted_for != saved->voted_for))) {
        return bad(why, "a term that falls, or a second vote in one term", 0);
    }
    bool cuts = write->cut_from != 0 && write->cut_from <= log->last;
    if (cuts && write->cut_from <= log->terms.base_index) {
        return bad(why, "cut below the first index", write->cut_from);
    }
    if (cuts && !cut_term_fits(log, write)) {
        return bad(why, "cut behind an entry of unknown or another term", write->cut_from);
    }
    return cuts ? check_entries(log, write, write->cut_from, write->cut_prev_term, why)
                : check_entries(log, write, log->last + 1, 0, why);
}

int plan_segment(struct log *log, struct write_plan *plan, uint64_t bytes, struct reason *why) {
    uint64_t capacity = LOG_BLOCK + (bytes + LOG_BLOCK - 1) / LOG_BLOCK * LOG_BLOCK;
    struct spare *spare = spare_take(log, capacity);
    if (spare == NULL) {
        uint64_t hasty =
            log->options.segment_bytes < HASTY_SEGMENT ? log->options.segment_bytes : HASTY_SEGMENT;
        int rc = spare_make(log, capacity > hasty ? capacity : hasty, &spare);
        if (rc == LKV_ENOSPACE || rc == LKV_ENOMEM) {
            return reason_set(why, rc, "%s: no new segment: %s", log->dir, error_text(rc));
        }
        if (rc != 0) {
            return log_fail(log, rc, why, "make a segment");
        }
    }
    struct spare **end = &plan->spares;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = spare;
    plan->segments++;
    return 0;
}

struct spare *plan_take(struct write_plan *plan) {
    struct spare *spare = plan->spares;
    plan->spares = spare->next;
    spare->next = NULL;
    return spare;
}

void plan_undo(struct log *log, struct write_plan *plan) {
    while (plan->spares != NULL) {
        spare_return(log, plan_take(plan));
    }
}

/* As many segments as append_entries will begin: the two loops agree. */
static int plan_segments(struct log *log, const struct log_write *write, struct write_plan *plan,
                         struct reason *why) {
    uint64_t room = plan->cuts ? 0 : segment_room(log->current);
    uint64_t first_size = write->count > 0 ? record_size(entry_length(&write->entries[0])) : 0;
    if (plan->cuts) {
        int rc = plan_segment(log, plan, first_size, why);
        if (rc != 0) {
            return rc;
        }
        room = plan->spares->capacity - LOG_BLOCK;
    }
    for (size_t i = 0; i < write->count; i++) {
        uint64_t size = record_size(entry_length(&write->entries[i]));
        if (size > room) {
            int rc = plan_segment(log, plan, size, why);
            if (rc != 0) {
                return rc;
            }
            const struct spare *newest = plan->spares;
            while (newest->next != NULL) {
                newest = newest->next;
            }
            room = newest->capacity - LOG_BLOCK;
        }
        room -= size;
    }
    return 0;
}

static int reserve_memory(struct log *log, const struct log_write *write,
                          const struct write_plan *plan) {
    int rc = batch_reserve(&log->batch, write->entries, write->count);
    if (rc == 0) {
        rc = log_terms_reserve(&log->terms, write->count + 1); /* 1: what a cut learns */
    }
    return rc != 0 ? rc : live_reserve(log, plan->segments);
}

int plan_write(struct log *log, const struct log_write *write, struct write_plan *plan,
               struct reason *why) {
    *plan = (struct write_plan){0};
    int rc = check_write(log, write, why);
    if (rc != 0) {
        return rc;
    }
    plan->cuts = write->cut_from != 0 && write->cut_from <= log->last;
    rc = plan_segments(log, write, plan, why);
    if (rc == 0) {
        rc = reserve_memory(log, write, plan);
        if (rc != 0) {
            (void)reason_set(why, rc, "%s: %s", log->dir, error_text(rc));
        }
    }
    if (rc != 0) {
        plan_undo(log, plan);
    }
    return rc;
}
