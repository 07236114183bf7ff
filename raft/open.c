/* From what recovery found to a follower that waits. */
#include "raft/core.h"

static int check_options(const struct raft_options *options, struct reason *why) {
    if (options->heartbeat_ms == 0 || options->election_min_ms < 2 * options->heartbeat_ms ||
        options->election_max_ms < options->election_min_ms || options->disk_hang_ms == 0) {
        return reason_set(why, LKV_EINVAL,
                          "times must be: 0 < heartbeat, 2 heartbeats <= election min <= max, "
                          "0 < disk hang; got %u, %u, %u, %u ms",
                          options->heartbeat_ms, options->election_min_ms, options->election_max_ms,
                          options->disk_hang_ms);
    }
    if (options->inflight_bytes_max == 0 || options->inflight_requests_max == 0 ||
        options->append_bytes_max == 0 || options->uncommitted_bytes_max == 0) {
        return reason_set(why, LKV_EINVAL, "a limit of 0 lets nothing through");
    }
    if (options->promise_ms > options->election_min_ms || options->drift_ppm >= 1000000) {
        return reason_set(
            why, LKV_EINVAL,
            "a promise lasts at most election min, %u ms, and clocks differ by less than "
            "a million ppm; got %u ms, %u ppm",
            options->election_min_ms, options->promise_ms, options->drift_ppm);
    }
    return 0;
}

static int check_log(const struct raft_start *start, struct reason *why) {
    if (start->first == 0 || start->last > INDEX_MAX || start->last + 1 < start->first) {
        return reason_set(why, LKV_EINVAL, "log [%llu, %llu] is no range",
                          (unsigned long long)start->first, (unsigned long long)start->last);
    }
    if (start->image_index + 1 < start->first || start->image_index > start->last ||
        (start->image_index == 0) != (start->image_term == 0)) {
        return reason_set(
            why, LKV_EINVAL, "image (%llu, term %llu) does not join the log [%llu, %llu]",
            (unsigned long long)start->image_index, (unsigned long long)start->image_term,
            (unsigned long long)start->first, (unsigned long long)start->last);
    }
    return 0;
}

static int check_runs(const struct raft_start *start, struct reason *why) {
    bool empty = start->last < start->first;
    if (!empty && (start->run_count == 0 || start->runs[0].first > start->first)) {
        return reason_set(why, LKV_EINVAL, "the terms of the first entries are missing");
    }
    uint64_t newest = start->image_term;
    for (size_t i = 0; i < start->run_count; i++) {
        const struct raft_run *run = &start->runs[i];
        bool later = i == 0 || (run->first > run[-1].first && run->term > run[-1].term);
        if (run->term == 0 || !later || run->first > start->last) {
            return reason_set(why, LKV_EINVAL, "run %zu of terms (%llu from index %llu) is wrong",
                              i, (unsigned long long)run->term, (unsigned long long)run->first);
        }
        newest = run->term > newest ? run->term : newest;
    }
    if (start->term < newest || start->term > TERM_MAX) { /* rule 2, at open */
        return reason_set(why, LKV_EINVAL, "term %llu is below the log's %llu",
                          (unsigned long long)start->term, (unsigned long long)newest);
    }
    return 0;
}

/* The term of an entry that is in no gap, or the last one of a gap, as the start states it. */
static uint64_t stated_term(const struct raft_start *start, uint64_t index) {
    uint64_t term = index == start->image_index ? start->image_term : 0;
    for (size_t i = 0; i < start->run_count && start->runs[i].first <= index; i++) {
        term = start->runs[i].term;
    }
    for (size_t i = 0; i < start->gap_count; i++) {
        term = start->gaps[i].last == index ? start->gaps[i].last_term : term;
    }
    return term;
}

static int check_gaps(const struct raft_start *start, struct reason *why) {
    uint64_t before = start->image_index > start->first - 1 ? start->image_index : start->first - 1;
    for (size_t i = 0; i < start->gap_count; i++) {
        const struct raft_gap *gap = &start->gaps[i];
        bool fits = gap->first > before && gap->first <= gap->last && gap->last <= start->last;
        if (!fits || gap->last_term == 0 || gap->last_term < stated_term(start, gap->first - 1) ||
            (gap->last < start->last && gap->last_term > stated_term(start, gap->last + 1) &&
             (i + 1 == start->gap_count || gap[1].first != gap->last + 1))) {
            return reason_set(why, LKV_EINVAL, "gap %zu (%llu..%llu, term %llu) is wrong", i,
                              (unsigned long long)gap->first, (unsigned long long)gap->last,
                              (unsigned long long)gap->last_term);
        }
        before = gap->last;
    }
    return 0;
}

