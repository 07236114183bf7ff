/* How long leases live, measured by the leader, and who keeps them alive (rule 27).
 *
 *      leases of the state ──(each term)──> clocks: what is left ──(nothing)──> revoke, by an entry
 *              ^                                ^        │
 *              └──(checkpoint: what is left)────│────────┘ when what the log says is 4.5 s too much
 *                          keep-alives ─────────┘
 *
 * Nothing ends but by an entry (C4), so all replicas agree; it names the entry that has granted the lease, and
 * is fenced by the term.
 *
 * A new leader begins with what the log says is left. That is never too little: a checkpoint is lower than the
 * truth only until the next keep-alive, and that one is not answered before the log says so again. And
 * it is at most 5 s too much. So an election never ends a lease early, and adds up to 5 s and the time
 * in which nobody led. As with sessions, only time in which this process runs counts.
 *
 * A keep-alive is no entry, unless a checkpoint has gone before it: it is heard when it comes, and answered
 * after a quorum round that began later, so that a deposed leader answers none. While the end of the
 * lease is on its way through the log it waits for that, and is told that the lease is gone (C13). */
#include "lib/node.h"

#include "base/mem.h"
#include "lib/lease.h"

#include <stdlib.h>

enum {
    EXPIRE_A_LOOK = 1024,
    CHECKPOINT_MS = 4500,    /* with the time between looks and that of an entry: 5 s */
    CHECKPOINT_TOO_MS = 4000 /* these go along when another one is due */
};

static uint64_t worked_ns(const struct node *node) {
    return worked_now(&node->lease_clocks.worked, node_now(node));
}

static int compare_id(const void *key, const void *item) {
    int64_t id = *(const int64_t *)key, other = ((const struct lease_clock *)item)->id;
    return (id > other) - (id < other);
}

static struct lease_clock *find(struct lease_clocks *clocks, int64_t id) {
    return clocks->count > 0
               ? bsearch(&id, clocks->items, clocks->count, sizeof(clocks->items[0]), compare_id)
               : NULL;
}

static uint64_t left_ms(const struct lease_clock *clock, uint64_t at_ns) {
    /* Rounded up: what a checkpoint says must not be less than the truth. */
    return clock->deadline_ns > at_ns ? (clock->deadline_ns - at_ns + MS_NS - 1) / MS_NS : 0;
}

static void extend(struct node *node, struct lease_clock *clock) {
    uint64_t deadline_ns = worked_ns(node) + clock->ttl_ms * MS_NS;
    clock->deadline_ns = deadline_ns > clock->deadline_ns ? deadline_ns : clock->deadline_ns;
}

static struct lease_clock clock_of(const struct node *node, const struct kv_lease *lease) {
    return (struct lease_clock){.id = lease->id,
                                .granted = lease->granted,
                                .ttl_ms = lease->ttl_ms,
                                .told_ms = lease->remaining_ms,
                                .deadline_ns = worked_ns(node) + lease->remaining_ms * MS_NS};
}

/* Clocks for exactly the leases that there are. LKV_ENOMEM: as before. */
static int match_leases(struct node *node) {
    struct lease_clocks *clocks = &node->lease_clocks;
    struct lease_clock *items = NULL;
    size_t capacity = 0, count = 0, old = 0;
    struct kv_lease lease;
    if (clocks->term != node->term) { /* another leader may have heard of any of them until now */
        clocks->term = node->term;
        clocks->count = 0;
    }
    for (; kv_lease_at(node->kv, count, &lease); count++) {
        struct lease_clock *grown = mem_array_grow(items, &capacity, count + 1, sizeof(*grown));
        if (grown == NULL) {
            mem_free(items);
            return LKV_ENOMEM;
        }
        items = grown;
        while (old < clocks->count && clocks->items[old].id < lease.id) {
            old++;
        }
        bool known = old < clocks->count && clocks->items[old].id == lease.id &&
                     clocks->items[old].granted == lease.granted;
        items[count] = known ? clocks->items[old] : clock_of(node, &lease);
    }
    mem_free(clocks->items);
    clocks->items = items;
    clocks->count = count;
    return 0;
}

/* The clock of a lease of this term; NULL: there is none, or no memory for it. */
static struct lease_clock *clock_at(struct node *node, int64_t id) {
    struct lease_clocks *clocks = &node->lease_clocks;
    struct kv_lease lease;
    if (!kv_lease_find(node->kv, id, &lease)) {
        return NULL;
    }
    struct lease_clock *clock = clocks->term == node->term ? find(clocks, id) : NULL;
    bool matches = clock != NULL && clock->granted == lease.granted;
    return matches ? clock : match_leases(node) == 0 ? find(clocks, id) : NULL;
}

