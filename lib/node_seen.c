/* Who said hello is written down before anything of that connection counts: then no life of a member
 * that this node has voted for, voted with or acknowledged is forgotten by a restart (rule 17).
 *
 *   hello of a life that is new here --> noted --(log thread: DIR/seen is replaced)--> accepted
 *
 * A save that fails, as on a full disk, must not keep a member out: the life is accepted, known to this
 * process alone, and the save is tried again (rule 15). */
#include "lib/peer.h"

#include "base/mem.h"

#include <stdio.h>

enum { SEEN_RETRY_MS = 2000, SEEN_SOON_MS = 500 };

struct seen_job {
    struct loop_job job;
    struct node *node;
    struct seen seen;
    int rc;
    struct reason why;
};

static void seen_run(struct loop_job *base) {
    struct seen_job *job = LIST_ITEM(base, struct seen_job, job);
    job->rc = seen_save(job->node->world.disk, job->node->dir, &job->seen, &job->why);
}

static void seen_done(struct loop_job *base);

static void save(struct node *node) {
    struct seen_job *job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        node->seen_retry_ns = node_now(node) + SEEN_RETRY_MS * MS_NS;
        return;
    }
    *job = (struct seen_job){
        .node = node, .seen = node->seen, .job = {.run = seen_run, .done = seen_done}};
    node->seen_job_running = true;
    node->seen_retry_ns = UINT64_MAX;
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_LOG, &job->job);
}

static void seen_done(struct loop_job *base) {
    struct seen_job *job = LIST_ITEM(base, struct seen_job, job);
    struct node *node = job->node;
    node->jobs_outstanding--;
    node->seen_job_running = false;
    node->turn_wanted = true;
    seen_saved(&node->seen, &job->seen);
    if (job->rc != 0) {
        trace_line(&node->trace, TRACE_WARN, "seen-not-saved", "%s", job->why.text);
        node->seen_retry_ns = node_now(node) + SEEN_RETRY_MS * MS_NS;
    }
    mem_free(job);
    if (!node->closing) {
        peers_parse_waiting(node);
    }
}

/* What the leader hears of a peer's disk is remembered for longer than the core does: an entry that is
 * committed and was durable there can never rightly be missing in a later life of it. */
void node_seen_acknowledged(struct node *node) {
    struct raft_peer_status rows[RAFT_MEMBERS_MAX];
    if (!node->running || node->role != RAFT_LEADER) {
        return;
    }
    size_t count = raft_peers(node->raft, rows, RAFT_MEMBERS_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct peer *peer = peer_by_id(node, rows[i].id);
        struct seen_peer *seen = peer != NULL ? seen_find(&node->seen, peer->name) : NULL;
        uint64_t proven = rows[i].match < node->commit ? rows[i].match : node->commit;
        if (seen != NULL && seen->id == rows[i].id && seen->acknowledged < proven) {
            seen->acknowledged = proven;
        }
    }
}

/* The connection to a follower has ended: when it comes back it may lack what it had, and so may what
 * this node remembers of it, if that was restarted meanwhile. */
void node_seen_peer_down(struct node *node) {
    node_seen_acknowledged(node);
    if (node->role == RAFT_LEADER && node->seen_retry_ns == UINT64_MAX) {
        node->seen_retry_ns = node_now(node) + SEEN_SOON_MS * MS_NS;
    }
}

bool node_seen_is_durable(struct node *node, const struct hello *hello) {
    const struct seen_peer *peer = seen_note(&node->seen, hello);
    if (peer == NULL || peer->durable) {
        return true;
    }
    if (!node->seen_job_running && !node->closing) {
        save(node);
    }
    return false;
}

uint64_t node_seen_timer(struct node *node, uint64_t now_ns) {
    node_seen_acknowledged(node);
    if (node->seen_job_running) {
        return UINT64_MAX; /* its end looks again */
    }
    if (now_ns >= node->seen_retry_ns) {
        save(node);
    }
    return node->seen_retry_ns;
}
