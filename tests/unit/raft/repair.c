/* Damage as the core's owner sees it (rule 11): what is asked, what is believed, what is written. */
#include "base/mem.h"
#include "raft/damage.h"
#include "tests/unit/raft/damaged_node.h"

#include <string.h>

/* ------------------------------------------------------------------ the list */

static uint64_t term_three(void *arg, uint64_t index) {
    (void)arg;
    (void)index;
    return 3;
}

Test(raft_repair, keeps_gaps_apart_and_in_order) {
    struct damage gaps = {0};
    cr_assert(damage_add(&gaps, 10, 12, term_three, NULL));
    cr_assert(damage_add(&gaps, 5, 11, term_three, NULL)); /* what is known stays as it is */
    cr_expect(gaps.count == 2 && gaps.items[0].first == 5 && gaps.items[0].last == 9);
    cr_expect(damage_at(&gaps, 9) == &gaps.items[0] && damage_at(&gaps, 10) == &gaps.items[1]);
    cr_expect(damage_at(&gaps, 4) == NULL && damage_from(&gaps, 4) == &gaps.items[0]);
    cr_assert(damage_split(&gaps, &gaps.items[0], 6, 2));
    cr_expect(gaps.count == 3 && gaps.items[0].last_term == 2 && gaps.items[1].first == 7);
    damage_filled(&gaps, 5, 6);
    damage_filled(&gaps, 7, 7);
    cr_expect(gaps.count == 2 && gaps.items[0].first == 8 && gaps.items[0].last == 9);
    damage_cut(&gaps, 11, 9);
    cr_expect(gaps.count == 2 && gaps.items[1].last == 10 && gaps.items[1].last_term == 9);
    damage_drop_below(&gaps, 9);
    cr_expect(gaps.count == 2 && gaps.items[0].first == 9);
    damage_cut(&gaps, 9, 9);
    cr_expect(gaps.count == 0);
    damage_fini(&gaps);
}

/* ------------------------------------------------------------------ the start */

Test(raft_repair, refuses_gaps_that_contradict_the_log) {
    struct raft_gap bad[][2] = {{{0, 2, 1}, {0}},      {{3, 2, 1}, {0}}, {{7, 9, 2}, {0}},
                                {{3, 4, 2}, {0}},      {{7, 7, 1}, {0}}, {{3, 4, 0}, {0}},
                                {{3, 4, 1}, {4, 5, 1}}};
    struct shape shape = {.members = 3, .terms = ONES_AND_TWOS, .last = 8};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct node node;
        shape.gaps = bad[i];
        shape.gap_count = bad[i][1].first != 0 ? 2 : 1;
        cr_expect(try_open(&shape, &node) == LKV_EINVAL, "%zu", i);
    }
}

/* Gap [3, 6]: terms 3..5 are not known, but for the ends. */
Test(raft_repair, says_what_it_cannot_read_and_votes_with_its_end) {
    struct node node = open_node(&DAMAGED);
    struct raft_status status = status_of(&node);
    cr_expect(status.gap_count == 1 && status.damaged_entries == 4 && status.last == 8);
    cr_expect(status.first_gap.first == 3 && status.first_gap.last == 6);
    struct raft_gap gaps[2];
    cr_expect(raft_gaps(node.raft, gaps, 2) == 1 && gaps[0].last_term == 2);
    cr_expect(raft_term_at(node.raft, 2) == 1 && raft_term_at(node.raft, 3) == 0);
    cr_expect(raft_term_at(node.raft, 5) == 0 && raft_term_at(node.raft, 6) == 2);
    struct raft_message ask = message_of(RAFT_VOTE_REQUEST, 2, 3);
    ask.vote_request.last_index = 7;
    ask.vote_request.last_term = 2;
    receive(&node, &ask);
    cr_expect(sent(&node, RAFT_VOTE_REPLY)->vote_reply.answer == RAFT_VOTE_LOG_BEHIND);
    cr_expect(raft_keeps_log(node.raft, 4, 1) && raft_keeps_log(node.raft, 4, 2));
    cr_expect(!raft_keeps_log(node.raft, 4, 3) && !raft_keeps_log(node.raft, 6, 1));
    cr_expect(raft_keeps_log(node.raft, 2, 1) && !raft_keeps_log(node.raft, 2, 2));
    cr_expect(raft_wants_image(node.raft, 4));
    close_node(&node);
}

