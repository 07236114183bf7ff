/* Consensus as a pure function of its inputs: raft_step(raft, event, update).
 *
 * No I/O, no clock, no payload bytes, no callback. The owner stamps the time on each event, carries
 * out what the update asks for, and reports what came of it as later events. Same start, same
 * events: same updates. One thread.
 *
 *            events                                          update
 *   time, messages, submissions,                 one write for the log, messages to peers,
 *   what became durable or applied   ->  core ->  ranges to fetch from disk, the commit index,
 *   reads, peers' restarts                       role changes, finished reads, the next deadline
 *
 * The owner's duties, all of them:
 *   1. It carries out an update completely, in the order of the struct's fields, before the next step.
 *   2. Writes reach the disk in the order of their numbers. PERSISTED(n) says that all up to n are
 *      durable; a later write may replace what an earlier one appended (a cut).
 *   3. Messages may be lost, delayed, doubled and reordered at will.
 *   4. Payload of accepted entries is kept by the owner: see `takes`.
 *   5. It steps a TICK at or soon after `deadline_ns`.
 *
 * Damage (rule 11). Entries that were durable here and cannot be read are a gap. The core votes with
 * its log's end all the same, but does not campaign, acknowledges and lets apply nothing from the
 * first gap on, and asks its peers for the entries, with a leader or without one:
 *
 *   REPAIR_REQUEST ->  status: can you read from `first` on, and do you have the same log?
 *   <- REPAIR_REPLY    readable, unreadable, compacted, ...      (the owner only carries these)
 *   REPAIR_REQUEST ->  entries, to one of those that can read
 *   <- REPAIR_REPLY    with entries: update.fills, and a write
 *   PERSISTED          the gap is shorter
 *
 * What the owner does for it, beyond the above: duties 6 to 9.
 *   6. Fills come with a write of their own that holds nothing else: the payload of entries [first,
 *      last] of the reply that came with `token` goes to the log thread (not to the window) and is
 *      written where it was; then the write is PERSISTED like any other.
 *   7. A repair reply *sent* carries entries like an append: its entry i has index `first` + i; their
 *      payload is framed from the window, or, in the step of a FETCHED with `repair`, from what was
 *      fetched. One *received* with entries comes with a token like an append (it is never `kept`).
 *   8. A read of this log that meets damage is told with DAMAGED before the FETCHED that fails for it.
 *   9. A log whose end is unknown comes to rest by `settle_end`: it is made durable, behind all earlier
 *      writes, that the end is known again; then END_SETTLED is told.
 */
#ifndef RAFT_RAFT_H
#define RAFT_RAFT_H

#include "base/entry.h"
#include "base/error.h"

struct raft;

enum {
    RAFT_MEMBERS_MAX = 15,          /* voters and learners together */
    RAFT_NOBODY = 0,                /* no member id is 0 */
    RAFT_APPEND_ENTRIES_MAX = 16384 /* in one append request or repair reply */
};

/* ------------------------------------------------------------------ configuration */

struct raft_member {
    uint64_t id;    /* made from the node's incarnation (rule 17) */
    bool voter;     /* in the incoming set; else a learner */
    bool voter_old; /* in the outgoing set while a joint configuration lasts */
};

struct raft_config {
    struct raft_member members[RAFT_MEMBERS_MAX]; /* ascending by id */
    size_t count;
};

struct raft_options {
    uint32_t heartbeat_ms;          /* 50 */
    uint32_t election_min_ms;       /* 300: also how long a quorum may be silent (check-quorum) */
    uint32_t election_max_ms;       /* 600 */
    uint32_t disk_hang_ms;          /* 2000: rule 5 */
    uint32_t inflight_bytes_max;    /* per peer, 8 MiB */
    uint32_t inflight_requests_max; /* per peer, 512 */
    uint32_t append_bytes_max;      /* payload in one append request, 1 MiB */
    uint64_t uncommitted_bytes_max; /* in-flight proposals, 64 MiB: beyond it submit is LKV_EBUSY */
    uint32_t
        promise_ms; /* that this leader asks of voters (rule 30), at most election_min_ms; 0: none */
    uint32_t
        drift_ppm; /* by which clocks may differ in rate, below a million: so much shorter is a lease */
};

struct raft_options raft_options_default(void);

/* ------------------------------------------------------------------ start */

struct raft_run {
    uint64_t first, term; /* entries from `first` up to the next run have this term */
};

