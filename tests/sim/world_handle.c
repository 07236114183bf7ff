/* The handle of a simulated node, as lib/open.c makes it: for the verbs that are answered on the caller's
 * thread, and for tails. Nothing that waits may be called on it: there is one thread. */
#include "tests/sim/world.h"

static uint64_t now_ns(const struct lkv *handle) {
    return node_now((const struct node *)(const void *)handle);
}

static void consumed(struct lkv *handle) {
    loop_wake(((struct node *)(void *)handle)->world.loop);
}

static const struct lkv_ops kv_ops = {.submit = node_submit,
                                      .now_ns = now_ns,
                                      .get_copy = node_get_copy,
                                      .get_local = node_get_local,
                                      .get_leased = node_get_leased,
                                      .consumed = consumed};

static struct own_place *own(struct lkv *handle) {
    return &((struct node *)(void *)handle)->own;
}

static const struct lkv_ops log_ops = {
    .submit = node_submit, .now_ns = now_ns, .consumed = consumed};
static const struct lkv_ops own_ops = {
    .submit = node_submit, .now_ns = now_ns, .own = own, .consumed = consumed};

void sim_handle_begin(struct sim_node *node) {
    struct lkv *handle = &node->node->handle;
    const struct sim_plan *plan = &node->world->plan;
    handle->ops = plan->own_mode ? &own_ops : plan->log_mode ? &log_ops : &kv_ops;
}
