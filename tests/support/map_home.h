/* For tests of the engine that keeps versions on disk: a directory of its own under the temporary ones, and
 * a disk that knows of directories only, which is all that the engine asks it for. */
#ifndef TESTS_SUPPORT_MAP_HOME_H
#define TESTS_SUPPORT_MAP_HOME_H

#include "kv/kv.h"
#include "kv/ordered.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define MAP_HOME_REQUIRE(condition)                                                         \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            (void)fprintf(stderr, "%s:%d: required: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                        \
        }                                                                                   \
    } while (0)

static inline int map_home_make_dir(struct disk *disk, const char *path) {
    (void)disk;
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : LKV_EIO;
}

static inline int map_home_list(struct disk *disk, const char *path,
                                int (*visit)(void *arg, const char *name), void *arg) {
    (void)disk;
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return LKV_EIO;
    }
    int rc = 0;
    for (struct dirent *entry; rc == 0 && (entry = readdir(dir)) != NULL;) {
        rc = entry->d_name[0] != '.' ? visit(arg, entry->d_name) : 0;
    }
    (void)closedir(dir);
    return rc;
}

struct map_home {
    char dir[64];
    struct disk disk;
    struct kv_home home;
};

/* The home is inside of `out`, which must not move. */
static inline void map_home_make(struct map_home *out) {
    static const struct disk_ops ops = {.make_dir = map_home_make_dir, .list = map_home_list};
    struct reason why = {{0}};
    const struct ordered_ops *engine;
    *out = (struct map_home){.disk = {.ops = &ops}};
    /* In memory, where there is such a place: no test here depends on what a power cut takes. */
    (void)snprintf(out->dir, sizeof(out->dir), "/dev/shm/lkv-map-XXXXXX");
    if (mkdtemp(out->dir) == NULL) {
        (void)snprintf(out->dir, sizeof(out->dir), "/tmp/lkv-map-XXXXXX");
        MAP_HOME_REQUIRE(mkdtemp(out->dir) != NULL);
    }
    int rc = ordered_load("rocksdb", &engine, &why);
    if (rc != 0) {
        (void)fprintf(stderr, "%s\n", why.text);
    }
    MAP_HOME_REQUIRE(rc == 0);
    out->home = (struct kv_home){.engine = engine,
                                 .disk = &out->disk,
                                 .dir = out->dir,
                                 .cluster_id = 11,
                                 .group_id = 12,
                                 .member_id = 13,
                                 .unflushed_bytes = 256 * 1024,
                                 .cache_bytes = 1024 * 1024};
}

static inline void map_home_remove(struct map_home *home) {
    int rc = kv_home_clear(&home->home, NULL);
    MAP_HOME_REQUIRE(rc == 0 && remove(home->dir) == 0);
}

#endif
