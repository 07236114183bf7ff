/* A node's life: made, driven by its loop's events, closed. */
#include "lib/node_repair.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/lease.h"
#include "lib/peer.h"
#include "lib/session.h"

#include <stdarg.h>
#include <stdio.h>

enum { TURN_ROUNDS_MAX = 4, SMALL_WINDOW_BYTES = 256 * 1024 };

void node_stop(struct node *node, int rc, const char *format, ...) {
    if (node->stop_rc != 0) {
        return;
    }
    ASSERT(rc != 0);
    node->stop_rc = rc;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(node->stop_why.text, sizeof(node->stop_why.text), format, args);
    va_end(args);
    trace_line(&node->trace, TRACE_ERROR, "stopped", "%s: %s", error_name(rc), node->stop_why.text);
    node->raft_deadline_ns = UINT64_MAX;
    node->role = RAFT_STOPPED;
    node_read_lease(node, 0, 0);
    node->leader = RAFT_NOBODY;
    node->leader_moved = true;
    node->turn_wanted = true;
}

void node_settle(struct node *node) {
    (void)pthread_mutex_lock(&node->mutex);
    if (!node->settled) {
        node->settled = true;
        node->settled_rc = node->stop_rc;
        node->settled_why = node->stop_why;
        (void)pthread_cond_broadcast(&node->changed_cond);
    }
    (void)pthread_mutex_unlock(&node->mutex);
}

/* What can be answered when the node has stopped: no entry will be applied any more. */
static void answer_stopped(struct node *node) {
    if (node->stop_rc == 0 || node->stop_answered) {
        return;
    }
    node->stop_answered = true;
    node_settle(node);
    if (role_stop(&node->role_events, node->term, node->stop_rc, node->stop_why.text) != 0) {
        trace_line(&node->trace, TRACE_ERROR, "stopped", "no memory for the role message");
    }
    pending_fail_all(&node->pending, "the node has stopped");
    node_read_fail_all(node, LKV_ESTOPPED, node->stop_why.text);
    node_append_batch(node);
}

/* ------------------------------------------------------------------ one turn */

/* Where the window may begin: `last` and what is before it may go, as far as it is on disk. */
static uint64_t trim_limit(const struct node *node, uint64_t last) {
    struct raft_status status;
    raft_status(node->raft, &status);
    uint64_t limit = last < status.durable ? last : status.durable;
    uint64_t given = node->given_next - 1;
    return (limit < given ? limit : given) + 1;
}

/* Forgets what nobody asks memory for: applied, durable, and held by the followers that keep up; of
 * what a slower one still wants, as much as the option allows. Beyond that also what is committed and
 * not applied yet, so that a program which does not free its stepping_down costs no memory: it is
 * read back when its time comes. */
static void trim_window(struct node *node) {
    struct log_window *window = &node->window;
    if (window->bytes <= SMALL_WINDOW_BYTES && window->count <= SMALL_WINDOW_BYTES / 64) {
        return;
    }
    uint64_t limit = trim_limit(node, node->applied);
    uint64_t needed = raft_window_needed(node->raft);
    uint64_t below = needed < limit ? needed : limit;
    if (below > window->first) {
        log_window_trim(window, below);
    }
    limit = trim_limit(node, node->commit);
    while (window->first < limit && window->bytes > node->options.window_bytes) {
        log_window_trim(window, window->first + 1);
    }
    raft_window_first(node->raft, window->first);
}

static void turn_round(struct node *node) {
    node->turn_wanted = false;
    node_founding_turn(node);
    if (node->founding_job_running) {
        return;
    }
    if (node->leader_moved) {
        node_leader_changed(node);
    }
    node_append_batch(node);
    if (node->running) {
        node_feature_turn(node);
        node_agree_turn(node);
        node_write_flush(node);
        node_read_flush(node);
        node_apply(node);
        node_once_turn(node);
        node_read_serve(node);
        node_lease_turn(node);
        node_log_serve(node);
        node_watch_serve(node);
        node_repair_serve(node);
        node_write_flush(node); /* what applying and reading made the core write */
        node_image_receive_turn(node);
        node_image_consider(node);
    }
    answer_stopped(node);
}

