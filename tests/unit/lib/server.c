/* The clients' server against a client that says what it likes, byte by byte. */
#include "base/mem.h"
#include "base/prng.h"
#include "kv/command.h"
#include "lib/client_wire.h"
#include "lib/limits.h"
#include "lib/server_inside.h"
#include "tests/support/client_host.h"
#include "tests/support/paper_net.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define ADDRESS "node:1"

enum { CLIENTS_MAX = 40 };

static struct paper *paper;
static struct loop *loop, *client_loop;
static struct net *net, *client_net;
static struct host_store store;
static struct host host;
static uint64_t host_due_ns;

/* A connection, and what came back on it. */
struct raw {
    struct net_conn *conn;
    struct buffer in;
    bool open, closed;
    int rc;
    uint64_t numbers; /* of calls, from 1 */
};

static struct raw raws[CLIENTS_MAX];

static void on_turn_end(void *arg) {
    (void)arg;
    host_due_ns = host_turn(&host);
    loop_timer_set(loop, host_due_ns);
}

static void nothing(void *arg) {
    (void)arg;
}

static void open_host(const struct server_options *options) {
    struct loop_events events = {
        .on_timer = nothing, .on_wake = nothing, .on_turn_end = on_turn_end};
    struct loop_events client_events = {
        .on_timer = nothing, .on_wake = nothing, .on_turn_end = nothing};
    paper = paper_new();
    loop = paper_loop(paper, &events);
    net = paper_net(paper, loop);
    client_loop = paper_loop(paper, &client_events);
    client_net = paper_net(paper, client_loop);
    host_store_open(&store);
    host_open(&host, &store, loop, net, ADDRESS, options);
}

static void open_paper(void) {
    open_host(&(struct server_options){.value_bytes_max = 100000});
}

static void close_paper(void) {
    host_close(&host);
    paper_run(paper);
    paper_free(paper);
    host_store_close(&store);
    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        buffer_fini(&raws[i].in);
    }
}

TestSuite(lib_server, .init = open_paper, .fini = close_paper);

static void on_open(void *arg) {
    ((struct raw *)arg)->open = true;
}

static void on_data(void *arg, struct slice bytes) {
    struct raw *raw = arg;
    buffer_append(&raw->in, bytes.data, bytes.size);
}

static void on_close(void *arg, int rc) {
    struct raw *raw = arg;
    raw->closed = true;
    raw->rc = rc;
}

static struct raw *connect_raw(size_t i) {
    static const struct net_conn_events events = {
        .on_open = on_open, .on_data = on_data, .on_close = on_close};
    cr_assert_eq(net_connect(client_net, ADDRESS, &events, &raws[i], &raws[i].conn), 0);
    paper_run(paper);
    cr_assert(raws[i].open);
    return &raws[i];
}

static void say(struct raw *raw, const void *bytes, size_t size) {
    cr_assert_eq(net_write(raw->conn, slice_of(bytes, size)), 0);
    paper_run(paper);
}

#define SAY(raw, text) say(raw, text, sizeof(text) - 1)

static void call(struct raw *raw, struct wire_call wire) {
    struct buffer out;
    buffer_init(&out);
    wire.number = ++raw->numbers;
    wire_encode_call(&out, &wire);
    cr_assert_eq(net_write(raw->conn, buffer_slice(&out)), 0);
    buffer_fini(&out);
}

static void put(struct raw *raw, struct slice key, struct slice value) {
    call(raw, (struct wire_call){.method = WIRE_PUT, .key = key, .value = value});
}

/* The next reply that has arrived, into `msg`; its number. 0: none. UINT64_MAX: a refusal of the
 * connection, in msg's rc. */
static uint64_t next_reply(struct raw *raw, struct lkv_msg *msg) {
    struct scan scan = {0};
    struct reason why = {{0}};
    msg_clear(msg);
    int rc = scan_object(&scan, buffer_slice(&raw->in), &wire_reply_limits, &why);
    if (rc == 0) {
        return 0;
    }
    cr_assert_eq(rc, 1);
    struct wire_decoder *decoder = wire_decoder_new();
    struct slice frame = slice_of(raw->in.data, scan.offset);
    uint64_t number = 0;
    rc = wire_open_reply(decoder, frame, &number, &why);
    if (rc != 0) {
        msg_set_rc(msg, rc, "%s", why.text);
        number = UINT64_MAX;
    } else {
        cr_assert_eq(wire_read_reply(decoder, frame, msg, &why), 0);
    }
    wire_decoder_free(decoder);
    buffer_consume(&raw->in, scan.offset);
    return number;
}