/* Entries that were durable here and cannot be read. The last one's term is always known. When the
 * term before `first` is the same, all terms in between are known too, since terms never fall. */
struct raft_gap {
    uint64_t first, last;
    uint64_t last_term;
};

/* Persisted state, as recovery found it; everything is borrowed for the call. */
struct raft_start {
    uint64_t self;
    struct raft_config config; /* the newest known; its index is 0 or at most image_index for now */
    struct raft_options options;
    uint64_t seed;   /* for election delays and this boot's nonce: another one at each start */
    uint64_t now_ns; /* monotonic */
    uint64_t term, voted_for;
    uint64_t first, last; /* the log; last = first - 1 when it is empty */
    const struct raft_run
        *runs; /* what they say of entries in gaps, but for the last, is not used */
    size_t run_count;
    /* Ascending and disjoint, above image_index. A lost image is a gap like any other: from the newest
     * readable image (or 1) to the first entry that is there. */
    const struct raft_gap *gaps;
    size_t gap_count;
    /* More than `last` may have been durable here: until a leader has confirmed otherwise this node
     * neither votes nor acknowledges. */
    bool end_unknown;
    uint64_t image_index, image_term; /* newest durable image, 0 without one; committed by nature */
    bool campaign_gate;               /* see RAFT_GATE */
    /* Rule 19: the last entry of the log that this cluster grew from, committed by its one voter.
     * A node whose log ends before it neither campaigns nor votes for another such node; and nothing
     * at or below it is ever proved uncommitted by how few hold it (rule 11). 0: none. */
    uint64_t floor_index, floor_term;
    /* Rule 30: the longest promise that an earlier life may have given, as the newest write with a vote said.
     * For so long this one gives no vote. */
    uint32_t promised_ms;
};

/* Refuses a start that contradicts itself with LKV_EINVAL and the reason. The window is empty: sizes
 * of older entries come by FETCHED. The first deadline comes out of the first step, a TICK. */
MUST_USE int raft_open(struct raft **out, const struct raft_start *start, struct reason *why);
void raft_close(struct raft *raft); /* NULL is fine */

/* ------------------------------------------------------------------ messages */

enum raft_message_kind {
    RAFT_VOTE_REQUEST = 1,
    RAFT_VOTE_REPLY = 2,
    RAFT_APPEND = 3,
    RAFT_APPEND_REPLY = 4,
    RAFT_HEARTBEAT = 5,
    RAFT_HEARTBEAT_REPLY = 6,
    RAFT_READ_REQUEST = 7,
    RAFT_READ_REPLY = 8,
    RAFT_TRANSFER_NOW = 9,
    RAFT_REPAIR_REQUEST = 10,
    RAFT_REPAIR_REPLY = 11,
    RAFT_CATCHUP_REQUEST = 12,
    RAFT_CATCHUP_REPLY = 13
};

/* What a node's log can still take (rule 15). Numbers are on the wire. */
enum raft_room {
    RAFT_ROOM_NONE = 0,     /* nothing: a write did not fit */
    RAFT_ROOM_RESERVED = 1, /* what is kept for deletes and for the cluster's own entries */
    RAFT_ROOM_FREE = 2
};

/* Why a vote or pre-vote was given or refused; DLedger's words where it has one. */
enum raft_vote_answer {
    RAFT_VOTE_ACCEPT = 1,
    RAFT_VOTE_TERM_SMALL = 2,    /* the voter's term is higher: adopt it */
    RAFT_VOTE_ALREADY_VOTED = 3, /* for another in this term */
    RAFT_VOTE_LOG_BEHIND = 4,    /* the asker's log is older */
    RAFT_VOTE_HAS_LEADER = 5,    /* stickiness: a live leader is heard; term not adopted */
    RAFT_VOTE_NOT_READY = 6,     /* vote record being written, or disk unable: ask again at once */
    RAFT_VOTE_NOT_MEMBER = 7     /* known as removed, or wrong incarnation */
};

struct raft_entry_meta {
    uint64_t term;
    uint32_t size; /* payload bytes */
    uint8_t type;  /* enum entry_type */
};

enum raft_append_result {
    RAFT_APPEND_OK = 1,       /* everything up to `received` matches the leader's log */
    RAFT_APPEND_CONFLICT = 2, /* (prev_index, prev_term) is not in the follower's log */
    RAFT_APPEND_GAP = 3       /* kept early; [want_first, want_last] is missing */
};

