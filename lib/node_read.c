/* Reads. A linearizable one waits for a read index (all that came in one turn share one question, and
 * the core lets questions share quorum rounds: rules 29, 30), then for the state to reach it. */
#include "lib/node_repair.h"

#include "base/mem.h"

enum {
    STALLED_MS = 500
}; /* a read index that this replica does not reach: ask the leader instead */
enum {
    PAGE_BYTES = 1024 * 1024,
    PAGE_ITEMS = 65536,
    SORTED_ITEMS = 4096,        /* of another order than that of keys */
    PAGE_KEYS = 2 * PAGE_ITEMS, /* looked at for one on the loop: deleted ones are passed, too */
    COUNT_AT_ONCE = 20000
};

/* The reads of one turn, behind one read index; those for which a lease will do have one of their own. */
struct read_batch {
    struct list_link link;
    uint64_t context;
    uint64_t asked_ns; /* the core, at the earliest: everything acknowledged by then is covered */
    uint64_t index;    /* UINT64_MAX until the core has answered */
    uint64_t answered_ns; /* when it did */
    struct list_link requests;
};

void node_read_add(struct node *node, struct request *request) {
    bool leased = request->how == LKV_LEASED;
    list_push_back(leased ? &node->reads_leased : &node->reads_new, &request->link);
    node->turn_wanted = true;
    if (request->deadline_ns < node->next_expiry_ns) {
        node->next_expiry_ns = request->deadline_ns;
    }
}

static void move_all(struct list_link *from, struct list_link *to) {
    struct list_link *link;
    while ((link = list_pop_front(from)) != NULL) {
        list_push_back(to, link);
    }
}

static void fail_list(struct list_link *requests, int rc, const char *text) {
    struct list_link *link;
    while ((link = list_pop_front(requests)) != NULL) {
        request_fail(LIST_ITEM(link, struct request, link), rc, "%s", text);
    }
}

static void flush(struct node *node, struct list_link *requests, bool leased) {
    if (list_empty(requests)) {
        return;
    }
    struct read_batch *batch = mem_calloc(1, sizeof(*batch));
    if (batch == NULL) {
        fail_list(requests, LKV_ENOMEM, "no memory for a read");
        return;
    }
    batch->context = ++node->next_read_context;
    batch->asked_ns = node_now(node);
    batch->index = UINT64_MAX;
    list_init(&batch->requests);
    move_all(requests, &batch->requests);
    list_push_back(&node->read_batches, &batch->link);
    struct raft_event event = {.kind = RAFT_READ,
                               .read = {.context = batch->context, .leased = leased}};
    node_step(node, &event);
}

void node_read_flush(struct node *node) {
    flush(node, &node->reads_new, false);
    flush(node, &node->reads_leased,
          true); /* rule 30: the core reads the clock now, they have come before */
}

void node_read_done(struct node *node, const struct raft_read_result *result) {
    for (struct list_link *at = node->read_batches.next; at != &node->read_batches; at = at->next) {
        struct read_batch *batch = LIST_ITEM(at, struct read_batch, link);
        if (batch->context != result->context) {
            continue;
        }
        if (result->rc == 0) {
            batch->index = result->index;
            batch->answered_ns = node_now(node);
            node->turn_wanted = true;
            return;
        }
        struct list_link *link;
        while ((link = list_pop_front(&batch->requests)) != NULL) {
            struct request *request = LIST_ITEM(link, struct request, link);
            if (result->rc == LKV_EBUSY && (request->forwarded || request->no_park)) {
                request_fail(request, LKV_EBUSY, "too many reads wait for a quorum");
            } else {
                node_wait_for_leader(node, request);
            }
        }
        list_remove(at);
        mem_free(batch);
        return;
    }
}

/* A replica whose disk hangs applies nothing (rule 12); its clients need not wait for it. */
static bool is_stalled(const struct node *node, const struct read_batch *batch) {
    return batch->index != UINT64_MAX && node->options.forward && node->role != RAFT_LEADER &&
           node->leader != RAFT_NOBODY && node_now(node) > batch->answered_ns + STALLED_MS * MS_NS;
}