static void assert_reply(struct raw *raw, uint64_t number, int rc) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(next_reply(raw, msg), number);
    cr_assert_eq(lkv_msg_rc(msg), rc, "%s: %s", error_name(lkv_msg_rc(msg)), lkv_msg_text(msg));
    lkv_msg_free(msg);
}

static void assert_refused(struct raw *raw, int rc) {
    assert_reply(raw, UINT64_MAX, rc);
    cr_assert(raw->closed);
    cr_assert_eq(raw->in.size, 0, "nothing follows");
}

/* ------------------------------------------------------------------ service */

Test(lib_server, answers_each_method) {
    struct raw *raw = connect_raw(0);
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    struct lkv_kv kv;
    uint64_t number;
    put(raw, slice_text("a"), slice_text("1"));
    put(raw, slice_text("b"), slice_text("2"));
    call(raw, (struct wire_call){.method = WIRE_GET, .key = slice_text("a")});
    call(raw, (struct wire_call){.method = WIRE_RANGE, .key = slice_text("a"), .limit = 1});
    call(raw, (struct wire_call){.method = WIRE_DELETE, .key = slice_text("a")});
    call(raw, (struct wire_call){.method = WIRE_GET, .key = slice_text("a")});
    call(raw, (struct wire_call){.method = WIRE_STATUS});
    call(raw, (struct wire_call){.method = WIRE_DIGEST});
    call(raw, (struct wire_call){.method = WIRE_PING});
    paper_run(paper);
    cr_assert_eq(next_reply(raw, msg), 1);
    cr_assert(lkv_msg_u64(msg, "rev", &number) && number == 2);
    cr_assert_eq(next_reply(raw, msg), 2);
    cr_assert_eq(next_reply(raw, msg), 3);
    cr_assert(lkv_msg_kv(msg, 0, &kv) && memcmp(kv.value.data, "1", 1) == 0);
    cr_assert_eq(next_reply(raw, msg), 4);
    cr_assert(lkv_msg_u64(msg, "more", &number) && number == 1);
    cr_assert_eq(next_reply(raw, msg), 5);
    cr_assert_eq(next_reply(raw, msg), 6);
    cr_assert_eq(lkv_msg_rc(msg), LKV_ENOTFOUND);
    cr_assert_eq(next_reply(raw, msg), 7);
    cr_assert_str_eq(lkv_msg_str(msg, "id"), "host");
    cr_assert_eq(next_reply(raw, msg), 8);
    cr_assert(lkv_msg_u64(msg, "digest", &number) && number == 3);
    cr_assert_eq(next_reply(raw, msg), 9);
    cr_assert_eq(lkv_msg_rc(msg), 0);
    lkv_msg_free(msg);
}

Test(lib_server, hears_the_same_whatever_the_pieces) {
    paper_chunk(paper, 1);
    struct raw *raw = connect_raw(0);
    put(raw, slice_text("key"), slice_text("value"));
    call(raw, (struct wire_call){.method = WIRE_GET, .key = slice_text("key")});
    paper_run(paper);
    assert_reply(raw, 1, 0);
    assert_reply(raw, 2, 0);
}

