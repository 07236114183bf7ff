/* Names whose servers answer late, wrongly or never. This program has a getaddrinfo of its own. */
#define _GNU_SOURCE
#include "tests/threads/uv_peers.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <semaphore.h>

enum { AT_A_TIME = 16 }; /* lookups */

static struct {
    sem_t release;       /* one post for each hanging lookup */
    atomic_uint hanging; /* lookups that wait for it */
    atomic_uint left;    /* that have waited */
} names;

static struct addrinfo *new_address(const char *text, const char *port) {
    struct addrinfo *info = calloc(1, sizeof(*info) + sizeof(struct sockaddr_in));
    CHECK(info != NULL);
    struct sockaddr_in *socket = (struct sockaddr_in *)(void *)(info + 1);
    socket->sin_family = AF_INET;
    socket->sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    CHECK(inet_pton(AF_INET, text, &socket->sin_addr) == 1);
    info->ai_family = AF_INET;
    info->ai_addr = (struct sockaddr *)(void *)socket;
    info->ai_addrlen = sizeof(*socket);
    return info;
}

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **out) {
    (void)hints;
    *out = NULL;
    if (strcmp(host, "hangs.test") == 0) {
        atomic_fetch_add(&names.hanging, 1);
        while (sem_wait(&names.release) != 0) {
            continue;
        }
        atomic_fetch_add(&names.left, 1);
        return EAI_AGAIN;
    }
    if (strcmp(host, "full.test") == 0) {
        return EAI_MEMORY;
    }
    *out = new_address("127.0.0.1", port);
    if (strcmp(host, "two.test") == 0) { /* nobody listens on the first */
        struct addrinfo *second = *out;
        *out = new_address("127.0.0.9", port);
        (*out)->ai_next = second;
    }
    return 0;
}

void freeaddrinfo(struct addrinfo *list) {
    while (list != NULL) {
        struct addrinfo *next = list->ai_next;
        free(list);
        list = next;
    }
}

static void wait_until_hanging(unsigned count) {
    while (atomic_load(&names.hanging) < count) {
        pause_ms(1);
    }
}

/* What was hanging goes on, and ends before the next test begins. */
static void release(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        CHECK(sem_post(&names.release) == 0);
    }
    while (atomic_load(&names.left) < count) {
        pause_ms(1);
    }
    atomic_store(&names.hanging, 0);
    atomic_store(&names.left, 0);
}

static void named(char *out, size_t size, const char *host, const struct server *server) {
    (void)snprintf(out, size, "%s%s", host, strrchr(server->address, ':'));
}

struct many {
    struct client *client;
    struct net_conn *conns[AT_A_TIME + 1];
    int last_rc;
};

static void connect_many(void *arg) {
    struct many *many = arg;
    for (size_t i = 0; i <= AT_A_TIME; i++) {
        many->last_rc = net_connect(many->client->harness.net, "hangs.test:1", &client_events,
                                    many->client, &many->conns[i]);
        CHECK(many->last_rc == 0 || i == AT_A_TIME);
    }
}

static void close_many(void *arg) {
    struct many *many = arg;
    for (size_t i = 0; i < AT_A_TIME; i++) {
        net_close(many->conns[i]);
    }
}

static void hanging_name_does_not_delay_another(void) {
    static struct server server;
    static struct client client;
    char address[192];
    server_open(&server, "127.0.0.1:0", ECHO);
    named(address, sizeof(address), "good.test", &server);
    client_open(&client, "hangs.test:1");
    harness_call(&client.harness, client_connect, &client);
    wait_until_hanging(1);
    client.address = address;
    harness_call(&client.harness, client_connect, &client);
    harness_await(&client.harness, client_is_open, &client);
    release(1);
    harness_await(&client.harness, client_is_closed, &client); /* of the hanging one */
    CHECK(client.close_rc == LKV_EUNREACHABLE);
    harness_close(&client.harness);
    server_close(&server);
}

static void too_many_lookups_at_a_time_are_busy(void) {
    static struct client client;
    client_open(&client, NULL);
    struct many many = {.client = &client};
    harness_call(&client.harness, connect_many, &many);
    CHECK(many.last_rc == LKV_EBUSY);
    wait_until_hanging(AT_A_TIME);
    harness_call(&client.harness, close_many, &many);
    release(AT_A_TIME);
    harness_close(&client.harness);
    CHECK(client.closed == 0);
}

static uint64_t now_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void close_does_not_wait_for_ever_for_a_name_server(void) {
    static struct client client;
    client_open(&client, NULL);
    struct many many = {.client = &client};
    harness_call(&client.harness, connect_many, &many);
    wait_until_hanging(AT_A_TIME);
    uint64_t before = now_ms();
    harness_close(&client.harness);
    uint64_t took = now_ms() - before;
    CHECK(took >= 900 && took < 20000);
    release(AT_A_TIME);                   /* they end now, and free what is theirs */
    CHECK(count_threads_down_to(1) <= 2); /* a sanitizer may have one */
}

static void next_address_is_tried_when_one_refuses(void) {
    static struct server server;
    static struct client client;
    char address[192];
    server_open(&server, "127.0.0.1:0", ECHO);
    named(address, sizeof(address), "two.test", &server);
    start_client(&client, address);
    harness_call(&client.harness, send_one, &client);
    client.expected = client.sent;
    harness_await(&client.harness, client_has_all, &client);
    harness_close(&client.harness);
    CHECK(client.received == client.sent);
    server_close(&server);
    start_client(&client, address);
    harness_await(&client.harness, client_is_closed, &client);
    CHECK(client.close_rc == LKV_EUNREACHABLE);
    harness_close(&client.harness);
}

static void resolver_out_of_memory_is_no_memory(void) {
    static struct client client;
    start_client(&client, "full.test:1");
    harness_await(&client.harness, client_is_closed, &client);
    CHECK(client.close_rc == LKV_ENOMEM);
    harness_close(&client.harness);
}

int main(void) {
    static const struct test tests[] = {
        {"hanging name does not delay another", hanging_name_does_not_delay_another},
        {"too many lookups at a time are busy", too_many_lookups_at_a_time_are_busy},
        {"close does not wait for ever for a name server",
         close_does_not_wait_for_ever_for_a_name_server},
        {"next address is tried when one refuses", next_address_is_tried_when_one_refuses},
        {"resolver out of memory is no memory", resolver_out_of_memory_is_no_memory},
    };
    if (sem_init(&names.release, 0, 0) != 0) {
        return 1;
    }
    return RUN_TESTS_IN_FOLDER(tests);
}
