/* A node: the one place where consensus, log and state machine meet, on one loop's thread.
 *
 *   callers' threads          loop's thread                                   queues' threads
 *   lkv_put -> inbox ----> node_request -> raft_step -> update -> node_write ------> log_write
 *   clients' connections ->    |               ^            \-> peer links             |
 *                              v               |                                       |
 *                          pending <- node_apply <- commit <- PERSISTED <--------------'
 *
 * Each file node_*.c holds one of these stations; what they share is here. Everything runs on the
 * seams of base/, so the same code runs on libuv and in a simulated world.
 */
#ifndef LIB_NODE_H
#define LIB_NODE_H

#include "base/disk.h"
#include "base/feature.h"
#include "base/loop.h"
#include "base/net.h"
#include "kv/command.h"
#include "kv/kv.h"
#include "kv/watch.h"
#include "lib/agreement.h"
#include "lib/deadlines.h"
#include "lib/founding.h"
#include "lib/handle.h"
#include "lib/inbox.h"
#include "lib/ledger.h"
#include "lib/pending.h"
#include "lib/records.h"
#include "lib/remote.h"
#include "lib/retention.h"
#include "lib/role.h"
#include "lib/seen.h"
#include "lib/server.h"
#include "lib/state.h"
#include "log/log.h"
#include "log/window.h"
#include "raft/raft.h"
#include "raft/wire.h"

#include <pthread.h>

struct node;
struct peer;
struct log_job;
struct image_receive;
struct image_send;
struct apply_read;
struct retention_job;
struct forward;

/* What a node runs on; borrowed for its life. */
struct node_world {
    struct loop *loop;
    struct net *net;
    struct disk *disk;
    uint32_t feature_level; /* 0, or what a simulated node of another version knows */
};

/* Payload that came with an append and is not in the window yet (raft's `kept`). */
struct staged {
    struct list_link link;
    uint64_t token;
    bool own; /* it lies in this node's files (node_reread.c) */
    struct raft_packet packet;
};

/* Writes of the core that were not given to the log thread yet, merged into one group commit. */
struct write_batch {
    uint64_t no; /* highest write number in it; 0: empty */
    bool save_vote;
    struct log_vote vote;
    uint64_t cut_from; /* of what the log thread was already given; 0: none */
    uint64_t cut_prev_term;
    uint64_t first, last;
    uint64_t bytes;         /* of these entries, as unwritten_bytes counts them */
    struct list_link fills; /* of struct write_fill; after all else of the batch */
};

/* What was read from disk for one peer, while the core is told of it. */
struct fetched {
    uint64_t peer, first;
    struct entry *entries; /* borrowed from the job */
    size_t count;
};

enum { NODE_RECORD_OVERHEAD = 256 }; /* bytes in the log beside an entry's payload, at most */

/* A leader's clock for what clients must say in time: only time in which this loop ran counts, since who
 * spoke meanwhile has not been heard. */
enum { NODE_LOOK_MS = 250 };
#define NODE_LOOK_NS (NODE_LOOK_MS * MS_NS)
struct worked {
    uint64_t ns;
    uint64_t looked_ns; /* when it was set; again after NODE_LOOK_MS */
};
static inline uint64_t worked_now(const struct worked *worked, uint64_t now_ns) {
    uint64_t passed_ns = now_ns - worked->looked_ns;
    return worked->ns + (passed_ns < 2 * NODE_LOOK_NS ? passed_ns : 2 * NODE_LOOK_NS);
}
static inline void worked_look(struct worked *worked, uint64_t now_ns) {
    worked->ns = worked_now(worked, now_ns);
    worked->looked_ns = now_ns;
}

/* When the leader heard of a session last, on the clock of node_session.c. */
struct session_clock {
    uint64_t id, ttl_ms;
    uint64_t active_ns;
    bool expiring; /* its end is proposed */
};

struct session_clocks {
    struct session_clock *items; /* owned; ascending by id */
    size_t count;
    uint64_t term; /* in which they count */
    struct worked worked;
};

