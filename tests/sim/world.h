/* A cluster of real nodes in one process, one thread and virtual time, from one seed.
 *
 *   plan (drawn from the seed, or set by a scenario)
 *     -> nodes on simulated loops, disks and a network; clients; faults
 *     -> after each callback: what must always hold is checked against a model of the store that is
 *        fed with the log's entries as they appear and as they commit
 *
 * The first thing that is wrong is kept in `failure`, and time stands still from then on. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "lib/node.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_loop.h"
#include "tests/sim/sim_net.h"
#include "tests/sim/world_client.h"
#include "tests/sim/world_history.h"
#include "tests/sim/world_model.h"
#include "tests/sim/world_own.h"
#include "tests/sim/world_roles.h"

enum { SIM_NODES_MAX = 7, SIM_CLIENTS_MAX = 16 };

enum sim_fault_kind {
    SIM_KILL,        /* the process dies, its page cache stays */
    SIM_POWER,       /* what was not synced may be lost */
    SIM_CRASH_AT_OP, /* one of the two, in the middle of a disk operation */
    SIM_POWER_ALL,   /* of all nodes at once */
    SIM_CLEAN_RESTART,
    SIM_PAUSE,
    SIM_CUT_PAIR,
    SIM_CUT_ONE_WAY,
    SIM_ISOLATE,
    SIM_SPLIT, /* into two halves */
    SIM_RESET,
    SIM_REPLAY,
    SIM_DISK_STALL, /* syncs take long for a while */
    SIM_DISK_ERROR, /* one operation fails */
    SIM_DISK_FULL,
    SIM_ROT,      /* of what lies at rest */
    SIM_CUT_SOME, /* paths at random, each in one direction */
    SIM_EVICT,    /* the page cache forgets what it may */
    SIM_FAULTS
};

enum sim_rot_budget {
    SIM_ROT_NONE,
    SIM_ROT_FEW,   /* a minority of the nodes, in any way */
    SIM_ROT_APART, /* all nodes, each in entries of its own */
    SIM_ROT_ANY    /* no budget: all nodes, in any way; then only safety is asked for */
};

enum sim_rot_kind {
    SIM_ROT_BIT,
    SIM_ROT_ZERO,
    SIM_ROT_UNREADABLE,
    SIM_ROT_LOST,        /* the file */
    SIM_ROT_UNWRITTEN,   /* a write that was said to be done, and never was */
    SIM_ROT_MISDIRECTED, /* a write that went where another record lies */
    SIM_ROT_KINDS
};
enum sim_rot_place {
    SIM_ROT_IN_RECORD,
    SIM_ROT_IN_HEADER,
    SIM_ROT_IN_IMAGE,
    SIM_ROT_IN_VOTE,
    SIM_ROT_PLACES
};

/* The nodes' option. */
enum sim_lease_reads {
    SIM_LEASE_READS_OFF,
    SIM_LEASE_READS_ON,
    SIM_LEASE_READS_MIXED /* drawn at each start, of each node */
};

/* What heals at the end, and what is asked for then. */
enum sim_healing {
    SIM_HEAL_ALL,      /* everything: all agree */
    SIM_HEAL_MAJORITY, /* the rest stays as it is: progress */
    SIM_HEAL_BOTH      /* one after the other */
};

const char *sim_fault_name(enum sim_fault_kind kind);

struct sim_plan {
    uint64_t seed;
    size_t nodes;
    uint64_t heartbeat_ms, election_ms, disk_hang_ms;
    uint64_t segment_bytes, window_bytes, image_log_bytes, keep_entries;
    uint64_t history_revisions, history_ms, history_bytes;
    uint64_t peer_inflight_bytes, peer_inflight_requests;
    struct sim_net_options net;
    struct sim_disk_latency disk;
    int64_t drift_ppm; /* of the fastest and the slowest clock */
    uint64_t turn_ns_max;

