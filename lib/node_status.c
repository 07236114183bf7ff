/* What a node tells about itself: status and digest. */
#include "lib/node_repair.h"

#include "base/mem.h"
#include "lib/peer.h"

#include <inttypes.h>
#include <stdio.h>

static const char *role_text(const struct node *node) {
    if (node->stop_rc != 0) {
        return "stopped";
    }
    switch (node->role) {
    case RAFT_LEADER: return "leader";
    case RAFT_FOLLOWER: return "follower";
    case RAFT_CANDIDATE: return "candidate";
    case RAFT_STOPPED: return "stopped";
    }
    return "?";
}

static const char *progress_text(enum raft_progress_state state) {
    switch (state) {
    case RAFT_PROBE: return "probe";
    case RAFT_REPLICATE: return "replicate";
    case RAFT_INSTALL: return "install";
    }
    return "?";
}

static void set_hex(struct lkv_msg *reply, const char *name, uint64_t value) {
    char text[20];
    (void)snprintf(text, sizeof(text), "%016" PRIx64, value);
    msg_set_str(reply, name, text);
}

static void add_self(struct node *node, struct lkv_msg *reply, const struct raft_status *status) {
    struct lkv_member row = {.id = node->options.id,
                             .address = node->founding.self_address,
                             .role = role_text(node),
                             .state = node->stop_rc != 0 ? "stopped" : "-",
                             .match = status->durable};
    msg_add_member(reply, &row);
}

static const struct raft_peer_status *find_peer(const struct raft_peer_status *peers, size_t count,
                                                uint64_t id) {
    for (size_t i = 0; i < count; i++) {
        if (peers[i].id == id) {
            return &peers[i];
        }
    }
    return NULL;
}

static void add_peers(struct node *node, struct lkv_msg *reply, const struct raft_status *status) {
    struct raft_peer_status rows[RAFT_MEMBERS_MAX];
    size_t count = node->running ? raft_peers(node->raft, rows, RAFT_MEMBERS_MAX) : 0;
    uint64_t now_ns = node_now(node);
    for (size_t i = 0; i < node->peer_count; i++) {
        const struct peer *peer = node->peers[i];
        const struct raft_peer_status *known = find_peer(rows, count, peer->id);
        bool leading = node->role == RAFT_LEADER && known != NULL;
        struct lkv_member row = {.id = peer->name,
                                 .address = peer->address,
                                 .role = peer->id != 0 && peer->id == node->leader ? "leader"
                                         : leading                                 ? "follower"
                                                                                   : "unknown",
                                 .state = !peer->up ? "down"
                                          : leading ? progress_text(known->state)
                                                    : "-"};
        if (leading) {
            row.match = known->match;
            row.lag_entries = status->last > known->match ? status->last - known->match : 0;
            row.lag_ms = known->heard_ns != 0 ? (now_ns - known->heard_ns) / MS_NS : 0;
        }
        msg_add_member(reply, &row);
    }
}

/* No write goes on any more: what was given to the disk does not fit or does not come back, or what room
 * is left in the log is kept for deletes. */
static const char *disk_trouble(const struct node *node) {
    uint64_t hang_ns = node->options.disk_hang_ms * MS_NS;
    if (node->room != RAFT_ROOM_FREE || (node->no_spare && node->room_refused)) {
        return "disk full";
    }
    if (node->jobs_in_flight > 0 && node_now(node) - node->last_write_ns >= hang_ns) {
        return "disk hangs";
    }
    return NULL;
}

static void add_model(const struct node *node, struct lkv_msg *reply) {
    msg_set_str(reply, "model", model_name(node->identity.model));
    if (node->kv != NULL) {
        msg_set_str(reply, "engine", node->kv_home.engine != NULL ? "rocksdb" : "memory");
    }
}

/* What is left of this leader's lease; 0: it has none (rule 30). One that is alone has it for ever. */
static uint64_t lease_left_ms(const struct node *node, const struct raft_status *status) {
    uint64_t now_ns = node_now(node);
    bool ends = status->lease_until_ns > now_ns && status->lease_until_ns != UINT64_MAX;
    return ends ? (status->lease_until_ns - now_ns) / MS_NS : 0;
}

static void add_state(struct node *node, struct lkv_msg *reply) {
    char text[2 * REASON_SIZE + 64] = "";
    if (node->stop_rc != 0) {
        (void)snprintf(text, sizeof(text), "stopped: %s", node->stop_why.text);
    } else if (node->offline) {
        (void)snprintf(text, sizeof(text),
                       "offline: one member's copy, perhaps old, perhaps with writes that the "
                       "cluster never acknowledged");
    } else if (!node->running) {
        node_founding_text(node, text, sizeof(text));
    } else if (node_repair_state(node, text, sizeof(text)) ||
               node_agree_text(node, text, sizeof(text))) {
        /* said */
    } else if (disk_trouble(node) != NULL) {
        (void)snprintf(text, sizeof(text), "%s", disk_trouble(node));
    } else if (node->leader == RAFT_NOBODY && node->refusal.text[0] != '\0') {
        (void)snprintf(text, sizeof(text), "no leader; refused by %s", node->refusal.text);
    } else if (node->leader == RAFT_NOBODY) {
        (void)snprintf(text, sizeof(text), "no leader");
    } else {
        (void)snprintf(text, sizeof(text), "ok");
    }
    msg_set_str(reply, "state", text);
}

