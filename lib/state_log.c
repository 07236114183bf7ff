/* The state of model log: none. What is committed is visible by that, and an image says only where the
 * log begins and who its members are. */
#include "base/feature.h"
#include "lib/meta_image.h"
#include "lib/node.h"
#include "lib/small_file.h"
#include "lib/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int open_state(struct node *node, struct reason *why) {
    node->feature_level = FEATURE_LEVEL_FIRST;
    return retention_load(node->world.disk, node->dir, &node->retention, why);
}

static void close_state(struct node *node) {
    (void)node;
}

static uint32_t feature_level(const struct node *node) {
    return node->feature_level;
}

static void raise(struct node *node, uint32_t level) { /* it never falls */
    node->feature_level = level > node->feature_level ? level : node->feature_level;
}

/* Rule 22: a node that meets what it does not know stops. */
static int apply_one(struct node *node, const struct entry *entry, struct reason *why) {
    uint32_t level = 0;
    int rc = LKV_EVERSION;
    switch (entry->type) {
    case ENTRY_NOOP:
    case ENTRY_CONFIG:
    case ENTRY_COMMAND: return 0;
    case ENTRY_FEATURE:
        rc = feature_decode(blob_slice(entry->payload), node_knows_level(node), &level, why);
        raise(node, rc == 0 ? level : 0);
        return rc;
    }
    return reason_set(why, rc, "type %d, which this program does not know", (int)entry->type);
}

static int apply(struct node *node, const struct entry *entries, size_t count,
                 struct kv_result *results, size_t *applied, struct reason *why) {
    for (*applied = 0; *applied < count; (*applied)++) {
        struct reason detail = {{0}};
        int rc = apply_one(node, &entries[*applied], &detail);
        if (rc != 0) {
            return reason_set(why, rc, "entry %" PRIu64 ": %s", entries[*applied].index,
                              detail.text);
        }
        results[*applied] = (struct kv_result){0};
    }
    return 0;
}

/* ------------------------------------------------------------------ images */

/* An image is due when retention wants a part of the log gone: it covers just that part, so that a
 * node that goes on from it still gets every record that is kept. */
static bool begin(struct node *node, struct state_image *image) {
    uint64_t drop_to = node->retention_drop_to;
    if (drop_to <= node->image_index && node->image_wanted && node->image_index > 0) {
        *image = (struct state_image){.index = node->image_index, .term = node->image_term};
        return true;
    }
    if (drop_to <= node->image_index || drop_to > node->applied) {
        return false;
    }
    *image = (struct state_image){
        .index = drop_to, .term = raft_term_at(node->raft, drop_to), .drop_to = drop_to};
    image->feature_level = node->feature_level;
    node->retention_drop_to = 0; /* should it fail, the next look asks again */
    return image->term != 0;
}

static int save(struct node *node, struct state_image *image, const char *path,
                struct reason *why) {
    const struct identity *identity = &node->identity;
    struct meta_image meta = {.feature_level = image->feature_level,
                              .cluster_id = identity->cluster_id,
                              .group_id = identity->group_id,
                              .index = image->index,
                              .term = image->term,
                              .member_count = identity->member_count};
    memcpy(meta.members, identity->members, sizeof(meta.members));
    struct buffer bytes;
    buffer_init(&bytes);
    meta_image_encode(&meta, &bytes);
    int rc = bytes.failed ? reason_set(why, LKV_ENOMEM, "no memory for a meta-image")
                          : small_file_save(node->world.disk, node->image_dir,
                                            strrchr(path, '/') + 1, buffer_slice(&bytes), why);
    buffer_fini(&bytes);
    (void)snprintf(image->summary, sizeof(image->summary), "the log goes on at %" PRIu64,
                   image->index + 1);
    return rc;
}

static void end(struct state_image *image) {
    (void)image;
}

static int load(struct node *node, const char *path, struct state_loaded *out, struct reason *why) {
    struct meta_image meta;
    int rc = meta_image_load(node->world.disk, path, node_knows_level(node), &meta, why);
    if (rc == 0) {
        *out = (struct state_loaded){.cluster_id = meta.cluster_id,
                                     .index = meta.index,
                                     .term = meta.term,
                                     .feature_level = meta.feature_level};
    }
    return rc;
}

static void restore(struct node *node, struct state_loaded *loaded) {
    raise(node, loaded->feature_level);
}

static void discard(struct state_loaded *loaded) {
    (void)loaded;
}

static int check(struct node *node, const char *path, struct reason *why) {
    struct state_loaded loaded;
    int rc = load(node, path, &loaded, why);
    if (rc == 0) {
        discard(&loaded);
    }
    return rc;
}

const struct state_ops state_log_ops = {.open = open_state,
                                        .close = close_state,
                                        .replays = false,
                                        .apply = apply,
                                        .feature_level = feature_level,
                                        .begin = begin,
                                        .save = save,
                                        .end = end,
                                        .check = check,
                                        .load = load,
                                        .restore = restore,
                                        .discard = discard};