    size_t clients, depth; /* depth: of operations of one client at once */
    uint32_t keys, hot_permille;
    uint32_t value_bytes_max;
    uint64_t op_pause_ns; /* between a client's operations, on average */
    uint64_t timeout_ms;
    uint32_t write_permille;   /* of a client's operations that are SIM_CHANGE */
    uint32_t session_permille; /* of a client's writes that are in its session */
    uint64_t session_ttl_ms;
    uint32_t keep_permille;  /* of a client's turns with a session that say keep-alive */
    uint32_t lease_permille; /* of a client's turns with something about leases */
    uint64_t lease_ttl_ms;
    bool log_mode;
    bool own_mode; /* with log_mode: model own; on each node a program with a state of its own */
    uint64_t retention_bytes;
    uint32_t late_permille;    /* of stepping_down messages that a program frees late */
    uint32_t upgrade_permille; /* of starts that are of a program of the next feature level */
    size_t remotes;            /* programs on hosts of their own, with what lkv_connect gives */
    uint32_t remote_permille;  /* of operations that go through them */
    size_t remote_connections; /* of each to its node */
    uint32_t more_permille;    /* of a client's turns with one of the rarer operations */
    uint64_t bounded_ms;       /* the nodes' option */
    enum sim_lease_reads lease_reads;
    uint32_t
        leased_permille; /* of the reads that promise the newest state, those that a lease may answer */
    uint32_t view_permille; /* of the reads below, with a step of a view */
    uint32_t read_permille; /* of the others, with a read of an older revision or a filtered one */

    uint64_t chaos_ms;       /* how long faults go on */
    uint64_t fault_pause_ms; /* between them, on average */
    uint64_t fault_ms_max;   /* how long one lasts */
    bool faults_at_founding;
    uint32_t weights[SIM_FAULTS]; /* 0: there is no such fault */
    enum sim_rot_budget rot_budget;
    bool rot_writes; /* lost and misdirected writes, too; and what the page cache hides at first */
    uint64_t scrub_ms;
    uint64_t digest_ms; /* from one comparison of states to the next; 0: never */
    enum sim_healing healing;
    uint32_t slow_permille;  /* of disk stalls in which every call takes long, not only syncs */
    uint64_t inflight_bytes; /* of proposals; 0: as by default */
    uint32_t evict_permille; /* of starts after a kill: the page cache is not what it was */
};

/* Three nodes, a quick network, no faults, no clients. */
struct sim_plan sim_plan_calm(uint64_t seed);
/* Everything drawn from the seed, also which of the worlds below it is, and damage without a budget. */
struct sim_plan sim_plan_mixed(uint64_t seed);
/* Faults, but disks that keep what they have. */
struct sim_plan sim_plan_swarm(uint64_t seed);
/* The same, and disks that rot. */
struct sim_plan sim_plan_rot(uint64_t seed);
struct sim_plan sim_plan_log_rot(uint64_t seed);
/* Appends, reads, tails and holds instead of keys. */
struct sim_plan sim_plan_log(uint64_t seed);
/* The same, and on each node a program that makes a state of it. */
struct sim_plan sim_plan_own(uint64_t seed);
struct sim_plan sim_plan_own_rot(uint64_t seed);

/* They by name: mixed, plain, rot, log, log-rot, own, own-rot. */
typedef struct sim_plan sim_plan_maker(uint64_t seed);
bool sim_world_named(const char *name, sim_plan_maker **out);
const char *sim_world_name(sim_plan_maker *maker);

enum { SIM_TAIL_KEPT = 3 };

/* A client that follows the log. */
struct sim_tail {
    struct lkv_queue *queue; /* owned */
    bool open;
    struct sim_remote *remote; /* whose handle it is of; NULL: of that of a node */
    unsigned node;
    bool gates; /* the node's readiness */
    uint64_t next;
    struct lkv_msg *kept[SIM_TAIL_KEPT]; /* owned: not freed yet, */
    uint64_t kept_of[SIM_TAIL_KEPT];     /* and of the how-manieth tail of this client */
    uint64_t opened;
};

