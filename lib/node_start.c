/* From a directory to a running node: lock, identity, founding, recovery. What lies in the directory is in
 * docs/ARCHITECTURE.md. */
#include "lib/node_repair.h"
#include "lib/peer.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

/* ------------------------------------------------------------------ directory and identity */

#define FIRST_NAME "n1" /* of a node that was told none, in a new directory */

/* The directory's own name must be as durable as what is in it: otherwise a power cut takes both, and
 * the node comes back blank, as another incarnation. Who may enter the parent but not read it cannot
 * sync it, and has to have made the directory beforehand. */
static int sync_parent(struct disk *disk, const char *dir) {
    char parent[1024];
    (void)snprintf(parent, sizeof(parent), "%s", dir);
    size_t size = strlen(parent);
    while (size > 1 && parent[size - 1] == '/') {
        parent[--size] = '\0';
    }
    char *slash = strrchr(parent, '/');
    if (slash == NULL) {
        (void)snprintf(parent, sizeof(parent), ".");
    } else {
        slash[slash == parent] = '\0';
    }
    int rc = disk_sync_dir(disk, parent);
    return rc == LKV_EPERM ? 0 : rc;
}

static int make_dirs(struct node *node, struct reason *why) {
    struct disk *disk = node->world.disk;
    const char *paths[] = {node->dir, node->log_dir, node->image_dir};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        int rc = disk_make_dir(disk, paths[i]);
        if (rc != 0) {
            return reason_set(why, rc, "%s: cannot make the directory: %s", paths[i],
                              error_text(rc));
        }
        if (i == 0) {
            char lock_path[1100];
            long owner = 0;
            (void)snprintf(lock_path, sizeof(lock_path), "%s/lock", node->dir);
            rc = disk_lock(disk, lock_path, &node->lock, &owner);
            if (rc == LKV_ELOCKED) {
                return reason_set(why, rc, "%s is in use by process %ld", node->dir, owner);
            }
            if (rc != 0) {
                return reason_set(why, rc, "%s: cannot lock: %s", lock_path, error_text(rc));
            }
        }
    }
    int rc = disk_sync_dir(disk, node->dir);
    if (rc == 0) {
        rc = sync_parent(disk, node->dir);
    }
    return rc == 0 ? 0 : reason_set(why, rc, "%s: sync: %s", node->dir, error_text(rc));
}

/* Without the option the directory says who it is. */
static void complete_name(struct node *node, const char *fallback) {
    if (node->options.id[0] == '\0') {
        (void)snprintf(node->options.id, sizeof(node->options.id), "%s", fallback);
    }
}

static int check_name(const struct node *node, struct reason *why) {
    const struct identity *identity = &node->identity;
    if (strcmp(identity->name, node->options.id) != 0) {
        return reason_set(why, LKV_EIDENTITY, "%s belongs to node \"%s\", the option id is \"%s\"",
                          node->dir, identity->name, node->options.id);
    }
    return 0;
}

/* A node alone is founded with its first identity; one that is not founded yet was started with peers and
 * waits for them. It must not found a cluster of its own because somebody looked into it. */
static int refuse_unfounded(const struct node *node, struct reason *why) {
    return reason_set(
        why, LKV_EIDENTITY,
        "%s was started with peers, and its cluster is not founded yet: start it with "
        "the option peers",
        node->dir);
}

/* The option names the same members as the founded configuration, at the same addresses. */
static int check_peers(struct node *node, struct reason *why) {
    if (node->options.peer_count == 0) {
        return node->identity.cluster_id != 0 ? 0 : refuse_unfounded(node, why);
    }
    node->growing = node_wants_to_grow(node);
    return node->identity.cluster_id == 0 ? 0 : node_check_members(node, why);
}

static int check_self_named(const struct node *node, const char *id, struct reason *why) {
    const struct lkv_options *options = &node->options;
    if (options->peer_count == 0) {
        return 0;
    }
    for (size_t i = 0; i < options->peer_count; i++) {
        if (strcmp(options->peers[i].name, id) == 0) {
            return 0;
        }
    }
    return reason_set(why, LKV_EOPTION,
                      "the option peers must name this node too: \"%s\" is not in it", id);
}

