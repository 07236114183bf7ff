/* What a node says to a peer that cannot read its entries (rule 11), and what it gives. */
#include "tests/unit/raft/damaged_node.h"

Test(raft_donate, gives_nothing_that_was_cut_while_it_was_read) {
    struct shape shape = {.members = 3, .terms = ONES_AND_TWOS, .last = 8};
    struct node node = open_node(&shape);
    struct raft_message ask = message_of(RAFT_REPAIR_REQUEST, 2, 2);
    ask.repair_request.want = RAFT_REPAIR_ENTRIES;
    ask.repair_request.first = ask.repair_request.last = 7;
    ask.repair_request.prev_term = ask.repair_request.last_term = 2;
    ask.repair_request.bytes_max = 1000;
    for (int cut = 0; cut < 2; cut++) {
        receive(&node, &ask);
        cr_assert(node.update.fetch_count == 1 && node.update.fetches[0].repair);
        cr_expect(node.update.fetches[0].from == 7 && node.update.fetches[0].to == 7);
        if (cut) {
            append(&node, 3, 3, 6, 2, (uint64_t[]){3}, 1);
        }
        struct raft_event fetched = {.kind = RAFT_FETCHED};
        fetched.fetched.peer = 2;
        fetched.fetched.from = 7;
        fetched.fetched.sizes = (uint32_t[]){1};
        fetched.fetched.count = 1;
        fetched.fetched.repair = true;
        step(&node, fetched);
        const struct raft_message *reply = sent(&node, RAFT_REPAIR_REPLY);
        cr_expect((reply != NULL) == !cut);
        cr_expect(cut || (reply->repair_reply.count == 1 && reply->repair_reply.first == 7));
    }
    close_node(&node);
}

static const struct raft_message *judged(struct node *node, uint64_t first, uint64_t last,
                                         uint64_t prev_term, uint64_t last_term) {
    struct raft_message ask = message_of(RAFT_REPAIR_REQUEST, 2, 2);
    ask.repair_request.want = RAFT_REPAIR_STATUS;
    ask.repair_request.first = first;
    ask.repair_request.last = last;
    ask.repair_request.prev_term = prev_term;
    ask.repair_request.last_term = last_term;
    receive(node, &ask);
    return sent(node, RAFT_REPAIR_REPLY);
}

Test(raft_donate, a_donor_says_no_more_than_it_can_prove) {
    struct node node = open_node(&DAMAGED); /* 1 1 [? ? ? 2] 2 2 */
    cr_expect(judged(&node, 7, 9, 2, 2)->repair_reply.answer == RAFT_REPAIR_READABLE);
    cr_expect(judged(&node, 7, 9, 2, 2)->repair_reply.shared_index == 8);
    cr_expect(judged(&node, 3, 5, 1, 2)->repair_reply.answer == RAFT_REPAIR_UNREADABLE);
    cr_expect(judged(&node, 9, 9, 2, 2)->repair_reply.answer == RAFT_REPAIR_ABSENT);
    cr_expect(judged(&node, 8, 8, 1, 1)->repair_reply.answer == RAFT_REPAIR_ABSENT);
    cr_expect(judged(&node, 2, 4, 1, 1)->repair_reply.answer == RAFT_REPAIR_READABLE);
    /* Its own 4 may be of term 1: then it has that entry. */
    cr_expect(judged(&node, 3, 4, 1, 1)->repair_reply.answer == RAFT_REPAIR_UNSURE);
    cr_expect(judged(&node, 3, 4, 1, 1)->repair_reply.shared_index == 0);
    cr_expect(judged(&node, 7, 9, 2, 3)->repair_reply.answer == RAFT_REPAIR_UNSURE);
    cr_expect(judged(&node, 7, 9, 2, 3)->repair_reply.shared_index == 8);
    cr_expect(judged(&node, 7, 9, 0, 3)->repair_reply.shared_index == 0);
    close_node(&node);
}

/* Two of two, of which one cannot tell whose entry it misses: the other one's image has what counts. */
Test(raft_donate, a_donor_that_is_unsure_offers_its_image) {
    struct node node = open_node(&(struct shape){
        .members = 2, .terms = ONES_AND_TWOS, .last = 8, .image_index = 7, .image_term = 2});
    cr_expect(judged(&node, 7, 9, 0, 3)->repair_reply.answer == RAFT_REPAIR_COMPACTED);
    cr_expect(judged(&node, 8, 9, 0, 3)->repair_reply.answer == RAFT_REPAIR_UNSURE);
    cr_expect(judged(&node, 7, 7, 0, 2)->repair_reply.answer == RAFT_REPAIR_READABLE);
    close_node(&node);
}
