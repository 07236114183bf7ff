/* One connection to a node, and exactly one end for every request that it took. */
#include "lib/remote.h"
#include "base/mem.h"
#include "kv/command.h"
#include "lib/client_wire.h"
#include "tests/support/client_host.h"
#include "tests/support/paper_net.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define ADDRESS "node:1"
#define MS      UINT64_C(1000000)

static struct paper *paper;
static struct loop *loop;
static struct net *net;
static struct host_store store;
static struct host host;
static struct remote *remote;

/* What became of requests: finished here, or handed back. */
static struct {
    size_t finished, lost, lost_sent, refused;
    int finished_rc, lost_rc;
    uint64_t finished_rev;
    bool up;
    int down_rc; /* 1: not down */
    bool close_when_lost;
} seen;

static void on_turn_end(void *arg) {
    (void)arg;
    uint64_t host_ns = host_turn(&host);
    uint64_t remote_ns = remote != NULL ? remote_expire(remote, paper_now_ns(paper)) : UINT64_MAX;
    loop_timer_set(loop, host_ns < remote_ns ? host_ns : remote_ns);
}

static void nothing(void *arg) {
    (void)arg;
}

static void on_up(void *arg) {
    (void)arg;
    seen.up = true;
}

static void on_down(void *arg, int rc) {
    (void)arg;
    cr_assert_eq(seen.down_rc, 1);
    seen.down_rc = rc;
}

static void on_lost(void *arg, struct request *request, bool sent, int rc) {
    (void)arg;
    seen.lost++;
    seen.lost_sent += sent ? 1 : 0;
    seen.lost_rc = rc;
    request_free(request);
    if (seen.close_when_lost) {
        struct remote *closing = remote;
        remote = NULL;
        remote_close(closing);
    }
}

static void on_refused(void *arg, struct request *request) {
    (void)arg;
    seen.refused++;
    request_free(request);
}

static const struct remote_events events = {
    .on_up = on_up, .on_down = on_down, .on_lost = on_lost, .on_refused = on_refused};

static void close_remote(void) {
    struct remote *closing = remote;
    remote = NULL;
    remote_close(closing);
}

static void connect_remote(void) {
    cr_assert_eq(remote_open(&remote, loop, net, ADDRESS, &events), 0);
}

static void open_paper(void) {
    struct loop_events loop_events = {
        .on_timer = nothing, .on_wake = nothing, .on_turn_end = on_turn_end};
    memset(&seen, 0, sizeof(seen));
    seen.down_rc = 1;
    paper = paper_new();
    loop = paper_loop(paper, &loop_events);
    net = paper_net(paper, loop);
    host_store_open(&store);
    host_open(&host, &store, loop, net, ADDRESS, &(struct server_options){0});
    connect_remote();
    paper_run(paper);
    cr_assert(seen.up && remote_up(remote));
}

static void close_paper(void) {
    close_remote();
    host_close(&host);
    paper_run(paper);
    paper_free(paper);
    host_store_close(&store);
}

TestSuite(lib_remote, .init = open_paper, .fini = close_paper);

static void on_finish(struct request *request) {
    seen.finished++;
    seen.finished_rc = request->reply->rc;
    (void)lkv_msg_u64(request->reply, "rev", &seen.finished_rev);
}

static struct request *new_put(struct slice value, uint64_t timeout_ms) {
    struct kv_command command = {.op = KV_PUT, .key = slice_text("k"), .value = value};
    struct request *request = request_new(REQUEST_WRITE);
    request->command = kv_command_encode(&command);
    request->deadline_ns = paper_now_ns(paper) + timeout_ms * MS;
    request->on_finish = on_finish;
    return request;
}

static void put(uint64_t timeout_ms) {
    cr_assert_eq(remote_submit(remote, new_put(slice_text("v"), timeout_ms)), 0);
    loop_wake(loop); /* its owner's turn ends, and the owner sets the timer */
}

static void put_many(size_t count) {
    for (size_t i = 0; i < count; i++) {
        put(5000);
    }
}

