/* Writes with conditions, counters, transactions and compactions, on keys of their own, so that every
 * change of them is here. Each carries a number that no other has (a value's, a counter's step), by which
 * its entry is found; what it answers is compared with what the model did at that entry. */
#include "tests/sim/world_call.h"

#include "base/assert.h"
#include "base/crc.h"
#include "lib/api.h"

#include <inttypes.h>

enum {
    WRITE_KEYS = 12, /* from SIM_OWN_KEYS on */
    COUNTERS_FROM = 160,
    COUNTERS = 4,
    READ_KEYS = 6, /* by a transaction, at its end */
    DROP_KEYS = 3
};

/* ------------------------------------------------------------------ what it is */

static uint32_t key_of(const struct sim_call *op) {
    return op->shape == SIM_ADD ? COUNTERS_FROM + op->key % COUNTERS
                                : SIM_OWN_KEYS + op->key % WRITE_KEYS;
}

static bool is_txn(const struct sim_call *op) {
    return op->shape == SIM_TXN || op->shape == SIM_TXN_BAD;
}

/* Room for the texts of keys, and for a value. */
struct scratch {
    char keys[4][SIM_KEY_SIZE];
    size_t count;
    uint8_t value[64];
};

static struct lkv_bytes key_text(struct scratch *scratch, uint32_t key) {
    char *text = scratch->keys[scratch->count++ % 4];
    sim_key_text(key, text);
    return (struct lkv_bytes){text, strlen(text)};
}

static struct lkv_bytes value_of(struct scratch *scratch, uint64_t number) {
    size_t size = 8 + (size_t)(number % 40);
    sim_value_fill(number, scratch->value, size);
    return (struct lkv_bytes){scratch->value, size};
}

static struct lkv_change write_of(const struct sim_call *op, struct scratch *scratch) {
    uint32_t key = key_of(op);
    struct lkv_change write = {.op = LKV_OP_PUT, .flags = LKV_PREVIOUS};
    if (op->shape == SIM_COMPACT) {
        return (struct lkv_change){.op = LKV_OP_COMPACT, .rev = op->rev};
    }
    write.key = key_text(scratch, key);
    switch (op->shape) {
    case SIM_IF_ABSENT:
        write.flags |= LKV_IF_ABSENT;
        write.value = value_of(scratch, op->value);
        break;
    case SIM_IF_REV:
        write.if_rev = op->rev;
        write.value = value_of(scratch, op->value);
        break;
    case SIM_KEEP: write.flags |= LKV_KEEP_VALUE; break;
    case SIM_DROP: write.op = LKV_OP_DELETE; break;
    case SIM_DROP_RANGE:
        write.op = LKV_OP_DELETE;
        write.range = true;
        write.end = key_text(scratch, key + DROP_KEYS);
        break;
    case SIM_ADD:
        write.op = LKV_OP_ADD;
        write.delta = (int64_t)op->value;
        break;
    case SIM_TXN:
    case SIM_TXN_BAD:
    case SIM_COMPACT:
    case SIM_SHAPES: break;
    }
    return write;
}