/* ------------------------------------------------------------------ appends over a gap */

Test(raft_repair, an_unknown_term_proves_nothing) {
    struct node node = open_node(&DAMAGED);
    append(&node, 2, 3, 2, 1, (uint64_t[]){1, 1}, 2);
    persist(&node);
    const struct raft_message *reply = sent(&node, RAFT_APPEND_REPLY);
    cr_assert(reply != NULL && reply->append_reply.result == RAFT_APPEND_OK);
    cr_expect(reply->append_reply.received == 2 && reply->append_reply.durable == 2);
    append(&node, 2, 3, 4, 1, (uint64_t[]){1}, 1); /* not from the middle either */
    cr_expect(status_of(&node).last == 8 && node.update.write.cut_from == 0);
    close_node(&node);
}

Test(raft_repair, the_gaps_last_term_proves_all_of_it) {
    struct node node = open_node(&DAMAGED);
    append(&node, 2, 3, 2, 1, (uint64_t[]){1, 1, 2}, 3); /* 5 has term 2: so has ours */
    persist(&node);
    cr_expect(sent(&node, RAFT_APPEND_REPLY)->append_reply.received == 5);
    cr_expect(sent(&node, RAFT_APPEND_REPLY)->append_reply.durable == 2);
    append(&node, 2, 3, 5, 2, (uint64_t[]){2, 2, 2, 3}, 4);
    persist(&node);
    cr_expect(sent(&node, RAFT_APPEND_REPLY)->append_reply.received == 9);
    cr_expect(sent(&node, RAFT_APPEND_REPLY)->append_reply.durable == 2);
    cr_expect(status_of(&node).last == 9 && status_of(&node).gap_count == 1);
    close_node(&node);
}

/* A leader that has nothing before it any more can begin there. */
Test(raft_repair, an_append_may_begin_within_the_gap_at_its_last_term) {
    struct node node = open_node(&DAMAGED);
    append(&node, 2, 3, 5, 2, (uint64_t[]){2}, 1);
    persist(&node);
    const struct raft_message *reply = sent(&node, RAFT_APPEND_REPLY);
    cr_assert(reply != NULL && reply->append_reply.result == RAFT_APPEND_OK);
    cr_expect(reply->append_reply.received == 6 && reply->append_reply.durable == 2);
    cr_expect(status_of(&node).last == 8 && status_of(&node).gap_count == 1);
    close_node(&node);
}

/* Our own later entries go, and what is left of the gap ends in the leader's term there. */
Test(raft_repair, a_higher_term_within_the_gap_is_a_conflict) {
    uint64_t terms[] = {1, 1, 1, 1, 1, 4, 4, 4};
    struct raft_gap gap = {3, 6, 4};
    struct node node = open_node(
        &(struct shape){.members = 3, .terms = terms, .last = 8, .gaps = &gap, .gap_count = 1});
    append(&node, 2, 6, 2, 1, (uint64_t[]){1, 3, 5}, 3);
    cr_expect(node.update.write.cut_from == 5 && node.update.write.cut_prev_term == 3);
    cr_expect(node.update.write.first == 5 && node.update.write.last == 5);
    struct raft_gap left;
    cr_assert(raft_gaps(node.raft, &left, 1) == 1);
    cr_expect(left.first == 3 && left.last == 4 && left.last_term == 3);
    cr_expect(raft_term_at(node.raft, 4) == 3 && raft_term_at(node.raft, 5) == 5);
    close_node(&node);
}

Test(raft_repair, another_term_at_the_gaps_end_is_a_conflict_there) {
    uint64_t terms[] = {1, 1, 1, 1, 1, 4, 4, 4};
    struct raft_gap gap = {3, 6, 4};
    struct node node = open_node(
        &(struct shape){.members = 3, .terms = terms, .last = 8, .gaps = &gap, .gap_count = 1});
    append(&node, 2, 6, 2, 1, (uint64_t[]){1, 1, 3, 3}, 4);
    cr_expect(node.update.write.cut_from == 6 && node.update.write.cut_prev_term == 3);
    cr_expect(status_of(&node).last == 6 && status_of(&node).first_gap.last == 5);
    close_node(&node);
}

