/* The inside of the core, shared by the files of this room and by nobody else.
 *
 * One file for each concern; every function takes the whole state, since a single message may touch
 * the log, the vote and the stream at once. What a step asks for is pushed to raft->update.
 * An allocation that fails sets raft->no_memory and the step goes on with its facts incomplete:
 * raft_step then reports LKV_ENOMEM, and nothing of the update is carried out. */
#ifndef RAFT_CORE_H
#define RAFT_CORE_H

#include "base/assert.h"
#include "base/mem.h"
#include "base/prng.h"
#include "raft/config.h"
#include "raft/damage.h"
#include "raft/early.h"
#include "raft/progress.h"
#include "raft/raft.h"
#include "raft/sizes.h"
#include "raft/terms.h"
#include "raft/writes.h"

enum {
    ROUNDS_REMEMBERED = 64, /* send times of heartbeat rounds, for round trips; a power of two */
    READS_MAX = 65536,      /* reads that wait for a round */
    WRITES_MAX = 16384,     /* writes that are not durable yet */
    PROBE_BYTES_MAX = 16384
};

/* Beyond these a message is nonsense, and arithmetic on it would wrap. */
#define INDEX_MAX (UINT64_MAX / 4)
#define TERM_MAX  (UINT64_MAX / 4)

/* A vote that was given and is on its way to the disk: its reply waits (rule 2). */
struct vote_debt {
    uint64_t candidate; /* RAFT_NOBODY: none */
    uint64_t round;
};

/* One vote round, pre-vote or real. Bits are positions in the configuration. */
struct ballot {
    uint64_t round;
    uint32_t granted, refused;
    bool all_not_ready; /* every refusal said NOT_READY */
    bool has_leader;    /* some voter hears a leader */
    uint32_t immediate; /* immediate repetitions so far, to pace them */
    bool sounding;      /* a follower's, with its leader's token (election_sound) */
};

/* What a follower knows of its leader's log. */
struct stream {
    uint64_t verified;      /* our log equals the leader's up to here; >= commit */
    bool established;       /* this leader's log and ours have met */
    uint64_t leader_commit; /* highest it told; ours follows up to `verified` (R15) */
    uint64_t request_no;    /* newest request taken, to be echoed */
    uint64_t acked;         /* durable index last told */
    bool ack_owed;
    uint64_t gap_first, gap_last, gap_ns; /* last GAP reply */
    bool knows_leases;                    /* it has asked for a promise */
};

struct read {
    uint64_t context;
    uint64_t origin; /* RAFT_NOBODY: this node's own; else the follower that forwarded it */
    uint64_t boot_nonce;
    uint64_t round; /* confirmed once this round is: a heartbeat round, or a forwarded request */
    uint64_t index;
    bool leased; /* its leader's lease will do */
};

struct reads {
    struct read *items; /* owned ring, ascending in round */
    size_t capacity, head, count;
    uint64_t asked;    /* leader: newest round begun for a read. follower: newest request */
    uint64_t asked_ns; /* follower: when */
    bool outstanding;  /* follower: that request is not answered */
    size_t strict;     /* of the items: those for which no lease will do */
};

/* What this voter has promised to leaders (lease.c). */
struct promise {
    uint64_t until_ns;  /* no vote before, but by a token */
    uint64_t silent_ns; /* until then because of what an earlier life may have promised */
    uint32_t given_ms;  /* the longest of this life */
    uint32_t saved_ms;  /* as the newest vote record says, ... */
    uint32_t least_ms;  /* ... and the least that the disk may say */
};

struct transfer {
    uint64_t target; /* RAFT_NOBODY: none */
    uint64_t deadline_ns;
    uint64_t try_ns; /* of transfer_try: not before then again */
};

/* What one peer last said about the gap that is asked about. */
struct repair_heard {
    bool answered;
    uint64_t round; /* which question it answered */
    enum raft_repair_answer answer;
    uint64_t shared_index, shared_term;
};

