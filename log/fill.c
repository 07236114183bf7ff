/* log_fill (rule 11): what others have kept is written where it was.
 *
 *   a hole in a file       [8 | 9 | ??????????????? | 13 | 14]     written in place: nothing that can
 *                                 10 11 12 were here               be read is touched
 *   it does not fit there, or the disk returns errors for it: the file is built anew (rebuild.c)
 *
 * A crash on the way leaves what was there: a hole, now perhaps a shorter one, and the gap with it. */
#include "log/internal.h"

#include "base/mem.h"

static int refuse(struct reason *why, const char *what, uint64_t index) {
    return reason_set(why, LKV_EINVAL, "log fill: %s at index %llu", what,
                      (unsigned long long)index);
}

static int check_entry(const struct log *log, const struct entry *entry, struct reason *why) {
    if ((unsigned)entry->type == 0 || (unsigned)entry->type >= LOG_TYPE_MARK) {
        return refuse(why, "bad entry type", entry->index);
    }
    if (entry_length(entry) > log->options.record_bytes_max) {
        return reason_set(why, LKV_ETOOLARGE, "entry %llu has %u bytes, the limit is %u",
                          (unsigned long long)entry->index, entry_length(entry),
                          log->options.record_bytes_max);
    }
    return 0;
}

/* Terms never fall: so the known ones around a gap bound those in it. */
static int check_fill(struct log *log, const struct entry *entries, size_t count,
                      struct log_gap *gap, struct reason *why) {
    uint64_t first = count > 0 ? entries[0].index : 0;
    if (count == 0 || !log_damage_at(log, first, gap) || gap->first != first) {
        return refuse(why, "no gap begins", first);
    }
    if (count - 1 > gap->last - first) {
        return refuse(why, "the gap ends", gap->last);
    }
    uint64_t prev_term = log_terms_at(&log->terms, first - 1);
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = &entries[i];
        if (entry->index != first + i) {
            return refuse(why, "expected the next index", first + i);
        }
        bool is_last = entry->index == gap->last;
        if (entry->term < prev_term || entry->term == 0 || entry->term > gap->last_term ||
            (is_last && entry->term != gap->last_term)) {
            return refuse(why, "a term that does not fit", entry->index);
        }
        int rc = check_entry(log, entry, why);
        if (rc != 0) {
            return rc;
        }
        prev_term = entry->term;
    }
    return 0;
}

/* Where the entries of the gap were: between the last record before and the first one behind it. */
int fill_find_hole(struct log *log, struct segment *segment, const struct log_gap *gap,
                   struct fill_hole *hole) {
    *hole = (struct fill_hole){.start = LOG_BLOCK, .end = LOG_BLOCK};
    if (segment->file == NULL) {
        return 0; /* lost: no room at all */
    }
    pthread_mutex_lock(&log->mutex);
    uint64_t limit = segment == log->current ? segment->tail : segment->capacity;
    hole->start = segment_seek(segment, gap->first);
    pthread_mutex_unlock(&log->mutex);
    hole->end = limit;
    struct log_scan scan;
    struct log_scan_item item;
    int rc = log_scan_init(&scan, segment->file, &log->identity, segment->number, hole->start,
                           limit, LOG_SCAN_WINDOW);
    scan.passes_unreadable = true;
    bool found = false; /* the gap's first entry, in its place or what is left of it */
    while (rc == 0 && (rc = log_scan_next(&scan, &item)) == 1) {
        rc = 0;
        /* Readers take the first record of an index. Marks, and copies from before an earlier fill, may lie
         * behind it. */
        if (item.header.index < gap->first) {
            hole->start = found ? hole->start : item.end;
        } else if (item.header.type == LOG_TYPE_MARK) {
            continue; /* written over, if it is in the way: the vote has a newer one */
        } else if (item.header.index == gap->first) {
            hole->start = found ? hole->start : item.offset;
            found = true;
        } else if (item.header.index > gap->last) {
            hole->end = item.offset;
            break;
        }
    }
    log_scan_fini(&scan);
    return rc < 0 ? rc : 0;
}

/* S11: a sector that is written in part must be read first. */
static bool is_writable(struct segment *segment, uint64_t from, uint64_t to) {
    uint8_t block[LOG_BLOCK];
    size_t got;
    for (uint64_t at = from / LOG_BLOCK * LOG_BLOCK; at < to; at += LOG_BLOCK) {
        if (disk_read(segment->file, at, block, sizeof(block), &got) != 0) {
            return false;
        }
    }
    return true;
}