/* ------------------------------------------------------------------ entries from peers */

static bool fills(struct node *node, struct raft_message m, uint64_t first, const uint64_t *terms,
                  uint32_t count) {
    struct raft_entry_meta metas[8];
    for (uint32_t i = 0; i < count; i++) {
        metas[i] = (struct raft_entry_meta){.term = terms[i], .size = 1, .type = ENTRY_COMMAND};
    }
    m.repair_reply.first = first;
    m.repair_reply.count = count;
    m.repair_reply.entries = metas;
    receive(node, &m);
    return node->update.fill_count > 0;
}

Test(raft_repair, takes_entries_only_as_asked_and_proven) {
    struct node node = open_node(&DAMAGED);
    struct raft_message ask = next_question(&node);
    cr_expect(ask.repair_request.want == RAFT_REPAIR_STATUS && ask.repair_request.prev_term == 1);
    cr_expect(ask.repair_request.first == 3 && ask.repair_request.last == 6 &&
              ask.repair_request.last_term == 2);
    struct raft_message good = answer_of(&ask, 2, RAFT_REPAIR_READABLE, 6, 2);
    receive(&node, &good);
    cr_assert(sent(&node, RAFT_REPAIR_REQUEST) != NULL);
    cr_expect(sent(&node, RAFT_REPAIR_REQUEST)->repair_request.want == RAFT_REPAIR_ENTRIES);
    const uint64_t all[] = {1, 1, 2, 2, 2}, falls[] = {2, 1}, early[] = {0, 1}, high[] = {1, 3};
    struct raft_message other = good;
    other.repair_reply.boot_nonce++;
    cr_expect(!fills(&node, other, 3, all, 2), "of an earlier life");
    other = good;
    other.repair_reply.round--;
    cr_expect(!fills(&node, other, 3, all, 2), "of an earlier question");
    other = good;
    other.repair_reply.shared_index = 3;
    cr_expect(!fills(&node, other, 3, all, 2), "more than is proven");
    other = good;
    other.from = 9;
    cr_expect(!fills(&node, other, 3, all, 2), "a stranger's");
    cr_expect(!fills(&node, good, 4, all, 2) && !fills(&node, good, 3, all, 5));
    cr_expect(!fills(&node, good, 3, falls, 2) && !fills(&node, good, 3, high, 2));
    cr_expect(!fills(&node, good, 3, early, 2));
    cr_expect(!fills(&node, good, 3, (uint64_t[]){1, 1, 1, 1}, 4), "the end has another term");
    cr_assert(fills(&node, good, 3, all, 2));
    cr_expect(node.update.fills[0].first == 3 && node.update.fills[0].last == 4);
    cr_expect(node.update.fills[0].token == node.token && node.update.write.no != 0);
    cr_expect(status_of(&node).damaged_entries == 4); /* not yet durable */
    cr_expect(!fills(&node, good, 3, all, 2), "twice");
    close_node(&node);
}

Test(raft_repair, goes_on_with_the_same_peer_until_the_gap_is_closed) {
    struct node node = open_node(&DAMAGED);
    append(&node, 2, 3, 8, 2, NULL, 0);
    persist(&node);
    struct raft_message ask = next_question(&node);
    const uint64_t all[] = {1, 1, 2, 2};
    struct raft_message can = answer_of(&ask, 3, RAFT_REPAIR_READABLE, 6, 2);
    receive(&node, &can);
    cr_assert(fills(&node, answer_of(&ask, 3, RAFT_REPAIR_READABLE, 6, 2), 3, all, 3) == true);
    persist(&node);
    cr_expect(status_of(&node).damaged_entries == 1);
    cr_assert(fills(&node,
                    answer_of(sent(&node, RAFT_REPAIR_REQUEST), 3, RAFT_REPAIR_READABLE, 6, 2), 6,
                    all + 3, 1));
    persist(&node);
    cr_expect(status_of(&node).gap_count == 0);
    cr_expect(sent(&node, RAFT_APPEND_REPLY)->append_reply.durable == 8); /* at once */
    close_node(&node);
}

