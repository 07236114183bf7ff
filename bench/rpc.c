/* The clients' protocol without consensus or disk: one JSON line per figure.
 *
 *      bench_rpc [OPERATIONS [VALUE_SIZE]]        default 1000000 puts of 256 bytes, keys of 16
 *
 * "encode", "serve", "answer" are one thread's nanoseconds for one put, without any socket: the call's
 * frame; from those bytes to a request of the node, and its reply's bytes; from those bytes to the
 * caller's message. "echo" is the whole way through client, sockets and server to a host that says yes
 * to everything, with a number of puts in flight on one connection. "cpu_ns" is of both ends and of
 * the caller together. */
#include "base/mem.h"
#include "kv/command.h"
#include "lib/server.h"
#include "lib/server_call.h"
#include "lib/uv/loop_uv.h"
#include "lib/uv/net_uv.h"
#include "lib/wire_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { KEY_SIZE = 16, VALUE_SIZE_MAX = 1 << 20 };

static size_t operations = 1000000;
static size_t value_size = 256;
static uint8_t value[VALUE_SIZE_MAX];

static void require(bool condition, const char *what) {
    if (!condition) {
        (void)fprintf(stderr, "bench: %s\n", what);
        exit(1);
    }
}

static uint64_t clock_of(clockid_t clock) {
    struct timespec now;
    require(clock_gettime(clock, &now) == 0, "no clock");
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void print_step(const char *name, uint64_t begun_ns) {
    uint64_t ns = clock_of(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
    (void)printf("{\"bench\":\"%s\",\"value_bytes\":%zu,\"cpu_ns\":%.0f}\n", name, value_size,
                 (double)ns / (double)operations);
}

/* ------------------------------------------------------------------ the steps */

static struct blob *command_of(size_t i) {
    char key[KEY_SIZE + 1];
    (void)snprintf(key, sizeof(key), "key-%012zu", i % 100000);
    struct kv_command command = {
        .op = KV_PUT, .key = slice_of(key, KEY_SIZE), .value = slice_of(value, value_size)};
    struct blob *blob = kv_command_encode(&command);
    require(blob != NULL, "no memory");
    return blob;
}

static void encode_call(struct buffer *out, struct slice command, uint64_t number) {
    wire_encode_call(out, &(struct wire_call){.number = number << 20,
                                              .method = WIRE_PROPOSE,
                                              .command = command,
                                              .has_timeout = true,
                                              .timeout_ms = 4900,
                                              .flags = WIRE_HERE | WIRE_NO_WAIT});
}

static void bench_encode(struct buffer *frame) {
    struct blob *command = command_of(1);
    uint64_t begun_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < operations; i++) {
        buffer_clear(frame);
        encode_call(frame, blob_slice(command), i);
    }
    print_step("encode", begun_ns);
    blob_unref(command);
}

struct serving {
    struct wire_decoder *decoder;
    struct buffer reply;
    struct limits limits;
};

static int serve(void *arg, struct slice frame) {
    struct serving *serving = arg;
    struct wire_call call;
    struct reason why;
    struct request *request;
    bool numbered;
    require(wire_decode_call(serving->decoder, frame, &call, &numbered, &why) == 0, why.text);
    require(server_call_request(&call, &serving->limits, &request, &why) == 0, why.text);
    msg_set_u64(request->reply, "rev", call.number);
    msg_set_u64(request->reply, "index", call.number);
    msg_set_u64(request->reply, "term", 7);
    buffer_clear(&serving->reply);
    wire_encode_reply(&serving->reply, call.number, request->reply);
    request_finish(request);
    return WIRE_MORE;
}

static void bench_serve(struct serving *serving, struct slice frame) {
    struct wire_input input;
    struct reason why;
    wire_input_init(&input);
    uint64_t begun_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < operations; i++) {
        require(wire_input_feed(&input, frame, &wire_call_limits, serve, serving, &why) == 0,
                why.text);
    }
    print_step("serve", begun_ns);
    wire_input_fini(&input);
}

static int take_answer(void *arg, struct slice frame) {
    struct serving *serving = arg;
    struct reason why;
    uint64_t number;
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    require(wire_open_reply(serving->decoder, frame, &number, &why) == 0, why.text);
    require(wire_read_reply(serving->decoder, frame, msg, &why) == 0, why.text);
    lkv_msg_free(msg);
    return WIRE_MORE;
}

static void bench_answer(struct serving *serving) {
    struct wire_input input;
    struct reason why;
    struct slice frame = buffer_slice(&serving->reply);
    wire_input_init(&input);
    uint64_t begun_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < operations; i++) {
        require(wire_input_feed(&input, frame, &wire_reply_limits, take_answer, serving, &why) == 0,
                why.text);
    }
    print_step("answer", begun_ns);
    wire_input_fini(&input);
}

static void bench_steps(void) {
    struct serving serving = {.decoder = wire_decoder_new(),
                              .limits = {.key_bytes_max = 8192, .value_bytes_max = 4 << 20}};
    struct buffer frame;
    buffer_init(&serving.reply);
    buffer_init(&frame);
    require(serving.decoder != NULL, "no memory");
    bench_encode(&frame);
    bench_serve(&serving, buffer_slice(&frame));
    bench_answer(&serving);
    buffer_fini(&frame);
    buffer_fini(&serving.reply);
    wire_decoder_free(serving.decoder);
}

