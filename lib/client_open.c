/* A client on a loop and sockets of its own. */
#include "lib/client.h"
#include "lib/uv/loop_uv.h"
#include "lib/uv/net_uv.h"

/* Joins the thread first, so that everything below runs as if on it. */
static int close_client(struct lkv *db, int64_t handover_ms) {
    (void)handover_ms; /* a client leads nothing */
    struct client *client = client_of(db);
    struct loop *loop;
    struct net *net;
    client_world(client, &loop, &net);
    loop_uv_stop(loop);
    client_stop(client);
    net_uv_close(net);
    loop_uv_close(loop);
    client_free(client);
    return 0;
}

static int start(struct client *client, struct reason *why) {
    struct loop *loop;
    struct loop_events events = client_events(client);
    int rc = loop_uv_open(&loop, &events, "lkv-client", false, why);
    if (rc != 0) {
        return rc;
    }
    struct net *net;
    rc = net_uv_open(&net, loop);
    if (rc != 0) {
        (void)reason_set(why, rc, "cannot make the client's network: %s", error_text(rc));
        goto fail_after_loop;
    }
    client_start(client, loop, net);
    rc = loop_uv_start(loop);
    if (rc != 0) {
        (void)reason_set(why, rc, "cannot start the client's thread: %s", error_text(rc));
        goto fail_after_net;
    }
    return 0;

fail_after_net:
    client_stop(client);
    net_uv_close(net);
fail_after_loop:
    loop_uv_close(loop);
    return rc;
}

int client_open(struct lkv **out, const struct lkv_options *options, struct reason *why) {
    *out = NULL;
    if (options->endpoint_count == 0) {
        return reason_set(why, LKV_EOPTION, "endpoints: expected HOST:PORT,...; got none");
    }
    struct client *client;
    int rc = client_new(&client, options, close_client);
    if (rc != 0) {
        return reason_set(why, rc, "out of memory for a client");
    }
    rc = start(client, why);
    if (rc != 0) {
        client_free(client);
        return rc;
    }
    *out = client_handle(client);
    return 0;
}
