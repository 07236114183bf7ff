#include "lib/uv/work_queue.h"

#include "base/assert.h"
#include "lib/uv/thread.h"

/* Waits for the next job; NULL when the queue is ending and empty. */
static struct loop_job *next_job(struct work_queue *queue) {
    (void)pthread_mutex_lock(&queue->mutex);
    while (list_empty(&queue->jobs) && !queue->ending) {
        (void)pthread_cond_wait(&queue->changed, &queue->mutex);
    }
    struct list_link *link = list_pop_front(&queue->jobs);
    (void)pthread_mutex_unlock(&queue->mutex);
    return link != NULL ? LIST_ITEM(link, struct loop_job, link) : NULL;
}

static void *run(void *arg) {
    struct work_queue *queue = arg;
    for (;;) {
        struct loop_job *job = next_job(queue);
        if (job == NULL) {
            return NULL;
        }
        job->run(job);
        queue->finished(queue->arg, job);
    }
}

int work_queue_start(struct work_queue *queue, const char *thread_name,
                     void (*finished)(void *arg, struct loop_job *job), void *arg) {
    *queue = (struct work_queue){.finished = finished, .arg = arg};
    list_init(&queue->jobs);
    if (pthread_mutex_init(&queue->mutex, NULL) != 0) {
        return LKV_ENOMEM;
    }
    if (pthread_cond_init(&queue->changed, NULL) != 0) {
        goto fail_after_mutex;
    }
    if (thread_start(&queue->thread, thread_name, THREAD_STACK_SIZE, run, queue) != 0) {
        goto fail_after_changed;
    }
    return 0;

fail_after_changed:
    (void)pthread_cond_destroy(&queue->changed);
fail_after_mutex:
    (void)pthread_mutex_destroy(&queue->mutex);
    return LKV_ENOMEM;
}

void work_queue_submit(struct work_queue *queue, struct loop_job *job) {
    (void)pthread_mutex_lock(&queue->mutex);
    ASSERT(!queue->ending);
    list_push_back(&queue->jobs, &job->link);
    (void)pthread_mutex_unlock(&queue->mutex);
    /* After unlocking, so that the thread does not wake up into a held mutex. */
    (void)pthread_cond_signal(&queue->changed);
}

void work_queue_end(struct work_queue *queue) {
    (void)pthread_mutex_lock(&queue->mutex);
    queue->ending = true;
    (void)pthread_mutex_unlock(&queue->mutex);
    (void)pthread_cond_signal(&queue->changed);
    (void)pthread_join(queue->thread, NULL);
    ASSERT(list_empty(&queue->jobs));
    (void)pthread_cond_destroy(&queue->changed);
    (void)pthread_mutex_destroy(&queue->mutex);
}