/* Getting the entries of the first gap from the peers (repair.c). */
struct repair {
    uint64_t due_ns; /* when the peers are asked again; UINT64_MAX: nothing is to be asked */
    uint64_t round;  /* of the newest question: answers to earlier ones are dropped */
    struct gap question;
    uint64_t prev_term;                          /* term of question.first - 1 */
    struct repair_heard heard[RAFT_MEMBERS_MAX]; /* at the configuration's positions */
    size_t donor;                                /* asked for entries or an image ... */
    uint64_t donor_until_ns;                     /* ... and given so long; 0: nobody is */
    uint64_t fill_no, fill_first, fill_last;     /* the fill on its way to the disk; 0: none is */
    uint64_t hopeless_ns; /* nobody can proceed, and then it is given up; 0: not so */
};

/* An end that is not known (catchup.c). */
struct catchup {
    uint64_t context;  /* of the newest question */
    uint64_t asked_ns; /* when; 0: no question is out */
    uint64_t target; /* the leader's answer: durable through here, the end is known; 0: none yet */
    bool settling;   /* it is being made durable ... */
    bool doubted;    /* ... and was doubted again meanwhile: that does not count */
};

struct raft {
    /* immutable after open */
    uint64_t self;
    struct raft_options options;
    uint64_t boot_nonce;

    /* of the step that runs */
    uint64_t now_ns;
    struct raft_update *update;
    bool no_memory;
    struct raft_message lost_message; /* filled in place of one that found no memory */

    struct prng prng;
    struct raft_config config;
    size_t self_slot; /* position in the configuration; config.count when not in it */

    /* the vote record, and what of it is durable */
    uint64_t term, voted_for;
    uint64_t durable_term, durable_vote;
    struct vote_debt debt;

    /* the log */
    struct terms terms;
    struct sizes sizes;
    uint64_t first, last;
    uint64_t before_first_term; /* term of entry first - 1; 0: unknown */
    uint64_t image_index, image_term;
    uint64_t floor_index, floor_term; /* every leader's log holds this entry (rule 19); 0: none */
    uint64_t durable, commit, applied;
    uint64_t reported; /* what the owner may apply, as last told */

    /* damage (rule 11) */
    struct damage gaps;
    bool end_unknown;
    uint64_t cuts; /* so far: what was read before a cut may not be what is there now */
    struct repair repair;
    struct catchup catchup;

    /* the disk */
    struct writes writes;
    enum raft_room room; /* of this node's disk */

    enum raft_role role;
    uint64_t leader;
    bool may_campaign;

    /* follower and candidate */
    uint64_t heard_ns; /* the leader */
    uint64_t election_ns;
    bool retry_soon; /* the timer that starts when the vote record is durable is a short one */
    enum raft_vote_phase phase;
    struct ballot ballot;
    uint64_t campaign_ns;
    uint64_t token_leader, token_term; /* of the transfer that this campaign follows */
    struct stream stream;
    struct early early;
    struct promise promise;

    /* leader */
    struct progress peers[RAFT_MEMBERS_MAX]; /* at the configuration's positions */
    uint64_t noop_index;
    uint64_t leader_since_ns;
    uint64_t blocked_ns; /* a gap is in the way since then; 0: none */
    uint64_t beat_ns;    /* when the next heartbeats are due */
    uint64_t round;      /* newest heartbeat round */
    uint64_t round_ns[ROUNDS_REMEMBERED];
    struct transfer transfer;
    bool lease_over; /* for the rest of this term: somebody has a token of it */

    struct reads reads;

    int stop_rc;
    struct reason stop_why;
    enum raft_role told_role; /* as last reported */
    uint64_t told_term, told_leader;
    uint64_t campaigns, prevotes;
};

/* ------------------------------------------------------------------ raft.c */

static inline uint64_t ms(uint32_t milliseconds) {
    return (uint64_t)milliseconds * 1000000u;
}

/* A contradiction that a peer's message proves, or a dead disk: this node's part ends here. */
void core_stop(struct raft *raft, int rc, const char *format, ...) PRINTF_LIKE(3, 4);

/* Raises the term, in memory and to the disk; the vote in it is open. Any role becomes follower. */
void core_adopt_term(struct raft *raft, uint64_t term);