static int verify(struct log *log, struct segment *segment, uint64_t from, uint64_t to,
                  const struct entry *entries, size_t count) {
    struct log_scan scan;
    int rc = log_scan_init(&scan, segment->file, &log->identity, segment->number, from, to,
                           LOG_SCAN_WINDOW);
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct log_scan_item item;
        bool intact = false;
        rc = log_scan_next(&scan, &item);
        bool found = rc == 1 && item.header.index == entries[i].index &&
                     item.header.term == entries[i].term && item.header.type == entries[i].type;
        rc = found ? log_scan_payload(&scan, &item, NULL, &intact) : rc;
        rc = rc < 0 || intact ? rc : LKV_EDAMAGED;
    }
    log_scan_fini(&scan);
    return rc;
}

static int write_in_place(struct log *log, struct segment *segment, uint64_t at,
                          const struct entry *entries, size_t count, uint64_t *end,
                          struct reason *why) {
    uint64_t prev_term = log_terms_at(&log->terms, entries[0].index - 1);
    batch_begin(&log->batch);
    *end = at;
    for (size_t i = 0; i < count; i++) {
        batch_add_in(&log->batch, log, segment, &entries[i], prev_term, *end);
        prev_term = entries[i].term;
        *end += record_size(entry_length(&entries[i]));
    }
    int rc = disk_write(segment->file, at, log->batch.parts, log->batch.part_count);
    if (rc == 0) {
        rc = disk_sync(segment->file);
    }
    return rc != 0 ? log_fail(log, rc, why, "fill a gap") : log_failed(log, why);
}

static uint64_t bytes_of(const struct entry *entries, size_t count) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += record_size(entry_length(&entries[i]));
    }
    return bytes;
}

void fill_publish(struct log *log, struct segment *segment, uint64_t end,
                  const struct entry *entries, size_t count, struct log_terms_change *change) {
    log_terms_change(&log->terms, change);
    segment->tail = segment->tail < end ? end : segment->tail;
    gaps_filled(log, entries[count - 1].index);
}

static int fill_in_place(struct log *log, struct segment *segment, uint64_t at,
                         const struct entry *entries, size_t count, struct log_terms_change *change,
                         struct reason *why) {
    uint64_t end;
    /* Points of records that were there may lead into the middle of those that come. */
    pthread_mutex_lock(&log->mutex);
    segment_forget_between(segment, entries[0].index, entries[count - 1].index);
    pthread_mutex_unlock(&log->mutex);
    int rc = write_in_place(log, segment, at, entries, count, &end, why);
    if (rc != 0) {
        return rc;
    }
    if (verify(log, segment, at, end, entries, count) != 0) {
        return reason_set(why, LKV_EDAMAGED, "%s: segment %llu: what was written reads otherwise",
                          log->dir, (unsigned long long)segment->number);
    }
    pthread_mutex_lock(&log->mutex);
    fill_publish(log, segment, end, entries, count, change);
    pthread_mutex_unlock(&log->mutex);
    return 0;
}

static int fill_segment(struct log *log, struct segment *segment, const struct log_gap *gap,
                        const struct entry *entries, size_t count, struct reason *why) {
    struct fill_hole hole;
    struct log_terms_change change;
    int rc = fill_find_hole(log, segment, gap, &hole);
    if (rc == 0) {
        rc = batch_reserve(&log->batch, entries, count);
    }
    if (rc == 0) {
        rc = log_terms_plan(&log->terms, entries, count, &change);
    }
    if (rc != 0) {
        return reason_set(why, rc, "%s: %s", log->dir, error_text(rc));
    }
    uint64_t end = hole.start + bytes_of(entries, count);
    rc = end <= hole.end && is_writable(segment, hole.start, end)
             ? fill_in_place(log, segment, hole.start, entries, count, &change, why)
             : rebuild_segment(log, segment, gap, entries, count, &change, why);
    mem_free(change.runs);
    batch_shrink(&log->batch);
    return rc;
}

int fill_check(struct log *log, const struct entry *entries, size_t count, struct reason *why) {
    struct log_gap gap;
    return check_fill(log, entries, count, &gap, why);
}

int log_fill(struct log *log, const struct entry *entries, size_t count, struct reason *why) {
    struct log_gap gap;
    int rc = log_failed(log, why); /* rule 10 */
    if (rc == 0) {
        rc = check_fill(log, entries, count, &gap, why);
    }
    if (rc != 0) {
        return rc;
    }
    struct segment *segment = live_pin(log, entries[0].index);
    if (segment == NULL) {
        return refuse(why, "not in the log", entries[0].index);
    }
    rc = fill_segment(log, segment, &gap, entries, count, why);
    live_unpin(log, segment);
    return rc;
}