/* If the key is as it was: it, a counter, and one more key by what is there; else another one. */
static struct lkv_txn *txn_of(const struct sim_call *op) {
    struct scratch scratch = {.count = 0};
    const struct lkv_bytes none = {0};
    uint32_t key = key_of(op);
    struct lkv_bytes value = value_of(&scratch, op->value);
    uint32_t counter = op->shape == SIM_TXN_BAD ? key + 1 : COUNTERS_FROM + op->key % COUNTERS;
    struct lkv_txn *inner = lkv_txn_new(), *txn = lkv_txn_new();
    lkv_txn_if(inner, key_text(&scratch, key + 2), LKV_FIELD_EXISTS, '=', 1, none);
    const struct lkv_change drop = {.op = LKV_OP_DELETE, .key = key_text(&scratch, key + 2)};
    lkv_txn_write(inner, &drop);
    lkv_txn_else(inner);
    lkv_txn_put(inner, key_text(&scratch, key + 2), value);
    lkv_txn_if(txn, key_text(&scratch, key), LKV_FIELD_MOD_REV, '=', op->rev, none);
    lkv_txn_put(txn, key_text(&scratch, key), value);
    const struct lkv_change add = {
        .op = LKV_OP_ADD, .key = key_text(&scratch, counter), .delta = 3};
    lkv_txn_write(txn, &add);
    lkv_txn_nest(txn, inner);
    const struct lkv_query query = {.from = key_text(&scratch, key),
                                    .to = key_text(&scratch, key + READ_KEYS)};
    lkv_txn_find(txn, &query);
    lkv_txn_else(txn);
    lkv_txn_put(txn, key_text(&scratch, key + 3), value);
    lkv_txn_find(txn, &query);
    lkv_txn_free(inner);
    return txn;
}

/* ------------------------------------------------------------------ asking */

static uint64_t draw_revision(struct sim_world *world, uint32_t key, enum sim_shape shape) {
    const struct sim_model *model = &world->model;
    if (shape == SIM_COMPACT) {
        uint64_t behind = prng_below(&world->prng_load, 30);
        return model->revision > behind ? model->revision - behind : 1;
    }
    const struct sim_version *version = sim_model_at(model, key, model->commit);
    uint64_t rev = version != NULL ? version->mod_rev : 0;
    return prng_below(&world->prng_load, 5) == 0 ? rev + 1 : rev;
}

struct sim_call *sim_write_draw(struct sim_client *client, struct sim_node *node,
                                struct sim_remote *remote, uint32_t key) {
    static const enum sim_shape shapes[] = {
        SIM_IF_ABSENT, SIM_IF_REV, SIM_IF_REV, SIM_KEEP, SIM_DROP, SIM_DROP_RANGE, SIM_ADD,
        SIM_ADD,       SIM_ADD,    SIM_TXN,    SIM_TXN,  SIM_TXN,  SIM_TXN,        SIM_TXN_BAD};
    struct sim_world *world = client->world;
    struct prng *prng = &world->prng_load;
    if (world->plan.log_mode || world->plan.write_permille == 0 ||
        prng_below(prng, 1000) >= world->plan.write_permille) {
        return NULL;
    }
    struct sim_call *op = sim_call_new(world, node, remote, SIM_CHANGE, key);
    op->client = client;
    op->shape = shapes[prng_below(prng, sizeof(shapes) / sizeof(shapes[0]))];
    if (prng_below(prng, 40) == 0) {
        op->shape = SIM_COMPACT;
    }
    op->rev = draw_revision(world, key_of(op), op->shape);
    if (op->shape == SIM_IF_REV && op->rev == 0) {
        op->shape = SIM_IF_ABSENT;
    }
    bool carries = op->shape != SIM_KEEP && op->shape != SIM_DROP && op->shape != SIM_DROP_RANGE &&
                   op->shape != SIM_COMPACT;
    op->value = carries ? ++world->next_value : 0;
    sim_session_put_in(client, op);
    return op;
}

/* Straight at a node a client says session and number itself. */
static void put_in_session(const struct sim_call *op, struct request *request) {
    struct kv_command command;
    struct blob *plain = request->command;
    int rc = kv_command_decode(blob_slice(plain), &command, NULL);
    ASSERT(rc == 0);
    command.session = request->session = op->session;
    command.seq = op->seq;
    command.acked_below = sim_session_acked_below(op->client);
    request->repeatable = true;
    request->command = kv_command_encode(&command);
    ASSERT(request->command != NULL);
    blob_unref(plain);
}

