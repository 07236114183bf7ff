/* Watches that clients and this process have at a node: each is a question that waits in kv/watch.h for its first
 * events, and is then asked anew (lib/watch.h).
 *
 *   asked ──> in kv_watches: behind, then live ──> events ──> answer, with the place to go on from
 *     └────> no history yet (feature level) ──┘  └─ deadline ─> the same without events
 *
 * On every node alike: what is applied here is committed everywhere. A node that is behind the place that is
 * asked for waits until it gets there. Loop thread. */
#include "lib/node.h"

#include "base/mem.h"
#include "lib/client_wire.h"
#include "lib/events.h"

enum { RUNS_A_TURN = 2 };

/* One question. */
struct node_watch {
    struct kv_watch watch;
    struct list_link link;   /* in node->watch_all */
    struct request *request; /* in its `link`: node->watch_waits, node->watch_asks, or nothing */
};

/* ------------------------------------------------------------------ life */

int node_watch_open(struct node *node) {
    return kv_watches_open(&node->watches, node->kv);
}

void node_watch_close(struct node *node) {
    kv_watches_close(node->watches);
    node->watches = NULL;
}

/* ------------------------------------------------------------------ answers */

/* The request is nobody's then; what it watched is forgotten. */
static struct request *let_go(struct node *node, struct node_watch *at) {
    struct request *request = at->request;
    list_remove(&at->link);
    list_remove(&request->link);
    deadlines_remove(&node->watch_deadlines, request);
    kv_watch_leave(&at->watch);
    request->watching = NULL;
    return request;
}

static void release(struct node_watch *at) {
    kv_watch_fini(&at->watch);
    mem_free(at);
}

/* Up to which revision all is told: the future has not come. */
static uint64_t told(const struct node *node, const struct kv_watch *watch) {
    struct kv_stamp stamp;
    kv_stamp(node->kv, &stamp);
    uint64_t upto = watch->next.revision > 0 ? watch->next.revision - 1 : 0;
    return upto < stamp.revision ? upto : stamp.revision;
}

/* With what it has found, which may be nothing. */
static void answer(struct node *node, struct node_watch *at) {
    struct request *request = let_go(node, at);
    struct kv_watch *watch = &at->watch;
    struct lkv_msg *reply = request->reply;
    msg_set_u64(reply, "rev", told(node, watch));
    msg_set_u64(reply, "next", watch->next.revision);
    if (watch->next.sub > 0) {
        msg_set_u64(reply, "next_sub", watch->next.sub);
    }
    msg_set_u64(reply, "partial", watch->partial);
    msg_set_events(reply, watch->events, watch->count);
    watch->events = NULL;
    watch->count = 0;
    release(at);
    request_finish(request);
}

static void fail(struct node *node, struct node_watch *at, int rc) {
    struct request *request = let_go(node, at);
    struct kv_stamp stamp;
    struct reason why = {{0}};
    kv_stamp(node->kv, &stamp);
    if (rc == LKV_ECOMPACTED) { /* C7: with the oldest that there is */
        (void)kv_kept_reason(rc, at->watch.next.revision, &stamp, &why);
        msg_set_u64(request->reply, "first", stamp.kept_from);
    } else if (rc == LKV_EUNSUPPORTED) {
        (void)reason_set(&why, rc, "watches begin at feature level %d, the cluster has %u",
                         KV_LEVEL_HISTORY, kv_feature_level(node->kv));
    } else {
        (void)reason_set(&why, rc, "no memory for events");
    }
    release(at);
    request_fail(request, rc, "%s", why.text);
}

/* ------------------------------------------------------------------ asked */

static bool has_history(const struct node *node) {
    return kv_feature_level(node->kv) >= KV_LEVEL_HISTORY;
}

static void join(struct node *node, struct node_watch *at) {
    if (kv_watch_join(node->watches, &at->watch)) {
        fail(node, at, at->watch.rc);
        return;
    }
    if (!at->request->wait) {
        list_push_back(&node->watch_asks, &at->request->link);
    }
    node->turn_wanted = true; /* to look at what there is */
}

