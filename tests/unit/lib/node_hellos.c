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

static void say_hello_of_life(int fd, const char *name, uint64_t id, uint64_t start_counter,
                              uint64_t boot_nonce) {
    struct hello hello = {.protocol_min = PROTOCOL_MIN,
                          .protocol_max = PROTOCOL_MAX,
                          .feature_level = 1,
                          .member_id = id,
                          .start_counter = start_counter,
                          .boot_nonce = boot_nonce,
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

static void say_hello(int fd, const char *name, uint64_t id) {
    say_hello_of_life(fd, name, id, 1, id + 777);
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

/* ------------------------------------------------------------------ rule 17 */

struct answers {
    uint8_t bytes[8192];
    size_t size, taken;
};

/* The next frame of the node. */
static struct frame await_frame(int fd, struct answers *answers) {
    struct frame frame = {0};
    struct reason why = {{0}};
    for (;;) {
        struct slice rest =
            slice_of(answers->bytes + answers->taken, answers->size - answers->taken);
        int rc = frame_decode(rest, 0, FRAME_HELLO_MAX, &frame, &why);
        cr_assert_geq(rc, 0, "%s", why.text);
        if (rc == 1) {
            answers->taken += frame.size;
            return frame;
        }
        ssize_t got =
            recv(fd, answers->bytes + answers->size, sizeof(answers->bytes) - answers->size, 0);
        cr_assert_gt(got, 0, "no answer");
        answers->size += (size_t)got;
    }
}

/* What comes back for a hello: the text of a refusal, or nothing when it was accepted. */
static void expect_life(uint64_t start_counter, uint64_t boot_nonce, const char *refusal) {
    int fd = dial();
    say_hello_of_life(fd, "n2", 2002, start_counter, boot_nonce);
    struct answers answers = {.size = 0};
    struct frame frame = await_frame(fd, &answers);
    cr_assert_eq(frame.kind, refusal == NULL ? FRAME_HELLO : FRAME_REFUSED, "%.*s",
                 (int)frame.body.size, (const char *)frame.body.data);
    if (refusal != NULL) {
        char text[1024];
        (void)snprintf(text, sizeof(text), "%.*s", (int)frame.body.size,
                       (const char *)frame.body.data);
        cr_assert_not_null(strstr(text, refusal), "no '%s' in: %s", refusal, text);
    }
    close(fd);
}

static void restart(void) {
    close_member(&world, 0);
    open_member(&world, 0);
}

/* S17: whoever was met is known after a restart of the one that refuses. */
Test(lib_node_hellos, rule_17_an_earlier_life_is_refused_also_after_a_restart) {
    expect_life(7, 70, NULL);
    expect_life(7, 70, NULL);
    for (int i = 0; i < 2; i++) {
        expect_life(6, 60, "came from 127.0.0.1:1 with start counter 6, 7 was seen");
        expect_life(7, 71, "came twice with start counter 7");
        expect_life(7, 70, NULL);
        restart();
    }
    expect_life(8, 80, NULL);
    restart();
    expect_life(7, 70, "start counter 7, 8 was seen");
    expect_life(UINT64_MAX, 1, NULL);
    restart();
    expect_life(8, 80, "start counter 8");
}

static int listen_as_second(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)world.ports[1]),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 8) == 0);
    return fd;
}

/* The node has dialed the earlier life; the later one comes by itself. */
Test(lib_node_hellos, rule_17_a_newer_hello_closes_the_connections_of_the_earlier_life) {
    int listener = listen_as_second();
    int dialed = accept(listener, NULL, NULL);
    cr_assert_geq(dialed, 0);
    struct timeval patience = {.tv_sec = 5};
    cr_assert_eq(setsockopt(dialed, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    say_hello_of_life(dialed, "n2", 2002, 7, 70);
    int incoming = dial();
    say_hello_of_life(incoming, "n2", 2002, 7, 70);
    char byte;
    cr_assert_eq(recv(incoming, &byte, 1, 0), 1);
    sleep_ms(100);
    expect_life(8, 80, NULL);
    cr_assert(is_closed(dialed), "what it dialed stays with the earlier life");
    cr_assert(is_closed(incoming));
    close(dialed);
    close(incoming);
    close(listener);
}

/* N11: a hello that was recorded in an earlier life is that of an earlier life. */
Test(lib_node_hellos, n11_a_recorded_hello_is_refused_once_a_later_life_was_met) {
    expect_life(1, 10, NULL);
    expect_life(2, 20, NULL);
    restart();
    expect_life(1, 10, "start counter 1, 2 was seen");
}

/* Rule 15: a disk that is full keeps no member out. */
Test(lib_node_hellos, rule_15_a_life_that_cannot_be_saved_is_accepted) {
    char path[2 * PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%.250s/seen.new", world.dirs[0]);
    cr_assert_eq(mkdir(path, 0700), 0); /* in the way of the save */
    expect_life(7, 70, NULL);
    expect_life(6, 60, "start counter 6");
    cr_assert_eq(rmdir(path), 0);
    expect_life(8, 80, NULL);
    restart();
    expect_life(7, 70, "start counter 7, 8 was seen");
}

/* Rule 20: of another group, in the hello or in the frame. */
Test(lib_node_hellos, rule_20_another_group_is_refused) {
    struct hello hello = {.protocol_min = 1,
                          .protocol_max = 1,
                          .group_id = 3,
                          .member_id = 2002,
                          .name = "n2",
                          .address = "h:1"};
    struct buffer body;
    struct buffer frame;
    buffer_init(&body);
    buffer_init(&frame);
    hello_encode(&hello, &body);
    frame_encode(FRAME_HELLO, 3, 0, buffer_slice(&body), &frame);
    int fd = dial();
    cr_assert_eq(send(fd, frame.data, frame.size, MSG_NOSIGNAL), (ssize_t)frame.size);
    char text[1024] = "";
    ssize_t got = recv(fd, text, sizeof(text) - 1, MSG_WAITALL);
    cr_assert_gt(got, 20);
    cr_assert_not_null(memmem(text, (size_t)got, "group 0 expected, n2 has 3", 26));
    close(fd);
    buffer_fini(&body);
    buffer_fini(&frame);
}

/* The hello of a group is no promise for the frames behind it. */
Test(lib_node_hellos, rule_20_a_frame_of_another_group_is_refused) {
    int fd = dial();
    say_hello(fd, "n2", 2002);
    struct answers answers = {.size = 0};
    struct frame frame = await_frame(fd, &answers);
    cr_assert_eq(frame.kind, FRAME_HELLO);
    struct hello theirs;
    struct reason why = {{0}};
    cr_assert_eq(hello_decode(frame.body, &theirs, &why), 0, "%s", why.text);
    struct buffer bytes;
    buffer_init(&bytes);
    frame_encode(FRAME_RAFT, 3, frame_seed(theirs.conn_nonce), (struct slice){0}, &bytes);
    cr_assert_eq(send(fd, bytes.data, bytes.size, MSG_NOSIGNAL), (ssize_t)bytes.size);
    do {
        frame = await_frame(fd, &answers);
    } while (frame.kind != FRAME_REFUSED);
    cr_expect_not_null(
        memmem(frame.body.data, frame.body.size, "frame of group 3, expected 0", 28));
    buffer_fini(&bytes);
    close(fd);
}

/* ------------------------------------------------------------------ rule 18 */

Test(lib_node_hellos, m10_another_directory_under_a_members_name_is_refused) {
    open_member(&world, 1);
    open_member(&world, 2);
    put(world.nodes[0], "founded", "yes");
    close_member(&world, 1);
    expect_life(1, 10, "it came as 00000000000007d2");
}
