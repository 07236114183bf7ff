/* A node's loop on virtual time: its clock (with an offset of its own, perhaps running fast or slow),
 * the timer, wake-ups, turns, and two serial queues whose jobs take as long as the disk says.
 *
 *   submit --thread hand-over--> run (at once) --as long as its disk calls take--> next job
 *                                                            \--wake-up--> done, on the loop
 *
 * A paused loop is a stopped process: nothing of it happens until the pause is over. A halted one has
 * died, and waits to be taken apart. */
#ifndef TESTS_SIM_SIM_LOOP_H
#define TESTS_SIM_SIM_LOOP_H

#include "base/loop.h"
#include "base/prng.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/world_time.h"

struct sim_loop;

struct sim_queue {
    struct sim_loop *loop;
    struct list_link waiting;  /* of struct loop_job */
    struct list_link finished; /* ran, and `done` is on its way */
    struct loop_job *running;  /* ran already, its time is not over */
    struct sim_event start, end, deliver;
    bool busy;
};

struct sim_loop {
    struct loop base;
    struct sim_time *time;
    struct sim_disk *disk;
    struct prng prng;
    uint64_t born_ns, offset_ns; /* the loop's clock is offset + (1 + drift) * (now - born) */
    int64_t drift_ppm;
    uint64_t paused_until_ns;
    bool halted;
    struct sim_event timer, wake, turn;
    struct sim_queue queues[LOOP_QUEUES];
    uint64_t turn_ns_max; /* a turn ends this long after its first callback at most */
    uint64_t job_ns_max;  /* 0: no limit; however many of a job's syncs hang */
    /* The owner's. After each callback; after a turn's end (the network sends then); after a job
     * within which the disk's crash point was reached. */
    void (*on_callback)(void *owner);
    void (*on_flush)(void *owner);
    void (*on_died)(void *owner);
    void *owner;
};

void sim_loop_init(struct sim_loop *loop, struct sim_time *time, struct sim_disk *disk,
                   uint64_t seed, int64_t drift_ppm);
/* Cancels its events; no job may be left. */
void sim_loop_fini(struct sim_loop *loop);

/* Whether a callback may be made now. If not because of a pause, the event is planned again. */
bool sim_loop_enter(struct sim_loop *loop, struct sim_event *event);
/* After a callback into the loop's owner: the turn will end. */
void sim_loop_leave(struct sim_loop *loop);

/* What the disk's calls have taken since this was last asked. */
uint64_t sim_loop_disk_ns(struct sim_loop *loop);

void sim_loop_pause(struct sim_loop *loop, uint64_t ns);

/* For a node that has died: runs every job that is left and its `done`, without any time passing.
 * The disk refuses everything by now. */
void sim_loop_drain(struct sim_loop *loop);

static inline struct sim_loop *sim_loop_of(struct loop *base) {
    return (struct sim_loop *)(void *)base;
}

#endif
