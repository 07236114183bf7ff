/* Reads of the log itself: what the window holds is answered at once, older records come from disk on
 * the bulk thread, and who asks for records that are not there yet may wait for them.
 *
 *   from <= visible ── in the window ──> answer
 *          |      └─── on disk ──(bulk thread)──> answer
 *          └ beyond: empty answer, or log_waits until visible moves
 *
 * Nothing above `visible` is ever shown: that is committed (L21) and applied, and no append in a session
 * is seen before all of its records are there. The cluster's own entries, and what is left of an append
 * that lost its rest, are passed over; a read that finds only such says where to go on. */
#include "lib/node_repair.h"

#include "base/mem.h"

enum { PAGE_BYTES = 1024 * 1024, PAGE_RECORDS = 4096 };

struct log_read_job {
    struct loop_job job;
    struct node *node;
    struct list_link link;   /* of node->log_reads */
    struct request *request; /* NULL: its time was over */
    atomic_bool cancelled;   /* nobody wants it any more */
    uint64_t from, to;
    size_t bytes_max;
    struct entry entries[PAGE_RECORDS];
    size_t count;
    int rc;
    bool noted; /* damage that was not known before */
    struct log_gap gap;
    struct reason why;
};

/* A log that goes on behind an image begins with what can be seen of it, which may be nothing yet. */
static uint64_t visible(const struct node *node) {
    uint64_t before = node_log_first(node) - 1;
    return node->ledger.visible > before ? node->ledger.visible : before;
}

static void set_span(const struct node *node, struct lkv_msg *reply) {
    uint64_t first = node_log_first(node);
    msg_set_u64(reply, "first", first);
    msg_set_u64(reply, "commit", visible(node));
}

void node_log_span(struct node *node, struct request *request) {
    set_span(node, request->reply);
}

static void refuse_truncated(struct node *node, struct request *request) {
    uint64_t first = node_log_first(node);
    set_span(node, request->reply);
    request_fail(request, LKV_ETRUNCATED, "index %llu is gone, %s keeps the log from %llu on",
                 (unsigned long long)request->from, node->options.id, (unsigned long long)first);
}

static void finish_page(struct node *node, struct request *request, uint64_t next) {
    msg_set_u64(request->reply, "next", next);
    set_span(node, request->reply);
    request_finish(request);
}

static size_t bytes_wanted(const struct request *request) {
    return request->bytes_max > 0 && request->bytes_max < PAGE_BYTES ? request->bytes_max
                                                                     : PAGE_BYTES;
}

/* One page under construction. */
struct page {
    struct lkv_msg *reply;
    size_t bytes, bytes_max, capacity;
    uint64_t next;
    const struct entry *entries; /* borrowed; what it is made of, or NULL: the window */
    size_t count;
};

/* 0: not known, since it cannot be read. */
static uint64_t term_at(const struct node *node, const struct page *page, uint64_t index) {
    if (page->count > 0 && index - page->entries[0].index < page->count) {
        return page->entries[index - page->entries[0].index].term;
    }
    const struct entry *entry = node_entry(node, index);
    uint64_t term = entry != NULL ? entry->term : raft_term_at(node->raft, index);
    /* The core knows no terms below a received image, behind which the log was kept; the log does. */
    return term != 0 ? term : log_term_at(node->log, index);
}

enum sight { SIGHT_RECORD, SIGHT_NOTHING, SIGHT_UNKNOWN };

/* The records of one append in a session are of one term, and side by side: of one that lost its rest,
 * where its last record should be, or at the end of what may be seen, stands an entry of another term. If
 * what may be seen ends within the append, a program has given an image from there: it has seen all of it. */
static enum sight look_at_once(const struct node *node, const struct page *page,
                               const struct entry *entry) {
    struct once_header header;
    if (once_decode(blob_slice(entry->payload), &header) != 0) {
        return SIGHT_NOTHING;
    }
    uint64_t last = entry->index - header.position + header.count - 1;
    if (last == entry->index) {
        return SIGHT_RECORD;
    }
    uint64_t term = term_at(node, page, last < visible(node) ? last : visible(node));
    return term == 0 ? SIGHT_UNKNOWN : term == entry->term ? SIGHT_RECORD : SIGHT_NOTHING;
}