/* Leaves whatever role it has. `leader` may be RAFT_NOBODY. */
void core_become_follower(struct raft *raft, uint64_t leader);

/* ------------------------------------------------------------------ update.c */

void update_begin(struct raft_update *update);
struct raft_message *update_message(struct raft *raft, enum raft_message_kind kind, uint64_t to);
void update_take(struct raft *raft, uint64_t token, uint64_t first, uint64_t last);
void update_drop(struct raft *raft, uint64_t token);
void update_fetch(struct raft *raft, struct raft_fetch fetch);
void update_install(struct raft *raft, uint64_t peer);
void update_read(struct raft *raft, struct raft_read_result result);
void update_fill(struct raft *raft, struct raft_fill fill);

/* ------------------------------------------------------------------ log.c */

void log_append(struct raft *raft, uint64_t term, uint32_t size);   /* after sizes_reserve */
void log_cut(struct raft *raft, uint64_t from, uint64_t prev_term); /* term of from - 1 */
bool log_reserve(struct raft *raft, size_t count);
uint64_t log_last_term(const struct raft *raft);
bool log_holds_floor(const struct raft *raft);                  /* rule 19 */
bool log_is_committed(const struct raft *raft, uint64_t index); /* as far as this node knows */
void log_save_vote(struct raft *raft);
void log_write_end(struct raft *raft); /* gives this step's write its number */
void log_persisted(struct raft *raft, uint64_t write_no);
bool log_vote_is_durable(const struct raft *raft);

/* The first gap above the durable image; NULL: none. What lies at or below the image blocks nothing. */
struct gap *log_blocked(const struct raft *raft);

/* Up to here entries are durable and can be read, or are covered by the image. */
uint64_t log_sound(const struct raft *raft);

/* The highest index at most `limit` whose term is known to be this one; or, with `or_lower`, the highest
 * one whose term is this one or a lower one, when that is known. 0: it is not. */
uint64_t log_last_known(const struct raft *raft, uint64_t term, uint64_t limit, bool or_lower);

/* The gap's first entry, or what is known around it, has changed: when the terms at both ends are the
 * same, so are all between. */
void log_gap_changed(struct raft *raft, struct gap *gap);

/* What a follower states as received; without a known end only what is durable: the leader counts on
 * that for how much may be on the way (progress.h). */
uint64_t log_received_to_state(const struct raft *raft);

/* Durable in a durable term: what an acknowledgement may state (rule 2). */
uint64_t log_durable_to_state(const struct raft *raft, uint64_t index);

/* ------------------------------------------------------------------ election.c */

void election_arm(struct raft *raft);
void election_arm_retry(struct raft *raft);
void election_tick(struct raft *raft);
void election_campaign(struct raft *raft, uint64_t token_leader); /* raises the term */
void election_sound(struct raft *raft);
void election_vote_durable(struct raft *raft);
void election_reply(struct raft *raft, const struct raft_message *message);

/* ------------------------------------------------------------------ vote.c */

void vote_request(struct raft *raft, const struct raft_message *message);
void vote_durable(struct raft *raft);
bool vote_hears_leader(const struct raft *raft);

/* ------------------------------------------------------------------ leader.c */

void leader_begin(struct raft *raft);
void leader_end(struct raft *raft);
void leader_tick(struct raft *raft);
void leader_beat(struct raft *raft); /* heartbeats of a new round to everybody */
void leader_submit(struct raft *raft, const struct raft_event *event);
void leader_append_reply(struct raft *raft, size_t slot, const struct raft_message *message);
void leader_heartbeat_reply(struct raft *raft, size_t slot, const struct raft_message *message);
void leader_image_sent(struct raft *raft, const struct raft_event *event);
void leader_peer(struct raft *raft, const struct raft_event *event);

/* ------------------------------------------------------------------ replicate.c */

void replicate_to(struct raft *raft, size_t slot);
void replicate_image(struct raft *raft, size_t slot); /* in any role; the peer is up */
void replicate_to_all(struct raft *raft);
void replicate_again(struct raft *raft, size_t slot, uint64_t first, uint64_t last);
void leader_fetched(struct raft *raft, const struct raft_event *event);

