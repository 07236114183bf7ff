#include "log/names.h"

#include "base/assert.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SEGMENT_SUFFIX ".seg"
#define SPARE_PREFIX   "spare-"
#define SPARE_SUFFIX   ".tmp"

enum { SEGMENT_DIGITS = 20 };

void segment_name(char name[LOG_NAME_SIZE], uint64_t number) {
    (void)snprintf(name, LOG_NAME_SIZE, "%020" PRIu64 SEGMENT_SUFFIX, number);
}

void spare_name(char name[LOG_NAME_SIZE], uint64_t number) {
    (void)snprintf(name, LOG_NAME_SIZE, SPARE_PREFIX "%" PRIu64 SPARE_SUFFIX, number);
}

int log_dir_check(const char *dir, struct reason *why) {
    if (strlen(dir) + 1 + LOG_NAME_SIZE > LOG_PATH_SIZE) {
        return reason_set(why, LKV_EINVAL, "the directory's name is longer than %d bytes",
                          LOG_PATH_SIZE - 1 - LOG_NAME_SIZE);
    }
    return 0;
}

void log_path(char path[LOG_PATH_SIZE], const char *dir, const char *name) {
    int size = snprintf(path, LOG_PATH_SIZE, "%s/%s", dir, name);
    ASSERT(size > 0 && size < LOG_PATH_SIZE);
}

/* Reads digits up to `suffix`, which must end the name. */
static bool number_before(const char *text, const char *suffix, uint64_t *out) {
    if (*text < '0' || *text > '9') {
        return false;
    }
    char *end;
    *out = strtoull(text, &end, 10);
    return strcmp(end, suffix) == 0;
}

/* Only the spelling that we write ourselves counts: 7.seg is somebody else's file. */
static bool is_segment(const char *name, uint64_t *number) {
    char spelled[LOG_NAME_SIZE];
    if (!number_before(name, SEGMENT_SUFFIX, number)) {
        return false;
    }
    segment_name(spelled, *number);
    return strcmp(name, spelled) == 0;
}

static bool is_spare(const char *name, uint64_t *number) {
    size_t prefix = strlen(SPARE_PREFIX);
    return strncmp(name, SPARE_PREFIX, prefix) == 0 &&
           number_before(name + prefix, SPARE_SUFFIX, number);
}

static int add(uint64_t **list, size_t *count, size_t *capacity, uint64_t number) {
    uint64_t *grown = mem_array_grow(*list, capacity, *count + 1, sizeof(**list));
    if (grown == NULL) {
        return LKV_ENOMEM;
    }
    *list = grown;
    grown[(*count)++] = number;
    return 0;
}

static int visit_name(void *arg, const char *name) {
    struct name_list *names = arg;
    uint64_t number;
    if (is_segment(name, &number)) {
        return add(&names->segments, &names->segment_count, &names->segment_capacity, number);
    }
    if (is_spare(name, &number)) {
        return add(&names->spares, &names->spare_count, &names->spare_capacity, number);
    }
    names->vote |= strcmp(name, LOG_VOTE_NAME) == 0;
    return 0;
}

int name_list_load(struct name_list *names, struct disk *disk, const char *dir,
                   struct reason *why) {
    *names = (struct name_list){0};
    /* Byte order is number order: the digits are padded. */
    int rc = disk_list(disk, dir, visit_name, names);
    if (rc != 0) {
        name_list_fini(names);
        return reason_set(why, rc, "%s: cannot list the directory: %s", dir, error_text(rc));
    }
    return 0;
}

void name_list_fini(struct name_list *names) {
    mem_free(names->segments);
    mem_free(names->spares);
    *names = (struct name_list){0};
}
