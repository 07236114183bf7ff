/* Looking for rot before somebody needs what rots (rule 11), and what is known of the log's end. */
#include "log/internal.h"

enum { SCRUB_ENTRIES = 64 };

/* Reads entries from `from` on; `*next` is behind what was verified. */
static int verify_from(struct log *log, uint64_t from, uint64_t last, size_t bytes_max,
                       uint64_t *next) {
    struct entry entries[SCRUB_ENTRIES];
    size_t count;
    *next = from;
    do {
        int rc = log_read(log, *next, last, bytes_max, entries, SCRUB_ENTRIES, &count, NULL);
        for (size_t i = 0; i < count; i++) {
            size_t size = LOG_RECORD_HEADER + entry_length(&entries[i]);
            bytes_max -= size < bytes_max ? size : bytes_max;
            blob_unref(entries[i].payload);
        }
        *next += count;
        if (rc != 0) {
            return rc;
        }
    } while (*next <= last && bytes_max > 0);
    return 0;
}

int log_scrub(struct log *log, uint64_t *index, size_t bytes_max, struct log_gap *found,
              bool *found_any, struct reason *why) {
    *found_any = false;
    pthread_mutex_lock(&log->mutex);
    uint64_t from = *index < log->first ? log->first : *index;
    uint64_t last = log->last;
    pthread_mutex_unlock(&log->mutex);
    struct log_gap known;
    while (log_damage_at(log, from, &known)) {
        from = known.last + 1;
    }
    struct segment *segment = live_pin(log, from);
    if (segment == NULL) {
        *index = 0;
        return 0;
    }
    if (from == segment->first || *index == 0) {
        disk_forget_cached(segment->file);
    }
    pthread_mutex_lock(&log->mutex);
    uint64_t end = segment->last; /* a step does not go on into a file that is cached yet */
    pthread_mutex_unlock(&log->mutex);
    live_unpin(log, segment);
    uint64_t next;
    int rc = verify_from(log, from, end < last ? end : last, bytes_max, &next);
    if (rc == LKV_EDAMAGED && !log_damage_at(log, next, NULL)) {
        rc = log_note_damage(log, next, next, found);
        *found_any = rc == 0;
        rc = rc == LKV_EINVAL ? 0 : rc; /* cut meanwhile, or the disk's second try succeeded */
        next++;
    } else if (rc == LKV_EDAMAGED || rc == LKV_EINVAL || rc == LKV_ETRUNCATED) {
        rc = 0; /* a gap that is known; or the log was cut or trimmed meanwhile */
    }
    *index = next <= last ? next : 0;
    return rc != 0 ? reason_set(why, rc, "%s: scrub at entry %llu: %s", log->dir,
                                (unsigned long long)next, error_text(rc))
                   : 0;
}

static int save_end(struct log *log, bool unknown, struct reason *why) {
    int rc = log_failed(log, why);
    if (rc != 0 || log->vote.record.end_unknown == unknown) {
        return rc;
    }
    struct vote_record record = log->vote.record;
    record.end_unknown = unknown;
    rc = vote_save(&log->vote, &record);
    if (rc != 0) {
        return log_fail(log, rc, why, "save what is known of the end");
    }
    trace_line(log->options.trace, TRACE_WARN, "log.end", "%s: the end of the log is %s", log->dir,
               unknown ? "unknown: a peer has seen more" : "known again");
    return 0;
}

int log_note_life(struct log *log, uint64_t life, struct reason *why) {
    int rc = log_failed(log, why);
    if (rc != 0 || log->vote.record.life == life) {
        return rc;
    }
    struct vote_record record = log->vote.record;
    record.life = life;
    rc = vote_save(&log->vote, &record);
    return rc != 0 ? log_fail(log, rc, why, "save the owner's life") : 0;
}

int log_settle_end(struct log *log, struct reason *why) {
    return save_end(log, false, why);
}

int log_doubt_end(struct log *log, struct reason *why) {
    return save_end(log, true, why);
}
