/* The state of model kv: the state machine of kv/. */
#include "lib/state.h"

#include "kv/ordered.h"
#include "lib/node.h"

#include <inttypes.h>
#include <stdio.h>

/* ------------------------------------------------------------------ the engine */

enum {
    /* What a crash leaves to be replayed, about: ten thousand small entries. While the disk cannot keep up, some times
     * that. */
    UNFLUSHED_BYTES = 4 * 1024 * 1024,
    CACHE_BYTES = 64 * 1024 * 1024,
    HEALTH_MS = 1000 /* from one look at an engine that nobody writes to, to the next */
};

static struct kv_options options_of(const struct node *node) {
    return (struct kv_options){.hash_seed = node->boot_nonce,
                               .feature_level = node_knows_level(node),
                               .trace = &node->trace,
                               .home = node->kv_home.engine != NULL ? &node->kv_home : NULL};
}

/* Who only looks in reads image and log, and changes nothing: the state on disk is a copy of them. */
static int choose_home(struct node *node, struct reason *why) {
    if (node->options.engine == ENGINE_MEMORY || node_only_looks(node)) {
        return 0;
    }
    (void)snprintf(node->state_dir, sizeof(node->state_dir), "%s/state", node->dir);
    node->kv_home = (struct kv_home){.disk = node->world.disk,
                                     .dir = node->state_dir,
                                     .cluster_id = node->identity.cluster_id,
                                     .group_id = node->identity.group_id,
                                     .member_id = node->identity.member_id,
                                     .unflushed_bytes = UNFLUSHED_BYTES,
                                     .cache_bytes = CACHE_BYTES};
    return ordered_load("rocksdb", &node->kv_home.engine, why);
}

static int open_kv(struct node *node, struct reason *why) {
    struct reason found = {{0}};
    struct kv_options options = options_of(node);
    options.why = &found;
    int rc = kv_open(&node->kv, &options);
    if (rc != 0) {
        return reason_set(why, rc, "%s",
                          found.text[0] != '\0' ? found.text : "no memory for the state machine");
    }
    struct kv_stamp stamp;
    kv_stamp(node->kv, &stamp);
    node->kv_included = stamp.index;
    if (node->kv_home.engine != NULL) {
        trace_line(&node->trace, TRACE_INFO, "state-found", "%s: of entry %" PRIu64,
                   node->state_dir, stamp.index);
    }
    rc = node_watch_open(node);
    return rc == 0 ? 0 : reason_set(why, rc, "no memory for the state machine");
}

static int forget(struct node *node, struct reason *why) {
    node_watch_close(node);
    kv_close(node->kv);
    node->kv = NULL;
    int rc = kv_home_clear(&node->kv_home, why);
    return rc == 0 ? open_kv(node, why) : rc;
}

/* What is damaged is made anew, from the image and the log. */
static int open_state(struct node *node, struct reason *why) {
    struct reason found = {{0}};
    int rc = choose_home(node, why);
    if (rc != 0) {
        return rc;
    }
    rc = open_kv(node, &found);
    if (rc == LKV_EDAMAGED && node->kv_home.engine != NULL) {
        trace_line(&node->trace, TRACE_WARN, "state-damaged",
                   "%s: it is made anew from the image and the log", found.text);
        rc = forget(node, &found);
    }
    return rc == 0 ? 0 : reason_set(why, rc, "%s", found.text);
}

static void close_state(struct node *node) {
    node_watch_close(node);
    kv_close(node->kv);
    node->kv = NULL;
}

/* The map is a copy: what it says is of no use from now on, and the next start makes another. */
static int condemn(const struct node *node, const struct reason *found, struct reason *why) {
    struct reason marking = {{0}};
    int rc = kv_home_condemn(&node->kv_home, &marking);
    return reason_set(why, LKV_EDAMAGED,
                      "%.300s: the next start makes it anew from image and log%s%s", found->text,
                      rc != 0 ? ", if it is removed before: " : "", marking.text);
}

static int apply(struct node *node, const struct entry *entries, size_t count,
                 struct kv_result *results, size_t *applied, struct reason *why) {
    struct reason found = {{0}};
    int rc = kv_apply(node->kv, entries, count, results, applied, &found);
    if (rc == LKV_EDAMAGED && node->kv_home.engine != NULL) {
        return condemn(node, &found, why);
    }
    return rc == 0 ? 0 : reason_set(why, rc, "%s", found.text);
}

static bool tidy(struct node *node) {
    return kv_tidy(node->kv);
}

/* In memory: an image's state is of just its entry. */
static uint64_t includes(const struct node *node) {
    return node->kv_included;
}

static int covers(struct node *node, const char *path, struct state_loaded *out,
                  struct reason *why) {
    struct kv_image_info info;
    if (node->kv_included == 0) {
        return LKV_ENOENT;
    }
    int rc = kv_image_header(node->world.disk, path, node_knows_level(node), &info, why);
    if (rc != 0 || info.stamp.index > node->kv_included ||
        info.group_id != node->identity.group_id) {
        return LKV_ENOENT; /* loading it tells why */
    }
    *out = (struct state_loaded){
        .cluster_id = info.cluster_id, .index = info.stamp.index, .term = info.stamp.term};
    return 0;
}

static bool busy(const struct node *node) {
    return kv_waits(node->kv);
}

/* Also when nothing is written: a member whose disk fails must not look healthy (S22). */
static void look_after(struct node *node) {
    uint64_t now_ns = node_now(node);
    struct reason why = {{0}};
    if (node->kv_home.engine == NULL || now_ns < node->health_ns) {
        return;
    }
    node->health_ns = now_ns + HEALTH_MS * MS_NS;
    int rc = kv_health(node->kv, &why);
    if (rc == LKV_EDAMAGED) {
        struct reason found = why;
        rc = condemn(node, &found, &why);
    }
    if (rc != 0) {
        node_stop(node, rc, "%s: %s", node->state_dir, why.text);
    }
}

static void catch_up(struct node *node) {
    (void)node;
}

static bool session_at(const struct node *node, size_t i, struct kv_session *out) {
    return kv_session_at(node->kv, i, out);
}

/* ------------------------------------------------------------------ images */

static bool begin(struct node *node, struct state_image *image) {
    look_after(node);
    if (node->applied < node->kv_included) {
        return false; /* it is not known yet that all of it is committed */
    }
    bool due = node_image_due(node) && node->applied > node->image_index;
    if (!due && !(node->image_wanted && node->applied > 0)) {
        return false;
    }
    struct kv_view *view;
    if (kv_view_open(node->kv, &view) != 0) {
        return false; /* the next turn tries again */
    }
    struct kv_stamp stamp;
    kv_view_stamp(view, &stamp);
    /* What slow followers may still want stays, but room comes first (rule 15). */
    uint64_t keep = node_short_of_room(node) ? 0 : node->options.keep_entries;
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
    /* The log goes up to the image at most, and no further than the state is on disk (rules 14 and 23). */
    int rc = kv_flush(node->kv, why);
    if (rc != 0) {
        return rc;
    }
    rc = kv_image_save(image->frozen, node->world.disk, node->image_dir, path, owner,
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
    node->kv_included = 0;
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
                                       .covers = covers,
                                       .forget = forget,
                                       .busy = busy,
                                       .check = check,
                                       .prefix = prefix,
                                       .load = load,
                                       .restore = restore,
                                       .discard = discard,
                                       .digest_begin = digest_begin,
                                       .digest_run = digest_run,
                                       .digest_end = digest_end};
