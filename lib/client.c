/* A client keeps to one node, its target, until that node refuses or is gone:
 *
 *            next endpoint, or the leader's address
 *     NONE ────────────────────────────────────────> CONNECTING ──> UP ──> proven
 *      ^                    gone                         │          │        │
 *      ├─────────────────────────────────────────────────┘          │        │
 *      └────────────── gone, or "I am not the leader" <─────────────┴────────┘
 *
 * Requests wait in `queue` while there is no target. Nodes are told to answer themselves or to refuse
 * with the leader's address, so that after one round everything goes straight to the leader. Until a
 * target has answered something it gets a few requests only: while a cluster elects, its nodes need
 * not hear thousands of requests that each of them must refuse.
 *
 * Rule 28: what was sent and not answered is unknown, if it is a write; everything else is definite
 * and may be tried elsewhere until its deadline. So may a write in a session (rule 26); once an attempt
 * of it was lost, only the answer to an applied entry is definite.
 *
 * Callbacks of the links only take notes; a turn's end acts on them.
 */
#include "lib/client.h"

#include "base/assert.h"
#include "base/loop.h"
#include "base/mem.h"
#include "lib/deadlines.h"
#include "lib/inbox.h"
#include "lib/lease.h"
#include "lib/remote.h"
#include "lib/session.h"

#include <stdio.h>

enum {
    PROBES_MAX = 16,       /* in flight to a target that is not proven */
    BACKOFF_MS_FIRST = 10, /* after a round in which every endpoint has failed; then doubled */
    BACKOFF_MS_MAX = 100,
    PASS_ON_AFTER_MS = 2000 /* without success: perhaps the leader's address is not for us */
};

/* One connection. */
struct link {
    struct list_link link;
    struct client *client;
    struct remote *remote;
    char address[ADDRESS_SIZE];
    bool retired; /* of an earlier target: waits for its answers only */
    bool gone;    /* to be closed at the turn's end */
};

enum client_move { MOVE_NOT, MOVE_NEXT, MOVE_LEADER };

struct client {
    struct lkv handle; /* first: a struct lkv * of a client is a struct client * */

    /* immutable after start */
    struct lkv_ops ops;
    char endpoints[OPTION_ENDPOINTS_MAX][ADDRESS_SIZE];
    size_t endpoint_count;
    size_t connections;
    size_t held_bytes_max;
    struct loop *loop;
    struct net *net;

    /* any thread */
    struct inbox inbox;
    atomic_size_t held_bytes; /* of requests without their final message */

    /* loop thread */
    uint64_t next_order;      /* of appends */
    struct list_link queue;   /* not sent, oldest first */
    struct list_link retries; /* to go to the front of it at the turn's end */
    struct deadlines deadlines;
    struct list_link links;
    size_t rotation; /* of links, for sending */
    bool stopped;

    bool has_target, proven;
    char target[ADDRESS_SIZE];
    char leader[ADDRESS_SIZE]; /* where to go next; empty: to the next endpoint */
    enum client_move move;
    size_t next_endpoint;
    size_t failures;            /* targets in a row that answered nothing */
    uint64_t unproven_since_ns; /* valid while failures > 0 */
    uint64_t retry_at_ns;
    bool idle; /* nobody needs a target */
    bool turn_again;
    struct reason failure; /* of the last target */
    int failure_rc;        /* what it said, if it refused the connection; or LKV_EUNREACHABLE */
};

/* ------------------------------------------------------------------ final messages */

static bool has_open_link(const struct client *client) {
    for (struct list_link *at = client->links.next; at != &client->links; at = at->next) {
        const struct link *link = LIST_ITEM(at, struct link, link);
        if (!link->retired && !link->gone && remote_up(link->remote)) {
            return true;
        }
    }
    return false;
}

/* Sent, and nothing is known. */
static void finish_sent(struct request *request, int rc, const char *node) {
    if (request_is_read(request)) {
        request_fail(request, rc, "%s did not answer: %s", node, error_text(rc));
    } else {
        request_fail(request, LKV_EUNKNOWN,
                     "%s did not answer (%s): the write may have been applied", node,
                     error_text(rc));
    }
}

