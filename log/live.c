/* The list of live segments, readers' pins, and what becomes of segments that leave the list. */
#include "log/internal.h"

#include "base/assert.h"
#include "base/mem.h"

int live_reserve(struct log *log, size_t more) {
    pthread_mutex_lock(&log->mutex);
    struct segment **grown = mem_array_grow(log->segments, &log->segment_capacity,
                                            log->segment_count + more, sizeof(*grown));
    log->segments = grown != NULL ? grown : log->segments;
    /* A cut may bury every live segment, and must not fail half way. */
    struct dead_file *dead =
        grown == NULL ? NULL
                      : mem_array_grow(log->dead, &log->dead_capacity,
                                       log->dead_count + log->segment_count + more, sizeof(*dead));
    log->dead = dead != NULL ? dead : log->dead;
    pthread_mutex_unlock(&log->mutex);
    return dead != NULL ? 0 : LKV_ENOMEM;
}

void live_push(struct log *log, struct segment *segment) {
    pthread_mutex_lock(&log->mutex);
    ASSERT(log->segment_count < log->segment_capacity);
    log->segments[log->segment_count++] = segment;
    pthread_mutex_unlock(&log->mutex);
    log->current = segment;
}

/* Under the mutex. The file waits for the bulk thread: unlinking 64 MiB can take as long as a
 * sync, and the log thread has votes to write. Returns the segment if it is to be freed now. */
static struct segment *bury(struct log *log, struct segment *segment) {
    if (segment->file != NULL) { /* else it was lost, and never rebuilt */
        ASSERT(log->dead_count < log->dead_capacity);
        log->dead[log->dead_count++] =
            (struct dead_file){.number = segment->number,
                               .capacity = segment->capacity,
                               .recyclable = segment->pins == 0 && !segment->rotten};
    }
    segment->dropped = true;
    return segment->pins == 0 ? segment : NULL; /* else the last reader frees it */
}

void live_bury(struct log *log, struct segment *segment) {
    pthread_mutex_lock(&log->mutex);
    struct segment *gone = bury(log, segment);
    pthread_mutex_unlock(&log->mutex);
    segment_free(gone);
}

void live_cut(struct log *log, uint64_t from) {
    for (;;) {
        struct segment *gone = NULL;
        pthread_mutex_lock(&log->mutex);
        struct segment *newest =
            log->segment_count > 0 ? log->segments[log->segment_count - 1] : NULL;
        bool dead = newest != NULL && newest->first >= from;
        if (dead) {
            log->segment_count--;
            gone = bury(log, newest);
        } else if (newest != NULL && newest->last >= from) {
            newest->last = from - 1;
            segment_forget(newest, from);
        }
        if (log->last >= from) {
            log->last = from - 1;
            log->cuts++;
            gaps_clip(log);
        }
        pthread_mutex_unlock(&log->mutex);
        segment_free(gone);
        if (!dead) {
            return;
        }
    }
}

void live_drop(struct log *log, uint64_t index) {
    for (;;) {
        struct segment *gone = NULL;
        pthread_mutex_lock(&log->mutex);
        bool drop = log->segment_count > 1 && log->segments[0]->last <= index &&
                    log->dead_count < log->dead_capacity;
        if (drop) {
            gone = bury(log, log->segments[0]);
            log->segment_count--;
            memmove(log->segments, log->segments + 1, log->segment_count * sizeof(*log->segments));
            if (log->segments[0]->first > log->first) {
                log->first = log->segments[0]->first;
                gaps_clip(log);
            }
        }
        pthread_mutex_unlock(&log->mutex);
        segment_free(gone);
        if (!drop) {
            return;
        }
    }
}

struct segment *live_pin(struct log *log, uint64_t index) {
    struct segment *found = NULL;
    pthread_mutex_lock(&log->mutex);
    size_t low = 0, high = log->segment_count; /* the segment sought is in [low, high) - 1 */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->segments[middle]->first <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low > 0 && index >= log->first && index <= log->segments[low - 1]->last) {
        found = log->segments[low - 1];
        found->pins++;
    }
    pthread_mutex_unlock(&log->mutex);
    return found;
}

void live_unpin(struct log *log, struct segment *segment) {
    pthread_mutex_lock(&log->mutex);
    bool last_reader = --segment->pins == 0 && segment->dropped;
    pthread_mutex_unlock(&log->mutex);
    if (last_reader) {
        segment_free(segment);
    }
}
