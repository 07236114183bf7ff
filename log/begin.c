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
    }
    record.mark = mark_now(log);
    if (log->current != NULL) { /* rule 11: its loss must not leave open where it began */
        record.newest = segment_place(log->current);
    }
    int rc = vote_save(&log->vote, &record); /* rule 2 */
    if (rc != 0) {
        return log_fail(log, rc, why, "save the vote");
    }
    log->marked = log_mark_newer(log->marked, record.mark);
    return 0;
}

static int write_header(struct log *log, const struct spare *spare,
                        const struct segment_header *header) {
    uint8_t block[LOG_BLOCK];
    segment_header_encode(header, block);
    struct slice part = slice_of(block, sizeof(block));
    int rc = disk_write(spare->file, 0, &part, 1);
    if (rc == 0) {
        rc = disk_sync(spare->file); /* rule 7: synced under the spare name ... */
    }
    if (rc != 0) {
        return rc;
    }
    char from_name[LOG_NAME_SIZE], to_name[LOG_NAME_SIZE];
    char from[LOG_PATH_SIZE], to[LOG_PATH_SIZE];
    spare_name(from_name, spare->number);
    segment_name(to_name, header->number);
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

static struct segment_place place_before(struct log *log, uint64_t first) {
    struct segment_place place = {0};
    pthread_mutex_lock(&log->mutex);
    for (size_t i = 0; i < log->segment_count && log->segments[i]->first < first; i++) {
        place = segment_place(log->segments[i]);
    }
    pthread_mutex_unlock(&log->mutex);
    return place;
}

int segment_begin(struct log *log, struct spare *spare, uint64_t first, uint64_t prev_term,
                  struct reason *why) {
    ASSERT(log->next_number <= log->vote.record.segments_reserved);
    struct segment_header header = {.identity = log->identity,
                                    .number = log->next_number,
                                    .first = first,
                                    .prev_term = prev_term,
                                    /* All of it is durable: whoever begins a segment synced what
                                     * comes before it. Made in the new segment (rule 8). */
                                    .mark_index = first - 1,
                                    .mark_term = prev_term,
                                    .capacity = spare->capacity,
                                    .zeroed = spare->zeroed,
                                    .before = place_before(log, first)};
    struct segment *segment = segment_new(&header, spare->file, spare->capacity);
    int rc = segment != NULL ? 0 : LKV_ENOMEM;
    if (rc == 0) {
        log->next_number++; /* used, whatever happens next */
        rc = write_header(log, spare, &header);
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
    log->marked = (struct log_mark_value){
        .segment = header.number, .index = header.mark_index, .term = header.mark_term};
    return 0;
}