static int check(const struct raft_start *start, struct reason *why) {
    if (start->self == RAFT_NOBODY || !config_valid(&start->config)) {
        return reason_set(why, LKV_EINVAL, "member ids must be non-zero, ascending and at most %d",
                          RAFT_MEMBERS_MAX);
    }
    int rc = check_options(&start->options, why);
    if (rc == 0) {
        rc = check_log(start, why);
    }
    rc = rc == 0 ? check_runs(start, why) : rc;
    return rc == 0 ? check_gaps(start, why) : rc;
}

/* From the first to the last, so that the term before each is settled. */
static bool set_gaps(struct raft *raft, const struct raft_start *start) {
    for (size_t i = 0; i < start->gap_count; i++) {
        const struct raft_gap *from = &start->gaps[i];
        struct gap gap = {.first = from->first,
                          .last = from->last,
                          .last_term = from->last_term,
                          .unknown_from = from->first};
        if (!terms_set(&raft->terms, gap.first, gap.last, gap.last_term, raft->last) ||
            !damage_push(&raft->gaps, gap)) {
            return false;
        }
        log_gap_changed(raft, &raft->gaps.items[raft->gaps.count - 1]);
    }
    return !raft->no_memory;
}

static void set_log(struct raft *raft, const struct raft_start *start) {
    raft->term = raft->durable_term = start->term;
    raft->voted_for = raft->durable_vote = start->voted_for;
    raft->first = start->first;
    raft->last = raft->durable = start->last;
    raft->image_index = raft->commit = raft->applied = raft->reported = start->image_index;
    raft->image_term = start->image_term;
    raft->floor_index = start->floor_index;
    raft->floor_term = start->floor_term;
    sizes_init(&raft->sizes, start->last + 1);
    if (raft->terms.count > 0 && raft->terms.runs[0].first < start->first) {
        if (start->first > start->last) {
            terms_clear(&raft->terms);
        } else {
            terms_drop_below(&raft->terms, start->first);
        }
    }
}

int raft_open(struct raft **out, const struct raft_start *start, struct reason *why) {
    *out = NULL;
    int rc = check(start, why);
    if (rc != 0) {
        return rc;
    }
    struct raft *raft = mem_calloc(1, sizeof *raft);
    if (raft == NULL || !terms_init(&raft->terms, start->runs, start->run_count)) {
        mem_free(raft);
        return reason_set(why, LKV_ENOMEM, "no memory for the consensus core");
    }
    raft->self = start->self;
    raft->config = start->config;
    raft->self_slot = config_find(&raft->config, raft->self);
    raft->options = start->options;
    raft->prng = prng_of(start->seed);
    raft->boot_nonce = prng_next(&raft->prng);
    raft->now_ns = start->now_ns;
    raft->role = raft->told_role = RAFT_FOLLOWER;
    raft->may_campaign = !start->campaign_gate;
    raft->room = RAFT_ROOM_FREE;
    set_log(raft, start);
    if (!set_gaps(raft, start)) {
        raft_close(raft);
        return reason_set(why, LKV_ENOMEM, "no memory for the consensus core");
    }
    raft->promise.saved_ms = raft->promise.least_ms = start->promised_ms;
    raft->promise.until_ns = raft->promise.silent_ns = raft->now_ns + ms(start->promised_ms);
    raft->end_unknown = start->end_unknown;
    raft->repair.due_ns = repair_may_lead(raft) ? UINT64_MAX : raft->now_ns;
    raft->told_term = raft->term;
    raft->stream.verified = raft->commit;
    election_arm(raft);
    if (raft->self_slot < raft->config.count &&
        config_quorum(&raft->config, 1u << raft->self_slot)) {
        raft->election_ns = raft->now_ns; /* nobody else could be leading */
    }
    *out = raft;
    return 0;
}

void raft_close(struct raft *raft) {
    if (raft == NULL) {
        return;
    }
    for (size_t i = 0; i < RAFT_MEMBERS_MAX; i++) {
        progress_fini(&raft->peers[i]);
    }
    terms_fini(&raft->terms);
    sizes_fini(&raft->sizes);
    writes_fini(&raft->writes);
    early_fini(&raft->early);
    damage_fini(&raft->gaps);
    mem_free(raft->reads.items);
    mem_free(raft);
}
