/* Where a record's bytes lie in its file, and which files there are: for readers that want no copy,
 * and for whoever decides what may go. Any thread. */
#include "log/internal.h"

enum { EXTENT_WINDOW = 4096 };

/* Looks for the header of `index` from the nearest point on; payloads are passed over unread. */
static int find_record(struct log *log, struct segment *segment, uint64_t index,
                       struct log_extent *out, struct reason *why) {
    pthread_mutex_lock(&log->mutex);
    uint64_t start = segment_seek(segment, index), limit = segment->tail;
    pthread_mutex_unlock(&log->mutex);
    struct log_scan scan;
    struct log_scan_item item;
    int rc = log_scan_init(&scan, segment->file, &log->identity, segment->number, start, limit,
                           EXTENT_WINDOW);
    scan.passes_unreadable = true;
    if (rc != 0) {
        return reason_set(why, rc, "%s: %s", log->dir, error_text(rc));
    }
    do {
        rc = log_scan_next(&scan, &item);
    } while (rc == 1 && (item.header.type == LOG_TYPE_MARK || item.header.index < index));
    log_scan_fini(&scan);
    if (rc < 0) {
        return reason_set(why, rc, "segment %llu: cannot read entry %llu: %s",
                          (unsigned long long)segment->number, (unsigned long long)index,
                          error_text(rc));
    }
    if (rc == 0 || item.header.index != index) {
        return reason_set(why, LKV_EDAMAGED, "segment %llu: entry %llu is not there",
                          (unsigned long long)segment->number, (unsigned long long)index);
    }
    out->offset = item.offset + LOG_RECORD_HEADER;
    out->length = item.header.length;
    out->term = item.header.term;
    return 0;
}

int log_extent_pin(struct log *log, uint64_t index, struct log_extent *out, struct reason *why) {
    struct segment *segment = live_pin(log, index);
    if (segment == NULL) {
        return reason_set(why, LKV_ETRUNCATED, "entry %llu is not in the log",
                          (unsigned long long)index);
    }
    *out = (struct log_extent){.segment = segment, .file = segment->file};
    int rc =
        log_damage_at(log, index, NULL)
            ? reason_set(why, LKV_EDAMAGED, "entry %llu is unreadable", (unsigned long long)index)
            : find_record(log, segment, index, out, why);
    if (rc != 0) {
        live_unpin(log, segment);
    }
    return rc;
}

void log_extent_unpin(struct log *log, struct segment *segment) {
    live_unpin(log, segment);
}

size_t log_segments(struct log *log, struct log_segment *out, size_t capacity) {
    pthread_mutex_lock(&log->mutex);
    size_t count = log->segment_count < capacity ? log->segment_count : capacity;
    for (size_t i = 0; i < count; i++) {
        const struct segment *segment = log->segments[i];
        out[i] = (struct log_segment){
            .first = segment->first, .last = segment->last, .bytes = segment->capacity};
    }
    count = log->segment_count;
    pthread_mutex_unlock(&log->mutex);
    return count;
}
