/* Looking again at a gap of our own (rule 11): an error of the disk that has passed, or a cable that is back,
 * took nothing, and a node that is alone has nobody else to ask.
 *
 *   log_reread (any thread): what lies there now --> its owner judges the terms --> log_regain (log thread)
 *
 * Nothing is written: what lies there is what was there, or it is not taken. It is read past the page
 * cache, which may hold what the disk does not (rule 9). */
#include "log/internal.h"

#include "base/mem.h"

enum { REREAD_WINDOW = 64 * 1024 };

/* What is filled in, and how far it may go. */
struct regain {
    struct entry *entries;
    size_t capacity, count, bytes_left;
    uint64_t next, last; /* of the gap */
    uint64_t end;        /* offset behind the last record that was taken */
};

/* The gap's first records, as far as they stand there one behind the other and are whole. Readers take the
 * first record of an index, so this does, too. */
static int take_records(struct log_scan *scan, struct regain *regain) {
    while (regain->count < regain->capacity && regain->next <= regain->last) {
        struct log_scan_item item;
        int more = log_scan_next(scan, &item);
        if (more != 1) {
            return more;
        }
        if (item.header.type == LOG_TYPE_MARK || item.header.index < regain->next) {
            continue;
        }
        bool fits = regain->count == 0 || item.header.length <= regain->bytes_left;
        if (item.header.index != regain->next || !fits) {
            return 0;
        }
        bool intact = false;
        int rc = log_scan_entry(scan, &item, &regain->entries[regain->count], &intact);
        if (rc != 0 || !intact) {
            return rc;
        }
        regain->bytes_left -=
            item.header.length < regain->bytes_left ? item.header.length : regain->bytes_left;
        regain->count++;
        regain->next++;
        regain->end = item.end;
    }
    return 0;
}

static int read_gap(struct log *log, struct segment *segment, struct regain *regain) {
    if (segment->file == NULL) {
        return 0; /* lost */
    }
    pthread_mutex_lock(&log->mutex);
    uint64_t at = segment_seek(segment, regain->next);
    uint64_t limit = segment == log->current ? segment->tail : segment->capacity;
    regain->last = segment->last < regain->last ? segment->last : regain->last;
    pthread_mutex_unlock(&log->mutex);
    disk_forget_cached(segment->file);
    struct log_scan scan;
    int rc = log_scan_init(&scan, segment->file, &log->identity, segment->number, at, limit,
                           REREAD_WINDOW);
    scan.passes_unreadable = true; /* S11 */
    rc = rc == 0 ? take_records(&scan, regain) : rc;
    log_scan_fini(&scan);
    return rc;
}

int log_reread(struct log *log, uint64_t first, uint64_t last, size_t bytes_max, struct entry *out,
               size_t capacity, size_t *count, struct reason *why) {
    struct log_gap gap;
    *count = 0;
    if (!log_damage_at(log, first, &gap) || gap.first != first) {
        return 0; /* filled, covered or cut meanwhile */
    }
    struct segment *segment = live_pin(log, first);
    if (segment == NULL) {
        return 0;
    }
    struct regain regain = {.entries = out,
                            .capacity = capacity,
                            .bytes_left = bytes_max,
                            .next = first,
                            .last = gap.last < last ? gap.last : last};
    int rc = read_gap(log, segment, &regain);
    live_unpin(log, segment);
    *count = regain.count;
    return rc != 0 ? reason_set(why, rc, "%s: entry %llu is looked at again: %s", log->dir,
                                (unsigned long long)first, error_text(rc))
                   : 0;
}

static bool same_entry(const struct entry *a, const struct entry *b) {
    size_t length = entry_length(a);
    return a->index == b->index && a->term == b->term && a->type == b->type &&
           length == entry_length(b) &&
           (length == 0 || memcmp(a->payload->data, b->payload->data, length) == 0);
}

/* Are these what lies there? `*end` is then the offset behind them. */
static int confirm(struct log *log, struct segment *segment, const struct entry *entries,
                   size_t count, uint64_t *end) {
    struct entry *found = mem_calloc(count, sizeof(*found));
    if (found == NULL) {
        return LKV_ENOMEM;
    }
    struct regain regain = {.entries = found,
                            .capacity = count,
                            .bytes_left = SIZE_MAX,
                            .next = entries[0].index,
                            .last = entries[count - 1].index};
    int rc = read_gap(log, segment, &regain);
    bool same = rc == 0 && regain.count == count;
    for (size_t i = 0; i < regain.count; i++) {
        same = same && same_entry(&found[i], &entries[i]);
        blob_unref(found[i].payload);
    }
    mem_free(found);
    *end = regain.end;
    return rc == 0 && !same ? LKV_EDAMAGED : rc;
}

static int regain_in(struct log *log, struct segment *segment, const struct entry *entries,
                     size_t count, struct reason *why) {
    if (segment->file == NULL) {
        return reason_set(why, LKV_EDAMAGED, "%s: the file is lost", log->dir);
    }
    /* What a crash has left of an earlier fill may be in the cache only (rule 9). */
    int rc = disk_sync(segment->file);
    if (rc != 0) {
        return log_fail(log, rc, why, "sync what can be read again");
    }
    struct log_terms_change change;
    uint64_t end = 0;
    rc = confirm(log, segment, entries, count, &end);
    if (rc == 0) {
        rc = log_terms_plan(&log->terms, entries, count, &change);
    }
    if (rc != 0) {
        rc = rc == LKV_ENOMEM ? rc : LKV_EDAMAGED;
        return reason_set(why, rc, "%s: entry %llu was readable for a moment only: %s", log->dir,
                          (unsigned long long)entries[0].index, error_text(rc));
    }
    pthread_mutex_lock(&log->mutex);
    fill_publish(log, segment, end, entries, count, &change);
    pthread_mutex_unlock(&log->mutex);
    mem_free(change.runs);
    return 0;
}

int log_regain(struct log *log, const struct entry *entries, size_t count, struct reason *why) {
    int rc = log_failed(log, why); /* rule 10 */
    if (rc == 0) {
        rc = fill_check(log, entries, count, why);
    }
    if (rc != 0) {
        return rc;
    }
    struct segment *segment = live_pin(log, entries[0].index);
    if (segment == NULL) {
        return reason_set(why, LKV_EINVAL, "%s: entry %llu is not in the log", log->dir,
                          (unsigned long long)entries[0].index);
    }
    rc = regain_in(log, segment, entries, count, why);
    live_unpin(log, segment);
    return rc;
}