/* Never sent, or refused by everybody who got it: the last refusal says why. */
static void finish_unsent(struct client *client, struct request *request) {
    if (client->stopped) {
        request_fail(request, LKV_ECLOSED, NULL);
    } else if (request->reply->rc != 0) {
        request_finish(request);
    } else if (client->failure_rc == LKV_EBUSY && !client->proven) {
        request_fail(request, LKV_EBUSY, "no endpoint takes the connection; the last was %s",
                     client->failure.text);
    } else if (has_open_link(client)) {
        request_fail(request, LKV_ETIMEOUT, "timed out before it was sent to %s", client->target);
    } else {
        request_fail(request, LKV_EUNREACHABLE, "no endpoint is reachable; the last was %s",
                     client->failure.text[0] != '\0' ? client->failure.text : client->target);
    }
}

/* ------------------------------------------------------------------ the queue */

static void enqueue(struct client *client, struct list_link *list, struct request *request) {
    list_push_back(list, &request->link);
    deadlines_add(&client->deadlines, request);
}

static void enqueue_all(struct client *client, struct request *oldest) {
    while (oldest != NULL) {
        struct request *next = oldest->inbox_next;
        oldest->order = oldest->op == REQUEST_APPEND ? ++client->next_order : 0;
        enqueue(client, &client->queue, oldest);
        oldest = next;
    }
}

/* In the order in which they were sent first: before what was not sent yet, appends behind those that were
 * submitted before them. */
static void requeue_retries(struct client *client) {
    struct list_link *at = client->queue.next;
    uint64_t before = 0; /* order of what stands before `at` is not above it */
    for (struct list_link *link; (link = list_pop_front(&client->retries)) != NULL;) {
        uint64_t order = LIST_ITEM(link, struct request, link)->order;
        if (order != 0 && order < before) {
            at = client->queue.next;
            before = 0;
        }
        while (order != 0 && at != &client->queue &&
               LIST_ITEM(at, struct request, link)->order < order) {
            at = at->next;
        }
        before = order > before ? order : before;
        list_push_back(at, link);
    }
}

static void dequeue(struct client *client, struct request *request) {
    list_remove(&request->link);
    deadlines_remove(&client->deadlines, request);
}

static void expire_queue(struct client *client, uint64_t now_ns) {
    struct list_link due;
    list_init(&due);
    deadlines_expire(&client->deadlines, now_ns, &due);
    while (!list_empty(&due)) {
        struct request *request = LIST_ITEM(due.next, struct request, expiry);
        dequeue(client, request);
        finish_unsent(client, request);
    }
}

static void fail_queue(struct client *client) {
    requeue_retries(client);
    while (!list_empty(&client->queue)) {
        struct request *request = LIST_ITEM(client->queue.next, struct request, link);
        dequeue(client, request);
        finish_unsent(client, request);
    }
}

/* ------------------------------------------------------------------ what links report */

static void on_up(void *arg) {
    (void)arg; /* the turn's end sends */
}

static void on_down(void *arg, int rc) {
    struct link *link = arg;
    struct client *client = link->client;
    link->gone = true;
    client->turn_again = true;
    if (!link->retired) {
        const char *refusal = remote_refusal(link->remote);
        client->failure_rc = refusal != NULL ? rc : LKV_EUNREACHABLE;
        (void)reason_set(&client->failure, rc, "%s (%s)", client->target,
                         refusal != NULL ? refusal : error_text(rc));
    }
}

/* To be tried again, unless its time is over. */
static void retry(struct client *client, struct request *request) {
    if (client->stopped || request->deadline_ns <= loop_now_ns(client->loop)) {
        finish_unsent(client, request);
        return;
    }
    enqueue(client, &client->retries, request);
    client->turn_again = true;
}

static void on_lost(void *arg, struct request *request, bool sent, int rc) {
    struct link *link = arg;
    bool final = rc == LKV_ETIMEOUT || link->client->stopped;
    request->maybe_done = request->maybe_done || sent;
    if (sent && (final || !request_may_repeat(request))) {
        finish_sent(request, rc, link->address);
    } else {
        retry(link->client, request);
    }
}

static void on_refused(void *arg, struct request *request) {
    struct link *link = arg;
    struct client *client = link->client;
    const char *leader = lkv_msg_str(request->reply, "leader_address");
    if (!link->retired && request->reply->rc != LKV_EUNKNOWN) {
        bool elsewhere = request->reply->rc == LKV_ENOTLEADER && leader != NULL &&
                         leader[0] != '\0' && strlen(leader) < sizeof(client->leader) &&
                         strcmp(leader, client->target) != 0;
        client->move = elsewhere ? MOVE_LEADER : MOVE_NEXT;
        (void)snprintf(client->leader, sizeof(client->leader), "%s", elsewhere ? leader : "");
        (void)reason_set(&client->failure, 0, "%s (%s)", client->target,
                         lkv_msg_text(request->reply));
    }
    retry(client, request);
}

