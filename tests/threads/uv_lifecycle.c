/* What a node leaves in its host's process: nothing. X-H2, and the memory of an idle one. */
#include "tests/threads/uv_peers.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif

enum { ROUNDS = 100, RSS_KIB_MAX = 8 * 1024 };

static void run_job(struct loop_job *job) {
    (void)job;
}

static void submit_to_both(void *arg) {
    static struct loop_job jobs[LOOP_QUEUES];
    struct client *client = arg;
    for (int queue = 0; queue < LOOP_QUEUES; queue++) {
        jobs[queue] = (struct loop_job){.run = run_job, .done = run_job};
        loop_submit(client->harness.loop, (enum loop_queue)queue, &jobs[queue]);
    }
}

/* Everything once: threads, listeners of both kinds, a lookup, a connection, jobs. */
static void live_once(const char *listen_on, bool by_name) {
    static struct server server;
    static struct client client;
    server_open(&server, listen_on, ECHO);
    char address[192];
    (void)snprintf(address, sizeof(address), "%s%s", by_name ? "localhost" : "",
                   by_name ? strrchr(server.address, ':') : server.address);
    start_client(&client, address);
    harness_call(&client.harness, submit_to_both, &client);
    harness_call(&client.harness, send_thousand, &client);
    client.expected = client.sent;
    harness_await(&client.harness, client_has_all, &client);
    harness_close(&client.harness);
    server_close(&server);
    CHECK(client.closed == 0);
}

/* X-H2 */
static void hundred_lives_leave_no_descriptor_and_no_thread(void) {
    live_once("127.0.0.1:0", true); /* libuv keeps two descriptors from the first one on */
    live_once(socket_address(), false);
    size_t fds = count_fds();
    size_t threads = count_threads_down_to(1);
    for (int i = 0; i < ROUNDS; i++) {
        live_once(i % 2 == 0 ? "127.0.0.1:0" : socket_address(), i % 2 == 0);
    }
    CHECK(count_fds() == fds);
    CHECK(count_threads_down_to(threads) == threads);
}

static void never_started_leaves_nothing_either(void) {
    size_t fds = count_fds();
    size_t threads = count_threads_down_to(1);
    for (int i = 0; i < ROUNDS; i++) {
        struct server server = {.listen_on = "127.0.0.1:0"};
        harness_open(&server.harness, "brief");
        server_listen(&server);
        CHECK(server.listen_rc == 0);
        harness_close(&server.harness);
    }
    CHECK(count_fds() == fds);
    CHECK(count_threads_down_to(threads) == threads);
}

static void two_in_one_process_share_nothing(void) {
    static struct server one, two;
    static struct client client;
    server_open(&one, "127.0.0.1:0", ECHO);
    server_open(&two, "127.0.0.1:0", ECHO);
    server_close(&one);
    start_client(&client, two.address);
    harness_call(&client.harness, send_thousand, &client);
    client.expected = client.sent;
    harness_await(&client.harness, client_has_all, &client);
    harness_close(&client.harness);
    server_close(&two);
    CHECK(one.accepted == 0);
    CHECK(client.received == client.sent);
}

#ifndef HAS_SANITIZER
static long rss_kib(void) {
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kib = strtol(line + 6, NULL, 10);
        }
    }
    (void)fclose(file);
    return kib;
}
#endif

/* First in the process, so that nobody else's memory is counted. */
static void idle_node_is_small(void) {
#ifdef HAS_SANITIZER
    printf("    SKIPPED: a sanitizer's memory would be measured\n");
#else
    static struct server server;
    server_open(&server, "127.0.0.1:0", ECHO);
    pause_ms(20);
    long kib = rss_kib();
    server_close(&server);
    printf("    %ld KiB\n", kib);
    CHECK(kib > 0 && kib < RSS_KIB_MAX);
#endif
}

int main(void) {
    static const struct test tests[] = {
        {"idle node is small", idle_node_is_small},
        {"hundred lives leave no descriptor and no thread (X-H2)",
         hundred_lives_leave_no_descriptor_and_no_thread},
        {"never started leaves nothing either", never_started_leaves_nothing_either},
        {"two in one process share nothing (X-H2)", two_in_one_process_share_nothing},
    };
    return RUN_TESTS_IN_FOLDER(tests);
}