Test(raft_repair, learns_what_another_damaged_peer_knows) {
    struct node node = open_node(&DAMAGED);
    struct raft_message ask = next_question(&node);
    struct raft_message answer = answer_of(&ask, 2, RAFT_REPAIR_UNREADABLE, 4, 1);
    receive(&node, &answer);
    cr_expect(raft_term_at(node.raft, 3) == 1 && raft_term_at(node.raft, 4) == 1);
    ask = next_question(&node);
    cr_expect(ask.repair_request.last == 4 && ask.repair_request.last_term == 1);
    close_node(&node);
}

Test(raft_repair, believes_the_leader_where_it_contradicts) {
    struct node node = open_node(&DAMAGED);
    append(&node, 2, 3, 2, 1, NULL, 0);
    persist(&node);
    tick(&node, 0);
    struct raft_message answer =
        answer_of(sent(&node, RAFT_REPAIR_REQUEST), 3, RAFT_REPAIR_UNSURE, 4, 1);
    answer.term = 3;
    receive(&node, &answer); /* not the leader */
    cr_expect(node.update.write.cut_from == 0);
    answer.from = 2;
    receive(&node, &answer);
    cr_expect(node.update.write.cut_from == 5 && node.update.write.cut_prev_term == 1);
    cr_expect(node.update.discarded_from == 0);
    close_node(&node);
}

/* ------------------------------------------------------------------ nobody can proceed */

static void answer_all(struct node *node, size_t members, enum raft_repair_answer answer) {
    struct raft_message ask = *sent(node, RAFT_REPAIR_REQUEST);
    for (uint64_t id = 2; id <= members; id++) {
        struct raft_message m = answer_of(&ask, id, answer, 0, 0);
        receive(node, &m);
    }
}

Test(raft_repair, drops_only_what_no_quorum_can_have_had) {
    struct node node = open_node(&DAMAGED);
    struct raft_message ask = next_question(&node);
    struct raft_message m = answer_of(&ask, 2, RAFT_REPAIR_ABSENT, 0, 0);
    receive(&node, &m);
    cr_expect(node.update.discarded_from == 0); /* node 3 has not answered */
    struct raft_event peer = {.kind = RAFT_PEER};
    peer.peer.peer = 2;
    peer.peer.up = true;
    peer.peer.boot_nonce = 5;
    step(&node, peer);
    m = answer_of(&ask, 3, RAFT_REPAIR_ABSENT, 0, 0);
    receive(&node, &m);
    cr_expect(node.update.discarded_from == 0); /* node 2 lives anew */
    m = answer_of(&ask, 2, RAFT_REPAIR_ABSENT, 0, 0);
    receive(&node, &m);
    cr_expect(node.update.discarded_from == 0); /* asked again: an answer holds for its moment */
    receive(&node, &m);
    cr_expect(node.update.discarded_from == 0);
    tick(&node, 0);
    answer_all(&node, 3, RAFT_REPAIR_ABSENT);
    cr_expect(node.update.discarded_from == 3 && node.update.write.cut_from == 3);
    cr_expect(node.update.write.cut_prev_term == 1 && node.update.note.text[0] != '\0');
    close_node(&node);
}

Test(raft_repair, holds_the_best_of_what_it_may_share) {
    struct shape shape = DAMAGED;
    shape.members = 5;
    struct node node = open_node(&shape);
    struct raft_message ask = next_question(&node);
    const struct {
        enum raft_repair_answer answer;
        uint64_t index, term;
    } answers[] = {{RAFT_REPAIR_UNSURE, 4, 1},
                   {RAFT_REPAIR_UNSURE, 5, 1},
                   {RAFT_REPAIR_UNSURE, 3, 1},
                   {RAFT_REPAIR_ABSENT, 0, 0}};
    for (uint64_t i = 0; i < 8; i++) { /* each says it twice */
        if (i == 4) {
            tick(&node, 0);
            ask = *sent(&node, RAFT_REPAIR_REQUEST);
        }
        struct raft_message m = answer_of(&ask, i % 4 + 2, answers[i % 4].answer,
                                          answers[i % 4].index, answers[i % 4].term);
        receive(&node, &m);
    }
    cr_expect(node.update.discarded_from == 6 && node.update.write.cut_prev_term == 1);
    cr_expect(status_of(&node).last == 5 && status_of(&node).first_gap.last == 5);
    close_node(&node);
}

