/* The step as its owner sees it: what it refuses, what a late completion means, what any message
 * whatever does to it, and what it does without memory. */
#include "raft/raft.h"

#include "base/mem.h"
#include "base/prng.h"

#include <criterion/criterion.h>
#include <string.h>

static const uint64_t SECOND = 1000000000;

static struct raft_start start_of(size_t members) {
    struct raft_start start = {
        .self = 1, .options = raft_options_default(), .seed = 1, .now_ns = SECOND, .first = 1};
    start.config.count = members;
    for (size_t i = 0; i < members; i++) {
        start.config.members[i] = (struct raft_member){.id = i + 1, .voter = true};
    }
    return start;
}

static struct raft *open_raft(const struct raft_start *start) {
    struct raft *raft;
    struct reason why = {{0}};
    cr_assert(raft_open(&raft, start, &why) == 0, "%s", why.text);
    return raft;
}

static int persisted(struct raft *raft, uint64_t now_ns, uint64_t no, struct raft_update *update) {
    struct raft_event event = {.kind = RAFT_PERSISTED, .now_ns = now_ns};
    event.persisted.write_no = no;
    return raft_step(raft, &event, update);
}

static int submit(struct raft *raft, uint64_t now_ns, const uint32_t *sizes, size_t count,
                  uint64_t in_term, struct raft_update *update) {
    struct raft_event event = {.kind = RAFT_SUBMIT, .now_ns = now_ns};
    event.submit.sizes = sizes;
    event.submit.count = count;
    event.submit.in_term = in_term;
    return raft_step(raft, &event, update);
}

static int receive(struct raft *raft, uint64_t now_ns, const struct raft_message *message,
                   struct raft_update *update) {
    static uint64_t token;
    struct raft_event event = {.kind = RAFT_RECEIVE, .now_ns = now_ns};
    event.receive.message = message;
    event.receive.token = ++token;
    return raft_step(raft, &event, update);
}

/* Elects node 1 of `members`; every write is durable at once. */
static uint64_t elect(struct raft *raft, size_t members, struct raft_update *update) {
    uint64_t now_ns = SECOND;
    while (update->role != RAFT_LEADER) {
        cr_assert(now_ns < 100 * SECOND, "nobody is elected");
        struct raft_event tick = {.kind = RAFT_TICK, .now_ns = now_ns};
        cr_assert(raft_step(raft, &tick, update) == 0);
        for (int i = 0; i < 4 && update->role != RAFT_LEADER; i++) {
            if (update->write.no != 0) {
                cr_assert(persisted(raft, now_ns, update->write.no, update) == 0);
            }
            struct raft_message requests[16];
            size_t count = update->message_count;
            for (size_t k = 0; k < count; k++) {
                requests[k] = update->messages[k];
            }
            for (size_t k = 0; k < count && k < members / 2; k++) {
                struct raft_message reply = {.kind = RAFT_VOTE_REPLY,
                                             .from = requests[k].to,
                                             .to = 1,
                                             .term = requests[k].term};
                reply.vote_reply.pre = requests[k].vote_request.pre;
                reply.vote_reply.answer = RAFT_VOTE_ACCEPT;
                reply.vote_reply.round = requests[k].vote_request.round;
                cr_assert(receive(raft, now_ns, &reply, update) == 0);
            }
        }
        now_ns += SECOND / 20;
    }
    return now_ns;
}

/* ------------------------------------------------------------------ open */

