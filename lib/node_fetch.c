/* Entries that a follower lacks and the window no longer holds: read on the bulk thread, framed in the
 * step that tells the core they are there. */
#include "lib/node_repair.h"

#include "base/mem.h"

enum { FETCH_ENTRIES = 2048 }; /* their sizes live on the stack for a moment */

struct fetch_job {
    struct loop_job job;
    struct node *node;
    struct raft_fetch fetch;
    struct entry *entries; /* owned */
    size_t count;
    int rc;
    bool noted; /* damage that was not known before */
    struct log_gap gap;
    struct reason why;
};

static void fetch_run(struct loop_job *base) {
    struct fetch_job *job = LIST_ITEM(base, struct fetch_job, job);
    job->rc = log_read(job->node->log, job->fetch.from, job->fetch.to, job->fetch.bytes_max,
                       job->entries, FETCH_ENTRIES, &job->count, &job->why);
    job->noted = node_is_damage(job->rc) && node_note_damage(job->node, job->fetch.from, &job->gap);
}

static void fetch_free(struct fetch_job *job) {
    for (size_t i = 0; i < job->count; i++) {
        blob_unref(job->entries[i].payload);
    }
    mem_free(job->entries);
    mem_free(job);
}

static void tell_core(struct node *node, const struct fetch_job *job, int rc) {
    uint32_t sizes[FETCH_ENTRIES];
    size_t count = rc == 0 ? job->count : 0;
    for (size_t i = 0; i < count; i++) {
        const struct blob *payload = job->entries[i].payload;
        sizes[i] = payload != NULL ? (uint32_t)payload->size : 0;
    }
    node->fetched = (struct fetched){
        .peer = job->fetch.peer, .first = job->fetch.from, .entries = job->entries, .count = count};
    struct raft_event event = {.kind = RAFT_FETCHED,
                               .fetched = {.peer = job->fetch.peer,
                                           .from = job->fetch.from,
                                           .sizes = sizes,
                                           .count = count,
                                           .rc = rc,
                                           .repair = job->fetch.repair}};
    node_step(node, &event);
    node->fetched = (struct fetched){0};
}

static void fetch_done(struct loop_job *base) {
    struct fetch_job *job = LIST_ITEM(base, struct fetch_job, job);
    struct node *node = job->node;
    node->jobs_outstanding--;
    if (job->noted) {
        node_log_damaged(node, &job->gap, &job->why);
    } else if (node_is_damage(job->rc)) {
        node_repair_compare(node);
    } else if (job->rc != 0 && job->rc != LKV_ETRUNCATED) {
        trace_line(&node->trace, TRACE_ERROR, "fetch-failed", "%s", job->why.text);
    }
    tell_core(node, job, job->rc);
    fetch_free(job);
    node->turn_wanted = true;
}

void node_fetch(struct node *node, const struct raft_fetch *fetch) {
    if (node->closing) {
        return; /* one after the other for a follower far behind, it would never have finished */
    }
    struct fetch_job *job = mem_calloc(1, sizeof(*job));
    struct entry *entries = mem_calloc(FETCH_ENTRIES, sizeof(*entries));
    if (job == NULL || entries == NULL) {
        mem_free(job);
        mem_free(entries);
        node_stop(node, LKV_ENOMEM, "no memory to read entries for a follower");
        return;
    }
    *job = (struct fetch_job){.node = node,
                              .fetch = *fetch,
                              .entries = entries,
                              .job = {.run = fetch_run, .done = fetch_done}};
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
}

const struct entry *node_fetched(const struct node *node, uint64_t peer, uint64_t first,
                                 size_t count) {
    const struct fetched *fetched = &node->fetched;
    if (fetched->count == 0 || fetched->peer != peer || first < fetched->first ||
        first + count > fetched->first + fetched->count) {
        return NULL;
    }
    return &fetched->entries[first - fetched->first];
}