void node_turn(struct node *node) {
    if (node->finished_loop) {
        return;
    }
    for (int round = 0; round < TURN_ROUNDS_MAX && (round == 0 || node->turn_wanted); round++) {
        turn_round(node);
    }
    if (node->running) {
        node_write_timer(node, node_now(node));
        trim_window(node);
    }
    bool untidy = node_tidy(node);
    node_close_turn(node);
    node->server_next_ns =
        node->server != NULL ? server_expire(node->server, node_now(node)) : UINT64_MAX;
    node->forward_next_ns = node_forward_expire(node, node_now(node));
    node_set_timer(node);
    if ((node->turn_wanted || untidy) && !node->finished_loop) {
        loop_wake(node->world.loop); /* also for what a timer has just made the core want */
    }
}

void node_set_timer(struct node *node) {
    uint64_t now_ns = node_now(node);
    uint64_t at = node->running && !node->closing ? node->raft_deadline_ns : UINT64_MAX;
    const uint64_t others[] = {
        node->next_expiry_ns,
        node->park_retry_ns,
        node_write_deadline(node),
        node->closing || node->founding_job_running ? UINT64_MAX : peers_timer(node, now_ns),
        node_image_timer(node, now_ns),
        node_image_retry_timer(node, now_ns),
        node_image_receive_timer(node, now_ns),
        node_retention_timer(node, now_ns),
        node_repair_timer(node, now_ns),
        node_scrub_timer(node, now_ns),
        node_reread_timer(node, now_ns),
        node_agree_timer(node),
        node->closing || node->stop_rc != 0 ? UINT64_MAX : node->ready_deadline_ns,
        node->closing || node->stop_rc != 0 ? UINT64_MAX : node->apply_retry_ns,
        node_accept_timer(node, now_ns),
        node->server_next_ns,
        node->forward_next_ns,
        node->handover_deadline_ns,
        node_session_deadline(node),
        node_compact_deadline(node),
        sessions_turn(&node->handle, now_ns),
        node_lease_deadline(node),
        lease_holds_turn(&node->handle, now_ns),
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        at = others[i] < at ? others[i] : at;
    }
    /* Deadlines move later with every message; re-arming is left to the timer itself. */
    if (at < node->timer_at_ns) {
        node->timer_at_ns = at;
        loop_timer_set(node->world.loop, at);
    }
}

static void on_timer(void *arg) {
    struct node *node = arg;
    node->timer_at_ns = UINT64_MAX;
    if (node->finished_loop) {
        return;
    }
    uint64_t now_ns = node_now(node);
    if (node->running && !node->closing && now_ns >= node->raft_deadline_ns) {
        struct raft_event event = {.kind = RAFT_TICK};
        node_step(node, &event);
    }
    node_requests_expire(node, now_ns);
    node_session_look(node, now_ns);
    node_compact_look(node, now_ns);
    node_lease_look(node, now_ns);
}

static void take_role_requests(struct node *node) {
    (void)pthread_mutex_lock(&node->mutex);
    struct role_watch_request *request = node->role_requests;
    node->role_requests = NULL;
    (void)pthread_mutex_unlock(&node->mutex);
    while (request != NULL) {
        struct role_watch_request *next = request->next;
        if (role_add_watcher(&node->role_events, request->queue, request->tag) != 0) {
            node_stop(node, LKV_ENOMEM, "no memory for a role watcher");
        }
        mem_free(request);
        request = next;
    }
}