/* ------------------------------------------------------------------ what it proposes */

static struct request *proposal(struct node *node, const struct kv_command *command,
                                void (*on_finish)(struct request *request)) {
    struct request *request = request_new(REQUEST_WRITE);
    if (request == NULL) {
        return NULL;
    }
    request->command = kv_command_encode(command);
    if (request->command == NULL) {
        request_free(request);
        return NULL;
    }
    request->forwarded = request->no_park = true; /* this leader's, or nobody's */
    request->on_finish = on_finish;
    request->owner = node;
    return request;
}

static void on_expired(struct request *request) {
    struct node *node = request->owner;
    struct lease_clock *clock = find(&node->lease_clocks, request->lease);
    node->lease_clocks.looked_again = true;
    if (clock != NULL && clock->granted == request->seq) {
        clock->expiring = false; /* it is gone, or the next look tries again */
    }
}

static int propose_expiry(struct node *node, struct lease_clock *clock) {
    const struct kv_command command = {.op = KV_LEASE_REVOKE,
                                       .lease = clock->id,
                                       .granted = clock->granted,
                                       .in_term = node->term};
    struct request *request = proposal(node, &command, on_expired);
    if (request == NULL) {
        return LKV_ENOMEM;
    }
    request->lease = clock->id;
    request->seq = clock->granted;
    clock->expiring = true;
    trace_line(&node->trace, TRACE_INFO, "lease-expires", "lease %llx has run out",
               (unsigned long long)clock->id);
    node_route(node, request);
    return 0;
}

static void expire_due(struct node *node) {
    struct lease_clocks *clocks = &node->lease_clocks;
    size_t proposed = 0;
    for (size_t i = 0; i < clocks->count && proposed < EXPIRE_A_LOOK; i++) {
        struct lease_clock *clock = &clocks->items[i];
        if (!clock->expiring && clock->deadline_ns <= clocks->worked.ns) {
            if (propose_expiry(node, clock) != 0) {
                return;
            }
            proposed++;
        }
    }
}

/* The log says it, or says nothing of it. */
static void on_checkpoint(struct request *request) {
    struct node *node = request->owner;
    struct reader reader = reader_of(request->key);
    struct kv_checkpoint record;
    node->lease_clocks.looked_again = true;
    while (reader.left > 0 && kv_checkpoint_get(&reader, &record)) {
        struct lease_clock *clock = find(&node->lease_clocks, record.id);
        if (clock != NULL && clock->granted == record.granted &&
            record.remaining_ms == clock->ttl_ms) {
            clock->resetting = false;
            clock->told_ms = request->reply->rc == 0 ? clock->ttl_ms : clock->told_ms;
        }
    }
}

static int propose_checkpoint(struct node *node, struct slice records) {
    const struct kv_command command = {
        .op = KV_LEASE_CHECKPOINT, .checkpoints = records, .in_term = node->term};
    struct request *request = proposal(node, &command, on_checkpoint);
    if (request == NULL || request_set_keys(request, records, (struct slice){0}) != 0) {
        request_free(request);
        return LKV_ENOMEM;
    }
    node_route(node, request);
    return 0;
}

static void put_record(struct buffer *records, const struct lease_clock *clock,
                       uint64_t remaining_ms) {
    const struct kv_checkpoint record = {
        .id = clock->id, .granted = clock->granted, .remaining_ms = remaining_ms};
    kv_checkpoint_put(records, &record);
}

static bool is_behind(const struct lease_clock *clock, uint64_t now_ns, uint64_t ms) {
    uint64_t left = left_ms(clock, now_ns);
    return !clock->expiring && !clock->resetting && clock->told_ms > left &&
           clock->told_ms - left >= ms;
}

/* What the log says of them is lowered to what is left. From then on they count as lowered, whatever
 * becomes of the entry. */
