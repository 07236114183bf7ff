/* Getting back what cannot be read any more (rule 11), from any peer, with a leader or without one.
 *
 *                       every 2 heartbeats             one of those that can read
 *   gap found ----> STATUS to everybody ---> answers ---> ENTRIES -> fill -> PERSISTED --> shorter gap
 *                            ^                  |   '---> IMAGE, from one that has compacted it
 *                            '--- new question -'---> nobody can: cut there, or stop
 *
 * Only the first gap is asked about: while it is there this node can do nothing that needs a later one.
 *
 * An entry is taken from a peer only with a proof that it is the one that was here: an (index, term)
 * at or behind it in both logs (log matching). That includes leaders: an unreadable entry whose term is
 * not known is no conflict, so it is not overwritten by an append (follow.c), or else, after a crash in
 * between, a leader's entry could stand in front of our own later ones of another leader. */
#include "raft/core.h"

#include <stdio.h>

enum {
    DONOR_BEATS = 6,    /* so long a peer may take to send entries */
    IMAGE_BEATS = 200,  /* ... and an image, before another one sends its own as well */
    HOPELESS_BEATS = 20 /* so long nobody may have been able to proceed: others find out as well */
};

static uint64_t beats(const struct raft *raft, uint32_t count) {
    return raft->now_ns + count * ms(raft->options.heartbeat_ms);
}

bool repair_may_lead(const struct raft *raft) {
    return log_blocked(raft) == NULL && !raft->end_unknown;
}

/* ------------------------------------------------------------------ the question */

static void forget_answers(struct raft *raft) {
    memset(raft->repair.heard, 0, sizeof raft->repair.heard);
    raft->repair.hopeless_ns = 0;
}

/* What is asked is the first gap as it is now; answers to another question do not count. */
static void set_question(struct raft *raft) {
    struct repair *repair = &raft->repair;
    const struct gap *gap = log_blocked(raft);
    struct gap question = gap != NULL ? *gap : (struct gap){0};
    const struct gap *old = &repair->question;
    bool same = old->first == question.first && old->last == question.last &&
                old->last_term == question.last_term && old->unknown_from == question.unknown_from;
    if (same) {
        return;
    }
    repair->question = question;
    repair->prev_term = gap != NULL ? raft_term_at(raft, gap->first - 1) : 0;
    repair->round++;
    forget_answers(raft);
}

void repair_changed(struct raft *raft) {
    struct repair *repair = &raft->repair;
    bool idle = repair_may_lead(raft);
    set_question(raft);
    repair->round++; /* positions in the configuration may be others now */
    forget_answers(raft);
    repair->donor_until_ns = 0;
    repair->due_ns = idle || raft->role == RAFT_STOPPED ? UINT64_MAX : raft->now_ns;
    if (raft->role == RAFT_LEADER) {
        commit_by_counting(raft); /* there may be more that counts than before */
    } else if (raft->role != RAFT_STOPPED) {
        follow_persisted(raft);
    }
}

void repair_peer_restarted(struct raft *raft, size_t slot) {
    raft->repair.heard[slot] = (struct repair_heard){0};
    raft->repair.hopeless_ns = 0;
}

static void ask(struct raft *raft, size_t slot, enum raft_repair_want want) {
    const struct repair *repair = &raft->repair;
    struct raft_message *request =
        update_message(raft, RAFT_REPAIR_REQUEST, raft->config.members[slot].id);
    request->repair_request.want = want;
    request->repair_request.first = repair->question.first;
    request->repair_request.last = repair->question.last;
    request->repair_request.prev_term = repair->prev_term;
    request->repair_request.last_term = repair->question.last_term;
    request->repair_request.bytes_max = raft->options.append_bytes_max;
    request->repair_request.boot_nonce = raft->boot_nonce;
    request->repair_request.round = repair->round;
}

static void ask_donor(struct raft *raft, size_t slot) {
    struct repair *repair = &raft->repair;
    bool image = repair->heard[slot].answer == RAFT_REPAIR_COMPACTED;
    repair->donor = slot;
    repair->donor_until_ns = beats(raft, image ? IMAGE_BEATS : DONOR_BEATS);
    ask(raft, slot, image ? RAFT_REPAIR_IMAGE : RAFT_REPAIR_ENTRIES);
}