enum { SIM_WATCH_KEPT = 3 };

/* A client that watches. */
struct sim_watch {
    struct lkv_queue *queue; /* owned */
    bool open, begun;
    struct sim_remote *remote; /* whose handle it is of; NULL: of that of a node */
    unsigned node;
    uint32_t from, to; /* keys [from, to) */
    bool to_last;
    int flags;
    uint64_t due; /* the first revision of which it has not been told all; 0: the next */
    uint64_t told[SIM_KEYS_MAX / 64];     /* keys of that one that it has been told */
    struct lkv_msg *kept[SIM_WATCH_KEPT]; /* owned: not freed yet */
};

enum sim_node_state { SIM_DOWN, SIM_UP, SIM_CLOSING };

struct sim_world;

struct sim_node {
    struct sim_world *world;
    unsigned number;
    char name[16];
    struct lkv_options options;
    uint32_t feature_level; /* that its program knows; 0: this program's */
    struct sim_disk *disk;
    struct sim_loop loop;
    struct node *node; /* NULL when down */
    enum sim_node_state state;
    unsigned lives;
    uint64_t failed_starts; /* in a row */
    bool dying, dying_by_power;
    bool damaged;     /* on purpose, and it may refuse to start */
    bool disk_failed; /* in this life, on purpose: it may stop */
    bool rot_wanted;  /* its disk rots as soon as that may be */
    bool frozen;      /* of the minority that does not heal */
    bool frozen_paused;
    bool has_run;         /* founded, in some life */
    bool tampered;        /* its state was changed in memory on purpose */
    bool maimed;          /* damaged in more than records: its log's end may be unknown */
    bool has_stopped;     /* by itself, and said why */
    bool end_unknown;     /* as it last said */
    uint64_t image_index; /* durable, as far as was seen */
    struct sim_own own;
    char refusal[600]; /* of its last start; empty when it went well */
    bool bad_sectors;  /* somewhere: who writes to one fails, and stops until the next start */
    uint64_t seen_filled;
    struct sim_event restart, death, disk_heals, supervise, freeze;
    struct sim_program program;

    /* What the checker saw of this life. */
    uint64_t seen_next, seen_term; /* the window up to here is in the model; term of the last */
    uint64_t seen_commit, seen_applied, term, led_term;
    bool installing;
    uint64_t seen_compared; /* entry at which its state was compared with the others' */
    uint64_t checked_ns;    /* when the whole state was compared last */
    bool seen_imaging;      /* log mode: an own one was being written */
    uint64_t seen_image;    /* log mode: index */
    uint64_t seen_gone;     /* model own: the last index that its log no longer has */
    struct sim_appends appends;
    /* Of all lives. */
    uint64_t holds[SIM_CLIENTS_MAX]; /* log mode: durable for certain; 0: none is */
    uint64_t hold_calls[SIM_CLIENTS_MAX];
    uint64_t durable_led_term; /* it led in it, so its disk must know it */
};

struct sim_call;

/* The greatest index that a finished operation stood for from this time on. */
struct sim_completed {
    uint64_t at_ns, index;
};

/* Where a client's next page goes on. */
struct sim_paging {
    uint64_t rev; /* of its pages; 0: it begins anew */
    uint32_t next, end;
};

/* A view that a client has, and a walk over it (world_load_view.c). */
struct sim_view {
    struct lkv_view *view; /* owned; NULL: none */
    struct lkv_iter *iter; /* owned */
    /* Where it was opened: one of the two. */
    struct sim_node *node;
    struct sim_remote *remote;
    unsigned life; /* of that one */
    enum lkv_read how;
    uint64_t index; /* of the entry that made the revision */
    uint64_t opened_ns, age_ns;
    uint32_t from, end, next; /* of the walk: what comes is at `next` or behind it */
    int flags;
    bool busy; /* an answer is owed */
};

