/* The log's beginning moves: an image was installed here, or our own image made a prefix needless. */
#include "raft/core.h"

/* Entries below `first` are gone from this node's log; `term` is that of the one before. */
static void drop_prefix(struct raft *raft, uint64_t first, uint64_t term) {
    raft->before_first_term = term;
    raft->first = first;
    if (first > raft->last) {
        terms_clear(&raft->terms);
    } else {
        terms_drop_below(&raft->terms, first);
    }
    sizes_forget_below(&raft->sizes, first);
    damage_drop_below(&raft->gaps, first);
    struct gap *gap = damage_at(&raft->gaps, first);
    if (gap != NULL) {
        log_gap_changed(raft, gap);
    }
}

void image_log_prefix(struct raft *raft, const struct raft_event *event) {
    uint64_t first = event->log_prefix.first;
    if (event->log_prefix.image_index > raft->image_index &&
        event->log_prefix.image_index <= raft->commit) {
        raft->image_index = event->log_prefix.image_index;
        raft->image_term = event->log_prefix.image_term;
    }
    if (first > raft->first && first <= raft->image_index + 1) {
        drop_prefix(raft, first, raft_term_at(raft, first - 1));
    }
    repair_changed(raft); /* what the image covers needs no repair */
}

/* The whole log lies below the image or contradicts it: it begins anew behind the image. */
static void replace_log(struct raft *raft, uint64_t index, uint64_t term) {
    if (raft->last > index) {
        log_cut(raft, index + 1, term);
    }
    writes_cut(&raft->writes, index + 1);
    raft->last = raft->durable = index;
    raft->first = index + 1;
    raft->before_first_term = term;
    terms_clear(&raft->terms);
    sizes_reset(&raft->sizes, index + 1);
    damage_drop_below(&raft->gaps, index + 1);
}

static void take_config(struct raft *raft, const struct raft_config *config) {
    struct progress old[RAFT_MEMBERS_MAX];
    struct raft_config before = raft->config;
    memcpy(old, raft->peers, sizeof old);
    memset(raft->peers, 0, sizeof raft->peers);
    for (size_t i = 0; i < before.count; i++) {
        size_t slot = config_find(config, before.members[i].id);
        if (slot < config->count) {
            raft->peers[slot] = old[i];
        } else {
            progress_fini(&old[i]);
        }
    }
    raft->config = *config;
    raft->self_slot = config_find(config, raft->self);
    if (raft->election_ns == UINT64_MAX && raft->role == RAFT_FOLLOWER) {
        election_arm(raft);
    }
}

/* An entry in a gap may be the image's, and then what follows it may be committed and counted on us: it
 * is not given up for not being readable (rule 11). */
bool raft_keeps_log(const struct raft *raft, uint64_t index, uint64_t term) {
    const struct gap *gap = damage_unknown_at(&raft->gaps, index);
    if (gap == NULL || index == raft->image_index) {
        return raft_term_at(raft, index) == term;
    }
    return term >= raft_term_at(raft, gap->unknown_from - 1) && term <= gap->last_term;
}

bool raft_wants_image(const struct raft *raft, uint64_t index) {
    const struct gap *gap = log_blocked(raft);
    bool mends = gap != NULL && gap->first <= index && index > raft->image_index;
    return index > raft->commit || mends; /* P2: otherwise nothing in it is news */
}

void image_installed(struct raft *raft, const struct raft_event *event) {
    uint64_t index = event->image_installed.index;
    uint64_t term = event->image_installed.term;
    if (!raft_wants_image(raft, index)) {
        return;
    }
    /* It may come from a peer that does not lead: if this node does, it was deposed and has not heard of it. */
    if (term > raft->term) {
        core_adopt_term(raft, term);
    }
    bool joins = raft_keeps_log(raft, index, term);
    /* It began as a follower's, and a leader has it all; and what is committed is the same anywhere. */
    if (!joins && (raft->role == RAFT_LEADER || index <= raft->commit)) {
        core_stop(raft, LKV_EDAMAGED, "image (%llu, term %llu) contradicts this node's log",
                  (unsigned long long)index, (unsigned long long)term);
        return;
    }
    raft->image_index = index; /* before the log is trimmed: its term is known from now on */
    raft->image_term = term;
    if (joins) {
        drop_prefix(raft, index + 1, term);
        raft->durable = raft->durable > index ? raft->durable : index;
    } else {
        replace_log(raft, index, term);
    }
    raft->commit = raft->commit > index ? raft->commit : index;
    if (raft->stream.verified < index) {
        raft->stream.verified = index;
        /* What waited for entries below it would hide what is missing behind it. */
        follow_drop_early(raft);
    }
    if (config_valid(&event->image_installed.config)) {
        take_config(raft, &event->image_installed.config);
    }
    repair_changed(raft);
}