Test(raft_step, refuses_a_start_that_contradicts_itself) {
    struct raft_run runs[] = {{1, 1}, {5, 3}};
    struct raft_start good = start_of(3);
    good.last = 9;
    good.term = 3;
    good.runs = runs;
    good.run_count = 2;
    struct raft *raft = open_raft(&good);
    cr_expect(raft_term_at(raft, 4) == 1 && raft_term_at(raft, 5) == 3);
    cr_expect(raft_term_at(raft, 9) == 3 && raft_term_at(raft, 10) == 0);
    raft_close(raft);
    raft_close(NULL);

    struct raft_start bad[11];
    for (size_t i = 0; i < 11; i++) {
        bad[i] = good;
    }
    struct raft_run falling[] = {{1, 3}, {5, 2}};
    bad[0].self = RAFT_NOBODY;
    bad[1].term = 2; /* below the log's: rule 2 */
    bad[2].run_count = 0;
    bad[3].runs = falling;
    bad[4].first = 0;
    bad[5].first = 3; /* a log that begins at 3 without an image */
    bad[6].options.heartbeat_ms = 0;
    bad[7].config.members[1].id = 1;
    bad[8].last = 4; /* a run beyond the end */
    bad[9].options.promise_ms = bad[9].options.election_min_ms + 1;
    bad[10].options.drift_ppm = 1000000;
    for (size_t i = 0; i < 11; i++) {
        struct reason why = {{0}};
        cr_expect(raft_open(&raft, &bad[i], &why) == LKV_EINVAL, "%zu", i);
        cr_expect(raft == NULL && why.text[0] != '\0');
    }
}

/* ------------------------------------------------------------------ submissions */

Test(raft_step, writes_and_sends_in_the_same_update) {
    struct raft_start start = start_of(3);
    struct raft *raft = open_raft(&start);
    struct raft_update update = {0};
    uint64_t now_ns = elect(raft, 3, &update);
    struct raft_event peer = {.kind = RAFT_PEER, .now_ns = now_ns};
    for (uint64_t id = 2; id <= 3; id++) {
        peer.peer.peer = id;
        peer.peer.up = true;
        peer.peer.boot_nonce = id;
        cr_assert(raft_step(raft, &peer, &update) == 0);
        struct raft_message ok = {.kind = RAFT_APPEND_REPLY, .from = id, .to = 1, .term = 1};
        ok.append_reply.result = RAFT_APPEND_OK;
        ok.append_reply.request_no = 1;
        ok.append_reply.received = 1;
        ok.append_reply.room = RAFT_ROOM_FREE;
        cr_assert(receive(raft, now_ns, &ok, &update) == 0);
    }
    uint32_t sizes[] = {10, 20};
    cr_assert(submit(raft, now_ns, sizes, 2, 1, &update) == 0);
    cr_expect(update.submit_rc == 0 && update.submit_first == 2);
    cr_expect(update.write.first == 2 && update.write.last == 3 && !update.write.save_vote);
    cr_expect(update.message_count == 2);
    cr_expect(update.messages[0].kind == RAFT_APPEND && update.messages[0].append.count == 2);
    cr_assert(submit(raft, now_ns, sizes, 2, 9, &update) == 0);
    cr_expect(update.submit_rc == LKV_ETERM && update.write.no == 0);
    raft_update_fini(&update);
    raft_close(raft);
}

Test(raft_step, takes_a_fenced_write_in_its_own_term_only) {
    struct raft_start start = start_of(1);
    start.term = 5;
    struct raft *raft = open_raft(&start);
    struct raft_update update = {0};
    uint64_t now_ns = elect(raft, 1, &update);
    cr_assert(update.term == 6);
    uint32_t size = 10;
    for (uint64_t term = 5; term <= 7; term++) {
        cr_assert(submit(raft, now_ns, &size, 1, term, &update) == 0);
        cr_expect(update.submit_rc == (term == 6 ? 0 : LKV_ETERM), "%d", (int)term);
        cr_expect((update.write.no != 0) == (term == 6));
    }
    raft_update_fini(&update);
    raft_close(raft);
}

