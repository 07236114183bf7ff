/* Writes that were asked for and are not known durable, oldest first, numbered from 1.
 *
 * A write remembers where the log ended with it. A cut moves those ends back, so that a late
 * PERSISTED of entries that were cut and appended again acknowledges nothing (end of rule 7). */
#ifndef RAFT_WRITES_H
#define RAFT_WRITES_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct pending_write {
    uint64_t no;
    uint64_t end; /* the log is durable up to here once this write is; lowered by cuts */
    bool has_vote;
    uint64_t term, voted_for;
    uint32_t promised_ms;
    uint64_t issued_ns;
};

struct writes {
    struct pending_write *items; /* owned ring */
    size_t capacity, head, count;
    uint64_t newest_no;  /* 0: none yet */
    uint64_t durable_no; /* all up to here are durable */
    uint64_t vote_no;    /* newest write that holds a vote record */
};

void writes_fini(struct writes *writes);
MUST_USE bool writes_push(struct writes *writes, struct pending_write write); /* false: no memory */
void writes_cut(struct writes *writes, uint64_t from);
const struct pending_write *writes_oldest(const struct writes *writes); /* NULL: none */
void writes_pop(struct writes *writes);

#endif