struct sim_client {
    struct sim_world *world;
    unsigned number, node;
    struct sim_event next;
    size_t in_flight;

    uint64_t session;         /* 0: none */
    struct lkv_session *held; /* owned: of its remote; NULL: it says the session's numbers itself */
    bool opening;
    uint64_t next_seq;
    struct sim_doubt doubts[SIM_DOUBTS_MAX]; /* writes in the session without an answer */
    int64_t lease;                           /* 0: none */
    struct sim_tail tail;                    /* log mode */
    struct sim_watch watch;
    struct sim_paging paging;
    struct sim_view view;
};

struct sim_counts {
    uint64_t faults[SIM_FAULTS];
    uint64_t ops, done, negative, not_done, unknown, images, leaders, starts, refused;
    uint64_t sessions, repeated, expired, kept;
    uint64_t lapsed, lease_kept; /* leases */
    uint64_t remote_ops, remote_done, resumed, ended, digests, canceled, repeats;
    uint64_t rots, filled;               /* entries */
    uint64_t writes[16], writes_refused; /* of SIM_CHANGE, by shape; that had no effect */
    uint64_t past_reads, past_refusals, next_pages; /* of older revisions */
    uint64_t views, view_items, views_old, bounded, bounded_old;
    uint64_t leased, leased_here;         /* reads; on the caller's thread */
    uint64_t compared;                    /* verdicts of nodes on their own states */
    uint64_t undecided;                   /* histories beyond the limits of the black-box judge */
    uint64_t watches, watched, overtaken; /* opened; events; ended by a compaction */
    uint64_t records, voids, tailed, truncated, held, drops;
    uint64_t own_applied, own_images,
        own_loaded; /* entries; images begun; images or nothing loaded */
    uint64_t rot_kinds[SIM_ROT_KINDS], rot_places[SIM_ROT_PLACES];
    uint64_t slow_disks;
    uint64_t majorities, excused; /* that healed alone; that could rightly do nothing */
    uint64_t reports;             /* without a budget: worlds that ended with a report of damage */
};

struct sim_world {
    struct sim_plan plan;
    struct sim_time time;
    struct sim_net net;
    struct prng prng_fault, prng_rot, prng_load, prng_life, prng_program, prng_remote, prng_more,
        prng_read, prng_lease, prng_watch, prng_own, prng_leased;
    int64_t next_lease;
    struct sim_node nodes[SIM_NODES_MAX];
    struct sim_client clients[SIM_CLIENTS_MAX];
    struct sim_remote remotes[SIM_REMOTES_MAX];
    bool load_on;
    uint64_t next_value;
    struct list_link ops; /* of struct sim_call: no final message yet */
    size_t op_count;
    uint64_t next_op;                /* names an operation where its answer comes by a queue */
    uint64_t completed_index;        /* greatest index that a finished operation stands for */
    struct sim_completed *completed; /* owned; when it rose */
    size_t completed_count, completed_capacity;
    struct sim_model model;
    struct sim_own_model own;
    struct sim_history history;
    uint8_t *led; /* owned; [term]: number of its leader + 1 */
    size_t led_capacity;
    uint64_t *digests; /* owned; [index]: of the replicas that were asked for theirs; 0: none was */
    size_t digest_capacity;
    struct sim_event fault, remote_fault;
    bool tampered; /* with some state, in some life: verdicts may differ */
    struct sim_counts counts;
    char failure[1024]; /* empty: all is well */
    /* Told what happens, line by line; may be NULL. */
    void (*story)(void *arg, uint64_t now_ns, const char *line);
    void *story_arg;
};

struct sim_world *sim_world_new(const struct sim_plan *plan,
                                void (*story)(void *arg, uint64_t now_ns, const char *line),
                                void *story_arg);
void sim_world_free(struct sim_world *world); /* all nodes lose their power */

