/* Two loops that talk: a server that accepts, and a client that checks what comes back. */
#ifndef TESTS_THREADS_UV_PEERS_H
#define TESTS_THREADS_UV_PEERS_H

#include "tests/threads/uv_harness.h"

enum { MIB = 1024 * 1024 };

static char folder[] = "/tmp/uv_net.XXXXXX";

static inline const char *socket_address(void) {
    static char address[sizeof(folder) + 16];
    (void)snprintf(address, sizeof(address), "unix:%s/socket", folder);
    return address;
}

/* ---- What the tests have in common: a server loop and a client loop ---- */

enum server_mode { ECHO, SINK, DEAF, LATE, CLOSE_AT_ONCE, GREET_AND_CLOSE, CLOSE_ON_DATA };

struct peer; /* a connection that the server has accepted */

struct server {
    struct harness harness;
    struct net_listener *listener;
    char address[160];
    const char *listen_on;
    enum server_mode mode;
    struct slice greeting;
    struct peer *peers[256];
    size_t accepted;
    size_t ended;
    size_t received;
    int last_rc;
    int listen_rc;
    struct reason why;
};

struct peer {
    struct server *server;
    struct net_conn *conn;
    bool over;
};

struct client {
    struct harness harness;
    struct net_conn *conn;
    const char *address;
    struct net_conn_events events;
    int connect_rc;

    uint64_t opened;
    uint64_t drained;
    uint64_t closed;
    int close_rc;
    uint64_t sent;     /* bytes, of the pattern */
    uint64_t received; /* bytes, of the pattern */
    uint64_t expected;
    size_t queued_at_drain;
};

/* Byte number `at` of every stream. */
static inline uint8_t pattern(uint64_t at) {
    return (uint8_t)(at * 131 + (at >> 8) * 17 + (at >> 16));
}

static inline void fill_pattern(uint8_t *into, uint64_t at, size_t size) {
    for (size_t i = 0; i < size; i++) {
        into[i] = pattern(at + i);
    }
}

static inline void check_pattern(struct slice bytes, uint64_t at) {
    for (size_t i = 0; i < bytes.size; i++) {
        CHECK(bytes.data[i] == pattern(at + i));
    }
}

/* ---- The server ---- */

static inline void peer_data(void *arg, struct slice bytes) {
    struct peer *peer = arg;
    struct server *server = peer->server;
    CHECK(!peer->over);
    server->received += bytes.size;
    if (server->mode == ECHO) {
        CHECK(net_write(peer->conn, bytes) == 0);
    } else if (server->mode == CLOSE_ON_DATA) {
        peer->over = true;
        server->ended++;
        net_close(peer->conn);
    }
}

static inline void peer_closed(void *arg, int rc) {
    struct peer *peer = arg;
    CHECK(!peer->over);
    peer->over = true;
    peer->server->ended++;
    peer->server->last_rc = rc;
}

static const struct net_conn_events peer_events = {.on_data = peer_data, .on_close = peer_closed};

static inline void end_at_once(struct peer *peer) {
    peer->over = true;
    peer->server->ended++;
    if (peer->server->mode == CLOSE_AT_ONCE) {
        net_close(peer->conn);
    } else {
        CHECK(net_write(peer->conn, peer->server->greeting) == 0);
        net_close_after_flush(peer->conn);
    }
}

static inline void accepted(void *arg, struct net_conn *conn) {
    struct server *server = arg;
    struct peer *peer = calloc(1, sizeof(*peer));
    CHECK(peer != NULL && server->accepted < sizeof(server->peers) / sizeof(server->peers[0]));
    server->peers[server->accepted++] = peer;
    peer->server = server;
    peer->conn = conn;
    CHECK(strlen(net_peer_name(conn)) > 5);
    if (server->mode == CLOSE_AT_ONCE || server->mode == GREET_AND_CLOSE) {
        end_at_once(peer);
        return;
    }
    if (server->mode == DEAF) {
        net_pause(conn, true);
    }
    if (server->mode != LATE) {
        net_attach(conn, &peer_events, peer);
    }
}

static inline void server_listen(void *arg) {
    struct server *server = arg;
    server->listen_rc = net_listen(server->harness.net, server->listen_on, accepted, server,
                                   &server->listener, &server->why);
}

