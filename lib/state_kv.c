/* The state of model kv: the state machine of kv/. */
#include "lib/state.h"

#include "lib/node.h"

#include <inttypes.h>
#include <stdio.h>

static struct kv_options options_of(const struct node *node) {
    return (struct kv_options){.hash_seed = node->boot_nonce,
                               .feature_level = node_knows_level(node),
                               .trace = &node->trace};
}

static int open_state(struct node *node, struct reason *why) {
    struct kv_options options = options_of(node);
    int rc = kv_open(&node->kv, &options);
    rc = rc == 0 ? node_watch_open(node) : rc;
    return rc == 0 ? 0 : reason_set(why, rc, "no memory for the state machine");
}

static void close_state(struct node *node) {
    node_watch_close(node);
    kv_close(node->kv);
    node->kv = NULL;
}

static int apply(struct node *node, const struct entry *entries, size_t count,
                 struct kv_result *results, size_t *applied, struct reason *why) {
    return kv_apply(node->kv, entries, count, results, applied, why);
}

static bool tidy(struct node *node) {
    return kv_tidy(node->kv);
}

/* An image's state is of just its entry. */
static uint64_t includes(const struct node *node) {
    (void)node;
    return 0;
}

static void catch_up(struct node *node) {
    (void)node;
}

static bool session_at(const struct node *node, size_t i, struct kv_session *out) {
    return kv_session_at(node->kv, i, out);
}

/* ------------------------------------------------------------------ images */

static bool begin(struct node *node, struct state_image *image) {
    bool due = node->bytes_since_image >= node->options.image_log_bytes &&
               node->applied > node->image_index;
    if (!due && !(node->image_wanted && node->applied > 0)) {
        return false;
    }
    struct kv_view *view;
    if (kv_view_open(node->kv, &view) != 0) {
        return false; /* the next turn tries again */
    }
    struct kv_stamp stamp;
    kv_view_stamp(view, &stamp);
    /* What slow followers may still want stays. */
    uint64_t keep = node->options.keep_entries;
    *image = (struct state_image){.index = stamp.index,
                                  .term = stamp.term,
                                  .drop_to = stamp.index > keep ? stamp.index - keep : 0,
                                  .frozen = view};
    return true;
}

static int save(struct node *node, struct state_image *image, const char *path,
                struct reason *why) {
    const struct kv_owner owner = {.cluster_id = node->identity.cluster_id,
                                   .group_id = node->identity.group_id};
    struct kv_image_info info;
    int rc = kv_image_save(image->frozen, node->world.disk, node->image_dir, path, owner,
                           (struct slice){0}, &node->image_cancel, &info, why);
    if (rc == 0) {
        (void)snprintf(image->summary, sizeof(image->summary),
                       "%" PRIu64 " keys, %" PRIu64 " bytes", info.keys, info.bytes);
    }
    return rc;
}

static void end(struct state_image *image) {
    kv_view_close(image->frozen);
}

static int check(struct node *node, const char *path, struct reason *why) {
    struct kv_image_info info;
    return kv_image_check(node->world.disk, path, &info, NULL, why);
}

static int prefix(struct node *node, const char *path, uint64_t *size, struct reason *why) {
    return kv_image_prefix(node->world.disk, path, &node->image_cancel, size, why);
}

static int load(struct node *node, const char *path, struct state_loaded *out, struct reason *why) {
    struct kv_options options = options_of(node);
    struct kv_image_info info;
    struct kv *loaded;
    int rc = kv_image_load(&loaded, &options, node->world.disk, path, &node->image_cancel, &info,
                           NULL, why);
    if (rc == 0 && info.group_id != node->identity.group_id) { /* rule 20 */
        kv_close(loaded);
        rc = reason_set(why, LKV_EIDENTITY, "%s: of group %" PRIu64 ", expected %" PRIu64, path,
                        info.group_id, node->identity.group_id);
    }
    if (rc == 0) {
        *out = (struct state_loaded){.cluster_id = info.cluster_id,
                                     .index = info.stamp.index,
                                     .term = info.stamp.term,
                                     .state = loaded};
    }
    return rc;
}

static uint32_t feature_level(const struct node *node) {
    return kv_feature_level(node->kv);
}

static void restore(struct node *node, struct state_loaded *loaded) {
    kv_exchange(node->kv, loaded->state);
}

static void discard(struct state_loaded *loaded) {
    kv_close(loaded->state);
    loaded->state = NULL;
}

/* ------------------------------------------------------------------ digest */

static int digest_begin(struct node *node, struct state_digest *digest, struct reason *why) {
    struct kv_view *view;
    if (kv_view_open(node->kv, &view) != 0) {
        return reason_set(why, LKV_ENOMEM, "no memory for a digest");
    }
    struct kv_stamp stamp;
    kv_view_stamp(view, &stamp);
    digest->index = stamp.index;
    digest->revision = stamp.revision;
    digest->frozen = view;
    return 0;
}

static int digest_run(struct state_digest *digest, const atomic_bool *cancel) {
    return kv_view_digest(digest->frozen, cancel, &digest->digest);
}

static void digest_end(struct state_digest *digest) {
    kv_view_close(digest->frozen);
}

const struct state_ops state_kv_ops = {.open = open_state,
                                       .close = close_state,
                                       .replays = true,
                                       .includes = includes,
                                       .catch_up = catch_up,
                                       .apply = apply,
                                       .tidy = tidy,
                                       .feature_level = feature_level,
                                       .session_at = session_at,
                                       .begin = begin,
                                       .save = save,
                                       .end = end,
                                       .check = check,
                                       .prefix = prefix,
                                       .load = load,
                                       .restore = restore,
                                       .discard = discard,
                                       .digest_begin = digest_begin,
                                       .digest_run = digest_run,
                                       .digest_end = digest_end};
