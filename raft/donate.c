/* Helping a peer with what it cannot read any more (rule 11), in any role.
 *
 * A proof that the peer had the very entry that is here: the last term of its gap. Our entries of that
 * term, up to the gap's end, are its entries, since one leader made them all; and what lies below is
 * the same too (log matching). */
#include "raft/core.h"

struct verdict {
    enum raft_repair_answer answer;
    uint64_t shared_index, shared_term;
};

/* The peer's entry there may have any term between that before its gap and that of its end. */
static bool cannot_be(const struct raft *raft, const struct raft_message *m) {
    uint64_t first = m->repair_request.first, prev_term = m->repair_request.prev_term;
    uint64_t last_term = m->repair_request.last_term;
    uint64_t before = raft_term_at(raft, first - 1);
    uint64_t here = raft_term_at(raft, first);
    if (raft->last < first || (prev_term != 0 && before != 0 && before != prev_term)) {
        return true;
    }
    bool exact = prev_term == last_term || first == m->repair_request.last;
    return here != 0 && (here > last_term || here < prev_term || (exact && here != last_term));
}

/* Whether the peer's last entry of its gap is known not to be here. */
static bool lacks_end(const struct raft *raft, const struct raft_message *m) {
    uint64_t last = m->repair_request.last, term = m->repair_request.last_term;
    uint64_t here = raft_term_at(raft, last);
    if (raft->last < last || here != 0) {
        return here != term;
    }
    const struct gap *gap = damage_unknown_at(&raft->gaps, last);
    return gap != NULL &&
           (gap->last_term < term || raft_term_at(raft, gap->unknown_from - 1) > term);
}

static struct verdict unproven(const struct raft *raft, const struct raft_message *m) {
    if (raft->end_unknown) {
        return (struct verdict){.answer = RAFT_REPAIR_END_UNKNOWN};
    }
    if (cannot_be(raft, m)) {
        return (struct verdict){.answer = RAFT_REPAIR_ABSENT};
    }
    uint64_t first = m->repair_request.first, limit = m->repair_request.last - 1;
    if (first <=
        raft->image_index) { /* what is committed there is in the image, whoever had what */
        return (struct verdict){.answer = RAFT_REPAIR_COMPACTED};
    }
    struct verdict verdict = {.answer = RAFT_REPAIR_UNSURE};
    limit = limit < raft->last ? limit : raft->last;
    uint64_t index = log_last_known(raft, m->repair_request.last_term, limit, true);
    bool same_before = first == 1 || (m->repair_request.prev_term != 0 &&
                                      raft_term_at(raft, first - 1) == m->repair_request.prev_term);
    if (lacks_end(raft, m) && same_before && index >= first) {
        verdict.shared_index = index;
        verdict.shared_term = raft_term_at(raft, index);
    }
    return verdict;
}

static struct verdict judge(const struct raft *raft, const struct raft_message *m) {
    uint64_t first = m->repair_request.first, last = m->repair_request.last;
    if (first == 0) {
        return (struct verdict){.answer = raft->end_unknown ? RAFT_REPAIR_END_UNKNOWN
                                                            : RAFT_REPAIR_ABSENT};
    }
    const struct gap *gap = damage_at(&raft->gaps, first);
    if (first < raft->first || (gap != NULL && first <= raft->image_index)) {
        return (struct verdict){.answer = RAFT_REPAIR_COMPACTED};
    }
    uint64_t limit = last < raft->last ? last : raft->last;
    uint64_t shared = log_last_known(raft, m->repair_request.last_term, limit, false);
    if (log_last_known(raft, m->repair_request.last_term, raft->last, false) > last) {
        shared = last; /* also when our own entry there is unreadable and of unknown term */
    }
    if (shared < first) {
        return unproven(raft, m);
    }
    if (gap == NULL) {
        return (struct verdict){.answer = RAFT_REPAIR_READABLE,
                                .shared_index = shared,
                                .shared_term = m->repair_request.last_term};
    }
    struct verdict verdict = {.answer = RAFT_REPAIR_UNREADABLE, .shared_index = first};
    if (raft_term_at(raft, first) == 0) {
        verdict.shared_index = gap->last < shared ? gap->last : shared;
    }
    verdict.shared_term = raft_term_at(raft, verdict.shared_index);
    return verdict;
}

static struct raft_message *reply(struct raft *raft, uint64_t to, const struct verdict *verdict,
                                  uint64_t boot_nonce, uint64_t round) {
    struct raft_message *message = update_message(raft, RAFT_REPAIR_REPLY, to);
    message->repair_reply.answer = verdict->answer;
    message->repair_reply.shared_index = verdict->shared_index;
    message->repair_reply.shared_term = verdict->shared_term;
    message->repair_reply.boot_nonce = boot_nonce;
    message->repair_reply.round = round;
    return message;
}

