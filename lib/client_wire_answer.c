/* The answers of a transaction's operations: a flat list, since messages nest only so deeply. Each answer
 * of a transaction inside says how many follow it as its own. */
#include "lib/client_wire_pack.h"

#include "base/mem.h"

#include <msgpack.h>

enum {
    ANSWER_PARTS = 6, /* operation, bits, total, number, how many are inside, items */
    BIT_HELD = 1,
    BIT_MORE = 2,
    DEPTH_MAX = LKV_TXN_DEPTH_MAX - 1 /* beside the outermost, which is not in the list */
};

/* ------------------------------------------------------------------ encoding */

static size_t count_all(const struct kv_answer *answer) {
    size_t count = 0;
    for (size_t i = 0; i < answer->answer_count; i++) {
        count += 1 + count_all(&answer->answers[i]);
    }
    return count;
}

static void pack_inside(msgpack_packer *packer, const struct kv_answer *all) {
    for (size_t i = 0; i < all->answer_count; i++) {
        const struct kv_answer *answer = &all->answers[i];
        msgpack_pack_array(packer, ANSWER_PARTS);
        msgpack_pack_uint64(packer, (uint64_t)answer->op);
        msgpack_pack_uint64(packer, (answer->held ? BIT_HELD : 0) | (answer->more ? BIT_MORE : 0));
        msgpack_pack_uint64(packer, answer->total);
        msgpack_pack_uint64(packer, (uint64_t)answer->number);
        msgpack_pack_uint64(packer, answer->answer_count);
        wire_pack_items(packer, answer->items, answer->count);
        pack_inside(packer, answer);
    }
}

void wire_pack_answers(msgpack_packer *packer, const struct kv_answer *answer) {
    msgpack_pack_array(packer, count_all(answer));
    pack_inside(packer, answer);
}

/* ------------------------------------------------------------------ decoding */

/* A list that `count_outer` has seen: each is an array of parts enough, and those inside follow. */
struct answer_list {
    const msgpack_object *at;
    const struct wire_bytes *bytes;
};

static int read_answers(struct answer_list *list, uint64_t count, struct kv_answer *into);

static int read_answer(struct answer_list *list, struct kv_answer *out) {
    const msgpack_object *parts = list->at++->via.array.ptr;
    uint64_t op, bits, number, inside = parts[4].via.u64;
    if (!wire_as_number(&parts[0], &op) || !wire_as_number(&parts[1], &bits) ||
        !wire_as_number(&parts[2], &out->total) || !wire_as_number(&parts[3], &number)) {
        return LKV_EPROTOCOL;
    }
    out->op = (enum kv_op)(op < INT32_MAX ? op : INT32_MAX);
    out->held = (bits & BIT_HELD) != 0;
    out->more = (bits & BIT_MORE) != 0;
    out->number = (int64_t)number;
    int rc = wire_read_items(&parts[5], list->bytes, &out->items, &out->count);
    return rc == 0 ? read_answers(list, inside, out) : rc;
}

static int read_answers(struct answer_list *list, uint64_t count, struct kv_answer *into) {
    if (count == 0) {
        return 0;
    }
    into->answers = mem_calloc((size_t)count, sizeof(*into->answers));
    if (into->answers == NULL) {
        return LKV_ENOMEM;
    }
    int rc = 0;
    while (rc == 0 && into->answer_count < count) {
        rc = read_answer(list, &into->answers[into->answer_count++]);
    }
    return rc;
}

/* How many of the list are not inside of others. */
static bool count_outer(const msgpack_object *at, uint32_t left, uint64_t *count) {
    *count = 0;
    uint64_t pending[DEPTH_MAX + 1] = {0};
    unsigned depth = 0;
    for (; left > 0; left--, at++) {
        const msgpack_object *parts;
        uint32_t size;
        uint64_t inside;
        if (!wire_as_array(at, &parts, &size) || size < ANSWER_PARTS ||
            !wire_as_number(&parts[4], &inside)) {
            return false;
        }
        *count += depth == 0;
        pending[depth] -= depth > 0;
        if (inside > 0) {
            if (depth == DEPTH_MAX) {
                return false;
            }
            pending[++depth] = inside;
        }
        while (depth > 0 && pending[depth] == 0) {
            depth--;
        }
    }
    return depth == 0;
}

int wire_read_answers(const msgpack_object *object, const struct wire_bytes *bytes,
                      struct lkv_msg *reply) {
    struct answer_list list = {.bytes = bytes};
    uint32_t size;
    uint64_t count;
    if (!wire_as_array(object, &list.at, &size) || !count_outer(list.at, size, &count)) {
        return LKV_EPROTOCOL;
    }
    reply->answer = mem_calloc(1, sizeof(*reply->answer));
    if (reply->answer == NULL) {
        return LKV_ENOMEM;
    }
    reply->answer->op = KV_TXN;
    return read_answers(&list, count, reply->answer);
}