/* ------------------------------------------------------------------ links */

static void close_link(struct link *link) {
    list_remove(&link->link);
    remote_close(link->remote);
    mem_free(link);
}

static bool open_link(struct client *client, bool pass_on) {
    struct link *link = mem_calloc(1, sizeof(*link));
    if (link == NULL) {
        return false;
    }
    struct remote_events events = {.on_up = on_up,
                                   .on_down = on_down,
                                   .on_lost = on_lost,
                                   .on_refused = on_refused,
                                   .arg = link,
                                   .may_pass_on = pass_on};
    link->client = client;
    memcpy(link->address, client->target, sizeof(link->address));
    int rc = remote_open(&link->remote, client->loop, client->net, link->address, &events);
    if (rc != 0) {
        client->failure_rc = LKV_EUNREACHABLE;
        (void)reason_set(&client->failure, rc, "%s (%s)", client->target, error_text(rc));
        mem_free(link);
        return false;
    }
    list_push_back(&client->links, &link->link);
    return true;
}

static void reap_links(struct client *client) {
    struct list_link *next;
    for (struct list_link *at = client->links.next; at != &client->links; at = next) {
        next = at->next;
        struct link *link = LIST_ITEM(at, struct link, link);
        if (link->gone || (link->retired && remote_in_flight(link->remote) == 0)) {
            close_link(link);
        }
    }
}

static size_t active_links(const struct client *client) {
    size_t count = 0;
    for (struct list_link *at = client->links.next; at != &client->links; at = at->next) {
        const struct link *link = LIST_ITEM(at, struct link, link);
        count += link->retired || link->gone ? 0 : 1;
    }
    return count;
}

/* ------------------------------------------------------------------ the target */

/* A round through the endpoints, and to a leader that one of them names, is at once. The pause before
 * the next round grows up to a limit, and never keeps step with other clients. */
static uint64_t backoff_ns(struct client *client) {
    size_t round = client->endpoint_count + 1;
    if (client->failures % round != 0) {
        return 0;
    }
    size_t doublings = client->failures / round - 1;
    uint64_t ms = doublings < 8 ? (uint64_t)BACKOFF_MS_FIRST << doublings : BACKOFF_MS_MAX;
    ms = ms < BACKOFF_MS_MAX ? ms : BACKOFF_MS_MAX;
    uint64_t half_ns = ms * MS_NS / 2;
    return half_ns + loop_random(client->loop) % half_ns;
}

/* What is under way there may still be answered. */
static void leave_target(struct client *client, uint64_t now_ns) {
    for (struct list_link *at = client->links.next; at != &client->links; at = at->next) {
        LIST_ITEM(at, struct link, link)->retired = true;
    }
    client->failures = client->proven ? 0 : client->failures;
    client->unproven_since_ns = client->failures == 0 ? now_ns : client->unproven_since_ns;
    client->failures++;
    client->has_target = client->proven = false;
    client->move = MOVE_NOT;
    client->retry_at_ns = now_ns + backoff_ns(client);
}

static const char *take_endpoint(struct client *client) {
    const char *address = client->endpoints[client->next_endpoint];
    client->next_endpoint = (client->next_endpoint + 1) % client->endpoint_count;
    return address;
}

static void choose_target(struct client *client) {
    const char *address = client->leader;
    if (address[0] == '\0') {
        address = take_endpoint(client);
        if (strcmp(address, client->target) == 0) { /* just left; a redirect had led to it */
            address = take_endpoint(client);
        }
    }
    (void)snprintf(client->target, sizeof(client->target), "%s", address);
    client->leader[0] = '\0';
    client->has_target = true;
}

static void open_links(struct client *client, uint64_t now_ns) {
    bool pass_on =
        client->failures > 0 && now_ns - client->unproven_since_ns > PASS_ON_AFTER_MS * MS_NS;
    while (active_links(client) < client->connections && open_link(client, pass_on)) {
    }
}

static void follow_target(struct client *client, uint64_t now_ns) {
    if (client->has_target && (client->move != MOVE_NOT || active_links(client) == 0)) {
        leave_target(client, now_ns);
    }
    if (!client->has_target) {
        bool was_idle = client->idle;
        client->idle = list_empty(&client->queue) && client->failures > 0;
        if (client->idle || now_ns < client->retry_at_ns) {
            return;
        }
        client->unproven_since_ns = was_idle ? now_ns : client->unproven_since_ns;
        choose_target(client);
        open_links(client, now_ns);
    } else if (client->proven && active_links(client) < client->connections &&
               now_ns >= client->retry_at_ns) {
        client->retry_at_ns = now_ns + BACKOFF_MS_MAX * MS_NS;
        open_links(client, now_ns);
    }
}