/* Rule 11: it asked a peer for what had rotted, and had not heard yet that another one leads. */
Test(raft_step, a_leader_that_gets_an_image_of_a_later_term_was_deposed) {
    struct raft_start start = start_of(3);
    struct raft *raft = open_raft(&start);
    struct raft_update update = {0};
    uint64_t now_ns = elect(raft, 3, &update);
    struct raft_event event = {.kind = RAFT_IMAGE_INSTALLED, .now_ns = now_ns};
    event.image_installed.index = 10;
    event.image_installed.term = 2;
    cr_assert(raft_step(raft, &event, &update) == 0);
    cr_expect(update.stop_rc == 0 && update.role == RAFT_FOLLOWER && update.term == 2);
    cr_expect(update.write.save_vote && update.write.term == 2);
    struct raft_status status;
    raft_status(raft, &status);
    cr_expect(status.first == 11 && status.last == 10 && status.commit == 10);
    raft_update_fini(&update);
    raft_close(raft);
}

Test(raft_step, p2_an_image_behind_the_commit_is_no_news) {
    struct raft_start start = start_of(1);
    struct raft *raft = open_raft(&start);
    struct raft_update update = {0};
    uint64_t now_ns = elect(raft, 1, &update);
    cr_assert(persisted(raft, now_ns, update.write.no, &update) == 0);
    uint32_t sizes[] = {10, 20};
    cr_assert(submit(raft, now_ns, sizes, 2, 0, &update) == 0);
    cr_assert(persisted(raft, now_ns, update.write.no, &update) == 0);
    cr_assert(update.commit == 3);
    struct raft_event event = {.kind = RAFT_IMAGE_INSTALLED, .now_ns = now_ns};
    event.image_installed.index = 2;
    event.image_installed.term = 1;
    cr_assert(raft_step(raft, &event, &update) == 0);
    struct raft_status status;
    raft_status(raft, &status);
    cr_expect(status.first == 1 && status.last == 3 && update.stop_rc == 0);
    raft_update_fini(&update);
    raft_close(raft);
}

Test(raft_step, is_busy_beyond_the_limit_of_what_is_not_committed) {
    struct raft_start start = start_of(1);
    start.options.uncommitted_bytes_max = 1000;
    struct raft *raft = open_raft(&start);
    struct raft_update update = {0};
    uint64_t now_ns = elect(raft, 1, &update);
    cr_assert(persisted(raft, now_ns, 2, &update) == 0);
    uint32_t size = 5000;
    cr_assert(submit(raft, now_ns, &size, 1, 0, &update) == 0);
    cr_expect(update.submit_rc == 0, "one entry alone always fits");
    uint64_t no = update.write.no;
    size = 1;
    cr_assert(submit(raft, now_ns, &size, 1, 0, &update) == 0);
    cr_expect(update.submit_rc == LKV_EBUSY);
    cr_assert(persisted(raft, now_ns, no, &update) == 0);
    cr_expect(update.commit == 2);
    cr_assert(submit(raft, now_ns, &size, 1, 0, &update) == 0);
    cr_expect(update.submit_rc == 0);
    raft_update_fini(&update);
    raft_close(raft);
}

/* ------------------------------------------------------------------ completions */

static struct raft_message append(uint64_t from, uint64_t term, uint64_t prev, uint64_t prev_term,
                                  const struct raft_entry_meta *metas, uint32_t count) {
    struct raft_message m = {.kind = RAFT_APPEND, .from = from, .to = 1, .term = term};
    m.append.prev_index = prev;
    m.append.prev_term = prev_term;
    m.append.count = count;
    m.append.entries = metas;
    m.append.request_no = 1;
    return m;
}

