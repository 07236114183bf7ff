/* How another thread wakes the loop without a system call in the common case:
 *
 *     other thread                         loop, before it sleeps
 *     notices |= bit                       asleep = true
 *     if it was 0, and asleep:             if notices != 0:
 *         write the eventfd                    do not sleep
 *
 * Both sides write first and read then, in one total order, so at least one of them sees the other.
 */
#include "lib/uv/loop_inside.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/prng.h"
#include "lib/uv/thread.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* ---- Clock and randomness ---- */

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    int rc = clock_gettime(clock, &now);
    ASSERT(rc == 0);
    return (uint64_t)now.tv_sec * 1000 * MS_NS + (uint64_t)now.tv_nsec;
}

/* It goes on while the machine sleeps: to the others, a leader that has slept is one that was silent (rule 30). */
static uint64_t now_ns(const struct loop *loop) {
    (void)loop;
    return clock_ns(CLOCK_BOOTTIME);
}

static uint64_t wall_ms(const struct loop *loop) {
    (void)loop;
    return clock_ns(CLOCK_REALTIME) / MS_NS;
}

static uint64_t random_bits(struct loop *loop) {
    uint64_t bits;
    if (getrandom(&bits, sizeof(bits), 0) == (ssize_t)sizeof(bits)) {
        return bits;
    }
    /* A sandbox may forbid the call. Election timeouts still must differ between nodes. */
    struct prng prng = prng_of(now_ns(loop) ^ (uint64_t)(uintptr_t)loop);
    return prng_next(&prng);
}

/* ---- The timer ---- */

static void arm_timer(struct loop_uv *loop);

static void on_timer(uv_timer_t *timer) {
    struct loop_uv *loop = timer->data;
    if (now_ns(&loop->base) < loop->timer_at_ns) {
        arm_timer(loop);
        return;
    }
    loop->timer_at_ns = UINT64_MAX;
    loop_uv_mark_active(loop);
    loop->base.events.on_timer(loop->base.events.arg);
}

/* libuv's time is that in which the machine did not sleep, in whole milliseconds, rounded down. (Asleep, it
 * waits longer: the timer comes up late by as much as was left of it. What is read second is not too early for
 * the difference, so neither is the deadline too late.) */
