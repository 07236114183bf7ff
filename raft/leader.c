/* Leading: the no-op, heartbeats, submissions, and what replies mean. */
#include "raft/core.h"

/* ------------------------------------------------------------------ begin and end */

static void reset_peers(struct raft *raft) {
    for (size_t i = 0; i < raft->config.count; i++) {
        struct progress *peer = &raft->peers[i];
        if (i == raft->self_slot) {
            continue;
        }
        if (!progress_reset(peer, &raft->options, raft->last + 1)) {
            raft->no_memory = true;
        }
        peer->heard_ns = 0;
        peer->echo = 0;
        peer->lease_ns = 0;
    }
}

static bool has_peers(const struct raft *raft) {
    return raft->config.count > (raft->self_slot < raft->config.count ? 1u : 0u);
}

void leader_begin(struct raft *raft) {
    core_become_follower(raft, RAFT_NOBODY); /* drops what was queued as a follower (L12) */
    reset_peers(raft);
    if (!log_reserve(raft, 1)) {
        return;
    }
    raft->role = RAFT_LEADER;
    raft->phase = RAFT_PASSED;
    raft->leader = raft->self;
    raft->leader_since_ns = raft->now_ns;
    raft->blocked_ns = 0;
    raft->transfer.target = RAFT_NOBODY;
    raft->lease_over = false;
    /* An empty entry at once: it commits what earlier terms left behind (L22), and until it is
     * committed nobody knows what is (rule 29). */
    log_append(raft, raft->term, 0);
    raft->noop_index = raft->last;
    raft->beat_ns = UINT64_MAX;
    if (has_peers(raft)) {
        leader_beat(raft);
        raft->beat_ns = raft->now_ns + ms(raft->options.heartbeat_ms);
    }
    replicate_to_all(raft);
}

void leader_end(struct raft *raft) {
    raft->transfer.target = RAFT_NOBODY;
    raft->noop_index = 0;
}

/* ------------------------------------------------------------------ time */

/* Never waits for a disk: a heartbeat says who leads, not what is durable here (rule 5). */
void leader_beat(struct raft *raft) {
    raft->round++;
    raft->round_ns[raft->round % ROUNDS_REMEMBERED] = raft->now_ns;
    for (size_t i = 0; i < raft->config.count; i++) {
        if (i == raft->self_slot) {
            continue;
        }
        struct raft_message *beat =
            update_message(raft, RAFT_HEARTBEAT, raft->config.members[i].id);
        uint64_t verified = raft->peers[i].received;
        beat->heartbeat.commit = raft->commit < verified ? raft->commit : verified;
        beat->heartbeat.round = raft->round;
        beat->heartbeat.promise_ms = raft->peers[i].promises ? raft->options.promise_ms : 0;
    }
}

void leader_tick(struct raft *raft) {
    transfer_tick(raft);
    if (raft->now_ns < raft->beat_ns) {
        return;
    }
    if (!commit_quorum_heard(raft)) {
        core_become_follower(raft, RAFT_NOBODY); /* check-quorum (rule 4) */
        return;
    }
    raft->beat_ns = raft->now_ns + ms(raft->options.heartbeat_ms);
    leader_beat(raft);
    disk_watch(raft);
    if (raft->role != RAFT_LEADER) {
        return; /* it cannot be of use */
    }
    transfer_progress(raft);
    for (size_t i = 0; i < raft->config.count; i++) {
        raft->peers[i].paused = false;
    }
    replicate_to_all(raft);
}

/* ------------------------------------------------------------------ submissions */

static uint64_t total_bytes(const struct raft_event *event) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < event->submit.count; i++) {
        bytes += (uint64_t)event->submit.sizes[i] + SIZES_ENTRY_OVERHEAD;
    }
    return bytes;
}

/* Everything that refuses does so before an index is given away: definitely not done. */
static int may_submit(const struct raft *raft, const struct raft_event *event) {
    if (raft->role != RAFT_LEADER) {
        return LKV_ENOTLEADER;
    }
    if (event->submit.in_term != 0 && event->submit.in_term != raft->term) {
        return LKV_ETERM; /* rule 31: a fenced write of a term that has passed */
    }
    if (transfer_pending(raft) || raft->writes.count >= WRITES_MAX ||
        raft->last + event->submit.count > INDEX_MAX) {
        return LKV_EBUSY;
    }
    enum raft_room needed = event->submit.reserved ? RAFT_ROOM_RESERVED : RAFT_ROOM_FREE;
    if (raft->room < needed || !disk_quorum_has_room(raft, needed)) {
        return LKV_EREADONLY; /* rule 15: without anybody better, deletes go on and puts do not */
    }
    uint64_t waiting = sizes_between(&raft->sizes, raft->commit + 1, raft->last);
    bool full = waiting > 0 && waiting + total_bytes(event) > raft->options.uncommitted_bytes_max;
    return full ? LKV_EBUSY : 0;
}

void leader_submit(struct raft *raft, const struct raft_event *event) {
    raft->update->submit_rc = may_submit(raft, event);
    if (raft->update->submit_rc != 0) {
        return;
    }
    if (!log_reserve(raft, event->submit.count)) {
        return;
    }
    raft->update->submit_first = raft->last + 1;
    for (size_t i = 0; i < event->submit.count; i++) {
        log_append(raft, raft->term, event->submit.sizes[i]);
    }
    replicate_to_all(raft); /* beside our own write, not after it */
}