Test(raft_repair, stops_with_a_report_when_a_quorum_had_it) {
    struct node node = open_node(&DAMAGED);
    tick(&node, 0);
    answer_all(&node, 3, RAFT_REPAIR_UNREADABLE);
    cr_expect(node.update.stop_rc == 0); /* the others are to hear of it too */
    for (int i = 0; i < 20 && node.update.stop_rc == 0; i++) {
        if (sent(&node, RAFT_REPAIR_REQUEST) != NULL) {
            answer_all(&node, 3, RAFT_REPAIR_UNREADABLE);
        }
        tick(&node, 100);
    }
    cr_expect(node.update.stop_rc == LKV_EDAMAGED);
    cr_expect(strstr(node.update.stop_why.text, "entry 3 (of 3..6") != NULL);
    close_node(&node);
}

/* ------------------------------------------------------------------ while leading */

/* Node 1 leads three in term 3; its no-op at 9 is durable here, and nowhere else. */
static struct node leader(void) {
    struct shape shape = {.members = 3, .terms = ONES_AND_TWOS, .last = 8};
    struct node node = open_node(&shape);
    while (node.update.role != RAFT_LEADER) {
        tick(&node, 50);
        for (int i = 0; i < 3 && node.update.role != RAFT_LEADER; i++) {
            if (node.update.write.no != 0) {
                persist(&node);
            }
            const struct raft_message *ask = sent(&node, RAFT_VOTE_REQUEST);
            if (ask == NULL) {
                break;
            }
            struct raft_message yes = message_of(RAFT_VOTE_REPLY, 2, ask->term);
            yes.vote_reply.pre = ask->vote_request.pre;
            yes.vote_reply.round = ask->vote_request.round;
            yes.vote_reply.answer = RAFT_VOTE_ACCEPT;
            receive(&node, &yes);
        }
    }
    persist(&node);
    return node;
}

static void damaged(struct node *node, uint64_t first, uint64_t last) {
    struct raft_event event = {.kind = RAFT_DAMAGED};
    event.damaged.first = first;
    event.damaged.last = last;
    step(node, event);
}

/* What was written reads back otherwise: told before its write is durable. */
Test(raft_repair, a_fill_that_did_not_hold_leaves_its_gap) {
    struct node node = open_node(&DAMAGED);
    append(&node, 2, 3, 8, 2, NULL, 0);
    persist(&node);
    struct raft_message ask = next_question(&node);
    const uint64_t all[] = {1, 1, 2, 2};
    struct raft_message can = answer_of(&ask, 3, RAFT_REPAIR_READABLE, 6, 2);
    receive(&node, &can);
    cr_assert(fills(&node, answer_of(&ask, 3, RAFT_REPAIR_READABLE, 6, 2), 3, all, 4));
    uint64_t no = node.update.write.no;
    damaged(&node, 3, 6);
    struct raft_event event = {.kind = RAFT_PERSISTED, .persisted = {.write_no = no}};
    step(&node, event);
    cr_expect(status_of(&node).damaged_entries == 4);
    close_node(&node);
}

static bool reread(struct node *node, uint64_t first, const uint64_t *terms, uint32_t count) {
    struct raft_entry_meta metas[8];
    for (uint32_t i = 0; i < count; i++) {
        metas[i] = (struct raft_entry_meta){.term = terms[i], .size = 8, .type = ENTRY_COMMAND};
    }
    struct raft_message m = {.kind = RAFT_REPAIR_REPLY};
    m.repair_reply.first = first;
    m.repair_reply.count = count;
    m.repair_reply.shared_index = first + count - 1;
    m.repair_reply.entries = count > 0 ? metas : NULL;
    struct raft_event event = {.kind = RAFT_REREAD};
    event.reread.message = &m;
    event.reread.token = ++node->token;
    step(node, event);
    return node->update.fill_count == 1 && node->update.fills[0].token == node->token &&
           node->update.fills[0].first == first;
}

