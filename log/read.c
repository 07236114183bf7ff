/* log_read: any thread. The segment is pinned under the mutex, read outside of it. What lies below
 * the pinned tail never changes (rule 7), so no lock is needed for the bytes. */
#include "log/internal.h"

#include "base/crc.h"

enum { READ_WINDOW = 64 * 1024 };

/* What one call fills. */
struct output {
    struct entry *entries;
    size_t capacity, count;
    size_t bytes_left;
};

static int unreadable(struct log *log, const struct segment *segment, uint64_t offset,
                      uint64_t index, const char *found, struct reason *why) {
    char name[LOG_NAME_SIZE];
    segment_name(name, segment->number);
    return reason_set(why, LKV_EDAMAGED, "%s/%s:%llu: expected entry %llu, found %s", log->dir,
                      name, (unsigned long long)offset, (unsigned long long)index, found);
}

static bool fits(const struct output *out, uint32_t length) {
    return out->count == 0 || (out->count < out->capacity && length <= out->bytes_left);
}

/* Reads entries [from, to] of one segment, as many as fit; `*done` when no more fit. */
static int read_records(struct log *log, const struct segment *segment, struct log_scan *scan,
                        uint64_t from, uint64_t to, struct output *out, bool *done,
                        struct reason *why) {
    struct log_scan_item item;
    while (from <= to) {
        int more = log_scan_next(scan, &item);
        if (more < 0) {
            return reason_set(why, more, "segment %llu: cannot read entry %llu: %s",
                              (unsigned long long)segment->number, (unsigned long long)from,
                              error_text(more));
        }
        if (more == 1 && (item.header.type == LOG_TYPE_MARK || item.header.index < from)) {
            continue;
        }
        if (more == 0 || item.header.index != from) {
            return unreadable(log, segment, item.hole_at, from,
                              scan->unreadable ? "sectors that cannot be read" : "no valid record",
                              why);
        }
        if (!fits(out, item.header.length)) {
            *done = true;
            return 0;
        }
        bool intact = false;
        int rc = log_scan_entry(scan, &item, &out->entries[out->count], &intact);
        if (rc != 0) {
            return reason_set(why, rc, "cannot read entry %llu: %s", (unsigned long long)from,
                              error_text(rc));
        }
        if (!intact) {
            return unreadable(log, segment, item.offset, from,
                              scan->unreadable ? "sectors that cannot be read"
                                               : "crc mismatch in its payload",
                              why);
        }
        out->count++;
        out->bytes_left -=
            item.header.length < out->bytes_left ? item.header.length : out->bytes_left;
        from++;
    }
    return 0;
}

static int read_segment(struct log *log, struct segment *segment, uint64_t from, uint64_t *to,
                        struct output *out, bool *done, struct reason *why) {
    pthread_mutex_lock(&log->mutex);
    uint64_t start = segment_seek(segment, from);
    uint64_t limit = segment->tail;
    *to = segment->last < *to ? segment->last : *to;
    pthread_mutex_unlock(&log->mutex);
    struct log_scan scan;
    int rc = log_scan_init(&scan, segment->file, &log->identity, segment->number, start, limit,
                           READ_WINDOW);
    if (rc != 0) {
        return reason_set(why, rc, "%s: %s", log->dir, error_text(rc));
    }
    scan.passes_unreadable = true; /* S11: they concern the entries in them, and no others */
    rc = read_records(log, segment, &scan, from, *to, out, done, why);
    log_scan_fini(&scan);
    return rc;
}

static int in_gap(struct log *log, uint64_t index, const struct log_gap *gap, struct reason *why) {
    return reason_set(why, LKV_EDAMAGED, "%s: entry %llu is unreadable: entries %llu to %llu are",
                      log->dir, (unsigned long long)index, (unsigned long long)gap->first,
                      (unsigned long long)gap->last);
}

int log_read(struct log *log, uint64_t from, uint64_t to, size_t bytes_max, struct entry *out,
             size_t capacity, size_t *count, struct reason *why) {
    struct output output = {.entries = out, .capacity = capacity, .bytes_left = bytes_max};
    *count = 0;
    if (from > to || capacity == 0) {
        return reason_set(why, LKV_EINVAL, "read of an empty range");
    }
    int rc = 0;
    bool done = false;
    while (rc == 0 && !done && from <= to && output.count < capacity) {
        struct segment *segment = live_pin(log, from);
        if (segment == NULL) {
            break; /* the log's end, or below its beginning */
        }
        uint64_t upto = to;
        struct log_gap gap;
        if (gaps_next(log, from, &gap) && gap.first <= to) {
            if (gap.first <= from) {
                rc = in_gap(log, from, &gap, why);
                live_unpin(log, segment);
                break;
            }
            upto = gap.first - 1;
        }
        rc = read_segment(log, segment, from, &upto, &output, &done, why);
        live_unpin(log, segment);
        from = upto + 1;
    }
    *count = output.count;
    if (rc != 0 && output.count > 0) {
        return 0; /* what came before is good; the next call begins at the bad one */
    }
    if (rc == 0 && output.count == 0) {
        uint64_t first = log_first(log);
        return from < first ? reason_set(why, LKV_ETRUNCATED, "entry %llu: the log begins at %llu",
                                         (unsigned long long)from, (unsigned long long)first)
                            : reason_set(why, LKV_EINVAL, "entry %llu: behind the log's end",
                                         (unsigned long long)from);
    }
    return rc;
}