Test(lib_remote, answers_many_at_once) {
    put_many(1000);
    cr_assert_eq(remote_in_flight(remote), 1000);
    paper_run(paper);
    cr_assert_eq(seen.finished, 1000);
    cr_assert_eq(remote_in_flight(remote), 0);
    cr_assert_eq(remote_answers(remote), 1000);
    put_many(10);
    paper_run(paper);
    cr_assert_eq(seen.finished, 1010);
    cr_assert_eq(remote_strays(remote), 0);
}

Test(lib_remote, sends_every_kind_of_request) {
    static const enum request_op ops[] = {REQUEST_GET, REQUEST_RANGE, REQUEST_STATUS,
                                          REQUEST_DIGEST};
    for (size_t i = 0; i < 4; i++) {
        struct request *request = request_new(ops[i]);
        cr_assert_eq(request_set_keys(request, slice_text("k"), slice_text("l")), 0);
        request->on_finish = on_finish;
        cr_assert_eq(remote_submit(remote, request), 0);
        paper_run(paper);
        cr_assert_eq(seen.finished, i + 1);
        cr_assert_eq(seen.finished_rc, i == 0 ? LKV_ENOTFOUND : 0);
    }
}

Test(lib_remote, tells_the_node_a_shorter_timeout_than_its_own) {
    atomic_store(&host.role, HOST_SILENT);
    put(800);
    paper_run(paper);
    struct request *request = LIST_ITEM(host.kept.next, struct request, link);
    cr_assert_eq(request->deadline_ns, paper_now_ns(paper) + 750 * MS);
    cr_assert(request->forwarded, "a node must not pass it on");
}

Test(lib_remote, hands_refusals_back) {
    atomic_store(&host.role, HOST_FOLLOWER);
    put_many(3);
    paper_run(paper);
    atomic_store(&host.role, HOST_STOPPED);
    put_many(2);
    paper_run(paper);
    cr_assert_eq(seen.refused, 5);
    atomic_store(&host.role, HOST_FULL);
    put_many(1);
    paper_run(paper);
    cr_assert_eq(seen.finished, 1, "busy is an answer");
    cr_assert_eq(seen.finished_rc, LKV_EBUSY);
}

/* C6 */
Test(lib_remote, loses_what_is_not_answered_in_time) {
    atomic_store(&host.role, HOST_SILENT);
    put(100);
    put(300);
    paper_advance(paper, 99);
    cr_assert_eq(seen.lost, 0);
    paper_advance(paper, 10);
    cr_assert_eq(seen.lost, 1);
    cr_assert_eq(seen.lost_sent, 1);
    cr_assert_eq(seen.lost_rc, LKV_ETIMEOUT);
    paper_advance(paper, 200);
    cr_assert_eq(seen.lost, 2);
    host_answer_kept(&host); /* N13: too late, for numbers that nobody waits for */
    paper_run(paper);
    cr_assert_eq(remote_strays(remote), 2);
    cr_assert_eq(seen.finished, 0);
    cr_assert_eq(seen.down_rc, 1, "a node that answers pings is not gone");
    atomic_store(&host.role, HOST_LEADER);
    put(100);
    paper_run(paper);
    cr_assert_eq(seen.finished, 1);
}

/* N13: the new request has the old one's place, but not its number. */
Test(lib_remote, takes_no_late_reply_for_that_of_a_later_request) {
    atomic_store(&host.role, HOST_SILENT);
    put(100);
    paper_advance(paper, 110);
    cr_assert_eq(seen.lost, 1);
    put(5000);
    paper_run(paper);
    host_answer_kept(&host);
    loop_wake(loop);
    paper_run(paper);
    cr_assert_eq(remote_strays(remote), 1);
    cr_assert_eq(seen.finished, 1);
    cr_assert_eq(seen.finished_rev, 3, "the second write's");
}

static void append(uint64_t timeout_ms) {
    const struct session_call numbers = {.id = 7, .seq = 1, .acked_below = 1};
    const struct slice record = slice_text("r");
    struct request *request = request_new(REQUEST_APPEND);
    cr_assert_eq(request_set_records_once(request, &record, 1, &numbers), 0);
    request->deadline_ns = paper_now_ns(paper) + timeout_ms * MS;
    request->on_finish = on_finish;
    cr_assert_eq(remote_submit(remote, request), 0);
    loop_wake(loop);
}