/* Rule 7's end: the completion of what was cut and appended again acknowledges nothing. */
Test(raft_step, a_late_completion_does_not_acknowledge_what_was_appended_again) {
    struct raft_start start = start_of(3);
    struct raft *raft = open_raft(&start);
    struct raft_update update = {0};
    struct raft_entry_meta old[] = {{1, 1, ENTRY_COMMAND}, {1, 1, ENTRY_COMMAND}};
    struct raft_entry_meta new[] = {{2, 1, ENTRY_COMMAND}};
    struct raft_message m = append(2, 1, 0, 0, old, 2);
    cr_assert(receive(raft, SECOND, &m, &update) == 0);
    cr_expect(update.write.no == 1 && update.write.save_vote && update.write.last == 2);
    m = append(3, 2, 1, 1, new, 1);
    cr_assert(receive(raft, SECOND, &m, &update) == 0);
    cr_expect(update.write.no == 2 && update.write.cut_from == 2 && update.write.first == 2);
    cr_assert(persisted(raft, SECOND, 1, &update) == 0);
    struct raft_status status;
    raft_status(raft, &status);
    cr_expect(status.durable == 1, "entry 2 is another one by now");
    cr_assert(persisted(raft, SECOND, 2, &update) == 0);
    raft_status(raft, &status);
    cr_expect(status.durable == 2);
    cr_expect(update.message_count == 1 && update.messages[0].append_reply.durable == 2);
    raft_update_fini(&update);
    raft_close(raft);
}

/* ------------------------------------------------------------------ any message whatever */

static uint64_t small(struct prng *prng) {
    static const uint64_t odd[] = {UINT64_MAX, UINT64_MAX / 2, UINT64_MAX / 4, 1ull << 62, 0};
    return prng_below(prng, 30) == 0 ? odd[prng_below(prng, 5)] : prng_below(prng, 12);
}

static void fill_metas(struct prng *prng, uint64_t term, struct raft_entry_meta metas[8]) {
    for (size_t i = 0; i < 8; i++) {
        term += prng_below(prng, 3) == 0 ? 1 : 0;
        metas[i] = (struct raft_entry_meta){.term = term + (term == 0 ? 1 : 0),
                                            .size = (uint32_t)prng_below(prng, 100),
                                            .type = ENTRY_COMMAND};
    }
}

/* What was asked last, so that some answers fit. */
static struct raft_message last_question;

static void fill_repair(struct prng *prng, struct raft_message *m,
                        struct raft_entry_meta metas[8]) {
    bool fits = prng_below(prng, 4) != 0;
    if (m->kind == RAFT_REPAIR_REQUEST) {
        m->repair_request.want = (enum raft_repair_want)(1 + prng_below(prng, 3));
    } else if (m->kind == RAFT_REPAIR_REPLY) {
        m->repair_reply.answer = (enum raft_repair_answer)(1 + prng_below(prng, 6));
        m->repair_reply.count = prng_below(prng, 2) == 0 ? 0 : (uint32_t)prng_below(prng, 5);
        m->repair_reply.entries = m->repair_reply.count > 0 ? metas : NULL;
        fill_metas(prng, prng_below(prng, 3), metas);
        if (fits && last_question.kind == RAFT_REPAIR_REQUEST) {
            m->repair_reply.boot_nonce = last_question.repair_request.boot_nonce;
            m->repair_reply.round = last_question.repair_request.round;
            m->repair_reply.first = last_question.repair_request.first;
            m->repair_reply.shared_index = last_question.repair_request.last;
            m->repair_reply.answer =
                m->repair_reply.count > 0 ? RAFT_REPAIR_READABLE : m->repair_reply.answer;
            fill_metas(prng, last_question.repair_request.prev_term, metas);
        }
    } else if (m->kind == RAFT_CATCHUP_REPLY && fits &&
               last_question.kind == RAFT_CATCHUP_REQUEST) {
        m->catchup_reply.boot_nonce = last_question.catchup_request.boot_nonce;
        m->catchup_reply.context = last_question.catchup_request.context;
    }
}

static void remember_question(const struct raft_update *update) {
    for (size_t i = 0; i < update->message_count; i++) {
        enum raft_message_kind kind = update->messages[i].kind;
        if (kind == RAFT_REPAIR_REQUEST || kind == RAFT_CATCHUP_REQUEST) {
            last_question = update->messages[i];
        }
    }
}

