#include "tests/sim/sim_loop.h"

#include "base/assert.h"

enum { HANDOVER_NS_MAX = 30 * 1000, TIMER_LATE_NS_MAX = 1000 * 1000 };

static const struct sim_loop *const_loop(const struct loop *base) {
    return (const struct sim_loop *)(const void *)base;
}

/* ------------------------------------------------------------------ clock */

static uint64_t now_ns(const struct loop *base) {
    const struct sim_loop *loop = const_loop(base);
    uint64_t passed = loop->time->now_ns - loop->born_ns;
    int64_t drift = (int64_t)((__int128)passed * loop->drift_ppm / 1000000);
    return loop->offset_ns + passed + (uint64_t)drift;
}

static uint64_t wall_ms(const struct loop *base) {
    return UINT64_C(1700000000000) + const_loop(base)->time->now_ns / 1000000;
}

static uint64_t random_bits(struct loop *base) {
    return prng_next(&sim_loop_of(base)->prng);
}

/* The moment at which the loop's own clock shows `at_ns` or a little more. */
static uint64_t to_world(const struct sim_loop *loop, uint64_t at_ns) {
    if (at_ns <= loop->offset_ns) {
        return loop->time->now_ns;
    }
    unsigned __int128 passed = (unsigned __int128)(at_ns - loop->offset_ns) * 1000000;
    return loop->born_ns + (uint64_t)(passed / (uint64_t)(1000000 + loop->drift_ppm)) + 1;
}

/* ------------------------------------------------------------------ callbacks */

bool sim_loop_enter(struct sim_loop *loop, struct sim_event *event) {
    if (loop->halted) {
        return false;
    }
    if (loop->time->now_ns < loop->paused_until_ns) {
        sim_event_defer(loop->time, event, loop->paused_until_ns);
        return false;
    }
    return true;
}

void sim_loop_leave(struct sim_loop *loop) {
    if (!sim_event_planned(&loop->turn)) {
        sim_event_in(loop->time, &loop->turn, prng_below(&loop->prng, loop->turn_ns_max + 1));
    }
    if (loop->on_callback != NULL) {
        loop->on_callback(loop->owner);
    }
}

static void fire_timer(struct sim_event *event) {
    struct sim_loop *loop = LIST_ITEM(event, struct sim_loop, timer);
    if (sim_loop_enter(loop, event)) {
        loop->base.events.on_timer(loop->base.events.arg);
        sim_loop_leave(loop);
    }
}

static void fire_wake(struct sim_event *event) {
    struct sim_loop *loop = LIST_ITEM(event, struct sim_loop, wake);
    if (sim_loop_enter(loop, event)) {
        loop->base.events.on_wake(loop->base.events.arg);
        sim_loop_leave(loop);
    }
}

static void fire_turn(struct sim_event *event) {
    struct sim_loop *loop = LIST_ITEM(event, struct sim_loop, turn);
    if (!sim_loop_enter(loop, event)) {
        return;
    }
    loop->base.events.on_turn_end(loop->base.events.arg);
    if (loop->on_flush != NULL) {
        loop->on_flush(loop->owner);
    }
    if (loop->on_callback != NULL) {
        loop->on_callback(loop->owner);
    }
}

static void timer_set(struct loop *base, uint64_t at_ns) {
    struct sim_loop *loop = sim_loop_of(base);
    if (at_ns == UINT64_MAX) {
        sim_event_cancel(loop->time, &loop->timer);
    } else {
        uint64_t late_ns = prng_below(&loop->prng, TIMER_LATE_NS_MAX);
        sim_event_at(loop->time, &loop->timer, to_world(loop, at_ns) + late_ns);
    }
}

static void wake(struct loop *base) {
    struct sim_loop *loop = sim_loop_of(base);
    if (!sim_event_planned(&loop->wake)) {
        sim_event_in(loop->time, &loop->wake, prng_below(&loop->prng, HANDOVER_NS_MAX));
    }
}

/* ------------------------------------------------------------------ queues */

uint64_t sim_loop_disk_ns(struct sim_loop *loop) {
    uint64_t ns = sim_disk_take_ns(loop->disk);
    return loop->job_ns_max != 0 && ns > loop->job_ns_max ? loop->job_ns_max : ns;
}

static void start_soon(struct sim_queue *queue) {
    queue->busy = true;
    sim_event_in(queue->loop->time, &queue->start, prng_below(&queue->loop->prng, HANDOVER_NS_MAX));
}

static void fire_start(struct sim_event *event) {
    struct sim_queue *queue = LIST_ITEM(event, struct sim_queue, start);
    struct sim_loop *loop = queue->loop;
    if (!sim_loop_enter(loop, event)) {
        return;
    }
    struct list_link *link = list_pop_front(&queue->waiting);
    ASSERT(link != NULL && queue->running == NULL);
    queue->running = LIST_ITEM(link, struct loop_job, link);
    queue->running->run(queue->running);
    sim_event_in(loop->time, &queue->end, sim_loop_disk_ns(loop));
    if (sim_disk_crashed(loop->disk)) {
        loop->on_died(loop->owner);
    }
}

