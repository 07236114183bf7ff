/* Leases: reads that need no quorum round, as long as clocks keep to a bound (rule 30; Ongaro's thesis,
 * 6.4.1, with the promise stated and kept instead of inferred from election timeouts).
 *
 *   leader                                          voter
 *   sends round r at s, asks for a promise P  --->  from when it comes, for P: no vote and no pre-vote, for
 *                                                   nobody, itself included
 *   hears of r from a quorum: nobody else can  <--- says what it has promised
 *   be elected before s + P of the voters' clocks
 *   lease until s + P * (1 - drift) of its own
 *
 * Counted from *sending*: the way of the heartbeat makes the lease shorter than the promises, never longer.
 *
 * What else ends it or keeps it from beginning:
 *   - Its own token (transfer.c) passes promises. So with the first token there is no lease for the rest of the
 *     term: a token may be on its way for any time.
 *   - Only when an entry of the leader's own term is committed it knows what is.
 *   - A voter keeps its promises through a restart. How long the longest is, is in the vote record before it is
 *     given, and the next life votes for nobody for so long. Story: promised for 300 ms, restarted within 100,
 *     with the option at 150: any length that is derived from options alone is too short.
 *   - A voter whose program does not know promises is not asked, and gives none: it counts for no lease.
 *
 * Everything is counted on the owner's clock, which must go on while the machine sleeps. */
#include "raft/core.h"

enum { PPM = 1000000 };

/* ------------------------------------------------------------------ voter */

static void save(struct raft *raft, uint32_t promised_ms) {
    raft->promise.saved_ms = promised_ms;
    if (promised_ms < raft->promise.least_ms) {
        raft->promise.least_ms = promised_ms; /* the disk may say so from now on */
    }
    log_save_vote(raft);
}

/* Longer promises are given when the record of them is durable; a shorter record replaces it when the promises
 * of earlier lives are over, and this one has given none that was longer. */
static void record(struct raft *raft, uint32_t asked_ms) {
    const struct promise *promise = &raft->promise;
    bool over = raft->now_ns >= promise->silent_ns && promise->given_ms <= asked_ms;
    bool longer = asked_ms > promise->saved_ms;
    if ((longer || (asked_ms < promise->saved_ms && over)) && disk_can_vote(raft)) {
        save(raft, asked_ms);
    }
}

uint32_t lease_promise(struct raft *raft, uint32_t asked_ms) {
    struct promise *promise = &raft->promise;
    raft->stream.knows_leases = raft->stream.knows_leases || asked_ms > 0;
    if (!config_votes(&raft->config, raft->self_slot)) {
        return 0;
    }
    record(raft, asked_ms);
    uint32_t given_ms = asked_ms < promise->least_ms ? asked_ms : promise->least_ms;
    if (given_ms > promise->given_ms) {
        promise->given_ms = given_ms;
    }
    uint64_t until_ns = raft->now_ns + ms(given_ms);
    if (until_ns > promise->until_ns) {
        promise->until_ns = until_ns;
    }
    return given_ms;
}

bool lease_is_promised(const struct raft *raft) {
    return raft->now_ns < raft->promise.until_ns;
}

/* Only the newest record counts: behind an older one another may be on its way to the disk. */
void lease_persisted(struct raft *raft, const struct pending_write *write) {
    if (write->no == raft->writes.vote_no) {
        raft->promise.least_ms = write->promised_ms;
    }
}

/* ------------------------------------------------------------------ leader */

void lease_echo(struct raft *raft, size_t slot, uint64_t round, uint32_t promise_ms) {
    bool asked = promise_ms > 0 && promise_ms <= raft->options.promise_ms;
    if (!asked || raft->round - round >= ROUNDS_REMEMBERED) {
        return;
    }
    uint64_t sent_ns = raft->round_ns[round % ROUNDS_REMEMBERED];
    uint64_t until_ns = sent_ns + ms(promise_ms) / PPM * (PPM - raft->options.drift_ppm);
    if (until_ns > raft->peers[slot].lease_ns) {
        raft->peers[slot].lease_ns = until_ns;
    }
}

uint64_t lease_until(const struct raft *raft) {
    if (raft->role != RAFT_LEADER || raft->options.promise_ms == 0 || raft->lease_over ||
        raft->commit < raft->noop_index) {
        return 0;
    }
    uint64_t until_ns[RAFT_MEMBERS_MAX] = {0};
    for (size_t i = 0; i < raft->config.count; i++) {
        until_ns[i] = i == raft->self_slot ? UINT64_MAX : raft->peers[i].lease_ns;
    }
    return config_quorum_value(&raft->config, until_ns);
}

bool lease_holds(const struct raft *raft) {
    return raft->now_ns < lease_until(raft);
}
