/* Connections between two loops on two threads: TCP and unix sockets, all ways to end. */
#include "tests/threads/uv_peers.h"

#include "base/mem.h"

/* ---- Echo ---- */

static void send_large(void *arg) {
    for (int i = 0; i < 3; i++) {
        CHECK(send_blob(arg, 4 * MIB) == 0);
        CHECK(send_copied(arg, 17) == 0);
    }
    CHECK(send_copied(arg, 300 * 1024) == 0); /* more than a chunk */
    CHECK(net_queued(((struct client *)arg)->conn) == ((struct client *)arg)->sent);
}

static void echo(const char *listen_on, void (*send)(void *arg), bool wait_until_open) {
    static struct server server;
    static struct client client;
    server_open(&server, listen_on, ECHO);
    start_client(&client, server.address);
    if (wait_until_open) {
        harness_await(&client.harness, client_is_open, &client);
    }
    harness_call(&client.harness, send, &client);
    client.expected = client.sent;
    harness_await(&client.harness, client_has_all, &client);
    harness_close(&client.harness);
    server_close(&server);
    CHECK(client.received == client.sent);
    CHECK(client.closed == 0);
    CHECK(server.accepted == 1);
}

static void echoes(void) {
    static void (*const sends[])(void *arg) = {send_one, send_thousand, send_large};
    for (size_t i = 0; i < sizeof(sends) / sizeof(sends[0]); i++) {
        for (int wait = 0; wait < 2; wait++) { /* not waiting: queued before the connection is */
            echo("127.0.0.1:0", sends[i], wait != 0);
            echo(socket_address(), sends[i], wait != 0);
        }
    }
    CHECK(access(socket_address() + strlen("unix:"), F_OK) != 0); /* gone with the listener */
}

