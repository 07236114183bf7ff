/* The queue of messages: a list under a mutex, and an eventfd that counts 1 while the list is not
 * empty and 0 while it is. The descriptor is written and read under the mutex too, and only when
 * the list becomes non-empty or empty, so a burst of messages costs one system call. */
#include "base/assert.h"
#include "base/mem.h"
#include "lib/api.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { MS_PER_POLL_MAX = 1000 * 1000 * 1000 };

struct lkv_queue {
    int fd; /* immutable */
    /* under mutex */
    pthread_mutex_t mutex;
    struct list_link messages;
};

static void lock(struct lkv_queue *queue) {
    int rc = pthread_mutex_lock(&queue->mutex);
    ASSERT(rc == 0);
}

static void unlock(struct lkv_queue *queue) {
    int rc = pthread_mutex_unlock(&queue->mutex);
    ASSERT(rc == 0);
}

int lkv_queue_new(struct lkv_queue **out) {
    *out = NULL;
    struct lkv_queue *queue = mem_calloc(1, sizeof(*queue));
    if (queue == NULL) {
        return api_fail(LKV_ENOMEM, "out of memory for a queue");
    }
    int rc = LKV_ENOMEM;
    list_init(&queue->messages);
    if (pthread_mutex_init(&queue->mutex, NULL) != 0) {
        goto fail_after_alloc;
    }
    queue->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (queue->fd < 0) {
        rc = errno == ENOMEM ? LKV_ENOMEM : LKV_EIO; /* EIO: no descriptor left */
        goto fail_after_mutex;
    }
    *out = queue;
    return 0;

fail_after_mutex:
    (void)pthread_mutex_destroy(&queue->mutex);
fail_after_alloc:
    mem_free(queue);
    return api_fail(rc, "no descriptor or memory for a queue: %s", error_text(rc));
}

void lkv_queue_free(struct lkv_queue *queue) {
    if (queue == NULL) {
        return;
    }
    for (struct list_link *link; (link = list_pop_front(&queue->messages)) != NULL;) {
        lkv_msg_free(LIST_ITEM(link, struct lkv_msg, link));
    }
    (void)close(queue->fd);
    (void)pthread_mutex_destroy(&queue->mutex);
    mem_free(queue);
}

int lkv_queue_fd(struct lkv_queue *queue) {
    return queue->fd;
}

/* The counter only ever goes from 0 to 1 and back, so neither blocks nor fails, unless the caller
 * has read the descriptor against our advice: then there is nothing left to undo. */
static void make_readable(struct lkv_queue *queue) {
    uint64_t one = 1;
    ssize_t size = write(queue->fd, &one, sizeof(one));
    (void)size;
}

static void make_unreadable(struct lkv_queue *queue) {
    uint64_t count;
    ssize_t size = read(queue->fd, &count, sizeof(count));
    (void)size;
}

void queue_push(struct lkv_queue *queue, struct lkv_msg *msg) {
    lock(queue);
    bool was_empty = list_empty(&queue->messages);
    list_push_back(&queue->messages, &msg->link);
    if (was_empty) {
        make_readable(queue);
    }
    unlock(queue);
}

static struct lkv_msg *pop(struct lkv_queue *queue) {
    lock(queue);
    struct list_link *link = list_pop_front(&queue->messages);
    if (link != NULL && list_empty(&queue->messages)) {
        make_unreadable(queue);
    }
    unlock(queue);
    return link != NULL ? LIST_ITEM(link, struct lkv_msg, link) : NULL;
}

/* The caller's own clock, on the caller's thread: nothing that a node decides depends on it. */
static int64_t now_ms(void) {
    struct timespec now;
    int rc = clock_gettime(CLOCK_MONOTONIC, &now);
    ASSERT(rc == 0);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Rounded up, so that a wait never ends early; several threads may wait, and one of them wins. */
static void wait_readable(const struct lkv_queue *queue, int64_t left_ms) {
    struct pollfd wanted = {.fd = queue->fd, .events = POLLIN};
    int64_t step_ms = left_ms < MS_PER_POLL_MAX ? left_ms : MS_PER_POLL_MAX;
    (void)poll(&wanted, 1, (int)step_ms); /* EINTR: the caller looks again */
}

struct lkv_msg *lkv_queue_next(struct lkv_queue *queue, int64_t timeout_ms) {
    struct lkv_msg *msg = pop(queue);
    if (msg != NULL || timeout_ms == 0) {
        return msg;
    }
    int64_t begun_ms = timeout_ms < 0 ? 0 : now_ms();
    int64_t left_ms = timeout_ms < 0 ? MS_PER_POLL_MAX : timeout_ms;
    while (msg == NULL && left_ms > 0) {
        wait_readable(queue, left_ms);
        msg = pop(queue);
        if (timeout_ms > 0) {
            left_ms = timeout_ms - (now_ms() - begun_ms);
        }
    }
    return msg;
}