struct request *sim_write_request(const struct sim_call *op) {
    struct lkv *db = &op->node->node->handle, *at;
    struct request *request;
    int rc;
    if (is_txn(op)) {
        struct lkv_txn *txn = txn_of(op);
        rc = api_make_txn(db, txn, 0, &at, &request);
        lkv_txn_free(txn);
    } else {
        struct scratch scratch = {.count = 0};
        struct lkv_change write = write_of(op, &scratch);
        rc = api_make_write(db, &write, 0, &at, &request);
    }
    ASSERT(rc == 0);
    if (op->seq != 0) {
        put_in_session(op, request);
    }
    request->cost = request->command->size;
    return request;
}

int sim_write_submit(const struct sim_call *op, struct lkv *db, int64_t timeout_ms,
                     struct lkv_queue *queue, void *tag) {
    struct lkv_session *session = op->seq != 0 ? op->client->held : NULL;
    if (!is_txn(op)) {
        struct scratch scratch = {.count = 0};
        struct lkv_change write = write_of(op, &scratch);
        write.session = session;
        write.seq = op->seq;
        return lkv_write_submit(db, &write, timeout_ms, queue, tag);
    }
    struct lkv_txn *txn = txn_of(op);
    if (session != NULL) {
        lkv_txn_once(txn, session, op->seq);
    }
    int rc = lkv_txn_submit(db, txn, timeout_ms, queue, tag);
    lkv_txn_free(txn);
    return rc;
}

/* ------------------------------------------------------------------ judging */

static enum kv_op op_of(const struct sim_call *op) {
    switch (op->shape) {
    case SIM_IF_ABSENT:
    case SIM_IF_REV:
    case SIM_KEEP: return KV_PUT;
    case SIM_DROP:
    case SIM_DROP_RANGE: return KV_DELETE;
    case SIM_ADD: return KV_ADD;
    case SIM_COMPACT: return KV_COMPACT;
    case SIM_TXN:
    case SIM_TXN_BAD:
    case SIM_SHAPES: break;
    }
    return KV_TXN;
}

static bool is_its_entry(const struct sim_call *op, const struct sim_entry *entry) {
    if (entry->other.size == 0 || entry->command.op != op_of(op) || entry->value != op->value) {
        return false;
    }
    if (op->shape == SIM_COMPACT) {
        return entry->command.revision == op->rev;
    }
    return is_txn(op) || entry->key == key_of(op);
}

/* The message's items are the keys [from, end) as they were at an index. */
static void judge_items(const struct sim_call *op, uint32_t from, uint32_t end, uint64_t index,
                        const struct lkv_answer *answer, const struct lkv_msg *reply) {
    const struct sim_model *model = &op->world->model;
    size_t at = 0;
    for (uint32_t key = from; key < end; key++) {
        struct lkv_kv item;
        uint32_t number = 0;
        bool have =
            answer != NULL ? lkv_answer_kv(answer, at, &item) : lkv_msg_kv(reply, at, &item);
        have = have && sim_key_number(slice_of(item.key.data, item.key.size), &number) &&
               number == key;
        if (!sim_same_item(model, key, index, have ? &item : NULL, true)) {
            sim_world_fail(op->world, "a write shows key %u otherwise than it was at %" PRIu64, key,
                           index);
        }
        at += have;
    }
}

static void judge_txn(const struct sim_call *op, uint64_t index, bool held,
                      const struct lkv_msg *reply) {
    struct lkv_answer read, past;
    size_t last = held ? 3 : 1;
    if (!lkv_msg_answer(reply, last, &read) || read.op != LKV_OP_RANGE ||
        lkv_msg_answer(reply, last + 1, &past)) {
        sim_world_fail(op->world,
                       "the transaction at %" PRIu64 " has not the answers that it asked for",
                       index);
        return;
    }
    judge_items(op, key_of(op), key_of(op) + READ_KEYS, index, &read, reply);
}