static void fill_message(struct prng *prng, struct raft_message *m,
                         struct raft_entry_meta metas[8]) {
    *m = (struct raft_message){0};
    for (size_t i = 0; i < sizeof *m / 8; i++) { /* whatever field lies there */
        uint64_t value = small(prng);
        memcpy((char *)m + 8 * i, &value, 8);
    }
    m->kind = (enum raft_message_kind)(1 + prng_below(prng, 13));
    m->from = prng_below(prng, 6);
    m->to = prng_below(prng, 20) == 0 ? 2 : 1;
    m->term = prng_below(prng, 8) == 0 ? small(prng) : prng_below(prng, 6);
    uint64_t flags = prng_next(prng);
    if (m->kind == RAFT_VOTE_REQUEST) {
        m->vote_request.pre = flags & 1;
        m->vote_request.by_transfer = flags & 2;
    } else if (m->kind == RAFT_VOTE_REPLY) {
        m->vote_reply.pre = flags & 1;
        m->vote_reply.answer = (enum raft_vote_answer)(1 + flags / 2 % 7);
    } else if (m->kind == RAFT_APPEND_REPLY) {
        m->append_reply.result = (enum raft_append_result)(1 + flags % 3);
        m->append_reply.room = (enum raft_room)(flags / 4 % 3);
    } else if (m->kind == RAFT_HEARTBEAT_REPLY) {
        m->heartbeat_reply.room = (enum raft_room)(flags / 4 % 3);
    } else if (m->kind == RAFT_APPEND) {
        m->append.prev_term = m->append.prev_index == 0 ? 0 : prng_below(prng, m->term + 1);
        m->append.count = (uint32_t)prng_below(prng, 8);
        m->append.entries = m->append.count > 0 ? metas : NULL;
        fill_metas(prng, m->append.prev_term, metas);
    } else if (m->kind == RAFT_READ_REQUEST) {
        m->read_request.leased = flags & 1;
    } else {
        fill_repair(prng, m, metas);
    }
}

static void random_event(struct prng *prng, struct raft_event *event, struct raft_message *m,
                         struct raft_entry_meta metas[8], uint64_t newest_write) {
    static const uint32_t sizes[4] = {1, 2, 300, 4};
    event->now_ns += prng_below(prng, 40000000);
    event->kind = RAFT_RECEIVE;
    switch (prng_below(prng, 18)) {
    case 0: event->kind = RAFT_TICK; break;
    case 1:
        event->kind = RAFT_SUBMIT;
        event->submit.sizes = sizes;
        event->submit.count = prng_below(prng, 5);
        event->submit.in_term = 0;
        event->submit.reserved = prng_below(prng, 2) == 0;
        break;
    case 2:
    case 3:
        event->kind = RAFT_PERSISTED;
        event->persisted.write_no = newest_write;
        break;
    case 4:
        event->kind = RAFT_READ;
        event->read.context = prng_next(prng);
        event->read.leased = prng_below(prng, 2) == 0;
        break;
    case 5:
        event->kind = RAFT_PEER;
        event->peer.peer = prng_below(prng, 6);
        event->peer.up = prng_below(prng, 3) != 0;
        event->peer.boot_nonce = prng_below(prng, 3);
        event->peer.promises = prng_below(prng, 2) == 0;
        break;
    case 6:
        event->kind = RAFT_TRANSFER;
        event->transfer.target = prng_below(prng, 6);
        break;
    case 7:
        event->kind = RAFT_SPACE;
        event->space.room = (enum raft_room)prng_below(prng, 3);
        break;
    case 8:
        event->kind = RAFT_DAMAGED;
        event->damaged.first = prng_below(prng, 12);
        event->damaged.last = event->damaged.first + prng_below(prng, 3);
        break;
    case 9: event->kind = prng_below(prng, 4) == 0 ? RAFT_END_DOUBTED : RAFT_END_SETTLED; break;
    default: {
        static uint64_t token;
        fill_message(prng, m, metas);
        event->receive.message = m;
        event->receive.token = ++token;
        break;
    }
    }
}