void sim_world_fail(struct sim_world *world, const char *format, ...) PRINTF_LIKE(2, 3);
void sim_world_tell(struct sim_world *world, const char *format, ...) PRINTF_LIKE(2, 3);
static inline bool sim_world_failed(const struct sim_world *world) {
    return world->failure[0] != '\0';
}

/* --- time; all stop at the first failure --- */
void sim_world_run_ms(struct sim_world *world, uint64_t ms);
bool sim_world_until(struct sim_world *world, bool (*question)(struct sim_world *world),
                     uint64_t limit_ms);
static inline uint64_t sim_world_now_ms(const struct sim_world *world) {
    return world->time.now_ns / MS_NS;
}

/* --- nodes (world_node.c) --- */
void sim_node_init(struct sim_node *node, struct sim_world *world, unsigned number);
void sim_node_start(struct sim_node *node);
void sim_node_crash(struct sim_node *node, bool power);
void sim_node_die(struct sim_node *node, bool power); /* within one of its callbacks */
void sim_node_close(struct sim_node *node, int64_t handover_ms);
void sim_node_restart_in(struct sim_node *node, uint64_t ms);
/* The checker's findings: it has stopped by itself; it has finished closing. */
void sim_node_stopped(struct sim_node *node);
void sim_node_finished(struct sim_node *node);
bool sim_node_runs(const struct sim_node *node); /* up, founded, and not stopped */
/* A node is still being closed, or is about to start. */
bool sim_world_somebody_comes(const struct sim_world *world);
bool sim_node_leads(const struct sim_node *node);
struct sim_node *sim_world_leader(struct sim_world *world); /* of the highest term, or NULL */
uint64_t sim_node_commit(const struct sim_node *node);

/* What lkv_open gives a node's handle (world_handle.c): its verbs, as far as none of them waits. */
void sim_handle_begin(struct sim_node *node);

/* --- faults (world_faults.c) --- */
void sim_fault_begin(struct sim_world *world, enum sim_fault_kind kind);
void sim_faults_start(struct sim_world *world);
/* How long one lasts: mostly short, sometimes as long as the plan allows. */
uint64_t sim_draw_fault_ms(const struct sim_world *world, struct prng *prng);
void sim_world_heal(struct sim_world *world); /* everything, and starts what is down */
void sim_net_calm(struct sim_world *world);   /* no more losses, no long delays */
void sim_node_heal(struct sim_node *node);    /* its disk; and it starts */
void sim_isolate(struct sim_world *world, unsigned node, uint64_t until_ns);
void sim_disk_fill(struct sim_node *node, uint64_t room); /* it is full after so many bytes more */
void sim_rejoin(struct sim_world *world, unsigned node);

/* --- rot (world_rot.c); false: there is no such thing on this disk --- */
bool sim_rot_possible(const struct sim_node *node); /* all that it wrote is marked as durable */
bool sim_rot_entry(struct sim_node *node, uint64_t index, enum sim_rot_kind kind);
/* Header of the newest segment but `back`; LOST: the file. */
bool sim_rot_segment(struct sim_node *node, enum sim_rot_kind kind, size_t back);
bool sim_rot_image(struct sim_node *node, enum sim_rot_kind kind);
bool sim_rot_vote(struct sim_node *node); /* one slot */
void sim_rot_begin(struct sim_world *world, struct sim_node *node);
void sim_rot_strike(struct sim_node *node); /* if it was begun and may be now */
/* Sets held[i] for each committed entry i that is intact on the disk. False: of those that were never
 * committed something is not. */
bool sim_rot_mark_held(struct sim_node *node, bool *held);

/* --- load (world_load.c) --- */
void sim_load_start(struct sim_world *world);
void sim_load_stop(struct sim_world *world);
/* One operation now; the outcome is checked like any other. What became of it, when it has finished:
 * `*done` (may be NULL) is set to 1 + enum lkv_outcome. */
