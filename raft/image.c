/* The log's beginning moves: an image was installed here, or our own image made a prefix needless. */
#include "raft/core.h"

/* Entries below `first` are gone from this node's log. */
static void drop_prefix(struct raft *raft, uint64_t first) {
    raft->before_first_term = raft_term_at(raft, first - 1);
    raft->first = first;
    if (first > raft->last) {
        terms_clear(&raft->terms);
    } else {
        terms_drop_below(&raft->terms, first);
    }
    sizes_forget_below(&raft->sizes, first);
}

void image_log_prefix(struct raft *raft, const struct raft_event *event) {
    uint64_t first = event->log_prefix.first;
    if (event->log_prefix.image_index > raft->image_index &&
        event->log_prefix.image_index <= raft->commit) {
        raft->image_index = event->log_prefix.image_index;
        raft->image_term = event->log_prefix.image_term;
    }
    if (first > raft->first && first <= raft->image_index + 1) {
        drop_prefix(raft, first);
    }
}

/* The whole log lies below the image or contradicts it: it begins anew behind the image. */
static void replace_log(struct raft *raft, uint64_t index, uint64_t term) {
    if (raft->last > index) {
        log_cut(raft, index + 1);
    }
    writes_cut(&raft->writes, index + 1);
    raft->last = raft->durable = index;
    raft->first = index + 1;
    raft->before_first_term = term;
    terms_clear(&raft->terms);
    sizes_reset(&raft->sizes, index + 1);
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

bool raft_keeps_log(const struct raft *raft, uint64_t index, uint64_t term) {
    return raft_term_at(raft, index) == term;
}

void image_installed(struct raft *raft, const struct raft_event *event) {
    uint64_t index = event->image_installed.index;
    uint64_t term = event->image_installed.term;
    if (index <= raft->commit) {
        return; /* P2: nothing in it is news */
    }
    bool joins = raft_keeps_log(raft, index, term);
    if (!joins && raft->role == RAFT_LEADER) { /* it began as a follower's; a leader has it all */
        core_stop(raft, LKV_EDAMAGED, "image (%llu, term %llu) contradicts this leader's log",
                  (unsigned long long)index, (unsigned long long)term);
        return;
    }
    if (joins) {
        drop_prefix(raft, index + 1);
        raft->durable = raft->durable > index ? raft->durable : index;
    } else {
        replace_log(raft, index, term);
    }
    raft->image_index = raft->commit = index;
    raft->image_term = term;
    if (raft->stream.verified < index) {
        raft->stream.verified = index;
    }
    if (config_valid(&event->image_installed.config)) {
        take_config(raft, &event->image_installed.config);
    }
}
