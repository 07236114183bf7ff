/* Group commit: the core's writes, merged while the disk is busy, go to the log thread as one.
 *
 *   core's writes --> batch --(at the turn's end, at most two in flight)--> log thread --> PERSISTED
 *
 * While one job is being synced the next one waits in the queue, so the log thread goes from one sync
 * straight into the next, and everything that arrives meanwhile shares it. */
#include "lib/node_repair.h"

#include "base/assert.h"
#include "base/mem.h"

enum { MARK_IDLE_MS = 50, FULL_RETRY_MS = 250 };

enum log_job_kind { JOB_WRITE, JOB_MARK, JOB_RESTART, JOB_SPARE };

struct log_job {
    struct loop_job job;
    struct node *node;
    enum log_job_kind kind;
    struct log_write write;
    struct entry *entries;  /* owned, with references */
    uint64_t bytes;         /* of them, as the batch counted them */
    struct list_link fills; /* of struct write_fill; after the write */
    bool written;           /* all but the fills is done */
    uint64_t no;            /* PERSISTED up to this write number */
    uint64_t restart_index, restart_term;
    bool retry_first; /* the oldest of the jobs that a full disk held up */
    int rc;
    struct reason why;
};

static void fills_free(struct list_link *fills) {
    struct list_link *link;
    while ((link = list_pop_front(fills)) != NULL) {
        struct write_fill *fill = LIST_ITEM(link, struct write_fill, link);
        for (size_t i = 0; i < fill->count; i++) {
            blob_unref(fill->entries[i].payload);
        }
        mem_free(fill);
    }
}

static void fills_move(struct list_link *from, struct list_link *to) {
    struct list_link *link;
    while ((link = list_pop_front(from)) != NULL) {
        list_push_back(to, link);
    }
}

static void job_free(struct log_job *job) {
    fills_free(&job->fills);
    for (size_t i = 0; i < job->write.count; i++) {
        blob_unref(job->entries[i].payload);
    }
    mem_free(job->entries);
    mem_free(job);
}

/* Nothing was changed and the same may work later: no space, no memory, no descriptor. */
static bool is_transient(int rc) {
    return rc == LKV_ENOSPACE || rc == LKV_ENOMEM;
}

