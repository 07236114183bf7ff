/* What the core knows of this node's log, and the one write that a step may ask for. */
#include "raft/core.h"

bool log_reserve(struct raft *raft, size_t count) {
    if (!sizes_reserve(&raft->sizes, count)) {
        raft->no_memory = true;
        return false;
    }
    return true;
}

void log_append(struct raft *raft, uint64_t term, uint32_t size) {
    struct raft_write *write = &raft->update->write;
    raft->last++;
    if (!terms_push(&raft->terms, raft->last, term)) {
        raft->no_memory = true;
    }
    sizes_push(&raft->sizes, size);
    if (write->first == 0) {
        write->first = raft->last;
    }
    write->last = raft->last;
}

/* Rule 13 was checked by the caller: nothing at or below the commit index is ever cut. A step cuts
 * at most once and before it appends, since one leader contradicts our log at most once. */
void log_cut(struct raft *raft, uint64_t from) {
    struct raft_write *write = &raft->update->write;
    ASSERT(from > raft->commit && from <= raft->last);
    ASSERT(write->cut_from == 0 && write->first == 0);
    write->cut_from = from;
    raft->last = from - 1;
    terms_cut(&raft->terms, from);
    sizes_cut(&raft->sizes, from);
    writes_cut(&raft->writes, from);
    if (raft->durable >= from) {
        raft->durable = from - 1;
    }
}

uint64_t log_last_term(const struct raft *raft) {
    return raft_term_at(raft, raft->last);
}

void log_save_vote(struct raft *raft) {
    raft->update->write.save_vote = true;
}

void log_write_end(struct raft *raft) {
    struct raft_write *write = &raft->update->write;
    if (!write->save_vote && write->cut_from == 0 && write->first == 0) {
        return;
    }
    write->no = raft->writes.newest_no + 1;
    if (write->save_vote) {
        write->term = raft->term;
        write->voted_for = raft->voted_for;
    }
    if (write->first == 0) {
        write->first = raft->last + 1;
        write->last = raft->last;
    }
    struct pending_write pending = {.no = write->no,
                                    .end = raft->last,
                                    .has_vote = write->save_vote,
                                    .term = write->term,
                                    .voted_for = write->voted_for,
                                    .issued_ns = raft->now_ns};
    if (!writes_push(&raft->writes, pending)) {
        raft->no_memory = true;
    }
}

void log_persisted(struct raft *raft, uint64_t write_no) {
    const struct pending_write *oldest;
    while ((oldest = writes_oldest(&raft->writes)) != NULL && oldest->no <= write_no) {
        if (oldest->end > raft->durable) {
            raft->durable = oldest->end;
        }
        if (oldest->has_vote) {
            raft->durable_term = oldest->term;
            raft->durable_vote = oldest->voted_for;
        }
        writes_pop(&raft->writes);
    }
}

bool log_vote_is_durable(const struct raft *raft) {
    return raft->writes.vote_no <= raft->writes.durable_no && !raft->update->write.save_vote;
}

/* Rule 2: in a term that a crash could still take back, nothing is acknowledged. */
uint64_t log_durable_to_state(const struct raft *raft, uint64_t index) {
    if (raft->durable_term != raft->term) {
        return 0;
    }
    return index < raft->durable ? index : raft->durable;
}

/* ------------------------------------------------------------------ looking in */

uint64_t raft_term_at(const struct raft *raft, uint64_t index) {
    if (index > raft->last) {
        return 0;
    }
    if (index >= raft->first) {
        return terms_at(&raft->terms, index);
    }
    if (index == raft->image_index) {
        return raft->image_term;
    }
    return index + 1 == raft->first ? raft->before_first_term : 0;
}

void raft_window_first(struct raft *raft, uint64_t first) {
    sizes_forget_below(&raft->sizes, first);
}

/* The first entry that will be sent, or sent again, to a peer. */
static uint64_t needed_by(const struct progress *peer) {
    if (peer->state == RAFT_REPLICATE) {
        return peer->received + 1;
    }
    return peer->probe_sent ? peer->probe_prev + 1 : peer->next;
}

uint64_t raft_window_needed(const struct raft *raft) {
    uint64_t needed = raft->last + 1;
    if (raft->role != RAFT_LEADER) {
        return needed;
    }
    for (size_t i = 0; i < raft->config.count; i++) {
        const struct progress *peer = &raft->peers[i];
        if (i == raft->self_slot || !peer->up || peer->state == RAFT_INSTALL) {
            continue;
        }
        /* A peer whose backlog is beyond its own limits does not keep up: it reads from disk. */
        uint64_t waiting = sizes_between(&raft->sizes, peer->next, raft->last);
        uint64_t first = needed_by(peer);
        if (first >= raft->sizes.first && waiting <= raft->options.inflight_bytes_max &&
            first < needed) {
            needed = first;
        }
    }
    return needed;
}