void node_read_serve(struct node *node) {
    struct list_link *next;
    for (struct list_link *at = node->read_batches.next; at != &node->read_batches; at = next) {
        next = at->next;
        struct read_batch *batch = LIST_ITEM(at, struct read_batch, link);
        bool reached = batch->index <= node->applied; /* never UINT64_MAX */
        if (!reached && !is_stalled(node, batch)) {
            continue;
        }
        struct list_link *link;
        struct list_link here;
        list_init(&here);
        if (reached && batch->asked_ns > node->fresh_ns) {
            node->fresh_ns = batch->asked_ns;
        }
        while ((link = list_pop_front(&batch->requests)) != NULL) {
            struct request *request = LIST_ITEM(link, struct request, link);
            if (reached) {
                node_answer_read(node, request);
            } else if (request->op == REQUEST_VIEW_OPEN) {
                list_push_back(&here, link); /* its pages are asked for here, too */
            } else {
                node_forward(node, request);
            }
        }
        if (list_empty(&here)) {
            list_remove(at);
            mem_free(batch);
        } else {
            move_all(&here, &batch->requests);
        }
    }
}

/* That revision cannot be read here: which ones can (C7). */
void node_read_not_kept(struct lkv_msg *reply, int rc, uint64_t revision,
                        const struct kv_stamp *stamp) {
    if (rc != LKV_ECOMPACTED && rc != LKV_EFUTURE) {
        return;
    }
    struct reason why = {{0}};
    msg_set_rc(reply, kv_kept_reason(rc, revision, stamp, &why), "%s", why.text);
    msg_set_u64(reply, "index", stamp->index);
    msg_set_u64(reply, "rev", stamp->revision);
    msg_set_u64(reply, "kept_from",
                stamp->kept_from < stamp->revision ? stamp->kept_from : stamp->revision);
}

/* A revision that the state has given up may be pinned by a view, which the loop's thread knows. */
static int get(struct node *node, struct slice key, uint64_t revision, bool on_loop,
               struct kv_item *out, struct kv_stamp *stamp) {
    if (revision == 0) {
        return kv_get(node->kv, key, out, stamp);
    }
    int rc = kv_get_at(node->kv, key, revision, out, stamp);
    bool looks = rc == LKV_ECOMPACTED && on_loop;
    struct node_view *view = looks ? node_view_use(node, revision) : NULL;
    if (view != NULL) {
        rc = node_view_get(view, key, out, stamp);
        node_view_release(node, view);
    }
    return rc;
}

static void answer_get(struct node *node, struct request *request, bool on_loop) {
    struct lkv_msg *reply = request->reply;
    struct kv_item *item = mem_calloc(1, sizeof(*item));
    if (item == NULL) {
        msg_set_rc(reply, LKV_ENOMEM, NULL);
        return;
    }
    uint64_t rev = request->select.rev;
    struct kv_stamp stamp;
    int rc = get(node, request->key, rev, on_loop, item, &stamp);
    if (rc == 0) {
        reply->range.items = item;
        reply->range.count = 1;
    } else {
        mem_free(item);
        msg_set_rc(reply, rc, NULL);
    }
    if (rc == 0 || rc == LKV_ENOTFOUND) {
        msg_set_u64(reply, "rev", rev != 0 ? rev : stamp.revision);
        msg_set_u64(reply, "index", stamp.index);
    } else {
        node_read_not_kept(reply, rc, rev, &stamp);
    }
}

_Static_assert((int)LKV_BY_KEY == (int)KV_BY_KEY && (int)LKV_BY_VERSION == (int)KV_BY_VERSION &&
                   (int)LKV_BY_CREATE_REV == (int)KV_BY_CREATE_REV &&
                   (int)LKV_BY_MOD_REV == (int)KV_BY_MOD_REV &&
                   (int)LKV_BY_VALUE == (int)KV_BY_VALUE,
               "orders are the state machine's");

static struct kv_query query_of(const struct node *node, const struct request *request) {
    const struct read_select *select = &request->select;
    const int flags = request->range_flags;
    struct kv_query query = {.from = request->key,
                             .to = request->end,
                             .revision = select->rev,
                             .order = (enum kv_order)select->order,
                             .descending = (flags & LKV_DESCENDING) != 0,
                             .keys_only = (flags & LKV_KEYS_ONLY) != 0,
                             .count_only = (flags & LKV_COUNT_ONLY) != 0,
                             .with_total = (flags & LKV_TOTAL) != 0,
                             .mod_rev_min = select->mod_rev_min,
                             .mod_rev_max = select->mod_rev_max,
                             .create_rev_min = select->create_rev_min,
                             .create_rev_max = select->create_rev_max,
                             .limit = request->limit,
                             .bytes_max = PAGE_BYTES,
                             .cancel = &node->image_cancel};
    /* A page of empty values is bounded too; sorting makes one dearer. */
    const size_t items_max = select->order == LKV_BY_KEY ? PAGE_ITEMS : SORTED_ITEMS;
    if (query.limit == 0 || query.limit > items_max) {
        query.limit = items_max;
    }
    return query;
}

