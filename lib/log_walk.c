/* lkv_log_walk: a node's log as a person may want to see it, and whether what lies beside it is good,
 * from a directory that nobody holds. */
#include "base/feature.h"
#include "kv/command.h"
#include "lib/api.h"
#include "lib/meta_image.h"
#include "lib/msg.h"
#include "lib/node_repair.h"
#include "lib/once.h"
#include "lib/uv/disk_posix.h"
#include "lib/uv/disk_posix_lock.h"
#include "log/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct walk {
    int (*visit)(void *arg, const struct lkv_log_item *item);
    void *arg;
    struct disk *disk;
    const char *dir;
    struct identity identity;
    bool known;           /* the identity could be read */
    uint64_t image_index; /* of the newest image that can be read; 0: none */
};

static enum lkv_log_kind public_kind(enum log_finding kind) {
    switch (kind) {
    case LOG_RECORD: return LKV_LOG_RECORD;
    case LOG_MARK: return LKV_LOG_MARK;
    case LOG_TORN: return LKV_LOG_TORN;
    case LOG_DAMAGED: return LKV_LOG_DAMAGED;
    case LOG_DEAD: return LKV_LOG_DEAD;
    case LOG_WARNING: return LKV_LOG_WARNING;
    }
    return LKV_LOG_DAMAGED;
}