/* ------------------------------------------------------------------ replies */

/* What every reply of this term says. False: it contradicts itself, or claims what we never had. */
static bool heard(struct raft *raft, size_t slot, uint64_t durable, uint64_t received,
                  enum raft_room room) {
    if (durable > received || received > raft->last) {
        return false;
    }
    struct progress *peer = &raft->peers[slot];
    peer->up = true;
    peer->heard_ns = raft->now_ns;
    peer->room = room;
    if (progress_acked(peer, durable, received, raft->now_ns)) {
        commit_by_counting(raft);
        transfer_progress(raft);
    }
    return true;
}

/* Where the logs may still agree: our last entry of the term it has there, or before its first one
 * of that term (a round a term, R18). */
static uint64_t next_after_conflict(const struct raft *raft, const struct progress *peer,
                                    const struct raft_message *message) {
    uint64_t first = message->append_reply.conflict_first;
    first = first < 1 ? 1 : first > raft->last + 1 ? raft->last + 1 : first;
    if (message->append_reply.conflict_term == 0) {
        return first;
    }
    uint64_t ours = terms_last_of(&raft->terms, message->append_reply.conflict_term,
                                  peer->next > 0 ? peer->next - 1 : 0);
    return ours != 0 ? ours + 1 : first;
}

static void resend(struct raft *raft, size_t slot, const struct raft_message *message) {
    struct progress *peer = &raft->peers[slot];
    uint64_t first = message->append_reply.want_first, last = message->append_reply.want_last;
    if (first == 0 || last < first || last > raft->last) {
        return; /* nonsense */
    }
    if (progress_gap(peer, &raft->options, message->append_reply.request_no, first, raft->now_ns) &&
        last < peer->next) {
        replicate_again(raft, slot, first, last);
    }
}

void leader_append_reply(struct raft *raft, size_t slot, const struct raft_message *message) {
    if (!heard(raft, slot, message->append_reply.durable, message->append_reply.received,
               message->append_reply.room)) {
        return;
    }
    struct progress *peer = &raft->peers[slot];
    switch (message->append_reply.result) {
    case RAFT_APPEND_OK: break;
    case RAFT_APPEND_CONFLICT:
        if (!progress_conflict(peer, message->append_reply.request_no,
                               next_after_conflict(raft, peer, message))) {
            return; /* a repetition can wait for the next heartbeat's reply */
        }
        break;
    case RAFT_APPEND_GAP: resend(raft, slot, message); break;
    }
    replicate_to(raft, slot);
}

void leader_heartbeat_reply(struct raft *raft, size_t slot, const struct raft_message *message) {
    uint64_t round = message->heartbeat_reply.round;
    if (round > raft->round ||
        !heard(raft, slot, message->heartbeat_reply.durable, message->heartbeat_reply.received,
               message->heartbeat_reply.room)) {
        return;
    }
    struct progress *peer = &raft->peers[slot];
    lease_echo(raft, slot, round, message->heartbeat_reply.promise_ms);
    if (round > peer->echo) {
        peer->echo = round;
        read_confirm(raft);
        catchup_confirm(raft);
    }
    if (raft->round - round < ROUNDS_REMEMBERED) {
        (void)progress_beat(peer, &raft->options, message->heartbeat_reply.received,
                            raft->round_ns[round % ROUNDS_REMEMBERED], raft->now_ns);
    }
    replicate_to(raft, slot);
}

/* ------------------------------------------------------------------ peers */

/* A peer that restarted has forgotten what it only had in memory: nothing from before counts
 * (rule 11). One that is merely connected again may have lost requests: ask where it is. */
void leader_peer(struct raft *raft, const struct raft_event *event) {
    size_t slot = config_find(&raft->config, event->peer.peer);
    if (slot == raft->config.count || slot == raft->self_slot) {
        return;
    }
    struct progress *peer = &raft->peers[slot];
    bool was_up = peer->up;
    peer->up = event->peer.up;
    if (!event->peer.up) {
        return;
    }
    bool restarted = event->peer.boot_nonce != peer->boot_nonce;
    peer->boot_nonce = event->peer.boot_nonce;
    peer->promises = event->peer.promises;
    if (restarted) {
        repair_peer_restarted(raft, slot);
    }
    if (raft->role != RAFT_LEADER) {
        return;
    }
    if (restarted) {
        if (!progress_reset(peer, &raft->options, raft->last + 1)) {
            raft->no_memory = true;
            return;
        }
    } else if (!was_up && peer->state != RAFT_INSTALL) {
        progress_to_probe(peer, peer->received + 1);
    }
    replicate_to(raft, slot);
}

void leader_image_sent(struct raft *raft, const struct raft_event *event) {
    size_t slot = config_find(&raft->config, event->image_sent.peer);
    if (slot == raft->config.count) {
        return;
    }
    progress_image_sent(&raft->peers[slot], event->image_sent.index, event->image_sent.rc == 0);
    if (raft->role == RAFT_LEADER) {
        replicate_to(raft, slot);
    }
}
