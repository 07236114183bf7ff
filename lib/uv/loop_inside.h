/* The loop's inside, for the network that runs on it; nobody else includes this.
 *
 * One turn, in the order in which libuv runs it:
 *
 *     poll ── sockets, wake-ups ─> timers ─> `again` ─> prepare: on_turn_end, then every hook's flush
 *      ^                                                                                        |
 *      └────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * so that all that a turn produced leaves together, just before the loop may sleep.
 */
#ifndef LIB_UV_LOOP_INSIDE_H
#define LIB_UV_LOOP_INSIDE_H

#include "lib/uv/loop_uv.h"
#include "lib/uv/work_queue.h"

#include <stdatomic.h>
#include <uv.h>

enum loop_notice {
    LOOP_NOTICE_WAKE = 1, /* loop_wake */
    LOOP_NOTICE_JOBS = 2, /* a job has finished */
    LOOP_NOTICE_HOOK = 4, /* a hook's own thread has something for it */
    LOOP_NOTICE_STOP = 8
};

/* A part of the loop that is not its owner. Loop thread, but for loop_uv_notify. */
struct loop_hook {
    struct list_link link;
    void (*notice)(struct loop_hook *hook); /* after LOOP_NOTICE_HOOK; whose it is, is not told */
    void (*flush)(struct loop_hook *hook);  /* at the end of each turn, after on_turn_end */
};

struct loop_uv {
    struct loop base;

    /* immutable after open */
    bool with_workers;
    char name[16];

    /* loop thread */
    uv_loop_t uv;
    uv_async_t async;     /* notices from other threads */
    uv_timer_t timer;     /* the owner's */
    uint64_t timer_at_ns; /* UINT64_MAX: off */
    uv_prepare_t prepare; /* the end of a turn */
    uv_check_t check;     /* the loop is awake */
    uv_idle_t again;      /* active: one more turn before sleeping */
    bool active;          /* something happened since the last on_turn_end */
    struct list_link hooks;
    uint64_t jobs_unfinished; /* submitted, `done` not yet called */
    bool ended;               /* stopped: the owner hears nothing more */

    /* any thread */
    atomic_uint notices; /* bits of loop_notice */
    atomic_bool asleep;  /* the loop is, or is about to be, in poll */
    atomic_bool running; /* the thread runs */
    _Atomic(pthread_t) self;
    pthread_t thread; /* valid while running; of the thread that started it */

    /* under mutex */
    pthread_mutex_t mutex;
    pthread_cond_t job_finished;
    struct list_link finished; /* jobs whose `done` is due */

    struct work_queue queues[LOOP_QUEUES]; /* if with_workers */
};

/* Moves all of `from` to `to`, which need not be initialised, in its order. */
static inline void list_take(struct list_link *to, struct list_link *from) {
    list_init(to);
    if (!list_empty(from)) {
        *to = *from;
        to->next->prev = to;
        to->prev->next = to;
        list_init(from);
    }
}

static inline struct loop_uv *loop_uv_of(struct loop *loop) {
    return (struct loop_uv *)(void *)loop;
}

void loop_uv_add_hook(struct loop_uv *loop, struct loop_hook *hook);
void loop_uv_remove_hook(struct loop_uv *loop, struct loop_hook *hook);

/* Any thread. */
void loop_uv_notify(struct loop_uv *loop, enum loop_notice notice);

/* Loop thread: something happened, on_turn_end is due. */
static inline void loop_uv_mark_active(struct loop_uv *loop) {
    loop->active = true;
}

/* Loop thread, in a flush: it left something to do, so do not sleep before the next turn. */
void loop_uv_once_more(struct loop_uv *loop);

/* For the closing thread, when the loop's no longer runs: lets libuv finish closing handles. */
void loop_uv_run_closing(struct loop_uv *loop);

#endif