/* What this leader knows of the age of history, and when it looks at it again (node_compact.c). */
enum { COMPACT_SAMPLES = 16 };
struct compact {
    uint64_t term;   /* in which the samples are taken */
    uint64_t looked; /* revision that was looked at last */
    uint64_t next_ns;
    bool proposed; /* one is under way */
    struct compact_sample {
        uint64_t at_ns, revision;
    } samples[COMPACT_SAMPLES]; /* a ring, by number */
    size_t sample_first, sample_count;
};

/* What this leader knows of a lease, on the clock of node_lease.c. */
struct lease_clock {
    int64_t id;
    uint64_t granted, ttl_ms;
    uint64_t deadline_ns;
    uint64_t told_ms; /* the least that the log may say is left of it */
    uint64_t ends_at; /* index of an entry that ends it, if it takes effect; 0: none */
    bool expiring;    /* its end is proposed */
    bool resetting;   /* an entry is on its way that says its ttl is left */
};

struct lease_clocks {
    struct lease_clock *items; /* owned; ascending by id */
    size_t count;
    uint64_t term; /* in which they count */
    struct worked worked;
    struct list_link waits; /* keep-alives that wait for the log to get on */
    uint64_t waited_at;     /* what was applied when they were looked at last */
    bool looked_again;      /* they have to be */
};

/* Entries that close a gap, on their way to the log thread. */
struct write_fill {
    struct list_link link;
    bool own;    /* they lie there already: nothing is written */
    bool failed; /* the log thread: it reads back otherwise */
    size_t count;
    struct entry entries[]; /* consecutive, with references */
};

/* What is wrong on this node's disk, for people; empty texts: nothing. */
struct repair {
    struct reason log_why, image_why, end_why;
    bool image_rotten;            /* the newest image; an own one replaces it */
    uint64_t image_wanted_ns;     /* when it is looked whether an image must cover damage */
    uint64_t filled, filled_ever; /* entries: since all was well last; in this life */
    uint64_t regained;            /* of `filled`: read here again */
    bool changed;                 /* since the reads below were served */
    struct list_link waits;       /* reads in model log that met a gap */
    uint64_t fill_next_ns;        /* no entries are taken before, since some did not hold */
    bool settle_due, doubt_due, note_running; /* of the log's end, to the log thread */
    uint64_t note_retry_ns;
};

/* Looking again at a gap of our own (node_reread.c). */
struct reread {
    bool running;
    uint64_t first;            /* of the gap that it is about; 0: there was none */
    uint64_t next_ns, wait_ns; /* the next look; twice as long after each */
};

/* How the members' states compare (node_agree.c); from AGREE_DIVERGED on something is wrong. */
enum agree_state {
    AGREE_UNKNOWN,  /* nothing was compared in this life */
    AGREE_SAME,     /* this one is that of a majority */
    AGREE_DIVERGED, /* a majority has another one */
    AGREE_SPLIT     /* no majority has one */
};
struct agree {
    enum agree_state state;
    uint64_t judged_index;       /* of the entry that it says so of */
    uint64_t majority;           /* digest */
    struct agreement_report own; /* newest; index 0: none yet */
    struct agreement heard;      /* and own */
    bool running;                /* own digest, on the bulk thread */
    uint64_t replay_to;          /* the log's end when this node started */
    unsigned resends;
    uint64_t resend_ns;
    /* Of a leader. */
    uint64_t term;        /* that the rest is of */
    uint64_t due_ns;      /* of the next comparison */
    uint64_t begun_index; /* of the last one that this node has asked for */
    uint64_t begun_ns;
};

/* Where the scrub is (node_scrub.c). */
struct scrub {
    bool running;       /* a step is under way */
    bool image_suspect; /* the image is to be read in any case */
    uint64_t next_ns;   /* of the next step; 0: none is planned yet */
    uint64_t begun_ns;
    uint64_t index; /* of the log, where the next step goes on; 0: a pass begins */
    uint64_t findings;
    uint64_t passes, passed_wall_ms; /* whole ones, and when the last one ended */
};

enum { LOG_JOBS_IN_FLIGHT = 2 }; /* one being synced, one waiting: the disk never idles */

struct node {
    struct lkv handle; /* first: a struct lkv * of a node is a struct node * */

    /* Immutable after open. */
    struct node_world world;
    struct lkv_options options;
    struct trace trace;
    char dir[1024];
    char log_dir[1100];
    char image_dir[1100];
    uint64_t boot_nonce;