static void begin(struct node *node, struct request *request) {
    struct node_watch *at = mem_calloc(1, sizeof(*at));
    if (at == NULL) {
        request_fail(request, LKV_ENOMEM, "no memory for a watch");
        return;
    }
    int flags = request->watch_flags;
    at->request = request;
    at->watch = (struct kv_watch){.from = request->key,
                                  .to = request->end,
                                  .next = {.revision = request->from, .sub = request->from_sub},
                                  .no_puts = (flags & LKV_WATCH_NO_PUTS) != 0,
                                  .no_deletes = (flags & LKV_WATCH_NO_DELETES) != 0,
                                  .previous = (flags & LKV_WATCH_PREVIOUS) != 0,
                                  .bytes_max = request->bytes_max};
    list_init(&at->watch.link);
    request->watching = at;
    list_init(&at->link);
    list_push_back(&node->watch_all, &at->link);
    deadlines_add(&node->watch_deadlines, request);
    if (request->deadline_ns < node->next_expiry_ns) {
        node->next_expiry_ns = request->deadline_ns;
    }
    if (has_history(node)) {
        join(node, at);
    } else {
        list_push_back(&node->watch_waits, &request->link);
    }
}

void node_watch(struct node *node, struct request *request) {
    bool led = node->running && (node->role == RAFT_LEADER || node->leader != RAFT_NOBODY);
    if (request->unwanted != NULL && atomic_load(request->unwanted)) {
        request_fail(request, LKV_ECANCELED, "nobody waits for it");
    } else if (node->offline) {
        request_fail(request, LKV_EUNSUPPORTED, "nothing changes in a directory that is offline");
    } else if (!led && (request->no_park || request->forwarded || request->from == 0)) {
        /* A client finds another node, which may hear more. And "from now on" is not what a node has that has just
         * started. */
        node_wait_for_leader(node, request);
    } else {
        begin(node, request);
    }
}

/* ------------------------------------------------------------------ turns */

static void join_waiting(struct node *node) {
    struct list_link *link;
    while (has_history(node) && (link = list_pop_front(&node->watch_waits)) != NULL) {
        struct request *request = LIST_ITEM(link, struct request, link);
        join(node, request->watching);
    }
}

static void run(struct node *node) {
    struct list_link done;
    list_init(&done);
    bool more = true;
    for (int i = 0; more && i < RUNS_A_TURN; i++) {
        more = kv_watches_run(node->watches, &done);
    }
    node->turn_wanted = node->turn_wanted || more;
    for (struct list_link *link; (link = list_pop_front(&done)) != NULL;) {
        struct kv_watch *watch = LIST_ITEM(link, struct kv_watch, link);
        struct node_watch *at = LIST_ITEM(watch, struct node_watch, watch);
        if (watch->rc != 0) {
            fail(node, at, watch->rc);
        } else {
            answer(node, at);
        }
    }
}

/* Those that do not wait have seen all that there is. */
static void answer_asks(struct node *node) {
    struct list_link *next;
    for (struct list_link *at = node->watch_asks.next; at != &node->watch_asks; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (kv_watch_is_live(&request->watching->watch)) {
            answer(node, request->watching);
        }
    }
}

void node_watch_serve(struct node *node) {
    if (node->diverged) { /* rule 25 */
        node_watch_fail_all(node, LKV_ESTOPPED,
                            "this node's state differs from that of a majority (see its status)");
    } else if (node->watches != NULL) {
        join_waiting(node);
        run(node);
        answer_asks(node);
    }
}

uint64_t node_watch_expire(struct node *node, uint64_t now_ns) {
    struct list_link due;
    list_init(&due);
    deadlines_expire(&node->watch_deadlines, now_ns, &due);
    while (!list_empty(&due)) {
        struct node_watch *at = LIST_ITEM(due.next, struct request, expiry)->watching;
        if (has_history(node)) {
            answer(node, at);
        } else {
            fail(node, at, LKV_EUNSUPPORTED);
        }
    }
    return deadlines_next(&node->watch_deadlines);
}

void node_watch_fail_all(struct node *node, int rc, const char *text) {
    while (!list_empty(&node->watch_all)) {
        struct node_watch *at = LIST_ITEM(node->watch_all.next, struct node_watch, link);
        struct request *request = let_go(node, at);
        release(at);
        request_fail(request, rc, "%s", text);
    }
}