static void prove_target(struct client *client) {
    for (struct list_link *at = client->links.next; at != &client->links && !client->proven;
         at = at->next) {
        const struct link *link = LIST_ITEM(at, struct link, link);
        client->proven = !link->retired && remote_answers(link->remote) > 0;
    }
}

/* ------------------------------------------------------------------ sending */

static bool is_usable(const struct link *link) {
    return !link->retired && !link->gone && remote_up(link->remote) &&
           !remote_suspect(link->remote);
}

/* Appends keep their order by keeping to one connection, the oldest. What an earlier target still has is
 * waited for: it might be refused, and come again behind those that were sent meanwhile. So is what was
 * sent after this one, when this one comes again: it may have to as well. */
static struct remote *append_remote(struct client *client, const struct request *request) {
    for (struct list_link *at = client->links.next; at != &client->links; at = at->next) {
        const struct link *link = LIST_ITEM(at, struct link, link);
        if (link->retired && !link->gone && remote_appends_in_flight(link->remote) > 0) {
            return NULL;
        }
    }
    for (struct list_link *at = client->links.next; at != &client->links; at = at->next) {
        struct link *link = LIST_ITEM(at, struct link, link);
        if (!link->retired && !link->gone) {
            bool may = is_usable(link) && !remote_would_overtake(link->remote, request);
            return may ? link->remote : NULL;
        }
    }
    return NULL;
}

/* Each in turn. NULL: none can take anything now. */
static struct remote *pick_remote(struct client *client) {
    struct link *first = NULL;
    size_t usable = 0;
    for (struct list_link *at = client->links.next; at != &client->links; at = at->next) {
        struct link *link = LIST_ITEM(at, struct link, link);
        if (is_usable(link)) {
            first = first == NULL ? link : first;
            if (usable++ == client->rotation) {
                client->rotation++;
                return link->remote;
            }
        }
    }
    client->rotation = 1;
    return first != NULL ? first->remote : NULL;
}

static size_t probes_left(const struct client *client) {
    size_t in_flight = 0;
    if (client->proven) {
        return SIZE_MAX;
    }
    for (struct list_link *at = client->links.next; at != &client->links; at = at->next) {
        const struct link *link = LIST_ITEM(at, struct link, link);
        in_flight += link->retired ? 0 : remote_in_flight(link->remote);
    }
    return in_flight < PROBES_MAX ? PROBES_MAX - in_flight : 0;
}

/* False: no more for now. */
static bool send_one(struct client *client, struct request *request) {
    struct remote *remote =
        request->op == REQUEST_APPEND ? append_remote(client, request) : pick_remote(client);
    if (remote == NULL) {
        return false;
    }
    dequeue(client, request);
    /* A node that knows no leader is of no use: another one may know. */
    request->no_park = true;
    /* Nor may one that waits for what comes keep it from showing that it answers; asked again, it waits. */
    request->wait = request->wait && client->proven;
    int rc = remote_submit(remote, request);
    if (rc == LKV_EBUSY || rc == LKV_EUNREACHABLE) {
        enqueue(client, client->queue.next, request);
        return false;
    }
    if (rc == LKV_ETIMEOUT) {
        finish_unsent(client, request);
    } else if (rc != 0) {
        request_fail(request, rc, NULL);
    }
    return true;
}

static void send_queue(struct client *client) {
    if (client->move != MOVE_NOT) {
        return;
    }
    for (size_t left = probes_left(client); left > 0 && !list_empty(&client->queue); left--) {
        if (!send_one(client, LIST_ITEM(client->queue.next, struct request, link))) {
            return;
        }
    }
}

/* ------------------------------------------------------------------ turns */

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t expire(struct client *client, uint64_t now_ns) {
    uint64_t next_ns = UINT64_MAX;
    for (struct list_link *at = client->links.next; at != &client->links; at = at->next) {
        struct link *link = LIST_ITEM(at, struct link, link);
        if (!link->gone) {
            next_ns = earlier(next_ns, remote_expire(link->remote, now_ns));
        }
    }
    expire_queue(client, now_ns);
    next_ns = earlier(next_ns, deadlines_next(&client->deadlines));
    bool wants_target = !client->has_target && !list_empty(&client->queue);
    bool wants_link = client->proven && active_links(client) < client->connections;
    return wants_target || wants_link ? earlier(next_ns, client->retry_at_ns) : next_ns;
}