enum raft_repair_want {
    RAFT_REPAIR_STATUS = 1,  /* only the answer */
    RAFT_REPAIR_ENTRIES = 2, /* as many as the donor can read and `bytes_max` lets through */
    RAFT_REPAIR_IMAGE = 3    /* an image that covers `first` */
};

/* What a peer says of the asker's unreadable entry `first`. "Holds" is proven by an (index, term) at
 * or behind it that both logs have: then all below is the same (log matching). */
enum raft_repair_answer {
    RAFT_REPAIR_READABLE = 1,    /* holds it and can read it */
    RAFT_REPAIR_UNREADABLE = 2,  /* holds it, in a gap of its own */
    RAFT_REPAIR_ABSENT = 3,      /* proven: does not hold it */
    RAFT_REPAIR_UNSURE = 4,      /* may hold it, but nothing proves it */
    RAFT_REPAIR_END_UNKNOWN = 5, /* may have held it and lost it */
    RAFT_REPAIR_COMPACTED = 6    /* has an image that covers it */
};

struct raft_message {
    enum raft_message_kind kind;
    uint64_t from, to; /* member ids */
    uint64_t term;     /* sender's term; of a pre-vote request: sender's term, not raised */
    union {
        struct {
            bool pre;              /* asks whether `term + 1` would get the vote; binds nobody */
            bool by_transfer;      /* rule 3: passes stickiness when the token is right ... */
            uint64_t token_leader; /* ... this leader sent it */
            uint64_t token_term;   /* ... in this term */
            uint64_t last_index, last_term;
            uint64_t round; /* echoed, so that replies of an earlier round do not count (R4) */
        } vote_request;
        struct {
            bool pre;
            enum raft_vote_answer answer;
            uint64_t round;
        } vote_reply;
        struct {
            uint64_t prev_index, prev_term;
            uint64_t commit;
            uint64_t request_no; /* of this leader's stream to this peer, from 1 */
            uint32_t count; /* entries prev_index + 1 .. prev_index + count; may be 0 (probe) */
            const struct raft_entry_meta *entries; /* when received: borrowed; when sent: NULL */
        } append;
        struct {
            enum raft_append_result result;
            uint64_t request_no;     /* echoed */
            uint64_t durable;        /* verified against this leader and durable at the follower */
            uint64_t received;       /* verified and held in memory, >= durable */
            uint64_t conflict_term;  /* term at prev_index here, 0: the log is shorter */
            uint64_t conflict_first; /* first index of that term here, or last + 1 */
            uint64_t want_first, want_last;
            enum raft_room room; /* of the follower's disk (rule 15) */
        } append_reply;
        struct {
            uint64_t commit;     /* never beyond what this leader verified on this peer */
            uint64_t round;      /* numbered read and check-quorum round (rule 29) */
            uint32_t promise_ms; /* asks the voter to give nobody a vote for so long; 0: does not */
        } heartbeat;
        struct {
            uint64_t round;
            uint64_t durable, received; /* as in append_reply */
            enum raft_room room;
            uint32_t
                promise_ms; /* given, from when the heartbeat came on; at most what was asked */
        } heartbeat_reply;
        struct {
            uint64_t context, boot_nonce; /* echoed */
            bool leased;                  /* the leader's lease will do instead of a round */
        } read_request;
        struct {
            uint64_t context, boot_nonce;
            uint64_t index;
            int rc; /* 0, LKV_ENOTLEADER, LKV_EBUSY */
        } read_reply;
        struct {
            uint64_t last_index; /* the target asks at once if it holds this */
        } transfer_now;
        struct {
            enum raft_repair_want want;
            uint64_t first, last; /* of the asker's gap; 0, 0: asks only whether the end is known */
            uint64_t prev_term;   /* term of first - 1 at the asker, 0: none or unknown */
            uint64_t last_term;   /* term of `last` at the asker */
            uint32_t bytes_max;   /* payload in the reply, but for one entry */
            uint64_t boot_nonce,
                round; /* echoed: replies to an earlier life or question are dropped */
        } repair_request;
        struct {
            enum raft_repair_answer answer;
            uint64_t boot_nonce, round;
            /* READABLE: up to here both logs are proven to be the same, at most to `last`.
             * UNREADABLE: they are, and it is the lowest from `first` on whose term is known.
             * UNSURE: the donor does not have the asker's entry `last`; this is its own last one
             * below that whose term is not above last_term; and the logs are the same up to
             * first - 1. 0, 0: some of this is not known. Otherwise 0, 0. */
            uint64_t shared_index, shared_term;
            uint64_t first; /* of the entries */
            uint32_t count;
            const struct raft_entry_meta *entries; /* when received: borrowed; when sent: NULL */
        } repair_reply;
        struct {
            uint64_t context, boot_nonce; /* echoed */
        } catchup_request;
        struct {
            uint64_t context, boot_nonce;
            uint64_t index; /* the leader's last one when the question came */
        } catchup_reply;
    };
};