static const char *op_name(enum kv_op op) {
    switch (op) {
    case KV_PUT: return "put";
    case KV_DELETE: return "delete";
    case KV_TXN: return "txn";
    case KV_COMPACT: return "compact";
    case KV_ADD: return "add";
    case KV_RANGE: break;
    case KV_LEASE_GRANT: return "lease grant";
    case KV_LEASE_REVOKE: return "lease revoke";
    case KV_LEASE_CHECKPOINT: return "lease checkpoint";
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
        case ENTRY_DIGEST: item.type = "digest"; break;
        case ENTRY_COMMAND:
            if (walk->known && model_has_records(walk->identity.model)) {
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

/* ------------------------------------------------------------------ the files beside the log */

/* `rc` and the text, which begins with the path and perhaps an offset, become an item. Only damage is a
 * finding. */
static int tell_file(struct walk *walk, const char *name, int rc, const struct reason *text,
                     struct lkv_log_item *item, struct reason *why) {
    size_t path = strlen(walk->dir) + 1 + strlen(name);
    item->file = name;
    if (rc == 0) {
        item->kind = LKV_LOG_FILE;
        return walk->visit(walk->arg, item);
    }
    if (!node_is_damage(rc) && rc != LKV_EIDENTITY) {
        return reason_set(why, rc, "%s", text->text);
    }
    const char *rest = text->text;
    char *end = NULL;
    if (strncmp(rest, walk->dir, strlen(walk->dir)) == 0 && strlen(rest) > path) {
        rest += path;
        unsigned long long offset = rest[0] == ':' ? strtoull(rest + 1, &end, 10) : 0;
        bool told = end != NULL && end > rest + 1 && *end == ':';
        item->offset = told ? offset : 0;
        rest = told ? end : rest;
        rest += strspn(rest, ": ");
    }
    item->text = rest;
    return walk->visit(walk->arg, item);
}

/* A small file: 0 also when there is none. */
static int visit_file(struct walk *walk, const char *name, int rc, const struct reason *text,
                      struct reason *why) {
    char path[DISK_PATH_SIZE];
    struct disk_file *probe;
    struct lkv_log_item item = {.kind = LKV_LOG_DAMAGED, .type = name};
    (void)snprintf(path, sizeof(path), "%s/%s", walk->dir, name);
    if (rc == 0) {
        if (disk_open(walk->disk, path, DISK_READ, &probe) != 0) {
            return 0;
        }
        disk_close(probe);
    }
    return tell_file(walk, name, rc, text, &item, why);
}

static int visit_small_files(struct walk *walk, struct reason *why) {
    struct reason text = {{0}};
    struct seen seen;
    struct retention retention;
    int found = identity_load(walk->disk, walk->dir, &walk->identity, &text);
    walk->known = found == 0;
    int rc = visit_file(walk, "identity", found, &text, why);
    if (rc == 0) {
        found = seen_load(walk->disk, walk->dir, &seen, &text);
        rc = visit_file(walk, "seen", found, &text, why);
    }
    if (rc == 0) {
        found = retention_load(walk->disk, walk->dir, &retention, &text);
        rc = visit_file(walk, "retention", found, &text, why);
    }
    return rc;
}

struct image_owner {
    uint64_t cluster_id, index, term;
};

static int check_kv_image(struct walk *walk, const char *path, struct image_owner *owner,
                          struct reason *text) {
    struct kv_image_info info;
    int rc = kv_image_check(walk->disk, path, &info, NULL, text);
    if (rc == 0) {
        *owner = (struct image_owner){info.cluster_id, info.stamp.index, info.stamp.term};
    }
    return rc;
}

static int check_log_image(struct walk *walk, const char *path, struct image_owner *owner,
                           struct reason *text) {
    struct meta_image meta;
    bool own = walk->known && walk->identity.model == MODEL_OWN && strstr(path, "/image/") != NULL;
    int rc = own ? own_image_load(walk->disk, path, NULL, FEATURE_LEVEL, &meta, text)
                 : meta_image_load(walk->disk, path, FEATURE_LEVEL, &meta, text);
    if (rc == 0) {
        *owner = (struct image_owner){meta.cluster_id, meta.index, meta.term};
        meta_image_fini(&meta);
    }
    return rc;
}

/* Without a readable identity the model is not known: it is of one of the two. */
static int check_image(struct walk *walk, const char *path, struct image_owner *owner,
                       struct reason *text) {
    bool log = walk->known && model_has_records(walk->identity.model);
    int rc =
        log ? check_log_image(walk, path, owner, text) : check_kv_image(walk, path, owner, text);
    if (rc != 0 && !walk->known && check_log_image(walk, path, owner, NULL) == 0) {
        rc = 0;
    }
    if (rc == 0 && walk->known && owner->cluster_id != walk->identity.cluster_id) {
        rc = reason_set(text, LKV_EIDENTITY,
                        "%s: belongs to cluster %016" PRIx64 ", this node to %016" PRIx64, path,
                        owner->cluster_id, walk->identity.cluster_id);
    }
    return rc;
}

static int visit_image(struct walk *walk, uint64_t index, struct reason *why) {
    char name[64], path[DISK_PATH_SIZE];
    struct reason text = {{0}};
    struct image_owner owner = {0};
    (void)snprintf(name, sizeof(name), "image/%020" PRIu64 ".img", index);
    (void)snprintf(path, sizeof(path), "%s/%s", walk->dir, name);
    int found = check_image(walk, path, &owner, &text);
    struct lkv_log_item item = {
        .kind = LKV_LOG_DAMAGED, .type = "image", .index = index, .term = owner.term};
    if (found == 0 && owner.index > walk->image_index) {
        walk->image_index = owner.index;
    }
    return tell_file(walk, name, found, &text, &item, why);
}

/* Disposable: image and log say the same. */
static int visit_checkpoint(struct walk *walk, struct reason *why) {
    char path[DISK_PATH_SIZE];
    struct reason text = {{0}};
    struct image_owner owner = {0};
    struct lkv_log_item item = {.kind = LKV_LOG_WARNING, .type = "checkpoint"};
    if (!walk->known || !model_has_records(walk->identity.model)) {
        return 0;
    }
    (void)snprintf(path, sizeof(path), "%s/ledger", walk->dir);
    int found = check_log_image(walk, path, &owner, &text);
    item.index = owner.index;
    item.term = owner.term;
    return found == LKV_ENOENT ? 0 : tell_file(walk, "ledger", found, &text, &item, why);
}

struct next_image {
    uint64_t below, index; /* the highest below it; 0: none */
};

static int look_at_name(void *arg, const char *name) {
    struct next_image *next = arg;
    uint64_t index = node_image_name_index(name);
    next->index = index < next->below && index > next->index ? index : next->index;
    return 0;
}

static int visit_images(struct walk *walk, struct reason *why) {
    char path[DISK_PATH_SIZE];
    struct next_image next = {.index = UINT64_MAX};
    (void)snprintf(path, sizeof(path), "%s/image", walk->dir);
    do {
        next = (struct next_image){.below = next.index};
        int rc = disk_list(walk->disk, path, look_at_name, &next);
        if (rc != 0) {
            return reason_set(why, rc, "%s: cannot read the directory: %s", path, error_text(rc));
        }
        rc = next.index > 0 ? visit_image(walk, next.index, why) : 0;
        if (rc != 0) {
            return rc;
        }
    } while (next.index > 0);
    return 0;
}

static int walk_locked(struct walk *walk, struct reason *why) {
    char path[DISK_PATH_SIZE];
    int rc = visit_small_files(walk, why);
    rc = rc == 0 ? visit_checkpoint(walk, why) : rc;
    rc = rc == 0 ? visit_images(walk, why) : rc;
    if (rc != 0) {
        return rc;
    }
    (void)snprintf(path, sizeof(path), "%s/data", walk->dir);
    return log_walk(walk->disk, path, walk->image_index, on_visit, walk, why);
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
    walk->disk = disk;
    walk->dir = dir;
    rc = walk_locked(walk, why);
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