/* Without any peer's word: it stands where our entry stood. */
Test(raft_repair, takes_back_what_it_can_read_again_itself) {
    struct node node = open_node(&DAMAGED);
    const uint64_t all[] = {1, 1, 2, 2}, falling[] = {1, 2, 1, 2}, other[] = {1, 1, 2, 1};
    cr_expect(!reread(&node, 3, falling, 4) && !reread(&node, 3, other, 4));
    cr_expect(!reread(&node, 4, all, 2), "not the beginning");
    cr_expect(!reread(&node, 3, all, 0));
    cr_assert(reread(&node, 3, all, 2));
    struct raft_event done = {.kind = RAFT_PERSISTED};
    done.persisted.write_no = node.update.write.no;
    cr_expect(!reread(&node, 3, all, 2), "one fill at a time");
    step(&node, done);
    cr_expect(status_of(&node).damaged_entries == 2);
    cr_assert(reread(&node, 5, all + 2, 2));
    persist(&node);
    cr_expect(status_of(&node).damaged_entries == 0);
    cr_expect(!reread(&node, 3, all, 4), "there is no gap");
    close_node(&node);
}

static void acknowledge(struct node *node, uint64_t from, uint64_t index) {
    struct raft_message ok = message_of(RAFT_APPEND_REPLY, from, 3);
    ok.append_reply.result = RAFT_APPEND_OK;
    ok.append_reply.request_no = 1;
    ok.append_reply.durable = ok.append_reply.received = index;
    ok.append_reply.room = RAFT_ROOM_FREE;
    receive(node, &ok);
}

Test(raft_repair, a_leaders_unreadable_copy_does_not_count) {
    struct node node = leader();
    struct raft_event applied = {.kind = RAFT_APPLIED};
    applied.applied.index = 8;
    step(&node, applied);
    damaged(&node, 4, 4);
    acknowledge(&node, 2, 9);
    cr_expect(status_of(&node).commit == 8 && node.update.role == RAFT_LEADER);
    /* An image of its own over it is as good as a repair. */
    struct raft_event prefix = {.kind = RAFT_LOG_PREFIX};
    prefix.log_prefix.first = 1;
    prefix.log_prefix.image_index = 8;
    prefix.log_prefix.image_term = 2;
    step(&node, prefix);
    cr_expect(status_of(&node).gap_count == 0 && status_of(&node).commit == 9);
    damaged(&node, 5, 6); /* below the image: in nobody's way */
    cr_expect(status_of(&node).gap_count == 0);
    close_node(&node);
}

Test(raft_repair, a_leader_hands_over_what_it_cannot_apply) {
    struct node node = leader();
    for (int i = 0; i < 2; i++) { /* the first makes them live, the second answers the probe */
        acknowledge(&node, 2, 8);
        acknowledge(&node, 3, 8);
    }
    damaged(&node, 4, 4);
    acknowledge(&node, 2, 9);
    cr_expect(sent(&node, RAFT_TRANSFER_NOW) != NULL);
    close_node(&node);
}

Test(raft_repair, stops_rather_than_drop_what_is_committed) {
    struct node node = leader();
    acknowledge(&node, 2, 9);
    cr_assert(status_of(&node).commit == 9);
    damaged(&node, 9, 9);
    bool stopped = false;
    for (int i = 0; i < 60 && !stopped; i++) {
        tick(&node, 25);
        stopped = node.update.stop_rc == LKV_EDAMAGED;
        bool asks = sent(&node, RAFT_REPAIR_REQUEST) != NULL && !stopped;
        struct raft_message ask =
            asks ? *sent(&node, RAFT_REPAIR_REQUEST) : (struct raft_message){0};
        for (uint64_t id = 2; id <= 3 && asks; id++) {
            struct raft_message m = answer_of(&ask, id, RAFT_REPAIR_ABSENT, 0, 0);
            receive(&node, &m);
            cr_assert(node.update.discarded_from == 0 && node.update.stop_rc == 0);
        }
        acknowledge(&node, 2, 8); /* it is still heard */
    }
    cr_expect(stopped && status_of(&node).last == 9);
    close_node(&node);
}

