#include "kv/txn.h"

#include "base/assert.h"

/* ---------------------------------------------------------------------------- fields */

static void put_number(struct buffer *into, uint64_t number, size_t size) {
    uint8_t *at = buffer_reserve(into, size);
    if (at != NULL) {
        for (size_t i = 0; i < size; i++) {
            at[i] = (uint8_t)(number >> 8 * i);
        }
        buffer_commit(into, size);
    }
}

static void put_key(struct buffer *into, struct slice key) {
    put_number(into, key.size, sizeof(uint16_t));
    buffer_append(into, key.data, key.size);
}

static void put_bytes(struct buffer *into, struct slice bytes) {
    put_number(into, bytes.size, sizeof(uint32_t));
    buffer_append(into, bytes.data, bytes.size);
}

static struct slice get_key(struct reader *reader) {
    return read_bytes(reader, read_u16(reader));
}

static struct slice get_bytes(struct reader *reader) {
    return read_bytes(reader, read_u32(reader));
}

/* ---------------------------------------------------------------------------- compares */

static void put_compare(struct buffer *into, const struct kv_compare *compare) {
    put_number(into, compare->field, 1);
    put_number(into, compare->relation, 1);
    put_key(into, compare->key);
    put_key(into, compare->end);
    if (compare->field == KV_FIELD_VALUE) {
        put_bytes(into, compare->value);
    } else {
        put_number(into, compare->number, sizeof(uint64_t));
    }
}

bool txn_next_compare(struct reader *reader, struct kv_compare *compare) {
    uint8_t field = read_u8(reader);
    uint8_t relation = read_u8(reader);
    *compare =
        (struct kv_compare){.field = (enum kv_field)field, .relation = (enum kv_relation)relation};
    compare->key = get_key(reader);
    compare->end = get_key(reader);
    if (field == KV_FIELD_VALUE) {
        compare->value = get_bytes(reader);
    } else {
        compare->number = read_u64(reader);
    }
    return !reader->failed && field <= KV_FIELD_EXISTS && relation <= KV_GREATER;
}

/* ---------------------------------------------------------------------------- operations */

/* Bits of a range. */
enum { DESCENDING = 1, KEYS_ONLY = 2, COUNT_ONLY = 4, WITH_TOTAL = 8, RANGE_BITS = 15 };

static void put_query(struct buffer *into, const struct kv_query *query) {
    unsigned bits = (query->descending ? DESCENDING : 0) | (query->keys_only ? KEYS_ONLY : 0) |
                    (query->count_only ? COUNT_ONLY : 0) | (query->with_total ? WITH_TOTAL : 0);
    put_number(into, bits, 1);
    put_number(into, query->order, 1);
    const uint64_t numbers[] = {query->revision,    query->limit,          query->mod_rev_min,
                                query->mod_rev_max, query->create_rev_min, query->create_rev_max,
                                query->bytes_max};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        put_number(into, numbers[i], sizeof(uint64_t));
    }
}

/* False: a bit or an order that is not known. */
static bool get_query(struct reader *reader, struct kv_query *query) {
    uint8_t bits = read_u8(reader);
    uint8_t order = read_u8(reader);
    *query = (struct kv_query){.descending = bits & DESCENDING,
                               .keys_only = bits & KEYS_ONLY,
                               .count_only = bits & COUNT_ONLY,
                               .with_total = bits & WITH_TOTAL,
                               .order = (enum kv_order)order};
    query->revision = read_u64(reader);
    query->limit = read_u64(reader);
    query->mod_rev_min = read_u64(reader);
    query->mod_rev_max = read_u64(reader);
    query->create_rev_min = read_u64(reader);
    query->create_rev_max = read_u64(reader);
    query->bytes_max = read_u64(reader);
    return bits <= RANGE_BITS && order <= KV_BY_VALUE;
}

static void put_step(struct buffer *into, const struct kv_step *step) {
    put_number(into, step->op, 1);
    if (step->op == KV_TXN) {
        put_bytes(into, step->txn);
        return;
    }
    put_key(into, step->key);
    if (step->op == KV_RANGE) {
        put_key(into, step->end);
        put_query(into, &step->query);
        return;
    }
    put_number(into, step->flags, 1);
    if (step->op == KV_ADD) {
        put_number(into, (uint64_t)step->delta, sizeof(uint64_t));
        return;
    }
    put_number(into, step->if_rev, sizeof(uint64_t));
    if (step->op == KV_DELETE) {
        put_key(into, step->end);
        return;
    }
    ASSERT(step->op == KV_PUT);
    put_number(into, (uint64_t)step->lease, sizeof(uint64_t));
    put_bytes(into, step->value);
}