/* N6, X-C9 */
Test(lib_server, keeps_the_limits_and_says_them_as_the_callers_side_does) {
    static uint8_t big[100002];
    struct raw *raw = connect_raw(0);
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    struct limits limits = {.key_bytes_max = 8192, .value_bytes_max = 100000};
    struct reason why;
    put(raw, slice_of(big, 8192), slice_of(big, 100000));
    put(raw, slice_of(big, 8193), slice_text(""));
    put(raw, slice_text("k"), slice_of(big, 100001));
    put(raw, slice_text(""), slice_text(""));
    put(raw, slice_of("\0\xff", 2), slice_text(""));
    call(raw, (struct wire_call){.method = WIRE_GET, .key = slice_of(big, 8193)});
    call(raw, (struct wire_call){.method = WIRE_RANGE, .key = slice_of(big, 8193)});
    call(raw, (struct wire_call){.method = WIRE_RANGE, .key = slice_of(big, 8194)});
    paper_run(paper);
    assert_reply(raw, 1, 0);
    cr_assert_eq(next_reply(raw, msg), 2);
    cr_assert_eq(limits_check_key(&limits, slice_of(big, 8193), &why), lkv_msg_rc(msg));
    cr_assert_str_eq(lkv_msg_text(msg), why.text);
    cr_assert_eq(next_reply(raw, msg), 3);
    cr_assert_eq(limits_check_value(&limits, slice_of(big, 100001), &why), lkv_msg_rc(msg));
    cr_assert_str_eq(lkv_msg_text(msg), why.text);
    assert_reply(raw, 4, LKV_EINVAL);
    assert_reply(raw, 5, 0);
    assert_reply(raw, 6, LKV_ETOOLARGE);
    assert_reply(raw, 7, 0);
    assert_reply(raw, 8, LKV_ETOOLARGE);
    lkv_msg_free(msg);
}

static void propose(struct raw *raw, struct slice command) {
    call(raw, (struct wire_call){.method = WIRE_PROPOSE, .command = command});
}

/* One that no node could apply would stop them all. */
Test(lib_server, proposes_only_commands_that_every_node_can_apply) {
    struct raw *raw = connect_raw(0);
    struct kv_command command = {.op = KV_PUT, .key = slice_text("k"), .value = slice_text("v")};
    struct blob *good = kv_command_encode(&command);
    static uint8_t big[100001];
    command.value = slice_of(big, sizeof(big));
    struct blob *too_large = kv_command_encode(&command);
    propose(raw, blob_slice(good));
    propose(raw, blob_slice(too_large));
    propose(raw, slice_of(good->data, good->size - 1));
    propose(raw, slice_text("nonsense"));
    propose(raw, slice_text(""));
    paper_run(paper);
    assert_reply(raw, 1, 0);
    assert_reply(raw, 2, LKV_ETOOLARGE);
    assert_reply(raw, 3, LKV_EPROTOCOL);
    assert_reply(raw, 4, LKV_EPROTOCOL);
    assert_reply(raw, 5, LKV_EPROTOCOL);
    cr_assert_eq(atomic_load(&host.calls), 1);
    blob_unref(good);
    blob_unref(too_large);
}

Test(lib_server, refuses_sessions_that_make_no_sense) {
    struct raw *raw = connect_raw(0);
    struct kv_command command = {.op = KV_SESSION_EXPIRE, .session = 1};
    struct blob *expire = kv_command_encode(&command);
    propose(raw, blob_slice(expire)); /* would end another client's session */
    call(raw, (struct wire_call){.method = WIRE_SESSION_OPEN, .ttl_ms = 999});
    call(raw, (struct wire_call){.method = WIRE_SESSION_OPEN, .ttl_ms = UINT64_MAX});
    call(raw, (struct wire_call){.method = WIRE_SESSION_CLOSE});
    call(raw, (struct wire_call){.method = WIRE_PUT, .key = slice_text("k"), .session = 5});
    SAY(raw, "\x94\x00\x06\xa3put\x95\xa1k\xa1v\x05\x00\x93\x00\x01\x01"); /* session 0 */
    SAY(raw, "\x94\x00\x07\xa3put\x95\xa1k\xa1v\x05\x00\x92\x01\x01");
    SAY(raw, "\x94\x00\x08\xa3put\x96\xa1k\xa1v\x05\x00\x93\x01\x01\x01\x00");
    paper_run(paper);
    for (uint64_t number = 1; number <= 7; number++) {
        assert_reply(raw, number, LKV_EINVAL);
    }
    assert_reply(raw, 8, LKV_EUNSUPPORTED);
    cr_assert_eq(atomic_load(&host.calls), 0);
    blob_unref(expire);
}