static void arm_timer(struct loop_uv *loop) {
    uint64_t awake_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t asleep_ns = clock_ns(CLOCK_BOOTTIME) - awake_ns;
    uint64_t at_ns = loop->timer_at_ns > asleep_ns ? loop->timer_at_ns - asleep_ns : 0;
    uint64_t due_ms = at_ns / MS_NS + (at_ns % MS_NS != 0);
    uint64_t now_ms = uv_now(&loop->uv);
    int rc = uv_timer_start(&loop->timer, on_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
    ASSERT(rc == 0);
}

static void timer_set(struct loop *base, uint64_t at_ns) {
    struct loop_uv *loop = loop_uv_of(base);
    if (at_ns == loop->timer_at_ns) {
        return;
    }
    loop->timer_at_ns = at_ns;
    if (at_ns == UINT64_MAX) {
        (void)uv_timer_stop(&loop->timer);
    } else {
        arm_timer(loop);
    }
}

/* ---- Notices from other threads ---- */

void loop_uv_notify(struct loop_uv *loop, enum loop_notice notice) {
    unsigned before = atomic_fetch_or(&loop->notices, (unsigned)notice);
    if (before == 0 && atomic_load(&loop->asleep)) {
        (void)uv_async_send(&loop->async);
    }
}

static void wake(struct loop *base) {
    loop_uv_notify(loop_uv_of(base), LOOP_NOTICE_WAKE);
}

static void finish_jobs(struct loop_uv *loop) {
    struct list_link batch;
    (void)pthread_mutex_lock(&loop->mutex);
    list_take(&batch, &loop->finished);
    (void)pthread_mutex_unlock(&loop->mutex);

    for (struct list_link *link; (link = list_pop_front(&batch)) != NULL;) {
        struct loop_job *job = LIST_ITEM(link, struct loop_job, link);
        loop->jobs_unfinished--;
        job->done(job);
    }
}

static void notice_hooks(struct loop_uv *loop) {
    for (struct list_link *link = loop->hooks.next, *next; link != &loop->hooks; link = next) {
        next = link->next;
        struct loop_hook *hook = LIST_ITEM(link, struct loop_hook, link);
        hook->notice(hook);
    }
}

static void take_notices(struct loop_uv *loop) {
    unsigned notices = atomic_exchange(&loop->notices, 0);
    if (notices == 0 || loop->ended) {
        return;
    }
    loop_uv_mark_active(loop);
    if ((notices & LOOP_NOTICE_STOP) != 0) {
        uv_stop(&loop->uv);
        return;
    }
    if ((notices & LOOP_NOTICE_JOBS) != 0) {
        finish_jobs(loop);
    }
    if ((notices & LOOP_NOTICE_HOOK) != 0) {
        notice_hooks(loop);
    }
    if ((notices & LOOP_NOTICE_WAKE) != 0) {
        loop->base.events.on_wake(loop->base.events.arg);
    }
}

static void on_async(uv_async_t *async) {
    struct loop_uv *loop = async->data;
    atomic_store(&loop->asleep, false);
    take_notices(loop);
}

/* ---- The turn ---- */

static void flush_hooks(struct loop_uv *loop) {
    for (struct list_link *link = loop->hooks.next, *next; link != &loop->hooks; link = next) {
        next = link->next;
        struct loop_hook *hook = LIST_ITEM(link, struct loop_hook, link);
        hook->flush(hook);
    }
}

static void on_again(uv_idle_t *again) {
    struct loop_uv *loop = again->data;
    (void)uv_idle_stop(again);
    loop_uv_mark_active(loop);
    take_notices(loop);
}

void loop_uv_once_more(struct loop_uv *loop) {
    (void)uv_idle_start(&loop->again, on_again);
}

static void on_prepare(uv_prepare_t *prepare) {
    struct loop_uv *loop = prepare->data;
    if (loop->active) {
        loop->active = false;
        loop->base.events.on_turn_end(loop->base.events.arg);
    }
    flush_hooks(loop);
    atomic_store(&loop->asleep, true);
    if (loop->active || atomic_load(&loop->notices) != 0) {
        atomic_store(&loop->asleep, false);
        loop_uv_once_more(loop);
    }
}

static void on_check(uv_check_t *check) {
    struct loop_uv *loop = check->data;
    atomic_store(&loop->asleep, false);
}

void loop_uv_add_hook(struct loop_uv *loop, struct loop_hook *hook) {
    list_push_back(&loop->hooks, &hook->link);
}

void loop_uv_remove_hook(struct loop_uv *loop, struct loop_hook *hook) {
    (void)loop;
    list_remove(&hook->link);
}

/* ---- Work ---- */

static void on_finished(void *arg, struct loop_job *job) {
    struct loop_uv *loop = arg;
    (void)pthread_mutex_lock(&loop->mutex);
    list_push_back(&loop->finished, &job->link);
    (void)pthread_mutex_unlock(&loop->mutex);
    (void)pthread_cond_signal(&loop->job_finished);
    loop_uv_notify(loop, LOOP_NOTICE_JOBS);
}

static void submit(struct loop *base, enum loop_queue queue, struct loop_job *job) {
    struct loop_uv *loop = loop_uv_of(base);
    ASSERT(loop->with_workers);
    ASSERT((int)queue >= 0 && (int)queue < LOOP_QUEUES);
    loop->jobs_unfinished++;
    work_queue_submit(&loop->queues[queue], job);
}

/* A `done` may submit the next job of a chain: those are waited for, too. */
static void wait_for_jobs(struct loop_uv *loop) {
    while (loop->jobs_unfinished > 0) {
        (void)pthread_mutex_lock(&loop->mutex);
        while (list_empty(&loop->finished)) {
            (void)pthread_cond_wait(&loop->job_finished, &loop->mutex);
        }
        (void)pthread_mutex_unlock(&loop->mutex);
        finish_jobs(loop);
    }
}

static void end_queues(struct loop_uv *loop, size_t count) {
    while (count > 0) {
        work_queue_end(&loop->queues[--count]);
    }
}

static int start_queues(struct loop_uv *loop) {
    static const char *const suffixes[LOOP_QUEUES] = {"log", "bulk"};

    for (size_t i = 0; i < LOOP_QUEUES; i++) {
        char name[sizeof(loop->name)];
        (void)snprintf(name, sizeof(name), "%.10s-%s", loop->name, suffixes[i]);
        int rc = work_queue_start(&loop->queues[i], name, on_finished, loop);
        if (rc != 0) {
            end_queues(loop, i);
            return rc;
        }
    }
    return 0;
}

/* ---- Life ---- */

static const struct loop_ops ops = {.now_ns = now_ns,
                                    .wall_ms = wall_ms,
                                    .random = random_bits,
                                    .timer_set = timer_set,
                                    .wake = wake,
                                    .submit = submit};

static void open_handles(struct loop_uv *loop) {
    /* These five cannot fail: they only set fields, and the async's eventfd is the loop's own. */
    int rc = uv_timer_init(&loop->uv, &loop->timer);
    ASSERT(rc == 0);
    rc = uv_prepare_init(&loop->uv, &loop->prepare);
    ASSERT(rc == 0);
    rc = uv_check_init(&loop->uv, &loop->check);
    ASSERT(rc == 0);
    rc = uv_idle_init(&loop->uv, &loop->again);
    ASSERT(rc == 0);
    rc = uv_async_init(&loop->uv, &loop->async, on_async);
    ASSERT(rc == 0);
    loop->timer.data = loop->prepare.data = loop->check.data = loop->again.data = loop;
    loop->async.data = loop;
    (void)uv_prepare_start(&loop->prepare, on_prepare);
    (void)uv_check_start(&loop->check, on_check);
}

static void close_handles(struct loop_uv *loop) {
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_close((uv_handle_t *)&loop->again, NULL);
    uv_close((uv_handle_t *)&loop->async, NULL);
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    int rc = uv_loop_close(&loop->uv);
    ASSERT(rc == 0); /* else a handle of somebody's is still open and would be used after free */
}

static int init_sync(struct loop_uv *loop) {
    if (pthread_mutex_init(&loop->mutex, NULL) != 0) {
        return LKV_ENOMEM;
    }
    if (pthread_cond_init(&loop->job_finished, NULL) != 0) {
        (void)pthread_mutex_destroy(&loop->mutex);
        return LKV_ENOMEM;
    }
    return 0;
}

static void fini_sync(struct loop_uv *loop) {
    (void)pthread_cond_destroy(&loop->job_finished);
    (void)pthread_mutex_destroy(&loop->mutex);
}

/* libuv 1.44 leaks its epoll descriptor when uv_loop_init fails behind it, as it does when the
 * descriptors run out. A later version may close it itself, and closing it twice could hit a stranger's. */
static int init_uv(struct loop_uv *loop) {
    loop->uv.backend_fd = -1;
    int status = uv_loop_init(&loop->uv);
    if (status != 0 && loop->uv.backend_fd >= 0 && uv_version() >> 8 == (1 << 8 | 44)) {
        (void)close(loop->uv.backend_fd);
    }
    return status;
}

static struct loop_uv *new_loop(const struct loop_events *events, const char *name, bool workers) {
    struct loop_uv *loop = mem_calloc(1, sizeof(*loop));
    if (loop != NULL) {
        loop->base = (struct loop){.ops = &ops, .events = *events};
        loop->with_workers = workers;
        loop->timer_at_ns = UINT64_MAX;
        (void)snprintf(loop->name, sizeof(loop->name), "%s", name);
        list_init(&loop->hooks);
        list_init(&loop->finished);
        atomic_init(&loop->notices, 0);
        atomic_init(&loop->asleep, false);
        atomic_init(&loop->running, false);
    }
    return loop;
}

int loop_uv_open(struct loop **out, const struct loop_events *events, const char *thread_name,
                 bool with_workers, struct reason *why) {
    *out = NULL;
    struct loop_uv *loop = new_loop(events, thread_name, with_workers);
    if (loop == NULL) {
        return reason_set(why, LKV_ENOMEM, "out of memory for an event loop");
    }
    int rc = init_sync(loop);
    if (rc != 0) {
        (void)reason_set(why, rc, "cannot make a mutex for the event loop");
        goto fail_after_new;
    }
    int status = init_uv(loop);
    if (status != 0) {
        rc = status == UV_ENOMEM ? LKV_ENOMEM : LKV_EIO;
        (void)reason_set(why, rc, "cannot make an event loop: %s", uv_strerror(status));
        goto fail_after_sync;
    }
    open_handles(loop);
    rc = with_workers ? start_queues(loop) : 0;
    if (rc != 0) {
        (void)reason_set(why, rc, "cannot start the worker threads of %s", loop->name);
        goto fail_after_handles;
    }
    *out = &loop->base;
    return 0;

fail_after_handles:
    close_handles(loop);
fail_after_sync:
    fini_sync(loop);
fail_after_new:
    mem_free(loop);
    return rc;
}

static void *run(void *arg) {
    struct loop_uv *loop = arg;
    atomic_store(&loop->self, pthread_self());
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    wait_for_jobs(loop);
    loop->ended = true;
    flush_hooks(loop); /* here, not in close: SIGPIPE is blocked on this thread */
    return NULL;
}

int loop_uv_start(struct loop *base) {
    struct loop_uv *loop = loop_uv_of(base);
    ASSERT(!atomic_load(&loop->running));
    ASSERT(!loop->ended);
    atomic_store(&loop->running, true);
    int rc = thread_start(&loop->thread, loop->name, THREAD_STACK_SIZE, run, loop);
    if (rc != 0) {
        atomic_store(&loop->running, false);
    }
    return rc;
}

/* From here on libuv runs only to close handles, and the owner hears nothing. */
static void fall_silent(struct loop_uv *loop) {
    loop->ended = true;
    (void)uv_timer_stop(&loop->timer);
    (void)uv_prepare_stop(&loop->prepare);
    (void)uv_check_stop(&loop->check);
    (void)uv_idle_stop(&loop->again);
}

void loop_uv_stop(struct loop *base) {
    struct loop_uv *loop = loop_uv_of(base);
    if (atomic_load(&loop->running)) {
        ASSERT(!loop_uv_is_here(base));
        loop_uv_notify(loop, LOOP_NOTICE_STOP);
        (void)pthread_join(loop->thread, NULL);
        atomic_store(&loop->running, false);
    } else {
        wait_for_jobs(loop);
    }
    fall_silent(loop);
}

void loop_uv_close(struct loop *base) {
    if (base == NULL) {
        return;
    }
    struct loop_uv *loop = loop_uv_of(base);
    loop_uv_stop(base);
    ASSERT(list_empty(&loop->hooks));
    if (loop->with_workers) {
        end_queues(loop, LOOP_QUEUES);
    }
    close_handles(loop);
    fini_sync(loop);
    mem_free(loop);
}

bool loop_uv_is_here(const struct loop *base) {
    const struct loop_uv *loop = (const struct loop_uv *)(const void *)base;
    return !atomic_load(&loop->running) || pthread_equal(atomic_load(&loop->self), pthread_self());
}

void loop_uv_run_closing(struct loop_uv *loop) {
    ASSERT(!atomic_load(&loop->running));
    fall_silent(loop);
    (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
}
