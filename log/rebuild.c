/* A segment's file built anew (rule 11): when it is lost, when the disk returns errors for where the
 * entries were, or when they do not fit there.
 *
 *   spare-9.tmp: [header | readable records, copied | what fills the gap | room for the rest | ...]
 *   synced, read back, then renamed over the segment's name: before it the old file, after it the new
 *   one, never a mixture. Who reads the old file goes on reading it.
 */
#include "log/internal.h"

#include "base/assert.h"
#include "base/mem.h"

enum { COPY_ENTRIES = 256, COPY_BYTES = 1024 * 1024 };

struct rebuild {
    struct log *log;
    struct segment *old;
    struct segment *made; /* owned until it is in the log's list */
    struct spare *spare;  /* owned; its file is `made`'s */
    const struct entry *entries;
    size_t count;
    uint64_t bytes;    /* of the records of `entries` */
    uint64_t at;       /* where the next record goes */
    uint64_t hole_end; /* in the old file: holes before it have got their room */
};

/* The newest segment takes appends, and its marks speak for it: it is made an older one first. */
static int leave_current(struct log *log, struct reason *why) {
    struct write_plan plan = {0};
    int rc = plan_segment(log, &plan, 0, why);
    if (rc == 0 && live_reserve(log, 1) != 0) {
        rc = reason_set(why, LKV_ENOMEM, "%s: %s", log->dir, error_text(LKV_ENOMEM));
    }
    if (rc == 0) {
        rc = vote_write(log, NULL, 1, why);
    }
    if (rc == 0) {
        rc = segment_begin(log, plan_take(&plan), log->last + 1,
                           log_terms_at(&log->terms, log->last), true, why);
    }
    plan_undo(log, &plan);
    return rc;
}

/* Records, one after the other; what is written under a spare name may fail and be tried again. */
static int write_records(struct rebuild *r, const struct entry *entries, size_t count) {
    struct log *log = r->log;
    int rc = batch_reserve(&log->batch, entries, count);
    if (rc != 0) {
        return rc;
    }
    uint64_t offset = r->at;
    batch_begin(&log->batch);
    for (size_t i = 0; i < count; i++) {
        uint64_t prev_term =
            i > 0 ? entries[i - 1].term : log_terms_at(&log->terms, entries[0].index - 1);
        batch_add_in(&log->batch, log, r->made, &entries[i], prev_term, offset);
        segment_note(r->made, entries[i].index, offset);
        offset += record_size(entry_length(&entries[i]));
    }
    if (offset > r->made->capacity) {
        return LKV_EDAMAGED; /* more than there was: not what the sizes said */
    }
    rc = disk_write(r->made->file, r->at, log->batch.parts, log->batch.part_count);
    r->at = offset;
    r->made->tail = offset;
    return rc;
}

/* Copies what can be read from `*index` on, up to the next gap at most. */
static int copy_some(struct rebuild *r, uint64_t *index, struct reason *why) {
    struct entry *entries = mem_calloc(COPY_ENTRIES, sizeof(*entries));
    if (entries == NULL) {
        return LKV_ENOMEM;
    }
    size_t count;
    int rc = log_read(r->log, *index, r->old->last, COPY_BYTES, entries, COPY_ENTRIES, &count, why);
    if (rc == LKV_EDAMAGED) {
        /* Rotten since it was last read, with its neighbours: from now on a gap like the others. */
        struct log_gap found;
        rc = log_note_damage(r->log, *index, r->old->last, &found) == 0 ? 0 : rc;
    }
    if (rc == 0 && count > 0) {
        rc = write_records(r, entries, count);
    }
    for (size_t i = 0; i < count; i++) {
        blob_unref(entries[i].payload);
    }
    mem_free(entries);
    *index += count;
    return rc;
}

/* Leaves room where a gap stays, as much as its entries took, if something comes behind it. */
static int leave_room(struct rebuild *r, const struct log_gap *gap, bool filled) {
    struct fill_hole hole = {0};
    if (gap->last >= r->old->last) {
        return 0; /* the rest of the file is theirs */
    }
    int rc = fill_find_hole(r->log, r->old, gap, &hole);
    if (rc != 0) {
        return rc;
    }
    /* Behind the last record that counts there is no telling how much was theirs. */
    hole.end = hole.end < r->old->tail ? hole.end : r->old->tail;
    uint64_t from = hole.start > r->hole_end ? hole.start : r->hole_end;
    uint64_t room = hole.end > from ? hole.end - from : 0;
    r->hole_end = hole.end > r->hole_end ? hole.end : r->hole_end;
    if (filled) {
        uint64_t left = gap->last - gap->first + 1 - r->count;
        uint64_t guess = left * (r->bytes / r->count + LOG_ALIGN) / LOG_ALIGN * LOG_ALIGN;
        room = room > r->bytes ? room - r->bytes : 0;
        room = left == 0 ? 0 : (room > guess ? room : guess);
    }
    r->at += room;
    return 0;
}

/* What is at or below an image need not be there any more (rule 14). */
static uint64_t first_kept(const struct rebuild *r) {
    uint64_t first = log_first(r->log);
    return first > r->old->first ? first : r->old->first;
}

static int build(struct rebuild *r, struct reason *why) {
    uint64_t index = first_kept(r);
    int rc = 0;
    while (rc == 0 && index <= r->old->last) {
        struct log_gap gap;
        if (!log_damage_at(r->log, index, &gap)) {
            rc = copy_some(r, &index, why);
            continue;
        }
        bool fills = gap.first == r->entries[0].index;
        rc = fills ? write_records(r, r->entries, r->count) : 0;
        if (rc == 0) {
            rc = leave_room(r, &gap, fills);
        }
        index = gap.last + 1;
    }
    r->made->last = r->old->last;
    return rc;
}