void node_answer_status(struct node *node, struct request *request) {
    struct lkv_msg *reply = request->reply;
    struct raft_status status = {0};
    if (node->running) {
        raft_status(node->raft, &status);
    }
    struct kv_stats stats = {0};
    struct kv_stamp stamp = {0};
    if (node->kv != NULL) {
        kv_stats(node->kv, &stats);
        kv_stamp(node->kv, &stamp);
    } else {
        stats.sessions = node->ledger.sessions.count;
    }
    add_model(node, reply);
    msg_set_str(reply, "id", node->options.id);
    msg_set_str(reply, "address", node->founding.self_address);
    msg_set_str(reply, "role", role_text(node));
    if (node->listener != NULL) {
        msg_set_str(reply, "listen", net_listener_address(node->listener));
    }
    const struct peer *leader = peer_by_id(node, node->leader);
    if (node->leader != RAFT_NOBODY && node->leader == node->identity.member_id) {
        msg_set_str(reply, "leader", node->options.id);
        msg_set_str(reply, "leader_address", node->founding.self_address);
    } else if (leader != NULL) {
        msg_set_str(reply, "leader", leader->name);
        msg_set_str(reply, "leader_address", leader->address);
    }
    set_hex(reply, "cluster_id", node->identity.cluster_id);
    set_hex(reply, "member_id", node->identity.member_id);
    add_state(node, reply);
    size_t up = 0;
    for (size_t i = 0; i < node->peer_count; i++) {
        up += node->peers[i]->up;
    }
    const struct msg_number numbers[] = {
        {"term", status.term},
        {"commit", status.commit},
        {"applied", node->applied},
        {"durable", status.durable},
        {"first", status.first},
        {"last", status.last},
        {"rev", stamp.revision},
        {"keys", stats.keys},
        {"sessions", stats.sessions},
        {"bytes", stats.bytes},
        {"memory_bytes", stats.memory},
        {"log_bytes", node->running ? log_bytes(node->log) : 0},
        {"image_index", node->image_index},
        {"compared_index", node->agree.judged_index},
        {"damaged_entries", node_damaged_entries(node)},
        {"repaired_entries", node->repair.filled_ever},
        {"scrub_index", node->scrub.index},
        {"scrubbed_ms", node->scrub.passed_wall_ms},
        {"feature_level", node->running || node->offline ? node->state->feature_level(node) : 0},
        {"peers_up", up},
        {"connections", server_connections(node->server)},
        {"views", node->view_count},
        {"read_lease_ms", lease_left_ms(node, &status)},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        msg_set_u64(reply, numbers[i].name, numbers[i].value);
    }
    add_self(node, reply, &status);
    add_peers(node, reply, &status);
    request_finish(request);
}

/* ------------------------------------------------------------------ digest */

struct digest_job {
    struct loop_job job;
    struct list_link link;
    struct node *node;
    struct request *request; /* NULL: it has its answer */
    struct state_digest state;
    int rc;
};

static void digest_run(struct loop_job *base) {
    struct digest_job *job = LIST_ITEM(base, struct digest_job, job);
    job->rc = job->node->state->digest_run(&job->state, &job->node->image_cancel);
}

static void answer_digest(struct digest_job *job) {
    struct lkv_msg *reply = job->request->reply;
    if (job->rc != 0) {
        int rc = job->rc == LKV_ECANCELED ? LKV_ECLOSED : job->rc;
        request_fail(job->request, rc, "digest: %s", error_text(rc));
        return;
    }
    msg_set_str(reply, "id", job->node->options.id);
    msg_set_u64(reply, "digest", job->state.digest);
    msg_set_u64(reply, "index", job->state.index);
    if (job->state.revision != 0) {
        msg_set_u64(reply, "rev", job->state.revision);
    }
    request_finish(job->request);
}

static void digest_done(struct loop_job *base) {
    struct digest_job *job = LIST_ITEM(base, struct digest_job, job);
    job->node->state->digest_end(&job->state);
    job->node->jobs_outstanding--;
    job->node->turn_wanted = true;
    list_remove(&job->link);
    if (job->request != NULL) {
        answer_digest(job);
    }
    mem_free(job);
}

/* The bulk thread may be with a disk that hangs: that keeps nobody waiting. */
uint64_t node_digest_expire(struct node *node, uint64_t now_ns) {
    uint64_t earliest = UINT64_MAX;
    for (struct list_link *at = node->digests.next; at != &node->digests; at = at->next) {
        struct digest_job *job = LIST_ITEM(at, struct digest_job, link);
        struct request *request = job->request;
        if (request != NULL && request->deadline_ns <= now_ns) {
            job->request = NULL;
            request_fail(request, LKV_ETIMEOUT, "the digest was not ready in time");
        } else if (request != NULL && request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    return earliest;
}

void node_answer_digest(struct node *node, struct request *request) {
    struct reason why = {{0}};
    struct digest_job *job = mem_calloc(1, sizeof(*job));
    int rc = job != NULL ? node->state->digest_begin(node, &job->state, &why)
                         : reason_set(&why, LKV_ENOMEM, "no memory for a digest");
    if (rc != 0) {
        mem_free(job);
        request_fail(request, rc, "%s", why.text);
        return;
    }
    job->node = node;
    job->request = request;
    job->job.run = digest_run;
    job->job.done = digest_done;
    list_push_back(&node->digests, &job->link);
    if (request->deadline_ns < node->next_expiry_ns) {
        node->next_expiry_ns = request->deadline_ns;
    }
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
}
