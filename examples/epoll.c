/* An event loop that never blocks in the library: writes are submitted, and their answers arrive on a
 * queue whose descriptor epoll watches like any socket. A timer of the loop submits one more write
 * every few milliseconds, to show that both live side by side.
 *
 *     epoll DIR */
#include <ledgerkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { WRITES = 20, TICK_NS = 5 * 1000 * 1000 };

/* One per write; its address is the tag that comes back with the answer. */
struct job {
    int number;
};

static void fail(const char *what, int rc) {
    fprintf(stderr, "%s: %s (%s)\n", what, lkv_error_name(rc), lkv_last_text());
    exit(1);
}

static struct lkv *open_store(const char *dir) {
    struct lkv_options *options = lkv_options_new();
    struct lkv *db = NULL;
    int rc = lkv_options_set(options, "dir", dir);
    if (rc == 0) {
        rc = lkv_open(&db, NULL, options, NULL);
    }
    lkv_options_free(options);
    if (rc != 0) {
        fail("open", rc);
    }
    return db;
}

/* A submit that returns 0 is followed by exactly one message; one that fails by none. */
static void submit(struct lkv *db, struct lkv_queue *queue, struct job *job) {
    char key[32];
    int size = snprintf(key, sizeof(key), "job/%02d", job->number);
    struct lkv_bytes name = {key, (size_t)size}; /* copied before the call returns */
    int rc = lkv_put_submit(db, name, LKV_STR("done"), LKV_DEFAULT, queue, job);
    if (rc != 0) {
        fail("submit", rc);
    }
}

/* Everything that has arrived: the descriptor stays readable until the queue is empty. */
static int take_answers(struct lkv_queue *queue) {
    int count = 0;
    for (struct lkv_msg *msg; (msg = lkv_queue_next(queue, 0)) != NULL; count++) {
        const struct job *job = lkv_msg_tag(msg);
        uint64_t rev = 0;
        switch (lkv_outcome(lkv_msg_rc(msg))) {
        case LKV_DONE:
            lkv_msg_u64(msg, "rev", &rev);
            printf("job %d: done at revision %lu\n", job->number, (unsigned long)rev);
            break;
        case LKV_NOT_DONE:
        case LKV_NEGATIVE: printf("job %d: not done: %s\n", job->number, lkv_msg_text(msg)); break;
        case LKV_UNKNOWN: printf("job %d: perhaps: %s\n", job->number, lkv_msg_text(msg)); break;
        }
        lkv_msg_free(msg);
    }
    return count;
}

static void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        perror("epoll_ctl");
        exit(1);
    }
}

int main(int argc, char **argv) {
    static struct job jobs[WRITES];
    struct lkv *db = open_store(argc > 1 ? argv[1] : "./epoll-data");
    struct lkv_queue *queue;
    int rc = lkv_queue_new(&queue);
    if (rc != 0) {
        fail("queue", rc);
    }

    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct itimerspec every = {.it_interval.tv_nsec = TICK_NS, .it_value.tv_nsec = TICK_NS};
    timerfd_settime(timer, 0, &every, NULL);
    watch(epoll, timer);
    watch(epoll, lkv_queue_fd(queue));

    for (int submitted = 0, answered = 0; answered < WRITES;) {
        struct epoll_event event;
        if (epoll_wait(epoll, &event, 1, -1) < 1) {
            continue; /* a signal */
        }
        if (event.data.fd == timer) {
            uint64_t ticks;
            if (read(timer, &ticks, sizeof(ticks)) == (ssize_t)sizeof(ticks) &&
                submitted < WRITES) {
                jobs[submitted].number = submitted + 1;
                submit(db, queue, &jobs[submitted]);
                submitted++;
            }
        } else {
            answered += take_answers(queue);
        }
    }

    lkv_close(db, 0); /* queues what is still owed; here, nothing */
    lkv_queue_free(queue);
    close(timer);
    close(epoll);
    return 0;
}