static void on_wake(void *arg) {
    struct node *node = arg;
    if (node->finished_loop) {
        return;
    }
    if (atomic_exchange(&node->role_freed, false) && role_pump(&node->role_events) != 0) {
        node_stop(node, LKV_ENOMEM, "no memory for a role message");
    }
    take_role_requests(node);
    node_drain_inbox(node);
    (void)pthread_mutex_lock(&node->mutex);
    bool close_requested = node->close_requested;
    int64_t handover_ms = node->close_handover_ms;
    (void)pthread_mutex_unlock(&node->mutex);
    if (close_requested && !node->close_begun) {
        node_close_begin(node, handover_ms);
    }
}

static void on_turn_end(void *arg) {
    node_turn(arg);
}

struct loop_events node_loop_events(struct node *node) {
    return (struct loop_events){
        .on_timer = on_timer, .on_wake = on_wake, .on_turn_end = on_turn_end, .arg = node};
}

/* ------------------------------------------------------------------ making one */

static void on_role_freed(void *arg) {
    struct node *node = arg;
    atomic_store(&node->role_freed, true);
    loop_wake(node->world.loop);
}

static void init_fields(struct node *node, const struct lkv_options *options,
                        const struct node_world *world) {
    node->world = *world;
    node->options = *options;
    node->trace = options->trace;
    node->trace.node = node->options.id;
    (void)snprintf(node->dir, sizeof(node->dir), "%s", options->dir);
    (void)snprintf(node->log_dir, sizeof(node->log_dir), "%s/data", options->dir);
    (void)snprintf(node->image_dir, sizeof(node->image_dir), "%s/image", options->dir);
    node->boot_nonce = loop_random(world->loop);
    atomic_init(&node->handle.leases.ids, ~node->boot_nonce); /* as random */
    node->next_expiry_ns = node->park_retry_ns = node->server_next_ns = UINT64_MAX;
    node->ready_deadline_ns = node->seen_retry_ns = node->apply_retry_ns = UINT64_MAX;
    node->raft_deadline_ns = node->timer_at_ns = node->handover_deadline_ns = UINT64_MAX;
    (void)pthread_mutex_init(&node->mutex, NULL);
    (void)pthread_cond_init(&node->changed_cond, NULL);
    struct list_link *lists[] = {&node->incoming,     &node->staged,    &node->full_jobs,
                                 &node->parked,       &node->reads_new, &node->reads_leased,
                                 &node->read_batches, &node->submits,   &node->strangers,
                                 &node->old_forwards};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        list_init(lists[i]);
    }
    list_init(&node->views);
    list_init(&node->log_waits);
    list_init(&node->lease_clocks.waits);
    list_init(&node->log_reads);
    node->own.disk = node->world.disk;
    node->own.dir = node->image_dir;
    list_init(&node->hold_waits);
    list_init(&node->digests);
    list_init(&node->batch.fills);
    list_init(&node->repair.waits);
    node->repair.image_wanted_ns = node->repair.note_retry_ns = UINT64_MAX;
    list_init(&node->once_waits);
    atomic_init(&node->spare_wanted, true);
    subscriptions_init(&node->handle.subscriptions);
    list_init(&node->watch_all);
    list_init(&node->watch_waits);
    list_init(&node->watch_asks);
    deadlines_init(&node->watch_deadlines, node_now(node));
    node->handle.timeout_ms = options->timeout_ms;
    node->handle.key_bytes_max = options->key_bytes_max;
    node->handle.value_bytes_max = options->value_bytes_max;
    node->handle.sessions_max = options->sessions_max;
    inbox_init(&node->inbox);
    log_window_init(&node->window, 1);
    pending_init(&node->pending);
    node->pending.on_again = node_request_again;
    node->pending.arg = node;
    buffer_init(&node->frame_body);
    role_init(&node->role_events, on_role_freed, node);
}