Test(lib_server, refuses_views_of_no_time_and_of_too_much) {
    struct raw *raw = connect_raw(0);
    const uint64_t ages_ms[] = {0, LKV_VIEW_AGE_MS_MAX + 1, UINT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        call(raw, (struct wire_call){.method = WIRE_VIEW_OPEN, .view_age_ms = ages_ms[i]});
    }
    paper_run(paper);
    for (uint64_t number = 1; number <= 3; number++) {
        assert_reply(raw, number, LKV_EINVAL);
    }
    cr_assert_eq(atomic_load(&host.calls), 0);
}

Test(lib_server, answers_what_it_cannot_do_and_goes_on) {
    struct raw *raw = connect_raw(0);
    SAY(raw, "\x94\x00\x01\xa4what\x90");
    SAY(raw, "\x94\x00\x02\xa3put\x91\x01");
    atomic_store(&host.role, HOST_FULL);
    SAY(raw, "\x94\x00\x03\xa3put\x93\xa1k\xa1v\x05");
    atomic_store(&host.role, HOST_LEADER);
    SAY(raw, "\x94\x00\x04\xa3put\x93\xa1k\xa1v\x05");
    assert_reply(raw, 1, LKV_EUNSUPPORTED);
    assert_reply(raw, 2, LKV_EINVAL);
    assert_reply(raw, 3, LKV_EBUSY);
    assert_reply(raw, 4, 0);
}

static void append(struct raw *raw, uint64_t session, uint64_t refusals) {
    static const struct slice record = {(const uint8_t *)"r", 1};
    call(raw, (struct wire_call){.method = WIRE_APPEND,
                                 .records = &record,
                                 .record_count = 1,
                                 .session = session,
                                 .seq = session != 0 ? raw->numbers + 1 : 0,
                                 .acked_below = session != 0 ? 1 : 0,
                                 .refusals = refusals});
    paper_run(paper);
}

static void assert_refusals(struct raw *raw, uint64_t number, int rc, uint64_t refusals) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    uint64_t told = UINT64_MAX;
    cr_assert_eq(next_reply(raw, msg), number);
    cr_assert_eq(lkv_msg_rc(msg), rc, "%s: %s", error_name(lkv_msg_rc(msg)), lkv_msg_text(msg));
    cr_assert(lkv_msg_u64(msg, "refusals", &told) && told == refusals, "%llu",
              (unsigned long long)told);
    lkv_msg_free(msg);
}

/* Rule 26: its answer may be lost, and then it comes again. Here LKV_EUNSUPPORTED is what the host says of every
 * append that comes so far. */
Test(lib_server, nothing_goes_past_an_append_in_a_session_that_found_no_room) {
    struct raw *raw = connect_raw(0);
    atomic_store(&host.role, HOST_FULL);
    append(raw, 0, 0);
    append(raw, 7, 0);
    atomic_store(&host.role, HOST_LEADER);
    append(raw, 7, 0);
    append(raw, 0, 1);
    size_t calls = atomic_load(&host.calls);
    append(raw, 0, 2);
    cr_assert_eq(atomic_load(&host.calls), calls + 1);
    assert_reply(raw, 1, LKV_EBUSY); /* without a session nobody sends it again */
    assert_refusals(raw, 2, LKV_EBUSY, 1);
    assert_refusals(raw, 3, LKV_EBUSY, 2); /* behind it, sent before that was known */
    assert_refusals(raw, 4, LKV_EBUSY, 2);
    assert_refusals(raw, 5, LKV_EUNSUPPORTED, 2);
}

Test(lib_server, an_append_behind_one_that_may_be_done_elsewhere_is_to_be_tried_again) {
    struct raw *raw = connect_raw(0);
    atomic_store(&host.role, HOST_SILENT);
    append(raw, 7, 0);
    append(raw, 7, 0);
    append(raw, 7, 0);
    host_fail_kept(&host, LKV_EUNKNOWN);
    append(raw, 0, 2);
    append(raw, 0, 5);
    append(raw, 0, 5);
    host_fail_kept(&host, LKV_ENOTLEADER);
    host_fail_kept(&host, LKV_ETERM);
    paper_run(paper);
    for (uint64_t number = 1; number <= 3; number++) {
        assert_refusals(raw, number, LKV_EUNKNOWN, number);
    }
    assert_refusals(raw, 4, LKV_ENOLEADER, 4);
    assert_refusals(raw, 5, LKV_ENOLEADER, 5);
    assert_refusals(raw, 6, LKV_ENOTLEADER, 6);
}

