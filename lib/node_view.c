/* Views that clients have open here: revisions that compaction leaves readable for a while.
 *
 *   view_open ──> the read index is applied ──> pinned ──> reads of its revision ──> view_close, or its time
 *                                                                                    is over: unpinned
 *
 * A view is nothing but a pin. Reads name a revision, and whoever keeps it answers, by the state or by a view
 * (decision 0018): so a view that is gone loses nothing that is not compacted, and no answer can be of another
 * revision. */
#include "lib/node.h"

#include "base/mem.h"

struct node_view {
    struct list_link link; /* of the node's views */
    uint64_t id;
    uint64_t connection; /* that has opened it; 0: this handle */
    struct kv_pin *pin;  /* owned */
    uint64_t expires_ns;
    unsigned users; /* pages that are being read on another thread, and the list */
};

/* ------------------------------------------------------------------ letting go */

struct unpin_job {
    struct loop_job job;
    struct node *node;
    struct kv_pin *pin;
};

static void unpin_run(struct loop_job *base) {
    kv_pin_close(LIST_ITEM(base, struct unpin_job, job)->pin);
}

static void unpin_done(struct loop_job *base) {
    struct unpin_job *job = LIST_ITEM(base, struct unpin_job, job);
    job->node->jobs_outstanding--;
    job->node->turn_wanted = true;
    mem_free(job);
}

/* What only this pin has kept may be much: its memory comes back on the bulk thread. */
static void unpin(struct node *node, struct kv_pin *pin) {
    struct unpin_job *job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        kv_pin_close(pin);
        return;
    }
    *job =
        (struct unpin_job){.node = node, .pin = pin, .job = {.run = unpin_run, .done = unpin_done}};
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
}

void node_view_release(struct node *node, struct node_view *view) {
    if (view != NULL && --view->users == 0) {
        unpin(node, view->pin);
        mem_free(view);
    }
}

static void forget(struct node *node, struct node_view *view) {
    list_remove(&view->link);
    node->view_count--;
    node_view_release(node, view);
}

uint64_t node_view_expire(struct node *node, uint64_t now_ns) {
    uint64_t earliest = UINT64_MAX;
    struct list_link *next;
    for (struct list_link *at = node->views.next; at != &node->views; at = next) {
        next = at->next;
        struct node_view *view = LIST_ITEM(at, struct node_view, link);
        if (view->expires_ns <= now_ns) {
            trace_line(&node->trace, TRACE_DEBUG, "view-expired", "of revision %llu",
                       (unsigned long long)kv_pin_revision(view->pin));
            forget(node, view);
        } else if (view->expires_ns < earliest) {
            earliest = view->expires_ns;
        }
    }
    return earliest;
}

void node_view_drop_all(struct node *node) {
    while (!list_empty(&node->views)) {
        forget(node, LIST_ITEM(node->views.next, struct node_view, link));
    }
}

/* ------------------------------------------------------------------ by its id */

static struct node_view *find(struct node *node, uint64_t id) {
    for (struct list_link *at = node->views.next; at != &node->views; at = at->next) {
        struct node_view *view = LIST_ITEM(at, struct node_view, link);
        if (view->id == id) {
            return view;
        }
    }
    return NULL;
}

struct node_view *node_view_use(struct node *node, uint64_t revision) {
    if (revision == 0) {
        return NULL;
    }
    for (struct list_link *at = node->views.next; at != &node->views; at = at->next) {
        struct node_view *view = LIST_ITEM(at, struct node_view, link);
        if (kv_pin_revision(view->pin) == revision) {
            view->users++;
            return view;
        }
    }
    return NULL; /* perhaps the state keeps it */
}

int node_view_get(struct node_view *view, struct slice key, struct kv_item *out,
                  struct kv_stamp *stamp) {
    return kv_pin_get(view->pin, key, out, stamp);
}

int node_view_range(struct node_view *view, const struct kv_query *query, struct kv_range *out) {
    return kv_pin_range(view->pin, query, out);
}

/* ------------------------------------------------------------------ opening and closing */

/* So that one client leaves room for others; 0: it may have another one. One whose connection breaks begins anew, since
 * its views stay until their time is over. */
static int check_quota(const struct node *node, uint64_t connection, struct lkv_msg *reply) {
    size_t count = 0;
    for (const struct list_link *at = node->views.next; at != &node->views; at = at->next) {
        count += LIST_ITEM(at, struct node_view, link)->connection == connection;
    }
    if (node->view_count >= LKV_VIEWS_MAX) {
        msg_set_rc(reply, LKV_EBUSY, "%s has %zu views open, at most %d", node->options.id,
                   node->view_count, LKV_VIEWS_MAX);
        return LKV_EBUSY;
    }
    if (connection != 0 && count >= LKV_CONNECTION_VIEWS_MAX) {
        msg_set_rc(reply, LKV_EBUSY, "this connection has %zu views open at %s, at most %d", count,
                   node->options.id, LKV_CONNECTION_VIEWS_MAX);
        return LKV_EBUSY;
    }
    return 0;
}

static void add(struct node *node, struct node_view *view, uint64_t age_ms) {
    do {
        view->id = loop_random(node->world.loop);
    } while (view->id == 0 || find(node, view->id) != NULL);
    view->users = 1;
    view->expires_ns = node_now(node) + age_ms * MS_NS;
    list_push_back(&node->views, &view->link);
    node->view_count++;
    if (view->expires_ns < node->next_expiry_ns) {
        node->next_expiry_ns = view->expires_ns;
    }
}

void node_view_open(struct node *node, struct request *request) {
    struct lkv_msg *reply = request->reply;
    if (check_quota(node, request->connection, reply) != 0) {
        return;
    }
    struct node_view *view = mem_calloc(1, sizeof(*view));
    if (view == NULL) {
        msg_set_rc(reply, LKV_ENOMEM, NULL);
        return;
    }
    struct kv_stamp stamp;
    int rc = kv_pin_open(node->kv, request->select.rev, &view->pin, &stamp);
    if (rc != 0) {
        mem_free(view);
        msg_set_rc(reply, rc, NULL);
        node_read_not_kept(reply, rc, request->select.rev, &stamp);
        return;
    }
    view->connection = request->connection;
    add(node, view, request->view_age_ms);
    msg_set_u64(reply, "rev", kv_pin_revision(view->pin));
    msg_set_u64(reply, "view", view->id);
    msg_set_u64(reply, "index", stamp.index);
}

/* One that is not here has ended by itself. */
void node_view_close(struct node *node, struct request *request) {
    struct node_view *view = find(node, request->view);
    if (view != NULL) {
        forget(node, view);
    }
    request_finish(request);
}