    /* Any thread. */
    struct inbox inbox;
    atomic_size_t held_bytes; /* of callers' requests without their final message */
    atomic_bool role_freed;   /* a role message was freed: role_pump */
    struct kv *kv;            /* readable at any time; NULL in model log */
    /* As in the newest update of the core; written by the loop, the second one first. */
    _Atomic(uint64_t) lease_until_ns, lease_index;
    struct kv_home kv_home; /* engine NULL: in memory */
    char state_dir[DISK_PATH_SIZE];
    uint64_t kv_included;          /* what kv knew when it was opened from its home; 0: nothing */
    uint64_t health_ns;            /* when its home is looked at again */
    uint64_t apply_retry_ns;       /* the state's disk is behind; UINT64_MAX: it is not */
    const struct state_ops *state; /* immutable after open */
    pthread_mutex_t mutex;         /* of the fields up to the next comment */
    pthread_cond_t changed_cond;
    bool close_requested, finished;
    bool settled;   /* has led, has stopped or has met a full disk: what lkv_open waits for alone */
    int settled_rc; /* stop_rc and stop_why at that moment */
    struct reason settled_why;
    int64_t close_handover_ms;
    struct role_watch_request *role_requests; /* handed to the loop */

    /* Loop thread only, from here on. */
    struct disk_lock *lock;
    struct identity identity;
    struct founding founding;
    struct reason founding_state;
    bool founding_stranger; /* it says that this node has no place there */
    bool founding_job_running;
    struct reason refusal; /* of the last peer that refused our hello; empty once one is up */
    atomic_bool diverged;  /* as agree.state says, for any thread */
    atomic_bool growing; /* founded alone, and started with peers: waits for them (rule 19), nothing
                            of its state loaded yet */
    bool readdressed;    /* the option peers has brought other addresses (rule 19) */
    struct seen seen;
    bool seen_job_running;
    uint64_t seen_retry_ns; /* when a save that failed is tried again; UINT64_MAX: none failed */
    struct agree agree;
    uint64_t feature_term; /* in which this leader has proposed the next field */
    uint32_t feature_proposed;
    enum entry_type own_type; /* 0, or: of the entry of its own that is being submitted, alone */
    struct blob *own_payload; /* owned; that entry's, or NULL */
    bool running;             /* founded: log and raft exist */
    bool offline;             /* a member of several, opened for local reads only: takes no part */

    struct log *log;
    struct log_window window;
    struct raft *raft;
    struct raft_update update;
    enum raft_role role;
    uint64_t term, leader, commit, raft_deadline_ns;
    bool stepping, leader_moved;
    struct entry *frame_entries; /* owned; borrowed entries of the append being framed */
    size_t frame_capacity;
    struct buffer frame_body; /* scratch of peer_send_raft */
    struct fetched fetched;   /* entries in memory for the FETCHED event being stepped */
    int stop_rc; /* not 0: the node takes no part any more, for the reason in stop_why */
    struct reason stop_why;
    bool stop_answered;

    struct peer *peers[OPTION_PEERS_MAX];
    size_t peer_count;
    struct list_link strangers; /* accepted connections that have said nothing yet */
    size_t stranger_count;
    struct list_link incoming; /* of struct link: accepted connections that are no client's */
    struct net_listener *listener, *local_listener;
    struct server *server;
    struct list_link staged; /* of struct staged, in order of arrival */
    uint64_t next_token;
    uint64_t hello_sequence;

    struct write_batch batch;
    uint64_t given_next;        /* index after the last entry that the log thread was given */
    size_t jobs_in_flight;      /* log jobs */
    size_t jobs_outstanding;    /* all jobs of all queues */
    struct list_link full_jobs; /* did not fit on the disk; tried again, in order */
    bool log_blocked;           /* log thread: a write did not fit, those behind it wait */
    uint64_t full_retry_ns;
    uint64_t last_write_ns;
    uint64_t spare_retry_ns;
    uint64_t unwritten_bytes; /* of entries that the log thread has not finished */
    bool no_spare;            /* the last attempt to make the next segment failed */
    bool room_refused;        /* and a write was refused since for what room is left */
    enum raft_room room;      /* as the core was told */
    bool mark_due, spare_running, disk_full, log_failed;