/* Before anything is made: what the options alone refuse leaves nothing behind. The name may still be
 * the directory's to say; one that cannot be read is told of later, under the lock. */
static int check_options(const struct node *node, struct reason *why) {
    if (node->options.id[0] != '\0') {
        return check_self_named(node, node->options.id, why);
    }
    struct identity identity;
    int rc = identity_load(node->world.disk, node->dir, &identity, NULL);
    if (rc != 0 && rc != LKV_ENOENT) {
        return 0;
    }
    return check_self_named(node, rc == 0 ? identity.name : FIRST_NAME, why);
}

/* What a directory is for is decided once: its entries mean nothing to the other model. */
static int check_model(const struct node *node, struct reason *why) {
    enum model own = node->identity.model, asked = node->options.model;
    if (asked == MODEL_ANY || asked == own) {
        return 0;
    }
    return reason_set(why, LKV_EIDENTITY, "%s is of model \"%s\", the option model is \"%s\"",
                      node->dir, model_name(own), model_name(asked));
}

static void new_identity(struct node *node) {
    struct identity *identity = &node->identity;
    *identity = (struct identity){0};
    identity->model = model_has_records(node->options.model) ? node->options.model : MODEL_KV;
    (void)snprintf(identity->name, sizeof(identity->name), "%s", node->options.id);
    do {
        identity->member_id = loop_random(node->world.loop) & INT64_MAX;
    } while (identity->member_id == 0);
}

static int found_a_file(void *arg, const char *name) {
    (void)name;
    *(bool *)arg = true;
    return 0;
}

/* A log without an identity is no new node's: whose it is, and in which cluster, only the lost file says.
 * A new one would be another incarnation, which must not take part with this log (rules 11 and 17). */
static int check_not_bereft(const struct node *node, struct reason *why) {
    bool found = false;
    int rc = disk_list(node->world.disk, node->log_dir, found_a_file, &found);
    if (rc != 0) {
        return reason_set(why, rc, "%s: cannot read the directory: %s", node->log_dir,
                          error_text(rc));
    }
    return found ? reason_set(why, LKV_EDAMAGED,
                              "%s/identity is missing, but there is a log beside it, in data/: put "
                              "the file back, or a copy of the whole directory, and start it once "
                              "with moved=on. Nothing was changed; `kvctl log dump` reads the log",
                              node->dir)
                 : 0;
}

static int load_identity(struct node *node, bool *first, struct reason *why) {
    int rc = identity_load(node->world.disk, node->dir, &node->identity, why);
    bool fresh = rc == LKV_ENOENT;
    *first = fresh;
    if (fresh && (rc = check_not_bereft(node, why)) != 0) {
        return rc;
    }
    if (fresh) {
        complete_name(node, FIRST_NAME);
        new_identity(node);
    } else if (rc != 0) {
        return rc;
    }
    complete_name(node, node->identity.name);
    /* A refused start leaves no identity that the corrected one would trip over. */
    if (!fresh && ((rc = check_name(node, why)) != 0 || (rc = check_model(node, why)) != 0 ||
                   (rc = check_peers(node, why)) != 0 || (rc = node_check_place(node, why)) != 0)) {
        return rc;
    }
    rc = check_self_named(node, node->options.id, why);
    if (rc != 0) {
        return rc;
    }
    node_count_start(node); /* durable before the first hello (rule 17) */
    if (fresh || node_only_looks(node)) {
        return 0; /* see begin_directory; alone: when it is founded, in a moment */
    }
    return identity_save(node->world.disk, node->dir, &node->identity, why);
}

/* Without the option a founded node finds its peers in its identity. */
static void complete_peers(struct node *node) {
    struct lkv_options *options = &node->options;
    if (options->peer_count > 0 || node->identity.member_count <= 1) {
        return;
    }
    for (size_t i = 0; i < node->identity.member_count; i++) {
        struct option_peer *peer = &options->peers[options->peer_count++];
        const struct identity_member *member = &node->identity.members[i];
        (void)snprintf(peer->name, sizeof(peer->name), "%s", member->name);
        (void)snprintf(peer->address, sizeof(peer->address), "%s", member->address);
    }
}

