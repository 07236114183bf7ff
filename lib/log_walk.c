/* lkv_log_walk: a node's log as a person may want to see it, from a directory that nobody holds. */
#include "kv/command.h"
#include "lib/api.h"
#include "lib/identity.h"
#include "lib/msg.h"
#include "lib/node.h"
#include "lib/once.h"
#include "lib/uv/disk_posix.h"
#include "lib/uv/disk_posix_lock.h"
#include "log/log.h"

#include <stdio.h>

struct walk {
    int (*visit)(void *arg, const struct lkv_log_item *item);
    void *arg;
    enum model model;
};

static enum lkv_log_kind public_kind(enum log_finding kind) {
    switch (kind) {
    case LOG_RECORD: return LKV_LOG_RECORD;
    case LOG_MARK: return LKV_LOG_MARK;
    case LOG_TORN: return LKV_LOG_TORN;
    case LOG_DAMAGED: return LKV_LOG_DAMAGED;
    case LOG_DEAD: return LKV_LOG_DEAD;
    }
    return LKV_LOG_DAMAGED;
}

static const char *op_name(enum kv_op op) {
    switch (op) {
    case KV_PUT: return "put";
    case KV_DELETE: return "delete";
    case KV_SESSION_OPEN: return "session open";
    case KV_SESSION_CLOSE: return "session close";
    case KV_SESSION_EXPIRE: return "session expire";
    }
    return "command";
}

static void describe_command(const struct log_visit *what, struct lkv_log_item *item) {
    struct kv_command command;
    item->type = "command";
    if (kv_command_decode(what->payload, &command, NULL) != 0) {
        return; /* of a later version */
    }
    item->type = op_name(command.op);
    item->key = (struct lkv_bytes){command.key.data, command.key.size};
    item->value = (struct lkv_bytes){command.value.data, command.value.size};
}

/* The caller's own bytes; whether all of its append are there is not looked at. */
static void describe_once(struct lkv_log_item *item) {
    struct once_header header;
    struct slice payload = slice_of(item->payload.data, item->payload.size);
    item->type = "record once";
    if (once_decode(payload, &header) == 0) {
        item->payload.data = payload.data + ONCE_HEADER_SIZE;
        item->payload.size = payload.size - ONCE_HEADER_SIZE;
    }
}

static int on_visit(void *arg, const struct log_visit *what) {
    const struct walk *walk = arg;
    char file[128];
    (void)snprintf(file, sizeof(file), "data/%s", what->file);
    struct lkv_log_item item = {.kind = public_kind(what->kind),
                                .file = file,
                                .offset = what->offset,
                                .index = what->index,
                                .term = what->term,
                                .type = "-",
                                .payload = {what->payload.data, what->payload.size},
                                .text = what->text};
    if (what->kind == LOG_RECORD) {
        switch (what->type) {
        case ENTRY_NOOP: item.type = "noop"; break;
        case ENTRY_CONFIG: item.type = "config"; break;
        case ENTRY_FEATURE: item.type = "feature"; break;
        case ENTRY_COMMAND:
            if (walk->model == MODEL_LOG) {
                item.type = "record";
            } else {
                describe_command(what, &item);
            }
            break;
        case ENTRY_SESSION: describe_command(what, &item); break;
        case ENTRY_ONCE: describe_once(&item); break;
        }
    }
    return walk->visit(walk->arg, &item);
}

static int newest_image(void *arg, const char *name) {
    uint64_t *newest = arg;
    uint64_t index = node_image_name_index(name);
    *newest = index > *newest ? index : *newest;
    return 0;
}

static int walk_locked(struct disk *disk, const char *dir, struct walk *walk, struct reason *why) {
    struct identity identity;
    int rc = identity_load(disk, dir, &identity, why);
    if (rc != 0) {
        return rc;
    }
    char path[DISK_PATH_SIZE];
    uint64_t image_index = 0;
    walk->model = identity.model;
    (void)snprintf(path, sizeof(path), "%s/image", dir);
    rc = disk_list(disk, path, newest_image, &image_index);
    if (rc != 0) {
        return reason_set(why, rc, "%s: cannot read the directory: %s", path, error_text(rc));
    }
    (void)snprintf(path, sizeof(path), "%s/data", dir);
    return log_walk(disk, path, image_index, on_visit, walk, why);
}

/* A lock that cannot be written, for want of permission or on a read-only file system, is still looked
 * at: nobody must be writing what is read. `*shared` is -1 or the lock then, `*lock` NULL or the lock. */
static int lock_dir(struct disk *disk, const char *dir, struct disk_lock **lock, int *shared,
                    struct reason *why) {
    char path[DISK_PATH_SIZE];
    long owner = 0;
    *shared = -1;
    (void)snprintf(path, sizeof(path), "%s/lock", dir);
    int rc = disk_lock(disk, path, lock, &owner);
    if (rc == LKV_EPERM) {
        rc = disk_posix_lock_shared(path, shared, &owner);
        rc = rc == LKV_ENOENT ? 0 : rc;
    }
    if (rc == LKV_ELOCKED && owner > 0) {
        return reason_set(why, rc, "%s is in use by process %ld", dir, owner);
    }
    return rc == 0 ? 0 : reason_set(why, rc, "%s: cannot lock: %s", path, error_text(rc));
}

static int walk_dir(struct disk *disk, const char *dir, struct walk *walk, struct reason *why) {
    char path[DISK_PATH_SIZE];
    struct disk_lock *lock = NULL;
    struct disk_file *probe;
    int shared;
    (void)snprintf(path, sizeof(path), "%s/identity", dir);
    int rc = disk_open(disk, path, DISK_READ, &probe); /* so that no lock file is made elsewhere */
    if (rc != 0) {
        return reason_set(why, rc, "%s is not a node's directory: %s: %s", dir, path,
                          error_text(rc));
    }
    disk_close(probe);
    rc = lock_dir(disk, dir, &lock, &shared, why);
    if (rc != 0) {
        return rc;
    }
    rc = walk_locked(disk, dir, walk, why);
    disk_unlock(lock);
    if (shared >= 0) {
        disk_posix_unlock(shared);
    }
    return rc;
}

int lkv_log_walk(const char *dir, int (*visit)(void *arg, const struct lkv_log_item *item),
                 void *arg, struct lkv_msg **why) {
    struct reason reason = {{0}};
    struct walk walk = {.visit = visit, .arg = arg};
    struct disk *disk;
    int rc = dir != NULL && visit != NULL ? disk_posix_open(&disk)
                                          : reason_set(&reason, LKV_EINVAL, "dir or visit is NULL");
    if (rc == 0) {
        rc = walk_dir(disk, dir, &walk, &reason);
        disk_posix_close(disk);
    }
    if (why != NULL) {
        *why = NULL;
    }
    if (rc < 0) {
        (void)api_fail_with(rc, &reason);
    }
    if (rc < 0 && why != NULL && reason.text[0] != '\0') {
        *why = msg_new(LKV_REPLY, NULL);
        if (*why != NULL) {
            msg_set_rc(*why, rc, "%s", reason.text);
        }
    }
    return rc;
}