/* What is decided for ever may be said as often as it is asked. */
Test(lib_server, an_append_whose_term_has_passed_stops_nobody) {
    struct raw *raw = connect_raw(0);
    atomic_store(&host.role, HOST_SILENT);
    append(raw, 7, 0);
    host_fail_kept(&host, LKV_ETERM);
    append(raw, 7, 0);
    cr_assert_eq(host.kept_count, 1);
    host_answer_kept(&host);
    paper_run(paper);
    assert_refusals(raw, 1, LKV_ETERM, 0);
    assert_refusals(raw, 2, LKV_EUNSUPPORTED, 0);
}

/* Of a sender that has counted wrongly. */
Test(lib_server, refusals_that_never_were_are_refused) {
    struct raw *raw = connect_raw(0);
    append(raw, 0, 3);
    assert_refusals(raw, 1, LKV_ENOLEADER, 1);
}

Test(lib_server, passes_flags_and_timeouts_on) {
    struct raw *raw = connect_raw(0);
    atomic_store(&host.role, HOST_SILENT);
    host.options.timeout_ms_max = 60000;
    SAY(raw, "\x94\x00\x01\xa3put\x94\xa1k\xa1v\x05\x03");
    SAY(raw, "\x94\x00\x02\xa3put\x93\xa1k\xa1v\xce\x7f\xff\xff\xff");
    SAY(raw, "\x94\x00\x03\xa3put\x93\xa1k\xa1v\xc0");
    cr_assert_eq(host.kept_count, 3);
    struct request *request = LIST_ITEM(host.kept.next, struct request, link);
    cr_assert(request->forwarded && request->no_park);
    cr_assert_eq(request->deadline_ns, paper_now_ns(paper) + 5 * UINT64_C(1000000));
    cr_assert(request->command->crc_known);
    request = LIST_ITEM(host.kept.prev, struct request, link);
    cr_assert(!request->forwarded && !request->no_park);
    cr_assert_eq(request->deadline_ns, paper_now_ns(paper) + 60000 * UINT64_C(1000000));
    host_answer_kept(&host);
    paper_run(paper);
    assert_reply(raw, 1, 0);
    assert_reply(raw, 2, 0);
    assert_reply(raw, 3, 0);
}

/* ------------------------------------------------------------------ hostile input */

/* N10 */
Test(lib_server, refuses_what_is_no_request_with_one_error) {
    static const struct {
        const char *bytes;
        size_t size;
        int rc;
    } rows[] = {
        {"\x93\x02\xa3put\x90", 7, LKV_EPROTOCOL},
        {"\x94\x01\x01\xc0\xc0", 5, LKV_EPROTOCOL},
        {"\x95\x00\x01\xa4ping\x90\x01", 10, LKV_EPROTOCOL},
        {"\x94\x00\x01\xa3put\x93\xc6\xff\xff\xff\xff", 13, LKV_ETOOLARGE},
        {"\x94\xdd\x00\xff\xff\xff", 6, LKV_ETOOLARGE},
        {"\x94\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91", 11, LKV_EPROTOCOL},
        {"\x94\xc1", 2, LKV_EPROTOCOL},
        {"\x94\x00\x01\xa4ping\x90\x00", 10, LKV_EPROTOCOL}, /* after a good one */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct raw *raw = connect_raw(i);
        say(raw, rows[i].bytes, rows[i].size);
        if (i == 7) {
            assert_reply(raw, 1, 0);
        }
        assert_refused(raw, rows[i].rc);
    }
    cr_assert_eq(server_connections(host.server), 0);
    cr_assert_eq(paper_open_conns(paper), 0);
}