/* A member's address is in its identity: nobody would find it elsewhere. */
static void complete_listen(struct node *node) {
    struct lkv_options *options = &node->options;
    if (options->peer_count > 0 || options->listen[0] != '\0' || options->listen_alone[0] == '\0') {
        return;
    }
    const struct identity_member *self = identity_by_name(&node->identity, options->id);
    bool known = self != NULL && self->address[0] != '\0';
    (void)snprintf(options->listen, sizeof(options->listen), "%s",
                   known ? self->address : options->listen_alone);
}

static int open_peers(struct node *node, struct reason *why) {
    const struct lkv_options *options = &node->options;
    for (size_t i = 0; i < options->peer_count; i++) {
        if (strcmp(options->peers[i].name, options->id) == 0) {
            continue;
        }
        struct peer *peer;
        int rc = peer_open(node, options->peers[i].name, options->peers[i].address, &peer);
        if (rc != 0) {
            return reason_set(why, rc, "no memory for a peer");
        }
        const struct identity_member *member =
            identity_by_name(&node->identity, options->peers[i].name);
        peer->id = member != NULL ? member->id : 0;
        node->peers[node->peer_count++] = peer;
    }
    return 0;
}

const char *node_listen_address(const struct node *node) {
    const char *own = node->options.listen;
    return own[0] != '\0' ? own : node->founding.self_address;
}

/* The first start in a directory writes nothing there before it is known that the address is free: else what it
 * was told, wrong as it may be, would be for ever. */
static int begin_directory(struct node *node, struct reason *why) {
    const char *address = node_listen_address(node);
    if (address[0] != '\0' && !node->options.offline) {
        struct net_listener *probe;
        int rc = net_listen(node->world.net, address, node_on_accept, node, &probe, why);
        if (rc != 0) {
            return rc;
        }
        net_listener_close(probe);
    }
    return node->options.peer_count <= 1 || node_only_looks(node)
               ? 0
               : identity_save(node->world.disk, node->dir, &node->identity, why);
}

int node_start_disk(struct node *node, struct reason *why) {
    bool first = false;
    if (node->dir[0] == '\0') {
        return reason_set(why, LKV_EOPTION, "the option dir is not set");
    }
    int rc = check_options(node, why);
    if (rc == 0) {
        rc = make_dirs(node, why);
    }
    if (rc == 0) {
        rc = load_identity(node, &first, why);
    }
    if (rc != 0) {
        return rc;
    }
    rc = seen_load(node->world.disk, node->dir, &node->seen, why);
    if (rc != 0) {
        return rc;
    }
    complete_peers(node);
    complete_listen(node);
    seen_keep(&node->seen, node->options.peers, node->options.peer_count);
    founding_init(&node->founding, &node->identity, node->options.peers, node->options.peer_count);
    if (node->founding.self_address[0] == '\0') {
        (void)snprintf(node->founding.self_address, sizeof(node->founding.self_address), "%s",
                       node->options.listen);
    }
    rc = first ? begin_directory(node, why) : 0;
    return rc == 0 ? open_peers(node, why) : rc;
}

/* ------------------------------------------------------------------ recovery */

struct newest {
    struct node *node;
    uint64_t below; /* of those with a smaller index */
    uint64_t index;
    int rc;
};

static int visit_image(void *arg, const char *name) {
    struct newest *newest = arg;
    uint64_t index = node_image_name_index(name);
    if (index < newest->below) {
        newest->index = index > newest->index ? index : newest->index;
    }
    /* What a crash left half-made (X-F1); but what is being received is gone on with. */
    if (index == 0 && !node_image_is_aside(name) && !node_image_is_incoming(name)) {
        char path[DISK_PATH_SIZE];
        (void)snprintf(path, sizeof(path), "%s/%s", newest->node->image_dir, name);
        newest->rc = disk_remove(newest->node->world.disk, path);
    }
    return newest->rc;
}