/* False: there is nothing on the page before so many keys were passed that it is for another thread. */
static bool fill_range(struct node *node, struct request *request, struct node_view *view,
                       size_t keys_max) {
    struct kv_query query = query_of(node, request);
    struct lkv_msg *reply = request->reply;
    query.keys_max = keys_max;
    int rc = view != NULL ? node_view_range(view, &query, &reply->range)
                          : kv_range(node->kv, &query, &reply->range);
    if (rc == LKV_EBUSY) {
        return false;
    }
    if (rc == LKV_ECANCELED) { /* a million keys must not hold close up */
        msg_set_rc(reply, LKV_ECLOSED, "%s was closed", node->options.id);
        return true;
    }
    if (rc != 0) {
        msg_set_rc(reply, rc, NULL);
        node_read_not_kept(reply, rc, query.revision, &reply->range.stamp);
        return true;
    }
    msg_set_u64(reply, "rev", query.revision != 0 ? query.revision : reply->range.stamp.revision);
    msg_set_u64(reply, "index", reply->range.stamp.index);
    msg_set_u64(reply, "more", reply->range.more);
    msg_set_u64(reply, "total", reply->range.total);
    return true;
}

/* Rule 19: what is there is only read once it is certain who the members are; until then the state is
 * empty, which must not pass for an answer. */
static bool not_loaded(struct node *node, struct request *request) {
    if (!node->growing) {
        return false;
    }
    msg_set_rc(request->reply, LKV_ENOLEADER,
               "%s waits for the nodes that it grows with; its data is not loaded yet",
               node->options.id);
    return true;
}

/* False: as fill_range. */
static bool fill(struct node *node, struct request *request) {
    if (not_loaded(node, request)) {
        return true;
    }
    if (request->op == REQUEST_LOG_SPAN) {
        node_log_span(node, request);
    } else if (request->op == REQUEST_VIEW_OPEN) {
        node_view_open(node, request);
    } else if (request->op == REQUEST_GET) {
        answer_get(node, request, true);
    } else {
        struct node_view *view = node_view_use(node, request->select.rev);
        bool filled = fill_range(node, request, view, PAGE_KEYS);
        node_view_release(node, view);
        return filled;
    }
    return true;
}

/* ------------------------------------------------------------------ what takes long */

struct count_job {
    struct loop_job job;
    struct node *node;
    struct request *request;
    struct node_view *view; /* in use; NULL: none */
};

/* Of the state that it finds, which the stamp in its answer names: never older than when it was given
 * to the queue, so a linearizable read is one here too. */
static void count_run(struct loop_job *base) {
    struct count_job *job = LIST_ITEM(base, struct count_job, job);
    (void)fill_range(job->node, job->request, job->view, 0);
}

static void count_done(struct loop_job *base) {
    struct count_job *job = LIST_ITEM(base, struct count_job, job);
    job->node->jobs_outstanding--;
    job->node->turn_wanted = true;
    node_view_release(job->node, job->view);
    request_finish(job->request);
    mem_free(job);
}

static void count_keys(struct node *node, struct request *request) {
    struct count_job *job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        request_fail(request, LKV_ENOMEM, "no memory to count keys");
        return;
    }
    *job = (struct count_job){.node = node,
                              .request = request,
                              .view = node_view_use(node, request->select.rev),
                              .job = {.run = count_run, .done = count_done}};
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
}

/* It passes every key of the range; no heartbeat may wait for that. Few keys need not wait behind an image
 * that is being written. */
static bool counts_many(struct node *node, const struct request *request) {
    struct kv_stats stats;
    bool counts = (request->range_flags & (int)(LKV_COUNT_ONLY | LKV_TOTAL)) != 0;
    if (request->op != REQUEST_RANGE || !(counts || select_picks(&request->select))) {
        return false;
    }
    kv_stats(node->kv, &stats);
    return stats.versions > COUNT_AT_ONCE; /* with tombstones, which are passed too */
}

void node_answer_read(struct node *node, struct request *request) {
    if (request->op == REQUEST_SESSION_KEEP) {
        node_session_kept(node, request);
        return;
    }
    if (request_is_of_lease(request)) {
        node_lease_answer(node, request);
        return;
    }
    if (counts_many(node, request) || !fill(node, request)) {
        count_keys(node, request);
    } else {
        request_finish(request);
    }
}

/* The last read index that this state has reached was asked for not longer ago. Whether a leader leads
 * since then does not matter: what it has acknowledged since is newer than the bound. */
bool node_is_fresh(const struct node *node) {
    return node->fresh_ns != 0 &&
           node_now(node) - node->fresh_ns <= node->options.bounded_ms * MS_NS;
}

bool node_reads_past(const struct node *node, const struct request *request) {
    struct kv_stamp stamp;
    if (request->select.rev == 0) {
        return false;
    }
    kv_stamp(node->kv, &stamp);
    return request->select.rev <= stamp.revision;
}