/* The leader if it can, else in turn; entries rather than an image. */
static void choose_donor(struct raft *raft) {
    struct repair *repair = &raft->repair;
    if (repair->donor_until_ns > raft->now_ns || repair->fill_no != 0) {
        return;
    }
    const enum raft_repair_answer order[] = {RAFT_REPAIR_READABLE, RAFT_REPAIR_COMPACTED};
    size_t count = raft->config.count, best = count;
    for (size_t k = 0; k < 2 && best == count; k++) {
        for (size_t i = 1; i <= count; i++) {
            size_t slot = (repair->donor + i) % count;
            const struct repair_heard *heard = &repair->heard[slot];
            if (!heard->answered || heard->answer != order[k]) {
                continue;
            }
            bool first_try = repair->donor_until_ns == 0;
            bool leads = raft->config.members[slot].id == raft->leader && first_try;
            best = best == count || leads ? slot : best;
        }
    }
    if (best < count) {
        ask_donor(raft, best);
    }
}

/* ------------------------------------------------------------------ nobody can proceed */

/* Cuts at `from`, which is proven not to be committed or to contradict the leader; what is left of the
 * gap ends in `prev_term`. */
static void cut(struct raft *raft, uint64_t from, uint64_t prev_term) {
    if (log_is_committed(raft, from)) { /* rule 13 */
        core_stop(raft, LKV_EDAMAGED,
                  "the unreadable entry %llu is committed, and the others have another one",
                  (unsigned long long)from);
        return;
    }
    log_cut(raft, from, prev_term);
    repair_changed(raft);
}

static const char *answer_text(const struct repair_heard *heard, bool end_only) {
    static const char *const texts[] = {[RAFT_REPAIR_READABLE] = "can read it",
                                        [RAFT_REPAIR_UNREADABLE] = "cannot read it either",
                                        [RAFT_REPAIR_ABSENT] = "never had it",
                                        [RAFT_REPAIR_UNSURE] = "may have it",
                                        [RAFT_REPAIR_END_UNKNOWN] = "does not know its end",
                                        [RAFT_REPAIR_COMPACTED] = "has an image over it"};
    if (end_only && heard->answered && heard->answer != RAFT_REPAIR_END_UNKNOWN) {
        return "knows its end";
    }
    return heard->answered ? texts[heard->answer] : "did not answer";
}

/* "entry 7 (of 7..9) cannot be read: 0000000000000002 never had it, ..." */
static struct reason report(const struct raft *raft) {
    const struct gap *gap = &raft->repair.question;
    struct reason text = {{0}};
    size_t at = 0, size = sizeof text.text;
    if (gap->first != 0) {
        at = (size_t)snprintf(text.text, size, "entry %llu (of %llu..%llu, the last of term %llu) ",
                              (unsigned long long)gap->first, (unsigned long long)gap->first,
                              (unsigned long long)gap->last, (unsigned long long)gap->last_term);
        at += (size_t)snprintf(text.text + at, size - at, "cannot be read");
    } else {
        at = (size_t)snprintf(text.text, size, "this log's end is not known");
    }
    for (size_t i = 0; i < raft->config.count; i++) {
        if (i != raft->self_slot && at < size) {
            at += (size_t)snprintf(text.text + at, size - at, "%s%016llx %s", at > 0 ? "; " : "",
                                   (unsigned long long)raft->config.members[i].id,
                                   answer_text(&raft->repair.heard[i], gap->first == 0));
        }
    }
    return text;
}

/* The voters that said this, and this node when `self`. */
static uint32_t voters_that(const struct raft *raft, enum raft_repair_answer answer, bool self) {
    uint32_t mask = 0;
    for (size_t i = 0; i < raft->config.count; i++) {
        const struct repair_heard *heard = &raft->repair.heard[i];
        bool says = i == raft->self_slot ? self : heard->answered && heard->answer == answer;
        mask |= config_votes(&raft->config, i) && says ? 1u << i : 0;
    }
    return mask;
}

/* Somebody can help, or not every voter has answered in this life of its (rule 11). */
static bool hope(const struct raft *raft) {
    for (size_t i = 0; i < raft->config.count; i++) {
        const struct repair_heard *heard = &raft->repair.heard[i];
        if (i == raft->self_slot) {
            continue;
        }
        if (!heard->answered) {
            if (config_votes(&raft->config, i)) {
                return true;
            }
        } else if (heard->answer == RAFT_REPAIR_READABLE ||
                   heard->answer == RAFT_REPAIR_COMPACTED) {
            return true;
        }
    }
    return false;
}

/* Our entry there may have that term, for all that is known; peers are not trusted to make sense. */
static bool may_be(const struct raft *raft, const struct gap *gap, uint64_t index, uint64_t term) {
    if (index < gap->first || index >= gap->last) {
        return false;
    }
    uint64_t known = raft_term_at(raft, index);
    return known != 0 ? term == known
                      : term != 0 && term <= gap->last_term &&
                            term >= raft_term_at(raft, gap->unknown_from - 1);
}