    struct pending pending;
    uint64_t next_order;     /* of appends: see struct request */
    uint64_t applied;        /* index */
    bool reading_for_apply;  /* entries to apply are being read from disk */
    bool gate_closed;        /* as the core was told */
    struct list_link parked; /* requests that wait for a leader */
    size_t parked_bytes;
    uint64_t park_retry_ns;        /* UINT64_MAX: nothing is parked */
    struct list_link reads_new;    /* linearizable reads that came in this turn */
    struct list_link reads_leased; /* those for which the leader's lease will do */
    struct list_link read_batches; /* of struct read_batch: asked for a read index */
    struct list_link views;        /* of struct node_view */
    size_t view_count;
    uint64_t next_read_context;
    uint64_t fresh_ns; /* all that was acknowledged until then is applied; 0: nothing is known */
    uint64_t next_expiry_ns;
    struct forward *forward;       /* to the leader, when this node follows */
    struct list_link old_forwards; /* to earlier ones, while they owe answers */
    uint64_t forwards_opened;
    uint64_t forward_next_ns;
    size_t submit_capacity;
    uint32_t *submit_sizes;
    struct list_link submits; /* writes of this turn, to be appended as one batch */
    size_t submit_count;      /* requests */
    size_t submit_entries;    /* of them */

    struct apply_read *fetched_for_apply; /* owned; not all applied yet; NULL: nothing */
    struct session_clocks session_clocks;
    struct compact compact;
    bool tidy_wanted; /* the state has memory to give back */
    struct lease_clocks lease_clocks;

    uint64_t image_index, image_term; /* newest durable image */
    bool image_running;
    bool image_wanted;        /* because of damage, whatever the thresholds say */
    bool prefix_dropping;     /* what an earlier image covers and followers needed then */
    atomic_bool image_cancel; /* closing: of images and digests on the bulk thread */
    uint64_t bytes_since_image;
    uint64_t image_retry_ns; /* no other is begun before, unless one is wanted */
    uint64_t image_backoff_ms;
    struct image_receive *receive;
    bool installing; /* appends are dropped while a received image replaces the log */
    bool restart_given;
    uint64_t receive_retry_ns; /* until then no chunk is taken */
    uint64_t install_retry_ns; /* 0, or: the log's restart found no room, and is tried again then */

    struct repair repair;
    struct scrub scrub;
    struct reread reread;

    /* Model kv: questions for events (lib/node_watch.c). */
    struct kv_watches *watches;   /* owned; NULL: model log */
    struct list_link watch_all;   /* all of them */
    struct list_link watch_waits; /* requests: there is no history yet */
    struct list_link watch_asks;  /* requests that are answered when they have seen what there is */
    struct deadlines watch_deadlines; /* of all */

    /* Model log. */
    struct ledger ledger;
    uint64_t image_visible; /* of the newest image */
    struct sessions
        proposed; /* of a ready leader: the ledger's, once all it has appended is applied */
    uint64_t proposed_term;      /* that they are valid in; 0: not */
    struct list_link once_waits; /* requests: what decides them is not applied yet */
    bool submits_held;           /* until this leader is ready */
    struct extents *extents;     /* owned reference */
    struct list_link log_reads;  /* jobs: reads from disk under way */
    struct list_link log_waits;  /* reads that wait for records */
    uint64_t log_waited;         /* what was visible when they were looked at last */
    struct retention retention;
    uint64_t retention_drop_to;  /* the log may go up to here */
    uint64_t retention_next_ns;  /* when it is looked at again; 0: now */
    uint64_t retention_saved_ns; /* the file is younger than that */
    bool retention_saving;
    struct retention_job *hold_saving; /* a hold that is being made durable; NULL: none is */
    bool spare_preparing;              /* the file for the next image */
    atomic_bool spare_wanted;          /* there is none, or it is too small */
    uint64_t image_bytes;              /* bulk thread: of the last image or checkpoint */
    uint64_t image_spare_bytes;        /* bulk thread: of the spare file; 0: none */
    struct list_link hold_waits;       /* requests */
    struct own_place own;              /* model own: the next image of the program's state */
    struct request *own_request;       /* that it is to be made durable; NULL: nobody waits */
    bool own_saving;                   /* the bulk thread is at it */
    struct list_link digests;          /* jobs: under way on the bulk thread */
    uint64_t ready_deadline_ns; /* of a leader that waits for its tails; UINT64_MAX: none does */