static int newest_below(struct node *node, uint64_t below, uint64_t *index, struct reason *why) {
    struct newest newest = {.node = node, .below = below};
    int rc = disk_list(node->world.disk, node->image_dir, visit_image, &newest);
    *index = newest.index;
    return rc == 0 ? 0
                   : reason_set(why, rc, "%s: cannot read the directory: %s", node->image_dir,
                                error_text(rc));
}

static int load_image_at(struct node *node, const struct identity *identity, uint64_t index,
                         struct reason *why) {
    char path[DISK_PATH_SIZE];
    node_image_path(node, index, path, sizeof(path));
    struct state_loaded loaded = {0};
    int rc = LKV_ENOENT;
    if (node->state->covers != NULL) {
        rc = node->state->covers(node, path, &loaded, why);
    }
    if (rc == LKV_ENOENT) {
        rc = node->state->load(node, path, &loaded, why);
    }
    if (rc != 0) {
        return rc;
    }
    if (loaded.cluster_id != identity->cluster_id) {
        node->state->discard(&loaded);
        return reason_set(why, LKV_EIDENTITY,
                          "%s belongs to cluster %016" PRIx64 ", this node to %016" PRIx64, path,
                          loaded.cluster_id, identity->cluster_id);
    }
    if (loaded.state != NULL) {
        node->state->restore(node, &loaded);
        node->state->discard(&loaded);
    }
    node->image_index = loaded.index;
    node->image_term = loaded.term;
    node->applied = loaded.index;
    return 0;
}

/* The newest image. Where others can help (`mend`), one that cannot be read is passed over: an older one
 * may still be there with the log behind it, and without any the log's beginning is a gap like another
 * (rule 11). The file stays as it is until the log is open. */
static int load_image(struct node *node, const struct identity *identity, bool mend,
                      struct reason *why) {
    uint64_t index = UINT64_MAX;
    for (;;) {
        int rc = newest_below(node, index, &index, why);
        if (rc != 0 || index == 0) {
            return rc;
        }
        rc = load_image_at(node, identity, index, why);
        if (rc == LKV_EIO) { /* which a moment later may be none */
            rc = load_image_at(node, identity, index, why);
        }
        if (rc == 0 || !mend || !node_is_damage(rc)) {
            return rc;
        }
        node_image_unreadable(node, why);
    }
}

void node_config(const struct identity *identity, struct raft_config *out) {
    *out = (struct raft_config){0};
    for (size_t i = 0; i < identity->member_count; i++) {
        uint64_t id = identity->members[i].id;
        size_t at = out->count++;
        for (; at > 0 && out->members[at - 1].id > id; at--) {
            out->members[at] = out->members[at - 1];
        }
        out->members[at] = (struct raft_member){.id = id, .voter = true};
    }
}

static struct raft_options core_options(const struct lkv_options *options) {
    struct raft_options out = raft_options_default();
    out.heartbeat_ms = (uint32_t)options->heartbeat_ms;
    out.election_min_ms = (uint32_t)options->election_ms;
    out.election_max_ms = (uint32_t)(2 * options->election_ms);
    out.disk_hang_ms = (uint32_t)options->disk_hang_ms;
    out.inflight_bytes_max = (uint32_t)options->peer_inflight_bytes;
    out.inflight_requests_max = (uint32_t)options->peer_inflight_requests;
    out.uncommitted_bytes_max = options->inflight_bytes_max;
    out.promise_ms = options->lease_reads ? out.election_min_ms : 0;
    out.drift_ppm = (uint32_t)options->clock_drift_ppm;
    return out;
}