/* Of the voters that may have the gap's beginning without proof, the log that goes on longest, as in
 * an election. False: not all of them know what they have. */
static bool best_unsure(const struct raft *raft, uint64_t *index, uint64_t *term) {
    *index = *term = 0;
    for (size_t i = 0; i < raft->config.count; i++) {
        const struct repair_heard *heard = &raft->repair.heard[i];
        if (i == raft->self_slot || !config_votes(&raft->config, i) || !heard->answered ||
            heard->answer != RAFT_REPAIR_UNSURE) {
            continue;
        }
        if (!may_be(raft, &raft->repair.question, heard->shared_index, heard->shared_term)) {
            return false;
        }
        bool later = heard->shared_term > *term ||
                     (heard->shared_term == *term && heard->shared_index > *index);
        *index = later ? heard->shared_index : *index;
        *term = later ? heard->shared_term : *term;
    }
    return true;
}

/* The gap's last entry is held by fewer than a quorum and so is committed nowhere; what comes before it
 * may be. When nobody else can have the first one either, the cut is there. Otherwise, of what we may
 * share with others, everything that can be committed is in the best of their logs up to here: we hold
 * that, unreadable, from now on. (Whoever holds a committed entry of ours is among them, and as
 * in an election the best log has it too; a quorum that does not need us has it without us.) */
static void discard(struct raft *raft) {
    const struct gap gap = raft->repair.question;
    uint64_t index, term;
    struct reason text = report(raft);
    if (voters_that(raft, RAFT_REPAIR_UNSURE, false) == 0) {
        index = gap.first - 1;
        term = raft->repair.prev_term;
    } else if (!best_unsure(raft, &index, &term)) {
        return;
    }
    /* A leader would have had it: the one that we followed has died. What it had sent, and what was verified
     * by that, does not join what is left: an append behind the end would else be taken for the next. */
    core_become_follower(raft, RAFT_NOBODY);
    cut(raft, index + 1, term);
    if (raft->role != RAFT_STOPPED) {
        raft->update->discarded_from = index + 1;
        raft->update->note = text;
    }
}

/* All seems lost: everybody is asked once more. True: every voter has said so again. That one never had an entry,
 * or cannot read it, holds for the moment at which it says so: one that is silent since may have been given it, and
 * made it committed. */
static bool said_again(struct raft *raft) {
    struct repair *repair = &raft->repair;
    if (repair->hopeless_ns == 0) {
        repair->hopeless_ns = beats(raft, HOPELESS_BEATS);
        repair->round++;
        repair->due_ns = raft->now_ns;
    }
    for (size_t i = 0; i < raft->config.count; i++) {
        const struct repair_heard *heard = &repair->heard[i];
        bool counts = i != raft->self_slot && config_votes(&raft->config, i) && heard->answered;
        if (counts && heard->round != repair->round) {
            return false;
        }
    }
    return true;
}

static void decide(struct raft *raft) {
    struct repair *repair = &raft->repair;
    uint32_t ends = voters_that(raft, RAFT_REPAIR_END_UNKNOWN, raft->end_unknown);
    uint32_t held = voters_that(raft, RAFT_REPAIR_UNREADABLE, true) | ends;
    const struct gap *gap = &repair->question;
    bool nobody_confirms = ends != 0 && !config_quorum(&raft->config, ~ends);
    bool lost = gap->first != 0 && !hope(raft) &&
                (log_is_committed(raft, gap->first) || config_majority_of_any(&raft->config, held));
    bool covered = gap->first != 0 && gap->last <= raft->applied; /* an own image will mend it */
    if (gap->first != 0 && !hope(raft) && !lost && repair->fill_no == 0) {
        if (raft->role == RAFT_LEADER) {
            core_become_follower(raft,
                                 RAFT_NOBODY); /* a leader's (index, term) is never used twice */
        }
        if (said_again(raft)) {
            discard(raft);
        }
        return;
    }
    if ((!nobody_confirms && !lost) || covered) {
        repair->hopeless_ns = 0;
        return;
    }
    if (!said_again(raft) || raft->now_ns < repair->hopeless_ns) {
        return; /* the others are to hear what this node has to say, so that each can report */
    }
    struct reason text = report(raft);
    if (nobody_confirms) {
        core_stop(
            raft, LKV_EDAMAGED,
            "so many voters do not know their log's end that no quorum is left to confirm one; "
            "recover offline: %s",
            text.text);
    } else {
        core_stop(raft, LKV_EDAMAGED,
                  "a quorum had it and nobody can read it: %s. One member that can read it again "
                  "is enough: bring back its disk or its file, then start all",
                  text.text);
    }
}