static enum sight look_at(const struct node *node, const struct page *page,
                          const struct entry *entry) {
    if (entry->type == ENTRY_ONCE) {
        return look_at_once(node, page, entry);
    }
    return entry->type == ENTRY_COMMAND ? SIGHT_RECORD : SIGHT_NOTHING;
}

/* False: it ends before this entry. */
static bool take(const struct node *node, struct page *page, const struct entry *entry) {
    size_t count = page->reply->record_count;
    size_t skip =
        entry->type == ENTRY_ONCE ? ONCE_HEADER_SIZE : 0; /* of what is not the caller's */
    enum sight sight = look_at(node, page, entry);
    if (sight == SIGHT_RECORD) {
        size_t size = blob_slice(entry->payload).size - skip;
        if (count == page->capacity || (count > 0 && page->bytes + size > page->bytes_max)) {
            return false;
        }
        msg_records_add(page->reply, entry, skip);
        page->bytes += size;
    }
    page->next = sight == SIGHT_UNKNOWN ? page->next : entry->index + 1;
    return sight != SIGHT_UNKNOWN;
}

static int begin_page(struct node *node, struct request *request, uint64_t entries,
                      struct page *page) {
    *page = (struct page){.reply = request->reply,
                          .bytes_max = bytes_wanted(request),
                          .capacity = entries < PAGE_RECORDS ? (size_t)entries : PAGE_RECORDS,
                          .next = request->from};
    return msg_records_reserve(request->reply, page->capacity, node->extents);
}

static void fail_no_memory(struct request *request) {
    msg_clear(request->reply);
    request_fail(request, LKV_ENOMEM, "no memory for a page of records");
}

static void answer_from_window(struct node *node, struct request *request) {
    struct page page;
    if (begin_page(node, request, visible(node) + 1 - request->from, &page) != 0) {
        fail_no_memory(request);
        return;
    }
    const struct entry *entry;
    while (page.next <= visible(node) && (entry = node_entry(node, page.next)) != NULL &&
           take(node, &page, entry)) {
    }
    finish_page(node, request, page.next); /* its end is in the window too, so it has got on */
}

/* ------------------------------------------------------------------ from disk */

static void read_run(struct loop_job *base) {
    struct log_read_job *job = LIST_ITEM(base, struct log_read_job, job);
    job->count = 0;
    job->noted = false;
    if (atomic_load(&job->cancelled) || atomic_load(&job->node->image_cancel)) { /* closing */
        job->rc = reason_set(&job->why, LKV_ECLOSED, "the node is closing");
        return;
    }
    job->rc = log_read(job->node->log, job->from, job->to, job->bytes_max, job->entries,
                       PAGE_RECORDS, &job->count, &job->why);
    job->noted = node_is_damage(job->rc) && node_note_damage(job->node, job->from, &job->gap);
}

static void answer_from_disk(struct log_read_job *job) {
    struct request *request = job->request;
    struct node *node = job->node;
    struct page page;
    if (begin_page(node, request, job->count, &page) != 0) {
        fail_no_memory(request);
        return;
    }
    page.entries = job->entries;
    page.count = job->count;
    for (size_t i = 0; i < job->count && take(node, &page, &job->entries[i]); i++) {
    }
    if (page.next == request->from && !node->closing) {
        msg_clear(
            request
                ->reply); /* where its append ends cannot be read: as if it could not be itself */
        node_repair_wait(node, request);
        return;
    }
    finish_page(node, request, page.next);
}

static void answer_read(struct log_read_job *job) {
    struct node *node = job->node;
    /* What went while it was read is no longer known well enough to show it: see look_at_once. */
    if (job->rc == LKV_ETRUNCATED || job->from < node_log_first(node)) {
        refuse_truncated(node, job->request);
    } else if (node_is_damage(job->rc) && !node->closing) {
        node_repair_wait(node, job->request);
    } else if (job->rc != 0) {
        if (job->rc != LKV_ECLOSED) {
            trace_line(&node->trace, TRACE_ERROR, "log-read-failed", "%s", job->why.text);
        }
        request_fail(job->request, job->rc, "%s", job->why.text);
    } else {
        answer_from_disk(job);
    }
}

