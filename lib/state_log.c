/* The state of model log: the ledger (sessions, chain, how far readers may see). The records themselves
 * stay in the log; an image says where it begins, who its members are, and brings the ledger.
 *
 * Beside images, which are made when a part of the log goes, DIR/ledger is written now and then, so that
 * a start reads back no more of the log than came since. It is disposable: image and log say the same. */
#include "lib/meta_image.h"
#include "lib/node.h"
#include "lib/small_file.h"
#include "lib/state.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char checkpoint_name[] = "ledger";

/* ------------------------------------------------------------------ life */

/* The newer of both stays: each is what the log says up to its entry. `with` gets the other. */
static void take_newer(struct ledger *ledger, struct ledger *with) {
    if (with->included > ledger->included) {
        struct ledger older = *ledger;
        *ledger = *with;
        *with = older;
    }
}

static void load_checkpoint(struct node *node) {
    char path[DISK_PATH_SIZE];
    struct meta_image meta;
    struct reason why = {{0}};
    (void)snprintf(path, sizeof(path), "%s/%s", node->dir, checkpoint_name);
    int rc = meta_image_load(node->world.disk, path, node_knows_level(node), &meta, &why);
    if (rc == 0 && meta.cluster_id != node->identity.cluster_id) {
        rc = reason_set(&why, LKV_EIDENTITY, "%s belongs to another cluster", path);
        meta_image_fini(&meta);
    }
    if (rc == 0) {
        take_newer(&node->ledger, &meta.ledger);
        meta_image_fini(&meta);
    } else if (rc != LKV_ENOENT) {
        trace_line(&node->trace, TRACE_WARN, "checkpoint-unusable",
                   "%s: the log is read back from the image on", why.text);
    }
}

static int open_state(struct node *node, struct reason *why) {
    load_checkpoint(node);
    return retention_load(node->world.disk, node->dir, &node->retention, why);
}

static void close_state(struct node *node) {
    ledger_fini(&node->ledger);
}

/* ------------------------------------------------------------------ entries */

static uint64_t includes(const struct node *node) {
    return node->ledger.included;
}

static void catch_up(struct node *node) {
    ledger_catch_up(&node->ledger);
}

static uint32_t feature_level(const struct node *node) {
    return ledger_feature_level(&node->ledger);
}

static int apply(struct node *node, const struct entry *entries, size_t count,
                 struct kv_result *results, size_t *applied, struct reason *why) {
    int rc = 0;
    for (*applied = 0; rc == 0 && *applied < count; *applied += rc == 0) {
        const struct entry *entry = &entries[*applied];
        struct reason detail = {{0}};
        rc =
            ledger_apply(&node->ledger, entry, node_knows_level(node), &results[*applied], &detail);
        if (rc != 0) {
            (void)reason_set(why, rc, "entry %" PRIu64 ": %s", entry->index, detail.text);
        }
    }
    return rc;
}

static bool session_at(const struct node *node, size_t i, struct kv_session *out) {
    const struct sessions *sessions = &node->ledger.sessions;
    if (i >= sessions->count) {
        return false;
    }
    const struct session *session = sessions->slots[i].session;
    *out = (struct kv_session){.id = session->id, .ttl_ms = session->ttl_ms};
    return true;
}

/* ------------------------------------------------------------------ images */

static struct ledger *freeze(const struct node *node) {
    struct ledger *frozen = mem_alloc(sizeof(*frozen));
    if (frozen == NULL || ledger_freeze(&node->ledger, frozen) != 0) {
        mem_free(frozen);
        return NULL; /* the next turn tries again */
    }
    return frozen;
}

static void thaw(struct ledger *frozen) {
    if (frozen != NULL) {
        ledger_fini(frozen);
        mem_free(frozen);
    }
}

/* An image is due when retention wants a part of the log gone: it covers just that part, so that a
 * node that goes on from it still gets every record that is kept. */
