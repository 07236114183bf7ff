/* The clients of a node; each one's life is in server_conn.c. */
#include "lib/server_inside.h"

#include "base/mem.h"
#include "lib/client_wire.h"

#include <inttypes.h>

void server_look_at(struct server *server, uint64_t at_ns) {
    server->look_at_ns = at_ns < server->look_at_ns ? at_ns : server->look_at_ns;
}

void server_look_soon(struct server *server) {
    if (server->look_at_ns == UINT64_MAX) {
        server_look_at(server, loop_now_ns(server->loop) + SERVER_LOOK_S * NS_PER_S);
    }
}

void server_release(struct server *server) {
    if (server->closed && server->conns_alive == 0) {
        wire_decoder_free(server->decoder);
        buffer_fini(&server->scratch);
        mem_free(server);
    }
}

static void look_at_all(struct server *server, uint64_t now_ns) {
    bool trim = server->trim_due;
    struct list_link *next;
    server->trim_due = false;
    server->look_at_ns = UINT64_MAX;
    for (struct list_link *link = server->conns.next; link != &server->conns; link = next) {
        next = link->next;
        struct server_conn *conn = LIST_ITEM(link, struct server_conn, link);
        if (server_conn_look(conn, now_ns)) {
            server_look_at(server,
                           now_ns + (conn->starved ? SERVER_STARVED_NS : SERVER_LOOK_S * NS_PER_S));
        }
    }
    if (server->trim_due) {
        server_look_at(server, now_ns + SERVER_LOOK_S * NS_PER_S);
    } else if (trim) {
        mem_trim();
    }
}

uint64_t server_expire(struct server *server, uint64_t now_ns) {
    struct list_link batch;
    list_init(&batch);
    /* Only those that wait now: one that pauses again does so for the next turn. */
    while (!list_empty(&server->resumable)) {
        list_push_back(&batch, list_pop_front(&server->resumable));
    }
    for (struct list_link *link; (link = list_pop_front(&batch)) != NULL;) {
        server_conn_resume(LIST_ITEM(link, struct server_conn, resume));
    }
    if (now_ns >= server->look_at_ns) {
        look_at_all(server, now_ns);
    }
    return list_empty(&server->resumable) ? server->look_at_ns : now_ns;
}

/* ------------------------------------------------------------------ the server */

int server_open(struct server **out, struct loop *loop, const struct server_options *options,
                const struct server_host *host) {
    *out = NULL;
    struct server *server = mem_calloc(1, sizeof(*server));
    if (server == NULL) {
        return LKV_ENOMEM;
    }
    server->decoder = wire_decoder_new();
    if (server->decoder == NULL) {
        mem_free(server);
        return LKV_ENOMEM;
    }
    server->loop = loop;
    server->options = *options;
    server->host = *host;
    server->limits = (struct limits){.key_bytes_max = options->key_bytes_max,
                                     .value_bytes_max = options->value_bytes_max,
                                     .sessions_max = options->sessions_max};
    buffer_init(&server->scratch);
    list_init(&server->conns);
    list_init(&server->resumable);
    server->look_at_ns = UINT64_MAX;
    *out = server;
    return 0;
}

void server_adopt(struct server *server, struct net_conn *net, struct slice first_bytes) {
    struct server_conn *conn = server->closed ? NULL : server_conn_new(server, net);
    if (conn == NULL) {
        net_close(net);
        return;
    }
    net_set_limit(net, SERVER_OUTPUT_BYTES_MAX);
    if (server->conn_count > server->options.connections_max) {
        struct reason why;
        (void)reason_set(&why, LKV_EBUSY, "connections_max is %" PRIu64,
                         server->options.connections_max);
        server_conn_refuse(conn, LKV_EBUSY, &why);
        return;
    }
    server_conn_start(conn, first_bytes);
}

size_t server_connections(const struct server *server) {
    return server != NULL ? server->conn_count : 0;
}

void server_close(struct server *server) {
    if (server == NULL) {
        return;
    }
    server->conns_alive++; /* closing the last connection may not free it yet */
    server->closed = true;
    while (!list_empty(&server->conns)) {
        server_conn_close(LIST_ITEM(server->conns.next, struct server_conn, link));
    }
    server->conns_alive--;
    server_release(server);
}
