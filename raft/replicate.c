/* Sending entries to one peer, as many and as soon as its window allows; none waits for another. */
#include "raft/core.h"

static bool prev_known(const struct raft *raft, uint64_t index) {
    return index == 0 || raft_term_at(raft, index) != 0;
}

static struct raft_message *append_message(struct raft *raft, size_t slot, uint64_t first,
                                           uint64_t last, uint64_t request_no) {
    struct raft_message *message = update_message(raft, RAFT_APPEND, raft->config.members[slot].id);
    message->append.prev_index = first - 1;
    message->append.prev_term = raft_term_at(raft, first - 1);
    message->append.commit = raft->commit;
    message->append.count = (uint32_t)(last + 1 - first);
    message->append.request_no = request_no;
    return message;
}

static void send(struct raft *raft, size_t slot, uint64_t first, uint64_t last) {
    uint64_t bytes = last < first ? 0 : sizes_between(&raft->sizes, first, last);
    uint64_t no = progress_sent(&raft->peers[slot], first, last, bytes, raft->now_ns);
    append_message(raft, slot, first, last, no);
}

/* Entries that the window no longer holds come from the disk, one fetch at a time. */
static void fetch(struct raft *raft, size_t slot) {
    struct progress *peer = &raft->peers[slot];
    if (peer->fetching) {
        return;
    }
    peer->fetching = true;
    peer->fetch_from = peer->next;
    peer->fetch_term = raft->term;
    uint64_t end = raft->sizes.first - 1; /* from there on the window has them */
    const struct gap *gap = damage_from(&raft->gaps, peer->next);
    end = gap != NULL && gap->first <= end ? gap->first - 1 : end;
    uint64_t most = peer->next + RAFT_APPEND_ENTRIES_MAX - 1;
    update_fetch(raft, (struct raft_fetch){
                           .peer = raft->config.members[slot].id,
                           .from = peer->next,
                           .to = end < most ? end : most,
                           .bytes_max = (uint32_t)progress_request_bytes(peer, &raft->options)});
}

static void install(struct raft *raft, size_t slot) {
    struct progress *peer = &raft->peers[slot];
    if (peer->installing || raft->image_index == 0) {
        return; /* an earlier term's install still runs; its end comes back here */
    }
    progress_to_install(peer);
    update_install(raft, raft->config.members[slot].id);
}

void replicate_image(struct raft *raft, size_t slot) {
    struct progress *peer = &raft->peers[slot];
    if (raft->role == RAFT_LEADER) {
        install(raft, slot);
    } else if (!peer->installing && raft->image_index != 0) {
        peer->installing = true;
        update_install(raft, raft->config.members[slot].id);
    }
}

/* The next entry lies in a gap of this leader's own disk: an image serves the peer as well (S11), or it
 * waits until the gap is filled. */
static void serve_around(struct raft *raft, size_t slot) {
    if (raft->peers[slot].next <= raft->image_index) {
        install(raft, slot);
    } else {
        raft->peers[slot].paused = true;
    }
}

/* A question with few or no entries: where do our logs meet? */
static void probe(struct raft *raft, size_t slot) {
    uint64_t first = raft->peers[slot].next, last = first - 1;
    if (first <= raft->last && first >= raft->sizes.first) {
        uint64_t fits = sizes_fit(&raft->sizes, first, PROBE_BYTES_MAX, RAFT_APPEND_ENTRIES_MAX);
        bool small = sizes_between(&raft->sizes, first, fits) <= PROBE_BYTES_MAX;
        last = small ? fits : last;
    }
    send(raft, slot, first, last);
}