/* ------------------------------------------------------------------ time */

/* A sending that fails is not told; asked again, a donor that still sends does nothing. */
static bool image_is_due(const struct raft *raft, size_t slot) {
    const struct repair *repair = &raft->repair;
    return slot == repair->donor && raft->now_ns < repair->donor_until_ns &&
           repair->heard[slot].answered && repair->heard[slot].answer == RAFT_REPAIR_COMPACTED;
}

void repair_tick(struct raft *raft) {
    struct repair *repair = &raft->repair;
    if (raft->now_ns < repair->due_ns) {
        return;
    }
    if (repair_may_lead(raft)) {
        repair->due_ns = UINT64_MAX;
        return;
    }
    repair->due_ns = beats(raft, 2);
    set_question(raft);
    for (size_t i = 0; i < raft->config.count; i++) {
        if (i != raft->self_slot) {
            ask(raft, i, image_is_due(raft, i) ? RAFT_REPAIR_IMAGE : RAFT_REPAIR_STATUS);
        }
    }
    if (raft->end_unknown) {
        catchup_ask(raft);
        catchup_check(raft); /* what it has may have been verified without a write */
    }
    choose_donor(raft);
    decide(raft);
}

/* ------------------------------------------------------------------ answers */

static bool entries_fit(const struct raft *raft, const struct raft_message *message) {
    const struct gap *gap = &raft->repair.question;
    uint64_t first = message->repair_reply.first, count = message->repair_reply.count;
    if (first != gap->first || count > gap->last + 1 - first ||
        first + count - 1 > message->repair_reply.shared_index) {
        return false;
    }
    uint64_t term = raft->repair.prev_term;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t next = message->repair_reply.entries[i].term;
        uint64_t known = raft_term_at(raft, first + i);
        if (next == 0 || next < term || next > gap->last_term || (known != 0 && next != known)) {
            return false;
        }
        term = next;
    }
    return true;
}

/* They are known from now on, and readable when they are durable. */
static void take(struct raft *raft, const struct raft_message *message, uint64_t token) {
    struct repair *repair = &raft->repair;
    struct gap *gap = log_blocked(raft);
    uint64_t first = message->repair_reply.first;
    uint64_t last = first + message->repair_reply.count - 1;
    for (uint64_t index = gap->unknown_from; index <= last && index < gap->last; index++) {
        uint64_t term = message->repair_reply.entries[index - first].term;
        bool same = terms_at(&raft->terms, index) == term;
        if (!same && !terms_set(&raft->terms, index, gap->last - 1, term, raft->last)) {
            raft->no_memory = true;
            return;
        }
    }
    if (gap->unknown_from <= last) {
        gap->unknown_from = last < gap->last ? last + 1 : gap->last;
        log_gap_changed(raft, gap);
    }
    repair->fill_no = raft->writes.newest_no + 1;
    repair->fill_first = first;
    repair->fill_last = last;
    repair->donor_until_ns = 0;
    update_fill(raft, (struct raft_fill){.token = token, .first = first, .last = last});
    set_question(raft);
}

/* Goes on at once, with the same peer if it has more. */
void repair_filled(struct raft *raft) {
    struct repair *repair = &raft->repair;
    repair->fill_no = 0;
    damage_filled(&raft->gaps, repair->fill_first, repair->fill_last);
    if (raft->role == RAFT_STOPPED) {
        return;
    }
    set_question(raft);
    repair->due_ns = raft->now_ns;
    catchup_check(raft);
    if (repair->question.first != 0 && repair->donor < raft->config.count &&
        repair->donor != raft->self_slot) {
        ask_donor(raft, repair->donor);
    }
}

/* An (index, term) within the gap that both logs share: our entry there has that term, and so may be
 * known to a peer that knows nothing of the gap's end. */
static void learn(struct raft *raft, const struct repair_heard *heard) {
    struct gap *gap = log_blocked(raft);
    uint64_t index = heard->shared_index, term = heard->shared_term;
    if (raft->repair.fill_no != 0 || index < gap->unknown_from || !may_be(raft, gap, index, term)) {
        return;
    }
    if (!terms_set(&raft->terms, index, gap->last - 1, term, raft->last) ||
        !damage_split(&raft->gaps, gap, index, term)) {
        raft->no_memory = true;
        return;
    }
    gap = damage_at(&raft->gaps, index);
    log_gap_changed(raft, gap);
    log_gap_changed(raft, damage_at(&raft->gaps, index + 1));
    repair_changed(raft);
}

/* The leader has another entry behind the last one of which we may have the same (it has one, since its
 * own term is higher than all of ours that it did not give us): a proven conflict, as in an append. */