    struct role role_events;
    bool close_begun, closing, finished_loop;
    uint64_t timer_at_ns, server_next_ns;
    uint64_t handover_deadline_ns;
    uint64_t handover_next_ns; /* when it is tried again; 0: it was not tried */
    bool turn_wanted;          /* more to do without waiting for an event */
};

/* lib/open.c */
MUST_USE int node_open(struct lkv **out, const struct lkv_options *options, struct reason *why);

/* lib/node.c */
/* A node on a given world (libuv's, or a simulator's), whose loop is driven by the caller. The loop's
 * events must be node_loop_events(node), and node_turn be called once, before anything happens. */
MUST_USE int node_create(struct node **out, const struct lkv_options *options,
                         const struct node_world *world, struct reason *why);
struct loop_events node_loop_events(struct node *node);
void node_turn(struct node *node);
void node_destroy(struct node *node); /* after it has finished, or crashed; NULL is fine */
void node_set_timer(struct node *node);
void node_settle(struct node *node);
void node_stop(struct node *node, int rc, const char *format, ...) PRINTF_LIKE(3, 4);

/* lib/node_close.c */
void node_close_begin(struct node *node, int64_t handover_ms);
void node_close_turn(struct node *node);

/* lib/node_accept.c */
void node_on_accept(void *node, struct net_conn *conn);
uint64_t node_accept_timer(struct node *node, uint64_t now_ns);
void node_accept_close(struct node *node);

/* lib/node_start.c: directory, identity, founding, recovery */
const char *node_listen_address(const struct node *node); /* empty: none */
MUST_USE int node_start_disk(struct node *node, struct reason *why);
MUST_USE int node_recover(struct node *node, struct identity *identity, struct reason *why);
MUST_USE int node_found_alone(struct node *node, struct reason *why);
void node_begin(struct node *node);
void node_founding_turn(struct node *node);
/* What a node that is not founded yet, or grows, waits for, and who has refused it. */
void node_founding_text(const struct node *node, char *out, size_t size);
void node_config(const struct identity *identity, struct raft_config *out);

/* lib/node_place.c: the same node on the same directory, and how a lone one gets peers */
MUST_USE int node_check_place(struct node *node, struct reason *why);
MUST_USE int node_check_members(struct node *node, struct reason *why);
bool node_only_looks(const struct node *node);
void node_count_start(struct node *node);
bool node_wants_to_grow(const struct node *node);
MUST_USE int node_seal_growth(struct node *node, struct identity *identity,
                              const struct log_state *log, struct reason *why);

/* lib/node_offline.c: a member's directory without its cluster */
MUST_USE int node_open_offline(struct node *node, struct reason *why);

/* lib/node_step.c: the core and what its updates ask for */
void node_step(struct node *node, struct raft_event *event);
void node_receive(struct node *node, struct raft_packet *packet); /* takes the packet's contents */
/* Read here, of our own files; as a repair reply that nobody has sent. Takes the packet's contents. */
void node_reread(struct node *node, struct raft_packet *packet);
void node_staged_free_all(struct node *node);
const struct entry *node_entry(const struct node *node, uint64_t index);

/* lib/node_write.c: group commit */
void node_write_add(struct node *node, const struct raft_write *write);
void node_write_flush(struct node *node);
void node_write_timer(struct node *node, uint64_t now_ns);
uint64_t node_write_deadline(const struct node *node);
/* Bytes of the log that deletes and the cluster's own entries may still use, when no segment can be
 * made any more. */
enum { NODE_ROOM_RESERVED = 256 * 1024 };
MUST_USE int node_restart_log(struct node *node, uint64_t index, uint64_t term);
/* Takes the entries' payload: they close a gap with the write that is added next. */
MUST_USE int node_write_fill(struct node *node, struct entry *entries, size_t count, bool own);
void node_log_failed(struct node *node, int rc, const struct reason *why); /* rule 10 */
void node_write_drop_full(struct node *node); /* closing: what never fitted is given up */