static int open_core(struct node *node, const struct identity *identity,
                     const struct log_state *state, struct reason *why) {
    struct raft_run *runs = mem_calloc(state->run_count + 1, sizeof(*runs));
    struct raft_gap *gaps = mem_calloc(state->gap_count + 1, sizeof(*gaps));
    if (runs == NULL || gaps == NULL) {
        mem_free(runs);
        mem_free(gaps);
        return reason_set(why, LKV_ENOMEM, "no memory for the log's terms");
    }
    for (size_t i = 0; i < state->gap_count; i++) {
        const struct log_gap *gap = &state->gaps[i];
        gaps[i] =
            (struct raft_gap){.first = gap->first, .last = gap->last, .last_term = gap->last_term};
    }
    for (size_t i = 0; i < state->run_count; i++) {
        runs[i] = (struct raft_run){.first = state->runs[i].first, .term = state->runs[i].term};
    }
    struct raft_start start = {.self = identity->member_id,
                               .options = core_options(&node->options),
                               .seed = loop_random(node->world.loop),
                               .now_ns = node_now(node),
                               .term = state->vote.term,
                               .voted_for = state->vote.voted_for,
                               .promised_ms = state->vote.promised_ms,
                               .first = state->first,
                               .last = state->last,
                               .runs = runs,
                               .run_count = state->run_count,
                               .gaps = gaps,
                               .gap_count = state->gap_count,
                               .end_unknown = state->end_unknown,
                               .image_index = node->image_index,
                               .image_term = node->image_term,
                               .campaign_gate = false,
                               .floor_index = identity->grown_index,
                               .floor_term = identity->grown_term};
    node_config(identity, &start.config);
    int rc = raft_open(&node->raft, &start, why);
    mem_free(runs);
    mem_free(gaps);
    return rc;
}

/* Before anything is made anew: a node that had a log may have voted and acknowledged with it, and must
 * not take part without it as if it were new (rule 11). */
static int check_not_lost(const struct node *node, const struct identity *identity,
                          struct reason *why) {
    if (!identity->log_made) {
        return 0;
    }
    bool found = false;
    int rc = disk_list(node->world.disk, node->log_dir, found_a_file, &found);
    if (rc != 0) {
        return reason_set(why, rc, "%s: cannot read the directory: %s", node->log_dir,
                          error_text(rc));
    }
    return found
               ? 0
               : reason_set(why, LKV_EDAMAGED,
                            "%s is empty, but %s has had a log: it was removed; put it back, or a "
                            "copy of the whole directory with moved=on",
                            node->log_dir, identity->name);
}

/* Rule 17: data/ alone may have been put back from a copy, under an identity that is newer. What was
 * acknowledged since is missing, so the end is unknown (rule 11); alone, nobody can tell what is missing. */
static int check_life(const struct node *node, struct identity *identity,
                      const struct log_state *state, struct reason *why) {
    if (state->life >= identity->log_life) {
        return 0;
    }
    bool alone = identity->member_count <= 1 || node->growing;
    if (alone && node->options.moved == MOVED_OFF) {
        return reason_set(why, LKV_EIDENTITY,
                          "%s was put back from a copy: it was last open in start %" PRIu64
                          " of this node, and %s knows of %" PRIu64
                          ". What was written since is not in it. If that is lost and this is the "
                          "one to keep, start it once with moved=on (kvctl serve --moved on)",
                          node->log_dir, state->life, node->dir, identity->log_life);
    }
    trace_line(&node->trace, TRACE_ERROR, "data-put-back",
               "%s was last open in start %" PRIu64 " of this node, and it knows of %" PRIu64,
               node->log_dir, state->life, identity->log_life);
    if (alone || node->options.moved == MOVED_NEWEST) {
        return 0;
    }
    identity->restored = true;
    return identity_save(node->world.disk, node->dir, identity, why);
}

/* The log's note first: the identity never claims one that is not there. */
static int remember_log(struct node *node, struct identity *identity, struct log_state *state,
                        struct reason *why) {
    if (node_only_looks(node)) {
        return 0;
    }
    int rc = check_life(node, identity, state, why);
    if (rc == 0) {
        rc = log_note_life(node->log, identity->start_counter, why);
    }
    if (rc == 0) {
        identity->log_made = true;
        identity->log_life = identity->start_counter;
        /* One that grows is saved with all that it grew from, or not at all (node_seal_growth). */
        rc = node->growing ? 0 : identity_save(node->world.disk, node->dir, identity, why);
    }
    return rc;
}