/* ------------------------------------------------------------------ events */

enum raft_event_kind {
    RAFT_TICK,            /* the deadline has come, or nothing in particular */
    RAFT_RECEIVE,         /* a message of a peer whose hello was accepted */
    RAFT_SUBMIT,          /* append entries to the log: the leader's business */
    RAFT_PERSISTED,       /* writes up to a number are durable */
    RAFT_WRITE_FAILED,    /* the log can take no more: stop_rc LKV_EIO (rules 5 and 10) */
    RAFT_SPACE,           /* the disk became short of room or full, or has room again */
    RAFT_APPLIED,         /* the state machine has applied up to an index */
    RAFT_READ,            /* asks for a read index */
    RAFT_FETCHED,         /* entries of a `fetch` are in memory now, to be framed in this step */
    RAFT_PEER,            /* a peer's hello: connected, or gone */
    RAFT_IMAGE_SENT,      /* an `install` ended */
    RAFT_IMAGE_INSTALLED, /* a received image is durable here and replaces the log up to it */
    RAFT_LOG_PREFIX,      /* the log's first index moved up (own image is durable) */
    RAFT_TRANSFER,        /* hand leadership over */
    RAFT_GATE,            /* whether this node may campaign (rule 31) */
    RAFT_DAMAGED,         /* entries of this log turned out to be unreadable */
    RAFT_REREAD,          /* the beginning of the first gap could be read again, here */
    RAFT_END_SETTLED,     /* what `settle_end` asked for is durable */
    RAFT_END_DOUBTED      /* a peer has seen acknowledgements beyond this log's end (rule 17) */
};

struct raft_event {
    enum raft_event_kind kind;
    uint64_t now_ns;
    union {
        struct {
            const struct raft_message *message;
            uint64_t token; /* non-zero; names the payload that came with an append */
        } receive;
        /* What lies in this log's own files, as a REPAIR_REPLY that nobody has sent: `first`, `count`, `entries`;
         * `token` as in `receive`. When it is what the gap held, it comes back in `fills` at once. */
        struct {
            const struct raft_message *message;
            uint64_t token;
        } reread;
        struct {
            const uint32_t *sizes; /* payload bytes of each entry; type ENTRY_COMMAND */
            size_t count;
            uint64_t in_term; /* 0, or refused with LKV_ETERM in any other term */
            bool reserved;    /* they free space: the reserved room is for them (rule 15) */
        } submit;
        struct {
            uint64_t write_no;
        } persisted;
        struct {
            enum raft_room room;
        } space;
        struct {
            uint64_t index;
        } applied;
        struct {
            uint64_t context; /* the owner's; comes back in `reads` */
            bool leased;      /* the leader's lease will do instead of a round (rule 30) */
        } read;
        struct {
            uint64_t peer;
            uint64_t from;         /* as asked */
            const uint32_t *sizes; /* of the entries from `from` on */
            size_t count;          /* 0 with rc != 0: could not be read */
            int rc;
            bool repair; /* as in the fetch */
        } fetched;
        struct {
            uint64_t peer;
            bool up;
            uint64_t boot_nonce; /* another nonce than before: progress is dropped (rule 11) */
            bool promises;       /* its program knows what promises are (rule 30) */
        } peer;
        struct {
            uint64_t peer;
            uint64_t index; /* image's index */
            int rc;         /* 0: durable at the peer */
        } image_sent;
        /* When raft_keeps_log says so, what follows the entry stays. Otherwise the log is empty and
         * goes on at index + 1; write.cut_from then drops what lay beyond. */
        struct {
            uint64_t index, term;
            struct raft_config config;
        } image_installed;
        struct {
            uint64_t first;                   /* the log's first index now */
            uint64_t image_index, image_term; /* >= first - 1 */
        } log_prefix;
        struct {
            uint64_t target; /* RAFT_NOBODY: the best caught-up voter */
        } transfer;
        struct {
            bool may_campaign;
        } gate;
        /* Entries that are no longer in the log, or known as damaged, are passed over. Of a fill that
         * is under way: it did not hold, and the gap stays when its write is PERSISTED. */
        struct {
            uint64_t first, last;
        } damaged;
    };
};

