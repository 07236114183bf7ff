/* What a stranger may say to a member on a live socket: hellos that are well formed and lie. */
#define _GNU_SOURCE
#include "lib/frame.h"
#include "lib/hello_wire.h"
#include "tests/unit/lib/node_world.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>

static struct world world;
static uint64_t sequence;

static void setup(void) {
    world_init(&world);
    open_member(&world, 0);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_node_hellos, .init = setup, .fini = teardown, .timeout = 60);

static int dial(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)world.ports[0]),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    struct timeval patience = {.tv_sec = 5};
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    return fd;
}

static void say_hello(int fd, const char *name, uint64_t id) {
    struct hello hello = {.protocol_min = PROTOCOL_MIN,
                          .protocol_max = PROTOCOL_MAX,
                          .feature_level = 1,
                          .member_id = id,
                          .start_counter = 1,
                          .boot_nonce = id + 777,
                          .conn_nonce = 4242,
                          .sequence = ++sequence};
    (void)snprintf(hello.name, sizeof(hello.name), "%s", name);
    (void)snprintf(hello.address, sizeof(hello.address), "127.0.0.1:1");
    struct buffer body;
    struct buffer frame;
    buffer_init(&body);
    buffer_init(&frame);
    hello_encode(&hello, &body);
    frame_encode(FRAME_HELLO, 0, 0, buffer_slice(&body), &frame);
    cr_assert_eq(send(fd, frame.data, frame.size, MSG_NOSIGNAL), (ssize_t)frame.size);
    buffer_fini(&body);
    buffer_fini(&frame);
}

/* Reads until the node closes the connection; false when it does not within the patience. */
static bool is_closed(int fd) {
    char bytes[4096];
    ssize_t got;
    do {
        got = recv(fd, bytes, sizeof(bytes), 0);
    } while (got > 0);
    return got == 0;
}

/* The first name's place kept pointing at the connection after it was gone. */
Test(lib_node_hellos, a_connection_stays_with_the_name_it_began_with) {
    int fd = dial();
    say_hello(fd, "n2", 1002);
    say_hello(fd, "n3", 1003);
    cr_assert(is_closed(fd), "the second name was accepted");
    close(fd);
    for (uint64_t i = 0; i < 3; i++) {
        fd = dial();
        say_hello(fd, "n2", 2002 + i);
        char byte;
        cr_assert_eq(recv(fd, &byte, 1, 0), 1, "no answer to a good hello");
        close(fd);
    }
    await_text(world.nodes[0], "state", "founding");
}

Test(lib_node_hellos, an_unknown_name_is_refused) {
    int fd = dial();
    say_hello(fd, "n9", 1009);
    cr_assert(is_closed(fd));
    close(fd);
}