static void on_turn_end(void *arg) {
    struct client *client = arg;
    uint64_t now_ns = loop_now_ns(client->loop);
    client->turn_again = false;
    requeue_retries(client);
    prove_target(client);
    reap_links(client);
    follow_target(client, now_ns);
    send_queue(client);
    uint64_t next_ns = earlier(expire(client, now_ns), sessions_turn(&client->handle, now_ns));
    next_ns = earlier(next_ns, lease_holds_turn(&client->handle, now_ns));
    loop_timer_set(client->loop, client->turn_again ? now_ns : next_ns);
}

static void on_timer(void *arg) {
    (void)arg; /* the turn's end does it all */
}

static void on_wake(void *arg) {
    struct client *client = arg;
    enqueue_all(client, inbox_take(&client->inbox));
}

struct loop_events client_events(struct client *client) {
    return (struct loop_events){
        .on_timer = on_timer, .on_wake = on_wake, .on_turn_end = on_turn_end, .arg = client};
}

/* ------------------------------------------------------------------ any thread */

static int submit(struct lkv *db, struct request *request) {
    struct client *client = client_of(db);
    size_t before =
        atomic_fetch_add_explicit(&client->held_bytes, request->cost, memory_order_relaxed);
    bool counts = request->cost > 0; /* one that only waits, as a watch's does, ends nothing */
    if (counts && before > 0 && before + request->cost > client->held_bytes_max) {
        atomic_fetch_sub_explicit(&client->held_bytes, request->cost, memory_order_relaxed);
        return LKV_EBUSY;
    }
    request->held = &client->held_bytes;
    switch (inbox_push(&client->inbox, request)) {
    case INBOX_CLOSED: return LKV_ECLOSED; /* freeing the request uncounts it */
    case INBOX_PUSHED_FIRST: loop_wake(client->loop); break;
    case INBOX_PUSHED: break;
    }
    return 0;
}

static uint64_t now_ns_of(const struct lkv *db) {
    const struct client *client = (const struct client *)(const void *)db;
    return loop_now_ns(client->loop);
}

static void wake(struct lkv *db) {
    loop_wake(((struct client *)db)->loop);
}

/* ------------------------------------------------------------------ life */

int client_new(struct client **out, const struct lkv_options *options,
               int (*close)(struct lkv *db, int64_t handover_ms)) {
    *out = NULL;
    struct client *client = mem_calloc(1, sizeof(*client));
    if (client == NULL) {
        return LKV_ENOMEM;
    }
    ASSERT(options->endpoint_count > 0);
    client->ops =
        (struct lkv_ops){.submit = submit, .close = close, .now_ns = now_ns_of, .wake = wake};
    client->handle = (struct lkv){.ops = &client->ops,
                                  .timeout_ms = options->timeout_ms,
                                  .key_bytes_max = options->key_bytes_max,
                                  .value_bytes_max = options->value_bytes_max,
                                  .sessions_max = options->sessions_max};
    subscriptions_init(&client->handle.subscriptions);
    memcpy(client->endpoints, options->endpoints, sizeof(client->endpoints));
    client->endpoint_count = options->endpoint_count;
    client->connections = (size_t)options->connections;
    client->held_bytes_max = (size_t)options->inflight_bytes_max;
    inbox_init(&client->inbox);
    atomic_init(&client->held_bytes, 0);
    list_init(&client->queue);
    list_init(&client->retries);
    list_init(&client->links);
    *out = client;
    return 0;
}

void client_start(struct client *client, struct loop *loop, struct net *net) {
    client->loop = loop;
    atomic_init(&client->handle.leases.ids, loop_random(loop));
    client->net = net;
    deadlines_init(&client->deadlines, loop_now_ns(loop));
    on_turn_end(client); /* connects at once: the first call finds a connection */
}

struct lkv *client_handle(struct client *client) {
    return &client->handle;
}

struct client *client_of(struct lkv *handle) {
    return (struct client *)(void *)handle;
}

void client_world(const struct client *client, struct loop **loop, struct net **net) {
    *loop = client->loop;
    *net = client->net;
}

void client_stop(struct client *client) {
    if (client == NULL) {
        return;
    }
    client->stopped = true;
    enqueue_all(client, inbox_close(&client->inbox));
    while (!list_empty(&client->links)) {
        close_link(LIST_ITEM(client->links.next, struct link, link));
    }
    fail_queue(client);
}

void client_free(struct client *client) {
    if (client != NULL) {
        ASSERT(list_empty(&client->queue) && list_empty(&client->links));
        mem_free(client);
    }
}
