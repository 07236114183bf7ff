/* What a write answers beyond numbers: items that were there before, and the answers of a transaction's
 * operations. */
#include "base/mem.h"
#include "lib/msg.h"

/* An answer must fit into a client's frame, beside the numbers of each item. */
enum { ANSWER_BYTES_MAX = 15 * 1024 * 1024, ITEMS_MAX = 100000, ITEM_OVERHEAD = 64 };

struct room {
    size_t bytes, items;
};

/* Drops what does not fit. True: something was. */
static bool trim(struct kv_answer *answer, struct room *room) {
    bool cut = false;
    size_t kept = 0;
    while (kept < answer->count && room->items > 0) {
        size_t size = answer->items[kept].key.size + answer->items[kept].value.size + ITEM_OVERHEAD;
        if (size > room->bytes) {
            break;
        }
        room->bytes -= size;
        room->items--;
        kept++;
    }
    for (; answer->count > kept; answer->count--) {
        kv_item_release(&answer->items[answer->count - 1]);
        cut = answer->more = true;
    }
    for (size_t i = 0; i < answer->answer_count; i++) {
        cut = trim(&answer->answers[i], room) || cut;
    }
    return cut;
}

void msg_set_answer(struct lkv_msg *msg, struct kv_answer *answer) {
    struct room room = {.bytes = ANSWER_BYTES_MAX, .items = ITEMS_MAX};
    msg->answer = answer;
    if (trim(answer, &room) || answer->more) {
        msg_set_u64(msg, "more", 1);
    }
    if (answer->op != KV_TXN) {
        msg->range.items = answer->items;
        msg->range.count = answer->count;
        answer->items = NULL;
        answer->count = 0;
        msg_drop_answer(msg);
    }
}

void msg_drop_answer(struct lkv_msg *msg) {
    struct kv_result result = {.answer = msg->answer};
    kv_result_fini(&result);
    msg->answer = NULL;
}

static bool answer_of(const struct kv_answer *all, size_t i, struct lkv_answer *out) {
    if (all == NULL || i >= all->answer_count) {
        return false;
    }
    const struct kv_answer *answer = &all->answers[i];
    *out = (struct lkv_answer){.op = (enum lkv_op)answer->op,
                               .held = answer->held,
                               .more = answer->more,
                               .total = answer->total,
                               .number = answer->number,
                               .items = answer->count,
                               .answers = answer->answer_count,
                               .own = answer};
    return true;
}

bool lkv_msg_answer(const struct lkv_msg *msg, size_t i, struct lkv_answer *out) {
    return answer_of(msg->answer, i, out);
}

bool lkv_answer_at(const struct lkv_answer *answer, size_t i, struct lkv_answer *out) {
    return answer_of(answer->own, i, out);
}

bool lkv_answer_kv(const struct lkv_answer *answer, size_t i, struct lkv_kv *out) {
    const struct kv_answer *own = answer->own;
    if (i >= own->count) {
        return false;
    }
    *out = msg_kv_of(&own->items[i]);
    return true;
}