/* ------------------------------------------------------------------ entries */

/* From the window, or else from the disk: one such fetch at a time for each peer. */
static void give_entries(struct raft *raft, size_t slot, const struct raft_message *m,
                         const struct verdict *verdict) {
    uint64_t first = m->repair_request.first, last = verdict->shared_index;
    const struct gap *gap = damage_from(&raft->gaps, first);
    last = gap != NULL && gap->first <= last ? gap->first - 1 : last;
    uint32_t bytes_max = m->repair_request.bytes_max;
    bytes_max =
        bytes_max < raft->options.append_bytes_max ? bytes_max : raft->options.append_bytes_max;
    if (first >= raft->sizes.first) {
        uint64_t fits = sizes_fit(&raft->sizes, first, bytes_max, RAFT_APPEND_ENTRIES_MAX);
        last = fits < last ? fits : last;
        struct raft_message *message =
            reply(raft, m->from, verdict, m->repair_request.boot_nonce, m->repair_request.round);
        message->repair_reply.first = first;
        message->repair_reply.count = (uint32_t)(last + 1 - first);
        return;
    }
    struct donation *donation = &raft->peers[slot].donation;
    if (donation->fetching) {
        return;
    }
    uint64_t most = raft->sizes.first - 1;
    most = first + RAFT_APPEND_ENTRIES_MAX - 1 < most ? first + RAFT_APPEND_ENTRIES_MAX - 1 : most;
    *donation = (struct donation){.fetching = true,
                                  .boot_nonce = m->repair_request.boot_nonce,
                                  .round = m->repair_request.round,
                                  .first = first,
                                  .shared_index = verdict->shared_index,
                                  .shared_term = verdict->shared_term,
                                  .cuts = raft->cuts};
    update_fetch(raft, (struct raft_fetch){.peer = m->from,
                                           .from = first,
                                           .to = last < most ? last : most,
                                           .bytes_max = bytes_max,
                                           .repair = true});
}

/* What could not be read is told by DAMAGED, so the next answer says it. A cut meanwhile may have put
 * another entry in its place, or have read one that is gone: asked again, it is judged again. */
void donate_fetched(struct raft *raft, const struct raft_event *event) {
    size_t slot = config_find(&raft->config, event->fetched.peer);
    if (slot == raft->config.count || !raft->peers[slot].donation.fetching) {
        return;
    }
    struct donation *donation = &raft->peers[slot].donation;
    donation->fetching = false;
    size_t count = event->fetched.count < RAFT_APPEND_ENTRIES_MAX ? event->fetched.count
                                                                  : RAFT_APPEND_ENTRIES_MAX;
    bool good = event->fetched.rc == 0 && count > 0 && donation->cuts == raft->cuts &&
                event->fetched.from == donation->first;
    if (!good) {
        return;
    }
    struct verdict verdict = {.answer = RAFT_REPAIR_READABLE,
                              .shared_index = donation->shared_index,
                              .shared_term = donation->shared_term};
    struct raft_message *message =
        reply(raft, event->fetched.peer, &verdict, donation->boot_nonce, donation->round);
    message->repair_reply.first = donation->first;
    message->repair_reply.count = (uint32_t)count;
}

/* ------------------------------------------------------------------ the request */

static bool sane(const struct raft_message *m) {
    uint64_t first = m->repair_request.first, last = m->repair_request.last;
    bool end_only = first == 0 && last == 0;
    return end_only ||
           (first > 0 && first <= last && last <= INDEX_MAX && m->repair_request.last_term > 0 &&
            m->repair_request.prev_term <= m->repair_request.last_term);
}

void donate_request(struct raft *raft, const struct raft_message *message) {
    size_t slot = config_find(&raft->config, message->from);
    if (slot == raft->config.count || !sane(message)) {
        return;
    }
    struct verdict verdict = judge(raft, message);
    enum raft_repair_want want = message->repair_request.want;
    raft->peers[slot].up = true;
    if (want == RAFT_REPAIR_ENTRIES && verdict.answer == RAFT_REPAIR_READABLE) {
        give_entries(raft, slot, message, &verdict);
        return;
    }
    if (want == RAFT_REPAIR_IMAGE && verdict.answer == RAFT_REPAIR_COMPACTED) {
        replicate_image(raft, slot);
    }
    reply(raft, message->from, &verdict, message->repair_request.boot_nonce,
          message->repair_request.round);
}