/* Otherwise the next one would be taken for one behind it, and refused as it was, whenever it is sent. */
Test(lib_remote, hears_of_refusals_in_late_replies_and_final_ones) {
    atomic_store(&host.role, HOST_SILENT);
    append(100);
    paper_advance(paper, 110);
    cr_assert_eq(seen.lost, 1);
    host_fail_kept(&host, LKV_EBUSY);
    paper_run(paper);
    cr_assert_eq(remote_strays(remote), 1);
    append(5000);
    paper_run(paper);
    cr_assert_eq(host.kept_count, 1);
    host_fail_kept(&host, LKV_ENOSPACE);
    paper_run(paper);
    cr_assert_eq(seen.finished, 1);
    cr_assert_eq(seen.finished_rc, LKV_ENOSPACE);
    append(5000);
    paper_run(paper);
    cr_assert_eq(host.kept_count, 1);
    cr_assert_eq(seen.refused, 0);
}

Test(lib_remote, loses_everything_when_the_connection_breaks) {
    atomic_store(&host.role, HOST_SILENT);
    put_many(5);
    paper_run(paper);
    paper_reset(paper, ADDRESS);
    paper_run(paper);
    cr_assert_eq(seen.lost, 5);
    cr_assert_eq(seen.lost_sent, 5);
    cr_assert_eq(seen.down_rc, LKV_EIO);
    struct request *request = new_put(slice_text("v"), 100);
    cr_assert_eq(remote_submit(remote, request), LKV_EUNREACHABLE);
    request_free(request);
}

Test(lib_remote, loses_everything_when_it_is_closed) {
    atomic_store(&host.role, HOST_SILENT);
    put_many(5);
    paper_run(paper);
    close_remote();
    cr_assert_eq(seen.lost, 5);
    cr_assert_eq(seen.lost_sent, 5);
    cr_assert_eq(seen.lost_rc, LKV_ECLOSED);
    cr_assert_eq(seen.down_rc, 1, "who closes it need not be told");
    paper_run(paper);
    cr_assert_eq(server_connections(host.server), 0);
    remote_close(NULL);
}

Test(lib_remote, may_be_closed_from_inside_of_a_callback) {
    atomic_store(&host.role, HOST_SILENT);
    put(100);
    put(200);
    put(5000);
    seen.close_when_lost = true;
    paper_advance(paper, 150);
    cr_assert_null(remote);
    cr_assert_eq(seen.lost, 3);
}

Test(lib_remote, nothing_was_sent_while_it_was_not_connected) {
    close_remote();
    seen.up = false;
    paper_cut(paper, ADDRESS, true);
    connect_remote();
    put(100);
    put(9000);
    paper_advance(paper, 110);
    cr_assert_eq(seen.lost, 1);
    cr_assert_eq(seen.lost_rc, LKV_ETIMEOUT);
    paper_advance(paper, 2000);
    cr_assert_eq(seen.lost, 2);
    cr_assert_eq(seen.lost_sent, 0);
    cr_assert_eq(seen.down_rc, LKV_EUNREACHABLE);
    cr_assert(!seen.up);
}

/* Its time was over when the connection stood, but nobody had looked at the clock yet. */
Test(lib_remote, what_expired_just_before_it_was_connected_was_not_sent) {
    close_remote();
    paper_cut(paper, ADDRESS, true);
    connect_remote();
    put(100);
    put(5000);
    paper_advance(paper, 100);
    cr_assert_eq(seen.lost, 0);
    paper_cut(paper, ADDRESS, false);
    paper_run(paper);
    cr_assert_eq(seen.lost, 1);
    cr_assert_eq(seen.lost_sent, 0);
    cr_assert_eq(seen.lost_rc, LKV_ETIMEOUT);
    cr_assert_eq(seen.finished, 1);
}

Test(lib_remote, may_be_closed_when_it_loses_what_expired) {
    close_remote();
    paper_cut(paper, ADDRESS, true);
    connect_remote();
    put(100);
    put(5000);
    paper_advance(paper, 100);
    paper_cut(paper, ADDRESS, false);
    seen.close_when_lost = true;
    seen.up = false;
    paper_run(paper);
    cr_assert_null(remote);
    cr_assert_eq(seen.lost, 2);
    cr_assert_eq(seen.lost_sent, 0);
    cr_assert(!seen.up);
}