/* lib/node_apply.c: replay */
void node_apply(struct node *node);
void node_apply_fini(struct node *node);
/* Once a turn: gives memory back while nothing waits to be applied. True: there is more. */
bool node_tidy(struct node *node);

/* lib/node_request.c: requests on their way in */
MUST_USE int node_submit(struct lkv *handle, struct request *request); /* any thread */
MUST_USE int node_submit_loop(void *node, struct request *request);    /* loop thread */
void node_drain_inbox(struct node *node);
void node_route(struct node *node, struct request *request);
void node_append_batch(struct node *node);
MUST_USE int node_append_accepted(struct node *node, uint64_t first, uint64_t term);
void node_wait_for_leader(struct node *node, struct request *request);
void node_requests_expire(struct node *node, uint64_t now_ns);
void node_requests_fail_all(struct node *node);
void node_request_again(void *node, struct request *request); /* of `pending`: parks it */
void node_route_parked(struct node *node);

/* lib/node_forward.c: requests on their way to another node that leads; the order of appends */
void node_forward(struct node *node, struct request *request); /* to the leader, or refuses */
void node_leader_changed(struct node *node);
bool node_forward_owes(const struct node *node); /* answers have not come yet */
/* Each turn: pings, silence and deadlines of the connection to the leader; when next. */
uint64_t node_forward_expire(struct node *node, uint64_t now_ns);
void node_forward_close(struct node *node);
/* Where an append goes now: see struct append_place. 0: nowhere. */
uint64_t node_place(const struct node *node);
/* An append that would overtake what was submitted before it. */
bool node_must_wait(const struct node *node, const struct request *request);

/* lib/node_read.c: linearizable and local reads */
void node_read_add(struct node *node, struct request *request);
void node_read_flush(struct node *node);
void node_read_done(struct node *node, const struct raft_read_result *result);
void node_read_serve(struct node *node);                       /* after applied has moved */
uint64_t node_read_expire(struct node *node, uint64_t now_ns); /* earliest deadline left */
void node_read_fail_all(struct node *node, int rc, const char *text);
void node_answer_read(struct node *node, struct request *request); /* from the present state */
/* Whether what is applied is new enough for LKV_BOUNDED. */
bool node_is_fresh(const struct node *node);
/* What was applied is committed, and as of its revision nothing changes it: no quorum needs to be asked. */
bool node_reads_past(const struct node *node, const struct request *request);
int node_get_local(struct lkv *handle, struct request *request);
/* Of LKV_LEASED; false: not here and now, the loop knows how. Any thread. */
bool node_get_leased(struct lkv *handle, struct request *request);
void node_read_lease(struct node *node, uint64_t until_ns, uint64_t index); /* loop thread */
int node_get_copy(struct lkv *handle, struct slice key, void *into, size_t capacity, size_t *size);

/* ECOMPACTED, EFUTURE: the reply says what can be read; of any other rc nothing. */
void node_read_not_kept(struct lkv_msg *reply, int rc, uint64_t revision,
                        const struct kv_stamp *stamp);

/* lib/node_view.c: revisions pinned for clients. Loop thread, but for node_view_range. */
struct node_view;
void node_view_open(struct node *node, struct request *request); /* fills the reply */
void node_view_close(struct node *node, struct request *request);
/* One of that revision, to be released, or NULL. */
struct node_view *node_view_use(struct node *node, uint64_t revision);
void node_view_release(struct node *node, struct node_view *view); /* NULL is fine */
MUST_USE int node_view_get(struct node_view *view, struct slice key, struct kv_item *out,
                           struct kv_stamp *stamp);
MUST_USE int node_view_range(struct node_view *view, const struct kv_query *query,
                             struct kv_range *out);            /* any thread */
uint64_t node_view_expire(struct node *node, uint64_t now_ns); /* earliest end left */
void node_view_drop_all(struct node *node);

/* lib/node_agree.c: the members compare their states (rule 25) */
void node_agree_turn(struct node *node);
uint64_t node_agree_timer(const struct node *node);                    /* when next */
void node_agree_applied(struct node *node, const struct entry *entry); /* nothing behind it is */
MUST_USE int node_agree_hear(struct node *node, const struct peer *from, struct slice body,
                             struct reason *why);