/* N1 */
Test(lib_server, survives_noise) {
    struct prng prng = prng_of(3);
    for (int round = 0; round < 3000; round++) {
        struct raw *raw = &raws[0];
        memset(raw, 0, sizeof(*raw));
        (void)connect_raw(0);
        uint8_t bytes[300];
        size_t size = 1 + prng_below(&prng, sizeof(bytes));
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (uint8_t)prng_next(&prng);
        }
        if (round % 2 == 0) {
            bytes[0] = 0x94;
        }
        say(raw, bytes, size);
        if (!raw->closed) {
            net_close(raw->conn);
        }
        paper_run(paper);
        cr_assert_eq(server_connections(host.server), 0);
        buffer_fini(&raw->in);
    }
    cr_assert_eq(paper_open_conns(paper), 0);
}

/* N3 */
Test(lib_server, closes_who_sends_a_frame_byte_by_byte) {
    struct raw *slow = connect_raw(0);
    struct raw *other = connect_raw(1);
    static const char frame[] = "\x94\x00\x01\xa3put\x93\xa4slow\xa5value\xcd\x13\x88";
    uint64_t seconds = 0;
    for (; seconds < sizeof(frame) - 1 && !slow->closed; seconds++) {
        say(slow, frame + seconds, 1);
        put(other, slice_text("k"), slice_text("v"));
        paper_advance(paper, 1000);
        assert_reply(other, seconds + 1, 0);
    }
    cr_assert(seconds >= 10 && seconds <= 12);
    assert_refused(slow, LKV_EPROTOCOL);
    cr_assert(!other->closed);
}

Test(lib_server, lets_a_large_frame_take_its_time) {
    static uint8_t value[100000];
    struct buffer out;
    buffer_init(&out);
    wire_encode_call(&out, &(struct wire_call){.number = 1,
                                               .method = WIRE_PUT,
                                               .key = slice_text("k"),
                                               .value = slice_of(value, sizeof(value))});
    struct raw *raw = connect_raw(0);
    for (size_t at = 0; at < out.size; at += 10000) {
        say(raw, out.data + at, out.size - at < 10000 ? out.size - at : 10000);
        paper_advance(paper, 900);
    }
    assert_reply(raw, 1, 0);
    buffer_fini(&out);
}

Test(lib_server, an_idle_connection_stays_and_costs_no_wake_up) {
    struct raw *raw = connect_raw(0);
    put(raw, slice_text("k"), slice_text("v"));
    paper_advance(paper, 5000);
    cr_assert_eq(host_due_ns, UINT64_MAX);
    paper_advance(paper, 3600 * 1000);
    cr_assert(!raw->closed);
    put(raw, slice_text("k"), slice_text("v"));
    paper_run(paper);
    assert_reply(raw, 1, 0);
    assert_reply(raw, 2, 0);
}

/* ------------------------------------------------------------------ bounds */

/* N7 */
Test(lib_server_options, take_no_more_connections_than_allowed, .fini = close_paper) {
    open_host(&(struct server_options){.connections_max = 3});
    for (size_t i = 0; i < 10; i++) {
        struct raw *raw = connect_raw(i);
        put(raw, slice_text("k"), slice_text("v"));
        paper_run(paper);
        if (i < 3) {
            assert_reply(raw, 1, 0);
        } else {
            assert_refused(raw, LKV_EBUSY);
        }
    }
    cr_assert_eq(server_connections(host.server), 3);
    net_close(raws[0].conn);
    paper_run(paper);
    struct raw *raw = connect_raw(20);
    put(raw, slice_text("k"), slice_text("v"));
    paper_run(paper);
    assert_reply(raw, 1, 0);
}

static void fill_store(void) {
    static uint8_t value[100000];
    struct raw *raw = connect_raw(CLIENTS_MAX - 1);
    put(raw, slice_text("big"), slice_of(value, sizeof(value)));
    paper_run(paper);
    assert_reply(raw, 1, 0);
    net_close(raw->conn);
    paper_run(paper);
}

static void get_big(struct raw *raw, size_t count) {
    for (size_t i = 0; i < count; i++) {
        call(raw, (struct wire_call){.method = WIRE_GET, .key = slice_text("big")});
    }
}

