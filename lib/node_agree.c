/* The members compare their states (rule 25). What is applied is the same everywhere, or a program, a memory
 * or somebody with an editor has changed it: no checksum of log or image sees that.
 *
 *   leader: a DIGEST entry ──> each member, when it has applied just that: freezes its state,
 *   digests it on the bulk thread ──> tells all others ──> each judges for itself (agreement.h)
 *
 *   more than half have one digest:  who has it goes on; who has another serves nothing any more
 *   no digest can have so many:      nobody knows who is right: the leader refuses writes
 *
 * A member is compared when it has come back, a leader's first act is to compare all, and every
 * digest_hours all are. A verdict stands until the next comparison says otherwise. */
#include "lib/node.h"
#include "lib/peer.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    SETTLE_MS = 1000,     /* those that come back together are compared together */
    RETRY_MS = 60 * 1000, /* while somebody is missing or differs */
    RESENDS = 3,          /* of one report: a frame can be lost with its connection */
    RESEND_MS = 1000
};

struct agree_job {
    struct loop_job job;
    struct node *node;
    struct state_digest state;
    int rc;
};

/* ------------------------------------------------------------------ judging */

static size_t voters_of(const struct node *node, uint64_t *ids) {
    struct raft_peer_status rows[RAFT_MEMBERS_MAX];
    size_t peers = raft_peers(node->raft, rows, RAFT_MEMBERS_MAX);
    size_t count = 0;
    ids[count++] = node->identity.member_id;
    for (size_t i = 0; i < peers && count < AGREEMENT_MEMBERS_MAX; i++) {
        if (rows[i].voter) {
            ids[count++] = rows[i].id;
        }
    }
    return count;
}

/* Its own answers are not to be trusted, and whoever waits for one asks another member. */
static void serve_nothing(struct node *node) {
    char text[REASON_SIZE];
    node_agree_text(node, text, sizeof(text));
    trace_line(&node->trace, TRACE_ERROR, "diverged", "%s", text);
    node_read_fail_all(node, LKV_ESTOPPED, text);
    node_log_fail_all(node, LKV_ESTOPPED, text);
    if (node->role == RAFT_LEADER) {
        struct raft_event event = {.kind = RAFT_TRANSFER, .transfer = {.target = RAFT_NOBODY}};
        node_step(node, &event);
    }
}

static void take_verdict(struct node *node, enum agree_state state) {
    struct agree *agree = &node->agree;
    enum agree_state before = agree->state;
    agree->state = state;
    agree->judged_index = agree->own.index;
    atomic_store(&node->diverged, state == AGREE_DIVERGED);
    if (state == AGREE_DIVERGED && before != state) {
        serve_nothing(node);
    } else if (state == AGREE_SPLIT && before != state) {
        char text[REASON_SIZE];
        node_agree_text(node, text, sizeof(text));
        trace_line(&node->trace, TRACE_ERROR, "split", "%s", text);
    } else if (state == AGREE_SAME && before > AGREE_SAME) {
        trace_line(&node->trace, TRACE_INFO, "agrees",
                   "at entry %" PRIu64 " the state is again that of a majority", agree->own.index);
    }
}

/* Everybody was heard, and all say the same. */
static bool is_unanimous(const struct node *node, const uint64_t *voters, size_t count) {
    const struct agree *agree = &node->agree;
    for (size_t i = 0; i < count; i++) {
        const struct agreement_report *report =
            agreement_of(&agree->heard, voters[i], agree->own.index);
        if (report == NULL || report->digest != agree->own.digest) {
            return false;
        }
    }
    return true;
}

static void judge(struct node *node) {
    struct agree *agree = &node->agree;
    uint64_t voters[AGREEMENT_MEMBERS_MAX];
    size_t count = voters_of(node, voters);
    if (agree->own.index == 0) {
        return;
    }
    switch (agreement_judge(&agree->heard, agree->own.index, voters, count, &agree->majority)) {
    case AGREEMENT_OPEN: return;
    case AGREEMENT_NONE: take_verdict(node, AGREE_SPLIT); break;
    case AGREEMENT_MAJORITY:
        take_verdict(node, agree->majority == agree->own.digest ? AGREE_SAME : AGREE_DIVERGED);
        break;
    }
    if (agree->begun_index == agree->own.index && is_unanimous(node, voters, count)) {
        agree->due_ns = agree->begun_ns + node->options.digest_ms * MS_NS;
    }
}

/* ------------------------------------------------------------------ one's own digest */

static void digest_run(struct loop_job *base) {
    struct agree_job *job = LIST_ITEM(base, struct agree_job, job);
    job->rc = job->node->state->digest_run(&job->state, &job->node->image_cancel);
}

static void digest_done(struct loop_job *base) {
    struct agree_job *job = LIST_ITEM(base, struct agree_job, job);
    struct node *node = job->node;
    struct agree *agree = &node->agree;
    node->state->digest_end(&job->state);
    node->jobs_outstanding--;
    node->turn_wanted = true;
    agree->running = false;
    if (job->rc == 0) {
        agree->own = (struct agreement_report){.member = node->identity.member_id,
                                               .index = job->state.index,
                                               .digest = job->state.digest};
        agree->resends = RESENDS;
        agree->resend_ns = node_now(node);
        agreement_hear(&agree->heard, &agree->own);
        judge(node);
    } else if (job->rc != LKV_ECANCELED) {
        trace_line(&node->trace, TRACE_WARN, "digest", "entry %" PRIu64 ": %s", job->state.index,
                   error_text(job->rc));
    }
    mem_free(job);
}

