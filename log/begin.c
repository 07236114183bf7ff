/* A new newest segment: at a switch, at a cut, behind a torn tail, after an image. */
#include "log/internal.h"

#include "base/assert.h"

enum { NUMBERS_AHEAD = 64 }; /* one vote save for so many segments */

/* Rule 8: a vote carries a mark made in the newest segment whose name is durable. */
static struct log_mark_value mark_now(const struct log *log) {
    struct log_mark_value mark = {.segment = log->current != NULL ? log->current->number : 0,
                                  .index = log->last,
                                  .term = log_terms_at(&log->terms, log->last)};
    return log->current != NULL ? mark : log->vote.record.mark;
}

int vote_write(struct log *log, const struct log_vote *vote, size_t segments, struct reason *why) {
    struct vote_record record = log->vote.record;
    uint64_t needed = log->next_number + segments - 1;
    if (vote == NULL && needed <= record.segments_reserved) {
        return 0;
    }
    if (needed > record.segments_reserved) {
        /* Rule 6: numbers exceed every number ever written, those of lost and recycled files too,
         * so their high-water is durable before the first of them is used. Story: segment 5 is
         * written, its name is lost in a power cut, its file is recycled as another 5: its old
         * records would count. */
        record.segments_reserved = needed + NUMBERS_AHEAD;
    }
    if (vote != NULL) {
        record.term = vote->term;
        record.voted_for = vote->voted_for;
        record.promised_ms = vote->promised_ms;
    }
    record.mark = mark_now(log);
    if (log->current != NULL) { /* rule 11: its loss must not leave open where it began */
        record.newest = segment_place(log->current);
        record.before_newest = log->current->before[0];
    }
    int rc = vote_save(&log->vote, &record); /* rule 2 */
    if (rc != 0) {
        return log_fail(log, rc, why, "save the vote");
    }
    log->marked = log_mark_newer(log->marked, record.mark);
    return 0;
}

int segment_write_header(const struct log *log, const struct segment *segment,
                         struct disk_file *file) {
    struct segment_header header = {.identity = log->identity,
                                    .number = segment->number,
                                    .first = segment->first,
                                    .prev_term = segment->prev_term,
                                    /* All of it is durable: whoever begins a segment synced what
                                     * comes before it. Made in the new segment (rule 8). */
                                    .mark_index = segment->first - 1,
                                    .mark_term = segment->prev_term,
                                    .capacity = segment->capacity,
                                    .zeroed = segment->zeroed};
    memcpy(header.before, segment->before, sizeof(header.before));
    uint8_t block[LOG_BLOCK];
    segment_header_encode(&header, block);
    struct slice part = slice_of(block, sizeof(block));
    return disk_write(file, 0, &part, 1);
}

int segment_publish(struct log *log, const struct spare *spare, const struct segment *segment) {
    int rc = segment_write_header(log, segment, spare->file);
    if (rc == 0) {
        rc = disk_sync(spare->file); /* rule 7: synced under the spare name ... */
    }
    if (rc != 0) {
        return rc;
    }
    char from_name[LOG_NAME_SIZE], to_name[LOG_NAME_SIZE];
    char from[LOG_PATH_SIZE], to[LOG_PATH_SIZE];
    spare_name(from_name, spare->number);
    segment_name(to_name, segment->number);
    log_path(from, log->dir, from_name);
    log_path(to, log->dir, to_name);
    pthread_mutex_lock(&log->names_mutex);
    rc = disk_rename(log->disk, from, to); /* ... then renamed ... */
    if (rc == 0) {
        rc =
            disk_sync_dir(log->disk, log->dir); /* ... then the directory synced: this is the cut */
    }
    if (rc == 0) {
        rc = log_failed(log, NULL);
    }
    pthread_mutex_unlock(&log->names_mutex);
    return rc;
}

static void find_before(struct log *log, struct segment_header *header) {
    pthread_mutex_lock(&log->mutex);
    size_t i = log->segment_count;
    while (i > 0 && log->segments[i - 1]->first >= header->first) {
        i--; /* a cut takes few */
    }
    if (i > 0) {
        header->before[0] = segment_place(log->segments[i - 1]);
        header->before[1] = log->segments[i - 1]->before[0];
    }
    pthread_mutex_unlock(&log->mutex);
}

int segment_begin(struct log *log, struct spare *spare, uint64_t first, uint64_t prev_term,
                  bool continues, struct reason *why) {
    ASSERT(log->next_number <= log->vote.record.segments_reserved);
    struct segment_header header = {.number = log->next_number,
                                    .first = first,
                                    .prev_term = prev_term,
                                    .zeroed = spare->zeroed};
    if (continues) {
        find_before(log, &header);
    }
    struct segment *segment = segment_new(&header, spare->file, spare->capacity);
    int rc = segment != NULL ? 0 : LKV_ENOMEM;
    if (rc == 0) {
        log->next_number++; /* used, whatever happens next */
        rc = segment_publish(log, spare, segment);
        spare->file = NULL; /* the segment's now */
    }
    spare_free(spare);
    if (rc != 0) {
        segment_free(segment);
        return log_fail(log, rc, why, "begin a new segment");
    }
    /* Only now is the mark lowered, and what the cut made dead may go (rule 7). */
    live_cut(log, first);
    live_push(log, segment);
    log->marked =
        (struct log_mark_value){.segment = header.number, .index = first - 1, .term = prev_term};
    return 0;
}