enum sim_call_kind {
    SIM_PUT,
    SIM_GET,
    SIM_GET_LOCAL,
    SIM_DELETE,
    SIM_DELETE_RANGE,
    SIM_RANGE,
    SIM_SESSION_OPEN,
    SIM_SESSION_KEEP,
    SIM_SESSION_CLOSE,
    SIM_STATUS,
    SIM_DIGEST,
    SIM_VIEW_OPEN,
    SIM_VIEW_PAGE,
    SIM_LEASE_GRANT,
    SIM_LEASE_KEEP,
    SIM_LEASE_REVOKE,
    SIM_LEASE_TTL,
    SIM_LEASE_LIST,
    SIM_LEASE_PUT,
    SIM_CHANGE, /* world_load_write.c */
    SIM_APPEND, /* log mode, from here on */
    SIM_LOG_READ,
    SIM_LOG_SPAN,
    SIM_HOLD
};
void sim_submit(struct sim_node *node, enum sim_call_kind kind, uint32_t key, uint64_t timeout_ms,
                int *done);
void sim_submit_read(struct sim_node *node, uint32_t key, enum lkv_read how, uint64_t timeout_ms,
                     int *done); /* a get */
/* A put that is tried until it is done, waiting 5 s of virtual time at most. */
bool sim_put_ok(struct sim_world *world, uint32_t key);
/* The entry was committed just now: of a session, it must not come too early. */
void sim_check_session(struct sim_world *world, const struct sim_entry *entry);
/* Every operation that is under way has a node that may still answer it, and in time. */
void sim_check_silence(struct sim_world *world);

/* --- log mode (world_log_check.c) --- */
void sim_log_check(struct sim_node *node);
/* What a page shows is what is in the log from `from` up to `next`, and nothing is missing. */
void sim_log_check_records(struct sim_world *world, const char *who, uint64_t from, uint64_t next,
                           const struct lkv_msg *msg);
void sim_log_check_end(struct sim_node *node);
/* It is told that it is ready to lead, by its entry at `index`: what gates that has consumed all before. */
void sim_log_check_ready(struct sim_node *node, uint64_t index);

/* --- checks (world_check.c) --- */
void sim_check_node(struct sim_node *node);
/* The part that may be done inside of its callbacks. */
void sim_check_commit(struct sim_node *node);
void sim_check_life_begins(struct sim_node *node);
void sim_check_state(struct sim_node *node); /* every key against the model */
bool sim_world_converged(struct sim_world *world);
void sim_check_end(struct sim_world *world); /* after all operations have finished */

/* --- the healing of a majority (world_heal.c) --- */
/* How far those have come that are not frozen, and how many terms it took. A backlog on a slow disk, or a
 * laggard that catches up, may take longer than any bound on elections, as long as somebody gets on without
 * new ones. */
struct sim_progress {
    uint64_t durable[SIM_NODES_MAX]; /* falls where a tail that nobody wants is cut */
    uint64_t applied[SIM_NODES_MAX], term;
};
enum { SIM_PATIENT_ROUNDS = 40 };
struct sim_progress sim_progress_of(const struct sim_world *world);
/* In this round, 0 for the first: somebody got on, and from the second one on with one new term at most. */
bool sim_progress_goes_on(const struct sim_world *world, const struct sim_progress *before,
                          int round);
/* A majority heals, and has to make progress within 20 election timeouts; the others stay as they are. */
void sim_world_majority(struct sim_world *world);
void sim_world_thaw(struct sim_world *world); /* nobody is frozen any more */
/* After damage without a budget: it goes on, or somebody says why not. */
void sim_world_reported(struct sim_world *world);

/* --- a whole story (world_run.c) --- */
void sim_explain(struct sim_world *world, const char *what, uint64_t limit_ms);
/* Founding, chaos, healing, convergence, and once more after a power cut of all: false when something
 * is wrong. */
bool sim_world_play(struct sim_world *world);

#endif
