/* Linearizable reads: a quorum confirms, after the read arrived, that its leader still leads
 * (Ongaro's thesis, 6.4; rule 29).
 *
 *   leader    reads that come while a round is on the way share the next one
 *   follower  asks the leader for an index; reads that come meanwhile share the next request
 *
 * Rounds are numbered, only echoes of this term and number count. The owner serves a read when it
 * has applied its index, which is never below this leader's own no-op.
 *
 * Who says that a lease will do gets the commit index of a leader that has one, without a round (lease.c). */
#include "raft/core.h"

static struct read *item(const struct reads *reads, size_t position) {
    return &reads->items[(reads->head + position) & (reads->capacity - 1)];
}

static bool grow(struct reads *reads) {
    size_t capacity = reads->capacity > 0 ? reads->capacity * 2 : 64;
    struct read *items = mem_alloc(capacity * sizeof *items);
    if (items == NULL) {
        return false;
    }
    for (size_t i = 0; i < reads->count; i++) {
        items[i] = *item(reads, i);
    }
    mem_free(reads->items);
    reads->items = items;
    reads->capacity = capacity;
    reads->head = 0;
    return true;
}

static void push(struct raft *raft, struct read read) {
    struct reads *reads = &raft->reads;
    if (reads->count == reads->capacity && !grow(reads)) {
        raft->no_memory = true;
        return;
    }
    *item(reads, reads->count++) = read;
    reads->strict += !read.leased;
}

static void pop(struct reads *reads) {
    reads->strict -= !item(reads, 0)->leased;
    reads->head = (reads->head + 1) & (reads->capacity - 1);
    reads->count--;
}

static void finish(struct raft *raft, const struct read *read, uint64_t index, int rc) {
    if (read->origin == RAFT_NOBODY) {
        update_read(raft,
                    (struct raft_read_result){.context = read->context, .index = index, .rc = rc});
        return;
    }
    struct raft_message *reply = update_message(raft, RAFT_READ_REPLY, read->origin);
    reply->read_reply.context = read->context;
    reply->read_reply.boot_nonce = read->boot_nonce;
    reply->read_reply.index = index;
    reply->read_reply.rc = rc == LKV_ENOLEADER ? LKV_ENOTLEADER : rc;
}

void read_fail_all(struct raft *raft) {
    struct reads *reads = &raft->reads;
    for (size_t i = 0; i < reads->count; i++) {
        finish(raft, item(reads, i), 0, LKV_ENOLEADER);
    }
    reads->head = reads->count = reads->strict = 0;
    reads->outstanding = false;
}

/* ------------------------------------------------------------------ leader */

static uint64_t confirmed_round(const struct raft *raft) {
    uint64_t echoes[RAFT_MEMBERS_MAX] = {0};
    for (size_t i = 0; i < raft->config.count; i++) {
        echoes[i] = i == raft->self_slot ? raft->round : raft->peers[i].echo;
    }
    return config_quorum_value(&raft->config, echoes);
}

static void begin_round(struct raft *raft) {
    leader_beat(raft);
    raft->reads.asked = raft->round;
}

void read_confirm(struct raft *raft) {
    struct reads *reads = &raft->reads;
    uint64_t confirmed = confirmed_round(raft);
    while (reads->count > 0 && item(reads, 0)->round <= confirmed) {
        finish(raft, item(reads, 0), item(reads, 0)->index, 0);
        pop(reads);
    }
    if (reads->count > 0 && confirmed >= reads->asked && item(reads, 0)->round > raft->round) {
        begin_round(raft); /* for those that came while the last one was on the way */
    }
}

/* A round counts for a read only when it began after the read came. */
static void lead_read(struct raft *raft, struct read read) {
    struct reads *reads = &raft->reads;
    if (read.leased &&
        lease_holds(raft)) { /* asked before this moment, and nobody else leads at it */
        finish(raft, &read, raft->commit, 0);
        return;
    }
    if (reads->count >= READS_MAX) {
        finish(raft, &read, 0, LKV_EBUSY);
        return;
    }
    /* Rule 29: what earlier terms committed is known only once our own no-op is. */
    read.index = raft->commit > raft->noop_index ? raft->commit : raft->noop_index;
    read.round = raft->round + 1;
    bool on_the_way = reads->count > 0 && reads->asked > confirmed_round(raft);
    push(raft, read);
    if (!on_the_way) {
        begin_round(raft);
        read_confirm(raft); /* a single voter is its own quorum */
    }
}

void read_request(struct raft *raft, const struct raft_message *message) {
    struct read read = {.context = message->read_request.context,
                        .origin = message->from,
                        .boot_nonce = message->read_request.boot_nonce,
                        .leased = message->read_request.leased};
    if (raft->role == RAFT_LEADER && message->term <= raft->term) {
        lead_read(raft, read);
        return;
    }
    finish(raft, &read, 0, LKV_ENOTLEADER);
}

/* ------------------------------------------------------------------ follower */

static void ask_leader(struct raft *raft) {
    struct reads *reads = &raft->reads;
    reads->asked++;
    reads->asked_ns = raft->now_ns;
    reads->outstanding = true;
    struct raft_message *request = update_message(raft, RAFT_READ_REQUEST, raft->leader);
    request->read_request.context = reads->asked;
    request->read_request.boot_nonce = raft->boot_nonce;
    request->read_request.leased = reads->strict == 0 && raft->stream.knows_leases;
}

static void forward(struct raft *raft, struct read read) {
    struct reads *reads = &raft->reads;
    if (raft->leader == RAFT_NOBODY || reads->count >= READS_MAX) {
        finish(raft, &read, 0, raft->leader == RAFT_NOBODY ? LKV_ENOLEADER : LKV_EBUSY);
        return;
    }
    read.round = reads->asked + 1; /* the next request covers it */
    push(raft, read);
    if (!reads->outstanding) {
        ask_leader(raft);
    }
}

void read_ask(struct raft *raft, uint64_t context, bool leased) {
    struct read read = {.context = context, .origin = RAFT_NOBODY, .leased = leased};
    if (raft->role == RAFT_LEADER) {
        lead_read(raft, read);
    } else {
        forward(raft, read);
    }
}

/* An answer holds for reads that were here before its request left, whichever request it was. */
void read_reply(struct raft *raft, const struct raft_message *message) {
    struct reads *reads = &raft->reads;
    bool ours = raft->role == RAFT_FOLLOWER && message->from == raft->leader &&
                message->term == raft->term && message->read_reply.boot_nonce == raft->boot_nonce &&
                message->read_reply.context <= reads->asked;
    if (!ours) {
        return;
    }
    int rc = message->read_reply.rc;
    rc = rc == 0 || rc == LKV_EBUSY ? rc : LKV_ENOLEADER;
    while (reads->count > 0 && item(reads, 0)->round <= message->read_reply.context) {
        finish(raft, item(reads, 0), message->read_reply.index, rc);
        pop(reads);
    }
    if (message->read_reply.context == reads->asked) {
        reads->outstanding = false;
    }
    if (reads->count > 0 && !reads->outstanding) {
        ask_leader(raft);
    }
}

/* Requests and answers get lost: while the leader is heard, ask again. No timer of its own. */
void read_heard_leader(struct raft *raft) {
    struct reads *reads = &raft->reads;
    if (reads->count > 0 && reads->outstanding &&
        raft->now_ns - reads->asked_ns >= 2 * ms(raft->options.heartbeat_ms)) {
        ask_leader(raft);
    }
}
