/* Virtual time: events in the order of their moment, and of being planned where moments are equal. */
#ifndef TESTS_SIM_WORLD_TIME_H
#define TESTS_SIM_WORLD_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embedded by whoever wants to be called; zero-initialised, then `fire` set. */
struct sim_event {
    void (*fire)(struct sim_event *event);
    uint64_t at_ns, order;
    size_t place; /* in the heap, from 1; 0: not planned */
};

struct sim_time {
    uint64_t now_ns, planned, fired;
    uint64_t hash;           /* of everything that was noted: equal runs have equal hashes */
    struct sim_event **heap; /* owned */
    size_t count, capacity;
};

void sim_time_fini(struct sim_time *time);

/* Plans the event, or moves it. A moment in the past is now. */
void sim_event_at(struct sim_time *time, struct sim_event *event, uint64_t at_ns);
static inline void sim_event_in(struct sim_time *time, struct sim_event *event, uint64_t delay_ns) {
    sim_event_at(time, event, time->now_ns + delay_ns);
}
/* The same event later, before those that were planned after it. */
void sim_event_defer(struct sim_time *time, struct sim_event *event, uint64_t at_ns);
void sim_event_cancel(struct sim_time *time, struct sim_event *event);
static inline bool sim_event_planned(const struct sim_event *event) {
    return event->place != 0;
}

/* Fires the next event if it is due by `limit_ns`; otherwise the clock moves there. */
bool sim_time_step(struct sim_time *time, uint64_t limit_ns);

/* Mixes a fact into the hash. */
void sim_time_note(struct sim_time *time, uint64_t fact);

#endif
