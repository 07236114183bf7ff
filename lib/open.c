/* A node on the real world: libuv's loop and sockets, POSIX files. */
#include "lib/node.h"

#include "base/mem.h"
#include "lib/uv/descriptors.h"
#include "lib/uv/disk_posix.h"
#include "lib/uv/loop_uv.h"
#include "lib/uv/net_uv.h"

static void close_world(struct node_world *world) {
    net_uv_close(world->net);
    loop_uv_close(world->loop);
    disk_posix_close(world->disk);
}

static int open_world(struct node_world *world, struct reason *why) {
    static const struct loop_events none = {0};
    *world = (struct node_world){0};
    int rc = disk_posix_open(&world->disk);
    if (rc == 0) {
        rc = loop_uv_open(&world->loop, &none, "ledgerkv", true, why);
    }
    if (rc == 0) {
        rc = net_uv_open(&world->net, world->loop);
    }
    if (rc != 0) {
        close_world(world);
        if (why != NULL && why->text[0] == '\0') {
            (void)reason_set(why, rc, "cannot start the loop: %s", error_text(rc));
        }
    }
    return rc;
}

static int close_node(struct lkv *handle, int64_t handover_ms) {
    struct node *node = (struct node *)handle;
    (void)pthread_mutex_lock(&node->mutex);
    node->close_requested = true;
    node->close_handover_ms = handover_ms;
    (void)pthread_mutex_unlock(&node->mutex);
    loop_wake(node->world.loop);
    (void)pthread_mutex_lock(&node->mutex);
    while (!node->finished) {
        (void)pthread_cond_wait(&node->changed_cond, &node->mutex);
    }
    (void)pthread_mutex_unlock(&node->mutex);
    struct node_world world = node->world;
    loop_uv_stop(world.loop);
    int rc = node->stop_rc;
    node_destroy(node);
    close_world(&world);
    return rc;
}

static int role_watch(struct lkv *handle, struct lkv_queue *queue, void *tag) {
    struct node *node = (struct node *)handle;
    struct role_watch_request *request = mem_calloc(1, sizeof(*request));
    if (request == NULL) {
        return LKV_ENOMEM;
    }
    request->queue = queue;
    request->tag = tag;
    (void)pthread_mutex_lock(&node->mutex);
    request->next = node->role_requests;
    node->role_requests = request;
    (void)pthread_mutex_unlock(&node->mutex);
    loop_wake(node->world.loop);
    return 0;
}

static void wake(struct lkv *handle) {
    loop_wake(((struct node *)handle)->world.loop);
}

static uint64_t now_ns(const struct lkv *handle) {
    return node_now((const struct node *)handle);
}

static const struct lkv_ops node_ops = {.submit = node_submit,
                                        .close = close_node,
                                        .now_ns = now_ns,
                                        .wake = wake,
                                        .get_copy = node_get_copy,
                                        .get_local = node_get_local,
                                        .get_leased = node_get_leased,
                                        .role_watch = role_watch,
                                        .consumed = wake};

static struct own_place *own(struct lkv *handle) {
    struct node *node = (struct node *)handle;
    return node->identity.model == MODEL_OWN ? &node->own : NULL;
}

/* Nothing of it can be answered on the caller's thread: the loop's window is the loop's. */
static const struct lkv_ops log_node_ops = {.submit = node_submit,
                                            .close = close_node,
                                            .now_ns = now_ns,
                                            .wake = wake,
                                            .role_watch = role_watch,
                                            .own = own,
                                            .consumed = wake};

/* A node alone needs nobody to lead: when the caller has the handle, everything acknowledged before is
 * there to read. With a full disk it is what local reads show. */
static int wait_settled(struct node *node, struct reason *why) {
    if (node->peer_count > 0 || node->offline) {
        return 0;
    }
    (void)pthread_mutex_lock(&node->mutex);
    while (!node->settled) {
        (void)pthread_cond_wait(&node->changed_cond, &node->mutex);
    }
    int rc = node->settled_rc;
    if (rc != 0) {
        (void)reason_set(why, rc, "%s", node->settled_why.text);
    }
    (void)pthread_mutex_unlock(&node->mutex);
    return rc;
}

/* Clients must never take the descriptors that segments and peers need. */
static void bound_connections(struct lkv_options *options) {
    uint64_t limit = descriptors_max() / 2;
    if (options->connections_max > limit) {
        trace_line(&options->trace, TRACE_WARN, "few-descriptors",
                   "connections_max is %llu, but the process may open %llu descriptors: %llu it is",
                   (unsigned long long)options->connections_max, (unsigned long long)(2 * limit),
                   (unsigned long long)limit);
        options->connections_max = limit;
    }
}

int node_open(struct lkv **out, const struct lkv_options *options, struct reason *why) {
    *out = NULL;
    struct node_world world;
    int rc = open_world(&world, why);
    if (rc != 0) {
        return rc;
    }
    struct node *node;
    struct lkv_options bounded = *options;
    bound_connections(&bounded);
    rc = node_create(&node, &bounded, &world, why);
    if (rc != 0) {
        close_world(&world);
        return rc;
    }
    node->handle.ops = model_has_records(node->identity.model) ? &log_node_ops : &node_ops;
    world.loop->events = node_loop_events(node);
    node_turn(node); /* arms the timer and dials: nobody else is on the loop yet */
    rc = loop_uv_start(world.loop);
    if (rc != 0) {
        loop_uv_stop(world.loop);
        node_destroy(node);
        close_world(&world);
        return reason_set(why, rc, "cannot start the loop's thread: %s", error_text(rc));
    }
    rc = wait_settled(node, why);
    if (rc != 0) {
        (void)close_node(&node->handle, 0);
        return rc;
    }
    *out = &node->handle;
    return 0;
}