/* S28: what waited for the connection, from the one on that could not be written. */
Test(lib_remote, what_could_not_be_written_was_not_sent) {
    enum { WRITES = 4 };
    static uint8_t value[100 * 1024]; /* each needs memory for itself */
    size_t half_way = 0;
    atomic_store(&host.role, HOST_STOPPED); /* the store behind asserts that it has memory */
    for (uint64_t n = 0; n < 40; n++) {
        close_remote();
        paper_run(paper);
        memset(&seen, 0, sizeof(seen));
        seen.down_rc = 1;
        connect_remote();
        for (int i = 0; i < WRITES; i++) {
            struct request *request = new_put(slice_of(value, sizeof(value)), 5000);
            cr_assert_eq(remote_submit(remote, request), 0);
        }
        mem_fail_after(n);
        paper_run(paper);
        mem_fail_never();
        paper_run(paper);
        size_t unsent = seen.lost - seen.lost_sent;
        cr_assert_eq(seen.refused + seen.finished + seen.lost, WRITES);
        half_way += unsent > 0 && unsent < WRITES ? 1 : 0;
    }
    cr_assert_gt(half_way, 0);
}

Test(lib_remote, sends_what_was_submitted_while_it_connected) {
    close_remote();
    connect_remote();
    put(100);
    cr_assert(!remote_up(remote));
    paper_run(paper);
    cr_assert_eq(seen.finished, 1);
}

/* N9 */
Test(lib_remote, notices_a_node_that_vanished) {
    paper_cut(paper, ADDRESS, true);
    put(60000);
    paper_advance(paper, 400);
    cr_assert(!remote_suspect(remote));
    paper_advance(paper, 200);
    cr_assert(remote_suspect(remote));
    paper_advance(paper, 1700);
    cr_assert_eq(seen.down_rc, 1);
    paper_advance(paper, 300);
    cr_assert_eq(seen.down_rc, LKV_EUNREACHABLE);
    cr_assert_eq(seen.lost_sent, 1);
}

Test(lib_remote, notices_a_node_that_vanished_although_no_request_waits_that_long) {
    paper_cut(paper, ADDRESS, true);
    for (int i = 0; i < 30 && seen.down_rc == 1; i++) {
        put(100);
        paper_advance(paper, 110);
    }
    cr_assert_eq(seen.down_rc, LKV_EUNREACHABLE);
    cr_assert_eq(seen.lost, seen.lost_sent);
}

Test(lib_remote, waits_for_a_node_that_is_slow_but_alive) {
    atomic_store(&host.role, HOST_SILENT);
    put(60000);
    paper_advance(paper, 30000);
    cr_assert_eq(seen.down_rc, 1);
    cr_assert(!remote_suspect(remote));
    host_answer_kept(&host);
    paper_run(paper);
    cr_assert_eq(seen.finished, 1);
    paper_advance(paper, 60000);
    cr_assert_eq(seen.down_rc, 1, "with nothing owed, silence means nothing");
}

Test(lib_remote, takes_no_more_than_its_output_holds) {
    static uint8_t value[1 << 20];
    paper_cut(paper, ADDRESS, true);
    size_t taken = 0;
    int rc = 0;
    while (rc == 0) {
        struct request *request = new_put(slice_of(value, sizeof(value)), 60000);
        rc = remote_submit(remote, request);
        if (rc == 0) {
            taken++;
        } else {
            request_free(request);
        }
    }
    cr_assert_eq(rc, LKV_EBUSY);
    cr_assert_eq(taken, 31);
    paper_cut(paper, ADDRESS, false);
    paper_run(paper);
    cr_assert_eq(seen.finished, taken);
    struct request *late = new_put(slice_text("v"), 0);
    cr_assert_eq(remote_submit(remote, late), LKV_ETIMEOUT);
    request_free(late);
}

