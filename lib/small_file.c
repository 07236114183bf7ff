#include "lib/small_file.h"

#include "base/crc.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CHECKSUM_LINE = 20 };

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
    char path[DISK_PATH_SIZE], spare[DISK_PATH_SIZE];
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

enum { ZEROS_SIZE = 64 * 1024 };

static int write_zeros(struct disk_file *file, uint64_t size) {
    uint8_t *zeros = mem_calloc(1, ZEROS_SIZE);
    int rc = zeros != NULL ? 0 : LKV_ENOMEM;
    for (uint64_t at = 0; rc == 0 && at < size; at += ZEROS_SIZE) {
        uint64_t left = size - at;
        struct slice part = slice_of(zeros, left < ZEROS_SIZE ? (size_t)left : ZEROS_SIZE);
        rc = disk_write(file, at, &part, 1);
    }
    mem_free(zeros);
    return rc == 0 ? disk_sync(file) : rc;
}

int small_file_prepare(struct disk *disk, const char *dir, const char *name, uint64_t size,
                       struct reason *why) {
    char path[DISK_PATH_SIZE];
    struct disk_file *file;
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    int rc = disk_open(disk, path, DISK_WRITE | DISK_CREATE, &file);
    if (rc == 0) {
        rc = write_zeros(file, size);
        disk_close(file);
    }
    rc = rc == 0 ? disk_sync_dir(disk, dir) : rc;
    if (rc != 0) {
        int removed = disk_remove(disk, path); /* half of it helps nobody */
        (void)removed;
    }
    return rc == 0 ? 0 : reason_set(why, rc, "%s: cannot prepare: %s", path, error_text(rc));
}

int small_file_save_over(struct disk *disk, const char *dir, const char *name, const char *path,
                         struct slice bytes, struct reason *why) {
    char spare[DISK_PATH_SIZE], into[DISK_PATH_SIZE];
    struct disk_file *file;
    (void)snprintf(spare, sizeof(spare), "%s/%s", dir, name);
    (void)snprintf(into, sizeof(into), "%.*s", (int)(strrchr(path, '/') - path), path);
    int rc = disk_open(disk, spare, DISK_WRITE, &file);
    if (rc == 0) {
        rc = disk_write(file, 0, &bytes, 1);
        rc = rc == 0 ? disk_truncate(file, bytes.size) : rc;
        rc = rc == 0 ? disk_sync(file) : rc;
        disk_close(file);
    }
    rc = rc == 0 ? disk_rename(disk, spare, path) : rc;
    rc = rc == 0 ? disk_sync_dir(disk, into) : rc;
    rc = rc == 0 ? disk_sync_dir(disk, dir) : rc;
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
    uint64_t found = 0;
    char *bytes = NULL;
    rc = disk_size(file, &found);
    if (rc == 0 && found > size_max) {
        rc = LKV_EDAMAGED;
    }
    if (rc == 0) {
        bytes = mem_alloc((size_t)found + 1);
        rc = bytes != NULL ? disk_read(file, 0, bytes, (size_t)found, size) : LKV_ENOMEM;
    }
    disk_close(file);
    if (rc != 0) {
        mem_free(bytes);
        return reason_set(why, rc, "%s: cannot read: %s", path, error_text(rc));
    }
    bytes[*size] = '\0';
    *out = bytes;
    return 0;
}

static void checksum_line(struct slice lines, char out[static CHECKSUM_LINE]) {
    (void)snprintf(out, CHECKSUM_LINE, "crc32c %08" PRIx32 "\n", crc32c(0, lines));
}

void small_text_seal(struct buffer *text) {
    char checksum[CHECKSUM_LINE];
    checksum_line(buffer_slice(text), checksum);
    buffer_printf(text, "%s", checksum);
}

/* Cuts off the checksum line. */
static int check_text(char *text, size_t size, const char *path, const struct small_text *expected,
                      struct reason *why) {
    const char *format = expected->format;
    size_t name = strlen(format);
    int found = 0;
    if (strncmp(text, format, name) != 0 || sscanf(text + name, " %d", &found) != 1) {
        return reason_set(why, LKV_EDAMAGED, "%s: does not begin with \"%s\"", path, format);
    }
    if (found != expected->version) {
        return reason_set(why, LKV_EVERSION, "%s: format version %d, this program knows %d", path,
                          found, expected->version);
    }
    char *last = strstr(text, "\ncrc32c ");
    if (last == NULL) {
        return reason_set(why, LKV_EDAMAGED, "%s: the checksum line is missing (%zu bytes)", path,
                          size);
    }
    char checksum[CHECKSUM_LINE];
    checksum_line(slice_of(text, (size_t)(last + 1 - text)), checksum);
    if (strcmp(last + 1, checksum) != 0 || strlen(text) != size) {
        return reason_set(why, LKV_EDAMAGED, "%s: its last line is \"%.40s\", expected \"%.15s\"",
                          path, last + 1, checksum);
    }
    last[1] = '\0';
    return 0;
}

int small_text_load(struct disk *disk, const char *dir, const char *name,
                    const struct small_text *expected, bool (*line)(void *arg, const char *line),
                    void *arg, struct reason *why) {
    char path[DISK_PATH_SIZE];
    char *text = NULL;
    size_t size = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    int rc = small_file_load(disk, path, expected->size_max, &text, &size, why);
    rc = rc == 0 ? check_text(text, size, path, expected, why) : rc;
    char *rest = rc == 0 ? strchr(text, '\n') + 1 : NULL;
    while (rc == 0 && rest != NULL) {
        const char *next = strsep(&rest, "\n");
        if (next[0] != '\0' && !line(arg, next)) {
            rc = reason_set(why, LKV_EDAMAGED, "%s: cannot understand \"%.100s\"", path, next);
        }
    }
    mem_free(text);
    return rc;
}