/* What follows the key. False: no such operation. */
static bool get_arguments(struct reader *reader, struct kv_step *step, uint8_t op) {
    if (op == KV_RANGE) {
        step->end = get_key(reader);
        return get_query(reader, &step->query);
    }
    step->flags = read_u8(reader);
    if (op == KV_ADD) {
        step->delta = (int64_t)read_u64(reader);
        return true;
    }
    step->if_rev = read_u64(reader);
    if (op == KV_DELETE) {
        step->end = get_key(reader);
        return true;
    }
    step->lease = (int64_t)read_u64(reader);
    step->value = get_bytes(reader);
    return op == KV_PUT;
}

bool txn_next_step(struct reader *reader, struct kv_step *step) {
    uint8_t op = read_u8(reader);
    *step = (struct kv_step){.op = (enum kv_op)op};
    if (op == KV_TXN) {
        step->txn = get_bytes(reader);
        return !reader->failed;
    }
    step->key = get_key(reader);
    return get_arguments(reader, step, op) && !reader->failed;
}

struct kv_step step_of(const struct kv_command *command) {
    return (struct kv_step){.op = command->op,
                            .key = command->key,
                            .end = command->end,
                            .value = command->value,
                            .lease = command->lease,
                            .flags = command->flags,
                            .if_rev = command->if_rev,
                            .delta = command->delta};
}

static const char *put_fault(const struct kv_step *step) {
    bool touches = step->flags & KV_KEEP_VALUE;
    if (step->lease < 0) {
        return "lease: below 0";
    }
    if (touches && step->value.size > 0) {
        return "value: one that is kept, and another";
    }
    if ((step->flags & KV_KEEP_LEASE) && step->lease != 0) {
        return "lease: one that is kept, and another";
    }
    bool needs_key = touches || (step->flags & KV_KEEP_LEASE) || step->if_rev != 0;
    if ((step->flags & KV_IF_ABSENT) && needs_key) {
        return "flags: of a key that is there, and only if it is not";
    }
    return NULL;
}

const char *step_fault(const struct kv_step *step) {
    static const uint32_t puts = KV_KEEP_VALUE | KV_KEEP_LEASE | KV_PREVIOUS | KV_IF_ABSENT;
    if (step->op == KV_TXN) {
        return NULL;
    }
    if (step->key.size == 0 || step->key.size > KV_KEY_SIZE_MAX) {
        return "key: not 1 to 8192 bytes";
    }
    if (step->end.size > KV_KEY_SIZE_MAX) {
        return "end: more than 8192 bytes";
    }
    if (step->value.size > KV_COMMAND_SIZE_MAX) {
        return "value: too large";
    }
    if (step->flags & ~(step->op == KV_PUT ? puts : (uint32_t)KV_PREVIOUS)) {
        return "flags: one that is not known";
    }
    if (step->op == KV_DELETE && step->if_rev != 0 && step->end.size > 0) {
        return "if_rev: of several keys";
    }
    return step->op == KV_PUT ? put_fault(step) : NULL;
}

/* ---------------------------------------------------------------------------- programs */

void kv_txn_init(struct kv_txn *txn) {
    *txn = (struct kv_txn){.compare_count = 0};
    buffer_init(&txn->compares);
    buffer_init(&txn->then_steps);
    buffer_init(&txn->else_steps);
}

void kv_txn_fini(struct kv_txn *txn) {
    buffer_fini(&txn->compares);
    buffer_fini(&txn->then_steps);
    buffer_fini(&txn->else_steps);
}

void kv_txn_compare(struct kv_txn *txn, const struct kv_compare *compare) {
    txn->compare_count++;
    put_compare(&txn->compares, compare);
}

void kv_txn_step(struct kv_txn *txn, bool then, const struct kv_step *step) {
    put_step(then ? &txn->then_steps : &txn->else_steps, step);
}

void kv_txn_write(const struct kv_txn *txn, struct buffer *out) {
    put_number(out, txn->compare_count, sizeof(uint32_t));
    put_bytes(out, buffer_slice(&txn->compares));
    put_bytes(out, buffer_slice(&txn->then_steps));
    put_bytes(out, buffer_slice(&txn->else_steps));
    out->failed =
        out->failed || txn->compares.failed || txn->then_steps.failed || txn->else_steps.failed;
}

bool txn_open(struct slice program, struct txn_parts *parts) {
    struct reader reader = reader_of(program);
    parts->compare_count = read_u32(&reader);
    parts->compares = reader_of(get_bytes(&reader));
    parts->then_steps = reader_of(get_bytes(&reader));
    parts->else_steps = reader_of(get_bytes(&reader));
    return !reader.failed && reader.left == 0;
}
