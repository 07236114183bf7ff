/* A node of the core with entries that it cannot read, stepped by hand: what its owner would tell it, and what it
 * says. */
#ifndef TESTS_UNIT_RAFT_DAMAGED_NODE_H
#define TESTS_UNIT_RAFT_DAMAGED_NODE_H

#include "raft/raft.h"

#include <criterion/criterion.h>

static const uint64_t MS = 1000000;

/* Node 1 of some, with a log of terms, one entry each. */
struct node {
    struct raft *raft;
    struct raft_update update;
    uint64_t now_ns, token;
};

struct shape {
    size_t members;
    const uint64_t *terms; /* of entries 1 .. last; in gaps, only that of the last one counts */
    uint64_t last;
    const struct raft_gap *gaps;
    size_t gap_count;
    bool end_unknown;
    uint64_t image_index, image_term;
};

static inline int try_open(const struct shape *shape, struct node *node) {
    struct raft_run runs[16];
    struct raft_start start = {.self = 1,
                               .options = raft_options_default(),
                               .seed = 7,
                               .now_ns = 1000 * MS,
                               .first = 1,
                               .last = shape->last,
                               .runs = runs,
                               .gaps = shape->gaps,
                               .gap_count = shape->gap_count,
                               .end_unknown = shape->end_unknown,
                               .image_index = shape->image_index,
                               .image_term = shape->image_term};
    start.config.count = shape->members;
    for (size_t i = 0; i < shape->members; i++) {
        start.config.members[i] = (struct raft_member){.id = i + 1, .voter = true};
    }
    for (uint64_t i = 1; i <= shape->last; i++) {
        if (start.run_count == 0 || runs[start.run_count - 1].term != shape->terms[i - 1]) {
            runs[start.run_count++] = (struct raft_run){.first = i, .term = shape->terms[i - 1]};
        }
    }
    start.term = shape->last > 0 ? shape->terms[shape->last - 1] : 0;
    *node = (struct node){.now_ns = start.now_ns};
    struct reason why = {{0}};
    return raft_open(&node->raft, &start, &why);
}

static inline struct node open_node(const struct shape *shape) {
    struct node node;
    cr_assert(try_open(shape, &node) == 0);
    return node;
}

static inline void close_node(struct node *node) {
    raft_update_fini(&node->update);
    raft_close(node->raft);
}

static inline void step(struct node *node, struct raft_event event) {
    event.now_ns = node->now_ns;
    cr_assert(raft_step(node->raft, &event, &node->update) == 0);
}

static inline void tick(struct node *node, uint64_t ms) {
    node->now_ns += ms * MS;
    step(node, (struct raft_event){.kind = RAFT_TICK});
}

static inline void persist(struct node *node) {
    struct raft_event event = {.kind = RAFT_PERSISTED};
    event.persisted.write_no = node->update.write.no;
    step(node, event);
}

static inline void receive(struct node *node, const struct raft_message *message) {
    struct raft_event event = {.kind = RAFT_RECEIVE};
    event.receive.message = message;
    event.receive.token = ++node->token;
    step(node, event);
}

/* The newest message of this kind in the update; NULL: none. */
static inline const struct raft_message *sent(const struct node *node,
                                              enum raft_message_kind kind) {
    for (size_t i = node->update.message_count; i > 0; i--) {
        if (node->update.messages[i - 1].kind == kind) {
            return &node->update.messages[i - 1];
        }
    }
    return NULL;
}

static inline struct raft_status status_of(const struct node *node) {
    struct raft_status status;
    raft_status(node->raft, &status);
    return status;
}

static inline struct raft_message message_of(enum raft_message_kind kind, uint64_t from,
                                             uint64_t term) {
    return (struct raft_message){.kind = kind, .from = from, .to = 1, .term = term};
}

/* Entries of these terms behind prev, from a leader. */
static inline void append(struct node *node, uint64_t from, uint64_t term, uint64_t prev_index,
                          uint64_t prev_term, const uint64_t *terms, uint32_t count) {
    struct raft_entry_meta metas[8];
    for (uint32_t i = 0; i < count; i++) {
        metas[i] = (struct raft_entry_meta){.term = terms[i], .size = 1, .type = ENTRY_COMMAND};
    }
    struct raft_message m = message_of(RAFT_APPEND, from, term);
    m.append.prev_index = prev_index;
    m.append.prev_term = prev_term;
    m.append.request_no = 1;
    m.append.entries = metas;
    m.append.count = count;
    receive(node, &m);
}

/* What it asks its peers about its first gap, now. */
static inline struct raft_message next_question(struct node *node) {
    tick(node, 0);
    const struct raft_message *question = sent(node, RAFT_REPAIR_REQUEST);
    cr_assert(question != NULL);
    return *question;
}

/* The answer to the question that was asked last. */
static inline struct raft_message answer_of(const struct raft_message *request, uint64_t from,
                                            enum raft_repair_answer answer, uint64_t index,
                                            uint64_t term) {
    struct raft_message m = message_of(RAFT_REPAIR_REPLY, from, 1);
    m.repair_reply.answer = answer;
    m.repair_reply.boot_nonce = request->repair_request.boot_nonce;
    m.repair_reply.round = request->repair_request.round;
    m.repair_reply.shared_index = index;
    m.repair_reply.shared_term = term;
    return m;
}

static const uint64_t ONES_AND_TWOS[] = {1, 1, 1, 1, 1, 2, 2, 2};
static const struct raft_gap MIDDLE = {3, 6, 2};
static const struct shape DAMAGED = {
    .members = 3, .terms = ONES_AND_TWOS, .last = 8, .gaps = &MIDDLE, .gap_count = 1};

#endif
