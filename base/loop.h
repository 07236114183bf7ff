/* The loop seam: the clock, one timer, a wake-up from other threads, and serial work queues. The
 * node's code runs on the loop's thread only, and the simulator is another loop.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include "base/list.h"

#include <stdint.h>

#define MS_NS UINT64_C(1000000) /* nanoseconds of a millisecond */

struct loop;

/* Each queue is one thread that runs its jobs in the order of submission. */
enum loop_queue {
    LOOP_LOG, /* log writes, votes, marks: what an acknowledgement waits for */
    LOOP_BULK /* spare segments, images, prefix drops, reads for a laggard: what may take long */
};

enum { LOOP_QUEUES = 2 };

struct loop_job {
    struct list_link link;              /* the loop's, from submit until `done` */
    void (*run)(struct loop_job *job);  /* on the queue's thread */
    void (*done)(struct loop_job *job); /* on the loop's thread, always, exactly once */
};

struct loop_ops {
    uint64_t (*now_ns)(const struct loop *loop); /* monotonic, also asleep; any thread */
    uint64_t (*wall_ms)(
        const struct loop *loop);          /* for people, and for the age of files; any thread */
    uint64_t (*random)(struct loop *loop); /* 64 bits, unpredictable; loop */
    void (*timer_set)(struct loop *loop, uint64_t at_ns); /* UINT64_MAX: off; loop thread */
    void (*wake)(struct loop *loop);                      /* any thread; coalesces */
    void (*submit)(struct loop *loop, enum loop_queue queue, struct loop_job *job); /* loop */
};

/* What the owner of the loop wants to hear, on the loop's thread. */
struct loop_events {
    void (*on_timer)(void *arg);
    void (*on_wake)(void *arg);
    void (*on_turn_end)(void *arg); /* after each turn in which anything happened: flush batches */
    void *arg;
};

struct loop {
    const struct loop_ops *ops;
    struct loop_events events;
};

static inline uint64_t loop_now_ns(const struct loop *loop) {
    return loop->ops->now_ns(loop);
}
static inline uint64_t loop_wall_ms(const struct loop *loop) {
    return loop->ops->wall_ms(loop);
}
static inline uint64_t loop_random(struct loop *loop) {
    return loop->ops->random(loop);
}
static inline void loop_timer_set(struct loop *loop, uint64_t at_ns) {
    loop->ops->timer_set(loop, at_ns);
}
static inline void loop_wake(struct loop *loop) {
    loop->ops->wake(loop);
}
static inline void loop_submit(struct loop *loop, enum loop_queue queue, struct loop_job *job) {
    loop->ops->submit(loop, queue, job);
}

#endif
