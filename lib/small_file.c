#include "lib/small_file.h"

#include "base/mem.h"

#include <stdio.h>

static int write_whole(struct disk *disk, const char *path, struct slice bytes) {
    struct disk_file *file;
    int rc = disk_open(disk, path, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, &file);
    if (rc != 0) {
        return rc;
    }
    rc = disk_write(file, 0, &bytes, 1);
    if (rc == 0) {
        rc = disk_sync(file);
    }
    disk_close(file);
    return rc;
}

int small_file_save(struct disk *disk, const char *dir, const char *name, struct slice bytes,
                    struct reason *why) {
    char path[SMALL_FILE_PATH_SIZE], spare[SMALL_FILE_PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    (void)snprintf(spare, sizeof(spare), "%s/%s.new", dir, name);
    int rc = write_whole(disk, spare, bytes);
    if (rc == 0) {
        rc = disk_rename(disk, spare, path);
    }
    if (rc == 0) {
        rc = disk_sync_dir(disk, dir);
    }
    return rc == 0 ? 0 : reason_set(why, rc, "%s: cannot write: %s", path, error_text(rc));
}

int small_file_load(struct disk *disk, const char *path, size_t size_max, char **out, size_t *size,
                    struct reason *why) {
    struct disk_file *file;
    *out = NULL;
    int rc = disk_open(disk, path, DISK_READ, &file);
    if (rc != 0) {
        return reason_set(why, rc, "%s: cannot read: %s", path, error_text(rc));
    }
    char *bytes = mem_alloc(size_max + 2);
    rc = bytes != NULL ? disk_read(file, 0, bytes, size_max + 1, size) : LKV_ENOMEM;
    disk_close(file);
    if (rc == 0 && *size > size_max) {
        rc = LKV_EDAMAGED;
    }
    if (rc != 0) {
        mem_free(bytes);
        return reason_set(why, rc, "%s: cannot read: %s", path, error_text(rc));
    }
    bytes[*size] = '\0';
    *out = bytes;
    return 0;
}
