"""The mutants: one change each that takes a rule away, and the nets that must notice.

`old` stands exactly once in the file, so that a mutant that no longer fits is found by the style
tests and not silently skipped. Nets (run.py knows their commands) are tried in the given order.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    rule: str  # of docs/CORRECTNESS.md, or the id of a fault
    file: str
    old: str
    new: str
    nets: tuple


def _m(name, rule, file, old, new, *nets):
    return Mutant(name, rule, file, old, new, nets)


MUTANTS = [
    # ------------------------------------------------------------------ votes and terms
    _m("same-term-campaign", "1", "raft/election.c",
       "raft->term++; /* rule 1",
       "raft->term += raft->voted_for != raft->self; /* rule 1", "core", "scenarios"),
    _m("vote-reply-before-sync", "2", "raft/vote.c",
       "    raft->debt =\n"
       "        (struct vote_debt){.candidate = request->from, .round = request->vote_request.round};",
       "    answer(raft, request, RAFT_VOTE_ACCEPT);", "core", "scenarios"),
    _m("vote-not-saved", "2", "raft/vote.c",
       "        raft->voted_for = request->from;\n        log_save_vote(raft);",
       "        raft->voted_for = request->from;\n        raft->durable_vote = request->from;",
       "core", "scenarios"),
    _m("one-vote-slot", "2", "log/vote.c",
       "copy < VOTE_SLOTS; copy++", "copy < 1; copy++", "log-units", "log"),
    _m("term-not-durable-before-acknowledging", "2", "raft/log.c",
       "    if (raft->durable_term != raft->term || raft->end_unknown) {",
       "    if (raft->end_unknown) {", "core", "scenarios"),
    _m("no-stickiness", "3", "raft/vote.c",
       "    return raft->leader != RAFT_NOBODY &&\n           raft->now_ns",
       "    return raft->self == RAFT_NOBODY &&\n           raft->now_ns", "scenarios", "core"),
    _m("log-not-compared", "3", "raft/vote.c",
       "    return request->vote_request.last_index < index;",
       "    return false;", "core", "sim"),
    _m("log-compared-before-term", "L9", "raft/vote.c",
       "    if (request->term > raft->term) {\n        core_adopt_term",
       "    if (request->term > raft->term && !log_behind(raft, request)) {\n        core_adopt_term",
       "scenarios", "core"),
    _m("no-check-quorum", "4", "raft/commit.c",
       "    return raft->now_ns - quorum_ns < ms(raft->options.election_min_ms);",
       "    return quorum_ns <= raft->now_ns;", "scenarios", "core"),
    _m("round-clock-from-raising-the-term", "4", "raft/election.c",
       "    raft->election_ns =\n        UINT64_MAX; /* rule 4",
       "    election_arm_retry(raft); /* rule 4", "scenarios", "core"),
    _m("sick-disk-keeps-leading", "5", "raft/disk.c",
       "raft->room != RAFT_ROOM_FREE || disk_stuck(raft, raft->options.disk_hang_ms) ||",
       "raft->room != RAFT_ROOM_FREE ||", "scenarios", "core"),
    # ------------------------------------------------------------------ replication and commit
    _m("acknowledged-before-sync", "2", "raft/log.c",
       "    return index < sound ? index : sound;",
       "    return log_blocked(raft) == NULL ? index : sound;", "core", "sim"),
    _m("leader-counts-itself-before-sync", "L1", "raft/commit.c",
       "i == raft->self_slot ? log_sound(raft) :", "i == raft->self_slot ? raft->last :",
       "core", "sim"),
    _m("old-terms-commit-by-counting", "R10", "raft/commit.c",
       "index >= raft->noop_index && index > raft->commit", "index > raft->commit",
       "core", "scenarios"),
    _m("prev-term-not-checked", "6", "raft/follow.c",
       "    return term == request->prev_term;", "    return term != 0;", "core", "scenarios"),
    _m("commit-beyond-verified", "R15", "raft/commit.c",
       "    if (index > raft->stream.verified) {\n        index = raft->stream.verified;\n    }\n",
       "    index = index < raft->last ? index : raft->last;\n", "core", "scenarios"),
    _m("stale-progress-on-rejoin", "11", "raft/leader.c",
       "    bool restarted = event->peer.boot_nonce != peer->boot_nonce;",
       "    bool restarted = peer->boot_nonce == 0;", "core", "scenarios", "sim"),
    _m("applied-beyond-own-durable", "12", "raft/raft.c",
       "    uint64_t index = raft->commit < raft->durable ? raft->commit : raft->durable;\n    uint64_t known",
       "    uint64_t index = raft->commit;\n    uint64_t known", "core", "sim"),
    _m("cut-below-commit", "13", "raft/follow.c",
       "    if (log_is_committed(raft, index)) { /* rule 13",
       "    if (index + 1 <= raft->applied) { /* rule 13", "scenarios", "raft-units", "core"),
    # ------------------------------------------------------------------ reads
    _m("read-before-own-noop", "29", "raft/read.c",
       "    read.index = raft->commit > raft->noop_index ? raft->commit : raft->noop_index;",
       "    read.index = raft->commit;", "core", "scenarios"),
    _m("read-in-a-round-that-had-begun", "29", "raft/read.c",
       "    read.round = raft->round + 1;", "    read.round = raft->round;", "core", "scenarios"),
    # ------------------------------------------------------------------ the log's files
    _m("records-not-synced", "8", "log/append.c",
       "        rc = disk_sync(log->current->file);\n    }\n    return rc != 0 ? log_fail",
       "        rc = 0;\n    }\n    return rc != 0 ? log_fail", "log-units", "sim"),
    _m("header-not-synced", "7", "log/begin.c",
       "        rc = disk_sync(spare->file); /* rule 7", "        rc = 0; /* rule 7",
       "log-units", "log"),
    _m("no-directory-sync", "7", "log/begin.c",
       "            disk_sync_dir(log->disk, log->dir); /*", "            0; /*", "log-units", "log"),
    _m("torn-tail-written-over", "7", "log/recover.c",
       "    if (rc == 0 && !clean && !recovery->needs_segment) {",
       "    if (rc != 0 && !clean && !recovery->needs_segment) {", "log", "log-units"),
    _m("no-mark-in-the-vote-record", "8", "log/begin.c",
       "    record.mark = mark_now(log);", "    (void)mark_now(log);", "log-units", "log"),
    _m("no-mark-when-idle", "8", "lib/node_write.c",
       "        node->mark_due = false;\n        job_submit(node, LOOP_LOG, job);",
       "        node->mark_due = false;\n        job_free(job);",
       "sim-units", "sim"),
    _m("page-cache-trusted-at-open", "9", "log/open.c",
       "            rc = rewrite(segment->file, from, segment->tail, log->options.mend);",
       "            rc = 0 * (int)from;", "log", "log-units"),
    _m("failed-sync-tried-again", "10", "log/fail.c",
       "    if (log->failed == 0) {", "    if (log->failed == 0 && rc != LKV_EIO) {",
       "log-units", "log"),
    _m("recovery-ignores-prev-term", "6", "log/recover.c",
       "index == terms->last + 1 && prev_term == log_terms_at(terms, terms->last)",
       "index == terms->last + 1", "log", "log-units"),
    _m("acknowledged-damage-cut-off", "11", "log/recover.c",
       "    if (header->index > greatest(chain->recovery->mark.index, chain->source->image_index)) {",
       "    if (header->index > chain->source->image_index) {", "log-units", "log"),
    _m("segment-numbers-not-reserved", "6", "log/begin.c",
       "        record.segments_reserved = needed + NUMBERS_AHEAD;",
       "        return 0;", "log-units", "log"),
    # ------------------------------------------------------------------ repair
    _m("damaged-node-campaigns", "11", "raft/repair.c",
       "    return log_blocked(raft) == NULL && !raft->end_unknown;",
       "    return !raft->end_unknown;", "scenarios", "core"),
    _m("damaged-node-acknowledges", "11", "raft/log.c",
       "    uint64_t sound = gap != NULL ? gap->first - 1 : raft->durable;",
       "    uint64_t sound = gap != NULL ? raft->durable : raft->durable;", "scenarios", "core"),
    _m("unreadable-entry-counts-as-conflict", "11", "raft/follow.c",
       "    uint64_t term = gap != NULL ? gap->last_term : raft_term_at(raft, request->prev_index);",
       "    uint64_t term = gap != NULL ? 0 : raft_term_at(raft, request->prev_index);",
       "scenarios", "core"),
    _m("unknown-end-votes", "11", "raft/vote.c",
       "    if (raft->end_unknown) { /* rule 11",
       "    if (raft->end_unknown && raft->self == RAFT_NOBODY) { /* rule 11", "scenarios", "core"),
    _m("unknown-end-confirmed-by-itself", "11", "raft/catchup.c",
       "        mask |= i != asker && counts ? 1u << i : 0;",
       "        mask |= i == asker || counts ? 1u << i : 0;", "scenarios", "core"),
    _m("answers-from-before-a-restart-count", "11", "raft/repair.c",
       "    raft->repair.heard[slot] = (struct repair_heard){0};\n    raft->repair.hopeless_ns = 0;",
       "    raft->repair.hopeless_ns = slot == raft->config.count ? 1 : 0;", "scenarios", "core"),
    _m("quorum-held-entry-cut-off", "11", "raft/repair.c",
       "(log_is_committed(raft, gap->first) || config_majority_of_any(&raft->config, held));",
       "(log_is_committed(raft, gap->first) && config_majority_of_any(&raft->config, held));",
       "scenarios", "core"),
    _m("any-peer-s-entry-fills", "11", "raft/donate.c",
       "    uint64_t shared = log_last_known(raft, m->repair_request.last_term, limit, false);",
       "    uint64_t shared = limit;", "scenarios", "core"),
    # ------------------------------------------------------------------ state machine, roles, answers
    _m("repeated-writes-take-effect-again", "26", "kv/apply.c",
       "    if (rc == SESSION_REPEATED) {", "    rc = rc == SESSION_REPEATED ? SESSION_EXECUTE : rc;\n"
       "    if (rc == SESSION_REPEATED) {", "kv-units", "sim"),
    _m("fence-ignored", "31", "kv/apply.c",
       "    if (in_term != 0 && in_term != entry->term) {",
       "    if (in_term == UINT64_MAX && in_term != entry->term) {", "kv-units", "sim"),
    _m("later-term-applied-behind-the-gate", "31", "lib/node_apply.c",
       "    return role_gate_closed(&node->role_events) && entry->term > node->role_events.term;",
       "    return node->closing && entry->term > node->role_events.term;",
       "sim", "lib-units"),
    _m("lost-leadership-says-not-done", "28", "lib/pending.c",
       "            fail_unknown(request, \"leadership was lost\");",
       "            request_fail(request, LKV_ENOTLEADER, \"leadership was lost\");", "sim", "lib-units"),
]