static bool leader_contradicts(struct raft *raft, const struct raft_message *message) {
    const struct gap *gap = log_blocked(raft);
    uint64_t index = message->repair_reply.shared_index;
    uint64_t term = message->repair_reply.shared_term;
    bool leads = raft->role == RAFT_FOLLOWER && message->from == raft->leader &&
                 message->term == raft->term && raft->term > gap->last_term;
    if (!leads || message->repair_reply.answer != RAFT_REPAIR_UNSURE || raft->repair.fill_no != 0 ||
        index < raft->stream.verified || !may_be(raft, gap, index, term)) {
        return false;
    }
    cut(raft, index + 1, term);
    return true;
}

void repair_reply(struct raft *raft, const struct raft_message *message, uint64_t token) {
    struct repair *repair = &raft->repair;
    size_t slot = config_find(&raft->config, message->from);
    set_question(raft); /* an append may have changed it */
    if (slot == raft->config.count || message->repair_reply.boot_nonce != raft->boot_nonce ||
        message->repair_reply.round != repair->round || repair_may_lead(raft)) {
        return;
    }
    struct repair_heard *heard = &repair->heard[slot];
    *heard = (struct repair_heard){.answered = true,
                                   .round = repair->round,
                                   .answer = message->repair_reply.answer,
                                   .shared_index = message->repair_reply.shared_index,
                                   .shared_term = message->repair_reply.shared_term};
    if (repair->question.first == 0) {
        decide(raft);
        return;
    }
    bool shares = heard->answer == RAFT_REPAIR_READABLE || heard->answer == RAFT_REPAIR_UNREADABLE;
    if (message->repair_reply.count > 0) {
        if (repair->fill_no == 0 && heard->answer == RAFT_REPAIR_READABLE &&
            entries_fit(raft, message)) {
            take(raft, message, token);
        }
        return;
    }
    if (leader_contradicts(raft, message)) {
        return;
    }
    if (shares) {
        learn(raft, &(struct repair_heard){.shared_index = heard->shared_index,
                                           .shared_term = heard->shared_term});
    }
    choose_donor(raft);
    decide(raft);
}

/* What lies in our own files again needs no proof by another log: it stands where our entry stood. Its terms
 * have to fit all the same, and a fill that is under way goes first. */
void repair_reread(struct raft *raft, const struct raft_message *message, uint64_t token) {
    set_question(raft);
    if (raft->repair.question.first != 0 && raft->repair.fill_no == 0 &&
        message->repair_reply.count > 0 && entries_fit(raft, message)) {
        take(raft, message, token);
    }
}

/* ------------------------------------------------------------------ found while running */

static uint64_t term_of(void *arg, uint64_t index) {
    return raft_term_at(arg, index);
}

/* What was known before it rotted stays known. A leader goes on while all of it is applied; it hands
 * over, or steps down, when not (disk.c). */
void repair_damaged(struct raft *raft, const struct raft_event *event) {
    uint64_t first = event->damaged.first, last = event->damaged.last;
    first = first > raft->first ? first : raft->first;
    /* What is not durable yet cannot have been read: it was an entry that a cut on its way replaces. */
    last = last < raft->durable ? last : raft->durable;
    if (first > last) {
        return;
    }
    struct repair *repair = &raft->repair;
    if (repair->fill_no != 0 && first <= repair->fill_last && last >= repair->fill_first) {
        repair->fill_no = 0; /* it did not hold: still a gap when its write is PERSISTED */
    }
    if (!damage_add(&raft->gaps, first, last, term_of, raft)) {
        raft->no_memory = true;
        return;
    }
    if (raft->role == RAFT_CANDIDATE && !repair_may_lead(raft)) {
        core_become_follower(raft, RAFT_NOBODY);
    }
    repair_changed(raft);
    if (raft->role == RAFT_LEADER) {
        disk_watch(raft);
    }
}

/* ------------------------------------------------------------------ looking in */

void raft_repair_text(const struct raft *raft, struct reason *out) {
    out->text[0] = '\0';
    if (!repair_may_lead(raft)) {
        *out = report(raft);
    }
}

size_t raft_gaps(const struct raft *raft, struct raft_gap *out, size_t capacity) {
    const struct gap *gap = log_blocked(raft);
    if (gap == NULL) {
        return 0;
    }
    size_t count = (size_t)(raft->gaps.items + raft->gaps.count - gap);
    for (size_t i = 0; i < count && i < capacity; i++) {
        out[i] = (struct raft_gap){
            .first = gap[i].first, .last = gap[i].last, .last_term = gap[i].last_term};
    }
    return count;
}