/* ------------------------------------------------------------------ the whole way */

static struct {
    struct loop *loop;
    struct net *net;
    struct server *server;
    struct net_listener *listener;
} host;

static int say_yes(void *arg, struct request *request) {
    (void)arg;
    msg_set_u64(request->reply, "rev", 1);
    msg_set_u64(request->reply, "index", 1);
    msg_set_u64(request->reply, "term", 1);
    request_finish(request);
    return 0;
}

static void on_first(void *arg, struct slice bytes) {
    server_adopt(host.server, arg, bytes);
}

static void on_first_close(void *arg, int rc) {
    (void)arg;
    (void)rc;
}

static void on_accept(void *arg, struct net_conn *conn) {
    static const struct net_conn_events events = {.on_data = on_first, .on_close = on_first_close};
    (void)arg;
    net_attach(conn, &events, conn);
}

static void nothing(void *arg) {
    (void)arg;
}

static void turn_end(void *arg) {
    (void)arg;
    loop_timer_set(host.loop, server_expire(host.server, loop_now_ns(host.loop)));
}

static void start_host(void) {
    struct loop_events events = {.on_timer = nothing, .on_wake = nothing, .on_turn_end = turn_end};
    struct server_options options = {.key_bytes_max = 8192,
                                     .value_bytes_max = 4 << 20,
                                     .connections_max = 1024,
                                     .timeout_ms_max = 60000};
    struct server_host server_host = {.submit = say_yes};
    struct reason why;
    require(loop_uv_open(&host.loop, &events, "host", false, &why) == 0, why.text);
    require(net_uv_open(&host.net, host.loop) == 0, "no network");
    require(server_open(&host.server, host.loop, &options, &server_host) == 0, "no server");
    require(net_listen(host.net, "127.0.0.1:0", on_accept, NULL, &host.listener, &why) == 0,
            why.text);
    require(loop_uv_start(host.loop) == 0, "no thread");
}

static void stop_host(void) {
    loop_uv_stop(host.loop);
    net_listener_close(host.listener);
    server_close(host.server);
    net_uv_close(host.net);
    loop_uv_close(host.loop);
}

static void submit(struct lkv *db, struct lkv_queue *queue, size_t i) {
    char key[KEY_SIZE + 1];
    (void)snprintf(key, sizeof(key), "key-%012zu", i % 100000);
    struct lkv_bytes bytes = {key, KEY_SIZE};
    int rc = lkv_put_submit(db, bytes, (struct lkv_bytes){value, value_size}, 60000, queue, NULL);
    require(rc == 0, lkv_last_text());
}

static void bench_echo(struct lkv *db, size_t in_flight, size_t count) {
    struct lkv_queue *queue;
    require(lkv_queue_new(&queue) == 0, "no queue");
    uint64_t begun_ns = clock_of(CLOCK_MONOTONIC);
    uint64_t cpu_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    size_t sent = 0, done = 0;
    for (; sent < in_flight; sent++) {
        submit(db, queue, sent);
    }
    for (; done < count; done++) {
        struct lkv_msg *msg = lkv_queue_next(queue, LKV_DEFAULT);
        require(lkv_msg_rc(msg) == 0, lkv_msg_text(msg));
        lkv_msg_free(msg);
        if (sent < count) {
            submit(db, queue, sent++);
        }
    }
    uint64_t ns = clock_of(CLOCK_MONOTONIC) - begun_ns;
    cpu_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    (void)printf("{\"bench\":\"echo\",\"in_flight\":%zu,\"value_bytes\":%zu,\"ops_per_s\":%.0f,"
                 "\"cpu_ns\":%.0f}\n",
                 in_flight, value_size, (double)count * 1e9 / (double)ns,
                 (double)cpu_ns / (double)count);
    lkv_queue_free(queue);
}

static void bench_all_echoes(void) {
    static const size_t in_flight[] = {1, 16, 64, 256, 1000};
    start_host();
    struct lkv_options *options = lkv_options_new();
    require(options != NULL, "no memory");
    require(lkv_options_set(options, "endpoints", net_listener_address(host.listener)) == 0,
            lkv_options_error(options));
    struct lkv *db;
    require(lkv_connect(&db, options, NULL) == 0, lkv_last_text());
    lkv_options_free(options);
    for (size_t i = 0; i < sizeof(in_flight) / sizeof(in_flight[0]); i++) {
        bench_echo(db, in_flight[i], in_flight[i] == 1 ? operations / 20 : operations / 2);
    }
    (void)lkv_close(db, 0);
    stop_host();
}

int main(int argc, char **argv) {
    operations = argc > 1 ? strtoul(argv[1], NULL, 10) : operations;
    value_size = argc > 2 ? strtoul(argv[2], NULL, 10) : value_size;
    require(operations >= 20000 && value_size <= VALUE_SIZE_MAX, "bench_rpc [OPERATIONS [SIZE]]");
    bench_steps();
    bench_all_echoes();
    return 0;
}
