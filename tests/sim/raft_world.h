/* A cluster of consensus cores in one thread under virtual time: a network and disks that fail as
 * told, or at random from a seed; and checks, after every step, of what must always hold.
 *
 * Each node is the core and the least of an owner: a log in memory, a log and a vote record on a
 * disk whose writes take time, a state machine that applies at once. The same options and the same
 * calls give the same trace.
 *
 * What is checked (the first failure is kept in world_violation):
 *   one leader a term; a new leader's log has everything committed; two logs that agree on an
 *   index's term agree on all before it; what is committed never changes; it was durable on a
 *   quorum when it was; terms and votes on a disk never go back; no vote, request or acknowledgement
 *   leaves a node before the disk has what it states; nothing unreadable is acknowledged or applied, and
 *   a node that lost its end neither votes nor acknowledges; a read's index covers all that was committed
 *   anywhere when it was asked for; nobody comes to lead while another one's lease lasts. */
#ifndef TESTS_SIM_RAFT_WORLD_H
#define TESTS_SIM_RAFT_WORLD_H

#include "raft/raft.h"

enum { WORLD_NODES_MAX = 7 };

struct world;

struct world_options {
    size_t nodes; /* ids 1 .. nodes, all voters but the last `learners` */
    size_t learners;
    uint64_t seed;
    struct raft_options raft;
    uint32_t delay_min_us, delay_max_us; /* of a message */
    uint32_t disk_min_us, disk_max_us;   /* of a sync; a vote record takes two */
    uint32_t fetch_max_us;               /* a read of old entries takes up to this; at least 200 */
    uint32_t drop_permille, double_permille;
    uint32_t drift_ppm;      /* of the fastest and the slowest clock; each node has one */
    uint32_t plain;          /* bits: positions of nodes whose programs know no promises */
    bool vary_times;         /* each start has other ones, no longer than those of `raft` */
    uint32_t window_entries; /* kept in memory behind what is needed; 0: all */
    bool ordered;            /* a link delivers in order */
    bool forged;             /* messages are injected: what holds across nodes is not checked */
    void (*trace)(void *arg, const char *line); /* may be NULL */
    void *trace_arg;
    bool trace_messages;
};

struct world_options world_options_default(size_t nodes, uint64_t seed);

/* Never fails but by running out of memory, which ends the program. */
struct world *world_new(const struct world_options *options);
void world_free(struct world *world);

/* NULL while all is well. */
const char *world_violation(const struct world *world);

/* ------------------------------------------------------------------ time */

uint64_t world_now_ms(const struct world *world);
void world_trace_messages(struct world *world, bool on); /* but for heartbeats */
void world_run_us(struct world *world, uint64_t us);
void world_run_ms(struct world *world, uint64_t ms);

/* Runs until the question is answered with true; false when the time is over. */
bool world_until(struct world *world, bool (*question)(struct world *world, void *arg), void *arg,
                 uint64_t limit_ms);

/* ------------------------------------------------------------------ faults */

void world_crash(struct world *world, uint64_t node, bool keep_some); /* of the unsynced writes */
void world_restart(struct world *world, uint64_t node);
bool world_is_up(const struct world *world, uint64_t node);
void world_cut(struct world *world, uint64_t from, uint64_t to, bool cut); /* one way */
void world_isolate(struct world *world, uint64_t node, bool cut);          /* both ways, all */
void world_heal(struct world *world); /* network and disks; nobody is restarted */
void world_loss(struct world *world, uint32_t drop_permille, uint32_t double_permille);
void world_delay(struct world *world, uint32_t min_us, uint32_t max_us);
void world_disk_hang(struct world *world, uint64_t node, bool hang);
void world_disk_fail(struct world *world, uint64_t node); /* its next sync fails */
void world_disk_space(struct world *world, uint64_t node, enum raft_room room);
void world_disk_delay(struct world *world, uint64_t node, uint32_t min_us, uint32_t max_us);
void world_clock(struct world *world, uint64_t node, int64_t ppm); /* from now on so much faster */
void world_pause(struct world *world, uint64_t node, uint64_t us); /* nothing comes in, no timer */
void world_reconnect(struct world *world, uint64_t node, uint64_t peer); /* a new hello */
void world_compact(struct world *world, uint64_t node, uint64_t keep);   /* image at applied */

/* Damage (raft_world_damage.c). With `budget` only what some other voter can give back, or what nobody
 * else had, so that the cluster must live on. */
void world_rot(struct world *world, uint64_t node, uint64_t first, uint64_t last, bool budget);
void world_rot_whole(struct world *world, uint64_t node, uint64_t first,
                     uint64_t last);                                    /* headers too */
void world_scrub(struct world *world, uint64_t node);                   /* finds what is rotten */
void world_lose_image(struct world *world, uint64_t node, bool budget); /* of a node that is down */
void world_lose_end(struct world *world, uint64_t node, uint64_t count, bool budget);
/* So many entries of its first gap can be read again where they lie. */
void world_reread(struct world *world, uint64_t node, uint64_t count);
void world_doubt_end(struct world *world, uint64_t node);

/* What lies on the disk of a node that is down: entries 1 .. count of these terms, and the node's term. */
void world_place(struct world *world, uint64_t node, const uint8_t *terms, size_t count,
                 uint64_t term);
/* Entries 1 .. count of these terms, as world_place makes them, are committed. */
void world_place_committed(struct world *world, const uint8_t *terms, size_t count);

/* ------------------------------------------------------------------ acts */

/* submit_rc; `first` (may be NULL) gets the index of the first. */
int world_submit(struct world *world, uint64_t node, size_t count, uint32_t size, uint64_t in_term,
                 uint64_t *first);
/* One entry that may use the reserved room (rule 15). */
int world_delete(struct world *world, uint64_t node, uint64_t *first);
void world_read(struct world *world, uint64_t node, bool leased);
int world_transfer(struct world *world, uint64_t node, uint64_t target);
void world_gate(struct world *world, uint64_t node, bool may_campaign);

/* A message out of nowhere; ids[i] names the payload of its entry i (NULL: made up). */
void world_inject(struct world *world, const struct raft_message *message, const uint64_t *ids);

/* ------------------------------------------------------------------ looking */

uint64_t world_leader(const struct world *world); /* of the highest term that is up; 0: none */
struct raft_status world_status(const struct world *world, uint64_t node);
uint64_t world_lease_ms(const struct world *world, uint64_t node); /* left, by its own clock */
struct raft *world_raft(struct world *world, uint64_t node);
uint64_t world_committed(const struct world *world); /* highest index that anybody committed */
uint64_t world_disk_last(const struct world *world, uint64_t node);
uint64_t world_disk_term(const struct world *world, uint64_t node);
uint64_t world_term_at(const struct world *world, uint64_t node, uint64_t index);

struct world_counts {
    uint64_t steps, messages, appends, append_entries, heartbeats, resent, ticks;
    uint64_t rotten, lost_ends, filled, reread, discarded, settled;
    uint64_t reads_leased; /* done in the step in which they were asked for, by a lease */
    uint64_t reads_done, reads_failed, leaders, installs, fetches, crashes;
    uint64_t newest_stop; /* the node that stopped last; 0: none */
};

const struct world_counts *world_counts(const struct world *world);

/* Payload bytes that a node holds for requests it has not taken, or not written. */
uint64_t world_unsynced_bytes(const struct world *world, uint64_t node);

#endif
