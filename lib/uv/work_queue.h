/* One thread that runs jobs in the order of their submission.
 *
 * A finished job is handed to `finished` on the queue's thread at once, so that an acknowledgement
 * never waits for the job behind it. */
#ifndef LIB_UV_WORK_QUEUE_H
#define LIB_UV_WORK_QUEUE_H

#include "base/error.h"
#include "base/loop.h"

#include <pthread.h>

struct work_queue {
    /* immutable after start */
    pthread_t thread;
    void (*finished)(void *arg, struct loop_job *job);
    void *arg;

    /* any thread, under mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct list_link jobs;
    bool ending;
};

/* After a failure there is nothing to end. */
int work_queue_start(struct work_queue *queue, const char *thread_name,
                     void (*finished)(void *arg, struct loop_job *job), void *arg) MUST_USE;

void work_queue_submit(struct work_queue *queue, struct loop_job *job);

/* Runs what was submitted, then joins the thread. Nothing may be submitted from here on. */
void work_queue_end(struct work_queue *queue);

#endif