/* ------------------------------------------------------------------ update */

/* Entries [first, last] of the append that came with `token` are now part of this node's log: move
 * their payload to the window. */
struct raft_take {
    uint64_t token;
    uint64_t first, last;
};

/* Entries [first, last] of the repair reply that came with `token` close the beginning of a gap. */
struct raft_fill {
    uint64_t token;
    uint64_t first, last;
};

struct raft_write {
    uint64_t no; /* 0: nothing to write */
    bool save_vote;
    uint64_t term, voted_for; /* with save_vote, */
    uint32_t promised_ms;     /* and comes back in the next start, too */
    uint64_t cut_from;        /* 0, or: first drop entries from here on */
    /* With cut_from: the term of the entry before. The log knows it too, unless that entry is in a gap:
     * then this is the term that the gap's last entry has from now on, and the new segment's header
     * must carry it. (A peer has proven that entry cut_from differs; what is left of the gap equals
     * that peer's log. Cut and term must be one act: filling first would leave, after a crash, the
     * peer's entries in front of our own later ones.) */
    uint64_t cut_prev_term;
    uint64_t first, last; /* then append these; none when last < first */
};

struct raft_fetch {
    uint64_t peer, from;
    uint64_t to;        /* inclusive: the last index that is wanted at most */
    uint32_t bytes_max; /* at least one entry, then as many as fit */
    bool repair; /* for a repair reply; there may be one such fetch beside a peer's other one */
};

enum raft_role {
    RAFT_FOLLOWER,
    RAFT_CANDIDATE,
    RAFT_LEADER,
    RAFT_STOPPED /* only by stop_rc; votes, acknowledges and campaigns no more */
};

struct raft_read_result {
    uint64_t context;
    uint64_t index; /* serve when applied >= index */
    int rc;         /* 0; LKV_ENOTLEADER, LKV_ENOLEADER (deposed, lost), LKV_EBUSY: ask again */
};

/* Zero-initialise once and reuse; the arrays belong to it until raft_update_fini. Valid until the
 * next step with it. */
struct raft_update {
    /* The message of this RECEIVE is held for later: keep its payload under the token. Otherwise
     * nothing but this update's takes refers to it. */
    bool kept;
    struct raft_take *takes; /* in this order; before `write`, after a cut of the window */
    size_t take_count;
    uint64_t *drops; /* tokens kept earlier whose payload is no longer needed, after the takes */
    size_t drop_count;

    /* When write.cut_from != 0 the window is cut there first, then `takes` are pushed. On the disk:
     * the vote record, the cut, the entries. Entries that are neither this SUBMIT's nor taken are
     * the one empty ENTRY_NOOP of a new leader. */
    struct raft_write write;
    struct raft_fill *fills; /* they are what `write` writes, which then holds nothing else */
    size_t fill_count;

    struct raft_message *messages; /* an append's payload is framed from the window, or, for the
                                      peer of this FETCHED event, from what was fetched; a repair
                                      reply's likewise (duty 7) */
    size_t message_count;
    struct raft_fetch *fetches; /* each answered by exactly one FETCHED */
    size_t fetch_count;
    uint64_t *installs; /* peers that need an image; each answered by exactly one IMAGE_SENT */
    size_t install_count;

    /* Of this SUBMIT: 0, LKV_ENOTLEADER, LKV_EBUSY, LKV_ETERM, LKV_EREADONLY. Of this TRANSFER: 0 it
     * was begun, LKV_ENOTLEADER, LKV_EBUSY no such voter is live and close behind. */
    int submit_rc;
    uint64_t submit_first; /* index of the first entry */

    /* Always set: entries up to here are committed *and durable here*, so they may be applied
     * (rule 12). Never falls. raft_status tells what is committed alone. */
    uint64_t commit;

    bool role_changed; /* any of the three */
    enum raft_role role;
    uint64_t term;
    uint64_t leader; /* RAFT_NOBODY when unknown */

    struct raft_read_result *reads;
    size_t read_count;

