/* Addresses: listening on them, being refused, and connecting to what is not there. */
#include "tests/threads/uv_peers.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

/* ---- Connections that never come about ---- */

static void dead_address(char *out, size_t size) {
    static struct server server;
    server_open(&server, "127.0.0.1:0", ECHO);
    (void)snprintf(out, size, "%s", server.address);
    server_close(&server);
}

static void connecting_to_nobody_is_unreachable(void) {
    static struct client client;
    char port[160], localhost[192];
    dead_address(port, sizeof(port));
    (void)snprintf(localhost, sizeof(localhost), "localhost:%s", strrchr(port, ':') + 1);
    /* The last: a label of 64 bytes is refused without asking anybody. */
    const char *addresses[] = {
        port, localhost, "unix:/tmp/uv_net.no/socket",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.test:1"};
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        start_client(&client, addresses[i]);
        harness_await(&client.harness, client_is_closed, &client);
        harness_close(&client.harness);
        CHECK(client.close_rc == LKV_EUNREACHABLE);
        CHECK(client.opened == 0);
    }
}

static void close_unless_closed(void *arg) {
    struct client *client = arg;
    if (client->closed == 0) {
        net_close(client->conn);
    }
}

static void connecting_may_be_given_up_at_any_time(void) {
    static struct client client;
    static const char *const addresses[] = {"localhost:1", "127.0.0.1:1", "192.0.2.1:1",
                                            "unix:/tmp/uv_net.no/socket"};
    for (size_t i = 0; i < 40; i++) {
        client_open(&client, addresses[i % 4]);
        harness_call(&client.harness, client_connect, &client);
        /* A machine without a route says so at once. */
        if (client.connect_rc == 0 && i % 3 != 0) {
            harness_call(&client.harness, close_unless_closed, &client);
        }
        harness_close(&client.harness); /* for a third of them, with the attempt going on */
        CHECK(client.connect_rc == 0 || client.connect_rc == LKV_EUNREACHABLE);
    }
}

static void connect_badly(void *arg) {
    struct client *client = arg;
    static const char *const bad[] = {"", "host", "1.2.3.4:x", "unix:", ":1", "::1:7001", "[::1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK(net_connect(client->harness.net, bad[i], &client_events, client, &client->conn) ==
              LKV_EINVAL);
        CHECK(client->conn == NULL);
    }
}

static void bad_address_is_refused_at_once(void) {
    static struct client client;
    client_open(&client, NULL);
    harness_call(&client.harness, connect_badly, &client);
    harness_close(&client.harness);
}

/* ---- Listening ---- */

static void refuse_to_listen(const char *address, int rc, const char *in_reason) {
    struct server other = {.listen_on = address};
    harness_open(&other.harness, "other");
    server_listen(&other); /* before the start: also allowed */
    CHECK(other.listen_rc == rc);
    CHECK(other.listener == NULL);
    CHECK(strstr(other.why.text, in_reason) != NULL);
    CHECK(strstr(other.why.text, address) != NULL);
    harness_close(&other.harness);
}

/* X-H1 */
static void address_in_use_is_refused_with_its_name(void) {
    static struct server server;
    server_open(&server, "127.0.0.1:0", ECHO);
    refuse_to_listen(server.address, LKV_EADDRINUSE, "in use");
    server_close(&server);
    server_open(&server, socket_address(), ECHO);
    refuse_to_listen(server.address, LKV_EADDRINUSE, "in use");
    CHECK(access(socket_address() + 5, F_OK) == 0);
    server_close(&server);
    refuse_to_listen("192.0.2.1:0", LKV_EINVAL, "no address of this machine");
    refuse_to_listen("nonsense", LKV_EINVAL, "HOST:PORT");
    refuse_to_listen("unix:/tmp/uv_net.no/socket", LKV_EPERM, "denied");
}

static void same_port_is_free_again_at_once(void) {
    static struct server server;
    static struct client client;
    char address[160];
    server_open(&server, "127.0.0.1:0", CLOSE_AT_ONCE); /* leaves the port in TIME_WAIT */
    (void)snprintf(address, sizeof(address), "%s", server.address);
    start_client(&client, address);
    harness_await(&client.harness, client_is_closed, &client);
    harness_close(&client.harness);
    server_close(&server);
    server_open(&server, address, ECHO);
    server_close(&server);
}

static void leave_stale_socket(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    CHECK(fd >= 0);
    CHECK(bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(close(fd) == 0);
}

static void stale_socket_file_is_replaced_and_a_plain_file_is_not(void) {
    static struct server server;
    struct stat status;
    const char *path = socket_address() + strlen("unix:");
    leave_stale_socket(path);
    server_open(&server, socket_address(), ECHO);
    CHECK(stat(path, &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    server_close(&server);

    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fclose(file) == 0);
    refuse_to_listen(socket_address(), LKV_EADDRINUSE, "in use");
    CHECK(stat(path, &status) == 0 && S_ISREG(status.st_mode));
    CHECK(unlink(path) == 0);
}

static void listen_without_rights(void) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
        _exit(2);
    }
    refuse_to_listen(socket_address(), LKV_EPERM, "denied");
    _exit(0);
}

/* X-H1. In a child, which starts no thread. */
static void missing_rights_are_permission_denied(void) {
    int status;
    CHECK(chmod(folder, 0500) == 0);
    pid_t child = fork();
    if (child == 0) {
        listen_without_rights();
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(chmod(folder, 0700) == 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void close_listener(void *arg) {
    struct server *server = arg;
    net_listener_close(server->listener);
    net_listener_close(NULL);
}

static void closing_a_listener_leaves_its_connections(void) {
    static struct server server;
    static struct client client;
    server_open(&server, "127.0.0.1:0", ECHO);
    start_client(&client, server.address);
    harness_await(&server.harness, server_has_accepted, &server);
    harness_call(&server.harness, close_listener, &server);
    harness_call(&client.harness, send_thousand, &client);
    client.expected = client.sent;
    harness_await(&client.harness, client_has_all, &client);
    harness_close(&client.harness);
    start_client(&client, server.address);
    harness_await(&client.harness, client_is_closed, &client);
    CHECK(client.close_rc == LKV_EUNREACHABLE);
    harness_close(&client.harness);
    server_close(&server);
}

int main(void) {
    static const struct test tests[] = {
        {"missing rights are permission denied (X-H1)", missing_rights_are_permission_denied},
        {"connecting to nobody is unreachable", connecting_to_nobody_is_unreachable},
        {"connecting may be given up at any time", connecting_may_be_given_up_at_any_time},
        {"bad address is refused at once", bad_address_is_refused_at_once},
        {"address in use is refused with its name (X-H1)", address_in_use_is_refused_with_its_name},
        {"same port is free again at once", same_port_is_free_again_at_once},
        {"stale socket file is replaced and a plain file is not",
         stale_socket_file_is_replaced_and_a_plain_file_is_not},
        {"closing a listener leaves its connections", closing_a_listener_leaves_its_connections},
    };
    return RUN_TESTS_IN_FOLDER(tests);
}