/* ------------------------------------------------------------------ follow.c */

void follow_reset(struct raft *raft); /* another leader or term: nothing is verified yet */
void follow_drop_early(struct raft *raft);
void follow_append(struct raft *raft, const struct raft_message *message, uint64_t token);
void follow_heartbeat(struct raft *raft, const struct raft_message *message);
void follow_persisted(struct raft *raft);

/* ------------------------------------------------------------------ commit.c */

void commit_by_counting(struct raft *raft); /* leader */
void commit_up_to(struct raft *raft, uint64_t index);
bool commit_quorum_heard(const struct raft *raft); /* check-quorum (rule 4) */

/* ------------------------------------------------------------------ read.c */

void read_ask(struct raft *raft, uint64_t context, bool leased);
void read_request(struct raft *raft, const struct raft_message *message);
void read_reply(struct raft *raft, const struct raft_message *message);
void read_confirm(struct raft *raft);      /* leader: an echo came */
void read_heard_leader(struct raft *raft); /* follower: repeats what was lost */
void read_fail_all(struct raft *raft);

/* ------------------------------------------------------------------ lease.c */

uint32_t lease_promise(struct raft *raft, uint32_t asked_ms); /* voter: what it gives */
bool lease_is_promised(const struct raft *raft);              /* voter: no vote now */
void lease_persisted(struct raft *raft, const struct pending_write *write);
void lease_echo(struct raft *raft, size_t slot, uint64_t round, uint32_t promise_ms);
uint64_t lease_until(const struct raft *raft); /* leader */
bool lease_holds(const struct raft *raft);

/* ------------------------------------------------------------------ transfer.c */

int transfer_begin(struct raft *raft, uint64_t target);
void transfer_tick(struct raft *raft);
void transfer_progress(struct raft *raft); /* the target may have caught up */
void transfer_now(struct raft *raft, const struct raft_message *message);
bool transfer_pending(const struct raft *raft);
uint64_t transfer_best(const struct raft *raft, bool healthy_only);
void transfer_try(struct raft *raft);

/* ------------------------------------------------------------------ disk.c */

bool disk_stuck(const struct raft *raft, uint32_t limit_ms);
bool disk_can_vote(const struct raft *raft);
void disk_watch(struct raft *raft); /* leader: hands over when its own disk is sick (rule 5) */
void disk_failed(struct raft *raft);
bool disk_quorum_has_room(const struct raft *raft, enum raft_room needed);

/* ------------------------------------------------------------------ repair.c */

bool repair_may_lead(const struct raft *raft); /* rule 11: whoever is damaged does not campaign */
void repair_tick(struct raft *raft);
void repair_changed(struct raft *raft); /* gaps, the configuration, the end: ask (again) at once */
void repair_reread(struct raft *raft, const struct raft_message *message, uint64_t token);
void repair_damaged(struct raft *raft, const struct raft_event *event);
void repair_filled(struct raft *raft); /* the fill is durable */
void repair_reply(struct raft *raft, const struct raft_message *message, uint64_t token);
void repair_peer_restarted(struct raft *raft, size_t slot); /* its answers count no more */

/* ------------------------------------------------------------------ donate.c */

void donate_request(struct raft *raft, const struct raft_message *message);
void donate_fetched(struct raft *raft, const struct raft_event *event);

/* ------------------------------------------------------------------ catchup.c */

void catchup_ask(struct raft *raft);
void catchup_request(struct raft *raft, size_t slot, const struct raft_message *message);
void catchup_confirm(struct raft *raft); /* leader: an echo came */
void catchup_reply(struct raft *raft, const struct raft_message *message);
void catchup_lost_leader(struct raft *raft);
void catchup_check(struct raft *raft); /* entries became durable */
void catchup_settled(struct raft *raft);
void catchup_doubted(struct raft *raft);

/* ------------------------------------------------------------------ image.c */

void image_installed(struct raft *raft, const struct raft_event *event);
void image_log_prefix(struct raft *raft, const struct raft_event *event);

#endif
