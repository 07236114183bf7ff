#include "tests/support/client_real.h"

#include "lib/uv/loop_uv.h"
#include "lib/uv/net_uv.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

void check_that(bool good, const char *condition, const char *file, int line) {
    if (!good) {
        (void)fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
        exit(1);
    }
}

static void nothing(void *arg) {
    (void)arg;
}

static void turn_end(void *arg) {
    struct real_host *real = arg;
    loop_timer_set(real->loop, host_turn(&real->host));
}

void real_host_start(struct real_host *real, const char *address) {
    struct loop_events events = {
        .on_timer = nothing, .on_wake = nothing, .on_turn_end = turn_end, .arg = real};
    struct reason why = {{0}};
    host_store_open(&real->store);
    CHECK(loop_uv_open(&real->loop, &events, "test-host", false, &why) == 0);
    CHECK(net_uv_open(&real->net, real->loop) == 0);
    host_open(&real->host, &real->store, real->loop, real->net, address,
              &(struct server_options){0});
    (void)snprintf(real->address, sizeof(real->address), "%s",
                   net_listener_address(real->host.listener));
    CHECK(loop_uv_start(real->loop) == 0);
}

void real_host_stop(struct real_host *real) {
    loop_uv_stop(real->loop);
    host_close(&real->host);
    net_uv_close(real->net);
    loop_uv_close(real->loop);
    host_store_close(&real->store);
}

struct lkv *real_client(const char *endpoints, const char *connections) {
    struct lkv_options *options = lkv_options_new();
    CHECK(options != NULL);
    CHECK(lkv_options_set(options, "endpoints", endpoints) == 0);
    CHECK(lkv_options_set(options, "connections", connections) == 0);
    struct lkv *db;
    CHECK(lkv_connect(&db, options, NULL) == 0);
    lkv_options_free(options);
    return db;
}

static size_t count_entries(const char *path) {
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        count += entry->d_name[0] != '.' ? 1 : 0;
    }
    (void)closedir(dir);
    return count;
}

size_t count_threads(void) {
    return count_entries("/proc/self/task");
}

size_t count_descriptors(void) {
    return count_entries("/proc/self/fd");
}
