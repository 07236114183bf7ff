/* The list of gaps: entries that were durable here and cannot be read (rule 11). A gap that recovery
 * finds and one that a read finds later are the same thing from then on. */
#include "log/internal.h"

#include "base/mem.h"

#include <stdio.h>

enum { NOTE_ENTRIES = 16, NOTE_BYTES = 1024 * 1024 };

/* Under the mutex. The number of gaps that end before `index`. */
static size_t position(const struct log *log, uint64_t index) {
    size_t low = 0, high = log->gap_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->gaps[middle].last < index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void remove_at(struct log *log, size_t at) {
    log->gap_count--;
    memmove(log->gaps + at, log->gaps + at + 1, (log->gap_count - at) * sizeof(*log->gaps));
}

int gaps_add(struct log *log, const struct log_gap *gap) {
    struct log_gap *grown =
        mem_array_grow(log->gaps, &log->gap_capacity, log->gap_count + 1, sizeof(*grown));
    if (grown == NULL) {
        return LKV_ENOMEM;
    }
    log->gaps = grown;
    size_t at = position(log, gap->first);
    memmove(grown + at + 1, grown + at, (log->gap_count - at) * sizeof(*grown));
    grown[at] = *gap;
    log->gap_count++;
    return 0;
}

void gaps_clip(struct log *log) {
    while (log->gap_count > 0 && log->gaps[0].last < log->first) {
        remove_at(log, 0);
    }
    while (log->gap_count > 0 && log->gaps[log->gap_count - 1].first > log->last) {
        log->gap_count--;
    }
    if (log->gap_count > 0 && log->gaps[0].first < log->first) {
        log->gaps[0].first = log->first;
    }
    /* A cut inside a gap is only made where the term before it is the gap's last (plan.c). */
    if (log->gap_count > 0 && log->gaps[log->gap_count - 1].last > log->last) {
        log->gaps[log->gap_count - 1].last = log->last;
    }
}

void log_cover(struct log *log, uint64_t index, uint64_t term) {
    pthread_mutex_lock(&log->mutex);
    uint64_t first = log->first;
    for (size_t i = 0; i < log->gap_count && log->gaps[i].first <= index; i++) {
        uint64_t last = log->gaps[i].last < index ? log->gaps[i].last : index;
        first = last + 1 > first ? last + 1 : first;
    }
    if (first > log->first) {
        /* Of a gap that ends there the last term is known already. */
        uint64_t before = first - 1 == index ? term : log_terms_at(&log->terms, first - 1);
        log->first = first;
        log_terms_begin(&log->terms, first, before);
        gaps_clip(log);
    }
    pthread_mutex_unlock(&log->mutex);
}

void gaps_end_in(struct log *log, uint64_t term) {
    if (log->gap_count > 0 && log->gaps[log->gap_count - 1].last == log->last) {
        log->gaps[log->gap_count - 1].last_term = term;
    }
}

void gaps_filled(struct log *log, uint64_t upto) {
    size_t at = position(log, upto);
    if (at < log->gap_count && log->gaps[at].first <= upto) {
        log->gaps[at].first = upto + 1;
        if (log->gaps[at].first > log->gaps[at].last) {
            remove_at(log, at);
        }
    }
}

bool gaps_next(struct log *log, uint64_t index, struct log_gap *out) {
    pthread_mutex_lock(&log->mutex);
    size_t at = position(log, index);
    bool found = at < log->gap_count;
    if (found) {
        *out = log->gaps[at];
    }
    pthread_mutex_unlock(&log->mutex);
    return found;
}

bool log_damage_at(struct log *log, uint64_t index, struct log_gap *gap) {
    struct log_gap next;
    if (!gaps_next(log, index, &next) || next.first > index) {
        return false;
    }
    if (gap != NULL) {
        *gap = next;
    }
    return true;
}

void log_gap_place(const struct log *log, const struct log_gap *gap, char *out, size_t size) {
    char name[LOG_NAME_SIZE];
    out[0] = '\0';
    if (gap->segment != 0) {
        segment_name(name, gap->segment);
        (void)snprintf(out, size, "%s/%s:%llu", log->dir, name, (unsigned long long)gap->offset);
    }
}

uint64_t log_term_at(struct log *log, uint64_t index) {
    pthread_mutex_lock(&log->mutex);
    bool known = index >= log->first && index <= log->last;
    size_t at = position(log, index);
    const struct log_gap *gap = at < log->gap_count ? &log->gaps[at] : NULL;
    if (known && gap != NULL && gap->first <= index && index < gap->last) {
        known = log_terms_at(&log->terms, gap->first - 1) == gap->last_term;
    }
    uint64_t term = known ? log_terms_at(&log->terms, index) : 0;
    pthread_mutex_unlock(&log->mutex);
    return term;
}

size_t log_gaps(struct log *log, struct log_gap *out, size_t capacity) {
    pthread_mutex_lock(&log->mutex);
    size_t count = log->gap_count;
    for (size_t i = 0; i < count && i < capacity; i++) {
        out[i] = log->gaps[i];
    }
    pthread_mutex_unlock(&log->mutex);
    return count;
}

uint64_t log_damaged_entries(struct log *log) {
    uint64_t entries = 0;
    pthread_mutex_lock(&log->mutex);
    for (size_t i = 0; i < log->gap_count; i++) {
        entries += log->gaps[i].last - log->gaps[i].first + 1;
    }
    pthread_mutex_unlock(&log->mutex);
    return entries;
}

/* Moves `*from` to the first entry in [*from, last] that cannot be read. 0: all of them can, or are
 * not in the log; 1: that one cannot. */
static int find_unreadable(struct log *log, uint64_t *from, uint64_t last) {
    while (*from <= last) {
        struct entry entries[NOTE_ENTRIES];
        size_t count;
        int rc = log_read(log, *from, last, NOTE_BYTES, entries, NOTE_ENTRIES, &count, NULL);
        for (size_t i = 0; i < count; i++) {
            blob_unref(entries[i].payload);
        }
        if (rc != 0) {
            return rc == LKV_EDAMAGED ? 1 : (rc == LKV_EINVAL || rc == LKV_ETRUNCATED ? 0 : rc);
        }
        *from += count;
    }
    return 0;
}

/* The first entry in (from, last] whose record is whole, or last + 1. */
static int next_whole(struct log_scan *scan, uint64_t from, uint64_t last, uint64_t *next) {
    struct log_scan_item item;
    int more;
    *next = last + 1;
    while ((more = log_scan_next(scan, &item)) == 1 && item.header.index <= last) {
        if (item.header.type == LOG_TYPE_MARK || item.header.index <= from) {
            continue;
        }
        bool intact = false;
        int rc = log_scan_payload(scan, &item, NULL, &intact);
        if (rc != 0 && rc != LKV_EIO) {
            return rc;
        }
        if (rc == 0 && intact) {
            *next = item.header.index;
            return 0;
        }
    }
    return more < 0 ? more : 0;
}

/* The last entry of the unreadable ones that begin at `from`, in its segment: one pass over the hole. */
static int unreadable_end(struct log *log, uint64_t from, uint64_t last, uint64_t *end) {
    struct segment *segment = live_pin(log, from);
    *end = from;
    if (segment == NULL) {
        return 0; /* it has left the log meanwhile */
    }
    pthread_mutex_lock(&log->mutex);
    uint64_t at = segment_seek(segment, from);
    uint64_t limit = segment == log->current ? segment->tail : segment->capacity;
    last = last < segment->last ? last : segment->last;
    pthread_mutex_unlock(&log->mutex);
    uint64_t next = last + 1;
    int rc = 0;
    if (segment->file != NULL) {
        struct log_scan scan;
        rc = log_scan_init(&scan, segment->file, &log->identity, segment->number, at, limit,
                           LOG_SCAN_WINDOW);
        scan.passes_unreadable = true;
        rc = rc == 0 ? next_whole(&scan, from, last, &next) : rc;
        log_scan_fini(&scan);
    }
    live_unpin(log, segment);
    *end = next - 1 > from ? next - 1 : from;
    return rc;
}

/* Under the mutex. The last entry of the segment that holds `index`, which is rotten. */
static uint64_t segment_end(struct log *log, uint64_t index) {
    uint64_t end = log->last;
    size_t i = log->segment_count;
    while (i > 0 && log->segments[i - 1]->first > index) {
        end = log->segments[--i]->first - 1;
    }
    if (i > 0) {
        log->segments[i - 1]->rotten = true;
    }
    return end;
}

/* Adds [first, last], unless the log was cut since `cuts` was read: then 1, look again. */
static int add_noted(struct log *log, uint64_t cuts, uint64_t first, uint64_t last,
                     struct log_gap *gap) {
    pthread_mutex_lock(&log->mutex);
    int rc = 1;
    if (log->cuts == cuts) {
        first = first < log->first ? log->first : first;
        size_t at = position(log, first);
        if (at < log->gap_count && log->gaps[at].first <= last) {
            last = log->gaps[at].first - 1; /* what is behind is known already */
        }
        uint64_t end = segment_end(log, first);
        last = last < end ? last : end;
        rc = LKV_EINVAL; /* it has left the log meanwhile */
        if (first <= last && last <= log->last) {
            *gap = (struct log_gap){
                .first = first, .last = last, .last_term = log_terms_at(&log->terms, last)};
            rc = gaps_add(log, gap);
        }
    }
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

int log_note_damage(struct log *log, uint64_t first, uint64_t last, struct log_gap *gap) {
    int rc = 1;
    while (rc == 1) {
        pthread_mutex_lock(&log->mutex);
        uint64_t cuts = log->cuts;
        uint64_t from = first < log->first ? log->first : first;
        uint64_t to = last > log->last ? log->last : last;
        pthread_mutex_unlock(&log->mutex);
        rc = find_unreadable(log, &from, to);
        if (rc != 1) {
            return rc != 0 ? rc : LKV_EINVAL;
        }
        if (log_damage_at(log, from, gap)) {
            return 0;
        }
        uint64_t end;
        rc = unreadable_end(log, from, to, &end);
        if (rc == 0) {
            rc = add_noted(log, cuts, from, end, gap);
        }
    }
    if (rc == 0) {
        trace_line(log->options.trace, TRACE_ERROR, "log.damaged",
                   "%s: entries %llu to %llu can no longer be read", log->dir,
                   (unsigned long long)gap->first, (unsigned long long)gap->last);
    }
    return rc;
}