/* False: nothing more can be sent now. */
static bool send_next(struct raft *raft, size_t slot) {
    struct progress *peer = &raft->peers[slot];
    if (peer->next < raft->first || !prev_known(raft, peer->next - 1)) {
        install(raft, slot);
        return false;
    }
    if (peer->state == RAFT_PROBE) {
        probe(raft, slot);
        return false;
    }
    if (peer->next > raft->last) {
        return false;
    }
    if (peer->next < raft->sizes.first) {
        if (damage_at(&raft->gaps, peer->next) != NULL) {
            serve_around(raft, slot);
        } else {
            fetch(raft, slot);
        }
        return false;
    }
    uint64_t last =
        sizes_fit(&raft->sizes, peer->next, progress_request_bytes(peer, &raft->options),
                  RAFT_APPEND_ENTRIES_MAX);
    if (peer->room == RAFT_ROOM_NONE && sizes_between(&raft->sizes, peer->next, last) >
                                            (last + 1 - peer->next) * SIZES_ENTRY_OVERHEAD) {
        return false; /* its disk is full: only what needs no room, such as a no-op (rule 15) */
    }
    send(raft, slot, peer->next, last);
    return true;
}

void replicate_to(struct raft *raft, size_t slot) {
    if (raft->role != RAFT_LEADER || slot == raft->self_slot) {
        return;
    }
    while (progress_may_send(&raft->peers[slot], &raft->options) && send_next(raft, slot)) {
    }
}

void replicate_to_all(struct raft *raft) {
    for (size_t i = 0; i < raft->config.count; i++) {
        replicate_to(raft, i);
    }
}

/* Just what a follower misses, as much of it as one request holds. */
void replicate_again(struct raft *raft, size_t slot, uint64_t first, uint64_t last) {
    struct progress *peer = &raft->peers[slot];
    if (first < raft->sizes.first || !prev_known(raft, first - 1)) {
        progress_to_probe(peer, first);
        return;
    }
    uint64_t fits = sizes_fit(&raft->sizes, first, progress_request_bytes(peer, &raft->options),
                              RAFT_APPEND_ENTRIES_MAX);
    append_message(raft, slot, first, fits < last ? fits : last, progress_resent(peer));
}

/* What was read may be of another life: it is used only in the term that asked, since a leader's
 * log is never cut. */
static bool fetch_useful(const struct raft *raft, const struct progress *peer,
                         const struct raft_event *event) {
    return raft->role == RAFT_LEADER && raft->term == peer->fetch_term &&
           peer->state == RAFT_REPLICATE && event->fetched.from == peer->next &&
           peer->next >= raft->first && event->fetched.count <= raft->last + 1 - peer->next &&
           progress_may_send(peer, &raft->options) && peer->room != RAFT_ROOM_NONE;
}

void leader_fetched(struct raft *raft, const struct raft_event *event) {
    size_t slot = config_find(&raft->config, event->fetched.peer);
    if (slot == raft->config.count || !raft->peers[slot].fetching) {
        return;
    }
    struct progress *peer = &raft->peers[slot];
    peer->fetching = false;
    if (event->fetched.rc != 0 || event->fetched.count == 0) {
        peer->paused = true;
        return;
    }
    if (!fetch_useful(raft, peer, event)) {
        replicate_to(raft, slot);
        return;
    }
    /* As many as the window still has room for, and at least one: appends may have gone out since. */
    uint64_t room = progress_window(peer, &raft->options) - peer->inflight_bytes;
    uint64_t bytes = 0;
    size_t count = 0;
    while (count < event->fetched.count && count < RAFT_APPEND_ENTRIES_MAX) {
        uint64_t more = (uint64_t)event->fetched.sizes[count] + SIZES_ENTRY_OVERHEAD;
        if (count > 0 && bytes + more > room) {
            break;
        }
        bytes += more;
        count++;
    }
    uint64_t first = peer->next, last = first + count - 1;
    append_message(raft, slot, first, last, progress_sent(peer, first, last, bytes, raft->now_ns));
    /* Only what was fetched can be framed in this step; the next range is read meanwhile. */
    if (peer->next <= raft->last && peer->next < raft->sizes.first &&
        progress_may_send(peer, &raft->options) && damage_at(&raft->gaps, peer->next) == NULL) {
        fetch(raft, slot);
    }
}
