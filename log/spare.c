/* Spare files: the segments to be. Made by the bulk thread beforehand; in a hurry, smaller, by the
 * log thread. Rule 16: a file under a spare name may be discarded at any time; no other may. */
#include "log/internal.h"

#include "base/mem.h"

enum {
    ZERO_PIECE = 64 * 1024,
    ZERO_WRITE = 1024 * 1024,    /* per write call */
    ZERO_SYNC = 4 * 1024 * 1024, /* bytes between syncs: a longer backlog would make the log
                                  * thread's own sync wait behind it in the device's queue */
};

static const uint8_t zeros[ZERO_PIECE];

void spare_free(struct spare *spare) {
    if (spare != NULL) {
        disk_close(spare->file);
        mem_free(spare);
    }
}

static void spare_path(const struct log *log, uint64_t number, char path[LOG_PATH_SIZE]) {
    char name[LOG_NAME_SIZE];
    spare_name(name, number);
    log_path(path, log->dir, name);
}

/* Nothing depends on it: if the name stays, the next open removes it. */
static void discard(struct log *log, struct spare *spare) {
    char path[LOG_PATH_SIZE];
    spare_path(log, spare->number, path);
    spare_free(spare);
    (void)!disk_remove(log->disk, path);
}

static int fill_with_zeros(struct disk_file *file, uint64_t capacity) {
    struct slice parts[ZERO_WRITE / ZERO_PIECE];
    uint64_t at = 0, synced = 0;
    while (at < capacity) {
        uint64_t step = capacity - at < ZERO_WRITE ? capacity - at : ZERO_WRITE;
        size_t count = 0;
        for (uint64_t left = step; left > 0; count++) {
            size_t piece = left < ZERO_PIECE ? (size_t)left : ZERO_PIECE;
            parts[count] = slice_of(zeros, piece);
            left -= piece;
        }
        int rc = disk_write(file, at, parts, count);
        at += step;
        if (rc == 0 && (at - synced >= ZERO_SYNC || at == capacity)) {
            rc = disk_sync(file);
            synced = at;
        }
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static struct spare *spare_new(struct log *log, uint64_t capacity) {
    struct spare *spare = mem_calloc(1, sizeof(*spare));
    if (spare != NULL) {
        pthread_mutex_lock(&log->mutex);
        spare->number = log->next_spare++;
        pthread_mutex_unlock(&log->mutex);
        spare->capacity = capacity;
    }
    return spare;
}

static void count_bytes(struct log *log, uint64_t more, uint64_t less) {
    pthread_mutex_lock(&log->mutex);
    log->bytes = log->bytes + more - less;
    pthread_mutex_unlock(&log->mutex);
}

int spare_make(struct log *log, uint64_t capacity, struct spare **out) {
    *out = NULL;
    struct spare *spare = spare_new(log, capacity);
    if (spare == NULL) {
        return LKV_ENOMEM;
    }
    char path[LOG_PATH_SIZE];
    spare_path(log, spare->number, path);
    int rc = disk_open(log->disk, path, DISK_WRITE | DISK_CREATE | DISK_EXCLUSIVE, &spare->file);
    if (rc != 0) {
        spare->file = NULL;
        spare_free(spare);
        return rc;
    }
    rc = fill_with_zeros(spare->file, capacity);
    if (rc != 0) {
        discard(log, spare);
        return rc;
    }
    spare->zeroed = true;
    count_bytes(log, capacity, 0);
    *out = spare;
    return 0;
}

struct spare *spare_take(struct log *log, uint64_t capacity) {
    pthread_mutex_lock(&log->mutex);
    struct spare *spare = log->spare;
    if (spare != NULL && spare->capacity >= capacity) {
        log->spare = NULL;
    } else {
        spare = NULL;
    }
    pthread_mutex_unlock(&log->mutex);
    return spare;
}

void spare_return(struct log *log, struct spare *spare) {
    pthread_mutex_lock(&log->mutex);
    bool keep = log->spare == NULL;
    if (keep) {
        log->spare = spare;
    } else {
        log->bytes -= spare->capacity;
    }
    pthread_mutex_unlock(&log->mutex);
    if (!keep) {
        discard(log, spare);
    }
}

/* Zero-filling goes from front to back, and recycling leaves the old header: so a full file that
 * begins with zeros is zeros. */
static bool begins_with_zeros(struct disk_file *file) {
    uint8_t block[LOG_BLOCK];
    size_t got;
    return disk_read(file, 0, block, sizeof(block), &got) == 0 && got == sizeof(block) &&
           memcmp(block, zeros, sizeof(block)) == 0;
}

/* A file from before: of full size it is good whatever it holds, once that is on disk. */
static bool adopt_one(struct log *log, uint64_t number) {
    char path[LOG_PATH_SIZE];
    spare_path(log, number, path);
    struct spare *spare = mem_calloc(1, sizeof(*spare));
    if (spare == NULL) {
        return false;
    }
    spare->number = number;
    if (disk_open(log->disk, path, DISK_WRITE, &spare->file) != 0) {
        spare->file = NULL;
        spare_free(spare);
        return false;
    }
    if (disk_size(spare->file, &spare->capacity) != 0 ||
        spare->capacity != log->options.segment_bytes || disk_sync(spare->file) != 0) {
        spare_free(spare);
        return false;
    }
    spare->zeroed = begins_with_zeros(spare->file);
    log->spare = spare;
    log->bytes += spare->capacity;
    return true;
}

void spare_adopt(struct log *log, const struct name_list *names) {
    for (size_t i = 0; i < names->spare_count; i++) {
        uint64_t number = names->spares[i];
        log->next_spare = number >= log->next_spare ? number + 1 : log->next_spare;
        if (log->spare == NULL && adopt_one(log, number)) {
            continue;
        }
        char path[LOG_PATH_SIZE];
        spare_path(log, number, path);
        (void)!disk_remove(log->disk, path);
    }
}

/* Rule 14: the old content may be on disk under its old name until the directory is synced; what is
 * written into the file before that could come back under a segment's name. */
static int recycle(struct log *log, const struct dead_file *dead, struct spare **out) {
    struct spare *spare = spare_new(log, dead->capacity);
    if (spare == NULL) {
        return LKV_ENOMEM;
    }
    char name[LOG_NAME_SIZE], from[LOG_PATH_SIZE], to[LOG_PATH_SIZE];
    segment_name(name, dead->number);
    log_path(from, log->dir, name);
    spare_path(log, spare->number, to);
    pthread_mutex_lock(&log->names_mutex);
    int rc = disk_rename(log->disk, from, to);
    if (rc == 0) {
        rc = disk_sync_dir(log->disk, log->dir);
        if (rc != 0) {
            rc = log_fail(log, rc, NULL, "sync the directory"); /* rule 10 */
        }
    }
    pthread_mutex_unlock(&log->names_mutex);
    if (rc == 0) {
        rc = disk_open(log->disk, to, DISK_WRITE, &spare->file);
        spare->file = rc == 0 ? spare->file : NULL;
    }
    if (rc != 0) {
        spare_free(spare);
        return rc;
    }
    *out = spare;
    return 0;
}

static bool next_dead(struct log *log, struct dead_file *dead) {
    pthread_mutex_lock(&log->mutex);
    bool any = log->dead_count > 0;
    if (any) {
        *dead = log->dead[--log->dead_count];
    }
    pthread_mutex_unlock(&log->mutex);
    return any;
}

/* Unlinks dead files, or makes one of them the spare. */
static int clear_dead(struct log *log, bool want_spare, struct spare **spare) {
    struct dead_file dead;
    int result = 0;
    while (next_dead(log, &dead)) {
        /* Rule 16: a file that a reader may still look into is unlinked, never recycled. */
        bool recycles = want_spare && *spare == NULL && dead.recyclable &&
                        dead.capacity == log->options.segment_bytes;
        int rc;
        if (recycles) {
            rc = recycle(log, &dead, spare);
        } else {
            char name[LOG_NAME_SIZE], path[LOG_PATH_SIZE];
            segment_name(name, dead.number);
            log_path(path, log->dir, name);
            rc = disk_remove(log->disk, path);
        }
        if (rc == 0 && !recycles) {
            count_bytes(log, 0, dead.capacity);
        }
        result = result != 0 ? result : rc;
    }
    return result;
}

static bool claim_spare(struct log *log) {
    pthread_mutex_lock(&log->mutex);
    bool wanted = log->spare == NULL && !log->making_spare;
    log->making_spare |= wanted;
    pthread_mutex_unlock(&log->mutex);
    return wanted;
}

static void keep_spare(struct log *log, struct spare *spare) {
    pthread_mutex_lock(&log->mutex);
    log->making_spare = false;
    pthread_mutex_unlock(&log->mutex);
    if (spare != NULL) {
        spare_return(log, spare);
    }
}

int log_prepare_spare(struct log *log, struct reason *why) {
    int rc = log_failed(log, why);
    if (rc != 0) {
        return rc;
    }
    bool wanted = claim_spare(log);
    struct spare *spare = NULL;
    rc = clear_dead(log, wanted, &spare);
    if (rc == 0 && wanted && spare == NULL) {
        rc = spare_make(log, log->options.segment_bytes, &spare);
    }
    if (wanted) {
        keep_spare(log, spare);
    }
    return rc != 0
               ? reason_set(why, rc, "%s: cannot prepare a segment: %s", log->dir, error_text(rc))
               : 0;
}

bool log_wants_spare(struct log *log) {
    pthread_mutex_lock(&log->mutex);
    bool wanted = (log->spare == NULL && !log->making_spare) || log->dead_count > 0;
    pthread_mutex_unlock(&log->mutex);
    return wanted;
}

int log_drop_prefix(struct log *log, uint64_t index, struct reason *why) {
    int rc = log_failed(log, why);
    if (rc == 0 && live_reserve(log, 0) != 0) {
        rc = reason_set(why, LKV_ENOMEM, "%s: %s", log->dir, error_text(LKV_ENOMEM));
    }
    if (rc != 0) {
        return rc;
    }
    live_drop(log, index); /* rule 14: the caller holds a durable image there */
    struct spare *spare = NULL;
    bool wanted = claim_spare(log);
    rc = clear_dead(log, wanted, &spare);
    if (wanted) {
        keep_spare(log, spare);
    }
    return rc != 0 ? reason_set(why, rc, "%s: cannot drop segments: %s", log->dir, error_text(rc))
                   : 0;
}
