/* A program on a host of its own, with the handle that lkv_connect gives: the client's real code, its
 * bytes over the simulated network, a clock of its own.
 *
 *   operation ── lkv_..._submit ──> client ── streams ──> node ──> ... ──> queue ── tag ──> operation
 *
 * The program may be paused, cut off, closed (what is owed is judged like any other answer) and killed
 * (nobody hears what it was owed); the next one resumes its sessions, or goes on with their numbers by
 * itself. What nodes do to its connections comes with their own faults. */
#ifndef TESTS_SIM_WORLD_CLIENT_H
#define TESTS_SIM_WORLD_CLIENT_H

#include "tests/sim/sim_loop.h"

#include <stdbool.h>

struct client;
struct lkv_queue;
struct sim_call;
struct sim_client;
struct sim_remote;
struct sim_world;

enum { SIM_REMOTES_MAX = 3, SIM_APPENDED_KEPT = 32 };

/* An append that was done, among those of one handle. */
struct sim_appended {
    uint64_t order, index;
};
struct sim_appends {
    uint64_t count;                              /* submitted */
    struct sim_appended done[SIM_APPENDED_KEPT]; /* lately */
    size_t at;
};

struct sim_remote {
    struct sim_world *world;
    unsigned number, host;
    char name[16];
    struct sim_loop loop;
    struct client *client;   /* owned; NULL: the program does not run */
    struct lkv_queue *queue; /* owned; NULL: it never ran */
    unsigned lives;
    bool deaf; /* it was killed: nobody hears its final messages */
    struct sim_event restart;
    struct sim_appends appends; /* of this life */
};

/* --- world_client.c --- */
void sim_remotes_init(struct sim_world *world);
void sim_remotes_start(struct sim_world *world); /* those that do not run */
void sim_remotes_fini(struct sim_world *world);  /* they are killed */
void sim_remote_start(struct sim_remote *remote);
enum sim_remote_end { SIM_REMOTE_CLOSED, SIM_REMOTE_KILLED, SIM_REMOTE_POWER };
void sim_remote_end(struct sim_remote *remote, enum sim_remote_end how);
/* Through which one the client's next operation goes; NULL: straight to a node. */
struct sim_remote *sim_remote_draw(struct sim_client *client);

/* --- world_client_submit.c --- */
/* By the public verbs; where there is only a blocking one, by the request that it makes. 0, or the
 * error: then no message follows. */
int sim_remote_submit(struct sim_call *op, int64_t timeout_ms);
/* How much of what a client once sent may be sent again: up to the first call that is done as often as
 * it comes. */
size_t sim_remote_repeatable(struct slice bytes);

/* --- world_client_faults.c --- */
void sim_remote_faults_start(struct sim_world *world);
void sim_remote_faults_stop(struct sim_world *world); /* and starts what is down */

#endif