static void read_done(struct loop_job *base) {
    struct log_read_job *job = LIST_ITEM(base, struct log_read_job, job);
    struct node *node = job->node;
    node->jobs_outstanding--;
    node->turn_wanted = true;
    list_remove(&job->link);
    if (job->noted && !node->closing) {
        node_log_damaged(node, &job->gap, &job->why);
    }
    if (job->request != NULL) {
        answer_read(job);
    }
    for (size_t i = 0; i < job->count; i++) {
        blob_unref(job->entries[i].payload);
    }
    mem_free(job);
}

/* A disk that hangs keeps nobody waiting. */
static uint64_t expire_reads(struct node *node, uint64_t now_ns) {
    uint64_t earliest = UINT64_MAX;
    for (struct list_link *at = node->log_reads.next; at != &node->log_reads; at = at->next) {
        struct log_read_job *job = LIST_ITEM(at, struct log_read_job, link);
        struct request *request = job->request;
        if (request != NULL && request->deadline_ns <= now_ns) {
            job->request = NULL;
            atomic_store(&job->cancelled, true);
            request_fail(request, LKV_ETIMEOUT, "the disk did not give entry %llu in time",
                         (unsigned long long)job->from);
        } else if (request != NULL && request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    return earliest;
}

static void read_from_disk(struct node *node, struct request *request) {
    struct log_read_job *job = mem_alloc(sizeof(*job));
    if (job == NULL) {
        fail_no_memory(request);
        return;
    }
    job->node = node;
    job->request = request;
    job->from = request->from;
    job->to = visible(node);
    job->bytes_max = bytes_wanted(request);
    atomic_init(&job->cancelled, false);
    job->count = 0;
    job->why.text[0] = '\0';
    job->job = (struct loop_job){.run = read_run, .done = read_done};
    node->jobs_outstanding++;
    list_init(&job->link);
    list_push_back(&node->log_reads, &job->link);
    if (request->deadline_ns < node->next_expiry_ns) {
        node->next_expiry_ns = request->deadline_ns;
    }
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
}

/* ------------------------------------------------------------------ asked */

/* A record at `from` is visible. */
static void serve(struct node *node, struct request *request) {
    if (request->from < node_log_first(node)) {
        refuse_truncated(node, request);
    } else if (node_entry(node, request->from) != NULL) {
        answer_from_window(node, request);
    } else {
        read_from_disk(node, request);
    }
}

void node_log_read(struct node *node, struct request *request) {
    if (request->from == 0) {
        request->from = node_log_first(node);
    }
    if (request->from <= visible(node)) {
        serve(node, request);
    } else if (request->wait) {
        list_push_back(&node->log_waits, &request->link);
        if (request->deadline_ns < node->next_expiry_ns) {
            node->next_expiry_ns = request->deadline_ns;
        }
    } else if (request->from < node_log_first(node)) {
        refuse_truncated(node, request);
    } else {
        finish_page(node, request, request->from);
    }
}

void node_log_serve(struct node *node) {
    if (node->log_waited == visible(node)) {
        return;
    }
    node->log_waited = visible(node);
    struct list_link *next;
    for (struct list_link *at = node->log_waits.next; at != &node->log_waits; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->from <= visible(node)) {
            list_remove(at);
            serve(node, request);
        }
    }
}

uint64_t node_log_expire(struct node *node, uint64_t now_ns) {
    uint64_t earliest = expire_reads(node, now_ns);
    struct list_link *next;
    for (struct list_link *at = node->log_waits.next; at != &node->log_waits; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->deadline_ns <= now_ns) {
            list_remove(at);
            finish_page(node, request, request->from);
        } else if (request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    return earliest;
}

void node_log_fail_all(struct node *node, int rc, const char *text) {
    struct list_link *link;
    while ((link = list_pop_front(&node->log_waits)) != NULL) {
        request_fail(LIST_ITEM(link, struct request, link), rc, "%s", text);
    }
}