Test(raft_repair, one_that_is_alone_waits_for_its_own_image_or_stops) {
    uint64_t terms[] = {1, 1, 1};
    for (int covered = 0; covered < 2; covered++) {
        struct node node = open_node(&(struct shape){.members = 1, .terms = terms, .last = 3});
        for (int i = 0; i < 20 && node.update.role != RAFT_LEADER; i++) {
            tick(&node, 50);
            persist(&node);
        }
        persist(&node);
        struct raft_event applied = {.kind = RAFT_APPLIED};
        applied.applied.index = covered ? 4 : 1;
        step(&node, applied);
        damaged(&node, 2, 2);
        bool stopped = false;
        for (int i = 0; i < 40; i++) {
            tick(&node, 100);
            stopped = stopped || node.update.stop_rc != 0;
        }
        cr_expect(stopped == !covered, "%d", covered);
        close_node(&node);
    }
}

/* ------------------------------------------------------------------ an unknown end */

static void catch_up(struct node *node, const struct raft_message *question, uint64_t index) {
    struct raft_message m = message_of(RAFT_CATCHUP_REPLY, question->to, question->term);
    m.catchup_reply.context = question->catchup_request.context;
    m.catchup_reply.boot_nonce = question->catchup_request.boot_nonce;
    m.catchup_reply.index = index;
    receive(node, &m);
}

Test(raft_repair, an_end_is_known_again_only_behind_what_the_leader_said) {
    struct node node = open_node(
        &(struct shape){.members = 3, .terms = ONES_AND_TWOS, .last = 8, .end_unknown = true});
    append(&node, 2, 3, 8, 2, NULL, 0);
    persist(&node);
    tick(&node, 0);
    struct raft_message question = *sent(&node, RAFT_CATCHUP_REQUEST);
    struct raft_message stale = question;
    stale.catchup_request.boot_nonce++;
    catch_up(&node, &stale, 8);
    cr_expect(!node.update.settle_end);
    catch_up(&node, &question, 9);
    cr_expect(!node.update.settle_end); /* it has 8 */
    append(&node, 2, 3, 8, 2, (uint64_t[]){3}, 1);
    cr_expect(!node.update.settle_end); /* not durable */
    persist(&node);
    cr_expect(node.update.settle_end && status_of(&node).end_unknown);
    cr_expect(sent(&node, RAFT_APPEND_REPLY) == NULL ||
              sent(&node, RAFT_APPEND_REPLY)->append_reply.durable == 0);
    step(&node, (struct raft_event){.kind = RAFT_END_SETTLED});
    cr_expect(!status_of(&node).end_unknown);
    cr_expect(sent(&node, RAFT_APPEND_REPLY)->append_reply.durable == 9);
    close_node(&node);
}

Test(raft_repair, another_leader_must_say_it_anew) {
    struct node node = open_node(
        &(struct shape){.members = 3, .terms = ONES_AND_TWOS, .last = 8, .end_unknown = true});
    append(&node, 2, 3, 8, 2, NULL, 0);
    persist(&node);
    tick(&node, 0);
    catch_up(&node, sent(&node, RAFT_CATCHUP_REQUEST), 9);
    append(&node, 3, 4, 8, 2, (uint64_t[]){4}, 1);
    persist(&node);
    cr_expect(!node.update.settle_end);
    tick(&node, 200);
    const struct raft_message *question = sent(&node, RAFT_CATCHUP_REQUEST);
    cr_assert(question != NULL && question->to == 3);
    catch_up(&node, question, 9);
    cr_expect(node.update.settle_end);
    /* Doubted while that is made durable: it does not count. */
    step(&node, (struct raft_event){.kind = RAFT_END_DOUBTED});
    step(&node, (struct raft_event){.kind = RAFT_END_SETTLED});
    cr_expect(status_of(&node).end_unknown);
    close_node(&node);
}

