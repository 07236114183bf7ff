#include "log/vote.h"

static int write_slot(struct disk_file *file, int slot, const struct vote_record *record) {
    uint8_t block[LOG_BLOCK];
    vote_record_encode(record, block);
    struct slice part = slice_of(block, sizeof(block));
    int rc = disk_write(file, (uint64_t)slot * LOG_BLOCK, &part, 1);
    return rc != 0 ? rc : disk_sync(file);
}

/* Rule 2: a power cut may tear the slot that is being written, so the other one stays whole until
 * this one is on disk. And both are written, because with only one new slot a rotten bit in it
 * would bring the older vote back, and with it a second vote in the same term. */
static int write_both(struct vote_file *vote, struct vote_record *record) {
    for (uint32_t copy = 0; copy < VOTE_SLOTS; copy++) {
        record->copy = copy;
        int slot = copy == 0 ? vote->doubtful : 1 - vote->doubtful;
        int rc = write_slot(vote->file, slot, record);
        if (rc != 0) {
            return rc;
        }
    }
    vote->record = *record;
    return 0;
}

static int create_under_tmp_name(struct vote_file *vote, struct disk *disk, const char *dir,
                                 const char *tmp) {
    int rc = disk_open(disk, tmp, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, &vote->file);
    if (rc != 0) {
        vote->file = NULL;
        return rc;
    }
    char path[LOG_PATH_SIZE];
    log_path(path, dir, LOG_VOTE_NAME);
    rc = write_both(vote, &vote->record);
    if (rc == 0) {
        rc = disk_rename(disk, tmp, path);
    }
    return rc != 0 ? rc : disk_sync_dir(disk, dir);
}

int vote_create(struct vote_file *vote, struct disk *disk, const char *dir,
                const struct log_identity *identity, struct reason *why) {
    *vote = (struct vote_file){0};
    vote->record.identity = *identity;
    vote->record.sequence = 1;
    char tmp[LOG_PATH_SIZE];
    log_path(tmp, dir, LOG_VOTE_TMP_NAME);
    int rc = create_under_tmp_name(vote, disk, dir, tmp);
    if (rc != 0) {
        vote_close(vote);
        return reason_set(why, rc, "%s/" LOG_VOTE_NAME ": cannot be made: %s", dir, error_text(rc));
    }
    return 0;
}

static int read_slot(struct disk_file *file, int slot, struct vote_record *record,
                     struct reason *why) {
    uint8_t block[LOG_HEADER_SIZE];
    size_t got;
    int rc = disk_read(file, (uint64_t)slot * LOG_BLOCK, block, sizeof(block), &got);
    if (rc != 0) {
        return reason_set(why, rc, "cannot read: %s", error_text(rc));
    }
    return vote_record_decode(slice_of(block, got), record, why);
}

static bool is_later(const struct vote_record *a, const struct vote_record *b) {
    return a->sequence > b->sequence || (a->sequence == b->sequence && a->copy > b->copy);
}

static int read_slots(struct vote_file *vote, int *valid_slots, struct reason *why) {
    struct vote_record records[VOTE_SLOTS];
    memset(records, 0, sizeof(records));
    bool valid[VOTE_SLOTS] = {false, false};
    int lost = LKV_EDAMAGED;
    for (int slot = 0; slot < VOTE_SLOTS; slot++) {
        int rc = read_slot(vote->file, slot, &records[slot], why);
        if (rc != 0 && rc != LKV_EDAMAGED && rc != LKV_EIO) {
            return rc; /* a newer version counts for the whole file */
        }
        valid[slot] = rc == 0;
        lost = rc == LKV_EIO ? rc : lost; /* S11: one is enough, but a disk may also come back */
    }
    *valid_slots = valid[0] + valid[1];
    if (*valid_slots == 0) {
        return lost; /* rule 11: both unreadable = the vote is lost */
    }
    int last_written = is_later(&records[1], &records[0]) ? 1 : 0;
    vote->doubtful = !valid[0] ? 0 : (!valid[1] ? 1 : last_written);
    vote->record = records[*valid_slots == 1 ? 1 - vote->doubtful : last_written];
    return 0;
}

int vote_open(struct vote_file *vote, struct disk *disk, const char *dir, int flags,
              const struct log_identity *identity, int *valid_slots, struct reason *why) {
    *vote = (struct vote_file){0};
    char path[LOG_PATH_SIZE];
    log_path(path, dir, LOG_VOTE_NAME);
    struct reason detail = {{0}};
    int rc = disk_open(disk, path, flags, &vote->file);
    if (rc != 0) {
        vote->file = NULL;
        return reason_set(why, rc, "%s: cannot open: %s", path, error_text(rc));
    }
    rc = read_slots(vote, valid_slots, &detail);
    if (rc != 0) {
        (void)reason_set(why, rc, "%s: %s%.300s", path,
                         rc == LKV_EDAMAGED ? "both slots unreadable, the second: " : "",
                         detail.text);
    } else if (identity != NULL && (vote->record.identity.cluster_id != identity->cluster_id ||
                                    vote->record.identity.group_id != identity->group_id)) {
        rc = reason_set(why, LKV_EIDENTITY,
                        "%s: belongs to cluster %016llx group %llu, expected %016llx group %llu",
                        path, (unsigned long long)vote->record.identity.cluster_id,
                        (unsigned long long)vote->record.identity.group_id,
                        (unsigned long long)identity->cluster_id,
                        (unsigned long long)identity->group_id);
    }
    if (rc != 0) {
        vote_close(vote);
    }
    return rc;
}

int vote_save(struct vote_file *vote, const struct vote_record *record) {
    struct vote_record next = *record;
    next.sequence = vote->record.sequence + 1;
    return write_both(vote, &next);
}

void vote_close(struct vote_file *vote) {
    disk_close(vote->file);
    vote->file = NULL;
}
