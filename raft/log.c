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

/* ------------------------------------------------------------------ gaps */

struct gap *log_blocked(const struct raft *raft) {
    return damage_from(&raft->gaps, raft->image_index + 1);
}

uint64_t log_sound(const struct raft *raft) {
    const struct gap *gap = log_blocked(raft);
    uint64_t sound = gap != NULL ? gap->first - 1 : raft->durable;
    sound = sound < raft->image_index ? raft->image_index : sound;
    return sound < raft->durable ? sound : raft->durable;
}

/* Of an entry whose term is not known, `terms` says the last known one before it. */
uint64_t log_last_known(const struct raft *raft, uint64_t term, uint64_t limit, bool or_lower) {
    uint64_t index = or_lower ? terms_last_up_to(&raft->terms, term, limit)
                              : terms_last_of(&raft->terms, term, limit);
    const struct gap *gap = damage_unknown_at(&raft->gaps, index);
    if (gap == NULL) {
        return index;
    }
    index = gap->unknown_from - 1;
    return !or_lower && raft_term_at(raft, index) == term ? index : 0;
}

static void set_terms(struct raft *raft, uint64_t first, uint64_t last, uint64_t term) {
    if (first <= last && !terms_set(&raft->terms, first, last, term, raft->last)) {
        raft->no_memory = true;
    }
}

void log_gap_changed(struct raft *raft, struct gap *gap) {
    if (gap->unknown_from == gap->last) {
        return;
    }
    uint64_t before = raft_term_at(raft, gap->unknown_from - 1);
    before = before > 0 ? before : 1;
    set_terms(raft, gap->unknown_from, gap->last - 1, before);
    if (before == gap->last_term) {
        gap->unknown_from = gap->last;
    }
}

/* ------------------------------------------------------------------ cuts */

/* What is left of a gap equals the log of the peer that proved the entry at `from` to be another, and so
 * ends in that peer's term (rule 11). */
static void cut_gap(struct raft *raft, uint64_t from, uint64_t prev_term) {
    damage_cut(&raft->gaps, from, prev_term);
    struct gap *gap = damage_at(&raft->gaps, from - 1);
    if (gap != NULL) {
        set_terms(raft, from - 1, from - 1, prev_term);
        log_gap_changed(raft, gap);
    }
}

/* Rule 13 was checked by the caller: nothing at or below the commit index is ever cut. A step cuts
 * at most once and before it appends, since one leader contradicts our log at most once. */
void log_cut(struct raft *raft, uint64_t from, uint64_t prev_term) {
    struct raft_write *write = &raft->update->write;
    ASSERT(from > raft->commit && from <= raft->last);
    ASSERT(write->cut_from == 0 && write->first == 0);
    write->cut_from = from;
    write->cut_prev_term = prev_term;
    raft->last = from - 1;
    raft->cuts++;
    terms_cut(&raft->terms, from);
    cut_gap(raft, from, prev_term);
    sizes_cut(&raft->sizes, from);
    writes_cut(&raft->writes, from);
    if (raft->durable >= from) {
        raft->durable = from - 1;
    }
}

uint64_t log_last_term(const struct raft *raft) {
    return raft_term_at(raft, raft->last);
}

/* A log is always the beginning of a leader's, and all leaders hold that entry: by its end alone. */
bool log_holds_floor(const struct raft *raft) {
    uint64_t term = log_last_term(raft);
    return term != raft->floor_term ? term > raft->floor_term : raft->last >= raft->floor_index;
}

/* What the cluster grew from was committed by the one voter there was. */
bool log_is_committed(const struct raft *raft, uint64_t index) {
    return index <= raft->commit || (index <= raft->floor_index && log_holds_floor(raft));
}

void log_save_vote(struct raft *raft) {
    raft->update->write.save_vote = true;
}

void log_write_end(struct raft *raft) {
    struct raft_write *write = &raft->update->write;
    if (!write->save_vote && write->cut_from == 0 && write->first == 0 &&
        raft->update->fill_count == 0) {
        return;
    }
    write->no = raft->writes.newest_no + 1;
    if (write->save_vote) {
        write->term = raft->term;
        write->voted_for = raft->voted_for;
        write->promised_ms = raft->promise.saved_ms;
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
                                    .promised_ms = write->promised_ms,
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
            lease_persisted(raft, oldest);
        }
        writes_pop(&raft->writes);
    }
    if (raft->repair.fill_no != 0 && raft->repair.fill_no <= raft->writes.durable_no) {
        repair_filled(raft);
    }
}

bool log_vote_is_durable(const struct raft *raft) {
    return raft->writes.vote_no <= raft->writes.durable_no && !raft->update->write.save_vote;
}

uint64_t log_received_to_state(const struct raft *raft) {
    uint64_t verified = raft->stream.verified;
    return raft->end_unknown && raft->durable < verified ? raft->durable : verified;
}

/* Rule 2: in a term that a crash could still take back, nothing is acknowledged. */
uint64_t log_durable_to_state(const struct raft *raft, uint64_t index) {
    if (raft->durable_term != raft->term || raft->end_unknown) {
        return 0; /* rule 11: whoever does not know what it had acknowledges nothing */
    }
    uint64_t sound = log_sound(raft);
    return index < sound ? index : sound;
}

/* ------------------------------------------------------------------ looking in */

uint64_t raft_term_at(const struct raft *raft, uint64_t index) {
    if (index == raft->image_index) {
        return raft->image_term;
    }
    if (index > raft->last || damage_unknown_at(&raft->gaps, index) != NULL) {
        return 0;
    }
    if (index >= raft->first) {
        return terms_at(&raft->terms, index);
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
