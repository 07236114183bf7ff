/* Rule 19: a cluster that grew from one node, whose log ended at (40, term 6): what the core makes of that
 * floor in elections, and when the one copy is damaged. */
#include "raft/raft.h"

#include <criterion/criterion.h>

static const uint64_t SECOND = 1000000000;

/* Node 1 of three, with nothing in its log. */
static struct raft_start grown(void) {
    struct raft_start start = {.self = 1,
                               .options = raft_options_default(),
                               .seed = 1,
                               .now_ns = SECOND,
                               .first = 1,
                               .floor_index = 40,
                               .floor_term = 6};
    for (size_t i = 0; i < 3; i++) {
        start.config.members[start.config.count++] =
            (struct raft_member){.id = i + 1, .voter = true};
    }
    return start;
}

static struct raft *open_raft(const struct raft_start *start) {
    struct raft *raft;
    struct reason why = {{0}};
    cr_assert(raft_open(&raft, start, &why) == 0, "%s", why.text);
    return raft;
}

static void persisted(struct raft *raft, uint64_t now_ns, uint64_t no, struct raft_update *update) {
    struct raft_event event = {.kind = RAFT_PERSISTED, .now_ns = now_ns};
    event.persisted.write_no = no;
    cr_assert(raft_step(raft, &event, update) == 0);
}

static void receive(struct raft *raft, uint64_t now_ns, const struct raft_message *message,
                    struct raft_update *update) {
    static uint64_t token;
    struct raft_event event = {.kind = RAFT_RECEIVE, .now_ns = now_ns};
    event.receive.message = message;
    event.receive.token = ++token;
    cr_assert(raft_step(raft, &event, update) == 0);
}

static struct raft_message ask_for_vote(uint64_t term, uint64_t last_index, uint64_t last_term,
                                        bool pre) {
    struct raft_message message = {.kind = RAFT_VOTE_REQUEST, .from = 2, .to = 1, .term = term};
    message.vote_request.pre = pre;
    message.vote_request.last_index = last_index;
    message.vote_request.last_term = last_term;
    return message;
}

static enum raft_vote_answer answer_to(struct raft *raft, struct raft_message message,
                                       struct raft_update *update) {
    receive(raft, SECOND, &message, update);
    if (update->write.no != 0) {
        uint64_t no = update->write.no;
        if (update->message_count == 0) {
            persisted(raft, SECOND, no, update);
        }
    }
    cr_assert(update->message_count == 1 && update->messages[0].kind == RAFT_VOTE_REPLY);
    return update->messages[0].vote_reply.answer;
}

/* A voter that was grown in and has nothing yet votes as if it held (40, term 6). */
Test(raft_floor, rule_19_votes_for_no_log_that_ends_before_what_the_cluster_grew_from) {
    static const struct {
        uint64_t index, term;
        bool good;
    } logs[] = {{0, 0, false}, {39, 6, false}, {40, 6, true},
                {41, 6, true}, {60, 5, false}, {41, 7, true}};
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        for (int pre = 0; pre < 2; pre++) {
            struct raft_start start = grown();
            struct raft *raft = open_raft(&start);
            struct raft_update update = {0};
            enum raft_vote_answer answer =
                answer_to(raft, ask_for_vote(8, logs[i].index, logs[i].term, pre != 0), &update);
            cr_expect(answer == (logs[i].good ? RAFT_VOTE_ACCEPT : RAFT_VOTE_LOG_BEHIND),
                      "(%lu, %lu): %d", logs[i].index, logs[i].term, (int)answer);
            raft_update_fini(&update);
            raft_close(raft);
        }
    }
}

static uint64_t asks_within(struct raft *raft, uint64_t seconds) {
    struct raft_update update = {0};
    uint64_t asked = 0;
    for (uint64_t now_ns = SECOND; now_ns < (1 + seconds) * SECOND; now_ns += SECOND / 50) {
        struct raft_event tick = {.kind = RAFT_TICK, .now_ns = now_ns};
        cr_assert(raft_step(raft, &tick, &update) == 0);
        asked += update.message_count;
    }
    raft_update_fini(&update);
    return asked;
}

Test(raft_floor, rule_19_campaigns_only_with_what_the_cluster_grew_from) {
    struct raft_run runs[] = {{1, 6}};
    struct raft_start start = grown();
    start.term = 6;
    start.runs = runs;
    for (uint64_t last = 0; last <= 41; last++) {
        start.last = last;
        start.run_count = last > 0;
        struct raft *raft = open_raft(&start);
        cr_expect((asks_within(raft, 5) > 0) == (last >= 40), "last %lu", last);
        raft_close(raft);
    }
}

/* The two blank ones never had the damaged entry, so fewer than a quorum hold it; all the same it was
 * acknowledged by the one voter there was. */
static void play_damage(uint64_t gap_index, uint64_t last, struct raft_update *update, int *stop_rc,
                        uint64_t *discarded_from) {
    struct raft_run runs[] = {{1, 6}};
    struct raft_gap gap = {.first = gap_index, .last = gap_index, .last_term = 6};
    struct raft_start start = grown();
    start.term = 6;
    start.last = last;
    start.runs = runs;
    start.run_count = 1;
    start.gaps = &gap;
    start.gap_count = 1;
    struct raft *raft = open_raft(&start);
    for (uint64_t now_ns = SECOND; now_ns < 6 * SECOND && *stop_rc == 0 && *discarded_from == 0;
         now_ns += SECOND / 50) {
        struct raft_event tick = {.kind = RAFT_TICK, .now_ns = now_ns};
        cr_assert(raft_step(raft, &tick, update) == 0);
        *stop_rc += update->stop_rc;
        struct raft_message asked[16];
        size_t count = 0;
        for (size_t i = 0; i < update->message_count && count < 16; i++) {
            if (update->messages[i].kind == RAFT_REPAIR_REQUEST) {
                asked[count++] = update->messages[i];
            }
        }
        for (size_t i = 0; i < count; i++) {
            struct raft_message reply = {
                .kind = RAFT_REPAIR_REPLY, .from = asked[i].to, .to = 1, .term = 6};
            reply.repair_reply.answer = RAFT_REPAIR_ABSENT;
            reply.repair_reply.boot_nonce = asked[i].repair_request.boot_nonce;
            reply.repair_reply.round = asked[i].repair_request.round;
            receive(raft, now_ns, &reply, update);
            *discarded_from += update->discarded_from;
            *stop_rc += update->stop_rc;
        }
    }
    raft_close(raft);
}

Test(raft_floor, rule_19_s26_nothing_below_it_is_taken_for_uncommitted) {
    for (uint64_t index = 39; index <= 42; index++) {
        struct raft_update update = {0};
        int stop_rc = 0;
        uint64_t discarded_from = 0;
        play_damage(index, 42, &update, &stop_rc, &discarded_from);
        if (index <= 40) {
            cr_expect(discarded_from == 0 && stop_rc == LKV_EDAMAGED, "entry %lu: %lu, %d", index,
                      discarded_from, stop_rc);
        } else {
            cr_expect(discarded_from == index && stop_rc == 0, "entry %lu: %lu, %d", index,
                      discarded_from, stop_rc);
        }
        raft_update_fini(&update);
    }
}
