/* For the tests of lib/uv: checks, a list of tests, and a loop that the main thread can talk to.
 *
 * Plain executables, since TSan and the unit test framework do not go together.
 */
#ifndef TESTS_THREADS_UV_HARNESS_H
#define TESTS_THREADS_UV_HARNESS_H

#include "lib/uv/loop_uv.h"
#include "lib/uv/net_uv.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) \
    ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__, __func__))

static _Noreturn inline void check_failed(const char *condition, const char *file, int line,
                                          const char *function) {
    (void)fprintf(stderr, "FAILED: %s (%s:%d, %s)\n", condition, file, line, function);
    (void)fflush(NULL);
    _exit(1); /* at once: other threads go on using what exit would take down */
}

struct test {
    const char *name; /* a sentence in the present */
    void (*run)(void);
};

#define RUN_TESTS(tests) run_tests(tests, sizeof(tests) / sizeof((tests)[0]))

static inline int run_tests(const struct test *tests, size_t count) {
    for (size_t i = 0; i < count; i++) {
        printf("  %s\n", tests[i].name);
        (void)fflush(stdout);
        tests[i].run();
    }
    printf("%zu passed, 0 failed\n", count);
    return 0;
}

/* ---- The loop under test ----
 *
 * `call` runs a function on the loop's thread and returns when it has. `await` returns when a
 * condition, looked at on the loop's thread at the end of each turn, holds; in between the main
 * thread touches nothing of the loop's, so that TSan proves the point. */

enum { AWAIT_SECONDS = 60 };

struct harness {
    struct loop *loop;
    struct net *net;

    /* loop thread */
    void (*on_timer)(void *arg);
    void (*on_wake)(void *arg);
    void *arg;
    uint64_t turns;
    uint64_t wakes;
    uint64_t timers;

    /* under mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    void (*call)(void *arg);
    bool (*condition)(void *arg);
    void *call_arg;
};

static inline void harness_timer(void *arg) {
    struct harness *harness = arg;
    harness->timers++;
    if (harness->on_timer != NULL) {
        harness->on_timer(harness->arg);
    }
}

static inline void harness_wake(void *arg) {
    struct harness *harness = arg;
    harness->wakes++;
    if (harness->on_wake != NULL) {
        harness->on_wake(harness->arg);
    }
}

static inline void harness_turn_end(void *arg) {
    struct harness *harness = arg;
    harness->turns++;
    pthread_mutex_lock(&harness->mutex);
    if (harness->call != NULL) {
        harness->call(harness->call_arg);
        harness->call = NULL;
        pthread_cond_signal(&harness->changed);
    }
    if (harness->condition != NULL && harness->condition(harness->call_arg)) {
        harness->condition = NULL;
        pthread_cond_signal(&harness->changed);
    }
    pthread_mutex_unlock(&harness->mutex);
}

static inline void harness_open(struct harness *harness, const char *name) {
    *harness = (struct harness){0};
    CHECK(pthread_mutex_init(&harness->mutex, NULL) == 0);
    CHECK(pthread_cond_init(&harness->changed, NULL) == 0);
    struct loop_events events = {.on_timer = harness_timer,
                                 .on_wake = harness_wake,
                                 .on_turn_end = harness_turn_end,
                                 .arg = harness};
    struct reason why = {{0}};
    CHECK(loop_uv_open(&harness->loop, &events, name, true, &why) == 0);
    CHECK(net_uv_open(&harness->net, harness->loop) == 0);
}

static inline void harness_start(struct harness *harness) {
    CHECK(loop_uv_start(harness->loop) == 0);
}

static inline void harness_wait(struct harness *harness) {
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += AWAIT_SECONDS;
    while (harness->call != NULL || harness->condition != NULL) {
        CHECK(pthread_cond_timedwait(&harness->changed, &harness->mutex, &until) == 0);
    }
}

static inline void harness_call(struct harness *harness, void (*call)(void *arg), void *arg) {
    pthread_mutex_lock(&harness->mutex);
    harness->call = call;
    harness->call_arg = arg;
    loop_wake(harness->loop);
    harness_wait(harness);
    pthread_mutex_unlock(&harness->mutex);
}

static inline void harness_await(struct harness *harness, bool (*condition)(void *arg), void *arg) {
    pthread_mutex_lock(&harness->mutex);
    harness->condition = condition;
    harness->call_arg = arg;
    loop_wake(harness->loop);
    harness_wait(harness);
    pthread_mutex_unlock(&harness->mutex);
}

static inline void harness_close(struct harness *harness) {
    loop_uv_stop(harness->loop);
    net_uv_close(harness->net);
    loop_uv_close(harness->loop);
    pthread_cond_destroy(&harness->changed);
    pthread_mutex_destroy(&harness->mutex);
}

/* ---- The process ---- */

static inline void pause_ms(long ms) {
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&span, NULL);
}

static inline size_t count_entries(const char *path) {
    DIR *directory = opendir(path);
    CHECK(directory != NULL);
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(directory);
    return count;
}

static inline size_t count_fds(void) {
    return count_entries("/proc/self/fd");
}

/* A joined thread may be seen for a moment longer. */
static inline size_t count_threads_down_to(size_t expected) {
    size_t count = count_entries("/proc/self/task");
    for (int i = 0; i < 200 && count > expected; i++) {
        pause_ms(5);
        count = count_entries("/proc/self/task");
    }
    return count;
}

#endif