/* N14 */
Test(lib_server, closes_a_client_that_takes_no_replies_and_never_queues_much_for_it) {
    fill_store();
    struct raw *raw = connect_raw(0);
    net_pause(raw->conn, true);
    get_big(raw, 3000); /* 300 MB of replies */
    paper_run(paper);
    size_t calls = atomic_load(&host.calls);
    cr_assert_leq(calls, 60, "reading stops when the replies do not go");
    cr_assert(!raw->closed);
    paper_advance(paper, 9000);
    cr_assert_eq(server_connections(host.server), 1);
    paper_advance(paper, 4000);
    cr_assert_eq(server_connections(host.server), 0);
    net_pause(raw->conn, false);
    paper_run(paper);
    cr_assert(raw->closed);
}

Test(lib_server, a_slow_reader_gets_every_reply_in_order) {
    fill_store();
    struct raw *raw = connect_raw(0);
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    net_pause(raw->conn, true);
    get_big(raw, 200);
    uint64_t got = 0;
    for (int round = 0; round < 200 && got < 200; round++) {
        paper_chunk(paper, 30000 * (1 + (size_t)round % 5));
        net_pause(raw->conn, false);
        paper_advance(paper, 1);
        net_pause(raw->conn, true);
        paper_advance(paper, 5000);
        for (uint64_t number; (number = next_reply(raw, msg)) != 0;) {
            cr_assert_eq(number, ++got);
            cr_assert_eq(lkv_msg_count(msg), 1);
        }
    }
    cr_assert_eq(got, 200);
    cr_assert(!raw->closed);
    lkv_msg_free(msg);
}

/* Many that never read: together they get no more than the bound, the one that reads beside them goes
 * on, and has everything when they are closed. */
Test(lib_server_options, bounds_the_replies_of_all_connections_together, .fini = close_paper) {
    enum { HOARDERS = 30, BOUND = 1 << 20 };
    open_host(&(struct server_options){.value_bytes_max = 100000, .output_bytes_max = BOUND});
    fill_store();
    for (size_t i = 0; i < HOARDERS; i++) {
        net_pause(connect_raw(i)->conn, true);
        get_big(&raws[i], 5);
        paper_run(paper);
        cr_assert_leq(host.server->output_bytes, BOUND);
    }
    cr_assert_gt(host.server->output_bytes, BOUND / 2);
    struct raw *raw = connect_raw(HOARDERS);
    put(raw, slice_text("k"), slice_text("v"));
    paper_advance(paper, 1);
    assert_reply(raw, 1, 0);
    get_big(raw, 3);
    paper_advance(paper, 5000);
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(next_reply(raw, msg), 0);
    paper_advance(paper, 40000); /* those before it in line are as bad as the first */
    cr_assert_eq(server_connections(host.server), 1);
    cr_assert_eq(host.server->output_bytes, 0);
    for (uint64_t i = 2; i <= 4; i++) {
        cr_assert_eq(next_reply(raw, msg), i);
        cr_assert_eq(lkv_msg_count(msg), 1);
    }
    lkv_msg_free(msg);
    cr_assert(!raw->closed);
}

Test(lib_server, reads_few_ranges_of_one_connection_at_a_time) {
    atomic_store(&host.role, HOST_SILENT);
    struct raw *raw = connect_raw(0);
    for (int i = 0; i < 100; i++) {
        call(raw, (struct wire_call){.method = WIRE_RANGE, .limit = 1});
    }
    paper_run(paper);
    cr_assert_eq(host.kept_count, 4);
    for (int i = 0; i < 100 && host.kept_count > 0; i++) {
        host_answer_kept(&host);
        loop_wake(loop);
        paper_advance(paper, 10);
        cr_assert_leq(host.kept_count, 4);
    }
    for (uint64_t i = 1; i <= 100; i++) {
        assert_reply(raw, i, 0);
    }
}