/* Beside what is wrong: why nobody repairs it, and what to do. */
static int refuse_damaged(const struct node *node, bool mend, struct reason *why) {
    struct reason found = *why;
    (void)reason_set(why, LKV_EDAMAGED, "%.300s; %s", found.text,
                     mend ? "put a copy of the whole directory in its place and start it once with "
                            "moved=on. Without one this member stays out: this version cannot "
                            "replace it, the others go on while they are a majority"
                     : node->options.offline
                         ? "no data was changed"
                         : "alone, nobody can give it back; no data was changed. `kvctl log "
                           "verify` lists all that is wrong: restore the directory");
    return LKV_EDAMAGED;
}

/* Rule 12: a state is never ahead of its log, so what is between the two was in the log, and is lost. */
static int check_state_ahead(struct node *node, const struct identity *identity, bool mend,
                             struct log_state *state, struct reason *why) {
    uint64_t included = node->state->includes(node);
    if (node->state->forget == NULL || included <= state->last) {
        return 0;
    }
    (void)reason_set(why, LKV_EDAMAGED,
                     "%s has entries up to %" PRIu64 " applied, and the log ends at %" PRIu64
                     ": what is between them is lost",
                     node->state_dir, included, state->last);
    if (!mend) {
        struct reason found = *why;
        return reason_set(why, LKV_EDAMAGED,
                          "%.300s. Restore the directory, or remove %s to go on without it",
                          found.text, node->state_dir);
    }
    trace_line(&node->trace, TRACE_ERROR, "state-ahead", "%s", why->text);
    state->end_unknown = true;
    int rc = node->state->forget(node, why);
    return rc == 0 ? load_image(node, identity, mend, why) : rc;
}

static int put_images_aside(struct node *node, struct reason *why) {
    int rc = node_image_put_aside(node);
    return rc == 0 ? 0
                   : reason_set(why, rc, "%s: cannot rename a damaged image: %s", node->image_dir,
                                error_text(rc));
}

int node_recover(struct node *node, struct identity *identity, struct reason *why) {
    /* Alone nobody can help, and somebody who only looks in must not change anything. What a cluster
     * grows from is whole (rule 19). */
    bool mend = identity->member_count > 1 && !node->options.offline && !node->growing;
    int rc = check_not_lost(node, identity, why);
    if (rc == 0) {
        rc = load_image(node, identity, mend, why);
        rc = rc == LKV_EDAMAGED ? refuse_damaged(node, mend, why) : rc;
    }
    if (rc != 0) {
        return rc;
    }
    struct log_options options = {.cluster_id = identity->cluster_id,
                                  .group_id = identity->group_id,
                                  .segment_bytes = node->options.segment_bytes,
                                  .record_bytes_max = 16 * 1024 * 1024,
                                  .trace = &node->trace,
                                  .mend = mend,
                                  .no_quorum_left = identity->member_count == 2};
    struct log_state state;
    rc = log_open(&node->log, node->world.disk, node->log_dir, &options, node->image_index,
                  node->image_term, &state, why);
    if (rc != 0) {
        return rc == LKV_EDAMAGED ? refuse_damaged(node, mend, why) : rc;
    }
    rc = check_state_ahead(node, identity, mend, &state, why);
    if (rc == 0) {
        rc = put_images_aside(node, why);
    }
    if (rc == 0) {
        rc = remember_log(node, identity, &state, why);
    }
    state.end_unknown = state.end_unknown || identity->restored;
    if (rc == 0 && node->growing) {
        rc = node_seal_growth(node, identity, &state, why);
    }
    if (rc == 0) {
        rc = open_core(node, identity, &state, why);
    }
    if (rc != 0) {
        return rc;
    }
    node_repair_opened(node, &state);
    node->extents = extents_open(node->log);
    if (node->extents == NULL) {
        return reason_set(why, LKV_ENOMEM, "no memory for a node");
    }
    log_window_restart(&node->window, state.last + 1);
    raft_window_first(node->raft, state.last + 1);
    node->given_next = state.last + 1;
    node->agree.replay_to = state.last;
    node->term = state.vote.term;
    node->commit = node->image_index;
    trace_line(&node->trace, TRACE_INFO, "recovered",
               "entries %" PRIu64 " to %" PRIu64 ", term %" PRIu64 ", image %" PRIu64 ", %" PRIu64
               " torn records cut",
               state.first, state.last, state.vote.term, node->image_index, state.cut_records);
    return 0;
}