Test(raft_step, survives_any_sequence_of_messages) {
    struct prng prng = prng_of(7);
    size_t leaders = 0, stops = 0, fills = 0;
    for (int round = 0; round < 3000; round++) {
        struct raft_start start = start_of(1 + (size_t)prng_below(&prng, 5));
        start.seed = prng_next(&prng);
        start.options.inflight_bytes_max = 2000;
        start.options.promise_ms = (uint32_t)prng_below(&prng, 301);
        start.promised_ms = (uint32_t)prng_below(&prng, 301);
        static const struct raft_run runs[] = {{1, 1}, {6, 2}};
        static const struct raft_gap gaps[] = {{2, 3, 1}, {5, 7, 2}};
        if (round % 2 == 0) {
            start.last = 8;
            start.term = 2;
            start.runs = runs;
            start.run_count = 2;
            start.gaps = gaps;
            start.gap_count = (size_t)prng_below(&prng, 3);
            start.end_unknown = prng_below(&prng, 4) == 0;
        }
        struct raft *raft = open_raft(&start);
        struct raft_update update = {0};
        struct raft_event event = {.now_ns = SECOND};
        struct raft_message message;
        struct raft_entry_meta metas[8];
        uint64_t newest = 0, commit = 0;
        for (int i = 0; i < 120; i++) {
            random_event(&prng, &event, &message, metas, newest);
            cr_assert(raft_step(raft, &event, &update) == 0);
            remember_question(&update);
            newest = update.write.no != 0 ? update.write.no : newest;
            fills += update.fill_count;
            cr_assert(update.commit >= commit);
            commit = update.commit;
            leaders += update.role_changed && update.role == RAFT_LEADER ? 1 : 0;
            stops += update.stop_rc != 0 ? 1 : 0;
        }
        raft_update_fini(&update);
        raft_close(raft);
    }
    cr_expect(leaders > 100 && stops > 10 && fills > 10,
              "%zu leaders, %zu stops, %zu fills: not much was tried", leaders, stops, fills);
}

/* ------------------------------------------------------------------ memory */

/* S28: at every allocation of a run, the step says so, and every later one too. */
Test(raft_step, reports_each_failed_allocation) {
    bool failed = true;
    for (uint64_t n = 0; failed; n++) {
        cr_assert(n < 500);
        struct raft_start start = start_of(1);
        struct raft *raft = NULL;
        struct reason why = {{0}};
        struct raft_update update = {0};
        mem_fail_after(n);
        int rc = raft_open(&raft, &start, &why);
        failed = rc != 0;
        struct raft_event event = {.now_ns = SECOND};
        uint32_t sizes[300] = {0};
        uint64_t newest = 0;
        for (int i = 0; i < 12 && rc == 0; i++) {
            event.now_ns += SECOND;
            event.kind = i == 6       ? RAFT_READ
                         : i > 3      ? RAFT_SUBMIT
                         : i % 2 == 0 ? RAFT_TICK
                                      : RAFT_PERSISTED;
            if (event.kind == RAFT_SUBMIT) {
                event.submit.sizes = sizes;
                event.submit.count = 300;
                event.submit.in_term = 0;
            } else if (event.kind == RAFT_PERSISTED) {
                event.persisted.write_no = newest;
            } else if (event.kind == RAFT_READ) {
                event.read.leased = false;
            }
            rc = raft_step(raft, &event, &update);
            newest = update.write.no != 0 ? update.write.no : newest;
        }
        if (rc != 0 && raft != NULL) {
            failed = true;
            cr_expect(rc == LKV_ENOMEM);
            mem_fail_never();
            event.kind = RAFT_TICK;
            cr_expect(raft_step(raft, &event, &update) == LKV_ENOMEM);
        }
        mem_fail_never();
        raft_update_fini(&update);
        raft_close(raft);
    }
}

/* ------------------------------------------------------------------ promises (rule 30) */