void node_agree_applied(struct node *node, const struct entry *entry) {
    struct agree *agree = &node->agree;
    /* What is replayed at a start was compared in an earlier life, and those who come back are compared
     * anyway. Of two in a row the second waits for nobody. */
    if (entry->index <= agree->replay_to || agree->running) {
        return;
    }
    struct reason why = {{0}};
    struct agree_job *job = mem_calloc(1, sizeof(*job));
    if (job == NULL || node->state->digest_begin(node, &job->state, &why) != 0) {
        mem_free(job); /* this member is missing in this comparison; there will be another */
        return;
    }
    job->node = node;
    job->job.run = digest_run;
    job->job.done = digest_done;
    agree->running = true;
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
}

/* ------------------------------------------------------------------ telling and hearing */

static void tell_all(struct node *node, uint64_t now_ns) {
    struct agree *agree = &node->agree;
    if (agree->resends == 0 || now_ns < agree->resend_ns) {
        return;
    }
    struct buffer body = {0};
    agreement_encode(&agree->own, &body);
    for (size_t i = 0; !body.failed && i < node->peer_count; i++) {
        (void)peer_send(node->peers[i], FRAME_DIGEST, buffer_slice(&body));
    }
    buffer_fini(&body);
    agree->resends--;
    agree->resend_ns = now_ns + RESEND_MS * MS_NS;
}

int node_agree_hear(struct node *node, const struct peer *from, struct slice body,
                    struct reason *why) {
    struct agreement_report report;
    int rc = agreement_decode(body, &report, why);
    if (rc == 0 && node->running) {
        report.member = from->id;
        agreement_hear(&node->agree.heard, &report);
        judge(node);
    }
    return rc;
}

/* ------------------------------------------------------------------ the leader */

static void compare_soon(struct node *node, uint64_t now_ns) {
    uint64_t soon_ns = now_ns + SETTLE_MS * MS_NS;
    node->agree.due_ns = soon_ns < node->agree.due_ns ? soon_ns : node->agree.due_ns;
}

/* Those that have come back since this node leads; at first all. */
static void look_at_peers(struct node *node, uint64_t now_ns) {
    struct agree *agree = &node->agree;
    if (agree->term != node->term) {
        agree->term = node->term;
        agree->due_ns = UINT64_MAX;
        compare_soon(node, now_ns);
    }
    for (size_t i = 0; i < node->peer_count; i++) {
        struct peer *peer = node->peers[i];
        if (peer->up && peer->compared_boot != peer->hello.boot_nonce) {
            peer->compared_boot = peer->hello.boot_nonce;
            agreement_forget(&agree->heard, peer->id);
            compare_soon(node, now_ns);
        }
    }
}

static void propose(struct node *node, uint64_t now_ns) {
    struct agree *agree = &node->agree;
    agree->due_ns = now_ns + RETRY_MS * MS_NS;
    if (!node_propose_own(node, ENTRY_DIGEST, NULL)) {
        return;
    }
    agree->begun_ns = now_ns;
    agree->begun_index = node->update.submit_first;
}

static bool may_compare(const struct node *node) {
    return node->options.digest_ms > 0 && node->peer_count > 0 && node_leads_ready(node) &&
           node->state->feature_level(node) >= FEATURE_DIGEST && node->room == RAFT_ROOM_FREE;
}

void node_agree_turn(struct node *node) {
    uint64_t now_ns = node_now(node);
    tell_all(node, now_ns);
    if (!may_compare(node)) {
        return;
    }
    look_at_peers(node, now_ns);
    if (now_ns >= node->agree.due_ns && node->submit_count == 0) {
        propose(node, now_ns);
    }
}

uint64_t node_agree_timer(const struct node *node) {
    const struct agree *agree = &node->agree;
    if (!node->running || node->closing || node->stop_rc != 0) {
        return UINT64_MAX;
    }
    uint64_t resend_ns = agree->resends > 0 ? agree->resend_ns : UINT64_MAX;
    uint64_t due_ns = agree->term == node->term && may_compare(node) ? agree->due_ns : UINT64_MAX;
    return resend_ns < due_ns ? resend_ns : due_ns;
}

/* ------------------------------------------------------------------ what comes of it */

bool node_agree_text(const struct node *node, char *out, size_t size) {
    const struct agree *agree = &node->agree;
    if (agree->state == AGREE_DIVERGED) {
        (void)snprintf(out, size,
                       "diverged: at entry %" PRIu64 " its state has digest %016" PRIx64
                       ", that of a majority %016" PRIx64
                       "; it serves nothing. To get the state of the others: stop it, delete "
                       "image/* and data/*.seg in its directory, start it",
                       agree->judged_index, agree->own.digest, agree->majority);
    } else if (agree->state == AGREE_SPLIT) {
        (void)snprintf(out, size,
                       "states differ: at entry %" PRIu64
                       " no majority of the members has one digest (here %016" PRIx64
                       "); writes are refused until members whose state is wrong have got that "
                       "of another",
                       agree->judged_index, agree->own.digest);
    }
    return agree->state > AGREE_SAME;
}
