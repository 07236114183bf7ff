#include "tests/sim/world_time.h"

#include "base/assert.h"

#include <stdlib.h>

void sim_time_fini(struct sim_time *time) {
    free(time->heap);
    *time = (struct sim_time){0};
}

static bool before(const struct sim_event *a, const struct sim_event *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void put(struct sim_time *time, struct sim_event *event, size_t place) {
    time->heap[place - 1] = event;
    event->place = place;
}

static void rise(struct sim_time *time, struct sim_event *event, size_t place) {
    while (place > 1 && before(event, time->heap[place / 2 - 1])) {
        put(time, time->heap[place / 2 - 1], place);
        place /= 2;
    }
    put(time, event, place);
}

static void sink(struct sim_time *time, struct sim_event *event, size_t place) {
    for (;;) {
        size_t child = 2 * place;
        if (child < time->count && before(time->heap[child], time->heap[child - 1])) {
            child++;
        }
        if (child > time->count || !before(time->heap[child - 1], event)) {
            break;
        }
        put(time, time->heap[child - 1], place);
        place = child;
    }
    put(time, event, place);
}

static void settle(struct sim_time *time, struct sim_event *event, size_t place) {
    if (place > 1 && before(event, time->heap[place / 2 - 1])) {
        rise(time, event, place);
    } else {
        sink(time, event, place);
    }
}

static void grow(struct sim_time *time) {
    if (time->count < time->capacity) {
        return;
    }
    time->capacity = time->capacity * 2 + 64;
    struct sim_event **grown =
        realloc((void *)time->heap, time->capacity * sizeof(struct sim_event *));
    ASSERT(grown != NULL);
    time->heap = grown;
}

void sim_event_defer(struct sim_time *time, struct sim_event *event, uint64_t at_ns) {
    event->at_ns = at_ns > time->now_ns ? at_ns : time->now_ns;
    if (event->place == 0) {
        grow(time);
        time->count++;
        rise(time, event, time->count);
    } else {
        settle(time, event, event->place);
    }
}

void sim_event_at(struct sim_time *time, struct sim_event *event, uint64_t at_ns) {
    event->order = ++time->planned;
    sim_event_defer(time, event, at_ns);
}

void sim_event_cancel(struct sim_time *time, struct sim_event *event) {
    if (event->place == 0) {
        return;
    }
    size_t place = event->place;
    struct sim_event *last = time->heap[time->count - 1];
    event->place = 0;
    time->count--;
    if (last != event) {
        settle(time, last, place);
    }
}

bool sim_time_step(struct sim_time *time, uint64_t limit_ns) {
    if (time->count == 0 || time->heap[0]->at_ns > limit_ns) {
        time->now_ns = limit_ns > time->now_ns ? limit_ns : time->now_ns;
        return false;
    }
    struct sim_event *event = time->heap[0];
    sim_event_cancel(time, event);
    time->now_ns = event->at_ns;
    time->fired++;
    sim_time_note(time, event->at_ns);
    event->fire(event);
    return true;
}

void sim_time_note(struct sim_time *time, uint64_t fact) {
    uint64_t mixed = (time->hash ^ fact) * 0x9fb21c651e98df25u;
    time->hash = mixed ^ (mixed >> 29);
}