static bool begin_drop(struct node *node, struct state_image *image) {
    uint64_t drop_to = node->retention_drop_to;
    uint64_t index = drop_to, term = raft_term_at(node->raft, drop_to);
    if (drop_to <= node->image_index && node->image_wanted && node->image_index > 0) {
        index = node->image_index;
        term = node->image_term;
        drop_to = 0; /* it is gone already */
    } else if (drop_to <= node->image_index || drop_to > node->ledger.visible) {
        return false;
    }
    *image = (struct state_image){.index = index,
                                  .term = term,
                                  .drop_to = drop_to,
                                  .visible = node->image_visible,
                                  .frozen = freeze(node)};
    if (image->frozen == NULL || image->term == 0) {
        thaw(image->frozen);
        return false;
    }
    node->retention_drop_to = 0; /* should it fail, the next look asks again */
    return true;
}

static bool begin_checkpoint(struct node *node, struct state_image *image) {
    if (!node_image_due(node) || node->ledger.included != node->applied) {
        return false;
    }
    *image = (struct state_image){.index = node->ledger.included,
                                  .term = node->ledger.included_term,
                                  .visible = node->ledger.included_visible,
                                  .checkpoint = true,
                                  .frozen = freeze(node)};
    return image->frozen != NULL;
}

/* Model own: of the entry that the program's state is of. The log stays as it would for keys and values, and
 * for holds. */
static bool begin_own(struct node *node, struct state_image *image) {
    uint64_t index = node_own_due(node);
    if (index == 0) {
        return false;
    }
    uint64_t keep = node->options.keep_entries, drop_to = index > keep ? index - keep : 0;
    for (size_t i = 0; i < node->retention.hold_count; i++) {
        uint64_t from = node->retention.holds[i].keep_from;
        drop_to = from <= drop_to ? from - 1 : drop_to;
    }
    *image = (struct state_image){.index = index,
                                  .term = raft_term_at(node->raft, index),
                                  .drop_to = drop_to,
                                  .visible = index,
                                  .own = true,
                                  .frozen = freeze(node)};
    return image->frozen != NULL;
}

static bool begin(struct node *node, struct state_image *image) {
    if (node->identity.model == MODEL_OWN) {
        return begin_own(node, image) || begin_checkpoint(node, image);
    }
    return begin_drop(node, image) || begin_checkpoint(node, image);
}

static int save_bytes(struct node *node, const struct state_image *image, const char *path,
                      struct slice bytes, struct reason *why) {
    if (image->own) {
        char part[DISK_PATH_SIZE];
        (void)snprintf(part, sizeof(part), "%s/" OWN_IMAGE_PART, node->image_dir);
        return own_image_finish(&node->own.writer, node->world.disk, node->image_dir, part, path,
                                bytes, why);
    }
    if (image->checkpoint) {
        return small_file_save(node->world.disk, node->dir, checkpoint_name, bytes, why);
    }
    node_retention_image_bytes(node, bytes.size);
    /* A full disk is what it may be to make room on: it has its bytes already (rule 15). */
    int rc = node_retention_spare_use(node, path, bytes, why);
    return rc != LKV_ENOENT ? rc
                            : small_file_save(node->world.disk, node->image_dir,
                                              strrchr(path, '/') + 1, bytes, why);
}

/* Segments end anywhere: where an append in a session is not complete up to `index`, its records before
 * are not seen either. */
static int visible_at(struct node *node, uint64_t index, uint64_t *visible, struct reason *why) {
    struct entry entry = {0};
    struct once_header header;
    size_t count = 0;
    int rc = log_read(node->log, index, index, 1, &entry, 1, &count, why);
    if (rc != 0) {
        return rc;
    }
    bool inside = entry.type == ENTRY_ONCE &&
                  once_decode(blob_slice(entry.payload), &header) == 0 &&
                  header.position + 1 < header.count;
    *visible = inside ? index - header.position - 1 : index;
    blob_unref(entry.payload);
    return 0;
}