/* What node 1 promises to leader 2, which asks for so long; what it writes is durable `later` or at once. */
static uint32_t promised(struct raft *raft, uint64_t now_ms, uint32_t asked_ms,
                         struct raft_update *update, bool later) {
    struct raft_message beat = {.kind = RAFT_HEARTBEAT, .from = 2, .to = 1, .term = 1};
    beat.heartbeat.round = 1;
    beat.heartbeat.promise_ms = asked_ms;
    cr_assert_eq(receive(raft, SECOND + now_ms * 1000000, &beat, update), 0);
    uint32_t given_ms = UINT32_MAX;
    for (size_t i = 0; i < update->message_count; i++) {
        if (update->messages[i].kind == RAFT_HEARTBEAT_REPLY) {
            given_ms = update->messages[i].heartbeat_reply.promise_ms;
        }
    }
    if (update->write.no != 0 && !later) {
        uint64_t no = update->write.no;
        cr_assert_eq(persisted(raft, SECOND + now_ms * 1000000, no, update), 0);
    }
    return given_ms;
}

Test(raft_step, promises_follow_what_is_asked_and_their_record_comes_first) {
    struct raft_start start = start_of(3);
    start.promised_ms = 200; /* by an earlier life */
    struct raft *raft = open_raft(&start);
    struct raft_update update = {0};
    struct raft_status status;
    raft_status(raft, &status);
    cr_expect_eq(status.promised_until_ns, SECOND + 200 * 1000000u);
    cr_expect_eq(promised(raft, 0, 100, &update, false), 100, "the record says more");
    cr_expect_eq(promised(raft, 50, 300, &update, true), 200, "the longer one is not durable");
    uint64_t no = update.write.no;
    cr_expect(update.write.save_vote && update.write.promised_ms == 300);
    cr_expect_eq(promised(raft, 60, 300, &update, true), 200);
    cr_expect_eq(update.write.no, 0, "it is on its way");
    cr_assert_eq(persisted(raft, SECOND + 70 * 1000000u, no, &update), 0);
    cr_expect_eq(promised(raft, 80, 300, &update, false), 300);
    raft_status(raft, &status);
    cr_expect_eq(status.promised_until_ns, SECOND + 380 * 1000000u);
    cr_expect_eq(promised(raft, 400, 100, &update, false), 100);
    cr_expect_eq(update.write.no, 0, "this life has given a longer one");
    raft_close(raft);

    start.promised_ms = 300; /* the next life; the option is off now */
    raft = open_raft(&start);
    cr_expect_eq(promised(raft, 0, 0, &update, false), 0);
    cr_expect_eq(promised(raft, 299, 0, &update, true), 0);
    cr_expect_eq(update.write.no, 0, "the earlier life's may last");
    cr_expect_eq(promised(raft, 300, 0, &update, true), 0);
    cr_expect(update.write.save_vote && update.write.promised_ms == 0);
    cr_expect_eq(promised(raft, 310, 300, &update, true), 0, "the disk may say either");
    raft_close(raft);
    raft_update_fini(&update);
}

/* ------------------------------------------------------------------ fetches */

static struct raft_message append_reply(uint64_t term, enum raft_append_result result,
                                        uint64_t received) {
    struct raft_message m = {.kind = RAFT_APPEND_REPLY, .from = 2, .to = 1, .term = term};
    m.append_reply.result = result;
    m.append_reply.request_no = UINT64_MAX / 2;
    m.append_reply.received = received;
    m.append_reply.conflict_first = received + 1;
    m.append_reply.room = RAFT_ROOM_FREE;
    return m;
}