static inline void server_open(struct server *server, const char *listen_on,
                               enum server_mode mode) {
    *server = (struct server){.mode = mode, .listen_on = listen_on};
    harness_open(&server->harness, "server");
    harness_start(&server->harness);
    harness_call(&server->harness, server_listen, server);
    CHECK(server->listen_rc == 0);
    (void)snprintf(server->address, sizeof(server->address), "%s",
                   net_listener_address(server->listener));
}

static inline void server_close(struct server *server) {
    harness_close(&server->harness);
    for (size_t i = 0; i < server->accepted; i++) {
        free(server->peers[i]);
    }
}

static inline void resume_peers(void *arg) {
    struct server *server = arg;
    for (size_t i = 0; i < server->accepted; i++) {
        net_pause(server->peers[i]->conn, false);
    }
}

static inline bool server_has_ended_one(void *arg) {
    return ((struct server *)arg)->ended == 1;
}

static inline bool server_has_accepted(void *arg) {
    return ((struct server *)arg)->accepted > 0;
}

/* ---- The client ---- */

static inline void client_opened(void *arg) {
    ((struct client *)arg)->opened++;
}

static inline void client_data(void *arg, struct slice bytes) {
    struct client *client = arg;
    CHECK(client->closed == 0);
    check_pattern(bytes, client->received);
    client->received += bytes.size;
}

static inline void client_drained(void *arg) {
    struct client *client = arg;
    client->drained++;
    client->queued_at_drain = net_queued(client->conn);
}

static inline void client_closed(void *arg, int rc) {
    struct client *client = arg;
    CHECK(client->closed == 0);
    client->closed++;
    client->close_rc = rc;
    net_close(client->conn); /* needless, and harmless */
}

static const struct net_conn_events client_events = {.on_open = client_opened,
                                                     .on_data = client_data,
                                                     .on_drain = client_drained,
                                                     .on_close = client_closed};

static inline void client_connect(void *arg) {
    struct client *client = arg;
    client->connect_rc =
        net_connect(client->harness.net, client->address, &client->events, client, &client->conn);
}

static inline void client_open(struct client *client, const char *address) {
    *client = (struct client){.address = address, .events = client_events};
    harness_open(&client->harness, "client");
    harness_start(&client->harness);
}

static inline bool client_is_open(void *arg) {
    return ((struct client *)arg)->opened == 1;
}

static inline bool client_is_closed(void *arg) {
    return ((struct client *)arg)->closed == 1;
}

static inline bool client_has_all(void *arg) {
    struct client *client = arg;
    return client->received >= client->expected || client->closed > 0;
}

static inline void start_client(struct client *client, const char *address) {
    client_open(client, address);
    harness_call(&client->harness, client_connect, client);
    CHECK(client->connect_rc == 0);
}

/* The next `size` bytes of the pattern. */
static inline int send_copied(struct client *client, size_t size) {
    uint8_t *bytes = malloc(size);
    CHECK(bytes != NULL);
    fill_pattern(bytes, client->sent, size);
    int rc = net_write(client->conn, slice_of(bytes, size));
    free(bytes);
    client->sent += rc == 0 ? size : 0;
    return rc;
}

static inline int send_blob(struct client *client, size_t size) {
    struct blob *blob = blob_new(size);
    CHECK(blob != NULL);
    fill_pattern(blob->data, client->sent, size);
    int rc = net_write_blob(client->conn, blob);
    blob_unref(blob);
    client->sent += rc == 0 ? size : 0;
    return rc;
}

static inline void send_one(void *arg) {
    CHECK(send_copied(arg, 5) == 0);
}

static inline void send_thousand(void *arg) {
    struct client *client = arg;
    for (size_t i = 0; i < 1000; i++) {
        size_t size = 1 + i * 7919 % 3000;
        CHECK((i % 3 == 0 ? send_blob(client, size) : send_copied(client, size)) == 0);
    }
}

/* Runs the tests with a folder for sockets. */
#define RUN_TESTS_IN_FOLDER(tests) \
    (mkdtemp(folder) == NULL ? 1 : RUN_TESTS(tests) + (rmdir(folder) == 0 ? 0 : 1))

#endif
