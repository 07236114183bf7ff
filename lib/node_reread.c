/* Looking again at the first gap of our own log: a disk's error may have passed (rule 11). Peers are asked
 * meanwhile; a node that is alone has nobody else.
 *
 *   first gap --> now, then after 1/2, 1, 2, 4, 8, 8, ... s --(bulk thread)--> records that lie there whole
 *       --> RAFT_REREAD: do their terms fit? --> update.fills --(log thread: log_regain)--> PERSISTED
 *
 * One small read at a time, so that nothing behind it on the bulk thread waits long, and ever more seldom: a
 * disk takes its time over a sector that is lost. */
#include "lib/node_repair.h"

#include "base/mem.h"

#include <inttypes.h>

enum { WAIT_FIRST_MS = 500, WAIT_MOST_MS = 8000, LOOK_BYTES = 1024 * 1024, LOOK_ENTRIES = 1024 };

struct reread_job {
    struct loop_job job;
    struct node *node;
    struct entry *entries; /* owned */
    uint64_t first, last;
    size_t count;
    int rc;
    struct reason why;
};

static void reread_run(struct loop_job *base) {
    struct reread_job *job = LIST_ITEM(base, struct reread_job, job);
    job->rc = log_reread(job->node->log, job->first, job->last, LOOK_BYTES, job->entries,
                         LOOK_ENTRIES, &job->count, &job->why);
}

static void job_free(struct reread_job *job) {
    for (size_t i = 0; i < job->count; i++) {
        blob_unref(job->entries[i].payload);
    }
    mem_free(job->entries);
    mem_free(job);
}

/* What lies there, as a peer would say it. The entries move to the packet. */
static bool make_packet(struct reread_job *job, struct raft_packet *packet) {
    struct raft_entry_meta *metas = mem_calloc(job->count, sizeof(*metas));
    if (metas == NULL) {
        return false;
    }
    for (size_t i = 0; i < job->count; i++) {
        const struct entry *entry = &job->entries[i];
        metas[i] = (struct raft_entry_meta){
            .term = entry->term,
            .size = entry->payload != NULL ? (uint32_t)entry->payload->size : 0,
            .type = (uint8_t)entry->type};
    }
    *packet = (struct raft_packet){.metas = metas,
                                   .entries = job->entries,
                                   .first = job->first,
                                   .count = (uint32_t)job->count};
    packet->message.kind = RAFT_REPAIR_REPLY;
    packet->message.repair_reply.answer = RAFT_REPAIR_READABLE;
    packet->message.repair_reply.first = job->first;
    packet->message.repair_reply.count = (uint32_t)job->count;
    packet->message.repair_reply.shared_index = job->first + job->count - 1;
    packet->message.repair_reply.shared_term = job->entries[job->count - 1].term;
    packet->message.repair_reply.entries = metas;
    job->entries = NULL;
    job->count = 0;
    return true;
}

static void reread_done(struct loop_job *base) {
    struct reread_job *job = LIST_ITEM(base, struct reread_job, job);
    struct node *node = job->node;
    struct raft_packet packet;
    node->jobs_outstanding--;
    node->turn_wanted = true;
    node->reread.running = false;
    if (job->rc != 0 && !node_is_damage(job->rc)) {
        trace_line(&node->trace, TRACE_WARN, "reread", "%s", job->why.text);
    }
    if (job->count > 0 && make_packet(job, &packet)) {
        /* What lies behind these is looked at as soon as they are the log's again. */
        node->reread.first = 0;
        node->reread.next_ns = node_now(node) + WAIT_FIRST_MS * MS_NS;
        node_reread(node, &packet);
    }
    job_free(job);
}

static void look(struct node *node, const struct raft_gap *gap) {
    struct reread_job *job = mem_calloc(1, sizeof(*job));
    struct entry *entries = mem_calloc(LOOK_ENTRIES, sizeof(*entries));
    if (job == NULL || entries == NULL) {
        mem_free(job);
        mem_free(entries);
        return; /* the next look is planned */
    }
    *job = (struct reread_job){.node = node,
                               .entries = entries,
                               .first = gap->first,
                               .last = gap->last,
                               .job = {.run = reread_run, .done = reread_done}};
    node->reread.running = true;
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
}

uint64_t node_reread_timer(struct node *node, uint64_t now_ns) {
    struct reread *reread = &node->reread;
    struct raft_gap gap;
    if (!node->running || node->closing || node->stop_rc != 0 || reread->running ||
        raft_gaps(node->raft, &gap, 1) == 0) {
        return UINT64_MAX;
    }
    if (reread->first != gap.first) { /* another one, or what is left of it */
        reread->first = gap.first;
        reread->wait_ns = WAIT_FIRST_MS * MS_NS;
        reread->next_ns = reread->next_ns > now_ns ? reread->next_ns : now_ns;
    }
    if (now_ns < reread->next_ns) {
        return reread->next_ns;
    }
    reread->next_ns = now_ns + reread->wait_ns;
    reread->wait_ns =
        reread->wait_ns * 2 < WAIT_MOST_MS * MS_NS ? reread->wait_ns * 2 : WAIT_MOST_MS * MS_NS;
    if (!node->installing) { /* else the log is being replaced */
        look(node, &gap);
    }
    return reread->running ? UINT64_MAX : reread->next_ns;
}