    /* Always set, and to be told to whoever reads beside the core before anything else of the update is
     * carried out: until then nobody else leads, so that a state that has applied lease_index is
     * linearizable (rule 30). 0: there is no lease; UINT64_MAX: nobody else could lead. */
    uint64_t lease_until_ns, lease_index;

    bool settle_end; /* duty 9; asked once, and again after an END_DOUBTED */

    /* Not 0: entries from here on were proven to be committed nowhere and to be readable nowhere,
     * and are cut by `write`; `note` says who answered what, for the trace (rule 11). */
    uint64_t discarded_from;
    struct reason note;

    uint64_t deadline_ns; /* always set; UINT64_MAX: none */

    int stop_rc; /* 0, or the checked error that ended this node's part (R16, rule 13) */
    struct reason stop_why;

    size_t take_capacity, drop_capacity, message_capacity, fetch_capacity, install_capacity,
        read_capacity, fill_capacity;
};

void raft_update_fini(struct raft_update *update);

/* 0, or LKV_ENOMEM: the update is incomplete and nothing of it may be carried out; every later step
 * fails too, since memory here and the disk have parted: the node must stop. */
MUST_USE int raft_step(struct raft *raft, const struct raft_event *event,
                       struct raft_update *update);

/* ------------------------------------------------------------------ looking in */

/* DLedger's vote phases, made safe (see docs/ARCHITECTURE.md): asking binds nobody in
 * WAIT_TO_REVOTE; the term is raised and made durable only in WAIT_TO_VOTE_NEXT. */
enum raft_vote_phase {
    RAFT_PHASE_NONE,
    RAFT_WAIT_TO_REVOTE,
    RAFT_WAIT_TO_VOTE_NEXT,
    RAFT_PASSED,
    RAFT_REVOTE_IMMEDIATELY
};

struct raft_status {
    enum raft_role role;
    enum raft_vote_phase phase;
    uint64_t term, voted_for, leader;
    uint64_t first, last, last_term, durable, commit, applied;
    uint64_t noop_index;        /* of this leader's own term; 0 otherwise */
    uint64_t lease_until_ns;    /* as in an update */
    uint64_t promised_until_ns; /* no vote before, but by the leader's token */
    uint64_t campaigns, prevotes;
    /* Damage above the durable image; what lies at or below it blocks nothing and is not counted. */
    size_t gap_count;
    uint64_t damaged_entries;
    struct raft_gap first_gap; /* zeros without one */
    bool end_unknown;
};

enum raft_progress_state { RAFT_PROBE, RAFT_REPLICATE, RAFT_INSTALL };

struct raft_peer_status {
    uint64_t id;
    bool voter, up;
    enum raft_room room;
    enum raft_progress_state state;
    uint64_t match, next;
    uint32_t inflight_bytes, inflight_requests;
    uint64_t heard_ns; /* last message from it, 0: never in this leader's time */
};

void raft_status(const struct raft *raft, struct raft_status *out);

/* Peers of the active configuration without this node, ascending by id; how many were written. */
size_t raft_peers(const struct raft *raft, struct raft_peer_status *out, size_t capacity);

/* The gaps that `raft_status` counts, ascending: writes at most `capacity` and returns how many there
 * are. */
size_t raft_gaps(const struct raft *raft, struct raft_gap *out, size_t capacity);

/* For people: which entry is being got back, and what each peer last said of it; empty when all is well. */
void raft_repair_text(const struct raft *raft, struct reason *out);

/* Whether IMAGE_INSTALLED (index, term) will keep the entries behind `index`: it is in the log, or lies
 * in a gap and its term is not known to be another one. False: the log begins anew behind it. The owner
 * asks before that event, to do the same on disk. */
bool raft_keeps_log(const struct raft *raft, uint64_t index, uint64_t term);

/* Whether IMAGE_INSTALLED of that index would change anything: it is beyond what is committed here, or
 * closes (a part of) a gap. Otherwise the event is passed over. */
bool raft_wants_image(const struct raft *raft, uint64_t index);

/* Term of an entry of the log or of the image's last one; 0 when unknown, as in gaps. */
uint64_t raft_term_at(const struct raft *raft, uint64_t index);

/* Sizes of entries below this index may be forgotten: the owner's window no longer holds them, and
 * the core will ask for them by `fetches`. */
void raft_window_first(struct raft *raft, uint64_t first);

/* How far the log's window must reach back so that no peer that keeps up needs the disk. */
uint64_t raft_window_needed(const struct raft *raft);

#endif