/* What it has may be found to be the leader's without anything being written. */
Test(raft_repair, looks_again_whether_it_has_caught_up) {
    struct node node = open_node(
        &(struct shape){.members = 3, .terms = ONES_AND_TWOS, .last = 8, .end_unknown = true});
    append(&node, 2, 3, 5, 1, NULL, 0);
    persist(&node);
    tick(&node, 0);
    catch_up(&node, sent(&node, RAFT_CATCHUP_REQUEST), 8);
    cr_expect(!node.update.settle_end); /* 6 to 8 may be another leader's */
    append(&node, 2, 3, 8, 2, NULL, 0);
    bool settles = node.update.settle_end;
    tick(&node, 100);
    cr_expect(settles || node.update.settle_end);
    close_node(&node);
}

/* ------------------------------------------------------------------ memory */

/* S28: at every allocation, from the open to a closed gap. */
Test(raft_repair, reports_each_failed_allocation) {
    const uint64_t all[] = {1, 1, 2, 2};
    struct raft_entry_meta metas[4];
    for (size_t i = 0; i < 4; i++) {
        metas[i] = (struct raft_entry_meta){.term = all[i], .size = 1, .type = ENTRY_COMMAND};
    }
    bool failed = true;
    for (uint64_t n = 0; failed; n++) {
        cr_assert(n < 100);
        struct node node;
        mem_fail_after(n);
        int rc = try_open(&DAMAGED, &node);
        struct raft_event event = {.kind = RAFT_TICK, .now_ns = node.now_ns};
        rc = rc == 0 ? raft_step(node.raft, &event, &node.update) : rc;
        struct raft_message m = {0};
        event.kind = RAFT_RECEIVE;
        event.receive.message = &m;
        event.receive.token = 1;
        for (int i = 0; i < 2 && rc == 0; i++) {
            m = answer_of(sent(&node, RAFT_REPAIR_REQUEST), 2,
                          i == 0 ? RAFT_REPAIR_UNREADABLE : RAFT_REPAIR_READABLE, i == 0 ? 4 : 6,
                          i == 0 ? 1 : 2);
            rc = raft_step(node.raft, &event, &node.update);
            event.kind = RAFT_TICK;
            rc = rc == 0 && i == 0 ? raft_step(node.raft, &event, &node.update) : rc;
            event.kind = RAFT_RECEIVE;
        }
        if (rc == 0) {
            m = answer_of(sent(&node, RAFT_REPAIR_REQUEST), 2, RAFT_REPAIR_READABLE, 4, 1);
            m.repair_reply.first = 3;
            m.repair_reply.count = 2;
            m.repair_reply.entries = metas;
            rc = raft_step(node.raft, &event, &node.update);
            cr_expect(rc != 0 || node.update.fill_count == 1);
        }
        failed = rc != 0;
        cr_expect(!failed || rc == LKV_ENOMEM);
        mem_fail_never();
        raft_update_fini(&node.update);
        raft_close(node.raft);
    }
}

/* ------------------------------------------------------------------ images */

Test(raft_repair, an_image_within_a_gap_keeps_what_is_behind) {
    struct node node = open_node(&DAMAGED);
    append(&node, 2, 3, 2, 1, NULL, 0);
    persist(&node);
    append(&node, 2, 3, 20, 3, (uint64_t[]){3}, 1); /* too early: kept */
    cr_assert(node.update.kept);
    struct raft_event image = {.kind = RAFT_IMAGE_INSTALLED};
    image.image_installed.index = 4;
    image.image_installed.term = 1;
    step(&node, image);
    cr_expect(node.update.write.cut_from == 0 && node.update.drop_count == 1);
    struct raft_status status = status_of(&node);
    cr_expect(status.first == 5 && status.last == 8 && status.commit == 4);
    cr_expect(status.first_gap.first == 5 && status.first_gap.last == 6);
    cr_expect(!raft_wants_image(node.raft, 4) && raft_wants_image(node.raft, 5));
    close_node(&node);
}
