#include "base/mem.h"
#include "lib/handle.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static struct lkv_queue *queue;

static void open_queue(void) {
    cr_assert_eq(lkv_queue_new(&queue), 0);
}

static void close_queue(void) {
    lkv_queue_free(queue);
}

TestSuite(lib_queue, .init = open_queue, .fini = close_queue);

static bool is_readable(void) {
    struct pollfd wanted = {.fd = lkv_queue_fd(queue), .events = POLLIN};
    return poll(&wanted, 1, 0) == 1;
}

static void push(intptr_t tag) {
    queue_push(queue, msg_new(LKV_REPLY, (void *)tag));
}

static intptr_t next(int64_t timeout_ms) {
    struct lkv_msg *msg = lkv_queue_next(queue, timeout_ms);
    intptr_t tag = msg != NULL ? (intptr_t)lkv_msg_tag(msg) : -1;
    lkv_msg_free(msg);
    return tag;
}

Test(lib_queue, delivers_in_order) {
    push(1);
    push(2);
    push(3);
    cr_assert_eq(next(0), 1);
    cr_assert_eq(next(LKV_DEFAULT), 2);
    cr_assert_eq(next(1000), 3);
    cr_assert_eq(next(0), -1);
}

Test(lib_queue, is_readable_exactly_while_it_is_not_empty) {
    cr_assert(!is_readable());
    push(1);
    cr_assert(is_readable());
    push(2);
    (void)next(0);
    cr_assert(is_readable());
    (void)next(0);
    cr_assert(!is_readable());
    push(3);
    cr_assert(is_readable());
}

static int64_t now_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

Test(lib_queue, waits_as_long_as_it_was_told) {
    int64_t begun_ms = now_ms();
    cr_assert_eq(next(0), -1);
    cr_assert_leq(now_ms() - begun_ms, 20);
    cr_assert_eq(next(60), -1);
    cr_assert_geq(now_ms() - begun_ms, 59);
}

static void *push_later(void *arg) {
    (void)poll(NULL, 0, 30);
    push((intptr_t)arg);
    return NULL;
}

Test(lib_queue, wakes_who_waits_for_ever) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, push_later, (void *)7), 0);
    cr_assert_eq(next(LKV_DEFAULT), 7);
    (void)pthread_join(thread, NULL);
}

Test(lib_queue, survives_a_caller_who_reads_the_descriptor) {
    push(1);
    uint64_t count;
    cr_assert_eq(read(lkv_queue_fd(queue), &count, sizeof(count)), (ssize_t)sizeof(count));
    cr_assert_eq(next(0), 1);
    push(2);
    cr_assert(is_readable());
    cr_assert_eq(next(0), 2);
}

static void count_free(void *arg, struct lkv_msg *msg) {
    (void)msg;
    ++*(int *)arg;
}

Test(lib_queue, frees_what_nobody_took) {
    int freed = 0;
    struct lkv_msg *msg = msg_new(LKV_ROLE, NULL);
    msg->on_free = count_free;
    msg->on_free_arg = &freed;
    struct lkv_queue *other;
    cr_assert_eq(lkv_queue_new(&other), 0);
    queue_push(other, msg);
    lkv_queue_free(other);
    cr_assert_eq(freed, 1);
    lkv_queue_free(NULL);
}

Test(lib_queue, fails_cleanly_without_memory) {
    struct lkv_queue *other;
    mem_fail_after(0);
    int rc = lkv_queue_new(&other);
    mem_fail_never();
    cr_assert_eq(rc, LKV_ENOMEM);
    cr_assert_null(other);
    cr_assert_str_eq(lkv_last_text(), "out of memory for a queue");
}
