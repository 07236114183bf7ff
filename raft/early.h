/* Append requests that arrived before their predecessors, ordered by index: entries are taken
 * strictly in order, and what came early need not be sent twice. Bounded in count and in bytes; when
 * full, what lies farthest ahead gives way. Payloads stay with the owner under their tokens. */
#ifndef RAFT_EARLY_H
#define RAFT_EARLY_H

#include "raft/raft.h"

struct early_request {
    uint64_t token; /* 0: without entries */
    uint64_t prev_index, prev_term;
    uint64_t request_no;
    uint32_t count;
    struct raft_entry_meta *entries; /* owned copy */
    uint64_t bytes;
};

struct early {
    struct early_request *items; /* owned; the lowest prev_index last, so that taking is a pop */
    size_t capacity, count;
    uint64_t bytes;
};

enum early_result {
    EARLY_KEPT,
    EARLY_REFUSED, /* a twin is there, or no room */
    EARLY_NO_MEMORY
};

void early_fini(struct early *early);

/* Copies the metas. Farther requests that must give way are moved to `evicted`, at most one a call,
 * to be freed with early_request_fini; its token is 0 when there was none. */
enum early_result early_insert(struct early *early, const struct early_request *request,
                               size_t count_max, uint64_t bytes_max, struct early_request *evicted);

/* The lowest one when it starts at or below `index`, moved to `out`; free it with
 * early_request_fini. */
bool early_take(struct early *early, uint64_t index, struct early_request *out);

/* The lowest prev_index; 0 when empty. */
uint64_t early_lowest(const struct early *early);

void early_request_fini(struct early_request *request);

#endif