static void checkpoint_due(struct node *node) {
    struct lease_clocks *clocks = &node->lease_clocks;
    uint64_t now_ns = clocks->worked.ns;
    bool due = false;
    for (size_t i = 0; i < clocks->count && !due; i++) {
        due = is_behind(&clocks->items[i], now_ns, CHECKPOINT_MS);
    }
    struct buffer records;
    buffer_init(&records);
    size_t count = 0;
    for (size_t i = 0; due && i < clocks->count && count < KV_CHECKPOINTS_MAX; i++) {
        struct lease_clock *clock = &clocks->items[i];
        if (is_behind(clock, now_ns, CHECKPOINT_TOO_MS)) {
            clock->told_ms = left_ms(clock, now_ns);
            put_record(&records, clock, clock->told_ms);
            count++;
        }
    }
    if (count > 0 && !records.failed) {
        (void)propose_checkpoint(node, buffer_slice(&records));
    }
    buffer_fini(&records);
}

uint64_t node_lease_deadline(const struct node *node) {
    struct kv_lease first;
    bool counts = node->role == RAFT_LEADER && node->kv != NULL;
    return counts && kv_lease_at(node->kv, 0, &first)
               ? node->lease_clocks.worked.looked_ns + NODE_LOOK_NS
               : UINT64_MAX;
}

void node_lease_look(struct node *node, uint64_t now_ns) {
    struct lease_clocks *clocks = &node->lease_clocks;
    if (now_ns < node_lease_deadline(node)) {
        return;
    }
    worked_look(&clocks->worked, now_ns);
    if (node_leads_ready(node) && match_leases(node) == 0) {
        expire_due(node);
        checkpoint_due(node);
    }
}

/* The end of this lease has got an index: whoever keeps it alive from now on waits for that (C13). */
void node_lease_appended(struct node *node, const struct request *request, uint64_t index) {
    struct lease_clock *clock = node_leads_ready(node) ? clock_at(node, request->lease) : NULL;
    if (clock != NULL) {
        clock->ends_at = index;
    }
}

/* ------------------------------------------------------------------ keep-alives */

void node_lease_ask(struct node *node, struct request *request) {
    if (!node->running || node->offline || node->leader == RAFT_NOBODY) {
        node_wait_for_leader(node, request);
    } else if (node->role != RAFT_LEADER) {
        node_forward(node, request);
    } else {
        struct lease_clocks *clocks = &node->lease_clocks;
        struct lease_clock *clock =
            clocks->term == node->term ? find(clocks, request->lease) : NULL;
        if (request->op == REQUEST_LEASE_KEEP && clock != NULL) {
            extend(node, clock); /* heard, whatever becomes of it */
        }
        node_read_add(node, request);
    }
}

static void hold(struct node *node, struct request *request) {
    list_push_back(&node->lease_clocks.waits, &request->link);
    node->lease_clocks.looked_again = true;
    if (request->deadline_ns < node->next_expiry_ns) {
        node->next_expiry_ns = request->deadline_ns;
    }
}

static void answer_keep(struct node *node, struct request *request, struct lease_clock *clock) {
    bool ends = clock->expiring || clock->ends_at > node->applied;
    if (ends || clock->told_ms < clock->ttl_ms) {
        hold(node, request);
        return;
    }
    extend(node, clock);
    msg_set_u64(request->reply, "lease", (uint64_t)clock->id);
    msg_set_u64(request->reply, "ttl_ms", clock->ttl_ms);
    request_finish(request);
}

static void answer_ttl(struct node *node, struct request *request,
                       const struct lease_clock *clock) {
    struct lkv_msg *reply = request->reply;
    size_t limit = request->limit < LEASES_A_PAGE ? request->limit : LEASES_A_PAGE;
    int rc = limit > 0 ? kv_lease_keys(node->kv, clock->id, request->key, limit, &reply->range) : 0;
    if (rc != 0) {
        request_fail(request, rc, "%s", error_text(rc));
        return;
    }
    msg_set_u64(reply, "lease", (uint64_t)clock->id);
    msg_set_u64(reply, "ttl_ms", clock->ttl_ms);
    msg_set_u64(reply, "remaining_ms", left_ms(clock, worked_ns(node)));
    msg_set_u64(reply, "more", reply->range.more);
    request_finish(request);
}