/* ------------------------------------------------------------------ founding */

struct founding_job {
    struct loop_job job;
    struct node *node;
    struct identity identity;
    int rc;
    struct reason why;
};

static void founding_run(struct loop_job *base) {
    struct founding_job *job = LIST_ITEM(base, struct founding_job, job);
    struct node *node = job->node;
    /* The founding configuration is durable before anything that a vote could follow (rule 18). One
     * that grows is written by node_recover, when the log's end is known. */
    if (!node->growing) {
        job->rc = identity_save(node->world.disk, node->dir, &job->identity, &job->why);
    }
    if (job->rc == 0) {
        job->rc = node_recover(node, &job->identity, &job->why);
    }
}

static void founding_done(struct loop_job *base) {
    struct founding_job *job = LIST_ITEM(base, struct founding_job, job);
    struct node *node = job->node;
    node->jobs_outstanding--;
    node->founding_job_running = false;
    node->turn_wanted = true;
    if (job->rc != 0) {
        node_stop(node, job->rc, "founding: %s", job->why.text);
    } else {
        node->identity = job->identity;
        node->growing = false;
        node_begin(node);
    }
    mem_free(job);
}

static void found(struct node *node, const struct founding_result *result) {
    struct founding_job *job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        return; /* the next turn tries again */
    }
    job->node = node;
    job->identity = node->identity;
    job->identity.cluster_id = result->cluster_id;
    job->identity.grown_index = result->grown_index;
    job->identity.grown_term = result->grown_term;
    job->identity.member_count = result->member_count;
    memcpy(job->identity.members, result->members, sizeof(job->identity.members));
    job->job.run = founding_run;
    job->job.done = founding_done;
    node->founding_job_running = true;
    node->jobs_outstanding++;
    trace_line(&node->trace, TRACE_INFO, "founded", "cluster %016" PRIx64 " of %zu members",
               result->cluster_id, result->member_count);
    loop_submit(node->world.loop, LOOP_LOG, &job->job);
}

static void say_founding_state(struct node *node, const struct reason *why, bool stranger) {
    node->founding_stranger = stranger;
    if (strcmp(node->founding_state.text, why->text) != 0) {
        node->founding_state = *why;
        trace_line(&node->trace, stranger ? TRACE_ERROR : TRACE_INFO, "founding", "%s", why->text);
    }
}

void node_founding_text(const struct node *node, char *out, size_t size) {
    const char *state = node->founding_state.text;
    const char *refusal = node->founding_stranger ? "" : node->refusal.text;
    (void)snprintf(out, size, "%s%s%s", state[0] != '\0' ? state : "the cluster is not founded yet",
                   refusal[0] != '\0' ? "; refused by " : "", refusal);
}

void node_founding_turn(struct node *node) {
    if (node->running || node->offline || node->founding_job_running || node->closing ||
        node->stop_rc != 0) {
        return;
    }
    struct founding_result result;
    founding_decide(&node->founding, &result);
    switch (result.decision) {
    case FOUNDING_WAIT: say_founding_state(node, &result.why, false); break;
    case FOUNDING_STRANGER: say_founding_state(node, &result.why, true); break;
    case FOUNDING_FOUND:
    case FOUNDING_GROW:
    case FOUNDING_ADOPT: found(node, &result); break;
    }
}

/* A lone node founds at once, on the caller's thread. */
int node_found_alone(struct node *node, struct reason *why) {
    struct identity *identity = &node->identity;
    identity->member_count = 1;
    identity->members[0] = (struct identity_member){.id = identity->member_id};
    (void)snprintf(identity->members[0].name, NAME_SIZE, "%s", identity->name);
    identity->cluster_id = identity_cluster_id(identity->members, 1);
    return identity_save(node->world.disk, node->dir, identity, why);
}

/* Log and core exist: from here on the node takes part. */
void node_begin(struct node *node) {
    node->running = true;
    node->room = RAFT_ROOM_FREE;
    struct raft_event event = {.kind = RAFT_TICK};
    node_step(node, &event);
    peers_founded(node);
    node->leader_moved = true; /* what was parked while blank is looked at again */
}