Test(lib_server, stops_reading_while_much_is_in_work) {
    atomic_store(&host.role, HOST_SILENT);
    static uint8_t value[100000];
    struct raw *raw = connect_raw(0);
    for (int i = 0; i < 400; i++) {
        put(raw, slice_text("k"), slice_of(value, sizeof(value)));
    }
    paper_run(paper);
    cr_assert(host.kept_count > 100 && host.kept_count < 200, "%zu", host.kept_count);
    atomic_store(&host.role, HOST_LEADER);
    paper_advance(paper, 60000);
    cr_assert(!raw->closed, "waiting is not its fault");
    host_answer_kept(&host);
    loop_wake(loop);
    paper_advance(paper, 2000);
    for (uint64_t i = 1; i <= 400; i++) {
        assert_reply(raw, i, 0);
    }
}

Test(lib_server_options, allow_values_larger_than_the_output_limit, .fini = close_paper) {
    open_host(&(struct server_options){.value_bytes_max = 15 << 20});
    static uint8_t value[15 << 20];
    struct raw *raw = connect_raw(0);
    put(raw, slice_text("k"), slice_of(value, sizeof(value)));
    call(raw, (struct wire_call){.method = WIRE_GET, .key = slice_text("k")});
    call(raw, (struct wire_call){.method = WIRE_GET, .key = slice_text("k")});
    paper_advance(paper, 1);
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    struct lkv_kv kv;
    assert_reply(raw, 1, 0);
    for (uint64_t i = 2; i <= 3; i++) {
        cr_assert_eq(next_reply(raw, msg), i);
        cr_assert(lkv_msg_kv(msg, 0, &kv) && kv.value.size == sizeof(value));
    }
    lkv_msg_free(msg);
}

/* ------------------------------------------------------------------ ends */

Test(lib_server, requests_outlive_their_connection) {
    atomic_store(&host.role, HOST_SILENT);
    struct raw *raw = connect_raw(0);
    put(raw, slice_text("k"), slice_text("v"));
    paper_run(paper);
    net_close(raw->conn);
    paper_run(paper);
    cr_assert_eq(server_connections(host.server), 0);
    host_answer_kept(&host);
    paper_run(paper);
    raw = connect_raw(1);
    put(raw, slice_text("k"), slice_text("v"));
    paper_run(paper);
    cr_assert_eq(host.kept_count, 1, "it is closed with this one in work");
}

Test(lib_server, closing_ends_every_connection) {
    struct raw *raw = connect_raw(0);
    put(raw, slice_text("k"), slice_text("v"));
    paper_run(paper);
    assert_reply(raw, 1, 0);
    server_close(host.server);
    paper_run(paper);
    cr_assert(raw->closed);
    struct server_host nobody = {0};
    cr_assert_eq(server_open(&host.server, loop, &host.options, &nobody), 0);
    server_close(NULL);
}

/* S28 */
Test(lib_server, a_failed_allocation_costs_a_request_or_a_connection) {
    for (uint64_t n = 0; n < 40; n++) {
        memset(&raws[0], 0, sizeof(raws[0]));
        struct raw *raw = connect_raw(0);
        cr_assert_not_null(buffer_reserve(&raw->in, 4096)); /* the client's memory is no matter */
        struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
        put(raw, slice_text("k"), slice_text("v"));
        struct buffer out;
        buffer_init(&out);
        wire_encode_call(&out, &(struct wire_call){.number = 2,
                                                   .method = WIRE_PROPOSE,
                                                   .command = slice_text("nonsense")});
        cr_assert_eq(net_write(raw->conn, buffer_slice(&out)), 0);
        /* The store behind asserts that it has memory, so nothing reaches it. */
        atomic_store(&host.role, HOST_STOPPED);
        mem_fail_after(n);
        paper_run(paper);
        mem_fail_never();
        paper_run(paper);
        uint64_t number = next_reply(raw, msg);
        cr_assert(number == 1 || raw->closed);
        cr_assert(number != 1 || lkv_msg_rc(msg) == LKV_ESTOPPED || lkv_msg_rc(msg) == LKV_ENOMEM);
        if (!raw->closed) {
            net_close(raw->conn);
        }
        paper_run(paper);
        cr_assert_eq(server_connections(host.server), 0);
        lkv_msg_free(msg);
        buffer_fini(&out);
        buffer_fini(&raw->in);
    }
}