static int save(struct node *node, struct state_image *image, const char *path,
                struct reason *why) {
    const struct identity *identity = &node->identity;
    const struct ledger *frozen = image->frozen;
    bool drops = image->drop_to > 0 && !image->own; /* a program sees whole appends only */
    int rc = drops ? visible_at(node, image->index, &image->visible, why) : 0;
    if (rc != 0) {
        return rc;
    }
    struct meta_image meta = {.feature_level = ledger_feature_level(frozen),
                              .visible = image->visible,
                              .cluster_id = identity->cluster_id,
                              .group_id = identity->group_id,
                              .index = image->index,
                              .term = image->term,
                              .member_count = identity->member_count,
                              .ledger = *frozen}; /* borrowed */
    memcpy(meta.members, identity->members, sizeof(meta.members));
    struct buffer bytes;
    buffer_init(&bytes);
    meta_image_encode(&meta, &bytes);
    rc = bytes.failed ? reason_set(why, LKV_ENOMEM, "no memory for a meta-image")
                      : save_bytes(node, image, path, buffer_slice(&bytes), why);
    buffer_fini(&bytes);
    (void)snprintf(image->summary, sizeof(image->summary), "%s %" PRIu64 ", %zu sessions",
                   image->checkpoint ? "the state of entry" : "the log goes on behind",
                   image->index, frozen->sessions.count);
    return rc;
}

static void end(struct state_image *image) {
    thaw(image->frozen);
}

/* A meta-image is small: it is sent again. */
static int prefix(struct node *node, const char *path, uint64_t *size, struct reason *why) {
    if (node->identity.model == MODEL_OWN) {
        return own_image_prefix(node->world.disk, path, size, why);
    }
    *size = 0;
    return 0;
}

static int load_meta(struct node *node, const char *path, struct meta_image *out,
                     struct reason *why) {
    uint32_t known = node_knows_level(node);
    return node->identity.model == MODEL_OWN
               ? own_image_load(node->world.disk, path, &node->image_cancel, known, out, why)
               : meta_image_load(node->world.disk, path, known, out, why);
}

static int load(struct node *node, const char *path, struct state_loaded *out, struct reason *why) {
    struct meta_image meta;
    int rc = load_meta(node, path, &meta, why);
    if (rc != 0) {
        return rc;
    }
    struct ledger *ledger = mem_alloc(sizeof(*ledger));
    if (ledger == NULL) {
        meta_image_fini(&meta);
        return reason_set(why, LKV_ENOMEM, "no memory for the sessions of %s", path);
    }
    *ledger = meta.ledger;
    *out = (struct state_loaded){.cluster_id = meta.cluster_id,
                                 .index = meta.index,
                                 .term = meta.term,
                                 .visible = meta.visible,
                                 .state = ledger};
    return 0;
}

static void restore(struct node *node, struct state_loaded *loaded) {
    take_newer(&node->ledger, loaded->state);
    ledger_start_at(&node->ledger, loaded->visible);
    node->image_visible = loaded->visible;
}

static void discard(struct state_loaded *loaded) {
    thaw(loaded->state);
    loaded->state = NULL;
}

/* ------------------------------------------------------------------ digest */

static int digest_begin(struct node *node, struct state_digest *digest, struct reason *why) {
    if (node->ledger.included > node->applied) {
        return reason_set(why, LKV_EBUSY,
                          "%s is at entry %" PRIu64 " and knows the digest of %" PRIu64
                          " only: it is catching up",
                          node->options.id, node->applied, node->ledger.included);
    }
    digest->index = node->applied;
    digest->frozen = freeze(node);
    return digest->frozen != NULL ? 0 : reason_set(why, LKV_ENOMEM, "no memory for a digest");
}

static int digest_run(struct state_digest *digest, const atomic_bool *cancel) {
    (void)cancel; /* some milliseconds, whatever the log holds */
    return ledger_digest(digest->frozen, &digest->digest);
}

static void digest_end(struct state_digest *digest) {
    thaw(digest->frozen);
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
                                        .includes = includes,
                                        .catch_up = catch_up,
                                        .apply = apply,
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