Test(lib_remote, takes_the_word_of_a_node_that_has_no_room) {
    host.options.connections_max = 0;
    server_close(host.server);
    paper_run(paper);
    struct server_host nobody = {0};
    cr_assert_eq(server_open(&host.server, loop, &host.options, &nobody), 0);
    close_remote();
    seen.down_rc = 1;
    connect_remote();
    put(100);
    paper_run(paper);
    cr_assert_eq(seen.down_rc, LKV_EBUSY);
    cr_assert_eq(seen.lost, 1);
    cr_assert_eq(seen.lost_sent, 0, "the node has not looked at it");
    cr_assert_str_eq(remote_refusal(remote), "connections_max is 0");
}

/* ------------------------------------------------------------------ nodes that talk nonsense */

static struct net_conn *fool;
static const char *fool_says;
static size_t fool_size;

static void fool_answers(void *arg, struct slice bytes) {
    (void)arg;
    (void)bytes;
    cr_assert_eq(net_write(fool, slice_of(fool_says, fool_size)), 0);
}

static void fool_closed(void *arg, int rc) {
    (void)arg;
    (void)rc;
    fool = NULL;
}

static void fool_accepts(void *arg, struct net_conn *conn) {
    static const struct net_conn_events fool_events = {.on_data = fool_answers,
                                                       .on_close = fool_closed};
    (void)arg;
    fool = conn;
    net_attach(conn, &fool_events, NULL);
}

static void ask_fool(const char *says, size_t size) {
    struct net_listener *listener;
    fool_says = says;
    fool_size = size;
    close_remote();
    memset(&seen, 0, sizeof(seen));
    seen.down_rc = 1;
    cr_assert_eq(net_listen(net, "fool:1", fool_accepts, NULL, &listener, NULL), 0);
    cr_assert_eq(remote_open(&remote, loop, net, "fool:1", &events), 0);
    put(100);
    paper_run(paper);
    net_listener_close(listener);
}

#define ASK_FOOL(text) ask_fool(text, sizeof(text) - 1)

Test(lib_remote, breaks_off_when_it_hears_nonsense) {
    ASK_FOOL("HTTP/1.1 400 Bad Request\r\n\r\n");
    cr_assert_eq(seen.down_rc, LKV_EPROTOCOL);
    cr_assert_eq(seen.lost_sent, 1, "it may have done it all the same");
    ASK_FOOL("\x94\x00\x00\xa4ping\x90");
    cr_assert_eq(seen.down_rc, LKV_EPROTOCOL);
    ASK_FOOL("\x94\xdd\x7f\xff\xff\xff");
    cr_assert_eq(seen.down_rc, LKV_ETOOLARGE);
    ASK_FOOL("\x94\x01\xce\x00\x10\x00\x00\xc0\x91\x01"); /* our number, a bad result */
    cr_assert_eq(seen.down_rc, LKV_EPROTOCOL);
    cr_assert_eq(seen.lost_sent, 1);
}

/* N13 */
Test(lib_remote, drops_and_counts_replies_that_it_does_not_expect) {
    ASK_FOOL("\x94\x01\x63\xc0\x80"                            /* an unknown number */
             "\x94\x01\xce\x00\x10\x00\x00\xc0\x81\xa3rev\x05" /* ours */
             "\x94\x01\xce\x00\x10\x00\x00\xc0\x81\xa3rev\x06" /* again */
             "\x94\x01\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xc0\x80");
    cr_assert_eq(seen.finished, 1);
    cr_assert_eq(seen.finished_rc, 0);
    cr_assert_eq(remote_strays(remote), 3);
    cr_assert_eq(seen.down_rc, 1);
    cr_assert_eq(remote_in_flight(remote), 0);
}

/* S28 */
Test(lib_remote, a_failed_allocation_ends_each_request_once) {
    close_remote();
    for (uint64_t n = 0; n < 30; n++) {
        memset(&seen, 0, sizeof(seen));
        seen.down_rc = 1;
        atomic_store(&host.role, HOST_STOPPED); /* the store behind asserts that it has memory */
        connect_remote();
        paper_run(paper);
        struct request *request = new_put(slice_text("v"), 100);
        mem_fail_after(n);
        int rc = remote_submit(remote, request);
        if (rc == 0) {
            paper_run(paper);
        }
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        if (rc != 0) {
            request_free(request);
        }
        paper_run(paper);
        close_remote();
        cr_assert_eq(seen.finished + seen.lost + seen.refused, rc == 0 ? 1 : 0);
        paper_run(paper);
    }
}