/* Everything that should be in the new file, is. */
static int verify(struct rebuild *r) {
    struct log_scan scan;
    struct log_scan_item item;
    int rc = log_scan_init(&scan, r->made->file, &r->log->identity, r->made->number, LOG_BLOCK,
                           r->made->tail, LOG_SCAN_WINDOW);
    uint64_t index = first_kept(r);
    const struct entry *last_filled = &r->entries[r->count - 1];
    while (rc == 0 && index <= r->made->last) {
        struct log_gap gap;
        bool in_gap = log_damage_at(r->log, index, &gap);
        if (in_gap && (index < r->entries[0].index || index > last_filled->index)) {
            index = gap.last + 1;
            continue;
        }
        bool intact = false;
        rc = log_scan_next(&scan, &item);
        if (rc == 1 && item.header.index == index) {
            rc = log_scan_payload(&scan, &item, NULL, &intact);
        }
        rc = rc < 0 || intact ? rc : LKV_EDAMAGED;
        index++;
    }
    log_scan_fini(&scan);
    return rc;
}

/* Zeros all over: a file of before could hold records of this very segment, from an attempt that
 * failed, and they would count where room is left. */
static int take_zeros(struct log *log, uint64_t bytes, struct spare **out, struct reason *why) {
    uint64_t capacity = LOG_BLOCK + (bytes + LOG_BLOCK - 1) / LOG_BLOCK * LOG_BLOCK;
    struct spare *spare = spare_take(log, capacity);
    if (spare != NULL && !spare->zeroed) {
        spare_return(log, spare);
        spare = NULL;
    }
    int rc = spare == NULL ? spare_make(log, capacity, &spare) : 0;
    *out = spare;
    return rc != 0 ? reason_set(why, rc, "%s: no file for a segment: %s", log->dir, error_text(rc))
                   : 0;
}

static int make_segment(struct rebuild *r, const struct log_gap *gap, struct reason *why) {
    uint64_t left = gap->last - gap->first + 1 - r->count;
    uint64_t room = r->old->tail - LOG_BLOCK + r->bytes;
    room += left * (r->bytes / r->count + LOG_ALIGN);
    int rc = take_zeros(r->log, room, &r->spare, why);
    if (rc != 0) {
        return rc;
    }
    struct segment_header header = {.number = r->old->number,
                                    .first = r->old->first,
                                    .prev_term = r->old->prev_term,
                                    .zeroed = true};
    memcpy(header.before, r->old->before, sizeof(header.before));
    r->made = segment_new(&header, r->spare->file, r->spare->capacity);
    if (r->made == NULL) {
        return LKV_ENOMEM;
    }
    r->at = LOG_BLOCK;
    r->spare->zeroed = false;
    /* First, and for certain: a file that begins with zeros would be taken for zeros. */
    rc = segment_write_header(r->log, r->made, r->made->file);
    return rc == 0 ? disk_sync(r->made->file) : rc;
}

/* Gives up what was made so far: under its spare name it is nobody's. */
static void undo(struct rebuild *r) {
    if (r->made != NULL) {
        r->made->file = NULL;
        segment_free(r->made);
    }
    if (r->spare != NULL) {
        spare_return(r->log, r->spare);
    }
}

/* In the place of the old one, whose name is the new one's now. False: it has been dropped meanwhile,
 * and its name, with whatever file has it, goes as well. */
static bool replace(struct rebuild *r) {
    struct log *log = r->log;
    for (size_t i = 0; i < log->segment_count; i++) {
        if (log->segments[i] == r->old) {
            log->segments[i] = r->made;
            log->bytes -= r->old->capacity;
            r->old->dropped = true; /* whoever unpins it last frees it: the caller at the latest */
            return true;
        }
    }
    log->bytes -= r->made->capacity;
    return false;
}

int rebuild_segment(struct log *log, struct segment *old, const struct log_gap *gap,
                    const struct entry *entries, size_t count, struct log_terms_change *change,
                    struct reason *why) {
    struct rebuild r = {.log = log, .old = old, .entries = entries, .count = count};
    for (size_t i = 0; i < count; i++) {
        r.bytes += record_size(entry_length(&entries[i]));
    }
    int rc = old == log->current ? leave_current(log, why) : 0;
    if (rc != 0) {
        return rc;
    }
    rc = make_segment(&r, gap, why);
    if (rc == 0) {
        rc = build(&r, why);
    }
    if (rc == 0) {
        rc = disk_sync(r.made->file);
    }
    if (rc == 0) {
        rc = verify(&r);
    }
    if (rc != 0) {
        undo(&r);
        if (log_first(log) > old->last) {
            return 0; /* all of it went meanwhile, for an image (bulk thread) */
        }
        return reason_set(why, rc, "%s: cannot rebuild segment %llu: %s", log->dir,
                          (unsigned long long)old->number, error_text(rc));
    }
    rc = segment_publish(log, r.spare, r.made);
    r.spare->file = NULL; /* the segment's */
    spare_free(r.spare);
    if (rc != 0) {
        segment_free(r.made);
        return log_fail(log, rc, why, "rebuild a segment");
    }
    pthread_mutex_lock(&log->mutex);
    bool lives = replace(&r);
    fill_publish(log, r.made, r.made->tail, entries, count, change);
    pthread_mutex_unlock(&log->mutex);
    if (!lives) {
        segment_free(r.made);
    }
    return 0;
}