/* For people; false: nothing is wrong. */
bool node_agree_text(const struct node *node, char *out, size_t size);

/* lib/node_feature.c: the feature level (rule 22) */
/* Submits an entry of the node's own, alone; takes the payload (NULL: empty). False: refused. */
bool node_propose_own(struct node *node, enum entry_type type, struct blob *payload);
void node_feature_turn(struct node *node);
/* This leader has a lower level than the write needs. */
bool node_feature_lacks(const struct node *node, const struct request *request);
/* True: it may be proposed. Else it was taken: refused, or it waits for the level to rise. */
bool node_feature_allows(struct node *node, struct request *request);
void node_feature_refuse(struct node *node, struct request *request);

/* lib/node_compact.c: what the leader gives up of history */
void node_compact_look(struct node *node, uint64_t now_ns);
uint64_t node_compact_deadline(const struct node *node);

/* lib/node_session.c: the leader ends sessions that are silent */
void node_session_touch(struct node *node, uint64_t id);
void node_session_keep(struct node *node, struct request *request); /* to whoever leads */
void node_session_kept(struct node *node, struct request *request); /* a quorum still followed */
void node_session_look(struct node *node, uint64_t now_ns);
uint64_t node_session_deadline(const struct node *node);
void node_session_fini(struct node *node);
bool node_leads_ready(const struct node *node); /* leader, and all of earlier terms is applied */

/* lib/node_lease.c: how long leases live, and who keeps them alive */
void node_lease_ask(struct node *node, struct request *request);    /* whoever leads */
void node_lease_answer(struct node *node, struct request *request); /* a quorum still followed */
void node_lease_appended(struct node *node, const struct request *request, uint64_t index);
void node_lease_turn(struct node *node); /* applied or role may have moved */
void node_lease_look(struct node *node, uint64_t now_ns);
uint64_t node_lease_deadline(const struct node *node);
uint64_t node_lease_expire(struct node *node, uint64_t now_ns); /* earliest deadline left */
void node_lease_fail_all(struct node *node, int rc, const char *text);
void node_lease_fini(struct node *node);

/* lib/node_once.c: appends in sessions, before they have an index */
bool node_once_hold(struct node *node); /* true: what was submitted has to wait */
void node_once_take(struct node *node, struct list_link *from); /* the next run, into submits */
bool node_once_judge(struct node *node);        /* the last look; false: nothing is left */
bool node_once_judges(const struct node *node); /* this leader knows what every number has become */
void node_once_accepted(struct node *node, const struct request *request, uint64_t index,
                        uint64_t term);
void node_once_refused(struct node *node); /* the run in submits was not appended */
void node_once_turn(struct node *node);    /* applied or role may have moved */
uint64_t node_once_expire(struct node *node, uint64_t now_ns); /* earliest deadline left */
void node_once_close(struct node *node);

/* lib/node_watch.c */
MUST_USE int node_watch_open(struct node *node);
void node_watch_close(struct node *node); /* nobody watches any more */
void node_watch(struct node *node, struct request *request);
void node_watch_serve(struct node *node); /* after applied has moved, or the state was replaced */
uint64_t node_watch_expire(struct node *node, uint64_t now_ns); /* earliest deadline left */
void node_watch_fail_all(struct node *node, int rc, const char *text);

/* lib/node_log.c: reads of the log itself */
void node_log_read(struct node *node, struct request *request);
void node_log_span(struct node *node, struct request *request); /* fills the reply */
void node_log_serve(struct node *node); /* those that wait, after applied has moved */
uint64_t node_log_expire(struct node *node, uint64_t now_ns); /* earliest deadline left */
void node_log_fail_all(struct node *node, int rc, const char *text);

/* lib/node_retention.c: how far the log's beginning may go, and what holds it */
void node_hold(struct node *node, struct request *request);
uint64_t node_retention_timer(struct node *node, uint64_t now_ns); /* when next */
uint64_t node_hold_expire(struct node *node, uint64_t now_ns);     /* earliest deadline left */
void node_hold_fail_all(struct node *node, int rc, const char *text);