static void answer_list(struct node *node, struct request *request) {
    struct lkv_msg *reply = request->reply;
    size_t at = 0;
    struct kv_lease lease;
    while (kv_lease_at(node->kv, at, &lease) && lease.id <= request->lease) {
        at++;
    }
    bool bounded = request->limit > 0 && request->limit < LEASES_A_PAGE;
    size_t limit = bounded ? request->limit : LEASES_A_PAGE;
    int rc = msg_reserve_leases(reply, limit);
    for (; rc == 0 && kv_lease_at(node->kv, at, &lease) && reply->lease_count < limit; at++) {
        struct lease_clock *clock = clock_at(node, lease.id);
        uint64_t left = clock != NULL ? left_ms(clock, worked_ns(node)) : lease.remaining_ms;
        reply->leases[reply->lease_count++] = (struct lkv_lease){
            .id = lease.id, .ttl_ms = (int64_t)lease.ttl_ms, .remaining_ms = (int64_t)left};
    }
    msg_set_u64(reply, "more", rc == 0 && kv_lease_at(node->kv, at, &lease));
    if (rc != 0) {
        msg_set_rc(reply, rc, NULL);
    }
    request_finish(request);
}

void node_lease_answer(struct node *node, struct request *request) {
    if (node->role != RAFT_LEADER) { /* it was one when it was asked: the next one has to hear it */
        node_lease_ask(node, request);
        return;
    }
    if (!node_leads_ready(node)) { /* it is about to stop */
        node_wait_for_leader(node, request);
        return;
    }
    struct lease_clock *clock = clock_at(node, request->lease);
    struct kv_lease lease;
    if (request->op == REQUEST_LEASE_LIST) {
        answer_list(node, request);
    } else if (clock == NULL && kv_lease_find(node->kv, request->lease, &lease)) {
        request_fail(request, LKV_ENOMEM, "out of memory for the clocks of leases");
    } else if (clock == NULL) {
        request_fail(request, LKV_ELEASE, "there is no lease %llx",
                     (unsigned long long)request->lease);
    } else if (request->op == REQUEST_LEASE_TTL) {
        answer_ttl(node, request, clock);
    } else {
        answer_keep(node, request, clock);
    }
}

/* Those that wait for the log to say again what their leases were granted: one entry for all. */
static void propose_resets(struct node *node) {
    struct list_link *waits = &node->lease_clocks.waits;
    struct buffer records;
    buffer_init(&records);
    for (struct list_link *at = waits->next; at != waits; at = at->next) {
        struct lease_clock *clock = clock_at(node, LIST_ITEM(at, struct request, link)->lease);
        bool full = records.size >= (size_t)KV_CHECKPOINTS_MAX * KV_CHECKPOINT_SIZE;
        if (clock != NULL && !full && !clock->resetting && !clock->expiring &&
            clock->ends_at <= node->applied && clock->told_ms < clock->ttl_ms) {
            clock->resetting = true;
            put_record(&records, clock, clock->ttl_ms);
        }
    }
    if (records.size > 0 && (records.failed || propose_checkpoint(node, buffer_slice(&records)))) {
        for (size_t i = 0; i < node->lease_clocks.count; i++) { /* without memory: another time */
            node->lease_clocks.items[i].resetting = false;
        }
    }
    buffer_fini(&records);
}

void node_lease_turn(struct node *node) {
    struct lease_clocks *clocks = &node->lease_clocks;
    bool moved =
        clocks->looked_again || clocks->waited_at != node->applied || node->role != RAFT_LEADER;
    if (list_empty(&clocks->waits) || !moved) {
        return;
    }
    clocks->looked_again = false;
    clocks->waited_at = node->applied;
    struct list_link again;
    list_init(&again);
    for (struct list_link *link; (link = list_pop_front(&clocks->waits)) != NULL;) {
        list_push_back(&again, link);
    }
    for (struct list_link *link; (link = list_pop_front(&again)) != NULL;) {
        node_lease_answer(node, LIST_ITEM(link, struct request, link));
    }
    clocks->looked_again = false; /* what is held again has just been looked at */
    if (!list_empty(&clocks->waits) && node_leads_ready(node)) {
        propose_resets(node);
    }
}

uint64_t node_lease_expire(struct node *node, uint64_t now_ns) {
    uint64_t earliest = UINT64_MAX;
    struct list_link *next, *waits = &node->lease_clocks.waits;
    for (struct list_link *at = waits->next; at != waits; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->deadline_ns <= now_ns) {
            list_remove(at);
            request_fail(request, LKV_ETIMEOUT, "the log did not get on in time");
        } else if (request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    return earliest;
}

void node_lease_fail_all(struct node *node, int rc, const char *text) {
    for (struct list_link *link; (link = list_pop_front(&node->lease_clocks.waits)) != NULL;) {
        request_fail(LIST_ITEM(link, struct request, link), rc, "%s", text);
    }
}

void node_lease_fini(struct node *node) {
    mem_free(node->lease_clocks.items);
}