static void fire_end(struct sim_event *event) {
    struct sim_queue *queue = LIST_ITEM(event, struct sim_queue, end);
    struct sim_loop *loop = queue->loop;
    if (!sim_loop_enter(loop, event)) {
        return;
    }
    list_push_back(&queue->finished, &queue->running->link);
    queue->running = NULL;
    queue->busy = false;
    if (!sim_event_planned(&queue->deliver)) {
        sim_event_in(loop->time, &queue->deliver, prng_below(&loop->prng, HANDOVER_NS_MAX));
    }
    if (!list_empty(&queue->waiting)) {
        start_soon(queue);
    }
}

static void fire_deliver(struct sim_event *event) {
    struct sim_queue *queue = LIST_ITEM(event, struct sim_queue, deliver);
    struct sim_loop *loop = queue->loop;
    if (!sim_loop_enter(loop, event)) {
        return;
    }
    struct list_link *link;
    while ((link = list_pop_front(&queue->finished)) != NULL) {
        struct loop_job *job = LIST_ITEM(link, struct loop_job, link);
        job->done(job);
    }
    sim_loop_leave(loop);
}

static void submit(struct loop *base, enum loop_queue which, struct loop_job *job) {
    struct sim_loop *loop = sim_loop_of(base);
    struct sim_queue *queue = &loop->queues[which];
    list_push_back(&queue->waiting, &job->link);
    if (!queue->busy) {
        start_soon(queue);
    }
}

/* One job of the queue brought to its end; false when there is none. */
static bool drain_one(struct sim_queue *queue) {
    struct list_link *link = list_pop_front(&queue->finished);
    struct loop_job *job = link != NULL ? LIST_ITEM(link, struct loop_job, link) : queue->running;
    if (job == NULL && (link = list_pop_front(&queue->waiting)) != NULL) {
        job = LIST_ITEM(link, struct loop_job, link);
        job->run(job);
    } else if (job == queue->running) {
        queue->running = NULL;
    }
    if (job != NULL) {
        job->done(job);
    }
    return job != NULL;
}

void sim_loop_drain(struct sim_loop *loop) {
    ASSERT(loop->halted && sim_disk_crashed(loop->disk));
    while (drain_one(&loop->queues[LOOP_LOG]) || drain_one(&loop->queues[LOOP_BULK])) {
    }
}

/* ------------------------------------------------------------------ life */

static const struct loop_ops ops = {.now_ns = now_ns,
                                    .wall_ms = wall_ms,
                                    .random = random_bits,
                                    .timer_set = timer_set,
                                    .wake = wake,
                                    .submit = submit};

void sim_loop_init(struct sim_loop *loop, struct sim_time *time, struct sim_disk *disk,
                   uint64_t seed, int64_t drift_ppm) {
    *loop = (struct sim_loop){.base = {.ops = &ops},
                              .time = time,
                              .disk = disk,
                              .prng = prng_of(seed),
                              .born_ns = time->now_ns,
                              .drift_ppm = drift_ppm,
                              .timer = {.fire = fire_timer},
                              .wake = {.fire = fire_wake},
                              .turn = {.fire = fire_turn}};
    loop->offset_ns = 1 + prng_below(&loop->prng, UINT64_C(1) << 50);
    for (size_t i = 0; i < LOOP_QUEUES; i++) {
        struct sim_queue *queue = &loop->queues[i];
        queue->loop = loop;
        list_init(&queue->waiting);
        list_init(&queue->finished);
        queue->start.fire = fire_start;
        queue->end.fire = fire_end;
        queue->deliver.fire = fire_deliver;
    }
}

void sim_loop_fini(struct sim_loop *loop) {
    sim_event_cancel(loop->time, &loop->timer);
    sim_event_cancel(loop->time, &loop->wake);
    sim_event_cancel(loop->time, &loop->turn);
    for (size_t i = 0; i < LOOP_QUEUES; i++) {
        struct sim_queue *queue = &loop->queues[i];
        ASSERT(list_empty(&queue->waiting) && list_empty(&queue->finished));
        ASSERT(queue->running == NULL);
        sim_event_cancel(loop->time, &queue->start);
        sim_event_cancel(loop->time, &queue->end);
        sim_event_cancel(loop->time, &queue->deliver);
    }
}

void sim_loop_pause(struct sim_loop *loop, uint64_t ns) {
    uint64_t until_ns = loop->time->now_ns + ns;
    loop->paused_until_ns = until_ns > loop->paused_until_ns ? until_ns : loop->paused_until_ns;
}
