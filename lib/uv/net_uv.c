#include "lib/uv/net_uv.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/uv/net_inside.h"

static const struct net_ops ops = {.listen = net_uv_listen,
                                   .listener_address = listener_address,
                                   .listener_close = listener_close,
                                   .connect = net_uv_connect,
                                   .attach = conn_attach,
                                   .write = conn_write,
                                   .write_blob = conn_write_blob,
                                   .queued = conn_queued,
                                   .set_limit = conn_set_limit,
                                   .pause = conn_pause,
                                   .close = conn_close,
                                   .close_after_flush = conn_close_after_flush,
                                   .peer_name = conn_peer_name};

static struct net_uv *net_of_hook(struct loop_hook *hook) {
    return LIST_ITEM(hook, struct net_uv, hook);
}

/* ---- Turns ---- */

static void on_notice(struct loop_hook *hook) {
    resolver_deliver(net_of_hook(hook)->resolver);
}

static void on_flush(struct loop_hook *hook) {
    struct net_uv *net = net_of_hook(hook);
    if (net->accepts_owed > 0 && !net->loop->ended) {
        listeners_accept_owed(net);
    }
    /* What becomes dirty by a callback in here waits for one more turn: the owner's on_turn_end
     * comes first. */
    struct list_link dirty;
    list_take(&dirty, &net->dirty);
    for (struct list_link *link; (link = list_pop_front(&dirty)) != NULL;) {
        conn_flush(LIST_ITEM(link, struct conn, dirty));
    }
    if (!list_empty(&net->dirty)) {
        loop_uv_once_more(net->loop);
    }
}

/* ---- Lingering ---- */

static void on_linger(uv_timer_t *timer);

static void arm_linger(struct net_uv *net) {
    if (list_empty(&net->released)) {
        return;
    }
    struct conn *oldest = LIST_ITEM(net->released.next, struct conn, released);
    uint64_t now_ms = uv_now(&net->loop->uv);
    uint64_t left_ms = oldest->until_ms > now_ms ? oldest->until_ms - now_ms : 0;
    int rc = uv_timer_start(&net->linger_timer, on_linger, left_ms, 0);
    ASSERT(rc == 0);
}

static void on_linger(uv_timer_t *timer) {
    struct net_uv *net = timer->data;
    uint64_t now_ms = uv_now(&net->loop->uv);
    while (!list_empty(&net->released)) {
        struct conn *oldest = LIST_ITEM(net->released.next, struct conn, released);
        if (oldest->until_ms > now_ms) {
            break;
        }
        conn_discard(oldest);
    }
    arm_linger(net);
}

void net_uv_linger(struct conn *conn) {
    struct net_uv *net = conn->net;
    conn->until_ms = uv_now(&net->loop->uv) + LINGER_MS;
    list_push_back(&net->released, &conn->released);
    if (!uv_is_active((const uv_handle_t *)&net->linger_timer)) {
        arm_linger(net);
    }
}

/* ---- Life ---- */

static void on_timer_closed(uv_handle_t *handle) {
    struct net_uv *net = handle->data;
    net->handles--;
}

static struct net_uv *new_net(struct loop_uv *loop) {
    struct net_uv *net = mem_calloc(1, sizeof(*net));
    if (net != NULL) {
        net->base.ops = &ops;
        net->loop = loop;
        net->hook.notice = on_notice;
        net->hook.flush = on_flush;
        list_init(&net->conns);
        list_init(&net->listeners);
        list_init(&net->dirty);
        list_init(&net->released);
    }
    return net;
}

int net_uv_open(struct net **out, struct loop *base) {
    *out = NULL;
    struct loop_uv *loop = loop_uv_of(base);
    ASSERT(loop_uv_is_here(base));
    struct net_uv *net = new_net(loop);
    if (net == NULL) {
        return LKV_ENOMEM;
    }
    net->read_buffer = mem_alloc(READ_BUFFER_SIZE);
    if (net->read_buffer == NULL) {
        goto fail_after_new;
    }
    if (resolver_open(&net->resolver, loop) != 0) {
        goto fail_after_buffer;
    }
    int rc = uv_timer_init(&loop->uv, &net->linger_timer);
    ASSERT(rc == 0);
    net->linger_timer.data = net;
    net->handles++;
    loop_uv_add_hook(loop, &net->hook);
    *out = &net->base;
    return 0;

fail_after_buffer:
    mem_free(net->read_buffer);
fail_after_new:
    mem_free(net);
    return LKV_ENOMEM;
}

void net_uv_close(struct net *base) {
    if (base == NULL) {
        return;
    }
    struct net_uv *net = net_uv_of(base);
    while (!list_empty(&net->listeners)) {
        listener_close(&LIST_ITEM(net->listeners.next, struct listener, link)->base);
    }
    while (!list_empty(&net->conns)) {
        conn_discard(LIST_ITEM(net->conns.next, struct conn, link));
    }
    uv_close((uv_handle_t *)&net->linger_timer, on_timer_closed);
    resolver_close(net->resolver);
    loop_uv_remove_hook(net->loop, &net->hook);
    while (net->handles > 0) {
        loop_uv_run_closing(net->loop);
    }
    mem_free(net->read_buffer);
    mem_free(net);
}