static void judge_contents(const struct sim_call *op, const struct sim_entry *entry,
                           const struct lkv_msg *reply) {
    struct lkv_answer first;
    const char *name = op->shape == SIM_ADD ? "number" : is_txn(op) ? "held" : "count";
    uint64_t number = UINT64_MAX;
    (void)lkv_msg_u64(reply, name, &number);
    if (op->shape != SIM_COMPACT && op_of(op) != KV_PUT && number != entry->count) {
        sim_world_fail(op->world, "%s %" PRId64 " of the write at %" PRIu64 ", not %" PRId64, name,
                       (int64_t)number, entry->index, (int64_t)entry->count);
    }
    bool bare = lkv_msg_count(reply) == 0 && !lkv_msg_answer(reply, 0, &first);
    if (op->shape == SIM_COMPACT || (bare && op->seq != 0)) {
        return; /* a repeated one is answered with its numbers alone */
    }
    if (is_txn(op)) {
        judge_txn(op, entry->index, entry->count != 0, reply);
        return;
    }
    uint32_t end = key_of(op) + (op->shape == SIM_DROP_RANGE ? DROP_KEYS : 1);
    judge_items(op, key_of(op), end, entry->index - 1, NULL, reply);
}

/* An entry has answered it, with effect or without. */
static void judge_applied(const struct sim_call *op, uint64_t index, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    int rc = lkv_msg_rc(reply);
    uint64_t rev = 0;
    (void)lkv_msg_u64(reply, "rev", &rev);
    if (index == 0 || index > world->model.commit) {
        sim_world_fail(world, "a write is answered at %" PRIu64 ", committed is %" PRIu64, index,
                       world->model.commit);
        return;
    }
    struct sim_entry *entry = world->model.committed[index];
    bool again = op->seq != 0 && entry->command.session == op->session &&
                 entry->command.seq == op->seq && entry->first == index;
    if (!is_its_entry(op, entry) || (entry->claimed && !again)) {
        sim_world_fail(world, "a write is answered at %" PRIu64 ", where another stands", index);
    } else if (rc != entry->rc || rev != entry->revision) {
        sim_world_fail(world,
                       "the write at %" PRIu64 " ends as %s, revision %" PRIu64
                       ", right is %s, %" PRIu64,
                       index, error_name(rc), rev, error_name(entry->rc), entry->revision);
    } else if (index <= op->floor) {
        sim_world_fail(
            world, "a write takes effect at %" PRIu64 ", but began after %" PRIu64 " was answered",
            index, op->floor);
    } else if (rc == 0) {
        judge_contents(op, entry, reply);
    }
    entry->claimed = true;
    world->counts.writes[op->shape]++;
    world->counts.writes_refused += rc != 0;
    world->completed_index = index > world->completed_index ? index : world->completed_index;
}

void sim_write_judge(const struct sim_call *op, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    enum lkv_outcome outcome = error_outcome(lkv_msg_rc(reply));
    uint64_t index = 0;
    world->counts.done += outcome == LKV_DONE;
    world->counts.negative += outcome == LKV_NEGATIVE;
    world->counts.not_done += outcome == LKV_NOT_DONE;
    world->counts.unknown += outcome == LKV_UNKNOWN;
    bool of_session = lkv_msg_rc(reply) == LKV_ESESSION || lkv_msg_rc(reply) == LKV_EANSWERED ||
                      lkv_msg_rc(reply) == LKV_EBUSY;
    if (!of_session && outcome != LKV_UNKNOWN && lkv_msg_u64(reply, "index", &index)) {
        judge_applied(op, index, reply);
        return;
    }
    if (outcome == LKV_DONE || outcome == LKV_NEGATIVE) {
        sim_world_fail(world, "an answer (%s) says no index", error_name(lkv_msg_rc(reply)));
    }
    if (outcome == LKV_NOT_DONE && op->seq == 0 && op->value != 0) {
        struct sim_value *value = sim_model_value(&world->model, op->value);
        value->not_done = true;
        if (value->committed != 0) {
            sim_world_fail(world, "value %" PRIu64 " is reported as not done, it is at %" PRIu64,
                           op->value, value->committed);
        }
    }
}