/* A leader of three after a restart with ten entries on disk, and a peer that has three of them. */
static struct raft *leader_that_fetches(struct raft_update *update, uint64_t *now_ns) {
    struct raft_run run = {1, 1};
    struct raft_start start = start_of(3);
    start.last = 10;
    start.term = 1;
    start.runs = &run;
    start.run_count = 1;
    struct raft *raft = open_raft(&start);
    *now_ns = elect(raft, 3, update);
    struct raft_event peer = {.kind = RAFT_PEER, .now_ns = *now_ns};
    peer.peer.peer = 2;
    peer.peer.up = true;
    peer.peer.boot_nonce = 1;
    cr_assert(raft_step(raft, &peer, update) == 0);
    struct raft_message reply = append_reply(2, RAFT_APPEND_CONFLICT, 3);
    cr_assert(receive(raft, *now_ns, &reply, update) == 0);
    reply = append_reply(2, RAFT_APPEND_OK, 3);
    cr_assert(receive(raft, *now_ns, &reply, update) == 0);
    return raft;
}

static int fetched(struct raft *raft, uint64_t now_ns, struct raft_update *update) {
    static const uint32_t sizes[7] = {1, 1, 1, 1, 1, 1, 1};
    struct raft_event event = {.kind = RAFT_FETCHED, .now_ns = now_ns};
    event.fetched.peer = 2;
    event.fetched.from = 4;
    event.fetched.sizes = sizes;
    event.fetched.count = 7;
    return raft_step(raft, &event, update);
}

Test(raft_step, sends_what_was_fetched) {
    struct raft_update update = {0};
    uint64_t now_ns;
    struct raft *raft = leader_that_fetches(&update, &now_ns);
    cr_assert(update.fetch_count == 1);
    cr_expect(update.fetches[0].from == 4 && update.fetches[0].to == 10);
    cr_assert(fetched(raft, now_ns, &update) == 0);
    cr_assert(update.message_count == 1);
    cr_expect(update.messages[0].append.prev_index == 3 && update.messages[0].append.count == 7);
    raft_update_fini(&update);
    raft_close(raft);
}

/* Between the question and the answer the log may have been cut and written again. */
Test(raft_step, does_not_send_what_was_fetched_in_another_term) {
    struct raft_update update = {0};
    uint64_t now_ns;
    struct raft *raft = leader_that_fetches(&update, &now_ns);
    struct raft_message newer = append_reply(5, RAFT_APPEND_CONFLICT, 0);
    cr_assert(receive(raft, now_ns, &newer, &update) == 0);
    cr_assert(update.role == RAFT_FOLLOWER);
    cr_assert(persisted(raft, now_ns, update.write.no, &update) == 0);
    struct raft_event tick = {.kind = RAFT_TICK, .now_ns = now_ns};
    while (update.role != RAFT_LEADER) { /* elected again */
        tick.now_ns += SECOND;
        cr_assert(raft_step(raft, &tick, &update) == 0);
        for (int i = 0; i < 3 && update.role != RAFT_LEADER; i++) {
            if (update.write.no != 0) {
                cr_assert(persisted(raft, tick.now_ns, update.write.no, &update) == 0);
            }
            if (update.message_count == 0) {
                continue;
            }
            struct raft_message reply = {
                .kind = RAFT_VOTE_REPLY, .from = 2, .to = 1, .term = update.messages[0].term};
            reply.vote_reply.pre = update.messages[0].vote_request.pre;
            reply.vote_reply.answer = RAFT_VOTE_ACCEPT;
            reply.vote_reply.round = update.messages[0].vote_request.round;
            cr_assert(receive(raft, tick.now_ns, &reply, &update) == 0);
        }
    }
    struct raft_message reply = append_reply(update.term, RAFT_APPEND_CONFLICT, 3);
    cr_assert(receive(raft, tick.now_ns, &reply, &update) == 0);
    reply = append_reply(update.term, RAFT_APPEND_OK, 3);
    cr_assert(receive(raft, tick.now_ns, &reply, &update) == 0);
    cr_expect(update.fetch_count == 0, "one at a time: the old one is not answered yet");
    cr_assert(fetched(raft, tick.now_ns, &update) == 0);
    for (size_t i = 0; i < update.message_count; i++) {
        cr_expect(update.messages[i].kind != RAFT_APPEND);
    }
    cr_expect(update.fetch_count == 1, "asked again, in this term");
    raft_update_fini(&update);
    raft_close(raft);
}