/* A retry begins anew, and a cut may have taken a part: what is in no gap any more is passed over. */
static int run_fill(struct log *log, struct write_fill *fill, struct reason *why) {
    for (size_t at = 0, count; at < fill->count; at += count) {
        struct log_gap gap;
        count = 1;
        if (!log_damage_at(log, fill->entries[at].index, &gap)) {
            continue;
        }
        uint64_t left = gap.last - fill->entries[at].index + 1;
        count = left < fill->count - at ? (size_t)left : fill->count - at;
        int rc = fill->own ? log_regain(log, &fill->entries[at], count, why)
                           : log_fill(log, &fill->entries[at], count, why);
        if (rc == LKV_EINVAL && !log_damage_at(log, fill->entries[at].index, NULL)) {
            count = 1; /* it went with its file meanwhile, for an image (bulk thread) */
            continue;
        }
        if (rc == LKV_EDAMAGED) { /* it reads back otherwise: the gap stays, and asks again */
            fill->failed = true;
            return 0;
        }
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int run_fills(struct log_job *job) {
    int rc = 0;
    for (struct list_link *at = job->fills.next; rc == 0 && at != &job->fills; at = at->next) {
        rc = run_fill(job->node->log, LIST_ITEM(at, struct write_fill, link), &job->why);
    }
    return rc;
}

/* A job behind one that did not fit must not be written before it: the order is the log's. */
static int run_write(struct log_job *job) {
    if (job->node->log_blocked && !job->retry_first) {
        return reason_set(&job->why, LKV_ENOSPACE, "waits behind a write that did not fit");
    }
    /* The cut before the fills: what a peer gave belongs before that peer's entries, never before our
     * own later ones that it has proven to be others (rule 11). */
    int rc = job->written ? 0 : log_write(job->node->log, &job->write, &job->why);
    job->written = rc == 0;
    if (rc == 0) {
        rc = run_fills(job);
    }
    job->node->log_blocked = is_transient(rc);
    return rc;
}

static void job_run(struct loop_job *base) {
    struct log_job *job = LIST_ITEM(base, struct log_job, job);
    struct log *log = job->node->log;
    switch (job->kind) {
    case JOB_WRITE: job->rc = run_write(job); break;
    case JOB_MARK: job->rc = log_mark(log, &job->why); break;
    case JOB_RESTART:
        job->rc = log_restart_after(log, job->restart_index, job->restart_term, &job->why);
        break;
    case JOB_SPARE: job->rc = log_prepare_spare(log, &job->why); break;
    }
}

void node_log_failed(struct node *node, int rc, const struct reason *why) {
    trace_line(&node->trace, TRACE_ERROR, "log-write-failed", "%s", why->text);
    node->log_failed = true;
    struct raft_event event = {.kind = RAFT_WRITE_FAILED};
    node_step(node, &event);
    node_stop(node, rc, "%s", why->text);
}

/* What is on its way to a follower when it says that its room is low still gets in before the reserve. */
static uint64_t room_low(const struct node *node) {
    uint64_t on_its_way = node->options.peer_inflight_bytes;
    uint64_t quarter = node->options.segment_bytes / 4;
    bool alone = node->peer_count == 0;
    return NODE_ROOM_RESERVED + (alone ? 0 : on_its_way < quarter ? on_its_way : quarter);
}

static enum raft_room room_of(const struct node *node) {
    if (node->disk_full) {
        return RAFT_ROOM_NONE;
    }
    bool refused = node->room_refused && node->peer_count > 0; /* others may have room for it */
    bool low = node->no_spare && (refused || log_room(node->log) < room_low(node));
    return low ? RAFT_ROOM_RESERVED : RAFT_ROOM_FREE;
}

/* Rule 15: the core hands over to a voter with more room, and says no to puts when there is none. */
static void tell_room(struct node *node) {
    enum raft_room room = room_of(node);
    if (room == node->room) {
        return;
    }
    if (room == RAFT_ROOM_RESERVED) {
        trace_line(&node->trace, TRACE_WARN, "disk-short-of-room",
                   "no further segment can be made: what is left of the log is for deletes");
    } else if (room == RAFT_ROOM_FREE && node->room == RAFT_ROOM_RESERVED) {
        trace_line(&node->trace, TRACE_INFO, "disk-has-room", "the next segment is made");
    }
    node->room = room;
    struct raft_event event = {.kind = RAFT_SPACE, .space = {.room = room}};
    node_step(node, &event);
}

/* A full disk changed nothing: the same job is tried again until there is room (rule 15). */
static void hold_full(struct node *node, struct log_job *job) {
    if (!node->disk_full) {
        node->disk_full = true;
        node_settle(node);
        trace_line(&node->trace, TRACE_ERROR, "disk-full", "%s", job->why.text);
    }
    job->retry_first = list_empty(&node->full_jobs);
    list_push_back(&node->full_jobs, &job->job.link);
    node->full_retry_ns = node_now(node) + FULL_RETRY_MS * MS_NS;
    tell_room(node);
}

static void space_again(struct node *node) {
    node->disk_full = false;
    trace_line(&node->trace, TRACE_INFO, "disk-has-room", "writes go on");
    tell_room(node);
}

/* Before the write counts as durable: what did not hold is still a gap. */
static void tell_failed_fills(struct node *node, const struct log_job *job) {
    for (const struct list_link *at = job->fills.next; at != &job->fills; at = at->next) {
        const struct write_fill *fill = LIST_ITEM(at, struct write_fill, link);
        if (fill->failed) {
            struct log_gap gap = {.first = fill->entries[0].index,
                                  .last = fill->entries[fill->count - 1].index};
            node_not_filled(node, &gap, &job->why);
        }
    }
}

static void tell_fills(struct node *node, const struct log_job *job) {
    uint64_t filled = 0, own = 0;
    for (const struct list_link *at = job->fills.next; at != &job->fills; at = at->next) {
        const struct write_fill *fill = LIST_ITEM(at, struct write_fill, link);
        filled += fill->failed ? 0 : fill->count;
        own += fill->failed || !fill->own ? 0 : fill->count;
    }
    if (filled > 0) {
        node_repaired(node, filled, own);
    }
    if (!list_empty(&job->fills)) {
        node_repair_compare(node);
    }
}

static void write_done(struct node *node, struct log_job *job) {
    node->jobs_in_flight--;
    if (!is_transient(job->rc)) {
        ASSERT(job->bytes <= node->unwritten_bytes);
        node->unwritten_bytes -= job->bytes;
    }
    if (is_transient(job->rc) && !node->closing) {
        hold_full(node, job);
        return;
    }
    if (job->rc != 0) {
        node_log_failed(node, job->rc, &job->why);
    } else {
        if (node->disk_full) {
            space_again(node);
        }
        tell_failed_fills(node, job);
        struct raft_event event = {.kind = RAFT_PERSISTED, .persisted = {.write_no = job->no}};
        node_step(node, &event);
        tell_fills(node, job);
    }
    job_free(job);
}

static void job_done(struct loop_job *base) {
    struct log_job *job = LIST_ITEM(base, struct log_job, job);
    struct node *node = job->node;
    node->jobs_outstanding--;
    node->turn_wanted = true;
    if (job->kind == JOB_WRITE) {
        write_done(node, job);
        return;
    }
    if (job->kind == JOB_RESTART) {
        node->jobs_in_flight--;
        node_log_restarted(node, job->rc, &job->why);
    } else if (job->kind == JOB_SPARE) {
        node->spare_running = false;
        node->no_spare = job->rc != 0;
        node->room_refused = node->room_refused && node->no_spare;
        if (job->rc != 0) {
            /* No harm yet: the log thread will make one itself, or report the full disk. */
            trace_line(&node->trace, TRACE_WARN, "no-spare-segment", "%s", job->why.text);
            node->spare_retry_ns = node_now(node) + 1000 * MS_NS;
            node->retention_next_ns = 0; /* model log: it may make room */
        }
    } else if (job->rc != 0 && !is_transient(job->rc)) {
        node_log_failed(node, job->rc, &job->why);
    }
    job_free(job);
}

static struct log_job *job_new(struct node *node, enum log_job_kind kind) {
    struct log_job *job = mem_calloc(1, sizeof(*job));
    if (job != NULL) {
        job->node = node;
        job->kind = kind;
        list_init(&job->fills);
        job->job.run = job_run;
        job->job.done = job_done;
    }
    return job;
}

static void job_submit(struct node *node, enum loop_queue queue, struct log_job *job) {
    node->jobs_outstanding++;
    loop_submit(node->world.loop, queue, &job->job);
}

static void count_batch(struct node *node, uint64_t first, uint64_t last) {
    for (uint64_t index = first; index != 0 && index <= last; index++) {
        uint64_t bytes = blob_slice(node_entry(node, index)->payload).size + NODE_RECORD_OVERHEAD;
        node->batch.bytes += bytes;
        node->unwritten_bytes += bytes;
    }
}

void node_write_add(struct node *node, const struct raft_write *write) {
    struct write_batch *batch = &node->batch;
    batch->no = write->no;
    if (write->save_vote) {
        batch->save_vote = true;
        batch->vote = (struct log_vote){
            .term = write->term, .voted_for = write->voted_for, .promised_ms = write->promised_ms};
    }
    if (write->cut_from != 0) {
        /* What the log thread was not given yet is cut by not giving it. */
        if (write->cut_from < node->given_next) {
            if (batch->cut_from == 0 || write->cut_from < batch->cut_from) {
                batch->cut_from = write->cut_from;
                batch->cut_prev_term = write->cut_prev_term;
            }
            node->given_next = write->cut_from;
        }
        if (batch->last >= write->cut_from) {
            batch->last = write->cut_from - 1;
        }
        if (batch->first > batch->last) {
            batch->first = batch->last = 0;
        }
        node->unwritten_bytes -= batch->bytes; /* the window has forgotten what was cut: anew */
        batch->bytes = 0;
        count_batch(node, batch->first, batch->last);
    }
    if (write->last >= write->first && write->first != 0) {
        if (batch->first == 0) {
            batch->first = write->first;
        }
        batch->last = write->last;
        ASSERT(batch->first == node->given_next);
        count_batch(node, write->first, write->last);
    }
}

int node_write_fill(struct node *node, struct entry *entries, size_t count, bool own) {
    struct write_fill *fill = mem_alloc(sizeof(*fill) + count * sizeof(*entries));
    if (fill == NULL) {
        return LKV_ENOMEM;
    }
    fill->count = count;
    fill->own = own;
    fill->failed = false;
    memcpy(fill->entries, entries, count * sizeof(*entries));
    for (size_t i = 0; i < count; i++) {
        entries[i].payload = NULL; /* the fill's now */
    }
    list_push_back(&node->batch.fills, &fill->link);
    return 0;
}

/* Fills the job with references to the batch's entries. */
static int job_fill(struct node *node, struct log_job *job) {
    struct write_batch *batch = &node->batch;
    size_t count = batch->first != 0 ? (size_t)(batch->last - batch->first + 1) : 0;
    job->no = batch->no;
    job->write.save_vote = batch->save_vote;
    job->write.vote = batch->vote;
    job->write.cut_from = batch->cut_from;
    job->write.cut_prev_term = batch->cut_prev_term;
    fills_move(&batch->fills, &job->fills);
    if (count == 0) {
        return 0;
    }
    job->entries = mem_alloc(count * sizeof(*job->entries));
    if (job->entries == NULL) {
        return LKV_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = node_entry(node, batch->first + i);
        ASSERT(entry != NULL);
        job->entries[i] = *entry;
        (void)blob_ref(entry->payload);
    }
    job->bytes = batch->bytes;
    job->write.entries = job->entries;
    job->write.count = count;
    return 0;
}

void node_write_flush(struct node *node) {
    if (node->batch.no == 0 || node->jobs_in_flight >= LOG_JOBS_IN_FLIGHT || node->disk_full ||
        node->log_failed) {
        return;
    }
    struct log_job *job = job_new(node, JOB_WRITE);
    if (job == NULL || job_fill(node, job) != 0) {
        if (job != NULL) {
            job_free(job);
        }
        node_stop(node, LKV_ENOMEM, "no memory for a log write");
        return;
    }
    if (node->batch.last != 0) {
        node->given_next = node->batch.last + 1;
    }
    node->batch = (struct write_batch){0};
    list_init(&node->batch.fills);
    node->jobs_in_flight++;
    node->last_write_ns = node_now(node);
    node->mark_due = true;
    job_submit(node, LOOP_LOG, job);
}

static void retry_full(struct node *node, uint64_t now_ns) {
    if (list_empty(&node->full_jobs) || node->jobs_in_flight > 0 || now_ns < node->full_retry_ns) {
        return;
    }
    struct list_link *link;
    while ((link = list_pop_front(&node->full_jobs)) != NULL) {
        struct log_job *job = LIST_ITEM(link, struct log_job, job.link);
        job->rc = 0;
        node->jobs_in_flight++;
        job_submit(node, LOOP_LOG, job);
    }
}

static void write_idle_mark(struct node *node, uint64_t now_ns) {
    if (!node->mark_due || node->jobs_in_flight > 0 || node->log_failed ||
        now_ns < node->last_write_ns + MARK_IDLE_MS * MS_NS) {
        return;
    }
    struct log_job *job = job_new(node, JOB_MARK);
    if (job != NULL) {
        node->mark_due = false;
        job_submit(node, LOOP_LOG, job);
    }
}

static void prepare_spare(struct node *node, uint64_t now_ns) {
    if (node->spare_running || node->log_failed || now_ns < node->spare_retry_ns) {
        return;
    }
    if (!log_wants_spare(node->log)) { /* the log thread has made or kept one by itself */
        node->no_spare = node->room_refused = false;
        return;
    }
    struct log_job *job = job_new(node, JOB_SPARE);
    if (job != NULL) {
        node->spare_running = true;
        job_submit(node, LOOP_BULK, job);
    }
}

void node_write_timer(struct node *node, uint64_t now_ns) {
    if (!node->running || node->closing) {
        return;
    }
    retry_full(node, now_ns);
    write_idle_mark(node, now_ns);
    prepare_spare(node, now_ns);
    tell_room(node);
}

uint64_t node_write_deadline(const struct node *node) {
    if (!node->running || node->closing) {
        return UINT64_MAX;
    }
    uint64_t at = UINT64_MAX;
    if (!list_empty(&node->full_jobs)) {
        at = node->full_retry_ns;
    }
    if (node->mark_due && node->jobs_in_flight == 0 && !node->log_failed) {
        uint64_t mark_ns = node->last_write_ns + MARK_IDLE_MS * MS_NS;
        at = mark_ns < at ? mark_ns : at;
    }
    if (node->no_spare && !node->spare_running && !node->log_failed) {
        at = node->spare_retry_ns < at ? node->spare_retry_ns : at;
    }
    return at;
}

int node_restart_log(struct node *node, uint64_t index, uint64_t term) {
    struct log_job *job = job_new(node, JOB_RESTART);
    if (job == NULL) {
        return LKV_ENOMEM;
    }
    job->restart_index = index;
    job->restart_term = term;
    node->jobs_in_flight++;
    node->last_write_ns = node_now(node);
    job_submit(node, LOOP_LOG, job);
    return 0;
}

void node_write_drop_full(struct node *node) {
    fills_free(&node->batch.fills);
    struct list_link *link;
    while ((link = list_pop_front(&node->full_jobs)) != NULL) {
        job_free(LIST_ITEM(link, struct log_job, job.link));
    }
}