int node_get_local(struct lkv *handle, struct request *request) {
    struct node *node = (struct node *)handle;
    if (node->diverged) { /* rule 25 */
        msg_set_rc(request->reply, LKV_ESTOPPED,
                   "%s serves nothing: its state differs from that of a majority (see its status)",
                   node->options.id);
        return LKV_ESTOPPED;
    }
    if (!not_loaded(node, request)) {
        answer_get(node, request, false);
    }
    return request->reply->rc;
}

/* ------------------------------------------------------------------ on the caller's thread, with a lease */

void node_read_lease(struct node *node, uint64_t until_ns, uint64_t index) {
    atomic_store_explicit(&node->lease_index, index, memory_order_release);
    atomic_store_explicit(&node->lease_until_ns, until_ns, memory_order_release);
}

/* Rule 30, read from below: at the moment of the first line nobody else led, since the clock, read last, still
 * says so, however long this thread was kept waiting in between. So everything acknowledged before that moment
 * was known here to be committed, and the index, read after it, is not below that. The state that was read has
 * reached it. (In another order of the first two lines this node could lose its role and win it again between
 * them, with an index from before.) */
bool node_get_leased(struct lkv *handle, struct request *request) {
    struct node *node = (struct node *)handle;
    uint64_t until_ns = atomic_load_explicit(&node->lease_until_ns, memory_order_acquire);
    uint64_t committed = atomic_load_explicit(&node->lease_index, memory_order_acquire);
    if (until_ns == 0 || request->select.rev != 0 || node->diverged || node->growing) {
        return false;
    }
    answer_get(node, request, false);
    uint64_t index = 0;
    if (lkv_msg_u64(request->reply, "index", &index) && index >= committed &&
        node_now(node) < until_ns) {
        return true;
    }
    msg_clear(request->reply);
    return false;
}

int node_get_copy(struct lkv *handle, struct slice key, void *into, size_t capacity, size_t *size) {
    struct node *node = (struct node *)handle;
    if (node->growing) {
        return LKV_ENOLEADER;
    }
    if (node->diverged) {
        return LKV_ESTOPPED;
    }
    return kv_get_copy(node->kv, key, into, capacity, size);
}

static uint64_t expire_list(struct list_link *requests, uint64_t now_ns) {
    uint64_t earliest = UINT64_MAX;
    struct list_link *next;
    for (struct list_link *at = requests->next; at != requests; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->deadline_ns <= now_ns) {
            list_remove(at);
            request_fail(request, LKV_ETIMEOUT, "no quorum confirmed the read in time");
        } else if (request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    return earliest;
}

uint64_t node_read_expire(struct node *node, uint64_t now_ns) {
    uint64_t earliest = expire_list(&node->reads_new, now_ns);
    uint64_t leased_earliest = expire_list(&node->reads_leased, now_ns);
    earliest = leased_earliest < earliest ? leased_earliest : earliest;
    uint64_t log_earliest = node_log_expire(node, now_ns);
    earliest = log_earliest < earliest ? log_earliest : earliest;
    uint64_t view_earliest = node_view_expire(node, now_ns);
    earliest = view_earliest < earliest ? view_earliest : earliest;
    uint64_t repair_earliest = node_repair_expire(node, now_ns);
    earliest = repair_earliest < earliest ? repair_earliest : earliest;
    struct list_link *next;
    for (struct list_link *at = node->read_batches.next; at != &node->read_batches; at = next) {
        next = at->next;
        struct read_batch *batch = LIST_ITEM(at, struct read_batch, link);
        uint64_t here = expire_list(&batch->requests, now_ns);
        earliest = here < earliest ? here : earliest;
        if (list_empty(&batch->requests)) {
            list_remove(at);
            mem_free(batch);
        }
    }
    return earliest;
}

void node_read_fail_all(struct node *node, int rc, const char *text) {
    node_log_fail_all(node, rc, text);
    node_watch_fail_all(node, rc, text);
    node_repair_fail_all(node, rc, text);
    if (node->closing) {
        node_view_drop_all(node);
    }
    node_hold_fail_all(node, rc, text);
    node_lease_fail_all(node, rc, text);
    node_own_fail_all(node, rc, text);
    fail_list(&node->reads_new, rc, text);
    fail_list(&node->reads_leased, rc, text);
    struct list_link *link;
    while ((link = list_pop_front(&node->read_batches)) != NULL) {
        struct read_batch *batch = LIST_ITEM(link, struct read_batch, link);
        fail_list(&batch->requests, rc, text);
        mem_free(batch);
    }
}