/* lib/node_own.c: images of the program's state (model own) */
void node_own_image(struct node *node, struct request *request);
/* One that waits, and is of an entry behind the newest image; 0: none. */
uint64_t node_own_due(struct node *node);
void node_own_done(struct node *node, int rc, const struct reason *why); /* it was saved, or not */
uint64_t node_own_expire(struct node *node, uint64_t now_ns);            /* deadline left */
void node_own_fail_all(struct node *node, int rc, const char *text);
/* Bulk thread: what images take now; and a new one, made out of the spare file. LKV_ENOENT: there is no
 * spare of that size. */
void node_retention_image_bytes(struct node *node, uint64_t bytes);
MUST_USE int node_retention_spare_use(struct node *node, const char *path, struct slice bytes,
                                      struct reason *why);

/* lib/node_image.c: own images */
void node_image_consider(struct node *node);
/* Whether the log since the newest image, or a disk short of room, asks for another, and it is time. */
bool node_image_due(const struct node *node);
bool node_short_of_room(const struct node *node);
uint64_t node_image_retry_timer(const struct node *node, uint64_t now_ns); /* when that comes */
void node_step_prefix(struct node *node); /* tells the core where log and image stand */
uint64_t node_image_hold(
    struct node *node); /* the log above it stays: for followers being served */
void node_image_path(const struct node *node, uint64_t index, char *out, size_t size);
uint64_t node_image_name_index(const char *name); /* 0: no image's name */
/* A damaged one that was put aside; it goes when a newer image is durable. */
bool node_image_is_aside(const char *name);
/* Puts aside what lies above the image that recovery took: it could not be read. */
MUST_USE int node_image_put_aside(struct node *node);
MUST_USE int node_image_remove_older(struct node *node, uint64_t keep);

/* lib/node_image_send.c */
void node_image_install(struct node *node, uint64_t peer_id);
void node_image_ack(struct node *node, struct peer *from, struct slice body);
void node_image_peer_down(struct node *node, struct peer *peer);
/* Index of the oldest image on its way to somebody, or to be gone on with; UINT64_MAX: none. */
uint64_t node_image_send_oldest(const struct node *node);
uint64_t node_image_timer(struct node *node, uint64_t now_ns); /* when next */
void node_image_send_cancel(struct node *node);                /* closing */

/* lib/node_image_receive.c */
void node_image_chunk(struct node *node, struct peer *from, struct slice body);
void node_image_receive_turn(struct node *node);
void node_log_restarted(struct node *node, int rc, const struct reason *why);
void node_image_receive_cancel(struct node *node);                     /* closing */
uint64_t node_image_receive_timer(struct node *node, uint64_t now_ns); /* when next */
bool node_image_is_incoming(const char *name); /* of an image that is not whole yet */

/* lib/node_fetch.c: entries from disk for a follower that is behind the window */
void node_fetch(struct node *node, const struct raft_fetch *fetch);
/* `count` entries from `first` on if they were fetched for this peer in this step, else NULL. */
const struct entry *node_fetched(const struct node *node, uint64_t peer, uint64_t first,
                                 size_t count);

/* lib/node_reread.c */
uint64_t node_reread_timer(struct node *node, uint64_t now_ns); /* when next */

/* lib/node_scrub.c: reads what lies at rest; lib/node_repair.h is what becomes of damage */
uint64_t node_scrub_timer(struct node *node, uint64_t now_ns); /* when next */
void node_image_suspect(struct node *node);

/* lib/node_status.c */
void node_answer_status(struct node *node, struct request *request);
void node_answer_digest(struct node *node, struct request *request);
uint64_t node_digest_expire(struct node *node, uint64_t now_ns); /* earliest deadline left */

/* First index that the log keeps. Before the node runs the log belongs to the founding job. */
static inline uint64_t node_log_first(const struct node *node) {
    return node->running || node->offline ? log_first(node->log) : 1;
}

/* The highest feature level that this program knows. */
static inline uint32_t node_knows_level(const struct node *node) {
    return node->world.feature_level != 0 ? node->world.feature_level : FEATURE_LEVEL;
}

/* Now, on the loop's clock. */
static inline uint64_t node_now(const struct node *node) {
    return loop_now_ns(node->world.loop);
}

#endif