static bool has_ipv6(void) {
    FILE *file = fopen("/proc/net/if_inet6", "r");
    bool found = file != NULL && fgetc(file) != EOF;
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

static void echoes_over_ipv6(void) {
    if (!has_ipv6()) {
        printf("    SKIPPED: no IPv6 address on this machine\n");
        return;
    }
    echo("[::1]:0", send_thousand, true);
}

/* The server's name resolves to two addresses where IPv6 is on; one of them listens. */
static void names_are_resolved_and_every_address_tried(void) {
    static struct server server;
    static struct client client;
    server_open(&server, "127.0.0.1:0", ECHO);
    char address[64];
    (void)snprintf(address, sizeof(address), "localhost:%s", strrchr(server.address, ':') + 1);
    for (int i = 0; i < 3; i++) {
        start_client(&client, address);
        harness_await(&client.harness, client_is_open, &client);
        harness_close(&client.harness);
    }
    server_close(&server);
    echo("localhost:0", send_one, true);
}

/* ---- The limit ---- */

static void fill_to_the_limit(void *arg) {
    struct client *client = arg;
    net_set_limit(client->conn, MIB);
    int rc = 0;
    while (rc == 0) {
        size_t before = net_queued(client->conn);
        rc = send_blob(client, 64 * 1024);
        CHECK(net_queued(client->conn) == before + (rc == 0 ? 64 * 1024 : 0));
    }
    CHECK(rc == LKV_EBUSY);
    CHECK(net_queued(client->conn) == MIB);
    CHECK(send_copied(client, 1) == LKV_EBUSY);
    CHECK(send_copied(client, 2 * MIB) == LKV_EBUSY); /* more than ever fits */
}

static bool is_drained(void *arg) {
    return ((struct client *)arg)->drained > 0;
}

/* Ends when the deaf peer's and our own socket buffers are full. */
static bool is_stuck(void *arg) {
    struct client *client = arg;
    while (send_blob(client, 64 * 1024) == 0) {
        continue;
    }
    return net_queued(client->conn) > MIB - 64 * 1024 && client->harness.turns > 200;
}

static void turn_on(void *arg) {
    struct harness *harness = arg;
    loop_timer_set(harness->loop, loop_now_ns(harness->loop) + 1000000);
}

static void start_turning(void *arg) {
    struct client *client = arg;
    client->harness.on_timer = turn_on;
    client->harness.arg = &client->harness;
    turn_on(&client->harness);
}

static void forget_drains(void *arg) {
    ((struct client *)arg)->drained = 0;
}

static void more_than_the_limit_is_busy_until_it_drains(void) {
    static struct server server;
    static struct client client;
    server_open(&server, "127.0.0.1:0", DEAF);
    start_client(&client, server.address);
    harness_await(&client.harness, client_is_open, &client);
    harness_call(&client.harness, fill_to_the_limit, &client);
    harness_call(&client.harness, start_turning, &client);
    harness_await(&client.harness, is_stuck, &client);
    harness_await(&server.harness, server_has_accepted, &server);

    harness_call(&client.harness, forget_drains, &client);
    pause_ms(20);
    server.mode = SINK; /* only changes what on_data does, and it is not called while paused */
    harness_call(&server.harness, resume_peers, &server);
    harness_await(&client.harness, is_drained, &client);
    harness_close(&client.harness);
    server_close(&server);
    CHECK(client.queued_at_drain <= MIB / 2);
    CHECK(client.closed == 0);
}

static void only_too_much_is_busy_without_a_promise(void *arg) {
    struct client *client = arg;
    net_set_limit(client->conn, 1000);
    CHECK(send_copied(client, 1001) == LKV_EBUSY);
    CHECK(net_queued(client->conn) == 0);
    CHECK(send_copied(client, 1000) == 0);
    net_set_limit(client->conn, 10); /* below what is queued */
    CHECK(send_copied(client, 1) == LKV_EBUSY);
}

static void refusal_of_what_can_never_fit_does_not_spin(void) {
    static struct server server;
    static struct client client;
    server_open(&server, "127.0.0.1:0", ECHO);
    start_client(&client, server.address);
    harness_await(&client.harness, client_is_open, &client);
    harness_call(&client.harness, only_too_much_is_busy_without_a_promise, &client);
    client.expected = 1000;
    harness_await(&client.harness, client_has_all, &client);
    pause_ms(20);
    uint64_t turns = 0;
    harness_close(&client.harness);
    turns = client.harness.turns;
    server_close(&server);
    CHECK(turns < 20);
    CHECK(client.drained == 1);
}

/* ---- Pause ---- */

static void send_megabyte(void *arg) {
    CHECK(send_blob(arg, MIB) == 0);
}

static bool server_has_megabyte(void *arg) {
    return ((struct server *)arg)->received == MIB;
}

static void paused_connection_hears_nothing_until_it_is_resumed(void) {
    static struct server server;
    static struct client client;
    server_open(&server, socket_address(), DEAF);
    start_client(&client, server.address);
    harness_call(&client.harness, send_megabyte, &client);
    harness_await(&server.harness, server_has_accepted, &server);
    pause_ms(50);
    harness_call(&server.harness, resume_peers, &server);
    harness_await(&server.harness, server_has_megabyte, &server);
    harness_close(&client.harness);
    server_close(&server);
}

/* ---- Ends ---- */

static void close_client(void *arg) {
    struct client *client = arg;
    net_close(client->conn);
}

static void close_of_one_end_is_told_to_the_other(void) {
    static struct server server;
    static struct client client;
    server_open(&server, "127.0.0.1:0", ECHO);
    start_client(&client, server.address);
    harness_await(&client.harness, client_is_open, &client);
    harness_await(&server.harness, server_has_accepted, &server);
    harness_call(&client.harness, close_client, &client);
    harness_await(&server.harness, server_has_ended_one, &server);
    harness_close(&client.harness);
    server_close(&server);
    CHECK(server.last_rc == 0);
    CHECK(client.closed == 0); /* it closed itself: nothing to tell */
}

static void close_in_open(void *arg) {
    struct client *client = arg;
    client->opened++;
    net_close(client->conn);
}

static void send_in_open(void *arg) {
    struct client *client = arg;
    client->opened++;
    CHECK(send_copied(client, 10) == 0);
}

static void close_in_data(void *arg, struct slice bytes) {
    struct client *client = arg;
    CHECK(client->received == 0);
    client->received += bytes.size;
    net_close(client->conn);
}

static bool client_has_data(void *arg) {
    return ((struct client *)arg)->received > 0;
}

static void connection_may_be_closed_in_its_callbacks(void) {
    static struct server server;
    static struct client client;
    server_open(&server, "127.0.0.1:0", ECHO);
    client_open(&client, server.address);
    client.events.on_open = close_in_open;
    harness_call(&client.harness, client_connect, &client);
    harness_await(&client.harness, client_is_open, &client);
    harness_close(&client.harness);
    CHECK(client.closed == 0);

    client_open(&client, server.address);
    client.events.on_open = send_in_open;
    client.events.on_data = close_in_data;
    harness_call(&client.harness, client_connect, &client);
    harness_await(&client.harness, client_has_data, &client);
    harness_close(&client.harness);
    CHECK(client.closed == 0);
    server_close(&server);
}

static void accepted_connection_may_be_closed_in_on_accept_or_on_data(void) {
    static const enum server_mode modes[] = {CLOSE_AT_ONCE, CLOSE_ON_DATA};
    static struct server server;
    static struct client client;
    for (size_t i = 0; i < 2; i++) {
        server_open(&server, "127.0.0.1:0", modes[i]);
        client_open(&client, server.address);
        client.events.on_open = send_in_open;
        harness_call(&client.harness, client_connect, &client);
        harness_await(&client.harness, client_is_closed, &client);
        harness_close(&client.harness);
        server_close(&server);
        CHECK(client.close_rc == 0 || client.close_rc == LKV_EIO);
    }
}

static void send_and_close_after_flush(void *arg) {
    struct client *client = arg;
    CHECK(send_blob(client, 2 * MIB) == 0);
    CHECK(send_copied(client, 100) == 0);
    net_close_after_flush(client->conn);
}

static void close_after_flush_sends_everything_first(void) {
    static struct server server;
    static struct client client;
    for (int wait = 0; wait < 2; wait++) {
        server_open(&server, wait ? "127.0.0.1:0" : socket_address(), SINK);
        start_client(&client, server.address);
        if (wait) {
            harness_await(&client.harness, client_is_open, &client);
        }
        harness_call(&client.harness, send_and_close_after_flush, &client);
        harness_await(&server.harness, server_has_ended_one, &server);
        harness_close(&client.harness);
        server_close(&server);
        CHECK(server.received == 2 * MIB + 100);
        CHECK(server.last_rc == 0);
        CHECK(client.closed == 0);
    }
}

/* N10: the last words arrive although the other end sends what nobody reads. */
static void last_words_are_not_overtaken_by_a_reset(void) {
    static struct server server;
    static struct client client;
    static uint8_t words[1000];
    fill_pattern(words, 0, sizeof(words));
    for (int i = 0; i < 20; i++) {
        server_open(&server, "127.0.0.1:0", GREET_AND_CLOSE);
        server.greeting = slice_of(words, sizeof(words));
        client_open(&client, server.address);
        client.events.on_open = send_megabyte; /* later, the server may have closed already */
        harness_call(&client.harness, client_connect, &client);
        harness_await(&client.harness, client_is_closed, &client);
        harness_close(&client.harness);
        server_close(&server);
        CHECK(client.received == sizeof(words));
    }
}

static void let_go(void *arg) {
    struct client *client = arg;
    client->harness.on_timer = NULL;
    net_close_after_flush(client->conn);
}

static void note_fds(void *arg) {
    *(size_t *)arg = count_fds();
}

/* On the loop's thread: TSan follows descriptors, and one that is used again elsewhere looks to it
 * like a race. */
static size_t fds_of(struct client *client) {
    size_t count;
    harness_call(&client->harness, note_fds, &count);
    return count;
}

static void closing_after_flush_gives_up_on_a_peer_that_reads_nothing(void) {
    static struct server server;
    static struct client client;
    server_open(&server, "127.0.0.1:0", DEAF);
    start_client(&client, server.address);
    harness_await(&client.harness, client_is_open, &client);
    harness_await(&server.harness, server_has_accepted, &server);
    harness_call(&client.harness, start_turning, &client);
    harness_await(&client.harness, is_stuck, &client);
    size_t before = fds_of(&client);
    harness_call(&client.harness, let_go, &client);
    CHECK(fds_of(&client) == before);
    for (int i = 0; fds_of(&client) == before; i++) {
        CHECK(i < 1000);
        pause_ms(10);
    }
    CHECK(fds_of(&client) == before - 1); /* the server's end stays */
    harness_close(&client.harness);
    server_close(&server);
}

/* N15: the test would die of SIGPIPE, whose disposition is the default. */
static void keep_writing(void *arg) {
    struct client *client = arg;
    if (client->closed == 0) {
        CHECK(send_copied(client, 1000) == 0);
        loop_timer_set(client->harness.loop, loop_now_ns(client->harness.loop));
    }
}

static void start_writing(void *arg) {
    struct client *client = arg;
    net_pause(client->conn, true); /* so that only writing can notice */
    client->harness.on_timer = keep_writing;
    client->harness.arg = client;
    keep_writing(client);
}

static void writing_to_a_peer_that_has_closed_is_an_error_and_no_signal(void) {
    static struct server server;
    static struct client client;
    static const enum server_mode modes[] = {CLOSE_AT_ONCE, CLOSE_ON_DATA};
    for (size_t i = 0; i < 4; i++) {
        server_open(&server, i < 2 ? "127.0.0.1:0" : socket_address(), modes[i % 2]);
        client_open(&client, server.address);
        client.events.on_open = start_writing;
        harness_call(&client.harness, client_connect, &client);
        harness_await(&client.harness, client_is_closed, &client);
        harness_close(&client.harness);
        server_close(&server);
        CHECK(client.close_rc == LKV_EIO);
    }
}

static void write_unattached(void *arg) {
    struct server *server = arg;
    CHECK(net_write(server->peers[0]->conn, slice_text("to nobody")) == 0);
}

static void attach_late(void *arg) {
    struct server *server = arg;
    net_attach(server->peers[0]->conn, &peer_events, server->peers[0]);
}

static void failure_before_attaching_is_told_after_it(void) {
    static struct server server;
    static struct client client;
    server_open(&server, socket_address(), LATE);
    start_client(&client, server.address);
    harness_await(&server.harness, server_has_accepted, &server);
    harness_call(&client.harness, close_client, &client);
    for (int i = 0; i < 10; i++) {
        harness_call(&server.harness, write_unattached, &server);
    }
    CHECK(server.ended == 0);
    harness_call(&server.harness, attach_late, &server);
    harness_await(&server.harness, server_has_ended_one, &server);
    harness_close(&client.harness);
    server_close(&server);
    CHECK(server.last_rc == LKV_EIO);
}

/* ---- Many, and memory ---- */

enum { CROWD = 200 };

struct crowd {
    struct harness harness;
    struct net_conn *conns[CROWD];
    const char *address;
    size_t received;
};

static void crowd_data(void *arg, struct slice bytes) {
    ((struct crowd *)arg)->received += bytes.size;
}

static void crowd_closed(void *arg, int rc) {
    (void)arg;
    (void)rc;
    CHECK(false);
}

static void connect_crowd(void *arg) {
    static const struct net_conn_events events = {.on_data = crowd_data, .on_close = crowd_closed};
    struct crowd *crowd = arg;
    for (size_t i = 0; i < CROWD; i++) {
        CHECK(net_connect(crowd->harness.net, crowd->address, &events, crowd, &crowd->conns[i]) ==
              0);
        CHECK(net_write(crowd->conns[i], slice_text("0123456789")) == 0);
    }
}

static bool crowd_has_all(void *arg) {
    return ((struct crowd *)arg)->received == CROWD * 10;
}

static void many_connections_live_side_by_side(void) {
    static struct server server;
    static struct crowd crowd;
    server_open(&server, "127.0.0.1:0", ECHO);
    crowd = (struct crowd){.address = server.address};
    harness_open(&crowd.harness, "crowd");
    harness_start(&crowd.harness);
    harness_call(&crowd.harness, connect_crowd, &crowd);
    harness_await(&crowd.harness, crowd_has_all, &crowd);
    harness_close(&crowd.harness);
    server_close(&server);
    CHECK(server.accepted == CROWD);
}

/* Each allocation of connecting, and of a write of either kind, fails once. */
static void run_out_of_memory(void *arg) {
    struct client *client = arg;
    for (uint64_t n = 0;; n++) {
        mem_fail_after(n);
        int rc = net_connect(client->harness.net, client->address, &client->events, client,
                             &client->conn);
        mem_fail_never();
        CHECK(rc == 0 || rc == LKV_ENOMEM);
        if (rc == 0) {
            break;
        }
        CHECK(client->conn == NULL);
    }
    struct blob *blob = blob_new(5000);
    CHECK(blob != NULL);
    fill_pattern(blob->data, 0, blob->size);
    for (uint64_t n = 0;; n++) {
        mem_fail_after(n);
        int rc = net_write_blob(client->conn, blob);
        mem_fail_never();
        CHECK(rc == 0 || (rc == LKV_ENOMEM && net_queued(client->conn) == 0));
        if (rc == 0) {
            break;
        }
    }
    blob_unref(blob);
    uint8_t more[100];
    fill_pattern(more, 5000, sizeof(more));
    mem_fail_after(0);
    int rc = net_write(client->conn, slice_of(more, sizeof(more)));
    mem_fail_never();
    CHECK(rc == LKV_ENOMEM && net_queued(client->conn) == 5000);
    CHECK(net_write(client->conn, slice_of(more, sizeof(more))) == 0);
}

static void refuse_memory(void *arg) {
    (void)arg;
    mem_fail_after(0);
}

static void grant_memory(void *arg) {
    (void)arg;
    mem_fail_never();
}

/* S28 */
static void out_of_memory_is_refused_and_nothing_is_half_done(void) {
    static struct server server;
    static struct client client;
    server_open(&server, "127.0.0.1:0", ECHO);
    harness_call(&server.harness, refuse_memory, NULL); /* the connection waits to be accepted */
    client_open(&client, server.address);
    harness_call(&client.harness, run_out_of_memory, &client);
    harness_await(&client.harness, client_is_open, &client);
    pause_ms(20);
    harness_call(&server.harness, grant_memory, NULL);
    client.expected = 5100;
    harness_await(&client.harness, client_has_all, &client);
    harness_close(&client.harness);
    server_close(&server);
    CHECK(client.received == 5100);
    CHECK(server.accepted == 1);
}

int main(void) {
    static const struct test tests[] = {
        {"1 and 1000 messages and large blobs are echoed over TCP and unix sockets", echoes},
        {"echoes over IPv6", echoes_over_ipv6},
        {"names are resolved and every address is tried",
         names_are_resolved_and_every_address_tried},
        {"more than the limit is busy until it drains",
         more_than_the_limit_is_busy_until_it_drains},
        {"refusal of what can never fit does not spin",
         refusal_of_what_can_never_fit_does_not_spin},
        {"paused connection hears nothing until it is resumed",
         paused_connection_hears_nothing_until_it_is_resumed},
        {"close of one end is told to the other", close_of_one_end_is_told_to_the_other},
        {"connection may be closed in its callbacks", connection_may_be_closed_in_its_callbacks},
        {"accepted connection may be closed in on_accept or on_data",
         accepted_connection_may_be_closed_in_on_accept_or_on_data},
        {"close after flush sends everything first", close_after_flush_sends_everything_first},
        {"last words are not overtaken by a reset (N10)", last_words_are_not_overtaken_by_a_reset},
        {"closing after flush gives up on a peer that reads nothing (N14)",
         closing_after_flush_gives_up_on_a_peer_that_reads_nothing},
        {"writing to a peer that has closed is an error and no signal (N15)",
         writing_to_a_peer_that_has_closed_is_an_error_and_no_signal},
        {"failure before attaching is told after it", failure_before_attaching_is_told_after_it},
        {"many connections live side by side", many_connections_live_side_by_side},
        {"out of memory is refused and nothing is half done (S28)",
         out_of_memory_is_refused_and_nothing_is_half_done},
    };
    return RUN_TESTS_IN_FOLDER(tests);
}