static int start_rooms(struct node *node, struct reason *why) {
    int rc = node_start_disk(node, why);
    if (rc != 0) {
        return rc;
    }
    node->state = state_of(node->identity.model);
    if (node->identity.model == MODEL_LOG && node->options.engine != ENGINE_MEMORY) {
        return reason_set(why, LKV_EOPTION,
                          "the option engine goes with model kv: %s is of model log", node->dir);
    }
    rc = node->state->open(node, why);
    if (rc != 0) {
        return rc;
    }
    if (node->identity.cluster_id == 0 && node->options.peer_count <= 1) {
        rc = node_found_alone(node, why);
    }
    if (rc == 0 && node->identity.cluster_id != 0 && !node->growing) {
        rc = node_recover(node, &node->identity, why);
    }
    if (rc == 0 && node->options.offline && node->options.peer_count > 1) {
        rc = node_open_offline(node, why);
    }
    return rc;
}

static int start_server(struct node *node, struct reason *why) {
    struct server_options options = {.key_bytes_max = node->options.key_bytes_max,
                                     .value_bytes_max = node->options.value_bytes_max,
                                     .sessions_max = node->options.sessions_max,
                                     .connections_max = node->options.connections_max,
                                     .output_bytes_max = node->options.inflight_bytes_max,
                                     .timeout_ms_max = 600000,
                                     .trace = &node->trace};
    struct server_host host = {.submit = node_submit_loop, .arg = node};
    int rc = server_open(&node->server, node->world.loop, &options, &host);
    if (rc != 0) {
        return reason_set(why, rc, "no memory for the clients' server");
    }
    const char *address = node_listen_address(node);
    if (!node->offline && address[0] != '\0') {
        rc = net_listen(node->world.net, address, node_on_accept, node, &node->listener, why);
        if (rc != 0) {
            return rc;
        }
    }
    char local[ADDRESS_SIZE + 1024];
    (void)snprintf(local, sizeof(local), "unix:%s/ctl.sock", node->dir);
    struct reason local_why = {{0}};
    if (net_listen(node->world.net, local, node_on_accept, node, &node->local_listener,
                   &local_why) != 0) {
        /* A path that is too long for a socket costs kvctl --dir on a live node, nothing else. */
        trace_line(&node->trace, TRACE_WARN, "no-local-socket", "%s", local_why.text);
    }
    return 0;
}

int node_create(struct node **out, const struct lkv_options *options,
                const struct node_world *world, struct reason *why) {
    *out = NULL;
    struct node *node = mem_calloc(1, sizeof(*node));
    if (node == NULL) {
        return reason_set(why, LKV_ENOMEM, "no memory for a node");
    }
    init_fields(node, options, world);
    int rc = start_rooms(node, why);
    if (rc == 0) {
        rc = start_server(node, why);
    }
    if (rc != 0) {
        node_destroy(node);
        return rc;
    }
    if (node->raft != NULL && !node->offline) {
        node_begin(node);
    }
    *out = node;
    return 0;
}

void node_destroy(struct node *node) {
    if (node == NULL) {
        return;
    }
    node_accept_close(node);
    if (node->server != NULL) {
        server_close(node->server);
    }
    links_close_incoming(node);
    for (size_t i = 0; i < node->peer_count; i++) {
        peer_close(node->peers[i]);
    }
    node_staged_free_all(node);
    node_write_drop_full(node);
    node_apply_fini(node);
    role_fini(&node->role_events);
    pending_fini(&node->pending);
    log_window_fini(&node->window);
    raft_close(node->raft);
    raft_update_fini(&node->update);
    extents_close(node->extents);
    log_close(node->log);
    if (node->state != NULL) {
        node->state->close(node);
    }
    disk_unlock(node->lock);
    buffer_fini(&node->frame_body);
    mem_free(node->frame_entries);
    mem_free(node->submit_sizes);
    node_session_fini(node);
    node_lease_fini(node);
    (void)pthread_cond_destroy(&node->changed_cond);
    (void)pthread_mutex_destroy(&node->mutex);
    mem_free(node);
}
